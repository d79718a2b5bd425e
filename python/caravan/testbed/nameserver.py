"""A name server with a few names, for hosts that must resolve one."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator, Mapping

from caravan.testbed.host import Host

QUESTION_BYTES_MAX = 512


@contextlib.contextmanager
def name_server(host: Host, address: str, names: Mapping[str, str]) -> Iterator[None]:
    """Answers questions for these names with their IPv4 address, and others with no address."""
    with host.entered():
        server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((address, 53))
    server.settimeout(0.1)
    is_over = threading.Event()
    thread = threading.Thread(target=_serve, args=[server, names, is_over])
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        server.close()


def _serve(server: socket.socket, names: Mapping[str, str], is_over: threading.Event) -> None:
    while not is_over.is_set():
        try:
            question, source = server.recvfrom(QUESTION_BYTES_MAX)
        except TimeoutError:
            continue
        server.sendto(_answer(question, names), source)


def _answer(question: bytes, names: Mapping[str, str]) -> bytes:
    name, _, rest = question[12:].partition(b"\0")
    kind = rest[:2]
    known = {_labels(text): address for text, address in names.items()}
    address = known.get(name) if kind == b"\0\1" else None
    # An answer with recursion available; one question, repeated from the request (RFC 1035 §4.1).
    head = question[:2] + struct.pack("!HHHHH", 0x8180, 1, int(address is not None), 0, 0)
    body = question[12 : 12 + len(name) + 5]
    if address is None:
        return head + body
    return head + body + struct.pack("!HHHIH", 0xC00C, 1, 1, 60, 4) + socket.inet_aton(address)


def _labels(name: str) -> bytes:
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
