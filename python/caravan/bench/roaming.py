"""A move with MOBIKE, and a NAT that forgets: two Caravans, and strongSwan at both ends.

A station has two access networks behind NATs, and the gateway is 20 ms away (`testbed.roaming`). A
move takes the old link away and puts the default route on the new one in the same moment. Through
it all, a server sends the station a datagram every millisecond, and the station sends it a small
one every two, so that the gateway sends more than three times what it gets. Nothing is pinned.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import socket
import statistics
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self

from caravan.testbed.caravan import Caravan
from caravan.testbed.connection import Connection
from caravan.testbed.errors import TimedOut
from caravan.testbed.host import Host
from caravan.testbed.remote_access import (
    GATEWAY_ADDRESS,
    INNER_POOL,
    PRIVATE_NETWORK,
    SERVER_ADDRESS,
)
from caravan.testbed.roaming import CELL, DELAY_MS, WIFI, RoamNetwork
from caravan.testbed.strongswan import StrongSwan
from caravan.threeways.measurement import Keys

PORT = 5600
DOWN_INTERVAL_S, DOWN_BYTES = 0.001, 1000
UP_EVERY, UP_BYTES = 2, 60
"""In downward datagrams."""
BUFFER_BYTES = 16 << 20
BEFORE_S, AFTER_S = 0.3, 2.5
"""How long the datagrams flow before a move, and after it."""
LATE_S = DELAY_MS / 1000 + 0.03
"""A datagram that takes longer has waited for something."""
SETTLED_S = 0.5
"""So long after the first datagram, what is late or lost has another reason."""
ANSWER_S = 15.0
PROPOSALS = "aes128gcm16-prfsha256-curve25519", "aes128gcm16"
"""Both programs have them."""
SO_TIMESTAMPNS, SO_RCVBUFFORCE = 35, 33
"""asm-generic/socket.h."""
STAMP = struct.Struct("@qq")
NUMBER = struct.Struct("!Q")


@dataclass(frozen=True)
class Way:
    """One direction through a move, in seconds after the new route was there.

    `first_s`: the first datagram that came over the new path. `whole_s`: the first one from which
    on all came, and in time. None: there is none while it was measured.
    """

    first_s: float | None
    whole_s: float | None


@dataclass(frozen=True)
class Move:
    """Both directions of one move."""

    up: Way
    down: Way


@dataclass(frozen=True)
class Roam:
    """The moves of a system between two networks, and the rebindings of a NAT."""

    system: str
    moves: Sequence[Move]
    rebindings: Sequence[Move]


def median_ms(moves: Sequence[Move], of: Callable[[Move], float | None]) -> float | None:
    """The median in ms; None if it is that of a move after which nothing came."""
    found = statistics.median_high(
        float("inf") if (each := of(move)) is None else each for move in moves
    )
    return None if found == float("inf") else found * 1e3


def measure(keys: Keys, output: Path, moves: int, rebindings: int) -> list[Roam]:
    """Both systems, one after the other."""
    return [
        _measured(name, up, keys, output / name, (moves, rebindings))
        for name, up in (("caravan", _caravan), ("strongSwan", _strongswan))
    ]


def way(
    sent: Mapping[int, float], came: Mapping[int, float], moment: float, *, is_down: bool
) -> Way:
    """One direction: when each datagram was sent, and when those that came did.

    What was under way upwards still arrives by the old path. Downwards it dies with the link.
    """
    after = sorted(
        (at, number)
        for number, at in came.items()
        if at > moment and (is_down or sent[number] > moment)
    )
    if not after:
        return Way(None, None)
    first_at, first = after[0]
    # Those at the end may be under way.
    until = min(first_at + SETTLED_S, max(sent.values()) - LATE_S)
    due = [number for number, at in sent.items() if number >= first and at < until]
    bad = [number for number in due if came.get(number, math.inf) - sent[number] > LATE_S]
    whole = min((at for at, number in after if not bad or number > bad[-1]), default=None)
    return Way(first_at - moment, None if whole is None else whole - moment)


def _ends(keys: Keys) -> tuple[Connection, Connection]:
    proposals, esp = PROPOSALS
    gateway = Connection(
        keys.gateway,
        local_id="sg.example",
        proposals=proposals,
        esp_proposals=esp,
        local_ts=PRIVATE_NETWORK,
        pool=INNER_POOL,
        is_legacy=False,
        version=2,
    )
    station = Connection(
        keys.station,
        local_id="ms.example",
        remote_id="sg.example",
        proposals=proposals,
        esp_proposals=esp,
        remote_addrs=GATEWAY_ADDRESS,
        remote_ts=PRIVATE_NETWORK,
        wants_address=True,
        is_legacy=False,
        version=2,
    )
    return gateway, station


@contextlib.contextmanager
def _caravan(network: RoamNetwork, keys: Keys) -> Iterator[str]:
    """Both ends; the result is the inner address."""
    gateway, station = _ends(keys)
    with Caravan(network.sg, gateway, log_level="info") as responder:
        responder.wait_ready()
        with Caravan(network.ms, station, log_level="info") as initiator:
            initiator.wait_ready()
            ((session,),) = (one["sessions"] for one in initiator.status()["connections"])
            yield str(session["inner"][0])


@contextlib.contextmanager
def _strongswan(network: RoamNetwork, keys: Keys) -> Iterator[str]:
    """The same with charon."""
    gateway, station = _ends(keys)
    with StrongSwan(network.sg, gateway), StrongSwan(network.ms, station) as initiator:
        initiator.initiate()
        (sa,) = initiator.sas()
        yield sa.vips[0]


def _measured(
    name: str,
    up: Callable[[RoamNetwork, Keys], contextlib.AbstractContextManager[str]],
    keys: Keys,
    output: Path,
    counts: tuple[int, int],
) -> Roam:
    with RoamNetwork(output) as network, up(network, keys) as inner:
        places = itertools.islice(itertools.cycle((CELL, WIFI)), counts[0])
        moves = [_observed(network, inner, partial(network.move, to)) for to in places]
        rebindings: list[Move] = []
        # Nothing comes any more if the gateway does not follow.
        while len(rebindings) < counts[1] and (not rebindings or rebindings[-1].down.whole_s):
            nat = network.nats[network.at.name]
            rebindings.append(_observed(network, inner, nat.rebind))
        return Roam(name, moves, rebindings)


def _observed(network: RoamNetwork, inner: str, change: Callable[[], float]) -> Move:
    """What both directions see of a change; it returns the moment when it is done."""
    up, down = _Socket(network.ms, inner), _Socket(network.server, SERVER_ADDRESS)
    with contextlib.closing(up), contextlib.closing(down):
        with _Flow(up, down) as flow:
            flow.wait_for_both()
            time.sleep(BEFORE_S)
            moment = change()
            time.sleep(AFTER_S)
        return Move(
            way(flow.up_sent, down.came(), moment, is_down=False),
            way(flow.down_sent, up.came(), moment, is_down=True),
        )


class _Socket:
    """A UDP socket of a host that stamps what comes."""

    def __init__(self, host: Host, address: str) -> None:
        with host.entered():
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with contextlib.suppress(PermissionError):
            self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._socket.bind((address, PORT))
        self._socket.setblocking(False)
        self.address = address
        self._came: dict[int, float] = {}

    def send(self, number: int, size_bytes: int, to: str) -> None:
        """Without a link there is nothing to send on: the datagram is lost."""
        with contextlib.suppress(OSError):
            self._socket.sendto(NUMBER.pack(number).ljust(size_bytes, b"\0"), (to, PORT))

    def came(self) -> dict[int, float]:
        """When each number came."""
        with contextlib.suppress(BlockingIOError):
            while True:
                try:
                    data, ancillary, _, _ = self._socket.recvmsg(NUMBER.size, 64)
                except ConnectionRefusedError:
                    # The other end has closed its socket of the last move.
                    continue
                ((_, _, stamp),) = ancillary
                seconds, nanoseconds = STAMP.unpack(stamp)
                (number,) = NUMBER.unpack(data)
                self._came[number] = seconds + nanoseconds / 1e9
        return self._came

    def close(self) -> None:
        self._socket.close()


@dataclass
class _Flow:
    """A thread that sends both ways; when each number was sent."""

    up: _Socket
    down: _Socket
    up_sent: dict[int, float] = field(default_factory=dict)
    down_sent: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._send)

    def _send(self) -> None:
        began = time.monotonic()
        for number in itertools.count():
            due = began + number * DOWN_INTERVAL_S
            if self._is_over.wait(max(0.0, due - time.monotonic())):
                return
            self.down_sent[number] = time.time()
            self.down.send(number, DOWN_BYTES, self.up.address)
            if number % UP_EVERY == 0:
                self.up_sent[number] = time.time()
                self.up.send(number, UP_BYTES, self.down.address)

    def wait_for_both(self) -> None:
        """Wait until something comes at either end."""
        deadline = time.monotonic() + ANSWER_S
        while not (self.up.came() and self.down.came()):
            if time.monotonic() > deadline:
                raise TimedOut(f"nothing comes through the tunnel in {ANSWER_S} s")
            time.sleep(0.01)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
