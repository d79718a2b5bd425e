"""The gap of each move of a mobile node at three levels, side by side.

`python -m caravan.threeways.moves [--delay MS]` lets a node walk out of its company's network and
home, then behind a NAT and behind another company's firewall, with SKIP in UDP: computed from the
messages of a registration, simulated with the real machines (the catalogue's `firewall`), and run
in namespaces with the real program. A gap begins when the node has an address and a router on the
new link, at home with the link, and ends when packets reach it again. The testbed's own work,
plugging the node in and giving it an address and a router, is told apart.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from caravan import _lab
from caravan.lab import core
from caravan.testbed import NamespaceError, enter
from caravan.testbed.mobile_ip import Place, Role, Settings
from caravan.testbed.mvpn import (
    BRANCH,
    COMPANY,
    HOME,
    HOTEL,
    VISITED,
    Move,
    Mvpn,
    all_roles,
)
from caravan.testbed.mvpn import walk as walk_to
from caravan.testbed.relay import LinkConfig


@dataclass(frozen=True)
class Walk:
    """Where a node goes, from its home on, and whether its packets outside are in UDP."""

    places: tuple[Place, ...]
    is_udp: bool


WALKS = (
    Walk((BRANCH, VISITED, BRANCH, VISITED, HOME), is_udp=False),
    Walk((HOTEL, COMPANY, HOTEL, BRANCH, COMPANY, HOME), is_udp=True),
)
PLACES_OUTSIDE = (VISITED, HOTEL, COMPANY)
LINKS = {
    BRANCH.bridge: "inside",
    VISITED.bridge: "u",
    HOTEL.bridge: "hotel",
    COMPANY.bridge: "company",
    HOME.bridge: "home",
}
"""Their names in the scenario."""
RATE = "10 Mbit/s"
FIRST_S = 5
"""Of the simulation: when the first move is, and the time between two."""
STAY_S = 0.5
"""Between two moves in the testbed. The firewall follows a node five times a second at most."""
NEAR = 0.15
NEAR_S = 0.010
"""Gaps agree if they differ by no more than one of these."""


@dataclass(frozen=True)
class Gap:
    """The gap of one move at each level, in seconds, and the testbed's own part besides."""

    kind: str
    model_s: float
    simulate_s: float
    testbed_s: float
    plugging_s: float

    @property
    def agrees(self) -> bool:
        """Whether no level is far from the testbed."""
        others = (self.model_s, self.simulate_s)
        return all(is_near(other, self.testbed_s) for other in others)


def is_near(one_s: float, other_s: float) -> bool:
    """Whether two gaps agree."""
    apart = abs(one_s - other_s)
    return apart <= NEAR_S or apart <= NEAR * max(one_s, other_s)


def three_ways(delay_ms: float, output: Path) -> list[Gap]:
    """The gap of each move of `WALKS`, with this one-way delay between firewall and internet."""
    return [gap for walk in WALKS for gap in gaps_of(walk, delay_ms, output)]


def gaps_of(walk: Walk, delay_ms: float, output: Path) -> Iterator[Gap]:
    """The gap of each move of a walk."""
    simulated = simulate(walk, delay_ms)
    measured = run(walk, delay_ms, output / ("udp" if walk.is_udp else "raw"))
    former = HOME
    for place, ours, (testbed, plugging) in zip(walk.places, simulated, measured, strict=True):
        kind = f"{former.bridge} to {place.bridge}"
        yield Gap(kind, computed(place, delay_ms), ours, testbed, plugging)
        former = place


def computed(place: Place, delay_ms: float) -> float:
    """One registration over the path to the home agent (RFC 5944 §3): its request and reply."""
    entry = core.find("exchange", "mobile-ip")
    outside = delay_ms if place in PLACES_OUTSIDE else 0
    keys = {"title": "The path", "rate": RATE, "delay": f"{outside} ms", "mtu": 1500}
    text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
    text += "".join(f'sources.{key} = "this run"\n' for key in keys if key != "title")
    request = {
        "detection_s": 0,
        "data_bytes": 84,
        "file": entry.file,
        "text": entry.text,
        "link": {"name": "path", "file": "path.toml", "text": text},
        "policy": None,
        "device": None,
    }
    answer = json.loads(_lab.exchange(json.dumps(request)))
    return float(answer["gap_s"])


def simulate(walk: Walk, delay_ms: float) -> list[float]:
    """The same moves of the catalogue's scenario."""
    delays = {"r1": delay_ms, "net": 0, "r3": 0, "nat": 0, "corp": 0}
    edits = [f"link.{link}.delay={delay} ms" for link, delay in delays.items()]
    # The links are empty, as in the other levels.
    edits.append("flow.download.bytes=1 KB")
    request = core.Question("firewall", tuple(edits)).request()
    text = str(request["text"])
    # A scenario has no link where nobody ever is.
    gone_to = [LINKS[place.bridge] for place in walk.places]
    links = [*gone_to, *(link for link in LINKS.values() if link not in gone_to)]
    moves = "".join(
        f'[[move]]\nat = "{FIRST_S * number} s"\nnode = "mn"\nto = "{link}"\n\n'
        for number, link in enumerate(links, 1)
    )
    request["text"] = text[: text.index("[[move]]")] + moves
    answer = core.kernel(request)
    (node,) = answer["simulate"]["mobile"]
    return [float(move["gap_s"]) for move in node["moves"][: len(walk.places)]]


def run(walk: Walk, delay_ms: float, output: Path) -> list[tuple[float, float]]:
    """The same in namespaces: each gap, and how long the testbed took before it."""
    link = LinkConfig(rate="10mbit", delay=f"{delay_ms * 1000:.0f}us") if delay_ms else None
    udp = {"udp": walk.is_udp}
    with (
        Mvpn(output, outside=link) as network,
        all_roles(network, wall=Settings(udp), through=udp) as roles,
    ):
        moves = []
        for place in walk.places:
            time.sleep(STAY_S)
            moves.append(walk_to(network, roles.ms, place))
        return [gap_of(roles.ms, move) for move in moves]


def gap_of(node: Role, move: Move) -> tuple[float, float]:
    """From the node's log: from its address and router on the new link to its registration. It may
    ask before the testbed knows that the router is there: then the gap begins with that. At home,
    which it recognizes by its home agent, it needs neither."""
    attached = asked = None
    for moment, fields in node.events():
        if moment < move.time_s:
            continue
        words = str(fields.get("message", ""))
        is_here = words.startswith("attached elsewhere, with the address") or (
            move.to == HOME
            and words.startswith(("attached elsewhere, without an address", "attached at home"))
        )
        if is_here:
            attached = asked = moment
        if words.startswith("asking again"):
            asked = moment
        if words in ("registered", "at home") and attached is not None and asked is not None:
            began = max(attached, min(asked, move.settled_s))
            return moment - began, began - move.time_s
    raise ValueError(f"the log of {node.name} has no registration after the move to {move.to}")


def shown(gaps: Sequence[Gap]) -> Table:
    """The table, one row a move."""
    table = Table(
        title="Until packets reach the node again, in ms",
        caption=f"same: within {NEAR:.0%} or {NEAR_S * 1000:.0f} ms of the testbed",
        box=box.SIMPLE_HEAD,
    )
    for heading in ("move", "model", "simulate", "testbed", "plugging in", ""):
        table.add_column(heading, justify="left" if heading == "move" else "right")
    for gap in gaps:
        levels = (gap.model_s, gap.simulate_s, gap.testbed_s, gap.plugging_s)
        numbers = [f"{level * 1000:.1f}" for level in levels]
        table.add_row(gap.kind, *numbers, "same" if gap.agrees else "[red]differs[/]")
    return table


def main(
    delay: Annotated[float, typer.Option(help="ms, one way, between firewall and internet")] = 40,
    output: Annotated[Path, typer.Option(help="folder for logs")] = Path("moves-out"),
) -> None:
    """The gap of each move: computed, simulated, and run in namespaces. 1 if one differs."""
    enter()
    gaps = three_ways(delay, output.resolve())
    Console(highlight=False).print(shown(gaps))
    if not all(gap.agrees for gap in gaps):
        raise typer.Exit(1)


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    try:
        app()
    except (NamespaceError, core.LabError) as failure:
        typer.secho(f"moves: {failure}", fg="red", err=True)
        raise SystemExit(1) from None
