"""Sends numbered datagrams at equal intervals, and counts them.

Run by path: `datagrams.py send ADDRESS PORT BYTES GAP_NS COUNT START_NS` sends COUNT payloads of
BYTES, starting at the time START_NS of the monotonic clock; `datagrams.py receive PORT FILE`
receives until SIGTERM and writes the numbers to FILE, one per line, in the order of arrival.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import sys
import time
from pathlib import Path

NUMBER_BYTES = 8
SIZE_MAX = 1 << 16
POLL_S = 0.05


def send(to: tuple[str, int], size: int, gap_ns: int, count: int, start_ns: int) -> int:
    """Send them; return how many the kernel refused."""
    refused = 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        for number in range(count):
            wait_ns = start_ns + number * gap_ns - time.monotonic_ns()
            if wait_ns > 0:
                time.sleep(wait_ns / 1e9)
            payload = number.to_bytes(NUMBER_BYTES, "big").ljust(size, b"\0")
            try:
                link.sendto(payload, to)
            except OSError:
                # While a client moves it has no route.
                refused += 1
    return refused


def receive(port: int, path: Path) -> None:
    """Receive until SIGTERM."""
    numbers: list[int] = []
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        link.bind(("0.0.0.0", port))
        link.settimeout(POLL_S)
        print("listening", flush=True)
        while not stopped:
            with contextlib.suppress(TimeoutError):
                numbers.append(int.from_bytes(link.recv(SIZE_MAX)[:NUMBER_BYTES], "big"))
    path.write_text("".join(f"{number}\n" for number in numbers))


if __name__ == "__main__":
    command, *words = sys.argv[1:]
    if command == "send":
        address, port, *numbers = words
        print(send((address, int(port)), *map(int, numbers)))
    else:
        receive(int(words[0]), Path(words[1]))
