"""What a test of a mobile private network sends by itself, and what it finds on a link."""

from __future__ import annotations

import base64
import secrets
import struct
import sys
import time
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

import skip_by_hand
from mobile_ip_captures import is_told
from skip_by_hand import Line

from caravan.testbed.capture import (
    IPPROTO_ICMP,
    IPPROTO_SKIP,
    IPPROTO_UDP,
    Capture,
    Frame,
)
from caravan.testbed.caravan import READY_S
from caravan.testbed.host import Host
from caravan.testbed.mobile_ip import MOBILE, Role
from caravan.testbed.mvpn import CORRESPONDENT, OUTSIDE, Keys, Mvpn
from caravan.testbed.traffic import REACHED_S, reach_each_other, wait_to_reach_each_other

ECHO_REQUEST, ECHO_REPLY = 8, 0


def reaches(network: Mvpn, node: Host | None = None, home: str = MOBILE) -> bool:
    """Whether a node and the correspondent reach each other by the home address."""
    return reach_each_other((network.cn1, CORRESPONDENT), (node or network.ms, home))


def wait_reaches(
    network: Mvpn, node: Host | None = None, home: str = MOBILE, timeout_s: float = REACHED_S
) -> None:
    """Wait until they do."""
    ends = (network.cn1, CORRESPONDENT), (node or network.ms, home)
    wait_to_reach_each_other(*ends, timeout_s)


def dropped(role: Role) -> dict[str, int]:
    """Packets that were dropped, by reason."""
    return {reason: count for reason, count in role.status()["drops"].items() if count}


def wait_dropped(role: Role, expected: dict[str, int]) -> None:
    """Wait until just so many packets have been dropped."""
    until = time.monotonic() + READY_S
    while (counted := dropped(role)) != expected:
        assert time.monotonic() < until, counted


# What is not the program's own is sent as it is.

SEND = """
import socket, sys
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
for packet in map(bytes.fromhex, sys.argv[1:]):
    raw.sendto(packet, (socket.inet_ntoa(packet[16:20]), 0))
"""


def send(host: Host, *packets: bytes) -> None:
    """Send IPv4 packets from a host, whatever their source is."""
    host.run([sys.executable, "-c", SEND, *(packet.hex() for packet in packets)], name="send")


def ip(source: str, destination: str, protocol: int, payload: bytes) -> bytes:
    """An IPv4 packet; the kernel fills in the checksum."""
    ends = IPv4Address(source).packed + IPv4Address(destination).packed
    head = struct.pack("!BBHHBBBBH", 0x45, 0, 20 + len(payload), 77, 0, 0, 64, protocol, 0)
    whole = bytearray(head + ends + payload)
    whole[10:12] = checksum(bytes(whole[:20]))
    return bytes(whole)


def checksum(octets: bytes) -> bytes:
    total = sum(struct.unpack(f"!{len(octets) // 2}H", octets))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return struct.pack("!H", total ^ 0xFFFF)


def echo(source: str, destination: str, number: int = 1) -> bytes:
    """A ping."""
    message = bytearray(struct.pack("!BBHHH", ECHO_REQUEST, 0, 0, 4711, number) + bytes(32))
    message[2:4] = checksum(bytes(message))
    return ip(source, destination, IPPROTO_ICMP, bytes(message))


def udp(source: str, destination: str, port: int, payload: bytes) -> bytes:
    """A datagram without a checksum."""
    head = struct.pack("!HHHH", port, port, 8 + len(payload), 0)
    return ip(source, destination, IPPROTO_UDP, head + payload)


def ip_packets(capture: Capture) -> list[bytes]:
    """All IPv4 of a link, solicitations too."""
    return [frame.packet for frame in capture.frames() if is_told(frame)]


def skip_frames(capture: Capture) -> list[Frame]:
    return [frame for frame in capture.frames() if frame.protocol == IPPROTO_SKIP]


def secret_of(keys: Keys, private: str, public: str) -> bytes:
    """K_ij from the files of two keys, by a second implementation: the low 256 bits."""
    _, modulus, _, secret = integers(pem(keys.private(private)))
    *_, value = integers(pem(keys.folder / f"{public}.skip.pub"))
    return pow(value, secret, modulus).to_bytes(256, "big")[-32:]


def pem(path: Path) -> bytes:
    return base64.b64decode("".join(path.read_text().splitlines()[1:-1]))


def integers(der: bytes) -> list[int]:
    """All integers of a DER text, in order (ITU-T X.690)."""
    found: list[int] = []
    while der:
        tag, length, der = der[0], der[1], der[2:]
        if length & 0x80:
            more = length & 0x7F
            length, der = int.from_bytes(der[:more]), der[more:]
        content, der = der[:length], der[length:]
        if tag == 0x02:
            found.append(int.from_bytes(content))
        elif tag in (0x30, 0x04):
            found += integers(content)
        elif tag == 0x03:
            found += integers(content[1:])
    return found


@dataclass(frozen=True)
class Stranger:
    """A host that speaks SKIP by a second implementation. `name`: NSID and MKID."""

    host: Host
    address: str
    crypt: int
    master: bytes
    name: tuple[int, bytes] = (0, b"")

    def line(self, clear: bytes, packet: bytes) -> Line:
        iv_bytes = 0 if self.crypt == skip_by_hand.RC4 else 8
        n = int.from_bytes(packet[24:28]) if packet else 1
        none = (0, b"")
        numbers = (skip_by_hand.DES, self.crypt, skip_by_hand.MD5_MAC, iv_bytes)
        return Line(*numbers, self.name, none, n, self.master, clear, packet)

    def sealed(self, clear: bytes) -> bytes:
        line = self.line(clear, b"")
        field = secrets.token_bytes(skip_by_hand.field_bytes(line.crypt, line.mac))
        ends = IPv4Address(self.address).packed + IPv4Address(OUTSIDE).packed
        return skip_by_hand.seal(line, field, secrets.token_bytes(line.iv_bytes), ends)
