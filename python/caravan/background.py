"""Work of the native core on threads that Ctrl-C need not wait for.

Native code gives the interpreter free but cannot be broken off, and what it computes may take
minutes. Its threads are left behind where somebody stops; `leave` ends the program over them.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn, TypeVar

T = TypeVar("T")

_LEFT: set[threading.Thread] = set()
"""Threads that still compute what nobody waits for."""


def computed(calls: Sequence[Callable[[], T]], threads: int) -> Iterator[tuple[int, T]]:
    """Each call's number and its result, as they end; a call's exception comes out here.

    The calls are begun in their order. Whoever stops reading stops all that has not begun.
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
    """End the program, without waiting for threads that compute what nobody wants any more."""
    for thread in list(_LEFT):
        # One that only has to say good-bye needs no more than this.
        thread.join(0.05)
    if any(thread.is_alive() for thread in _LEFT):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)
