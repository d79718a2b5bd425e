"""Writes every frame of one interface to a pcap file, from its start to SIGTERM.

Run by path: `python sniffer.py INTERFACE FILE`. tcpdump changes its user, which a user namespace
with a single user does not permit; this program does not. Sent frames are complete, and with
segmentation offload as long as the kernel passed them on.
"""

from __future__ import annotations

import contextlib
import errno
import signal
import socket
import struct
import sys
import time
from typing import BinaryIO

ETH_P_ALL = 3
SO_RCVBUFFORCE = 33
SO_TIMESTAMPNS = 35
BUFFER_BYTES = 64 << 20
FRAME_BYTES = 1 << 17
POLL_S = 0.05
LINKTYPE_ETHERNET = 1
NANOSECOND_MAGIC = 0xA1B2_3C4D


def record(link: socket.socket, file: BinaryIO) -> None:
    """Copy the next frame with the kernel's time of it."""
    try:
        frame, ancillary, _, _ = link.recvmsg(FRAME_BYTES, 64)
    except OSError as fault:
        if fault.errno != errno.ENETDOWN:
            raise
        # Reported once when the interface goes down; it may come up again.
        return
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    for level, kind, value in ancillary:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS:
            seconds, nanoseconds = struct.unpack("=qq", value[:16])
    file.write(struct.pack("=IIII", seconds, nanoseconds, len(frame), len(frame)) + frame)


def main() -> None:
    """Capture until SIGTERM, then read the rest from the socket."""
    interface, path = sys.argv[1:]
    link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    with contextlib.suppress(PermissionError):
        # Only the machine's real root may exceed the limit.
        link.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
    link.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    link.bind((interface, ETH_P_ALL))
    with link, open(path, "wb") as file:
        header = (NANOSECOND_MAGIC, 2, 4, 0, 0, FRAME_BYTES, LINKTYPE_ETHERNET)
        file.write(struct.pack("=IHHiIII", *header))
        stopped: list[int] = []
        signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
        link.settimeout(POLL_S)
        print("listening", flush=True)
        while not stopped:
            with contextlib.suppress(TimeoutError):
                record(link, file)
        link.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                record(link, file)


if __name__ == "__main__":
    main()
