"""Percentiles lie within the measured delays and state their accuracy; bounds are named as such."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import caravan.study
from caravan.lab import core
from caravan.lab.cli import app
from caravan.lab.simulation import simulate
from caravan.report.figures import picture
from caravan.report.page import page
from caravan.report.tables import bounds_say
from caravan.study.comparison import compare
from caravan.study.metrics import BOUNDS_SAY, LOWER, UPPER, bound
from caravan.study.parse import parse
from caravan.study.values import fill

STUDY = '''
name = "bounded"
title = "Bounds"
seed = 1

[[text]]
title = "The answer"
body = """
It does {{ road: cpu_capacity_kbps }}, the paper {{ paper: cpu_capacity_kbps }}."""

[[sweep]]
name = "road"
title = "The road"
scenario = "umts"
axes = { device = "node.ms.device" }
set = { accounting = "rfc", "node.ms.mips" = "", "node.sg.mips" = "", "node.sg.device" = "" }
seconds = 200
warm_up = 10
replications = 4

[sweep.grid]
policy = ["aes128gcm16"]
device = ["cortex-m4"]
rate_kbps = [512]

[[sweep]]
name = "paper"
title = "The paper's station"
scenario = "umts"
levels = ["model"]
grid = { policy = ["3des-md5"], rate_kbps = [512] }

[[figure]]
name = "delay"
title = "Delay"
sweep = "road"
x = "rate_kbps"
y = ["mean_delay_ms"]
series = "policy"

[[figure]]
name = "papers"
title = "The paper's delay"
sweep = "paper"
x = "rate_kbps"
y = ["mean_delay_ms"]
series = "policy"
'''
M4 = (
    "accounting=rfc",
    "node.ms.device=cortex-m4",
    "node.ms.mips=",
    "node.sg.device=",
    "node.sg.mips=",
    "policy=aes128gcm16",
)


def study() -> caravan.study.Study:
    return parse("bounded.toml", STUDY)


def run(folder: Path, seed: int) -> pd.DataFrame:
    return caravan.study.run(study(), directory=folder, seed=seed).rows


def outcome(*edits: str, seconds: float = 60.0) -> dict[str, Any]:
    return simulate(core.Question("umts", edits), seconds=seconds, replications=4)


def test_where_every_packet_takes_the_same_time_every_percentile_is_that_time() -> None:
    same = ("traffic.model=constant", "traffic.sizes={ model = 'fixed', bytes = '287 B' }")
    for rate in ("8 kbit/s", "512 kbit/s"):
        found = outcome(*same, f"traffic.rate={rate}")
        for one in found["percentiles"]:
            assert one["delay_s"] == pytest.approx(found["mean_delay_s"], rel=1e-5)
            assert one["between_s"] == [one["delay_s"]] * 2


def test_a_percentile_says_between_which_delays_it_lies() -> None:
    found = outcome(seconds=600.0)
    assert found["packets"] > 10_000
    delays = [one["delay_s"] for one in found["percentiles"]]
    assert delays == sorted(delays)
    for one in found["percentiles"]:
        low, high = one["between_s"]
        assert low <= one["delay_s"] <= high <= low * (1 + 1 / 32)
        assert one["ci95_s"][0] <= low and high <= one["ci95_s"][1]


def test_two_seeds_do_not_differ_by_the_histogram(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    rows = run(first, 1)
    run(second, 2)
    percentiles = rows[rows["metric"].str.match(r"p\d+_delay_ms")]
    assert len(percentiles) == 3 and percentiles["ci95_low"].notna().all()
    differing = compare(first, second).differing
    assert not differing["metric"].str.match(r"p\d+_delay_ms").any(), differing


def test_what_bytes_alone_are_priced_for_is_a_bound_in_every_row(tmp_path: Path) -> None:
    rows = run(tmp_path / "out", 1)
    bounds = {
        (row.sweep, row.metric): str(row.bound) for row in rows.itertuples() if row.sweep == "road"
    }
    assert bounds["road", "mean_delay_ms"] == bounds["road", "p99_delay_ms"] == LOWER
    assert bounds["road", "utilisation:ms"] == LOWER
    assert bounds["road", "utilisation:sg"] == bounds["road", "mean_packet_bytes"] == ""
    assert bounds["road", "capacity_kbps"] == bounds["road", "throughput_kbps"] == UPPER
    assert (rows[rows["sweep"] == "paper"]["bound"] == "").all()
    answer = fill(study().texts[0][1], rows)
    assert answer.startswith("It does at most ") and "the paper at" not in answer
    figures = {figure.name: figure for figure in study().figures}
    assert bounds_say(figures["delay"], rows) == BOUNDS_SAY
    assert bounds_say(figures["papers"], rows) == ""
    drawn = {name: picture(study(), figures[name], rows) for name in ("delay", "papers")}
    there = {name: one for name, one in drawn.items() if one is not None}
    assert there.keys() == drawn.keys()
    shown = page(study(), rows, {"caravan": "0"}, there)
    assert shown.count(BOUNDS_SAY) == 1
    held = (tmp_path / "out" / "results.csv").read_text()
    assert ",bound," in held.splitlines()[0]


def said(*words: str) -> str:
    """The output of `caravan-lab`, in one line for any terminal width."""
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


def test_simulate_and_cost_say_what_is_a_bound() -> None:
    quick = ("--hours", "0.01", "--replications", "2")
    edits = [word for edit in M4 for word in ("--set", edit)]
    assert "lower bound: ms has a cost per byte" in said("simulate", "umts", *edits, *quick)
    assert "lower bound" not in said("simulate", "umts", *quick)
    price = said("cost", "--suite", "aes128gcm16", "--profile", "cortex-m4", "--bytes", "480")
    assert "a lower bound: it counts the cost of the bytes" in price


@pytest.mark.parametrize(
    ("metric", "stations", "way"),
    [
        ("mean_delay_ms", ["ms"], LOWER),
        ("wait_ms:ms", ["ms"], LOWER),
        ("wait_ms:sg", ["ms"], ""),
        ("tcp_kbps", ["ms"], UPPER),
        ("protected_bytes", ["ms"], ""),
        ("mean_delay_ms", [], ""),
    ],
)
def test_which_way_a_value_errs(metric: str, stations: list[str], way: str) -> None:
    assert bound(metric, stations) == way
