"""What a move costs in the successors of the mobile private network."""

from __future__ import annotations

from ipaddress import IPv4Address
from pathlib import Path

import pytest
from rich.console import Console

from caravan.testbed.capture import Frame
from caravan.testbed.mobile_ip import HOME_AGENT, Place
from caravan.testbed.mvpn import BRANCH, HOME, HOTEL, OUTSIDE, VISITED
from caravan.testbed.mvpn_gateway import AT_HOME, WITH_AGENT, is_inside
from caravan.testbed.mvpn_outside import LOUNGE
from caravan.threeways.successor_bed import negotiations, of_session, registrations, seen
from caravan.threeways.successors import (
    ASKED,
    BARE_S,
    BY_AGENT,
    BY_MOBIKE,
    REGISTERED,
    SYSTEMS,
    TUNNEL,
    Delays,
    Part,
    System,
    computed,
    follows,
    is_outside,
    parts_of,
    rows,
    shown,
    simulated,
    taken,
)

NEAR_S = 0.010
DELAYS = Delays(60.0, 80.0)
NEAR, EARLY = 0.15, 0.95
OWN_S = 0.5
"""What the program and the networks of a slow and busy machine take of a move, besides its
messages: 5 ms to 20 ms on a quiet one. Rounds are counted; a timer of a second would be outside of
the bounds."""
FOLLOWS_S = 0.1
"""All other moves take longer than one where the tunnel follows."""
DATAGRAM_S, SOLICITED_S = 0.001, 0.004
"""A simulated correspondent sends one datagram in this time; the longest wait of a node before it
looks for an agent."""
OCTETS_S = 0.0005
"""What the octets of extensions take at 10 Mbit/s, and all octets at the rates of other links."""
FORMER_ADDRESS = 4
"""A node asks its gateway for the inner address that it had before (RFC 7296 §3.15.1)."""
REVOCATION, IN_UDP, TRUSTED, OF_AGENTS = 8, 8, 4, 22
"""Octets of extensions: what agrees on revocations (RFC 3543 §3.2) and on a tunnel in UDP (RFC 3519
§3.1, §3.2), what says that a node is inside (RFC 5265 §3.4), and a foreign agent's proof with
HMAC-MD5 (RFC 5944 §3.5.4)."""


@pytest.mark.parametrize(("system", "rounds_out"), [(BY_MOBIKE, 4), (BY_AGENT, 5)])
def test_a_move_outside_takes_one_round_and_going_out_more(system: System, rounds_out: int) -> None:
    moved = taken(system, VISITED, HOTEL, DELAYS)
    out = taken(system, HOME, VISITED, DELAYS)
    home = taken(system, VISITED, AT_HOME, DELAYS)
    assert (moved.rounds, out.rounds, home.rounds) == (1, rounds_out, 1)
    # Through the home agent outside IKE and the registration inside go over three links.
    links_out = rounds_out if system == BY_MOBIKE else 1 + 3 * (rounds_out - 1)
    trips_s = 2 * DELAYS.outside_ms / 1000
    inside_s = 2 * DELAYS.inside_ms / 1000
    for cost, least_s in (
        (moved, trips_s),
        # The last half: the first packet from where the node was at home.
        (out, links_out * trips_s + 1.5 * inside_s),
        (home, inside_s),
    ):
        assert least_s < cost.gap_s < least_s + NEAR_S
    # A moved tunnel's first message is as long as the three-times rule wants it (RFC 4555 §3.5).
    is_larger = moved.message_bytes > home.message_bytes
    assert is_larger == (system == BY_MOBIKE)


@pytest.mark.parametrize("delays", [DELAYS, Delays(40.0, 40.0), Delays(0.0, 0.0)], ids=str)
@pytest.mark.parametrize("system", SYSTEMS, ids=lambda it: it.document)
def test_the_machines_take_what_the_formula_says(system: System, delays: Delays) -> None:
    """Each move in and out, too. What is more has a name, and so has what is less."""
    simulations = simulated(system, delays)
    for (former, to), found in zip(system.moves, simulations, strict=True):
        cost, kind = taken(system, former, to, delays), f"{former.bridge} to {to.bridge}"
        assert found.rounds == cost.rounds, kind
        has_lease = not is_inside(to) and is_inside(former) and former != HOME
        more_bytes = extensions(system, to) + (FORMER_ADDRESS if has_lease else 0)
        assert found.message_bytes == cost.message_bytes + more_bytes, kind
        # The home link leads to who has the address when a packet comes: ARP takes no time there.
        least_s = cost.gap_s - (delays.inside_ms / 1000 if is_home(former) else 0)
        if follows(system, former, to):
            assert 0 < found.gap_s < least_s, kind
        else:
            assert least_s <= found.gap_s < least_s + slack_s(system, former, to), kind


def slack_s(system: System, former: Place, to: Place) -> float:
    """What a simulated move takes more than the formula says."""
    # Until the next datagram, and what registrations have more in them.
    slack_s = DATAGRAM_S + OCTETS_S
    if to in (WITH_AGENT, LOUNGE):
        slack_s += SOLICITED_S
    if system == BY_MOBIKE and to == AT_HOME:
        # The tunnel's new address goes over the home link first.
        slack_s += computed(Part((system.moved,), 0)).gap_s
    if system == BY_AGENT and not is_inside(to) and not is_outside(former, to):
        # Each message waits for the rate of three links, not of one.
        slack_s += 2 * (computed(Part(TUNNEL, 0)).gap_s + computed(Part(REGISTERED, 0)).gap_s)
    return slack_s


def extensions(system: System, to: Place) -> int:
    """Octets that registrations have besides those of RFC 5944 in the exchange files."""
    if to == WITH_AGENT:
        return 2 * OF_AGENTS + TRUSTED
    if to == AT_HOME:
        return TRUSTED
    if is_inside(to):
        return 2 * TRUSTED
    return 0 if system == BY_MOBIKE or to == LOUNGE else 2 * IN_UDP


def is_home(place: Place) -> bool:
    return place.bridge == HOME.bridge


def test_a_reply_that_takes_longer_than_a_second_costs_another_second() -> None:
    """A request is repeated after a second (RFC 5944 §3.6.3). With timestamps that is a new one,
    and the reply to the first answers it no more: the formula does not know that."""
    delays = Delays(300.0, 300.0)
    for (former, to), found in zip(BY_MOBIKE.moves, simulated(BY_MOBIKE, delays), strict=True):
        cost, kind = taken(BY_MOBIKE, former, to, delays), f"{former.bridge} to {to.bridge}"
        is_out = not is_inside(to) and not is_outside(former, to)
        assert found.rounds == cost.rounds + is_out, kind
        home_s = delays.inside_ms / 1000 if former == HOME else 0
        assert found.gap_s == pytest.approx(cost.gap_s - home_s + is_out, abs=0.005), kind


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda it: it.document)
def test_a_branch_costs_a_question_more_than_home(system: System) -> None:
    inside_ms = DELAYS.inside_ms
    assert parts_of(system, VISITED, AT_HOME, DELAYS) == [Part(REGISTERED, inside_ms)]
    assert parts_of(system, VISITED, BRANCH, DELAYS) == [Part(ASKED, inside_ms)]
    assert computed(Part(ASKED, inside_ms)).rounds == 2
    waited = taken(system, VISITED, WITH_AGENT, DELAYS).gap_s
    wait_s = BARE_S if system == BY_MOBIKE else 0
    assert waited == pytest.approx(taken(system, BRANCH, WITH_AGENT, DELAYS).gap_s + wait_s)


def added_bytes(system: System, former: Place, to: Place) -> int:
    """What the program's registrations have that those of RFC 5944 in the exchange files do not."""
    more = extensions(system, to)
    if to == AT_HOME:
        return more
    if to == WITH_AGENT:
        return more + 2 * (REVOCATION + IN_UDP)
    if is_inside(to):
        return more + 2 * REVOCATION
    registrations = (system == BY_AGENT) + (not is_outside(former, to))
    # A foreign agent that is a stranger to the home agent outside gets no answer about revocations.
    return more + registrations * 2 * REVOCATION - (REVOCATION if to == LOUNGE else 0)


def ike(number: int, flags: int, session: int = 1, exchange: int = 37, body: int = 0) -> bytes:
    head = bytes([session] * 8) + bytes(10) + bytes([exchange, flags])
    return head + number.to_bytes(4) + bytes(4) + bytes([body] * 60)


def frame(time_s: float, source: str, to: str, port: int, text: bytes) -> Frame:
    ends = b"".join(IPv4Address(one).packed for one in (source, to))
    udp = port.to_bytes(2) * 2 + (8 + len(text)).to_bytes(2) + bytes(2) + text
    head = b"\x45\0" + (20 + len(udp)).to_bytes(2) + bytes(5) + b"\x11" + bytes(2) + ends
    return Frame(time_s, bytes(12) + b"\x08\0" + head + udp)


def test_only_messages_of_the_newest_session_count_and_each_once() -> None:
    node, init = VISITED.care_of, 34
    frames = [
        frame(1.0, node, OUTSIDE, 500, ike(0, 0x08, session=1, exchange=init)),
        frame(2.0, node, OUTSIDE, 500, ike(0, 0x08, session=2, exchange=init)),
        frame(2.1, OUTSIDE, node, 500, ike(0, 0x20, session=2, exchange=init)),
        # Two fragments of a request, one of them sent again.
        frame(2.2, node, OUTSIDE, 500, ike(1, 0x08, session=2, body=1)),
        frame(2.2, node, OUTSIDE, 500, ike(1, 0x08, session=2, body=2)),
        frame(2.7, node, OUTSIDE, 500, ike(1, 0x08, session=2, body=2)),
        # The former session still wants to be ended, and the gateway asks something itself.
        frame(2.8, node, OUTSIDE, 500, ike(3, 0x08, session=1)),
        frame(2.9, OUTSIDE, node, 500, ike(0, 0x00, session=2)),
        frame(3.0, node, OUTSIDE, 500, ike(0, 0x28, session=2)),
        frame(9.0, node, OUTSIDE, 500, ike(2, 0x08, session=2)),
    ]
    told = of_session(list(negotiations(frames)), 1.5, 5.0)
    assert [one.time_s for one in told] == [2.0, 2.1, 2.2, 2.7, 2.9, 3.0]
    found = seen(told, frames[:1], 0.08)
    size_bytes = 20 + 8 + 28 + 60
    assert (found.rounds, found.messages, found.message_bytes) == (2, 6, 6 * size_bytes)
    assert (found.gap_s, found.data_bytes) == (0.08, size_bytes)


def test_registrations_are_told_from_data_in_udp_and_from_revocations() -> None:
    node, agent = VISITED.care_of, HOME_AGENT
    request, reply, revocation, data = (bytes([kind]) + bytes(45) for kind in (1, 3, 7, 4))
    frames = [
        frame(1.0, node, agent, 434, request),
        frame(1.1, agent, node, 434, reply),
        frame(1.2, agent, node, 434, revocation),
        frame(1.3, agent, node, 434, data),
        frame(1.4, node, agent, 435, request),
    ]
    told = list(registrations(frames))
    assert [(one.time_s, one.is_asked, one.size_bytes) for one in told] == [
        (1.0, True, 74),
        (1.1, False, 74),
    ]


@pytest.mark.root
@pytest.mark.measures
def test_each_move_takes_what_the_formula_says(tmp_path: Path) -> None:
    """In and out, between networks outside with and without a NAT, with an address of its own
    inside and with a foreign agent, and to a foreign agent outside."""
    found = rows(DELAYS, tmp_path)
    Console(width=120).print(shown(found))
    moves = [move for system in SYSTEMS for move in system.moves]
    assert [(row.former, row.to) for row in found] == moves
    for row in found:
        cost, seen = row.cost, row.seen
        assert seen.rounds == cost.rounds, row
        message_bytes = cost.message_bytes + added_bytes(row.system, row.former, row.to)
        # The program's handshake has more proposals than one, and names of its own.
        is_negotiated = not is_inside(row.to) and not is_outside(row.former, row.to)
        near = NEAR * message_bytes if is_negotiated else 0
        assert seen.message_bytes == pytest.approx(message_bytes, abs=near), row
        # Where the tunnel follows, data may come before we know that the node is there.
        assert cost.gap_s < FOLLOWS_S or EARLY * cost.gap_s < seen.gap_s, row
        assert seen.gap_s < (1 + NEAR) * cost.gap_s + OWN_S, row
        simulation = row.simulated
        assert seen.rounds == simulation.rounds, row
        # A program has more to say than the formula, and so has a simulated one.
        assert cost.message_bytes <= simulation.message_bytes <= seen.message_bytes, row
        assert seen.message_bytes <= (1 + NEAR) * simulation.message_bytes + 2 * REVOCATION, row
        own_s = OWN_S + (2 * DELAYS.inside_ms / 1000 if is_home(row.former) else 0)
        assert EARLY * simulation.gap_s < seen.gap_s < (1 + NEAR) * simulation.gap_s + own_s, row


def test_the_tunnel_follows_to_a_network_inside_by_mobike_alone() -> None:
    by_mobike, by_agent = (taken(system, VISITED, BRANCH, DELAYS) for system in SYSTEMS)
    assert by_mobike.rounds == by_agent.rounds == 2
    assert by_mobike.gap_s < NEAR_S
    assert by_agent.gap_s > 4 * DELAYS.inside_ms / 1000
