"""Bytes of one IP packet on the wire under each policy of the demonstration, by closed forms that
are made by hand: an independent check of the native core's sizes.

There are two accountings: the RFCs' (ESP in UDP, RFC 3948 and RFC 4303, with the initialisation
vector of each cipher's RFC) and the paper's formulas (9) to (11), which have no initialisation
vector. IPv4 without options; padding is the shortest that aligns.
"""

from __future__ import annotations

from dataclasses import dataclass

IP_BYTES = 20
TCP_BYTES = 20
UDP_BYTES = 8
ESP_HEADER_BYTES = 8
ESP_TRAILER_BYTES = 2
ESP_ALIGNMENT_BYTES = 4
MD5_96_BYTES = 12


@dataclass(frozen=True)
class Policy:
    """A suite's share of a packet: bytes of initialisation vector, block and check value.

    `paper_check_bytes`: authentication data in the paper's formulas; None if the paper lacks the
    policy.
    """

    name: str
    vector_bytes: int
    block_bytes: int
    check_bytes: int
    paper_check_bytes: int | None = None
    is_ipsec: bool = True

    def rfc_bytes(self, packet_bytes: int, mode: str = "transport") -> int:
        """Size on the wire of a packet of `packet_bytes`, IP header included, in UDP."""
        if not self.is_ipsec:
            return packet_bytes
        clear = packet_bytes - (IP_BYTES if mode == "transport" else 0)
        block = max(self.block_bytes, ESP_ALIGNMENT_BYTES)
        body = _aligned(clear + ESP_TRAILER_BYTES, block)
        header = IP_BYTES + UDP_BYTES + ESP_HEADER_BYTES
        return header + self.vector_bytes + body + self.check_bytes

    def paper_bytes(self, packet_bytes: int) -> int | None:
        """The paper's formulas (9), (10), (11); None if it has none."""
        if not self.is_ipsec:
            return packet_bytes
        if self.paper_check_bytes is None:
            return None
        block = max(self.block_bytes, ESP_ALIGNMENT_BYTES)
        # The paper's constants 18 and 36 are sums of its Table 2.
        body = _aligned(packet_bytes - IP_BYTES + ESP_TRAILER_BYTES, block)
        return IP_BYTES + UDP_BYTES + ESP_HEADER_BYTES + body + self.paper_check_bytes


def _aligned(size: int, block: int) -> int:
    return -(-size // block) * block


POLICIES = (
    Policy("none", 0, 1, 0, 0, is_ipsec=False),
    # RFC 2410 §2.2: one byte block, no vector. RFC 2403: MD5-96.
    Policy("null-md5", 0, 1, MD5_96_BYTES, MD5_96_BYTES),
    # RFC 2405 and RFC 2451: an explicit vector of one block of eight bytes.
    Policy("des", 8, 8, 0, 0),
    Policy("3des", 8, 8, 0, 0),
    Policy("des-md5", 8, 8, MD5_96_BYTES, MD5_96_BYTES),
    Policy("3des-md5", 8, 8, MD5_96_BYTES, MD5_96_BYTES),
    # RFC 3602 and RFC 2404.
    Policy("aes128-sha1", 16, 16, 12),
    # RFC 4106 §3 and §6; RFC 7634 §2.
    Policy("aes128gcm16", 8, 1, 16),
    Policy("chacha20poly1305", 8, 1, 16),
)
"""The policies of the demonstration's table, in its order."""
