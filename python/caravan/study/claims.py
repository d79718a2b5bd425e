"""Sentences of a publication, as comparisons of our own values."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat

import pandas as pd

from caravan.numbers import significant
from caravan.study.cells import points
from caravan.study.metrics import DIVERGES, describe, needs_mean
from caravan.study.parsed import Claim, ClaimTest, Point, Study
from caravan.study.text import Value
from caravan.study.values import label

ABOUT = 0.05
"""How near `about` is, as a fraction of the right side."""


def is_about(left: float, right: float) -> bool:
    """Whether two values are near; an unbounded one is near only another unbounded one."""
    if math.isinf(left) or math.isinf(right):
        return left == right
    return abs(left - right) <= ABOUT * abs(right)


COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": math.isclose,
    "about": is_about,
}
SIGNS = {"<": "<", "<=": "≤", ">": ">", ">=": "≥", "=": "=", "about": "≈"}


HOLDS, IN_PART, FAILS = "holds", "in part", "does not hold"
GRADES = (HOLDS, IN_PART, FAILS)
NOT_RUN = "not run"


@dataclass(frozen=True)
class Verdict:
    """A claim's grade by our values, or `not run` if a needed value is missing."""

    claim: Claim
    grade: str
    numbers: tuple[str, ...]


@dataclass(frozen=True)
class _Result:
    """A test: at how many of its points it holds (None: not run), and its description."""

    held: int | None
    points: int
    says: str


def verdicts(study: Study, rows: pd.DataFrame) -> list[Verdict]:
    """Each claim of the study, graded."""
    found = _Found(rows)
    return [_decide(study, claim, found) for claim in study.claims]


def value_at(point: Point, rows: pd.DataFrame) -> float | None:
    """Our value there; None if it was not run."""
    return _value(point, _Found(rows))


def counted(found: Sequence[Verdict]) -> str:
    """The number of sentences per grade, in words; empty if there is none."""
    number, graded = score(found)
    return f"{number} sentences {graded}" if found else ""


def score(found: Sequence[Verdict]) -> tuple[str, str]:
    """How many sentences hold, as "3 of 5", and what goes on after the word "sentences"."""
    counts = {grade: sum(item.grade == grade for item in found) for grade in (*GRADES, NOT_RUN)}
    decided = sum(counts[grade] for grade in GRADES)
    if not decided:
        return str(len(found)), "not run: they need another level"
    parts = ["hold"]
    if counts[IN_PART]:
        parts.append(f"{counts[IN_PART]} in part")
    if counts[FAILS]:
        parts.append(f"{counts[FAILS]} not")
    if counts[NOT_RUN]:
        parts.append(f"{counts[NOT_RUN]} were not run")
    return f"{counts[HOLDS]} of {decided}", ", ".join(parts)


def _decide(study: Study, claim: Claim, found: _Found) -> Verdict:
    """A sentence holds if each part does at every point; in part if anything of it does."""
    results = [_test(study, test, found) for test in claim.tests]
    if any(result.held is None for result in results):
        grade = NOT_RUN
    elif all(result.held == result.points for result in results):
        grade = HOLDS
    else:
        grade = IN_PART if any(result.held for result in results) else FAILS
    return Verdict(claim, grade, tuple(result.says for result in results))


def _test(study: Study, test: ClaimTest, found: _Found) -> _Result:
    """A test at its point, or at each of the points of `over`."""
    if not test.over:
        return _at_one(study, test, found)
    results = [_at_one(study, _moved(test, point), found) for point in points(test.over)]
    count = len(results)
    for result in results:
        if result.held is None:
            return result
    refuted = [result for result in results if not result.held]
    if not refuted:
        return _Result(count, count, f"at each of {count} points, as {results[-1].says}")
    held = count - len(refuted)
    share = f"at {held} of {count} points" if held else f"at none of {count} points"
    return _Result(held, count, f"{share}: {refuted[-1].says}")


def _moved(test: ClaimTest, point: Mapping[str, Value]) -> ClaimTest:
    """The test at one of the points of `over`."""
    left, right = replace(test.left, at={**test.left.at, **point}), test.right
    if isinstance(right, Point):
        # The difference between the right and the left side is kept.
        kept = {axis: value for axis, value in point.items() if axis not in right.at}
        right = replace(right, at={**right.at, **kept})
    return replace(test, left=left, right=right, over={})


def _at_one(study: Study, test: ClaimTest, found: _Found) -> _Result:
    left = _value(test.left, found)
    right = _value(test.right, found) if isinstance(test.right, Point) else float(test.right)
    name = describe(test.left.metric)
    if left is None or right is None:
        return _Result(None, 1, f"{name.label}: {NOT_RUN}")
    holds = COMPARE[test.compares](left, right)
    sign = SIGNS[test.compares] if holds else f"is not {SIGNS[test.compares]}"
    places = [label(study, axis, value) for axis, value in test.left.at.items()]
    if isinstance(test.right, Point) and test.right.level != test.left.level:
        places.append(label(study, "level", test.left.level))
    place = ", ".join(places)
    said = f"{name.label} ({place}): {_with_unit(left, name.unit)}"
    return _Result(int(holds), 1, f"{said} {sign} {_right(study, test, right)}")


def _right(study: Study, test: ClaimTest, value: float) -> str:
    """The right side: a number, or one of our values and its difference in position to the left
    one."""
    unit = describe(test.left.metric).unit
    if not isinstance(test.right, Point):
        return _with_unit(value, unit)
    point = test.right
    other = [] if point.metric == test.left.metric else [describe(point.metric).label]
    other += [
        label(study, axis, value)
        for axis, value in point.at.items()
        if test.left.at.get(axis) != value
    ]
    if point.level != test.left.level:
        other.append(label(study, "level", point.level))
    times = "" if point.factor == 1.0 else f"{point.factor:g} × "  # noqa: RUF001
    shown = f"{times}{_with_unit(value / point.factor, unit)}"
    return f"{shown} ({', '.join(other)})" if other else shown


class _Found:
    """Rows by their position: a claim over a whole grid looks up thousands."""

    def __init__(self, rows: pd.DataFrame) -> None:
        self._groups = dict(iter(rows.groupby(["sweep", "metric", "level"], sort=False)))
        self._places: dict[tuple[str, ...], dict[tuple[Value, ...], tuple[str, float]]] = {}

    def first(self, point: Point, at: Mapping[str, Value]) -> tuple[str, float] | None:
        """State and value of the first row at that position."""
        group = self._groups.get((point.sweep, point.metric, point.level))
        if group is None:
            return None
        key = (point.sweep, point.metric, point.level, *at)
        if key not in self._places:
            axes = [group[axis].tolist() for axis in at]
            places = zip(*axes, strict=True) if axes else repeat(())
            results = zip(group["state"].tolist(), group["value"].tolist(), strict=True)
            # The first row of a position is written last.
            rows = list(zip(places, results, strict=False))
            self._places[key] = dict(reversed(rows))
        return self._places[key].get(tuple(at.values()))


def _value(point: Point, found: _Found) -> float | None:
    """Our value there; infinite if a queue grows without bound, None if nothing was run."""
    value = _one(point, point.at, found)
    if value is None or not point.minus:
        return value
    less = _one(point, {**point.at, **point.minus}, found)
    return None if less is None else value - less


def _one(point: Point, at: Mapping[str, Value], found: _Found) -> float | None:
    row = found.first(point, at)
    if row is None:
        return None
    state, value = row
    if state == DIVERGES and needs_mean(point.metric):
        return math.inf
    return None if pd.isna(value) else float(value) * point.factor


def _with_unit(value: float, unit: str) -> str:
    return "without bound" if math.isinf(value) else f"{significant(value)} {unit}".rstrip()
