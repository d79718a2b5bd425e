"""A progress bar with the time left, for work of more than two seconds."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.console import Console

QUIET_S = 2.0
"""A run shorter than this shows no progress bar."""
EVERY_S = 30.0
"""How long no line is written where there is no terminal."""


class Progress(Protocol):
    """Receives the progress of work."""

    def advance(self, packets: float, /) -> None:
        """Add this much."""
        ...


def progress(console: Console | None, total: float) -> AbstractContextManager[Progress]:
    """A bar on a terminal, otherwise nothing."""
    if console is None or not console.is_terminal:
        return Silence()
    return Bar(console, total)


class Silence:
    """Invisible progress."""

    def __enter__(self) -> Silence:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def advance(self, packets: float, /) -> None:
        """Add this much."""


class Lines:
    """A line now and then, where nobody sees a bar move: in a file or a pipe."""

    def __init__(self, console: Console, total: float, doing: str) -> None:
        self._console = console
        self._total = total
        self._doing = doing
        self._done = 0.0
        self._began = self._said = time.monotonic()

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def advance(self, packets: float, /) -> None:
        """Add this much."""
        self._done += packets
        now = time.monotonic()
        if now - self._said >= EVERY_S:
            self._said = now
            share, passed_s = self._done / self._total, now - self._began
            self._console.print(f"{self._doing}: {share:.0%} after {passed_s:.0f} s", markup=False)


class Bar:
    """A progress bar with the time left, for work that takes long."""

    def __init__(self, console: Console, total: float, doing: str = "simulating") -> None:
        from rich.progress import (  # noqa: PLC0415
            BarColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task(doing, total=total)
        self._began = time.monotonic()
        self._is_shown = False

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            self._progress.stop()

    def advance(self, packets: float, /) -> None:
        """Add this much."""
        self._progress.advance(self._task, packets)
        if not self._is_shown and time.monotonic() - self._began > QUIET_S:
            self._is_shown = True
            self._progress.start()
