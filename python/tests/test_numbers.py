"""The format of numbers for people."""

from __future__ import annotations

import pytest

from caravan.numbers import amount, missing, significant
from caravan.threeways.flows import Counted


@pytest.mark.parametrize(
    ("value", "digits", "said"),
    [
        (200_130.4, 5, "200,130"),
        (0.1, 5, "0.1"),
        (68.3491, 4, "68.35"),
        (1234.56, 4, "1,235"),
        (0.000123456, 4, "0.0001235"),
        (1.5e-12, 3, "1.5e-12"),
        (2e13, 4, "2e+13"),
        (0.0, 4, "0"),
        (float("nan"), 4, "-"),
        (None, 4, "-"),
        (float("inf"), 4, "inf"),
    ],
)
def test_no_exponent_where_it_is_avoidable(value: float | None, digits: int, said: str) -> None:
    assert significant(value, digits) == said


def test_few_are_no_millions() -> None:
    assert amount(412_000) == "412,000"
    assert amount(29_800_000) == "29.8 million"
    assert amount(22.9e9) == "22.9 billion"


@pytest.mark.parametrize(
    ("runs", "sent", "gaps"),
    [
        ([(0, 9)], 10, []),
        ([(2, 4), (6, 7)], 10, [(0, 1), (5, 5), (8, 9)]),
        ([], 3, [(0, 2)]),
        ([], 0, []),
        # 1 was late: it arrived after 2 and is not missing
        ([(0, 0), (2, 2), (1, 1), (4, 5)], 6, [(3, 3)]),
    ],
)
def test_what_is_missing_at_both_ends_is_missing_too(
    runs: list[tuple[int, int]], sent: int, gaps: list[tuple[int, int]]
) -> None:
    assert missing(runs, sent) == gaps
    assert Counted("up", sent, tuple(runs)).gaps == gaps
