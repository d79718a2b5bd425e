"""Results of jobs on disk, each in a file named after what was computed.

A file appears by rename and begins with a checksum of the job's address and the result. A damaged
file, after a power failure or disk error, and one of another job are computed again; others let a
later run skip the job.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console

from caravan.messages import Stopped
from caravan.progress import Bar, Lines
from caravan.study.cells import Job
from caravan.study.pool import Pool
from caravan.study.results import land_bytes
from caravan.study.text import StudyError

CHECK_BYTES = hashlib.sha256().digest_size


class Store:
    """The folder `cells` of an output directory."""

    def __init__(self, directory: Path, core: str) -> None:
        self._directory = directory / "cells"
        self._core = core

    def path(self, job: Job) -> Path:
        """The path of the result of `job`."""
        return self._directory / job.address(self._core)

    def read(self, job: Job) -> bytes:
        """The result of a job that `fill` has completed."""
        result = self._found(job)
        if result is None:
            raise StudyError(f"{self.path(job)}: damaged since it was written: run again")
        return result

    def _found(self, job: Job) -> bytes | None:
        """The result of a job; None if it is missing or damaged."""
        try:
            content = self.path(job).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as fault:
            raise StudyError(f"{self.path(job)}: {fault.strerror or fault}") from None
        check, result = content[:CHECK_BYTES], content[CHECK_BYTES:]
        return result if self._check(job, result) == check else None

    def _check(self, job: Job, result: bytes) -> bytes:
        return hashlib.sha256(job.address(self._core).encode() + b"\0" + result).digest()

    def fill(
        self, jobs: Iterable[Job], pool: Pool, console: Console, doing: str = "simulating"
    ) -> int:
        """Compute the missing results, and return their number. `doing` is what progress shows."""
        wanted = list({job.address(self._core): job for job in jobs}.values())
        missing = [job for job in wanted if self._found(job) is None]
        if not missing:
            return 0
        done = len(wanted) - len(missing)
        shown = Bar if console.is_terminal else Lines
        with shown(console, sum(job.packets for job in wanted), doing) as bar:
            bar.advance(sum(job.packets for job in wanted) - sum(job.packets for job in missing))
            try:
                for job, result in pool.results(missing):
                    land_bytes(self.path(job), self._check(job, result) + result)
                    done += 1
                    bar.advance(job.packets)
            except KeyboardInterrupt:
                said = f"stopped: {done} of {len(wanted)} jobs are kept; run again to resume"
                raise Stopped(said) from None
        return len(missing)
