"""The table of `docs/vpn-mobile-ip.md` about a node that does not get through the firewall: each
of its rows is brought about, and `caravan status` shows just what the row says."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from doc_pages import MOBILE_IP

from caravan.testbed.mobile_ip import HOME_ROUTER, MOBILE, Role, Settings
from caravan.testbed.mvpn import (
    BRANCH,
    INSIDE_NETWORKS,
    VISITED,
    Keys,
    Mvpn,
    firewall,
    home_agent,
    mobile_node,
)
from caravan.testbed.nat import Nat, NatConfig

SHOWN_S, STAYS_S = 10.0, 1.5
OTHER_KEY = "31" * 16
NO_ROUTE, NO_FORWARDING = "this host has no route inside to 10.18.3.1", "net.ipv4.ip_forward is 0"
NO_WAY_OUT = "this host has no default route outside"
LACKS = (NO_ROUTE, NO_FORWARDING, NO_WAY_OUT)


def quiet(_: Mvpn) -> None:
    """Nothing is wrong with the network."""


def hide_branch(network: Mvpn) -> None:
    """The node is inside elsewhere, and a NAT is between it and its home agent."""
    network.move(BRANCH)
    Nat(network.r2, NatConfig("home0", (HOME_ROUTER,)))


@dataclass(frozen=True)
class Trouble:
    """What is wrong, and the words of `caravan status` at firewall and home agent."""

    firewall: frozenset[str] = frozenset()
    agent: frozenset[str] = frozenset()
    key: str = "ms"
    """Whose key the firewall takes for the node's."""
    entry: dict[str, Any] = field(default_factory=dict)
    own: dict[str, Any] = field(default_factory=dict)
    association: dict[str, Any] = field(default_factory=dict)
    through: dict[str, Any] = field(default_factory=dict)
    change: Callable[[Mvpn], None] = quiet
    warning: str = ""
    """How the firewall's own warning begins."""
    told: str = "nothing comes back from the firewall"
    """What the node says, which sees less."""


def words(*all_words: str) -> frozenset[str]:
    return frozenset(all_words)


TROUBLES = {
    "another key": Trouble(words("not bound", "bad-icv"), key="other"),
    "another name": Trouble(
        words("not bound", "skip-unknown-name"), entry={"remote": "1/10.18.3.99"}
    ),
    "inside, as it thinks": Trouble(
        words("not bound"),
        through={"networks": [INSIDE_NETWORKS, "203.0.113.0/24"]},
        told="It is asked in clear, as from inside",
    ),
    "no route home": Trouble(
        words("send-failed"),
        change=lambda it: it.fw.remove_route(INSIDE_NETWORKS, "192.168.4.254"),
        warning=NO_ROUTE,
    ),
    "no route outside": Trouble(
        words("send-failed"),
        change=lambda it: it.fw.remove_route("default", "192.0.2.254"),
        warning=NO_WAY_OUT,
    ),
    "no forwarding": Trouble(
        change=lambda it: it.fw.sysctl("net.ipv4.ip_forward", "0"),
        warning=NO_FORWARDING,
    ),
    "no default route": Trouble(change=lambda it: it.ha.remove_route("default", HOME_ROUTER)),
    "another secret": Trouble(agent=words("denied-131"), association={"key": OTHER_KEY}),
    "another firewall": Trouble(
        agent=words("untrusted-firewall"), through={"inside": "192.168.4.7"}
    ),
    "no firewall": Trouble(agent=words("unknown-tunnel"), own={"firewalls": []}),
    "a NAT inside": Trouble(
        words("not bound"),
        words("denied-129"),
        change=hide_branch,
        told="It is asked in clear, as from inside",
    ),
}


def rows() -> set[tuple[frozenset[str], frozenset[str]]]:
    """What the page says of firewall and home agent: the words in code of both columns."""
    _, section = MOBILE_IP.read_text().split("### Through the firewall\n")
    table = [line for line in section.split("\n#")[0].splitlines() if line.startswith("|")][2:]
    cells = (line.split("|")[1:3] for line in table)
    return {(quoted(one), quoted(other)) for one, other in cells}


def quoted(cell: str) -> frozenset[str]:
    return frozenset(re.findall(r"`([^`]+)`", cell))


def test_each_row_of_the_table_is_tried() -> None:
    assert {(one.firewall, one.agent) for one in TROUBLES.values()} == rows()


@pytest.mark.root
@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
def test_status_shows_what_the_page_says(trouble: Trouble, output: Path) -> None:
    with Mvpn(output) as network:
        keys = Keys(network)
        skip = keys.peer(trouble.key) | {"remote": f"1/{MOBILE}"} | trouble.entry
        wall = Settings(tables={"access.ms": {"address": "*", "skip": skip}})
        with (
            home_agent(network, Settings(trouble.own)) as ha,
            firewall(network, keys, wall) as fw,
        ):
            ha.wait_ready()
            fw.wait_ready()
            network.move(VISITED)
            trouble.change(network)
            node = Settings(association=trouble.association)
            with mobile_node(network, keys, node, trouble.through) as ms:
                ms.wait_ready()
                wait_shown(trouble, fw, ha)
                time.sleep(STAYS_S)
                assert shown(fw, ha) == (trouble.firewall, trouble.agent)
                assert ms.mobility()["state"] == "registering"
                ms.wait_for(lambda it: trouble.told in (it["trouble"] or ""), "told")
                warnings = [it for it in fw.status()["warnings"] if it.startswith(LACKS)]
                assert len(warnings) == bool(trouble.warning), warnings
                assert all(it.startswith(trouble.warning) for it in warnings), warnings


def wait_shown(trouble: Trouble, fw: Role, ha: Role) -> None:
    until = time.monotonic() + SHOWN_S
    while (now := shown(fw, ha)) != (trouble.firewall, trouble.agent):
        assert time.monotonic() < until, now


def shown(fw: Role, ha: Role) -> tuple[frozenset[str], frozenset[str]]:
    """Whether the node is bound, and the reasons for which anything was dropped or refused."""
    (entry,) = [one for one in fw.mobility()["entries"] if one["name"] == "ms"]
    at_firewall = {"not bound"} if entry["care_of"] is None else set()
    at_firewall |= {why for why, count in fw.status()["drops"].items() if count}
    at_agent = {why for why, count in ha.status()["drops"].items() if count}
    return frozenset(at_firewall), frozenset(at_agent | set(ha.refused()))
