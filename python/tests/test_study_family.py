"""Intervals of many comparisons at once."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from caravan.study.family import quantile, widening

POINTS, RUNS, FAMILIES = 36, 5, 2000


@pytest.mark.parametrize(
    ("outside", "runs", "printed"),
    [
        # Two-sided quantiles as tables of Student's distribution print them.
        (0.05, 2, 12.706),
        (0.05, 3, 4.303),
        (0.05, 5, 2.776),
        (0.05, 10, 2.262),
        (0.001, 4, 12.924),
        (0.001, 5, 8.610),
        (0.001, 31, 3.646),
        (0.05, None, 1.960),
        (0.001, None, 3.291),
    ],
)
def test_quantiles_are_those_of_the_tables(
    outside: float, runs: int | None, printed: float
) -> None:
    assert quantile(outside, runs) == pytest.approx(printed, abs=0.0006)


def test_a_family_misses_as_rarely_as_one_interval() -> None:
    assert widening(1, RUNS) == 1.0
    wider = widening(POINTS, RUNS)
    assert wider == pytest.approx(2.845, abs=0.001)
    chance = random.Random(1)
    missed = {1.0: 0, wider: 0}
    for _ in range(FAMILIES):
        furthest = max(own_intervals(chance) for _ in range(POINTS))
        for factor in missed:
            missed[factor] += furthest > factor
    # Of 36 true sentences at least one misses its own interval in 84 % of all runs.
    assert missed[1.0] / FAMILIES > 0.8
    assert 0.03 < missed[wider] / FAMILIES < 0.06


def own_intervals(chance: random.Random) -> float:
    """How many halves of its own interval the mean of a value of 0 is away from it."""
    runs = [chance.gauss(0, 1) for _ in range(RUNS)]
    half = 2.776 * statistics.stdev(runs) / math.sqrt(RUNS)
    return abs(statistics.mean(runs)) / half
