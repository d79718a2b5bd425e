"""What the tests of IEEE 802.1X share: keys, accounts, a running network with two access points,
and frames made by hand."""

from __future__ import annotations

import contextlib
import itertools
import signal
import socket
import struct
import time
from collections.abc import Iterator
from datetime import timedelta
from functools import cached_property
from pathlib import Path

from caravan.testbed.capture import Frame
from caravan.testbed.dot1x.authentication_server import RadiusServer
from caravan.testbed.dot1x.authenticator import Authenticator, RadiusClient
from caravan.testbed.dot1x.exchange import Tap
from caravan.testbed.dot1x.method import (
    SERVER_NAME,
    Account,
    Login,
    Method,
    ServerConfig,
    ServerIdentity,
    Tls,
)
from caravan.testbed.dot1x.network import (
    ACCESS_POINT_ADDRESSES,
    RADIO,
    RADIUS_ADDRESS,
    STATION_INTERFACE,
    UPLINK,
    WirelessLan,
)
from caravan.testbed.dot1x.supplicant import Supplicant
from caravan.testbed.host import Host
from caravan.testbed.pki import Credentials, OpensslAuthority

PASSWORD = "mellon"
SECRET = "of access points and server"
IDENTITIES = {method: f"{method.name.lower()}@bench" for method in Method}
STATION = "station.example"
CLEAR_FRAMES = 5
PASS_S = 15.0
PAE_GROUP = bytes.fromhex("0180c2000003")
ETHER_TYPE_TEST, ETHER_TYPE_PROBE = 0x88B5, 0x88B6
"""For local experiments (IEEE 802)."""


class Certificates:
    """Those of the tests, by openssl: `caravan pki` makes no expired ones.

    Most are made when they are first wanted, because each key takes a part of a second.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.authority = OpensslAuthority(folder / "authority", "authority of the tests")
        self.server = self.authority.issue(SERVER_NAME)
        self.station = self.authority.issue(STATION)

    @cached_property
    def expired(self) -> Credentials:
        """One that is not valid any more."""
        return self.authority.issue("expired.example", valid_until=timedelta(hours=-1))

    @cached_property
    def future(self) -> Credentials:
        """One that is not valid yet."""
        return self.authority.issue("future.example", valid_from=timedelta(days=1))

    @cached_property
    def impostor(self) -> Credentials:
        """That of another server, of the same authority."""
        return self.authority.issue("impostor.example")

    @cached_property
    def stranger(self) -> OpensslAuthority:
        """An authority that nobody trusts."""
        return OpensslAuthority(self._folder / "stranger", "authority of strangers")

    @cached_property
    def strange(self) -> Credentials:
        """A right name by that authority."""
        return self.stranger.issue(SERVER_NAME)

    def config(self, *, tls: Tls = Tls.V1_2, is_resuming: bool = False) -> ServerConfig:
        """A server's configuration with an account for each method."""
        accounts = tuple(Account(IDENTITIES[one], one, PASSWORD) for one in Method)
        identity = ServerIdentity(self.server, self.authority.certificate)
        return ServerConfig(identity, accounts, tls, is_resuming)

    def login(self, method: Method, *, tls: Tls = Tls.V1_2) -> Login:
        """A station's right login."""
        is_certified = method is Method.TLS
        return Login(
            IDENTITIES[method],
            method,
            "" if is_certified else PASSWORD,
            self.station if is_certified else None,
            self.authority.certificate,
            tls=tls,
        )


class Bed:
    """A running network: FreeRADIUS, and the access point `ap1` that asks it."""

    def __init__(self, network: WirelessLan, certificates: Certificates) -> None:
        self.network = network
        self.certificates = certificates
        self._numbers = itertools.count(101)
        self._teach()
        self.radius = self._server(certificates.config())
        self.ap1 = self.access_point("ap1")

    def _teach(self) -> None:
        """Let all bridges learn where the server is, so that nothing for it is flooded. A port that
        is new passes nothing yet."""
        own = self.network.server.hardware_address("eth0")
        frame = clear_frame("ff:ff:ff:ff:ff:ff", own)
        hosts = self.network.access_points.values()
        until = time.monotonic() + PASS_S
        while not all(host.has_learned(UPLINK, own) for host in hosts):
            assert time.monotonic() < until, "a bridge has not learned where the server is"
            send_frames(self.network.server, [frame], "eth0")
            time.sleep(0.01)

    @contextlib.contextmanager
    def serving(self, config: ServerConfig) -> Iterator[None]:
        """FreeRADIUS with another configuration for a while."""
        usual = self.radius
        usual.stop()
        with self._server(config) as self.radius:
            yield
        self.radius = usual
        usual.restart()

    def _server(self, config: ServerConfig) -> RadiusServer:
        clients = dict.fromkeys(ACCESS_POINT_ADDRESSES.values(), SECRET)
        return RadiusServer(self.network.radius, RADIUS_ADDRESS, clients, config)

    def access_point(
        self, role: str, server: ServerConfig | None = None, secret: str = SECRET
    ) -> Authenticator:
        """An access point that asks FreeRADIUS, or has a server of its own."""
        host = self.network.access_points[role]
        client = RadiusClient(RADIUS_ADDRESS, secret, ACCESS_POINT_ADDRESSES[role])
        return Authenticator(host, RADIO, UPLINK, server or client)

    def host(self, at: str = "ap1") -> Host:
        """A new host in the air of an access point."""
        number = next(self._numbers)
        return self.network.station(f"s{number}", f"10.81.0.{number}", at)

    def station(self, login: Login, at: str = "ap1") -> Supplicant:
        """A new station."""
        return Supplicant(self.host(at), STATION_INTERFACE, login)

    def close(self) -> None:
        """End all programs."""
        self.ap1.close()
        self.radius.stop()


@contextlib.contextmanager
def running(output: Path, certificates: Certificates) -> Iterator[Bed]:
    """A bed in a network of its own."""
    with WirelessLan(output) as network, contextlib.closing(Bed(network, certificates)) as bed:
        yield bed


class Watch:
    """Every frame behind the access points, and at their radio ports before."""

    def __init__(self, bed: Bed) -> None:
        hosts = list(bed.network.access_points.values())
        self._before = [Tap(host, RADIO, has_everything=True) for host in hosts]
        self._behind = [Tap(host, UPLINK, has_everything=True) for host in hosts]
        self._server = bed.network.server

    def passing(self, host: Host, source: str | None = None) -> int:
        """How many of `CLEAR_FRAMES` frames get from a station through its access point.

        `source`: an address that is not the host's.
        """
        own = source or host.hardware_address(STATION_INTERFACE)
        self.leaked(own)
        to = self._server.hardware_address("eth0")
        self._await_way(host, clear_frame(to, own, ETHER_TYPE_PROBE), own)
        send_frames(host, [clear_frame(to, own)] * CLEAR_FRAMES)
        came = 0
        until = time.monotonic() + PASS_S
        while came < CLEAR_FRAMES and time.monotonic() < until:
            time.sleep(0.01)
            came += count_clear(self._before, own)
        assert came == CLEAR_FRAMES
        # What passes has passed by then.
        time.sleep(0.02)
        return count_clear(self._behind, own)

    def _await_way(self, host: Host, probe: bytes, own: str) -> None:
        """Wait until frames come to an access point. A port that is new passes nothing yet."""
        until = time.monotonic() + PASS_S
        while not count_clear(self._before, own, ETHER_TYPE_PROBE):
            assert time.monotonic() < until, "no frame comes to an access point"
            send_frames(host, [probe])
            time.sleep(0.01)

    def leaked(self, source: str) -> list[Frame]:
        """The frames behind the access points from a station's address since the last call."""
        for tap in self._before:
            tap.read()
        return [one for tap in self._behind for one in tap.read() if sender(one) == source]

    def close(self) -> None:
        """Capture no more."""
        for tap in (*self._before, *self._behind):
            tap.close()


def count_clear(taps: list[Tap], source: str, ether_type: int = ETHER_TYPE_TEST) -> int:
    frames = [frame for tap in taps for frame in tap.read()]
    return sum(sender(one) == source and one.ether_type == ether_type for one in frames)


@contextlib.contextmanager
def silent(station: Supplicant) -> Iterator[None]:
    """A station that does nothing for a while. One that is new begins by itself after some 2 s."""
    station.process.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        station.process.signal(signal.SIGCONT)


def sender(frame: Frame) -> str:
    return frame.data[6:12].hex(":")


def octets(hardware_address: str) -> bytes:
    return bytes.fromhex(hardware_address.replace(":", ""))


def send_frames(host: Host, frames: list[bytes], interface: str = STATION_INTERFACE) -> None:
    """Send frames by a raw socket, which no port of a station's own stops."""
    with host.entered():
        link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    with link:
        link.bind((interface, 0))
        for frame in frames:
            link.send(frame)


def clear_frame(destination: str, source: str, ether_type: int = ETHER_TYPE_TEST) -> bytes:
    """A frame that no access point may pass on for a station without access."""
    return octets(destination) + octets(source) + struct.pack("!H", ether_type) + bytes(46)


def eapol_frame(source: str, kind: int, body: bytes = b"") -> bytes:
    """A frame of EAPOL from a station."""
    head = struct.pack("!HBBH", 0x888E, 1, kind, len(body))
    return PAE_GROUP + octets(source) + head + body
