"""Numbers for readers: significant digits, and an exponent only if needed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

PLACES_MAX = 8
"""Decimal places beyond which a small number gets an exponent."""
LARGEST = 1e12
AMOUNTS = ((1e9, "billion"), (1e6, "million"))


def significant(value: float | None, digits: int = 4) -> str:
    """The value with this many digits; a dash for None."""
    if value is None or math.isnan(value):
        return "-"
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    places = digits - 1 - math.floor(math.log10(abs(value)))
    if places > PLACES_MAX or abs(value) >= LARGEST:
        return f"{value:.{digits}g}"
    if places <= 0:
        return f"{value:,.0f}"
    return f"{value:,.{places}f}".rstrip("0").rstrip(".")


def amount(count: float) -> str:
    """A count, in words if it is millions."""
    for size, word in AMOUNTS:
        if count >= size:
            return f"{significant(count / size, 3)} {word}"
    return f"{count:,.0f}"


def missing(runs: Iterable[Sequence[int]], sent: int) -> list[tuple[int, int]]:
    """First and last number of each missing range; `runs` were received of `sent` numbers.

    Runs may be in any order: what overtakes another is received before it.
    """
    ends = [(-1, -1), *sorted((first, last) for first, last in runs), (sent, sent)]
    between = ((one[1] + 1, other[0] - 1) for one, other in pairwise(ends))
    return [(first, last) for first, last in between if first <= last]
