"""Results of jobs on disk, each in a file named after what was computed.

A file appears by rename, so one that is there is whole; a later run finds it and skips the job.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rich.console import Console

from caravan.messages import Stopped
from caravan.progress import Bar
from caravan.study.cells import Job
from caravan.study.pool import Pool
from caravan.study.results import land_bytes


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
                said = f"stopped: {done} of {len(wanted)} jobs are kept; run again to go on"
                raise Stopped(said) from None
        return len(missing)
