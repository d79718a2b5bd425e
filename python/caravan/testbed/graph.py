"""A scenario's graph in namespaces: one for each node, and those that make its links.

Links, addresses and routes are those that the native core has resolved, so simulation and testbed
use the same network. A link with a shape, or one that a move changes, is a relay (`caravan link`)
between two veth ends. If several nodes share its near side, a bridge joins them before the relay,
and they share its queue. A relay node is a bridge too: it joins its links to one segment.
Neighbours are configured from the start: no link carries ARP.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from caravan.testbed.host import Host
from caravan.testbed.nat import Nat, NatConfig
from caravan.testbed.network import Network
from caravan.testbed.relay import LinkConfig, Relay, software_checksums

MTU_BYTES = 1500
BARE_BPS_MIN = 100_000_000
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
    segment: int

    @property
    def prefixed(self) -> str:
        """Its address in `address/prefix` form."""
        return f"{self.address}/{self.bits}"


class GraphNetwork(Network):
    """The hosts of one graph: `nodes` by name; nothing runs on a relay, so it has none.

    `nodes` and `graph` are the native core's answers for a scenario. `traces` are the files of
    recordings by name.
    """

    def __init__(
        self,
        nodes: Sequence[Mapping[str, Any]],
        graph: Mapping[str, Any],
        traces: Mapping[str, Path],
        output: Path | None = None,
    ) -> None:
        changing = {step["link"]["link"] for step in graph["moves"] if "link" in step}
        configs = [
            link_config(link, traces, is_changing=index in changing)
            for index, link in enumerate(graph["links"])
        ]
        is_v6 = any(":" in port["address"] for port in graph["ports"])
        super().__init__(output, is_dual_stack=is_v6)
        self._graph = graph
        self._ports: dict[tuple[int, int], list[Port]] = {}
        self.links: list[tuple[Host, str]] = []
        """Host and interface at the far end of each link, where packets up arrive."""
        self.near_ends: list[tuple[Host, str]] = []
        """The same at the near end, where packets down arrive."""
        self.relays: list[Relay | None] = []
        """The relay of each link; None if the link is bare."""
        try:
            self.nodes = {node["name"]: self.host(node["name"]) for node in nodes}
            for index, config in enumerate(configs):
                self._link(index, config)
            self._number()
            for index, node in enumerate(nodes):
                self._settle(index, node)
        except BaseException:
            self.close()
            raise

    def node(self, index: int) -> Host:
        """The host of a node by its index."""
        return list(self.nodes.values())[index]

    def attach(self, station: int, link: int) -> None:
        """Move a client from its current link to another, unless it is there already."""
        if all(port.host.is_up(port.interface) for port in self._ports[station, link]):
            return
        for (node, other), ports in self._ports.items():
            if node == station and other != link:
                for port in ports:
                    port.host.link_down(port.interface)
                    if port.prefixed in port.host.addresses(port.interface):
                        port.host.remove_address(port.interface, port.prefixed)
        for port in self._ports[station, link]:
            port.host.link_up(port.interface)
            port.host.add_address(port.interface, port.prefixed)
        self._befriend(station, link)
        for port in self._ports[station, link]:
            port.host.add_route("default", self._graph["segments"][port.segment]["head"])

    def change(self, link: int, to: Mapping[str, Any]) -> None:
        """Change a running link, as the `link` of a move says."""
        relay = self.relays[link]
        assert relay is not None, "a link that a move changes has a relay"
        relay.change(words(to))

    def finish(self) -> None:
        """Wait until all changes of links are made; `NamespaceError` if a relay has ended."""
        for relay in self.relays:
            if relay is not None:
                relay.settle()

    def far_side(self, link: int) -> set[bytes]:
        """Ethernet addresses of the nodes that send towards the clients over a link."""
        segments = self._segments(link)
        return {
            bytes.fromhex(port.mac.replace(":", ""))
            for told in self._graph["ports"]
            if told["segment"] in segments and not told["is_near"]
            for port in self._ports[told["node"], told["link"]]
        }

    def _link(self, index: int, config: LinkConfig | None) -> None:
        """One link: near ends, a bridge if there are several, a relay if it has a shape.

        The hosts between its ends have names that no node can have.
        """
        link, name = self._graph["links"][index], f"l{index}"
        mtu = link["mtu_bytes"] or MTU_BYTES
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
            begin, start = self.host(f"_{name}-shared"), "up"
            for number, node in enumerate(near):
                self.node(node).connect(name, begin, f"near{number}", mtu)
        relay = None
        if config is None:
            begin.connect(start, far, name, mtu)
        else:
            middle = self.host(f"_{name}-relay")
            begin.connect(start, middle, "left", mtu)
            far.connect(name, middle, "right", mtu)
            ends = [(self.node(node), name) for node in near] + [(far, name), (begin, start)]
            for host, interface in ends:
                software_checksums(host, interface)
            relay = Relay(middle, config, "left", "right")
        if len(near) != 1:
            begin.bridge(BRIDGE, [start, *(f"near{number}" for number in range(len(near)))])
        self.links.append((far, name))
        self.near_ends.append((begin, start))
        self.relays.append(relay)

    def _number(self) -> None:
        """Configure addresses (of clients on their first links) and neighbours."""
        for told in self._graph["ports"]:
            host, interface = self.node(told["node"]), f"l{told['link']}"
            network = self._graph["segments"][told["segment"]]["network"]
            port = Port(
                host,
                interface,
                told["address"],
                int(network.partition("/")[2]),
                host.hardware_address(interface),
                told["segment"],
            )
            self._ports.setdefault((told["node"], told["link"]), []).append(port)
            if told["is_first"]:
                host.add_address(interface, port.prefixed)
            else:
                host.link_down(interface)
        for node, link in self._ports:
            self._befriend(node, link)

    def _befriend(self, node: int, link: int) -> None:
        """Make a node and its neighbours on a link know each other."""
        others = (
            port for (other, _), ports in self._ports.items() if other != node for port in ports
        )
        for port in others:
            for own in self._ports[node, link]:
                if port.segment != own.segment or not own.host.is_up(own.interface):
                    continue
                if port.host.is_up(port.interface):
                    own.host.add_neighbour(own.interface, port.address, port.mac)
                    port.host.add_neighbour(port.interface, own.address, own.mac)

    def _segments(self, link: int) -> set[int]:
        segments = enumerate(self._graph["segments"])
        return {index for index, one in segments if link in one["links"]}

    def _settle(self, index: int, node: Mapping[str, Any]) -> None:
        """Configure a node for its role: bridge, router, NAT, or host with a default route."""
        host, role = self.node(index), node["role"]
        own = [port for port in self._graph["ports"] if port["node"] == index and port["is_first"]]
        if role == "relay":
            host.bridge(BRIDGE, [name for name in host.interfaces() if name != "lo"])
        elif role in ("station", "server"):
            for port in own:
                head = self._graph["segments"][port["segment"]]["head"]
                if head != port["address"]:
                    host.add_route("default", head)
        else:
            host.forward()
        if role == "nat":
            outer = next(port for port in own if port["is_near"])
            timeout_s = node["udp_timeout_s"]
            config = NatConfig(
                f"l{outer['link']}",
                (outer["address"],),
                udp_timeout_s=round(timeout_s) if timeout_s else None,
            )
            Nat(host, config)
        for hop in self._graph["hops"]:
            if hop["node"] == index and hop["via"] is not None:
                host.add_route(self._graph["segments"][hop["to"]]["network"], hop["via"])


def link_config(
    link: Mapping[str, Any], traces: Mapping[str, Path], *, is_changing: bool = False
) -> LinkConfig | None:
    """The configuration of a link's relay; None if the link is bare.

    The native core has rounded all numbers, for the event kernel too.
    """
    rate, queue_bytes, trace = link["rate"], link["queue_bytes"], link["trace"]
    keys = ("delay_ns", "loss", "queue_bytes", "overhead_bytes", "reorder", "trace")
    is_shared, access_ns = link.get("is_half_duplex", False), link.get("access_ns", 0)
    is_fast = min(rate["up_bps"], rate["down_bps"]) >= BARE_BPS_MIN
    is_plain = not (is_shared or access_ns or any(link[key] for key in keys))
    if is_fast and not is_changing and is_plain:
        return None
    return LinkConfig(
        rate=None if trace else _rate(rate["up_bps"]),
        rate_back=None if trace else _rate(rate["down_bps"]),
        delay=_delay(link["delay_ns"]),
        loss=link["loss"],
        queue=f"{queue_bytes}b" if queue_bytes else UNLIMITED_QUEUE,
        trace=traces[trace] if trace else None,
        overhead=link["overhead_bytes"],
        reorder=link["reorder"],
        access_time=_delay(access_ns) if access_ns else None,
        is_half_duplex=is_shared,
    )


def words(to: Mapping[str, Any]) -> str:
    """The line that tells a relay how a move changes its link."""
    if rate := to.get("rate"):
        return f"rate={_rate(rate['up_bps'])} rate-back={_rate(rate['down_bps'])}"
    if "delay_ns" in to:
        return f"delay={_delay(to['delay_ns'])}"
    return f"loss={to['loss']}" if "loss" in to else f"up={str(to['up']).lower()}"


def _rate(bps: int) -> str:
    return f"{bps}bit"


def _delay(ns: int) -> str:
    return f"{ns}ns"
