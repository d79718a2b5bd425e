"""What a move costs in the successors of the mobile private network: rounds, bytes and the gap.

`python -m caravan.threeways.successors [--delay MS] [--inside MS]` takes a node with a VPN gateway
in SKIP's place (RFC 5266) from home to networks outside and back, and then one with a home agent
outside besides (RFC 5265), where a move is a registration with that one. Each move is computed from
the messages of its exchanges, simulated with the real machines (the scenarios `walk-gateway` and
`walk-agent`), and run in namespaces with the real program (`caravan.threeways.successor_bed`).

The levels differ where a node leaves home: a simulated home link leads to who has the address when
a packet comes, so that ARP takes no time, and the formula adds one way to the home agent for it.
Coming to a foreign agent, a simulated node waits up to 4 ms before it asks for one. What a message
has besides the formula's is in `test_successors`: extensions, and the program's proposals.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Self

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from caravan import _lab
from caravan.lab import core
from caravan.lab.core import Question
from caravan.testbed import NamespaceError, enter
from caravan.testbed.mobile_ip import Place
from caravan.testbed.mvpn import BRANCH, COMPANY, HOME, HOTEL, VISITED
from caravan.testbed.mvpn_gateway import AT_HOME, WITH_AGENT, is_inside
from caravan.testbed.mvpn_outside import LOUNGE
from caravan.testbed.relay import LinkConfig
from caravan.threeways.hosts import mean, median
from caravan.threeways.successor_bed import Paths, Seen, walked

WALK = (VISITED, HOTEL, COMPANY, BRANCH, WITH_AGENT, VISITED, WITH_AGENT, VISITED, AT_HOME)
BY_FOREIGN_AGENT = (LOUNGE, VISITED, LOUNGE)
"""Where a home agent outside is reached through a foreign agent, and not."""
STREET = Place("internet", "198.51.100.30/24", "198.51.100.1")
"""Outside, at the router of the internet itself."""
BESIDES = (VISITED, STREET)
"""Two networks outside without a NAT."""
RATE = "10 Mbit/s"
BARE_S = 3.0
"""A node from outside waits so long for an address before it looks for an agent. With a home agent
outside it looks at once: one may lead there, too."""
REGISTERED, TUNNEL = ("mobile-ip",), ("ikev2-psk-x25519-mlkem768",)
"""The tunnel is negotiated with the program's defaults."""
ASKED = (*REGISTERED, *REGISTERED)
"""To another network inside: the node asks whether it is inside, then registers."""
DATA_BYTES = 84
STAY_S = 6.0
"""How long a simulated node stays at a place, at least."""
LIVENESS_S, OUTSIDE_PLACES = 20.0, 3
"""A node that says nothing for so long is asked whether it is still there, and that is no message
of a move. Without MOBIKE it says nothing at so many places outside that follow each other."""


@dataclass(frozen=True)
class System:
    """A successor: its document, the exchange of a move from one network outside to another, where
    its node goes, and the scenario that simulates that."""

    document: str
    moved: str
    walk: tuple[Place, ...]
    scenario: str

    @property
    def moves(self) -> list[tuple[Place, Place]]:
        """Each move, from home on."""
        return list(itertools.pairwise((HOME, *self.walk)))


BY_MOBIKE = System("RFC 5266", "mvpn-mobike", WALK, "walk-gateway")
BY_AGENT = System("RFC 5265", "mvpn-agent", (*WALK, *BY_FOREIGN_AGENT), "walk-agent")
SYSTEMS = (BY_MOBIKE, BY_AGENT)


@dataclass(frozen=True)
class Delays:
    """One way, in ms: to gateway and home agent outside, and to the home agent inside."""

    outside_ms: float
    inside_ms: float


@dataclass(frozen=True)
class Part:
    """Exchanges of a move, one after the other, and the one-way delay of their path."""

    names: tuple[str, ...]
    delay_ms: float
    detection_s: float = 0.0


@dataclass(frozen=True)
class Cost:
    """What the messages of a move take: rounds, bytes, and seconds to the first data back."""

    rounds: int
    message_bytes: float
    gap_s: float


@dataclass(frozen=True)
class Row:
    """A move: its cost, computed and simulated, and what it took in namespaces."""

    system: System
    former: Place
    to: Place
    cost: Cost
    simulated: Cost
    seen: Seen

    @property
    def kind(self) -> str:
        """Such as "home to visited"."""
        return f"{self.former.bridge} to {self.to.bridge}"


def is_outside(former: Place, to: Place) -> bool:
    """Whether a move is one from a network outside to another."""
    return not is_inside(former) and not is_inside(to)


def parts_of(system: System, former: Place, to: Place, delays: Delays) -> list[Part]:
    """What a move needs (RFC 5266 §3, RFC 5265 §3). Through a home agent outside everything but the
    registration there goes over its own link twice, and over the gateway's."""
    outside_ms, inside_ms = delays.outside_ms, delays.inside_ms
    if to == WITH_AGENT and not is_inside(former) and system == BY_MOBIKE:
        return [Part(REGISTERED, inside_ms, BARE_S)]
    if to in (AT_HOME, WITH_AGENT):
        return [Part(REGISTERED, inside_ms)]
    if is_inside(to):
        return [Part(ASKED, inside_ms)]
    if is_outside(former, to):
        return [Part(("mvpn-foreign-agent" if to == LOUNGE else system.moved,), outside_ms)]
    first = [] if system == BY_MOBIKE else [Part(REGISTERED, outside_ms)]
    way_ms = outside_ms if system == BY_MOBIKE else 3 * outside_ms
    return [*first, Part(TUNNEL, way_ms), Part(REGISTERED, way_ms + inside_ms)]


def computed(part: Part) -> Cost:
    """Exchanges over a path with this one-way delay."""
    first, *more = [core.find("exchange", name) for name in part.names]
    keys = {"title": "The path", "rate": RATE, "delay": f"{part.delay_ms} ms", "mtu": 1500}
    text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
    text += "".join(f'sources.{key} = "this run"\n' for key in keys if key != "title")
    request = {
        "detection_s": part.detection_s,
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


def taken(system: System, former: Place, to: Place, delays: Delays) -> Cost:
    """What a move takes."""
    costs = [computed(part) for part in parts_of(system, former, to, delays)]
    gap_s = sum(cost.gap_s for cost in costs)
    if former.bridge == HOME.bridge:
        # The first packet for the node goes over the home agent's link as soon as that answers ARP.
        gap_s += delays.inside_ms / 1000
    if follows(system, former, to):
        gap_s = computed(Part((system.moved,), 0)).gap_s
    rounds, size = sum(cost.rounds for cost in costs), sum(cost.message_bytes for cost in costs)
    return Cost(rounds, size, gap_s)


def follows(system: System, former: Place, to: Place) -> bool:
    """Whether data goes through the tunnel until the node is registered inside: MOBIKE moves it
    there, because routers inside know the way to the gateway."""
    return system == BY_MOBIKE and not is_inside(former) and to == BRANCH


def simulated(system: System, delays: Delays) -> list[Cost]:
    """Each move of a system's walk, with the real machines."""
    answer = core.kernel(Question(system.scenario, tuple(edits(system, delays))))
    (node,) = answer["simulate"]["mobile"]
    moves = node["moves"]
    if [move["to"] for move in moves] != [place.bridge for place in system.walk]:
        raise core.LabError(f"{system.scenario}: its node does not go through the places of a walk")
    silent = [move["to"] for move in moves if move["data_gap_s"] is None]
    if silent:
        raise core.LabError(
            f"{system.scenario}: no data comes to its node at {', '.join(silent)}: lower --delay "
            "or --inside"
        )
    return [
        Cost(int(one["rounds"]), float(one["message_bytes"]), float(one["data_gap_s"]))
        for one in moves
    ]


def edits(system: System, delays: Delays) -> list[str]:
    """What a scenario of a walk gets for these delays. Its list of moves begins with the home
    link's new delay as the node leaves it, and before the node comes home that link has its first
    delay again: while the node is there, what it says to its agent goes over that link twice. So it
    is where it leaves once more."""
    links = ["access"] if system == BY_MOBIKE else ["access", "outside"]
    gaps = [taken(system, *move, delays).gap_s for move in system.moves]
    stay_s = max(STAY_S, 2 * max(gaps))
    if system == BY_AGENT and OUTSIDE_PLACES * stay_s > LIVENESS_S:
        raise core.LabError(
            f"{system.document}: a move takes {max(gaps):.1f} s with these delays, and a tunnel "
            f"that is silent at {OUTSIDE_PLACES} places is asked whether it lives: lower --delay "
            "or --inside"
        )
    times = [1 + stay_s * number for number in range(len(system.walk))]
    home = len(WALK) + 1
    numbers = [*range(1, len(WALK)), home]
    found = [
        *(f"link.{link}.delay={delays.outside_ms} ms" for link in links),
        *(f"{key}.delay={delays.inside_ms / 2} ms" for key in ("link.home", f"move.{home - 1}")),
        f"move.0.delay={delays.inside_ms} ms",
        f"move.{home - 1}.at={times[len(WALK) - 1] - stay_s / 2} s",
    ]
    if later := times[len(WALK) :]:
        found += [
            f"move.{home + 1}.delay={delays.inside_ms} ms",
            f"move.{home + 1}.at={later[0]} s",
        ]
        numbers += range(home + 2, home + 2 + len(later))
    found += [f"move.{number}.at={at} s" for number, at in zip(numbers, times, strict=True)]
    return [*found, f"run.time={times[-1] + stay_s} s"]


def rows(delays: Delays, output: Path) -> list[Row]:
    """Each move of each system."""
    paths = Paths(link_of(delays.outside_ms), link_of(delays.inside_ms))
    found = []
    for system in SYSTEMS:
        own = simulated(system, delays)
        folder = output / system.document.replace(" ", "-").lower()
        told = walked(system.walk, folder, paths, has_agent_outside=system == BY_AGENT)
        for (former, to), simulation, seen in zip(system.moves, own, told, strict=True):
            cost = taken(system, former, to, delays)
            found.append(Row(system, former, to, cost, simulation, seen))
    return found


def link_of(delay_ms: float) -> LinkConfig | None:
    """The link with this one-way delay; without one it takes no time."""
    return LinkConfig(rate="10mbit", delay=f"{delay_ms * 1000:.0f}us") if delay_ms else None


@dataclass(frozen=True)
class Setting:
    """A cell of a study: moves from one network outside to another over a link, which is that of
    gateway and home agent outside."""

    system: System
    link: LinkConfig
    runs: int

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> Self:
        """From a study's request."""
        (system,) = (one for one in SYSTEMS if one.moved == request["system"])
        link = LinkConfig.of(request["link"])
        # A relay's first direction is down here: who is behind it is the node's peer.
        return cls(system, replace(link, rate=link.rate_back, rate_back=link.rate), request["runs"])


def measure(setting: Setting, output: Path) -> list[dict[str, Any]]:
    """The metrics of a cell. The process must have entered a private namespace."""
    places = [BESIDES[number % 2] for number in range(setting.runs + 1)]
    has_agent = setting.system == BY_AGENT
    _, *moves = walked(places, output, Paths(setting.link), has_agent_outside=has_agent)
    values = {
        "rounds": [float(one.rounds) for one in moves],
        "messages": [float(one.messages) for one in moves],
        "message_bytes": [float(one.message_bytes) for one in moves],
        "data_bytes": [float(one.data_bytes) for one in moves],
    }
    told = [mean(metric, found) for metric, found in values.items()]
    # One that was disturbed does not count.
    told.append(median("gap_ms", [one.gap_s * 1e3 for one in moves]))
    return [asdict(value) for value in told]


def shown(found: Sequence[Row]) -> Table:
    """The table, one line a move: computed, simulated and measured here."""
    title = "A move: messages, and the gap in ms"
    table = Table(title=title, box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    table.add_column("move", no_wrap=True)
    for what in ("rounds", "bytes", "gap"):
        for heading in (what, "sim.", "here"):
            table.add_column(heading, justify="right", no_wrap=True)
    for row in found:
        if row.former == HOME:
            table.add_row(row.system.document)
        levels = (row.cost, row.simulated, row.seen)
        numbers = (
            *(str(one.rounds) for one in levels),
            *(f"{one.message_bytes:.0f}" for one in levels),
            *(f"{one.gap_s * 1000:.1f}" for one in levels),
        )
        table.add_row(row.kind, *numbers)
    return table


def main(
    delay: Annotated[float, typer.Option(help="ms, one way, to gateway and agent outside")] = 40,
    inside: Annotated[float, typer.Option(help="ms, one way, to the home agent inside")] = 40,
    output: Annotated[Path, typer.Option(help="folder for logs")] = Path("successors-out"),
) -> None:
    """What each move costs: computed, simulated, and run in namespaces."""
    enter()
    Console(highlight=False).print(shown(rows(Delays(delay, inside), output.resolve())))


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    try:
        app()
    except (NamespaceError, core.LabError) as failure:
        typer.secho(f"successors: {failure}", fg="red", err=True)
        raise SystemExit(1) from None
