"""The policies and scenarios of paper P at three levels: the request of a cell, and its metrics.

A cell is a scenario's file under a policy's file over a link's file, and all levels read the same
texts. `testbed` measures with the real programs in namespaces (`caravan.threeways.policies`), and
refuses what these cannot do. `model` and `simulate` come from the native core; there computing
takes no time, and what this machine takes is added to the parts of an authentication (`prices`).
There a node has no tunnel before it comes: where it keeps its own on a roam, all but IKE, which
takes no time then, is that of a node that makes one after its registration.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from caravan import _lab
from caravan.document import Item, plain
from caravan.messages import Refused, unknown
from caravan.study import computers, measured
from caravan.study.cells import canonical
from caravan.study.metrics import LOWER, Measure
from caravan.study.parsed import Run
from caravan.study.results import Row
from caravan.study.text import StudyError, Value

if TYPE_CHECKING:
    from caravan.threeways.policies import Beds, Setting

BASE = "pn-1"
"""The policy without security, against which costs are counted."""
COSTS = {"tcp_bytes_s": "tcp_cost_bytes_s", "udp_bytes_s": "udp_cost_bytes_s"}
PROOFS = {"psk": "psk", "rsa": "rsa2048"}
"""What a reading says of IKE, in the words of policy files."""
OF_DEVICES = ("servers", "wep")
UNASKED = ("prices", "servers")
"""Settings of a sweep that are no part of a request as they are."""
GROUP = re.compile(r"-(modp|ecp|curve)\w+$")
TOTAL = "authentication_s"
SIMULATED, MEASURED = "simulate", "testbed"
RESPONSES = ("response_ms", "udp_response_ms")
OF_DATAGRAMS = ("udp_response_ms", "udp_bytes_s")
NO_PORT = "only measured: computed, a port opens as the last message of EAP arrives"
NO_DATAGRAM = "TLS protects no datagram"
NO_LIMIT = "without the air nothing keeps simulated datagrams back: the model has their rate"
SHORTEST_S, LONGEST_S = 0.2, 60.0
YES, NO = "yes", "no"
NODE, FLOW = "mn1", "data"
DATA_BYTES, PACKET_BYTES = 1200, 1228
"""Of a datagram, and with its headers of IP and UDP."""
TCP_BYTES_S = 4e6
"""A simulated transfer is as long as one of so many bytes in the time of a measured flow."""
SETTLED_S = 2.0
"""A simulated run of datagrams that is as long has filled every queue. Another goes on from there:
what it has more came while all queues were full."""
MORE_S, MORE_IPSEC_S = 24.0, 4.0
"""How much longer that is. Datagrams are counted whole, so a rate has steps of one in that time:
50 bytes/s, 4 % of what WEP costs in M1. IPsec costs several times as much, and its ciphers are
computed."""
WHOLE_S = 0.5
"""A shorter flow, as that of a quick run, has so much less of it."""
AIRS, WIRE = ("air1", "air2"), "ethernet-100"
"""The links of access points, and what they are where the air is no limit: as their wires."""
RATE, FAST_RATE = "6.5 Mbit/s", "120 Mbit/s"
"""More than the air of 802.11b carries, by so much that it fills the queue before `SETTLED_S`, and
more than a wire."""
FAST_S = 0.05
"""Of datagrams over wires alone, which only the model has: nothing keeps simulated ones back, and
what overflows on a wire that they pass twice is lost."""
ECHO_BYTES = 52
"""Of a datagram that comes back, with its headers: as long as the kernel's first packet of TCP."""
ECHO_RATE, ECHO_S, ECHO_RUNS = "8.32 kbit/s", 1.0, 2
"""One of them in 50 ms: each has the path for itself. Of the kernel's datagrams none is an answer,
so those there and those back are two runs."""
PARTS = {
    "start": "eap_start_s",
    "eap": "eap_s",
    "registration": "registration_s",
    "ike": "tunnel_s",
}
"""The native core's names of the parts of an authentication."""


Text = Mapping[str, str]
"""A file in the native core's form."""


def request(
    settings: Mapping[str, Value],
    policy: Value,
    link: Mapping[str, str] | None,
    run: Run,
    devices: Mapping[str, Text] | None = None,
) -> dict[str, Any]:
    """A cell's request; an error names the key of the sweep that is to blame.

    `link`: what the air carries; None: it is no limit. `proof` and `group` are those of IKE if they
    are not what the policy's file says. `devices`: what `stations` and `servers` compute in.
    """
    from caravan.testbed.dot1x.ipsec import GROUPS  # noqa: PLC0415
    from caravan.threeways.policies import KEPT, RENEWED, RUNS  # noqa: PLC0415

    if "scenario" not in settings:
        raise StudyError.edit("scenario", "say which one, such as m1")
    known = {"tunnel": KEPT, "flows": YES}
    known |= {key: str(value) for key, value in settings.items() if key not in UNASKED}
    if devices is None and (idle := next((key for key in OF_DEVICES if key in settings), None)):
        raise StudyError.edit(idle, 'it counts with the axis "device" alone')
    if devices is not None:
        known = {"wep": computers.HARDWARE, **known}
    choices = {
        "tunnel": (KEPT, RENEWED),
        "proof": tuple(PROOFS),
        "group": GROUPS,
        "flows": (YES, NO),
        "wep": (computers.HARDWARE, computers.SOFTWARE),
    }
    for key, valid in choices.items():
        if key in known and known[key] not in valid:
            raise StudyError.edit(key, unknown(key, known[key], valid))
    if run.replications not in RUNS:
        what = f"must be one of {', '.join(map(str, RUNS))}, found {run.replications}"
        raise StudyError.edit("replications", what)
    if not SHORTEST_S <= run.seconds <= LONGEST_S:
        what = f"a flow takes {SHORTEST_S:g} s to {LONGEST_S:g} s, found {run.seconds:g} s"
        raise StudyError.edit("seconds", what)
    return {
        **known,
        **({} if devices is None else {"devices": devices}),
        "policy": str(policy),
        "link": link,
        "seconds": run.seconds,
        "runs": _runs(policy, run.replications, has_flows=known["flows"] == YES),
        "flows": known["flows"] == YES,
    }


def _runs(policy: Value, replications: int, *, has_flows: bool) -> int:
    """How often a cell's flows are measured: those of the policy on which all costs hang twice as
    often, unless once is enough for all."""
    from caravan.threeways.policies import RUNS  # noqa: PLC0415

    if policy != BASE or not has_flows or replications == 1:
        return replications
    return max(runs for runs in RUNS if runs <= 2 * replications)


def resolved(
    request: Mapping[str, Any], scenario: tuple[str, str], catalogue: Sequence[Text]
) -> tuple[dict[str, Any], list[dict[str, Any]], str]:
    """A request with all texts of its cell, the runs of the native core, and a hash of all that
    decides its results but the programs. `scenario`: file and text."""
    file, text = scenario
    read = _read_as(request, catalogue)
    base = {"file": file, "text": text, "catalogue": read}
    before = _common(request) + _transfer(request)
    first = {**base, "set": before}
    document = _resolved(first)
    computing = computers.edits(document["scenario"]["nodes"], request)
    if computing:
        document = _resolved({**first, "set": before + computing})
    own = document["scenario"]
    flow = next((one for one in own["flows"] if one["name"] == FLOW), None)
    if flow is None or own["nodes"][flow["from"]]["name"] != NODE:
        what = f'{own["name"]} has no flow "{FLOW}" of a station {NODE}'
        raise StudyError.edit("scenario", what)
    named = {name for name, _ in own["files"]}
    base["catalogue"] = [one for one in read if f"{one['kind']}/{one['name']}" in named]
    cell = {**request, **_facts(document, flow)}
    if computing:
        cell["bytes_alone"] = document["bytes_alone"]
    runs = [{**base, "set": edits + computing} for edits in _edits(cell)]
    content = canonical(
        {"cell": cell, "sets": [run["set"] for run in runs], "is": document["hash"]}
    )
    return {**cell, "run": runs[0]}, runs, hashlib.sha256(content.encode()).hexdigest()


def _resolved(request: Mapping[str, Any]) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(_lab.Scenario(canonical(request)).resolved())
    except _lab.Refusal as fault:
        raise StudyError.of(fault) from None
    return found


def _facts(document: Mapping[str, Any], flow: Mapping[str, Any]) -> dict[str, Any]:
    """What the files say of the node that a cell is about, and who it talks with."""
    from caravan.testbed.dot1x.scenarios import is_away  # noqa: PLC0415

    node, tunnels = flow["from"], document["graph"]["setup"]["tunnels"]
    return {
        "peer": document["scenario"]["nodes"][flow["to"]]["name"],
        "is_away": is_away(document, node),
        "has_ipsec": any(one["from"] == node for one in tunnels),
        "has_transport": bool(document["scenario"].get("transport")),
    }


def _read_as(request: Mapping[str, Any], catalogue: Sequence[Text]) -> list[Text]:
    """The texts with IKE's proof and group as a reading has them, in the file that the policy's
    layer `ipsec` names; a policy without one stays as it is."""
    proof, group = request.get("proof"), request.get("group")
    policies = {one["name"]: one for one in catalogue if one["kind"] == "policy"}
    if request["policy"] not in policies:
        raise StudyError.edit("policy", unknown("policy", request["policy"], sorted(policies)))
    own = policies[request["policy"]]
    layers = plain(own["file"], own["text"]).get("layer", [])
    name = next((one.get("policy") for one in layers if one.get("kind") == "ipsec"), None)
    if name is None or (proof is None and group is None):
        return list(catalogue)
    text = policies.get(name)
    if text is None or "keys" not in plain(text["file"], text["text"]):
        key = "group" if proof is None else "proof"
        raise StudyError.edit(key, f"{name}, which {own['name']} names, is no file with [keys]")
    for path in (("keys", "proof"), ("keys", "proposal"), ("suite",)):
        before = Item.parse(text["file"], text["text"]).find(path).value
        after = str(before)
        if path == ("keys", "proof"):
            after = PROOFS[proof] if proof else after
        elif group:
            after = GROUP.sub(f"-{group}", after)
        text = {**text, "text": _with(text, path, after)}
    return [text if one is policies[name] else one for one in catalogue]


def _with(text: Text, path: tuple[str, ...], value: str) -> str:
    """A text with another value at a key, everything else at its place."""
    at = Item.parse(text["file"], text["text"]).find(path)
    lines = text["text"].splitlines(keepends=True)
    line, start = lines[at.line - 1], at.column - 1
    pattern = rf"""({path[-1]}\s*=\s*)("[^"]*"|'[^']*')"""
    lines[at.line - 1] = line[:start] + re.sub(pattern, rf'\g<1>"{value}"', line[start:], count=1)
    changed = "".join(lines)
    with contextlib.suppress(_lab.Refusal):
        if Item.parse(text["file"], changed).find(path).value == value:
            return changed
    place = f"{text['file']}:{at.line}:{at.column}: {'.'.join(path)}"
    raise StudyError(f"{place}: write it as a text on one line, so that a reading can change it")


def _common(request: Mapping[str, Any]) -> list[str]:
    air = request["link"]
    name = WIRE if air is None else air["name"]
    return [f"policy={request['policy']}", *(f"link.{one}.link={name}" for one in AIRS)]


def _transfer(request: Mapping[str, Any]) -> list[str]:
    return [f"flow.{FLOW}.bytes={request['seconds'] * TCP_BYTES_S:.0f} B"]


def _edits(cell: Mapping[str, Any]) -> list[list[str]]:
    """What a cell sets in its scenario, for each run of the native core: a transfer by TCP, one or
    two runs of datagrams, and two of single ones, there and back. TLS protects none."""
    air, common = cell["link"], _common(cell)
    tcp = common + _transfer(cell)
    if not cell["flows"] or cell["has_transport"]:
        return [tcp]
    queue = None if air is None else plain(air["file"], air["text"]).get("queue")
    datagrams = [
        *_datagrams(FAST_RATE if air is None else RATE, PACKET_BYTES),
        "link.*.queue=128000 B",
        *(f"link.{one}.queue={queue}" for one in AIRS if queue is not None),
    ]
    lengths = [FAST_S] if air is None else [SETTLED_S, SETTLED_S + _more_s(cell)]
    there = [*common, *_datagrams(ECHO_RATE, ECHO_BYTES), f"run.time={ECHO_S:g} s"]
    back = [*there, f"flow.{FLOW}.from={cell['peer']}", f"flow.{FLOW}.to={NODE}"]
    streams = ([*common, *datagrams, f"run.time={length:g} s"] for length in lengths)
    return [tcp, *streams, there, back]


def _datagrams(rate: str, packet_bytes: int) -> list[str]:
    return [
        f"flow.{FLOW}.model=constant",
        f"flow.{FLOW}.bytes=",
        f"flow.{FLOW}.rate={rate}",
        f"flow.{FLOW}.sizes.model=fixed",
        f"flow.{FLOW}.sizes.bytes={packet_bytes} B",
    ]


def check(request: Mapping[str, Any]) -> None:
    """Refuse what the testbed cannot do, before anything runs."""
    from caravan.threeways.policies import Setting  # noqa: PLC0415

    if "devices" in request:
        raise StudyError.edit("grid", 'the testbed is this machine: it has no axis "device"')
    try:
        Setting.of(request)
    except (Refused, _lab.Refusal) as fault:
        raise StudyError.of(fault) from None


def computed(request: Mapping[str, Any], level: str, results: Sequence[bytes]) -> list[Measure]:
    """The metrics of a cell from runs of the native core."""
    answers = [json.loads(result) for result in results]
    if why := computers.unpriced(answers):
        missing = absent(request, level)
        priced = (metric for metric in _metrics(request) if metric not in missing)
        return [Measure(metric, None, reason=why) for metric in priced] + without(request, level)
    runs = [answer[level] for answer in answers]
    found = dict(_admitted(request, runs[0]))
    empty = computers.absent(request, answers[0][SIMULATED])
    empty = {f"{TOTAL}:{part}": why for part, why in empty.items() if found.get(f"{TOTAL}:{part}")}
    if empty:
        empty = {TOTAL: next(iter(empty.values())), **empty}
    if request["flows"]:
        found |= _carried(request, level, runs)
    whole = [
        Measure(metric, None, reason=empty[metric])
        if metric in empty
        else _counted(metric, value, request, level)
        for metric, value in found.items()
    ]
    return whole + without(request, level)


def without(request: Mapping[str, Any], level: str) -> list[Measure]:
    """The metrics of others that a cell has not at a level, each with the reason."""
    return [Measure(metric, None, reason=why) for metric, why in absent(request, level).items()]


def absent(request: Mapping[str, Any], level: str) -> dict[str, str]:
    """Why a cell has no value of a metric at a level, by metric."""
    found = {} if level == MEASURED else {f"{TOTAL}:port": NO_PORT}
    if not request["flows"]:
        return found
    if request["has_transport"]:
        return found | dict.fromkeys(OF_DATAGRAMS, NO_DATAGRAM)
    if level == SIMULATED and request["link"] is None:
        found["udp_bytes_s"] = NO_LIMIT
    return found


def _metrics(request: Mapping[str, Any]) -> Sequence[str]:
    """The metrics that a cell would have, but the parts of its authentication."""
    if not request["flows"]:
        return (TOTAL,)
    of_datagrams = () if request["has_transport"] else OF_DATAGRAMS
    return (TOTAL, "response_ms", "tcp_bytes_s", *of_datagrams)


def _counted(metric: str, value: float, request: Mapping[str, Any], level: str) -> Measure:
    """A metric; a simulated rate of datagrams is exact to one of them, and a response without the
    work of programs is the least."""
    if metric in RESPONSES and "devices" not in request:
        return Measure(metric, value, bound=LOWER)
    if (level, metric) != (SIMULATED, "udp_bytes_s"):
        return Measure(metric, value)
    step = DATA_BYTES / _more_s(request)
    return Measure(metric, value, max(0.0, value - step), value + step)


def _admitted(request: Mapping[str, Any], run: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The parts of the node's authentication. A tunnel that is kept on a roam takes no IKE, and
    changes none of the other parts: they come before it, and their messages go outside it."""
    from caravan.threeways.policies import KEPT  # noqa: PLC0415

    (own,) = (one for one in run["admitted"] if one["station"] == NODE)
    parts = {part: own[name] or 0.0 for part, name in PARTS.items()}
    if request["is_away"] and request["tunnel"] == KEPT:
        parts["ike"] = 0.0
    if own["transport_s"] is not None:
        parts["tls"] = own["transport_s"]
    yield TOTAL, sum(parts.values())
    for part, seconds in parts.items():
        yield f"{TOTAL}:{part}", seconds
    yield "discovery_s", own["discovery_s"] or 0.0


def _carried(
    request: Mapping[str, Any], level: str, runs: Sequence[Mapping[str, Any]]
) -> dict[str, float]:
    tcp, *rest = (_flow(run) for run in runs)
    streams, echoes = rest[:-ECHO_RUNS], rest[-ECHO_RUNS:]
    if level == "model":
        found = {
            "response_ms": tcp["response_s"] * 1e3,
            "tcp_bytes_s": tcp["throughput_bps"] / 8,
        }
        if streams:
            rate = streams[-1]["throughput_bps"] / 8
            found["udp_bytes_s"] = rate * DATA_BYTES / PACKET_BYTES
            found["udp_response_ms"] = echoes[0]["response_s"] * 1e3
        return found
    found = {
        "response_ms": tcp["transferred"]["connected_s"] * 1e3,
        "tcp_bytes_s": tcp["transferred"]["throughput_bps"] / 8,
    }
    if echoes:
        delays_s = (one["streamed"]["mean_delay_s"] for one in echoes)
        found["udp_response_ms"] = sum(delays_s) * 1e3
    if streams and request["link"] is not None:
        short, long = (one["streamed"]["received"] for one in streams)
        found["udp_bytes_s"] = (long - short) * DATA_BYTES / _more_s(request)
    return found


def _more_s(request: Mapping[str, Any]) -> float:
    whole_s = MORE_IPSEC_S if request["has_ipsec"] else MORE_S
    return whole_s * min(1.0, float(request["seconds"]) / WHOLE_S)


def _flow(run: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any]
    (found,) = (one for one in run["flows"] if one["name"] == FLOW)
    return found


class Measuring(measured.Measuring):
    """Networks stay for cells over the same air."""

    name = "wireless"

    def bed(self, output: Path) -> Beds:
        from caravan.threeways.policies import Beds  # noqa: PLC0415

        return Beds(output)

    def setting(self, request: Mapping[str, Any]) -> Setting:
        from caravan.threeways.policies import Setting  # noqa: PLC0415

        return Setting.of(request)

    def place(self, request: Mapping[str, Any]) -> str:
        return f"{request['policy']} in {request['scenario']}"


def costs(rows: Sequence[Row], sweeps: frozenset[str]) -> list[Row]:
    """What each policy of these sweeps costs: the throughput without security less its own, in the
    same scenario, over the same link, with the intervals of both."""
    place = {
        (row.sweep, row.reading, row.level, row.link, row.device, row.metric): row
        for row in rows
        if row.sweep in sweeps and row.policy == BASE and row.metric in COSTS
    }
    found = []
    for row in rows:
        if row.sweep not in sweeps or row.metric not in COSTS or row.policy == BASE:
            continue
        base = place.get((row.sweep, row.reading, row.level, row.link, row.device, row.metric))
        if base is None:
            continue
        if row.value is None or base.value is None:
            why = row.reason if row.value is None else base.reason
            found.append(_empty(row, why))
            continue
        cost = base.value - row.value
        ends = base.ci95_high, base.ci95_low, row.ci95_high, row.ci95_low
        low = high = None
        if None not in ends:
            half = (_half(base) ** 2 + _half(row) ** 2) ** 0.5
            low, high = cost - half, cost + half
        metric = COSTS[row.metric]
        # The difference of two rates that are at most so large may be more or less.
        own = replace(row, metric=metric, value=cost, ci95_low=low, ci95_high=high, bound="")
        found.append(own)
    return found


def _empty(row: Row, why: str | None) -> Row:
    own = replace(row, metric=COSTS[row.metric], value=None, bound="", reason=why)
    return replace(own, ci95_low=None, ci95_high=None)


def _half(row: Row) -> float:
    """The wider half of an interval: a median has two, and that of a mean is cut off at 0."""
    assert row.ci95_low is not None and row.ci95_high is not None and row.value is not None
    return max(row.ci95_high - row.value, row.value - row.ci95_low)
