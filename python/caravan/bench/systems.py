"""The compared data planes, each between two namespaces of its own joined by a veth.

Every system carries the same traffic: TCP from the client to an address inside the gateway, in
packets of 1,400 bytes. All are set up once and run at the same time; only the measured one has
traffic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from caravan.bench import congestion
from caravan.bench.wireguard import KeyPair, Peer, WireGuard
from caravan.testbed.caravan import Caravan
from caravan.testbed.connection import Connection
from caravan.testbed.host import Host
from caravan.testbed.network import Network
from caravan.testbed.process import Process
from caravan.testbed.strongswan import StrongSwan
from caravan.threeways.measurement import IKE_PROPOSAL, Keys

INNER_MTU_BYTES = 1400
OUTER_MTU_BYTES = 1500
STATION_OUTER, GATEWAY_OUTER = "192.0.2.2", "192.0.2.1"
GATEWAY_INNER = "10.10.0.1"
STATION_INNER = "10.10.0.2"
INNER_NETWORK = "10.10.0.0/24"
POOL = "10.99.0.0/24"
FORWARDER_DEVICE, FORWARDER_PORT = "forward0", 4500
READY_S = 10.0

PLAIN = "plain veth"
FORWARDER = "forwarder, no protection"
WIREGUARD_GO = "wireguard-go"
BORINGTUN = "boringtun"
BORINGTUN_1 = "boringtun, 1 thread"
STRONGSWAN = "strongSwan aes128gcm16"
DEFAULT_SUITE = "aes128gcm16"
CARAVAN = f"caravan {DEFAULT_SUITE}"
AS_PROTOCOL_50 = ", protocol 50"
CARAVAN_RAW = CARAVAN + AS_PROTOCOL_50
PEERS = (PLAIN, FORWARDER, WIREGUARD_GO, BORINGTUN_1, BORINGTUN, STRONGSWAN)
SUITES = (
    "aes256gcm16",
    "chacha20poly1305",
    "aes128-sha1",
    "aes128-sha256",
    "null-md5",
    "des-md5",
    "3des-md5",
)


@dataclass(frozen=True)
class System:
    """A tunnel that is up: the destination of traffic, and the programs whose CPU time it costs."""

    name: str
    station: Host
    gateway: Host
    address: str
    daemons: Sequence[Process] = ()

    def cpu_s(self) -> float:
        """CPU seconds so far of both ends' programs, all threads."""
        return sum(daemon.cpu_s() for daemon in self.daemons)


class Bench(Network):
    """Pairs of hosts, one for each system.

    `peers`: where `tools/bench-peers` builds. `forwarder`: the program of
    `crates/daemon/benches/forwarder.rs`, if that system is requested.
    """

    def __init__(
        self, keys: Keys, peers: Path, output: Path, forwarder: Path | None = None
    ) -> None:
        super().__init__(output)
        self._keys = keys
        self._peers = peers
        self._forwarder = forwarder

    def bring_up(self, name: str) -> System:
        """The running system of this name; `FileNotFoundError` if its program is missing."""
        if name.startswith("caravan "):
            return self.caravan(name)
        makers: dict[str, Callable[[], System]] = {
            PLAIN: self.plain,
            FORWARDER: self.forwarder,
            WIREGUARD_GO: self.wireguard_go,
            BORINGTUN_1: lambda: self.boringtun(BORINGTUN_1, ["--threads", "1"]),
            BORINGTUN: lambda: self.boringtun(BORINGTUN, []),
            STRONGSWAN: lambda: self.strongswan(STRONGSWAN, "aes128gcm16"),
        }
        if name not in makers:
            raise ValueError(f"no system named {name!r}; there are {', '.join(makers)}")
        return makers[name]()

    def plain(self) -> System:
        """No tunnel: the veth itself, at the tunnels' inner MTU."""
        station, gateway = self._pair(INNER_MTU_BYTES)
        return System(PLAIN, station, gateway, GATEWAY_OUTER)

    def forwarder(self) -> System:
        """Frames of a TUN device as unencrypted UDP datagrams: the lower bound of every delay."""
        if self._forwarder is None:
            raise FileNotFoundError(
                "no forwarder: cargo bench -p daemon --bench forwarder builds it"
            )
        hosts = self._pair(OUTER_MTU_BYTES)
        inner, outer = (STATION_INNER, GATEWAY_INNER), (STATION_OUTER, GATEWAY_OUTER)
        daemons = [
            hosts[own].popen(
                [
                    str(self._forwarder),
                    FORWARDER_DEVICE,
                    f"{outer[own]}:{FORWARDER_PORT}",
                    f"{outer[other]}:{FORWARDER_PORT}",
                ]
            )
            for own, other in ((0, 1), (1, 0))
        ]
        for host, daemon, address in zip(hosts, daemons, inner, strict=True):
            self._wait_for_forwarder(daemon)
            host.add_address(FORWARDER_DEVICE, f"{address}/24")
        return System(FORWARDER, *hosts, GATEWAY_INNER, tuple(daemons))

    @staticmethod
    def _wait_for_forwarder(daemon: Process) -> None:
        daemon.wait_for(lambda: "ready" in daemon.stdout(), FORWARDER, READY_S)

    def wireguard_go(self) -> System:
        """wireguard-go, as `tools/bench-peers` built it."""
        program = self._program("wireguard-go")
        return self._wireguard(WIREGUARD_GO, [program, "--foreground"])

    def boringtun(self, name: str, options: Sequence[str]) -> System:
        """boringtun, as `tools/bench-peers` built it."""
        program = self._program("boringtun-cli")
        argv = [program, "--foreground", "--disable-drop-privileges", *options]
        return self._wireguard(name, argv)

    def strongswan(self, name: str, esp_proposals: str) -> System:
        """charon on both ends with its userspace ESP."""
        station, gateway = self._ipsec_pair()
        on_gateway, on_station = ipsec_ends(self._keys, esp_proposals)
        responder = StrongSwan(gateway, on_gateway)
        initiator = StrongSwan(station, on_station)
        initiator.initiate()
        daemons = (responder.process, initiator.process)
        return System(name, station, gateway, GATEWAY_INNER, daemons)

    def caravan(self, name: str) -> System:
        """Caravan on both ends: with ESP in UDP, the default, or as IP protocol 50."""
        is_encapsulated = False if name.endswith(AS_PROTOCOL_50) else None
        suite = name.removeprefix("caravan ").removesuffix(AS_PROTOCOL_50)
        # The default has 64-bit sequence numbers too.
        esp = "" if suite == DEFAULT_SUITE else f"{suite}-esn"
        station, gateway = self._ipsec_pair()
        on_gateway, on_station = ipsec_ends(self._keys, esp, is_encapsulated=is_encapsulated)
        responder = Caravan(gateway, on_gateway).wait_ready()
        initiator = Caravan(station, on_station).wait_ready()
        for host in (station, gateway):
            for interface in host.interfaces():
                if interface not in ("lo", "wan0"):
                    host.set_mtu(interface, INNER_MTU_BYTES)
        daemons = (responder.process, initiator.process)
        return System(name, station, gateway, GATEWAY_INNER, daemons)

    def pair(self) -> tuple[Host, Host]:
        """Client and gateway with an address inside, for IPsec to connect."""
        return self._ipsec_pair()

    def _ipsec_pair(self) -> tuple[Host, Host]:
        station, gateway = self._pair(OUTER_MTU_BYTES)
        gateway.add_address("lo", f"{GATEWAY_INNER}/24")
        return station, gateway

    def _pair(self, mtu_bytes: int) -> tuple[Host, Host]:
        number = len(self.hosts) // 2
        station, gateway = self.host(f"ms{number}"), self.host(f"sg{number}")
        for host in (station, gateway):
            host.sysctl(congestion.SETTING, congestion.UNPACED)
        station.connect("wan0", gateway, "wan0", mtu_bytes)
        station.add_address("wan0", f"{STATION_OUTER}/24")
        gateway.add_address("wan0", f"{GATEWAY_OUTER}/24")
        return station, gateway

    def _wireguard(self, name: str, argv: Sequence[str]) -> System:
        hosts = self._pair(OUTER_MTU_BYTES)
        inner, outer = (STATION_INNER, GATEWAY_INNER), (STATION_OUTER, GATEWAY_OUTER)
        keys = (KeyPair.make(), KeyPair.make())
        ends = []
        for own, other in ((0, 1), (1, 0)):
            host, interface = hosts[own], f"wg{len(self.hosts)}{'sg'[own]}"
            peer = Peer(keys[other].public, outer[other], f"{inner[other]}/32")
            ends.append(WireGuard(host, argv, interface, keys[own], peer))
            host.add_address(interface, f"{inner[own]}/24")
            host.set_mtu(interface, INNER_MTU_BYTES)
            host.link_up(interface)
        return System(name, *hosts, GATEWAY_INNER, tuple(end.process for end in ends))

    def _program(self, name: str) -> str:
        path = self._peers / "bin" / name
        if not path.is_file():
            raise FileNotFoundError(f"no {name} at {path}: tools/bench-peers builds it")
        return str(path)


def ipsec_ends(
    keys: Keys, esp_proposals: str, *, is_encapsulated: bool | None = None
) -> tuple[Connection, Connection]:
    """Gateway and client: IKEv2 with the program's own suites, RSA signatures, an inner address."""
    return _ends(
        Connection(
            keys.gateway,
            local_id="sg.example",
            proposals="",
            esp_proposals=esp_proposals,
            local_ts=INNER_NETWORK,
            pool=POOL,
            is_encapsulated=is_encapsulated,
            version=2,
        ),
        keys,
    )


def ikev1_ends(keys: Keys, esp_proposals: str) -> tuple[Connection, Connection]:
    """The same by IKEv1: aggressive mode with PFS."""
    return _ends(
        Connection(
            keys.gateway,
            local_id="sg.example",
            version=1,
            is_aggressive=True,
            proposals=IKE_PROPOSAL,
            esp_proposals=f"{esp_proposals}-modp2048",
            local_ts=INNER_NETWORK,
            pool=POOL,
        ),
        keys,
    )


def _ends(gateway: Connection, keys: Keys) -> tuple[Connection, Connection]:
    station = replace(
        gateway,
        auth=keys.station,
        local_id="ms.example",
        remote_id="sg.example",
        remote_addrs=GATEWAY_OUTER,
        local_ts="",
        remote_ts=INNER_NETWORK,
        pool="",
        wants_address=True,
    )
    return gateway, station
