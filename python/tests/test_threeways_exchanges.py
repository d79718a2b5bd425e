"""Key exchanges of a chain at three levels: the same messages, to the octet, and their time."""

from __future__ import annotations

from pathlib import Path

import pytest
from ike_frames import first_ones
from road_policies import TOLERANCE, own_policy

from caravan.lab.core import kernel
from caravan.testbed.capture import read_pcap
from caravan.threeways.bed import running
from caravan.threeways.compare import NAMES, three_ways

IKEV1 = """
name = "ikev1"
title = "IKEv1"
suite = "aes128gcm16-modp2048"
[keys]
exchange = "ikev1-{mode}"
proposal = "aes128-sha512-modp2048"
proof = "{proof}"
"""
IKEV2 = """
name = "ikev2"
title = "IKEv2"
suite = "aes128gcm16"
[keys]
exchange = "ikev2"
proposal = "aes128gcm16-prfsha256-{method}"
proof = "{proof}"
"""
RESUMED = f"{IKEV2}resumed = true\n"
MARKER = bytes(4)
X25519, HYBRID = "curve25519", "curve25519-ke1_mlkem768"
SIGNATURE_BYTES = 2
"""A signature of ECDSA in DER has an octet more or less than in the lab, seldom two."""


@pytest.mark.root
@pytest.mark.measures
@pytest.mark.parametrize(
    ("method", "proof", "messages", "apart"),
    [
        (X25519, "psk", 4, 0),
        ("modp2048", "psk", 4, 0),
        ("ecp256", "psk", 4, 0),
        ("mlkem768", "psk", 4, 0),
        (HYBRID, "psk", 6, 0),
        ("curve25519-ke1_mlkem1024", "psk", 6, 0),
        (X25519, "rsa2048", 4, 0),
        # In certificates and in AUTH.
        (X25519, "ecdsa-p256", 4, 4 * SIGNATURE_BYTES),
        (X25519, "ed25519", 4, 0),
        (X25519, "eap-mschapv2", 12, 0),
        (X25519, "eap-tls", 18, 0),
        (HYBRID, "rsa2048", 6, 0),
    ],
)
def test_ikev2_has_the_same_messages_at_each_level(
    method: str, proof: str, messages: int, apart: int, tmp_path: Path
) -> None:
    text = IKEV2.format(method=method, proof=proof)
    levels = three_ways(own_policy("3des-md5", text), tmp_path)
    assert levels.testbed is not None
    print({name: (levels.simulate[name], levels.testbed[name]) for name in NAMES})
    for name in ("handshake_messages", "wire_bytes_64", "wire_bytes_480"):
        assert levels.model[name] == levels.simulate[name] == levels.testbed[name], name
    assert levels.simulate["handshake_messages"] == messages
    name = "handshake_bytes"
    assert levels.model[name] == levels.simulate[name]
    ours, real = levels.simulate[name] or 0, levels.testbed[name] or 0
    assert abs(ours - real) <= apart, (ours, real)
    for level in ("model", "testbed"):
        difference = levels.difference("handshake_ms", level)
        # A namespace computes, the lab's ends here do not.
        assert difference is not None and -0.5 < difference < TOLERANCE, level


@pytest.mark.root
@pytest.mark.measures
@pytest.mark.parametrize(
    ("method", "proof"),
    [
        (X25519, "psk"),
        (X25519, "rsa2048"),
        (X25519, "eap-mschapv2"),
        (HYBRID, "psk"),
    ],
)
def test_a_lost_session_goes_on_with_the_same_messages_at_each_level(
    method: str, proof: str, tmp_path: Path
) -> None:
    text = RESUMED.format(method=method, proof=proof)
    levels = three_ways(own_policy("3des-md5", text), tmp_path)
    assert levels.testbed is not None
    print({name: (levels.simulate[name], levels.testbed[name]) for name in NAMES})
    assert levels.simulate["handshake_messages"] == 4
    for name in ("handshake_messages", "handshake_bytes", "wire_bytes_64", "wire_bytes_480"):
        assert levels.model[name] == levels.simulate[name] == levels.testbed[name], name
    for level in ("model", "testbed"):
        difference = levels.difference("handshake_ms", level)
        # A namespace computes, the lab's ends here do not.
        assert difference is not None and -0.5 < difference < TOLERANCE, level


@pytest.mark.root
@pytest.mark.parametrize(
    ("text", "split", "first_marked"),
    [
        (IKEV1.format(mode="main", proof="psk"), set(), 4),
        # The second message comes before the change of ports, the third after it.
        (IKEV1.format(mode="aggressive", proof="rsa2048"), {1, 2}, 2),
        (IKEV2.format(method=X25519, proof="psk"), set(), 2),
        (IKEV2.format(method=X25519, proof="rsa2048"), {2, 3}, 2),
        (RESUMED.format(method=X25519, proof="psk"), set(), 2),
    ],
)
def test_each_message_of_a_captured_handshake_has_the_octets_of_the_lab(
    text: str, split: set[int], first_marked: int, tmp_path: Path
) -> None:
    road = own_policy("3des-md5", text)
    exchange = kernel(road.opened)["simulate"]["exchange"]
    with running(road, tmp_path) as bed:
        assert bed.arrival is not None
        frames = first_ones(frame for frame in read_pcap(bed.arrival) if frame.is_handshake)
    rows = exchange["messages"]
    captured = [[frames.pop(0) for _ in range(row["datagrams"])] for row in rows]
    sizes = [sum(len(frame.packet) for frame in message) for message in captured]
    assert not frames
    assert sizes == [row["wire_bytes"] for row in rows]
    assert sum(sizes) == exchange["wire_bytes"]
    assert {at for at, message in enumerate(captured) if len(message) > 1} == split
    # Behind ports and checksums of UDP.
    marked = [{frame.payload[8:12] == MARKER for frame in message} for message in captured]
    later = len(rows) - first_marked
    assert marked == [{False}] * first_marked + [{True}] * later
