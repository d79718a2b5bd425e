"""Studies of stacks: layers over a link, and the study `wireless-today`."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

import caravan.study
from caravan.advice.stacks import layers
from caravan.advice.standings import VERDICTS
from caravan.files import CATALOGUE
from caravan.study import Outcome, StudyError, load
from caravan.study.claims import verdicts
from caravan.study.values import fill

STUDY = """
name = "stacks"
title = "What does a stack cost?"

[[sweep]]
name = "one"
title = "One"
measure = "stack"
grid = { policy = ["wpa3-sae + wireguard"], link = ["wifi"], device = ["none", "cortex-m7"] }
set = { behind = "lte", data_bytes = 1400, as_of = "2026-11-25" }
"""


@cache
def today() -> Outcome:
    return caravan.study.run("wireless-today")


def value(outcome: Outcome, metric: str, **at: str) -> float:
    found = outcome.rows[outcome.rows["metric"] == metric]
    for column, wanted in at.items():
        found = found[found[column] == wanted]
    (one,) = found["value"]
    return float(one)


def written(folder: Path, text: str) -> str:
    path = folder / "study.toml"
    path.write_text(text)
    return str(path)


def test_a_stack_has_rounds_bytes_times_and_a_standing(tmp_path: Path) -> None:
    found = caravan.study.run(load(written(tmp_path, STUDY)), directory=tmp_path / "out")
    at = {"device": "none"}
    # SAE, confirm, association, four-way handshake; WireGuard's one
    assert value(found, "rounds", **at) == 4 + 1
    # WireGuard fills up to 16 and adds 60, CCMP adds 16
    assert value(found, "data_bytes", **at) == 1408 + 60 + 16
    assert value(found, "gap_ms", **at) == pytest.approx(20, rel=0.02)
    # no standard judges WireGuard
    assert value(found, "standing", **at) == VERDICTS.index("unjudged") == 2
    device = {"device": "cortex-m7"}
    work_ms = value(found, "first_sent_ms", **device) - value(found, "first_sent_ms", **at)
    assert work_ms > 1
    assert value(found, "byte_ns", **device) == pytest.approx(
        value(found, "time_ms", **device) * 1e6 / 1400
    )


def test_a_frame_that_joins_has_its_header_of_802_11_once(tmp_path: Path) -> None:
    """The link counts header, LLC and FCS: 36. The frame has its header in it, and no LLC."""
    text = STUDY.replace("wpa3-sae + wireguard", "wifi-open").replace('["wifi"]', '["wifi-11b"]')
    text = text.replace('device = ["none", "cortex-m7"]', 'device = ["none"]')
    found = caravan.study.run(load(written(tmp_path, text)), directory=tmp_path / "out")
    frames = [30, 30, 54, 46]
    air_ms = [0.81 + (size - 32 + 36) * 8 / 11e3 for size in frames]
    assert value(found, "first_sent_ms") == pytest.approx(sum(air_ms))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("wpa3-sae + wireguard", "wpa3-sea + wireguard", "unknown layer 'wpa3-sea'"),
        ('link = ["wifi"]', 'link = ["lte"]', "needs a link of Wi-Fi"),
        ('"2026-11-25"', '"2026"', "'2026' is not a day"),
        ("data_bytes", "data_byte", "unknown key 'data_byte'"),
        ('behind = "lte"', 'behind = "lta"', "unknown link 'lta'"),
        (', link = ["wifi"]', "", 'needs the axis "link"'),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(StudyError, match=said):
        caravan.study.run(load(written(tmp_path, STUDY.replace(old, new))))


def test_every_layer_has_rows_today() -> None:
    sweeps = today().study.sweeps
    named = {
        layer
        for sweep in sweeps
        if sweep.measure == "stack"
        for name in sweep.grid["policy"]
        for layer in str(name).split(" + ")
    }
    assert named == set(layers())
    assert len(today().rows[today().rows["metric"] == "rounds"]) > 150


def test_every_sentence_of_today_holds() -> None:
    found = verdicts(today().study, today().rows)
    assert len(found) == len(today().study.claims) == 6
    assert {one.grade for one in found} == {"holds"}


def test_the_readme_is_the_text_of_the_study_with_its_numbers() -> None:
    readme = flat((CATALOGUE / "studies/wireless-today/README.md").read_text())
    for title, body in today().study.texts:
        text = fill(body, today().rows)
        assert "(not run)" not in text and "(no " not in text
        assert flat(f"## {title} {text}") in readme


def test_the_page_says_of_tunnels_what_the_study_says() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/lab-policies.md").read_text()
    said = re.search(
        r"a packet of (\d+) bytes gets (\d+) more, (\d+) in a tunnel of IKEv2 and (\d+) in one of "
        "WireGuard",
        page,
    )
    assert said is not None
    size, *more = (int(one) for one in said.groups())
    at = {"sweep": "above", "link": "lte", "reading": "small"}
    found = [
        value(today(), "data_bytes", **at, policy=policy) - size
        for policy in ("tls13", "ikev2-gcm", "wireguard")
    ]
    assert found == more
    assert value(today(), "data_bytes", **at, policy="ikev2-chacha") - size == more[1]


def test_the_table_of_access_is_complete() -> None:
    for policy in layers():
        if layers()[policy].at == "access":
            at = {"sweep": "access", "policy": policy, "reading": "server behind LTE"}
            assert value(today(), "gap_ms", **at) > 0


def flat(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
