"""IEEE 802.1X with hostapd, wpa_supplicant and FreeRADIUS: every method at both servers, its frames
and bytes, session resumption, what a port lets pass, and the way to another access point."""

from __future__ import annotations

import contextlib
import json
import re
import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from dot1x_bed import CLEAR_FRAMES, PASSWORD, Bed, Certificates, Watch, running, silent

from caravan.document import plain
from caravan.files import find
from caravan.testbed.dot1x.authentication_server import RadiusServer
from caravan.testbed.dot1x.authenticator import Authenticator
from caravan.testbed.dot1x.exchange import EAPOL_START, Tap, find_exchange
from caravan.testbed.dot1x.measurement import Authentication, Meter
from caravan.testbed.dot1x.method import (
    SERVER_NAME,
    Account,
    Login,
    Method,
    ServerConfig,
    ServerIdentity,
    Tls,
)
from caravan.testbed.dot1x.network import RADIO, SERVER_ADDRESS, STATION_INTERFACE, UPLINK
from caravan.testbed.dot1x.supplicant import SUCCESS, Supplicant
from caravan.testbed.pki import Key, OpensslAuthority
from caravan.testbed.process import CommandFailed
from caravan.testbed.traffic import ping, reach_each_other

pytestmark = pytest.mark.root

METHODS = pytest.mark.parametrize("method", Method, ids=lambda method: method.value)
TUNNELS = pytest.mark.parametrize(
    "method", [Method.TLS, Method.PEAP, Method.TTLS], ids=lambda method: method.value
)
SERVERS = pytest.mark.parametrize("is_radius", [True, False], ids=["freeradius", "hostapd"])

ROUNDS = {
    (Method.MD5, True): (2, 157, 667),
    (Method.TLS, True): (7, 1558, 3486),
    (Method.PEAP, True): (10, 1736, 4617),
    (Method.TTLS, True): (6, 1199, 2960),
    (Method.MD5, False): (2, 157, 0),
    (Method.TLS, False): (6, 1432, 0),
    (Method.PEAP, False): (9, 1583, 0),
    (Method.TTLS, False): (5, 1073, 0),
}
"""Rounds, and bytes of EAPOL and RADIUS without those of certificates, by method and server.

A certificate of another size may also cost FreeRADIUS a round, since it sends 1024 bytes at once.
"""
START_BYTES, EAPOL_TYPE = 18, 15
"""A station that waits some 2 s sends an EAPOL-Start by itself: its size, and the offset
of its type."""


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    folder = tmp_path_factory.mktemp("dot1x")
    with running(folder / "logs", Certificates(folder)) as it:
        yield it


@pytest.fixture
def watch(bed: Bed) -> Iterator[Watch]:
    with contextlib.closing(Watch(bed)) as it:
        yield it


@contextlib.contextmanager
def asking(bed: Bed, config: ServerConfig, *, is_radius: bool) -> Iterator[Authenticator]:
    """An access point whose server has this configuration: FreeRADIUS or hostapd's own."""
    if is_radius:
        with bed.serving(config):
            yield bed.ap1
    else:
        with bed.access_point("ap2", config) as access_point:
            yield access_point


def authenticate(bed: Bed, access_point: Authenticator, method: Method) -> Authentication:
    with (
        bed.station(bed.certificates.login(method), access_point.host.role) as station,
        Meter(station, access_point) as meter,
    ):
        return meter.authenticate()


@SERVERS
@METHODS
def test_an_exchange_has_the_rounds_and_bytes_of_its_method(
    method: Method, is_radius: bool, bed: Bed
) -> None:
    if is_radius:
        found = authenticate(bed, bed.ap1, method)
    else:
        with bed.access_point("ap2", bed.certificates.config()) as access_point:
            found = authenticate(bed, access_point, method)
    rounds, eapol_bytes, radius_bytes = ROUNDS[method, is_radius]
    certificates_bytes = sent_certificates_bytes(bed, method)
    exchange = found.exchange
    assert exchange.rounds == rounds
    # A request and a response a round, and the success.
    assert exchange.eapol_frames - exchange.starts == 2 * rounds + 1
    starts_bytes = exchange.starts * START_BYTES
    assert exchange.eapol_bytes - starts_bytes == eapol_bytes + certificates_bytes
    assert exchange.radius_packets == (2 * rounds if is_radius else 0)
    assert exchange.radius_bytes == (radius_bytes + certificates_bytes if is_radius else 0)
    assert_parts(found)


@pytest.mark.parametrize("key", [Key.RSA_1024, Key.P256], ids=["rsa-1024", "p-256"])
def test_eap_tls_takes_short_keys_where_it_is_told_and_keys_of_p_256(
    key: Key, bed: Bed, tmp_path: Path
) -> None:
    authority = OpensslAuthority(tmp_path, "authority of other keys", key)
    identity = ServerIdentity(authority.issue(SERVER_NAME), authority.certificate)
    is_legacy = key is Key.RSA_1024
    config = ServerConfig(identity, (Account("key@bench", Method.TLS),), is_legacy=is_legacy)
    login = Login(
        "key@bench",
        Method.TLS,
        credentials=authority.issue("station.example"),
        authority=authority.certificate,
        is_legacy=is_legacy,
    )
    with (
        bed.serving(config),
        bed.station(login) as station,
        Meter(station, bed.ap1) as meter,
    ):
        found = meter.authenticate()
    # Their certificates need two rounds less than those of RSA-2048.
    assert found.exchange.rounds == 5
    if is_legacy:
        usual = replace(config, is_legacy=False)
        with pytest.raises(CommandFailed, match="key too small"):
            RadiusServer(bed.network.server, SERVER_ADDRESS, {}, usual)


def sent_certificates_bytes(bed: Bed, method: Method) -> int:
    """Each end sends its certificate and that of its authority."""
    authority, server, station = (
        len(ssl.PEM_cert_to_DER_cert(path.read_text()))
        for path in (
            bed.certificates.authority.certificate,
            bed.certificates.server.certificate,
            bed.certificates.station.certificate,
        )
    )
    if method is Method.MD5:
        return 0
    return server + authority + (station + authority if method is Method.TLS else 0)


FILES = {
    "eap-md5": (Method.MD5, Key.RSA_2048),
    "eap-tls": (Method.TLS, Key.RSA_2048),
    "eap-peap": (Method.PEAP, Key.RSA_2048),
    "eap-ttls-pap": (Method.TTLS, Key.RSA_2048),
    "eap-tls-p256": (Method.TLS, Key.P256),
    "eap-tls-rsa1024": (Method.TLS, Key.RSA_1024),
    "eap-tls-resumed": (Method.TLS, Key.RSA_2048),
    "eap-peap-resumed": (Method.PEAP, Key.RSA_2048),
    "eap-ttls-resumed": (Method.TTLS, Key.RSA_2048),
}
"""The files of exchanges with a server of accounts."""
DOT11_MORE = 18
"""Octets of a header of 802.11 and an LLC more than of Ethernet's header."""
IP_UDP = 28


@pytest.mark.parametrize("name", FILES)
def test_each_message_of_a_file_has_its_size_on_the_links(
    name: str, bed: Bed, tmp_path: Path
) -> None:
    method, key = FILES[name]
    is_resumed, is_legacy = name.endswith("-resumed"), key is Key.RSA_1024
    authority = OpensslAuthority(tmp_path, "authority of the tests", key)
    own, node = authority.issue(SERVER_NAME), authority.issue("station.example")
    config = ServerConfig(
        ServerIdentity(own, authority.certificate),
        (Account("mn1", method, PASSWORD),),
        is_resuming=is_resumed,
        is_legacy=is_legacy,
    )
    usual = bed.certificates.login(method)
    login = replace(usual, identity="mn1", authority=authority.certificate, is_legacy=is_legacy)
    login = replace(login, credentials=node if method is Method.TLS else None)
    with bed.serving(config), bed.station(login) as station, Meter(station, bed.ap1) as meter:
        if is_resumed:
            meter.authenticate()
        with (
            Tap(station.host, STATION_INTERFACE) as air,
            Tap(bed.ap1.host, UPLINK) as uplink,
        ):
            meter.authenticate()
            heard = [frame.data for frame in air.read()]
            frames = [len(one) + DOT11_MORE for one in heard if one[EAPOL_TYPE] != EAPOL_START]
            packets = [radius_bytes(frame.packet) for frame in uplink.read()]
    text = find("exchange", name).text
    filed = plain(name, text)["message"]
    # Certificates have names and numbers of their own; the file says how large they were.
    was = [int(octets) for octets in re.findall(r"(\d+)\s(?:#\s)?(?:octets\s)?\(the", text)]
    certificates = [authority.certificate, own.certificate, node.certificate][: len(was)]
    more = sum(der_bytes(one) for one in certificates) - sum(was)
    if len(was) == 3:
        # That of the authority goes both ways.
        more += der_bytes(authority.certificate) - was[0]
    for found, sizes in (
        (frames, [one["bytes"] for one in filed]),
        (packets, [one["relayed"] for one in filed if "relayed" in one]),
    ):
        differing = [one - size for one, size in zip(found, sizes, strict=True) if one != size]
        assert len(differing) <= (2 if was else 0)
        # Signatures over P-256, two of them besides those of certificates, have 70 to 72 octets.
        assert sum(differing) == pytest.approx(more, abs=4 if key is Key.P256 else 0)


def radius_bytes(packet: bytes) -> int:
    """The whole packet of IP, of which the link may have carried a first fragment."""
    return IP_UDP + int.from_bytes(packet[IP_UDP + 2 : IP_UDP + 4], "big")


def der_bytes(certificate: Path) -> int:
    return len(ssl.PEM_cert_to_DER_cert(certificate.read_text()))


def assert_parts(found: Authentication) -> None:
    """No part is less than nothing, and those of EAP are not more than it."""
    parts = found.start_s, found.eap_s, found.port_s, found.harness_s
    assert min(parts) >= 0
    assert found.total_s == pytest.approx(sum(parts))
    assert found.supplicant_s > 0
    assert (found.server_s > 0) == (found.exchange.radius_packets > 0)
    assert found.supplicant_s + found.server_s < found.eap_s


def test_a_station_that_begins_sends_an_eapol_start_of_18_bytes(bed: Bed) -> None:
    """The 169 bytes that were measured before Caravan had this testbed."""
    config = bed.certificates.config()
    config = replace(config, accounts=(Account("mn1", Method.MD5, "mellon"),))
    login = replace(bed.certificates.login(Method.MD5), identity="mn1")
    with (
        bed.access_point("ap2", config) as access_point,
        bed.station(login, "ap2") as station,
        contextlib.closing(Tap(station.host, STATION_INTERFACE)) as tap,
    ):
        # Its timer for the first one ends some 2 s after its beginning.
        access_point.wait_open(station.hardware_address)
        station.wait_for(SUCCESS)
        exchange = find_exchange(station.hardware_address, tap.read())
    assert exchange is not None
    assert (exchange.starts, exchange.eapol_frames, exchange.eapol_bytes) == (1, 6, 169)


@SERVERS
@TUNNELS
def test_tls_1_3_carries_each_method(method: Method, is_radius: bool, bed: Bed) -> None:
    config = bed.certificates.config(tls=Tls.V1_3)
    login = bed.certificates.login(method, tls=Tls.V1_3)
    with (
        asking(bed, config, is_radius=is_radius) as access_point,
        bed.station(login, access_point.host.role) as station,
        Meter(station, access_point) as meter,
    ):
        assert meter.authenticate().exchange.is_success
        assert station.tls_version() == "TLSv1.3"


@SERVERS
@TUNNELS
def test_a_session_of_tls_is_resumed_without_certificates(
    method: Method, is_radius: bool, bed: Bed
) -> None:
    config = bed.certificates.config(is_resuming=True)
    login = bed.certificates.login(method)
    with (
        asking(bed, config, is_radius=is_radius) as access_point,
        bed.station(login, access_point.host.role) as station,
        Meter(station, access_point) as meter,
    ):
        first, second, third = (meter.authenticate() for _ in range(3))
    assert [one.is_resumed for one in (first, second, third)] == [False, True, True]
    assert [one.is_first for one in (first, second, third)] == [True, False, False]
    assert second.exchange.rounds == third.exchange.rounds == (4 if method is Method.PEAP else 3)
    assert second.exchange.eapol_bytes == third.exchange.eapol_bytes < 800


def test_a_port_passes_frames_from_the_success_to_the_logoff(bed: Bed, watch: Watch) -> None:
    with (
        bed.station(bed.certificates.login(Method.MD5)) as station,
        Meter(station, bed.ap1) as meter,
    ):
        assert watch.passing(station.host) == 0
        assert ping(station.host, SERVER_ADDRESS, 1).received == 0
        meter.authenticate()
        assert watch.passing(station.host) == CLEAR_FRAMES
        assert ping(station.host, SERVER_ADDRESS, 1).received == 1
        assert station.hardware_address in bed.ap1.authorized()
        station.log_off()
        bed.ap1.wait_shut(station.hardware_address)
        assert watch.passing(station.host) == 0
        assert ping(station.host, SERVER_ADDRESS, 1).received == 0


def test_a_link_is_dormant_until_its_station_is_authenticated(bed: Bed) -> None:
    with (
        bed.access_point("ap2") as ap2,
        bed.station(bed.certificates.login(Method.MD5)) as station,
        Meter(station, bed.ap1) as here,
        Meter(station, ap2) as there,
    ):
        assert link_state(station) == "DORMANT"
        here.authenticate()
        assert link_state(station) == "UP"
        station.shut()
        bed.network.plug(station.host, "ap2")
        assert link_state(station) == "DORMANT"
        there.authenticate()
        assert link_state(station) == "UP"


def link_state(station: Supplicant) -> str:
    """What the kernel tells programs of the link, once it has seen whether there is a carrier."""

    def state() -> str:
        shown = station.host.run(["ip", "-json", "link", "show", "dev", STATION_INTERFACE]).stdout
        return str(json.loads(shown)[0]["operstate"])

    station.process.wait_for(lambda: state() in ("DORMANT", "UP"), "carrier", 5.0)
    return state()


def test_what_a_bridge_has_learned_before_its_port_is_locked_does_not_pass(
    bed: Bed, watch: Watch
) -> None:
    host = bed.host("ap2")
    access_point = bed.network.access_points["ap2"]
    access_point.set_port(RADIO, locked=0, learning=1)
    assert watch.passing(host) == CLEAR_FRAMES
    with bed.access_point("ap2") as authenticator:
        assert watch.passing(host) == 0
        assert authenticator.authorized() == set()


def test_stations_of_an_access_point_reach_each_other_only_through_it(bed: Bed) -> None:
    login = bed.certificates.login(Method.MD5)
    with bed.station(login) as one, bed.station(login) as other:
        ends = [(station.host, address_of(station)) for station in (one, other)]
        with silent(other):
            with Meter(one, bed.ap1) as meter:
                meter.authenticate()
            # The other one has a port of its own, and the access point's is shut for it too.
            assert ping(one.host, ends[1][1], 1, timeout_s=0.3).received == 0
        with Meter(other, bed.ap1) as meter:
            meter.authenticate()
        with contextlib.closing(Tap(bed.ap1.host, RADIO, has_everything=True)) as tap:
            assert reach_each_other(*ends)
            assert len(tap.read()) > 0


def address_of(station: Supplicant) -> str:
    (address,) = station.host.addresses(STATION_INTERFACE)
    return address.split("/")[0]


@METHODS
def test_a_roam_shuts_the_old_port_and_opens_the_new_one(
    method: Method, bed: Bed, watch: Watch
) -> None:
    with (
        bed.access_point("ap2") as ap2,
        bed.station(bed.certificates.login(method)) as station,
        Meter(station, bed.ap1) as here,
        Meter(station, ap2) as there,
    ):
        here.authenticate()
        server = bed.network.server
        away, back = (
            there.roam(bed.network, bed.ap1, server),
            here.roam(bed.network, ap2, server),
        )
        assert ap2.authorized() == set()
        assert station.hardware_address in bed.ap1.authorized()
        assert watch.passing(station.host) == CLEAR_FRAMES
    for roam in (away, back):
        assert not roam.authentication.is_first
        assert_parts(roam.authentication)
        assert roam.moved_s > 0 and roam.first_s >= 0
        assert roam.gap_s > roam.authentication.total_s + roam.first_s
        assert roam.authentication.exchange.rounds == ROUNDS[method, True][0]


@TUNNELS
def test_a_roam_resumes_the_session_of_the_server_of_both(method: Method, bed: Bed) -> None:
    with (
        bed.serving(bed.certificates.config(is_resuming=True)),
        bed.access_point("ap2") as ap2,
        bed.station(bed.certificates.login(method)) as station,
        Meter(station, bed.ap1) as here,
        Meter(station, ap2) as there,
    ):
        assert not here.authenticate().is_resumed
        away = there.roam(bed.network, bed.ap1, bed.network.server).authentication
    assert away.is_resumed
    assert away.exchange.rounds == (4 if method is Method.PEAP else 3)


def test_the_old_port_shuts_when_the_station_is_heard_at_another_access_point(
    bed: Bed, watch: Watch
) -> None:
    """The new access point announces a station, whose entry at the old one moves to the wire."""
    with (
        bed.access_point("ap2") as ap2,
        bed.station(bed.certificates.login(Method.MD5)) as station,
        Meter(station, bed.ap1) as here,
        Meter(station, ap2) as there,
    ):
        here.authenticate()
        bed.network.plug(station.host, "ap2")
        there.authenticate()
        bed.ap1.process.wait_for(
            lambda: station.hardware_address not in bed.ap1.authorized(), "shut port", 5.0
        )
        assert watch.passing(station.host) == CLEAR_FRAMES
        bed.network.plug(station.host, "ap1")
        assert watch.passing(station.host) == 0
        here.authenticate()
        assert watch.passing(station.host) == CLEAR_FRAMES
