"""The four cases that Gupta and Montenegro (1998) measured, in namespaces with the real program.

```
home 10.18.3.0/24: ha ms --- r2 --- 192.168.4.0/24 --- fw --- beside 192.0.2.0/24
                              `- six hops - cn1
```

A: `ms` is at home, without any protection. B: it is on the network beside the firewall, outside,
and has Mobile IP with a reverse tunnel; the firewall is a router. C: the firewall is closed, and
SKIP leads to it. D: `ms` is at home, and SKIP lies between it and another host of its network.
Every link has the same rate, each direction alone. TCP's maximum segment size passes as it is, so
the size of the path has to be learned.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from caravan.testbed.caravan import toml
from caravan.testbed.host import Host
from caravan.testbed.mobile_ip import HOME_AGENT, MOBILE, Place, Role, Settings
from caravan.testbed.mvpn import (
    CORRESPONDENT,
    HOP_RATE,
    OUTSIDE,
    Keys,
    Mvpn,
    Protection,
    firewall,
    home_agent,
    mobile_node,
    walk,
)
from caravan.testbed.relay import LinkConfig

HOPS = 6
BESIDE = Place("beside", "192.0.2.7/24", OUTSIDE)
"""Outside, on the firewall's own network."""
HOME, AWAY, BEHIND, SUBNET = "home", "away", "behind", "subnet"
CASES = (HOME, AWAY, BEHIND, SUBNET)
"""A to D."""
NAMES = {"ms": f"6/{'51' * 16}", "fw": f"6/{'52' * 16}"}
"""Names of 16 octets at both ends, as in the paper's SKIP header of 60."""
AS_IT_IS: dict[str, dict[str, Any]] = {"daemon": {"clamp_mss": False}}


class Cases(Mvpn):
    """The hosts; `rate`: what `tc qdisc` says of every link, empty: as fast as it can."""

    def __init__(self, output: Path | None = None, *, rate: Sequence[str] = HOP_RATE) -> None:
        super().__init__(output, hops=HOPS, hop_rate=rate, rate=rate)
        for host in (self.ms, self.cn1):
            # What one transfer has learned of losses is not for the next one.
            host.sysctl("net.ipv4.tcp_no_metrics_save", "1")

    def _build_outside(self, link: LinkConfig | None) -> None:
        self.links.bridge(BESIDE.bridge, [])
        self._join(self.fw, "out0", BESIDE.bridge, f"{OUTSIDE}/24")


@contextlib.contextmanager
def running(network: Cases, case: str, protection: Protection) -> Iterator[tuple[Host, str]]:
    """A case: the correspondent and its address."""
    if case == HOME:
        yield network.cn1, CORRESPONDENT
    elif case == AWAY:
        with home_agent(network, Settings(tables=AS_IT_IS)) as agent:
            agent.wait_ready()
            with mobile_node(network, None, Settings(tables=AS_IT_IS)) as node:
                _leave(network, node)
                yield network.cn1, CORRESPONDENT
    elif case == BEHIND:
        with _closed(network, Keys(network, protection)) as node:
            _leave(network, node)
            yield network.cn1, CORRESPONDENT
    else:
        with _on_one_subnet(network, Keys(network, protection)):
            yield network.ha, HOME_AGENT


@contextlib.contextmanager
def _closed(network: Cases, keys: Keys) -> Iterator[Role]:
    skip = {"remote": NAMES["ms"], "local": NAMES["fw"]}
    entry = {"address": "*", "home_address": MOBILE, "skip": keys.peer("ms") | skip}
    wall = Settings(tables={"access.ms": entry} | AS_IT_IS)
    through = {"skip": keys.peer("fw") | {"local": NAMES["ms"], "remote": NAMES["fw"]}}
    with (
        home_agent(network, Settings(tables=AS_IT_IS)) as agent,
        firewall(network, keys, wall) as fw,
    ):
        for role in (agent, fw):
            role.wait_ready()
        with mobile_node(network, keys, Settings(tables=AS_IT_IS), through) as node:
            yield node


def _leave(network: Cases, node: Role) -> None:
    node.wait_ready().wait_at(Place("home"))
    walk(network, node, BESIDE)


@contextlib.contextmanager
def _on_one_subnet(network: Cases, keys: Keys) -> Iterator[None]:
    """Each of the two hosts is the other one's firewall, and protects nothing but itself."""
    ends = (network.ms, MOBILE, "ms"), (network.ha, HOME_AGENT, "fw")
    with contextlib.ExitStack() as roles:
        for (host, address, own), (_, peer, other) in (ends, ends[::-1]):
            skip = {"local": NAMES[own], "remote": NAMES[other]}
            tables: dict[str, dict[str, Any]] = {
                "firewall": {
                    "outside": address,
                    "outside_interface": "eth0",
                    "inside": address,
                    # There is none: the program wants one.
                    "home_agents": ["10.18.3.254"],
                },
                "skip": {"key": str(keys.private(own))},
                "access.peer": {
                    "address": peer,
                    "inside": [f"{address}/32"],
                    "skip": keys.peer(other) | skip,
                },
            }
            role = Role(host, "firewall", toml(tables | AS_IT_IS))
            roles.enter_context(role).wait_ready()
        yield
