"""The end of flows on a host: it answers every other end, and begins the flows that it is told.

Run by path; it starts at once because it imports nothing of Caravan. `traffic_end.py [CERTIFICATE
KEY AUTHORITY]` prints `ready`, and then an answer as JSON for each line of its standard input:

- `tcp ADDRESS SECONDS BUFFER` sends by TCP for so long, with a buffer of so many bytes; `tls-1.2`
  and `tls-1.3` do the same by TLS. It tells how many bytes a second the other end acknowledges,
  and `setup_s`, what the handshake of TLS took.
- `udp ADDRESS SECONDS BYTES WINDOW [cut]` sends datagrams with so much payload, and waits while
  WINDOW of them are under way, so that no queue overflows: the rate is that at which the path
  carries them. With `cut` the network may cut them into fragments. It tells how many bytes a second
  the other end reports.
- `connect ADDRESS COUNT [SECONDS]` connects by TCP, ends the connection, and connects again. It
  tells the seconds of each, from the first packet to its answer; one that is not answered in so
  many seconds, or `LOST_S`, is None.
- `echo ADDRESS COUNT BYTES` sends datagrams, each when the last one has come back, and tells the
  seconds of each; one that does not come back in `LOST_S` is None.

Both count while they go on sending, UDP whole windows: on a link that both directions share, the
last packets under way have it for themselves, and those of a window come in two groups. Left out:
more than one flow at a time to one end.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import ssl
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

TCP_PORT, UDP_PORT = 5001, 5002
TLS_PORTS = {"tls-1.2": (5012, ssl.TLSVersion.TLSv1_2), "tls-1.3": (5013, ssl.TLSVersion.TLSv1_3)}
CHUNK = bytes(1 << 15)
CHUNKS_A_BUFFER = 2
"""By TCP a program writes less than its buffer holds, and counts after each write."""
CHUNK_BYTES = 1 << 16
SEGMENT_BYTES, TIMESTAMP_BYTES = 1200, 12
"""Data in a full segment of TCP: it fits every tunnel in every other, so no path has to be learned.
"""
EARLY_BYTES = 1 << 14
REPORTS_A_WINDOW, COUNTS = 2, 4
"""The least for a rate."""
BYTES_ACKED = slice(120, 128)
"""Of `struct tcp_info`, linux/tcp.h."""
LOST_S = 0.25
SILENT_S = 5.0
TRIES = 20
DATA, END, ECHO = 1, 2, 3
IP_MTU_DISCOVER, IP_PMTUDISC_DONT = 10, 0
CUT = "cut"
RESET = struct.pack("ii", 1, 0)
"""Of SO_LINGER: to close a connection is to reset it."""
ROUNDS_APART = 2
"""Packets that go one way take less than so many rounds."""
HEAD, REPORT = struct.Struct("!BxHIQ"), struct.Struct("!IIQQQQ")
"""Of a datagram: its kind, after how many of them a report is wanted, its flow and number. Of a
report: whether it answers an end, its flow, the last number, how many datagrams and bytes came, and
when, in nanoseconds of the other end's clock.
"""
Answer = dict[str, Any]


class Server:
    """What answers other ends."""

    def __init__(self, credentials: list[str]) -> None:
        self.selector = selectors.DefaultSelector()
        self._flow: list[int] = [0] * 4
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self._udp.bind(("", UDP_PORT))
        self.selector.register(self._udp, selectors.EVENT_READ, self._datagrams)
        self._listen(TCP_PORT, None)
        for port, version in TLS_PORTS.values() if credentials else ():
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.minimum_version = context.maximum_version = version
            context.load_cert_chain(*credentials[:2])
            self._listen(port, context)

    def _listen(self, port: int, context: ssl.SSLContext | None) -> None:
        listener = socket.create_server(("", port))

        def accept() -> None:
            link, _ = listener.accept()
            link.settimeout(SILENT_S)
            if context is None:
                # As much as a record of TLS: TCP acknowledges more often if a program reads less.
                link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, EARLY_BYTES)
            with contextlib.suppress(OSError), link:
                take(link, context)

        self.selector.register(listener, selectors.EVENT_READ, accept)

    def _datagrams(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                self._datagram(*self._udp.recvfrom(CHUNK_BYTES, socket.MSG_DONTWAIT))

    def _datagram(self, payload: bytes, sender: tuple[str, int]) -> None:
        if len(payload) < HEAD.size:
            return
        kind, reported, flow, number = HEAD.unpack_from(payload)
        if kind == ECHO:
            self._udp.sendto(payload, sender)
            return
        if kind == DATA:
            if flow != self._flow[0]:
                self._flow = [flow, 0, 0, 0]
            at = self._flow
            at[1], at[2], at[3] = max(at[1], number), at[2] + 1, at[3] + len(payload)
        is_due = reported > 0 and number % reported == 0
        if (kind == END or is_due) and flow == self._flow[0]:
            came_ns = time.monotonic_ns()
            self._udp.sendto(REPORT.pack(kind == END, *self._flow, came_ns), sender)


def take(link: socket.socket, context: ssl.SSLContext | None) -> None:
    """Take what comes until its end, and tell the sender how much it was."""
    own = link if context is None else context.wrap_socket(link, server_side=True)
    count = 0
    while chunk := own.recv(CHUNK_BYTES):
        count += len(chunk)
        if context is not None and chunk.endswith(b"\1"):
            break
    own.sendall(json.dumps({"came": count}).encode())
    own.shutdown(socket.SHUT_WR)


def tcp(version: str, credentials: list[str], *words: str) -> Answer:
    """Send by TCP, or by TLS in TCP."""
    address, seconds, buffer = words
    port, _ = TLS_PORTS.get(version, (TCP_PORT, None))
    link = socket.socket()
    link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, int(buffer))
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT_BYTES + TIMESTAMP_BYTES)
    link.settimeout(SILENT_S)
    link.connect((address, port))
    began = time.monotonic()
    with link if version == "tcp" else sealed(link, version, credentials) as own:
        setup_s, setup = time.monotonic() - began, acknowledged(own)
        until = time.monotonic() + float(seconds)
        sent = 0
        counts: list[tuple[float, int]] = []
        chunk = CHUNK[: int(buffer) // CHUNKS_A_BUFFER]
        while time.monotonic() < until or len(counts) < COUNTS:
            sent += own.send(chunk)
            came = acknowledged(own)
            if came - setup > EARLY_BYTES:
                counts.append((time.monotonic(), came))
        if version == "tcp":
            own.shutdown(socket.SHUT_WR)
        else:
            sent += own.send(b"\1")
        told = b""
        while answer := own.recv(CHUNK_BYTES):
            told += answer
        if json.loads(told)["came"] != sent:
            raise OSError(f"of {sent} bytes not all came: {told!r}")
        # Records of TLS have more than what they carry.
        share = sent / (acknowledged(own) - setup)
    return {"bytes": sent, "bytes_s": slope(counts) * share, "setup_s": setup_s}


def acknowledged(link: socket.socket) -> int:
    """How many bytes the other end has acknowledged."""
    known = link.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, BYTES_ACKED.stop)
    return int.from_bytes(known[BYTES_ACKED], sys.byteorder)


def sealed(link: socket.socket, version: str, credentials: list[str]) -> ssl.SSLSocket:
    """The end of a client of TLS."""
    context = ssl.create_default_context(cafile=credentials[2])
    context.minimum_version = context.maximum_version = TLS_PORTS[version][1]
    context.check_hostname = False
    return context.wrap_socket(link, suppress_ragged_eofs=True)


def udp(address: str, seconds: str, size: str, window: str, cut: str = "") -> Answer:
    """Send datagrams."""
    wanted = int(window) // REPORTS_A_WINDOW
    flow = time.monotonic_ns() & 0xFFFF_FFFF or 1
    rest = bytes(int(size) - HEAD.size)
    number = told = stalls = came = 0
    reports: list[tuple[float, int]] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        if cut == CUT:
            link.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DONT)
        link.connect((address, UDP_PORT))
        link.settimeout(LOST_S)
        until = time.monotonic() + float(seconds)
        while time.monotonic() < until or len(reports) < 2 * REPORTS_A_WINDOW:
            if number - told < int(window):
                number += 1
                link.send(HEAD.pack(DATA, wanted, flow, number) + rest)
                continue
            try:
                _, _, last, _, came, came_ns = report(link, flow)
                # By the clock of who took them: what delays a report on its way does not count.
                reports.append((came_ns / 1e9, came))
                told = max(told, last)
            except TimeoutError:
                stalls, told = stalls + 1, number
                if stalls > TRIES:
                    raise OSError("no report comes") from None
        lost = number - ask(link, flow)[3]
    whole = [slope(reports[first::REPORTS_A_WINDOW]) for first in range(REPORTS_A_WINDOW)]
    rate = sum(whole) / len(whole)
    return {"bytes": came, "bytes_s": rate, "lost": lost, "stalls": stalls}


def slope(counts: list[tuple[float, int]]) -> float:
    """By how much a count grows in a second: least squares, so that no two moments decide it."""
    times, values = zip(*counts, strict=True)
    middle, mean = sum(times) / len(times), sum(values) / len(values)
    spread = sum((at - middle) ** 2 for at in times)
    return float(sum((at - middle) * (it - mean) for at, it in counts) / spread)


def ask(link: socket.socket, flow: int) -> tuple[int, ...]:
    """End a flow: the report of everything that came."""
    for _ in range(TRIES):
        link.send(HEAD.pack(END, 1, flow, 0))
        with contextlib.suppress(TimeoutError):
            while not (found := report(link, flow))[0]:
                pass
            return found
    raise OSError("the other end has not told what came")


def report(link: socket.socket, flow: int) -> tuple[int, ...]:
    """The next report of a flow."""
    while True:
        payload = link.recv(CHUNK_BYTES)
        if len(payload) == REPORT.size and (found := REPORT.unpack(payload))[1] == flow:
            return found


def echo(address: str, count: str, size: str) -> Answer:
    """Send datagrams that come back."""
    flow = time.monotonic_ns() & 0xFFFF_FFFF
    found: list[float | None] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        link.settimeout(LOST_S)
        for number in range(int(count)):
            payload = HEAD.pack(ECHO, 0, flow, number).ljust(int(size), b"\0")
            began = time.monotonic_ns()
            try:
                # A node that has just come may have no route yet.
                link.connect((address, UDP_PORT))
                link.send(payload)
                while link.recv(CHUNK_BYTES) != payload:
                    pass
                found.append((time.monotonic_ns() - began) / 1e9)
            except OSError:
                found.append(None)
                time.sleep(0.01)
    return {"seconds": found}


def connect(address: str, count: str, lost_s: str = "") -> Answer:
    """Make connections by TCP, and reset each: that is one packet, and nobody answers it. The last
    two packets of one have left the path before the next begins."""
    found: list[float | None] = []
    for _ in range(int(count)):
        with socket.socket() as link:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            link.settimeout(float(lost_s or LOST_S))
            began = time.monotonic()
            try:
                link.connect((address, TCP_PORT))
                found.append(time.monotonic() - began)
            except OSError:
                found.append(None)
        time.sleep(ROUNDS_APART * (time.monotonic() - began))
    return {"seconds": found}


def obey(line: str, credentials: list[str]) -> Answer:
    """Carry an order out."""
    command, *words = line.split()
    try:
        if command == "udp":
            return udp(*words)
        if command == "echo":
            return echo(*words)
        if command == "connect":
            return connect(*words)
        return tcp(command, credentials, *words)
    except (OSError, ValueError) as fault:
        return {"fault": f"{command}: {fault}"}


def main(*credentials: str) -> None:
    """Answer, and obey."""
    server = Server(list(credentials))

    def order() -> None:
        line = sys.stdin.readline()
        if not line:
            raise SystemExit
        print(json.dumps(obey(line, list(credentials))), flush=True)

    server.selector.register(sys.stdin, selectors.EVENT_READ, order)
    print("ready", flush=True)
    while True:
        for key, _ in server.selector.select():
            call: Callable[[], None] = key.data
            call()


if __name__ == "__main__":
    main(*sys.argv[1:])
