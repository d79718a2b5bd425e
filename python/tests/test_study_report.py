"""The report in a real browser: every figure is drawn, and no network request is made."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from caravan.report import write_report
from caravan.report.figures import log_ticks, marks_say, specification
from caravan.report.page import prose
from caravan.report.tables import LEVEL_HEADINGS, levels, printed_tables
from caravan.study import results
from caravan.study.claims import verdicts
from caravan.study.parse import parse
from caravan.study.parsed import Study
from caravan.study.published import beside_published
from caravan.study.results import Row

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PAGE_S = 60
STUDY = """\
name = "small"
title = "Two <policies>"
publication = "A & B"

[labels]
des = "DES <!--<script></script> & co"

[[sweep]]
name = "road"
title = "A road"
scenario = "umts"
axes = { mips = "node.ms.mips" }
grid = { policy = ["none", "des"], mips = [100], rate_kbps = [100, 200, 400] }

[[published]]
printed = "text"
sweep = "road"
metric = "mean_delay_ms"
at = { policy = "des", mips = 100, rate_kbps = 200 }
value = 25
reason = "because"

[[claim]]
printed = "text"
says = "Protection delays."
[[claim.test]]
left = { sweep = "road", metric = "mean_delay_ms", at = { policy = "des", rate_kbps = 100 } }
is = ">"
right = { sweep = "road", metric = "mean_delay_ms", at = { policy = "none", rate_kbps = 100 } }

[[figure]]
name = "lines"
title = "Lines"
sweep = "road"
x = "rate_kbps"
y = ["mean_delay_ms"]
series = "policy"
y_scale = "log"

[[figure]]
name = "panels"
title = "Panels"
sweep = "road"
x = "rate_kbps"
y = ["mean_delay_ms"]
series = "policy"
panels = "mips"
draw = "points"

[[figure]]
name = "bars"
title = "Bars"
sweep = "road"
x = "policy"
y = ["mean_delay_ms"]
series = "mips"
draw = "bar"
at = { rate_kbps = 200 }

[[figure]]
name = "parts"
title = "Parts"
sweep = "road"
x = "policy"
y = ["wait_ms:ms", "wait_ms:radio"]
series = "metric"
draw = "stack"
at = { rate_kbps = 200 }

[[text]]
title = "Answer"
body = "At 200: `{{ road: mean_delay_ms, policy = des, rate_kbps = 200 }}` ms."
"""


@pytest.fixture
def study() -> Study:
    """Every kind of figure."""
    return parse("small.toml", STUDY)


@pytest.fixture
def rows(study: Study) -> pd.DataFrame:
    """A model and a simulation of two policies at three rates, the last beyond capacity."""
    found = []
    for policy, base in (("none", 10.0), ("des", 12.0)):
        for rate in (100.0, 200.0, 400.0):
            is_gone = policy == "des" and rate == 400
            for level in ("model", "simulate"):
                row = Row(
                    study="small",
                    sweep="road",
                    reading="",
                    scenario="umts",
                    scenario_hash="00",
                    level=level,
                    seed=1,
                    version="0",
                    cost_table="paper-u",
                    policy=policy,
                    device="paper-u",
                    link=None,
                    mips=100.0,
                    rate_kbps=rate,
                    packet_bytes=None,
                    metric="mean_delay_ms",
                    unit="ms",
                    value=None if is_gone and level == "model" else base * rate / 100,
                    ci95_low=base * rate / 110 if level == "simulate" else None,
                    ci95_high=base * rate / 90 if level == "simulate" else None,
                    state="not-stationary" if is_gone else "stationary",
                )
                found.append(row)
                found += [replace(row, metric=f"wait_ms:{name}") for name in ("ms", "radio")]
    return results.frame(beside_published(study, found))


def open_in_browser(page: Path, scratch: Path) -> tuple[str, list[str]]:
    """The page's document once its scripts have run, and what it asked of the network.

    Names are not resolved, so that nothing leaves the machine, and the browser's own log tells
    the page's requests from those that the browser makes for itself.
    """
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    assert browser, f"none of {', '.join(BROWSERS)} found: `make setup` brings it"
    log = scratch / "net.json"
    command = [
        browser,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--no-first-run",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--user-data-dir={scratch / 'profile'}",
        f"--log-net-log={log}",
        "--virtual-time-budget=20000",
        "--dump-dom",
        page.as_uri(),
    ]
    scratch.mkdir()
    done = subprocess.run(command, capture_output=True, timeout=PAGE_S, check=False)
    requests = re.findall(r'"initiator":"([^"]*)"[^\n]*?"url":"(https?:[^"]*)"', log.read_text())
    return done.stdout.decode(), [url for origin, url in requests if origin != "not an origin"]


def test_a_page_that_asks_the_network_would_be_seen(tmp_path: Path) -> None:
    page = tmp_path / "asks.html"
    page.write_text('<img src="http://asked.invalid/image.png">')
    _, asked = open_in_browser(page, tmp_path / "browser")
    assert "http://asked.invalid/image.png" in asked


def test_the_report_draws_every_figure_offline(
    study: Study, rows: pd.DataFrame, tmp_path: Path
) -> None:
    page = write_report(study, rows, {"caravan": "0"}, tmp_path / "out")
    document, asked = open_in_browser(page, tmp_path / "browser")
    drawn = re.search(r'data-drawn="([^"]*)"', document)
    failed = re.search(r'data-failed="([^"]*)"', document)
    assert drawn and sorted(drawn[1].split()) == ["bars", "lines", "panels", "parts"], document[
        -500:
    ]
    assert failed and failed[1] == ""
    for figure in study.figures:
        inside = document.split(f'id="figure-{figure.name}"')[1]
        assert inside.index("<svg") < 2000
    assert asked == []


def test_the_same_figures_are_pictures(study: Study, rows: pd.DataFrame, tmp_path: Path) -> None:
    write_report(study, rows, {"caravan": "0"}, tmp_path)
    for figure in study.figures:
        assert (tmp_path / f"figures/{figure.name}.png").read_bytes().startswith(b"\x89PNG")
        picture = (tmp_path / f"figures/{figure.name}.svg").read_text()
        assert picture.startswith("<svg")
        # Outside the page, the picture itself states its title.
        assert f">{figure.title}<" in picture


def test_the_page_says_what_was_printed_and_hides_nothing(
    study: Study, rows: pd.DataFrame, tmp_path: Path
) -> None:
    text = write_report(study, rows, {"caravan": "0"}, tmp_path).read_text()
    assert "because" in text and "-4.0 %" in text
    assert "Two &lt;policies&gt;" in text
    assert "At 200: <code>24</code> ms." in text
    # Nor does a comment in a label begin one in the page.
    assert text.count("</script>") == 2 and "<!--" not in text


def test_a_figure_without_values_is_named(study: Study, rows: pd.DataFrame, tmp_path: Path) -> None:
    empty = replace(study.figures[0], name="empty", title="Nothing & more")
    empty = replace(empty, parts=(replace(empty.parts[0], metrics=("rtt_ms",)),))
    some = replace(study, figures=(*study.figures, empty))
    text = write_report(some, rows, {"caravan": "0"}, tmp_path).read_text()
    assert "no values for them: Nothing &amp; more.</p>" in text
    whole = write_report(study, rows, {"caravan": "0"}, tmp_path).read_text()
    assert "Not drawn" not in whole


def test_bars_show_what_the_model_only_approximates(study: Study, rows: pd.DataFrame) -> None:
    (figure,) = (one for one in study.figures if one.draw == "bar")
    there = rows[rows["level"] == "model"]
    for policies, said in ((("none", "des"), "approximate"), (("des",), "in part approximate")):
        states = ["approximation" if name in policies else "exact" for name in there["policy"]]
        rough = there.assign(state=states)
        assert len(bars(specification(study, figure, rough))) == 2
        assert marks_say(study, figure, rough) == [f"bars: model, {said}", "diamonds: printed"]


LEVELS_TABLE = """
[[table]]
name = "table"
printed = "Table I"
title = "Delays"
sweep = "road"
metric = "mean_delay_ms"
at = { rate_kbps = 200 }
row = "policy"
columns = ["printed"]
rows = [["none", 19], ["des", 25]]
"""


def measured(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with a testbed's, which has measured one policy, with an interval."""
    own = rows[(rows["level"] == "simulate") & (rows["policy"] == "des")]
    here = own.assign(level="testbed", value=own["value"] * 3, state="complete")
    here = here.assign(ci95_low=here["value"] - 1, ci95_high=here["value"] + 1)
    return pd.concat([rows, here], ignore_index=True)


def test_bars_are_the_highest_level_and_the_others_are_marks_upon_them(
    study: Study, rows: pd.DataFrame
) -> None:
    (figure,) = (one for one in study.figures if one.draw == "bar")
    drawn = specification(study, figure, measured(rows))
    assert {point["kind"] for point in bars(drawn)} == {"testbed"}
    (points,) = drawn["datasets"].values()
    kinds = {
        layer["mark"]["type"]: layer["transform"][0]["filter"]["oneOf"] for layer in drawn["layer"]
    }
    assert kinds["tick"] == ["model"] and kinds["rule"] == ["testbed"]
    assert sum(point["kind"] == "model" for point in points) == 2
    assert marks_say(study, figure, measured(rows)) == [
        "bars: testbed",
        "ticks: model",
        "circles: simulation",
        "rules: 95 % interval",
        "diamonds: printed",
    ]


def test_stacks_of_levels_stand_side_by_side_and_none_loses_its_rows(
    study: Study, rows: pd.DataFrame
) -> None:
    (figure,) = (one for one in study.figures if one.draw == "stack")
    some = measured(rows)
    # As with a tunnel that was kept: only the testbed has this policy.
    some = some[(some["policy"] != "des") | (some["level"] == "testbed")]
    drawn = specification(study, figure, some)
    (points,) = drawn["datasets"].values()
    assert {(point["level"], point["x"]) for point in points} == {
        ("model", "none"),
        ("simulation", "none"),
        ("testbed", "DES <!--<script></script> & co"),
    }
    assert drawn["facet"]["column"]["sort"] == ["model", "simulation", "testbed"]
    assert marks_say(study, figure, some) == ["side by side: model, simulation, testbed"]


@pytest.mark.parametrize(
    ("high", "said"),
    [
        (0.5, ["rules: 95 % interval", "bars below 0: within the spread"]),
        (-0.5, ["rules: 95 % interval", "1 of 1 bars below 0 are outside the spread"]),
        (math.nan, ["bars below 0: of one run, so their spread is not known"]),
    ],
)
def test_what_bars_below_0_mean_is_said_of_these_bars(
    high: float, said: list[str], study: Study, rows: pd.DataFrame
) -> None:
    (figure,) = (one for one in study.figures if one.draw == "bar")
    here = measured(rows)
    here = here[(here["level"] == "testbed") & (here["rate_kbps"] == 200)]
    here = here.assign(value=-1.0, ci95_low=-2.0, ci95_high=high, published=None)
    assert marks_say(study, figure, here) == ["bars: testbed", *said]


def test_a_printed_table_has_every_level_or_says_why_not(rows: pd.DataFrame) -> None:
    study = parse("small.toml", STUDY + LEVELS_TABLE)
    some = measured(rows)
    some = some.assign(published=some["published"].fillna(25.0), relative_difference=0.5)
    text = printed_tables(study, some)
    heads = re.findall(r"<th[^>]*>(.*?)</th>", text)
    assert [one for one in heads if one in LEVEL_HEADINGS.values()] == [
        "model",
        "simulated",
        "measured here",
    ]
    lines = re.findall(r"<tr>(<td>.*?)</tr>", text)
    assert "not at this level" in lines[0] or "not run" in lines[0]
    assert "not run" not in lines[1] and "72" in lines[1]


CASES = """
[[figure]]
name = "cases"
title = "Cases"
x = "part"
series = "level"
draw = "bar"
y_scale = "log"
note = "At 200: {{ road: mean_delay_ms, policy = des, rate_kbps = 200, level = model }} ms."

[[figure.part]]
name = "slow"
sweep = "road"
y = ["mean_delay_ms"]
at = { policy = "none", rate_kbps = 100 }

[[figure.part]]
name = "fast"
sweep = "road"
y = ["mean_delay_ms"]
at = { policy = "des", rate_kbps = 200 }
"""


def test_parts_of_several_points_stand_side_by_side_and_print_beside_them(
    rows: pd.DataFrame, tmp_path: Path
) -> None:
    study = parse("small.toml", STUDY + CASES)
    (figure,) = (one for one in study.figures if one.name == "cases")
    drawn = specification(study, figure, rows)
    (points,) = drawn["datasets"].values()
    assert [(point["x"], point["series"], point["y"]) for point in points] == [
        ("fast", "printed", 25),
        ("slow", "model", 10),
        ("fast", "model", 24),
        ("slow", "simulate", 10),
        ("fast", "simulate", 24),
    ]
    (layer,) = drawn["layer"]
    # Bars of a logarithmic axis stand on its lower end.
    assert layer["encoding"]["y2"]["datum"] == layer["encoding"]["y"]["scale"]["domain"][0] > 0
    assert marks_say(study, figure, rows) == []
    write_report(replace(study, figures=(figure,)), rows, {"caravan": "0"}, tmp_path)
    assert "At 200: 24 ms." in (tmp_path / "figures/cases.svg").read_text()


def bars(drawn: dict[str, Any]) -> list[dict[str, Any]]:
    """The points of a figure that its first layer of bars shows."""
    (points,) = drawn["datasets"].values()
    layer = next(one for one in drawn["layer"] if one["mark"]["type"] == "bar")
    (chosen,) = layer["transform"]
    return [point for point in points if point["kind"] in chosen["filter"]["oneOf"]]


def test_texts_name_values_that_were_not_run(rows: pd.DataFrame) -> None:
    assert "(not run)" in prose("{{ road: mean_delay_ms, policy = aes }}", rows)
    assert "<script>" not in prose("<script>", rows)


def test_a_sentence_says_which_values_it_compares(study: Study, rows: pd.DataFrame) -> None:
    (verdict,) = verdicts(study, rows)
    label = study.labels["des"]
    assert verdict.grade == "holds"
    assert verdict.numbers == (
        f"Mean end-to-end delay ({label}, 100 kbit/s): 12 ms > 10 ms (none)",
    )


def test_the_legend_of_a_stack_names_each_part_in_rows_that_fit(
    study: Study, rows: pd.DataFrame
) -> None:
    parts = ("bytes:user", "bytes:headers", "bytes:protection")
    (figure,) = (one for one in study.figures if one.draw == "stack")
    waits = rows[rows["metric"] == "wait_ms:ms"]
    found = pd.concat([waits.assign(metric=part) for part in parts])
    figure = replace(figure, parts=(replace(figure.parts[0], metrics=parts),))
    color = specification(study, figure, found)["spec"]["encoding"]["color"]
    assert color["scale"]["domain"] == [
        "Part of a packet: user",
        "Part of a packet: headers",
        "Part of a packet: protection",
    ]
    assert color["legend"]["columns"] == 1


def test_logarithmic_axes_have_few_round_lines() -> None:
    assert log_ticks(3.0, 40.0) == [5, 10, 20]
    assert log_ticks(3.0, 40.0, (1,)) == [10]
    assert log_ticks(0.5, 20_000.0) == [1, 10, 100, 1000, 10_000]
    assert len(log_ticks(1.0, 1e12)) < 10


def test_an_interval_that_reaches_0_holds_its_point_on_a_logarithmic_axis(
    study: Study, rows: pd.DataFrame
) -> None:
    is_there = (rows["level"] == "simulate") & (rows["rate_kbps"] == 200)
    rows.loc[is_there & (rows["metric"] == "mean_delay_ms"), "ci95_low"] = 0.0
    (figure,) = (one for one in study.figures if one.name == "lines")
    drawn = specification(study, figure, rows)
    (span,) = (layer for layer in drawn["layer"] if layer["mark"]["type"] == "rule")
    foot, scale = span["encoding"]["y"]["field"], span["encoding"]["y"]["scale"]
    (points,) = drawn["datasets"].values()
    reaching = [point for point in points if point["kind"] == "simulate" and point["low"] == 0]
    assert len(reaching) == 2
    for point in reaching:
        assert 0 < scale["domain"][0] <= point[foot] < point["y"] < point["high"]


def test_all_that_diverges_at_one_rate_is_seen_and_so_is_the_formula_above_the_points(
    study: Study, rows: pd.DataFrame
) -> None:
    is_there = (rows["level"] == "model") & (rows["rate_kbps"] == 200)
    rows.loc[is_there & (rows["metric"] == "mean_delay_ms"), "value"] = 5_000.0
    (figure,) = (one for one in study.figures if one.name == "lines")
    drawn = specification(study, figure, rows)
    (triangles,) = (one for one in drawn["layer"] if one["mark"].get("shape") == "triangle-up")
    area = triangles["encoding"]["size"]["field"]
    (points,) = drawn["datasets"].values()
    areas = {point[area] for point in points}
    assert len(areas) == 2 and min(areas) > 0
    assert triangles["encoding"]["y"]["scale"]["domain"][1] > 5_000


def test_points_near_saturation_are_counted_apart() -> None:
    frame = pd.DataFrame({"value": [50.0, 60.0], "packet_bytes": [1, 2]})
    frame = frame.assign(sweep="road", metric="mean_delay_ms", level="model", state="stationary")
    frame = frame.assign(reading="", policy="", device="", link="", mips=1.0, rate_kbps=1.0)
    frame = frame.assign(ci95_low=math.nan, ci95_high=math.nan)
    simulated = frame.assign(level="simulate", state=["stationary", "near-saturation"])
    table = levels(pd.concat([frame, simulated]), "model")
    assert "<td>1</td>" in table
    assert "near saturation" in table and "1 points (mean end-to-end delay 1)" in table


def test_levels_leave_out_what_a_simulation_cannot_tell() -> None:
    def rows(level: str, values: list[float], half: float) -> pd.DataFrame:
        frame = pd.DataFrame({"value": values, "packet_bytes": range(len(values))})
        frame = frame.assign(sweep="road", metric="mean_delay_ms", level=level, state="stationary")
        frame = frame.assign(reading="", policy="", device="", link="", mips=1.0, rate_kbps=1.0)
        return frame.assign(ci95_low=frame["value"] - half, ci95_high=frame["value"] + half)

    # intervals of 2 % and 50 % of the mean, and no wait
    both = pd.concat(
        [rows("model", [50.0, 2.0, 5.0], math.nan), rows("simulate", [51.0, 2.0, 0.0], 1)]
    )
    table = levels(both, "model")
    assert "<td>2.00 %</td><td>2.00 %</td><td>2.00 %</td><td>100 %</td>" in table
    assert "2 points (mean end-to-end delay 2)" in table
