"""Fig. 1 with a VPN gateway and a home agent outside (RFC 5265): the node's tunnel to the gateway
begins at an address that this one keeps, in a network of its own, so the gateway never sees where
the node is.

`LOUNGE` is another network outside, `198.18.40.0/24` behind `r3`, where a node gets no address from
anybody and needs the foreign agent that may run there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from caravan.testbed import mvpn_gateway
from caravan.testbed.caravan import READY_S, toml
from caravan.testbed.mobile_ip import Place, Role, Settings
from caravan.testbed.mvpn import HOME, PLAIN, Move, Mvpn
from caravan.testbed.mvpn_gateway import close, home_agent, is_inside, mobile_node, vpn_gateway
from caravan.testbed.relay import LinkConfig, Relay

OUTSIDE_NETWORK = "198.18.30.0/24"
OUTSIDE_AGENT, OUTSIDE_ROUTER = "198.18.30.1", "198.18.30.254"
OUTSIDE_HOME = "198.18.30.66"
"""The address that it keeps for the node."""
OUTSIDE_KEY = "66656463626139383736353433323130"
LOUNGE = Place("lounge")
"""A network outside that has a foreign agent alone."""
LOUNGE_AGENT, LOUNGE_NETWORK = "198.18.40.1", "198.18.40.0/24"
ASSOCIATION: dict[str, Any] = {"spi": 2000, "key": OUTSIDE_KEY}


class WithAgentOutside(Mvpn):
    """Fig. 1 with the home agent `xha` behind the internet's first router; `outside`: properties of
    the link of the firewall, and of its own, `inside`: of the other home agent's."""

    def __init__(
        self,
        output: Path | None = None,
        *,
        hops: int = 1,
        outside: LinkConfig | None = None,
        inside: LinkConfig | None = None,
    ) -> None:
        super().__init__(output, hops=hops, outside=outside, inside=inside)
        try:
            self.xha = self.host("xha")
            self._join_agent(outside)
            self._router(self.xha)
            self._router(self.r1)
            self.xha.add_route("default", OUTSIDE_ROUTER)
            for host in (self.r3, self.corp, self.cn3, *(nat.host for nat in self.nats[:2])):
                host.add_route(OUTSIDE_NETWORK, "198.51.100.1")
            self.links.bridge(LOUNGE.bridge, [])
            self._join(self.r3, "lounge0", LOUNGE.bridge, f"{LOUNGE_AGENT}/24")
            self.r3.sysctl("net.ipv4.conf.lounge0.send_redirects", "0")
            self.r1.add_route(LOUNGE_NETWORK, "198.51.100.3")
        except BaseException:
            self.close()
            raise

    def _join_agent(self, link: LinkConfig | None) -> None:
        ends = (
            (self.xha, "eth0", f"{OUTSIDE_AGENT}/24"),
            (self.r1, "xha0", f"{OUTSIDE_ROUTER}/24"),
        )
        if link is None:
            self._link(*ends)
            return
        wire = self.host("agent-wire")
        for port, (host, interface, address) in zip(("left", "right"), ends, strict=True):
            host.connect(interface, wire, port, 1500)
            host.add_address(interface, address)
        self.agent_relay = Relay(wire, link, "left", "right")


def agent_outside(network: WithAgentOutside) -> Role:
    """Start the home agent outside, which hears everybody."""
    tables: dict[str, dict[str, Any]] = {
        "home_agent": {"address": OUTSIDE_AGENT, "prefix": 24, "interface": "eth0"},
        "mobile_nodes.ms": {"home_address": OUTSIDE_HOME, "association": ASSOCIATION},
    }
    return Role(network.xha, "home-agent", toml(tables))


def foreign_agent(network: WithAgentOutside) -> Role:
    """Start the foreign agent of `LOUNGE`, a stranger to everybody."""
    tables = {"foreign_agent": {"address": LOUNGE_AGENT, "interface": "lounge0"}}
    return Role(network.r3, "foreign-agent", toml(tables))


def node(network: WithAgentOutside, settings: Settings = PLAIN) -> Role:
    """Start the mobile node."""
    outside = {
        "home_agent": OUTSIDE_AGENT,
        "home_address": OUTSIDE_HOME,
        "association": ASSOCIATION,
    }
    tables = {"mobile.gateway.outside": outside, **settings.tables}
    return mobile_node(network, replace(settings, tables=tables))


@dataclass(frozen=True)
class Roles:
    """All roles of a network, with its node at home."""

    ha: Role
    gw: Role
    xha: Role
    ms: Role


@contextlib.contextmanager
def agents(
    network: WithAgentOutside, inside: Settings = PLAIN
) -> Iterator[tuple[Role, Role, Role]]:
    """Run both home agents and the gateway; `inside`: settings of the home agent there."""
    close(network)
    with (
        home_agent(network, inside) as ha,
        vpn_gateway(network) as gw,
        agent_outside(network) as xha,
    ):
        for role in (ha, gw, xha):
            role.wait_ready()
        yield ha, gw, xha


@contextlib.contextmanager
def all_roles(
    network: WithAgentOutside, *, agent: Settings = PLAIN, own: Settings = PLAIN
) -> Iterator[Roles]:
    """Run all roles, and wait until the node is at home; `agent`: settings of the home agent
    inside, `own`: of the node."""
    with agents(network, agent) as (ha, gw, xha), node(network, own) as ms:
        ms.wait_ready().wait_at(HOME)
        yield Roles(ha, gw, xha, ms)


def place_outside(role: Role) -> str | None:
    """Where the node is registered with the home agent outside."""
    outside: dict[str, Any] = role.mobility()["outside"]
    place: str | None = outside["care_of"]
    return place


def walk(network: WithAgentOutside, role: Role, to: Place) -> Move:
    """Move the node, and wait until both its registrations hold."""
    moved = network.move(to)
    if not is_inside(to):
        care_of = LOUNGE_AGENT if to == LOUNGE else to.care_of
        role.process.wait_for(lambda: place_outside(role) == care_of, "outside", READY_S)
    mvpn_gateway.wait_at(role, to)
    return moved
