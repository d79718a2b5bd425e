"""One scenario at three levels, side by side: computed, simulated, and run in namespaces.

`python -m caravan.threeways [SCENARIO] [--set KEY=VALUE]` sets up the scenario's tunnel and uses it
at each level, and prints the same metrics of all three with their differences. `model` and
`simulate` are the event kernel's; `testbed` runs the real program, iperf3 and ping. The testbed
leaves out devices, because a namespace computes as fast as this machine.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from caravan.lab import core
from caravan.testbed import Road, RoadPlan, enter
from caravan.testbed.caravan import Caravan
from caravan.testbed.connection import Connection
from caravan.testbed.graph import NotForTestbed, check_link, relay_plan
from caravan.testbed.host import Host
from caravan.testbed.pki import passing_folder
from caravan.testbed.road import GATEWAY_ADDRESS, SERVER_ADDRESS
from caravan.testbed.traffic import iperf_server, ping
from caravan.threeways import flows
from caravan.threeways.ends import policy_ends
from caravan.threeways.levels import Metrics, computed, simulated
from caravan.threeways.measurement import SIZES_BYTES, Keys, handshake_ms, wire_size

NAMES = (
    "handshake_ms",
    "handshake_messages",
    "handshake_bytes",
    *(f"wire_bytes_{size}" for size in SIZES_BYTES),
    "rtt_ms",
    "tcp_kbps",
)
ROUND_TRIPS = 20
DATAGRAM_HEADERS_BYTES = 28
SHAPELESS = "only the link to the gateway has a shape in the testbed"
LAN_MTU_BYTES = 1500
LAN_BPS_MIN = 100e6
"""Links other than the one to the gateway are bare in the testbed, so they must not be the limit.
"""
TRANSFER_TIMEOUT_S = 600.0


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


def three_ways(question: core.Question, output: Path, *, runs_testbed: bool = True) -> Levels:
    """Every level of a scenario; captures and logs go to `output`."""
    output.mkdir(parents=True, exist_ok=True)
    answer = core.kernel(question, output / "simulate.pcapng")
    resolved = answer["resolved"]
    scenario = resolved["scenario"]
    measured = testbed(scenario, output / "testbed") if runs_testbed else None
    return Levels(
        scenario,
        computed(answer["model"]),
        simulated(answer["simulate"]),
        measured,
        _notes(answer["simulate"], resolved["bytes_alone"]),
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
    cut = outcome["streamed"] and outcome["streamed"]["cut"]
    if cut and cut["packets"]:
        notes.append(
            f"simulate: real packets are cut at {cut['limit_bytes']} bytes: {cut['packets']} were; "
            f"their mean is {cut['sent_mean_bytes']:.2f} instead of {cut['asked_mean_bytes']:.2f}"
        )
    return tuple(notes)


def testbed(scenario: Mapping[str, Any], output: Path) -> Metrics:
    """The scenario with the real program in namespaces."""
    plan = road_plan(scenario)
    transfer = scenario["traffic"]["model"]
    output.mkdir(parents=True, exist_ok=True)
    is_up = scenario["traffic"]["direction"] == "up"
    with contextlib.ExitStack() as stack:
        keys = Keys.make(stack.enter_context(passing_folder(output)))
        ends = policy_ends(keys, scenario["policy"])
        address = SERVER_ADDRESS if ends[0].mode == "tunnel" else GATEWAY_ADDRESS
        road = stack.enter_context(Road(plan, output))
        station = stack.enter_context(_connected(road, ends))
        metrics: Metrics = dict.fromkeys(NAMES)
        if station is not None:
            messages = station.handshake()
            metrics["handshake_ms"] = handshake_ms(station)
            metrics["handshake_messages"] = len(messages)
            metrics["handshake_bytes"] = sum(
                message.size_bytes + DATAGRAM_HEADERS_BYTES * message.datagrams
                for message in messages
            )
        for size in SIZES_BYTES:
            is_clear = station is None
            path = output / f"wire-{size}.pcap"
            metrics[f"wire_bytes_{size}"] = wire_size(road, address, size, path, is_clear)
        metrics["rtt_ms"] = ping(road.ms, address, ROUND_TRIPS).mean_ms
        metrics["tcp_kbps"] = transfer_kbps(
            road.ms, road.server, address, transfer["bytes"], is_up=is_up
        )
    return metrics


def road_plan(scenario: Mapping[str, Any]) -> RoadPlan:
    """The testbed's network for a scenario; `NotForTestbed` if it would differ."""
    kind = scenario["traffic"]["model"]["kind"]
    if kind != "tcp":
        raise NotForTestbed("traffic.model", f"{kind}: the testbed transfers by tcp")
    nodes, links = scenario["nodes"], scenario["links"]
    roles = [node["role"] for node in nodes]
    if roles not in (["station", "nat", "gateway", "server"], ["station", "gateway", "server"]):
        raise NotForTestbed("node", f"the testbed has ms - (nat -) sg - server, not {roles}")
    outer = roles.index("gateway") - 1
    for index, link in enumerate(links):
        named = f"link.{nodes[index]['name']}"
        check_link(link, named)
        if index == outer:
            continue
        if min(link["rate"].values()) < LAN_BPS_MIN:
            raise NotForTestbed(f"{named}.rate", SHAPELESS)
        for key in ("delay_s", "loss", "queue_bytes"):
            if link[key]:
                raise NotForTestbed(f"{named}.{key.partition('_')[0]}", SHAPELESS)
        if link["mtu_bytes"] not in (None, LAN_MTU_BYTES):
            raise NotForTestbed(f"{named}.mtu", SHAPELESS)
    timeouts = [node["udp_timeout_s"] for node in nodes if node["role"] == "nat"]
    return RoadPlan(
        has_nat="nat" in roles,
        mtu_bytes=int(links[outer]["mtu_bytes"] or LAN_MTU_BYTES),
        udp_timeout_s=round(timeouts[0]) if timeouts and timeouts[0] else None,
        link=relay_plan(links[outer], f"link.{nodes[outer]['name']}"),
    )


@contextlib.contextmanager
def _connected(road: Road, ends: tuple[Connection, Connection | None]) -> Iterator[Caravan | None]:
    """Gateway and client up; None without a tunnel."""
    on_gateway, on_station = ends
    with Caravan(road.sg, on_gateway) as gateway:
        gateway.wait_ready()
        if on_station is None:
            yield None
            return
        with Caravan(road.ms, on_station) as station:
            yield station.wait_ready()


def transfer_kbps(
    client: Host, server: Host, address: str, size_bytes: int, *, is_up: bool
) -> float:
    """A TCP transfer of this many bytes by iperf3, measured by its receiver."""
    with iperf_server(server, SERVER_ADDRESS):
        argv = ["iperf3", "-c", address, "-J", "-n", str(size_bytes), *([] if is_up else ["-R"])]
        done = client.run(argv, TRANSFER_TIMEOUT_S)
    received = json.loads(done.stdout)["end"]["sum_received"]
    return float(received["bits_per_second"]) / 1e3


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
    if not skip_testbed:
        enter()
    try:
        resolved = core.scenario(question)
        if "flows" in resolved["scenario"]:
            _two_ways(console, question, resolved, output.resolve(), runs_testbed=not skip_testbed)
            return
        levels = three_ways(question, output.resolve(), runs_testbed=not skip_testbed)
    except ValueError as fault:
        console.print(f"[red]{fault}[/]")
        raise typer.Exit(2) from None
    console.print(f"[bold]{levels.scenario['title']}[/]\n")
    console.print(table(levels))
    for note in levels.notes:
        console.print(note, markup=False)


def _two_ways(
    console: Console,
    question: core.Question,
    resolved: Mapping[str, Any],
    output: Path,
    *,
    runs_testbed: bool,
) -> None:
    """Print a graph's flows and links, simulated and run."""
    simulate, measured = flows.two_ways(question, resolved, output, runs_testbed=runs_testbed)
    console.print(f"[bold]{resolved['scenario']['title']}[/]\n")
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
            shown.add_row(f"{name} {direction}, bytes", f"{counts[way]:,}", other)
    console.print(shown)


def _gaps(gaps: Sequence[tuple[int, int]]) -> str:
    return ", ".join(f"{first} to {last}" for first, last in gaps)
