"""Replications of one scenario, distributed over cores.

A replication is named by the seed and its index alone, so any distribution gives the same result.
The native core releases the interpreter while it computes: threads suffice.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from caravan import _lab
from caravan.background import computed
from caravan.files import Entry
from caravan.lab import core
from caravan.lab.core import LabError, ScenarioLike, ask, ask_slow, beside, opened, refused
from caravan.messages import Stopped
from caravan.progress import progress

if TYPE_CHECKING:
    from rich.console import Console

GRAPH = "only the event kernel can simulate a graph: use caravan.lab.kernel"
LANES = 16
"""Replications of one job at most: as many as the widest vector holds."""


def simulate(
    source: ScenarioLike,
    *,
    seconds: float | None = None,
    replications: int | None = None,
    seed: int | None = None,
    jobs: int | None = None,
    console: Console | None = None,
) -> dict[str, Any]:
    """The outcome of a scenario, and `wall_s`, the seconds of the simulation alone.

    None keeps the scenario's value; `jobs` None means all cores.
    """
    run = {"seconds": seconds, "replications": replications, "seed": seed}
    return simulate_run(source, run, jobs, console)


def simulate_run(
    source: ScenarioLike,
    run: Mapping[str, float | None],
    jobs: int | None = None,
    console: Console | None = None,
) -> dict[str, Any]:
    """The same; `run` sets duration, replications and seed."""
    found = opened(source)
    resolved = core.scenario(found, run)
    scenario = resolved["scenario"]
    if resolved["is_graph"]:
        raise LabError.told(beyond) if (beyond := resolved["beyond_tandem"]) else LabError(GRAPH)
    if scenario["traffic"]["model"]["kind"] == "pcap":
        return _replayed(found, resolved)
    count = run.get("replications") or scenario["run"]["replications"]
    if too_much := resolved["too_much"]:
        raise LabError.told(too_much)
    threads = jobs or len(os.sched_getaffinity(0))
    parts = [
        {**run, "first_replication": first, "replications": number}
        for first, number in split(int(count), threads)
    ]
    began = time.perf_counter()
    tallies = []
    calls = [partial(found.simulate, json.dumps(part)) for part in parts]
    try:
        with progress(console, count) as bar:
            for number, tally in computed(calls, threads):
                tallies.append(tally)
                bar.advance(parts[number]["replications"] or 0)
    except KeyboardInterrupt:
        raise Stopped("stopped") from None
    except _lab.Refusal as fault:
        raise refused(fault) from None
    wall_s = time.perf_counter() - began
    seed = run.get("seed")
    return {
        **ask(lambda: _lab.outcome(tallies)),
        "wall_s": wall_s,
        "seed": scenario["seed"] if seed is None else seed,
        "scenario": scenario,
        "scenario_hash": resolved["hash"],
        "bytes_alone": resolved["bytes_alone"],
    }


def _replayed(found: _lab.Scenario, resolved: Mapping[str, Any]) -> dict[str, Any]:
    """The outcome of a capture's own packets: one replication, without an interval."""
    scenario = resolved["scenario"]
    name = scenario["traffic"]["model"]["file"]
    entry = Entry("scenario", "", found.file, "")
    path = str(beside(entry, name) or name)
    began = time.perf_counter()
    (answer,) = ask_slow(lambda: found.replay([scenario["policy"]], path))
    if "missing" in answer:
        raise LabError.told(answer["missing"])
    return {
        **answer["outcome"],
        "wall_s": time.perf_counter() - began,
        "seed": scenario["seed"],
        "scenario": scenario,
        "scenario_hash": resolved["hash"],
        "bytes_alone": resolved["bytes_alone"],
        "capture": answer["capture"],
    }


def split(replications: int, threads: int) -> Iterator[tuple[int, int]]:
    """First replication and number of each job: full vectors, but no idle core."""
    size = min(LANES, max(1, math.ceil(replications / threads)))
    for first in range(0, replications, size):
        yield first, min(size, replications - first)
