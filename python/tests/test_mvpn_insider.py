"""A node with a key that misuses it: the firewall lets it speak for itself alone."""

from __future__ import annotations

from ipaddress import IPv4Address
from pathlib import Path

import pytest
import skip_by_hand
from mvpn_by_hand import (
    IPPROTO_IPIP,
    Stranger,
    echo,
    ip,
    ip_packets,
    reaches,
    secret_of,
    send,
    udp,
    wait_dropped,
)

from caravan.testbed.capture import Capture
from caravan.testbed.mobile_ip import HOME_AGENT, MOBILE, Settings
from caravan.testbed.mvpn import (
    CN3,
    CORRESPONDENT,
    HOME,
    INSIDE,
    PAPER,
    SECOND,
    VISITED,
    Keys,
    Mvpn,
    firewall,
    home_agent,
    mobile_node,
    walk,
)

pytestmark = pytest.mark.root

NEIGHBOUR = "10.19.5.77"
"""A host inside, beside the correspondent."""
NOMAD = "1/10.30.0.9"
"""A node that reaches a network inside, without Mobile IP."""


def test_a_node_with_a_key_writes_no_address_but_its_own(output: Path) -> None:
    with Mvpn(output) as network:
        keys = Keys(network, PAPER)
        inside = {"address": "*", "inside": ["10.19.0.0/16"]}
        nomad = inside | {"skip": keys.peer("nomad") | {"remote": NOMAD}}
        wall = Settings(tables={"access.nomad": nomad})
        with (
            home_agent(network) as ha,
            firewall(network, keys, wall) as fw,
            mobile_node(network, keys) as ms,
        ):
            for role in (ha, fw, ms):
                role.wait_ready()
            ms.wait_at(HOME)
            # Somebody has the key of the second node, and is elsewhere.
            second, other = (
                Stranger(
                    network.cn3,
                    CN3,
                    skip_by_hand.DES,
                    secret_of(keys, name, "fw"),
                    (1, IPv4Address(home).packed),
                )
                for name, home in (("ms2", SECOND), ("nomad", NOMAD[2:]))
            )
            others = (MOBILE, HOME_AGENT, INSIDE)
            forged = [
                *(tunnelled(CN3, inmost) for inmost in others),
                *(tunnelled(outer, SECOND) for outer in others),
            ]
            plain = [echo(source, CORRESPONDENT) for source in (*others, NEIGHBOUR)]
            with Capture(network.fw, "in0", output / "inside") as crossed:
                send(network.cn3, *map(second.sealed, forged))
                send(network.cn3, *map(other.sealed, plain))
                counted = {"forged-source": len(forged) + len(plain)}
                wait_dropped(fw, counted)
                # Beside its registration and its tunnel, a node says nothing to its home agent.
                send(network.cn3, second.sealed(udp(CN3, HOME_AGENT, 53, bytes(30))))
                wait_dropped(fw, counted | {"selector-mismatch": 1})
            assert ip_packets(crossed) == []
            with Capture(network.fw, "in0", output / "own") as crossed:
                send(network.cn3, second.sealed(tunnelled(CN3, SECOND)))
                send(network.cn3, other.sealed(echo(CN3, CORRESPONDENT)))
                walk(network, ms, VISITED)
                assert reaches(network)
            passed = ip_packets(crossed)
            assert any(tunnelled(CN3, SECOND)[40:] in packet for packet in passed)
            assert any(echo(CN3, CORRESPONDENT)[20:] in packet for packet in passed)


def tunnelled(outer: str, inmost: str) -> bytes:
    """A ping in a tunnel to the home agent."""
    return ip(outer, HOME_AGENT, IPPROTO_IPIP, echo(inmost, CORRESPONDENT))
