"""One end of a stream of datagrams of one size that the network may cut into fragments.

Run by path; it starts at once because it imports nothing of Caravan.

- `stream_end.py give ADDRESS PORT BYTES COUNT GAP_NS PACE` sends COUNT datagrams, one every GAP_NS
  nanoseconds. Between two it sleeps, or with the pace `spins` it looks at the clock all the time,
  as programs did that could not sleep for so short a time.
- `stream_end.py take ADDRESS PORT` prints `ready`, and counts what comes until SIGTERM.

Both print at the end what went or came, and what processor time it took, as JSON.
"""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import sys
import time

IP_MTU_DISCOVER, IP_PMTUDISC_DONT = 10, 0
SIZE_MAX = 1 << 16
BUFFER_BYTES = 4 << 20
POLL_S = 0.05
SPINS = "spins"


def give(address: str, port: str, *words: str) -> None:
    """Send."""
    size, count, gap_ns, pace = words
    payload, gap = bytes(int(size)), int(gap_ns)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        link.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DONT)
        link.connect((address, int(port)))
        began, busy = time.monotonic_ns(), time.process_time()
        for number in range(int(count)):
            wait(began + number * gap, pace)
            link.send(payload)
        wait(began + int(count) * gap, pace)
        tell(int(count), int(count) * int(size), time.monotonic_ns() - began, busy)


def wait(until_ns: int, pace: str) -> None:
    """Wait until a time of the monotonic clock."""
    while (left := until_ns - time.monotonic_ns()) > 0:
        if pace != SPINS:
            time.sleep(left / 1e9)


def take(address: str, port: str) -> None:
    """Count."""
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    count = size = first = last = 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        link.bind((address, int(port)))
        link.settimeout(POLL_S)
        busy = time.process_time()
        print("ready", flush=True)
        while not stopped:
            with contextlib.suppress(TimeoutError):
                size += len(link.recv(SIZE_MAX))
                last = time.monotonic_ns()
                first, count = first or last, count + 1
    tell(count, size, last - first, busy)


def tell(count: int, size: int, ns: int, busy: float) -> None:
    """Print what went or came."""
    cpu_s = time.process_time() - busy
    told = {"datagrams": count, "bytes": size, "seconds": ns / 1e9, "cpu_s": cpu_s}
    print(json.dumps(told), flush=True)


def main(command: str, address: str, port: str, *words: str) -> None:
    """One end of a stream."""
    if command == "give":
        give(address, port, *words)
    else:
        take(address, port)


if __name__ == "__main__":
    main(*sys.argv[1:])
