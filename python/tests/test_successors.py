"""What a move costs in the successors of the mobile private network."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from rich.console import Console

from caravan.testbed.mvpn import BRANCH, HOME, HOTEL, VISITED
from caravan.threeways.successors import (
    ASKED,
    BY_AGENT,
    BY_MOBIKE,
    REGISTERED,
    SYSTEMS,
    WALK,
    System,
    computed,
    exchanges_of,
    is_outside,
    rows,
    shown,
    simulated,
    taken,
)

NEAR_S = 0.010
DELAY_MS = 40.0


@pytest.mark.parametrize(("system", "rounds_out"), [(BY_MOBIKE, 3), (BY_AGENT, 4)])
def test_a_move_outside_takes_one_round_and_going_out_more(system: System, rounds_out: int) -> None:
    moved = taken(system, VISITED, HOTEL, DELAY_MS)
    out = taken(system, HOME, VISITED, DELAY_MS)
    inside = computed(REGISTERED, DELAY_MS)
    assert (moved.rounds, out.rounds, inside.rounds) == (1, rounds_out, 1)
    # Through the home agent outside IKE and the registration inside go over two links.
    links_out = rounds_out if system == BY_MOBIKE else 1 + 2 * (rounds_out - 1)
    for cost, links in ((moved, 1), (out, links_out), (inside, 1)):
        trips_s = links * 2 * DELAY_MS / 1000
        assert trips_s < cost.gap_s < trips_s + NEAR_S
    # A moved tunnel's first message is as long as the three-times rule wants it (RFC 4555 §3.5).
    is_larger = moved.message_bytes > inside.message_bytes
    assert is_larger == (system == BY_MOBIKE)


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda it: it.document)
def test_the_machines_take_what_the_formula_says(system: System) -> None:
    cost = computed(exchanges_of(system, VISITED, HOTEL), DELAY_MS)
    assert simulated(system, DELAY_MS) == pytest.approx(cost.gap_s, rel=0.05)


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda it: it.document)
def test_a_branch_costs_a_question_more_than_home(system: System) -> None:
    assert exchanges_of(system, VISITED, HOME) == REGISTERED
    assert exchanges_of(system, VISITED, BRANCH) == ASKED
    assert computed(ASKED, DELAY_MS).rounds == 2


@pytest.mark.root
def test_each_move_is_run_and_one_outside_is_as_short_as_its_round(tmp_path: Path) -> None:
    found = rows(DELAY_MS, tmp_path)
    Console(width=120).print(shown(found))
    moves = list(pairwise((HOME, *WALK)))
    kinds = [f"{former.bridge} to {to.bridge}" for former, to in moves]
    assert [row.kind for row in found] == kinds * len(SYSTEMS)
    for row, (former, to) in zip(found, moves * len(SYSTEMS), strict=True):
        assert row.testbed_s > 0
        if is_outside(former, to):
            # On a busy machine; a new session would take three round trips and its computing.
            assert row.testbed_s < row.cost.gap_s + 0.5, row
