"""The answer as a picture: what each policy carries, and the delay it costs. HTML, PNG or SVG."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd
import vl_convert

from caravan.lab.ask import AskRequest, Verdict, are_bounds
from caravan.lab.core import LabError
from caravan.report.figures import CONFIG, NUMBERS
from caravan.study.metrics import BOUNDS_SAY
from caravan.study.results import land_bytes, land_text

COLORS = {"yes": "#2b8a3e", "barely": "#e67700", "no": "#c2255c"}
MARK = '<meta name="generator" content="caravan-lab ask">'
"""The mark that distinguishes our pictures from other files."""
MARKED_BYTES = 4096
NAME_LENGTH = 120
NAMES_MAX = 1000
PNG_SCALE = 2
MARGIN = 1.5
"""How far the rate scale extends beyond the outermost rate, as a factor."""
WIDTH = 320
TIPS = ["policy", "title", "standing", "exchange", "carried", "why"]


def name_for(asked: AskRequest) -> Path:
    """A name in the current folder that describes the question and belongs to no other file.

    The same question has the same name, so repeating it leaves one picture.
    """
    traffic = asked.capture.stem if asked.capture is not None else f"{asked.rate_kbps:g}kbps"
    parts = [Path(asked.device).stem, Path(asked.link).stem, traffic]
    for value, unit in ((asked.packet_bytes, "B"), (asked.mips, "mips"), (asked.clock_mhz, "MHz")):
        if value is not None:
            parts.append(f"{value:g}{unit}")
    if asked.direction == "down":
        parts.append("down")
    stem = re.sub(r"[^A-Za-z0-9.+_-]+", "_", "-".join(["caravan-ask", *parts]))[:NAME_LENGTH]
    numbers = (f"-{number}" for number in range(2, NAMES_MAX))
    for number in ("", *numbers):
        path = Path(f"{stem}{number}.html")
        if not os.path.lexists(path) or _is_ours(path):
            return path
    raise LabError(f"{stem}.html and {NAMES_MAX} more exist: -o FILE sets another file")


def _is_ours(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return MARK.encode() in file.read(MARKED_BYTES)
    except OSError:
        return False


def write(path: Path, asked: AskRequest, verdicts: Sequence[Verdict]) -> None:
    """Write the picture in the format of its ending; whole or not at all."""
    spec = specification(asked, verdicts)
    if path.suffix == ".png":
        land_bytes(path, vl_convert.vegalite_to_png(spec, scale=PNG_SCALE))
    elif path.suffix == ".svg":
        land_text(path, vl_convert.vegalite_to_svg(spec))
    else:
        html = vl_convert.vegalite_to_html(spec, bundle=True)
        land_text(path, html.replace("<head>", f"<head>{MARK}", 1))


def specification(asked: AskRequest, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Capacities and delays side by side, the policies in the order of their ranks.

    If no policy carries the rate, there is no delay and no pane for it.
    """
    known = [asdict(verdict) for verdict in verdicts if verdict.carried != "unknown"]
    if not known:
        raise LabError(f"{asked.device} has no costs for the catalogue's policies")
    rows = pd.DataFrame(known)
    color = alt.Color(
        "carried:N",
        title="carried",
        scale=alt.Scale(domain=list(COLORS), range=list(COLORS.values())),
    )
    panes = _capacities(asked, rows, color)
    if rows["delay_ms"].notna().any():
        panes |= _delays(rows, color)
    return _configured(asked, panes)


def _order(rows: pd.DataFrame, axis: Any) -> Any:
    """Policies in the order of their ranks, the same in both panes."""
    order = rows["policy"].tolist()
    scale = alt.Scale(domain=order)
    return alt.Y("policy:N", sort=order, title=None, scale=scale, axis=axis)


def _capacities(asked: AskRequest, rows: pd.DataFrame, color: Any) -> Any:
    """Points, because bars would need a zero, and a logarithmic scale has none."""
    # All policies get the same packets.
    offered = asked.rate_kbps or float(rows["offered_kbps"].iloc[0])
    edges = [*rows["capacity_kbps"], offered]
    low, high = min(edges) / MARGIN, max(edges) * MARGIN
    across = alt.X(
        "capacity_kbps:Q",
        title="kbit/s before protection; dashed: asked",
        scale=alt.Scale(type="log", domain=[low, high], nice=False),
        axis=alt.Axis(format=NUMBERS, tickCount=5),
    )
    points = (
        alt.Chart(rows, title="Carries at most", width=WIDTH)
        .mark_point(filled=True, size=60, opacity=1)
        .encode(
            x=across,
            y=_order(rows, alt.Axis(grid=True)),
            color=color,
            tooltip=[*TIPS, alt.Tooltip("capacity_kbps:Q", format=NUMBERS)],
        )
    )
    line = alt.Chart(pd.DataFrame({"rate": [offered]})).mark_rule(strokeDash=[4, 3])
    return points + line.encode(x=alt.X("rate:Q"))


def _delays(rows: pd.DataFrame, color: Any) -> Any:
    carried = rows[rows["delay_ms"].notna()]
    base = alt.Chart(carried, title="Delay: mean, and 95 % of packets", width=WIDTH)
    base = base.encode(y=_order(rows, alt.Axis(labels=False, ticks=False)), color=color)
    delay = alt.X("delay_ms:Q", title="ms")
    tips = [alt.Tooltip(f"{key}:Q", format=NUMBERS) for key in ("delay_ms", "p95_ms")]
    span = base.mark_rule(strokeWidth=2).encode(x=delay, x2="p95_ms:Q")
    point = base.mark_point(filled=True, size=60, opacity=1)
    return span + point.encode(x=delay, tooltip=[*TIPS, *tips])


def _configured(asked: AskRequest, chart: Any) -> dict[str, Any]:
    title = alt.TitleParams(_title(asked), anchor="start", subtitle=_beneath(asked))
    titled = chart.properties(title=title)
    spec: dict[str, Any] = titled.configure(**CONFIG).to_dict()
    return spec


def _beneath(asked: AskRequest) -> list[str]:
    """What a reader must know who sees only the picture."""
    way = "to the device" if asked.direction == "down" else "from the device"
    if asked.capture is not None:
        packets = f"packets of the capture, {way}"
    elif asked.packet_bytes is not None:
        packets = f"packets of {asked.packet_bytes:,.10g} bytes at random times (Poisson), {way}"
    else:
        packets = f"packets sized as web browsing at random times (Poisson), {way}"
    return [packets, BOUNDS_SAY] if are_bounds(asked) else [packets]


def _title(asked: AskRequest) -> str:
    what = f"{asked.rate_kbps:g} kbit/s" if asked.rate_kbps is not None else str(asked.capture)
    return f"{asked.device} over {asked.link}, {what}"
