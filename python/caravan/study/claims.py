"""Sentences of a publication, as comparisons of our own values."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import TypeAlias

import pandas as pd

from caravan.numbers import significant
from caravan.study.cells import points
from caravan.study.family import widening
from caravan.study.metrics import DIVERGES, describe, needs_mean
from caravan.study.parsed import LEVELS, Claim, ClaimTest, Point, Study
from caravan.study.places import SENTENCES, VERDICT
from caravan.study.text import Value
from caravan.study.values import ABSENT, label

SIMULATE, TESTBED = LEVELS[1:]
TESTS_SAID = 3
"""A sentence with more comparisons has them counted, not listed."""
ABOUT = 0.05
"""How near `about` is, as a fraction of the right side."""
NEAR = ("=", "about")


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
    "within": lambda left, right: abs(left) <= right,
}
SIGNS = {"<": "<", "<=": "≤", ">": ">", ">=": "≥", "=": "=", "about": "≈", "within": "within ±"}


HOLDS, IN_PART, FAILS = "holds", "in part", "does not hold"
WITHIN = "within the spread"
"""The grade of a sentence that our values cannot decide."""
GRADES = (HOLDS, IN_PART, FAILS, WITHIN)
NOT_RUN = "not run"


@dataclass(frozen=True)
class Verdict:
    """A claim's grade by our values, or `not run` if a needed value is missing.

    `stands_in`: the level that was taken because the claim's own was not run; empty: its own.
    """

    claim: Claim
    grade: str
    numbers: tuple[str, ...]
    stands_in: str = ""


@dataclass(frozen=True)
class _Result:
    """A test: at how many of its points it holds (None: not run), and its description.

    `within`: at how many points both sides are too near to each other to decide.
    """

    held: int | None
    points: int
    says: str
    within: int = 0
    example: str = ""
    """One of its points in words; of those that refute it if there are any. Empty: `says`."""

    @property
    def decided(self) -> int:
        """At how many points it holds or does not."""
        return self.points - self.within


@dataclass(frozen=True)
class _Side:
    """One of our values, and half of its interval in its family; None: it has none."""

    value: float
    half: float | None


def verdicts(study: Study, rows: pd.DataFrame) -> list[Verdict]:
    """Each claim of the study, graded."""
    found = _Found(rows)
    return [_decided(study, claim, found) for claim in study.claims]


def value_at(point: Point, rows: pd.DataFrame) -> float | None:
    """Our value there; None if it was not run."""
    side = _value(point, _Found(rows))
    return None if side is None else side.value


def counted(found: Sequence[Verdict]) -> str:
    """The number of sentences per grade, in words; empty if there is none."""
    number, graded = score(found)
    return f"{number} sentences {graded}" if found else ""


def with_sentences(text: str, study: Study, rows: pd.DataFrame) -> str:
    """A text of the study with the number of sentences per grade, and verdicts, where it asks for
    them."""
    if not SENTENCES.search(text) and not VERDICT.search(text):
        return text
    found = verdicts(study, rows)
    grades = {one.claim.name: ABSENT if one.grade == NOT_RUN else one.grade for one in found}
    counts = counted(found) or ABSENT
    return VERDICT.sub(lambda match: grades[match[1]], SENTENCES.sub(counts, text))


def score(found: Sequence[Verdict]) -> tuple[str, str]:
    """How many sentences hold, as "3 of 5", and what goes on after the word "sentences"."""
    counts = {grade: sum(item.grade == grade for item in found) for grade in (*GRADES, NOT_RUN)}
    decided = sum(counts[grade] for grade in GRADES)
    if not decided:
        return str(len(found)), "not run: they need another level"
    parts = ["hold"]
    standing_in = sum(item.stands_in != "" for item in found)
    if counts[IN_PART]:
        parts.append(f"{counts[IN_PART]} in part")
    if counts[FAILS]:
        parts.append(f"{counts[FAILS]} not")
    if counts[WITHIN]:
        parts.append(f"{counts[WITHIN]} within the spread")
    if counts[NOT_RUN]:
        parts.append(f"{counts[NOT_RUN]} were not run")
    if standing_in:
        parts.append(f"{standing_in} by the simulation, because the testbed was not run")
    return f"{counts[HOLDS]} of {decided}", ", ".join(parts)


def _decided(study: Study, claim: Claim, found: _Found) -> Verdict:
    """By the claim's own level; where that is a testbed that was not run, by the simulation."""
    own = _decide(study, claim, found)
    other = _by_simulation(study, claim) if own.grade == NOT_RUN else None
    if other is None:
        return own
    simulated = _decide(study, other, found)
    return (
        own if simulated.grade == NOT_RUN else replace(simulated, claim=claim, stands_in=SIMULATE)
    )


def _by_simulation(study: Study, claim: Claim) -> Claim | None:
    """The claim over simulated values; None if it names its levels or they are not simulated."""
    sides = [side for test in claim.tests for side in (test.left, test.right)]
    for side in sides:
        if isinstance(side, Point) and (
            side.is_level_named
            or side.level != TESTBED
            or SIMULATE not in study.sweep(side.sweep).levels
        ):
            return None
    return replace(claim, tests=tuple(_simulated(test) for test in claim.tests))


def _simulated(test: ClaimTest) -> ClaimTest:
    right = test.right
    if isinstance(right, Point):
        right = replace(right, level=SIMULATE)
    return replace(test, left=replace(test.left, level=SIMULATE), right=right)


def _decide(study: Study, claim: Claim, found: _Found) -> Verdict:
    """A sentence holds if each part does at every point, or at more than its share of them; in part
    if anything of it does. Where our values tell too little apart it does not hold: nothing of one
    part, or less than half of all points."""
    results = [_test(study, claim, test, found) for test in claim.tests]
    if any(result.held is None for result in results):
        grade = NOT_RUN
    elif not any(result.decided for result in results):
        grade = WITHIN
    else:
        held = sum(result.held or 0 for result in results)
        decided = sum(result.decided for result in results)
        is_told = all(result.decided for result in results)
        is_told &= 2 * decided >= sum(result.points for result in results)
        is_enough = held == decided if claim.share is None else held > claim.share * decided
        grade = HOLDS if is_enough and is_told else IN_PART if held else FAILS
    return Verdict(claim, grade, tuple(_said(results)))


def _said(results: Sequence[_Result]) -> list[str]:
    """Each test in words; of many their count, and one that refutes the sentence."""
    if any(result.held is None for result in results) or len(results) <= TESTS_SAID:
        return list(dict.fromkeys(result.says for result in results))
    held, count = sum(one.held or 0 for one in results), sum(one.points for one in results)
    within = sum(result.within for result in results)
    refuted = [result for result in results if (result.held or 0) < result.decided]
    rest = f", {within} within the spread" if within else ""
    for_one = (refuted or results)[-1]
    told = f": {for_one.example or for_one.says}" if refuted else ""
    return [f"{len(results)} comparisons hold at {held} of {count} points{rest}{told}"]


def _test(study: Study, claim: Claim, test: ClaimTest, found: _Found) -> _Result:
    """A test at its point, or at each of the points of `over`."""
    if not test.over:
        return _at_one(study, claim, test, found)
    results = [_at_one(study, claim, _moved(test, point), found) for point in points(test.over)]
    count = len(results)
    for result in results:
        if result.held is None:
            return result
    if count == 1:
        return results[0]
    within = sum(result.within for result in results)
    refuted = [result for result in results if not result.held and not result.within]
    rest = f", {within} within the spread" if within else ""
    held = count - within - len(refuted)
    if not refuted:
        share = f"at {held} of {count} points{rest}" if within else f"at each of {count} points"
        if within == count:
            share = f"within the spread at each of {count} points"
        example = results[-1].says
        return _Result(held, count, f"{share}, as {example}", within, example)
    share = f"at {held} of {count} points" if held else f"at none of {count} points"
    example = refuted[-1].says
    return _Result(held, count, f"{share}{rest}: {example}", within, example)


def _moved(test: ClaimTest, point: Mapping[str, Value]) -> ClaimTest:
    """The test at one of the points of `over`."""
    left, right = replace(test.left, at={**test.left.at, **point}), test.right
    if isinstance(right, Point):
        # The difference between the right and the left side is kept.
        kept = {axis: value for axis, value in point.items() if axis not in right.at}
        right = replace(right, at={**right.at, **kept})
    return replace(test, left=left, right=right, over={})


def _at_one(study: Study, claim: Claim, test: ClaimTest, found: _Found) -> _Result:
    family = claim.comparisons
    one = _value(test.left, found, family)
    other = test.right
    two = _value(other, found, family) if isinstance(other, Point) else _Side(float(other), 0.0)
    name = describe(test.left.metric)
    if one is None or two is None:
        return _Result(None, 1, f"{name.label}: {NOT_RUN}")
    left, right = one.value, two.value
    holds: bool | None = COMPARE[test.compares](left, right)
    if claim.counts_spread:
        holds = _beyond_spread(test, one, two)
    sign = SIGNS[test.compares]
    if holds is None:
        sign = "is not told from"
    elif not holds:
        sign = f"is not {sign}"
    places = [label(study, axis, value) for axis, value in test.left.at.items()]
    if isinstance(test.right, Point) and test.right.level != test.left.level:
        places.append(label(study, "level", test.left.level))
    place = ", ".join(places)
    said = f"{name.label} ({place}): {_with_unit(left, name.unit)}"
    says = f"{said} {sign} {_right(study, test, right)}"
    return _Result(int(holds or 0), 1, says, within=int(holds is None))


def _beyond_spread(test: ClaimTest, left: _Side, right: _Side) -> bool | None:
    """Whether a test holds; None: both sides are too near to each other, or have no spread."""
    if left.half is None or right.half is None:
        return None
    apart, spread = abs(left.value - right.value), math.hypot(left.half, right.half)
    holds = COMPARE[test.compares](left.value, right.value)
    if test.compares not in NEAR:
        return holds if apart > spread else None
    # Without any spread two runs of a simulation are the same if they are near.
    near = ABOUT if spread == 0 or test.compares == "about" else 0.0
    near = test.margin or near
    most = near * abs(right.value)
    if holds or apart + spread <= most:
        return True
    return None if apart - spread <= most else False


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


_Row: TypeAlias = tuple[str, float, float, float, float]
"""State, value, both ends of its interval, and how many runs it has."""


class _Found:
    """Rows by their position: a claim over a whole grid looks up thousands."""

    def __init__(self, rows: pd.DataFrame) -> None:
        if "replications" not in rows:
            rows = rows.assign(replications=math.nan)
        self._groups = dict(iter(rows.groupby(["sweep", "metric", "level"], sort=False)))
        self._places: dict[tuple[str, ...], dict[tuple[Value, ...], _Row]] = {}

    def first(self, point: Point, at: Mapping[str, Value]) -> _Row | None:
        """The first row at that position."""
        group = self._groups.get((point.sweep, point.metric, point.level))
        if group is None:
            return None
        key = (point.sweep, point.metric, point.level, *at)
        if key not in self._places:
            axes = [group[axis].tolist() for axis in at]
            places = zip(*axes, strict=True) if axes else repeat(())
            names = ("state", "value", "ci95_low", "ci95_high", "replications")
            columns = (group[name].tolist() for name in names)
            results = zip(*columns, strict=True)
            # The first row of a position is written last.
            rows = list(zip(places, results, strict=False))
            self._places[key] = dict(reversed(rows))
        return self._places[key].get(tuple(at.values()))


def _value(point: Point, found: _Found, family: int = 1) -> _Side | None:
    """Our value there; infinite if a queue grows without bound, None if nothing was run. Its
    interval is that of one of `family` values."""
    one = _one(point, point.at, found, family)
    if one is None or not point.minus:
        return one if one is None or not point.is_absolute else replace(one, value=abs(one.value))
    less = _one(point, {**point.at, **point.minus}, found, family)
    if less is None:
        return None
    is_spread = one.half is not None and less.half is not None
    value = one.value - less.value
    return _Side(
        abs(value) if point.is_absolute else value,
        math.hypot(one.half or 0, less.half or 0) if is_spread else None,
    )


def _one(point: Point, at: Mapping[str, Value], found: _Found, family: int) -> _Side | None:
    row = found.first(point, at)
    if row is None:
        return None
    state, value, low, high, runs = row
    if state == DIVERGES and needs_mean(point.metric):
        return _Side(math.inf, None)
    if pd.isna(value):
        return None
    # The wider half: that of a median may be on either side, and an end that is cut off at a bound
    # is nearer than the other.
    ends = [abs(float(end) - float(value)) for end in (low, high) if not pd.isna(end)]
    half = max(ends) * abs(point.factor) if ends else None
    if half is not None:
        half *= widening(family, None if pd.isna(runs) else int(runs))
    if half is None and point.level == SIMULATE and not point.is_level_named:
        # The event kernel repeats its runs exactly.
        half = 0.0
    return _Side(float(value) * point.factor, half)


def _with_unit(value: float, unit: str) -> str:
    return "without bound" if math.isinf(value) else f"{significant(value)} {unit}".rstrip()
