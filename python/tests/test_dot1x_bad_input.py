"""Bad input to IEEE 802.1X: whoever may not have access gets none, no frame of theirs passes, and
the cause is one sentence."""

from __future__ import annotations

import contextlib
import re
import signal
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from dot1x_bed import (
    CLEAR_FRAMES,
    Bed,
    Certificates,
    Watch,
    eapol_frame,
    octets,
    running,
    send_frames,
    silent,
)
from mvpn_by_hand import ip
from waiting import wait_for

from caravan.testbed.capture import IPPROTO_UDP, RADIUS_PORT, Frame
from caravan.testbed.dot1x import measurement
from caravan.testbed.dot1x.authenticator import Authenticator
from caravan.testbed.dot1x.cause import WAITS_FOR_SERVER, Cause, Refusal, Witness
from caravan.testbed.dot1x.exchange import (
    ACCESS_ACCEPT,
    EAP_REQUEST,
    EAP_RESPONSE,
    EAP_SUCCESS,
    EAPOL_LOGOFF,
    EAPOL_START,
    Tap,
    eapol,
    radius,
    radius_attributes,
)
from caravan.testbed.dot1x.measurement import Meter
from caravan.testbed.dot1x.method import Login, Method
from caravan.testbed.dot1x.network import (
    ACCESS_POINT_ADDRESSES,
    RADIO,
    RADIUS_ADDRESS,
    SERVER_ADDRESS,
    STATION_INTERFACE,
    UPLINK,
)
from caravan.testbed.errors import NamespaceError
from caravan.testbed.host import Host
from caravan.testbed.pki import Credentials
from caravan.testbed.traffic import ping

pytestmark = pytest.mark.root

FLOOD_FRAMES = 300
WAIT_S, DROPPED_S = 15.0, 15.0
QUIET_S = 0.2
EAP_TYPE_IDENTITY, EAP_TYPE_MD5 = 1, 4
EAP_MESSAGE, MESSAGE_AUTHENTICATOR = 79, 80
"""Attributes of RADIUS (RFC 3579 §3)."""


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    folder = tmp_path_factory.mktemp("dot1x")
    with running(folder / "logs", Certificates(folder)) as it:
        yield it


@pytest.fixture
def watch(bed: Bed) -> Iterator[Watch]:
    with contextlib.closing(Watch(bed)) as it:
        yield it


@dataclass(frozen=True)
class Wrong:
    """A login that no server may accept, or that may accept no server."""

    name: str
    cause: Cause
    sentence: str

    def login(self, certificates: Certificates) -> Login:
        """The wrong login."""
        strange = certificates.stranger.certificate
        password = {f"wrong password {one.value}": one for one in Method}
        if self.name in password:
            return replace(certificates.login(password[self.name]), password="friend")
        tls, peap = certificates.login(Method.TLS), certificates.login(Method.PEAP)
        return {
            "unknown user": replace(peap, identity="nobody@bench"),
            "expired certificate": replace(tls, credentials=certificates.expired),
            "certificate of a stranger": replace(tls, credentials=certificates.strange),
            "wrong authority": replace(tls, authority=strange),
            "wrong authority PEAP": replace(peap, authority=strange),
        }[self.name]


SERVER_REFUSED = "the authentication server refused"
WRONG = [
    Wrong(
        f"wrong password {method.value}",
        Cause.WRONG_PASSWORD,
        f"{SERVER_REFUSED} {method.name.lower()}@bench: the password is wrong",
    )
    for method in (Method.MD5, Method.PEAP, Method.TTLS)
] + [
    Wrong(
        "unknown user",
        Cause.UNKNOWN_USER,
        "the authentication server does not know the user nobody@bench",
    ),
    Wrong(
        "expired certificate",
        Cause.STATION_EXPIRED,
        f"{SERVER_REFUSED} the certificate of tls@bench: it has expired",
    ),
    Wrong(
        "certificate of a stranger",
        Cause.STATION_UNTRUSTED,
        f"{SERVER_REFUSED} the certificate of tls@bench: "
        "no authority that the server trusts has issued it",
    ),
    Wrong(
        "wrong authority",
        Cause.SERVER_UNTRUSTED,
        "tls@bench refused the certificate of the authentication server: "
        "no authority that the station trusts has issued it",
    ),
    Wrong(
        "wrong authority PEAP",
        Cause.SERVER_UNTRUSTED,
        "peap@bench refused the certificate of the authentication server: "
        "no authority that the station trusts has issued it",
    ),
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.name)
def test_a_wrong_login_opens_no_port(wrong: Wrong, bed: Bed, watch: Watch) -> None:
    with bed.station(wrong.login(bed.certificates)) as station:
        witness = Witness(station, bed.ap1, bed.radius)
        associated_s = bed.ap1.associate(station.hardware_address)
        bed.ap1.wait_failure(station.hardware_address, associated_s)
        refusal = witness.wait()
        assert (refusal.cause, str(refusal)) == (wrong.cause, wrong.sentence)
        assert watch.passing(station.host) == 0
        assert not station.is_open
        assert station.hardware_address not in bed.ap1.authorized()


@pytest.mark.parametrize("name", [f"wrong password {Method.MD5.value}", "wrong authority"])
def test_an_authentication_that_fails_says_its_cause(
    name: str, bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measurement, "OPEN_S", 6.0)
    (wrong,) = (one for one in WRONG if one.name == name)
    with (
        bed.station(wrong.login(bed.certificates)) as station,
        Meter(station, bed.ap1, bed.radius) as meter,
        pytest.raises(NamespaceError, match=rf"^{re.escape(wrong.sentence)} \(no port for "),
    ):
        meter.authenticate()


def test_the_right_login_passes_all_frames(bed: Bed, watch: Watch) -> None:
    """What the other tests count as zero."""
    with (
        bed.station(bed.certificates.login(Method.TTLS)) as station,
        Meter(station, bed.ap1) as meter,
    ):
        witness = Witness(station, bed.ap1, bed.radius)
        assert watch.passing(station.host) == 0
        meter.authenticate()
        assert witness.refusal() is None
        assert watch.passing(station.host) == CLEAR_FRAMES


@pytest.mark.parametrize("is_dead", [True, False], ids=["dead", "slow"])
def test_no_port_opens_while_the_server_is_silent(is_dead: bool, bed: Bed, watch: Watch) -> None:
    with bed.station(bed.certificates.login(Method.TTLS)) as station:
        with stopped(bed) if is_dead else paused(bed):
            witness = Witness(station, bed.ap1, bed.radius)
            associated_s = bed.ap1.associate(station.hardware_address)
            refusal = witness.wait()
            assert refusal.cause is Cause.NO_ANSWER
            assert str(refusal) == "the authentication server has not answered ap1"
            assert watch.passing(station.host) == 0
        # hostapd asks again after 3 s.
        bed.ap1.wait_open(station.hardware_address, associated_s)
        assert watch.passing(station.host) == CLEAR_FRAMES


def test_a_wrong_shared_secret_opens_no_port(bed: Bed, watch: Watch) -> None:
    with (
        bed.access_point("ap2", secret="another one") as ap2,
        bed.station(bed.certificates.login(Method.MD5), "ap2") as station,
    ):
        witness = Witness(station, ap2, bed.radius)
        ap2.associate(station.hardware_address)
        refusal = witness.wait()
        assert refusal.cause is Cause.WRONG_SECRET
        assert str(refusal) == (
            "the authentication server drops the requests of ap2: their shared secrets differ"
        )
        assert watch.passing(station.host) == 0


def test_a_forged_answer_opens_no_port(bed: Bed, watch: Watch) -> None:
    """An Access-Accept with EAP-Success, right in all but what needs the secret."""
    with bed.station(bed.certificates.login(Method.MD5)) as station:
        wait_all_answered(bed)
        # Only now: what earlier stations were asked is no business of this one.
        with paused(bed), contextlib.closing(Tap(bed.ap1.host, UPLINK)) as tap:
            bed.ap1.associate(station.hardware_address)
            (asked,) = wait_frames(tap, 1)
            witness = Witness(station, bed.ap1, bed.radius)
            send_forged(bed, asked)
            refusal = wait_dropped(witness)
            assert refusal.cause is Cause.FORGED_ANSWER
            assert str(refusal) == (
                "ap1 dropped an answer that was not made with the shared secret: "
                "it is forged, or the secrets differ"
            )
            assert watch.passing(station.host) == 0
        # hostapd has forgotten what it asked, and would wait for an answer for long.
        station.log_off()


def wait_frames(tap: Tap, count: int) -> list[Frame]:
    """Wait for so many frames."""
    found = tap.read()
    until = time.monotonic() + WAIT_S
    while len(found) < count:
        assert time.monotonic() < until
        time.sleep(0.01)
        found += tap.read()
    return found


def wait_all_answered(bed: Bed) -> None:
    """Wait until no station of an earlier test waits for the server: hostapd does not say whose
    answer it drops."""

    def are_answered() -> bool:
        fields = bed.ap1.stations().values()
        return all(one.get("dot1xAuthBackendAuthState") not in WAITS_FOR_SERVER for one in fields)

    wait_for(are_answered, "every station has its answer", DROPPED_S)


def wait_dropped(witness: Witness) -> Refusal:
    """Wait for a refusal. Until a forged answer has come, there is none from the server."""
    until = time.monotonic() + DROPPED_S
    while (refusal := witness.wait()).cause is Cause.NO_ANSWER and time.monotonic() < until:
        time.sleep(0.01)
    return refusal


def send_forged(bed: Bed, asked: Frame) -> None:
    """Answer a request from another host of the server's network."""
    (request,) = radius([asked])
    identifier = radius_attributes(asked.payload[8:])[EAP_MESSAGE][1]
    success = struct.pack("!BBBBH", EAP_MESSAGE, 6, EAP_SUCCESS, identifier, 4)
    attributes = success + bytes((MESSAGE_AUTHENTICATOR, 18)) + bytes(16)
    head = struct.pack("!BBH", ACCESS_ACCEPT, request.identifier, 20 + len(attributes))
    answer = head + bytes(range(16)) + attributes
    datagram = struct.pack("!HHHH", RADIUS_PORT, request.port, 8 + len(answer), 0) + answer
    packet = ip(RADIUS_ADDRESS, ACCESS_POINT_ADDRESSES["ap1"], IPPROTO_UDP, datagram)
    server = bed.network.server
    ends = [bed.ap1.host.hardware_address("br0"), server.hardware_address("eth0")]
    frame = b"".join(map(octets, ends)) + struct.pack("!H", 0x0800) + packet
    send_frames(server, [frame], "eth0")


@dataclass(frozen=True)
class Rogue:
    """The certificate of an access point's own server, and why a station refuses it."""

    certificate: str
    method: Method
    cause: Cause
    reason: str


ROGUES = [
    Rogue(
        "impostor",
        method,
        Cause.SERVER_NAME,
        ": it is not for radius.example, so the access point may be a rogue",
    )
    for method in (Method.TLS, Method.PEAP, Method.TTLS)
] + [
    Rogue("expired", Method.TTLS, Cause.SERVER_EXPIRED, ": it has expired"),
    Rogue("future", Method.TTLS, Cause.SERVER_CERTIFICATE, ""),
    Rogue(
        "strange",
        Method.TTLS,
        Cause.SERVER_UNTRUSTED,
        ": no authority that the station trusts has issued it",
    ),
]


@pytest.mark.parametrize("rogue", ROGUES, ids=lambda it: f"{it.certificate}-{it.method.value}")
def test_a_station_refuses_a_rogue_access_point(rogue: Rogue, bed: Bed, watch: Watch) -> None:
    """It lets everybody pass: what holds is the station's own port."""
    certificates = bed.certificates
    own: Credentials = getattr(certificates, rogue.certificate)
    config = certificates.config()
    identity = replace(config.identity, credentials=own)
    login = certificates.login(rogue.method)
    with (
        bed.access_point("ap2", replace(config, identity=identity)) as ap2,
        bed.station(login, "ap2") as station,
    ):
        ap2.host.set_port(RADIO, locked=0, learning=1)
        witness = Witness(station, ap2)
        ap2.associate(station.hardware_address)
        refusal = witness.wait()
        refused = f"{login.identity} refused the certificate of the authentication server"
        assert (refusal.cause, str(refusal)) == (rogue.cause, refused + rogue.reason)
        assert ping(station.host, SERVER_ADDRESS, 3, 0.01, timeout_s=0.1).received == 0
        assert watch.leaked(station.hardware_address) == []
        # The rogue would have passed them on.
        assert watch.passing(station.host) == CLEAR_FRAMES


def test_a_station_with_eap_md5_believes_a_rogue_access_point(bed: Bed) -> None:
    """The known hole: nothing in the method proves the network, and the rogue knows no password."""
    rogue = bed.network.access_points["ap2"]
    with (
        bed.station(bed.certificates.login(Method.MD5), "ap2") as station,
        contextlib.closing(Tap(rogue, RADIO)) as tap,
    ):
        rogue.set_port(RADIO, locked=0, learning=1)
        assert ping(station.host, SERVER_ADDRESS, 3, 0.01, timeout_s=0.1).received == 0
        challenge = bytes((EAP_TYPE_MD5, 16)) + bytes(16)
        for identifier, asked in ((1, bytes((EAP_TYPE_IDENTITY,))), (2, challenge)):
            tap.read()
            send_eap(rogue, station.hardware_address, EAP_REQUEST, identifier, asked)
            wait_answer(tap, identifier)
        # Whatever the station has answered.
        send_eap(rogue, station.hardware_address, EAP_SUCCESS, 2)
        station.wait_for("CTRL-EVENT-EAP-SUCCESS")
        assert station.is_open
        assert ping(station.host, SERVER_ADDRESS, 3, 0.01, timeout_s=1.0).received == 3
        rogue.set_port(RADIO, locked=1, learning=0)


def send_eap(host: Host, station: str, code: int, identifier: int, body: bytes = b"") -> None:
    source = host.hardware_address(RADIO)
    packet = struct.pack("!BBH", code, identifier, 4 + len(body)) + body
    frame = octets(station) + octets(source) + struct.pack("!HBBH", 0x888E, 2, 0, len(packet))
    send_frames(host, [frame + packet], RADIO)


def wait_answer(tap: Tap, identifier: int) -> None:
    """Wait until a station has answered a request of EAP."""
    until = time.monotonic() + WAIT_S
    found: list[Frame] = []
    while not any((one.code, one.identifier) == (EAP_RESPONSE, identifier) for one in eapol(found)):
        assert time.monotonic() < until
        time.sleep(0.01)
        found += tap.read()


def test_a_server_that_gives_no_reason_still_opens_no_port(bed: Bed, watch: Watch) -> None:
    login = replace(bed.certificates.login(Method.TTLS), password="friend")
    with (
        bed.access_point("ap2", bed.certificates.config()) as ap2,
        bed.station(login, "ap2") as station,
    ):
        witness = Witness(station, ap2)
        ap2.associate(station.hardware_address)
        refusal = witness.wait()
        assert refusal.cause is Cause.REFUSED
        assert str(refusal) == ("the authentication server refused ttls@bench and gave no reason")
        assert watch.passing(station.host) == 0


def not_begun(identity: str, access_point: str) -> tuple[Cause, str]:
    why = "it has not begun to authenticate there"
    return Cause.NOT_BEGUN, f"{access_point} does not know {identity}: {why}"


def test_a_station_that_moved_sends_nothing_until_it_is_authenticated_there(
    bed: Bed, watch: Watch
) -> None:
    with (
        bed.access_point("ap2") as ap2,
        bed.station(bed.certificates.login(Method.TTLS)) as station,
        Meter(station, bed.ap1) as meter,
    ):
        meter.authenticate()
        station.shut()
        bed.network.plug(station.host, "ap2")
        refusal = Witness(station, ap2, bed.radius).wait()
        assert (refusal.cause, str(refusal)) == not_begun("ttls@bench", "ap2")
        watch.leaked(station.hardware_address)
        assert ping(station.host, SERVER_ADDRESS, 3, 0.01, timeout_s=0.1).received == 0
        assert watch.leaked(station.hardware_address) == []
        assert watch.passing(station.host) == 0
        assert ap2.authorized() == set()


def test_a_copied_address_has_the_access_of_its_station(bed: Bed, watch: Watch) -> None:
    """The known hole: an address is no secret, and nothing seals the frames."""
    intruder = bed.host()
    with (
        bed.station(bed.certificates.login(Method.TLS)) as station,
        Meter(station, bed.ap1) as meter,
    ):
        copied = station.hardware_address
        with silent(station):
            assert watch.passing(intruder, copied) == 0
            refusal = Witness(station, bed.ap1, bed.radius).wait()
        assert (refusal.cause, str(refusal)) == not_begun("tls@bench", "ap1")
        meter.authenticate()
        assert watch.passing(intruder) == 0
        assert watch.passing(intruder, copied) == CLEAR_FRAMES


def test_a_forged_logoff_shuts_a_port_and_opens_none(bed: Bed, watch: Watch) -> None:
    """EAPOL has no protection: anybody can end a station's access, and nobody gains any."""
    intruder = bed.host()
    with (
        bed.station(bed.certificates.login(Method.MD5)) as station,
        Meter(station, bed.ap1) as meter,
    ):
        victim = station.hardware_address
        meter.authenticate()
        send_frames(intruder, [eapol_frame(victim, EAPOL_LOGOFF)] * FLOOD_FRAMES)
        # At a logoff hostapd asks the station once more, and disconnects it 10 ms later.
        bed.ap1.wait_disconnected(victim)
        assert watch.passing(station.host) == 0
        assert watch.passing(intruder, victim) == 0
    # In the flood a supplicant may have heard of a failure. Then it is silent for a minute.
    with (
        bed.station(bed.certificates.login(Method.MD5)) as station,
        Meter(station, bed.ap1) as meter,
    ):
        meter.authenticate()
        assert watch.passing(station.host) == CLEAR_FRAMES


def test_a_flood_of_starts_opens_no_port_and_keeps_no_station_out(bed: Bed, watch: Watch) -> None:
    intruder = bed.host()
    strangers = [
        f"02:00:00:00:{number >> 8:02x}:{number & 255:02x}" for number in range(FLOOD_FRAMES)
    ]
    with (
        bed.station(bed.certificates.login(Method.TTLS)) as station,
        Meter(station, bed.ap1) as meter,
    ):
        before = bed.ap1.authorized()
        send_frames(intruder, [eapol_frame(one, EAPOL_START) for one in strangers])
        send_frames(intruder, [eapol_frame(station.hardware_address, EAPOL_START)] * FLOOD_FRAMES)
        # Each start breaks off what the station has begun, so it begins after the last one.
        wait_all_read(bed.ap1, station.hardware_address)
        meter.authenticate()
        assert bed.ap1.authorized() == before | {station.hardware_address}
        assert watch.passing(intruder, strangers[0]) == 0
        assert watch.passing(station.host) == CLEAR_FRAMES


def wait_all_read(access_point: Authenticator, hardware_address: str) -> None:
    """Wait until hostapd reads no more starts of a station. Some are lost on the way to it."""
    former = 0
    while (starts := access_point.starts(hardware_address)) != former or not starts:
        former = starts
        time.sleep(QUIET_S)


@pytest.mark.parametrize("method", [Method.MD5, Method.TTLS])
def test_a_replayed_exchange_opens_no_port(method: Method, bed: Bed, watch: Watch) -> None:
    """The answers that a station once gave, from a copy of its address."""
    intruder = bed.host()
    with (
        bed.station(bed.certificates.login(method)) as station,
        Meter(station, bed.ap1) as meter,
        contextlib.closing(Tap(station.host, STATION_INTERFACE)) as tap,
    ):
        victim = station.hardware_address
        rounds = meter.authenticate().exchange.rounds
        recorded = [
            frame
            for frame, said in ((one, eapol([one])[0]) for one in tap.read())
            if said.source == victim and said.code == EAP_RESPONSE
        ]
        assert len(recorded) == rounds
        station.process.stop()
        bed.ap1.restart()
        since_s = time.time()
        witness = Witness(station, bed.ap1, bed.radius)
        bed.ap1.associate(victim)
        for frame in recorded:
            send_frames(intruder, [frame.data])
        # Each question has a number of its own, so an answer to another one is none.
        refusal = witness.wait()
        assert refusal.cause is Cause.STATION_SILENT
        assert str(refusal) == f"{station.login.identity} has not answered ap1"
        assert watch.passing(intruder, victim) == 0
        assert [one for one in bed.ap1.openings() if one.heard_s >= since_s] == []


def test_a_roam_in_the_middle_of_a_handshake_opens_only_the_second_port(
    bed: Bed, watch: Watch
) -> None:
    with (
        bed.access_point("ap2") as ap2,
        bed.station(bed.certificates.login(Method.PEAP)) as station,
        Meter(station, ap2) as there,
    ):
        address = station.hardware_address
        with paused(bed), contextlib.closing(Tap(bed.ap1.host, UPLINK)) as tap:
            bed.ap1.associate(address)
            wait_frames(tap, 1)
            witness = Witness(station, bed.ap1, bed.radius)
            bed.network.plug(station.host, "ap2")
        refusal = witness.wait()
        assert refusal.cause is Cause.STATION_SILENT
        assert str(refusal) == "peap@bench has not answered ap1"
        assert address not in bed.ap1.authorized() | ap2.authorized()
        assert watch.passing(station.host) == 0
        there.authenticate()
        assert address not in bed.ap1.authorized()
        assert ap2.authorized() == {address}
        assert watch.passing(station.host) == CLEAR_FRAMES


def test_an_access_point_that_was_killed_lets_nobody_pass(bed: Bed, watch: Watch) -> None:
    with (
        bed.station(bed.certificates.login(Method.TTLS)) as station,
        Meter(station, bed.ap1) as meter,
    ):
        meter.authenticate()
        witness = Witness(station, bed.ap1, bed.radius)
        assert watch.passing(station.host) == CLEAR_FRAMES
        bed.ap1.process.signal(signal.SIGKILL)
        bed.ap1.wait_end()
        refusal = witness.wait()
        assert refusal.cause is Cause.ACCESS_POINT_ENDED
        assert str(refusal) == "hostapd on ap1 has ended"
        assert bed.ap1.authorized() == set()
        assert watch.passing(station.host) == 0
        with pytest.raises(NamespaceError, match=r"^hostapd on ap1 has ended \("):
            meter.authenticate()
        bed.ap1.restart()
        assert watch.passing(station.host) == 0
        meter.authenticate()
        assert watch.passing(station.host) == CLEAR_FRAMES


def test_an_access_point_that_was_restarted_asks_everybody_again(bed: Bed, watch: Watch) -> None:
    with (
        bed.station(bed.certificates.login(Method.MD5)) as station,
        Meter(station, bed.ap1) as meter,
    ):
        meter.authenticate()
        witness = Witness(station, bed.ap1, bed.radius)
        bed.ap1.restart()
        assert bed.ap1.authorized() == set()
        refusal = witness.wait()
        assert (refusal.cause, str(refusal)) == not_begun("md5@bench", "ap1")
        assert watch.passing(station.host) == 0
        meter.authenticate()
        assert watch.passing(station.host) == CLEAR_FRAMES


def test_an_access_point_that_cannot_tell_of_a_station_shuts_every_port_and_says_why(
    bed: Bed, watch: Watch
) -> None:
    """Its uplink is down while a station succeeds: nobody hears what hostapd says afterwards."""
    ap2 = bed.access_point("ap2", bed.certificates.config())
    with (
        bed.station(bed.certificates.login(Method.MD5), "ap2") as former,
        bed.station(bed.certificates.login(Method.TTLS), "ap2") as station,
    ):
        associated_s = ap2.associate(former.hardware_address)
        ap2.wait_open(former.hardware_address, associated_s)
        ap2.host.link_down(UPLINK)
        ap2.associate(station.hardware_address)
        station.wait_for("CTRL-EVENT-EAP-SUCCESS")
        why = f"hostapd: .*: ap2, {UPLINK}: cannot tell of .*: Network is down"
        with pytest.raises(NamespaceError, match=why):
            ap2.wait_open(station.hardware_address, associated_s)
        until = time.monotonic() + WAIT_S
        while ap2.authorized():
            assert time.monotonic() < until
            time.sleep(0.01)
        ap2.host.link_up(UPLINK)
        for one in (former, station):
            assert watch.passing(one.host) == 0
        station.log_off()
        with pytest.raises(NamespaceError, match=why):
            ap2.close()
        for one in (former, station):
            assert watch.passing(one.host) == 0
        assert not ap2.is_running()


def test_what_happens_to_another_station_is_no_refusal_of_this_one(bed: Bed, watch: Watch) -> None:
    login = bed.certificates.login(Method.MD5)
    with bed.station(login) as station, Meter(station, bed.ap1) as meter:
        witness = Witness(station, bed.ap1, bed.radius)
        meter.authenticate()
        wait_all_answered(bed)
        with (
            bed.station(login) as idle,
            silent(idle),
            bed.station(login) as other,
            Tap(bed.ap1.host, UPLINK) as tap,
            paused(bed),
        ):
            of_idle = Witness(idle, bed.ap1, bed.radius)
            bed.ap1.associate(other.hardware_address)
            (asked,) = wait_frames(tap, 1)
            of_other = Witness(other, bed.ap1, bed.radius)
            send_forged(bed, asked)
            assert wait_dropped(of_other).cause is Cause.FORGED_ANSWER
            assert witness.refusal() is None
            assert of_idle.wait().cause is Cause.NOT_BEGUN
            assert watch.passing(station.host) == CLEAR_FRAMES
            other.log_off()


def test_a_name_is_no_field_of_what_an_access_point_knows(bed: Bed) -> None:
    forged = {"dot1xAuthPaeState": "77", "dot1xAuthBackendAuthState": "78"}
    name = "x" + "".join(f"\n{key}={value}" for key, value in forged.items())
    login = replace(bed.certificates.login(Method.MD5), identity=name)
    with bed.station(login) as station:
        address = station.hardware_address
        associated_s = bed.ap1.associate(address)
        bed.ap1.wait_failure(address, associated_s)
        assert "dot1xAuthPaeState=77" in bed.ap1.control.request(f"STA {address}")
        for found in (bed.ap1.stations()[address], bed.ap1.control.fields(f"STA {address}")):
            assert not set(forged.items()) & set(found.items())


@contextlib.contextmanager
def paused(bed: Bed) -> Iterator[None]:
    """The server answers nothing for a while."""
    bed.radius.pause()
    try:
        yield
    finally:
        bed.radius.resume()


@contextlib.contextmanager
def stopped(bed: Bed) -> Iterator[None]:
    """There is no server for a while."""
    bed.radius.stop()
    try:
        yield
    finally:
        bed.radius.restart()


FORGED_NAMES = [
    "x] (from client at-10.81.0.11 port 0 via TLS tunnel) [md5@bench] certificate has expired",
    "x] (from client at-10.81.0.11 port 0 cli {station})",
    "x (certificate has expired): [y] (from client a port 0 cli {station} via TLS tunnel)",
    "Received packet from 10.81.0.11 with x (Shared secret is incorrect.)",
    "x\u2028Fri Nov 27 17:05:05 2026 : Auth: (3) Login incorrect (certificate has expired): [y] "
    "(from client a port 0 cli {station})",
]


@pytest.mark.parametrize("name", FORGED_NAMES)
def test_no_name_of_a_stranger_is_a_refusal_of_another_station(name: str, bed: Bed) -> None:
    """While the other station waits, and its own answer comes later."""
    with bed.station(bed.certificates.login(Method.MD5)) as station:
        own = station.hardware_address.upper().replace(":", "-")
        login = replace(bed.certificates.login(Method.MD5), identity=name.format(station=own))
        with bed.station(login) as stranger:
            own_witness = Witness(station, bed.ap1, bed.radius)
            witness = Witness(stranger, bed.ap1, bed.radius)
            bed.ap1.associate(stranger.hardware_address)
            assert witness.wait().cause is Cause.UNKNOWN_USER
            assert name.split(" ", 1)[1].format(station=own) in bed.radius.log()
            with paused(bed):
                bed.ap1.associate(station.hardware_address)
                time.sleep(QUIET_S)
                found = own_witness.refusal()
                assert found is None or found.cause is Cause.NO_ANSWER


def test_frames_that_cannot_be_read_are_counted_and_change_no_measurement(bed: Bed) -> None:
    """An EAPOL frame of 15 octets, one that says more than it has, and a datagram of nothing."""
    with (
        bed.station(bed.certificates.login(Method.MD5)) as station,
        Meter(station, bed.ap1) as meter,
        contextlib.closing(Tap(bed.ap1.host, UPLINK)) as tap,
    ):
        usual = meter.authenticate().exchange
        assert usual.unreadable == 0
        own = octets(station.hardware_address)
        short = own + octets(bed.network.server.hardware_address("eth0")) + b"\x88\x8e"
        frames = [short + b"\x01", short + b"\x01\x00\xff\xff\x03\x01"]
        tap.read()
        with paused(bed):
            resumed = threading.Thread(target=interfere, args=(bed, tap, frames))
            resumed.start()
            found = meter.authenticate().exchange
            resumed.join()
        assert found.unreadable == len(frames) + 1
        assert (found.rounds, found.eapol_bytes, found.radius_bytes) == (
            usual.rounds,
            usual.eapol_bytes,
            usual.radius_bytes,
        )


def interfere(bed: Bed, tap: Tap, frames: list[bytes]) -> None:
    """Send what cannot be read in the middle of an exchange."""
    wait_frames(tap, 1)
    send_frames(bed.ap1.host, frames, RADIO)
    datagram = struct.pack("!HHHH", RADIUS_PORT, 40_000, 8, 0)
    packet = ip(RADIUS_ADDRESS, ACCESS_POINT_ADDRESSES["ap1"], IPPROTO_UDP, datagram)
    server = bed.network.server
    ends = [bed.ap1.host.hardware_address("br0"), server.hardware_address("eth0")]
    head = b"".join(map(octets, ends)) + struct.pack("!H", 0x0800)
    send_frames(server, [head + packet], "eth0")
    bed.radius.resume()
