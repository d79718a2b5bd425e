"""EAP's keys on their way from RADIUS to an access point (RFC 2548 §2.4.2, §2.4.3).

An Access-Accept has the two halves of EAP's key as MS-MPPE-Recv-Key and MS-MPPE-Send-Key, encrypted
with the secret that both share. hostapd's wired driver makes nothing of them, so they are read
beside it, from the interface towards the server. As hostapd does, it takes keys only from an answer
that the secret has made: its Response Authenticator (RFC 2865 §3) and its Message-Authenticator
(RFC 3579 §3.2) are checked, and so is the request's. All others, and datagrams that are no RADIUS,
are counted, and the request waits for its own answer.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import select
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Self

from caravan.testbed.capture import ETHER_TYPE_IPV4, RADIUS_PORT, Frame
from caravan.testbed.dot1x.exchange import (
    ACCESS_ACCEPT,
    ACCESS_REQUEST,
    CALLING_STATION_ID,
    RADIUS_HEADER_BYTES,
    Tap,
    radius_attributes,
)
from caravan.testbed.errors import NamespaceError
from caravan.testbed.host import Host

VENDOR_SPECIFIC = 26
MESSAGE_AUTHENTICATOR = 80
AUTHENTICATOR = slice(4, 20)
DIGEST_BYTES = 16
MICROSOFT = 311
SEND_KEY, RECV_KEY = 16, 17
BLOCK_BYTES = 16
SALT_BYTES = 2
MSK_BYTES = 64
REQUESTS_MAX = 256
"""Requests that wait for an answer: as many as there are identifiers of one port."""
END_S = 5.0


class RadiusReader:
    """Reads datagrams of UDP for the keys in them, and counts those that bring none."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._requests: dict[tuple[int, int], tuple[bytes, str]] = {}
        self.forged = 0
        """Requests, and answers to them, that the secret has not made."""
        self.malformed = 0
        """Datagrams that cannot be read."""

    def read(self, datagram: bytes) -> tuple[bytes, str] | None:
        """The key (MSK) that a datagram brings, and the Ethernet address whose it is."""
        try:
            return self._read(datagram)
        except (ValueError, IndexError, struct.error, NamespaceError):
            self.malformed += 1
            return None

    def _read(self, datagram: bytes) -> tuple[bytes, str] | None:
        source, destination = struct.unpack_from("!HH", datagram)
        if RADIUS_PORT not in (source, destination):
            return None
        packet = radius_packet(datagram[8:])
        code, identifier = packet[:2]
        if code == ACCESS_REQUEST and destination == RADIUS_PORT:
            if not is_signed(packet, packet[AUTHENTICATOR], self._secret):
                self.forged += 1
                return None
            station = radius_attributes(packet).get(CALLING_STATION_ID)
            if station is not None:
                name = station.decode("ascii").replace("-", ":").lower()
                self._wait(source, identifier, packet[AUTHENTICATOR], name)
        elif code == ACCESS_ACCEPT and source == RADIUS_PORT:
            asked = self._requests.get((destination, identifier))
            if asked is None:
                return None
            authenticator, station_name = asked
            if not is_genuine(packet, authenticator, self._secret):
                self.forged += 1
                return None
            del self._requests[destination, identifier]
            key = session_key(packet, authenticator, self._secret)
            return None if key is None else (key, station_name)
        return None

    def _wait(self, port: int, identifier: int, authenticator: bytes, station: str) -> None:
        """Note a request; the oldest one makes room."""
        self._requests.pop((port, identifier), None)
        if len(self._requests) == REQUESTS_MAX:
            del self._requests[next(iter(self._requests))]
        self._requests[port, identifier] = authenticator, station


class RadiusKeys:
    """A thread that reads RADIUS on an interface of a host.

    `give` gets each station's key (MSK) of 64 octets, with the station's Ethernet address.
    """

    def __init__(
        self, host: Host, interface: str, secret: str, give: Callable[[bytes, str], None]
    ) -> None:
        self.reader = RadiusReader(secret.encode())
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
                for frame in self._tap.read():
                    self._hear(frame)
        except BaseException as fault:
            self._fault = fault

    def _hear(self, frame: Frame) -> None:
        if frame.ether_type != ETHER_TYPE_IPV4:
            return
        found = self.reader.read(frame.payload)
        if found is not None:
            self._give(*found)


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
