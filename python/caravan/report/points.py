"""The rows of one figure, as the columns that its layers draw."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from caravan.study.metrics import (
    APPROXIMATION,
    DIVERGES,
    NUMERIC_AXES,
    describe,
    needs_mean,
)
from caravan.study.parsed import LEVELS, PART, Figure, Study
from caravan.study.text import Value
from caravan.study.values import label

LEVEL = "level"
PRINTED = "printed"
"""The kind of a printed value, and its series where the others are levels."""
HEADROOM = 1.6
"""How far above the highest stable value a diverging point is drawn."""


@dataclass(frozen=True)
class Points:
    """The points to draw. Columns: x, y, low, high, series, panel, kind, says."""

    frame: pd.DataFrame
    series: tuple[str, ...]
    panels: tuple[str, ...]
    y_top: float | None

    def kinds(self) -> set[str]:
        """The layers that have something to draw."""
        return set(self.frame["kind"])


def points(study: Study, figure: Figure, rows: pd.DataFrame) -> Points:
    """What the figure draws of a run."""
    chosen = chosen_rows(figure, rows)
    frame = pd.DataFrame(
        {
            "x": chosen[figure.x],
            "y": chosen["value"],
            "low": chosen["ci95_low"],
            "high": chosen["ci95_high"],
            "series": [_name(study, figure.series, row) for _, row in chosen.iterrows()],
            "panel": [_name(study, figure.panels, row) for _, row in chosen.iterrows()],
            "kind": chosen["level"],
            "state": [
                state if state != DIVERGES or needs_mean(metric) else "beyond capacity"
                for state, metric in zip(chosen["state"], chosen["metric"], strict=True)
            ],
            "printed": chosen["published"],
            "where": chosen["printed"],
            "order": [_order(study, figure, row) for _, row in chosen.iterrows()],
        }
    ).reset_index(drop=True)
    if figure.x == PART:
        frame["x"] = frame["x"].astype(str)
    elif figure.x not in NUMERIC_AXES:
        frame["x"] = [label(study, figure.x, value) for value in frame["x"]]
    top = _top(frame, figure)
    frame = pd.concat([frame, _diverging(frame, top), _printed(figure, frame)], ignore_index=True)
    frame[["y", "low", "high"]] = frame[["y", "low", "high"]].astype(float)
    frame = frame[(frame["kind"] != "simulate") | (frame["state"] != DIVERGES)]
    frame = frame[~((frame["kind"] == "model") & frame["y"].isna())]
    is_rough = (frame["kind"] == "model") & (frame["state"] == APPROXIMATION)
    frame.loc[is_rough, "kind"] = APPROXIMATION
    frame = frame.sort_values("order", kind="stable").reset_index(drop=True)
    return Points(
        frame=frame.drop(columns=["printed", "order"]),
        series=tuple(dict.fromkeys(frame["series"])),
        panels=tuple(dict.fromkeys(frame["panel"])),
        y_top=top,
    )


def chosen_rows(figure: Figure, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of each part of a figure: its sweep, its metrics, its point in the grid; and the
    part's name as another column."""
    found = []
    for part in figure.parts:
        chosen = rows[(rows["sweep"] == part.sweep) & rows["metric"].isin(part.metrics)]
        for axis, value in part.at.items():
            chosen = chosen[chosen[axis] == value]
        found.append(chosen.assign(**{PART: part.name}))
    return pd.concat(found)


def _name(study: Study, axis: str, row: pd.Series) -> str:
    if axis == "":
        return ""
    if axis == PART:
        return str(row[PART])
    if axis == "metric":
        metric = str(row["metric"])
        return study.labels.get(metric, describe(metric).label)
    if axis == LEVEL:
        return study.labels.get(str(row["level"]), str(row["level"]))
    return label(study, axis, row[axis])


def _order(study: Study, figure: Figure, row: pd.Series) -> int:
    """Series in the order of the grid, metrics in the order of the figure."""
    if figure.series == "metric":
        return figure.metrics.index(str(row["metric"]))
    if figure.series == LEVEL:
        return LEVELS.index(str(row["level"]))
    if figure.series == "reading":
        return 0
    if figure.series == PART:
        names: list[Value] = [part.name for part in figure.parts]
    else:
        grids = (study.sweep(part.sweep).grid for part in figure.parts)
        names = [value for grid in grids for value in grid.get(figure.series, ())]
    value = row[figure.series]
    return names.index(value) if value in names else len(names)


def _top(frame: pd.DataFrame, figure: Figure) -> float | None:
    """Where diverging points are drawn; None if nothing diverges."""
    if figure.y_most is not None:
        return figure.y_most
    # A logarithmic axis has room for the formula's values too, which may be very large near
    # saturation; a linear one would show nothing else.
    kinds = ["simulate", "model"] if figure.y_scale == "log" else ["simulate"]
    stable = frame[(frame["state"] != DIVERGES) & frame["kind"].isin(kinds)]["y"].dropna()
    if (frame["state"] == DIVERGES).any() and not stable.empty:
        return float(stable.max()) * HEADROOM
    return None


def _diverging(frame: pd.DataFrame, top: float | None) -> pd.DataFrame:
    """A mark at the top for each simulated point that has no mean."""
    gone = frame[(frame["kind"] == "simulate") & (frame["state"] == DIVERGES)].copy()
    if top is None:
        return gone.iloc[:0]
    gone[["y", "low", "high"]] = top, float("nan"), float("nan")
    gone["kind"] = "diverges"
    return gone


def _printed(figure: Figure, frame: pd.DataFrame) -> pd.DataFrame:
    """A mark for each printed value. Where levels are the series, print is one more of them."""
    printed = frame[frame["printed"].notna()].copy()
    if figure.series == LEVEL:
        printed["series"] = PRINTED
        printed["order"] = -1
    printed = printed.drop_duplicates(["x", "series", "panel"])
    printed["y"] = printed["printed"]
    printed["kind"] = PRINTED
    printed["state"] = printed["where"]
    return printed
