"""Resolves cells: the scenario of a cell with the point's values set, or the request of its price.

A cell is resolved once; what queueing theory says of it is computed in the same step. Left out:
simulations and measurements, which are jobs (`compute`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from caravan import _lab
from caravan.files import CATALOGUE, Entry, read, within
from caravan.lab.policies import Policies, is_of_skip
from caravan.messages import Refused, unknown
from caravan.study import agents, case, hosts, parameters, stack, successors, wireless
from caravan.study.cells import Cell, canonical
from caravan.study.metrics import AXIS_KEYS
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
    Study,
)
from caravan.study.text import StudyError, Value

T = TypeVar("T")
KINDS = ("device", "exchange", "link", "policy", "scenario", "trace")
"""The kinds of files that a cell may name."""
FREE = "none"
"""Device and cost table of a client whose computation takes no time."""
CHAINS = {
    "road": "the closed forms and the tandem only know chains",
    "tunnel": "the closed form of a tunnel only knows chains",
}
"""Why a measure cannot use a graph."""
PING_BYTES = 84
"""An ICMP echo request of 56 bytes: the first data after an exchange, if nothing else is set."""
UNITS = {"rate_kbps": "kbit/s", "packet_bytes": "B"}


@dataclass(frozen=True)
class ResolvedCell:
    """A cell with its scenario: the columns of its rows, and the request that computes it."""

    scenario: str
    scenario_hash: str
    cost_table: str
    policy: str | None
    device: str | None
    link: str | None
    mips: float | None
    rate_kbps: float | None
    packet_bytes: float | None
    request: Mapping[str, Any]
    document: Mapping[str, Any]
    bytes_alone: tuple[str, ...] = ()
    """Nodes whose work is a lower bound, because no source gives their cost per packet."""
    least: frozenset[str] | None = None
    """Metrics that are lower bounds, where the measure itself knows them."""
    too_much: tuple[str, str] | None = None
    """The key of the scenario that would make a simulation take hours, and why."""
    policies: Policies | None = None
    """The policies of a graph's flows and tunnels."""
    theory: Mapping[str, Any] | StudyError | None = None
    """Closed forms of the path, or of a single packet without a scenario; or why there are none.
    None if the measure has no use for them."""

    @property
    def modelled(self) -> Mapping[str, Any]:
        """The closed forms; an error if there are none."""
        if isinstance(self.theory, StudyError):
            raise self.theory
        if self.theory is None:
            raise StudyError("no closed form was computed for this cell")
        return self.theory


def missing(found: ResolvedCell) -> str:
    """Why the cell has no cost; empty if it has one, or needs none."""
    if found.theory is None:
        return ""
    try:
        _ = found.modelled
    except StudyError as fault:
        if not fault.is_unpriced:
            raise
        return fault.brief
    return ""


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
        skip = {name: entry.text for (_, name), entry in named if is_of_skip(entry)}
        return parameters.document(scenario, self.sweeps, devices, skip)

    def entries(self) -> list[dict[str, str]]:
        """All texts that a scenario may name, in the native core's form."""
        return [entry.request() for entry in self.named.values()]

    def text(self, kind: str, name: str) -> dict[str, str]:
        """One text in the native core's form."""
        entry = self.named.get((kind, name))
        if entry is None:
            names = sorted(known for other, known in self.named if other == kind)
            raise StudyError.edit(kind, unknown(kind, name, names))
        return {"name": entry.name, "file": entry.file, "text": entry.text}


def _read(kind: str, path: Path, name: str) -> Entry:
    try:
        return read(kind, path, name)
    except Refused as fault:
        raise StudyError.of(fault) from None


def resolve(cell: Cell, files: Files) -> ResolvedCell:
    """Resolve a cell: its scenario with the point's values set, or its price request."""
    if cell.sweep.measure == "price":
        return _price(cell, files)
    if cell.sweep.measure == EXCHANGE:
        return _exchange(cell, files)
    if cell.sweep.measure == CASE:
        return _case(cell, files)
    if cell.sweep.measure == STACK:
        return _stack(cell, files)
    if cell.sweep.measure == WIRELESS:
        return _wireless(cell, files)
    if cell.sweep.measure == HOSTS:
        return _hosts(cell, files)
    if cell.sweep.measure in (AGENTS, SUCCESSORS):
        return _over_link(cell, files)
    if cell.sweep.measure == TABLES:
        return _tables()
    file, text = files.scenario(cell.sweep.scenario)
    measure = cell.sweep.measure
    request = {"file": file, "text": text, "set": _edits(cell), "catalogue": files.entries()}
    opened = _refusing(lambda: _lab.Scenario(canonical(request)))
    own = json.dumps(asdict(cell.run)) if measure == "road" else None
    document = json.loads(_refusing(lambda: opened.resolved(own)))
    scenario = document["scenario"]
    is_graph = document["is_graph"]
    beyond = document["beyond_tandem"]
    is_path = measure == "road" and not beyond
    _check_form(measure, scenario["name"], is_graph=is_graph and not is_path)
    if measure == "road" and beyond:
        raise StudyError.told(beyond)
    if is_graph and is_path:
        # One flow on one path, as a chain's.
        scenario = {**scenario, "traffic": scenario["flows"][0]}
    named = {name for name, _ in scenario["files"]}
    needed = [entry for entry in files.entries() if f"{entry['kind']}/{entry['name']}" in named]
    is_looked_up = measure == "parameters"
    policies = Policies.of(document) if is_graph else None
    return ResolvedCell(
        scenario=scenario["name"],
        scenario_hash=document["hash"],
        policy=", ".join(policies.names) if policies else scenario["policy"],
        **_columns(scenario, is_graph=is_graph and not is_path, is_tunnel=measure == "tunnel"),
        request={**request, "catalogue": needed},
        document=files.looked_up(scenario) if is_looked_up else scenario,
        bytes_alone=() if is_looked_up else tuple(document["bytes_alone"]),
        too_much=_blamed(document["too_much"]),
        policies=policies,
        theory=_theory(opened.model) if measure == "road" else None,
    )


def _check_form(measure: str, name: str, *, is_graph: bool) -> None:
    """Refuse a graph where only chains are known, and a chain where flows are measured."""
    if measure == FLOWS and not is_graph:
        what = f'{name} is a chain, and "{FLOWS}" needs a graph: measure "road" or "tunnel"'
        raise StudyError.edit("scenario", what)
    if measure in CHAINS and is_graph:
        what = f'{name} is a graph, but {CHAINS[measure]}: measure "{FLOWS}"'
        raise StudyError.edit("scenario", what)


def _columns(scenario: Mapping[str, Any], *, is_graph: bool, is_tunnel: bool) -> dict[str, Any]:
    """The columns of the rows of a scenario; None where a graph has no single value."""
    if is_graph:
        clients = [node for node in scenario["nodes"] if node["role"] == "station"]
        computers = [node["computer"] or {} for node in clients]
        devices = dict.fromkeys(computer.get("device", FREE) for computer in computers)
        speeds = {(computer.get("speed") or {}).get("mips") for computer in computers}
        table = ", ".join(devices) or FREE
        return {
            "cost_table": table,
            "device": table,
            "link": None,
            "mips": speeds.pop() if len(speeds) == 1 else None,
            "rate_kbps": None,
            "packet_bytes": None,
        }
    computer = scenario["nodes"][0]["computer"] or {}
    device = computer.get("device", FREE)
    rate_bps = scenario["traffic"]["model"].get("rate_bps")
    return {
        "cost_table": device,
        "device": device,
        "link": _link(scenario["links"], is_tunnel=is_tunnel),
        "mips": (computer.get("speed") or {}).get("mips"),
        "rate_kbps": None if rate_bps is None else rate_bps / 1e3,
        "packet_bytes": (scenario["traffic"]["sizes"] or {}).get("bytes"),
    }


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


def _price(cell: Cell, files: Files) -> ResolvedCell:
    known: dict[str, Any] = {"profile": cell.sweep.profile, "suite": "none"}
    known |= {**cell.settings, **cell.last}
    for axis, value in cell.point.items():
        known[{"policy": "suite", "device": "profile", "packet_bytes": "bytes"}.get(axis, axis)] = (
            value
        )
    profile = str(known.pop("profile"))
    entry = files.named.get(("device", profile))
    if entry is None:
        names = sorted(name for kind, name in files.named if kind == "device")
        raise StudyError.edit("profile", unknown("device", profile, names))
    policy = str(known["suite"])
    protection = files.named.get(("policy", policy))
    if protection is not None and is_of_skip(protection):
        known["suite"] = {"file": protection.file, "text": protection.text}
    request = {**known, "file": entry.file, "text": entry.text}
    content = canonical({**request, "profile": profile})
    return ResolvedCell(
        scenario="",
        scenario_hash=hashlib.sha256(content.encode()).hexdigest(),
        cost_table=profile,
        policy=policy,
        device=profile,
        link=None,
        mips=_number(known.get("mips")),
        rate_kbps=None,
        packet_bytes=_number(known.get("bytes")),
        request=request,
        document={},
        theory=_theory(lambda: _lab.price(canonical(request))),
    )


def _exchange(cell: Cell, files: Files) -> ResolvedCell:
    """An exchange over a link, of a device, and `through` a policy."""
    known: dict[str, Any] = {"detection_s": 0.0, "data_bytes": PING_BYTES}
    known |= {**cell.settings, **cell.last}
    point = cell.point
    policy, link = str(point["policy"]), str(point["link"])
    text = files.text(EXCHANGE, policy)
    through, device = known.pop("through", None), point.get("device", FREE)
    request = {
        **known,
        "data_bytes": int(known["data_bytes"]),
        "file": text["file"],
        "text": text["text"],
        "link": files.text("link", link),
        "policy": None if through is None else files.text("policy", str(through)),
        "device": None if device == FREE else files.text("device", str(device)),
    }
    return ResolvedCell(
        scenario="",
        scenario_hash=hashlib.sha256(canonical(request).encode()).hexdigest(),
        cost_table=str(device),
        policy=policy,
        device=str(device),
        link=link,
        mips=None,
        rate_kbps=None,
        packet_bytes=None,
        request=request,
        document={},
        theory=_theory(lambda: _lab.exchange(canonical(request))),
    )


def _case(cell: Cell, files: Files) -> ResolvedCell:
    """A case of paper M, with a policy of SKIP where it has one."""
    point = cell.point
    policy = str(point.get("policy", FREE))
    text = None if policy == FREE else files.text("policy", policy)
    request = case.request({**cell.settings, **cell.last}, text, point.get("packet_bytes"))
    return ResolvedCell(
        scenario="",
        scenario_hash=hashlib.sha256(canonical(request).encode()).hexdigest(),
        cost_table=FREE,
        policy=policy,
        device=FREE,
        link=None,
        mips=None,
        rate_kbps=None,
        packet_bytes=_number(point.get("packet_bytes")),
        request=request,
        document={},
    )


def _wireless(cell: Cell, files: Files) -> ResolvedCell:
    """A policy of paper P in one of its scenarios, over a link or none."""
    point = cell.point
    link = str(point["link"])
    text = None if link == FREE else files.text("link", link)
    settings = {**cell.settings, **cell.last}
    devices = None
    if "device" in point:
        servers = settings.get("servers")
        if servers is None:
            what = 'with the axis "device" say what agents, routers and servers compute in'
            raise StudyError.edit("servers", what)
        texts = {"stations": str(point["device"]), "servers": str(servers)}
        devices = {whose: files.text("device", name) for whose, name in texts.items()}
    request = wireless.request(settings, point["policy"], text, cell.run, devices)
    scenario = files.scenario(request["scenario"])
    own, runs, content_hash = wireless.resolved(request, scenario, files.entries())
    return ResolvedCell(
        scenario=request["scenario"],
        scenario_hash=content_hash,
        cost_table=FREE if devices is None else ", ".join(dict.fromkeys(texts.values())),
        policy=request["policy"],
        device=str(point.get("device", FREE)),
        link=link,
        mips=None,
        rate_kbps=None,
        packet_bytes=None,
        request={"cell": own, "runs": runs},
        document={},
        bytes_alone=tuple(own.get("bytes_alone", ())),
    )


def _hosts(cell: Cell, files: Files) -> ResolvedCell:
    """Two hosts under a policy, over a link or none, of a device or none."""
    point = cell.point
    names = {kind: str(point.get(kind, FREE)) for kind in ("policy", "link", "device")}
    texts = {kind: None if name == FREE else files.text(kind, name) for kind, name in names.items()}
    request = hosts.request({**cell.settings, **cell.last}, point, texts, cell.run)
    runs: list[dict[str, Any]] = []
    document: Mapping[str, Any] = {}
    if set(cell.sweep.levels) - {"testbed"}:
        file, scenario = files.scenario(hosts.SCENARIO)
        base = {"file": file, "text": scenario, "catalogue": files.entries()}
        runs = [{**base, "set": edits} for edits in hosts.edits(request)]
        opened = _refusing(lambda: _lab.Scenario(canonical(runs[0])))
        document = json.loads(_refusing(opened.resolved))["scenario"]
    content = canonical({"cell": request, "runs": runs})
    return ResolvedCell(
        scenario=hosts.SCENARIO,
        scenario_hash=hashlib.sha256(content.encode()).hexdigest(),
        cost_table=names["device"],
        policy=names["policy"],
        device=names["device"],
        link=names["link"],
        mips=None,
        rate_kbps=None,
        packet_bytes=_number(point.get("packet_bytes")),
        request={"cell": request, "runs": runs},
        document=document,
        bytes_alone=(names["device"],) if hosts.is_bound(request) else (),
    )


def _over_link(cell: Cell, files: Files) -> ResolvedCell:
    """A part of the ten steps, or the moves of a successor, over a link."""
    what, link = str(cell.point["policy"]), str(cell.point["link"])
    own = agents.request if cell.sweep.measure == AGENTS else successors.request
    request = own(what, files.text("link", link), cell.run)
    return ResolvedCell(
        scenario="",
        scenario_hash=hashlib.sha256(canonical(request).encode()).hexdigest(),
        cost_table=FREE,
        policy=what,
        device=FREE,
        link=link,
        mips=None,
        rate_kbps=None,
        packet_bytes=None,
        request=request,
        document={},
    )


def _tables() -> ResolvedCell:
    """The program's own tables: nothing is asked for."""
    return ResolvedCell(
        scenario="",
        scenario_hash=hashlib.sha256(canonical({}).encode()).hexdigest(),
        cost_table=FREE,
        policy=FREE,
        device=FREE,
        link=None,
        mips=None,
        rate_kbps=None,
        packet_bytes=None,
        request={},
        document={},
    )


def _stack(cell: Cell, files: Files) -> ResolvedCell:
    """Layers over a link, with what lies `behind` it."""
    point, known = cell.point, {**cell.settings, **cell.last}
    policy, link, device = str(point["policy"]), str(point["link"]), point.get("device", FREE)
    behind = known.pop("behind", None)
    request = {
        **known,
        "stack": policy,
        "link": files.text("link", link),
        "behind": None if behind is None else files.text("link", str(behind)),
        "device": None if device == FREE else files.text("device", str(device)),
    }
    content = canonical({**request, "texts": stack.texts(policy)})
    theory, least = stack.priced(request)
    return ResolvedCell(
        scenario="",
        scenario_hash=hashlib.sha256(content.encode()).hexdigest(),
        cost_table=str(device),
        policy=policy,
        device=str(device),
        link=link,
        mips=None,
        rate_kbps=None,
        packet_bytes=None,
        request=request,
        document={},
        bytes_alone=(str(device),) if least and device != FREE else (),
        least=least,
        theory=theory,
    )


def _number(value: Value | None) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _theory(call: Callable[[], str]) -> Mapping[str, Any] | StudyError:
    """An answer in closed form, or why there is none. Not every level needs it."""
    try:
        answer: Mapping[str, Any] = json.loads(_refusing(call))
    except StudyError as fault:
        return fault
    return answer


def _refusing(call: Callable[[], T]) -> T:
    """One call of the native core. Its refusals become ours."""
    try:
        return call()
    except _lab.Refusal as fault:
        raise StudyError.of(fault) from None
