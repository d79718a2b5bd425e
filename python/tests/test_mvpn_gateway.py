"""The successor of the mobile private network (RFC 5266): a node keeps its address and its
connections while it goes out of its company's network, through a VPN gateway with MOBIKE."""

from __future__ import annotations

import socket
import time
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

import pytest
from mobile_ip_captures import MOBILE_IP_PORT, REQUEST, read_registrations
from mvpn_by_hand import reaches, wait_reaches
from mvpn_relay import relay
from waiting import wait_for

from caravan.testbed.capture import ETHER_TYPE_IPV4, Capture, Frame
from caravan.testbed.caravan import READY_S, order
from caravan.testbed.mobile_ip import HOME_AGENT, MOBILE, Place, Role, Settings
from caravan.testbed.mvpn import (
    BRANCH,
    COMPANY,
    CORRESPONDENT,
    HOME,
    HOTEL,
    OUTSIDE,
    VISITED,
    Move,
    Mvpn,
    gaps,
)
from caravan.testbed.mvpn_gateway import (
    CONNECTION,
    POOL,
    TRUSTED,
    all_roles,
    close,
    home_agent,
    is_inside,
    mobile_node,
    other_client,
    session,
    vpn_gateway,
    walk,
)
from caravan.testbed.ssh import ssh_session
from caravan.testbed.traffic import endless_download, ping

pytestmark = pytest.mark.root

PLACES = (VISITED, HOTEL, COMPANY, BRANCH, VISITED, HOME)
STAYS_S = 8.0
"""In which a node asks three times."""
UDP_BYTES = 8
ROGUE = "192.168.9.254"
"""A hostile network's router, with an address of the pool."""


def spis(node: Role) -> list[str]:
    """What names the node's tunnel."""
    now = session(node)
    return [] if now is None else [str(child["spi_in"]) for child in now["children"]]


def care_of_addresses(agent: Role) -> set[str]:
    """Where the home agent sends a node's packets."""
    return {it["care_of"] for it in agent.mobility()["bindings"]}


def tables(network: Mvpn) -> str:
    """The node's nftables, by name."""
    return network.ms.run(["nft", "list", "tables"]).stdout


def wait_filtered(network: Mvpn, is_filtered: bool) -> None:
    """Wait until the node's packet filter stands, or does not."""
    wait_for(lambda: ("caravan." in tables(network)) == is_filtered, "the filter", READY_S)


def test_a_download_and_an_ssh_session_survive_all_moves(output: Path) -> None:
    """From home outside, behind a NAT, behind another company's firewall, into a branch, and home
    again. Between networks outside nothing is registered, and nothing is negotiated."""
    with Mvpn(output, hops=6) as network, all_roles(network) as roles:
        assert session(roles.ms) is None and "caravan." not in tables(network)
        with (
            Capture(network.ms, "eth0", output / "at-ms") as at_node,
            Capture(network.fw, "in0", output / "at-fw") as behind,
            ssh_session(network.ms, network.cn1, CORRESPONDENT) as shell,
            endless_download(network.ms, network.cn1, CORRESPONDENT) as download,
        ):
            moves, tunnels = [], []
            for number, place in enumerate(PLACES):
                moves.append(walk(network, roles.ms, place))
                download.wait_for_more()
                shell.answers(f"at place {number}")
                assert (session(roles.ms) is None) == is_inside(place)
                wait_filtered(network, not is_inside(place))
                tunnels.append(spis(roles.ms))
            assert download.local_addresses() == {MOBILE}
            at_node.stop()
            behind.stop()
        assert tunnels[0] == tunnels[1] == tunnels[2] and tunnels[4] not in ([], tunnels[0])
        found = gaps(moves, at_node.frames(), network.ms.hardware_address("eth0"))
        print(*(f"{gap.kind}: {gap.seconds * 1000:.0f} ms" for gap in found), sep="\n")
        assert read_registrations(behind)
        through = [move_before(moves, at_s) for at_s in asked_through(behind)]
        # One each time that the node comes outside, perhaps repeated: renewals are minutes apart.
        assert set(through) == {"home to visited", "branch to visited"}


def asked_through(behind: Capture) -> list[float]:
    """When requests came through the tunnel."""
    return [
        frame.time_s
        for frame in behind.frames()
        if frame.protocol == socket.IPPROTO_UDP
        and frame.payload[2:4] == MOBILE_IP_PORT
        and frame.payload[UDP_BYTES] == REQUEST
        and IPv4Address(frame.packet[12:16]) in IPv4Network(POOL)
    ]


def move_before(moves: list[Move], moment_s: float) -> str:
    """After which move a moment is."""
    return [move.kind for move in moves if move.time_s <= moment_s][-1]


def test_outside_nothing_but_the_tunnel_and_the_question_leaves_the_node(output: Path) -> None:
    with Mvpn(output) as network, all_roles(network) as roles:
        walk(network, roles.ms, VISITED)
        with Capture(network.ms, "eth0", output / "at-ms") as at_node:
            wait_reaches(network)
            # Programs that would go past the tunnel.
            for address in (HOME_AGENT, "203.0.113.5", "203.0.113.254"):
                own = ["-I", VISITED.care_of]
                network.ms.run(["ping", "-c", "1", "-W", "1", *own, address], check=False)
            assert ping(network.cn2, MOBILE, 2, timeout_s=0.5).received == 0
            network.move(HOTEL)
            # The node has yet to notice.
            wait_reaches(network, timeout_s=READY_S)
            node = bytes.fromhex(network.ms.hardware_address("eth0").replace(":", ""))
            question = (HOME_AGENT, "registration")
            roles.ms.process.wait_for(
                lambda: question in left_by(node, at_node), "the question in clear", READY_S
            )
            at_node.stop()
        kinds = left_by(node, at_node)
        assert kinds <= {(OUTSIDE, "ike"), (OUTSIDE, "esp"), (HOME_AGENT, "registration")}, kinds
        assert (OUTSIDE, "ike") in kinds and question in kinds


def left_by(node: bytes, link: Capture) -> set[tuple[str, str]]:
    """What has left the node with this hardware address, without ARP."""
    frames = [it for it in link.frames() if it.ether_type == ETHER_TYPE_IPV4]
    return {kind(frame) for frame in frames if frame.data[6:12] == node}


def kind(frame: Frame) -> tuple[str, str]:
    """The destination of a packet, and what it is."""
    packet = frame.packet
    destination = str(IPv4Address(packet[16:20]))
    header = (packet[0] & 15) * 4
    port = int.from_bytes(packet[header + 2 : header + 4])
    if frame.protocol == socket.IPPROTO_ESP:
        return destination, "esp"
    words = {500: "ike", 4500: "ike", 434: "registration"}
    is_udp = frame.protocol == socket.IPPROTO_UDP
    return destination, words.get(port, str(port)) if is_udp else str(frame.protocol)


@pytest.mark.parametrize("place", [VISITED, BRANCH], ids=["outside", "inside"])
def test_a_node_that_starts_abroad_finds_out_where_it_is(place: Place, output: Path) -> None:
    with Mvpn(output) as network:
        close(network)
        with home_agent(network) as ha, vpn_gateway(network) as gw:
            ha.wait_ready()
            gw.wait_ready()
            network.move(place)
            with mobile_node(network) as ms:
                ms.wait_ready()
                ms.wait_for(lambda it: it["state"] == "registered", "registered")
                side = "inside" if is_inside(place) else "outside"
                ms.wait_for(lambda it: it["side"] == side, side)
                wait_reaches(network)
                ms.process.wait_for(
                    lambda: (session(ms) is None) == is_inside(place), side, READY_S
                )
                text = order(network.ms, "status").stdout
                tunnel = f"outside, encrypted by {CONNECTION}, packet filter in force"
                assert ("inside, no packet filter" if is_inside(place) else tunnel) in text


def test_without_the_gateway_the_node_says_what_is_missing_and_recovers(output: Path) -> None:
    with Mvpn(output) as network, all_roles(network) as roles:
        roles.gw.stop()
        network.move(VISITED)
        wanted = f"{CONNECTION} is not up: `caravan status {CONNECTION}` says why"
        roles.ms.wait_for(lambda it: wanted in (it["trouble"] or ""), "a reason")
        assert roles.ms.mobility()["side"] == "unknown"
        assert not reaches(network)
        with vpn_gateway(network) as again:
            again.wait_ready()
            roles.ms.wait_for(lambda it: it["side"] == "outside", "outside", 60)
            roles.ms.wait_for(lambda it: it["state"] == "registered", "registered", 60)
            wait_reaches(network)


def test_a_home_agent_that_does_not_say_what_is_inside_opens_nothing(output: Path) -> None:
    """RFC 5265 §3.2.3."""
    with Mvpn(output) as network:
        close(network)
        everybody = Settings({"trusted_networks": None, "vpn_networks": None})
        with home_agent(network, everybody) as ha, mobile_node(network) as ms:
            ha.wait_ready()
            ms.wait_ready()
            wanted = "its [home_agent] needs `trusted_networks`"
            ms.wait_for(lambda it: wanted in (it["trouble"] or ""), "a reason")
            part = ms.mobility()
            assert part["filtered"] and part["state"] != "at home"
            assert part["refused"]["untrusted"] > 0
            assert not reaches(network)


def is_told_nothing(node: dict[str, Any]) -> bool:
    """Whether a node is registered through its tunnel, and an answer in clear proved nothing."""
    is_asked = node["refused"].get("untrusted", 0) > 0
    return bool(is_asked and node["side"] == "outside" and node["state"] == "registered")


TELLS = {"trusted_networks": list(TRUSTED), "vpn_networks": [POOL]}
TELLS_NOT = {"trusted_networks": [*TRUSTED, POOL], "vpn_networks": []}


@pytest.mark.parametrize("own", [TELLS, TELLS_NOT], ids=["told", "not-told"])
def test_who_has_another_account_takes_no_node_inside(own: dict[str, Any], output: Path) -> None:
    """A hostile network gives the node the address of an accomplice's tunnel. He passes on what the
    node asks in clear, from that address. A home agent that is not told of the pool falls for
    it."""
    is_told = own is TELLS
    with Mvpn(output) as network:
        close(network)
        with home_agent(network, Settings(own)) as ha, vpn_gateway(network) as gw:
            ha.wait_ready()
            gw.wait_ready()
            with other_client(network.cn3) as other, mobile_node(network) as ms:
                other.wait_ready()
                ms.wait_ready().wait_at(HOME)
                # Its tunnel comes after that.
                other.process.wait_for(lambda: session(other) is not None, "a tunnel", READY_S)
                other.process.wait_for(
                    lambda: (
                        "caravan0" in network.cn3.interfaces()
                        and len(network.cn3.addresses("caravan0")) > 0
                    ),
                    "an inner address",
                    READY_S,
                )
                (inner,) = network.cn3.addresses("caravan0")
                inner = inner.split("/")[0]
                assert IPv4Address(inner) in IPv4Network(POOL)
                hotel = network.nats[0].host
                hotel.add_address("lan0", f"{ROGUE}/24")
                hotel.add_address("lo", f"{HOME_AGENT}/32")
                with relay(hotel, (network.cn3, inner)) as passed_on:
                    network.move(Place("hotel", f"{inner}/24", ROGUE))
                    if not is_told:
                        ms.wait_for(lambda it: it["side"] == "inside", "inside", 30)
                        assert "caravan." not in tables(network)
                        return
                    until = time.monotonic() + 30
                    while not is_told_nothing(part := ms.mobility()):
                        assert part["side"] != "inside" and time.monotonic() < until, part
                        assert inner not in care_of_addresses(ha)
                        time.sleep(0.05)
                assert passed_on.replies, "he was answered, but not as he wished"
                assert "caravan." in tables(network)
                assert inner not in care_of_addresses(ha)
                wait_reaches(network)


def test_from_the_address_of_its_own_tunnel_a_node_asks_nothing(output: Path) -> None:
    """A hostile network gives it that address. The home agent is not told of the pool, so it would
    say that the node is inside: what is asked from there goes through the tunnel."""
    with Mvpn(output) as network, all_roles(network, agent=Settings(TELLS_NOT)) as roles:
        walk(network, roles.ms, VISITED)
        inner = str(roles.ms.mobility()["care_of"])
        network.nats[0].host.add_address("lan0", f"{ROGUE}/24")
        network.move(Place("hotel", f"{inner}/24", ROGUE))
        until = time.monotonic() + STAYS_S
        while time.monotonic() < until:
            assert roles.ms.mobility()["side"] != "inside"
            assert "caravan." in tables(network)
            time.sleep(0.1)


def test_requests_from_outside_are_dropped_and_counted(output: Path) -> None:
    """The home agent does not know the pool, so even the tunnel does not help."""
    none = Settings({"vpn_networks": []})
    with Mvpn(output) as network, all_roles(network, agent=none) as roles:
        network.move(VISITED)
        wanted = f"nothing comes back from the home agent {HOME_AGENT} through {CONNECTION}"
        roles.ms.wait_for(lambda it: wanted in (it["trouble"] or ""), "a reason", 30)
        assert roles.ha.refused()["untrusted-network"] > 0


def test_the_filter_of_a_node_that_dies_outside_stays_until_root_ends_it(output: Path) -> None:
    with Mvpn(output) as network, all_roles(network) as roles:
        walk(network, roles.ms, VISITED)
        roles.ms.crash()
        assert "caravan." in tables(network)
        assert ping(network.ms, "203.0.113.5", 1, timeout_s=0.5).received == 0
        order(network.ms, "down", "mobile").check()
        assert "caravan." not in tables(network)


def test_down_ends_the_registration_and_the_tunnel(output: Path) -> None:
    with Mvpn(output) as network, all_roles(network) as roles:
        walk(network, roles.ms, VISITED)
        roles.ms.down()
        roles.ms.process.wait(10)
        assert roles.ha.mobility()["bindings"] == []
        gateways = roles.gw.status()["connections"]
        assert all(it.get("sessions", []) == [] for it in gateways)
        assert "caravan." not in tables(network)


def test_a_reload_keeps_the_node_registered(output: Path) -> None:
    """One that changes the tunnel's connection begins a new tunnel."""
    with Mvpn(output) as network, all_roles(network) as roles:
        walk(network, roles.ms, VISITED)
        wait_reaches(network)
        before = spis(roles.ms)
        roles.ms.reload()
        assert reaches(network)
        assert before and spis(roles.ms) == before
        text = roles.ms.file.read_text()
        roles.ms.file.write_text(text.replace("vips =", 'rekey_time = "3h"\nvips ='))
        roles.ms.reload()
        roles.ms.wait_for(lambda it: it["side"] == "outside", "outside")

        def is_new() -> bool:
            now = spis(roles.ms)
            return now not in ([], before) and reaches(network)

        roles.ms.process.wait_for(is_new, "another tunnel", 30)
        network.move(HOME)
        roles.ms.wait_at(HOME)
