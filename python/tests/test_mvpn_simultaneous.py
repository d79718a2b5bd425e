"""A node with two care-of addresses at once, each behind a firewall of its own that reads packets
and binds nothing: what is sent to it goes to both."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import skip_by_hand
from mobile_ip_captures import (
    IP_BYTES,
    REQUEST,
    inmost,
    is_registration,
    layers,
    offsets,
    read_registrations,
)
from mobile_ip_captures import ip_packets as own_packets
from mvpn_by_hand import (
    ECHO_REQUEST,
    dropped,
    ip_packets,
    secret_of,
    wait_dropped,
    wait_reaches,
)

from caravan.testbed.capture import IPPROTO_ICMP, IPPROTO_SKIP, Capture
from caravan.testbed.mobile_ip import HOME_AGENT, MOBILE, Role, Settings
from caravan.testbed.mvpn import (
    CORRESPONDENT,
    DRAFT,
    HOME,
    INSIDE,
    OUTSIDE,
    VISITED,
    Keys,
    firewall,
    home_agent,
    mobile_node,
    walk,
)
from caravan.testbed.mvpn_walls import AIR, BESIDE, INSIDE2, TwoWalls, beside
from caravan.testbed.traffic import ping

pytestmark = pytest.mark.root

SIMULTANEOUS = 0x80
"""The S bit of a request."""
READS = "packet-parsing"
ECHOES = 10
REFUSED = "selector-mismatch"


@dataclass(frozen=True)
class Roles:
    ha: Role
    fw: Role
    fw2: Role
    ms: Role


@contextlib.contextmanager
def roles(network: TwoWalls, keys: Keys) -> Iterator[Roles]:
    """The node sends through the first firewall. What is for `VISITED` comes through the second
    one, and what is for `AIR` through the first one."""
    others = [{"outside": BESIDE, "skip": keys.peer("fw2")}]
    outside = {"care_of": "203.0.113.0/24", "firewall": INSIDE2}
    agent = Settings({"firewalls": [INSIDE, INSIDE2], "outside": [outside]})
    node = Settings({"simultaneous": True, "interfaces": ["eth1", "eth0"]})
    with (
        home_agent(network, agent) as ha,
        firewall(network, keys, Settings({"mode": READS})) as fw,
        beside(network, keys, READS) as fw2,
        mobile_node(network, keys, node, through={"others": others}) as ms,
    ):
        for role in (ha, fw, fw2, ms):
            role.wait_ready()
        ms.wait_at(HOME)
        yield Roles(ha, fw, fw2, ms)


@dataclass(frozen=True)
class Heard:
    """Captures outside, at the node, and inside, at both firewalls."""

    eth0: Capture
    eth1: Capture
    first: Capture
    second: Capture


@contextlib.contextmanager
def heard(network: TwoWalls, folder: Path) -> Iterator[Heard]:
    folder.mkdir()
    with (
        Capture(network.ms, "eth0", folder / "eth0") as eth0,
        Capture(network.ms, "eth1", folder / "eth1") as eth1,
        Capture(network.fw, "in0", folder / "first") as first,
        Capture(network.fw2, "in0", folder / "second") as second,
    ):
        yield Heard(eth0, eth1, first, second)


@dataclass(frozen=True)
class Reader:
    """Reads SKIP by a second implementation. `masters`: the secret of the node and the firewall
    with this address outside."""

    masters: dict[str, bytes]

    def clear(self, capture: Capture) -> list[tuple[tuple[str, str], bytes]]:
        """Every packet of a link outside: its ends, and what is in it. There is nothing but SKIP
        between the node and a firewall, and no inside address can be seen."""
        found = []
        for packet in own_packets(capture.frames()):
            assert packet[9] == IPPROTO_SKIP
            for address in (HOME_AGENT, CORRESPONDENT, INSIDE, INSIDE2):
                assert offsets(packet, address) == set()
            (ends,) = layers(packet)
            (wall,) = {*ends} & {*self.masters}
            found.append((ends, skip_by_hand.opened(line(packet, self.masters[wall]))))
        return found


def line(packet: bytes, master: bytes) -> skip_by_hand.Line:
    """A packet with what its header says. Names in it are that of the node."""
    skip = packet[IP_BYTES:]
    names = [(nsid, name_of(nsid)) for nsid in skip[1:3]]
    n, numbers = int.from_bytes(skip[4:8]), tuple(skip[8:11])
    kij, crypt, mac = numbers
    return skip_by_hand.Line(kij, crypt, mac, 8, names[0], names[1], n, master, b"", packet)


def name_of(nsid: int) -> bytes:
    return bytes(map(int, MOBILE.split("."))) if nsid else b""


def echoes(packets: list[bytes]) -> list[bytes]:
    """The pings of the correspondent, whatever tunnel they are in."""
    inner = map(inmost, packets)
    to_node = (CORRESPONDENT, MOBILE)
    pings = [one for one in inner if one[9] == IPPROTO_ICMP and one[IP_BYTES] == ECHO_REQUEST]
    return [one for one in pings if layers(one) == (to_node,)]


def assert_copies(reader: Reader, there: Heard) -> None:
    """Each echo is in a copy to either address, through the firewall of that one, and answered
    once."""
    copies = []
    for outside, inside, wall, end, place in (
        (there.eth0, there.second, BESIDE, INSIDE2, VISITED),
        (there.eth1, there.first, OUTSIDE, INSIDE, AIR),
    ):
        clear = reader.clear(outside)
        copies.append(echoes([one for ends, one in clear if ends == (wall, place.care_of)]))
        to_place = (HOME_AGENT, place.care_of)
        tunnel = ((HOME_AGENT, end), to_place, (CORRESPONDENT, MOBILE))
        assert {layers(one) for _, one in clear if echoes([one])} == {tunnel[1:]}
        packets = ip_packets(inside)
        copies.append(echoes([one for one in packets if layers(one) == tunnel]))
    assert len(copies[0]) == ECHOES
    assert copies == copies[:1] * 4
    # Nothing else comes where the node is not registered last; answers take the other way.
    assert len(reader.clear(there.eth0)) == len(ip_packets(there.second)) == ECHOES
    assert len(reader.clear(there.eth1)) == len(ip_packets(there.first)) == 2 * ECHOES


def test_two_firewalls_carry_copies_for_two_care_of_addresses(output: Path) -> None:
    """They bind nothing, and the second one never hears the node."""
    with TwoWalls(output, is_behind=False) as network:
        network.add_interface()
        keys = Keys(network, DRAFT)
        with roles(network, keys) as it:
            walls = ((OUTSIDE, "fw"), (BESIDE, "fw2"))
            reader = Reader({wall: secret_of(keys, "ms", name) for wall, name in walls})
            walk(network, it.ms, VISITED)
            wait_reaches(network)
            with heard(network, output / "second") as there:
                network.ms.add_address("eth1", str(AIR.address))
                it.ms.wait_at(AIR)
            assert care_of(it.ha) == {VISITED.care_of, AIR.care_of}
            asked = requests(ip_packets(there.first))
            assert asked and all(one[1] & SIMULTANEOUS for one in asked)
            assert requests([one for _, one in reader.clear(there.eth1)]) == asked
            assert reader.clear(there.eth0) == []
            assert len(read_registrations(there.first)) == 2 * len(asked)

            before = dropped(it.ms)
            # The node takes those for the address that it registered last.
            copies = {REFUSED: before.get(REFUSED, 0) + ECHOES}
            with heard(network, output / "both") as there:
                assert ping(network.cn1, MOBILE, ECHOES, 0.02).received == ECHOES
                wait_dropped(it.ms, before | copies)
            assert_copies(reader, there)

            # What goes to a link that the node has lost is a copy.
            network.links.link_down("ms-eth0")
            assert ping(network.cn1, MOBILE, ECHOES, 0.02).received == ECHOES
            # A registration on its way back renews the binding that is left there.
            network.links.link_up("ms-eth0")
            network.settle(VISITED, network.ms)
            network.ms.remove_address("eth1", str(AIR.address))
            it.ms.wait_at(VISITED)
            assert care_of(it.ha) == {VISITED.care_of, AIR.care_of}
            wait_reaches(network)
            for role in (it.fw, it.fw2):
                assert {one["care_of"] for one in role.mobility()["entries"]} == {None}
                assert dropped(role) == {}
            walk(network, it.ms, HOME)
            assert it.ha.mobility()["bindings"] == []
            wait_reaches(network)


def care_of(agent: Role) -> set[str]:
    """Where a home agent sends to."""
    return {str(one["care_of"]) for one in agent.mobility()["bindings"]}


def requests(packets: list[bytes]) -> list[bytes]:
    """The registration requests in them, whatever tunnel they are in."""
    messages = [inmost(one)[IP_BYTES + 8 :] for one in packets if is_registration(one)]
    return [one for one in messages if one[0] == REQUEST]
