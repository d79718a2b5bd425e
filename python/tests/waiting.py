"""What other processes do: a promise that holds soon, not at once; and two acts at one time."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


def wait_for(is_so: Callable[[], bool], what: str, within_s: float = 30) -> None:
    """Asks again and again. What does not become so in `within_s` seconds fails the test."""
    deadline = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < deadline, f"not so after {within_s} s: {what}"
        time.sleep(0.05)


def at_once(*acts: Callable[[], object]) -> None:
    """Begin all acts at one time, none after another, and wait until all have ended."""
    with ThreadPoolExecutor(len(acts)) as pool:
        for started in [pool.submit(act) for act in acts]:
            started.result()
