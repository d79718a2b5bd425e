"""What the tests of `caravan wireless` share: a network with two stations and FreeRADIUS, frames of
802.11 put into an air by hand, and what tshark reads in a capture."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import re
import socket
import struct
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dot1x_bed import SECRET, Certificates, octets
from waiting import wait_for

from caravan.testbed.capture import read_pcap
from caravan.testbed.dot1x.authentication_server import RadiusServer
from caravan.testbed.dot1x.authenticator import Authenticator, RadiusClient
from caravan.testbed.dot1x.exchange import Tap
from caravan.testbed.dot1x.network import (
    ACCESS_POINT_ADDRESSES,
    RADIO,
    RADIUS_ADDRESS,
    STATION_INTERFACE,
    UPLINK,
    WirelessLan,
)
from caravan.testbed.dot1x.wireless import SSID, LinkEnd, LinkSecurity, WirelessCipher
from caravan.testbed.host import Host
from caravan.testbed.relay import LinkConfig

STATIONS = {"s1": "10.81.0.101", "s2": "10.81.0.102"}
ETHER_TYPE_AIR = 0x88B5
HEADER_BYTES = 24
EAPOL_LLC = bytes.fromhex("aaaa03000000888e")
KEY_INFORMATION, KEY_NONCE = slice(37, 39), slice(49, 81)
"""Of an EAPOL-Key frame behind the header of 802.11 (IEEE 802.11-2020 §12.7.2)."""
TAKEN_S = 15.0
TIMEOUT_S = 60
FIELDS = (
    "wlan.fc.type",
    "wlan.ra",
    "wlan.fc.protected",
    "icmp.type",
    "eapol.type",
    "llc.dsap",
    "_ws.expert.severity",
)
ERROR = 0x800000
"""Of what tshark calls malformed, and worse."""
DATA, PROTECTED = 2, 0x40
ECHOES = {0, 8}


@dataclass(frozen=True)
class WirelessBed:
    """Two stations at `ap1`, whose frames a cipher protects."""

    network: WirelessLan
    cipher: WirelessCipher

    @property
    def s1(self) -> Host:
        return self.network.stations["s1"]

    @property
    def s2(self) -> Host:
        return self.network.stations["s2"]

    @contextlib.contextmanager
    def access(self, certificates: Certificates) -> Iterator[list[Authenticator]]:
        """FreeRADIUS, and hostapd at both access points."""
        with self.serving(certificates) as (_, found):
            yield found

    @contextlib.contextmanager
    def serving(
        self, certificates: Certificates
    ) -> Iterator[tuple[RadiusServer, list[Authenticator]]]:
        """The same, with the server."""
        clients = dict.fromkeys(ACCESS_POINT_ADDRESSES.values(), SECRET)
        with contextlib.ExitStack() as running:
            config = certificates.config()
            server = RadiusServer(self.network.radius, RADIUS_ADDRESS, clients, config)
            running.enter_context(server)
            found = []
            for role, host in self.network.access_points.items():
                client = RadiusClient(RADIUS_ADDRESS, SECRET, ACCESS_POINT_ADDRESSES[role])
                authenticator = Authenticator(host, self.network.radio, UPLINK, client)
                found.append(running.enter_context(authenticator))
                running.enter_context(self.cipher.keys(authenticator, SECRET))
            yield server, found

    def drops(self, role: str, reason: str) -> int:
        """How many frames an end has dropped for a reason."""
        counts: dict[str, int] = self.cipher.ends[role].status()["drops"]
        return counts.get(reason, 0)

    def put(self, host: Host, frame: bytes) -> None:
        """Put a frame of 802.11 into the air where a station is, as anybody could, and wait until
        `ap1` has taken it."""
        capture = self.cipher.ends["ap1"].capture
        before = capture.read_bytes().count(frame)
        self.send(host, frame)
        wait_for(lambda: capture.read_bytes().count(frame) > before, "ap1 has it", TAKEN_S)

    def send(self, host: Host, frame: bytes) -> None:
        """Put a frame of 802.11 into the air, and wait until it has come to the air of `ap1`."""
        with Tap(self.network.access_points["ap1"], RADIO, has_everything=True) as tap:
            self._send(host, frame)
            wait_for(
                lambda: any(one.data.endswith(frame) for one in tap.read()), "it is there", TAKEN_S
            )

    def _send(self, host: Host, frame: bytes) -> None:
        own = host.hardware_address(STATION_INTERFACE)
        outer = frame[4:10] + octets(own) + struct.pack("!H", ETHER_TYPE_AIR)
        with host.entered():
            link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        with link:
            link.bind((STATION_INTERFACE, 0))
            link.send(outer + frame)

    def sent_data(self, role: str) -> list[bytes]:
        """The protected frames that a station has sent so far."""
        end = self.cipher.ends[role]
        own = octets(end.host.hardware_address(STATION_INTERFACE))
        return [one for one in captured(end) if one[1] & PROTECTED and one[10:16] == own]

    def clear_data(self, source: str) -> bytes:
        """A frame of a station to the server without protection: header, LLC and SNAP, and data."""
        bssid = octets(self.network.access_points["ap1"].hardware_address(RADIO))
        server = octets(self.network.server.hardware_address("eth0"))
        head = struct.pack("<HH", 0x0108, 0) + bssid + octets(source) + server + bytes(2)
        return head + bytes.fromhex("aaaa030000000800") + bytes(46)


@contextlib.contextmanager
def running(
    output: Path,
    security: LinkSecurity,
    airtime: LinkConfig | None = None,
    *,
    logs_keys: bool = False,
) -> Iterator[WirelessBed]:
    """A bed in a network of its own."""
    with WirelessLan(output, airtime) as network:
        for role, address in STATIONS.items():
            network.station(role, address)
        with WirelessCipher(network, security, logs_keys=logs_keys) as cipher:
            yield WirelessBed(network, cipher)


@dataclass(frozen=True)
class AirFrame:
    """What tshark reads in a frame of 802.11."""

    is_data: bool
    is_to_group: bool
    is_protected: bool
    is_echo: bool
    is_eapol: bool
    is_read: bool
    """Its LLC header is there: not encrypted, or decrypted."""
    is_faulty: bool


def read_air(path: Path, keys: Sequence[tuple[str, str]]) -> list[AirFrame]:
    """The frames of a capture with these keys, each with its kind in tshark's words."""
    argv = ["tshark", "-n", "-r", str(path), "-o", "wlan.enable_decryption:TRUE"]
    for kind, key in keys:
        argv += ["-o", f'uat:80211_keys:"{kind}","{key}"']
    argv += ["-T", "fields", *(word for field in FIELDS for word in ("-e", field))]
    done = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=TIMEOUT_S)
    found = []
    for line in done.stdout.splitlines():
        kind, receiver, protected, icmp, eapol, llc, severity = line.split("\t")
        is_echo = bool(icmp) and int(icmp) in ECHOES
        found.append(
            AirFrame(
                is_data=int(kind) == DATA,
                is_to_group=bool(octets(receiver)[0] & 1),
                is_protected=protected in ("1", "True"),
                is_echo=is_echo,
                is_eapol=bool(eapol),
                is_read=bool(llc),
                is_faulty=any(int(one) >= ERROR for one in severity.split(",") if one),
            )
        )
    return found


def passphrase_key(security: LinkSecurity) -> list[tuple[str, str]]:
    """A passphrase as tshark takes it."""
    return [("wpa-pwd", f"{security.secret}:{SSID}")]


def logged_keys(end: LinkEnd) -> list[tuple[str, str]]:
    """The keys that a link has logged, one line a handshake, as docs/vpn-wireless.md says."""
    assert end.key_log is not None and end.key_log.stat().st_mode & 0o777 == 0o600
    lines = end.key_log.read_text().splitlines()
    found = [re.fullmatch(r'"([\w-]+)","([0-9a-f]+)"', line) for line in lines]
    return [(one[1], one[2]) for one in found if one]


def handshake(frames: Iterable[bytes]) -> list[bytes]:
    """The messages of four-way handshakes among frames of 802.11, without those that were sent
    again: they have the same kind and nonce, and another replay counter."""
    found: dict[bytes, bytes] = {}
    for frame in frames:
        if frame[HEADER_BYTES : HEADER_BYTES + len(EAPOL_LLC)] == EAPOL_LLC:
            found.setdefault(frame[KEY_INFORMATION] + frame[KEY_NONCE], frame)
    return list(found.values())


def captured(end: LinkEnd) -> list[bytes]:
    """The frames of 802.11 that an end has captured so far."""
    return [frame.data for frame in read_pcap(end.capture)]


def wep_keys(path: Path, session: bytes) -> list[tuple[str, str]]:
    """The keys of WEP in the EAPOL-Key frames of a capture, by RC4 and HMAC-MD5 of our own (IEEE
    802.1X-2001 §7.6): EAP's key encrypts with its first half and signs with its second."""
    keys = []
    for frame in read_pcap(path):
        body = frame.data[HEADER_BYTES:]
        if body[:10] != EAPOL_LLC + body[8:9] + b"\x03":
            continue
        packet = bytearray(body[8:])
        size = int.from_bytes(packet[2:4])
        packet = packet[: 4 + size]
        signature = bytes(packet[32:48])
        packet[32:48] = bytes(16)
        if hmac.new(session[32:64], packet, hashlib.md5).digest() != signature:
            continue
        length = int.from_bytes(packet[5:7])
        iv = bytes(packet[15:31])
        keys.append(rc4(iv + session[:32], bytes(packet[48 : 48 + length])))
    return [("wep", key.hex()) for key in keys]


def rc4(key: bytes, data: bytes) -> bytes:
    """RC4, as published in 1994."""
    state = list(range(256))
    j = 0
    for i in range(256):
        j = (j + state[i] + key[i % len(key)]) % 256
        state[i], state[j] = state[j], state[i]
    i = j = 0
    out = bytearray()
    for octet in data:
        i = (i + 1) % 256
        j = (j + state[i]) % 256
        state[i], state[j] = state[j], state[i]
        out.append(octet ^ state[(state[i] + state[j]) % 256])
    return bytes(out)
