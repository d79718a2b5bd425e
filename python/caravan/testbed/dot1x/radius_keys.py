"""EAP's keys on their way from RADIUS to an access point (RFC 2548 §2.4.2, §2.4.3).

An Access-Accept has the two halves of EAP's key as MS-MPPE-Recv-Key and MS-MPPE-Send-Key, encrypted
with the secret that both share. hostapd's wired driver makes nothing of them, so they are read
beside it, from the interface towards the server. As hostapd does, it takes keys only from an answer
that the secret has made: its Response Authenticator (RFC 2865 §3) and its Message-Authenticator
(RFC 3579 §3.2) are checked, and so are the request's and the addresses of both. All others, and
datagrams that are no RADIUS, are counted, and the request waits for its own answer.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import select
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Self

from caravan.testbed.capture import ETHER_TYPE_IPV4, RADIUS_PORT, Frame
from caravan.testbed.dot1x.exchange import (
    ACCESS_ACCEPT,
    ACCESS_CHALLENGE,
    ACCESS_REJECT,
    ACCESS_REQUEST,
    CALLING_STATION_ID,
    RADIUS_HEADER_BYTES,
    Tap,
    radius_attributes,
)
from caravan.testbed.errors import NamespaceError
from caravan.testbed.host import Host

ANSWERS = (ACCESS_ACCEPT, ACCESS_REJECT, ACCESS_CHALLENGE)
VENDOR_SPECIFIC = 26
MESSAGE_AUTHENTICATOR = 80
AUTHENTICATOR = slice(4, 20)
DIGEST_BYTES = 16
MICROSOFT = 311
SEND_KEY, RECV_KEY = 16, 17
BLOCK_BYTES = 16
SALT_BYTES = 2
MSK_BYTES = 64
REQUESTS_MAX = 1024
"""Requests that wait for an answer: four times as many as there are identifiers of one port."""
FRAMES_MAX = 256
"""Frames of one read."""
END_S = 5.0


@dataclass(frozen=True)
class Ends:
    """The IPv4 addresses of an access point and of the server that it asks."""

    access_point: str
    server: str


class RadiusReader:
    """Reads frames for the keys of EAP in them, and counts those that bring none.

    A request is known by its port, identifier and authenticator: an older one that somebody sends
    again waits beside the genuine one, and does not take its place.
    """

    def __init__(self, secret: bytes, ends: Ends) -> None:
        self._secret = secret
        self._ends = ends
        self._requests: dict[tuple[int, int, bytes], str] = {}
        self.forged = 0
        """Requests, and answers to them, that the secret has not made."""
        self.malformed = 0
        """Datagrams that cannot be read."""
        self.foreign = 0
        """Datagrams between others than the two ends."""
        self.unasked = 0
        """Answers to requests that were not seen, or that have been answered."""
        self.displaced = 0
        """Requests without an answer that made room for later ones."""

    def read(self, frame: Frame) -> tuple[bytes, str] | None:
        """The key (MSK) that a frame brings, and the Ethernet address whose it is."""
        try:
            return self._read(frame)
        except (ValueError, IndexError, struct.error, NamespaceError):
            self.malformed += 1
            return None

    def _read(self, frame: Frame) -> tuple[bytes, str] | None:
        datagram = frame.payload
        source, destination = struct.unpack_from("!HH", datagram)
        if RADIUS_PORT not in (source, destination):
            return None
        ends = frame.source, frame.destination
        is_request = destination == RADIUS_PORT
        theirs = self._ends.access_point, self._ends.server
        if ends != (theirs if is_request else theirs[::-1]):
            self.foreign += 1
            return None
        packet = radius_packet(datagram[8:])
        if is_request and packet[0] == ACCESS_REQUEST:
            self._ask(source, packet)
        elif not is_request and packet[0] in ANSWERS:
            return self._answer(destination, packet)
        return None

    def _ask(self, port: int, packet: bytes) -> None:
        """Note a request; the oldest one makes room."""
        authenticator = packet[AUTHENTICATOR]
        if not is_signed(packet, authenticator, self._secret):
            self.forged += 1
            return
        station = radius_attributes(packet).get(CALLING_STATION_ID)
        if station is None:
            return
        name = station.decode("ascii").replace("-", ":").lower()
        key = port, packet[1], authenticator
        self._requests.pop(key, None)
        if len(self._requests) == REQUESTS_MAX:
            del self._requests[next(iter(self._requests))]
            self.displaced += 1
        self._requests[key] = name

    def _answer(self, port: int, packet: bytes) -> tuple[bytes, str] | None:
        """The key in an answer, if it is genuine and has one; its request then waits no more."""
        asked = [key for key in self._requests if key[:2] == (port, packet[1])]
        if not asked:
            self.unasked += 1
            return None
        for key in asked:
            authenticator = key[2]
            if is_genuine(packet, authenticator, self._secret):
                station = self._requests.pop(key)
                if packet[0] != ACCESS_ACCEPT:
                    return None
                found = session_key(packet, authenticator, self._secret)
                return None if found is None else (found, station)
        self.forged += 1
        return None


class RadiusKeys:
    """A thread that reads RADIUS on an interface of a host.

    `give` gets each station's key (MSK) of 64 octets, with the station's Ethernet address. Who can
    send there can make frames get lost or a key be refused; this is counted, and the thread goes
    on.
    """

    def __init__(
        self,
        host: Host,
        interface: str,
        secret: str,
        ends: Ends,
        give: Callable[[bytes, str], None],
    ) -> None:
        self.reader = RadiusReader(secret.encode(), ends)
        self.lost = 0
        """Frames that the kernel's buffer had no room for."""
        self.refused = 0
        """Keys that were not taken, as of a station that has left meanwhile."""
        self._give = give
        self._tap = Tap(host, interface)
        self._stop, self._stopped = os.pipe()
        self._fault: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Read no more; what went wrong in the thread is raised here."""
        os.close(self._stopped)
        self._thread.join(END_S)
        os.close(self._stop)
        self._tap.close()
        if self._fault is not None:
            raise self._fault

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        poll = select.poll()
        for handle in (self._tap.fileno(), self._stop):
            poll.register(handle, select.POLLIN)
        try:
            while all(handle != self._stop for handle, _ in poll.poll()):
                # A few at a time, so that a flood does not keep it from its end.
                frames, lost = self._tap.read_some(FRAMES_MAX)
                self.lost += lost
                for frame in frames:
                    self._hear(frame)
        except BaseException as fault:
            self._fault = fault

    def _hear(self, frame: Frame) -> None:
        if frame.ether_type != ETHER_TYPE_IPV4:
            return
        found = self.reader.read(frame)
        if found is None:
            return
        try:
            self._give(*found)
        except (NamespaceError, OSError):
            self.refused += 1


def radius_packet(payload: bytes) -> bytes:
    """The packet in a payload of UDP (RFC 2865 §3). `ValueError` if its length is wrong."""
    (length,) = struct.unpack_from("!H", payload, 2)
    if not RADIUS_HEADER_BYTES <= length <= len(payload):
        raise ValueError(f"a packet of RADIUS of {len(payload)} octets says {length}")
    return payload[:length]


def is_genuine(answer: bytes, authenticator: bytes, secret: bytes) -> bool:
    """Whether the secret has made an answer to the request with this authenticator. An answer that
    carries EAP, as these do, has a Message-Authenticator."""
    asked = answer[:4] + authenticator + answer[RADIUS_HEADER_BYTES:]
    whole = hashlib.md5(asked + secret).digest()
    is_whole = hmac.compare_digest(whole, answer[AUTHENTICATOR])
    return is_signed(answer, authenticator, secret) and is_whole


def is_signed(packet: bytes, authenticator: bytes, secret: bytes) -> bool:
    """Whether the secret has made a packet's Message-Authenticator (RFC 3579 §3.2).

    `authenticator`: that of the request.
    """
    places = [at for at, number, _ in _attributes(packet) if number == MESSAGE_AUTHENTICATOR]
    if len(places) != 1:
        return False
    start = places[0] + 2
    own = packet[start : start + DIGEST_BYTES]
    rest = packet[RADIUS_HEADER_BYTES:start] + bytes(DIGEST_BYTES) + packet[start + DIGEST_BYTES :]
    signed = hmac.digest(secret, packet[:4] + authenticator + rest, "md5")
    return hmac.compare_digest(signed, own)


def session_key(accept: bytes, authenticator: bytes, secret: bytes) -> bytes | None:
    """EAP's key in an Access-Accept, or None if its method has none.

    `authenticator`: that of the request. MS-MPPE-Recv-Key is the first half.
    """
    keys = dict(_microsoft(accept))
    if RECV_KEY not in keys or SEND_KEY not in keys:
        return None
    key = b"".join(decrypt(keys[kind], authenticator, secret) for kind in (RECV_KEY, SEND_KEY))
    if len(key) != MSK_BYTES:
        raise NamespaceError(f"EAP's key has {MSK_BYTES} octets, found {len(key)}")
    return key


def decrypt(value: bytes, authenticator: bytes, secret: bytes) -> bytes:
    """The key in the value of one of the attributes: a salt, then blocks (RFC 2548 §2.4.2)."""
    salt, blocks = value[:SALT_BYTES], value[SALT_BYTES:]
    if len(blocks) == 0 or len(blocks) % BLOCK_BYTES != 0:
        raise NamespaceError(f"an MS-MPPE key has {len(blocks)} octets, which are no blocks")
    clear = b""
    before = authenticator + salt
    for at in range(0, len(blocks), BLOCK_BYTES):
        pad = hashlib.md5(secret + before).digest()
        block = blocks[at : at + BLOCK_BYTES]
        clear += bytes(one ^ other for one, other in zip(block, pad, strict=True))
        before = block
    size = clear[0]
    if size > len(clear) - 1:
        raise NamespaceError("an MS-MPPE key is longer than its value: is the secret the same?")
    return clear[1 : 1 + size]


def _microsoft(packet: bytes) -> Iterator[tuple[int, bytes]]:
    """Microsoft's attributes of a RADIUS packet, by number."""
    for _, number, value in _attributes(packet):
        if number == VENDOR_SPECIFIC and len(value) >= 6:
            (vendor,) = struct.unpack_from("!I", value)
            if vendor == MICROSOFT:
                yield value[4], value[6 : 4 + value[5]]


def _attributes(packet: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Where each attribute of a RADIUS packet begins, its number and its value."""
    at = RADIUS_HEADER_BYTES
    while at + 2 <= len(packet) and packet[at + 1] >= 2:
        number, length = packet[at], packet[at + 1]
        yield at, number, packet[at + 2 : at + length]
        at += length
