"""Figures of a study as Vega-Lite: one specification makes the page's picture, PNG and SVG.

Every mark shows its level, and `marks_say` explains the marks of a figure.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd
import vl_convert

from caravan.report.points import LEVEL, PRINTED, Points, chosen_rows, points
from caravan.report.tables import bounds_say
from caravan.study.metrics import APPROXIMATION, NUMERIC_AXES, heading
from caravan.study.parsed import PART, Figure, Study
from caravan.study.results import land_bytes, land_text
from caravan.study.values import fill

WIDTH = 460
HEIGHT = 300
MARKS_MAX = 60
"""With more points on a curve only its line is drawn; the marks still show their values on hover.
"""
PANEL_WIDTH = 290
PANEL_HEIGHT = 230
PANEL_COLUMNS = 3
PNG_SCALE = 2
INK = "#1f2933"
FAINT = "#e4e7eb"
PALETTE = (
    "#52606d",
    "#0b7285",
    "#e67700",
    "#2b8a3e",
    "#c2255c",
    "#5f3dc4",
    "#1971c2",
    "#a61e4d",
    "#66a80f",
    "#862e9c",
    "#d9480f",
    "#087f5b",
    "#15aabf",
    "#fcc419",
    "#f783ac",
    "#343a40",
)
LEVEL_WORDS = {"model": "model", "simulate": "simulation", "testbed": "testbed"}
MARKS = {"model": "tick", APPROXIMATION: "tick", "simulate": "circle"}
"""How levels are drawn upon the bars of a higher one."""
MARK_WORDS = {"model": "ticks", APPROXIMATION: "ticks", "simulate": "circles"}
WHOLE = ("standing", "rounds")
"""Metrics that only have whole values."""
BARS = ("bar", "stack")
LABEL_PIXELS = 320
"""Of a name on an axis: none is cut."""
EDGE = 8
"""Pixels between the ends of the x axis and what is drawn there."""
TRIANGLE = 5.0
TRIANGLE_STEP = 3.0
"""Pixels across the smallest mark of a queue without bound, and how much larger each next one is.
"""
LOG_ROOM = 1.5
"""How far a logarithmic axis extends beyond the data."""
FINE = (1, 2, 5)
DECADES_FINE = 3
DECADES_COARSE = 8
LINES: dict[str, tuple[float, list[int]]] = {
    "model": (2, [1, 0]),
    APPROXIMATION: (2, [5, 3]),
    "simulate": (1, [1, 3]),
}
"""Width and dashes of the line that joins the values of a kind."""
SUBTITLE_LENGTH = 76
LEGEND_LENGTH = 64
"""Characters that fit into one row of a legend; each symbol takes some."""
LEGEND_SYMBOL = 6
LABELS_LENGTH = 45
"""Characters that fit under an axis side by side."""
NUMBERS = ",.6~r"
FONT = "Helvetica Neue, Helvetica, Arial, Liberation Sans, sans-serif"
CONFIG: dict[str, Any] = {
    "background": "white",
    "font": FONT,
    "view": {"stroke": None},
    "axis": {
        "gridColor": FAINT,
        "domainColor": "#9aa5b1",
        "tickColor": "#9aa5b1",
        "labelColor": INK,
        "titleColor": INK,
        "titleFontWeight": 500,
        "labelFontSize": 11,
        "titleFontSize": 12,
        "titlePadding": 8,
    },
    "legend": {
        "labelFontSize": 11,
        "titleFontSize": 11,
        "symbolStrokeWidth": 3,
        "orient": "bottom",
        "labelLimit": 220,
    },
    "header": {"labelFontSize": 12, "labelFontWeight": 600, "titleFontSize": 0},
}


@dataclass(frozen=True)
class Picture:
    """A figure that has values: its Vega-Lite specification, what each kind of its marks means, and
    the notes below it."""

    spec: dict[str, Any]
    marks: str
    notes: tuple[str, ...]


def picture(study: Study, figure: Figure, rows: pd.DataFrame) -> Picture | None:
    """What a run has for the figure; None without any value."""
    # Everything below looks at the few rows of the figure, and only its note at all of them.
    own = rows.loc[chosen_rows(figure, rows).index.unique()]
    if not own["value"].notna().any():
        return None
    notes = (fill(figure.note, rows), bounds_say(figure, own))
    return Picture(
        specification(study, figure, own),
        "; ".join(marks_say(study, figure, own)),
        tuple(note for note in notes if note),
    )


def specification(study: Study, figure: Figure, rows: pd.DataFrame) -> dict[str, Any]:
    """The figure's Vega-Lite specification, data included."""
    chosen = points(study, figure, rows)
    drawing = _Drawing(study, figure, chosen)
    chart = drawing.stack() if figure.draw == "stack" else drawing.chart()
    # Each part was checked when it was made.
    spec: dict[str, Any] = chart.configure(**CONFIG).to_dict(validate=False)
    return spec


def write_pictures(study: Study, figure: Figure, drawn: Picture, directory: Path) -> None:
    """Write the figure as SVG and PNG into `directory`, with the heading that the page has around
    it."""
    svg = vl_convert.vegalite_to_svg(drawn.spec | {"title": _heading(study, figure, drawn)})
    land_text(directory / f"{figure.name}.svg", svg)
    land_bytes(directory / f"{figure.name}.png", vl_convert.svg_to_png(svg, scale=PNG_SCALE))


def marks_say(study: Study, figure: Figure, rows: pd.DataFrame) -> list[str]:
    """What each kind of mark in the figure means."""
    chosen = points(study, figure, rows)
    kinds = chosen.kinds()
    if figure.draw in BARS:
        said = _bars_say(figure, chosen.frame, kinds)
    elif figure.draw == "points":
        said = [_points_say("simulate" if "simulate" in kinds else "model")]
    else:
        said = ["lines: model"] if "model" in kinds else []
        said += ["dashed: model, approximate"] if APPROXIMATION in kinds else []
        if "simulate" in kinds:
            said.append(_points_say("simulate"))
            said += [] if said[:-1] else ["dotted: joins the points"]
        said += ["crosses: testbed, 95 % interval"] if "testbed" in kinds else []
    said += ["triangles: queues grow without bound"] if "diverges" in kinds else []
    said += ["diamonds: printed"] if _has_diamonds(figure, kinds) else []
    there = set(chosen_rows(figure, rows)[PART])
    absent = [part.name for part in figure.parts if part.name not in there]
    return said + ([f"not run: {', '.join(absent)}"] if absent else [])


def _has_diamonds(figure: Figure, kinds: set[str]) -> bool:
    """Whether printed values are marks of their own: where levels are the bars, print is one."""
    return PRINTED in kinds and figure.series != LEVEL and figure.draw != "stack"


def _points_say(level: str) -> str:
    return "points: simulation, 95 % interval" if level == "simulate" else "squares: model"


def _bars_say(figure: Figure, frame: pd.DataFrame, kinds: set[str]) -> list[str]:
    """Which level the bars are and which the marks on them; unless the name of each has it."""
    if figure.series == LEVEL:
        return []
    if figure.draw == "stack":
        names = [_spoken(level) for level in _levels_of(kinds)]
        return ["side by side: " + ", ".join(names) if len(names) > 1 else f"bars: {names[0]}"]
    *others, drawn = _levels_of(kinds)
    said = [f"bars: {_spoken(drawn)}"]
    said += [f"{MARK_WORDS[level[0]]}: {_spoken(level)}" for level in others]
    bars = frame[frame["kind"].isin(drawn)]
    said += ["rules: 95 % interval"] if bars["high"].notna().any() else []
    return said + _below(bars[bars["y"] < 0])


def _below(bars: pd.DataFrame) -> list[str]:
    """What bars below 0 mean."""
    if bars.empty:
        return []
    if bars["high"].isna().any():
        return ["bars below 0: of one run, so their spread is not known"]
    outside = int((bars["high"] < 0).sum())
    if not outside:
        return ["bars below 0: within the spread"]
    return [f"{outside} of {len(bars)} bars below 0 are outside the spread"]


def _levels_of(kinds: set[str]) -> list[tuple[str, ...]]:
    """The kinds of points of each level that has any, in the order of the levels: those of the
    model are exact or approximate."""
    levels = (("model", APPROXIMATION), ("simulate",), ("testbed",))
    there = [tuple(kind for kind in level if kind in kinds) for level in levels]
    return [level for level in there if level] or [("model",)]


def _spoken(level: tuple[str, ...]) -> str:
    if APPROXIMATION not in level:
        return LEVEL_WORDS[level[0]]
    return "model, in part approximate" if "model" in level else "model, approximate"


def _heading(study: Study, figure: Figure, drawn: Picture) -> dict[str, Any]:
    """Title, where it was printed, the meaning of the marks, and the notes that the page has."""
    where = f"{figure.printed}. {study.title}" if figure.printed else study.title
    return {
        "text": figure.title,
        "subtitle": [
            *_lines(where),
            *_lines(drawn.marks),
            *(line for note in drawn.notes for line in _lines(note)),
        ],
        "anchor": "start",
        "frame": "bounds",
        "color": INK,
        "subtitleColor": INK,
        "fontSize": 14,
        "subtitleFontSize": 11,
        "offset": 12,
    }


def _lines(text: str) -> list[str]:
    return textwrap.wrap(text, SUBTITLE_LENGTH)


def log_ticks(least: float, most: float, fine: Sequence[int] = FINE) -> list[float]:
    """The lines of a logarithmic axis: `fine` and their tens; over many decades only tens."""
    decades = math.log10(most / least)
    steps = fine if decades < DECADES_FINE else (1,)
    thinned = 1 if decades < DECADES_COARSE else 2
    first, last = math.floor(math.log10(least)), math.ceil(math.log10(most))
    powers = range(first - first % thinned, last + 1, thinned)
    ticks = (step * 10.0**power for power in powers for step in steps)
    return [tick for tick in ticks if least <= tick <= most]


def _log_domain(chosen: Points) -> list[float]:
    """The range of a logarithmic axis for these points."""
    values = chosen.frame[["y", "low", "high"]]
    values = values[values > 0]
    return [values.min().min() / LOG_ROOM, chosen.y_top or values.max().max() * LOG_ROOM]


class _Drawing:
    """The layers of one figure."""

    def __init__(self, study: Study, figure: Figure, chosen: Points) -> None:
        self._figure = figure
        # A logarithmic axis has no 0, at which an interval may end.
        foot = chosen.frame["low"]
        if figure.y_scale == "log":
            foot = foot.clip(lower=_log_domain(chosen)[0])
        # Marks at the same place are nested, so that all are visible.
        names = list(reversed(chosen.series))
        widths = (TRIANGLE + TRIANGLE_STEP * names.index(name) for name in chosen.frame["series"])
        area = [width**2 for width in widths]
        self._points = replace(chosen, frame=chosen.frame.assign(foot=foot, area=area))
        self._study = study
        self._has_panels = bool(figure.panels)
        self._pick = alt.selection_point(fields=["series"], bind="legend", name="pick")

    def chart(self) -> Any:
        """Curves or bars drawn over each other, in panels side by side if the figure has them."""
        layers = self._bars() if self._figure.draw == "bar" else self._curves()
        width, height = (PANEL_WIDTH, PANEL_HEIGHT) if self._has_panels else (WIDTH, HEIGHT)
        chart = alt.layer(*layers, data=self._points.frame).properties(width=width, height=height)
        if not self._has_panels:
            return chart.add_params(self._pick)
        facet = alt.Facet("panel:N", title=None, sort=list(self._points.panels))
        return chart.add_params(self._pick).facet(facet=facet, columns=PANEL_COLUMNS)

    def stack(self) -> Any:
        """One stacked bar per place; levels side by side."""
        frame = self._points.frame
        names = list(self._points.series)
        order = alt.Order("order:Q", sort="ascending")
        frame = frame.assign(order=[names.index(name) for name in frame["series"]])
        levels = _levels_of(self._points.kinds())
        spoken = {kind: _spoken(level) for level in levels for kind in level}
        frame = frame[frame["kind"].isin(list(spoken))]
        frame = frame.assign(level=[spoken[kind] for kind in frame["kind"]])
        bars = (
            alt.Chart(frame)
            .mark_bar(stroke="white", strokeWidth=1)
            .encode(
                x=alt.X("y:Q", title=self._y_title(), stack="zero"),
                y=alt.Y(
                    "x:N",
                    title=None,
                    sort=list(dict.fromkeys(frame["x"])),
                    axis=alt.Axis(labelLimit=LABEL_PIXELS),
                ),
                color=self._color(),
                order=order,
                tooltip=self._tooltip(),
            )
        )
        height = 34 * frame["x"].nunique()
        if len(levels) == 1:
            return bars.properties(width=WIDTH, height=height)
        panel = alt.Column("level:N", title=None, sort=list(dict.fromkeys(spoken.values())))
        return bars.properties(width=PANEL_WIDTH, height=height).facet(column=panel)

    def _curves(self) -> list[Any]:
        kinds = self._points.kinds()
        step = "step-before" if self._figure.draw == "step" else "linear"
        color, x, y = self._color(), self._x(), self._y()
        shown = alt.condition(self._pick, alt.value(1.0), alt.value(0.1))
        layers = []
        modelled = [kind for kind in ("model", APPROXIMATION) if kind in kinds]
        joined = () if self._figure.draw == "points" else modelled or ["simulate"]
        for kind in joined:
            width, dash = LINES[kind]
            line = self._only(kind).mark_line(
                strokeWidth=width, strokeDash=dash, interpolate=step, strokeJoin="round", clip=True
            )
            layers.append(line.encode(x=x, y=y, color=color, opacity=shown))
        if "simulate" in kinds:
            bar = self._only("simulate").mark_rule(strokeWidth=1.5, clip=True)
            layers.append(
                bar.encode(x=x, y=self._y("foot"), y2="high:Q", color=color, opacity=shown)
            )
        marked = ["simulate"] if "simulate" in kinds else modelled
        curves = max(1, len(self._points.series) * len(self._points.panels))
        is_sparse = len(self._points.frame) <= MARKS_MAX * curves
        # The model is a line; without a line, squares.
        is_seen = "simulate" in marked or not joined
        shape = "circle" if "simulate" in marked else "square"
        dot = self._only(*marked).mark_point(shape=shape, filled=True, size=48)
        seen = shown if is_sparse and is_seen else alt.value(0)
        tooltip, beside = self._tooltip(), self._beside()
        layers.append(dot.encode(x=x, y=y, color=color, opacity=seen, tooltip=tooltip, **beside))
        if "diverges" in kinds:
            mark = self._only("diverges").mark_point(
                shape="triangle-up", filled=False, strokeWidth=1.5
            )
            size = alt.Size("area:Q", scale=None, legend=None)
            layers.append(
                mark.encode(x=x, y=y, color=color, size=size, opacity=shown, tooltip=tooltip)
            )
        if "testbed" in kinds:
            bar = self._only("testbed").mark_rule(strokeWidth=1.5, clip=True)
            cross = self._only("testbed").mark_point(shape="cross", filled=True, size=60)
            layers += [
                bar.encode(x=x, y=self._y("foot"), y2="high:Q", color=color, opacity=shown),
                cross.encode(x=x, y=y, color=color, opacity=shown, tooltip=tooltip),
            ]
        return [*layers, *self._diamonds(x, y, kinds)]

    def _bars(self) -> list[Any]:
        kinds = self._points.kinds()
        *others, drawn = _levels_of(kinds)
        x, y = self._x(), self._y()
        offset = alt.XOffset("series:N", sort=list(self._points.series))
        chosen = alt.Chart() if self._figure.series == LEVEL else self._only(*drawn)
        bar = chosen.mark_bar(cornerRadiusEnd=2)
        # A logarithmic axis has no 0 for bars to stand on.
        is_log = self._figure.y_scale == "log"
        foot = {"y2": alt.Y2Datum(_log_domain(self._points)[0])} if is_log else {}
        shown = alt.condition(self._pick, alt.value(1.0), alt.value(0.15))
        layers = [
            bar.encode(
                x=x,
                y=y,
                xOffset=offset,
                color=self._color(),
                opacity=shown,
                tooltip=self._tooltip(),
                **foot,
            )
        ]
        if self._figure.series != LEVEL:
            spread = self._only(*drawn).mark_rule(strokeWidth=1.2, color=INK, clip=True)
            layers.append(
                spread.encode(x=x, y=self._y("foot"), y2="high:Q", xOffset=offset, opacity=shown)
            )
            layers += [self._upon(level, x, y, offset) for level in others]
        return [*layers, *self._diamonds(x, y, kinds, offset)]

    def _upon(self, level: tuple[str, ...], x: Any, y: Any, offset: Any) -> Any:
        """The values of a level as marks upon the bars of a higher one."""
        chart = self._only(*level)
        if MARKS[level[0]] == "tick":
            mark = chart.mark_tick(orient="horizontal", thickness=2, color=INK, clip=True)
        else:
            mark = chart.mark_point(
                shape="circle", size=26, filled=True, fill="white", stroke=INK, clip=True
            )
        shown = alt.condition(self._pick, alt.value(1.0), alt.value(0.15))
        return mark.encode(x=x, y=y, xOffset=offset, opacity=shown, tooltip=self._tooltip())

    def _diamonds(self, x: Any, y: Any, kinds: set[str], offset: Any = None) -> list[Any]:
        if not _has_diamonds(self._figure, kinds):
            return []
        mark = self._only(PRINTED).mark_point(
            shape="diamond", size=110, filled=True, stroke="white", strokeWidth=1, color=INK
        )
        tooltip = [
            alt.Tooltip("state:N", title="printed in"),
            alt.Tooltip("series:N", title="series"),
            alt.Tooltip("y:Q", title="value", format=",.4~g"),
        ]
        extra = {} if offset is None else {"xOffset": offset}
        return [mark.encode(x=x, y=y, tooltip=tooltip, **extra)]

    def _beside(self) -> dict[str, Any]:
        """Points of one place are drawn side by side, so that none hides another."""
        if self._figure.draw != "points" or self._figure.x in NUMERIC_AXES:
            return {}
        return {"xOffset": alt.XOffset("series:N", sort=list(self._points.series))}

    def _only(self, *kinds: str) -> Any:
        is_drawn = alt.FieldOneOfPredicate(field="kind", oneOf=list(kinds))
        return alt.Chart().transform_filter(is_drawn)

    def _color(self) -> Any:
        names = list(self._points.series)
        fitting = LEGEND_LENGTH // (max(map(len, names), default=0) + LEGEND_SYMBOL)
        columns = len(names) if len(names) <= fitting else min(fitting, 3)
        palette = list(PALETTE[: len(names)]) if len(names) <= len(PALETTE) else list(PALETTE)
        return alt.Color(
            "series:N",
            title=None,
            sort=names,
            scale=alt.Scale(domain=names, range=palette),
            legend=alt.Legend(symbolOpacity=1, columns=columns),
        )

    def _x(self) -> Any:
        if self._figure.x not in NUMERIC_AXES:
            order = list(dict.fromkeys(self._points.frame["x"]))
            is_long = sum(len(name) for name in order) > LABELS_LENGTH
            turned = alt.Axis(labelAngle=-35 if is_long else 0, labelLimit=LABEL_PIXELS)
            return alt.X("x:N", title=None, sort=order, axis=turned)
        title = heading(self._figure.x)
        if self._figure.draw == "bar":
            return alt.X("x:O", title=title, axis=alt.Axis(labelAngle=0))
        known: dict[str, Any] = {"type": self._figure.x_scale, "nice": False, "zero": False}
        ticks: dict[str, Any] = {"tickCount": 4 if self._has_panels else 8}
        if self._figure.x_scale == "log":
            values = self._points.frame["x"].astype(float)
            steps = (1,) if self._has_panels else FINE
            ticks = {"values": log_ticks(values.min(), values.max(), steps)}
        is_dense = self._points.frame["x"].nunique() > MARKS_MAX
        axis = alt.Axis(grid=False, format=NUMBERS, labelFlush=False, **ticks)
        scale = alt.Scale(padding=0 if is_dense else EDGE, **known)
        return alt.X("x:Q", title=title, scale=scale, axis=axis)

    def _y(self, field: str = "y") -> Any:
        is_log = self._figure.y_scale == "log"
        top = self._points.y_top
        known: dict[str, Any] = {"type": self._figure.y_scale, "nice": top is None and not is_log}
        ticks: dict[str, Any] = {"tickCount": 6}
        if all(metric in WHOLE for metric in self._figure.metrics):
            ticks["tickMinStep"] = 1
        if is_log:
            least, most = known["domain"] = _log_domain(self._points)
            ticks = {"values": log_ticks(least, most)}
        elif top is not None:
            known["domain"] = [0, top]
        else:
            known["zero"] = True
        axis = alt.Axis(format=NUMBERS, **ticks)
        return alt.Y(f"{field}:Q", title=self._y_title(), scale=alt.Scale(**known), axis=axis)

    def _y_title(self) -> str:
        titles = dict.fromkeys(heading(metric) for metric in self._figure.metrics)
        if len(titles) == 1:
            return next(iter(titles))
        units = {title.rpartition(", ")[2] for title in titles}
        return units.pop() if len(units) == 1 else ""

    def _tooltip(self) -> list[Any]:
        return [
            alt.Tooltip("series:N", title="series"),
            alt.Tooltip("x", title="what" if self._figure.x == PART else heading(self._figure.x)),
            alt.Tooltip("y:Q", title="value", format=",.5~g"),
            alt.Tooltip("low:Q", title="95 % from", format=",.5~g"),
            alt.Tooltip("high:Q", title="to", format=",.5~g"),
            alt.Tooltip("kind:N", title="level"),
            alt.Tooltip("state:N", title="state"),
        ]
