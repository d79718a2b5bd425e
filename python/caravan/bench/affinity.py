"""Programs held on one processor for a while, and let go again.

A round trip between sleeping programs is mostly the waking of processors, which on a virtual
machine depends on where the scheduler put them. On one processor each program hands over to the
next, and what is left is the length of the path.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path


def one_cpu() -> int:
    """The processor to hold programs on: the last, because interrupts favour the first."""
    return max(os.sched_getaffinity(0))


@contextlib.contextmanager
def held(pids: Sequence[int], cpu: int) -> Iterator[None]:
    """Every thread of the processes on one processor; each goes back to where it was allowed.

    A thread that starts meanwhile is let go as its process was.
    """
    allowed = {pid: os.sched_getaffinity(pid) for pid in pids}
    before = {thread: found for pid in pids for thread, found in _of_threads(pid).items()}
    try:
        for thread in before:
            _allow(thread, {cpu})
        yield
    finally:
        for pid in pids:
            for thread in threads(pid):
                _allow(thread, before.get(thread, allowed[pid]))


def threads(pid: int) -> list[int]:
    """The threads of a process; none when it has ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return [int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()]
    return []


def _of_threads(pid: int) -> dict[int, set[int]]:
    found = {}
    for thread in threads(pid):
        with contextlib.suppress(ProcessLookupError):
            found[thread] = os.sched_getaffinity(thread)
    return found


def _allow(thread: int, cpus: set[int]) -> None:
    # A thread may end at any time.
    with contextlib.suppress(ProcessLookupError):
        os.sched_setaffinity(thread, cpus)
