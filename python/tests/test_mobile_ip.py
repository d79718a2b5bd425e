"""Mobile IPv4: a node keeps its address, and its connections, wherever it is."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from mobile_ip_captures import REPLY as ANSWERED
from mobile_ip_captures import REQUEST as ASKED
from mobile_ip_captures import read_registrations
from waiting import wait_for

from caravan.testbed.capture import ETHER_TYPE_ARP, Capture, Frame
from caravan.testbed.caravan import READY_S
from caravan.testbed.mobile_ip import (
    BEHIND_AGENT,
    CORRESPONDENT,
    HOME,
    MOBILE,
    PRIVATE,
    VISITED,
    MobileIp,
    Place,
    Role,
    Settings,
    home_agent,
    mobile_node,
)
from caravan.testbed.traffic import endless_download

pytestmark = pytest.mark.root

PLAIN = Settings()
REQUEST, REPLY = 1, 2


@contextlib.contextmanager
def roaming(
    output: Path,
    node: Settings = PLAIN,
    agent: Settings = PLAIN,
    *,
    is_filtered: bool = True,
) -> Iterator[tuple[MobileIp, Role, Role]]:
    """The networks, with a home agent and a node at home."""
    with MobileIp(output, is_filtered=is_filtered) as network, home_agent(network, agent) as ha:
        ha.wait_ready()
        with mobile_node(network, node) as ms:
            ms.wait_ready().wait_at(HOME)
            yield network, ha, ms


@pytest.mark.parametrize(
    ("form", "places"),
    [
        ("ip-in-ip", (VISITED, BEHIND_AGENT)),
        ("minimal", (VISITED, BEHIND_AGENT)),
        ("gre", (VISITED, BEHIND_AGENT)),
        ("ip-in-ip", (PRIVATE, VISITED)),
    ],
    ids=["ip-in-ip", "minimal", "gre", "udp"],
)
def test_a_download_survives_leaving_home_moving_on_and_coming_home(
    form: str, places: tuple[Place, Place], output: Path
) -> None:
    """tshark reads all messages of the node, and a request from each place."""
    with (
        roaming(output, Settings({"encapsulation": form})) as (network, ha, ms),
        Capture(network.ms, "eth0", output / "node") as heard,
        endless_download(network.ms, network.cn, CORRESPONDENT) as download,
    ):
        for place in places:
            network.move(place)
            ms.wait_at(place)
            (binding,) = ha.mobility()["bindings"]
            assert binding["encapsulation"] == form
            assert (binding["udp"] is not None) == (place == PRIVATE)
            network.wait_connected()
            download.wait_for_more()
        network.move(HOME)
        ms.wait_at(HOME)
        download.wait_for_more()
        assert download.local_addresses() == {MOBILE}
        assert ha.mobility()["bindings"] == []
        # A request may be repeated, and then the reply to the first one comes too.
        assert set(ms.refused()) <= {"unexpected"} and ha.refused() == {}
    found = read_registrations(heard)
    asked = {one.care_of for one in found if one.mobile_ip_type == ASKED}
    assert asked == {MOBILE, *(place.care_of for place in places)}
    assert {one.layers[-1][1] for one in found if one.mobile_ip_type == ANSWERED} == asked


def test_neighbours_at_home_learn_where_the_address_is(output: Path) -> None:
    """RFC 5944 §4.6."""
    with roaming(output) as (network, _, ms), Capture(network.cn, "eth0", output / "arp") as heard:
        agent = network.ha.hardware_address("eth0")
        node = network.ms.hardware_address("eth0")
        wait_neighbour(network, node)
        gone = network.move(VISITED)
        ms.wait_at(VISITED)
        wait_neighbour(network, agent)
        network.cn.run(["ip", "neigh", "flush", "dev", "eth0"])
        wait_neighbour(network, agent)
        back = time.time()
        network.move(HOME)
        ms.wait_at(HOME)
        there = time.time()
        wait_neighbour(network, node)
        heard.stop()
    # Each of them announces three times, a second apart.
    before = arp([frame for frame in heard.frames() if gone <= frame.time_s < back])
    after = arp([frame for frame in heard.frames() if frame.time_s >= back])
    last = arp([frame for frame in heard.frames() if frame.time_s >= there])
    announced = {(operation, mac) for operation, mac, to in before if to == MOBILE}
    assert announced == {(REQUEST, agent), (REPLY, agent)}
    assert (REPLY, agent, CORRESPONDENT) in before, "the agent answers for the node"
    announced = {(operation, mac) for operation, mac, to in after if to == MOBILE}
    assert announced >= {(REQUEST, node), (REPLY, node)}
    assert agent not in {mac for _, mac, to in last if to == MOBILE}


def wait_neighbour(network: MobileIp, mac: str) -> None:
    """Wait until the correspondent reaches the node, and sends packets for it there."""
    wait_for(lambda: network.is_connected() and neighbour(network) == mac, mac, READY_S)


def neighbour(network: MobileIp) -> str:
    """Where the correspondent sends packets for the node."""
    return network.cn.run(["ip", "neigh", "show", MOBILE]).stdout.split()[4]


def arp(captured: list[Frame]) -> list[tuple[int, str, str]]:
    """ARP messages about the node: operation, where its address is, and whom it is told to."""

    def read(frame: Frame) -> tuple[int, str, str]:
        body = frame.data[14:]
        sender = ".".join(map(str, body[14:18]))
        assert sender == MOBILE
        target = ".".join(map(str, body[24:28]))
        return int.from_bytes(body[6:8]), body[8:14].hex(":"), target

    about = bytes(map(int, MOBILE.split(".")))
    frames = (frame for frame in captured if frame.ether_type == ETHER_TYPE_ARP)
    return [read(frame) for frame in frames if frame.data[28:32] == about]
