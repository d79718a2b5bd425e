"""Bad input to the firewall of a mobile private network: what is changed, repeated or forged, and
roles that are killed."""

from __future__ import annotations

import signal
import struct
import time
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from mvpn_by_hand import (
    ECHO_REQUEST,
    dropped,
    echo,
    ip,
    ip_packets,
    send,
    skip_frames,
    udp,
    wait_dropped,
    wait_reaches,
)

from caravan.testbed.capture import IPPROTO_ICMP, IPPROTO_IPIP, SKIP_PORT, Capture, Frame
from caravan.testbed.mobile_ip import HOME_AGENT, MOBILE, Settings
from caravan.testbed.mvpn import (
    CN3,
    CORRESPONDENT,
    DRAFT,
    HOTEL,
    INSIDE,
    MODERN,
    NAT,
    OUTSIDE,
    PAPER,
    VISITED,
    Mvpn,
    Protection,
    all_roles,
    firewall,
    mobile_node,
    walk,
)
from caravan.testbed.traffic import ping

pytestmark = pytest.mark.root

LIFETIME_S = 4
SHORT = Settings({"lifetime": f"{LIFETIME_S}s"})
BOUND_S = 20.0
"""In which a node with this lifetime is bound again, on a busy machine. By default a lifetime is of
minutes."""
UDP = Settings({"udp": True})


def test_ah_does_not_pass_a_nat_and_is_counted_but_the_udp_form_does(output: Path) -> None:
    with Mvpn(output) as network, all_roles(network, DRAFT, wall=UDP) as it:
        network.move(HOTEL)
        network.settle(HOTEL, network.ms)
        until = time.monotonic() + 10
        while not (counted := dropped(it.fw)):
            assert time.monotonic() < until
        assert set(counted) == {"bad-icv"}
        assert it.ms.mobility()["state"] == "registering"
        assert it.fw.mobility()["entries"][0]["care_of"] is None
        it.ms.stop()
        with mobile_node(network, it.keys, through={"udp": True}) as ms:
            ms.wait_ready().wait_at(HOTEL)
            wait_reaches(network)
            entry = it.fw.mobility()["entries"][0]
            assert entry["care_of"].startswith(f"{NAT}:") and entry["legacy"]


@pytest.mark.parametrize("protection", [MODERN, DRAFT, PAPER], ids=["x25519", "draft", "paper"])
def test_a_repeated_packet_is_what_the_profile_says(protection: Protection, output: Path) -> None:
    """SKIP of 1998 accepts a packet that is replayed while its n is good; it is counted."""
    with Mvpn(output) as network, all_roles(network, protection) as it:
        walk(network, it.ms, VISITED)
        wait_reaches(network)
        with Capture(network.r3, "lan0", output / "outside") as heard:
            assert ping(network.ms, CORRESPONDENT, 1).received == 1
        recorded = [one.packet for one in skip_frames(heard) if one.source == VISITED.care_of][-1]
        with Capture(network.cn1, "eth0", output / "again") as arrived:
            send(network.cn2, recorded)
            ping(network.ms, CORRESPONDENT, 1)
        requests = [one for one in ip_packets(arrived) if is_echo(one, MOBILE)]
        is_accepted = protection.is_legacy
        assert len(requests) == 1 + is_accepted
        assert it.fw.mobility()["accepted_replays"] == int(is_accepted)
        assert dropped(it.fw).get("replayed", 0) == int(not is_accepted)


def is_echo(packet: bytes, source: str) -> bool:
    is_from = packet[12:16] == IPv4Address(source).packed
    return is_from and packet[9] == IPPROTO_ICMP and packet[20] == ECHO_REQUEST


@pytest.mark.parametrize("victim", ["node", "firewall"])
def test_no_n_of_the_paper_is_sent_twice_though_its_sender_is_killed(
    victim: str, output: Path
) -> None:
    with Mvpn(output) as network, all_roles(network, PAPER, node=SHORT) as it:
        walk(network, it.ms, VISITED)
        with Capture(network.fw, "out0", output / "outside") as heard:
            wait_reaches(network)
            killed = it.ms if victim == "node" else it.fw
            killed.process.signal(signal.SIGKILL)
            killed.process.wait(5)
            time.sleep(0.5)
            moment = time.time()
            if victim == "node":
                again = mobile_node(network, it.keys, SHORT)
            else:
                again = firewall(network, it.keys)
            with again.wait_ready():
                wait_reaches(network, timeout_s=BOUND_S)
        source = VISITED.care_of if victim == "node" else OUTSIDE
        sent = [one for one in skip_frames(heard) if one.source == source]
        before = {counter(one) for one in sent if one.time_s < moment}
        after = {counter(one) for one in sent if one.time_s >= moment}
        assert max(before) < min(after)


def counter(frame: Frame) -> int:
    """n of a SKIP packet."""
    return int.from_bytes(frame.payload[4:8])


def intruders(recorded: bytes) -> list[bytes]:
    """What somebody outside may try; `recorded`: an authentic packet."""
    changed, later = bytearray(recorded), bytearray(recorded)
    changed[-1] ^= 1
    # The last octet of the sequence number of ESP.
    later[recorded.index(bytes([0, 0, 0, 1]), 36) + 11] ^= 0x40
    stranger = bytearray(recorded)
    at = stranger.index(IPv4Address(MOBILE).packed)
    stranger[at : at + 4] = IPv4Address("10.18.3.99").packed
    request = struct.pack("!BBH", 1, 0x22, 60)
    request += b"".join(IPv4Address(one).packed for one in (MOBILE, HOME_AGENT, CN3)) + bytes(8)
    asked = udp(CN3, HOME_AGENT, 434, request)
    inner = echo(MOBILE, CORRESPONDENT)
    # As if the home agent had sent it.
    to_node = ip(HOME_AGENT, VISITED.care_of, IPPROTO_IPIP, echo(CORRESPONDENT, MOBILE))
    return [
        bytes(changed),
        bytes(later),
        bytes(stranger),
        recorded[:60],
        echo(CN3, CORRESPONDENT),
        echo(CN3, INSIDE),
        echo(MOBILE, CORRESPONDENT),
        echo(HOME_AGENT, CORRESPONDENT),
        asked,
        udp(CN3, INSIDE, 434, request),
        udp(CN3, OUTSIDE, 434, request),
        udp(CN3, OUTSIDE, SKIP_PORT, bytes(recorded[20:])),
        ip(CN3, OUTSIDE, IPPROTO_IPIP, asked),
        ip(CN3, OUTSIDE, IPPROTO_IPIP, inner),
        ip(CN3, INSIDE, IPPROTO_IPIP, inner),
        ip(HOME_AGENT, INSIDE, IPPROTO_IPIP, inner),
        ip(HOME_AGENT, INSIDE, IPPROTO_IPIP, to_node),
        ip(HOME_AGENT, OUTSIDE, IPPROTO_IPIP, to_node),
        ip(INSIDE, HOME_AGENT, IPPROTO_IPIP, asked),
    ]


def test_what_is_not_authentic_crosses_neither_a_firewall_nor_a_killed_one(output: Path) -> None:
    with Mvpn(output) as network, all_roles(network, node=SHORT) as it:
        # The attacker is next to the firewall.
        network.r1.add_route("10.0.0.0/8", OUTSIDE)
        network.r1.add_route("192.168.4.0/24", OUTSIDE)
        with Capture(network.r3, "lan0", output / "authentic") as heard:
            walk(network, it.ms, VISITED)
            wait_reaches(network)
        sent = [one.packet for one in skip_frames(heard) if one.source == VISITED.care_of]
        attack = intruders(sent[-1])
        it.ms.process.signal(signal.SIGSTOP)
        assert_nothing_crosses(network, attack, output / "running")
        # Of the two with wrong text, one has an n that was seen.
        kinds = ("bad-icv", "replayed", "skip-unknown-name", "truncated")
        wait_dropped(it.fw, dict.fromkeys(kinds, 1))
        it.ms.process.signal(signal.SIGCONT)
        wait_reaches(network, timeout_s=BOUND_S)
        it.fw.crash()
        assert_nothing_crosses(network, [*attack, *sent], output / "killed")
        with Capture(network.fw, "out0", output / "outside") as outside:
            assert not ping(network.ms, CORRESPONDENT, 1, timeout_s=0.5).received
            assert not ping(network.cn1, MOBILE, 1, timeout_s=0.5).received
        for packet in ip_packets(outside):
            assert packet[12:16] != IPv4Address(CORRESPONDENT).packed
            assert IPv4Address(CORRESPONDENT).packed not in packet
        with firewall(network, it.keys).wait_ready():
            # The next registration binds the node, at three quarters of its lifetime.
            until = time.monotonic() + BOUND_S
            while not ping(network.cn1, MOBILE, 1, timeout_s=0.5).received:
                assert time.monotonic() < until
            assert it.ha.refused() == {}


def assert_nothing_crosses(network: Mvpn, attack: list[bytes], path: Path) -> None:
    """Neither to inside, nor back to the node in a tunnel."""
    path.mkdir()
    with (
        Capture(network.fw, "in0", path / "in") as inside,
        Capture(network.fw, "out0", path / "out") as outside,
    ):
        send(network.r1, *attack)
        time.sleep(0.3)
    assert ip_packets(inside) == []
    assert [one for one in skip_frames(outside) if one.source == OUTSIDE] == []
