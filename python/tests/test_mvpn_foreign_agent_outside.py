"""A foreign agent outside (mode fvc of RFC 5265): on a link without an address the tunnel to the
VPN gateway begins where it always does, and the agent of the link delivers its packets."""

from __future__ import annotations

import itertools
import struct
import sys
import time
from collections.abc import Iterable
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from mobile_ip_captures import ends, ip_packets, is_registration, layers
from mvpn_by_hand import checksum, ip, send, wait_reaches

from caravan.testbed import mvpn_gateway
from caravan.testbed.capture import IPPROTO_ESP, IPPROTO_ICMP, Capture
from caravan.testbed.caravan import READY_S, order
from caravan.testbed.mobile_ip import HOME_AGENT, MOBILE, Role
from caravan.testbed.mvpn import CORRESPONDENT, HOME, HOTEL, OUTSIDE, PLAIN, VISITED, gaps
from caravan.testbed.mvpn_gateway import AT_HOME, WITH_AGENT, is_inside, serves_nobody, session
from caravan.testbed.mvpn_outside import (
    LOUNGE,
    LOUNGE_AGENT,
    OUTSIDE_AGENT,
    OUTSIDE_HOME,
    WithAgentOutside,
    agents,
    all_roles,
    foreign_agent,
    node,
    place_outside,
    walk,
)
from caravan.testbed.traffic import endless_download, ping

pytestmark = pytest.mark.root

PLACES = (LOUNGE, VISITED, LOUNGE, WITH_AGENT, LOUNGE, HOTEL, LOUNGE, HOME, LOUNGE, AT_HOME)
TRIED_S = 30.0
"""In which the node has asked whom it takes for an agent inside, and is registered again: the trial
is of 7 s."""
STAYS_S = 8.0
"""More than a trial."""
HOME_AGENT_FLAG, FOREIGN_AGENT_FLAG = 0x2000, 0x1000
FOR_EVER = 65535
SILENT_AGENT = "1.0.0.1"
"""It comes before all others."""
SPEAK = """
import socket, sys
speaker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
speaker.bind((sys.argv[1], 0))
speaker.sendto(b"in clear", (sys.argv[2], int(sys.argv[3])))
"""
"""Sends a datagram from an address to another one and its port."""


def spis(role: Role) -> list[str]:
    """What names the node's tunnel."""
    now = session(role)
    return [] if now is None else [str(child["spi_in"]) for child in now["children"]]


def carried(packets: Iterable[bytes]) -> set[tuple[str, str]]:
    """The ends of packets of ESP, of their outer header."""
    return {ends(packet) for packet in packets if packet[9] == IPPROTO_ESP}


def left_by(network: WithAgentOutside, at_node: Capture) -> list[bytes]:
    """The packets that the node has sent on its link."""
    card = bytes.fromhex(network.ms.hardware_address("eth0").replace(":", ""))
    return ip_packets([it for it in at_node.frames() if it.data[6:12] == card])


def tables(network: WithAgentOutside) -> list[str]:
    """What the node's kernel has of rules, routes, neighbours and filters."""
    routes = ["ip", "-4", "route", "show", "table", "all"]
    asked = (["ip", "rule"], routes, ["ip", "neigh"], ["nft", "list", "ruleset"])
    return [network.ms.run(argv).stdout for argv in asked]


def wait_through(role: Role) -> None:
    """Wait until the node is registered through its tunnel, and that goes through the agent."""
    role.wait_for(
        lambda it: (
            it["side"] == "outside"
            and it["state"] == "registered"
            and it["outside"]["through"] == LOUNGE_AGENT
        ),
        "registered through the foreign agent outside",
    )


def test_a_download_survives_moves_to_foreign_agents_outside_and_inside(output: Path) -> None:
    own = mvpn_gateway.with_agent(PLAIN)
    agent = mvpn_gateway.with_agent_of_visitors(PLAIN)
    with (
        WithAgentOutside(output, hops=6) as network,
        all_roles(network, agent=agent, own=own) as roles,
        foreign_agent(network) as lounge,
    ):
        mvpn_gateway.add_network_with_agent(network)
        with (
            mvpn_gateway.foreign_agent(network) as inside,
            Capture(network.ms, "eth0", output / "at-ms") as at_node,
            Capture(network.fw, "out0", output / "at-fw") as at_gateway,
            endless_download(network.ms, network.cn1, CORRESPONDENT) as download,
        ):
            for role in (inside, lounge):
                role.wait_ready()
            moves, tunnels = [], []
            for place in PLACES:
                moves.append(walk(network, roles.ms, place))
                download.wait_for_more()
                tunnels.append(spis(roles.ms))
                assert (tunnels[-1] == []) == is_inside(place)
            assert download.local_addresses() == {MOBILE}
            at_node.stop()
            at_gateway.stop()
        # One tunnel for each stay outside, and the gateway sees one address.
        assert tunnels[0] == tunnels[1] == tunnels[2] != tunnels[4]
        assert tunnels[4] == tunnels[5] == tunnels[6]
        both = {(OUTSIDE_HOME, OUTSIDE), (OUTSIDE, OUTSIDE_HOME)}
        assert carried(ip_packets(at_gateway.frames())) == both
        found = gaps(moves, at_node.frames(), network.ms.hardware_address("eth0"))
        print(*(f"{gap.kind}: {gap.seconds * 1000:.0f} ms" for gap in found), sep="\n")


def test_only_ipsec_and_registrations_pass_between_node_and_agent(output: Path) -> None:
    """Nothing is around ESP on the node's link. From the agent to the home agent outside it is in
    their tunnel."""
    with (
        WithAgentOutside(output) as network,
        all_roles(network) as roles,
        foreign_agent(network) as lounge,
    ):
        lounge.wait_ready()
        # As many hosts have it: what comes in must come from where a route leads.
        network.ms.sysctl("net.ipv4.conf.all.rp_filter", "1")
        with (
            Capture(network.ms, "eth0", output / "at-ms") as at_node,
            Capture(network.xha, "eth0", output / "at-xha") as at_agent,
        ):
            walk(network, roles.ms, LOUNGE)
            wait_reaches(network)
            # Programs that would go past the tunnel, from any address of the node.
            for address in (HOME_AGENT, "203.0.113.5", LOUNGE_AGENT, OUTSIDE, OUTSIDE_AGENT):
                for sender in (MOBILE, OUTSIDE_HOME):
                    argv = ["ping", "-c", "1", "-W", "0.3", "-I", sender, address]
                    network.ms.run(argv, check=False)
            for port in (53, 500, 4500):
                speak = [sys.executable, "-c", SPEAK, OUTSIDE_HOME, OUTSIDE, str(port)]
                assert "Operation not permitted" in network.ms.run(speak, check=False).stderr
            # What comes for the node's addresses is for the tunnel alone.
            assert ping(network.cn3, OUTSIDE_HOME, 2, timeout_s=0.3).received == 0
            card = network.ms.hardware_address("eth0")
            network.r3.add_neighbour("lounge0", MOBILE, card)
            network.r3.run(["ip", "route", "add", MOBILE, "dev", "lounge0"])
            assert ping(network.r3, MOBILE, 2, timeout_s=0.3).received == 0
            at_node.stop()
            at_agent.stop()
        packets = left_by(network, at_node)
        other = [it for it in packets if not is_registration(it)]
        assert {ends(it) for it in other} == {(OUTSIDE_HOME, OUTSIDE)}
        messages = {ends(it)[1] for it in packets if is_registration(it)}
        # The home agent inside is asked through the agent too, which leads nowhere.
        assert messages == {LOUNGE_AGENT}
        reverse = (LOUNGE_AGENT, OUTSIDE_AGENT), (OUTSIDE_HOME, OUTSIDE)
        assert reverse in {layers(it) for it in ip_packets(at_agent.frames())}


def test_a_node_that_starts_at_a_foreign_agent_and_ends_there_leaves_nothing(output: Path) -> None:
    with WithAgentOutside(output) as network, agents(network) as (_, gw, xha):
        network.move(LOUNGE)
        network.ms.remove_address("eth0", f"{MOBILE}/24")
        before = tables(network)
        with node(network) as ms:
            ms.wait_ready()
            wanted = "eth0 has no address, and no foreign agent is heard there"
            ms.wait_for(lambda it: it["trouble"] == wanted, "a reason")
            with foreign_agent(network) as lounge:
                lounge.wait_ready()
                wait_through(ms)
                wait_reaches(network)
                bound = [it["care_of"] for it in xha.mobility()["bindings"]]
                assert bound == [LOUNGE_AGENT] == [place_outside(ms)]
                told = f"home agent {OUTSIDE_AGENT}, at {LOUNGE_AGENT} through {LOUNGE_AGENT}"
                assert told in order(network.ms, "status").stdout
                ms.down()
                ms.process.wait(READY_S)
                assert xha.mobility()["bindings"] == [] and serves_nobody(gw)
        assert tables(network) == before


def advertisement(source: str, sequence: int, lifetime_s: int, flags: int) -> bytes:
    """An agent advertisement in anybody's name (RFC 5944 §2.1)."""
    extension = struct.pack("!BBHHH", 16, 10, sequence, 300, flags) + IPv4Address(source).packed
    icmp = bytearray(struct.pack("!BBHBBH", 9, 0, 0, 0, 2, lifetime_s) + extension)
    icmp[2:4] = checksum(bytes(icmp))
    packet = bytearray(ip(source, "224.0.0.1", IPPROTO_ICMP, bytes(icmp)))
    packet[8], packet[10:12] = 1, bytes(2)
    packet[10:12] = checksum(bytes(packet[:20]))
    return bytes(packet)


@pytest.mark.parametrize("lifetime_s", [1, FOR_EVER])
def test_whoever_advertises_as_the_home_agent_stops_the_tunnel_once_and_for_a_while(
    lifetime_s: int, output: Path
) -> None:
    """The node's filter stays, and nothing leaves in clear but the question."""
    with (
        WithAgentOutside(output) as network,
        all_roles(network) as roles,
        foreign_agent(network) as lounge,
    ):
        lounge.wait_ready()
        walk(network, roles.ms, LOUNGE)
        first = spis(roles.ms)
        network.r3.run(["ip", "route", "add", "224.0.0.0/4", "dev", "lounge0"])
        with Capture(network.ms, "eth0", output / "at-ms") as at_node:
            numbers = itertools.count(300)

            def is_registered() -> bool:
                number = next(numbers)
                send(network.r3, advertisement(HOME_AGENT, number, lifetime_s, HOME_AGENT_FLAG))
                part = roles.ms.mobility()
                assert part["filtered"]
                return bool(part["state"] == "registered")

            roles.ms.process.wait_for(lambda: not is_registered(), "a trial", READY_S)
            roles.ms.process.wait_for(is_registered, "its end", TRIED_S)
            # Whoever goes on finds no more belief.
            until = time.monotonic() + STAYS_S
            while time.monotonic() < until:
                assert is_registered()
                time.sleep(0.2)
            wait_through(roles.ms)
            wait_reaches(network)
            assert spis(roles.ms) == first
            at_node.stop()
        other = [it for it in left_by(network, at_node) if not is_registration(it)]
        assert {ends(it) for it in other} == {(OUTSIDE_HOME, OUTSIDE)}


def test_an_agent_that_is_silent_gives_way_to_another(output: Path) -> None:
    with WithAgentOutside(output) as network, all_roles(network) as roles:
        network.r3.run(["ip", "route", "add", "224.0.0.0/4", "dev", "lounge0"])
        network.move(LOUNGE)

        def is_asked() -> bool:
            send(network.r3, advertisement(SILENT_AGENT, 300, FOR_EVER, FOREIGN_AGENT_FLAG))
            return SILENT_AGENT in str(roles.ms.mobility()["trouble"])

        roles.ms.process.wait_for(is_asked, "trouble with the silent agent", READY_S)
        with foreign_agent(network) as lounge:
            lounge.wait_ready()
            wait_through(roles.ms)
            wait_reaches(network)
