"""A mobile private network: a node keeps its address and its connections while it goes out of its
company's network, through a firewall that denies everything else."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest

from caravan.testbed.capture import IPPROTO_TCP, Capture, Frame
from caravan.testbed.host import Host
from caravan.testbed.mobile_ip import HOME_AGENT, MOBILE, Place, Role, Settings
from caravan.testbed.mvpn import (
    BRANCH,
    COMPANY,
    CORRESPONDENT,
    HOME,
    HOTEL,
    INSIDE,
    MODERN,
    OUTSIDE,
    PAPER,
    VISITED,
    Keys,
    Mvpn,
    Protection,
    firewall,
    gaps,
    home_agent,
    mobile_node,
    walk,
)
from caravan.testbed.ssh import ssh_session
from caravan.testbed.traffic import endless_download, ping

pytestmark = pytest.mark.root

ETHER_TYPE_ARP, ETHER_TYPE_IPV4 = 0x0806, 0x0800
IPPROTO_IPIP, IPPROTO_UDP, IPPROTO_SKIP = 4, 17, 57
RST = 0x04
REQUEST = 1
SOLICITATION = ("0.0.0.0", "224.0.0.2")
OPAQUE = "6/00112233445566778899aabbccddeeff"
"""A name of 16 octets that tells no address."""


@dataclass(frozen=True)
class Rig:
    """The networks with all roles, and the node at home."""

    network: Mvpn
    ha: Role
    fw: Role
    ms: Role


@contextlib.contextmanager
def rig(output: Path, protection: Protection, is_udp: bool) -> Iterator[Rig]:
    """The correspondent is six hops away."""
    udp = {"udp": is_udp}
    with Mvpn(output, hops=6) as network:
        keys = Keys(network, protection)
        with home_agent(network) as ha, firewall(network, keys, Settings(udp)) as fw:
            ha.wait_ready()
            fw.wait_ready()
            with mobile_node(network, keys, through=udp) as ms:
                ms.wait_ready().wait_at(HOME)
                yield Rig(network, ha, fw, ms)


def reaches(network: Mvpn) -> bool:
    """Whether the node and its correspondent reach each other by the home address."""
    to, back = ping(network.cn1, MOBILE, 1), ping(network.ms, CORRESPONDENT, 1)
    return to.received == back.received == 1


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
    """In UDP also from behind a NAT, and from behind another company's firewall."""
    with rig(output, protection, is_udp) as it:
        network = it.network
        with (
            Capture(network.cn1, "eth0", output / "at-cn1") as at_correspondent,
            Capture(network.ms, "eth0", output / "at-ms") as at_node,
            ssh_session(network.ms, network.cn1, CORRESPONDENT) as session,
            endless_download(network.ms, network.cn1, CORRESPONDENT) as download,
        ):
            moves = []
            for number, place in enumerate(places):
                moves.append(walk(network, it.ms, place))
                download.wait_for_more()
                session.answers(f"at place {number}")
            assert download.local_addresses() == {MOBILE}
            assert session.process.is_running() and download.process.is_running()
            at_correspondent.stop()
            at_node.stop()
        resets = [frame for frame in at_correspondent.frames() if is_reset(frame)]
        assert resets == []
        measured = gaps(moves, at_node.frames(), network.ms.hardware_address("eth0"))
        assert [gap.kind for gap in measured] == [move.kind for move in moves]
        print(*(f"{gap.kind}: {gap.seconds * 1000:.0f} ms" for gap in measured), sep="\n")


def is_reset(frame: Frame) -> bool:
    return frame.protocol == IPPROTO_TCP and bool(frame.payload[13] & RST)


@dataclass(frozen=True)
class Form:
    """A way in which packets cross the firewall."""

    wall: dict[str, Any] = field(default_factory=dict)
    agent: dict[str, Any] = field(default_factory=dict)
    through: dict[str, Any] = field(default_factory=dict)
    access: dict[str, Any] = field(default_factory=dict)
    node: dict[str, Any] = field(default_factory=dict)

    @property
    def is_short(self) -> bool:
        return bool(self.wall.get("header_removal"))


Layers = tuple[tuple[str, str], ...]
"""Source and destination of each header of a packet, the outermost first."""

COA = VISITED.care_of
TUNNEL = ((INSIDE, HOME_AGENT), (HOME_AGENT, INSIDE))
FORMS = {
    "binding": Form(),
    "packet-parsing": Form({"mode": "packet-parsing"}),
    "header-removal-and-opaque-name": Form(
        {"header_removal": True},
        {"header_removal": True},
        {"header_removal": True},
        access={"remote": OPAQUE},
        node={"local": OPAQUE},
    ),
}


@contextlib.contextmanager
def abroad(output: Path, form: Form) -> Iterator[tuple[Rig, dict[str, Capture]]]:
    """The node goes out under captures at both sides of the firewall and at both ends."""
    with Mvpn(output) as network:
        keys = Keys(network)
        entry = {"address": "*", "skip": keys.peer("ms") | {"remote": f"1/{MOBILE}"} | form.access}
        entry |= {"home_address": MOBILE} if form.access else {}
        wall = Settings(form.wall, tables={"access.ms": entry})
        through = form.through | {"skip": keys.peer("fw") | form.node}
        with (
            home_agent(network, Settings(form.agent)) as ha,
            firewall(network, keys, wall) as fw,
            mobile_node(network, keys, through=through) as ms,
        ):
            for role in (ha, fw, ms):
                role.wait_ready()
            ms.wait_at(HOME)
            places: dict[str, tuple[Host, str]] = {
                "visited": (network.r3, "lan0"),
                "perimeter": (network.fw, "out0"),
                "inside": (network.fw, "in0"),
                "correspondent": (network.cn1, "eth0"),
            }
            with contextlib.ExitStack() as captures:
                heard = {
                    name: captures.enter_context(Capture(*where, output / name))
                    for name, where in places.items()
                }
                walk(network, ms, VISITED)
                assert reaches(network) and reaches(network)
            yield Rig(network, ha, fw, ms), heard


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_the_eight_packets_are_those_of_the_paper(form: Form, output: Path) -> None:
    """Gupta and Montenegro, Figs. 7 and 8."""
    with abroad(output, form) as (it, heard):
        frames = {name: capture.frames() for name, capture in heard.items()}
        (entry,) = [one for one in it.fw.mobility()["entries"] if one["name"] == "ms"]
        is_bound = form.wall.get("mode") != "packet-parsing"
        assert entry["care_of"] == (f"{COA}:0" if is_bound else None)
    # Outside: packets 1, 4, 5 and 8.
    for place in ("visited", "perimeter"):
        packets = ip_packets(frames[place])
        assert {ends(one) for one in packets} == {(COA, OUTSIDE), (OUTSIDE, COA)}
        assert {one[9] for one in packets} == {IPPROTO_SKIP}
        for frame in frames[place]:
            for address in (MOBILE, HOME_AGENT, CORRESPONDENT, INSIDE):
                clear = nameless(frame) if not form.access else frame.data
                assert not has(clear, address), (place, address)
    # Inside: packets 2, 3, 6 and 7.
    inside = [layers(one) for one in ip_packets(frames["inside"])]
    data = ((MOBILE, CORRESPONDENT), (CORRESPONDENT, MOBILE))
    registration = {
        (TUNNEL[0], (COA, HOME_AGENT)),
        (TUNNEL[1], (HOME_AGENT, COA)),
    }
    sent: Layers = (
        (TUNNEL[0], data[0]) if form.is_short else (TUNNEL[0], (COA, HOME_AGENT), data[0])
    )
    expected = registration | {sent, (TUNNEL[1], (HOME_AGENT, COA), data[1])}
    assert set(inside) == expected
    # No care-of address but in the header in the middle, and in the field of the request.
    for frame in frames["inside"]:
        assert not has(without_middle(frame), COA)
    for frame in frames["correspondent"]:
        assert not has(frame.data, COA)
    if form.is_short:
        assert shorter_by(frames["perimeter"]) == 20


def ip_packets(frames: list[Frame]) -> list[bytes]:
    """All but ARP and solicitations."""
    kinds = {frame.ether_type for frame in frames}
    assert kinds <= {ETHER_TYPE_ARP, ETHER_TYPE_IPV4}
    packets = [frame.packet for frame in frames if frame.ether_type == ETHER_TYPE_IPV4]
    # A node without an address asks the link for agents.
    return [packet for packet in packets if ends(packet) != SOLICITATION]


def ends(packet: bytes) -> tuple[str, str]:
    return str(IPv4Address(packet[12:16])), str(IPv4Address(packet[16:20]))


def layers(packet: bytes) -> Layers:
    if packet[9] != IPPROTO_IPIP:
        return (ends(packet),)
    return (ends(packet), *layers(packet[20:]))


def has(octets: bytes, address: str) -> bool:
    """Whether the address is anywhere among them."""
    return IPv4Address(address).packed in octets


def nameless(frame: Frame) -> bytes:
    """A frame without the name of the node in the SKIP header, if that is its home address."""
    data = frame.data
    if frame.protocol == IPPROTO_SKIP:
        name = bytes([1]) + IPv4Address(MOBILE).packed
        # The name space of the source, or of the destination.
        if 1 in frame.payload[1:3]:
            assert data.count(name[1:]) == 1
            data = data.replace(name[1:], bytes(4))
    return data


def without_middle(frame: Frame) -> bytes:
    """A frame without the header in the middle, and without a request's care-of address."""
    data = bytearray(frame.data)
    if frame.protocol == IPPROTO_IPIP:
        middle = 14 + 20
        if data[middle + 9] == IPPROTO_UDP:
            request = middle + 20 + 8
            if data[request] == REQUEST:
                data[request + 12 : request + 16] = bytes(4)
        if data[middle + 9] in (IPPROTO_IPIP, IPPROTO_UDP):
            data[middle + 12 : middle + 20] = bytes(8)
    return bytes(data)


def shorter_by(frames: list[Frame]) -> int:
    """How much shorter data to the node is than data from it: pings are as long both ways."""
    lengths: dict[bool, list[int]] = {True: [], False: []}
    for packet in ip_packets(frames):
        lengths[ends(packet)[0] == COA].append(len(packet))
    return lengths[True][-1] - lengths[False][-1]
