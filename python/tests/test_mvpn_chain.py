"""Several firewalls, and SKIP from end to end: each way that packets go has its headers, and
nothing else passes."""

from __future__ import annotations

import time
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import mobile_ip_captures
import pytest
from mvpn_by_hand import dropped, echo, ip, ip_packets, send, wait_reaches

from caravan.testbed.capture import IPPROTO_IPIP, IPPROTO_SKIP, Capture
from caravan.testbed.caravan import READY_S, toml
from caravan.testbed.host import Host
from caravan.testbed.mobile_ip import HOME_AGENT, MOBILE, Role, Settings
from caravan.testbed.mvpn import (
    BRANCH,
    CN3,
    CORRESPONDENT,
    DRAFT,
    HOME,
    INSIDE,
    OUTSIDE,
    VISITED,
    Keys,
    Mvpn,
    firewall,
    home_agent,
    mobile_node,
    walk,
)
from caravan.testbed.mvpn_walls import (
    BEHIND,
    BESIDE,
    INSIDE2,
    TwoWalls,
    beside,
    inner,
    outer,
)

pytestmark = pytest.mark.root

COA = VISITED.care_of


def headers(packet: bytes, depth: int = 4) -> str:
    """Its addresses and protocols, from outside inwards, as far as they can be read."""
    ends = f"{IPv4Address(packet[12:16])}>{IPv4Address(packet[16:20])} {packet[9]}"
    if packet[9] != IPPROTO_IPIP or depth == 0:
        return ends
    return f"{ends} {headers(packet[20:], depth - 1)}"


def seen(capture: Capture) -> set[str]:
    """Every kind of packet on a link, but solicitations."""
    return {headers(packet) for packet in mobile_ip_captures.ip_packets(capture.frames())}


def both(one: str, other: str, protocol: int, rest: tuple[str, str] = ("", "")) -> set[str]:
    """Packets between two addresses."""
    return {f"{one}>{other} {protocol}{rest[0]}", f"{other}>{one} {protocol}{rest[1]}"}


def links(output: Path, *ends: tuple[str, Host, str]) -> list[Capture]:
    return [Capture(host, link, output / name) for name, host, link in ends]


def test_each_of_two_firewalls_in_a_row_takes_off_its_own_header(output: Path) -> None:
    with TwoWalls(output, is_behind=True) as network:
        keys = Keys(network)
        behind = {"outside": BEHIND, "skip": keys.peer("fw2")}
        through = {"inside": INSIDE2, "behind": [behind]}
        with (
            home_agent(network, Settings({"firewalls": [INSIDE2]})) as ha,
            outer(network, keys) as fw,
            inner(network, keys) as fw2,
            mobile_node(network, keys, through=through) as ms,
        ):
            for role in (ha, fw, fw2, ms):
                role.wait_ready()
            ms.wait_at(HOME)
            outside, between, inside = links(
                output,
                ("outside", network.r3, "lan0"),
                ("between", network.fw, "dmz0"),
                ("inside", network.fw2, "in0"),
            )
            with outside, between, inside:
                walk(network, ms, VISITED)
                wait_reaches(network)
                time.sleep(0.2)
            assert seen(outside) == both(COA, OUTSIDE, IPPROTO_SKIP)
            assert seen(between) == both(COA, BEHIND, IPPROTO_SKIP)
            tunnel = both(
                INSIDE2,
                HOME_AGENT,
                IPPROTO_IPIP,
                (f" {COA}>{HOME_AGENT} 17", f" {HOME_AGENT}>{COA} 17"),
            ) | both(
                INSIDE2,
                HOME_AGENT,
                IPPROTO_IPIP,
                (
                    f" {COA}>{HOME_AGENT} 4 {MOBILE}>{CORRESPONDENT} 1",
                    f" {HOME_AGENT}>{COA} 4 {CORRESPONDENT}>{MOBILE} 1",
                ),
            )
            assert seen(inside) == tunnel
            for role in (fw, fw2):
                assert role.mobility()["entries"][0]["care_of"] == f"{COA}:0"
                assert dropped(role) == {}
            # Nobody else gets to the inner firewall, nor past the outer one.
            network.r1.add_route("192.168.6.0/24", OUTSIDE)
            inner_skip = [
                one for one in ip_packets(between) if one[12:16] == IPv4Address(COA).packed
            ]
            attack = [
                *inner_skip[:2],
                ip(CN3, BEHIND, IPPROTO_SKIP, bytes(64)),
                echo(CN3, BEHIND),
                ip(CN3, OUTSIDE, IPPROTO_IPIP, echo(CN3, BEHIND)),
            ]
            with Capture(network.fw, "dmz0", output / "attack") as crossed:
                send(network.r1, *attack)
                time.sleep(0.3)
            assert ip_packets(crossed) == []
            walk(network, ms, HOME)
            wait_reaches(network)


@pytest.mark.parametrize("mode", ["packet-parsing", "binding"])
def test_a_firewall_beside_the_first_one_answers_if_it_reads_packets(
    mode: str, output: Path
) -> None:
    """The node sends through the first one, and the home agent through the second one, which has
    never heard of the node."""
    with TwoWalls(output, is_behind=False) as network:
        keys = Keys(network)
        others = [{"outside": BESIDE, "skip": keys.peer("fw2")}]
        outside = {"care_of": "203.0.113.0/24", "firewall": INSIDE2}
        agent = Settings({"firewalls": [INSIDE, INSIDE2], "outside": [outside]})
        with (
            home_agent(network, agent) as ha,
            firewall(network, keys, Settings({"mode": mode})) as fw,
            beside(network, keys, mode) as fw2,
            mobile_node(network, keys, through={"others": others}) as ms,
        ):
            for role in (ha, fw, fw2, ms):
                role.wait_ready()
            ms.wait_at(HOME)
            if mode == "binding":
                network.move(VISITED)
                until = time.monotonic() + READY_S
                while not dropped(fw2):
                    assert time.monotonic() < until
                assert set(dropped(fw2)) == {"no-policy"}
                assert ms.mobility()["state"] == "registering"
                return
            first, second = links(
                output, ("first", network.fw, "out0"), ("second", network.fw2, "out0")
            )
            with first, second:
                walk(network, ms, VISITED)
                wait_reaches(network)
            assert seen(first) == {f"{COA}>{OUTSIDE} {IPPROTO_SKIP}"}
            assert seen(second) == {f"{BESIDE}>{COA} {IPPROTO_SKIP}"}
            assert dropped(fw) == dropped(fw2) == {}
            walk(network, ms, HOME)
            wait_reaches(network)


def known_outside(network: Mvpn) -> None:
    """The home agent has an address that routers outside know, and inside ones know the visited
    network: SKIP passes from end to end."""
    network.r3.add_route(f"{HOME_AGENT}/32", "198.51.100.1")
    network.r1.add_route(f"{HOME_AGENT}/32", OUTSIDE)
    network.r2.add_route("203.0.113.0/24", INSIDE)


def end_of_skip(network: Mvpn, keys: Keys) -> Role:
    """Start a home agent with SKIP of its own."""
    entry = {"address": "*", "skip": keys.peer("ms") | {"remote": f"1/{MOBILE}"}}
    tables: dict[str, dict[str, Any]] = {
        "skip": {"key": str(keys.private("ha"))},
        "access.ms": entry,
    }
    return home_agent(network, Settings(tables=tables))


def intruders() -> list[bytes]:
    """What somebody outside may try to get to the home agent."""
    clear = echo(CN3, HOME_AGENT)
    return [
        clear,
        ip(CN3, HOME_AGENT, IPPROTO_IPIP, echo(MOBILE, CORRESPONDENT)),
        ip(CN3, CORRESPONDENT, IPPROTO_SKIP, bytes(64)),
        ip(HOME_AGENT, CORRESPONDENT, IPPROTO_SKIP, bytes(64)),
        ip(CN3, OUTSIDE, IPPROTO_IPIP, clear),
    ]


def test_a_home_agent_ends_skip_itself_and_the_firewall_reads_nothing(output: Path) -> None:
    """Fig. 4."""
    with Mvpn(output) as network:
        known_outside(network)
        keys = Keys(network)
        own = {"outside": OUTSIDE, "outside_interface": "out0", "inside": INSIDE}
        passes = {"firewall": own | {"end_to_end": [HOME_AGENT]}}
        node = {"outside": HOME_AGENT, "skip": keys.peer("ha")}
        with (
            end_of_skip(network, keys) as ha,
            Role(network.fw, "firewall", toml(passes)) as fw,
            mobile_node(network, keys, through=node | {"inside": None, "networks": None}) as ms,
        ):
            for role in (ha, fw, ms):
                role.wait_ready()
            ms.wait_at(HOME)
            outside, inside = links(
                output, ("outside", network.r3, "lan0"), ("inside", network.fw, "in0")
            )
            with outside, inside:
                walk(network, ms, VISITED)
                wait_reaches(network)
                time.sleep(0.2)
            assert seen(outside) == seen(inside) == both(COA, HOME_AGENT, IPPROTO_SKIP)
            assert ha.mobility()["entries"][0]["care_of"] == f"{COA}:0"
            assert dropped(ha) == dropped(fw) == {}
            nothing_crosses(network, intruders(), output / "attack")
            # Also from elsewhere inside.
            walk(network, ms, BRANCH)
            wait_reaches(network)
            walk(network, ms, HOME)
            wait_reaches(network)


def test_the_firewall_authenticates_what_it_cannot_read(output: Path) -> None:
    """Fig. 5."""
    with Mvpn(output) as network:
        network.r2.add_route("203.0.113.0/24", INSIDE)
        keys = Keys(network, DRAFT)
        plain = {"crypt": "none"}
        own = {"outside": OUTSIDE, "outside_interface": "out0", "inside": INSIDE}
        entry = {
            "address": "*",
            "inside": [f"{HOME_AGENT}/32"],
            "skip": keys.peer("ms") | plain | {"remote": f"1/{MOBILE}"},
        }
        tables: dict[str, dict[str, Any]] = {
            "firewall": own,
            "skip": {"key": str(keys.private("fw"))},
            "access.ms": entry,
        }
        node: dict[str, Any] = {
            "skip": keys.peer("fw") | plain,
            "behind": [{"outside": HOME_AGENT, "skip": keys.peer("ha")}],
            "inside": None,
            "networks": None,
        }
        with (
            end_of_skip(network, keys) as ha,
            Role(network.fw, "firewall", toml(tables)) as fw,
            mobile_node(network, keys, through=node) as ms,
        ):
            for role in (ha, fw, ms):
                role.wait_ready()
            ms.wait_at(HOME)
            outside, inside = links(
                output, ("outside", network.r3, "lan0"), ("inside", network.fw, "in0")
            )
            with outside, inside:
                walk(network, ms, VISITED)
                wait_reaches(network)
                time.sleep(0.2)
            assert seen(outside) == both(COA, OUTSIDE, IPPROTO_SKIP)
            assert seen(inside) == both(COA, HOME_AGENT, IPPROTO_SKIP)
            # The outer SKIP has AH and no ESP: what is in it can be seen, and is SKIP again.
            sent = [one for one in ip_packets(outside) if one[12:16] == IPv4Address(COA).packed]
            crossed = {one[20:] for one in ip_packets(inside)}
            ends = IPv4Address(COA).packed + IPv4Address(HOME_AGENT).packed
            for packet in sent:
                at = packet.index(ends) - 12
                assert headers(packet[at:]) == f"{COA}>{HOME_AGENT} {IPPROTO_SKIP}"
                assert packet[at + 20 :] in crossed
            assert dropped(ha) == dropped(fw) == {}
            inner_skip = [ip(COA, HOME_AGENT, IPPROTO_SKIP, one) for one in list(crossed)[:2]]
            nothing_crosses(network, [*intruders(), *inner_skip], output / "attack")
            walk(network, ms, HOME)
            wait_reaches(network)


def nothing_crosses(network: Mvpn, attack: list[bytes], path: Path) -> None:
    # The attacker is next to the firewall.
    network.r1.add_route("10.0.0.0/8", OUTSIDE)
    with Capture(network.fw, "in0", path) as crossed:
        send(network.r1, *attack)
        time.sleep(0.3)
    assert ip_packets(crossed) == []
