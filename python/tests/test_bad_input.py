"""Invalid input to the real program: floods from forged addresses, random bytes, altered and
repeated packets, invalid certificates. Each is counted under a reason in `caravan status`."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.capture import (
    ETHER_TYPE_IPV4,
    IPPROTO_ESP,
    IPPROTO_ICMP,
    IPPROTO_UDP,
    Capture,
    Frame,
)
from caravan.testbed.caravan import Caravan, caravan_toml, write_files
from caravan.testbed.connection import Connection, PublicKey
from caravan.testbed.host import Host
from caravan.testbed.pki import CaravanAuthority, OpensslAuthority
from caravan.testbed.remote_access import (
    GATEWAY_ADDRESS,
    HOME_ADDRESS,
    OPERATOR_ADDRESSES,
    SERVER_ADDRESS,
    STATION_ADDRESS,
)
from caravan.testbed.traffic import ping
from caravan.threeways.measurement import Keys, tunnel_ends

pytestmark = pytest.mark.root

STATION = OPERATOR_ADDRESSES[0]
FORGED_NETWORK = "198.18.0.0/15"
HALF_OPEN = 500
"""The default limit above which aggressive first messages are dropped."""
HOLD_S = 4.0
"""The minimum time for which such an exchange is kept."""
SUITE = "aes128gcm16-modp2048"
ISAKMP_FRAGMENT = 132
SETTLE_S = 60.0


def two_modes(host: Host, connection: Connection) -> Path:
    """The configuration of a gateway that accepts main mode as well as aggressive mode."""
    path = write_files(host, connection)
    main = caravan_toml(replace(connection, name="main", is_aggressive=False))
    # Both assign addresses of the same pool.
    connections, _, _ = main.partition("[pools.")
    path.write_text(path.read_text() + connections)
    return path


def test_a_flood_of_forged_first_messages_is_bounded_and_main_mode_is_still_served(
    keys: Keys, output: Path
) -> None:
    on_gateway, on_station = tunnel_ends(keys, SUITE, version=1)
    count = HALF_OPEN + 200
    with contextlib.ExitStack() as stack:
        network = stack.enter_context(RemoteAccess(RemoteAccessConfig(has_nat=False), output))
        file = two_modes(network.sg, on_gateway)
        gateway = stack.enter_context(Caravan(network.sg, on_gateway, file=file)).wait_ready()
        first = first_message(network, on_station, output)
        # Answers arrive on the link that we watch.
        network.sg.add_route(FORGED_NETWORK, STATION)
        with Capture(network.ms, "wan0", output / "flood.pcap") as capture:
            sources = [f"198.18.{number >> 8}.{number & 255}" for number in range(1, count + 1)]
            began = time.monotonic()
            with raw_socket(network.ms) as send:
                for number, source in enumerate(sources):
                    forged = number.to_bytes(4, "big") + b"\1" + first[5:]
                    send(udp_packet(source, 500, GATEWAY_ADDRESS, 500, forged))
                    time.sleep(0.002)
            await_drops(gateway, "too-many-half-open", count - HALF_OPEN)
            lasted_s = time.monotonic() - began
            status = gateway.status()
            assert status["half_open"] == HALF_OPEN
            assert status["drops"]["too-many-half-open"] == count - HALF_OPEN
            # Above the limit an honest peer still succeeds in main mode.
            with Caravan(network.ms, replace(on_station, is_aggressive=False)) as station:
                station.wait_ready()
                assert ping(network.ms, SERVER_ADDRESS, 2).received == 2
            # Nothing is retransmitted.
            time.sleep(4)
        answers = Counter(
            destination
            for frame, destination in udp_from_gateway(capture)
            if destination in set(sources) and is_first_part(frame)
        )
        # On a slow machine later ones may replace the oldest.
        if lasted_s < HOLD_S:
            assert len(answers) == HALF_OPEN
        assert HALF_OPEN <= len(answers) <= count
        # Beyond twice that time, each of them surely has.
        if lasted_s < 2 * HOLD_S:
            assert len(answers) < count
        assert set(answers.values()) == {1}


def test_rubbish_at_both_ports_is_counted_to_the_last_datagram(keys: Keys, output: Path) -> None:
    on_gateway, on_station = tunnel_ends(keys, SUITE, version=1)
    with (
        RemoteAccess(RemoteAccessConfig(has_nat=False), output) as network,
        Caravan(network.sg, on_gateway) as gateway,
    ):
        gateway.wait_ready()
        first = first_message(network, on_station, output)
        with Caravan(network.ms, on_station) as station:
            station.wait_ready()
            with Capture(network.ms, "wan0", output / "echo.pcap") as capture:
                network.sg.run(["ping", "-c", "1", STATION])
            assert capture.frames()
            rubbish = spoiled(first)
            before = sum(drops(gateway).values())
            with network.ms.entered(), socket.socket(type=socket.SOCK_DGRAM) as speaker:
                for datagram in rubbish:
                    speaker.sendto(datagram, (GATEWAY_ADDRESS, 500))
                    # After the non-ESP marker (RFC 3948 §2.2), and as ESP under no SPI of ours.
                    speaker.sendto(bytes(4) + datagram, (GATEWAY_ADDRESS, 4500))
                    speaker.sendto(b"\0\0\1" + datagram, (GATEWAY_ADDRESS, 4500))
                    time.sleep(0.002)
            sent = 3 * len(rubbish)
            settle(lambda: sum(drops(gateway).values()) - before >= sent)
            counted = drops(gateway)
            assert sum(counted.values()) - before == sent, counted
            for reason in ("malformed-message", "unknown-cookies", "unsupported-exchange"):
                assert counted[reason] > 0, counted
            assert gateway.status()["half_open"] == 0
            assert ping(network.ms, SERVER_ADDRESS, 2).received == 2


def test_a_stranger_fills_neither_the_log_nor_a_queue_unseen(keys: Keys, output: Path) -> None:
    on_gateway, on_station = tunnel_ends(keys, SUITE, version=1)
    count = 5000
    with (
        RemoteAccess(RemoteAccessConfig(has_nat=False), output) as network,
        Caravan(network.sg, on_gateway) as gateway,
    ):
        gateway.wait_ready()
        first = first_message(network, on_station, output)
        before = sum(drops(gateway).values())
        # Each is a first message without payloads, with a cookie of its own.
        broken = set_length(first[:60])
        with network.ms.entered(), socket.socket(type=socket.SOCK_DGRAM) as speaker:
            for number in range(count):
                datagram = (number + 1).to_bytes(8, "big") + broken[8:]
                speaker.sendto(datagram, (GATEWAY_ADDRESS, 500))
        settle(lambda: sum(drops(gateway).values()) - before >= count)
        counted = drops(gateway)
        assert sum(counted.values()) - before == count, counted
        assert len(log(gateway)) < 500


def test_answers_that_reach_nobody_are_counted_and_do_not_fill_the_log(
    keys: Keys, output: Path
) -> None:
    on_gateway, on_station = tunnel_ends(keys, SUITE, version=1)
    count = 400
    with (
        RemoteAccess(RemoteAccessConfig(has_nat=False), output) as network,
        Caravan(network.sg, on_gateway) as gateway,
    ):
        gateway.wait_ready()
        first = first_message(network, on_station, output)
        before = drops(gateway)["send-failed"]
        with raw_socket(network.ms) as send:
            for number in range(1, count + 1):
                # The gateway has no route to these addresses.
                source = f"198.18.{number >> 8}.{number & 255}"
                forged = number.to_bytes(4, "big") + b"\1" + first[5:]
                send(udp_packet(source, 500, GATEWAY_ADDRESS, 500, forged))
                time.sleep(0.002)
        await_drops(gateway, "send-failed", before + count)
        assert drops(gateway)["send-failed"] >= before + count
        lines = [line for line in log(gateway) if line.startswith("cannot send")]
        assert 0 < len(lines) < 150


def spoiled(first: bytes) -> list[bytes]:
    """Variants of a first message that must be refused without an answer that costs much."""
    cut = [first[:length] for length in range(1, len(first), 7)]
    fitted = [set_length(part) for part in cut if len(part) >= 28]
    payload_length = first[:30] + bytes(2) + first[32:]
    return [
        *cut,
        *fitted,
        # One is longer than its length field, another as long as UDP allows.
        first + b"more",
        set_length(first[:28] + bytes(60_000)),
        # A payload of length 0, on which a careless parser loops for ever.
        payload_length,
        # Cookies that were never sent, an unknown exchange type, another version.
        set_octets(first, 8, bytes(range(1, 9))),
        set_octets(first, 18, b"\xf0"),
        set_octets(first, 17, b"\x20"),
        bytes(28),
        b"\xff" * 512,
    ]


def set_length(message: bytes) -> bytes:
    """The message with its length field corrected."""
    return set_octets(message, 24, struct.pack("!I", len(message)))


def set_octets(message: bytes, at: int, octets: bytes) -> bytes:
    """The message with octets replaced."""
    return message[:at] + octets + message[at + len(octets) :]


def test_altered_and_repeated_packets_are_dropped_by_reason(keys: Keys, output: Path) -> None:
    ends = tunnel_ends(keys, "aes128gcm16")
    with tunnel(ends, output) as (network, gateway):
        echoes = echo_requests(network, output)
        assert len(echoes) == 5
        packet = echoes[-1]
        header, esp = packet[:20], packet[20:]
        cases = {
            "replayed": esp,
            # A sequence number that has not been used, with the ICV of another packet.
            "bad-icv": esp[:4] + struct.pack("!I", 1_000) + esp[8:],
            "unknown-spi": b"\0\1\2\3" + esp[4:],
            "truncated": esp[:4] + struct.pack("!I", 1_000) + esp[8:12],
        }
        with Capture(network.server, "lan0", output / "inside.pcap") as inside:
            with raw_socket(network.ms) as send:
                for reason, octets in cases.items():
                    before = drops(gateway)[reason]
                    for _ in range(10):
                        send(header + octets)
                    await_drops(gateway, reason, before + 10)
                    assert drops(gateway)[reason] == before + 10, reason
            assert ping(network.ms, SERVER_ADDRESS, 2).received == 2
        requests = [frame for frame in inside.frames() if is_echo_request(frame)]
        assert len(requests) == 2


def test_bad_padding_is_counted_where_nothing_else_protects_a_packet(
    keys: Keys, output: Path
) -> None:
    ends = tunnel_ends(keys, "des-modp2048", version=1)
    with tunnel(ends, output) as (network, gateway):
        packet = echo_requests(network, output)[-1]
        with raw_socket(network.ms) as send:
            for number in range(1, 65):
                # In CBC a flipped bit flips the same bit of the next block: here, of the pad
                # length.
                at = len(packet) - 10
                send(packet[:at] + bytes([packet[at] ^ number]) + packet[at + 1 :])
        await_drops(gateway, "bad-padding", 51)
        assert drops(gateway)["bad-padding"] > 50, drops(gateway)
        assert ping(network.ms, SERVER_ADDRESS, 2).received == 2


def test_a_clear_packet_that_claims_an_inner_address_does_not_pass_the_gateway(
    keys: Keys, output: Path
) -> None:
    ends = tunnel_ends(keys, "aes128gcm16")
    with tunnel(ends, output) as (network, gateway):
        (inner,) = (text.partition("/")[0] for text in network.ms.addresses("caravan0"))
        forged = icmp_packet(inner, SERVER_ADDRESS)
        (link,) = json.loads(network.sg.run(["ip", "-json", "link", "show", "wan0"]).stdout)
        to = ("wan0", ETHER_TYPE_IPV4, 0, 0, bytes.fromhex(link["address"].replace(":", "")))
        with Capture(network.server, "lan0", output / "inside.pcap") as inside:
            with network.ms.entered():
                speaker = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM)
            # These do not use the routes into the tunnel.
            with speaker:
                for _ in range(5):
                    speaker.sendto(forged, to)
            assert ping(network.ms, SERVER_ADDRESS, 2).received == 2
        requests = [frame for frame in inside.frames() if is_echo_request(frame)]
        assert len(requests) == 2
        assert drops(gateway)["clear-packet"] == 5


def test_a_clear_packet_that_belongs_into_the_tunnel_does_not_reach_the_station(
    keys: Keys, output: Path
) -> None:
    """From the protected network to the station's outer and inner addresses."""
    ends = tunnel_ends(keys, "aes128gcm16")
    with (
        RemoteAccess(RemoteAccessConfig(), output) as network,
        Caravan(network.sg, ends[0]) as gateway,
    ):
        gateway.wait_ready()
        with Caravan(network.ms, ends[1]) as station:
            station.wait_ready()
            (inner,) = (text.partition("/")[0] for text in network.ms.addresses("caravan0"))
            with network.ms.entered():
                listener = socket.socket(type=socket.SOCK_DGRAM)
            assert network.nat
            router = network.nat.host
            (own,) = json.loads(network.ms.run(["ip", "-json", "link", "show", "wan0"]).stdout)
            to = ("lan0", ETHER_TYPE_IPV4, 0, 0, bytes.fromhex(own["address"].replace(":", "")))
            with router.entered():
                speaker = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM)
            with listener, speaker:
                listener.bind(("0.0.0.0", 7777))
                listener.settimeout(1)
                for destination in (STATION_ADDRESS, inner):
                    forged = udp_packet(SERVER_ADDRESS, 53, destination, 7777, b"forged")
                    for _ in range(3):
                        speaker.sendto(forged, to)
                # Packets to which no policy applies are accepted.
                honest = udp_packet(HOME_ADDRESS, 53, STATION_ADDRESS, 7777, b"honest")
                speaker.sendto(honest, to)
                assert listener.recv(100) == b"honest"
                with pytest.raises(TimeoutError):
                    listener.recv(100)
            assert drops(station)["clear-packet"] == 6
            assert ping(network.ms, SERVER_ADDRESS, 2).received == 2


def out_of_date(directory: Path, name: str) -> Keys:
    """The certificates of both ends; that of `name` expired yesterday."""
    authority = OpensslAuthority(directory)

    def issue(one: str) -> PublicKey:
        until = timedelta(days=-1) if one == name else timedelta(days=10)
        issued = authority.issue(one, valid_from=timedelta(days=-9), valid_until=until)
        return PublicKey(issued, authority)

    return Keys(issue("sg.example"), issue("ms.example"))


@pytest.mark.parametrize("is_aggressive", [True, False], ids=["aggressive", "main"])
def test_both_ends_hear_of_a_station_s_wrong_certificate(
    is_aggressive: bool, tmp_path: Path, output: Path
) -> None:
    wrong = out_of_date(tmp_path / "openssl", "ms.example")
    sentence = "certificate CN=ms.example expired at"
    ends = tunnel_ends(wrong, SUITE, version=1)
    check_refusal(ends, is_aggressive, sentence, output, is_gateway_refusing=True)


def test_a_gateway_refuses_a_certificate_for_another_use(tmp_path: Path, output: Path) -> None:
    authority = OpensslAuthority(tmp_path / "openssl")
    own = PublicKey(authority.issue("sg.example"), authority)
    coder = authority.issue("ms.example", extended_usage="codeSigning")
    ends = tunnel_ends(Keys(own, PublicKey(coder, authority)), SUITE, version=1)
    sentence = "certificate CN=ms.example may not be used for this"
    check_refusal(ends, True, sentence, output, is_gateway_refusing=True)


def test_a_gateway_refuses_a_certificate_of_an_authority_that_it_does_not_know(
    keys: Keys, tmp_path: Path, output: Path
) -> None:
    stranger = CaravanAuthority(tmp_path / "stranger", "Another CA")
    # The station trusts the gateway's authority all the same.
    credentials = stranger.issue("ms.example")
    foreign = Keys(keys.gateway, PublicKey(credentials, keys.gateway.authority))
    ends = tunnel_ends(foreign, SUITE, version=1)
    sentence = "certificate CN=ms.example was issued by CN=Another CA, which is not trusted"
    check_refusal(ends, True, sentence, output, is_gateway_refusing=True)


def test_messages_that_come_again_or_come_back_are_counted_and_change_nothing(
    keys: Keys, output: Path
) -> None:
    on_gateway, on_station = tunnel_ends(keys, SUITE, version=1)
    with contextlib.ExitStack() as stack:
        network = stack.enter_context(RemoteAccess(RemoteAccessConfig(has_nat=False), output))
        gateway = stack.enter_context(Caravan(network.sg, on_gateway)).wait_ready()
        with Capture(network.ms, "wan0", output / "handshake.pcap") as capture:
            station = stack.enter_context(Caravan(network.ms, on_station)).wait_ready()
            # The last messages of an exchange may still be on their way.
            assert ping(network.ms, SERVER_ADDRESS, 2).received == 2
        frames = [frame for frame in capture.frames() if frame.protocol == IPPROTO_UDP]
        sent = [frame.payload[8:] for frame in frames if frame.source == STATION]
        heard = [frame.payload[8:] for frame in frames if frame.source == GATEWAY_ADDRESS]
        # The exchange that the first of them began is over: repeated, the message would begin
        # another.
        again = [message for message in sent if message[8:16] != bytes(8)]
        assert len(again) > 3 and len(heard) > 2
        before = sum(drops(gateway).values())
        # First the last message again, then all in order, then the gateway's own messages.
        spoken = [*reversed(again), *again, *heard]
        with raw_socket(network.ms) as send:
            for message in spoken:
                send(udp_packet(STATION, 500, GATEWAY_ADDRESS, 500, message))
                time.sleep(0.01)
        # A message in fragments is counted once.
        expected = sum(not is_other_part(message) for message in spoken)
        settle(lambda: sum(drops(gateway).values()) - before >= expected)
        counted = drops(gateway)
        assert sum(counted.values()) - before == expected, counted
        assert counted["retransmitted-message"] > 0, counted
        assert gateway.is_established() and station.is_established()
        assert ping(network.ms, SERVER_ADDRESS, 2).received == 2


@pytest.mark.parametrize("is_aggressive", [True, False], ids=["aggressive", "main"])
def test_both_ends_hear_of_an_identity_that_is_not_pinned(
    is_aggressive: bool, keys: Keys, output: Path
) -> None:
    on_gateway, on_station = tunnel_ends(keys, SUITE, version=1)
    ends = (replace(on_gateway, remote_id="somebody.example"), on_station)
    sentence = "the peer identifies itself as ms.example; we accept somebody.example"
    check_refusal(ends, is_aggressive, sentence, output, is_gateway_refusing=True)


@pytest.mark.parametrize("is_aggressive", [True, False], ids=["aggressive", "main"])
def test_a_station_refuses_a_gateway_s_wrong_certificate(
    is_aggressive: bool, tmp_path: Path, output: Path
) -> None:
    wrong = out_of_date(tmp_path / "openssl", "sg.example")
    sentence = "certificate CN=sg.example expired at"
    ends = tunnel_ends(wrong, SUITE, version=1)
    check_refusal(ends, is_aggressive, sentence, output, is_gateway_refusing=False)


def check_refusal(
    ends: tuple[Connection, Connection],
    is_aggressive: bool,
    sentence: str,
    output: Path,
    *,
    is_gateway_refusing: bool,
) -> None:
    """One end logs the reason; the other receives AUTHENTICATION-FAILED."""
    # Message 2 of aggressive mode is not encrypted: the station waits for a valid one.
    if is_aggressive and not is_gateway_refusing:
        sentence = f"the peer's answer does not verify: {sentence}"
    on_gateway, on_station = (replace(end, is_aggressive=is_aggressive) for end in ends)
    with (
        RemoteAccess(RemoteAccessConfig(), output) as network,
        Caravan(network.sg, on_gateway) as gateway,
    ):
        gateway.wait_ready()
        with Caravan(network.ms, on_station) as station:
            refusing, refused = (gateway, station) if is_gateway_refusing else (station, gateway)
            settle(lambda: any(sentence in line for line in log(refusing)))
            assert any(f"negotiation failed: {sentence}" in line for line in log(refusing))
            assert drops(refusing)["authentication-failed"] > 0
            settle(lambda: any("AUTHENTICATION" in line.upper() for line in log(refused)))
            assert any(is_refusal(line) for line in log(refused))
            assert not gateway.is_established() and not station.is_established()


def is_refusal(line: str) -> bool:
    """Whether a line of the log reports the peer's refusal."""
    return "AUTHENTICATION-FAILED" in line or "AuthenticationFailed" in line


@contextlib.contextmanager
def tunnel(
    ends: tuple[Connection, Connection], output: Path
) -> Iterator[tuple[RemoteAccess, Caravan]]:
    """A tunnel in raw ESP; returns the network and the gateway."""
    on_gateway, on_station = (replace(end, is_encapsulated=False) for end in ends)
    with (
        RemoteAccess(RemoteAccessConfig(has_nat=False), output) as network,
        Caravan(network.sg, on_gateway) as gateway,
    ):
        gateway.wait_ready()
        with Caravan(network.ms, on_station) as station:
            station.wait_ready()
            yield network, gateway


def first_message(network: RemoteAccess, on_station: Connection, output: Path) -> bytes:
    """The first message of a station that then stops."""
    path = output / "first.pcap"
    with Capture(network.ms, "wan0", path) as capture, Caravan(network.ms, on_station) as station:
        station.wait_ready()
    for frame in capture.frames():
        if frame.source == STATION and frame.protocol == IPPROTO_UDP:
            return frame.payload[8:]
    raise ValueError(f"{path}: the station sent nothing")


def echo_requests(network: RemoteAccess, output: Path) -> list[bytes]:
    """The ESP packets of five echo requests, as the station sent them."""
    with Capture(network.ms, "wan0", output / "esp.pcap") as capture:
        assert ping(network.ms, SERVER_ADDRESS, 5).received == 5
    sent = [frame for frame in capture.frames() if frame.source == STATION]
    return [frame.packet for frame in sent if frame.protocol == IPPROTO_ESP]


def udp_from_gateway(capture: Capture) -> Iterator[tuple[Frame, str]]:
    """IKE datagrams of the gateway and their destinations."""
    for frame in capture.frames():
        if frame.source == GATEWAY_ADDRESS and frame.protocol == IPPROTO_UDP:
            yield frame, socket.inet_ntoa(frame.packet[16:20])


def is_first_part(frame: Frame) -> bool:
    """Whether a datagram is a whole message or the first fragment of one."""
    message = frame.payload[8:]
    return message[16] != ISAKMP_FRAGMENT or message[34] == 1


def is_other_part(message: bytes) -> bool:
    """Whether a message is a fragment, but not the last one."""
    return message[16] == ISAKMP_FRAGMENT and not message[35] & 1


def is_echo_request(frame: Frame) -> bool:
    """Whether a frame is an unencrypted echo request."""
    return frame.protocol == IPPROTO_ICMP and frame.payload[0] == 8


def drops(daemon: Caravan) -> Counter[str]:
    """The daemon's counters by reason."""
    return Counter(daemon.status()["drops"])


def await_drops(daemon: Caravan, reason: str, count: int) -> None:
    """Wait until a counter has reached a value."""
    settle(lambda: drops(daemon)[reason] >= count)


def log(daemon: Caravan) -> list[str]:
    """The daemon's log."""
    return [str(fields.get("message", "")) for _, fields in daemon.events()]


def settle(is_true: Callable[[], bool]) -> None:
    """Wait until a condition is true, at most until the assertion that follows may fail."""
    deadline = time.monotonic() + SETTLE_S
    while not is_true() and time.monotonic() < deadline:
        time.sleep(0.05)


@contextlib.contextmanager
def raw_socket(host: Host) -> Iterator[Callable[[bytes], None]]:
    """Send IP packets with their own headers, with any source address."""
    with host.entered():
        speaker = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    with speaker:

        def send(packet: bytes) -> None:
            speaker.sendto(packet, (socket.inet_ntoa(packet[16:20]), 0))

        yield send


def udp_packet(
    source: str, source_port: int, destination: str, destination_port: int, payload: bytes
) -> bytes:
    """An IPv4 UDP packet without a checksum."""
    udp = struct.pack("!HHHH", source_port, destination_port, 8 + len(payload), 0)
    return ip_header(source, destination, IPPROTO_UDP, 8 + len(payload)) + udp + payload


def icmp_packet(source: str, destination: str) -> bytes:
    """An echo request."""
    body = struct.pack("!BBHHH", 8, 0, 0, 7, 1)
    body = set_octets(body, 2, checksum(body))
    return ip_header(source, destination, IPPROTO_ICMP, len(body)) + body


def ip_header(source: str, destination: str, protocol: int, length: int) -> bytes:
    """An IPv4 packet without options."""
    ends = socket.inet_aton(source) + socket.inet_aton(destination)
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + length, 0, 0, 64, protocol, 0) + ends
    return set_octets(header, 10, checksum(header))


def checksum(octets: bytes) -> bytes:
    """The Internet checksum, over an even number of octets."""
    total = sum(struct.unpack(f"!{len(octets) // 2}H", octets))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return struct.pack("!H", ~total & 0xFFFF)
