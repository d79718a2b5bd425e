"""Moves in the successors of paper M's system as a measure of studies."""

from __future__ import annotations

from pathlib import Path

import pytest
from study_by_hand import value, written

import caravan.study
from caravan.files import CATALOGUE
from caravan.study import StudyError, successors
from caravan.study.parsed import Run

RUN = Run(1.0, 0.0, 3)
NEAR, EARLY = 0.15, 0.95
OWN_MS = 400.0
"""What the program and the networks of a slow and busy machine take of a move, besides its
messages: some 5 ms on a quiet one. Rounds are counted; a timer of a second would be outside of the
bound."""
STUDY = """
name = "slice"
title = "Moves over one link"

[[sweep]]
name = "computed"
title = "Computed"
measure = "exchange"
grid = { policy = ["mvpn-mobike", "mvpn-agent"], link = ["satellite-leo"] }

[[sweep]]
name = "here"
title = "Measured"
measure = "successors"
replications = 2
grid = { policy = ["mvpn-mobike", "mvpn-agent"], link = ["satellite-leo"] }
"""


def link(name: str) -> dict[str, str]:
    path = CATALOGUE / f"links/{name}.toml"
    return {"name": name, "file": str(path), "text": path.read_text()}


@pytest.mark.parametrize(
    ("system", "run", "said"),
    [
        ("mvpn-agents", RUN, "'mvpn-agent'"),
        ("mobile-ip", RUN, "successor"),
        ("mvpn-mobike", Run(1.0, 0.0, 7), "must be one of"),
    ],
)
def test_what_is_wrong_with_a_cell_is_named(system: str, run: Run, said: str) -> None:
    with pytest.raises(StudyError, match=said):
        successors.request(system, link("lte"), run)
    assert successors.request("mvpn-agent", link("lte"), RUN)["link"]["delay_s"] == 0.01


def test_a_sweep_of_successors_needs_system_and_link(tmp_path: Path) -> None:
    for axis in ('policy = ["mvpn-mobike", "mvpn-agent"], ', ', link = ["satellite-leo"]'):
        text = STUDY.partition('measure = "successors"')
        with pytest.raises(StudyError, match='"successors" needs the axis'):
            written(tmp_path, text[0] + text[1] + text[2].replace(axis, ""))


@pytest.mark.root
@pytest.mark.measures
@pytest.mark.parametrize("system", ["mvpn-mobike", "mvpn-agent"])
def test_a_measured_move_is_that_of_the_formula(system: str, tmp_path: Path) -> None:
    study = written(tmp_path, STUDY.replace('["mvpn-mobike", "mvpn-agent"]', f'["{system}"]'))
    rows = caravan.study.run(study, directory=tmp_path / "out", level=("model", "testbed")).rows
    found = {
        metric: [value(rows, metric, sweep=sweep) for sweep in ("computed", "here")]
        for metric in ("rounds", "messages", "message_bytes", "data_bytes", "gap_ms")
    }
    print(found)
    for metric in ("rounds", "messages", "data_bytes"):
        computed, here = found[metric]
        assert computed == here, metric
    # At the home agent outside both messages have extensions of 8 octets for revocation (RFC 3543
    # §3.2) and for a tunnel in UDP (RFC 3519 §3.1), which are not in the file.
    computed, here = found["message_bytes"]
    assert here == computed + (0 if system == "mvpn-mobike" else 2 * 16)
    computed, here = found["gap_ms"]
    assert EARLY * computed < here < (1 + NEAR) * computed + OWN_MS
