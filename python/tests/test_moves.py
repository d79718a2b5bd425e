"""The gap of each move, as far as it is computed and simulated."""

from __future__ import annotations

import pytest

from caravan.testbed.mvpn import VISITED
from caravan.threeways.moves import NEAR_S, WAY, computed, is_near, simulate


@pytest.mark.parametrize("delay_ms", [0.0, 40.0])
def test_formula_and_simulation_agree_on_every_move(delay_ms: float) -> None:
    formula = [computed(place, delay_ms) for place in WAY]
    assert all(map(is_near, simulate(delay_ms), formula))
    outside = [gap for place, gap in zip(WAY, formula, strict=True) if place == VISITED]
    assert all(2 * delay_ms / 1000 < gap < 2 * delay_ms / 1000 + NEAR_S for gap in outside)
