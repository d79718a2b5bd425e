"""Replications of one scenario, spread over cores.

A replication is named by the seed and its index alone, so any split gives the same result. The
native core leaves the interpreter while it computes: threads suffice.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any, Protocol

from rich.console import Console

from caravan import _lab
from caravan.lab.core import LabError, Question, Stopped, ask
from caravan.study.store import Bar

LANES = 16
"""Replications of one job at most: as many as the widest vector holds."""


class Progress(Protocol):
    """What hears of jobs that end."""

    def advance(self, packets: float, /) -> None:
        """So much more is done."""
        ...


def simulate(
    question: Question,
    *,
    seconds: float | None = None,
    replications: int | None = None,
    seed: int | None = None,
    jobs: int | None = None,
    console: Console | None = None,
) -> dict[str, Any]:
    """The outcome of a scenario, and `wall_s`, the seconds that the simulation alone took.

    What is None is as the scenario says; `jobs` None is all cores. Ctrl-C ends it after the jobs
    that run.
    """
    run = {"seconds": seconds, "replications": replications, "seed": seed}
    return simulate_request(question.request(), run, jobs, console)


def simulate_request(
    request: Mapping[str, object],
    run: Mapping[str, float | None],
    jobs: int | None = None,
    console: Console | None = None,
) -> dict[str, Any]:
    """The same of a request for the native core; `run` overrides how long and how often."""
    resolved = ask(_lab.scenario, request)
    scenario = resolved["scenario"]
    count = run.get("replications") or scenario["run"]["replications"]
    threads = jobs or len(os.sched_getaffinity(0))
    parts = [
        {**run, "first_replication": first, "replications": number}
        for first, number in split(int(count), threads)
    ]
    began = time.perf_counter()
    tallies = []
    with progress(console, count) as bar, _pool(threads) as pool:
        running = {
            pool.submit(_lab.simulate, json.dumps({**request, "run": part})): part for part in parts
        }
        for future in as_completed(running):
            try:
                tallies.append(future.result())
            except ValueError as fault:
                raise LabError(str(fault)) from None
            bar.advance(running[future]["replications"] or 0)
    wall_s = time.perf_counter() - began
    seed = run.get("seed")
    return {
        **ask(lambda _: _lab.outcome(tallies), {}),
        "wall_s": wall_s,
        "seed": scenario["seed"] if seed is None else seed,
        "scenario": scenario,
        "scenario_hash": resolved["hash"],
    }


def split(replications: int, threads: int) -> Iterator[tuple[int, int]]:
    """First replication and number of each job: full vectors, but no idle core."""
    size = min(LANES, max(1, math.ceil(replications / threads)))
    for first in range(0, replications, size):
        yield first, min(size, replications - first)


@contextmanager
def _pool(threads: int) -> Iterator[ThreadPoolExecutor]:
    executor = ThreadPoolExecutor(threads)
    try:
        yield executor
    except KeyboardInterrupt:
        raise Stopped from None
    finally:
        # What runs cannot be broken off inside native code, and a job is short.
        executor.shutdown(wait=True, cancel_futures=True)


@contextmanager
def progress(console: Console | None, total: float) -> Iterator[Progress]:
    """A bar with the time left, on a terminal, once two seconds have passed."""
    if console is None or not console.is_terminal:
        yield Silence()
        return
    with Bar(console, total) as bar:
        yield bar


class Silence:
    """Progress that nobody sees."""

    def advance(self, packets: float, /) -> None:
        """So much more is done."""
