"""The successor of the mobile private network with a home agent outside (RFC 5265): the tunnel to
the VPN gateway begins at an address that never moves."""

from __future__ import annotations

import signal
import socket
import sys
from itertools import groupby
from pathlib import Path

import pytest
from mobile_ip_captures import REQUEST, SOLICITATION, ends, is_told, read_registrations
from mvpn_by_hand import reaches, wait_reaches

from caravan.testbed.capture import (
    IPPROTO_ESP,
    IPPROTO_IPIP,
    IPPROTO_UDP,
    Capture,
    Frame,
)
from caravan.testbed.caravan import order
from caravan.testbed.mobile_ip import HOME_AGENT, MOBILE, Place, Role
from caravan.testbed.mvpn import (
    BRANCH,
    COMPANY,
    CORRESPONDENT,
    HOME,
    HOTEL,
    OUTSIDE,
    VISITED,
    gaps,
)
from caravan.testbed.mvpn_gateway import is_inside, serves_nobody, session
from caravan.testbed.mvpn_outside import (
    OUTSIDE_AGENT,
    OUTSIDE_HOME,
    WithAgentOutside,
    agent_outside,
    agents,
    all_roles,
    node,
    place_outside,
    walk,
)
from caravan.testbed.ssh import ssh_session
from caravan.testbed.traffic import endless_download, ping

pytestmark = pytest.mark.root

PLACES = (VISITED, HOTEL, COMPANY, BRANCH, VISITED, HOME)
WORDS = b"in clear"
SPEAK = f"""
import socket, sys
speaker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
speaker.bind((sys.argv[1], 0))
speaker.sendto({WORDS!r}, (sys.argv[2], int(sys.argv[3])))
"""
"""Sends a datagram from an address to another one and its port."""
FORGOTTEN_S = 45.0
"""The gateway is asked for some 20 s before the tunnel counts as lost."""


def spis(role: Role) -> list[str]:
    """What names the node's tunnel."""
    now = session(role)
    return [] if now is None else [str(child["spi_in"]) for child in now["children"]]


def test_the_gateway_sees_one_address_while_the_node_moves(output: Path) -> None:
    """A download and an SSH session survive all moves. Between networks outside there is one
    registration at the home agent outside, and nothing else."""
    with WithAgentOutside(output, hops=6) as network, all_roles(network) as roles:
        with (
            Capture(network.ms, "eth0", output / "at-ms") as at_node,
            Capture(network.fw, "out0", output / "at-fw") as at_gateway,
            Capture(network.xha, "eth0", output / "at-xha") as at_agent,
            ssh_session(network.ms, network.cn1, CORRESPONDENT) as shell,
            endless_download(network.ms, network.cn1, CORRESPONDENT) as download,
        ):
            moves, tunnels = [], []
            for number, place in enumerate(PLACES):
                moves.append(walk(network, roles.ms, place))
                download.wait_for_more()
                shell.answers(f"at place {number}")
                tunnels.append(spis(roles.ms))
                assert (tunnels[-1] == []) == is_inside(place)
            assert download.local_addresses() == {MOBILE}
            at_node.stop()
            at_gateway.stop()
            at_agent.stop()
        assert tunnels[0] == tunnels[1] == tunnels[2] and tunnels[4] not in ([], tunnels[0])
        seen = [frame for frame in at_gateway.frames() if is_told(frame)]
        own = {other_end(frame) for frame in seen if frame.protocol == IPPROTO_ESP or frame.ike}
        assert own == {OUTSIDE_HOME}
        found = gaps(moves, at_node.frames(), network.ms.hardware_address("eth0"))
        print(*(f"{gap.kind}: {gap.seconds * 1000:.0f} ms" for gap in found), sep="\n")
        asked = [it for it in read_registrations(at_agent) if it.mobile_ip_type == REQUEST]
        # One for each place outside, perhaps repeated. From inside it is not reached.
        outside = [place.care_of for place in PLACES if not is_inside(place)]
        assert [care_of for care_of, _ in groupby(it.care_of for it in asked)] == outside


def other_end(frame: Frame) -> str:
    """Who speaks with the gateway."""
    source, destination = ends(frame.packet)
    return destination if source == OUTSIDE else source


def test_outside_nothing_but_the_tunnel_and_registrations_leave_the_node(output: Path) -> None:
    with WithAgentOutside(output) as network, all_roles(network) as roles:
        walk(network, roles.ms, VISITED)
        with (
            Capture(network.ms, "eth0", output / "at-ms") as at_node,
            Capture(network.fw, "out0", output / "at-fw") as at_gateway,
        ):
            wait_reaches(network)
            # Programs that would go past the tunnel, from any address of the node.
            for address in (HOME_AGENT, "203.0.113.5", "203.0.113.254", OUTSIDE, OUTSIDE_AGENT):
                for sender in (VISITED.care_of, OUTSIDE_HOME):
                    argv = ["ping", "-c", "1", "-W", "1", "-I", sender, address]
                    network.ms.run(argv, check=False)
            assert ping(network.cn2, MOBILE, 2, timeout_s=0.5).received == 0
            # Nor does UDP of theirs go through the outer tunnel in clear.
            for port in (53, 500, 4500):
                speak = [sys.executable, "-c", SPEAK, OUTSIDE_HOME, OUTSIDE, str(port)]
                assert "Operation not permitted" in network.ms.run(speak, check=False).stderr
            # What comes for the outer address is for the tunnel alone.
            assert ping(network.cn3, OUTSIDE_HOME, 2, timeout_s=0.5).received == 0
            walk(network, roles.ms, HOTEL)
            wait_reaches(network)
            at_node.stop()
            at_gateway.stop()
        card = bytes.fromhex(network.ms.hardware_address("eth0").replace(":", ""))
        left = [it for it in at_node.frames() if it.data[6:12] == card and is_told(it)]
        # A link that is there before its address is asked for agents.
        left = [it for it in left if ends(it.packet) != SOLICITATION]
        kinds = {kind(frame) for frame in left}
        assert kinds == {
            (OUTSIDE_AGENT, IPPROTO_IPIP),
            (OUTSIDE_AGENT, "registration"),
            (HOME_AGENT, "registration"),
        }, kinds
        # The agent may tell the gateway that the node was not there yet: those are its own words.
        seen = [it for it in at_gateway.frames() if is_told(it) and OUTSIDE in ends(it.packet)]
        seen = [it for it in seen if OUTSIDE_AGENT not in ends(it.packet)]
        assert {frame.protocol for frame in seen} <= {IPPROTO_ESP, IPPROTO_UDP}
        assert not any(WORDS in it.data for it in (*at_gateway.frames(), *left))


def kind(frame: Frame) -> tuple[str, int | str | None]:
    """The destination of a packet, and what it is."""
    destination = ends(frame.packet)[1]
    is_udp = frame.protocol == socket.IPPROTO_UDP
    ports = frame.payload[:4]
    is_message = is_udp and ports == (434).to_bytes(2) * 2
    return destination, "registration" if is_message else frame.protocol


@pytest.mark.parametrize("place", [VISITED, BRANCH], ids=["outside", "inside"])
def test_a_node_that_starts_abroad_finds_out_where_it_is(place: Place, output: Path) -> None:
    with WithAgentOutside(output) as network, agents(network) as (_, _, xha):
        network.move(place)
        with node(network) as ms:
            ms.wait_ready()
            side = "inside" if is_inside(place) else "outside"
            ms.wait_for(lambda it: it["side"] == side and it["state"] == "registered", side)
            wait_reaches(network)
            bound = [it["care_of"] for it in xha.mobility()["bindings"]]
            assert bound == ([] if is_inside(place) else [VISITED.care_of])
            text = order(network.ms, "status").stdout
            where = "not registered there" if is_inside(place) else f"at {VISITED.care_of}"
            told = f"outside address {OUTSIDE_HOME}, home agent {OUTSIDE_AGENT}, {where}"
            assert told in text


def test_down_abroad_takes_back_the_tunnel_and_then_what_it_went_by(output: Path) -> None:
    with WithAgentOutside(output) as network, all_roles(network) as roles:
        walk(network, roles.ms, VISITED)
        roles.ms.down()
        assert roles.ha.mobility()["bindings"] == [] == roles.xha.mobility()["bindings"]
        assert serves_nobody(roles.gw)


def test_without_its_home_agent_outside_the_node_says_so_and_recovers(output: Path) -> None:
    with WithAgentOutside(output) as network, agents(network) as (_, _, xha):
        xha.stop()
        with node(network) as ms:
            ms.wait_ready().wait_at(HOME)
            network.move(VISITED)
            wanted = f"nothing comes back from the home agent outside, {OUTSIDE_AGENT}"
            ms.wait_for(lambda it: wanted in (it["trouble"] or ""), "a reason")
            assert place_outside(ms) is None and not reaches(network)
            assert session(ms) is None
            walk(network, ms, HOME)
            wait_reaches(network)


def test_a_home_agent_outside_that_has_forgotten_the_node_is_asked_anew(output: Path) -> None:
    """It does not say so, and its registration would hold for minutes."""
    with (
        WithAgentOutside(output) as network,
        agents(network) as (_, _, xha),
        node(network) as ms,
    ):
        ms.wait_ready().wait_at(HOME)
        walk(network, ms, VISITED)
        wait_reaches(network)
        xha.process.signal(signal.SIGKILL)
        with agent_outside(network) as again:
            again.wait_ready()
            wait_reaches(network, timeout_s=FORGOTTEN_S)
            assert [it["care_of"] for it in again.mobility()["bindings"]] == [VISITED.care_of]


TRANSLATED = f"""
table ip nat {{
    chain out {{
        type nat hook postrouting priority srcnat
        ip saddr {OUTSIDE_HOME} masquerade
    }}
}}
"""


def test_a_nat_between_home_agent_outside_and_gateway_is_named(output: Path) -> None:
    """ESP is in no UDP of its own there, so the tunnel comes up and carries nothing."""
    with WithAgentOutside(output) as network:
        network.r1.load_nft(TRANSLATED, "translated")
        with agents(network), node(network) as ms:
            ms.wait_ready().wait_at(HOME)
            network.move(VISITED)
            wanted = "a NAT is between the home agent outside and the gateway"
            ms.wait_for(lambda it: wanted in (it["trouble"] or ""), "a reason", 30)
