"""Moves of a node in the successors of the mobile private network, in namespaces with the real
program: what its messages are on the wires, and until data comes again.

A gap begins when the node has address and router on its new link, without an address when it sees
the link, and ends with the first packet for its programs: its correspondent sends an echo request
every 2 ms. Messages are those of IKE outside, before the gateway, and those of registrations,
before the home agents. So what nobody hears is left out, such as what a node outside asks in clear,
and what the tunnel's ends say to each other while the node is inside: no data waits for that.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path
from typing import Self

from caravan.testbed import mvpn_gateway, mvpn_outside
from caravan.testbed.capture import IKE_EXCHANGE, IPPROTO_UDP, Capture, Frame
from caravan.testbed.errors import TimedOut
from caravan.testbed.host import Host
from caravan.testbed.mobile_ip import MOBILE, Place, Role, Settings
from caravan.testbed.mvpn import OUTSIDE, Move, Mvpn
from caravan.testbed.mvpn_gateway import AT_HOME, is_inside
from caravan.testbed.process import Process
from caravan.testbed.relay import LinkConfig

STAY_S = 1.0
"""Between two moves."""
ECHO_INTERVAL_S = 0.002
COMES_S = 30.0
"""In which data comes after a move."""
POLL_S = 0.05
SO_TIMESTAMPNS = 35
ECHO_REQUEST = 8
IKE_FLAGS, IKE_RESPONSE = 19, 0x20
IKE_SESSION, IKE_NUMBER, IKE_SA_INIT = slice(8), slice(20, 24), 34
REQUEST_NUMBER = slice(16, 24)
"""The identification of a request (RFC 5944 §3.3)."""
MOBILE_IP_PORT = (434).to_bytes(2)
REQUEST, REPLY = 1, 3
IP_BYTES, UDP_BYTES = 20, 8
AS_OF_RFC_5944 = Settings(association={"algorithm": "hmac-md5"})
"""The program's own default."""


@dataclass(frozen=True)
class Paths:
    """The links that take time: those of gateway and home agent outside, and that of the home agent
    inside. None: as fast as it can."""

    outside: LinkConfig | None = None
    inside: LinkConfig | None = None


@dataclass(frozen=True)
class Seen:
    """A move: how often the node asked, all messages with the fragments of those of IKE, and the
    octets of their IP packets; seconds until data came, and the octets of its packets on the node's
    link."""

    rounds: int
    messages: int
    message_bytes: int
    gap_s: float
    data_bytes: int


@dataclass(frozen=True)
class Message:
    """One message of IKE or of Mobile IP on a wire, or a fragment of one of IKE."""

    time_s: float
    size_bytes: int
    is_asked: bool
    """The node wants an answer."""
    text: bytes
    """Its octets: a repeated one of IKE has the same."""
    number: bytes
    """The same in all fragments, and in no other request."""
    session: bytes = b""
    """Of IKE."""
    is_first: bool = False
    """It begins a session."""


def walked(
    places: Sequence[Place], output: Path, paths: Paths, *, has_agent_outside: bool
) -> list[Seen]:
    """What a node takes that moves through these places, from home on."""
    with _running(output, paths, has_agent_outside=has_agent_outside) as bed:
        return bed.walk(places)


@contextlib.contextmanager
def _running(output: Path, paths: Paths, *, has_agent_outside: bool) -> Iterator[Bed]:
    agent = mvpn_gateway.with_agent_of_visitors(AS_OF_RFC_5944)
    own = mvpn_gateway.with_agent(AS_OF_RFC_5944)
    with contextlib.ExitStack() as running:
        network: Mvpn
        walk: Callable[[Place], Move]
        if has_agent_outside:
            network = wider = running.enter_context(
                mvpn_outside.WithAgentOutside(output, outside=paths.outside, inside=paths.inside)
            )
            mvpn_gateway.add_network_with_agent(network)
            ms = running.enter_context(mvpn_outside.all_roles(wider, agent=agent, own=own)).ms
            running.enter_context(mvpn_outside.foreign_agent(wider)).wait_ready()
            walk = partial(mvpn_outside.walk, wider, ms)
        else:
            network = running.enter_context(
                Mvpn(output, outside=paths.outside, inside=paths.inside)
            )
            mvpn_gateway.add_network_with_agent(network)
            ms = running.enter_context(mvpn_gateway.all_roles(network, agent=agent, node=own)).ms
            walk = partial(mvpn_gateway.walk, network, ms)
        visited = running.enter_context(mvpn_gateway.foreign_agent(network))
        visited.wait_ready()
        yield Bed(network, ms, walk)


class Bed:
    """A network with all roles, and its node at home. `walk` moves it."""

    def __init__(self, network: Mvpn, node: Role, walk: Callable[[Place], Move]) -> None:
        self._network, self._node, self._to = network, node, walk

    def walk(self, places: Sequence[Place]) -> list[Seen]:
        """What each move takes."""
        network, logs = self._network, self._network.output
        agents = [network.ha]
        if isinstance(network, mvpn_outside.WithAgentOutside):
            agents.append(network.xha)
        moves, gaps = [], []
        with Arrivals(network.ms, MOBILE) as arrivals, contextlib.ExitStack() as ears:
            at_agents = [
                ears.enter_context(Capture(host, "eth0", logs / f"at-{host.role}.pcap"))
                for host in agents
            ]
            at_gateway = ears.enter_context(Capture(network.fw, "out0", logs / "at-fw.pcap"))
            at_node = ears.enter_context(Capture(network.ms, "eth0", logs / "at-ms.pcap"))
            echoes = echo(network.cn1)
            arrivals.first_after(time.time())
            for place in places:
                time.sleep(STAY_S)
                moves.append(self._to(place))
                gaps.append(gap_of(self._node, moves[-1], arrivals))
            time.sleep(STAY_S)
            echoes.stop()
        asked = [one for ear in at_agents for one in registrations(ear.frames())]
        negotiated = list(negotiations(at_gateway.frames()))
        card = bytes.fromhex(network.ms.hardware_address("eth0").replace(":", ""))
        data = [frame for frame in at_node.frames() if frame.data[:6] == card]
        ends = [*(move.time_s for move in moves[1:]), time.time()]
        found = []
        for move, gap, end in zip(moves, gaps, ends, strict=True):
            told = of_session([] if is_inside(move.to) else negotiated, move.time_s, end)
            told += [one for one in asked if move.time_s <= one.time_s < end]
            here = [frame for frame in data if move.time_s <= frame.time_s < end]
            found.append(seen(told, here, gap))
        return found


def seen(told: Sequence[Message], data: Sequence[Frame], gap_s: float) -> Seen:
    """A move by its messages, and by what came to the node's link."""
    if not data:
        raise ValueError("no data came to the node after this move")
    ((commonest, _),) = Counter(len(frame.packet) for frame in data).most_common(1)
    return Seen(
        len({one.number for one in told if one.is_asked}),
        len(told),
        sum(one.size_bytes for one in told),
        gap_s,
        commonest,
    )


def of_session(told: Sequence[Message], first_s: float, last_s: float) -> list[Message]:
    """Messages of the node's newest session, each once. An older one may still want to be ended."""
    here = [one for one in told if first_s <= one.time_s < last_s]
    begun = [one.session for one in told if one.time_s < last_s and one.is_first]
    own = {one.text: one for one in here if begun and one.session == begun[-1]}
    return list(own.values())


def negotiations(frames: Sequence[Frame]) -> Iterator[Message]:
    """The messages of IKE with the gateway (RFC 7296 §3.1)."""
    for frame in frames:
        text = frame.ike
        if text is not None and OUTSIDE in (frame.source, frame.destination):
            is_asked = frame.destination == OUTSIDE and not text[IKE_FLAGS] & IKE_RESPONSE
            yield Message(
                frame.time_s,
                len(frame.packet),
                is_asked,
                text,
                number=text[IKE_NUMBER],
                session=text[IKE_SESSION],
                is_first=text[IKE_EXCHANGE] == IKE_SA_INIT,
            )


def registrations(frames: Sequence[Frame]) -> Iterator[Message]:
    """The messages of registrations (RFC 5944 §3.3, §3.4)."""
    for frame in frames:
        udp = frame.payload
        if frame.protocol != IPPROTO_UDP or MOBILE_IP_PORT not in (udp[:2], udp[2:4]):
            continue
        text = udp[UDP_BYTES:]
        if text and text[0] in (REQUEST, REPLY):
            number = text[REQUEST_NUMBER]
            yield Message(frame.time_s, len(frame.packet), text[0] == REQUEST, text, number=number)


class Arrivals:
    """When echo requests came to an address of a host, by the kernel's clock. A context manager."""

    def __init__(self, host: Host, address: str) -> None:
        self._wanted = IPv4Address(address).packed
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._listen)
        self._times_s: list[float] = []
        with host.entered():
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._socket.settimeout(POLL_S)

    def first_after(self, moment_s: float) -> float:
        """When the first one came after a moment. Waits for it."""
        until = time.monotonic() + COMES_S
        while time.monotonic() < until:
            for at in list(self._times_s):
                if at > moment_s:
                    return at
            time.sleep(POLL_S)
        raise TimedOut(f"no echo request came in {COMES_S:g} s")

    def _listen(self) -> None:
        while not self._ended.is_set():
            with contextlib.suppress(TimeoutError):
                packet, ancillary, _, _ = self._socket.recvmsg(2048, 64)
                if packet[16:20] != self._wanted or packet[IP_BYTES] != ECHO_REQUEST:
                    continue
                for level, kind, value in ancillary:
                    if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
                        seconds, nanoseconds = struct.unpack("=qq", value[:16])
                        self._times_s.append(seconds + nanoseconds / 1e9)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._socket.close()


def echo(host: Host) -> Process:
    """Send echo requests to the node's home address."""
    return host.popen(["ping", "-n", "-q", "-i", str(ECHO_INTERVAL_S), MOBILE], name="echo")


def gap_of(node: Role, move: Move, arrivals: Arrivals) -> float:
    """From when the node could send on its new link to the first data there. It may ask before the
    testbed knows that the router is there: then the gap begins with that."""
    found: list[float] = []

    def is_attached() -> bool:
        found[:] = attached_at(node, move)
        return bool(found)

    node.process.wait_for(is_attached, "attached", COMES_S)
    came_s = arrivals.first_after(found[0])
    asked = [at for at in found[1:] if at < came_s]
    began_s = found[0]
    if move.to != AT_HOME and move.to.address is not None:
        began_s = max(began_s, min([move.settled_s, *asked[-1:]]))
    return came_s - began_s


def attached_at(node: Role, move: Move) -> list[float]:
    """When the node saw its new address, or at home and with an agent the link, and when it asked
    again because a request was not sent."""
    words = "attached elsewhere, with the address"
    if move.to == AT_HOME:
        words = "attached at home"
    elif move.to.address is None:
        words = "attached elsewhere, without an address"
    found: list[float] = []
    for moment, fields in node.events():
        said = str(fields.get("message", ""))
        if moment < move.time_s:
            continue
        if (not found and said.startswith(words)) or (found and said.startswith("asking again")):
            found.append(moment)
    return found
