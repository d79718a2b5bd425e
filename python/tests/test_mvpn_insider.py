"""Who has a right and misuses it: a node with a key that writes addresses of others, and the
process that reads its packets."""

from __future__ import annotations

import re
import sys
from ipaddress import IPv4Address
from pathlib import Path

import pytest
import skip_by_hand
from mvpn_by_hand import (
    Stranger,
    echo,
    ip,
    ip_packets,
    secret_of,
    send,
    udp,
    wait_dropped,
    wait_reaches,
)

from caravan.testbed.binary import caravan_binary
from caravan.testbed.capture import IPPROTO_IPIP, Capture
from caravan.testbed.caravan import environment, order
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
                # To its home agent a node sends registrations, tunnels, SKIP and ICMP alone.
                send(network.cn3, second.sealed(udp(CN3, HOME_AGENT, 53, bytes(30))))
                wait_dropped(fw, counted | {"selector-mismatch": 1})
            assert ip_packets(crossed) == []
            with Capture(network.fw, "in0", output / "own") as crossed:
                send(network.cn3, second.sealed(tunnelled(CN3, SECOND)))
                send(network.cn3, other.sealed(echo(CN3, CORRESPONDENT)))
                walk(network, ms, VISITED)
                wait_reaches(network)
            passed = ip_packets(crossed)
            assert any(tunnelled(CN3, SECOND)[40:] in packet for packet in passed)
            assert any(echo(CN3, CORRESPONDENT)[20:] in packet for packet in passed)


def tunnelled(outer: str, inmost: str) -> bytes:
    """A ping in a tunnel to the home agent."""
    return ip(outer, HOME_AGENT, IPPROTO_IPIP, echo(inmost, CORRESPONDENT))


ASK = """
import json, socket, struct, subprocess, sys
own, other = socket.socketpair()
argv = [sys.argv[1], "steward", "--config", sys.argv[2], "--role", sys.argv[3]]
steward = subprocess.Popen(argv, stdin=other.fileno(), stdout=subprocess.DEVNULL)
other.close()
stream = own.makefile("rwb")
def hear():
    (length,) = struct.unpack("!I", stream.read(4))
    return json.loads(stream.read(length))["reply"]
replies = [hear()]
for text in sys.argv[4:]:
    stream.write(struct.pack("!I", len(text)) + text.encode())
    stream.flush()
    replies.append(hear())
print(" ".join(replies), steward.wait(20))
"""
"""A process in place of the one that reads packets of strangers: it says what it likes."""


def test_a_process_that_was_taken_over_cannot_ask_for_the_walls_end(output: Path) -> None:
    with Mvpn(output) as network:
        keys = Keys(network)
        with firewall(network, keys) as fw:
            fw.wait_ready()
            wall = network.fw.run(["nft", "list", "ruleset"]).stdout
            fw.stop()
        folder = network.fw.logs / "firewall" / "caravan.toml"
        network.fw.run(["ip", "tuntap", "add", "caravan0", "mode", "tun"])
        requests = ('{"request": "device", "mtu": 1400}', '{"request": "end", "lifts": true}')
        argv = [sys.executable, "-c", ASK, str(caravan_binary()), str(folder), "firewall"]
        told = network.fw.run([*argv, *requests], environment=environment(network.fw))
        assert told.stdout.split() == ["ready", "done", "done", "0"]
        network.fw.run(["ip", "link", "delete", "caravan0"])
        left = network.fw.run(["nft", "list", "ruleset"]).stdout
        assert without_counts(left) == without_counts(wall)
        order(network.fw, "down", "firewall").check()
        assert "caravan" not in network.fw.run(["nft", "list", "ruleset"]).stdout


def without_counts(ruleset: str) -> str:
    return re.sub(r"packets \d+ bytes \d+", "", ruleset)
