"""Studies of a graph: the metrics of each flow, and measures that only know chains."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import caravan.study
from caravan import _lab
from caravan.lab.core import Question, find, kernel, scenario
from caravan.lab.policies import Policies
from caravan.report.page import write_report
from caravan.study import Outcome, StudyError, flows, load
from caravan.study.cells import cells
from caravan.study.claims import verdicts
from caravan.study.compute import jobs
from caravan.study.metrics import describe
from caravan.study.resolve import Files, resolve
from caravan.study.values import fill

STUDY = """
name = "cells"
title = "How fast must the second cell be?"

[[sweep]]
name = "moves"
title = "A client moves to another cell"
measure = "flows"
scenario = "handover"
axes = { link = "link.cell-b.rate" }
set = { "run.time" = "8 s" }
grid = { policy = ["none", "aes128gcm16"], link = ["400 kbit/s", "5 Mbit/s"] }

[[claim]]
printed = "here"
says = "A faster cell carries more to the client that moved."
[[claim.test]]
left = { sweep = "moves", metric = "throughput_kbps:ms2 down", at = { link = "5 Mbit/s" } }
is = ">"
right = { sweep = "moves", metric = "throughput_kbps:ms2 down", at = { link = "400 kbit/s" } }
over = { policy = ["aes128gcm16"] }

[[figure]]
name = "delays"
title = "Delay to the client that moves"
sweep = "moves"
x = "policy"
y = ["mean_delay_ms:ms2 down"]
series = "link"
draw = "bar"
"""
CITED = "{{ moves: missing_packets:ms2 down, policy = aes128gcm16, link = 5 Mbit/s }}"


def written(folder: Path, *changes: tuple[str, str]) -> Path:
    """The study after changes of its text."""
    text = STUDY
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "study.toml"
    path.write_text(text)
    return path


def refused(folder: Path, *changes: tuple[str, str]) -> str:
    """The error of the changed study."""
    path = written(folder, *changes)
    with pytest.raises(StudyError) as found:
        caravan.study.run(str(path), directory=folder / "out")
    return str(found.value)


@cache
def outcome(folder: Path) -> Outcome:
    """The study, run once."""
    return caravan.study.run(str(written(folder)), directory=folder / "out")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return outcome(tmp_path_factory.mktemp("cells"))


def test_every_flow_has_the_metrics_of_the_event_kernel(found: Outcome) -> None:
    rows = found.rows
    at = (rows["policy"] == "aes128gcm16") & (rows["link"] == "5 Mbit/s")
    values = dict(zip(rows[at]["metric"], rows[at]["value"], strict=True))
    run = kernel(Question("handover", ("run.time=8 s", "link.cell-b.rate=5 Mbit/s")))["simulate"]
    assert [flow["name"] for flow in run["flows"]] == ["ms1 up", "ms2 up", "ms2 down"]
    for flow in run["flows"]:
        name, streamed = flow["name"], flow["streamed"]
        assert values[f"sent_packets:{name}"] == streamed["sent"]
        assert values[f"received_packets:{name}"] == streamed["received"]
        assert values[f"missing_packets:{name}"] == streamed["sent"] - streamed["received"]
        assert values[f"throughput_kbps:{name}"] == streamed["throughput_bps"] / 1e3
        assert values[f"mean_delay_ms:{name}"] == pytest.approx(streamed["mean_delay_s"] * 1e3)
    # Only the client that moves loses packets.
    assert values["missing_packets:ms2 down"] > 0 == values["missing_packets:ms1 up"]
    for tunnel in run["tunnels"]:
        milliseconds = tunnel["exchange"]["handshake_s"] * 1e3
        assert values[f"handshake_ms:{tunnel['station']}"] == milliseconds


def test_rows_of_a_graph_say_where_they_are_from(found: Outcome) -> None:
    rows = found.rows
    assert set(rows["scenario"]) == {"handover"}
    assert set(rows["level"]) == {"simulate"}
    assert set(rows["state"]) == {"complete"}
    assert set(rows["replications"]) == {1}
    assert set(rows["device"]) == set(rows["cost_table"]) == {"none"}
    assert rows["rate_kbps"].isna().all() and rows["packet_bytes"].isna().all()
    assert rows["scenario_hash"].nunique() == 4
    assert describe("throughput_kbps:ms2 down").label == "Throughput, clear: ms2 down"
    assert describe("handshake_ms:ms1").label == "Handshake at ms1"


def test_sentences_citations_and_figures_name_flows(found: Outcome, tmp_path: Path) -> None:
    assert [verdict.grade for verdict in verdicts(found.study, found.rows)] == ["holds"]
    lost = fill(CITED, found.rows)
    assert float(lost) > 0
    text = f'[[text]]\ntitle = "Lost"\nbody = "{CITED}"\n'
    assert load(str(written(tmp_path, ("[[claim]]", f"{text}\n[[claim]]")))).texts
    report = write_report(found.study, found.rows, found.provenance, tmp_path / "report")
    assert "Delay to the client that moves" in report.read_text()


def test_the_cells_differ_by_what_the_grid_sets(found: Outcome) -> None:
    rows = found.rows
    down = rows[rows["metric"] == "throughput_kbps:ms2 down"]
    values = {
        (policy, link): value
        for policy, link, value in down[["policy", "link", "value"]].itertuples(index=False)
    }
    # Without a tunnel nothing follows the client to its new address, however fast its link.
    assert values["none", "400 kbit/s"] == values["none", "5 Mbit/s"]
    assert values["none", "5 Mbit/s"] < values["aes128gcm16", "400 kbit/s"]
    assert values["aes128gcm16", "400 kbit/s"] < values["aes128gcm16", "5 Mbit/s"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            (('"flows"', '"road"'), ('set = { "run.time" = "8 s" }\n', "")),
            "the closed forms and the tandem only know chains",
        ),
        ((('"flows"', '"tunnel"'),), "the closed form of a tunnel only knows chains"),
        (
            (('measure = "flows"', 'measure = "flows"\nlevels = ["model"]'),),
            "only a graph with access points has one",
        ),
        (
            (('measure = "flows"', 'measure = "flows"\nseconds = 60'),),
            'sweep.0.seconds: "flows" runs each cell once',
        ),
        (
            (("[[claim]]", "[sweep.quick]\nreplications = 2\n\n[[claim]]"),),
            'sweep.0.quick.replications: "flows" runs each cell once',
        ),
    ],
)
def test_what_has_no_form_for_a_graph_is_refused_by_name(
    changes: tuple[tuple[str, str], ...], said: str, tmp_path: Path
) -> None:
    text = refused(tmp_path, *changes)
    assert said in text and "study.toml:" in text
    assert not (tmp_path / "out").exists()


def test_a_chain_has_no_flows_to_measure(tmp_path: Path) -> None:
    alone = ('axes = { link = "link.cell-b.rate" }', 'axes = { link = "link.ms.rate" }')
    said = refused(tmp_path, ('"handover"', '"road"'), alone)
    assert 'sweep.moves: scenario: road is a chain, and "flows" needs a graph' in said


def test_a_parameter_of_a_graph_is_read_by_the_names_of_its_links_and_flows(
    tmp_path: Path,
) -> None:
    path = tmp_path / "study.toml"
    head = STUDY.partition("axes = ")[0].replace('"flows"', '"parameters"')
    keys = (
        '"cell" = "links.cell-b.rate.up_bps / 1e6"',
        '"rate" = "flows.ms2 down.model.rate_bps / 1e3"',
        '"links" = "links.count"',
    )
    path.write_text(f"{head}grid = {{}}\nkeys = {{ {', '.join(keys)} }}\n")
    rows = caravan.study.run(str(path), directory=tmp_path / "out").rows
    assert dict(zip(rows["reading"], rows["value"], strict=True)) == {
        "cell": 5.0,
        "rate": 800.0,
        "links": 4.0,
    }


def test_flows_without_a_tunnel_have_no_values_and_a_transfer_may_be_cut() -> None:
    exchange: dict[str, Any] = {
        "is_up": False,
        "handshake_s": None,
        "messages": [],
        "wire_bytes": 0,
    }
    run: dict[str, Any] = {"tunnels": [{"station": "ms1", "exchange": exchange}], "flows": []}
    resolved = scenario(Question("handover"))
    planned, policies = resolved["scenario"], Policies.of(resolved)
    planned["flows"][0]["model"] = {"kind": "tcp"}
    measures = flows.read(json.dumps({"simulate": run}).encode(), planned, policies)
    assert {one.state for one in measures} == {"incomplete"}
    names = {one.metric for one in measures if one.value is None}
    assert {"throughput_kbps:ms2 up", "mean_delay_ms:ms2 down", "tcp_kbps:ms1 up"} < names
    moved = {
        "throughput_bps": 8000.0,
        "is_complete": False,
        "connected_s": 0.25,
        "timeouts": 3,
    }
    flow: dict[str, Any] = {"name": "ms1 up", "transferred": moved, "streamed": None, "numbers": []}
    run = {"tunnels": [], "flows": [flow]}
    cut = flows.read(json.dumps({"simulate": run}).encode(), planned, policies)
    assert {one.state for one in cut} == {"incomplete"}
    assert {one.metric: one.value for one in cut} == {
        "tcp_kbps:ms1 up": 8.0,
        "tcp_kbytes_s:ms1 up": 1.0,
        "rtt_ms:ms1 up": 250.0,
        "timeouts:ms1 up": 3,
    }


def test_a_node_that_moves_has_the_gaps_of_its_first_move_to_each_link() -> None:
    def move(to: str, gap_s: float | None, data_gap_s: float | None) -> dict[str, Any]:
        return {"at_s": 5.0, "to": to, "gap_s": gap_s, "data_gap_s": data_gap_s}

    resolved = scenario(Question("mobile"))
    moves = [move("elsewhere", 0.005, None), move("home", 0.001, 0.002), move("home", 1.0, 2.0)]
    run = {"tunnels": [], "flows": [], "mobile": [{"station": "mn", "moves": moves}]}
    found = flows.read(
        json.dumps({"simulate": run}).encode(), resolved["scenario"], Policies.of(resolved)
    )
    gaps = {one.metric: (one.value, one.state) for one in found if "download" not in one.metric}
    assert gaps == {
        "gap_ms:elsewhere": (None, "incomplete"),
        "reachable_ms:elsewhere": (5.0, "complete"),
        "gap_ms:home": (2.0, "complete"),
        "reachable_ms:home": (1.0, "complete"),
    }


def test_each_flow_and_handshake_has_the_policy_of_its_own_tunnel(tmp_path: Path) -> None:
    text = find("scenario", "handover").text.replace('policy = "aes128gcm16"\n', "")
    layer = '\n[[layer]]\nkind = "ipsec"\npolicy = "{}"\nfrom = "{}"\nto = "sg"\n'
    own = {"ms1": "aes128gcm16", "ms2": "aes128-sha256"}
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "layers.toml").write_text(
        text + "".join(layer.format(policy, station) for station, policy in own.items())
    )
    path = written(
        tmp_path,
        ('scenario = "handover"', 'scenario = "layers"'),
        ('policy = ["none", "aes128gcm16"], ', ""),
        ('\nover = { policy = ["aes128gcm16"] }', ""),
        (STUDY[STUDY.index("[[figure]]") :], ""),
    )
    rows = caravan.study.run(str(path), directory=tmp_path / "out").rows
    found = set(rows[["metric", "policy"]].itertuples(index=False, name=None))
    assert len(found) > 10
    for metric, policy in found:
        assert policy == own[metric.partition(":")[2].partition(" ")[0]], metric


def test_a_handshake_with_work_that_has_no_cost_is_a_lower_bound(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        ("8 s", '8 s", "node.ms1.device" = "paper-w", "node.ms1.mips" = "100'),
        ('"none", "aes128gcm16"', '"aes128-sha1"'),
        ('policy = ["aes128gcm16"]', 'policy = ["aes128-sha1"]'),
    )
    rows = caravan.study.run(str(path), directory=tmp_path / "out").rows
    bounds = dict(zip(rows["metric"], rows["bound"], strict=True))
    assert bounds["handshake_ms:ms1"] == "lower"
    assert bounds["handshake_bytes:ms1"] == ""


def test_a_cell_is_resolved_once() -> None:
    """Its closed forms come from the scenario that gave its columns."""
    study = load("umts")
    sweep = next(one for one in study.sweeps if one.measure == "road")
    cell, files = cells(sweep, is_quick=True)[0], Files.of(study, is_quick=True)
    with mock.patch.object(_lab, "Scenario", wraps=_lab.Scenario) as opened:
        found = resolve(cell, files)
        assert found.modelled["capacity_bps"] > 0
        assert jobs(cell, found, "simulate", 1)
    assert opened.call_count == 1
