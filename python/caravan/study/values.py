"""Values of a run in texts: `{{ sweep: metric, axis = value, level = model }}`.

`column = ci95_low` (or `ci95_high`, `relative_difference`) selects that column of the row, and
`minus policy = des` subtracts the value at the point with this difference.

So texts that explain differences always agree with the numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pandas as pd

from caravan.numbers import significant
from caravan.study.metrics import AXES, BOUND_WORDS, is_known
from caravan.study.parsed import LEVELS, Study
from caravan.study.places import COLUMNS, MINUS, PLACE, parts

ABSENT = "(not run)"
BOUNDED = "(not known: of a bound)"


def fill(text: str, rows: pd.DataFrame) -> str:
    """Fill our values into the text, from the highest level that was run unless it names one."""
    return PLACE.sub(lambda match: _value(match, rows), text)


def label(study: Study, axis: str, value: object) -> str:
    """How a value of an axis is written: the study's own label, or the value with its unit."""
    if isinstance(value, float):
        unit = AXES[axis].unit
        return f"{value:g} {unit}".strip()
    return study.labels.get(str(value), str(value))


def _value(match: re.Match[str], rows: pd.DataFrame) -> str:
    sweep, metric, places = match.groups()
    if not is_known(metric):
        return f"(no metric {metric})"
    cited = dict(parts(places))
    taken = [key for key in cited if key.startswith(MINUS)]
    minus = {key.removeprefix(MINUS): cited.pop(key) for key in taken}
    own = _row(rows, sweep, metric, cited)
    if isinstance(own, str):
        return own
    row, column = own
    if minus:
        other = _row(rows, sweep, metric, {**cited, **minus, "level": row["level"]})
        if isinstance(other, str):
            return other
        less, _ = other
        is_bounded = row["bound"] in BOUND_WORDS or less["bound"] in BOUND_WORDS
        return BOUNDED if is_bounded else significant(row["value"] - less["value"])
    shown = row[column]
    if column == "relative_difference" and not pd.isna(shown):
        return f"{shown * 100:+.1f} %"
    # A text never shows a bound like an exact value.
    words = BOUND_WORDS.get(row["bound"]) if column == "value" else None
    return f"{words} {significant(shown)}" if words else significant(shown)


def _row(
    rows: pd.DataFrame, sweep: str, metric: str, cited: Mapping[str, str]
) -> tuple[pd.Series[Any], str] | str:
    """The row that a text cites and the column, or what to write instead."""
    found = rows[(rows["sweep"] == sweep) & (rows["metric"] == metric)]
    column = "value"
    for axis, value in cited.items():
        if axis == "level":
            found = found[found["level"] == value]
        elif axis == "column" and value in COLUMNS:
            column = value
        elif axis in AXES:
            is_number = pd.api.types.is_numeric_dtype(found[axis])
            found = found[found[axis] == (float(value) if is_number else value.replace(";", ","))]
        else:
            return f"(no axis {axis})"
    if found.empty:
        return ABSENT
    ranked = found.assign(rank=[-LEVELS.index(level) for level in found["level"]])
    return ranked.sort_values("rank", kind="stable").iloc[0], column
