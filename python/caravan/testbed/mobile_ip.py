"""The networks of Mobile IPv4 in namespaces, and the roles of the program there.

```
home 10.18.3.0/24: ha cn ms --- rt --- visited 192.0.2.0/24 --- fa --- agent 198.51.100.0/24
                                                             `- nat --- private 10.0.0.0/24
```

`ms` is at home at first. `move` plugs its one interface into another network, and gives it an
address there, as DHCP would. All networks are bridges in one namespace, `links`, so everybody can
hear ARP. Left out: a link between them that loses packets or delays them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from caravan.testbed.caravan import READY_S, Daemon, order, toml
from caravan.testbed.errors import TimedOut
from caravan.testbed.host import Host
from caravan.testbed.nat import Nat, NatConfig
from caravan.testbed.network import Network
from caravan.testbed.process import Completed
from caravan.testbed.traffic import REACHED_S, reach_each_other, wait_to_reach_each_other

HOME_AGENT = "10.18.3.1"
CORRESPONDENT = "10.18.3.5"
MOBILE = "10.18.3.17"
HOME_ROUTER = "10.18.3.254"
FOREIGN_AGENT = "198.51.100.1"
CARE_OF = "192.0.2.9"
"""Of the foreign agent."""
NAT = "192.0.2.8"

SECRET = "30313233343536373839616263646566"
"""The key of node and home agent, in hexadecimal."""
ASSOCIATION: dict[str, Any] = {"spi": 1000, "algorithm": "hmac-sha-256", "key": SECRET}


@dataclass(frozen=True)
class Place:
    """A network that the node visits: its bridge, and the node's address and router there."""

    bridge: str
    address: str | None = None
    router: str | None = None

    @property
    def care_of(self) -> str:
        """The node's address without its prefix."""
        return (self.address or CARE_OF).split("/")[0]


HOME = Place("home")
VISITED = Place("visited", "192.0.2.7/24", "192.0.2.1")
BEHIND_AGENT = Place("agent", "198.51.100.7/24", FOREIGN_AGENT)
"""The network of the foreign agent, with an address of the node's own."""
AGENT = Place("agent")
"""The same without an address."""
PRIVATE = Place("private", "10.0.0.2/24", "10.0.0.1")
"""Behind the NAT."""


class MobileIp(Network):
    """The hosts: `ha`, `cn`, `ms`, `rt`, `fa`, `nat` and `links`. The node's interface is `eth0`.

    Packets with a source of another network leave no visited network, so nodes need reverse
    tunnels, unless `is_filtered` is off.
    """

    def __init__(self, output: Path | None = None, *, is_filtered: bool = True) -> None:
        super().__init__(output)
        try:
            self._build()
            if is_filtered:
                self._filter()
        except BaseException:
            self.close()
            raise

    def _build(self) -> None:
        self.links = self.host("links")
        for bridge in ("home", "visited", "agent", "private"):
            self.links.bridge(bridge, [])
        self.ha, self.cn, self.ms = self.host("ha"), self.host("cn"), self.host("ms")
        self.rt, self.fa, router = self.host("rt"), self.host("fa"), self.host("nat")
        self._join(self.ha, "eth0", "home", f"{HOME_AGENT}/24")
        self._join(self.cn, "eth0", "home", f"{CORRESPONDENT}/24")
        self._join(self.ms, "eth0", "home", f"{MOBILE}/24")
        self._join(self.rt, "home0", "home", f"{HOME_ROUTER}/24")
        self._join(self.rt, "wan0", "visited", "192.0.2.1/24")
        self._join(self.fa, "wan0", "visited", f"{CARE_OF}/24")
        self._join(self.fa, "lan0", "agent", f"{FOREIGN_AGENT}/24")
        self._join(router, "wan0", "visited", f"{NAT}/24")
        self._join(router, "lan0", "private", "10.0.0.1/24")
        for host in (self.ha, self.cn):
            host.add_route("default", HOME_ROUTER)
        for host in (self.fa, router):
            host.add_route("default", "192.0.2.1")
        self.rt.add_route("198.51.100.0/24", CARE_OF)
        for host in (self.ha, self.rt, self.fa, router):
            host.forward()
            host.sysctl("net.ipv4.conf.all.send_redirects", "0")
        self.nat = Nat(router, NatConfig("wan0", (NAT,)))

    def _join(self, host: Host, interface: str, bridge: str, address: str) -> None:
        port = f"{host.role}-{interface}"
        host.connect(interface, self.links, port, 1500)
        self.links.plug(port, bridge)
        host.sysctl(f"net.ipv4.conf.{interface}.send_redirects", "0")
        host.add_address(interface, address)

    def _filter(self) -> None:
        """Ingress filtering at the routers (RFC 2827)."""
        # Packets of the agent's visitors go into its tunnel device.
        for host, ways, networks in (
            (self.rt, 'iifname "wan0"', "{ 192.0.2.0/24, 198.51.100.0/24 }"),
            (self.fa, 'iifname "lan0" oifname "wan0"', "198.51.100.0/24"),
        ):
            host.load_nft(
                f"""table ip ingress {{
    chain forward {{
        type filter hook forward priority filter;
        {ways} ip saddr != {networks} drop
    }}
}}
""",
                "ingress",
            )

    def move(self, to: Place) -> float:
        """Plug the node in elsewhere, without its former addresses but its home address. Returns
        when its former link was dead."""
        self.links.link_down("ms-eth0")
        moment = time.time()
        for address in self.ms.addresses("eth0"):
            if not address.startswith(f"{MOBILE}/"):
                self.ms.remove_address("eth0", address)
        self.links.plug("ms-eth0", to.bridge)
        if to.address is not None and to.router is not None:
            self.ms.add_address("eth0", to.address)
            # The tunnel may still have all routes, and that to the router.
            self.ms.run(["ip", "route", "add", "default", "via", to.router, "dev", "eth0"])
        return moment

    def is_connected(self) -> bool:
        """Whether the node and its correspondent reach each other by the home address."""
        return reach_each_other((self.cn, CORRESPONDENT), (self.ms, MOBILE))

    def wait_connected(self, timeout_s: float = REACHED_S) -> None:
        """Wait until they do."""
        wait_to_reach_each_other((self.cn, CORRESPONDENT), (self.ms, MOBILE), timeout_s)


@dataclass(frozen=True)
class Settings:
    """The keys of one role's tables besides those that every test needs, and further tables.

    `node`: of the home agent's table about the node.
    """

    own: dict[str, Any] = field(default_factory=dict)
    association: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    node: dict[str, Any] = field(default_factory=dict)


class Role(Daemon):
    """One of the program's roles in Mobile IPv4."""

    def __init__(self, host: Host, command: str, text: str) -> None:
        folder = host.logs / command
        folder.mkdir(exist_ok=True)
        path = folder / "caravan.toml"
        path.touch(0o600)
        path.write_text(text)
        self.name = "mobile" if command == "up" else command
        super().__init__(host, command, path, log_level="debug")

    def mobility(self) -> dict[str, Any]:
        """Its part of `caravan status --json`."""
        part: dict[str, Any] = self.status()["mobility"]
        return part

    def refused(self) -> dict[str, int]:
        """Messages that were not served, by reason."""
        counts: dict[str, int] = self.mobility()["refused"]
        return counts

    def down(self) -> Completed:
        """`caravan down`: end it."""
        return order(self.host, "down", self.name).check()

    def wait_for(
        self, holds: Callable[[dict[str, Any]], bool], what: str, timeout_s: float = READY_S
    ) -> float:
        """Wait until this holds of its part of the status; returns how many seconds it took."""
        began = time.monotonic()
        while not holds(part := self.mobility()):
            if time.monotonic() - began > timeout_s:
                raise TimedOut(f"{self.name}: not {what} in {timeout_s} s: {part}")
            time.sleep(0.02)
        return time.monotonic() - began

    def wait_at(self, place: Place, timeout_s: float = READY_S) -> float:
        """Wait until a mobile node is registered at this place, and its host has what that needs;
        returns how long the first took."""

        def is_there(it: dict[str, Any]) -> bool:
            if place.bridge == HOME.bridge:
                return bool(it["state"] == "at home")
            return bool(it["state"] == "registered" and it["care_of"] == place.care_of)

        where = "at home" if place.bridge == HOME.bridge else f"registered at {place.care_of}"
        took_s = self.wait_for(is_there, where, timeout_s)
        self.wait_set_up(timeout_s)
        return took_s

    def wait_set_up(self, timeout_s: float = READY_S) -> None:
        """Wait until the host has all routes and filters that the program wants. A status waits for
        that no longer than a moment."""

        def is_set_up() -> bool:
            return not self.status()["process"]["is_setting_up"]

        self.process.wait_for(is_set_up, "routes and filter", timeout_s)


def home_agent(network: MobileIp, settings: Settings = Settings()) -> Role:
    """Start the home agent."""
    tables: dict[str, dict[str, Any]] = {
        "home_agent": {"address": HOME_AGENT, "prefix": 24, "interface": "eth0"} | settings.own,
        "mobile_nodes.ms": {
            "home_address": MOBILE,
            "association": ASSOCIATION | settings.association,
        }
        | settings.node,
    }
    return Role(network.ha, "home-agent", toml(tables | settings.tables))


def foreign_agent(network: MobileIp, settings: Settings = Settings()) -> Role:
    """Start the foreign agent."""
    own: dict[str, Any] = {"address": FOREIGN_AGENT, "interface": "lan0", "care_of": CARE_OF}
    return Role(
        network.fa, "foreign-agent", toml({"foreign_agent": own | settings.own} | settings.tables)
    )


def mobile_node(network: MobileIp, settings: Settings = Settings()) -> Role:
    """Start the mobile node."""
    own: dict[str, Any] = {
        "home_address": MOBILE,
        "prefix": 24,
        "home_agent": HOME_AGENT,
        "interfaces": ["eth0"],
        "association": ASSOCIATION | settings.association,
    }
    return Role(network.ms, "up", toml({"mobile": own | settings.own} | settings.tables))
