"""Printed values beside ours: the relative difference, and the reason that the study gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from caravan.study.metrics import APPROXIMATION, DIVERGES, needs_mean
from caravan.study.plan import TOLERANCE, Published, Reason, Study
from caravan.study.results import POINT, Row
from caravan.study.text import Value

UNEXPLAINED = "unexplained"
TRIED = "a reading that was tried; the study does not use it"
"""What is said of a reading other than the first: a [[reason]] speaks of the first alone."""


def beside_published(study: Study, rows: Sequence[Row]) -> list[Row]:
    """The rows, with what was printed of them."""
    by_metric: dict[tuple[str, str], list[Published]] = {}
    for item in study.all_published():
        by_metric.setdefault((item.sweep, item.metric), []).append(item)
    out = []
    for row in rows:
        printed = by_metric.get((row.sweep, row.metric), [])
        here = next((item for item in printed if is_at(row, item.at)), None)
        out.append(row if here is None else _compared(study, row, here))
    return out


def is_at(row: Row, at: Mapping[str, Value]) -> bool:
    """Whether the row is where `at` points; a reading must be named to be meant."""
    if row.reading != at.get("reading", row.reading):
        return False
    return all(getattr(row, axis) == at[axis] for axis in POINT if axis in at)


def _compared(study: Study, row: Row, item: Published) -> Row:
    difference = relative_difference(row.value, item.value)
    is_close = (
        difference is not None
        and abs(difference) <= TOLERANCE
        and not is_loose(row.state, row.metric)
    )
    if is_close:
        reason = ""
    elif _is_tried(study, row, item):
        reason = TRIED
    else:
        reason = item.reason or _reason(study, item)
    return replace(
        row,
        printed=item.printed,
        published=item.value,
        relative_difference=difference,
        reason=reason or (None if is_close else UNEXPLAINED),
    )


def is_loose(state: str, metric: str) -> bool:
    """Whether a value near print is no match: a mean that diverges, or an approximation."""
    return state == APPROXIMATION or (state == DIVERGES and needs_mean(metric))


def matches(rows: pd.DataFrame) -> int:
    """How many rows agree with print."""
    near = rows[rows["relative_difference"].abs() <= TOLERANCE]
    pairs = zip(near["state"], near["metric"], strict=True)
    return sum(not is_loose(state, metric) for state, metric in pairs)


def _is_tried(study: Study, row: Row, item: Published) -> bool:
    """Whether the row belongs to a reading besides the first, and no printed value names it."""
    readings = study.sweep(row.sweep).readings
    names = [reading.name for reading in readings]
    return "reading" not in item.at and row.reading in names[1:]


def headline(study: Study, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with a printed value, those that only try a reading left out."""
    tried = {sweep.name for sweep in study.sweeps if is_trial(study, sweep.name)}
    return rows[rows["published"].notna() & ~rows["sweep"].isin(tried)]


def is_trial(study: Study, sweep: str) -> bool:
    """Whether the sweep compares several readings with the same printed values."""
    items = [item for item in study.published if item.sweep == sweep]
    has_readings = bool(study.sweep(sweep).readings)
    return has_readings and any("reading" not in item.at for item in items)


def relative_difference(ours: float | None, published: float) -> float | None:
    """(ours - published) / published; None where there is nothing to divide."""
    if ours is None or published == 0:
        return None
    return (ours - published) / published


def reason_for(study: Study, item: Published) -> Reason | None:
    """The first [[reason]] that covers the printed value."""
    for reason in study.reasons:
        is_there = item.printed.startswith(reason.printed)
        if is_there and all(item.at.get(axis) == value for axis, value in reason.at.items()):
            return reason
    return None


def _reason(study: Study, item: Published) -> str:
    reason = reason_for(study, item)
    if reason is None:
        return ""
    return reason.text if reason.is_explained else f"{UNEXPLAINED}: {reason.text}"
