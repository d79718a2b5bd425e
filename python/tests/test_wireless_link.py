"""`caravan wireless` at stations and access points: what passes is protected, tshark reads it with
the keys, and what is forged, repeated or in the clear does not pass."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import re
import shutil
import signal
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from dot1x_bed import CLEAR_FRAMES, ETHER_TYPE_TEST, Certificates, clear_frame, octets, send_frames
from mvpn_by_hand import ip
from waiting import wait_for
from wireless_bed import (
    KEY_INFORMATION,
    STATIONS,
    TAKEN_S,
    WirelessBed,
    captured,
    handshake,
    logged_keys,
    passphrase_key,
    read_air,
    running,
    wep_keys,
)
from wireless_study import request

from caravan import files
from caravan.document import plain
from caravan.testbed.capture import (
    ETHER_TYPE_IPV4,
    ETHERNET_BYTES,
    IPPROTO_UDP,
    RADIUS_PORT,
    Frame,
)
from caravan.testbed.dot1x.exchange import ACCESS_ACCEPT, ACCESS_CHALLENGE, ACCESS_REQUEST, Tap
from caravan.testbed.dot1x.measurement import Meter
from caravan.testbed.dot1x.method import Method
from caravan.testbed.dot1x.network import (
    ACCESS_POINT_ADDRESSES,
    RADIO,
    RADIUS_ADDRESS,
    SERVER_ADDRESS,
    STATION_INTERFACE,
    UPLINK,
)
from caravan.testbed.dot1x.radius_keys import (
    REQUESTS_MAX,
    Ends,
    RadiusKeys,
    RadiusReader,
    decrypt,
    is_genuine,
)
from caravan.testbed.dot1x.wireless import (
    AIR_MTU_BYTES,
    DEVICE,
    LinkEnd,
    LinkSecurity,
    dynamic_wep,
    owe,
    sae,
    static_wep,
    wpa2_enterprise,
    wpa2_psk,
)
from caravan.testbed.errors import NamespaceError
from caravan.testbed.network import Network
from caravan.testbed.process import CommandFailed
from caravan.testbed.traffic import download, make_file, ping, serve_files
from caravan.threeways.policies import Setting

PINGS = 5
BURST_FRAMES, LATE_FRAMES = 80, 10
WAIT_S = 10.0
FILE_BYTES = 200_000
FLOOD_FRAMES = 20_000
"""More than the buffer of a tap holds."""
TURNS, TURN_S = 60, 0.05


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("wireless"))


def assert_works(bed: WirelessBed) -> None:
    """Echoes to the server and to the other station, and a download by TCP, get through."""
    assert ping(bed.s1, SERVER_ADDRESS, PINGS).received == PINGS
    folder = bed.network.output / "files"
    folder.mkdir(exist_ok=True)
    digest = make_file(folder / "file", FILE_BYTES)
    with serve_files(bed.network.server, folder, SERVER_ADDRESS):
        assert download(bed.s1, f"http://{SERVER_ADDRESS}/file").sha256 == digest


def assert_protected(bed: WirelessBed, keys: list[tuple[str, str]]) -> None:
    """All data but EAPOL are protected, and tshark reads each frame that s1 has sent or got."""
    # The link goes on, and so does its capture.
    path = bed.network.output / "read.pcap"
    shutil.copy(bed.cipher.ends["s1"].capture, path)
    frames = read_air(path, keys)
    blind = read_air(path, [])
    assert sum(one.is_echo for one in frames) >= 2 * PINGS
    assert not any(one.is_echo for one in blind)
    for one, without in zip(frames, blind, strict=True):
        assert without.is_protected or without.is_eapol or not without.is_data
        # The group key comes with the handshake, after first frames to all; with TKIP tshark does
        # not find it.
        assert one.is_read == one.is_data or one.is_to_group
        assert without.is_read == (without.is_data and not without.is_protected)
        assert not one.is_faulty
    status = bed.cipher.status()
    assert status["s1"]["protect_ns"] > 0 and status["ap1"]["unprotect_ns"] > 0
    assert status["s1"]["mic_failures"] == 0


SHARED = pytest.mark.parametrize(
    "security",
    [
        static_wep(),
        static_wep(b"five!"),
        wpa2_psk(),
        wpa2_psk(cipher="tkip"),
        LinkSecurity("psk-sha256", "gcmp-256", "a passphrase of all"),
    ],
    ids=lambda it: f"{it.security}-{it.cipher}",
)


@pytest.mark.root
@SHARED
def test_frames_are_protected_and_tshark_reads_them(security: LinkSecurity, output: Path) -> None:
    with running(output, security) as bed:
        assert_works(bed)
        # From one station to the other, by the access point.
        assert ping(bed.s2, STATIONS["s1"], 2).received == 2
        is_wep = security.security == "wep"
        keys = [("wep", security.secret)] if is_wep else passphrase_key(security)
        assert_protected(bed, keys)


@pytest.mark.root
@pytest.mark.parametrize(
    "security",
    [sae(), owe(), sae(cipher="gcmp-256")],
    ids=lambda it: f"{it.security}-{it.cipher}",
)
def test_sae_and_owe_agree_keys_with_which_tshark_reads_each_frame(
    security: LinkSecurity, output: Path
) -> None:
    with running(output, security, logs_keys=True) as bed:
        assert_works(bed)
        ends = bed.cipher.ends
        (key,) = keys = logged_keys(ends["s1"])
        # The access point has the same one, and that of the other station.
        assert key in logged_keys(ends["ap1"]) and len(logged_keys(ends["ap1"])) == 2
        assert_protected(bed, keys)
        assert len(handshake(captured(ends["s1"]))) == 4
        # The other station's key reads nothing.
        (other,) = logged_keys(ends["s2"])
        assert other != key
        assert not any(one.is_echo for one in read_air(ends["s1"].capture, [other]))


@pytest.mark.root
def test_static_wep_goes_with_eap_md5(certificates: Certificates, output: Path) -> None:
    with running(output, static_wep()) as bed, bed.access(certificates) as access_points:
        login = certificates.login(Method.MD5)
        # The key alone is not enough: the bridge's port is shut.
        assert ping(bed.s1, SERVER_ADDRESS, 1, timeout_s=0.5).received == 0
        with bed.cipher.supplicant(bed.s1, login) as station:
            with Meter(station, access_points[0]) as meter:
                meter.authenticate()
            assert_works(bed)
            assert_protected(bed, [("wep", static_wep().secret)])


@contextlib.contextmanager
def authenticated(
    security: LinkSecurity, certificates: Certificates, output: Path
) -> Iterator[WirelessBed]:
    """Station s1 after EAP-TLS, tried before with frames in the clear."""
    with (
        running(output, security) as bed,
        bed.access(certificates) as access_points,
        bed.cipher.supplicant(bed.s1, certificates.login(Method.TLS)) as station,
    ):
        own = station.hardware_address
        frame = clear_frame(bed.network.server.hardware_address("eth0"), own)
        before = bed.drops("s1", "link-no-key")
        send_frames(bed.s1, [frame] * CLEAR_FRAMES, station.interface)
        bed.cipher.ends["s1"].wait_until(
            lambda it: it["drops"].get("link-no-key", 0) >= before + CLEAR_FRAMES, "drops"
        )
        # Also past the station's own end.
        bed.put(bed.s1, bed.clear_data(own))
        assert bed.drops("ap1", "clear-packet") == 1
        with Meter(station, access_points[0]) as meter:
            meter.authenticate()
        ends = bed.cipher.ends
        assert len(ends["s1"].session) == 64
        assert ends["s1"].session == ends["ap1"].session
        yield bed


@pytest.mark.root
def test_dynamic_wep_after_eap_tls(certificates: Certificates, output: Path) -> None:
    with authenticated(dynamic_wep(), certificates, output) as bed:
        assert_works(bed)
        path = bed.cipher.ends["s1"].capture
        keys = wep_keys(path, bed.cipher.ends["s1"].session)
        # The access point repeats them until it sees a frame encrypted with them.
        assert len(set(keys)) == 2
        assert_protected(bed, keys)


@pytest.mark.root
def test_ccmp_after_eap_tls(certificates: Certificates, output: Path) -> None:
    with authenticated(wpa2_enterprise(), certificates, output) as bed:
        assert_works(bed)
        master = bed.cipher.ends["s1"].session[:32]
        assert_protected(bed, [("wpa-psk", master.hex())])


@pytest.mark.root
def test_a_station_moves_to_another_access_point(certificates: Certificates, output: Path) -> None:
    with running(output, dynamic_wep()) as bed, bed.access(certificates) as access_points:
        with bed.cipher.supplicant(bed.s1, certificates.login(Method.TLS)) as station:
            for access_point in (*access_points, access_points[0]):
                bed.network.plug(bed.s1, access_point.host.role)
                with Meter(station, access_point) as meter:
                    meter.authenticate()
                assert ping(bed.s1, SERVER_ADDRESS, PINGS).received == PINGS
                radio = access_point.host.hardware_address(RADIO)
                assert bed.cipher.ends["s1"].status()["access_point"] == radio
        assert bed.cipher.ends["ap2"].status()["stations"] == {}


@pytest.mark.root
def test_another_wep_key_lets_nothing_pass_and_is_told(output: Path) -> None:
    with running(output, static_wep()) as bed:
        bed.cipher.ends["s1"].stop()
        other = static_wep(b"another key!!")
        end = LinkEnd(bed.s1, "station", STATION_INTERFACE, other)
        bed.cipher.ends["s1"] = end
        bed.s1.add_address(end.device, f"{STATIONS['s1']}/24")
        server = bed.network.server.hardware_address("eth0")
        bed.s1.add_neighbour(end.device, SERVER_ADDRESS, server)
        end.wait_for("usable", True)
        before = bed.cipher.ends["ap1"].status()["received"]["frames"]
        assert ping(bed.s1, SERVER_ADDRESS, PINGS, timeout_s=0.5).received == 0
        assert bed.drops("ap1", "bad-icv") >= PINGS
        assert bed.cipher.ends["ap1"].status()["received"]["frames"] == before


@pytest.mark.root
@pytest.mark.parametrize("messages", [1, 2, 3])
def test_a_roam_in_the_middle_of_the_four_way_handshake_lets_nothing_pass(
    messages: int, output: Path
) -> None:
    with running(output, wpa2_psk()) as bed:
        own = bed.s1.hardware_address(STATION_INTERFACE)
        first, station = (bed.cipher.ends[role] for role in ("ap1", "s1"))
        bed.network.plug(bed.s1, "ap2")
        before = first.status()
        # They run in turns, each until it has answered what the other one sent.
        waiting, running_ = first.process, station.process
        waiting.signal(signal.SIGSTOP)
        with contextlib.closing(Tap(bed.s1, STATION_INTERFACE, has_everything=True)) as tap:
            bed.network.place(bed.s1, "ap1")
            station.order("search")
            sent: set[bytes] = set()
            turns = 0
            while len(sent) < messages:
                assert turns < TURNS
                time.sleep(TURN_S)
                running_.signal(signal.SIGSTOP)
                turns += 1
                frames = (one.data[ETHERNET_BYTES:] for one in tap.read())
                # A turn may be too short for an answer, or long enough for a repetition.
                sent |= {one[KEY_INFORMATION] for one in handshake(frames)}
                if len(sent) < messages:
                    waiting.signal(signal.SIGCONT)
                    waiting, running_ = running_, waiting
        bed.send(bed.s1, bed.clear_data(own))
        bed.network.place(bed.s1, "ap2")
        for one in (first.process, station.process):
            one.signal(signal.SIGCONT)
        bed.cipher.moved(bed.s1, "ap2")
        assert ping(bed.s1, SERVER_ADDRESS, PINGS).received == PINGS
        # What the handshake was for never came about, and its access point has passed nothing.
        after = first.status()
        assert own not in after["stations"]
        assert after["received"]["frames"] == before["received"]["frames"]
        assert sum(after["drops"].values()) > sum(before["drops"].values())


@pytest.mark.root
@pytest.mark.parametrize(
    "security", [static_wep(), wpa2_psk()], ids=lambda it: f"{it.security}-{it.cipher}"
)
def test_forged_and_repeated_frames_are_dropped(security: LinkSecurity, output: Path) -> None:
    with running(output, security) as bed:
        assert ping(bed.s1, SERVER_ADDRESS, 2).received == 2
        frame = bed.sent_data("s1")[-1]
        forged = frame[:-12] + bytes((frame[-12] ^ 1,)) + frame[-11:]
        is_wep = security.security == "wep"
        if not is_wep:
            # A packet number that is new.
            forged = forged[:24] + b"\xff" + forged[25:]
        bed.put(bed.s1, forged)
        assert bed.drops("ap1", "bad-icv") == 1
        received = bed.cipher.ends["ap1"].status()["received"]["frames"]
        bed.put(bed.s1, frame)
        # WEP accepts a repeated frame: that is one of its faults.
        assert bed.drops("ap1", "replayed") == (0 if is_wep else 1)
        after = bed.cipher.ends["ap1"].status()["received"]["frames"]
        assert after == received + (1 if is_wep else 0)
        bed.put(bed.s1, bed.clear_data(bed.s1.hardware_address(STATION_INTERFACE)))
        assert bed.drops("ap1", "clear-packet") == 1


@pytest.mark.root
@pytest.mark.measures
def test_one_airtime_carries_every_frame_of_an_access_point(
    output: Path,
) -> None:
    with running(output, static_wep(), Setting.of(request()).air) as bed:
        found = ping(bed.s1, SERVER_ADDRESS, PINGS, payload_bytes=1000)
        # IP, ICMP, LLC and SNAP, WEP, header and FCS around 1000 octets, at 11 Mbit/s, and access.
        once_ms = 0.81 + (1000 + 28 + 8 + 8 + 24 + 4) * 8 / 11_000
        assert found.received == PINGS
        assert 2 * once_ms <= found.minimum_ms < 2 * once_ms + 1.5
        ended = bed.network.airtimes["ap1"].process.stop()
        summary = json.loads(ended.stdout.splitlines()[-1])
        assert summary["forth"]["free_frames"] == summary["back"]["free_frames"] == 0
        assert summary["back"]["delivered"] > PINGS


@pytest.mark.root
@pytest.mark.measures
def test_two_stations_that_send_at_once_share_one_airtime(output: Path) -> None:
    """Together they are no faster than one alone, within a tenth."""
    body = bytes(1000 - 46)
    # LLC and SNAP, header and FCS around 1000 octets, at 11 Mbit/s, and access.
    frame_s = 0.81e-3 + (8 + 24 + 4 + 1000) * 8 / 11e6
    with running(output, LinkSecurity("open", ""), Setting.of(request()).air) as bed:
        server = bed.network.server
        for station in (bed.s1, bed.s2):
            assert ping(station, SERVER_ADDRESS, 2).received == 2
        took_s = {}
        for stations in ((bed.s1,), (bed.s1, bed.s2)):
            with contextlib.closing(Tap(server, "eth0", has_everything=True)) as tap:
                for station in stations:
                    own = station.hardware_address(DEVICE)
                    frame = clear_frame(server.hardware_address("eth0"), own) + body
                    # Fewer than wait for the air at once.
                    send_frames(station, [frame] * (BURST_FRAMES // len(stations)), DEVICE)
                found: list[Frame] = []
                until = time.monotonic() + WAIT_S
                while len(found) < BURST_FRAMES:
                    assert time.monotonic() < until, len(found)
                    time.sleep(0.01)
                    found += [one for one in tap.read() if one.ether_type == ETHER_TYPE_TEST]
            # The first ones may come later than they are due, and the others close up.
            took_s[len(stations)] = found[-1].time_s - found[LATE_FRAMES].time_s
    alone_s = (BURST_FRAMES - 1 - LATE_FRAMES) * frame_s
    # Frames that wait leave in turns, and a tap sees when they have come.
    assert min(took_s.values()) > 0.9 * alone_s, took_s


@pytest.mark.root
@pytest.mark.parametrize(
    ("security", "name"),
    [
        (wpa2_psk(), "wifi-four-way"),
        (wpa2_psk(cipher="tkip"), "wifi-four-way-tkip"),
        (sae(), "wifi-four-way-pmkid"),
        (owe(), "wifi-four-way-pmkid"),
        (sae(cipher="gcmp-256"), "wifi-four-way-gcmp"),
    ],
    ids=["ccmp", "tkip", "sae", "owe", "gcmp"],
)
def test_a_handshake_has_the_sizes_of_its_exchange_file(
    security: LinkSecurity, name: str, output: Path
) -> None:
    with running(output, security) as bed:
        found = [len(one) for one in handshake(captured(bed.cipher.ends["s1"]))]
    entry = files.find("exchange", name)
    wanted = [one["bytes"] for one in plain(entry.file, entry.text)["message"]]
    if security.security in ("sae", "owe"):
        # The key for management frames, which this access point does not protect: 30, and padding.
        wanted[2] -= 32
    if name.endswith("gcmp"):
        # The file is of 802.1X, whose first message has no PMKID.
        wanted[0] += 22
    assert found[:4] == wanted


@pytest.mark.root
def test_a_forged_answer_gives_an_access_point_no_key(
    certificates: Certificates, output: Path
) -> None:
    """An Access-Accept with keys and EAP-Success, right in all but what needs the secret."""
    with (
        running(output, dynamic_wep()) as bed,
        bed.serving(certificates) as (server, (ap1, _)),
        bed.cipher.supplicant(bed.s1, certificates.login(Method.TLS)) as station,
        contextlib.closing(Tap(ap1.host, UPLINK)) as tap,
    ):
        server.pause()
        ap1.associate(station.hardware_address)
        until = time.monotonic() + 5
        while not (frames := tap.read()):
            assert time.monotonic() < until
            time.sleep(0.01)
        payload = forged_accept(frames[0].payload)
        packet = ip(RADIUS_ADDRESS, ACCESS_POINT_ADDRESSES["ap1"], IPPROTO_UDP, payload)
        ends = ap1.host.hardware_address("br0"), bed.network.server.hardware_address("eth0")
        head = b"".join(map(octets, ends)) + struct.pack("!H", ETHER_TYPE_IPV4)
        send_frames(bed.network.server, [head + packet], "eth0")
        while not any(frame.data.endswith(payload) for frame in tap.read()):
            assert time.monotonic() < until
            time.sleep(0.01)
        time.sleep(0.1)
        assert bed.cipher.ends["ap1"].session == b""
        server.resume()


def forged_accept(asked: bytes) -> bytes:
    """A datagram that answers a request with keys, by somebody without the secret."""
    port, identifier = struct.unpack_from("!H", asked)[0], asked[9]
    keys = b"".join(
        struct.pack("!BBIBB", 26, 58, 311, kind, 52) + b"\x80\x01" + bytes(48) for kind in (16, 17)
    )
    attributes = struct.pack("!BBBBH", 79, 6, 3, 1, 4) + keys + bytes((80, 18)) + bytes(16)
    answer = struct.pack("!BBH", 2, identifier, 20 + len(attributes)) + bytes(16) + attributes
    return struct.pack("!HHHH", RADIUS_PORT, port, 8 + len(answer), 0) + answer


SECRET_OF_TEST, ASKED = b"secret", bytes(range(16))


def answer_with(secret: bytes, *, is_signed: bool = True) -> bytes:
    """An Access-Accept as RFC 2865 §3 and RFC 3579 §3.2 say it."""
    attributes = (bytes((80, 18)) + bytes(16) if is_signed else b"") + bytes((18, 4)) + b"hi"
    head = struct.pack("!BBH", 2, 7, 20 + len(attributes))
    if is_signed:
        own = hmac.digest(secret, head + ASKED + attributes, "md5")
        attributes = attributes[:2] + own + attributes[18:]
    return head + hashlib.md5(head + ASKED + attributes + secret).digest() + attributes


def test_only_the_secret_makes_a_genuine_answer() -> None:
    answer = answer_with(SECRET_OF_TEST)
    assert is_genuine(answer, ASKED, SECRET_OF_TEST)
    assert not is_genuine(answer, ASKED, b"another")
    assert not is_genuine(answer, bytes(16), SECRET_OF_TEST)
    # A Response Authenticator alone is not enough, nor is a Message-Authenticator.
    assert not is_genuine(answer_with(SECRET_OF_TEST, is_signed=False), ASKED, SECRET_OF_TEST)
    assert not is_genuine(answer[:4] + bytes(16) + answer[20:], ASKED, SECRET_OF_TEST)
    changed = answer[:20] + bytes((80, 18)) + bytes(16) + answer[38:]
    sealed = changed[:4] + ASKED + changed[20:]
    whole = hashlib.md5(sealed + SECRET_OF_TEST).digest()
    assert not is_genuine(changed[:4] + whole + changed[20:], ASKED, SECRET_OF_TEST)
    for size in range(len(answer)):
        assert not is_genuine(answer[:size], ASKED, SECRET_OF_TEST)


def radius_datagram(
    ports: tuple[int, int], code: int, attributes: bytes, secret: bytes, asked: bytes = ASKED
) -> bytes:
    """A datagram with a Message-Authenticator; `asked`: the authenticator of the request."""
    attributes += bytes((80, 18)) + bytes(16)
    head = struct.pack("!BBH", code, 7, 20 + len(attributes))
    own = hmac.digest(secret, head + asked + attributes, "md5")
    attributes = attributes[:-16] + own
    whole = hashlib.md5(head + asked + attributes + secret).digest()
    packet = head + (asked if code == ACCESS_REQUEST else whole) + attributes
    return struct.pack("!HHHH", *ports, 8 + len(packet), 0) + packet


def key_attribute(kind: int, key: bytes) -> bytes:
    """One of the attributes with a key, encrypted by hand (RFC 2548 §2.4.2)."""
    clear = bytes((len(key),)) + key + bytes(-(len(key) + 1) % 16)
    sealed, before = b"", ASKED + b"\x80\x01"
    for at in range(0, len(clear), 16):
        pad = hashlib.md5(SECRET_OF_TEST + before).digest()
        before = bytes(one ^ other for one, other in zip(clear[at : at + 16], pad, strict=True))
        sealed += before
    value = b"\x80\x01" + sealed
    return struct.pack("!BBIBB", 26, 8 + len(value), 311, kind, 2 + len(value)) + value


ENDS = Ends("10.81.0.11", "10.81.0.1")
THERE, BACK = (40_000, RADIUS_PORT), (RADIUS_PORT, 40_000)
STATION = bytes((31, 19)) + b"02-00-00-00-00-0A"
HALVES = bytes(range(32)), bytes(range(32, 64))
OLDER = bytes(16)


def asking(station: bytes = STATION, secret: bytes = SECRET_OF_TEST, asked: bytes = ASKED) -> Frame:
    datagram = radius_datagram(THERE, ACCESS_REQUEST, station, secret, asked)
    return framed(datagram, ENDS.access_point, ENDS.server)


def answering(
    code: int = ACCESS_ACCEPT, secret: bytes = SECRET_OF_TEST, second: bytes = HALVES[1]
) -> Frame:
    keys = key_attribute(17, HALVES[0]) + key_attribute(16, second)
    return framed(radius_datagram(BACK, code, keys, secret), ENDS.server, ENDS.access_point)


def framed(datagram: bytes, source: str, destination: str) -> Frame:
    head = bytes(12) + struct.pack("!H", ETHER_TYPE_IPV4)
    return Frame(0.0, head + ip(source, destination, IPPROTO_UDP, datagram))


def test_datagrams_that_are_no_radius_are_counted_and_nothing_more() -> None:
    asked, answer = asking(), answering()
    reader = RadiusReader(SECRET_OF_TEST, ENDS)
    # What anybody sends: nothing, pieces, and the same request in another station's name.
    size = len(asked.payload)
    for count in range(size):
        piece = framed(asked.payload[:count], ENDS.access_point, ENDS.server)
        assert reader.read(piece) is None
    assert reader.malformed == size
    # Pieces of frames, and an IP header that says it has no octets.
    for count in range(14, len(asked.data)):
        assert reader.read(Frame(0.0, asked.data[:count])) is None
    empty = bytearray(asked.data)
    empty[16:18] = bytes(2)
    assert reader.read(Frame(0.0, bytes(empty))) is None
    before = reader.malformed
    assert before == size + len(asked.data) - 14 + 1
    assert reader.read(asked) is None
    assert reader.read(asking(bytes((31, 19)) + b"02-00-00-00-00-66", b"another")) is None
    assert reader.read(answering(secret=b"another")) is None
    assert reader.forged == 2
    # A key of another length, and a station that is no text, from who has the secret.
    assert reader.read(asking(b"\x1f\x03\xff")) is None
    assert reader.malformed == before + 1
    assert reader.read(answer) == (b"".join(HALVES), "02:00:00:00:00:0a")
    assert reader.read(answer) is None
    assert reader.unasked == 1
    reader.read(asked)
    assert reader.read(answering(second=b"short")) is None
    assert reader.malformed == before + 2


def test_an_older_request_that_is_sent_again_takes_no_key_of_a_station() -> None:
    """One that the secret has made, with the same port and identifier, before and after."""
    older = asking(bytes((31, 19)) + b"02-00-00-00-00-66", asked=OLDER)
    reader = RadiusReader(SECRET_OF_TEST, ENDS)
    for frame in (older, asking(), older):
        assert reader.read(frame) is None
    assert reader.read(answering()) == (b"".join(HALVES), "02:00:00:00:00:0a")
    assert (reader.forged, reader.unasked) == (0, 0)
    assert reader.read(answering()) is None
    assert reader.forged == 1


def test_what_other_ends_say_to_each_other_gives_no_key() -> None:
    reader = RadiusReader(SECRET_OF_TEST, ENDS)
    own, other = asking(), "10.81.0.12"
    assert reader.read(framed(own.payload, other, ENDS.server)) is None
    assert reader.read(framed(own.payload, ENDS.server, ENDS.access_point)) is None
    assert reader.read(answering()) is None
    assert (reader.foreign, reader.unasked) == (2, 1)
    reader.read(own)
    assert reader.read(framed(answering().payload, ENDS.server, other)) is None
    assert reader.read(framed(answering().payload, other, ENDS.access_point)) is None
    assert reader.foreign == 4
    assert reader.read(answering()) is not None


def test_requests_that_wait_are_few_and_an_answer_ends_the_wait() -> None:
    reader = RadiusReader(SECRET_OF_TEST, ENDS)
    for number in range(REQUESTS_MAX):
        reader.read(asking(asked=struct.pack("!QQ", 1, number)))
    assert reader.displaced == 0
    reader.read(asking())
    assert reader.displaced == 1
    # A challenge has no key, and ends the wait of its own request alone.
    assert reader.read(answering(ACCESS_CHALLENGE)) is None
    reader.read(asking())
    assert (reader.displaced, reader.forged, reader.unasked) == (1, 0, 0)


@pytest.mark.root
def test_a_reader_of_keys_outlives_refusals_floods_and_a_link_that_is_down(output: Path) -> None:
    taken: list[str] = []
    going, is_refusing = threading.Event(), True

    def give(key: bytes, station: str) -> None:
        assert key == b"".join(HALVES)
        going.wait(TAKEN_S)
        if is_refusing:
            raise NamespaceError("refused: the station has not joined")
        taken.append(station)

    with Network(output) as network:
        point, server = network.host("point"), network.host("server")
        point.connect("lan0", server, "eth0", 1500)
        with RadiusKeys(point, "lan0", SECRET_OF_TEST.decode(), ENDS, give) as keys:
            exchange = [asking().data, answering().data]
            send_frames(server, exchange, "eth0")
            # While it gives the key, nobody reads what comes.
            noise = framed(radius_datagram(THERE, 1, bytes(1000), b""), "10.0.0.9", ENDS.server)
            send_frames(server, [noise.data] * FLOOD_FRAMES, "eth0")
            going.set()
            wait_for(lambda: keys.refused == 1 and keys.lost > 0, "frames are lost", TAKEN_S)
            point.link_down("lan0")
            point.link_up("lan0")
            is_refusing = False
            wait_for(lambda: point.is_up("lan0") and server.is_up("eth0"), "a link", TAKEN_S)
            until = time.monotonic() + TAKEN_S
            while not taken:
                assert time.monotonic() < until, "the thread takes no key any longer"
                send_frames(server, exchange, "eth0")
                time.sleep(0.05)
            assert set(taken) == {"02:00:00:00:00:0a"}
            assert keys.reader.foreign > 0


def test_a_key_of_rfc_2548_is_decrypted() -> None:
    """By hand: two blocks of the length, the key and padding under MD5 (RFC 2548 §2.4.2)."""
    secret, authenticator, salt = b"secret", bytes(range(16)), b"\x80\x01"
    clear = b"\x14" + b"twenty octets of key" + bytes(11)
    first = hashlib.md5(secret + authenticator + salt).digest()
    one = bytes(a ^ b for a, b in zip(clear[:16], first, strict=True))
    second = hashlib.md5(secret + one).digest()
    two = bytes(a ^ b for a, b in zip(clear[16:], second, strict=True))
    assert decrypt(salt + one + two, authenticator, secret) == b"twenty octets of key"


@pytest.mark.root
def test_an_end_says_what_is_wrong_and_keeps_no_capability(output: Path) -> None:
    with Network(output) as network:
        one, other = network.host("one"), network.host("other")
        one.connect("air0", other, "air0", 1500)
        with pytest.raises(CommandFailed, match="ip link set air0 mtu 15"):
            LinkEnd(one, "station", "air0", static_wep())
        with pytest.raises(CommandFailed, match='there is no interface "air1"'):
            LinkEnd(one, "station", "air1", static_wep())
        one.set_mtu("air0", AIR_MTU_BYTES)
        end = LinkEnd(one, "station", "air0", static_wep())
        with pytest.raises(CommandFailed, match="another process has the device wlan0"):
            LinkEnd(one, "station", "air0", static_wep())
        status = Path(f"/proc/{end.process.pid}/status").read_text()
        sets = re.findall(r"^Cap(?:Eff|Prm|Inh|Amb):\s*(\w+)$", status, re.M)
        assert len(sets) == 4 and not any(int(one, 16) for one in sets)
        with pytest.raises(NamespaceError, match="this is no order"):
            end.order("dance")
        with pytest.raises(NamespaceError, match="takes no key of EAP"):
            end.give_key(bytes(64))
        report = end.stop()
        assert report["usable"] is False and report["air_sent"]["frames"] > 0
        assert end.capture.stat().st_mode & 0o777 == 0o600
