"""The picture of a walk: what a mobile node received, and where it was."""

from __future__ import annotations

from pathlib import Path

import altair as alt
import pandas as pd
import vl_convert

from caravan.report.figures import CONFIG, HEIGHT, INK, PALETTE, PNG_SCALE, WIDTH
from caravan.study.results import land_bytes, land_text
from caravan.walk import Walked

STEP_S = 0.01
"""Of the curve: finer than what can be seen."""


def write_picture(walked: Walked, directory: Path) -> Path:
    """Write `walk.svg` and `walk.png`; returns the path of the first."""
    title = "A download while the node moves"
    spec = chart(walked).properties(title=title).configure(**CONFIG).to_dict()
    path = directory / "walk.svg"
    land_text(path, vl_convert.vegalite_to_svg(spec))
    land_bytes(directory / "walk.png", vl_convert.vegalite_to_png(spec, scale=PNG_SCALE))
    return path


def chart(walked: Walked) -> alt.LayerChart:
    """Octets over time, with a line at each move and the name of each place."""
    points = pd.DataFrame(walked.received, columns=["seconds", "octets"])
    points["seconds"] = (points["seconds"] / STEP_S).round() * STEP_S
    points = points.groupby("seconds", as_index=False).last()
    points["megabytes"] = points["octets"] / 1e6
    places = pd.DataFrame(
        {"place": visit.place, "seconds": visit.since_s, "gap": said(visit.gap_s)}
        for visit in walked.visits
    )
    x = alt.X("seconds:Q", title="seconds", axis=alt.Axis(grid=False))
    y = alt.Y("megabytes:Q", title="MB received by the node")
    line = alt.Chart(points).mark_line(color=PALETTE[1], strokeWidth=2).encode(x=x, y=y)
    moves = alt.Chart(places).mark_rule(color=PALETTE[2], strokeDash=[4, 3]).encode(x=x)
    words = alt.Chart(places).mark_text(align="left", dx=4, color=INK).encode(x=x)
    names = words.encode(text="place:N", y=alt.value(8))
    silences = words.encode(text="gap:N", y=alt.value(22))
    layers: alt.LayerChart = alt.LayerChart(layer=[moves, line, names, silences])
    return layers.properties(width=WIDTH, height=HEIGHT)


def said(gap_s: float | None) -> str:
    """A gap in words."""
    return "" if gap_s is None else f"gap {gap_s * 1000:.0f} ms"
