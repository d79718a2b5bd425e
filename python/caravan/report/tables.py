"""Printed values beside ours, as HTML tables.

Each function returns a fragment, empty if the study has nothing of the kind.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from caravan.numbers import significant
from caravan.report.points import chosen_rows
from caravan.study.claims import FAILS, HOLDS, IN_PART, NOT_RUN, WITHIN, Verdict
from caravan.study.levels import BLUNT, ROUGH, TESTBED, is_inside, paired
from caravan.study.metrics import (
    APPROXIMATION,
    AXES,
    BOUNDS_SAY,
    DIVERGES,
    NEAR,
    UNWORKED_SAY,
    describe,
    heading,
    needs_mean,
)
from caravan.study.parsed import (
    LEVELS,
    PRINT_TOLERANCE,
    Figure,
    PrintedTable,
    Published,
    Study,
)
from caravan.study.relations import beside, not_run, unit
from caravan.study.resolve import FREE
from caravan.study.results import POINT
from caravan.study.text import Value
from caravan.study.values import fill, label

SHOWN = 0.0005
"""A difference that rounds to zero has no sign."""
GRADED = {HOLDS: "good", IN_PART: "near", FAILS: "bad", WITHIN: "near", NOT_RUN: "near"}
"""The colour of a sentence's grade."""


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], words: Sequence[int] = ()) -> str:
    """A table; columns in `words` have sentences. Cells are already HTML."""

    def cell(tag: str, index: int, content: str) -> str:
        kind = ' class="words"' if index in words else ""
        return f"<{tag}{kind}>{content}</{tag}>"

    head = "".join(cell("th", index, text) for index, text in enumerate(headings))
    body = "".join(
        "<tr>" + "".join(cell("td", index, text) for index, text in enumerate(row)) + "</tr>\n"
        for row in rows
    )
    inside = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="scroll"><table>{inside}</table></div>'


def difference(value: float | None) -> str:
    """A relative difference in per cent, coloured by the tolerance."""
    if value is None or pd.isna(value):
        return "&ndash;"
    kind = "good" if abs(value) <= PRINT_TOLERANCE else "near"
    said = "0.0 %" if abs(value) < SHOWN else f"{value * 100:+.1f} %"
    return f'<span class="{kind}">{said}</span>'


def where(study: Study, at: Mapping[str, Value], besides: Sequence[str] = ()) -> str:
    """A point of a grid, in words."""
    parts = []
    for axis in (*POINT, "reading"):
        if axis in at and axis not in besides:
            value = at[axis]
            text = label(study, axis, value)
            parts.append(f"{AXES[axis].label.lower()} {text}" if axis == "packet_bytes" else text)
    return html.escape(", ".join(parts))


def printed_tables(study: Study, rows: pd.DataFrame) -> str:
    """Each table of the publication: our values, and the printed ones where they differ."""
    out = []
    for item in study.tables:
        title = html.escape(f"{item.printed}: {item.title}")
        out.append(f"<h3>{title}</h3>{_printed_table(study, item, rows)}{_reasons(item, rows)}")
    return "".join(out)


def _printed_table(study: Study, item: PrintedTable, rows: pd.DataFrame) -> str:
    ours = rows[(rows["sweep"] == item.sweep) & rows["published"].notna()]
    ours = ours[ours["metric"] == item.metric]
    held = set(ours["level"]) or set(study.sweep(item.sweep).levels)
    levels = [level for level in LEVELS if level in held]
    axis = item.column or "reading"
    names = [html.escape(label(study, axis, name)) for name in item.columns]
    named = "parameter" if item.row == "reading" else heading(item.row)
    headings = [html.escape(named)]
    apart_from = "" if item.column else "difference"
    for name in names:
        headings.append(f"{name}<br>printed" if item.column else "printed")
        for level in levels:
            headings += [LEVEL_HEADINGS[level] if len(levels) > 1 else "ours", apart_from]
    body = []
    lines = list(dict.fromkeys(cell.at[item.row] for cell in item.cells))
    for line in lines:
        cells = [html.escape(f"{line:g}" if isinstance(line, float) else str(line))]
        for cell in (cell for cell in item.cells if cell.at[item.row] == line):
            found = at_point(ours, cell.at)
            cells.append(significant(cell.value))
            for level in levels:
                cells += _ours(study, item, found[found["level"] == level], level)
        body.append(cells)
    return table(headings, body)


def _ours(study: Study, item: PrintedTable, found: pd.DataFrame, level: str) -> list[str]:
    """Our value beside a printed one and its difference, or why there is none."""
    if found.empty:
        held = study.sweep(item.sweep).levels
        return [f"<small>{NOT_RUN if level in held else 'not at this level'}</small>", ""]
    row = found.iloc[0]
    if pd.isna(row["value"]):
        return [f"<small>{html.escape(str(row['state'] or NOT_RUN))}</small>", ""]
    return [significant(row["value"]), difference(row["relative_difference"])]


def bounds_say(figure: Figure, rows: pd.DataFrame) -> str:
    """What to say of a figure with values that are only bounds; empty if it has none."""
    shown = chosen_rows(figure, rows)
    bounds = shown[shown["bound"] != ""]
    if bounds.empty:
        return ""
    return UNWORKED_SAY if (bounds["device"] == FREE).all() else BOUNDS_SAY


def at_point(rows: pd.DataFrame, at: Mapping[str, Value]) -> pd.DataFrame:
    """The rows at one point."""
    for axis, value in at.items():
        rows = rows[rows[axis] == value]
    return rows


def _reasons(item: PrintedTable, rows: pd.DataFrame) -> str:
    """Every reason of a cell of the table, once."""
    there = rows[(rows["printed"] == item.printed) & rows["reason"].notna()]
    texts = dict.fromkeys(str(reason) for reason in there["reason"])
    return "".join(f"<p>{html.escape(text)}</p>" for text in texts)


def published_values(study: Study, rows: pd.DataFrame) -> str:
    """Values printed in the text: ours at each level, the difference and its reason."""
    body = []
    levels = _levels_run(study, rows)
    for item in study.published:
        found = rows[(rows["sweep"] == item.sweep) & (rows["metric"] == item.metric)]
        found = at_point(found[found["published"].notna()], item.at)
        if "reading" not in item.at and study.sweep(item.sweep).readings:
            continue
        body.append(_value_cells(study, item, found, levels))
    if not body:
        return ""
    named = [LEVEL_HEADINGS[level] for level in levels]
    headings = ["printed in", "what", "printed", *named, "difference", "reason"]
    return table(headings, body, words=(1, len(headings) - 1))


LEVEL_HEADINGS = {"model": "model", "simulate": "simulated", "testbed": "measured here"}


def _levels_run(study: Study, rows: pd.DataFrame) -> list[str]:
    """Model and simulation, and the testbed if a printed value was or can be measured there."""
    held = set(rows[rows["published"].notna()]["level"])
    held |= {level for item in study.published for level in study.sweep(item.sweep).levels}
    return [level for level in LEVELS if level != TESTBED or level in held]


def relations(study: Study, rows: pd.DataFrame) -> str:
    """Printed losses, shares and ratios of two values, with ours."""
    found = beside(study, rows)
    body = [
        [
            html.escape(row["printed"]),
            html.escape(row["reading"]),
            f"{significant(row['published'])} {row['unit']}",
            f"{significant(row['value'])} {row['unit']}",
            LEVEL_HEADINGS[row["level"]],
            html.escape(row["reason"]),
        ]
        for _, row in found.iterrows()
    ]
    body += [
        [
            html.escape(item.printed),
            html.escape(item.says),
            f"{significant(item.value)} {unit(item)}",
            NOT_RUN,
            LEVEL_HEADINGS[item.left.level],
            "",
        ]
        for item in not_run(study, rows)
    ]
    headings = ["printed in", "what", "printed", "ours", "level", "reason"]
    return table(headings, body, words=(1, 5)) if body else ""


def _furthest(found: pd.DataFrame) -> pd.Series | None:
    """The row with the largest difference; approximations only if there is nothing else."""
    firm = found[(found["state"] != APPROXIMATION) & found["relative_difference"].notna()]
    rows = found if firm.empty else firm
    if rows.empty:
        return None
    return rows.iloc[int(rows["relative_difference"].abs().fillna(0).to_numpy().argmax())]


def _value_cells(
    study: Study, item: Published, found: pd.DataFrame, levels: Sequence[str]
) -> list[str]:
    unit = describe(item.metric).unit
    by_level = {str(row["level"]): row for _, row in found.iterrows()}
    best = _furthest(found)
    what = html.escape(item.says or describe(item.metric).label)
    place = where(study, item.at)
    reason = best["reason"] if best is not None else None
    absent = study.sweep(item.sweep).levels if found.empty else ()
    values = [
        significant(by_level[level]["value"])
        if level in by_level
        else (NOT_RUN if level in absent else "")
        for level in levels
    ]
    return [
        html.escape(item.printed),
        f"{what}<small>{place}</small>",
        f"{significant(item.value)} {unit}",
        *values,
        difference(best["relative_difference"] if best is not None else None),
        html.escape(str(reason)) if isinstance(reason, str) else "",
    ]


def readings(study: Study, rows: pd.DataFrame) -> str:
    """For each sweep with readings: one row per reading, one column per printed value."""
    out = []
    for sweep in study.sweeps:
        items = [item for item in study.published if item.sweep == sweep.name]
        items = [item for item in items if "reading" not in item.at]
        if not sweep.readings or not items:
            continue
        out.append(f"<h3>{html.escape(sweep.title)}</h3>")
        headings = ["reading", "what it says"]
        for item in items:
            place = where(study, item.at)
            what = html.escape(item.says or describe(item.metric).label)
            headings.append(
                f"{what}<br><small>{place}</small><br>printed {significant(item.value)}"
            )
        body = []
        for reading in sweep.readings:
            cells = [html.escape(reading.name), html.escape(reading.says)]
            cells += [_reading_cell(rows, item, reading.name) for item in items]
            body.append(cells)
        out.append(table(headings, body, words=(1,)))
    return "".join(out)


def _reading_cell(rows: pd.DataFrame, item: Published, reading: str) -> str:
    found = rows[(rows["sweep"] == item.sweep) & (rows["metric"] == item.metric)]
    found = at_point(found, {**item.at, "reading": reading})
    if found.empty:
        return ""
    row = found.sort_values("level").iloc[-1]
    if row["state"] == DIVERGES and needs_mean(item.metric):
        return '<span class="bad">diverges</span>'
    if row["state"] == APPROXIMATION:
        return f'{significant(row["value"])} <span class="near">approximation</span>'
    return f"{significant(row['value'])} {difference(row['relative_difference'])}"


def left(study: Study) -> str:
    """Printed values that no sweep computes."""
    body = [
        [
            html.escape(item.printed),
            html.escape(item.says),
            f"{item.value:g} {html.escape(item.unit)}".strip(),
            html.escape(item.needs),
        ]
        for item in study.left
    ]
    return table(["printed in", "what", "printed", "needs"], body, words=(1, 3)) if body else ""


FAMILY = (
    "A sentence that the spread of our values may leave open allows for chance: the interval of "
    "each of its points is widened so far that those of all its points together hold with 95 %."
)


def claims(rows: pd.DataFrame, verdicts: Sequence[Verdict]) -> str:
    """Sentences of the publication, and whether our numbers support them."""
    body = []
    for verdict in verdicts:
        word = f'<b class="{GRADED[verdict.grade]}">{verdict.grade}</b>'
        if verdict.stands_in:
            word += f"<small>{LEVEL_HEADINGS[verdict.stands_in]}</small>"
        seen = "<br>".join(html.escape(text) for text in verdict.numbers)
        comment = html.escape(fill(verdict.claim.comment, rows))
        body.append(
            [
                html.escape(verdict.claim.printed),
                html.escape(verdict.claim.says),
                word,
                seen,
                comment,
            ]
        )
    if not body:
        return ""
    found = table(["printed in", "what", "", "ours", "remark"], body, words=(1, 3, 4))
    is_family = any(one.claim.counts_spread and one.claim.comparisons > 1 for one in verdicts)
    return found + (f"<p>{FAMILY}</p>" if is_family else "")


def levels(rows: pd.DataFrame, against: str) -> str:
    """The simulation compared with another level: the differences per metric.

    Points whose simulated interval is too wide are left out and counted.
    """
    pairs = paired(rows, against)
    both, left = pairs.both, pairs.left
    if both.empty and left.empty:
        return ""
    both = both.assign(apart=both["apart"].abs())
    body = []
    for metric, group in both.groupby("metric", sort=False):
        note = ROUGH.get(str(metric), "") if against != TESTBED else ""
        body.append(
            [
                html.escape(describe(str(metric)).label),
                f"{len(group):,}",
                f"{group['apart'].median() * 100:.2f} %",
                f"{group['apart'].quantile(0.95) * 100:.2f} %",
                f"{group['apart'].max() * 100:.2f} %",
                _inside(group),
                note,
            ]
        )
    headings = ["metric", "points", "median", "95 of 100 below", "largest", "inside interval", ""]
    return table(headings, body, words=(6,)) + _left_out(left)


def _inside(both: pd.DataFrame) -> str:
    """How often the other value is in the simulation's 95 % interval, if it has one."""
    known = both[both["ci95_low_simulate"].notna()]
    if known.empty:
        return "&ndash;"
    return f"{is_inside(known).mean() * 100:.0f} %"


def _left_out(left: pd.DataFrame) -> str:
    """How many points of which metrics were not compared, and why."""
    is_near = left["state_simulate"] == NEAR
    reasons = (
        ("the station is near saturation, and longer runs would still change the mean", is_near),
        (
            f"the simulated value is 0, or its interval is wider than &plusmn;{BLUNT:.0%} of it",
            ~is_near,
        ),
    )
    return "".join(
        f"<p>Left out, because {why}: {len(found):,} points ({_each(found)}).</p>"
        for why, chosen in reasons
        if not (found := left[chosen]).empty
    )


def _each(rows: pd.DataFrame) -> str:
    """The number of rows of each metric."""
    counts = rows.groupby("metric", sort=False).size()
    each = (f"{describe(str(metric)).label.lower()} {count:,}" for metric, count in counts.items())
    return html.escape(", ".join(each))
