"""One scenario at three levels: what each says of the tunnel, and how far they are apart."""

from __future__ import annotations

from pathlib import Path

import pytest

import caravan.study
from caravan.study import Outcome, StudyError
from caravan.study.claims import verdicts


def value(outcome: Outcome, level: str, metric: str, policy: str = "3des-md5") -> float:
    """The one value there."""
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


def test_sweeps_have_the_levels_of_their_measure() -> None:
    with pytest.raises(StudyError, match="no sweep of wimax has 'testbed'"):
        caravan.study.run("wimax", level="testbed")


@pytest.mark.root
def test_the_three_levels_agree(tmp_path: Path) -> None:
    levels = ("model", "simulate", "testbed")
    outcome = caravan.study.run("road", quick=True, level=levels, directory=tmp_path)
    assert [verdict.holds for verdict in verdicts(outcome.study, outcome.rows)] == [True] * 3
