"""What a cell needs from the native core and the testbed: its jobs, and measures of their results.

Requests are JSON with every text that they need, so a job is the same on every machine. Left out:
formulas. Only `caravan._lab` computes costs, sizes and queues.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Self

from caravan import _lab, recordings
from caravan.study import (
    agents,
    case,
    flows,
    hosts,
    measured,
    parameters,
    successors,
    tables,
    tunnel,
    wireless,
)
from caravan.study.cells import Cell, Job, canonical, replication_ranges, run_request
from caravan.study.metrics import DIVERGES, LOWER, NEAR, Measure, bound
from caravan.study.parsed import (
    AGENTS,
    CASE,
    EXCHANGE,
    FLOWS,
    HOSTS,
    STACK,
    SUCCESSORS,
    TABLES,
    WIRELESS,
    Run,
)
from caravan.study.resolve import ResolvedCell
from caravan.study.text import StudyError

KERNEL = "kernel"
PRICED = "kernel of devices"
"""A run of it that may need what a device has no cost of."""
TESTBED = "testbed"
MEASURED = "case"
HERE = (TESTBED, MEASURED, WIRELESS, HOSTS, AGENTS, SUCCESSORS, TABLES)
"""Jobs that need the whole machine."""
KERNEL_WEIGHT = 1e6
"""A run of the event kernel takes about as long as this many packets of the tandem."""
MACHINE = "machine of the run"
"""Device and cost table of the real program; the run's provenance names the machine."""
STATIONARY = "stationary"
NONE = (None, None)
WORSE = (STATIONARY, NEAR, DIVERGES)
"""The possible states of a simulated point, the worst last."""
QUEUES = ("wait_ms", "queue_bytes")
"""Metrics that have no value at a full station and behind it."""


@cache
def version() -> str:
    """The version of the package and its core."""
    return str(_lab.version())


@cache
def fingerprint() -> str:
    """The native core's fingerprint: results of another build are computed again."""
    return hashlib.sha256(Path(str(_lab.__file__)).read_bytes()).hexdigest()


def model(cell: Cell, found: ResolvedCell) -> list[Measure]:
    """Closed forms of a packet or of the path, or the parameters of these."""
    if cell.sweep.measure == "price":
        return _prices(found.modelled)
    if cell.sweep.measure == EXCHANGE:
        return _exchanged(found.modelled)
    if cell.sweep.measure == STACK:
        return [Measure(name, value) for name, value in found.modelled.items() if value is not None]
    if cell.sweep.measure == "parameters":
        return [
            Measure("value", parameters.number(found.document, key), reading=name)
            for name, key in cell.sweep.keys.items()
        ]
    return _modelled(found.modelled, found)


def _prices(price: Mapping[str, Any]) -> list[Measure]:
    energy = price.get("energy_j")
    values = {
        "operations": price.get("operations"),
        "cycles": price.get("cycles"),
        "time_ms": price["time_ms"],
        "protected_bytes": price["protected_bytes"],
        "payload_ratio": price["payload_ratio"],
        "energy_uj": None if energy is None else energy * 1e6,
    }
    user = price["payload_ratio"] * price["protected_bytes"]
    headers = price["packet_bytes"] - user
    values["bytes:user"] = user
    values["bytes:headers"] = headers
    values["bytes:protection"] = price["protected_bytes"] - price["packet_bytes"]
    return [Measure(name, value) for name, value in values.items() if value is not None]


def _exchanged(answer: Mapping[str, Any]) -> list[Measure]:
    """Rounds and messages, and bytes and times if every message has a size."""
    values = {
        "rounds": answer["rounds"],
        "messages": answer["messages"],
        "message_bytes": answer["bytes"],
        "data_bytes": answer["data_bytes"],
        "first_sent_ms": _milli(answer["send_s"]),
        "gap_ms": _milli(answer["gap_s"]),
    }
    return [Measure(name, value) for name, value in values.items() if value is not None]


def _milli(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3


def _modelled(answer: Mapping[str, Any], found: ResolvedCell) -> list[Measure]:
    """Queueing theory's results for the path and its stations."""
    state = answer["state"] or ""
    capacity = answer["capacity_bps"]
    measures = [
        Measure("mean_packet_bytes", answer["mean_bytes"]),
        Measure("capacity_kbps", _kilo(capacity)),
        Measure("cpu_capacity_kbps", _kilo(_station(answer, found)["capacity_bps"])),
    ]
    if capacity is not None:
        # Papers count kilobytes of what an application sends.
        user = max(0.0, 1 - answer["header_bytes"] / answer["mean_bytes"])
        measures.append(Measure("user_kbytes_s", capacity * user / 8e3))
    measures.append(Measure("rtt_ms", answer["round_trip_s"] * 1e3))
    offered = found.rate_kbps
    if answer["protected_bps"] is not None and offered is not None and capacity is not None:
        carried = min(offered, capacity / 1e3)
        protected = carried * answer["expansion"]
        measures.append(Measure("throughput_kbps", carried, state=state))
        measures.append(Measure("protected_kbps", protected, state=state))
    delay = answer["delay"]
    if delay is not None:
        measures.append(_mean("mean_delay_ms", delay["seconds"] * 1e3, delay["standing"], state))
    elif state == DIVERGES:
        measures.append(Measure("mean_delay_ms", None, state=state))
    standing = {} if answer["state"] is None else _standing(answer)
    for station in answer["stations"]:
        if station["utilisation"] is None:
            continue
        name, wait, own = station["name"], station["wait"], station["state"]
        # No formula knows the arrivals behind a full station.
        here = standing[name]
        measures.append(Measure(f"utilisation:{name}", station["utilisation"], state=own))
        if here == DIVERGES:
            measures += [Measure(f"{what}:{name}", None, state=here) for what in QUEUES]
        elif wait is not None:
            measures.append(_mean(f"wait_ms:{name}", wait["seconds"] * 1e3, wait["standing"], here))
            queue = station["queue_bytes"]
            measures.append(_mean(f"queue_bytes:{name}", queue, wait["standing"], here))
    return measures


def _station(answer: Mapping[str, Any], found: ResolvedCell) -> Mapping[str, Any]:
    """The processor of the path's first node, whichever way packets go."""
    name = found.document["nodes"][0]["name"]
    station: Mapping[str, Any]
    for station in answer["stations"]:
        if station["name"] == name:
            return station
    raise StudyError(f"the path has no station {name}")


def _mean(metric: str, value: float, standing: str, state: str) -> Measure:
    """A mean and whether it is exact, unless the queue grows without bound."""
    return Measure(metric, value, state=standing if standing != "exact" else state)


def _kilo(value: float | None) -> float | None:
    return None if value is None else value / 1e3


def jobs(cell: Cell, found: ResolvedCell, level: str, seed: int) -> tuple[Job, ...]:
    """The jobs that a cell needs at a level."""
    if level == TESTBED:
        own_kinds = (WIRELESS, HOSTS, AGENTS, SUCCESSORS, TABLES)
        kinds = {CASE: MEASURED, **{own: own for own in own_kinds}}
        kind = kinds.get(cell.sweep.measure, TESTBED)
        if kind == TESTBED:
            tunnel.check(found.request)
        if kind == WIRELESS:
            wireless.check(found.request["cell"])
        own = found.request["cell"] if kind in (WIRELESS, HOSTS) else found.request
        request = {"request": own, "program": tunnel.program()}
        return (Job(kind, canonical(request), KERNEL_WEIGHT),)
    if cell.sweep.measure == HOSTS and level == "model":
        return ()
    if cell.sweep.measure in (WIRELESS, HOSTS):
        kind = PRICED if "devices" in found.request["cell"] else KERNEL
        return tuple(
            Job(kind, canonical({**one, "set": [*one["set"], f"seed={seed}"]}), KERNEL_WEIGHT)
            for one in found.request["runs"]
        )
    if cell.sweep.measure == FLOWS and level == "model":
        flows.check_model(found.document)
    if cell.sweep.measure in ("tunnel", FLOWS):
        seeded = [*found.request["set"], f"seed={seed}"]
        return (Job(KERNEL, canonical({**found.request, "set": seeded}), KERNEL_WEIGHT),)
    if level != "simulate":
        return ()
    if found.too_much:
        raise StudyError.edit(*found.too_much)
    return tuple(_job(found, cell.run, seed, part) for part in replication_ranges(cell.run))


def _job(found: ResolvedCell, run: Run, seed: int, part: tuple[int, int]) -> Job:
    """The job of some replications of a cell."""
    request = {**found.request, "run": run_request(run, seed, part)}
    packets = (found.rate_kbps or 1.0) * run.seconds * part[1]
    return Job("simulate", canonical(request), packets)


class Here:
    """Computes jobs that need the whole machine, one after the other; a context manager: what a job
    leaves for the next one ends with it."""

    def __init__(self) -> None:
        self._wireless = wireless.Measuring()
        self._hosts = hosts.Measuring()
        self._agents = agents.Measuring()

    def compute(self, job: Job) -> bytes:
        """The result of a job."""
        if job.kind == WIRELESS:
            return self._wireless.result(json.loads(job.request)["request"])
        if job.kind == HOSTS:
            return self._hosts.result(json.loads(job.request)["request"])
        if job.kind == AGENTS:
            return self._agents.result(json.loads(job.request)["request"])
        return compute(job)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *fault: object) -> None:
        self._wireless.__exit__(*fault)
        self._hosts.__exit__(*fault)
        self._agents.__exit__(*fault)


def compute(job: Job) -> bytes:
    """The result of a job. Runs in any process that has this package."""
    try:
        if job.kind == "simulate":
            return bytes(_lab.Scenario(job.request).simulate())
        if job.kind in (KERNEL, PRICED):
            if why := recordings.unlike(json.loads(job.request)["catalogue"]):
                raise StudyError(why)
            try:
                answer = json.loads(_lab.Scenario(job.request).kernel())
            except _lab.Unpriced as fault:
                # A cell that says so stays empty.
                if job.kind != PRICED:
                    raise
                return canonical({"unpriced": fault.brief or fault.what}).encode()
            return canonical({level: answer[level] for level in ("model", "simulate")}).encode()
    except _lab.Refusal as fault:
        raise StudyError.of(fault) from None
    if job.kind == TESTBED:
        return tunnel.measured(json.loads(job.request)["request"])
    if job.kind == TABLES:
        return tables.measured()
    if job.kind == SUCCESSORS:
        return successors.measured(json.loads(job.request)["request"])
    if job.kind == MEASURED:
        return case.measured(json.loads(job.request)["request"])
    raise StudyError(f'"{job.kind}" is not a level of jobs')


def answer(cell: Cell, found: ResolvedCell, level: str, results: Sequence[bytes]) -> list[Measure]:
    """A cell's measures at a level, from the results of its jobs."""
    measures = _measures(cell, found, level, results)
    if level == TESTBED:
        return measures
    nodes = found.bytes_alone
    if cell.sweep.measure == "price" and found.modelled["is_lower_bound"]:
        nodes = (found.cost_table,)
    bounds = [bound(measure.metric, nodes) for measure in measures]
    if cell.sweep.measure in ("tunnel", FLOWS):
        unpriced = (tunnel.bound(level, results[0], measure.metric) for measure in measures)
        bounds = [one or other for one, other in zip(bounds, unpriced, strict=True)]
    if found.least is not None:
        bounds = [LOWER if measure.metric in found.least else "" for measure in measures]
    if cell.sweep.measure == WIRELESS:
        # What is empty, and what a policy has not, is no bound.
        own = (bound or one.bound for one, bound in zip(measures, bounds, strict=True))
        bounds = [bound if one.value else "" for one, bound in zip(measures, own, strict=True)]
    return [replace(one, bound=bound) for one, bound in zip(measures, bounds, strict=True)]


def _measures(
    cell: Cell, found: ResolvedCell, level: str, results: Sequence[bytes]
) -> list[Measure]:
    if cell.sweep.measure == "tunnel":
        metrics = tunnel.read(level, results[0])
        state = tunnel.state(level, results[0])
        return [
            Measure(name, value, state=state(name))
            for name, value in metrics.items()
            if value is not None
        ]
    if cell.sweep.measure == FLOWS:
        assert found.policies is not None, "only a graph has flows"
        read = flows.modelled if level == "model" else flows.read
        return read(results[0], found.document, found.policies)
    if cell.sweep.measure in (CASE, AGENTS, SUCCESSORS):
        return measured.read(results[0])
    if cell.sweep.measure == TABLES:
        return tables.read(results[0])
    if cell.sweep.measure == WIRELESS:
        own = found.request["cell"]
        if level == TESTBED:
            return measured.read(results[0]) + wireless.without(own, level)
        return wireless.computed(own, level, results)
    if cell.sweep.measure == HOSTS:
        own = found.request["cell"]
        if level == TESTBED:
            return measured.read(results[0])
        link = hosts.wire(found.document)
        if level == "model":
            return hosts.modelled(own, link)
        return hosts.simulated(own, link, results)
    if level == "model":
        return model(cell, found)
    measures = outcome(results)
    return measures + _of_users(measures, found)


def _of_users(measures: Sequence[Measure], found: ResolvedCell) -> list[Measure]:
    """The throughput without headers, if every packet is larger than these."""
    sizes = found.document["traffic"].get("sizes") or {}
    smallest = sizes.get("bytes", sizes.get("smallest_bytes", 0.0))
    header_bytes, mean_bytes = found.modelled["header_bytes"], found.modelled["mean_bytes"]
    if smallest < header_bytes:
        return []
    share = (mean_bytes - header_bytes) / mean_bytes
    (clear,) = (one for one in measures if one.metric == "throughput_kbps")
    low, high = (None if end is None else end * share for end in (clear.low, clear.high))
    value = None if clear.value is None else clear.value * share
    return [Measure("user_kbps", value, low, high, clear.state)]


def outcome(tallies: Sequence[bytes]) -> list[Measure]:
    """The combined outcome of a cell's replications."""
    try:
        answer = json.loads(_lab.outcome(list(tallies)))
    except _lab.Refusal as fault:
        raise StudyError.of(fault) from None
    standing = _standing(answer)
    state = answer["state"]
    measures = [
        Measure("packets", answer["packets"], state=state),
        _interval("mean_delay_ms", answer, ("mean_delay_s", "delay_ci95_s"), 1e3, state),
        _interval(
            "throughput_kbps", answer, ("throughput_bps", "throughput_ci95_bps"), 1e-3, state
        ),
        _interval("protected_kbps", answer, ("protected_bps", "protected_ci95_bps"), 1e-3, state),
        Measure("throughput_pps", answer["packets_per_s"], state=state),
    ]
    for percentile in answer["percentiles"]:
        name = f"p{percentile['percent']:g}_delay_ms"
        if name in ("p50_delay_ms", "p95_delay_ms", "p99_delay_ms"):
            low, high = (None if end is None else end * 1e3 for end in percentile["ci95_s"] or NONE)
            measures.append(Measure(name, percentile["delay_s"] * 1e3, low, high, state))
    for station in answer["stations"]:
        name, own = station["name"], station["state"]
        here = standing[name]
        measures += [
            _interval(f"utilisation:{name}", station, ("utilisation", "utilisation_ci95"), 1, own),
            _interval(f"wait_ms:{name}", station, ("mean_wait_s", "wait_ci95_s"), 1e3, here),
            _interval(
                f"queue_bytes:{name}", station, ("mean_queue_bytes", "queue_ci95_bytes"), 1, here
            ),
        ]
    return measures


def _standing(answer: Mapping[str, Any]) -> dict[str, str]:
    """The state of each station's queue: the worst up to it, because packets pass them all."""
    worst, standing = STATIONARY, {}
    for station in answer["stations"]:
        worst = max(worst, station["state"], key=WORSE.index)
        standing[station["name"]] = worst
    return standing


def _interval(
    metric: str, answer: Mapping[str, Any], keys: tuple[str, str], factor: float, state: str
) -> Measure:
    """A mean with its 95 % interval."""
    value, width = (answer[key] for key in keys)
    if width is None:
        return Measure(metric, value * factor, state=state)
    # No quantity here can be negative, and neither can its interval.
    low, high = max(0.0, value - width) * factor, (value + width) * factor
    if metric.startswith("utilisation:"):
        high = min(1.0, high)  # a share of the time
    return Measure(metric, value * factor, low, high, state)
