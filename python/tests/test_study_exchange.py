"""Studies of exchanges and of paths behind a firewall, and values that are printed only."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import caravan.report
import caravan.study
from caravan.study import StudyError, load

STUDY = """
name = "moves"
title = "What does a move cost?"

[[sweep]]
name = "gap"
title = "The gap"
measure = "exchange"
grid = { policy = ["skip", "mobile-ip"], device = ["none", "cortex-m7"], link = ["satellite-geo"] }

[[sweep.reading]]
name = "clear"
says = "As they are."

[[sweep.reading]]
name = "through SKIP"
says = "Through SKIP, 3 s after the move."
set = { through = "skip-des-md5", detection_s = 3 }

[[sweep]]
name = "path"
title = "Behind a firewall"
scenario = "mvpn-behind"
levels = ["model"]
axes = { packet_bytes = "flow.up.sizes.bytes", device = "node.mn.device, node.fw.device" }
grid = { device = ["pentium-pro-200"], packet_bytes = [1064] }

[[left]]
printed = "table 9"
says = "by hand"
value = 46.5
unit = "KB/s"
needs = "a firewall"
"""


def written(folder: Path, text: str = STUDY) -> Path:
    (folder / "study.toml").write_text(text)
    scenarios = folder / "scenarios"
    scenarios.mkdir(exist_ok=True)
    links = folder / "links"
    links.mkdir(exist_ok=True)
    own = Path(str(load("mvpn").file)).parent
    (scenarios / "mvpn-behind.toml").write_text((own / "scenarios/mvpn-behind.toml").read_text())
    (links / "ethernet-10.toml").write_text((own / "links/ethernet-10.toml").read_text())
    return folder / "study.toml"


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    folder = tmp_path_factory.mktemp("moves")
    outcome = caravan.study.run(load(str(written(folder))), directory=folder / "out")
    return outcome.rows


def value(rows: pd.DataFrame, metric: str, **at: str) -> float:
    found = rows[rows["metric"] == metric]
    for column, wanted in at.items():
        found = found[found[column] == wanted]
    (one,) = found["value"]
    return float(one)


def test_an_exchange_has_rounds_bytes_and_a_gap(rows: pd.DataFrame) -> None:
    clear = {"sweep": "gap", "reading": "clear", "device": "none"}
    assert value(rows, "rounds", policy="skip", **clear) == 0
    assert value(rows, "rounds", policy="mobile-ip", **clear) == 1
    assert value(rows, "message_bytes", policy="mobile-ip", **clear) == 74 + 70
    # IP in IP around an echo request; the agent sends after the request
    assert value(rows, "data_bytes", policy="mobile-ip", **clear) == 84 + 20
    gap = 2 * 279 + 74 * 8 / 2.96e3 + 104 * 8 / 18.75e3
    assert value(rows, "gap_ms", policy="mobile-ip", **clear) == pytest.approx(gap)
    assert value(rows, "first_sent_ms", policy="skip", **clear) == 0


def test_a_policy_and_detection_come_on_top(rows: pd.DataFrame) -> None:
    at = {"sweep": "gap", "reading": "through SKIP", "policy": "mobile-ip", "device": "none"}
    # SKIP adds 20 of IP, 32, 24 of AH, and ESP's 12 with blocks of 8
    assert value(rows, "message_bytes", **at) == (88 + 80) + (88 + 72)
    gap = value(rows, "gap_ms", **at)
    assert 3000 + 2 * 279 < gap < 3000 + 2 * 279 + 2


def test_a_path_behind_a_firewall_is_a_road(rows: pd.DataFrame) -> None:
    at = {"sweep": "path", "policy": "skip-des-md5-paper", "device": "pentium-pro-200"}
    # 1238 bytes with Ethernet's 38 on the first two links are the limit
    assert value(rows, "user_kbytes_s", **at) == pytest.approx(1250 * 1024 / 1238)
    wires = 2 * 8e-4 * (1238 + 1142 * 2 + 1102 * 7)
    rtt = value(rows, "rtt_ms", **at)
    assert wires < rtt < wires + 4 * 0.29


def test_what_is_only_printed_is_in_the_file_without_a_value(tmp_path: Path) -> None:
    outcome = caravan.study.run(load(str(written(tmp_path))), directory=tmp_path / "out")
    caravan.report.write(outcome, tmp_path / "out")
    printed = pd.read_csv(tmp_path / "out/printed.csv")
    (left,) = printed.to_dict("records")
    assert (left["printed"], left["published"], left["unit"]) == ("table 9", 46.5, "KB/s")
    assert left["reason"] == "not computed: a firewall"
    assert "value" not in left or pd.isna(left["value"])
    report = (tmp_path / "out/report.html").read_text()
    assert "Printed, and not computed" in report


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('link = ["satellite-geo"]', "mips = [1]", 'needs the axis "link"'),
        ('"mobile-ip"]', '"mobile-op"]', "'mobile-ip'"),
        ("detection_s = 3", "detection = 3", "'detection_s'"),
        ('through = "skip-des-md5"', 'through = "skip-des"', "skip-des-md5"),
        ("value = 46.5\n", "", "value"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = written(tmp_path, STUDY.replace(old, new))
    with pytest.raises(StudyError, match=said):
        caravan.study.run(load(str(path)), directory=tmp_path / "out")
