"""Packets captured on a link: `sniffer.py` writes them, a small reader parses them.

The reader supports pcap files with times in nanoseconds; for deeper analysis there is tshark.
"""

from __future__ import annotations

import ipaddress
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from caravan.testbed.host import Host

READY_S = 10.0
ETHERNET_BYTES = 14
PCAP_MAGIC = 0xA1B2_3C4D
GLOBAL_HEADER_BYTES = 24
RECORD_HEADER_BYTES = 16
ETHER_TYPE_IPV4, ETHER_TYPE_ARP, ETHER_TYPE_IPV6 = 0x0800, 0x0806, 0x86DD
ETHER_TYPE_EAPOL = 0x888E
IPPROTO_ICMP, IPPROTO_IPIP, IPPROTO_TCP, IPPROTO_UDP = 1, 4, 6, 17
IPPROTO_ESP, IPPROTO_AH, IPPROTO_SKIP = 50, 51, 57
IPPROTO_ICMPV6, ECHO_REQUEST6 = 58, 128
RADIUS_PORT = 1812
IKE_HEADER_BYTES = 28
IKE_EXCHANGE = 18
"""Where the header of IKE names the exchange."""
INFORMATIONAL = (5, 37)
"""Of IKEv1 and of IKEv2."""
SKIP_PORT = 61_057
"""That of SKIP in UDP."""


@dataclass(frozen=True)
class Frame:
    """One captured Ethernet frame; `time_s` since the epoch."""

    time_s: float
    data: bytes

    @property
    def ether_type(self) -> int:
        """0x0800 for IPv4, 0x86dd for IPv6."""
        return int.from_bytes(self.data[12:14], "big")

    @property
    def packet(self) -> bytes:
        """The IP packet, without Ethernet's padding."""
        body = self.data[ETHERNET_BYTES:]
        if self.ether_type == ETHER_TYPE_IPV4:
            return body[: int.from_bytes(body[2:4], "big")]
        if self.ether_type == ETHER_TYPE_IPV6:
            return body[: 40 + int.from_bytes(body[4:6], "big")]
        return body

    @property
    def protocol(self) -> int | None:
        """The IP protocol number, without walking IPv6 extension headers."""
        if self.ether_type == ETHER_TYPE_IPV4:
            return self.data[ETHERNET_BYTES + 9]
        if self.ether_type == ETHER_TYPE_IPV6:
            return self.data[ETHERNET_BYTES + 6]
        return None

    @property
    def source(self) -> str | None:
        """Address of the IP packet's sender."""
        if self.ether_type == ETHER_TYPE_IPV4:
            return str(ipaddress.ip_address(self.data[26:30]))
        if self.ether_type == ETHER_TYPE_IPV6:
            return str(ipaddress.ip_address(self.data[22:38]))
        return None

    @property
    def destination(self) -> str | None:
        """Address of the IP packet's receiver."""
        if self.ether_type == ETHER_TYPE_IPV4:
            return str(ipaddress.ip_address(self.data[30:34]))
        if self.ether_type == ETHER_TYPE_IPV6:
            return str(ipaddress.ip_address(self.data[38:54]))
        return None

    @property
    def payload(self) -> bytes:
        """What follows the IP header."""
        packet = self.packet
        header = (packet[0] & 15) * 4 if self.ether_type == ETHER_TYPE_IPV4 else 40
        return packet[header:]

    @property
    def is_echo6(self) -> bool:
        """Whether it is a ping of IPv6, among the messages of ICMPv6 about the link."""
        return self.protocol == IPPROTO_ICMPV6 and self.payload[0] == ECHO_REQUEST6

    @property
    def is_udp_esp(self) -> bool:
        """Whether it is ESP in UDP, from or to port 4500 (RFC 3948 §2.1)."""
        if self.protocol != IPPROTO_UDP:
            return False
        udp = self.payload
        ports = struct.unpack("!HH", udp[:4])
        return 4500 in ports and len(udp) > 12 and udp[8:12] != bytes(4)

    @property
    def ike(self) -> bytes | None:
        """A message of IKE or a fragment of one, from or to port 500, or 4500 behind the non-ESP
        marker, without that (RFC 3948 §2.2). Nothing else that goes over these ports."""
        if self.protocol != IPPROTO_UDP:
            return None
        udp = self.payload
        ports = struct.unpack("!HH", udp[:4])
        message = None
        if 4500 in ports and udp[8:12] == bytes(4):
            message = udp[12:]
        elif 500 in ports:
            message = udp[8:]
        return message if message and len(message) >= IKE_HEADER_BYTES else None

    @property
    def is_handshake(self) -> bool:
        """Whether it is of IKE, and not of an informational exchange (RFC 2408 §3.1, RFC 7296
        §3.1)."""
        message = self.ike
        return message is not None and message[IKE_EXCHANGE] not in INFORMATIONAL


class Capture:
    """Every frame on one interface of a host, from construction to `stop()`."""

    def __init__(self, host: Host, interface: str, path: Path) -> None:
        self.path = path
        script = Path(__file__).with_name("sniffer.py")
        self.process = host.popen([sys.executable, str(script), interface, str(path)])
        self.process.wait_for(lambda: "listening" in self.process.stdout(), "capture", READY_S)

    def stop(self) -> Path:
        """End the capture; the file then has every packet."""
        self.process.stop().check()
        return self.path

    def frames(self) -> list[Frame]:
        """The frames in the file."""
        return list(read_pcap(self.path))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def read_pcap(path: Path) -> Iterator[Frame]:
    """The frames of a pcap file with nanosecond times; a truncated record ends it."""
    data = path.read_bytes()
    if len(data) < GLOBAL_HEADER_BYTES or struct.unpack_from("=I", data)[0] != PCAP_MAGIC:
        raise ValueError(f"{path} is not a pcap file of this machine's byte order")
    offset = GLOBAL_HEADER_BYTES
    while offset + RECORD_HEADER_BYTES <= len(data):
        seconds, nanos, held, _ = struct.unpack_from("=IIII", data, offset)
        offset += RECORD_HEADER_BYTES
        if offset + held > len(data):
            return
        yield Frame(seconds + nanos / 1e9, data[offset : offset + held])
        offset += held
