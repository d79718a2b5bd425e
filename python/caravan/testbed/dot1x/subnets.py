"""Two subnets with an access point each: network and scenarios of paper P (Agarwal, Gill and Wang,
GLOBECOM 2004).

```
mn1 mn2 fn1 --- air --- ap1 --- lan1 --- r1 --- wan --- r2 --- lan2 --- ap2 --- air --- mn3
              gw1 ha1 fa1 cn1 ---'                      `--- gw2 ha2 fa2 cn2
```

A router is RADIUS server of its subnet. An IPsec tunnel joins both routers and so the home agents.
Where it differs from the paper: home agent, foreign agent and the gateway of the nodes' own tunnels
are hosts beside their router, because both agents use UDP port 434 of their host, and because what
a process of Caravan sends goes past the tunnels of the others on its host. Left out: the
tunnels of single nodes, which belong to a policy (`ipsec`); link ciphers are those of
`wireless.WirelessCipher`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from caravan.testbed.capture import IPPROTO_UDP, Frame
from caravan.testbed.caravan import Caravan, toml
from caravan.testbed.connection import Connection, SharedKey
from caravan.testbed.dot1x.authentication_server import RadiusServer
from caravan.testbed.dot1x.authenticator import Authenticator, RadiusClient
from caravan.testbed.dot1x.exchange import Tap
from caravan.testbed.dot1x.measurement import Authentication, Echoes, Meter
from caravan.testbed.dot1x.method import ServerConfig
from caravan.testbed.dot1x.network import UPLINK, Airs
from caravan.testbed.dot1x.supplicant import Supplicant
from caravan.testbed.errors import NamespaceError
from caravan.testbed.host import Host
from caravan.testbed.mobile_ip import ASSOCIATION, Role
from caravan.testbed.relay import LinkConfig

REGISTRATION_PORT = 434
REQUEST, REPLY, ACCEPTED = 1, 3, 0
"""Types of messages, and the code of an answer (RFC 5944 §3.3, §3.4)."""
RADIUS_SECRET = "of router and access point"
TUNNEL_KEY = SharedKey("a key of both routers, long enough to be none of a dictionary")


@dataclass(frozen=True)
class Subnet:
    """The addresses of a subnet, which is the home of its nodes."""

    number: int

    @property
    def network(self) -> str:
        """Its prefix."""
        return f"{self._first}.0/24"

    @property
    def router(self) -> str:
        """Of gateway and RADIUS server."""
        return f"{self._first}.1"

    @property
    def home_agent(self) -> str:
        """Of the home agent."""
        return f"{self._first}.3"

    @property
    def foreign_agent(self) -> str:
        """Of the foreign agent, and the care-of address of its visitors."""
        return f"{self._first}.2"

    @property
    def gateway(self) -> str:
        """Of the gateway of its nodes' tunnels."""
        return f"{self._first}.4"

    @property
    def correspondent(self) -> str:
        """Of the wired correspondent."""
        return f"{self._first}.5"

    @property
    def access_point(self) -> str:
        """Of the access point, as a client of RADIUS."""
        return f"{self._first}.11"

    @property
    def outer(self) -> str:
        """Of its router between the subnets."""
        return f"192.0.2.{self.number}"

    @property
    def access_point_role(self) -> str:
        """The access point's name among the hosts."""
        return f"ap{self.number}"

    @property
    def hosts(self) -> dict[str, str]:
        """Its wired hosts beside the router, by name."""
        addresses = {
            "ha": self.home_agent,
            "fa": self.foreign_agent,
            "gw": self.gateway,
            "cn": self.correspondent,
        }
        return {f"{role}{self.number}": address for role, address in addresses.items()}

    def node(self, number: int) -> str:
        """A home address."""
        return f"{self._first}.{number}"

    @property
    def _first(self) -> str:
        return f"10.18.{self.number}"


FIRST, SECOND = SUBNETS = (Subnet(1), Subnet(2))


@dataclass(frozen=True)
class Node:
    """A station and its home; it may move, or is `is_fixed`."""

    role: str
    home: Subnet
    number: int
    is_fixed: bool = False

    @property
    def address(self) -> str:
        """Its home address."""
        return self.home.node(self.number)


MN1, MN2, MN3 = Node("mn1", FIRST, 17), Node("mn2", FIRST, 18), Node("mn3", SECOND, 17)
FN1 = Node("fn1", FIRST, 9, is_fixed=True)
NODES = (MN1, MN2, MN3, FN1)
ROUTERS_SUITE = "aes128-sha256-modp2048"
"""Of the tunnel between the routers, in both phases."""


@dataclass(frozen=True)
class Scenario:
    """Who talks with whom: `mobile` is where `at` says, its correspondent is at home."""

    name: str
    mobile: Node
    at: Subnet
    correspondent: str
    address: str

    @property
    def is_roaming(self) -> bool:
        """Whether the node is not at home."""
        return self.at != self.mobile.home


class TwoSubnets(Airs):
    """The hosts: `links`, and in each subnet N `rN`, `haN`, `faN`, `gwN`, `cnN`, `apN` and its
    nodes."""

    def __init__(self, output: Path | None = None, airtime: LinkConfig | None = None) -> None:
        super().__init__(output, airtime)
        try:
            self.links.bridge("wan", [])
            self.roles = {host.role: host for host in self._subnets()}
            self.roles |= {node.role: self._node(node) for node in NODES}
        except BaseException:
            self.close()
            raise

    def _subnets(self) -> Iterator[Host]:
        for subnet in SUBNETS:
            lan = f"lan{subnet.number}"
            self.links.bridge(lan, [])
            router = self.host(f"r{subnet.number}")
            self._wire(router, "lan0", lan, f"{subnet.router}/24")
            self._wire(router, "wan0", "wan", f"{subnet.outer}/24")
            _route(router)
            yield router
            for role, address in subnet.hosts.items():
                host = self.host(role)
                self._wire(host, "lan0", lan, f"{address}/24")
                host.add_route("default", subnet.router)
                if address != subnet.correspondent:
                    _route(host)
                yield host
            self._access_point(subnet.access_point_role, lan, f"{subnet.access_point}/24")

    def _node(self, node: Node) -> Host:
        host = self._station(node.role, f"{node.address}/24", node.home.access_point_role)
        host.add_route("default", node.home.router)
        return host


def _route(host: Host) -> None:
    host.forward()
    for interface in ("all", "lan0"):
        host.sysctl(f"net.ipv4.conf.{interface}.send_redirects", "0")


@dataclass(frozen=True)
class Servers:
    """What runs in both subnets, by the number of the subnet."""

    radius: dict[int, RadiusServer]
    access_points: dict[int, Authenticator]
    home_agents: dict[int, Role]
    foreign_agents: dict[int, Role]
    gateways: dict[int, Caravan]


@contextlib.contextmanager
def serving(network: TwoSubnets, config: ServerConfig) -> Iterator[Servers]:
    """Run the servers, agents and gateways of both subnets until the tunnel is up."""
    servers = Servers({}, {}, {}, {}, {})
    with contextlib.ExitStack() as running:
        for subnet in SUBNETS:
            number, router = subnet.number, network.roles[f"r{subnet.number}"]
            secrets = {subnet.access_point: RADIUS_SECRET}
            server = RadiusServer(router, subnet.router, secrets, config)
            servers.radius[number] = running.enter_context(server)
            client = RadiusClient(subnet.router, RADIUS_SECRET, subnet.access_point)
            at = network.access_points[subnet.access_point_role]
            authenticator = Authenticator(at, network.radio, UPLINK, client)
            servers.access_points[number] = running.enter_context(authenticator)
            if network.cipher is not None:
                running.enter_context(network.cipher.keys(authenticator, RADIUS_SECRET))
            home_agent = Role(network.roles[f"ha{number}"], "home-agent", _home_agent(subnet))
            servers.home_agents[number] = running.enter_context(home_agent)
            agent = Role(network.roles[f"fa{number}"], "foreign-agent", _foreign_agent(subnet))
            servers.foreign_agents[number] = running.enter_context(agent)
            servers.gateways[number] = running.enter_context(_gateway(router, subnet))
        for role in (*servers.home_agents.values(), *servers.foreign_agents.values()):
            role.wait_ready()
        servers.gateways[SECOND.number].wait_ready()
        yield servers


@dataclass(frozen=True)
class Visit:
    """A node's way to the other subnet, in seconds, with the parts of its gap.

    `moved_s`: from the pulled cable to the order to begin, which is this testbed's.
    `discovery_s`: from the open port to the request to register that was granted, and
    `registration_s`: from that request to its answer. `gap_s`: from the last echo of a
    correspondent to the home address before the move to the first one after it.
    """

    moved_s: float
    authentication: Authentication
    discovery_s: float
    registration_s: float
    gap_s: float


def visit(
    network: TwoSubnets, servers: Servers, station: Supplicant, node: Role, correspondent: Host
) -> Visit:
    """Move a node from the first subnet to the second, under traffic with a correspondent."""
    here, there = (servers.access_points[subnet.number] for subnet in SUBNETS)
    address = node.mobility()["home_address"]
    with (
        Echoes(correspondent, address) as echoes,
        Meter(station, there, servers.radius[SECOND.number]) as meter,
        Tap(station.host, station.interface, port=REGISTRATION_PORT) as tap,
    ):
        echoes.wait_for_one(since_s=0.0)
        began_s = time.time()
        station.shut()
        network.plug(station.host, there.host.role)
        here.leave(station.hardware_address)
        authentication = meter.authenticate()
        opened_s = there.openings()[-1].opened_s
        node.wait_for(
            lambda it: bool(it["state"] == "registered"), f"registered with {SECOND.foreign_agent}"
        )
        found = granted(tap.read())
        if found is None:
            raise NamespaceError("a registration was granted, but the frames do not say so")
        asked_s, answered_s = found
        after_s = echoes.wait_for_one(answered_s)
        before_s = max(moment for moment in echoes.times() if moment < opened_s)
    associated_s = authentication.exchange.began_s - authentication.start_s
    return Visit(
        associated_s - began_s,
        authentication,
        asked_s - opened_s,
        answered_s - asked_s,
        after_s - before_s,
    )


def granted(frames: Sequence[Frame]) -> tuple[float, float] | None:
    """When a request had gone that was granted first, and when its answer came; None: none was.

    Both have an identification of 64 bits, of which the low half is the same (RFC 5944 §5.7).
    """
    requests: dict[bytes, float] = {}
    for frame in frames:
        if frame.protocol != IPPROTO_UDP:
            continue
        message = frame.payload[8:]
        if message[0] == REQUEST:
            requests[message[20:24]] = frame.time_s
        elif message[0] == REPLY and message[1] == ACCEPTED and message[16:20] in requests:
            return requests[message[16:20]], frame.time_s
    return None


def why_not_registered(frames: Sequence[Frame]) -> str:
    """Why no request of a node was granted: it sent none, got no answer, or was refused."""
    messages = [one.payload[8:] for one in frames if one.protocol == IPPROTO_UDP]
    requests = sum(one[0] == REQUEST for one in messages)
    if not requests:
        return "the node has sent no request to register: it has found no agent, or has no link"
    codes = sorted({one[1] for one in messages if one[0] == REPLY and one[1] != ACCEPTED})
    if codes:
        return f"the registration was refused with code {', '.join(map(str, codes))}"
    return f"no agent has answered a request to register, of {requests}"


def mobile_node(network: TwoSubnets, node: Node) -> Role:
    """Start the mobile node of a station."""
    own: dict[str, Any] = {
        "home_address": node.address,
        "prefix": 24,
        "home_agent": node.home.home_agent,
        "interfaces": [network.station_interface],
        "association": ASSOCIATION,
    }
    return Role(network.roles[node.role], "up", toml({"mobile": own}))


def _home_agent(subnet: Subnet) -> str:
    own: dict[str, Any] = {"address": subnet.home_agent, "prefix": 24, "interface": "lan0"}
    nodes: dict[str, dict[str, Any]] = {
        f"mobile_nodes.{node.role}": {"home_address": node.address, "association": ASSOCIATION}
        for node in NODES
        if node.home == subnet and not node.is_fixed
    }
    return toml({"home_agent": own} | nodes)


def _foreign_agent(subnet: Subnet) -> str:
    address = subnet.foreign_agent
    return toml({"foreign_agent": {"address": address, "interface": "lan0", "care_of": address}})


def _gateway(router: Host, subnet: Subnet) -> Caravan:
    """One end of the tunnel; that of the second subnet begins."""
    own, other = subnet, SECOND if subnet == FIRST else FIRST
    connection = Connection(
        TUNNEL_KEY,
        local_id=f"r{own.number}.example",
        remote_id=f"r{other.number}.example",
        name="subnets",
        version=1,
        is_legacy=False,
        proposals=ROUTERS_SUITE,
        esp_proposals=ROUTERS_SUITE,
        local_ts=own.network,
        remote_ts=other.network,
    )
    if subnet == SECOND:
        connection = replace(connection, remote_addrs=other.outer)
    gateway = Caravan(router, connection)
    return gateway.wait_ready() if subnet == FIRST else gateway
