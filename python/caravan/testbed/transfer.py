"""One transfer by TCP, and how much of it came in which time.

Run by path: `transfer.py serve FAMILY PORT BYTES FILE` waits for a client, `transfer.py connect
ADDRESS PORT BYTES START_NS FILE` is one from the moment START_NS of the monotonic clock on. BYTES
above 0 are sent, and 0 receives. The one that receives writes to FILE how many bytes came and the
seconds from the connection's beginning to the last of them, at the end or at SIGTERM. What the
kernel refuses is printed, as in `datagrams.py`.
"""

from __future__ import annotations

import signal
import socket
import sys
import time
from pathlib import Path

CHUNK_BYTES = 1 << 16


class Stopped(Exception):
    """Time is over."""


def send(link: socket.socket, size: int) -> None:
    """Send so many bytes, and wait until the other end has them all."""
    chunk = bytes(CHUNK_BYTES)
    left = size
    while left > 0:
        left -= link.send(chunk[:left])
    link.shutdown(socket.SHUT_WR)
    link.recv(1)


def receive(link: socket.socket, path: Path, begun: float) -> None:
    """Take what comes, and say how much it was."""
    count, last = 0, begun
    try:
        while chunk := link.recv(CHUNK_BYTES):
            count, last = count + len(chunk), time.monotonic()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        path.write_text(f"{count} {last - begun}\n")


def run(link: socket.socket, size: int, path: Path, begun: float) -> None:
    """The part of one end."""
    with link:
        if size > 0:
            send(link, size)
        else:
            receive(link, path, begun)


def stop(number: int, frame: object) -> None:
    """End what waits."""
    raise Stopped


def main(command: str, *words: str) -> None:
    """One end, until it is over or SIGTERM comes."""
    signal.signal(signal.SIGTERM, stop)
    try:
        if command == "serve":
            family, port, size, path = words
            with socket.socket(socket.AddressFamily(int(family))) as listener:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(("", int(port)))
                listener.listen(1)
                print("listening", flush=True)
                link, _ = listener.accept()
        else:
            address, port, size, start_ns, path = words
            time.sleep(max(0, int(start_ns) - time.monotonic_ns()) / 1e9)
            begun = time.monotonic()
            link = socket.create_connection((address, int(port)))
            run(link, int(size), Path(path), begun)
            return
        run(link, int(size), Path(path), time.monotonic())
    except Stopped:
        pass
    except OSError as fault:
        print(f"refused: {fault}", flush=True)
    finally:
        # A signal that comes while the program ends does not make it fail.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


if __name__ == "__main__":
    main(*sys.argv[1:])
