"""One scenario at three levels: the results of each for the tunnel, and their differences."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import caravan.study
from caravan.report.tables import levels as levels_table
from caravan.study import Outcome, StudyError, levels, tunnel
from caravan.study.claims import verdicts


def value(outcome: Outcome, level: str, metric: str, policy: str = "3des-md5") -> float:
    """The only value for these keys."""
    rows = outcome.rows
    found = rows[(rows["level"] == level) & (rows["metric"] == metric) & (rows["policy"] == policy)]
    assert len(found) == 1
    return float(found["value"].iloc[0])


def test_model_and_simulation_of_the_tunnel_agree() -> None:
    outcome = caravan.study.run("road", quick=True)
    for metric in ("handshake_messages", "handshake_bytes", "wire_bytes_64", "wire_bytes_480"):
        assert value(outcome, "model", metric) == value(outcome, "simulate", metric)
    for metric, tolerance in (("handshake_ms", 0.05), ("rtt_ms", 0.05), ("tcp_kbps", 0.15)):
        computed = value(outcome, "model", metric)
        assert value(outcome, "simulate", metric) == pytest.approx(computed, rel=tolerance)
    assert value(outcome, "model", "handshake_messages") == 6


def test_every_row_says_where_its_value_is_from(tmp_path: Path) -> None:
    outcome = caravan.study.run("road", quick=True, directory=tmp_path)
    rows = outcome.rows
    assert set(rows["cost_table"]) == set(rows["device"]) == {"none"}
    assert set(rows["link"]) == {"10 Mbit/s, 20 ms"}
    model, simulated = (rows[rows["level"] == level] for level in ("model", "simulate"))
    rough = set(model[model["state"] == "approximation"]["metric"])
    assert rough == {"handshake_ms", "tcp_kbps"}
    assert set(model["state"]) == {"exact", "approximation"}
    assert set(simulated["state"]) == {"complete"}
    assert set(simulated["replications"]) == {1}
    # both levels of a cell come from one job
    assert outcome.provenance["jobs"] == "2, of which 2 were computed in this run"
    assert "packets simulated" not in outcome.provenance


UNPRICED_STUDY = """
name = "unpriced"
title = "A handshake without a cost"

[[sweep]]
name = "tunnel"
title = "Handshake"
scenario = "road"
measure = "tunnel"
levels = ["simulate"]
grid = { policy = ["3des-md5"], device = ["paper-u"] }
set = { "node.ms.mips" = 100, "traffic.bytes" = "10 KB" }
axes = { device = "node.ms.device" }
"""


def test_a_handshake_whose_keys_have_no_cost_is_a_lower_bound(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(UNPRICED_STUDY)
    rows = caravan.study.run(str(path), directory=tmp_path / "out").rows
    bounds = dict(zip(rows["metric"], rows["bound"], strict=True))
    assert bounds["handshake_ms"] == "lower"
    assert set(rows[rows["metric"] != "handshake_ms"]["bound"].fillna("")) == {""}


def test_a_transfer_that_time_ends_is_incomplete() -> None:
    exchange, cut = {"is_up": True}, {"is_complete": False}
    for answer in (
        {"exchange": exchange, "transferred": cut},
        {"exchange": exchange, "transferred": None},
        {"exchange": {"is_up": False}, "transferred": {"is_complete": True}},
    ):
        state = tunnel.state("simulate", json.dumps({"simulate": answer}).encode())
        assert state("tcp_kbps") == "incomplete"
        assert (state("rtt_ms") == "complete") == (answer["exchange"] == exchange)


CUT_STUDY = """
name = "cut"
title = "A transfer that time ends"

[[sweep]]
name = "tunnel"
title = "Tunnel"
scenario = "road"
measure = "tunnel"
levels = ["simulate"]
grid = { policy = ["aes128gcm16"] }
set = { "traffic.bytes" = "9 MB", "link.nat.rate" = "1 Mbit/s", "run.time" = "3 s" }
"""


def cut_study(folder: Path, level: str) -> Outcome:
    """A level of the study above; its transfer needs over a minute, and has 3 s."""
    path = folder / "study.toml"
    path.write_text(CUT_STUDY.replace('"simulate"', f'"{level}"'))
    outcome = caravan.study.run(str(path), directory=folder / "out", level=level)
    states = dict(zip(outcome.rows["metric"], outcome.rows["state"], strict=True))
    assert states.pop("tcp_kbps") == "incomplete"
    assert "rtt_ms" in states and set(states.values()) == {"complete"}
    assert levels.in_words(outcome.rows) == [
        f"{level}: 1 of 1 values of tcp_kbps are incomplete: a transfer ran out of time, or a "
        "tunnel did not come up"
    ]
    return outcome


def test_a_study_says_what_time_cut(tmp_path: Path) -> None:
    cut_study(tmp_path, "simulate")


@pytest.mark.root
@pytest.mark.measures
def test_a_study_of_the_testbed_says_what_time_cut(tmp_path: Path) -> None:
    rate = value(cut_study(tmp_path, "testbed"), "testbed", "tcp_kbps", "aes128gcm16")
    assert 200 < rate < 1000


def test_sweeps_have_the_levels_of_their_measure() -> None:
    with pytest.raises(StudyError, match="no sweep of wimax has 'testbed'"):
        caravan.study.run("wimax", level="testbed")


@pytest.mark.root
@pytest.mark.measures
def test_the_three_levels_agree(tmp_path: Path) -> None:
    all_levels = ("model", "simulate", "testbed")
    outcome = caravan.study.run("road", quick=True, level=all_levels, directory=tmp_path)
    rows = outcome.rows[outcome.rows["level"] == "testbed"]
    assert set(rows["device"]) == set(rows["cost_table"]) == {"machine of the run"}
    assert "TCP throughput" in levels_table(outcome.rows, "testbed")
    longer = value(outcome, "testbed", "handshake_bytes") - value(
        outcome, "simulate", "handshake_bytes"
    )
    assert longer == 0
    assert [verdict.grade for verdict in verdicts(outcome.study, outcome.rows)] == ["holds"] * 3
