"""A mobile private network: a node keeps its address and its connections while it goes out of its
company's network, through a firewall that denies everything else."""

from __future__ import annotations

from pathlib import Path

import pytest
from mobile_ip_captures import REPLY, REQUEST, read_registrations

from caravan.testbed.capture import IPPROTO_TCP, Capture, Frame
from caravan.testbed.mobile_ip import MOBILE, Place, Settings
from caravan.testbed.mvpn import (
    BRANCH,
    COMPANY,
    CORRESPONDENT,
    HOME,
    HOTEL,
    MODERN,
    PAPER,
    VISITED,
    Mvpn,
    Protection,
    all_roles,
    gaps,
    walk,
)
from caravan.testbed.ssh import ssh_session
from caravan.testbed.traffic import endless_download

pytestmark = pytest.mark.root

RST = 0x04
RAW = (VISITED, BRANCH, VISITED, HOME)
UDP = (HOTEL, VISITED, HOME, COMPANY, BRANCH, HOTEL, COMPANY, BRANCH, VISITED, HOME)


@pytest.mark.parametrize(
    ("protection", "is_udp", "places"),
    [(PAPER, False, RAW), (MODERN, True, UDP)],
    ids=["paper", "udp"],
)
def test_a_download_and_an_ssh_session_survive_all_moves(
    protection: Protection, is_udp: bool, places: tuple[Place, ...], output: Path
) -> None:
    """In UDP also from behind a NAT, and from behind another company's firewall. The correspondent
    is six hops away."""
    udp = {"udp": is_udp}
    with (
        Mvpn(output, hops=6) as network,
        all_roles(network, protection, wall=Settings(udp), through=udp) as roles,
    ):
        with (
            Capture(network.cn1, "eth0", output / "at-cn1") as at_correspondent,
            Capture(network.ms, "eth0", output / "at-ms") as at_node,
            Capture(network.fw, "in0", output / "at-fw") as at_firewall,
            ssh_session(network.ms, network.cn1, CORRESPONDENT) as session,
            endless_download(network.ms, network.cn1, CORRESPONDENT) as download,
        ):
            moves = []
            for number, place in enumerate(places):
                moves.append(walk(network, roles.ms, place))
                download.wait_for_more()
                session.answers(f"at place {number}")
            assert download.local_addresses() == {MOBILE}
            assert session.process.is_running() and download.process.is_running()
            at_correspondent.stop()
            at_node.stop()
            at_firewall.stop()
        resets = [frame for frame in at_correspondent.frames() if is_reset(frame)]
        assert resets == []
        # It fails if no data came after a move. How long that took depends on the machine.
        measured = gaps(moves, at_node.frames(), network.ms.hardware_address("eth0"))
        assert_registrations(at_node, at_firewall, [place.care_of for place in places])
        print(*(f"{gap.kind}: {gap.seconds * 1000:.0f} ms" for gap in measured), sep="\n")


def assert_registrations(at_node: Capture, at_firewall: Capture, places: list[str]) -> None:
    """tshark reads a request from each place: those inside in clear on the node's link, the others
    behind the firewall."""
    inside, through = read_registrations(at_node), read_registrations(at_firewall)
    asked = {one.care_of for one in inside + through if one.mobile_ip_type == REQUEST}
    assert asked == set(places)
    answered = {one.layers[-1][1] for one in inside + through if one.mobile_ip_type == REPLY}
    assert answered == set(places)
    assert {len(one.layers) for one in inside} == {1}
    assert {len(one.layers) for one in through} == {2}


def is_reset(frame: Frame) -> bool:
    return frame.protocol == IPPROTO_TCP and bool(frame.payload[13] & RST)
