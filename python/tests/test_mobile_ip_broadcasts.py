"""Broadcasts of the home network reach a mobile node abroad (RFC 5944 §4.3)."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from caravan.testbed.capture import Capture
from caravan.testbed.caravan import READY_S
from caravan.testbed.host import Host
from caravan.testbed.mobile_ip import (
    AGENT,
    HOME,
    HOME_AGENT,
    MOBILE,
    VISITED,
    MobileIp,
    Place,
    Role,
    Settings,
    foreign_agent,
    home_agent,
    mobile_node,
)
from caravan.testbed.process import Process

pytestmark = pytest.mark.root

PORT = 5005
NETWORK, EVERYBODY = "10.18.3.255", "255.255.255.255"
LISTENER = f"""
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as heard:
    heard.bind(("", {PORT}))
    print("listening", flush=True)
    while True:
        text, sender = heard.recvfrom(2000)
        print(text.decode(), sender[0], flush=True)
"""
SENDER = f"""
import socket, sys
source, to, text, count = sys.argv[1:]
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
    out.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    out.bind((source, 0))
    for _ in range(int(count)):
        out.sendto(text.encode(), (to, {PORT}))
"""
FLOODER = f"""
import pathlib, socket, sys, time
source, to, text, count, burst, agent = sys.argv[1:]
waiting = pathlib.Path(f"/proc/{{agent}}/net/packet")
def is_heard():
    lines = waiting.read_text().splitlines()[1:]
    return bool(lines) and all(line.split()[6] == "0" for line in lines)
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
    out.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    out.bind((source, 0))
    began = time.monotonic()
    for number in range(int(count)):
        while number % int(burst) == 0 and not is_heard():
            time.sleep(0.001)
        out.sendto(text.encode(), (to, {PORT}))
    print(time.monotonic() - began)
"""
"""Broadcasts as fast as the agent of this process takes them out of its sockets. What the kernel
drops because a socket is full, nobody counts."""
SETTLED_S = 0.5
"""After which what has not come does not come."""
RATE = 100
"""Broadcasts a second that the home agent sends on."""
FLOOD = 300
BURST = 50
"""As many as wait for the home agent at once; a socket has room for five times as many."""


def send(host: Host, source: str, to: str, text: str, count: int = 1) -> None:
    """Broadcast a datagram so many times."""
    host.run([sys.executable, "-c", SENDER, source, to, text, str(count)])


def comes(heard: Process, line: str) -> None:
    """Wait until a listener has heard this."""
    heard.wait_for(lambda: line in heard.stdout(), line, READY_S)


@contextmanager
def listener(host: Host) -> Iterator[Process]:
    """What a program on a host hears at the port, a line each."""
    process = host.popen([sys.executable, "-c", LISTENER], name="listener")
    process.wait_for(lambda: "listening" in process.stdout(), "listening", READY_S)
    try:
        yield process
    finally:
        process.stop()


@contextmanager
def rig(output: Path, delivery: str) -> Iterator[tuple[MobileIp, Role, Role]]:
    """Home agent, foreign agent and a node at home."""
    own = {"broadcasts": True, "encapsulating_delivery": delivery == "encapsulating"}
    with (
        MobileIp(output) as network,
        home_agent(network, Settings({"broadcasts": True})) as ha,
        foreign_agent(network) as fa,
    ):
        # A home agent refuses what was asked before its start.
        ha.wait_ready()
        fa.wait_ready()
        with mobile_node(network, Settings(own)) as ms:
            ms.wait_ready().wait_at(HOME)
            yield network, ha, ms


@pytest.mark.parametrize("delivery", ["direct", "encapsulating"])
@pytest.mark.parametrize("place", [VISITED, AGENT], ids=["co-located", "agent"])
def test_broadcasts_come_to_a_node_abroad_once_and_never_its_own(
    place: Place, delivery: str, output: Path
) -> None:
    with rig(output, delivery) as (network, ha, ms), listener(network.ms) as heard:
        network.move(place)
        ms.wait_at(place)
        with Capture(network.cn, "eth0", output / "home") as link:
            for to in (NETWORK, EVERYBODY):
                send(network.cn, "10.18.3.5", to, f"to {to}")
                comes(heard, f"to {to} 10.18.3.5")
            # What claims to come from the node, and what the node sends.
            network.cn.add_address("lo", f"{MOBILE}/32")
            send(network.cn, MOBILE, EVERYBODY, "forged")
            network.cn.remove_address("lo", f"{MOBILE}/32")
            send(network.ms, MOBILE, NETWORK, "own")
            time.sleep(SETTLED_S)
            link.stop()
            lines = heard.stdout().splitlines()[1:]
            # The node's own system gives it what it broadcasts.
            expected = [f"to {to} 10.18.3.5" for to in (NETWORK, EVERYBODY)]
            assert lines == [*expected, f"own {MOBILE}"]
            # The home link hears nothing that the home agent repeats.
            repeated = [frame for frame in link.frames() if b"to 10.18.3.255" in frame.data]
            assert len(repeated) == 1
        network.move(HOME)
        ms.wait_at(HOME)
        send(network.cn, "10.18.3.5", NETWORK, "at home")
        comes(heard, "at home 10.18.3.5")
        time.sleep(SETTLED_S)
        assert heard.stdout().count("at home") == 1
        assert ha.refused() == {}


def test_a_flood_of_broadcasts_is_bounded_and_counted(output: Path) -> None:
    with rig(output, "direct") as (network, ha, ms):
        network.move(VISITED)
        ms.wait_at(VISITED)
        with Capture(network.rt, "wan0", output / "tunnel") as tunnel:
            words = ("10.18.3.5", EVERYBODY, "flood", str(FLOOD), str(BURST), str(ha.process.pid))
            took_s = float(network.cn.run([sys.executable, "-c", FLOODER, *words]).stdout)
            ha.wait_for(lambda it: it["refused"].get("too-many-broadcasts", 0) > 0, "bounded")
            time.sleep(SETTLED_S)
            tunnel.stop()
            sent = [it for it in tunnel.frames() if b"flood" in it.data and it.source == HOME_AGENT]
        refused = ha.refused()["too-many-broadcasts"]
        # A second begins with the first that it counts.
        assert RATE <= len(sent) <= RATE * (2 + int(took_s))
        assert len(sent) + refused == FLOOD
        # The node is still served.
        network.wait_connected()
