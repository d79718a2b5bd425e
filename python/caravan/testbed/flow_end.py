"""One end of a flow: the program that sends or receives, and the results that it prints.

Run by path; it starts at once because it imports nothing of Caravan.

- `flow_end.py send ADDRESS PORT FILE START_NS` sends the numbered datagrams of FILE. Each line has
  nanoseconds after the time START_NS of the monotonic clock, and bytes of the payload.
- `flow_end.py receive FAMILY PORT FILE [ADDRESS]` receives datagrams until SIGTERM. It writes the
  number and the bytes of each to FILE, one per line, in the order of arrival. An empty datagram to
  ADDRESS first opens the way back through a gateway that translates addresses.
- `flow_end.py serve FAMILY PORT BYTES` waits for a TCP client, `flow_end.py connect ADDRESS PORT
  BYTES START_NS` is one from START_NS on. BYTES above 0 are sent, and 0 receives, until the
  transfer ends or SIGTERM comes.

Each line of the output is a result as JSON. `results` reads them.
"""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeAlias

NUMBER_BYTES = 8
SIZE_MAX = 1 << 16
CHUNK_BYTES = 1 << 16
POLL_S = 0.05


@dataclass(frozen=True)
class Listening:
    """The program waits for the other end."""


@dataclass(frozen=True)
class Refused:
    """What the kernel refused to do: to send so many datagrams, or a transfer by TCP (None)."""

    why: str
    datagrams: int | None

    def __str__(self) -> str:
        what = "" if self.datagrams is None else f"{self.datagrams} datagrams: "
        return f"refused: {what}{self.why}"


@dataclass(frozen=True)
class Received:
    """How many bytes came by TCP, and the seconds from the beginning to the last of them."""

    size_bytes: int
    seconds: float


Result: TypeAlias = Listening | Refused | Received
KINDS: dict[str, type[Result]] = {
    "listening": Listening,
    "refused": Refused,
    "received": Received,
}


def tell(result: Result) -> None:
    """Print a result."""
    (kind,) = (kind for kind, known in KINDS.items() if isinstance(result, known))
    print(json.dumps({"kind": kind, **asdict(result)}), flush=True)


def results(output: str) -> list[Result]:
    """The results in the output of a program. The last line does not count before its end."""
    found = []
    for line in output.splitlines(keepends=True):
        if line.endswith("\n"):
            fields = json.loads(line)
            found.append(KINDS[fields.pop("kind")](**fields))
    return found


def send(to: tuple[str, int], path: Path, start_ns: int) -> None:
    """Send the listed datagrams."""
    refused: Counter[str] = Counter()
    listed = [tuple(map(int, line.split())) for line in path.read_text().splitlines()]
    family = socket.AF_INET6 if ":" in to[0] else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as link:
        # As in the simulation, a flow has one port at both ends.
        link.bind(("", to[1]))
        for number, (at_ns, size) in enumerate(listed):
            wait_ns = start_ns + at_ns - time.monotonic_ns()
            if wait_ns > 0:
                time.sleep(wait_ns / 1e9)
            payload = number.to_bytes(NUMBER_BYTES, "big").ljust(size, b"\0")
            try:
                link.sendto(payload, to)
            except OSError as fault:
                # While a client moves it has no route.
                refused[str(fault)] += 1
    for why, count in refused.items():
        tell(Refused(why, count))


def receive(family: int, port: int, path: Path, *peers: str) -> None:
    """Receive datagrams until SIGTERM."""
    lines: list[str] = []
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    with socket.socket(family, socket.SOCK_DGRAM) as link:
        link.bind(("", port))
        link.settimeout(POLL_S)
        for peer in peers:
            link.sendto(b"", (peer, port))
        tell(Listening())
        while not stopped:
            with contextlib.suppress(TimeoutError):
                payload = link.recv(SIZE_MAX)
                number = int.from_bytes(payload[:NUMBER_BYTES], "big")
                lines.append(f"{number} {len(payload)}\n")
    path.write_text("".join(lines))


class Stopped(Exception):
    """Time is over."""


def transfer(command: str, *words: str) -> None:
    """One end of a transfer by TCP, until it is over or SIGTERM comes."""
    signal.signal(signal.SIGTERM, stop)
    # A signal that comes while the program ends does not make it fail.
    with contextlib.suppress(Stopped):
        try:
            link, size, begun = opened(command, *words)
            with link:
                if size > 0:
                    give(link, size)
                else:
                    take(link, begun)
        except OSError as fault:
            tell(Refused(str(fault), None))
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)


def opened(command: str, *words: str) -> tuple[socket.socket, int, float]:
    """The connection of a transfer, the bytes to send, and when it began."""
    if command == "serve":
        family, port, size = map(int, words)
        with socket.socket(socket.AddressFamily(family)) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("", port))
            listener.listen(1)
            tell(Listening())
            link, _ = listener.accept()
        return link, size, time.monotonic()
    address, *numbers = words
    port, size, start_ns = map(int, numbers)
    time.sleep(max(0, start_ns - time.monotonic_ns()) / 1e9)
    begun = time.monotonic()
    return socket.create_connection((address, port)), size, begun


def give(link: socket.socket, size: int) -> None:
    """Send so many bytes, and wait until the other end has them all."""
    chunk = bytes(CHUNK_BYTES)
    left = size
    while left > 0:
        left -= link.send(chunk[:left])
    link.shutdown(socket.SHUT_WR)
    link.recv(1)


def take(link: socket.socket, begun: float) -> None:
    """Take what comes, and tell how much it was."""
    count, last = 0, begun
    try:
        while chunk := link.recv(CHUNK_BYTES):
            count, last = count + len(chunk), time.monotonic()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        tell(Received(count, last - begun))


def stop(number: int, frame: object) -> None:
    """End what waits."""
    raise Stopped


def main(command: str, *words: str) -> None:
    """One end of a flow."""
    if command == "send":
        address, port, path, start_ns = words
        send((address, int(port)), Path(path), int(start_ns))
    elif command == "receive":
        family, port, path, *peers = words
        receive(int(family), int(port), Path(path), *peers)
    else:
        transfer(command, *words)


if __name__ == "__main__":
    main(*sys.argv[1:])
