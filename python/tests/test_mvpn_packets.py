"""Packets 1 to 8 of Figs. 7 and 8 of Gupta and Montenegro, in captures on both sides of the
firewall: their headers, their lengths, and which addresses are in clear."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import skip_by_hand
from mobile_ip_captures import (
    IP_BYTES,
    REPLY,
    REQUEST,
    Layers,
    ends,
    ip_packets,
    is_registration,
    layers,
    offsets,
    read_registrations,
)
from skip_by_hand import AH, ESP

from caravan.testbed import tshark
from caravan.testbed.capture import (
    ETHERNET_BYTES,
    IPPROTO_SKIP,
    IPPROTO_UDP,
    SKIP_PORT,
    Capture,
    Frame,
)
from caravan.testbed.mobile_ip import HOME_AGENT, MOBILE, Role, Settings
from caravan.testbed.mvpn import (
    CORRESPONDENT,
    INSIDE,
    MODERN,
    OUTSIDE,
    PAPER,
    VISITED,
    Keys,
    Mvpn,
    Protection,
    all_roles,
    walk,
)
from caravan.testbed.traffic import ping

pytestmark = pytest.mark.root

NODE_NAME, WALL_NAME = "6/00112233445566778899aabbccddeeff", "6/ffeeddccbbaa99887766554433221100"
"""Names of 16 octets that tell no address."""
FIELD_BYTES = 16
"""Of the packet key in a SKIP header, with DES and MD5 and with `skip-x25519`."""
UDP_BYTES = 8
SPI = bytes([0, 0, 0, 1])
IV_BYTES, TRAILER_BYTES, TAG_BYTES, BLOCK_BYTES = 8, 2, 16, 8
PAPER_BYTES, PAPER_ADDS, PAPER_IV_BYTES = 1084, 116, 4
"""A packet of 1024 octets of TCP with Mobile IP's header, and what SKIP adds to it in the paper."""


@dataclass(frozen=True)
class Form:
    """A way in which packets cross the firewall."""

    wall: dict[str, Any] = field(default_factory=dict)
    agent: dict[str, Any] = field(default_factory=dict)
    through: dict[str, Any] = field(default_factory=dict)
    access: dict[str, Any] = field(default_factory=dict)
    node: dict[str, Any] = field(default_factory=dict)
    protection: Protection = MODERN

    @property
    def is_short(self) -> bool:
        return bool(self.wall.get("header_removal"))

    @property
    def before(self) -> int:
        """Octets of IP and UDP header before a packet of SKIP."""
        return IP_BYTES + UDP_BYTES if self.wall.get("udp") else 0


FORMS = {
    "binding": Form(),
    "packet-parsing": Form({"mode": "packet-parsing"}),
    "header-removal-and-opaque-name": Form(
        {"header_removal": True},
        {"header_removal": True},
        {"header_removal": True},
        access={"remote": NODE_NAME},
        node={"local": NODE_NAME},
    ),
    "udp": Form({"udp": True}, through={"udp": True}),
    "paper": Form(protection=PAPER),
    "paper-with-its-60-octets": Form(
        access={"remote": NODE_NAME, "local": WALL_NAME},
        node={"local": NODE_NAME, "remote": WALL_NAME},
        protection=PAPER,
    ),
}
COA = VISITED.care_of
TO_WALL, TO_NODE = (COA, OUTSIDE), (OUTSIDE, COA)
TO_AGENT, FROM_AGENT = (INSIDE, HOME_AGENT), (HOME_AGENT, INSIDE)
TO_PEER, FROM_PEER = (MOBILE, CORRESPONDENT), (CORRESPONDENT, MOBILE)


@contextlib.contextmanager
def abroad(output: Path, form: Form) -> Iterator[tuple[Role, dict[str, Capture]]]:
    """The firewall; the node goes out under captures at both of its sides and at both ends."""
    with Mvpn(output) as network:
        keys = Keys(network, form.protection)
        entry = {"address": "*", "skip": keys.peer("ms") | {"remote": f"1/{MOBILE}"}}
        if form.access:
            entry = {"address": "*", "skip": keys.peer("ms") | form.access, "home_address": MOBILE}
        wall = Settings(form.wall, tables={"access.ms": entry})
        through = form.through | {"skip": keys.peer("fw") | form.node}
        agent = Settings(form.agent)
        with all_roles(network, form.protection, agent=agent, wall=wall, through=through) as roles:
            places = {
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
                walk(network, roles.ms, VISITED)
                payload = PAPER_BYTES - 2 * IP_BYTES - 8
                for payload_bytes in (56, payload):
                    to = ping(network.cn1, MOBILE, 1, payload_bytes=payload_bytes)
                    back = ping(network.ms, CORRESPONDENT, 1, payload_bytes=payload_bytes)
                    assert to.received == back.received == 1
            yield roles.fw, heard


@dataclass(frozen=True)
class Crossing:
    """A packet on both sides of the firewall: one of the pairs of the paper's numbers."""

    number_outside: int
    number_inside: int
    outside: Frame
    inside: Frame


def crossings(outside: list[Frame], inside: list[Frame]) -> list[Crossing]:
    """All packets, in order: the firewall keeps it."""
    found = []
    for way_outside, way_inside, numbers in (
        (TO_WALL, TO_AGENT, ((1, 2), (5, 6))),
        (TO_NODE, FROM_AGENT, ((4, 3), (8, 7))),
    ):
        before = [frame for frame in outside if ends(frame.packet) == way_outside]
        after = [frame for frame in inside if ends(frame.packet) == way_inside]
        for one, other in zip(before, after, strict=True):
            number = numbers[0] if is_registration(other.packet) else numbers[1]
            found.append(Crossing(*number, one, other))
    assert len(outside) == len(inside) == len(found)
    return found


def ip_frames(capture: Capture) -> list[Frame]:
    wanted = set(ip_packets(capture.frames()))
    return [frame for frame in capture.frames() if frame.packet in wanted]


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_the_eight_packets_are_those_of_the_paper(form: Form, output: Path) -> None:
    with abroad(output, form) as (fw, heard):
        (entry,) = [one for one in fw.mobility()["entries"] if one["name"] == "ms"]
        port = SKIP_PORT if form.before else 0
        is_bound = form.wall.get("mode") != "packet-parsing"
        assert entry["care_of"] == (f"{COA}:{port}" if is_bound else None)
    inside = ip_frames(heard["inside"])
    for place in ("visited", "perimeter"):
        found = crossings(ip_frames(heard[place]), inside)
        numbers = [one.number_outside for one in found] + [one.number_inside for one in found]
        assert set(numbers) == set(range(1, 9))
        for one in found:
            assert layers(one.inside.packet) == headers_inside(one.number_inside, form)
            sealed = one.outside.packet[form.before :]
            assert ends(sealed) == ends(one.outside.packet)
            assert_sealed(sealed, clear_bytes(one, form), form)
            assert_no_address(one, form)
        assert_tshark_sees_skip_alone(heard[place], IPPROTO_UDP if form.before else IPPROTO_SKIP)
    if form is FORMS["paper-with-its-60-octets"]:
        sent = [len(frame.packet) for frame in ip_frames(heard["perimeter"])]
        # An IV of 8 octets, where the paper has 4.
        assert PAPER_BYTES + PAPER_ADDS - PAPER_IV_BYTES + IV_BYTES in sent
    for frame in heard["correspondent"].frames():
        for address in (COA, HOME_AGENT, INSIDE, OUTSIDE):
            assert offsets(frame.data, address) == set()
    assert_tshark_reads_registrations(heard["inside"])
    assert read_registrations(heard["perimeter"]) == []


def headers_inside(number: int, form: Form) -> Layers:
    """Packets 2, 3, 6 and 7; header removal shortens 6."""
    to_agent, from_agent = (COA, HOME_AGENT), (HOME_AGENT, COA)
    return {
        2: (TO_AGENT, to_agent),
        3: (FROM_AGENT, from_agent),
        6: (TO_AGENT, TO_PEER) if form.is_short else (TO_AGENT, to_agent, TO_PEER),
        7: (FROM_AGENT, from_agent, FROM_PEER),
    }[number]


def clear_bytes(one: Crossing, form: Form) -> int:
    """How long a packet outside is before it is sealed."""
    inner = len(one.inside.packet) - IP_BYTES
    # Header removal takes the middle header from packet 6, after packet 5, and from packet 8.
    removed = {6: IP_BYTES, 7: -IP_BYTES}.get(one.number_inside, 0)
    return inner + removed if form.is_short else inner


def assert_sealed(packet: bytes, clear: int, form: Form) -> None:
    """Exactly the headers of the profile, and as long as they are."""
    skip = packet[IP_BYTES:]
    assert (packet[9], skip[0]) == (IPPROTO_SKIP, 0x10)
    own_name, other_name = (skip_by_hand.MKID_BYTES.get(nsid, 16) for nsid in skip[1:3])
    header = 12 + FIELD_BYTES + own_name + other_name
    if form is FORMS["paper-with-its-60-octets"]:
        assert header == 60
    follows, at = skip[3], header
    if form.protection is PAPER:
        assert follows == AH
        # AH of RFC 1826: the next header, and 4 words of MD5.
        assert (skip[at], skip[at + 1], skip[at + 4 : at + 8]) == (ESP, 4, SPI)
        follows, at = skip[at], at + 24
        text, tag = -(-(clear + TRAILER_BYTES) // BLOCK_BYTES) * BLOCK_BYTES, 0
    else:
        text, tag = clear + TRAILER_BYTES, TAG_BYTES
    assert (follows, skip[at : at + 4]) == (ESP, SPI)
    assert len(packet) == IP_BYTES + at + len(SPI) + IV_BYTES + text + tag


def assert_no_address(one: Crossing, form: Form) -> None:
    """Outside, no address of the home network is in clear, but that the node may be named by its
    own; inside, a care-of address is only where Mobile IP has it: in the header between firewall's
    and node's, and in the request."""
    outside, inside = one.outside.data, one.inside.data
    name = ETHERNET_BYTES + form.before + IP_BYTES + 12 + FIELD_BYTES
    named = set() if form.access else {name}
    assert offsets(outside, MOBILE) == named
    for address in (HOME_AGENT, CORRESPONDENT, INSIDE):
        assert offsets(outside, address) == set()
    middle = ETHERNET_BYTES + IP_BYTES
    source, destination = middle + 12, middle + 16
    field_of_request = middle + IP_BYTES + 8 + 12
    assert offsets(inside, OUTSIDE) == set()
    assert (
        offsets(inside, COA)
        == {
            2: {source, field_of_request},
            3: {destination},
            6: set() if form.is_short else {source},
            7: {destination},
        }[one.number_inside]
    )


def assert_tshark_sees_skip_alone(capture: Capture, protocol: int) -> None:
    seen = tshark.read(capture.path, "ip && !(ip.src == 0.0.0.0)")
    assert len(seen) == len(ip_frames(capture))
    assert {one.protocols for one in seen} == {(protocol,)}
    if protocol == IPPROTO_UDP:
        to_port = f"udp.srcport == {SKIP_PORT} && udp.dstport == {SKIP_PORT}"
        assert len(tshark.read(capture.path, to_port)) == len(seen)
    assert tshark.read(capture.path, "_ws.malformed") == []


def assert_tshark_reads_registrations(capture: Capture) -> None:
    """Packets 2 and 3."""
    found = read_registrations(capture)
    assert {one.mobile_ip_type for one in found} == {REQUEST, REPLY}
    for one in found:
        is_request = one.mobile_ip_type == REQUEST
        assert (one.home, one.home_agent) == (MOBILE, HOME_AGENT)
        assert one.care_of == (COA if is_request else None)
        assert one.layers == headers_inside(2 if is_request else 3, FORMS["binding"])
