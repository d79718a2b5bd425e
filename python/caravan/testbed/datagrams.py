"""Sends numbered datagrams at the times of a list, and receives them.

Run by path: `datagrams.py send ADDRESS PORT FILE START_NS` sends the datagrams of FILE. Each line
has nanoseconds after the time START_NS of the monotonic clock, and bytes of the payload.
`datagrams.py receive FAMILY PORT FILE [ADDRESS]` receives until SIGTERM. It writes the number and
the bytes of each datagram to FILE, one per line, in the order of arrival. An empty datagram to
ADDRESS first opens the way back through a gateway that translates addresses. What the kernel
refuses to send is printed, one line for each reason: `refused: 12 datagrams: [Errno 101] ...`.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import sys
import time
from collections import Counter
from pathlib import Path

NUMBER_BYTES = 8
SIZE_MAX = 1 << 16
POLL_S = 0.05


def send(to: tuple[str, int], path: Path, start_ns: int) -> Counter[str]:
    """Send them; return how many the kernel refused, by its reason."""
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
    return refused


def receive(family: int, port: int, path: Path, *peers: str) -> None:
    """Receive until SIGTERM."""
    lines: list[str] = []
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    with socket.socket(family, socket.SOCK_DGRAM) as link:
        link.bind(("", port))
        link.settimeout(POLL_S)
        for peer in peers:
            link.sendto(b"", (peer, port))
        print("listening", flush=True)
        while not stopped:
            with contextlib.suppress(TimeoutError):
                payload = link.recv(SIZE_MAX)
                number = int.from_bytes(payload[:NUMBER_BYTES], "big")
                lines.append(f"{number} {len(payload)}\n")
    path.write_text("".join(lines))


if __name__ == "__main__":
    command, *words = sys.argv[1:]
    if command == "send":
        address, port, path, start_ns = words
        for reason, count in send((address, int(port)), Path(path), int(start_ns)).items():
            print(f"refused: {count} datagrams: {reason}")
    else:
        family, port, path, *peers = words
        receive(int(family), int(port), Path(path), *peers)
