"""The policies and scenarios of paper P at three levels: the request of a cell, and its metrics.

`testbed` measures with the real programs in namespaces (`caravan.threeways.policies`). `model` and
`simulate` come from the native core, which has the study's scenario of the same name under the
study's policy of the same name; there computing takes no time, and what this machine takes is added
to the parts of an authentication (`prices`). Left out there: a tunnel that was kept on a roam.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from caravan.messages import unknown
from caravan.study.metrics import Measure
from caravan.study.parsed import Run
from caravan.study.results import Row
from caravan.study.text import StudyError, Value

if TYPE_CHECKING:
    from caravan.threeways.policies import Beds

BASE = "pn-1"
"""The policy without security, against which costs are counted."""
COSTS = {"tcp_bytes_s": "tcp_cost_bytes_s", "udp_bytes_s": "udp_cost_bytes_s"}
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
AIRS, WIRE = ("air1", "air2"), "ethernet-100"
"""The links of access points, and what they are where the air is no limit: as their wires."""
RATE, FAST_RATE = "8 Mbit/s", "120 Mbit/s"
"""More than the air of 802.11b carries, and more than a wire."""
FAST_S = 0.05
"""Of datagrams over wires alone, which only the model has: nothing keeps simulated ones back, and
what overflows on a wire that they pass twice is lost."""
PARTS = {
    "start": "eap_start_s",
    "eap": "eap_s",
    "registration": "registration_s",
    "ike": "tunnel_s",
}
"""The native core's names of the parts of an authentication."""


def request(
    settings: Mapping[str, Value], policy: Value, link: Mapping[str, str] | None, run: Run
) -> dict[str, Any]:
    """A cell's request; an error names the key of the sweep that is to blame.

    `link`: what the air carries; None: it is no limit.
    """
    from caravan.testbed.dot1x.ipsec import GROUPS  # noqa: PLC0415
    from caravan.testbed.dot1x.policies import POLICIES  # noqa: PLC0415
    from caravan.testbed.dot1x.subnets import SCENARIOS  # noqa: PLC0415
    from caravan.threeways.policies import KEPT, RENEWED, RUNS  # noqa: PLC0415

    scenarios = tuple(one.name for one in SCENARIOS)
    if "scenario" not in settings:
        raise StudyError.edit("scenario", f"say which one: {', '.join(scenarios)}")
    known = {"tunnel": KEPT, "proof": "psk", "group": GROUPS[-1], "flows": YES}
    known |= {key: str(value) for key, value in settings.items() if key != "prices"}
    for key, value, valid in (
        ("policy", str(policy), tuple(POLICIES)),
        ("scenario", known["scenario"], scenarios),
        ("tunnel", known["tunnel"], (KEPT, RENEWED)),
        ("proof", known["proof"], ("psk", "rsa")),
        ("group", known["group"], GROUPS),
        ("flows", known["flows"], (YES, NO)),
    ):
        if value not in valid:
            raise StudyError.edit(key, unknown(key, value, valid))
    if run.replications not in RUNS:
        what = f"must be one of {', '.join(map(str, RUNS))}, found {run.replications}"
        raise StudyError.edit("replications", what)
    if not SHORTEST_S <= run.seconds <= LONGEST_S:
        what = f"a flow takes {SHORTEST_S:g} s to {LONGEST_S:g} s, found {run.seconds:g} s"
        raise StudyError.edit("seconds", what)
    return {
        **known,
        "policy": str(policy),
        "link": link,
        "seconds": run.seconds,
        "runs": run.replications,
        "flows": known["flows"] == YES,
    }


def edits(request: Mapping[str, Any]) -> list[list[str]]:
    """What a cell sets in its scenario, for each run of the native core: a transfer by TCP and two
    runs of datagrams. TLS protects none."""
    from caravan.testbed.dot1x.policies import POLICIES  # noqa: PLC0415

    air = request["link"]
    name = WIRE if air is None else air["name"]
    common = [f"policy={request['policy']}", *(f"link.{one}.link={name}" for one in AIRS)]
    tcp = [f"flow.{FLOW}.bytes={request['seconds'] * TCP_BYTES_S:.0f} B"]
    if not request["flows"] or POLICIES[request["policy"]].transport:
        return [common + tcp]
    datagrams = [
        f"flow.{FLOW}.model=constant",
        f"flow.{FLOW}.bytes=",
        f"flow.{FLOW}.rate={FAST_RATE if air is None else RATE}",
        f"flow.{FLOW}.sizes.model=fixed",
        f"flow.{FLOW}.sizes.bytes={PACKET_BYTES} B",
        "link.*.queue=128000 B",
    ]
    lengths = [FAST_S] if air is None else [SETTLED_S, SETTLED_S + _more_s(request)]
    runs = ([*common, *datagrams, f"run.time={length:g} s"] for length in lengths)
    return [common + tcp, *runs]


def computed(request: Mapping[str, Any], level: str, results: Sequence[bytes]) -> list[Measure]:
    """The metrics of a cell from runs of the native core."""
    runs = [json.loads(result)[level] for result in results]
    found = dict(_admitted(request, runs[0]))
    if request["flows"]:
        found |= _carried(request, level, runs)
    return [_counted(metric, value, request, level) for metric, value in found.items()]


def _counted(metric: str, value: float, request: Mapping[str, Any], level: str) -> Measure:
    """A metric; a simulated rate of datagrams is exact to one of them."""
    if (level, metric) != ("simulate", "udp_bytes_s"):
        return Measure(metric, value)
    step = DATA_BYTES / _more_s(request)
    return Measure(metric, value, max(0.0, value - step), value + step)


def _admitted(request: Mapping[str, Any], run: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The parts of the node's authentication; none if its tunnel was kept on a roam: the core lets
    a node come without one."""
    from caravan.testbed.dot1x.subnets import SCENARIOS  # noqa: PLC0415
    from caravan.threeways.policies import KEPT  # noqa: PLC0415

    (own,) = (one for one in run["admitted"] if one["station"] == NODE)
    (is_roaming,) = (one.is_roaming for one in SCENARIOS if one.name == request["scenario"])
    if is_roaming and own["tunnel_s"] is not None and request["tunnel"] == KEPT:
        return
    parts = {part: own[name] or 0.0 for part, name in PARTS.items()}
    if own["transport_s"] is not None:
        parts["tls"] = own["transport_s"]
    yield "authentication_s", sum(parts.values())
    for part, seconds in parts.items():
        yield f"authentication_s:{part}", seconds
    yield "discovery_s", own["discovery_s"] or 0.0


def _carried(
    request: Mapping[str, Any], level: str, runs: Sequence[Mapping[str, Any]]
) -> dict[str, float]:
    tcp, *streams = (_flow(run) for run in runs)
    if level == "model":
        found = {
            "response_ms": tcp["response_s"] * 1e3,
            "tcp_bytes_s": tcp["throughput_bps"] / 8,
        }
        if streams:
            rate = streams[-1]["throughput_bps"] / 8
            found["udp_bytes_s"] = rate * DATA_BYTES / PACKET_BYTES
        return found
    found = {
        "response_ms": tcp["transferred"]["connected_s"] * 1e3,
        "tcp_bytes_s": tcp["transferred"]["throughput_bps"] / 8,
    }
    if streams and request["link"] is not None:
        short, long = (one["streamed"]["received"] for one in streams)
        found["udp_bytes_s"] = (long - short) * DATA_BYTES / _more_s(request)
    return found


def _more_s(request: Mapping[str, Any]) -> float:
    from caravan.testbed.dot1x.policies import POLICIES  # noqa: PLC0415

    return MORE_IPSEC_S if POLICIES[request["policy"]].integrity else MORE_S


def _flow(run: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any]
    (found,) = (one for one in run["flows"] if one["name"] == FLOW)
    return found


class Measuring:
    """Measures cells one after the other in a network that stays; a context manager."""

    def __init__(self) -> None:
        self._running = contextlib.ExitStack()
        self._beds: Beds | None = None

    def result(self, request: Mapping[str, Any]) -> bytes:
        """The result of a cell; the process must have entered a private namespace."""
        from caravan.testbed import NamespaceError  # noqa: PLC0415
        from caravan.testbed.folders import temporary_folder  # noqa: PLC0415
        from caravan.threeways.policies import Beds, Setting  # noqa: PLC0415

        try:
            if self._beds is None:
                output = self._running.enter_context(temporary_folder("caravan-wireless-"))
                self._beds = self._running.enter_context(Beds(output))
            return json.dumps(self._beds.measure(Setting.of(request))).encode()
        except (NamespaceError, OSError, ValueError) as fault:
            place = f"{request['policy']} in {request['scenario']}"
            raise StudyError(f"--level testbed: {place}: {fault}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()


def costs(rows: Sequence[Row], sweeps: frozenset[str]) -> list[Row]:
    """What each policy of these sweeps costs: the throughput without security less its own, in the
    same scenario, over the same link, with the intervals of both."""
    place = {
        (row.sweep, row.reading, row.level, row.link, row.metric): row
        for row in rows
        if row.sweep in sweeps and row.policy == BASE and row.metric in COSTS
    }
    found = []
    for row in rows:
        if row.sweep not in sweeps or row.metric not in COSTS or row.policy == BASE:
            continue
        base = place.get((row.sweep, row.reading, row.level, row.link, row.metric))
        if base is None or base.value is None or row.value is None:
            continue
        cost = base.value - row.value
        ends = base.ci95_high, base.ci95_low, row.ci95_high, row.ci95_low
        low = high = None
        if None not in ends:
            half = (_half(base) ** 2 + _half(row) ** 2) ** 0.5
            low, high = cost - half, cost + half
        metric = COSTS[row.metric]
        found.append(replace(row, metric=metric, value=cost, ci95_low=low, ci95_high=high))
    return found


def _half(row: Row) -> float:
    """Half of an interval; above its value, because it is cut off at 0 below."""
    assert row.ci95_high is not None and row.value is not None
    return row.ci95_high - row.value
