"""What a move costs in the successors of the mobile private network."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from rich.console import Console

from caravan.testbed.mvpn import BRANCH, HOME, VISITED
from caravan.testbed.mvpn_gateway import is_inside
from caravan.threeways.successors import (
    ASKED,
    MOVED,
    OUT,
    REGISTERED,
    WALK,
    computed,
    exchanges_of,
    rows,
    shown,
)

NEAR_S = 0.010


def test_a_move_outside_takes_one_round_and_going_out_three() -> None:
    delay_ms = 40.0
    moved, out, inside = (computed(names, delay_ms) for names in (MOVED, OUT, REGISTERED))
    assert (moved.rounds, out.rounds, inside.rounds) == (1, 3, 1)
    for cost in (moved, out, inside):
        trips_s = cost.rounds * 2 * delay_ms / 1000
        assert trips_s < cost.gap_s < trips_s + NEAR_S
    # A registration is smaller than an UPDATE_SA_ADDRESSES, which has hashes and padding.
    # A moved tunnel's first message is as long as the three-times rule wants it (RFC 4555 §3.5).
    assert inside.message_bytes < out.message_bytes < moved.message_bytes


def test_a_branch_costs_a_question_more_than_home() -> None:
    assert exchanges_of(VISITED, HOME) == REGISTERED and exchanges_of(VISITED, BRANCH) == ASKED
    assert computed(ASKED, 40.0).rounds == 2


@pytest.mark.root
def test_each_move_is_run_and_one_outside_is_as_short_as_its_round(tmp_path: Path) -> None:
    delay_ms = 40.0
    found = rows(delay_ms, tmp_path)
    Console().print(shown(found))
    moves = list(pairwise((HOME, *WALK)))
    assert [row.kind for row in found[:-1]] == [f"{a.bridge} to {b.bridge}" for a, b in moves]
    for row, (former, to) in zip(found, moves, strict=False):
        assert row.testbed_s is not None and row.testbed_s > 0
        if not is_inside(former) and not is_inside(to):
            # On a busy machine; a new session would take three round trips and its computing.
            assert row.testbed_s < row.cost.gap_s + 0.5, row
