"""A scenario's graph in namespaces: one for each node, and those that make its links.

Links, addresses and routes are those that the native core has resolved, so simulation and testbed
use the same network. A link with a shape is a relay (`caravan link`) between two veth ends. If
several nodes share its near side, a bridge joins them before the relay, and they share its queue. A
relay node is a bridge too: it joins its links to one segment. Neighbours are configured from the
start: no link carries ARP. Left out: changes that a running relay cannot make (rate, delay, loss).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from caravan.testbed.host import Host
from caravan.testbed.nat import Nat, NatPlan
from caravan.testbed.network import Network
from caravan.testbed.relay import LinkPlan, Relay, software_checksums

MTU_BYTES = 1500
BARE_BPS_MIN = 100e6
"""A link at least this fast, without delay, loss or queue of its own, is a bare veth pair."""
BRIDGE = "bridge"
UNLIMITED_QUEUE = "100000"
"""Packets that may wait at a link without a queue limit: more than any flow has in flight."""


class NotForTestbed(ValueError):
    """Names the `key` of the scenario that namespaces cannot reproduce, and `what` prevents it."""

    def __init__(self, key: str, what: str) -> None:
        super().__init__(key, what)
        self.key, self.what = key, what

    def __str__(self) -> str:
        return f"{self.key}: {self.what}"


@dataclass(frozen=True)
class Port:
    """A node on a link: its host, interface, and address with its prefix."""

    host: Host
    interface: str
    address: str
    bits: int
    mac: str


class GraphNetwork(Network):
    """The hosts of one graph: `nodes` by name; nothing runs on a relay, so it has none.

    `scenario` and `graph` are the native core's answers for a scenario.
    """

    def __init__(
        self, scenario: Mapping[str, Any], graph: Mapping[str, Any], output: Path | None = None
    ) -> None:
        plans = [link_plan(link) for link in graph["links"]]
        super().__init__(output)
        self._graph = graph
        self.names = [node["name"] for node in scenario["nodes"]]
        self._roles = [node["role"] for node in scenario["nodes"]]
        self._ports: dict[tuple[int, int], Port] = {}
        self.links: list[tuple[Host, str]] = []
        """Host and interface at the far end of each link, where its packets are counted."""
        try:
            self.nodes = {name: self.host(name) for name in self.names}
            for index, plan in enumerate(plans):
                self._link(index, plan)
            self._number()
            self._route(scenario)
        except BaseException:
            self.close()
            raise

    def node(self, index: int) -> Host:
        """The host of a node by its index."""
        return self.nodes[self.names[index]]

    def address(self, node: int) -> str:
        """The address at which others reach a node: on its first link towards the clients."""
        ports = self._own_ports(node)
        inward = [port for port in ports if not port["is_near"]]
        return str([*inward, *ports][0]["address"])

    def attach(self, station: int, link: int) -> None:
        """Move a client from its current link to another."""
        for (node, other), port in self._ports.items():
            if node == station and other != link:
                port.host.link_down(port.interface)
                if f"{port.address}/{port.bits}" in port.host.addresses(port.interface):
                    port.host.remove_address(port.interface, f"{port.address}/{port.bits}")
        port = self._ports[station, link]
        port.host.link_up(port.interface)
        port.host.add_address(port.interface, f"{port.address}/{port.bits}")
        self._befriend(station, link)
        port.host.add_route("default", self._head(link))

    def set_up(self, link: int, *, is_up: bool) -> None:
        """Turn a link on or off."""
        host, interface = self.links[link]
        if is_up:
            host.link_up(interface)
        else:
            host.link_down(interface)

    def inside(self, gateway: int) -> str | None:
        """The network behind a gateway."""
        segments = self._graph["segments"]
        found = (one["network"] for one in segments if one["behind"] == gateway)
        return next(found, None)

    def _own_ports(self, node: int) -> list[Mapping[str, Any]]:
        home = self._graph["homes"][node]
        ports = [port for port in self._graph["ports"] if port["node"] == node]
        return [port for port in ports if home is None or port["link"] == home]

    def _link(self, index: int, plan: LinkPlan | None) -> None:
        """One link: near ends, a bridge if there are several, a relay if it has a shape."""
        link, name = self._graph["links"][index], f"l{index}"
        mtu = int(link["mtu_bytes"] or MTU_BYTES)
        # a move may bring a client to a link that it is not on at first
        ports = self._graph["ports"]
        near = sorted(
            {port["node"] for port in ports if port["link"] == index and port["is_near"]}
            | set(link["near"])
        )
        far = self.node(link["far"])
        if len(near) == 1:
            begin, start = self.node(near[0]), name
        else:
            begin, start = self.host(f"{name}-shared"), "up"
            for number, node in enumerate(near):
                self.node(node).connect(name, begin, f"near{number}", mtu)
        if plan is None:
            begin.connect(start, far, name, mtu)
        else:
            middle = self.host(f"{name}-relay")
            begin.connect(start, middle, "left", mtu)
            far.connect(name, middle, "right", mtu)
            ends = [(self.node(node), name) for node in near] + [(far, name), (begin, start)]
            for host, interface in ends:
                software_checksums(host, interface)
            Relay(middle, plan, "left", "right")
        if len(near) != 1:
            begin.bridge(BRIDGE, [start, *(f"near{number}" for number in range(len(near)))])
        self.links.append((far, name))

    def _number(self) -> None:
        """Configure addresses (of clients on their first links) and neighbours."""
        for port in self._graph["ports"]:
            host, interface = self.node(port["node"]), f"l{port['link']}"
            network = self._graph["segments"][port["segment"]]["network"]
            bits = int(network.partition("/")[2])
            found = Port(host, interface, port["address"], bits, host.hardware_address(interface))
            self._ports[port["node"], port["link"]] = found
            home = self._graph["homes"][port["node"]]
            if home is not None and home != port["link"]:
                host.link_down(interface)
            else:
                host.add_address(interface, f"{port['address']}/{bits}")
        for node, link in self._ports:
            self._befriend(node, link)
        for node, role in enumerate(self._roles):
            if role == "relay":
                bridged = [name for name in self.node(node).interfaces() if name != "lo"]
                self.node(node).bridge(BRIDGE, bridged)

    def _befriend(self, node: int, link: int) -> None:
        """Make a node and its neighbours on a link know each other."""
        own = self._ports[node, link]
        segment = self._segment(link)
        for other in self._graph["ports"]:
            port = self._ports.get((other["node"], other["link"]))
            if port is None or other["segment"] != segment or other["node"] == node:
                continue
            if port.host.is_up(port.interface) and own.host.is_up(own.interface):
                own.host.add_neighbour(own.interface, port.address, port.mac)
                port.host.add_neighbour(port.interface, own.address, own.mac)

    def _segment(self, link: int) -> int:
        segments: Sequence[Mapping[str, Any]] = self._graph["segments"]
        return next(index for index, one in enumerate(segments) if link in one["links"])

    def _head(self, link: int) -> str:
        """The router of a segment: behind a gateway the gateway."""
        segment = self._segment(link)
        behind = self._graph["segments"][segment]["behind"]
        ports = (port for port in self._graph["ports"] if port["segment"] == segment)
        heads = (
            port["address"]
            for port in ports
            if (not port["is_near"] if behind is None else port["node"] == behind)
        )
        return str(next(heads))

    def _route(self, scenario: Mapping[str, Any]) -> None:
        for index, role in enumerate(self._roles):
            host = self.node(index)
            if role in ("station", "server"):
                (port,) = self._own_ports(index)
                head = self._head(port["link"])
                if head != port["address"]:
                    host.add_route("default", head)
            elif role != "relay":
                host.forward()
            if role == "nat":
                outer = next(port for port in self._own_ports(index) if port["is_near"])
                timeout_s = scenario["nodes"][index]["udp_timeout_s"]
                plan = NatPlan(
                    f"l{outer['link']}",
                    (outer["address"],),
                    udp_timeout_s=round(timeout_s) if timeout_s else None,
                )
                Nat(host, plan)
        for hop in self._graph["hops"]:
            if hop["via"] is not None:
                network = self._graph["segments"][hop["to"]]["network"]
                self.node(hop["node"]).add_route(network, hop["via"])


def link_plan(link: Mapping[str, Any]) -> LinkPlan | None:
    """The plan of a link's relay; None if the link is bare."""
    rate, named = link["rate"], f"link.{link['name']}"
    check_link(link, named)
    shape = any(link[key] for key in ("delay_s", "loss", "queue_bytes"))
    if not shape and rate["up_bps"] >= BARE_BPS_MIN:
        return None
    return relay_plan(link, named)


def check_link(link: Mapping[str, Any], named: str) -> None:
    """Refuse what no link of the testbed can do."""
    for key in ("reorder", "overhead_bytes", "trace"):
        if link[key]:
            raise NotForTestbed(f"{named}.{key.removesuffix('_bytes')}", "not in the testbed")


def relay_plan(link: Mapping[str, Any], named: str) -> LinkPlan:
    """The relay of a link with a rate, which messages call `named`."""
    rate, queue_bytes = link["rate"], link["queue_bytes"]
    if rate["up_bps"] != rate["down_bps"]:
        raise NotForTestbed(f"{named}.rate", "the testbed's link is equally fast both ways")
    return LinkPlan(
        rate=f"{rate['up_bps']:.0f}bit",
        delay=f"{link['delay_s'] * 1e6:.0f}us",
        loss=link["loss"],
        queue=f"{queue_bytes:.0f}b" if queue_bytes else UNLIMITED_QUEUE,
    )
