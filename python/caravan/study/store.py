"""Results of jobs on disk, each in a file named after what was computed.

A file appears by rename, so one that is there is whole; a later run finds it and skips the job.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from caravan.study.cells import Job
from caravan.study.pool import Pool
from caravan.study.results import land_bytes

QUIET_S = 2.0
"""A run shorter than this shows no progress bar."""


class Stopped(Exception):
    """Ctrl-C: what is done is on disk."""

    def __init__(self, done: int, jobs: int) -> None:
        super().__init__(f"stopped: {done} of {jobs} jobs are kept; run again to go on")
        self.done = done
        self.jobs = jobs


class Store:
    """The folder `cells` of an output directory."""

    def __init__(self, directory: Path, engine: str) -> None:
        self._directory = directory / "cells"
        self._engine = engine

    def path(self, job: Job) -> Path:
        """Where the result of `job` is, once it is there."""
        return self._directory / job.address(self._engine)

    def read(self, job: Job) -> bytes:
        """The result of a job that `fill` has seen."""
        return self.path(job).read_bytes()

    def fill(self, jobs: Iterable[Job], pool: Pool, console: Console) -> int:
        """Compute what is missing; how many jobs that were."""
        wanted = list({job.address(self._engine): job for job in jobs}.values())
        missing = [job for job in wanted if not self.path(job).exists()]
        if not missing:
            return 0
        done = len(wanted) - len(missing)
        with Bar(console, sum(job.packets for job in wanted)) as bar:
            bar.advance(sum(job.packets for job in wanted) - sum(job.packets for job in missing))
            try:
                for job, result in pool.results(missing):
                    land_bytes(self.path(job), result)
                    done += 1
                    bar.advance(job.packets)
            except KeyboardInterrupt:
                raise Stopped(done, len(wanted)) from None
        return len(missing)


class Bar:
    """A progress bar with the time left, on anything that lasts."""

    def __init__(self, console: Console, total: float) -> None:
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
        self._task = self._progress.add_task("simulating", total=total)
        self._began = time.monotonic()
        self._is_shown = False

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            self._progress.stop()

    def advance(self, packets: float) -> None:
        """So much more is done."""
        self._progress.advance(self._task, packets)
        if not self._is_shown and time.monotonic() - self._began > QUIET_S:
            self._is_shown = True
            self._progress.start()
