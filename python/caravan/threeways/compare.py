"""One scenario at three levels, side by side: computed, simulated, and run in namespaces.

`python -m caravan.threeways [SCENARIO] [--set KEY=VALUE]` brings the scenario's tunnel up and uses
it at each level, and prints the same metrics of all three with their differences. `model` and
`simulate` are the event kernel's; `testbed` runs the real program, with ping and the scenario's own
traffic. Left out of the testbed: devices, because a namespace computes as fast as this machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from caravan.lab import core
from caravan.testbed import NamespaceError, enter
from caravan.testbed.capture import read_pcap
from caravan.testbed.host import Host
from caravan.testbed.traffic import ping
from caravan.threeways import flows
from caravan.threeways.bed import Bed, Setting, running
from caravan.threeways.levels import Metrics, computed, simulated
from caravan.threeways.measurement import SIZES_BYTES, handshake_ms, wire_size

NAMES = (
    "handshake_ms",
    "handshake_messages",
    "handshake_bytes",
    *(f"wire_bytes_{size}" for size in SIZES_BYTES),
    "rtt_ms",
    "tcp_kbps",
    "datagrams",
)
ROUND_TRIPS = 20
ECHO_INTERVALS_S = 0.01, 0.2
"""The least and the most between two echo requests."""


@dataclass(frozen=True)
class Measured:
    """What the testbed measured; `cut` says what is missing of a transfer that time ended."""

    metrics: Metrics
    cut: str | None


@dataclass(frozen=True)
class Levels:
    """A scenario's metrics at each level; `testbed` is None if it was not run.

    `notes` are remarks on the figures.
    """

    scenario: Mapping[str, Any]
    model: Metrics
    simulate: Metrics
    testbed: Metrics | None
    notes: tuple[str, ...]

    def difference(self, name: str, level: str) -> float | None:
        """The difference of a level from `simulate`, relative to that level."""
        other = getattr(self, level) or {}
        ours, theirs = self.simulate.get(name), other.get(name)
        return ours / theirs - 1 if ours is not None and theirs else None


def three_ways(setting: Setting, output: Path, *, runs_testbed: bool = True) -> Levels:
    """Every level of a scenario; captures and logs go to `output`."""
    output.mkdir(parents=True, exist_ok=True)
    if runs_testbed:
        setting.check_testbed()
    answer = core.kernel(setting.opened, output / "simulate.pcapng")
    measured = testbed(setting, output / "testbed") if runs_testbed else None
    return Levels(
        setting.scenario,
        computed(answer["model"]),
        simulated(answer["simulate"]),
        measured.metrics if measured else None,
        (
            *_notes(answer["simulate"], answer["resolved"]["bytes_alone"]),
            *((f"testbed: tcp_kbps: {measured.cut}",) if measured and measured.cut else ()),
        ),
    )


def _notes(outcome: Mapping[str, Any], bytes_alone: Sequence[str]) -> tuple[str, ...]:
    notes = [f"simulate: {outcome['unpriced']}"] if outcome["unpriced"] else []
    if bytes_alone:
        names = ", ".join(bytes_alone)
        notes.append(
            f"lower bound in model and simulate: {names} has a cost per byte but none per packet"
        )
    if outcome["exchange"] is not None:
        notes += [f"simulate: {failure}" for failure in outcome["exchange"]["failures"]]
    for drop in outcome["drops"]:
        notes.append(f"simulate: {drop['place']} dropped {drop['packets']}: {drop['reason']}")
    if (moved := outcome["transferred"]) and not moved["is_complete"]:
        said = flows.cut_text(moved["received_bytes"], moved["bytes"])
        notes.append(f"simulate: tcp_kbps: {said}")
    cut = outcome["streamed"] and outcome["streamed"]["cut"]
    if cut and cut["packets"]:
        notes.append(
            f"simulate: real packets are cut at {cut['limit_bytes']} bytes: {cut['packets']} were; "
            f"their mean is {cut['sent_mean_bytes']:.2f} instead of {cut['asked_mean_bytes']:.2f}"
        )
    return tuple(notes)


def testbed(setting: Setting, output: Path) -> Measured:
    """A scenario, a chain, with the real program in namespaces.

    Nothing in a chain moves, so what the kernel refuses to the flow is a `NamespaceError`.
    """
    metrics: Metrics = dict.fromkeys(NAMES)
    with running(setting, output) as bed:
        metrics |= _handshake(bed)
        metrics |= _probed(bed, output)
        (flow,) = flows.run(bed, output)
    if flow.refused:
        raise NamespaceError(f"flow {flow.name}: {'; '.join(map(str, flow.refused))}")
    metrics["tcp_kbps"] = flow.kbps
    if setting.departures[0] is not None:
        metrics["datagrams"] = flow.received
    return Measured(metrics, flow.shortfall)


def _handshake(bed: Bed) -> Metrics:
    """Of the key exchange; nothing in clear.

    `handshake_bytes` are octets of the IP packets that the station's link carried, as they are at
    the other levels: payload with markers and headers of fragments, UDP and IP. The program's own
    log has no part in it.
    """
    if not bed.stations:
        return {}
    (station,) = bed.stations.values()
    assert bed.arrival is not None, "a chain"
    carried = [frame for frame in read_pcap(bed.arrival) if frame.is_handshake]
    return {
        "handshake_ms": handshake_ms(station),
        "handshake_messages": len(station.handshake()),
        "handshake_bytes": sum(len(frame.packet) for frame in carried),
    }


def _probed(bed: Bed, output: Path) -> Metrics:
    """By pings: sizes on the link to the gateway, or without one on the last link, and delay."""
    graph, aim = bed.setting.graph, bed.setting.setup["flows"][0]
    roles = [node["role"] for node in bed.setting.scenario["nodes"]]
    end = roles.index("gateway") if "gateway" in roles else len(roles) - 1
    outer = next(index for index, link in enumerate(graph["links"]) if link["far"] == end)
    station = bed.network.node(aim["station"])
    metrics: Metrics = {}
    for size in SIZES_BYTES:
        metrics[f"wire_bytes_{size}"] = wire_size(
            station,
            bed.network.links[outer],
            graph["addresses"][end],
            (aim["server_address"], size),
            output / f"wire-{size}.pcap",
            is_clear=not bed.stations,
        )
    metrics["rtt_ms"] = _round_trip_ms(station, aim["server_address"])
    return metrics


def _round_trip_ms(station: Host, address: str) -> float:
    """The mean of echoes that each have the path for themselves."""
    least_s, most_s = ECHO_INTERVALS_S
    first = ping(station, address, 1)
    interval_s = max(least_s, 2 * first.mean_ms / 1e3) if first.received else most_s
    return ping(station, address, ROUND_TRIPS, min(interval_s, most_s)).mean_ms


def table(levels: Levels) -> Table:
    """The metrics side by side."""
    shown = Table(box=box.SIMPLE, pad_edge=False)
    shown.add_column("metric")
    for name in ("model", "simulate", "testbed", "to model", "to testbed"):
        shown.add_column(name, justify="right")
    for name in NAMES:
        values = [
            _number((level or {}).get(name))
            for level in (levels.model, levels.simulate, levels.testbed)
        ]
        differences = [levels.difference(name, level) for level in ("model", "testbed")]
        texts = ["-" if value is None else f"{value:+.1%}" for value in differences]
        shown.add_row(name, *values, *texts)
    return shown


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value == round(value) else f"{value:,.2f}"


def main(
    scenario: Annotated[str, typer.Argument(help="a file or a name of the catalogue")] = "road",
    edits: Annotated[list[str] | None, typer.Option("--set", help="KEY=VALUE")] = None,
    output: Annotated[Path, typer.Option("-o", help="folder for captures and logs")] = Path(
        "threeways-out"
    ),
    skip_testbed: Annotated[bool, typer.Option(help="model and simulate only")] = False,
) -> None:
    """Show one scenario at three levels."""
    console = Console(highlight=False)
    question = core.Question(scenario, tuple(edits or ()))
    try:
        if not skip_testbed:
            enter()
        setting = Setting.of(question.request())
        if setting.is_graph:
            _two_ways(console, setting, output.resolve(), runs_testbed=not skip_testbed)
            return
        levels = three_ways(setting, output.resolve(), runs_testbed=not skip_testbed)
    except (ValueError, OSError, NamespaceError) as fault:
        console.print(str(fault), style="red", markup=False)
        raise typer.Exit(2) from None
    console.print(f"{levels.scenario['title']}\n", style="bold", markup=False)
    console.print(table(levels))
    for note in levels.notes:
        console.print(note, markup=False)


def _two_ways(console: Console, setting: Setting, output: Path, *, runs_testbed: bool) -> None:
    """Print a graph's flows and links, simulated and run."""
    simulate, measured = flows.two_ways(setting, output, runs_testbed=runs_testbed)
    console.print(f"{setting.scenario['title']}\n", style="bold", markup=False)
    shown = Table(box=box.SIMPLE, pad_edge=False)
    shown.add_column("flow, link")
    for name in ("simulate", "testbed", "missing, simulate", "missing, testbed"):
        shown.add_column(name, justify="right")
    for index, flow in enumerate(simulate.flows):
        both = [flow, *((measured.flows[index],) if measured else ())]
        came = [f"{one.received:,} of {one.sent:,}" for one in both]
        blank = [] if measured else ["-"]
        shown.add_row(flow.name, *came, *blank, *(_gaps(one.gaps) for one in both))
    for name, counts in simulate.link_bytes.items():
        for way, direction in enumerate(("up", "down")):
            other = f"{measured.link_bytes[name][way]:,}" if measured else "-"
            shown.add_row(f"{name} {direction}, delivered bytes", f"{counts[way]:,}", other)
    console.print(shown)
    for name, level in (("simulate", simulate), ("testbed", measured)):
        for note in level.notes if level else ():
            console.print(f"{name}: {note}", markup=False)


def _gaps(gaps: Sequence[tuple[int, int]]) -> str:
    return ", ".join(f"{first} to {last}" for first, last in gaps)
