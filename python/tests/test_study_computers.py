"""Cells of wireless policies whose nodes compute in devices: what has a cost is simulated, and what
has none is empty and says why."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from study_by_hand import value
from wireless_study import FOLDER, copied

import caravan.study
from caravan.files import CATALOGUE
from caravan.study import StudyError, load
from caravan.study.cells import points
from caravan.study.metrics import LOWER, UPPER

STUDY = """
name = "own"
title = "Own"

[[sweep]]
name = "idle"
title = "Computing takes no time"
measure = "wireless"
levels = ["model", "simulate"]
seconds = 0.2
replications = 1
set = { scenario = "m8" }
grid = { policy = ["pn-1", "pn-2"], link = ["wifi-11b"] }

[[sweep]]
name = "nodes"
title = "Devices"
measure = "wireless"
levels = ["model", "simulate"]
seconds = 0.2
replications = 1
set = { servers = "pentium-4-freeswan" }

[sweep.grid]
policy = ["pn-1", "pn-2", "pn-3", "pn-5", "pn-6"]
device = ["strongarm-206", "pentium-4-freeswan"]
link = ["wifi-11b"]

[[sweep.reading]]
name = "hardware"
says = "WEP in hardware."
set = { scenario = "m8", tunnel = "renewed" }

[[sweep.reading]]
name = "software"
says = "WEP by the station's processor."
set = { scenario = "m8", tunnel = "renewed", wep = "software" }
"""
FLOWS = ("tcp_bytes_s", "udp_bytes_s", "response_ms", "udp_response_ms")
ARM, P4 = "strongarm-206", "pentium-4-freeswan"


def study(folder: Path, text: str = STUDY) -> caravan.study.Study:
    shutil.copytree(FOLDER / "devices", folder / "devices")
    return copied(folder, text)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> caravan.study.Outcome:
    folder = tmp_path_factory.mktemp("devices")
    return caravan.study.run(study(folder), directory=folder / "out")


def at(rows: pd.DataFrame, metric: str, **place: str) -> dict[str, Any]:
    """The one row of a metric at a place of the simulation."""
    chosen = rows[(rows["metric"] == metric) & (rows["level"] == "simulate")]
    for key, told in {"sweep": "nodes", "reading": "hardware", **place}.items():
        chosen = chosen[chosen[key] == told]
    assert len(chosen) == 1, (metric, place, len(chosen))
    (found,) = chosen.to_dict("records")
    return {str(column): told for column, told in found.items()}


@pytest.mark.parametrize("policy", ["pn-1", "pn-2", "pn-6"])
def test_packets_without_cryptography_have_the_air_alone(
    policy: str, outcome: caravan.study.Outcome
) -> None:
    """What else a packet takes of a processor has no source: rates are at most so large."""
    idle = outcome.rows[outcome.rows["sweep"] == "idle"]
    same = "pn-1" if policy == "pn-6" else policy
    for metric in FLOWS:
        row = at(outcome.rows, metric, policy=policy, device=ARM)
        wanted = value(idle, metric, policy=same, level="simulate")
        # The tunnel between the subnets takes routers a little.
        assert row["value"] == pytest.approx(wanted, rel=0.05)
        assert row["bound"] == (UPPER if metric.endswith("bytes_s") else LOWER)
        assert pd.isna(row["reason"])
        assert str(row["cost_table"]) == f"{ARM}, {P4}"


def test_packets_that_a_device_cannot_price_are_empty_and_say_why(
    outcome: caravan.study.Outcome,
) -> None:
    why = f"{ARM} has no cost of 3des-sha1-modp1536: per_byte.3des-cbc is empty"
    for metric in (*FLOWS, "authentication_s", "tcp_cost_bytes_s", "udp_cost_bytes_s"):
        row = at(outcome.rows, metric, policy="pn-3", device=ARM)
        assert pd.isna(row["value"]) and (str(row["reason"]), row["bound"]) == (why, "")
    for metric in FLOWS:
        row = at(outcome.rows, metric, policy="pn-2", device=ARM, reading="software")
        assert pd.isna(row["value"]) and "has no cost of wep-104" in str(row["reason"])
    assert why in outcome.provenance["empty values"]


def test_a_part_of_an_authentication_without_a_cost_is_empty(
    outcome: caravan.study.Outcome,
) -> None:
    digest = f"{ARM} has no cost of HMAC-MD5: per_byte.md5 is empty"
    for policy in ("pn-1", "pn-5", "pn-6"):
        for part in ("", ":registration"):
            row = at(outcome.rows, f"authentication_s{part}", policy=policy, device=ARM)
            assert pd.isna(row["value"]) and str(row["reason"]) == digest
        start = at(outcome.rows, "authentication_s:start", policy=policy, device=ARM)
        assert (start["value"] > 0) == (policy != "pn-1")
    whys = {"pn-5": digest, "pn-6": f"{ARM} has no cost of x25519-generate"}
    for policy, why in whys.items():
        row = at(outcome.rows, "authentication_s:eap", policy=policy, device=ARM)
        assert pd.isna(row["value"]) and str(row["reason"]).startswith(why)


def test_what_has_a_cost_is_simulated(outcome: caravan.study.Outcome) -> None:
    """No node of the paper has those of IPsec, so the routers' processor is at the station here."""
    rows = outcome.rows
    rate = at(rows, "udp_bytes_s", policy="pn-3", device=P4)
    assert rate["value"] > 0 and rate["bound"] == UPPER
    cost = at(rows, "udp_cost_bytes_s", policy="pn-3", device=P4)
    base = at(rows, "udp_bytes_s", policy="pn-1", device=P4)
    assert cost["value"] == pytest.approx(base["value"] - rate["value"])
    # 3DES and SHA-1 take 252 cycles a byte at 2.6 GHz, on both ways and at both ends.
    slow, fast = (at(rows, "udp_response_ms", policy=one, device=P4) for one in ("pn-3", "pn-1"))
    assert slow["value"] - fast["value"] > 4 * 52 * 252.36 / 2.6e6
    # Its digest has a cost, an exchange of IKE has none.
    assert at(rows, "authentication_s:registration", policy="pn-3", device=P4)["value"] > 0
    ike = at(rows, "authentication_s:ike", policy="pn-3", device=P4)
    assert pd.isna(ike["value"]) and "Diffie-Hellman" in str(ike["reason"])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('set = { servers = "pentium-4-freeswan" }\n', "", "say what agents, routers and servers"),
        ('scenario = "m8" }\ngrid', 'scenario = "m8", wep = "software" }\ngrid', 'axis "device"'),
        ('wep = "software"', 'wep = "firmware"', "unknown wep 'firmware'"),
        ('"pentium-4-freeswan" }', '"pentium-5" }', "unknown device 'pentium-5'"),
    ],
)
def test_what_is_wrong_with_devices_is_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    changed = STUDY.replace(old, new, 1)
    assert changed != STUDY
    with pytest.raises(StudyError, match=said):
        caravan.study.run(study(tmp_path, changed), directory=tmp_path / "out")


@pytest.mark.root
def test_the_testbed_has_no_other_device_than_this_machine(tmp_path: Path) -> None:
    text = STUDY.replace('levels = ["model", "simulate"]', 'levels = ["testbed"]')
    with pytest.raises(StudyError, match="the testbed is this machine"):
        caravan.study.run(study(tmp_path, text), directory=tmp_path / "out", level="testbed")


def test_the_whole_matrix_has_the_papers_nodes() -> None:
    found = load("wireless-policies")
    for name, policies in (("paper-nodes", 12), ("paper-nodes-software", 3)):
        sweep = found.sweep(name)
        assert [one.name for one in sweep.readings] == [f"m{number}" for number in range(1, 10)]
        assert len(list(points(sweep.grid))) == policies * 3
        assert not sweep.is_quick and sweep.levels == ("model", "simulate")
    assert found.sweep("paper-nodes").grid["policy"] == tuple(f"pn-{one}" for one in range(1, 13))
    devices = {path.stem for path in (CATALOGUE / "studies/wireless-policies/devices").iterdir()}
    used = {*found.sweep("paper-nodes").grid["device"], P4}
    assert used == devices
