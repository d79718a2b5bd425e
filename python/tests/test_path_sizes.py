"""The path MTU, and who reports it: forged ICMP, a link whose MTU shrinks, messages larger than the
path."""

from __future__ import annotations

import socket
import struct
import threading
import time
from pathlib import Path

import pytest

from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.capture import IPPROTO_ESP, IPPROTO_ICMP, IPPROTO_UDP
from caravan.testbed.caravan import Caravan
from caravan.testbed.host import Host
from caravan.testbed.remote_access import GATEWAY_ADDRESS, SERVER_ADDRESS
from caravan.testbed.traffic import download, iperf, make_file, ping, serve_files
from caravan.threeways.measurement import Keys, tunnel_ends

pytestmark = pytest.mark.root

SUITE = "aes128gcm16"
STRANGER = "198.18.0.9"
FILE_BYTES = 1_000_000
SMALL_BYTES = 1_150
LARGE_BYTES = 1_350
"""The size of an echo that fits a path of 1,500 bytes but not one of 1,280."""


def checksum(octets: bytes) -> int:
    """The checksum of RFC 1071."""
    total: int = sum(struct.unpack(f"!{len(octets) // 2}H", octets))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def fragmentation_needed(peer: str, mtu: int, protocol: int, beyond: bytes) -> bytes:
    """The forged report of a router that a packet of the gateway to a peer did not fit."""
    return unreachable(4, peer, protocol, beyond, mtu)


def unreachable(code: int, peer: str, protocol: int, beyond: bytes, mtu: int = 0) -> bytes:
    """The forged report of a router about a packet of the gateway to a peer."""
    ends = socket.inet_aton(GATEWAY_ADDRESS) + socket.inet_aton(peer)
    quoted = struct.pack("!BBHHHBBH", 0x45, 0, 1_500, 1, 0x4000, 60, protocol, 0) + ends + beyond
    body = struct.pack("!HH", 0, mtu) + quoted
    icmp = struct.pack("!BBH", 3, code, checksum(bytes([3, code, 0, 0]) + body)) + body
    # The kernel fills in length and checksum.
    ends = socket.inet_aton(STRANGER) + socket.inet_aton(GATEWAY_ADDRESS)
    return struct.pack("!BBHHHBBH", 0x45, 0, 0, 0, 0, 60, IPPROTO_ICMP, 0) + ends + icmp


def forge(host: Host, peer: str, protocol: int, beyond: bytes) -> None:
    """Ten reports, of sizes that would stop all traffic if they were believed."""
    with host.entered():
        speaker = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    with speaker:
        for mtu in (68, 552, 0, 576, 68) * 2:
            report = fragmentation_needed(peer, mtu, protocol, beyond)
            speaker.sendto(report, (GATEWAY_ADDRESS, 0))
            time.sleep(0.02)


UNKNOWN_ESP = struct.pack("!II", 0xC0FFEE01, 1)


@pytest.mark.parametrize(
    ("has_nat", "beyond", "is_ignored"),
    [(True, b"", False), (True, UNKNOWN_ESP, True), (False, UNKNOWN_ESP, True)],
    ids=["header", "udp", "esp"],
)
def test_a_stranger_who_forges_icmp_does_not_stop_a_tunnel(
    has_nat: bool, beyond: bytes, is_ignored: bool, keys: Keys, output: Path
) -> None:
    """One report of 68 bytes used to stop every tunnel to an address for ten minutes."""
    ends = tunnel_ends(keys, SUITE)
    with (
        RemoteAccess(RemoteAccessConfig(has_nat=has_nat), output) as network,
        Caravan(network.sg, ends[0]) as gateway,
    ):
        gateway.wait_ready()
        with Caravan(network.ms, ends[1]) as station:
            station.wait_ready()
            (inner,) = (text.partition("/")[0] for text in network.ms.addresses("caravan0"))

            def passes(size_bytes: int) -> bool:
                """Whether an echo with the don't-fragment flag is answered."""
                got = ping(network.server, inner, 3, 0.05, size_bytes, dont_fragment=True)
                return got.received == 3

            assert passes(LARGE_BYTES)
            (session,) = gateway.status()["connections"][0]["sessions"]
            peer, _, port = session["remote"].rpartition(":")
            header = struct.pack("!HHHH", 4500, int(port), 1_480, 0) if has_nat else b""
            protocol = IPPROTO_UDP if has_nat else IPPROTO_ESP
            forge(network.outer[0], peer, protocol, header + beyond)
            assert passes(SMALL_BYTES)
            # A report whose quotation is wrong changes nothing.
            assert passes(LARGE_BYTES) is is_ignored
            forged = gateway.status()["drops"]["forged-report"]
            assert forged == (10 if is_ignored else 0)


@pytest.mark.parametrize(
    ("has_nat", "code"), [(True, 2), (True, 7), (False, 3)], ids=["udp", "udp-host", "esp"]
)
def test_forged_icmp_does_not_cost_the_packets_that_are_sent_next(
    has_nat: bool, code: int, keys: Keys, output: Path
) -> None:
    """An error caused by one datagram is reported to the next sender, whose datagram is dropped."""
    ends = tunnel_ends(keys, SUITE)
    with (
        RemoteAccess(RemoteAccessConfig(has_nat=has_nat), output) as network,
        Caravan(network.sg, ends[0]) as gateway,
    ):
        gateway.wait_ready()
        with Caravan(network.ms, ends[1]) as station:
            station.wait_ready()
            (inner,) = (text.partition("/")[0] for text in network.ms.addresses("caravan0"))
            (session,) = gateway.status()["connections"][0]["sessions"]
            peer, _, port = session["remote"].rpartition(":")
            header = struct.pack("!HHHH", 4500, int(port), 1_480, 0) if has_nat else b""
            protocol = IPPROTO_UDP if has_nat else IPPROTO_ESP
            report = unreachable(code, peer, protocol, header + UNKNOWN_ESP)
            with network.outer[0].entered():
                speaker = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
            is_over = threading.Event()

            def flood() -> None:
                while not is_over.wait(0.0001):
                    speaker.sendto(report, (GATEWAY_ADDRESS, 0))

            with speaker:
                stranger = threading.Thread(target=flood)
                stranger.start()
                try:
                    got = ping(network.server, inner, 50, 0.02)
                finally:
                    is_over.set()
                    stranger.join()
            assert got.received == 50
            assert gateway.status()["drops"].get("send-failed", 0) == 0


@pytest.mark.parametrize("is_upload", [False, True], ids=["gateway", "station"])
def test_a_path_that_loses_large_packets_in_silence_is_found_out(
    is_upload: bool, keys: Keys, output: Path
) -> None:
    """The operator's link carries 1,280 bytes without reporting it; TCP used to stop for ever."""
    expected = make_file(output / "www/file", FILE_BYTES)
    ends = tunnel_ends(keys, SUITE)
    with (
        RemoteAccess(RemoteAccessConfig(), output) as network,
        Caravan(network.sg, ends[0]) as gateway,
    ):
        gateway.wait_ready()
        assert network.nat is not None
        operator = network.nat.host
        for interface in ("wan0", "lan0"):
            operator.set_mtu(interface, 1_280)
        operator.load_nft(
            """table ip silent {
    chain output {
        type filter hook output priority filter;
        icmp type destination-unreachable drop
    }
}
""",
            "silent",
        )
        with Caravan(network.ms, ends[1]) as station:
            station.wait_ready()
            if is_upload:
                flow = iperf(network.ms, network.server, SERVER_ADDRESS, 10)
                assert flow.mbit_s > 1
            else:
                serve_files(network.server, output / "www", SERVER_ADDRESS)
                url = f"http://{SERVER_ADDRESS}/file"
                assert download(network.ms, url, timeout_s=30).sha256 == expected
            sender = station if is_upload else gateway
            (session,) = sender.status()["connections"][0]["sessions"]
            (child,) = session["children"]
            assert child["path_mtu"] == 1_280
            said = [str(fields.get("message", "")) for _, fields in sender.events()]
            assert sum("large packets are lost" in line for line in said) == 1
