"""The report: one HTML file that opens without a network, and its figures as PNG and SVG."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path

import pandas as pd
import vl_convert
from markdown_it import MarkdownIt

from caravan.numbers import amount
from caravan.report import tables
from caravan.report.figures import Picture, picture, write_pictures
from caravan.study import unrun
from caravan.study.claims import Verdict, score, verdicts, with_sentences
from caravan.study.output import FIGURES, MARK, REPORT, REST
from caravan.study.parsed import Study
from caravan.study.places import PLACE
from caravan.study.published import fitted_scores, parameters_score, results_score
from caravan.study.results import land_text
from caravan.study.values import ABSENT, fill

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'unsafe-inline'; img-src data: blob:"
)
"""The content security policy: the page may not use the network."""
DRAW = """
const drawn = [], failed = [];
for (const [name, spec] of Object.entries(FIGURES)) {
  if (!spec.facet) {
    spec.width = "container";
    spec.autosize = {type: "fit-x", contains: "padding"};
  }
  vegaEmbed("#figure-" + name, spec, {
    renderer: "svg", downloadFileName: name,
    actions: {export: true, source: false, compiled: false, editor: false},
  }).then(() => drawn.push(name), (fault) => failed.push(name + ": " + fault)).finally(() => {
    document.body.dataset.drawn = drawn.join(" ");
    document.body.dataset.failed = failed.join("; ");
  });
}
"""
BLOCKS = re.compile(r"(?m)(?=^- )|(?<=\n\n)")
"""Before an item of a list, or after an empty line."""
SNIPPET = "window.vegaEmbed = vegaEmbed;"


def write_report(
    study: Study, rows: pd.DataFrame, provenance: Mapping[str, str], directory: Path
) -> Path:
    """`report.html` in `directory`, and `figures/` with PNG and SVG; the path of the page."""
    found = ((figure, picture(study, figure, rows)) for figure in study.figures)
    drawn = {figure.name: own for figure, own in found if own is not None}
    for figure in study.figures:
        if figure.name in drawn:
            write_pictures(study, figure, drawn[figure.name], directory / FIGURES)
    path = directory / REPORT
    land_text(path, page(study, rows, provenance, drawn))
    return path


def page(
    study: Study,
    rows: pd.DataFrame,
    provenance: Mapping[str, str],
    drawn: Mapping[str, Picture],
) -> str:
    """The whole document."""
    claimed = verdicts(study, rows)
    rest = provenance.get(REST, "")
    sections = [
        ("answer", "In short", _summary(study, rows, claimed, rest)),
        ("figures", "Figures", _figures(study, drawn)),
        ("printed", "Printed values and ours", _printed(study, rows, rest)),
        ("left", "Printed, and not computed", tables.left(study)),
        ("claims", "What the text says", tables.claims(rows, claimed)),
        ("readings", "Readings tried", tables.readings(study, rows)),
        ("levels", "Levels side by side", _levels(rows)),
        ("provenance", "Provenance", _provenance(provenance)),
    ]
    shown = [(key, title, body) for key, title, body in sections if body]
    links = "".join(f'<a href="#{key}">{title}</a>' for key, title, _ in shown)
    body = "".join(
        f'<section id="{key}"><h2>{title}</h2>{content}</section>\n'
        for key, title, content in shown
    )
    style = resources.files("caravan.report").joinpath("style.css").read_text()
    title = html.escape(study.title)
    specs = {name: own.spec for name, own in drawn.items()}
    figures = json.dumps(specs, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">{MARK}
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>{style}</style></head>
<body><header><div><h1>{title}</h1><p>{html.escape(study.publication)}</p></div></header>
<nav><div>{links}</div></nav>
<main>{body}</main>
<footer><div>{html.escape(_made(provenance))}</div></footer>
<script>{_library()}</script>
<script>const FIGURES = {figures};{DRAW}</script>
</body></html>
"""


@cache
def _library() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script."""
    return vl_convert.javascript_bundle(SNIPPET).replace("</script", "<\\/script")


def _summary(study: Study, rows: pd.DataFrame, claimed: list[Verdict], rest: str) -> str:
    printed, given = results_score(study, rows), parameters_score(study, rows)
    sentences, graded = score(claimed)
    cards = [
        (f"{printed.agreeing:,} of {printed.compared:,}", "printed results within 2 %"),
        *(
            (
                f"{score.agreeing:,} of {score.compared:,}",
                f"fitted results within 2 %: {html.escape(what)}",
            )
            for what, score in fitted_scores(study, rows).items()
        ),
        (f"{given.agreeing:,} of {given.compared:,}", "printed parameters the same"),
        (sentences, f"sentences of the text {graded}"),
        (amount(float(rows[rows["metric"] == "packets"]["value"].sum())), "packets simulated"),
    ]
    drawn = "".join(
        f'<div class="card"><b>{number}</b><span>{words}</span></div>'
        for number, words in cards
        if number not in ("0", "0 of 0")
    )
    texts = "".join(
        f"<h3>{html.escape(title)}</h3>{prose(with_sentences(body, study, rows), rows, rest)}"
        for title, body in study.texts
    )
    return f'<div class="cards">{drawn}</div>{texts}'


def prose(text: str, rows: pd.DataFrame, rest: str = "") -> str:
    """Markdown with values of this run: `{{ sweep: metric, axis = value, level = model }}`.

    A paragraph or an item of a list with values that were all not run gives place to `rest`, the
    command that runs them.
    """
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    if rest:
        text = "".join(_or_rest(block, rows, rest) for block in BLOCKS.split(text))
    return str(markdown.render(fill(text, rows)))


def _or_rest(block: str, rows: pd.DataFrame, rest: str) -> str:
    """The block, or the command if this run has none of its values."""
    cited = [match[0] for match in PLACE.finditer(block)]
    if not cited or any(fill(one, rows) != ABSENT for one in cited):
        return block
    mark = "- " if block.startswith("- ") else ""
    sweeps = ", ".join(dict.fromkeys(match[1] for match in PLACE.finditer(block)))
    return f"{mark}Not run: {sweeps}. With them: `{rest}`\n\n"


def _figures(study: Study, drawn: Mapping[str, Picture]) -> str:
    says = "Point at a mark for its value; click a name in a legend to see it alone."
    out = [f'<p class="legend">{says}</p>', '<div class="figures">']
    for figure in study.figures:
        if figure.name not in drawn:
            continue
        own = drawn[figure.name]
        kind = ' class="wide"' if "facet" in own.spec else ""
        printed = f"<small>{html.escape(figure.printed)}</small>" if figure.printed else ""
        note = f"<p>{html.escape(' '.join(own.notes))}</p>" if own.notes else ""
        out.append(
            f"<figure{kind}><figcaption>{html.escape(figure.title)}{printed}</figcaption>"
            f'<div class="picture" id="figure-{figure.name}"></div>'
            f'<p class="legend">{html.escape(own.marks)}</p>{note}</figure>'
        )
    missing = [figure.title for figure in study.figures if figure.name not in drawn]
    absent = (
        f'<p class="legend">Not drawn, because this run has no values for them: '
        f"{html.escape('; '.join(missing))}.</p>"
        if missing
        else ""
    )
    return "".join(out) + "</div>" + absent if study.figures else ""


def _printed(study: Study, rows: pd.DataFrame, rest: str) -> str:
    values = tables.published_values(study, rows)
    printed = tables.printed_tables(study, rows)
    related = tables.relations(study, rows)
    absent = f"{unrun.counted(study, rows)} printed values were not run. With them:"
    out = f"<p>{absent} <code>{html.escape(rest)}</code></p>" if rest else ""
    out += f"<h3>In the text</h3>{values}" if values else ""
    out += f"<h3>Relations of two values</h3>{related}" if related else ""
    return out + printed


def _levels(rows: pd.DataFrame) -> str:
    out = []
    for level, named in (("model", "the closed form"), ("testbed", "the measured value")):
        body = tables.levels(rows, level)
        what = f"The relative difference of the simulated value from {named}"
        out.append(body and f"<p>{what}, over all comparable points.</p>{body}")
    if any(out) and (rows["metric"] == "mean_delay_ms").any():
        out.append(
            "<p>All policies use the same packets, so the points of one rate are all inside or all "
            "outside.</p>"
        )
    return "".join(out)


def _provenance(provenance: Mapping[str, str]) -> str:
    rows = [[html.escape(key), html.escape(value)] for key, value in provenance.items()]
    return tables.table(["", ""], rows, words=(1,)) + (
        "<p>The folder of this page also has <code>results.parquet</code> and "
        "<code>results.csv</code> (one row per metric, with scenario hash, seed, version and cost "
        "table), and the figures as PNG and SVG in <code>figures/</code>.</p>"
    )


def _made(provenance: Mapping[str, str]) -> str:
    return f"Made by {provenance.get('command', 'caravan-lab')}, caravan {provenance['caravan']}."
