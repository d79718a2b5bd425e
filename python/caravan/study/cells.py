"""Turns a sweep into cells, and cells into jobs that any process on any machine can compute."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from caravan.study.parsed import Reading, Run, Sweep
from caravan.study.text import Value

REPLICATIONS_PER_JOB = 8
"""The largest size of a job: stopping loses only the running jobs."""


@dataclass(frozen=True)
class Cell:
    """One point of a sweep in one reading."""

    sweep: Sweep
    reading: str
    point: Mapping[str, Value]
    settings: Mapping[str, Value]
    """Settings of the whole sweep; those of the point take precedence."""
    last: Mapping[str, Value]
    """Settings of the reading; they take precedence over the point."""
    run: Run


@dataclass(frozen=True)
class Job:
    """A pure computation: the same job gives the same bytes on every machine.

    `request` is JSON in canonical form and contains every relevant text. A recorded link may be
    longer than memory, so the request has its path and SHA-256.
    """

    kind: str
    request: str
    packets: float
    """An estimate of its work, for the progress bar."""

    def address(self, core: str) -> str:
        """The name of its result. `core` is the fingerprint of the code that computes it."""
        content = "\0".join((core, self.kind, self.request))
        return hashlib.sha256(content.encode()).hexdigest()


def cells(sweep: Sweep, is_quick: bool) -> list[Cell]:
    """Every cell of the sweep, in the order of its grid."""
    grid = {**sweep.grid, **(sweep.quick_grid if is_quick else {})}
    readings = sweep.readings or (Reading("", ""),)
    run = sweep.quick if is_quick else sweep.run
    found = []
    for reading in readings:
        for point in points(grid):
            last = reading.settings
            found.append(Cell(sweep, reading.name, point, sweep.settings, last, run))
    return found


def points(grid: Mapping[str, tuple[Value, ...]]) -> Iterator[dict[str, Value]]:
    """The product of the axes."""
    for values in itertools.product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def replication_ranges(run: Run) -> Iterator[tuple[int, int]]:
    """First replication and number, per job. Later runs with more replications reuse these."""
    for first in range(0, run.replications, REPLICATIONS_PER_JOB):
        yield first, min(REPLICATIONS_PER_JOB, run.replications - first)


def canonical(request: Mapping[str, object]) -> str:
    """JSON in its only canonical form."""
    return json.dumps(request, sort_keys=True, separators=(",", ":"), allow_nan=False)


def run_request(run: Run, seed: int, part: tuple[int, int]) -> dict[str, object]:
    """The part of a request with duration and replications."""
    first, count = part
    return {**asdict(run), "replications": count, "first_replication": first, "seed": seed}
