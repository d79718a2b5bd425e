"""The frames of an authentication: EAPOL at the station, RADIUS at the access point.

A tap is a socket whose kernel buffer holds the few frames of an exchange, each with the kernel's
time, until they are read: nothing runs beside the programs that are measured.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import itertools
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

from caravan.testbed.capture import (
    ETHER_TYPE_EAPOL,
    ETHER_TYPE_IPV4,
    ETHERNET_BYTES,
    IPPROTO_UDP,
    RADIUS_PORT,
    Frame,
)
from caravan.testbed.errors import NamespaceError
from caravan.testbed.host import Host

ETH_P_ALL = 3
SO_ATTACH_FILTER, SO_RCVBUFFORCE, SO_TIMESTAMPNS = 26, 33, 35
SOL_PACKET, PACKET_STATISTICS = 263, 6
BUFFER_BYTES = 4 << 20
FRAME_BYTES = 1 << 16
READ_FRAMES_MAX = 1 << 16
"""More than the buffer holds: whoever sends as fast as a reader reads does not keep it for ever."""
# EAPOL's packet types (IEEE 802.1X-2010 §11.3.2), and codes and types of EAP (RFC 3748 §4, §5).
EAPOL_HEADER_BYTES = 4
EAPOL_EAP, EAPOL_START, EAPOL_LOGOFF = 0, 1, 2
EAP_REQUEST, EAP_RESPONSE, EAP_SUCCESS, EAP_FAILURE = 1, 2, 3, 4
EAP_HEADER_BYTES = 4

# Codes and attributes of RADIUS (RFC 2865 §3, §5).
RADIUS_HEADER_BYTES = 20
ACCESS_REQUEST, ACCESS_ACCEPT, ACCESS_REJECT, ACCESS_CHALLENGE = 1, 2, 3, 11
CALLING_STATION_ID = 31

Read = TypeVar("Read")


@dataclass(frozen=True)
class Eapol:
    """A frame of EAPOL; `code` and `identifier` are those of EAP, if it carries EAP."""

    time_s: float
    source: str
    destination: str
    kind: int
    code: int
    identifier: int
    size_bytes: int
    """Of the Ethernet frame, without padding and FCS."""


@dataclass(frozen=True)
class Radius:
    """A packet of RADIUS; `port` is that of the access point."""

    time_s: float
    code: int
    identifier: int
    port: int
    station: str | None
    """The Ethernet address in its Calling-Station-Id."""
    size_bytes: int
    """Of the Ethernet frame, without padding and FCS."""


@dataclass(frozen=True)
class Exchange:
    """One authentication on the links, from its first frame to EAP's success or failure.

    `rounds` are EAP requests that were answered, the identity's with them. `supplicant_s` and
    `server_s` are the parts of the time in which the station, and the RADIUS server with the
    network before it, had to answer. `starts` are EAPOL-Starts among the frames.
    """

    began_s: float
    ended_s: float
    is_success: bool
    rounds: int
    starts: int
    eapol_frames: int
    eapol_bytes: int
    radius_packets: int
    radius_bytes: int
    supplicant_s: float
    server_s: float
    unreadable: int
    """Frames of the two taps that say they are EAPOL or RADIUS and cannot be read: nobody's."""


class Tap:
    """EAPOL and UDP of one port on an interface of a host, from construction on.

    `has_everything`: every frame there.
    """

    def __init__(
        self,
        host: Host,
        interface: str,
        *,
        port: int = RADIUS_PORT,
        has_everything: bool = False,
    ) -> None:
        self._name = f"{host.role}, {interface}"
        with host.entered():
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        # Only the machine's real root may exceed the limit.
        with contextlib.suppress(PermissionError):
            self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
        if not has_everything:
            self._filter(port)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._socket.setblocking(False)
        self._socket.bind((interface, ETH_P_ALL))
        _await_kernel_times(host)

    def fileno(self) -> int:
        """Of the socket, to wait for frames."""
        return self._socket.fileno()

    def read(self) -> list[Frame]:
        """The frames since the last call; `NamespaceError` if the buffer was too small, or they
        are more than `READ_FRAMES_MAX`."""
        found, lost = self.read_some(READ_FRAMES_MAX)
        if lost:
            raise NamespaceError(f"{self._name}: {lost} frames were not captured")
        if len(found) == READ_FRAMES_MAX:
            raise NamespaceError(f"{self._name}: a read has at most {READ_FRAMES_MAX} frames")
        return found

    def read_some(self, frames_max: int) -> tuple[list[Frame], int]:
        """At most so many frames, and how many more the buffer had no room for since the last
        call. A link that goes down is no fault: it may come up again."""
        found: list[Frame] = []
        with contextlib.suppress(BlockingIOError):
            while len(found) < frames_max:
                try:
                    data, ancillary, _, _ = self._socket.recvmsg(FRAME_BYTES, 64)
                except OSError as fault:
                    # Reported once when the interface goes down.
                    if fault.errno != errno.ENETDOWN:
                        raise
                    continue
                found.append(Frame(_stamp(ancillary), data))
        counts = self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8)
        _, lost = struct.unpack("=II", counts)
        return found, int(lost)

    def _filter(self, port: int) -> None:
        statements = _filter(port)
        code = ctypes.create_string_buffer(
            b"".join(struct.pack("=HBBI", *one) for one in statements)
        )
        program = struct.pack("HP", len(statements), ctypes.addressof(code))
        self._socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)

    def close(self) -> None:
        """Nobody reads from it any more. The socket ends soon afterwards."""
        # The kernel lets a packet socket go when every processor has seen it: ten milliseconds that
        # nobody has to wait for.
        threading.Thread(target=self._socket.close, name="close tap").start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _filter(port: int) -> tuple[tuple[int, int, int, int], ...]:
    """EAPOL, and UDP of a port in IPv4 without options.

    Statements of classic BPF, linux/filter.h: code, jumps if true and false, value.
    """
    return (
        (0x28, 0, 0, 12),
        (0x15, 7, 0, ETHER_TYPE_EAPOL),
        (0x15, 0, 7, ETHER_TYPE_IPV4),
        (0x30, 0, 0, 23),
        (0x15, 0, 5, IPPROTO_UDP),
        (0x28, 0, 0, 34),
        (0x15, 2, 0, port),
        (0x28, 0, 0, 36),
        (0x15, 0, 1, port),
        (0x06, 0, 0, FRAME_BYTES),
        (0x06, 0, 0, 0),
    )


def _await_kernel_times(host: Host) -> None:
    """Wait until the kernel notes when frames come, which begins some time after it was asked to.

    Before that, a frame has the time at which it was read.
    """
    with host.entered():
        probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with probe:
        probe.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        probe.bind(("127.0.0.1", 0))
        is_noted = False
        while not is_noted:
            probe.sendto(b"", probe.getsockname())
            time.sleep(0.001)
            reading_s = time.time()
            _, ancillary, _, _ = probe.recvmsg(1, 64)
            is_noted = _stamp(ancillary) < reading_s


def _stamp(ancillary: Sequence[tuple[int, int, bytes]]) -> float:
    ((_, _, value),) = ancillary
    seconds, nanoseconds = struct.unpack("=qq", value[:16])
    return float(seconds + nanoseconds / 1e9)


def eapol(frames: Sequence[Frame]) -> list[Eapol]:
    """The frames of EAPOL among these that can be read."""
    found = (_read(_eapol, one) for one in frames if one.ether_type == ETHER_TYPE_EAPOL)
    return [one for one in found if one is not None]


def radius(frames: Sequence[Frame]) -> list[Radius]:
    """The packets of RADIUS among these that can be read."""
    found = (_read(_radius, one) for one in frames if one.ether_type == ETHER_TYPE_IPV4)
    return [one for one in found if one is not None]


def _read(reader: Callable[[Frame], Read], frame: Frame) -> Read | None:
    """What is in a frame; None for one that is too short, or has what is no text."""
    try:
        return reader(frame)
    except (ValueError, IndexError, struct.error):
        return None


def unreadable(frames: Sequence[Frame]) -> int:
    """How many of these say that they are EAPOL or IPv4, and cannot be read."""
    said = sum(one.ether_type in (ETHER_TYPE_EAPOL, ETHER_TYPE_IPV4) for one in frames)
    return said - len(eapol(frames)) - len(radius(frames))


def find_exchange(
    station: str, at_station: Sequence[Frame], at_access_point: Sequence[Frame] = ()
) -> Exchange | None:
    """The first exchange of a station that has ended, in the frames of two taps."""
    mine = [one for one in eapol(at_station) if station in (one.source, one.destination)]
    ends = [at for at, one in enumerate(mine) if one.code in (EAP_SUCCESS, EAP_FAILURE)]
    if not ends:
        return None
    mine = mine[: ends[0] + 1]
    began_s, ended_s = mine[0].time_s, mine[-1].time_s
    asked = _answered(radius(at_access_point), station)
    during = [pair for pair in asked if began_s <= pair[0].time_s <= ended_s]
    pairs = [
        (one, other)
        for one, other in itertools.pairwise(mine)
        if (one.code, other.code) == (EAP_REQUEST, EAP_RESPONSE)
        and one.identifier == other.identifier
    ]
    return Exchange(
        began_s,
        ended_s,
        mine[-1].code == EAP_SUCCESS,
        rounds=len(pairs),
        starts=sum(one.kind == EAPOL_START for one in mine),
        eapol_frames=len(mine),
        eapol_bytes=sum(one.size_bytes for one in mine),
        radius_packets=2 * len(during),
        radius_bytes=sum(one.size_bytes for pair in during for one in pair),
        supplicant_s=sum(other.time_s - one.time_s for one, other in pairs),
        server_s=sum(answer.time_s - request.time_s for request, answer in during),
        unreadable=unreadable(at_station) + unreadable(at_access_point),
    )


def _answered(packets: Sequence[Radius], station: str) -> list[tuple[Radius, Radius]]:
    found = []
    waiting: dict[tuple[int, int], Radius] = {}
    for one in packets:
        key = (one.port, one.identifier)
        if one.code == ACCESS_REQUEST and one.station == station:
            waiting[key] = one
        elif one.code != ACCESS_REQUEST and key in waiting:
            found.append((waiting.pop(key), one))
    return found


def _eapol(frame: Frame) -> Eapol:
    data = frame.data
    kind, length = struct.unpack_from("!xBH", data, ETHERNET_BYTES)
    start = ETHERNET_BYTES + EAPOL_HEADER_BYTES
    if len(data) < start + length:
        raise ValueError(f"a frame of {len(data)} octets has {length} of EAPOL")
    has_eap = kind == EAPOL_EAP and len(data) >= start + EAP_HEADER_BYTES
    code, identifier = data[start : start + 2] if has_eap else (0, 0)
    source, destination = data[6:12].hex(":"), data[:6].hex(":")
    return Eapol(frame.time_s, source, destination, kind, code, identifier, start + length)


def _radius(frame: Frame) -> Radius:
    source, destination, _, _ = struct.unpack_from("!HHHH", frame.payload)
    packet = frame.payload[8:]
    code, identifier = packet[:2]
    port = destination if source == RADIUS_PORT else source
    station = radius_attributes(packet).get(CALLING_STATION_ID)
    name = None if station is None else station.decode().replace("-", ":").lower()
    return Radius(frame.time_s, code, identifier, port, name, len(frame.data))


def radius_attributes(packet: bytes) -> dict[int, bytes]:
    """The attributes of a RADIUS packet by number; of several with one number, all in one."""
    found: dict[int, bytes] = {}
    at = RADIUS_HEADER_BYTES
    while at + 2 <= len(packet) and packet[at + 1] >= 2:
        number, length = packet[at], packet[at + 1]
        found[number] = found.get(number, b"") + packet[at + 2 : at + length]
        at += length
    return found
