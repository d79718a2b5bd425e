"""Two hosts on one wire, as in paper T: the request of a cell at three levels, and its metrics.

`model` is the native core's closed form (`caravan.study.datagrams`), `simulate` the study's
scenario `two-hosts` in the event kernel, `testbed` the real program at both ends
(`caravan.threeways.hosts`). All count what a datagram becomes on the wire.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from caravan.messages import unknown
from caravan.study import measured
from caravan.study.datagrams import (
    CLEAR,
    INSIDE,
    OUTSIDE,
    Hosts,
    Wire,
    has_packets,
    peak,
)
from caravan.study.metrics import Measure
from caravan.study.parsed import Run
from caravan.study.results import Row
from caravan.study.text import StudyError, Value
from caravan.study.tunnel import COMPLETE

if TYPE_CHECKING:
    from caravan.threeways.hosts import Bed, Setting

SCENARIO, FLOW, LINK = "two-hosts", "data", "wire"
ENDS = ("client", "target")
DATAGRAMS, UDP, TCP = "datagrams", "udp", "tcp"
FLOWS = (DATAGRAMS, UDP, TCP)
SLEEPS, SPINS = "sleeps", "spins"
PACES = (SLEEPS, SPINS)
AS_WHOLE, OWN = "whole", "own"
"""The MTU of the program's device: more than every datagram, or what the program gives it."""
DATA_MIN, DATA_MAX = 16, 8000
HEADERS_BYTES = 28
SHORTEST_S, LONGEST_S = 0.2, 60.0
GAP_S = 1e-5
"""Between simulated datagrams: faster than any of these hosts and links."""
SIMULATED = (100, 300)
"""Datagrams of the two simulated runs."""
TCP_BYTES = 8_000_000
PEAK, WHOLE = "peak_bytes", "whole_bytes"


def request(
    settings: Mapping[str, Value],
    point: Mapping[str, Value],
    texts: Mapping[str, Mapping[str, str] | None],
    run: Run,
) -> dict[str, Any]:
    """A cell's request; an error names the key of the sweep that is to blame.

    `texts` has those of `policy`, `link` and `device`; None: no protection, no limit, no time.
    """
    from caravan.threeways.cases import QUANTILES  # noqa: PLC0415

    known = {"flow": DATAGRAMS, "cuts": INSIDE, "device_mtu": AS_WHOLE, "pace": SLEEPS}
    known |= {key: str(value) for key, value in settings.items() if key != "offered_mbit_s"}
    for key, valid in (
        ("flow", FLOWS),
        ("cuts", (INSIDE, OUTSIDE)),
        ("device_mtu", (AS_WHOLE, OWN)),
        ("pace", PACES),
    ):
        if known[key] not in valid:
            raise StudyError.edit(key, unknown(key, known[key], valid))
    size = point.get("packet_bytes")
    if (size is None) != (known["flow"] == TCP):
        what = "datagrams have a size, and TCP makes packets of its own"
        raise StudyError.edit("packet_bytes", what)
    if size is not None and not DATA_MIN <= float(size) <= DATA_MAX:
        what = f"a datagram has {DATA_MIN} to {DATA_MAX} bytes of data, found {float(size):g}"
        raise StudyError.edit("packet_bytes", what)
    runs = (1, *QUANTILES)
    if run.replications not in runs:
        what = f"must be one of {', '.join(map(str, runs))}, found {run.replications}"
        raise StudyError.edit("replications", what)
    if not SHORTEST_S <= run.seconds <= LONGEST_S:
        what = f"a flow takes {SHORTEST_S:g} s to {LONGEST_S:g} s, found {run.seconds:g} s"
        raise StudyError.edit("seconds", what)
    if known["flow"] == TCP and run.seconds != int(run.seconds):
        what = f"TCP takes whole seconds, found {run.seconds:g} s"
        raise StudyError.edit("seconds", what)
    return {
        **known,
        "offered_mbit_s": _offered(settings),
        "data_bytes": None if size is None else int(float(size)),
        "seconds": run.seconds,
        "runs": run.replications,
        **texts,
    }


def _offered(settings: Mapping[str, Value]) -> float | None:
    value = settings.get("offered_mbit_s")
    if value is None:
        return None
    if isinstance(value, str) or value <= 0:
        raise StudyError.edit("offered_mbit_s", f"must be a rate above 0, found {value!r}")
    return float(value)


def edits(request: Mapping[str, Any]) -> list[list[str]]:
    """What a cell sets in the scenario, for each run of the event kernel: a transfer by TCP, or two
    runs of datagrams that come faster than they leave."""
    policy, link, device = (request[key] for key in ("policy", "link", "device"))
    common = [f"policy={CLEAR if policy is None else policy['name']}"]
    if link is not None:
        common.append(f"link.{LINK}.link={link['name']}")
    if device is not None:
        common += [f"node.{end}.device={device['name']}" for end in ENDS]
    if request["flow"] == TCP:
        return [
            [
                *common,
                "run.time=120 s",
                f"flow.{FLOW}.model=tcp",
                f"flow.{FLOW}.bytes={TCP_BYTES} B",
                f"flow.{FLOW}.rate=",
                f"flow.{FLOW}.sizes=",
            ]
        ]
    packet = request["data_bytes"] + HEADERS_BYTES
    return [
        [
            *common,
            f"run.time={number * GAP_S * 1e3:g} ms",
            f"flow.{FLOW}.rate={packet * 8e-3 / GAP_S:.6f} kbit/s",
            f"flow.{FLOW}.sizes.bytes={packet} B",
        ]
        for number in SIMULATED
    ]


def wire(scenario: Mapping[str, Any]) -> Wire:
    """The link between the hosts in a resolved scenario."""
    (link,) = (one for one in scenario["links"] if one["name"] == LINK)
    return Wire(link["rate"]["up_bps"], link["overhead_bytes"], int(link["mtu_bytes"]))


def is_bound(request: Mapping[str, Any]) -> bool:
    """Whether only the bytes of the work have a cost."""
    policy, device = request["policy"], request["device"]
    return policy is not None and device is not None and not has_packets(device)


def modelled(request: Mapping[str, Any], wire: Wire) -> list[Measure]:
    """The closed forms of a cell."""
    hosts = Hosts(request["policy"], request["device"], wire, request["cuts"])
    size, offered = request["data_bytes"], request["offered_mbit_s"]
    load = hosts.segment(offered) if size is None else hosts.datagram(size, offered)
    values = {
        "wire_packets": len(load.wired),
        "wire_bytes": sum(load.wired),
        "link_mbit_s": load.link_mbit_s,
        "data_mbit_s": load.data_mbit_s,
        "cpu_mbit_s": load.cpu_mbit_s,
        "cycles_byte": load.cycles_byte,
        "cpu_percent": load.cpu_percent,
    }
    return [Measure(name, value) for name, value in values.items() if value is not None]


def simulated(request: Mapping[str, Any], wire: Wire, results: Sequence[bytes]) -> list[Measure]:
    """The metrics of a cell from runs of the event kernel."""
    runs = [json.loads(result)["simulate"] for result in results]
    if not all(run["flows"] for run in runs):
        raise StudyError(f"{SCENARIO}: the tunnel does not come up")
    if request["flow"] == TCP:
        moved = runs[0]["flows"][0]["transferred"]
        return [Measure("data_mbit_s", moved["throughput_bps"] / 1e6, state=COMPLETE)]
    counts = [_counted(run) for run in runs]
    short, long = counts
    # Each waits for all before it: the mean wait grows by half of what one takes for each more.
    more = long.sent - short.sent
    taken_s = GAP_S + 2 * (long.mean_delay_s - short.mean_delay_s) / more
    size = request["data_bytes"]
    bits = (long.wire_bytes + long.wire_packets * wire.overhead_bytes) * 8
    values = {
        "wire_packets": long.wire_packets,
        "wire_bytes": long.wire_bytes,
        "link_mbit_s": size * 8e-6 * wire.rate_bps / bits,
        "data_mbit_s": size * 8e-6 / taken_s,
    }
    return [Measure(name, value, state=COMPLETE) for name, value in values.items()]


@dataclass(frozen=True)
class _Counted:
    """A simulated run: its datagrams, and what each of them was on the wire."""

    sent: int
    mean_delay_s: float
    wire_packets: int
    wire_bytes: int


def _counted(run: Mapping[str, Any]) -> _Counted:
    (streamed,) = (one["streamed"] for one in run["flows"])
    (link,) = (one["up"] for one in run["links"] if one["name"] == LINK)
    sent = streamed["sent"]
    packets, rest = divmod(link["delivered"], sent)
    size, rest_bytes = divmod(link["delivered_bytes"], sent)
    if streamed["received"] != sent or rest or rest_bytes:
        said = f"{streamed['received']} of {sent} datagrams came, in {link['delivered']} packets"
        raise StudyError(f"{SCENARIO}: {said}")
    return _Counted(sent, streamed["mean_delay_s"], packets, size)


class Measuring(measured.Measuring):
    """Two hosts stay for cells of the same policy."""

    name = "hosts"

    def bed(self, output: Path) -> Bed:
        from caravan.threeways.hosts import Bed  # noqa: PLC0415

        return Bed(output)

    def setting(self, request: Mapping[str, Any]) -> Setting:
        from caravan.threeways.hosts import Setting  # noqa: PLC0415

        return Setting.of(request)

    def place(self, request: Mapping[str, Any]) -> str:
        return str(CLEAR if request["policy"] is None else request["policy"]["name"])


def peaks(rows: Iterable[Row], sweeps: frozenset[str]) -> list[Row]:
    """Of each policy in sweeps over sizes: the datagram that the wire carries fastest, and the
    largest one that is one packet."""
    groups: dict[tuple[object, ...], dict[str, dict[int, Row]]] = {}
    for row in rows:
        is_here = row.sweep in sweeps and row.packet_bytes is not None and row.value is not None
        if is_here and row.metric in ("link_mbit_s", "wire_packets"):
            place = (row.sweep, row.reading, row.level, row.policy, row.device, row.link)
            found = groups.setdefault(place, {}).setdefault(row.metric, {})
            found[int(row.packet_bytes or 0)] = row
    return [row for group in groups.values() for row in _of_sizes(group)]


def _of_sizes(group: Mapping[str, Mapping[int, Row]]) -> Iterator[Row]:
    counts, rates = group["wire_packets"], group.get("link_mbit_s", {})
    if len(counts) < 2:
        return
    first = replace(next(iter(counts.values())), packet_bytes=None, unit="bytes")
    if rates:  # without a limit there are none
        highest = peak({size: row.value or 0.0 for size, row in rates.items()})
        yield replace(first, metric=PEAK, value=float(highest))
    whole = [size for size, row in counts.items() if row.value == 1]
    if whole and len(whole) < len(counts):
        yield replace(first, metric=WHOLE, value=float(max(whole)))
