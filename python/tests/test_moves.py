"""The gap of each move, as far as it is computed and simulated."""

from __future__ import annotations

from pathlib import Path

import pytest

from caravan.threeways.moves import (
    NEAR_S,
    OUTSIDE,
    WALKS,
    Walk,
    computed,
    is_near,
    simulate,
    three_ways,
)


@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize("delay_ms", [0.0, 40.0])
def test_formula_and_simulation_agree_on_every_move(walk: Walk, delay_ms: float) -> None:
    formula = [computed(place, delay_ms) for place in walk.places]
    assert all(map(is_near, simulate(walk, delay_ms), formula))
    outside = [gap for place, gap in zip(walk.places, formula, strict=True) if place in OUTSIDE]
    assert all(2 * delay_ms / 1000 < gap < 2 * delay_ms / 1000 + NEAR_S for gap in outside)


@pytest.mark.root
def test_the_program_needs_as_long_as_formula_and_simulation(tmp_path: Path) -> None:
    # A busy machine delays one move of many.
    runs = [three_ways(40.0, tmp_path / str(number)) for number in range(2)]
    far = [both for both in zip(*runs, strict=True) if not any(gap.agrees for gap in both)]
    assert not far, far
