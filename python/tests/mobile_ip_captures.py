"""What a test finds in captures of Mobile IP, by a small reader and by tshark."""

from __future__ import annotations

import socket
from ipaddress import IPv4Address

from caravan.testbed import tshark
from caravan.testbed.capture import (
    ETHER_TYPE_ARP,
    ETHER_TYPE_IPV4,
    IPPROTO_IPIP,
    IPPROTO_UDP,
    Capture,
    Frame,
)

REQUEST, REPLY, TUNNEL_DATA = 1, 3, 4
"""Types of messages; the last one of RFC 3519."""
MOBILE_IP_PORT = (434).to_bytes(2)
SOLICITATION = ("0.0.0.0", "224.0.0.2")
IP_BYTES = 20

Layers = tuple[tuple[str, str], ...]
"""Source and destination of each header of a packet, the outermost first."""


def ip_packets(frames: list[Frame]) -> list[bytes]:
    """All but ARP, solicitations, and what kernels say of their groups when a link comes up."""
    kinds = {frame.ether_type for frame in frames}
    assert kinds <= {ETHER_TYPE_ARP, ETHER_TYPE_IPV4}
    packets = [frame.packet for frame in frames if is_told(frame)]
    # A node without an address asks the link for agents.
    return [packet for packet in packets if ends(packet) != SOLICITATION]


def is_told(frame: Frame) -> bool:
    """Whether this is IPv4 that somebody has sent on purpose: not IGMP."""
    return frame.ether_type == ETHER_TYPE_IPV4 and frame.protocol != socket.IPPROTO_IGMP


def ends(packet: bytes) -> tuple[str, str]:
    return str(IPv4Address(packet[12:16])), str(IPv4Address(packet[16:20]))


def layers(packet: bytes) -> Layers:
    if packet[9] != IPPROTO_IPIP:
        return (ends(packet),)
    return (ends(packet), *layers(packet[IP_BYTES:]))


def inmost(packet: bytes) -> bytes:
    """The packet in all tunnels."""
    return packet if packet[9] != IPPROTO_IPIP else inmost(packet[IP_BYTES:])


def is_registration(packet: bytes) -> bool:
    """Whether it is a message of Mobile IP, in IP in IP or not, and no data in UDP."""
    inner = inmost(packet)
    ports = inner[IP_BYTES : IP_BYTES + 2], inner[IP_BYTES + 2 : IP_BYTES + 4]
    is_of_port = inner[9] == IPPROTO_UDP and MOBILE_IP_PORT in ports
    return is_of_port and inner[IP_BYTES + 8] != TUNNEL_DATA


def offsets(octets: bytes, address: str) -> set[int]:
    """Where an address is among them."""
    wanted = IPv4Address(address).packed
    return {at for at in range(len(octets) - 3) if octets[at : at + 4] == wanted}


def read_registrations(capture: Capture) -> list[tshark.Reading]:
    """The messages of Mobile IP in a capture as tshark reads them: all of them, and it finds
    nothing wrong."""
    packets = [one for one in ip_packets(capture.frames()) if is_registration(one)]
    found = tshark.read(capture.path, f"mip && mip.type != {TUNNEL_DATA}")
    assert [one.layers for one in found] == [layers(packet) for packet in packets]
    assert [one.faults for one in found if one.faults] == []
    return found
