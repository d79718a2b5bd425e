"""Printed values beside ours: the relative difference, and the study's reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from caravan.study.metrics import APPROXIMATION, DIVERGES, needs_mean
from caravan.study.parsed import PRINT_TOLERANCE, Published, Reason, Study
from caravan.study.results import POINT, Row
from caravan.study.text import Value

SAME = 1e-9
"""Smaller differences come from the number's notation."""
UNEXPLAINED = "unexplained"
TRIED = "a reading that was tried; the study does not use it"
"""The remark for a reading other than the first: a [[reason]] applies only to the first."""


def beside_published(study: Study, rows: Sequence[Row]) -> list[Row]:
    """The rows, with the printed values."""
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
    """Whether the row is at `at`. A reading only matches if it is named."""
    if row.reading != at.get("reading", row.reading):
        return False
    return all(getattr(row, axis) == at[axis] for axis in POINT if axis in at)


def _compared(study: Study, row: Row, item: Published) -> Row:
    difference = relative_difference(row.value, item.value)
    is_close = (
        difference is not None
        and abs(difference) <= PRINT_TOLERANCE
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
    """Whether a value near print is not a match: a diverging mean, or an approximation."""
    return state == APPROXIMATION or (state == DIVERGES and needs_mean(metric))


@dataclass(frozen=True)
class Score:
    """How many printed values a run compared, and how many of them agree."""

    compared: int
    agreeing: int


def results_score(study: Study, rows: pd.DataFrame) -> Score:
    """Printed results that are not fitted: those within the tolerance."""
    items = [item for item in study.all_published() if not item.is_parameter and not item.fitted]
    return _score(study, rows, PRINT_TOLERANCE, items)


def fitted_scores(study: Study, rows: pd.DataFrame) -> dict[str, Score]:
    """Fitted printed results, by what was fitted; without those not run."""
    fitted = [item for item in study.all_published() if item.fitted]
    scores = {
        what: _score(study, rows, PRINT_TOLERANCE, [item for item in fitted if item.fitted == what])
        for what in dict.fromkeys(item.fitted for item in fitted)
    }
    return {what: score for what, score in scores.items() if score.compared}


def parameters_score(study: Study, rows: pd.DataFrame) -> Score:
    """Printed parameters of the computation: those that are equal."""
    return _score(study, rows, SAME, [item for item in study.all_published() if item.is_parameter])


def _score(study: Study, rows: pd.DataFrame, tolerance: float, items: Sequence[Published]) -> Score:
    """Each printed value counts once, and agrees if it does at every level that was run."""
    printed = headline(study, rows)
    compared = agreeing = 0
    for item in items:
        if is_trial(study, item.sweep):
            continue
        found = _compared_rows(printed, item)
        compared += not found.empty
        agreeing += not found.empty and agrees(found, tolerance)
    return Score(compared, agreeing)


def not_run(study: Study, rows: pd.DataFrame) -> list[Published]:
    """The printed values that this run has no value for, without those of tried readings."""
    printed = headline(study, rows)
    items = [item for item in study.all_published() if not is_trial(study, item.sweep)]
    return [item for item in items if _compared_rows(printed, item).empty]


def _compared_rows(printed: pd.DataFrame, item: Published) -> pd.DataFrame:
    """The rows of the printed value; approximations only if there is nothing else."""
    found = printed[(printed["sweep"] == item.sweep) & (printed["metric"] == item.metric)]
    for axis, value in item.at.items():
        found = found[found[axis] == value]
    firm = found[found["state"] != APPROXIMATION]
    return found if firm.empty else firm


def agrees(rows: pd.DataFrame, tolerance: float = PRINT_TOLERANCE) -> bool:
    """Whether every row matches print; diverging means and approximations never do."""
    pairs = zip(rows["state"], rows["metric"], strict=True)
    is_firm = not any(is_loose(state, metric) for state, metric in pairs)
    return is_firm and bool((rows["relative_difference"].abs() <= tolerance).all())


def _is_tried(study: Study, row: Row, item: Published) -> bool:
    """Whether the row belongs to a reading besides the first, and no printed value names it."""
    readings = study.sweep(row.sweep).readings
    names = [reading.name for reading in readings]
    return "reading" not in item.at and row.reading in names[1:]


def headline(study: Study, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with a printed value, without tried readings."""
    tried = {sweep.name for sweep in study.sweeps if is_trial(study, sweep.name)}
    return rows[rows["published"].notna() & ~rows["sweep"].isin(tried)]


def is_trial(study: Study, sweep: str) -> bool:
    """Whether the sweep compares several readings with the same printed values."""
    items = [item for item in study.published if item.sweep == sweep]
    has_readings = bool(study.sweep(sweep).readings)
    return has_readings and any("reading" not in item.at for item in items)


def relative_difference(ours: float | None, published: float) -> float | None:
    """(ours - published) / published; None if published is 0 or missing."""
    if ours is None or published == 0:
        return None
    return (ours - published) / published


def reason_for(study: Study, item: Published) -> Reason | None:
    """The first [[reason]] that covers the printed value."""
    for reason in study.reasons:
        is_there = item.printed == reason.printed
        if is_there and all(item.at.get(axis) == value for axis, value in reason.at.items()):
            return reason
    return None


def _reason(study: Study, item: Published) -> str:
    reason = reason_for(study, item)
    if reason is None:
        return ""
    return reason.text if reason.is_explained else f"{UNEXPLAINED}: {reason.text}"
