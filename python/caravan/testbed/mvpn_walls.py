"""Fig. 1 with a second firewall, behind the first one or beside it.

```
behind:  r2 --- 192.168.5.0/24 --- fw2 --- 192.168.6.0/24 --- fw --- 192.0.2.0/24 --- r1
beside:  r2 --- 192.168.4.0/24 --- fw  --- 192.0.2.0/24 ----- r1
         r2 --- 192.168.5.0/24 --- fw2 --- 192.0.2.128/30 --- r1
```
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from caravan.testbed.caravan import toml
from caravan.testbed.mobile_ip import HOME_AGENT, MOBILE, Place, Role
from caravan.testbed.mvpn import INSIDE_NETWORKS, OUTSIDE, Keys, Mvpn

INSIDE2 = "192.168.5.1"
"""The second firewall's address inside."""
BETWEEN, BEHIND = "192.168.6.1", "192.168.6.2"
"""Addresses of the first and of the second firewall between both."""
BESIDE = "192.0.2.129"
"""The second firewall's address outside, where it is beside the first one."""
AIR = Place("internet", "198.51.100.40/24", "198.51.100.1")
"""Where the node's second interface leads."""


class TwoWalls(Mvpn):
    """Fig. 1 with `fw2` behind `fw`, or beside it."""

    def __init__(self, output: Path | None = None, *, is_behind: bool) -> None:
        super().__init__(output)
        try:
            self.fw2 = self.host("fw2")
            self._link((self.fw2, "in0", f"{INSIDE2}/24"), (self.r2, "fw20", "192.168.5.254/24"))
            if is_behind:
                # No other way leads inside.
                self.fw.run(["ip", "link", "set", "in0", "down"])
                ends = (self.fw2, "out0", f"{BEHIND}/24"), (self.fw, "dmz0", f"{BETWEEN}/24")
                router = BETWEEN
            else:
                ends = (self.fw2, "out0", f"{BESIDE}/30"), (self.r1, "fw20", "192.0.2.130/30")
                router = "192.0.2.130"
            self._link(*ends)
            self._router(self.fw2)
            self._router(self.fw)
            self.fw2.add_route("default", router)
            self.fw2.add_route(INSIDE_NETWORKS, "192.168.5.254")
        except BaseException:
            self.close()
            raise

    def add_interface(self) -> None:
        """Give the node `eth1`, a link at `AIR` that has no address yet. What the node sends from
        the one there takes that link."""
        host, table = self.ms, ["table", "101"]
        host.connect("eth1", self.links, "ms-eth1", 1500)
        self.links.plug("ms-eth1", AIR.bridge)
        host.run(["ip", "rule", "add", "pref", "1", "from", AIR.care_of, *table])
        router = ["via", str(AIR.router), "dev", "eth1", "onlink"]
        host.run(["ip", "route", "add", "default", *router, *table])


def wall(host: Any, own: dict[str, Any], keys: Keys, entry: dict[str, Any]) -> Role:
    """Start a firewall on a host, with one nomadic entry: that of the node."""
    tables: dict[str, dict[str, Any]] = {
        "firewall": {"outside_interface": "out0"} | own,
        "skip": {"key": str(keys.private(host.role))},
        "access.ms": {"address": "*", "skip": keys.peer("ms") | {"remote": f"1/{MOBILE}"}} | entry,
    }
    return Role(host, "firewall", toml(tables))


def outer(network: TwoWalls, keys: Keys) -> Role:
    """Start the outer firewall of a chain: it lets the node send SKIP to the inner one."""
    own = {"outside": OUTSIDE, "inside": BETWEEN}
    return wall(network.fw, own, keys, {"inside": [f"{BEHIND}/32"]})


def inner(network: TwoWalls, keys: Keys) -> Role:
    """Start the inner firewall of a chain."""
    own = {"outside": BEHIND, "inside": INSIDE2, "home_agents": [HOME_AGENT]}
    return wall(network.fw2, own, keys, {})


def beside(network: TwoWalls, keys: Keys, mode: str) -> Role:
    """Start the second of two firewalls beside each other."""
    own = {"outside": BESIDE, "inside": INSIDE2, "home_agents": [HOME_AGENT], "mode": mode}
    return wall(network.fw2, own, keys, {})
