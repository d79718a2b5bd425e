"""The two subnets with everything that runs whatever the policy, and one cell after the other in
them: a policy in a scenario.

Servers, agents, gateways, mobile nodes, link ciphers and the ends of flows run all the time. The
frames of all policies are those of IEEE 802.11, also those that nothing protects, so that what WEP
costs is the cipher's. A cell has its own supplicants, its own tunnels, and an arrival of its own:
the mobile node joins the access point of the scenario, is authenticated there, registers, and makes
its tunnel. Left out: what is sent in a cell (`caravan.threeways.policies`).
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from caravan.testbed import traffic_end
from caravan.testbed.capture import Frame
from caravan.testbed.caravan import Daemon
from caravan.testbed.connection import PublicKey
from caravan.testbed.dot1x.authenticator import Authenticator
from caravan.testbed.dot1x.exchange import Tap
from caravan.testbed.dot1x.ipsec import (
    Ends,
    NodeTunnel,
    gateway_file,
    led,
    node_file,
)
from caravan.testbed.dot1x.measurement import Authentication, Meter
from caravan.testbed.dot1x.method import (
    SERVER_NAME,
    Account,
    Login,
    Method,
    ServerConfig,
    ServerIdentity,
)
from caravan.testbed.dot1x.policies import Policy
from caravan.testbed.dot1x.ports import SupplicantPort
from caravan.testbed.dot1x.subnets import (
    FIRST,
    MN1,
    NODES,
    REGISTRATION_PORT,
    SUBNETS,
    Node,
    Scenario,
    Servers,
    Subnet,
    TwoSubnets,
    granted,
    mobile_node,
    serving,
    why_not_registered,
)
from caravan.testbed.dot1x.supplicant import Supplicant
from caravan.testbed.dot1x.wireless import LinkSecurity, WirelessCipher
from caravan.testbed.errors import NamespaceError, TimedOut
from caravan.testbed.folders import private_folder
from caravan.testbed.host import Host
from caravan.testbed.mobile_ip import Role
from caravan.testbed.pki import Authority, CaravanAuthority, Key, OpensslAuthority
from caravan.testbed.relay import Late, LinkConfig, lateness_s, waited_s

PASSWORD = "mellon"
READY_S = 15.0
POLL_S = 0.002
DISCARD_PORT = 9
PROBE_BYTES = 64
ROLES = ("mn1", "mn2", "fn1", "mn3", "ha1", "cn1")
"""The ends of flows."""


@dataclass(frozen=True)
class Arrival:
    """A node's way to its link, in seconds.

    `authentication`: the exchange of IEEE 802.1X, if the policy has one. `discovery_s`: from the
    open port until the air is free for the request that was granted, in which the node sees its
    link and looks for agents: another one's answer may still be in the air. `registration_s`: from
    then to the answer of the request. `exchange_s`: of IKE, 0 without a tunnel and
    where the tunnel was kept. `late_s`: what of `start`, `eap`, `registration` and `ike` is that
    the emulated air let frames go later than they were due, because it had to wake up.
    """

    authentication: Authentication | None
    discovery_s: float
    registration_s: float
    exchange_s: float
    late_s: Mapping[str, float] = field(default_factory=dict)


class End:
    """The program at an end of flows. It takes orders when it is ready."""

    def __init__(self, host: Host, credentials: tuple[Path, Path, Path]) -> None:
        argv = [sys.executable, traffic_end.__file__, *map(str, credentials)]
        self._process = host.popen(argv, name="end", is_told=True)
        self._asked = 1

    def wait_ready(self) -> None:
        """Wait until it answers other ends."""
        self._process.wait_for(lambda: bool(self._process.stdout()), "readiness", READY_S)

    def order(self, words: str, timeout_s: float = 60.0) -> dict[str, Any]:
        """Begin a flow, and wait for what came of it; `NamespaceError` if it failed."""
        self._process.tell(words)
        self._asked += 1
        deadline = time.monotonic() + timeout_s
        while len(lines := self._process.stdout().splitlines(keepends=True)) < self._asked or (
            not lines[-1].endswith("\n")
        ):
            if time.monotonic() > deadline or not self._process.is_running():
                raise TimedOut(f"{words}: no answer: {self._process.stderr()[-500:]}")
            time.sleep(POLL_S)
        answer: dict[str, Any] = json.loads(lines[-1])
        if "fault" in answer:
            raise NamespaceError(str(answer["fault"]))
        return answer

    def wait_reaching(self, address: str) -> None:
        """Wait until another end answers."""
        deadline = time.monotonic() + READY_S
        while self.order(f"echo {address} 1 {PROBE_BYTES}")["seconds"] == [None]:
            if time.monotonic() > deadline:
                raise TimedOut(f"{address} does not answer")


@dataclass(frozen=True)
class Proofs:
    """By what everybody proves who they are: `logins`, of stations; `server`, of the servers of
    accounts; `ends`, of both ends of tunnels; `flows`, of both ends of flows in TLS."""

    logins: Mapping[Method, Login]
    server: ServerConfig
    ends: Ends
    flows: ServerIdentity

    @classmethod
    def made(cls, folder: Path) -> Self:
        """Make keys and certificates in a folder that nobody else reads."""
        authority = CaravanAuthority(private_folder(folder))
        logins, server = _logins(authority)
        gateways = {
            one.number: PublicKey(authority.issue(f"gw{one.number}.example"), authority)
            for one in SUBNETS
        }
        nodes = {
            one.role: PublicKey(authority.issue(f"{one.role}.example"), authority) for one in NODES
        }
        return cls(logins, server, Ends(gateways, nodes), server.identity)

    def with_short_keys(self, folder: Path) -> Self:
        """The same with keys of EAP-TLS as long as those of 2004, in another such folder."""
        authority = OpensslAuthority(private_folder(folder), "authority of 2004", Key.RSA_1024)
        logins, server = _logins(authority, is_legacy=True)
        return replace(self, logins=logins, server=server)


class Bed:
    """Both subnets, running; a context manager. `air`: what the air of an access point carries,
    `security`: what protects its frames, `proofs`: what another network was told before."""

    def __init__(
        self,
        output: Path,
        air: LinkConfig | None,
        security: LinkSecurity,
        proofs: Proofs | None = None,
    ) -> None:
        proofs = proofs or Proofs.made(output / "pki")
        self.logins, self.keys = proofs.logins, proofs.ends
        self._running = contextlib.ExitStack()
        try:
            self._start(output, air, security, proofs)
        except BaseException:
            self.close()
            raise

    def _start(
        self, output: Path, air: LinkConfig | None, security: LinkSecurity, proofs: Proofs
    ) -> None:
        self.network = self._running.enter_context(TwoSubnets(output / "logs", air))
        cipher = WirelessCipher(self.network, security, has_captures=False)
        self.cipher = self._running.enter_context(cipher)
        self.servers: Servers = self._running.enter_context(serving(self.network, proofs.server))
        self.gateways = {one.number: self._gateway(one) for one in SUBNETS}
        for node in NODES:
            self.point(node.home).admit(self.hardware_address(node))
        self._places = {node.role: node.home for node in NODES}
        self.nodes: dict[str, Role] = {}
        for node in NODES:
            if not node.is_fixed:
                role = self._running.enter_context(mobile_node(self.network, node))
                self.nodes[node.role] = role
        for role in self.nodes.values():
            role.wait_ready()
            if not security.is_of_eap:
                # With keys of EAP nobody reaches anything before its first authentication.
                role.wait_for(lambda part: bool(part["state"] == "at home"), "at home")
        own = proofs.flows.credentials
        files = own.certificate, own.key, proofs.flows.authority
        self.ends = {role: End(self.network.roles[role], files) for role in ROLES}
        for end in self.ends.values():
            end.wait_ready()

    def _gateway(self, subnet: Subnet) -> Daemon:
        host = self.network.roles[f"gw{subnet.number}"]
        nodes = [node for node in NODES if node.home == subnet]
        file = gateway_file(host, subnet, nodes, self.keys)
        return self._running.enter_context(Daemon(host, "gateway", file)).wait_ready()

    def close(self) -> None:
        """End everything."""
        self._running.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Cells.

    @contextlib.contextmanager
    def cell(
        self,
        policy: Policy,
        scenario: Scenario,
        *,
        is_renewed: bool = False,
    ) -> Iterator[Cell]:
        """A policy in a scenario, at both ends if both have a radio link.

        `is_renewed`: a tunnel is made anew after a roam; else it is kept.
        """
        with contextlib.ExitStack() as stations, contextlib.ExitStack() as tunnels:
            cell = Cell(self, policy, scenario, stations, tunnels)
            for node in NODES:
                if node.role == scenario.correspondent:
                    cell.arrive(node, node.home)
                    cell.make_tunnel(node)
            is_kept = scenario.is_roaming and not is_renewed
            # The first exchange of a supplicant also starts its TLS up. And who comes to the other
            # subnet comes from home under every policy: the home agent has no binding yet, which
            # takes longer than to renew one.
            cell.arrive(MN1, FIRST)
            if is_kept:
                cell.make_tunnel(MN1)
            arrival = cell.arrive(MN1, scenario.at)
            cell.arrival = cell.with_tunnel(MN1, arrival)
            self.end.wait_reaching(scenario.address)
            yield cell
            # Deletes of tunnels still pass their ports.
            tunnels.close()
            cell.end_stations()

    @property
    def end(self) -> End:
        """That of the mobile node."""
        return self.ends[MN1.role]

    def point(self, subnet: Subnet) -> Authenticator:
        """The access point of a subnet."""
        return self.servers.access_points[subnet.number]

    def hardware_address(self, node: Node) -> str:
        """A node's Ethernet address."""
        interface = self.network.station_interface
        return self.network.roles[node.role].hardware_address(interface)

    def is_at_home(self, node: Node) -> bool:
        """Whether a node is in the subnet of its home."""
        return self._places[node.role] == node.home

    def leave(self, node: Node) -> None:
        """Shut the port at which a node is."""
        self.point(self._places[node.role]).leave(self.hardware_address(node))

    def late_s(self, node: Node, spans: Mapping[str, tuple[float, float]]) -> dict[str, float]:
        """What the air took by being late in each of these times of a node there."""
        frames, station = self._frames(node), self.hardware_address(node)
        return {name: lateness_s(frames, station, *span) for name, span in spans.items()}

    def waited_s(self, node: Node, since_s: float) -> float:
        """How long others had the air before what a node sent next after a moment."""
        return waited_s(self._frames(node), self.hardware_address(node), since_s)

    def _frames(self, node: Node) -> list[Late]:
        relay = self.network.airtimes.get(self._places[node.role].access_point_role)
        return relay.late() if relay is not None else []

    def plug(self, node: Node, at: Subnet) -> None:
        """Move a node to the air of a subnet."""
        self.network.plug(self.network.roles[node.role], at.access_point_role)
        self._places[node.role] = at


class Cell:
    """A policy in a scenario, while it holds. `arrival`: that of the mobile node."""

    arrival: Arrival

    def __init__(
        self,
        bed: Bed,
        policy: Policy,
        scenario: Scenario,
        running: contextlib.ExitStack,
        tunnelled: contextlib.ExitStack,
    ) -> None:
        self.bed = bed
        self.policy = policy
        self.scenario = scenario
        self.tunnels: dict[str, NodeTunnel] = {}
        self._running, self._tunnelled = running, tunnelled
        self._stations: dict[str, Supplicant] = {}

    def order(self, command: str, *words: object) -> dict[str, Any]:
        """A flow from the mobile node to its correspondent, in the words of `traffic_end`."""
        return self.bed.end.order(" ".join(map(str, (command, self.scenario.address, *words))))

    def cpu_s(self) -> dict[str, float]:
        """Processor time so far in seconds: `ipsec`, of the tunnels and their gateways; `link`, of
        the ends of wireless links; `cipher`, the part of that in which they protect frames."""
        gateways = self.bed.gateways.values() if self.policy.ipsec else ()
        reports = self.bed.cipher.status().values()
        return {
            "ipsec": sum(one.cpu_s() for one in (*self.tunnels.values(), *gateways)),
            "link": sum(one["cpu_ns"] for one in reports) / 1e9,
            "cipher": sum(one["protect_ns"] + one["unprotect_ns"] for one in reports) / 1e9,
        }

    def arrive(self, node: Node, at: Subnet) -> Arrival:
        """Plug a node in, with its authentication, its registration, and no new tunnel."""
        host, point = self.bed.network.roles[node.role], self.bed.point(at)
        station = self._station(node)
        for relay in self.bed.network.airtimes.values():
            relay.forget_late()
        interface = self.bed.network.station_interface
        with Tap(host, interface, port=REGISTRATION_PORT) as tap:
            self.bed.leave(node)
            if station is None:
                point.admit(self.bed.hardware_address(node))
                # It is dormant until it has joined: of a carrier that goes and comes the kernel
                # tells programs up to a second late.
                port = SupplicantPort(host, interface)
                self.bed.plug(node, at)
                port.close()
                authentication, opened_s = None, time.time()
            else:
                self.bed.plug(node, at)
                with Meter(station, point, self.bed.servers.radius[at.number]) as meter:
                    authentication = meter.authenticate()
                opened_s = point.openings()[-1].opened_s
            if node.is_fixed:
                _lead_out(host, at)
                return Arrival(authentication, 0.0, 0.0, 0.0)
            asked_s, answered_s = _registered(tap, node)
        asked_s += self.bed.waited_s(node, asked_s)
        spans = _spans(authentication) | {"registration": (asked_s, answered_s)}
        late_s = self.bed.late_s(node, spans)
        if at == node.home:
            _lead_out(host, at)
        discovery_s = max(0.0, asked_s - opened_s)
        return Arrival(authentication, discovery_s, answered_s - asked_s, 0.0, late_s)

    def with_tunnel(self, node: Node, arrival: Arrival) -> Arrival:
        """An arrival that goes on with a node's tunnel, if that has to be made."""
        span = self.make_tunnel(node)
        if span is None:
            return arrival
        late_s = {**arrival.late_s, **self.bed.late_s(node, {"ike": span})}
        return replace(arrival, exchange_s=span[1] - span[0], late_s=late_s)

    def make_tunnel(self, node: Node) -> tuple[float, float] | None:
        """Make a node's tunnel, if the policy has one and it has none yet: when IKE began and
        ended, in seconds since the epoch."""
        if self.policy.ipsec is None or node.role in self.tunnels:
            return None
        roles, home = self.bed.network.roles, node.home
        host = roles[node.role]
        neighbours = [roles[f"{name}{home.number}"] for name in ("r", "ha", "cn")]
        gateway = roles[f"gw{home.number}"]
        if self.bed.is_at_home(node):
            _know(host, home.gateway)
        file = node_file(host, node, self.policy.ipsec, self.bed.keys)
        self._tunnelled.enter_context(led(host, node.address, gateway, neighbours))
        tunnel = NodeTunnel(host, file)
        self._tunnelled.enter_context(tunnel)
        self.tunnels[node.role] = tunnel
        return tunnel.exchange()

    def end_stations(self) -> None:
        """Tell all supplicants to end, so that they do at the same time."""
        for station in self._stations.values():
            station.end()

    def _station(self, node: Node) -> Supplicant | None:
        if self.policy.method is None:
            return None
        if node.role not in self._stations:
            host, login = self.bed.network.roles[node.role], self.bed.logins[self.policy.method]
            station = self.bed.cipher.supplicant(host, login)
            self._stations[node.role] = self._running.enter_context(station)
        return self._stations[node.role]


def _spans(authentication: Authentication | None) -> dict[str, tuple[float, float]]:
    """When the parts of an authentication began and ended that frames of the air are in."""
    if authentication is None:
        return {}
    exchange = authentication.exchange
    return {
        "start": (exchange.began_s - authentication.start_s, exchange.began_s),
        "eap": (exchange.began_s, exchange.ended_s),
    }


def _lead_out(host: Host, home: Subnet) -> None:
    """Give a node at home its default route, as DHCP would: it was lost with the link."""
    words = ["ip", "route", "replace", "default", "via", home.router]
    deadline = time.monotonic() + READY_S
    # The home address may not be on the interface yet.
    while host.run(words, check=False).code != 0:
        if time.monotonic() > deadline:
            raise TimedOut(f"{host.role}: no route to {home.router}")


def _know(host: Host, gateway: str) -> None:
    """Wait until a node at home knows its gateway's Ethernet address, as its gateway then knows the
    node's: a round of ARP over the air is none of IKE's."""
    deadline = time.monotonic() + READY_S
    with host.entered():
        speaker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with speaker:
        while not host.knows(gateway):
            # Whether it takes it is up to its policies.
            with contextlib.suppress(OSError):
                speaker.sendto(b"", (gateway, DISCARD_PORT))
            if time.monotonic() > deadline:
                raise TimedOut(f"{host.role}: nobody has {gateway}")
            time.sleep(POLL_S)


def _registered(tap: Tap, node: Node) -> tuple[float, float]:
    """When the request of a registration had gone, and when it was granted."""
    frames: list[Frame] = []
    deadline = time.monotonic() + READY_S
    while (found := granted(frames)) is None:
        if time.monotonic() > deadline:
            raise TimedOut(f"{node.role}: {why_not_registered(frames)}")
        time.sleep(POLL_S)
        frames += tap.read()
    return found


def _logins(
    authority: Authority, *, is_legacy: bool = False
) -> tuple[dict[Method, Login], ServerConfig]:
    """What stations know, and what the authentication servers do. `is_legacy`: an OpenSSL
    configuration of their own lets their programs take the keys of this authority."""
    identity = ServerIdentity(authority.issue(SERVER_NAME), authority.certificate)
    own = authority.issue("station.example")
    logins = {
        Method.MD5: Login("md5@bench", Method.MD5, PASSWORD),
        Method.TLS: Login(
            "tls@bench",
            Method.TLS,
            credentials=own,
            authority=authority.certificate,
            is_legacy=is_legacy,
        ),
    }
    accounts = tuple(Account(one.identity, one.method, one.password) for one in logins.values())
    return logins, ServerConfig(identity, accounts, is_legacy=is_legacy)
