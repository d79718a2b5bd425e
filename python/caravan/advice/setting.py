"""What a scenario has that a stack of security layers meets: the client's links, what lies behind
them, its moves, its packets and its device.

Left out: the scenario's own tunnels. The advisor replaces them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from caravan.files import Entry
from caravan.lab import core
from caravan.lab.core import LabError, Question

WIFI = "wifi"
"""The names of files of Wi-Fi links begin with it, whatever folder they are in."""
ACCESS_POINT = "access-point"
TCP_BYTES = 1500
"""The packets of a transfer. What a link carries at most is not read."""
TCP_HEADERS = 40
MODELS = ("constant", "poisson", "tcp")
FREE = "none"


@dataclass(frozen=True)
class Link:
    """A link as the native core reads it. `is_wifi`: access layers apply to it."""

    name: str
    is_wifi: bool
    text: str

    def request(self) -> dict[str, str]:
        """In the native core's form."""
        return {"name": self.name, "file": self.name, "text": self.text}


@dataclass(frozen=True)
class Place:
    """A link of the client, and the links behind it: to the `gateway`, or without one to the
    server; from the gateway `beyond`, to the server."""

    link: Link
    gateway: tuple[Link, ...]
    beyond: tuple[Link, ...]


@dataclass(frozen=True)
class Stay:
    """A place for some seconds. `is_roam`: the client came from another access point of the same
    network and keeps its address there."""

    place: Place
    seconds: float
    is_roam: bool


@dataclass(frozen=True)
class Traffic:
    """Packets of one size, the IP header included, each second."""

    packet_bytes: int
    per_second: float
    is_up: bool


@dataclass(frozen=True)
class Device:
    """The client's device, and its speed if the scenario gives one."""

    entry: Entry
    mips: float | None
    clock_mhz: float | None


@dataclass(frozen=True)
class Setting:
    """A scenario for the advisor. The first stay is where the client begins. `doubts` are what
    the scenario may mean otherwise than it is read, in sentences. `has_software_radio`: the
    device seals frames of Wi-Fi itself; most radios do that."""

    name: str
    title: str
    hash: str
    has_gateway: bool
    stays: tuple[Stay, ...]
    traffic: tuple[Traffic, ...]
    device: Device | None
    doubts: tuple[str, ...] = ()
    has_software_radio: bool = False

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return sum(stay.seconds for stay in self.stays)

    @property
    def moves(self) -> tuple[Stay, ...]:
        """The stays after a move."""
        return self.stays[1:]

    @property
    def places(self) -> tuple[Place, ...]:
        """Each place once."""
        return tuple(dict.fromkeys(stay.place for stay in self.stays))

    @property
    def is_all_wifi(self) -> bool:
        """Whether every link of the client is Wi-Fi."""
        return all(place.link.is_wifi for place in self.places)

    @property
    def keeps_addresses(self) -> bool:
        """Whether no move changes the client's address."""
        return all(stay.is_roam for stay in self.moves)


def read(name: str) -> Setting:
    """The scenario `name`: a file, or a name of the catalogue."""
    question = Question(name)
    resolved = core.scenario(question)
    scenario, graph = resolved["scenario"], resolved["graph"]
    nodes = scenario["nodes"]
    clients = [number for number, node in enumerate(nodes) if node["role"] == "station"]
    if len(clients) != 1:
        raise LabError(f"--scenario: {scenario['name']} has {len(clients)} clients, not one")
    (client,) = clients
    flows = scenario.get("flows") or [scenario["traffic"]]
    ways = _Ways(scenario, graph, client)
    return Setting(
        name=scenario["name"],
        title=scenario["title"],
        hash=resolved["hash"],
        has_gateway=ways.gateway is not None,
        stays=ways.stays(scenario["run"]["time_s"]),
        traffic=tuple(one for flow in flows for one in _traffic(flow, scenario["run"]["time_s"])),
        device=_device(nodes[client]["computer"], question),
        doubts=tuple(ways.doubts()),
    )


def is_wifi_file(name: str) -> bool:
    """Whether the file of a link is one of Wi-Fi, by its own name: a path does not count."""
    return Path(name).name.startswith(WIFI)


class _Ways:
    """The links of the client, and those behind them, in the graph that the core has resolved."""

    def __init__(self, scenario: Mapping[str, Any], graph: Mapping[str, Any], client: int) -> None:
        self.client = client
        self.links = graph["links"]
        self.moves = graph["moves"]
        self.segments = [set(segment["links"]) for segment in graph["segments"]]
        self.nodes = scenario["nodes"]
        self.files = [link["link"] for link in scenario["links"]]
        self.server = graph["flows"][0]["to"]
        if self.server == client:
            self.server = graph["flows"][0]["from"]
        self.gateway = self._gateway(graph["tunnels"])

    @property
    def first(self) -> int:
        """The client's link at the beginning."""
        return next(number for number, link in enumerate(self.links) if self.client in link["near"])

    def _gateway(self, tunnels: Sequence[Mapping[str, Any]]) -> int | None:
        """Where a tunnel of the client would end: where the scenario's own one ends, otherwise at
        the nearest gateway or router that ends tunnels."""
        own = next((one["to"] for one in tunnels if one["from"] == self.client), None)
        if own is not None:
            return int(own)
        ends = [
            number
            for number, node in enumerate(self.nodes)
            if node["role"] == "gateway" or node.get("ends_tunnels", False)
        ]
        ways = self._ways(self.links[self.first]["far"], self.first)
        return min(
            (number for number in ends if number in ways),
            key=lambda number: len(ways[number]),
            default=None,
        )

    def stays(self, seconds: float) -> tuple[Stay, ...]:
        """Where the client is in the time of the run, with each move within it."""
        arrivals = [(0.0, self.first)]
        for move in self.moves:
            moved, at_s = move.get("station"), move["at_ns"] / 1e9
            if moved is None:
                raise LabError(
                    "--scenario: a move changes a link: the advisor knows those of a client"
                )
            if at_s >= seconds:
                continue
            arrivals.append((at_s, moved["to"]))
        ends = [at_s for at_s, _ in arrivals[1:]] + [seconds]
        stays: list[Stay] = []
        for number, ((at_s, link), end_s) in enumerate(zip(arrivals, ends, strict=True)):
            before = arrivals[number - 1][1] if number else None
            is_roam = before is not None and self._is_one_network(before, link)
            stays.append(Stay(self._place(link), end_s - at_s, is_roam))
        return tuple(stays)

    def _is_one_network(self, one: int, other: int) -> bool:
        """Whether two links are radios of one network, as the core divides the graph: those of
        access points on one link, or of one access point."""
        is_same = any({one, other} <= links for links in self.segments)
        return is_same and self._is_wifi(one) and self._is_wifi(other)

    def _is_wifi(self, number: int) -> bool:
        """Whether a link is Wi-Fi: a radio of an access point, or by the name of its file."""
        is_radio = self.nodes[self.links[number]["far"]]["role"] == ACCESS_POINT
        return is_radio or is_wifi_file(self.files[number])

    def doubts(self) -> Iterator[str]:
        """Links of the client that look like Wi-Fi and are not taken as such."""
        used = {self.first, *(move["station"]["to"] for move in self.moves if "station" in move)}
        for number in sorted(used):
            link = self.links[number]
            if link.get("access_ns", 0) and not self._is_wifi(number):
                yield (
                    f"link {link['name']} has an access_time, as radios of Wi-Fi do, but is not "
                    f"taken as Wi-Fi: it ends at no {ACCESS_POINT}, and the name of its file does "
                    f"not begin with {WIFI}"
                )

    def _place(self, number: int) -> Place:
        begin = self.links[number]["far"]
        end = self.server if self.gateway is None else self.gateway
        inner = () if self.gateway is None else self._way(self.gateway, self.server, number)
        return Place(self._link(number), self._way(begin, end, number), inner)

    def _way(self, begin: int, end: int, without: int) -> tuple[Link, ...]:
        """The fewest links from a node to another, none of them the client's."""
        ways = self._ways(begin, without)
        if end not in ways:
            raise LabError("--scenario: no way leads from the client's link to the server")
        return tuple(self._link(number) for number in ways[end])

    def _ways(self, begin: int, without: int) -> Mapping[int, tuple[int, ...]]:
        """The fewest links from a node to each other one, none of them the client's."""
        ways: dict[int, tuple[int, ...]] = {begin: ()}
        nodes = [begin]
        for node in nodes:
            for number, link in enumerate(self.links):
                ends = {*link["near"], link["far"]}
                if number == without or node not in ends or self.client in ends:
                    continue
                for other in sorted(ends - set(ways)):
                    ways[other] = (*ways[node], number)
                    nodes.append(other)
        return ways

    def _link(self, number: int) -> Link:
        """The link with the values that the scenario gives it."""
        link = self.links[number]
        if link["trace"]:
            raise LabError(
                f"--scenario: link {link['name']}: a recording has no rate to compute with"
            )
        rate = link["rate"]
        # All that the core's exchanges read of a link.
        numbers = {
            "rate": f'{{ up = "{rate["up_bps"]} bit/s", down = "{rate["down_bps"]} bit/s" }}',
            "delay": f'"{link["delay_ns"] / 1e6!r} ms"',
            "overhead": f'"{link["overhead_bytes"]} B"',
            "access_time": f'"{link.get("access_ns", 0) / 1e6!r} ms"',
        }
        lines = [f'title = "{number}"', *(f"{key} = {value}" for key, value in numbers.items())]
        lines += ["[sources]", *(f'{key} = "the scenario"' for key in numbers)]
        return Link(link["name"], self._is_wifi(number), "\n".join(lines) + "\n")


def _traffic(flow: Mapping[str, Any], seconds: float) -> Sequence[Traffic]:
    """The packets of a flow."""
    model, is_up = flow["model"], flow["direction"] == "up"
    kind = model["kind"]
    if kind == "tcp":
        packets = -(-model["bytes"] // (TCP_BYTES - TCP_HEADERS))
        return [Traffic(TCP_BYTES, packets / seconds, is_up)]
    if kind not in MODELS:
        raise LabError(
            f"--scenario: traffic of the model {kind}: the advisor knows {', '.join(MODELS)}"
        )
    sizes = flow["sizes"]
    if sizes["kind"] == "fixed":
        shares = [(sizes["bytes"], 1.0)]
    elif sizes["kind"] == "empirical":
        shares = [(size, weight) for size, weight in sizes["points"]]
    else:
        raise LabError(
            f"--scenario: sizes of the model {sizes['kind']}: the advisor knows fixed, empirical"
        )
    whole = sum(weight for _, weight in shares)
    mean_bytes = sum(size * weight for size, weight in shares) / whole
    per_second = model["rate_bps"] / 8 / mean_bytes
    return [Traffic(round(size), per_second * weight / whole, is_up) for size, weight in shares]


def _device(computer: Mapping[str, Any] | None, question: Question) -> Device | None:
    if computer is None or computer.get("device", FREE) == FREE:
        return None
    name = computer["device"]
    path = core.beside(core.find("scenario", question.scenario), name)
    speed = computer.get("speed") or {}
    clock_hz = speed.get("clock_hz")
    return Device(
        core.find("device", str(path) if path else name),
        speed.get("mips"),
        None if clock_hz is None else clock_hz / 1e6,
    )
