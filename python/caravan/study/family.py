"""Intervals of many comparisons at once: of thirty that are true, one or two are outside their own
95 % interval by chance.

A family is all points of a sentence. Each of its intervals is as much wider as all of them together
need to hold with 95 % (Bonferroni: each with 1 - 5 % / number of points), by Student's distribution
over the runs of the value. Bonferroni's bound needs no independence, which comparisons against one
base do not have. An interval of a median is widened by the same factor: by the order of its runs it
has no wider one; by their standard deviation it needs a little less, as a simulation shows.
"""

from __future__ import annotations

import math
from functools import cache
from statistics import NormalDist

OUTSIDE = 0.05
"""How often an interval of 95 % misses."""
STEPS = 100
"""Halvings of an angle: more than its digits."""
MANY = 200
"""Runs of which Student's distribution is as good as the normal one."""


def widening(points: int, runs: int | None) -> float:
    """How much wider an interval of a family of so many points is than one alone.

    `runs`: how many the value has; None, or one: not known, as of many.
    """
    if points <= 1:
        return 1.0
    return quantile(OUTSIDE / points, runs) / quantile(OUTSIDE, runs)


@cache
def quantile(outside: float, runs: int | None) -> float:
    """How many standard errors around a mean of so many runs leave this share outside."""
    if runs is None or not 2 <= runs <= MANY:
        return NormalDist().inv_cdf(1 - outside / 2)
    freedom = runs - 1
    low, high = 0.0, math.pi / 2
    for _ in range(STEPS):
        middle = (low + high) / 2
        is_less = _inside(middle, freedom) < 1 - outside
        low, high = (middle, high) if is_less else (low, middle)
    return math.tan(low) * math.sqrt(freedom)


def _inside(angle: float, freedom: int) -> float:
    """The share of Student's distribution within ± tan(angle) * sqrt(freedom), as a finite sum."""
    sine, cosine = math.sin(angle), math.cos(angle)
    is_odd = freedom % 2
    term = cosine if is_odd else 1.0
    total = 0.0
    for power in range(2 + is_odd, freedom + 1, 2):
        total += term
        term *= cosine**2 * (power - 1) / power
    return 2 / math.pi * (angle + sine * total) if is_odd else sine * total
