"""Sizes of packets from the native core, beside closed forms that are made by hand, the paper's own
examples and sizes that are counted by hand."""

from __future__ import annotations

import pytest
from sizes_by_hand import (
    ESP_HEADER_BYTES,
    ESP_TRAILER_BYTES,
    IP_BYTES,
    MD5_96_BYTES,
    POLICIES,
    TCP_BYTES,
    UDP_BYTES,
)

from caravan.testbed.capture import IPPROTO_ESP, IPPROTO_ICMP, IPPROTO_UDP, Frame
from caravan.threeways.measurement import probe_size
from caravan.threeways.sizes import POLICIES as MEASURED
from caravan.threeways.sizes import parts, wire_bytes

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


def test_the_core_has_the_sizes_that_are_made_by_hand() -> None:
    assert tuple(BY_NAME) == MEASURED
    sizes = range(40, 1501)
    for name, policy in BY_NAME.items():
        for mode in ("transport", "tunnel"):
            by_hand = [policy.rfc_bytes(size, mode) for size in sizes]
            assert wire_bytes(name, sizes, mode=mode) == by_hand, (name, mode)
        by_paper = [policy.paper_bytes(size) for size in sizes]
        known = None if None in by_paper else by_paper
        assert wire_bytes(name, sizes, "paper-u") == known, name


def test_the_core_has_the_parts_that_are_counted_by_hand() -> None:
    assert parts("null-md5") == {
        "ip_bytes": IP_BYTES,
        "tcp_bytes": TCP_BYTES,
        "udp_bytes": UDP_BYTES,
        "esp_header_bytes": ESP_HEADER_BYTES,
        "esp_trailer_bytes": ESP_TRAILER_BYTES,
        "check_bytes": MD5_96_BYTES,
    }
    assert (parts("aes128gcm16") or {})["check_bytes"] == 16
    assert parts("none") is None


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


def test_a_handshake_is_found_among_all_that_has_its_ports() -> None:
    other, own = (500).to_bytes(2, "big") * 2 + bytes(4), PORTS
    # IKE_AUTH, main mode, INFORMATIONAL, and the informational exchange of IKEv1.
    auth, main, *informational = (
        bytes(range(16)) + bytes([46, version, exchange]) + bytes(9)
        for version, exchange in ((0x20, 35), (0x10, 2), (0x20, 37), (0x10, 5))
    )
    for message, is_handshake in (
        (auth, True),
        (main, True),
        *((it, False) for it in informational),
    ):
        for octets in (own + MARKER + message, other + message):
            found = frame(IPPROTO_UDP, 20 + len(octets), octets)
            assert (found.ike, found.is_handshake) == (message, is_handshake)
    nothing = (own + b"\xff", own + SPI + auth, own + MARKER, PORTS, other + MARKER)
    for octets in (*nothing, (53).to_bytes(2, "big") * 2 + bytes(4) + auth):
        assert frame(IPPROTO_UDP, 20 + len(octets), octets).ike is None
    assert frame(IPPROTO_ESP, 20 + 36, other + auth).ike is None
