"""The runner's interface to the native core: cells in, measures out.

Requests are JSON with every text that they need, so a job is the same on every machine. Left out:
formulas. Only `caravan._lab` computes costs, sizes and queues.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from caravan import _lab, recordings
from caravan.files import CATALOGUE, Entry, read, within
from caravan.messages import Refused, unknown
from caravan.study import parameters, tunnel
from caravan.study.cells import Cell, Job, canonical, replication_ranges, run_request
from caravan.study.metrics import AXIS_KEYS, DIVERGES, NEAR, bound
from caravan.study.plan import Run, Study
from caravan.study.text import StudyError, Value

KINDS = ("device", "link", "policy", "trace")
"""The kinds of files that a scenario may name."""
KERNEL = "kernel"
TESTBED = "testbed"
TUNNEL_WEIGHT = 1e6
"""A transfer through a tunnel takes about as long as this many packets of the tandem."""
FREE = "none"
"""Device and cost table of a client whose computation takes no time."""
MACHINE = "machine of the run"
"""Device and cost table of the real program; the run's provenance names the machine."""
STATIONARY = "stationary"
NONE = (None, None)
WORSE = (STATIONARY, NEAR, DIVERGES)
"""The possible states of a simulated point, the worst last."""
QUEUES = ("wait_ms", "queue_bytes")
"""Metrics that have no value at a full station and behind it."""
UNITS = {"rate_kbps": "kbit/s", "packet_bytes": "B"}


@dataclass(frozen=True)
class Measure:
    """One metric of a cell. `reading` is set if a cell has several metrics of one name."""

    metric: str
    value: float | None
    low: float | None = None
    high: float | None = None
    state: str = ""
    reading: str = ""
    bound: str = ""
    """`lower` or `upper` if only the bytes of the underlying work have a cost."""


@dataclass(frozen=True)
class Place:
    """A resolved cell: its position, and the request that computes it."""

    scenario: str
    scenario_hash: str
    cost_table: str
    policy: str | None
    device: str | None
    link: str | None
    mips: float | None
    rate_kbps: float | None
    packet_bytes: float | None
    request: Mapping[str, object]
    document: Mapping[str, Any]
    bytes_alone: tuple[str, ...] = ()
    """Nodes whose work is a lower bound, because no source gives their cost per packet."""
    too_much: tuple[str, str] | None = None
    """The key of the scenario that would make a simulation take hours, and why."""

    @cached_property
    def modelled(self) -> Any:
        """Closed forms of the path, or of a single packet without a scenario."""
        if not self.document:
            return _told(lambda: _lab.price(canonical(self.request)))
        return _told(lambda: _lab.Scenario(canonical(self.request)).model())


@dataclass(frozen=True)
class Files:
    """Every text that a scenario may name: the catalogue's, and those beside the study."""

    named: Mapping[tuple[str, str], Entry]
    scenarios: Mapping[str, Path]
    sweeps: Mapping[str, Any]
    """The ranges of the study's own sweeps, as in `parameters.ranges`."""

    @classmethod
    def of(cls, study: Study, *, is_quick: bool = False) -> Files:
        """If two folders have the same name, the later one counts."""
        named: dict[tuple[str, str], Entry] = {}
        scenarios: dict[str, Path] = {}
        for root in (CATALOGUE, Path(study.file).parent):
            for kind in KINDS:
                for name, path in within(kind, root):
                    # Another process may compute a cell in another current folder.
                    at = path.resolve() if kind == "trace" else path
                    named[kind, name] = _read(kind, at, name)
            scenarios.update(within("scenario", root))
        return cls(named, scenarios, parameters.ranges(study, is_quick=is_quick))

    def scenario(self, name: str) -> tuple[str, str]:
        """File and text of a scenario."""
        path = self.scenarios.get(name)
        if path is None:
            raise StudyError.edit("scenario", unknown("scenario", name, sorted(self.scenarios)))
        entry = _read("scenario", path, name)
        return entry.file, entry.text

    def looked_up(self, scenario: Mapping[str, Any]) -> Mapping[str, Any]:
        """A resolved scenario and the other documents, for sweeps of parameters."""
        named = self.named.items()
        devices = {name: entry.text for (kind, name), entry in named if kind == "device"}
        return parameters.document(scenario, self.sweeps, devices)

    def entries(self) -> list[dict[str, str]]:
        """All texts in the native core's form."""
        return [entry.request() for entry in self.named.values()]


def _read(kind: str, path: Path, name: str) -> Entry:
    try:
        return read(kind, path, name)
    except Refused as fault:
        raise StudyError.of(fault) from None


@cache
def version() -> str:
    """The version of the package and its core."""
    return str(_lab.version())


@cache
def fingerprint() -> str:
    """The native core's fingerprint: results of another build are computed again."""
    return hashlib.sha256(Path(str(_lab.__file__)).read_bytes()).hexdigest()


def place(cell: Cell, files: Files) -> Place:
    """Resolve a cell: its scenario with the point's values set, or its price request."""
    if cell.sweep.measure == "price":
        return _price_place(cell, files)
    file, text = files.scenario(cell.sweep.scenario)
    edits = _edits(cell)
    request = {"file": file, "text": text, "set": edits, "catalogue": files.entries()}
    run = asdict(cell.run) if cell.sweep.measure == "road" else None
    own = None if run is None else json.dumps(run)
    document = _told(lambda: _lab.Scenario(canonical(request)).resolved(own))
    if cell.sweep.measure == "road" and document["beyond_tandem"]:
        raise StudyError.told(document["beyond_tandem"])
    scenario = document["scenario"]
    if "flows" in scenario:
        what = f"{scenario['name']} is a graph: studies support only chains"
        raise StudyError.edit("scenario", what)
    named = {name for name, _ in scenario["files"]}
    needed = [entry for entry in files.entries() if f"{entry['kind']}/{entry['name']}" in named]
    station = scenario["nodes"][0]
    computer = station["computer"] or {}
    sizes = scenario["traffic"]["sizes"] or {}
    rate_bps = scenario["traffic"]["model"].get("rate_bps")
    is_looked_up = cell.sweep.measure == "parameters"
    return Place(
        scenario=scenario["name"],
        scenario_hash=document["hash"],
        cost_table=computer.get("device", FREE),
        policy=scenario["policy"],
        device=computer.get("device", FREE),
        link=_link(scenario["links"], is_tunnel=cell.sweep.measure == "tunnel"),
        mips=(computer.get("speed") or {}).get("mips"),
        rate_kbps=None if rate_bps is None else rate_bps / 1e3,
        packet_bytes=sizes.get("bytes"),
        request={**request, "catalogue": needed},
        document=files.looked_up(scenario) if is_looked_up else scenario,
        bytes_alone=() if is_looked_up else tuple(document["bytes_alone"]),
        too_much=_blamed(document["too_much"]),
    )


def _blamed(answer: Mapping[str, Any] | None) -> tuple[str, str] | None:
    """An error that only counts if a run follows: its key, and what is wrong."""
    fault = StudyError.told(answer) if answer else None
    return (fault.place.key, fault.what) if fault and fault.place else None


def _link(links: Sequence[Mapping[str, Any]], *, is_tunnel: bool) -> str:
    """The client's link, for a tunnel the slowest; a link without a name by its rate and delay."""
    link = min(links, key=lambda link: min(link["rate"].values())) if is_tunnel else links[0]
    slowest = min(link["rate"].values())
    return link["link"] or f"{slowest / 1e6:g} Mbit/s, {link['delay_s'] * 1e3:g} ms"


def _edits(cell: Cell) -> list[str]:
    """Settings, the point and the reading as `KEY=VALUE`; later ones take precedence."""
    settings = dict(cell.settings)
    for axis, value in cell.point.items():
        key = cell.sweep.axes.get(axis) or AXIS_KEYS.get(axis)
        if key is None:
            what = f'say which key of the scenario the axis "{axis}" sets, in [sweep.axes]'
            raise StudyError.edit("axes", what)
        for part in key.split(","):
            settings[part.strip()] = f"{value:g} {UNITS[axis]}" if axis in UNITS else value
    settings.update(cell.last)
    return [f"{key}={_literal(value)}" for key, value in settings.items()]


def _literal(value: Value) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _price_place(cell: Cell, files: Files) -> Place:
    known = {"profile": cell.sweep.profile, "suite": "none", **cell.settings, **cell.last}
    for axis, value in cell.point.items():
        known[{"policy": "suite", "device": "profile", "packet_bytes": "bytes"}.get(axis, axis)] = (
            value
        )
    profile = str(known["profile"])
    entry = files.named.get(("device", profile))
    if entry is None:
        names = sorted(name for kind, name in files.named if kind == "device")
        raise StudyError.edit("profile", unknown("device", profile, names))
    request = {**known, "file": entry.file, "text": entry.text}
    content = canonical(request)
    return Place(
        scenario="",
        scenario_hash=hashlib.sha256(content.encode()).hexdigest(),
        cost_table=profile,
        policy=str(known["suite"]),
        device=profile,
        link=None,
        mips=_number(known.get("mips")),
        rate_kbps=None,
        packet_bytes=_number(known.get("bytes")),
        request=request,
        document={},
    )


def _number(value: Value | None) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def model(cell: Cell, found: Place) -> list[Measure]:
    """Closed forms of a packet or of the path, or the parameters of these."""
    if cell.sweep.measure == "price":
        return _prices(found.modelled)
    if cell.sweep.measure == "parameters":
        return [
            Measure("value", parameters.number(found.document, key), reading=name)
            for name, key in cell.sweep.keys.items()
        ]
    return _modelled(found.modelled, found)


def missing(found: Place) -> str:
    """Why the cell has no cost; empty if it has one."""
    try:
        _ = found.modelled
    except StudyError as fault:
        if not fault.is_unpriced:
            raise
        return fault.brief
    return ""


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


def _modelled(answer: Mapping[str, Any], found: Place) -> list[Measure]:
    """Queueing theory's results for the path and its stations."""
    state = answer["state"] or ""
    capacity = answer["capacity_bps"]
    measures = [
        Measure("mean_packet_bytes", answer["mean_bytes"]),
        Measure("capacity_kbps", _kilo(capacity)),
        Measure("cpu_capacity_kbps", _kilo(_station(answer, found)["capacity_bps"])),
    ]
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


def _station(answer: Mapping[str, Any], found: Place) -> Mapping[str, Any]:
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


def jobs(cell: Cell, found: Place, level: str, seed: int) -> tuple[Job, ...]:
    """The jobs that a cell needs at a level."""
    if cell.sweep.measure == "tunnel":
        if level == TESTBED:
            asked = {**found.request, "set": _edits(cell)}
            tunnel.check(asked)
            request = {"asked": asked, "program": tunnel.program()}
            return (Job(TESTBED, canonical(request), TUNNEL_WEIGHT),)
        seeded = [*_edits(cell), f"seed={seed}"]
        return (Job(KERNEL, canonical({**found.request, "set": seeded}), TUNNEL_WEIGHT),)
    if level != "simulate":
        return ()
    if found.too_much:
        raise StudyError.edit(*found.too_much)
    return tuple(_job(found, cell.run, seed, part) for part in replication_ranges(cell.run))


def _job(found: Place, run: Run, seed: int, part: tuple[int, int]) -> Job:
    """The job of some replications of a cell."""
    request = {**found.request, "run": run_request(run, seed, part)}
    packets = (found.rate_kbps or 1.0) * run.seconds * part[1]
    return Job("simulate", canonical(request), packets)


def compute(job: Job) -> bytes:
    """The result of a job. Runs in any process that has this package."""
    try:
        if job.kind == "simulate":
            return bytes(_lab.Scenario(job.request).simulate())
        if job.kind == KERNEL:
            if why := recordings.unlike(json.loads(job.request)["catalogue"]):
                raise StudyError(why)
            answer = json.loads(_lab.Scenario(job.request).kernel())
            return canonical({level: answer[level] for level in ("model", "simulate")}).encode()
    except _lab.Refusal as fault:
        raise StudyError.of(fault) from None
    if job.kind == TESTBED:
        return tunnel.measured(json.loads(job.request)["asked"])
    raise StudyError(f'"{job.kind}" is not a level of jobs')


def answer(cell: Cell, found: Place, level: str, results: Sequence[bytes]) -> list[Measure]:
    """A cell's measures at a level, from the results of its jobs."""
    measures = _measures(cell, found, level, results)
    if level == TESTBED:
        return measures
    nodes = found.bytes_alone
    if cell.sweep.measure == "price" and found.modelled["is_lower_bound"]:
        nodes = (found.cost_table,)
    bounds = [bound(measure.metric, nodes) for measure in measures]
    if cell.sweep.measure == "tunnel":
        unpriced = (tunnel.bound(level, results[0], measure.metric) for measure in measures)
        bounds = [one or other for one, other in zip(bounds, unpriced, strict=True)]
    return [replace(one, bound=bound) for one, bound in zip(measures, bounds, strict=True)]


def _measures(cell: Cell, found: Place, level: str, results: Sequence[bytes]) -> list[Measure]:
    if cell.sweep.measure == "tunnel":
        metrics = tunnel.read(level, results[0])
        state = tunnel.state(level, results[0])
        return [
            Measure(name, value, state=state(name))
            for name, value in metrics.items()
            if value is not None
        ]
    if level == "model":
        return model(cell, found)
    measures = outcome(results)
    return measures + _of_users(measures, found)


def _of_users(measures: Sequence[Measure], found: Place) -> list[Measure]:
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


def _told(call: Callable[[], str]) -> Any:
    """One call of the native core. Its refusals become ours."""
    try:
        return json.loads(call())
    except _lab.Refusal as fault:
        raise StudyError.of(fault) from None
