"""A promise that holds soon, not at once: another process keeps it."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_for(is_so: Callable[[], bool], what: str, within_s: float = 10) -> None:
    """Asks again and again. What does not become so in `within_s` seconds fails the test."""
    deadline = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < deadline, f"not so after {within_s} s: {what}"
        time.sleep(0.05)
