"""The matrix of paper P: which cells the study has, a quick run too, and what the kept run has of
each."""

from __future__ import annotations

from functools import cache
from itertools import product

import pandas as pd
import pytest

from caravan.files import CATALOGUE
from caravan.study import compute, load
from caravan.study.cells import Cell, cells
from caravan.study.resolve import Files, resolve
from caravan.study.results import KEY

POLICIES = tuple(f"pn-{number}" for number in range(1, 13))
READINGS = tuple(f"m{number}" for number in range(1, 10))
LEVELS = ("model", "simulate", "testbed")
FILLED = ("authentication_s", "tcp_bytes_s", "udp_bytes_s", "response_ms", "udp_response_ms")
COSTS = ("tcp_cost_bytes_s", "udp_cost_bytes_s")
PARTS = ("start", "eap", "port", "registration", "ike")
QUICK_CELLS = 137
"""As many as the testbed measures in four minutes, some 1.7 s each."""
RECOMPUTED = ("udp_bytes_s", "tcp_bytes_s", "response_ms", "udp_response_ms")


@cache
def kept() -> pd.DataFrame:
    return pd.read_parquet(CATALOGUE / "studies/wireless-policies/results.parquet")


@pytest.mark.parametrize("level", LEVELS)
def test_the_kept_run_fills_every_cell_of_the_matrix(level: str) -> None:
    rows = kept()[(kept()["sweep"] == "air") & (kept()["level"] == level)]
    assert not rows.duplicated(list(KEY)).any()
    filled = rows[rows["value"].notna()]
    for metric in (*FILLED, *COSTS):
        own = filled[(filled["metric"] == metric) & filled["policy"].isin(POLICIES)]
        found = list(zip(own["policy"], own["reading"], strict=True))
        wanted = [
            (policy, reading)
            for policy, reading in product(POLICIES, READINGS)
            if metric not in COSTS or policy != "pn-1"
        ]
        assert sorted(found) == sorted(wanted), metric
        assert (own["value"] > 0).all() or metric in COSTS


@pytest.mark.parametrize("sweep", ["air", "fast"])
@pytest.mark.parametrize("level", LEVELS)
def test_what_the_kept_run_does_not_fill_has_a_reason(sweep: str, level: str) -> None:
    rows = kept()[(kept()["sweep"] == sweep) & (kept()["level"] == level)]
    metrics = (*FILLED, *(f"authentication_s:{part}" for part in PARTS))
    at = {(row.policy, row.reading, row.metric) for row in rows.itertuples()}
    wanted = set(product((*POLICIES, "tls-1.2", "tls-1.3"), READINGS, metrics))
    assert wanted - at == set()
    empty = rows[rows["value"].isna()]
    assert empty["reason"].notna().all()
    assert {(one.policy, one.metric) for one in empty.itertuples()} >= {
        (policy, f"udp{cost}_bytes_s")
        for policy in ("tls-1.2", "tls-1.3")
        for cost in ("", "_cost")
    }


def resolved() -> list[tuple[Cell, str]]:
    """The cells of the study that compute or measure, each with the hash of what decides them."""
    study = load("wireless-policies")
    files = Files.of(study)
    return [
        (cell, resolve(cell, files).scenario_hash)
        for sweep in study.sweeps
        if sweep.measure == "wireless" and "device" not in sweep.grid
        for cell in cells(sweep, is_quick=False)
    ]


def test_the_kept_run_is_of_the_files_of_today() -> None:
    held = {
        (row.sweep, row.reading, row.policy): row.scenario_hash
        for row in kept().itertuples()
        if row.cost_table in ("none", compute.MACHINE)
    }
    for cell, own in resolved():
        assert held[cell.sweep.name, cell.reading, cell.point["policy"]] == own, cell


@pytest.mark.parametrize(
    ("policy", "reading"), [("pn-1", "m1"), ("pn-3", "m5"), ("pn-12", "m8"), ("tls-1.3", "m6")]
)
def test_the_kept_run_has_what_the_model_says_today(policy: str, reading: str) -> None:
    study = load("wireless-policies")
    (cell,) = (
        one
        for one in cells(study.sweep("air"), is_quick=False)
        if (one.point["policy"], one.reading) == (policy, reading)
    )
    found = resolve(cell, Files.of(study))
    results = [compute.compute(job) for job in compute.jobs(cell, found, "model", study.seed)]
    own = kept()[(kept()["sweep"] == "air") & (kept()["level"] == "model")]
    own = own[(own["policy"] == policy) & (own["reading"] == reading)].set_index("metric")
    computed = {one.metric: one.value for one in compute.answer(cell, found, "model", results)}
    for metric in RECOMPUTED:
        if computed[metric] is not None:
            assert own.loc[metric, "value"] == pytest.approx(computed[metric], rel=1e-9), metric


def test_a_quick_run_has_every_cell_of_the_matrix_and_of_table_iii() -> None:
    study = load("wireless-policies")
    quick = {sweep.name: cells(sweep, is_quick=True) for sweep in study.sweeps if sweep.is_quick}
    air = {(cell.point["policy"], cell.reading) for cell in quick["air"]}
    assert air == set(product(POLICIES, READINGS))
    assert {(cell.run.replications, cell.run.seconds) for cell in quick["air"]} == {(1, 0.2)}
    arrivals = {(cell.point["policy"], cell.reading) for cell in quick["arrivals"]}
    printed = [one for one in study.all_published() if one.printed == "Table III"]
    assert len(printed) == 10
    assert {(one.at["policy"], one.at["reading"]) for one in printed} <= arrivals
    measured = (own for own in quick.values() if "testbed" in own[0].sweep.levels)
    assert sum(map(len, measured)) <= QUICK_CELLS
