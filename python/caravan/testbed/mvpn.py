"""The networks of a mobile private network in namespaces, as in Fig. 1 of Gupta and Montenegro
(1998), and the roles of the program there.

```
home 10.18.3.0/24: ha ms --- r2 --- 192.168.4.0/24 --- fw --- 192.0.2.0/24 --- r1 --- internet
branch 10.20.7.0/24 ---------'`- six hops - cn1                                      198.51.100.0/24
                                                                                       |
 visited 203.0.113.0/24: cn2 ------------------------ r3 (drops foreign sources) ------+- cn3
 hotel 172.16.9.0/24 -------------------------------- nat -----------------------------+
 annex 172.16.9.0/24: ms2 --------------------------- nat2 ----------------------------+
 company 172.20.1.0/24 ------------------------------ corp (another firewall, and NAT) '
```

Inside routers know the perimeter and nothing outside of it; routers outside know nothing inside.
`ms` is at home at first; `move` plugs its one interface into another network. `ms2` is a second
node. Hosts inside and outside meet at the application relay of the perimeter alone. A second site
(`TwoSites`) is joined by a tunnel between two gateways, `gw1` and `gw2`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from caravan.testbed.binary import caravan_binary
from caravan.testbed.capture import Frame
from caravan.testbed.caravan import READY_S, Caravan, toml
from caravan.testbed.connection import Connection, SharedKey
from caravan.testbed.host import Host
from caravan.testbed.mobile_ip import (
    ASSOCIATION,
    HOME_AGENT,
    HOME_ROUTER,
    MOBILE,
    Place,
    Role,
    Settings,
)
from caravan.testbed.nat import Nat, NatConfig
from caravan.testbed.network import Network
from caravan.testbed.process import Process
from caravan.testbed.relay import LinkConfig, Relay

CORRESPONDENT = "10.19.5.2"
"""CN1, behind the hops."""
SECOND = "10.18.3.18"
"""The second node's home address."""
INSIDE, OUTSIDE = "192.168.4.1", "192.0.2.1"
"""The firewall's addresses."""
INSIDE_NETWORKS = "10.0.0.0/8"
NAT, NAT2, CORP = "198.51.100.8", "198.51.100.7", "198.51.100.9"
"""Their addresses outside."""
CN2, CN3 = "203.0.113.5", "198.51.100.5"

HOME = Place("home", f"{MOBILE}/24", HOME_ROUTER)
"""The second node's address there is `SECOND`."""
BRANCH = Place("branch", "10.20.7.7/24", "10.20.7.1")
"""Another network inside."""
VISITED = Place("visited", "203.0.113.7/24", "203.0.113.254")
"""U: its router filters by source."""
HOTEL = Place("hotel", "172.16.9.2/24", "172.16.9.1")
"""Behind a NAT."""
ANNEX = Place("annex", "172.16.9.2/24", "172.16.9.1")
"""Behind another NAT, at the same address."""
COMPANY = Place("company", "172.20.1.7/24", "172.20.1.1")
"""Behind the firewall of another company."""

SITE = Place("site", "172.30.1.7/24", "172.30.1.1")
"""At the company's second site."""
SITE_NETWORK = "172.30.1.0/24"
GATEWAY1, GATEWAY2 = "198.51.100.20", "198.51.100.21"
"""Outside addresses of the gateways of both sites."""
RELAY_PORT = 1080

HOP_RATE = ("rate", "10mbit", "burst", "15kb", "latency", "50ms")
PLAIN = Settings()
"""No more than what every test needs."""
DATA_BYTES = 400
"""Frames of a download's data are larger."""

DEFAULT_DENY = """table ip corp {
    chain forward {
        type filter hook forward priority filter; policy drop;
        ct state established,related accept
        iifname "lan0" oifname "wan0" meta l4proto { tcp, udp } accept
        counter
    }
}
"""
SOURCE_FILTER = """table ip ingress {
    chain forward {
        type filter hook forward priority filter;
        iifname "lan0" ip saddr != 203.0.113.0/24 counter drop
    }
}
"""


@dataclass(frozen=True)
class Move:
    """A move of a node: where from and where to, when its interface left the network, and when it
    had an address in the next one and was about to get a router."""

    origin: Place
    to: Place
    time_s: float
    settled_s: float

    @property
    def kind(self) -> str:
        """Such as "home to visited"."""
        return f"{self.origin.bridge} to {self.to.bridge}"


class Mvpn(Network):
    """The hosts of Fig. 1; `hops` of 10 Mbit/s lie between the home network and CN1.

    `outside`: properties of the link between the firewall and the internet, `inside`: those of the
    home agent's own link. `hop_rate` and `rate`: what `tc qdisc` says of the hops, and of all other
    links; empty: nothing.
    """

    def __init__(
        self,
        output: Path | None = None,
        *,
        hops: int = 1,
        outside: LinkConfig | None = None,
        inside: LinkConfig | None = None,
        hop_rate: Sequence[str] = HOP_RATE,
        rate: Sequence[str] = (),
    ) -> None:
        super().__init__(output)
        self._places: dict[str, Place] = {}
        self._hop_rate, self._rate = hop_rate, rate
        try:
            self.links = self.host("links")
            for bridge in ("home", "branch", "visited", "hotel", "annex", "company", "internet"):
                self.links.bridge(bridge, [])
            self._build_inside(hops, inside)
            self._build_outside(outside)
        except BaseException:
            self.close()
            raise

    def _build_inside(self, hops: int, link: LinkConfig | None) -> None:
        self.ms, self.ms2, self.ha = self.host("ms"), self.host("ms2"), self.host("ha")
        self.r2, self.fw, self.cn1 = self.host("r2"), self.host("fw"), self.host("cn1")
        if link is None:
            self._join(self.ha, "eth0", "home", f"{HOME_AGENT}/24")
        else:
            self._join_delayed(link, self.ha, "home", f"{HOME_AGENT}/24")
        self._join(self.ms, "eth0", "home", f"{MOBILE}/24")
        self._join(self.ms2, "eth0", "home", f"{SECOND}/24")
        self._join(self.r2, "home0", "home", f"{HOME_ROUTER}/24")
        self._join(self.r2, "branch0", "branch", "10.20.7.1/24")
        self._link((self.fw, "in0", f"{INSIDE}/24"), (self.r2, "fw0", "192.168.4.254/24"))
        for host in (self.ha, self.r2, self.fw):
            self._router(host)
        for host in (self.ha, self.ms, self.ms2):
            host.add_route("default", HOME_ROUTER)
        self.r2.add_route("192.0.2.0/24", INSIDE)
        self.fw.add_route(INSIDE_NETWORKS, "192.168.4.254")
        upper = self.r2
        for number in range(1, hops):
            hop, net = self.host(f"h{number}"), f"10.19.{100 + number}"
            ends = (upper, "down0", f"{net}.1/24"), (hop, "up0", f"{net}.2/24")
            self._link(*ends, self._hop_rate)
            self._router(hop)
            hop.add_route("default", f"{net}.1")
            upper.add_route("10.19.5.0/24", f"{net}.2")
            upper = hop
        end = (self.cn1, "eth0", f"{CORRESPONDENT}/24")
        self._link((upper, "down0", "10.19.5.1/24"), end, self._hop_rate)
        self.cn1.add_route("default", "10.19.5.1")

    def _build_outside(self, link: LinkConfig | None) -> None:
        self.r1, self.r3, self.corp = self.host("r1"), self.host("r3"), self.host("corp")
        nat, nat2 = self.host("nat"), self.host("nat2")
        self.cn2, self.cn3 = self.host("cn2"), self.host("cn3")
        ends = (self.fw, "out0", f"{OUTSIDE}/24"), (self.r1, "fw0", "192.0.2.254/24")
        if link is None:
            self._link(*ends)
        else:
            self._delay(link, *ends)
        self.fw.add_route("default", "192.0.2.254")
        lans = (
            (self.r3, "203.0.113.254/24", "visited", "198.51.100.3"),
            (nat, "172.16.9.1/24", "hotel", NAT),
            (nat2, "172.16.9.1/24", "annex", NAT2),
            (self.corp, "172.20.1.1/24", "company", CORP),
        )
        self._join(self.r1, "wan0", "internet", "198.51.100.1/24")
        self._router(self.r1)
        for host, inner, bridge, outer in lans:
            self._join(host, "lan0", bridge, inner)
            self._join(host, "wan0", "internet", f"{outer}/24")
            self._router(host)
            host.add_route("192.0.2.0/24", "198.51.100.1")
        self.r1.add_route("203.0.113.0/24", "198.51.100.3")
        for host in (nat, nat2, self.corp):
            host.add_route("203.0.113.0/24", "198.51.100.3")
        self._join(self.cn2, "eth0", "visited", f"{CN2}/24")
        self.cn2.add_route("default", "203.0.113.254")
        self._join(self.cn3, "eth0", "internet", f"{CN3}/24")
        self.cn3.add_route("192.0.2.0/24", "198.51.100.1")
        self.nats = [
            Nat(nat, NatConfig("wan0", (NAT,))),
            Nat(nat2, NatConfig("wan0", (NAT2,))),
            Nat(self.corp, NatConfig("wan0", (CORP,))),
        ]
        self.corp.load_nft(DEFAULT_DENY, "default-deny")
        self.r3.load_nft(SOURCE_FILTER, "source-filter")

    def _join(self, host: Host, interface: str, bridge: str, address: str) -> None:
        port = f"{host.role}-{interface}"
        host.connect(interface, self.links, port, 1500)
        self.links.plug(port, bridge)
        host.add_address(interface, address)
        for end, device in ((host, interface), (self.links, port)):
            shape(end, device, self._rate)

    def _join_delayed(self, link: LinkConfig, host: Host, bridge: str, address: str) -> None:
        wire, port = self.host(f"{host.role}-wire"), f"{host.role}-eth0"
        host.connect("eth0", wire, "left", 1500)
        wire.connect("right", self.links, port, 1500)
        self.links.plug(port, bridge)
        host.add_address("eth0", address)
        self.inside_relay = Relay(wire, link, "left", "right")

    def _link(
        self,
        one: tuple[Host, str, str],
        two: tuple[Host, str, str],
        rate: Sequence[str] | None = None,
    ) -> None:
        one[0].connect(one[1], two[0], two[1], 1500)
        for host, interface, address in (one, two):
            host.add_address(interface, address)
            shape(host, interface, self._rate if rate is None else rate)

    def _delay(
        self, link: LinkConfig, one: tuple[Host, str, str], two: tuple[Host, str, str]
    ) -> None:
        wire = self.host("wire")
        for port, (host, interface, address) in (("left", one), ("right", two)):
            host.connect(interface, wire, port, 1500)
            host.add_address(interface, address)
        self.relay = Relay(wire, link, "left", "right")

    def _router(self, host: Host) -> None:
        host.forward()
        host.sysctl("net.ipv4.conf.all.send_redirects", "0")
        for interface in host.interfaces():
            host.sysctl(f"net.ipv4.conf.{interface}.send_redirects", "0")

    def move(self, to: Place, node: Host | None = None) -> Move:
        """Plug a node in elsewhere, without its former addresses but its home address."""
        host = node or self.ms
        port = f"{host.role}-eth0"
        self.links.link_down(port)
        began, origin = time.time(), self._places.get(host.role, HOME)
        self._places[host.role] = to
        home = MOBILE if host is self.ms else SECOND
        for address in host.addresses("eth0"):
            if not address.startswith(f"{home}/"):
                host.remove_address("eth0", address)
        # A client of DHCP forgets its router, too.
        host.run(["ip", "route", "del", "default"], check=False)
        self.links.plug(port, to.bridge)
        settled = time.time() if to.address is None else self.settle(to, host)
        return Move(origin, to, began, settled)

    def settle(self, place: Place, host: Host) -> float:
        """Give a node address and router, as DHCP would. Returns the moment before the router: the
        node learns of it from the kernel, and may be quicker than we."""
        home = MOBILE if host is self.ms else SECOND
        assert place.address is not None and place.router is not None
        address = f"{home}/24" if place == HOME else place.address
        host.add_address("eth0", address)
        moment = time.time()
        # The tunnel may still have all routes, and that to the router.
        host.run(["ip", "route", "replace", "default", "via", place.router, "dev", "eth0"])
        return moment


def shape(host: Host, interface: str, rate: Sequence[str]) -> None:
    """Limit what an interface sends, by the words of `tc qdisc` for a token bucket."""
    if rate:
        host.run(["tc", "qdisc", "add", "dev", interface, "root", "tbf", *rate])


class TwoSites(Mvpn):
    """Fig. 1 with a second site of the same company, which is joined by an IPsec tunnel."""

    def __init__(self, output: Path | None = None) -> None:
        super().__init__(output)
        try:
            self.links.bridge(SITE.bridge, [])
            self.gw1, self.gw2 = self.host("gw1"), self.host("gw2")
            self._link((self.gw1, "in0", "192.168.5.1/24"), (self.r2, "gw0", "192.168.5.254/24"))
            self._join(self.gw1, "wan0", "internet", f"{GATEWAY1}/24")
            self._join(self.gw2, "wan0", "internet", f"{GATEWAY2}/24")
            self._join(self.gw2, "lan0", SITE.bridge, f"{SITE.router}/24")
            for host in (self.gw1, self.gw2):
                self._router(host)
            self.gw1.add_route(INSIDE_NETWORKS, "192.168.5.254")
            self.r2.add_route(SITE_NETWORK, "192.168.5.1")
        except BaseException:
            self.close()
            raise


@contextlib.contextmanager
def joined(network: TwoSites) -> Iterator[tuple[Caravan, Caravan]]:
    """Run the tunnel between both sites."""
    key = SharedKey("a key of both sites, long enough to be none of a dictionary")
    first = Connection(
        key,
        local_id="gw1.example",
        remote_id="gw2.example",
        name="sites",
        is_legacy=False,
        proposals="",
        local_ts=INSIDE_NETWORKS,
        remote_ts=SITE_NETWORK,
    )
    second = replace(
        first,
        local_id=first.remote_id,
        remote_id=first.local_id,
        remote_addrs=GATEWAY1,
        local_ts=SITE_NETWORK,
        remote_ts=INSIDE_NETWORKS,
    )
    with Caravan(network.gw1, first) as gateway:
        gateway.wait_ready()
        with Caravan(network.gw2, second) as other:
            other.wait_ready()
            yield gateway, other


def application_relay(network: Mvpn) -> Process:
    """Start the relay of the perimeter: SOCKS 5 (RFC 1928) on the firewall's inside address."""
    argv = ["microsocks", "-i", INSIDE, "-p", str(RELAY_PORT)]
    process = network.fw.popen(argv, name="microsocks")

    def is_listening() -> bool:
        return f"{INSIDE}:{RELAY_PORT} " in network.fw.run(["ss", "-tln"]).stdout

    process.wait_for(is_listening, "listener", READY_S)
    return process


@dataclass(frozen=True)
class Protection:
    """How packets between nodes and firewall are protected: a profile of SKIP, and the keys of its
    tables besides."""

    profile: str = "skip-x25519"
    keys: dict[str, Any] = field(default_factory=dict)

    def table(self, public: Path) -> dict[str, Any]:
        """A `skip` table for the other end with this public value."""
        legacy = {"legacy": True} if self.is_legacy else {}
        return {"public": str(public), "profile": self.profile} | legacy | self.keys

    @property
    def is_legacy(self) -> bool:
        """Whether it is of 1998."""
        return self.profile != "skip-x25519"


MODERN = Protection()
DRAFT = Protection("skip-draft")
PAPER = Protection("skip-paper", {"kij": "des", "crypt": "des", "mac": "keyed-md5"})


class Keys:
    """Long-term keys of SKIP, each made when it is first wanted."""

    def __init__(self, network: Mvpn, protection: Protection = MODERN) -> None:
        self.protection = protection
        self.folder = network.output / "keys"
        self.folder.mkdir(parents=True, exist_ok=True)
        self._network = network

    def _make(self, name: str) -> None:
        if (self.folder / f"{name}.skip.pub").exists():
            return
        group = ["--group", "skip2048", "--legacy"] if self.protection.is_legacy else []
        argv = [str(caravan_binary()), "pki", "skip", "--name", name, "--out", str(self.folder)]
        self._network.fw.run([*argv, *group], name="pki")

    def private(self, name: str) -> Path:
        """The file of a key."""
        self._make(name)
        return self.folder / f"{name}.skip.key"

    def peer(self, name: str) -> dict[str, Any]:
        """The `skip` table of the other end with this name."""
        self._make(name)
        return self.protection.table(self.folder / f"{name}.skip.pub")


def firewall(network: Mvpn, keys: Keys, settings: Settings = PLAIN) -> Role:
    """Start the firewall, with a nomadic entry for each node."""
    own: dict[str, Any] = {
        "outside": OUTSIDE,
        "outside_interface": "out0",
        "inside": INSIDE,
        "home_agents": [HOME_AGENT],
    }
    tables: dict[str, dict[str, Any]] = {
        "firewall": own | settings.own,
        "skip": {"key": str(keys.private("fw"))},
    }
    for name, home in (("ms", MOBILE), ("ms2", SECOND)):
        entry = {"address": "*", "skip": keys.peer(name) | {"remote": f"1/{home}"}}
        tables[f"access.{name}"] = entry
    return Role(network.fw, "firewall", toml(tables | settings.tables))


def home_agent(network: Mvpn, settings: Settings = PLAIN) -> Role:
    """Start the home agent."""
    own: dict[str, Any] = {
        "address": HOME_AGENT,
        "prefix": 24,
        "interface": "eth0",
        "firewalls": [INSIDE],
    }
    tables: dict[str, dict[str, Any]] = {"home_agent": own | settings.own}
    for name, home in (("ms", MOBILE), ("ms2", SECOND)):
        association = ASSOCIATION | settings.association
        tables[f"mobile_nodes.{name}"] = {"home_address": home, "association": association}
    return Role(network.ha, "home-agent", toml(tables | settings.tables))


def mobile_node(
    network: Mvpn,
    keys: Keys | None,
    settings: Settings = PLAIN,
    through: dict[str, Any] | None = None,
    host: Host | None = None,
) -> Role:
    """Start a mobile node; `through`: keys of `[mobile.firewall]` besides those needed. Without
    keys it knows no firewall."""
    node = host or network.ms
    own: dict[str, Any] = {
        "home_address": MOBILE if node is network.ms else SECOND,
        "prefix": 24,
        "home_agent": HOME_AGENT,
        "interfaces": ["eth0"],
        "association": ASSOCIATION | settings.association,
    }
    tables: dict[str, dict[str, Any]] = {"mobile": own | settings.own}
    if keys is not None:
        wall: dict[str, Any] = {
            "outside": OUTSIDE,
            "inside": INSIDE,
            "networks": [INSIDE_NETWORKS],
            "skip": keys.peer("fw"),
        }
        tables["mobile.firewall"] = wall | (through or {})
        tables["skip"] = {"key": str(keys.private(node.role))}
    return Role(node, "up", toml(tables | settings.tables))


@dataclass(frozen=True)
class Roles:
    """All roles of a network, with its node at home."""

    keys: Keys
    ha: Role
    fw: Role
    ms: Role


@contextlib.contextmanager
def all_roles(
    network: Mvpn,
    protection: Protection = MODERN,
    *,
    agent: Settings = PLAIN,
    wall: Settings = PLAIN,
    node: Settings = PLAIN,
    through: dict[str, Any] | None = None,
) -> Iterator[Roles]:
    """Run home agent, firewall and mobile node, and wait until the node is at home."""
    keys = Keys(network, protection)
    with home_agent(network, agent) as ha, firewall(network, keys, wall) as fw:
        ha.wait_ready()
        fw.wait_ready()
        with mobile_node(network, keys, node, through) as ms:
            ms.wait_ready().wait_at(HOME)
            yield Roles(keys, ha, fw, ms)


def walk(network: Mvpn, node: Role, to: Place) -> Move:
    """Move a node, and wait until it is registered there."""
    moved = network.move(to, node.host)
    node.wait_at(to)
    return moved


def data_frames(frames: Iterable[Frame], address: str) -> list[Frame]:
    """Frames of a download's data to the interface with this hardware address."""
    own = bytes.fromhex(address.replace(":", ""))
    return [it for it in frames if it.data[:6] == own and len(it.data) > DATA_BYTES]


@dataclass(frozen=True)
class Gap:
    """How long no data came because of a move."""

    kind: str
    seconds: float


def gaps(moves: Sequence[Move], frames: Iterable[Frame], address: str) -> list[Gap]:
    """The gap of each move, from a capture at the node's interface under a download: from the last
    frame of data in the former network to the first one in the new one. `address`: the interface's
    hardware address. Raises `ValueError` if no data came after a move."""
    data = [frame.time_s for frame in data_frames(frames, address)]
    found = []
    for move in moves:
        before = max((at for at in data if at < move.time_s), default=move.time_s)
        after = min((at for at in data if at >= move.time_s), default=None)
        if after is None:
            raise ValueError(f"no data came after the move {move.kind}")
        found.append(Gap(move.kind, after - before))
    return found
