"""The answer as a picture: what each policy carries, and the delay it costs. HTML, PNG or SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd
import vl_convert

from caravan.lab.ask import Asked, Verdict
from caravan.lab.core import LabError
from caravan.report.figures import CONFIG
from caravan.study.results import land_bytes, land_text

FORMATS = (".html", ".png", ".svg")
COLORS = {"yes": "#2b8a3e", "barely": "#e67700", "no": "#c2255c"}
PNG_SCALE = 2
WIDTH = 320


def check(path: Path) -> None:
    """Refuse a picture that could not be written, before anything is computed."""
    if path.suffix not in FORMATS:
        raise LabError(f"{path}: a picture ends in {', '.join(FORMATS)}")
    if not path.parent.is_dir():
        raise LabError(f"{path.parent}: there is no such folder")


def write(path: Path, asked: Asked, verdicts: Sequence[Verdict]) -> None:
    """The picture in the format that its name ends in; whole or not at all."""
    spec = specification(asked, verdicts)
    if path.suffix == ".png":
        land_bytes(path, vl_convert.vegalite_to_png(spec, scale=PNG_SCALE))
    elif path.suffix == ".svg":
        land_text(path, vl_convert.vegalite_to_svg(spec))
    else:
        land_text(path, vl_convert.vegalite_to_html(spec, bundle=True))


def specification(asked: Asked, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Capacities and delays side by side, the policies in the order of their ranks."""
    known = [asdict(verdict) for verdict in verdicts if verdict.carried != "unknown"]
    if not known:
        raise LabError(f"{asked.device} prices no policy of the catalogue: nothing to draw")
    rows = pd.DataFrame(known)
    order = [verdict.policy for verdict in verdicts]
    policy = alt.Y("policy:N", sort=order, title=None)
    color = alt.Color(
        "carried:N",
        title="carried",
        scale=alt.Scale(domain=list(COLORS), range=list(COLORS.values())),
    )
    tips = ["policy", "title", "standing", "carried", "why"]
    capacity = (
        alt.Chart(rows, title="Carries at most", width=WIDTH)
        .mark_bar()
        .encode(
            x=alt.X("capacity_kbps:Q", title="kbit/s, clear", scale=alt.Scale(type="log")),
            y=policy,
            color=color,
            tooltip=[*tips, "capacity_kbps"],
        )
    )
    layers: Any = capacity
    if asked.rate_kbps is not None:
        asked_rate = pd.DataFrame({"rate": [asked.rate_kbps]})
        layers = capacity + alt.Chart(asked_rate).mark_rule(strokeDash=[4, 3]).encode(x="rate:Q")
    carried = rows[rows["delay_ms"].notna()]
    base = alt.Chart(carried, title="Delay: mean, and 95 % of packets", width=WIDTH)
    base = base.encode(y=policy)
    span = base.mark_rule().encode(x=alt.X("delay_ms:Q", title="ms"), x2="p95_ms:Q")
    point = base.mark_point(filled=True, size=60, opacity=1).encode(
        x="delay_ms:Q", color=color, tooltip=[*tips, "delay_ms", "p95_ms"]
    )
    chart = alt.hconcat(layers, span + point, title=_title(asked)).configure(**CONFIG)
    spec: dict[str, Any] = chart.to_dict()
    return spec


def _title(asked: Asked) -> str:
    what = f"{asked.rate_kbps:g} kbit/s" if asked.rate_kbps is not None else str(asked.capture)
    return f"{asked.device} over {asked.link}, {what}"
