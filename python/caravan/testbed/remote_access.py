"""The paper's network in namespaces: `ms - nat - sg - lan`, and its variants.

`RemoteAccessConfig(has_nat=False)` is `ms - sg - lan`, which AH and raw protocol 50 can pass.
Several clients each have a home router behind the operator's one NAT; all have the same private
address, and the home routers preserve ports, so the gateway sees equal addresses and equal ports
from one address (RFC 3948 §5.2). With `link`, a relay is between nat (or ms) and sg.

This is the network of the demo and of tests without a scenario: they need clients with equal
addresses, several outer addresses, and routes that are added and removed. Scenarios run in a
`graph.GraphNetwork`.

Only the gateway routes to the private network: a packet for it outside the tunnel goes nowhere.
`open_clear_route()` adds that route, for measurements without IPsec.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from caravan.testbed.host import Host
from caravan.testbed.nat import Nat, NatConfig
from caravan.testbed.network import Network
from caravan.testbed.relay import LinkConfig, Relay, software_checksums

STATION_ADDRESS = "10.0.0.2"
HOME_ADDRESS = "10.0.0.1"
GATEWAY_ADDRESS = "192.0.2.1"
OPERATOR_ADDRESSES = ("192.0.2.2", "192.0.2.3")
GATEWAY_LAN_ADDRESS = "10.10.0.1"
SERVER_ADDRESS = "10.10.0.2"
PRIVATE_NETWORK = "10.10.0.0/24"
INNER_POOL = "10.99.0.0/24"

STATION_ADDRESS6 = "2001:db8:0:a::2"
HOME_ADDRESS6 = "2001:db8:0:a::1"
GATEWAY_ADDRESS6 = "2001:db8:0:b::1"
OPERATOR_ADDRESS6 = "2001:db8:0:b::2"
GATEWAY_LAN_ADDRESS6 = "2001:db8:0:c::1"
SERVER_ADDRESS6 = "2001:db8:0:c::2"
PRIVATE_NETWORK6 = "2001:db8:0:c::/64"
STATION_NETWORK6 = "2001:db8:0:a::/64"


@dataclass(frozen=True)
class RemoteAccessConfig:
    """The configuration of the network.

    `stations`: more than one needs the NAT and IPv4. `udp_timeout_s`: of the NAT's mappings.
    `link`: the emulated access link, None for bare veth.
    """

    has_nat: bool = True
    stations: int = 1
    is_dual_stack: bool = False
    mtu_bytes: int = 1500
    udp_timeout_s: int | None = None
    link: LinkConfig | None = None

    def __post_init__(self) -> None:
        if self.stations < 1:
            raise ValueError(f"a network needs at least one station, not {self.stations}")
        if self.stations > 1 and (not self.has_nat or self.is_dual_stack):
            raise ValueError("several stations need a NAT, and support only IPv4")


class RemoteAccess(Network):
    """The hosts of one network: `stations`, `sg` and `server`, with a NAT `nat`, with a link
    `relay`.

    Interfaces: `wan0` towards the gateway or the client's router, `lan0` away from it.
    """

    def __init__(
        self, config: RemoteAccessConfig = RemoteAccessConfig(), output: Path | None = None
    ) -> None:
        super().__init__(output, is_dual_stack=config.is_dual_stack)
        self.config = config
        self.nat: Nat | None = None
        self.relay: Relay | None = None
        self.stations: list[Host] = []
        try:
            self._private_side()
            if config.has_nat:
                self._operator()
            else:
                self._plain_station()
        except BaseException:
            self.close()
            raise

    @property
    def ms(self) -> Host:
        """The first client."""
        return self.stations[0]

    @property
    def outer(self) -> tuple[Host, str]:
        """Host and interface of the outer side of the NAT, or of the client."""
        return (self.nat.host if self.nat else self.ms), "wan0"

    def open_clear_route(self) -> None:
        """Route unencrypted traffic to the private network through the gateway (policy `none`)."""
        self.outer[0].add_route(PRIVATE_NETWORK, GATEWAY_ADDRESS)

    def close_clear_route(self) -> None:
        """Undo `open_clear_route`."""
        self.outer[0].remove_route(PRIVATE_NETWORK, GATEWAY_ADDRESS)

    def _private_side(self) -> None:
        self.sg = self.host("sg")
        self.server = self.host("server")
        self.sg.connect("lan0", self.server, "lan0", self.config.mtu_bytes)
        self.sg.add_address("lan0", f"{GATEWAY_LAN_ADDRESS}/24")
        self.server.add_address("lan0", f"{SERVER_ADDRESS}/24")
        self.server.add_route("default", GATEWAY_LAN_ADDRESS)
        if self.config.is_dual_stack:
            self.sg.add_address("lan0", f"{GATEWAY_LAN_ADDRESS6}/64")
            self.server.add_address("lan0", f"{SERVER_ADDRESS6}/64")
            self.server.add_route("default", GATEWAY_LAN_ADDRESS6)
        self.sg.forward()

    def _operator(self) -> None:
        router = self.host("nat")
        self._access(router)
        for address in OPERATOR_ADDRESSES:
            router.add_address("wan0", f"{address}/24")
        router.forward()
        self.nat = Nat(
            router, NatConfig("wan0", OPERATOR_ADDRESSES, udp_timeout_s=self.config.udp_timeout_s)
        )
        if self.config.stations == 1:
            self.stations.append(self._station("ms", router, "lan0"))
        else:
            for number in range(self.config.stations):
                self._home(router, number)
        if self.config.is_dual_stack:
            router.add_address("wan0", f"{OPERATOR_ADDRESS6}/64")
            self.sg.add_route(STATION_NETWORK6, OPERATOR_ADDRESS6)
            router.add_route(PRIVATE_NETWORK6, GATEWAY_ADDRESS6)

    def _station(self, role: str, router: Host, interface: str) -> Host:
        station = self.host(role)
        station.connect("wan0", router, interface, self.config.mtu_bytes)
        station.add_address("wan0", f"{STATION_ADDRESS}/24")
        router.add_address(interface, f"{HOME_ADDRESS}/24")
        station.add_route("default", HOME_ADDRESS)
        if self.config.is_dual_stack:
            station.add_address("wan0", f"{STATION_ADDRESS6}/64")
            router.add_address(interface, f"{HOME_ADDRESS6}/64")
            station.add_route("default", HOME_ADDRESS6)
        return station

    def _home(self, router: Host, number: int) -> None:
        """A client behind a router of its own, which preserves ports if it can."""
        home = self.host(f"home{number}")
        pair = ipaddress.ip_address("100.64.0.0") + 4 * number
        uplink = f"lan{number}"
        home.connect("wan0", router, uplink, self.config.mtu_bytes)
        router.add_address(uplink, f"{pair + 1}/30")
        home.add_address("wan0", f"{pair + 2}/30")
        home.add_route("default", str(pair + 1))
        home.forward()
        home.load_nft(
            """table ip home {
    chain postrouting {
        type nat hook postrouting priority srcnat;
        oifname "wan0" masquerade
    }
}
""",
            "home",
        )
        self.stations.append(self._station(f"ms{number}", home, "lan0"))

    def _plain_station(self) -> None:
        station = self.host("ms")
        self._access(station)
        station.add_address("wan0", f"{OPERATOR_ADDRESSES[0]}/24")
        if self.config.is_dual_stack:
            station.add_address("wan0", f"{OPERATOR_ADDRESS6}/64")
        self.stations.append(station)

    def _access(self, near: Host) -> None:
        """The link between `near` and the gateway, bare or through a relay."""
        mtu_bytes = self.config.mtu_bytes
        if self.config.link is None:
            near.connect("wan0", self.sg, "wan0", mtu_bytes)
        else:
            middle = self.host("link")
            near.connect("wan0", middle, "left", mtu_bytes)
            self.sg.connect("wan0", middle, "right", mtu_bytes)
            for host in (near, self.sg):
                software_checksums(host, "wan0")
            self.relay = Relay(middle, self.config.link, "left", "right")
        self.sg.add_address("wan0", f"{GATEWAY_ADDRESS}/24")
        if self.config.is_dual_stack:
            self.sg.add_address("wan0", f"{GATEWAY_ADDRESS6}/64")
