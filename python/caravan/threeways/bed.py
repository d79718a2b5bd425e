"""The network of a scenario in namespaces, with the real program on its gateways and clients.

The native core has resolved what runs where, and with which addresses and ports.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from caravan import _lab
from caravan.lab import core
from caravan.testbed.capture import Capture
from caravan.testbed.caravan import Caravan
from caravan.testbed.connection import Connection, PublicKey, Published
from caravan.testbed.graph import GraphNetwork, NotForTestbed
from caravan.testbed.pki import (
    Authority,
    Key,
    OpensslAuthority,
    passing_folder,
)
from caravan.threeways.ends import CLEAR, check_policy, connection, key_of

TUNNEL = "caravan0"
RESUMED_S = 90.0
"""What a client's probes take at most until it knows that its gateway is not there, and a bit."""


@dataclass(frozen=True)
class Setting:
    """A scenario as the native core has resolved it, once for all levels.

    `opened` answers further questions. `traces` are files of recordings by the name that links have
    for them. `is_graph`: it has the long form, with flows.
    """

    opened: _lab.Scenario
    is_graph: bool
    scenario: Mapping[str, Any]
    graph: Mapping[str, Any]
    traces: Mapping[str, Path]

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> Setting:
        """Resolve a request, or a refusal of the core."""
        opened = core.opened(request)
        resolved = core.scenario(opened)
        entries = (entry for entry in request["catalogue"] if entry["kind"] == "trace")
        traces = {entry["name"]: Path(entry["file"]).resolve() for entry in entries}
        return cls(opened, resolved["is_graph"], resolved["scenario"], resolved["graph"], traces)

    def check_testbed(self) -> None:
        """`NotForTestbed` or a refusal of the core if the testbed cannot run it."""
        for node in self.scenario["nodes"]:
            if node["role"] == "access-point":
                what = 'only studies with measure = "wireless" have access points in the testbed'
                raise NotForTestbed(f"node.{node['name']}", what)
        for tunnel in self.setup["tunnels"]:
            check_policy(tunnel)
        if self.setup.get("skip"):
            raise NotForTestbed("layer", "the testbed of scenarios does not run firewalls")
        if self.setup.get("mobile"):
            raise NotForTestbed("layer", "the testbed of scenarios does not run Mobile IP")
        for flow in self.graph["flows"]:
            if flow.get("at_s"):
                key = f"flow.{flow['name']}.at"
                raise NotForTestbed(key, "all flows of the testbed begin together")
        # the core refuses what it cannot simulate either, such as a recording that is not there
        _ = self.departures

    @cached_property
    def departures(self) -> list[list[tuple[int, int]] | None]:
        """The datagrams of each flow."""
        return core.departures(self.opened)

    @property
    def setup(self) -> Mapping[str, Any]:
        """Tunnels, published ports and where flows go."""
        setup: Mapping[str, Any] = self.graph["setup"]
        return setup


@dataclass(frozen=True)
class Bed:
    """A network whose tunnels are up. `stations` are the programs of clients by their node.

    `arrival`: what a chain's first link carried until they were; None for a graph. Of tunnels that
    go on from lost sessions it has only the way back.
    """

    setting: Setting
    network: GraphNetwork
    stations: Mapping[int, Caravan]
    arrival: Path | None

    def inner_address(self, station: int) -> str:
        """The inner address that the gateway has leased to a client."""
        told = self.network.node(station).addresses(TUNNEL)
        (address,) = (text.partition("/")[0] for text in told if not text.startswith("fe80:"))
        return address


@contextlib.contextmanager
def running(setting: Setting, output: Path) -> Iterator[Bed]:
    """The network with every gateway and client up; without protection gateways only publish.

    A tunnel that goes on from a lost session is up, its gateway is killed and begins anew, and its
    client is back by its ticket.
    """
    scenario, graph = setting.scenario, setting.graph
    output.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        nodes = scenario["nodes"]
        network = stack.enter_context(GraphNetwork(nodes, graph, setting.traces, output))
        ends = _Ends(setting, _Authorities(stack.enter_context(passing_folder(output))))
        # A gateway that begins anew has the same certificates: tickets are of those.
        gateways = {
            index: ends.gateway(index)
            for index, node in enumerate(nodes)
            if node["role"] == "gateway"
        }

        def begin(gateway: int) -> Caravan:
            first, *others = gateways[gateway]
            program = Caravan(network.node(gateway), first, others=others)
            return stack.enter_context(program).wait_ready()

        programs = {gateway: begin(gateway) for gateway in gateways}
        arrival = None if setting.is_graph else output / "arrival.pcap"
        with _heard(network, arrival):
            stations = {
                tunnel["from"]: stack.enter_context(
                    Caravan(network.node(tunnel["from"]), ends.station(tunnel))
                )
                for tunnel in setting.setup["tunnels"]
            }
            for station in stations.values():
                station.wait_ready()
        resumed = {
            tunnel["from"]: tunnel["to"]
            for tunnel in setting.setup["tunnels"]
            if tunnel["protection"]["keys"].get("resumed")
        }
        if resumed:
            with _heard(network, arrival):
                for gateway in sorted(set(resumed.values())):
                    programs[gateway].crash()
                    begin(gateway)
                for index in resumed:
                    station = stations[index]
                    station.process.wait_for(station.is_resumed, "a ticket", RESUMED_S)
        yield Bed(setting, network, stations, arrival)


@contextlib.contextmanager
def _heard(network: GraphNetwork, arrival: Path | None) -> Iterator[None]:
    """Captures the first link of a chain."""
    if arrival is None:
        yield
        return
    with Capture(*network.near_ends[0], arrival):
        yield


class _Authorities:
    """An authority for each kind of key, made when it is needed. Its certificates are as long as
    those of the event kernel."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[Key, Authority] = {}

    def key(self, kind: Key, name: str) -> PublicKey:
        """A key with a certificate of this name, and its authority."""
        if kind not in self._made:
            self._made[kind] = self._make(kind)
        return PublicKey(self._made[kind].issue(name), self._made[kind])

    def _make(self, kind: Key) -> Authority:
        folder = self._folder.with_name(f"pki-{kind.name.lower()}")
        return OpensslAuthority(folder, "Caravan test CA", kind)


@dataclass(frozen=True)
class _Ends:
    """The configurations of all ends."""

    setting: Setting
    authorities: _Authorities

    def gateway(self, gateway: int) -> list[Connection]:
        """Of a gateway: a connection for each of its policies, the first publishes."""
        tunnels = [one for one in self.setting.setup["tunnels"] if one["to"] == gateway]
        published = tuple(
            Published(
                one["port"],
                f"{one['address']}:{one['port']}",
                "tcp" if one["is_tcp"] else "udp",
                is_masqueraded=not tunnels,
            )
            for one in self.setting.setup["published"]
            if one["gateway"] == gateway
        )
        if not tunnels:
            return [replace(CLEAR, publish=published)]
        name = f"{self._node(gateway)}.example"
        by_rank = {tunnel["rank"]: tunnel for tunnel in reversed(tunnels)}
        found = [
            replace(
                connection(tunnel, self._key(tunnel, name)),
                # the names are in tickets, which are as long as those of the event kernel
                name=f"road-{rank + 1}" if rank else "road",
                local_id=name,
                # of several that fit, the program takes the narrowest
                remote_id=f"*{_ending(rank)}" if rank else "*",
                pool=tunnel["pool"],
                local_ts=tunnel["inside"] if tunnel["is_tunnel"] else "",
            )
            for rank, tunnel in sorted(by_rank.items())
        ]
        return [replace(found[0], publish=published), *found[1:]]

    def station(self, tunnel: Mapping[str, Any]) -> Connection:
        """Of a station."""
        name = f"{self._node(tunnel['from'])}{_ending(tunnel['rank'])}"
        return replace(
            connection(tunnel, self._key(tunnel, name)),
            local_id=name,
            remote_id=f"{self._node(tunnel['to'])}.example",
            remote_addrs=tunnel["gateway"],
            wants_address=tunnel["is_tunnel"],
            remote_ts=tunnel["inside"] if tunnel["is_tunnel"] else "",
        )

    def _node(self, node: int) -> str:
        return str(self.setting.scenario["nodes"][node]["name"])

    def _key(self, tunnel: Mapping[str, Any], name: str) -> PublicKey:
        return self.authorities.key(key_of(tunnel), name)


def _ending(rank: int) -> str:
    """What the identities of the stations of one of a gateway's policies end in."""
    return f".policy{rank}.example" if rank else ".example"
