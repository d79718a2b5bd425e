"""Two accomplices who pass on what a node and its home agent tell each other."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from caravan.testbed.host import Host
from caravan.testbed.mobile_ip import HOME_AGENT


@dataclass
class PassedOn:
    """What the accomplices have passed on."""

    requests: int = 0
    replies: list[bytes] = field(default_factory=list)


@contextlib.contextmanager
def relay(outside: Host, inside: tuple[Host, str]) -> Iterator[PassedOn]:
    """Requests to one host go to the other, and from its address to the home agent; replies
    back."""
    host, address = inside
    with outside.entered():
        ear = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        ear.bind((HOME_AGENT, 434))
    with host.entered():
        mouth = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        mouth.bind((address, 5000))
    passed_on, ends = PassedOn(), threading.Event()

    def run() -> None:
        node = None
        while not ends.is_set():
            for heard in select.select([ear, mouth], [], [], 0.1)[0]:
                data, peer = heard.recvfrom(4000)
                if heard is ear:
                    node = peer
                    mouth.sendto(data, (HOME_AGENT, 434))
                    passed_on.requests += 1
                elif node is not None:
                    ear.sendto(data, node)
                    passed_on.replies.append(data)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield passed_on
    finally:
        ends.set()
        thread.join()
        ear.close()
        mouth.close()
