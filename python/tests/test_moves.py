"""The gap of each move at all levels."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from rich.console import Console

from caravan.testbed.mvpn import HOME
from caravan.threeways.moves import (
    NEAR_S,
    PLACES_OUTSIDE,
    WALKS,
    Walk,
    computed,
    is_near,
    shown,
    simulate,
    three_ways,
)


@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize("delay_ms", [0.0, 40.0])
def test_formula_and_simulation_agree_on_every_move(walk: Walk, delay_ms: float) -> None:
    formula = [computed(place, delay_ms) for place in walk.places]
    assert all(map(is_near, simulate(walk, delay_ms), formula))
    places = zip(walk.places, formula, strict=True)
    outside = [gap for place, gap in places if place in PLACES_OUTSIDE]
    assert all(2 * delay_ms / 1000 < gap < 2 * delay_ms / 1000 + NEAR_S for gap in outside)


@pytest.mark.root
def test_each_move_has_a_gap_at_every_level(tmp_path: Path) -> None:
    """Whether the program's is as long as the others depends on the machine: the table says it."""
    gaps = three_ways(40.0, tmp_path)
    Console().print(shown(gaps))
    moves = [move for walk in WALKS for move in pairwise((HOME, *walk.places))]
    assert [gap.kind for gap in gaps] == [f"{one.bridge} to {two.bridge}" for one, two in moves]
    for gap in gaps:
        assert min(gap.model_s, gap.simulate_s, gap.testbed_s, gap.plugging_s) > 0, gap
