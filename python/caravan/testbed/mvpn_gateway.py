"""Fig. 1 with a VPN gateway in the firewall's place (RFC 5266): outside, a tunnel of IKEv2 whose
inner address is the node's care-of address, and inside nothing but Mobile IP.

The gateway runs on `fw`, whose packet filter lets nothing else in. Its pool is a network inside.
`WITH_AGENT` is another one inside, `10.20.8.0/24` behind `r2`, where a node gets no address from
anybody and needs the foreign agent that may run there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from caravan.testbed.caravan import READY_S, toml
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
from caravan.testbed.mvpn import (
    BRANCH,
    HOME,
    INSIDE,
    INSIDE_NETWORKS,
    OUTSIDE,
    PLAIN,
    Move,
    Mvpn,
)

POOL = "192.168.9.0/24"
"""Inner addresses of tunnels, routed inside."""
TRUSTED = (INSIDE_NETWORKS, "192.168.4.0/24")
CONNECTION = "work"
SECRET = "the key of the gateway and of one node, long enough to be in no dictionary"
NAMES = ("gw.example", "ms.example")
AT_HOME = Place("home", "10.18.3.66/24", HOME_ROUTER)
"""Home, where DHCP gives the node another address. Without one it waits for an advertisement."""
WITH_AGENT = Place("agent")
FOREIGN_AGENT = "10.20.8.1"
AGENTS_KEY = "36353636363336313339333833373636"
"""Of home agent and foreign agent."""
VISITS_KEY = "37353636363336313339333833373637"
"""Of foreign agent and node."""
OTHER = "other.example"
"""Somebody else with an account."""

CLOSED = """table ip closed {
    chain forward {
        type filter hook forward priority filter;
        iifname "out0" drop
        oifname "out0" drop
    }
}
"""


def _end(name: str) -> dict[str, Any]:
    return {"auth": "psk", "secret": SECRET, "id": name}


def _client(own: str) -> dict[str, dict[str, Any]]:
    """The tables of a client's connection to the gateway."""
    connection: dict[str, Any] = {
        "remote_addrs": [OUTSIDE],
        "vips": ["0.0.0.0"],
        "local": _end(own),
        "remote": _end(NAMES[0]),
    }
    child = {"remote_ts": [f"{HOME_AGENT}/32"]}
    return {
        f"connections.{CONNECTION}": connection,
        f"connections.{CONNECTION}.children.net": child,
    }


def close(network: Mvpn) -> None:
    """Let nothing through `fw` but what its gateway takes off or puts into a tunnel, and lead the
    pool there."""
    network.fw.load_nft(CLOSED, "closed")
    network.r2.add_route(POOL, INSIDE)


def vpn_gateway(network: Mvpn, settings: Settings = PLAIN) -> Role:
    """Start the gateway; `settings.own`: keys of its connections."""
    tables: dict[str, dict[str, Any]] = {"pools.inner": {"addrs": POOL}}
    for name, client in ((CONNECTION, NAMES[1]), ("other", OTHER)):
        own = {"pools": ["inner"], "local": _end(NAMES[0]), "remote": _end(client)}
        tables[f"connections.{name}"] = own | settings.own
        tables[f"connections.{name}.children.net"] = {"local_ts": [INSIDE_NETWORKS]}
    return Role(network.fw, "gateway", toml(tables | settings.tables))


def home_agent(network: Mvpn, settings: Settings = PLAIN) -> Role:
    """Start the home agent, which hears the networks inside and the pool alone."""
    own: dict[str, Any] = {
        "address": HOME_AGENT,
        "prefix": 24,
        "interface": "eth0",
        "trusted_networks": list(TRUSTED),
        "vpn_networks": [POOL],
    }
    tables: dict[str, dict[str, Any]] = {
        "home_agent": own | settings.own,
        "mobile_nodes.ms": {
            "home_address": MOBILE,
            "association": ASSOCIATION | settings.association,
        },
    }
    return Role(network.ha, "home-agent", toml(tables | settings.tables))


def mobile_node(
    network: Mvpn, settings: Settings = PLAIN, through: Mapping[str, Any] | None = None
) -> Role:
    """Start the mobile node; `through`: keys of `[mobile.gateway]` besides its connection."""
    own: dict[str, Any] = {
        "home_address": MOBILE,
        "prefix": 24,
        "home_agent": HOME_AGENT,
        "interfaces": ["eth0"],
        "association": ASSOCIATION | settings.association,
    }
    tables: dict[str, dict[str, Any]] = {
        "mobile": own | settings.own,
        "mobile.gateway": {"connection": CONNECTION} | dict(through or {}),
    }
    return Role(network.ms, "up", toml(tables | _client(NAMES[1]) | settings.tables))


def add_network_with_agent(network: Mvpn) -> None:
    """Add `WITH_AGENT`, whose router is where the foreign agent may run."""
    port = "r2-agent0"
    network.links.bridge(WITH_AGENT.bridge, [])
    network.r2.connect("agent0", network.links, port, 1500)
    network.links.plug(port, WITH_AGENT.bridge)
    network.r2.add_address("agent0", f"{FOREIGN_AGENT}/24")
    network.r2.sysctl("net.ipv4.conf.agent0.send_redirects", "0")


def with_agent(settings: Settings, key: str = VISITS_KEY, spi: int = 1002) -> Settings:
    """The settings of a node that shares this key with the foreign agent."""
    agent = {"address": FOREIGN_AGENT, "association": {"spi": spi, "key": key}}
    return replace(settings, tables={**settings.tables, "foreign_agents.branch": agent})


def with_agent_of_visitors(settings: Settings) -> Settings:
    """The same of the home agent."""
    return with_agent(settings, AGENTS_KEY, 1001)


def foreign_agent(network: Mvpn) -> Role:
    """Start the foreign agent inside, with keys of its own for home agent and node."""
    tables: dict[str, dict[str, Any]] = {
        "foreign_agent": {"address": FOREIGN_AGENT, "interface": "agent0"},
        "home_agents.home": {
            "address": HOME_AGENT,
            "association": {"spi": 1001, "key": AGENTS_KEY},
        },
        "mobile_nodes.ms": {
            "home_address": MOBILE,
            "association": {"spi": 1002, "key": VISITS_KEY},
        },
    }
    return Role(network.r2, "foreign-agent", toml(tables))


def other_client(host: Host) -> Role:
    """Start a client with an account of its own, which is no mobile node."""
    return Role(host, "up", toml(_client(OTHER)))


@dataclass(frozen=True)
class Roles:
    """All roles of a network, with its node at home."""

    ha: Role
    gw: Role
    ms: Role


@contextlib.contextmanager
def all_roles(
    network: Mvpn,
    *,
    agent: Settings = PLAIN,
    node: Settings = PLAIN,
    through: Mapping[str, Any] | None = None,
) -> Iterator[Roles]:
    """Run home agent, gateway and mobile node, and wait until the node is at home."""
    close(network)
    with home_agent(network, agent) as ha, vpn_gateway(network) as gw:
        ha.wait_ready()
        gw.wait_ready()
        with mobile_node(network, node, through) as ms:
            ms.wait_ready().wait_at(HOME)
            yield Roles(ha, gw, ms)


def session(node: Role) -> dict[str, Any] | None:
    """The node's session with the gateway, in `caravan status --json`."""
    (connection,) = node.status()["connections"]
    sessions: list[dict[str, Any]] = connection.get("sessions", [])
    return sessions[0] if sessions else None


def serves_nobody(gateway: Role) -> bool:
    """Whether a gateway has no session."""
    return not any(it.get("sessions") for it in gateway.status()["connections"])


def is_inside(place: Place) -> bool:
    """Whether a place is of the company's own network."""
    return place.bridge in (HOME.bridge, BRANCH.bridge, WITH_AGENT.bridge)


def wait_at(node: Role, place: Place, timeout_s: float = READY_S) -> None:
    """Wait until the node is registered, and knows on which side of the gateway it is."""
    if is_inside(place):
        if place == WITH_AGENT:
            node.wait_for(is_visiting, "registered through its foreign agent", timeout_s)
        else:
            node.wait_at(place, timeout_s)
        node.wait_for(lambda it: not it["filtered"], "inside", timeout_s)
        node.process.wait_for(lambda: session(node) is None, "no tunnel", timeout_s)
        node.wait_set_up(timeout_s)
        return

    def is_there(it: dict[str, Any]) -> bool:
        care_of = it["care_of"] or "0.0.0.0"
        is_inner = IPv4Address(care_of) in IPv4Network(POOL)
        return bool(it["state"] == "registered" and it["side"] == "outside" and is_inner)

    node.wait_for(is_there, "registered through the gateway", timeout_s)
    node.wait_set_up(timeout_s)


def is_visiting(part: dict[str, Any]) -> bool:
    """Whether a node is registered through the foreign agent."""
    return bool(part["state"] == "registered" and part["care_of"] == FOREIGN_AGENT)


def walk(network: Mvpn, node: Role, to: Place) -> Move:
    """Move the node, and wait until it is registered there."""
    moved = network.move(to)
    wait_at(node, to)
    return moved
