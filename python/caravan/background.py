"""Runs the native core on threads that Ctrl-C need not wait for.

Native code releases the interpreter but cannot be interrupted, and may compute for minutes. When
the user stops, its threads are left running; `leave` ends the program with them.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn, TypeVar

T = TypeVar("T")

IS_TOLD_TO_END = threading.Event()
"""SIGTERM came. A library may swallow the exception that it raises, so long work looks here too."""

_LEFT: set[threading.Thread] = set()
"""Threads whose result nobody waits for."""


def computed(calls: Sequence[Callable[[], T]], threads: int) -> Iterator[tuple[int, T]]:
    """Yield each call's number and result as they end; a call's exception is raised here.

    The calls start in their order. When the reader stops, no further call starts.
    """
    todo: queue.SimpleQueue[int] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, T | None, BaseException | None]] = queue.SimpleQueue()
    for number in range(len(calls)):
        todo.put(number)
    is_over = threading.Event()

    def work() -> None:
        while not is_over.is_set():
            try:
                number = todo.get_nowait()
            except queue.Empty:
                return
            try:
                done.put((number, calls[number](), None))
            except BaseException as fault:
                done.put((number, None, fault))

    workers = [
        threading.Thread(target=work, daemon=True, name="caravan")
        for _ in range(min(threads, len(calls)))
    ]
    for worker in workers:
        worker.start()
    try:
        for _ in calls:
            number, result, fault = done.get()
            if fault is not None:
                raise fault
            yield number, result  # type: ignore[misc]
    finally:
        is_over.set()
        _LEFT.update(worker for worker in workers if worker.is_alive())


def leave(status: int) -> NoReturn:
    """End the program without waiting for threads whose results nobody wants."""
    for thread in list(_LEFT):
        # A program without such threads ends normally.
        thread.join(0.05)
    if any(thread.is_alive() for thread in _LEFT):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)
