"""Studies of stations that need access to a radio: policies of several layers on the scenarios of
paper P, computed and simulated.
"""

from __future__ import annotations

import json
import shutil

import pytest
from wireless_study import cell

import caravan.study
from caravan import _lab, files
from caravan.study import Outcome, access, wireless

STUDY = """
name = "access"
title = "What does access cost?"

[[sweep]]
name = "tcp"
title = "A transfer within one radio"
measure = "flows"
scenario = "m1"
levels = ["model", "simulate"]
grid = { policy = ["pn-1", "pn-5", "pn-12"] }
set = { "flow.data.bytes" = "1 MB" }
"""
PARTS = ("eap_start_ms", "eap_ms", "registration_ms", "key_exchange_ms", "authentication_ms")

REQUEST = {"flows": False, "tunnel": "renewed"}
OF_POLICIES: dict[str, set[str]] = {
    "pn-1": set(),
    "pn-5": {"eap_start_ms", "eap_ms"},
    "pn-12": {"eap_start_ms", "eap_ms", "key_exchange_ms"},
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    folder = tmp_path_factory.mktemp("access")
    shutil.copytree(files.CATALOGUE / "studies" / "wireless-policies", folder, dirs_exist_ok=True)
    path = folder / "study.toml"
    path.write_text(STUDY)
    return caravan.study.run(str(path), directory=folder / "out")


def values(found: Outcome, policy: str, level: str) -> dict[str, float]:
    """All metrics of a policy at one level."""
    rows = found.rows
    at = (rows["policy"] == policy) & (rows["level"] == level)
    return dict(zip(rows[at]["metric"], rows[at]["value"], strict=True))


@pytest.mark.parametrize("policy", ["pn-1", "pn-5", "pn-12"])
def test_model_and_simulation_agree(found: Outcome, policy: str) -> None:
    computed, simulated = values(found, policy, "model"), values(found, policy, "simulate")
    parts = [metric for metric in computed if metric.startswith(PARTS)]
    kinds = {metric.partition(":")[0] for metric in parts if metric.endswith(":mn1")}
    assert kinds == {"registration_ms", "authentication_ms", *OF_POLICIES[policy]}
    for metric in parts:
        assert computed[metric] == pytest.approx(simulated[metric], rel=0.05)
    [rate] = [metric for metric in computed if metric.startswith("tcp_kbps:")]
    assert computed[rate] == pytest.approx(simulated[rate], rel=0.05)


@pytest.mark.parametrize("policy", ["pn-1", "pn-12"])
def test_an_authentication_away_is_the_sum_of_its_parts_but_discovery(policy: str) -> None:
    _, (run,), _ = cell(policy=policy, scenario="m8", flows="no", tunnel="renewed")
    answer = json.loads(_lab.Scenario(json.dumps({**run, "set": [*run["set"], "seed=1"]})).kernel())
    for level, read in (("model", access.computed), ("simulate", access.simulated)):
        own = {one.metric: one.value or 0.0 for one in read(answer[level])}
        parts = sum(own[f"{name}:mn1"] for name in {"registration_ms", *OF_POLICIES[policy]})
        assert own["authentication_ms:mn1"] == pytest.approx(parts, rel=1e-6)
        assert own["discovery_ms:mn1"] > 0
        # A cell of the study has the same in seconds.
        told = wireless.computed({**REQUEST, "is_away": True}, level, [json.dumps(answer).encode()])
        (whole,) = (one.value for one in told if one.metric == "authentication_s")
        assert whole == pytest.approx(parts / 1e3, rel=1e-6)


def test_the_messages_of_eap_md5_are_counted(found: Outcome) -> None:
    simulated = values(found, "pn-5", "simulate")
    # exchanges/eap-md5.toml: frames without the header and LLC of 802.11, and packets of RADIUS
    counts = {"access_frames": 5, "access_bytes": 81, "radius_packets": 4, "radius_bytes": 587}
    assert {name: simulated[f"{name}:mn1"] for name in counts} == counts
    # A frame of 9 octets: header, LLC and FCS around it, at 11 Mbit/s
    start_ms = 0.81 + (9 + 36) * 8 / 11e3
    assert simulated["eap_start_ms:mn1"] == pytest.approx(start_ms, rel=1e-4)


def test_access_alone_leaves_the_throughput_as_it_is(found: Outcome) -> None:
    without, access = (values(found, policy, "simulate") for policy in ("pn-1", "pn-5"))
    [rate] = [metric for metric in without if metric.startswith("tcp_kbps:")]
    assert access[rate] == without[rate]
    assert values(found, "pn-12", "simulate")[rate] < without[rate]
