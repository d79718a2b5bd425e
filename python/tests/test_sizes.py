"""Closed forms of packet sizes compared with the paper's own examples and with sizes counted by
hand."""

from __future__ import annotations

import pytest

from caravan.testbed.capture import IPPROTO_ESP, IPPROTO_ICMP, IPPROTO_UDP, Frame
from caravan.threeways.measurement import probe_size
from caravan.threeways.sizes import POLICIES

BY_NAME = {policy.name: policy for policy in POLICIES}


@pytest.mark.parametrize(
    ("name", "size"),
    [("des", 84), ("3des", 84), ("null-md5", 96), ("des-md5", 96), ("3des-md5", 96)],
)
def test_the_paper_s_figure_7(name: str, size: int) -> None:
    assert BY_NAME[name].paper_bytes(64) == size


@pytest.mark.parametrize(
    ("name", "transport", "tunnel"),
    [
        ("none", 64, 64),
        # 20 IP, 8 UDP, 8 ESP, 44 clear, 2 pad, 2 trailer, 12 check: 96.
        ("null-md5", 96, 116),
        # 8 vector and 44 + 2 pad + 2 in blocks of 8; in tunnel mode 64 + 6 pad + 2.
        ("des", 92, 116),
        ("3des-md5", 104, 128),
        # 16 vector and 44 + 2 pad + 2 in blocks of 16; in tunnel mode 64 + 14 pad + 2.
        ("aes128-sha1", 112, 144),
        # 8 vector, 44 + 2 pad + 2, 16 check.
        ("aes128gcm16", 108, 128),
        ("chacha20poly1305", 108, 128),
    ],
)
def test_a_packet_of_64_bytes_on_the_wire(name: str, transport: int, tunnel: int) -> None:
    policy = BY_NAME[name]
    assert policy.rfc_bytes(64) == transport
    assert policy.rfc_bytes(64, "tunnel") == tunnel


def test_the_rfcs_add_one_vector_to_the_paper() -> None:
    for policy in POLICIES:
        for size in range(40, 1500):
            paper = policy.paper_bytes(size)
            if paper is not None:
                assert policy.rfc_bytes(size) == paper + policy.vector_bytes


def frame(protocol: int, size: int, payload: bytes = b"") -> Frame:
    """An IPv4 packet of `size` bytes on Ethernet."""
    header = bytes([0x45, 0]) + size.to_bytes(2, "big") + bytes(5) + bytes([protocol]) + bytes(10)
    packet = header + payload
    return Frame(0.0, bytes(12) + b"\x08\x00" + packet + bytes(size - len(packet)))


PORTS = (4500).to_bytes(2, "big") * 2 + bytes(4)
SPI, MARKER = b"\x12\x34\x56\x78", bytes(4)


def test_messages_of_ike_and_single_packets_are_no_probes() -> None:
    esp = [frame(IPPROTO_UDP, 128, PORTS + SPI)] * 3
    ike = [frame(IPPROTO_UDP, 108, PORTS + MARKER)] * 5
    keepalive = [frame(IPPROTO_UDP, 29, PORTS + b"\xff")] * 9
    other = [frame(IPPROTO_UDP, 104, PORTS + SPI)]
    assert probe_size([*ike, *other, *esp, *keepalive], is_clear=False) == 128
    assert probe_size([*ike, *[frame(IPPROTO_ESP, 120)] * 3], is_clear=False) == 120
    assert probe_size([*ike, *[frame(IPPROTO_ICMP, 64)] * 3], is_clear=True) == 64
    with pytest.raises(ValueError, match=r"3 probes were sent, .*: 1 of 104"):
        probe_size([*ike, *other], is_clear=False)
