"""What an answer of `caravan-lab ask` states about its own numbers: digits, bounds, sources."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from test_lab_cli import TOP, answer, lab, refusal

from caravan.lab.ask import AskRequest
from caravan.lab.ask import answer as ranked
from caravan.lab.core import LabError, listing
from caravan.lab.picture import specification


def test_rates_of_a_slow_link_keep_their_digits_and_percentiles_their_bounds(
    tmp_path: Path,
) -> None:
    words = ("ask", "--device", "cortex-m0plus", "--link", "nb-iot", "--bytes", "100")
    slow = ("--rate-kbps", "0.001", "-o", str(tmp_path / "a.svg"))
    for one in answer(*words, *slow)["policies"]:
        if one["carried"] != "unknown":
            # So few packets wait for another that most have the shortest possible delay.
            low, high = one["p95_between_ms"]
            assert low <= one["p95_ms"] <= high <= low * 1.032
            assert low == pytest.approx(one["delay_ms"], rel=1e-3)
            full = one["why"].partition("full at ")[2].partition(" kbit/s")[0]
            assert float(full) == pytest.approx(one["capacity_kbps"], rel=1e-3) and float(full) < 17
    said = lab(*words, *slow).stdout
    assert " 1 kbit/s" not in said and "16.7 kbit/s" in said
    (clear,) = (line for line in said.splitlines() if line.startswith("none  "))
    assert re.search(r" 47\.91? +47\.9 to 48\.8\d ", clear), clear


def test_ask_refuses_what_no_ip_header_can_say(tmp_path: Path) -> None:
    words = ("ask", "--device", "cortex-a53", "--link", "lte", "--rate-kbps", "64", "--bytes")
    for size in ("65536", "20.5"):
        assert f"--bytes: {size} is not a packet size: up to 65535 whole" in refusal(*words, size)
    assert answer(*words, "65535", "-o", str(tmp_path / "a.svg"))["policies"]


def test_ask_refuses_a_policy_of_skip() -> None:
    asked = AskRequest("cortex-a53", "lte", rate_kbps=64, policies=("skip-x25519",))
    with pytest.raises(LabError, match="skip-x25519 is SKIP's, between a station and a firewall"):
        ranked(asked)


def test_simulate_shows_the_gap_of_each_move() -> None:
    said = lab("simulate", "mobile").stdout
    rows = [line.split() for line in said.splitlines() if line.startswith("mn ")]
    assert [(row[1], row[2]) for row in rows] == [("elsewhere", "3"), ("home", "8")]
    assert all(0 < float(gap) < 1000 for row in rows for gap in row[3:5])


def test_a_picture_says_of_which_packets_and_that_it_shows_bounds(tmp_path: Path) -> None:
    priced = tmp_path / "board.toml"
    text = (TOP / "devices/cortex-a53.toml").read_text()
    priced.write_text(text + '\n[per_packet]\nvalue = 9000\nsource = "measured"\n')
    for device, are_bounds in (("cortex-a53", True), (str(priced), False)):
        asked = AskRequest(device, "lte", rate_kbps=64, packet_bytes=100)
        drawn = specification(asked, ranked(asked).verdicts)
        said = " ".join(drawn["title"]["subtitle"])
        assert "packets of 100 bytes" in said and "from the device" in said
        assert ("lower bounds" in said) == are_bounds
    assert (
        "delays are lower bounds"
        in lab(
            *("ask", "--device", "cortex-a53", "--link", "lte", "--rate-kbps", "64"),
            *("-o", str(tmp_path / "a.svg")),
        ).stdout
    )


def test_a_picture_has_a_pane_of_delays_only_where_there_are_some() -> None:
    for rate_kbps, panes in ((64, 2), (100_000, 1)):
        asked = AskRequest("cortex-a53", "lte", rate_kbps=rate_kbps)
        drawn = specification(asked, ranked(asked).verdicts)
        assert len(drawn.get("hconcat", [drawn])) == panes


def test_ask_says_where_the_delay_of_a_link_is_from(tmp_path: Path) -> None:
    words = ("ask", "--device", "cortex-a53", "--link", "lte", "--rate-kbps", "64")
    found = answer(*words, "-o", str(tmp_path / "a.svg"))["assumptions"]
    assert any("a delay of 10 ms (ITU-R M.2134" in assumed for assumed in found)


@pytest.mark.parametrize("columns", [20, 60, 80, 200])
def test_a_narrow_terminal_cuts_neither_names_nor_numbers(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("caravan.lab.cli.PIPE_COLUMNS", columns)
    said = lab("links").stdout
    assert "…" not in said
    for row in listing("link"):
        (line,) = (line for line in said.splitlines() if line.startswith(f"{row['name']} "))
        assert f" {row['link']['rate']['up_bps'] / 1e3:,.10g} " in line
