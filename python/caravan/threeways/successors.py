"""What a move costs in the successors of the mobile private network: rounds, bytes and the gap.

`python -m caravan.threeways.successors [--delay MS]` takes a node with a VPN gateway in SKIP's
place (RFC 5266) from home to networks outside and back, and then one with a home agent outside
besides (RFC 5265), where a move is a registration with that one. Each move is computed from the
messages of its exchanges and run in namespaces with the real program; moves from one network
outside to another are simulated too, with the real machines.

A gap in namespaces begins when the node has its new address, as its log says, and ends with the
first answer to an echo request, of which one is sent every 10 ms. Left out: a simulation of moves
that go in or out. A simulated node is outside.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from caravan import _lab
from caravan.lab import core
from caravan.lab.core import Question
from caravan.testbed import NamespaceError, enter, mvpn_gateway, mvpn_outside
from caravan.testbed.host import Host
from caravan.testbed.mobile_ip import Place, Role
from caravan.testbed.mvpn import (
    BRANCH,
    COMPANY,
    CORRESPONDENT,
    HOME,
    HOTEL,
    VISITED,
    Move,
    Mvpn,
)
from caravan.testbed.mvpn_gateway import is_inside
from caravan.testbed.process import Process
from caravan.testbed.relay import LinkConfig

WALK = (VISITED, HOTEL, COMPANY, VISITED, BRANCH, VISITED, HOME)
RATE = "10 Mbit/s"
STAY_S = 1.0
"""Between two moves in the testbed."""
ECHO_INTERVAL_S = 0.01
REGISTERED, OUT = ("mobile-ip",), ("ikev2-psk", "mobile-ip")
"""The exchanges of a move: home, and from inside to a network outside."""
ASKED = (*REGISTERED, *REGISTERED)
"""To another network inside: the node asks whether it is inside, then registers."""
DATA_BYTES = 84


@dataclass(frozen=True)
class System:
    """A successor: its document, the exchanges of a move from one network outside to another, what
    comes before a tunnel, and the scenario that simulates such a move."""

    document: str
    moved: tuple[str, ...]
    before: tuple[str, ...]
    scenario: str


BY_MOBIKE = System("RFC 5266", ("mvpn-mobike",), (), "visit-gateway")
BY_AGENT = System("RFC 5265", ("mvpn-agent",), REGISTERED, "visit-agent")
SYSTEMS = (BY_MOBIKE, BY_AGENT)


@dataclass(frozen=True)
class Cost:
    """What the messages of a move take: rounds, bytes, and seconds to the first data back."""

    rounds: int
    message_bytes: float
    gap_s: float


@dataclass(frozen=True)
class Row:
    """A move: its cost, and its gap simulated and in namespaces; None: it was not simulated."""

    system: System
    kind: str
    cost: Cost
    simulated_s: float | None
    testbed_s: float


def is_outside(former: Place, to: Place) -> bool:
    """Whether a move is one from a network outside to another."""
    return not is_inside(former) and not is_inside(to)


def exchanges_of(system: System, former: Place, to: Place) -> tuple[str, ...]:
    """The exchanges that a move needs, by name (RFC 5266 §3, RFC 5265 §3)."""
    if to == HOME:
        return REGISTERED
    if is_inside(to):
        return ASKED
    return system.moved if is_outside(former, to) else (*system.before, *OUT)


def computed(names: Sequence[str], delay_ms: float) -> Cost:
    """Exchanges one after the other over a path with this one-way delay."""
    first, *more = [core.find("exchange", name) for name in names]
    keys = {"title": "The path", "rate": RATE, "delay": f"{delay_ms} ms", "mtu": 1500}
    text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
    text += "".join(f'sources.{key} = "this run"\n' for key in keys if key != "title")
    request = {
        "detection_s": 0,
        "data_bytes": DATA_BYTES,
        "file": first.file,
        "text": first.text,
        "more": [{"name": one.name, "file": one.file, "text": one.text} for one in more],
        "link": {"name": "path", "file": "path.toml", "text": text},
        "policy": None,
        "device": None,
    }
    answer = json.loads(_lab.exchange(json.dumps(request)))
    return Cost(int(answer["rounds"]), float(answer["bytes"]), float(answer["gap_s"]))


def taken(system: System, former: Place, to: Place, delay_ms: float) -> Cost:
    """What a move takes. Through a home agent outside, all but the registration there goes over two
    links of this delay: its own and the node's."""
    names = exchanges_of(system, former, to)
    if is_inside(to) or is_outside(former, to) or system != BY_AGENT:
        return computed(names, delay_ms)
    parts = [computed(system.before, delay_ms), computed(OUT, 2 * delay_ms)]
    return Cost(
        sum(part.rounds for part in parts),
        sum(part.message_bytes for part in parts),
        sum(part.gap_s for part in parts),
    )


def simulated(system: System, delay_ms: float) -> float:
    """The gap of a move from one network outside to another, with the real machines."""
    links = ["access"] if system == BY_MOBIKE else ["access", "outside"]
    edits = [f"link.{link}.delay={delay_ms} ms" for link in links]
    edits += ["link.visited.link=", "link.visited.rate=10 Gbit/s"]
    answer = core.kernel(Question(system.scenario, tuple(edits)))
    (node,) = answer["simulate"]["mobile"]
    return float(node["moves"][-1]["data_gap_s"])


def rows(delay_ms: float, output: Path) -> list[Row]:
    """Each move of `WALK` in each system."""
    found = []
    for system in SYSTEMS:
        simulated_s = simulated(system, delay_ms)
        former = HOME
        folder = output / system.document.replace(" ", "-").lower()
        for place, testbed in zip(WALK, run(system, delay_ms, folder), strict=True):
            path_ms = 0 if is_inside(place) else delay_ms
            cost = taken(system, former, place, path_ms)
            own_s = simulated_s if is_outside(former, place) else None
            kind = f"{former.bridge} to {place.bridge}"
            found.append(Row(system, kind, cost, own_s, testbed))
            former = place
    return found


def run(system: System, delay_ms: float, output: Path) -> list[float]:
    """The gap of each move of `WALK` in namespaces."""
    link = LinkConfig(rate="10mbit", delay=f"{delay_ms * 1000:.0f}us") if delay_ms else None
    if system == BY_AGENT:
        with (
            mvpn_outside.WithAgentOutside(output, outside=link) as outside,
            mvpn_outside.all_roles(outside) as roles,
        ):
            return _walked(outside, roles.ms, lambda to: mvpn_outside.walk(outside, roles.ms, to))
    with Mvpn(output, outside=link) as network, mvpn_gateway.all_roles(network) as plain:
        return _walked(network, plain.ms, lambda to: mvpn_gateway.walk(network, plain.ms, to))


def _walked(network: Mvpn, node: Role, walk: Callable[[Place], Move]) -> list[float]:
    echoes = echo(network.ms)
    found = []
    for place in WALK:
        time.sleep(STAY_S)
        found.append(gap_of(node, walk(place), echoes))
    echoes.stop()
    return found


def echo(host: Host) -> Process:
    """Send echo requests to the correspondent."""
    argv = ["ping", "-n", "-D", "-i", str(ECHO_INTERVAL_S), CORRESPONDENT]
    process = host.popen(argv, name="echo")
    process.wait_for(lambda: len(answered(process)) > 0, "an answer", 10)
    return process


def answered(echoes: Process) -> list[float]:
    """When each answer came, in seconds since the epoch."""
    return [float(it) for it in re.findall(r"^\[([\d.]+)\] .*icmp_seq=", echoes.stdout(), re.M)]


def gap_of(node: Role, move: Move, echoes: Process) -> float:
    """From the node's address on the new link, at home from the link, to the first answer."""

    def came() -> float | None:
        attached = attached_at(node, move)
        if attached is None:
            return None
        return min((at - attached for at in answered(echoes) if at > attached), default=None)

    echoes.wait_for(lambda: came() is not None, "an answer after the move", 30)
    gap = came()
    assert gap is not None
    return gap


def attached_at(node: Role, move: Move) -> float | None:
    """When the node saw its new address, or that it is home."""
    words = ("attached elsewhere, with the address", "attached at home")
    at_home = (*words, "attached elsewhere, without an address")
    wanted = at_home if move.to == HOME else words
    moments = [
        moment
        for moment, fields in node.events()
        if moment >= move.time_s and str(fields.get("message", "")).startswith(wanted)
    ]
    return moments[0] if moments else None


def shown(found: Sequence[Row]) -> Table:
    """The table, one line a move."""
    table = Table(title="A move: messages, and the gap in ms", box=box.SIMPLE_HEAD)
    for heading in ("system", "move", "rounds", "bytes", "model", "simulated", "testbed"):
        table.add_column(heading, justify="left" if heading in ("system", "move") else "right")
    for row in found:
        cost = row.cost
        simulated_ms = "-" if row.simulated_s is None else f"{row.simulated_s * 1000:.1f}"
        numbers = (str(cost.rounds), f"{cost.message_bytes:.0f}", f"{cost.gap_s * 1000:.1f}")
        table.add_row(
            row.system.document, row.kind, *numbers, simulated_ms, f"{row.testbed_s * 1000:.1f}"
        )
    return table


def main(
    delay: Annotated[float, typer.Option(help="ms, one way, between gateway and internet")] = 40,
    output: Annotated[Path, typer.Option(help="folder for logs")] = Path("successors-out"),
) -> None:
    """What each move costs: computed, and run in namespaces."""
    enter()
    Console(highlight=False).print(shown(rows(delay, output.resolve())))


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    try:
        app()
    except (NamespaceError, core.LabError) as failure:
        typer.secho(f"successors: {failure}", fg="red", err=True)
        raise SystemExit(1) from None
