"""Sentences of a publication as comparisons of our own values."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pandas as pd

from caravan.study.metrics import DIVERGES, describe, needs_mean
from caravan.study.plan import Claim, ClaimTest, Point, Study
from caravan.study.text import Value
from caravan.study.values import label, number

ABOUT = 0.05
"""How near `about` is, as a part of the right side."""
COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": math.isclose,
    "about": lambda left, right: abs(left - right) <= ABOUT * abs(right),
}
SIGNS = {"<": "<", "<=": "≤", ">": ">", ">=": "≥", "=": "=", "about": "≈"}


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds; None where the run lacks a value that it needs."""

    claim: Claim
    holds: bool | None
    numbers: tuple[str, ...]


def verdicts(study: Study, rows: pd.DataFrame) -> list[Verdict]:
    """Each claim of the study, decided."""
    return [_decide(study, claim, rows) for claim in study.claims]


def _decide(study: Study, claim: Claim, rows: pd.DataFrame) -> Verdict:
    results = [_test(study, test, rows) for test in claim.tests]
    known = [result for result, _ in results]
    holds = None if None in known else all(known)
    return Verdict(claim, holds, tuple(text for _, text in results))


def _test(study: Study, test: ClaimTest, rows: pd.DataFrame) -> tuple[bool | None, str]:
    left = value_at(test.left, rows)
    right = value_at(test.right, rows) if isinstance(test.right, Point) else float(test.right)
    name = describe(test.left.metric)
    if left is None or right is None:
        return None, f"{name.label}: not run"
    holds = COMPARE[test.compares](left, right)
    sign = SIGNS[test.compares] if holds else f"is not {SIGNS[test.compares]}"
    places = [label(study, axis, value) for axis, value in test.left.at.items()]
    if isinstance(test.right, Point) and test.right.level != test.left.level:
        places.append(label(study, "level", test.left.level))
    place = ", ".join(places)
    said = f"{name.label} ({place}): {_short(left)} {name.unit}".rstrip()
    return holds, f"{said} {sign} {_right(study, test, right)}"


def _right(study: Study, test: ClaimTest, value: float) -> str:
    """The right side: a number, or a value of ours and where it differs from the left one."""
    unit = describe(test.left.metric).unit
    if not isinstance(test.right, Point):
        return f"{_short(value)} {unit}".rstrip()
    point = test.right
    other = [
        label(study, axis, value)
        for axis, value in point.at.items()
        if test.left.at.get(axis) != value
    ]
    if point.level != test.left.level:
        other.append(label(study, "level", point.level))
    times = "" if point.factor == 1.0 else f"{point.factor:g} × "  # noqa: RUF001
    shown = f"{times}{_short(value / point.factor)} {unit}".rstrip()
    return f"{shown} ({', '.join(other)})" if other else shown


def value_at(point: Point, rows: pd.DataFrame) -> float | None:
    """Our value there; infinite where a queue grows without bound, None where nothing ran."""
    value = _one(point, point.at, rows)
    if value is None or not point.minus:
        return value
    less = _one(point, {**point.at, **point.minus}, rows)
    return None if less is None else value - less


def _one(point: Point, at: Mapping[str, Value], rows: pd.DataFrame) -> float | None:
    found = rows[(rows["sweep"] == point.sweep) & (rows["metric"] == point.metric)]
    found = found[found["level"] == point.level]
    for axis, value in at.items():
        found = found[found[axis] == value]
    if found.empty:
        return None
    row = found.iloc[0]
    if row["state"] == DIVERGES and needs_mean(point.metric):
        return math.inf
    return None if pd.isna(row["value"]) else float(row["value"]) * point.factor


def _short(value: float) -> str:
    return "without bound" if math.isinf(value) else number(value)
