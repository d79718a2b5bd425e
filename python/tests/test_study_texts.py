"""Numbers in the texts of a study: each is printed in a paper, part of the grid, filled in, or
computed here."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from typing import Any

import pandas as pd
import pytest
import sizes_by_hand as sizes

import caravan.study
from caravan.files import CATALOGUE
from caravan.report.figures import picture
from caravan.study import Outcome, Study
from caravan.study.claims import with_sentences
from caravan.study.parameters import document, number
from caravan.study.parsed import Point
from caravan.study.published import (
    SAME,
    UNEXPLAINED,
    Score,
    fitted_scores,
    headline,
    parameters_score,
    relative_difference,
    results_score,
)
from caravan.study.resolve import Files, resolve
from caravan.study.text import StudyError
from caravan.study.values import ABSENT, fill
from caravan.testbed.binary import TOP

FILLED = re.compile(r"\{\{.*?\}\}", re.DOTALL)
NAMES = re.compile(
    r"3DES|MD5|SHA-\d+|AES-\d+(?:-\w+)?|ChaCha20-Poly1305|RFC \d+|Cortex-\w+|IKEv[12]|95 % interval"
    r"|Figs?\. \d+|Table \d+|equation \(\d+\)|formula \(\d+\)|\(\d+\)|message \d+"
    r"|RSA-\d+|P-\d+|ML-KEM-\d+|[Tt]he M4"
)
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
MS = 1e3
STUDIES = ("umts", "wimax", "umts-today", "road")


@cache
def outcome(name: str) -> Outcome:
    level = "model" if name == "umts-today" else ""
    return caravan.study.run(name, quick=True, level=level or ())


def said(study: Study) -> Iterator[str]:
    """All texts of a study."""
    yield from (body for _, body in study.texts)
    yield from (reason.text for reason in study.reasons)
    yield from (claim.comment for claim in study.claims)
    yield from (figure.note for figure in study.figures)
    yield from (reading.says for sweep in study.sweeps for reading in sweep.readings)
    yield from (item.says + item.reason for item in study.all_published())


def fixed(study: Study) -> set[float]:
    """Numbers in the texts of a study that are neither in its grid nor printed in a paper."""
    known = {item.value for item in study.all_published()}
    for sweep in study.sweeps:
        known |= {
            value for axis in sweep.grid.values() for value in axis if isinstance(value, float)
        }
    texts = (NAMES.sub("", FILLED.sub("", text)) for text in said(study))
    found: set[float] = {
        float(match[0].replace(",", "")) for text in texts for match in NUMBER.finditer(text)
    }
    return found - known


def at(name: str, **places: object) -> float:
    rows = outcome(name).rows
    for axis, value in places.items():
        rows = rows[rows[axis] == value]
    assert len(rows) == 1, rows
    return float(rows["value"].iloc[0])


def table(device: str) -> Any:
    return tomllib.loads((CATALOGUE / f"devices/{device}.toml").read_text())


def little_more(name: str) -> float:
    """Percentages that the tests use as one-sided tolerances."""
    tests = (test for claim in outcome(name).study.claims for test in claim.tests)
    factors = {test.right.factor for test in tests if isinstance(test.right, Point)}
    (factor,) = (factor for factor in factors if 1 < factor < 2)
    return (factor - 1) * 100


def in_umts() -> dict[float, float]:
    def capacity(policy: str) -> float:
        place: dict[str, object] = {"reading": "clear packet, up", "level": "model"}
        return at("umts", metric="cpu_capacity_kbps", policy=policy, sweep="readings", **place)

    # seconds a bit are the cipher's and so many times MD5's
    cipher, both = 1 / capacity("3des"), 1 / capacity("3des-md5")
    whole = tomllib.loads((CATALOGUE / "studies/umts/devices/paper-u-whole.toml").read_text())
    return {
        5.6: (1 / 716 - cipher) / (both - cipher),
        18: whole["cipher"]["3des"]["added_bytes"] - whole["header_bytes"],
        25: little_more("umts"),
    }


def in_wimax() -> dict[float, float]:
    profile = table("paper-w")
    md5 = profile["mac"]["md5"]
    length = 8
    fixed_cost, block = md5["fixed"]["value"], md5["per_block"]["value"]
    dearer = at("wimax", **_packet("aes128")) / at("wimax", **_packet("des"))
    added = {profile["cipher"][name]["added_bytes"] for name in ("aes128", "des", "3des")}
    assert added == {sizes.IP_BYTES + sizes.ESP_TRAILER_BYTES}
    return {
        22: added.pop(),
        2: sizes.ESP_TRAILER_BYTES,
        52: md5["added_bytes"] - length,
        21: min(adding("aes128") & adding("des") & adding("3des")),
        38: at("wimax", **_packet("aes128")) / at("wimax", **_packet("3des")) * 100,
        49: min(adding("md5")),
        60: max(adding("md5")),
        24: md5["added_bytes"] - length - sizes.IP_BYTES - sizes.UDP_BYTES,
        8: sizes.UDP_BYTES,
        0.0896: (fixed_cost + 9 * block) / 100e6 * MS,
        0.09704: (fixed_cost + 10 * block) / 100e6 * MS,
        15: (dearer - 1) * 100,
        25: little_more("wimax"),
        12.8: 800 * 8 / 500,
        **{total: decrypted_by_formula_3(rounds) for total, rounds in FORMULA_3.items()},
    }


def adding(policy: str) -> set[int]:
    """Constant extra bytes with which all printed cells of paper W's Table 1 follow, except the one
    that is taken for a misprint."""
    profile = table("paper-w")
    printed = {
        int(float(str(item.at["packet_bytes"]))): item.value
        for item in outcome("wimax").study.all_published()
        if item.printed == "Table 1" and item.at["policy"] == policy
    }
    if policy == "md5":
        del printed[500]
        fixed_cost, block = (profile["mac"]["md5"][key]["value"] for key in ("fixed", "per_block"))

        def operations(size: int) -> float:
            return float(fixed_cost + block * math.ceil((8 * size + 64) / 512))

    else:
        cipher = profile["cipher"][policy]

        def operations(size: int) -> float:
            cost = cipher["encrypt"]["value"]
            return float(math.ceil(size / cipher["block_bytes"]) * cost)

    def comes_out(size: int, value: float, more: int) -> bool:
        return operations(size + more) / 100e6 * MS == pytest.approx(value, rel=0.02)

    return {
        more
        for more in range(100)
        if all(comes_out(size, value, more) for size, value in printed.items())
    }


FORMULA_3 = {7992: 10, 9656: 12, 11320: 14}


def _packet(policy: str) -> dict[str, object]:
    place: dict[str, object] = {"sweep": "processing", "metric": "time_ms", "policy": policy}
    return {**place, "packet_bytes": 800.0, "mips": 100.0}


def encrypted(rounds: int, words: int = 4) -> int:
    """Paper W: operations of an AES block, and-s, or-s and shifts."""
    ands = 46 * words * rounds - 30 * words
    ors = 31 * words * rounds + 12 * (rounds - 1) - 20 * words
    return ands + ors + 64 * words * rounds + 96 * (rounds - 1) - 61 * words


def decrypted_by_formula_3(rounds: int, words: int = 4) -> int:
    """Paper W's formula (3) as printed; the totals that it prints are different."""
    return encrypted(rounds) + 96 * words + (rounds - 1) * (72 * words - 32 * words)


def in_umts_today() -> dict[float, float]:
    return {80: table("cortex-m4")["clock_mhz"]["value"]}


def in_road() -> dict[float, float]:
    road = tomllib.loads((CATALOGUE / "scenarios/road.toml").read_text())
    access = road["link"][1]
    text = {key: float(str(access[key]).partition(" ")[0]) for key in ("rate", "delay")}
    return {
        10: text["rate"],
        20: text["delay"],
        8: float(road["traffic"]["bytes"].partition(" ")[0]),
        15: 15,
    }


COMPUTED = {
    "umts": in_umts,
    "wimax": in_wimax,
    "umts-today": in_umts_today,
    "road": in_road,
}


@pytest.mark.parametrize("name", STUDIES)
def test_every_number_in_words_is_computed(name: str) -> None:
    computed = COMPUTED[name]()
    assert fixed(outcome(name).study) == set(computed)
    for written, value in computed.items():
        digits = len(f"{written:g}".partition(".")[2])
        assert value == pytest.approx(written, abs=0.5 * 10**-digits), written


@pytest.mark.parametrize("name", STUDIES)
def test_every_citation_finds_its_value(name: str) -> None:
    found = outcome(name)
    has_testbed = name == "road"
    for text in said(found.study):
        filled = fill(text, found.rows)
        assert "(no " not in filled
        assert has_testbed or name == "umts-today" or "(not run)" not in filled, text


def test_paper_w_s_formulas_give_the_cost_table() -> None:
    ciphers = table("paper-w")["cipher"]
    for name, rounds in (("aes128", 10), ("aes192", 12), ("aes256", 14)):
        assert ciphers[name]["encrypt"]["value"] == encrypted(rounds)
        assert ciphers[name]["decrypt"]["value"] == encrypted(rounds) + 536 * (rounds - 1)


def test_paper_u_reads_in_nine_ways() -> None:
    study = outcome("umts").study
    assert len(study.sweep("readings").readings) == 9
    assert any("tried nine readings" in body for _, body in study.texts)


def test_a_radio_that_only_delays_fits_paper_u_as_well() -> None:
    """The three numbers to which the reading was fitted therefore do not choose it, as the text
    says."""
    rows = outcome("umts").rows
    rows = rows[(rows["sweep"] == "readings") & rows["published"].notna()]
    differences: Any = rows.pivot_table(
        index="reading", columns=["metric", "policy", "level"], values="relative_difference"
    )
    first = differences.loc["clear packet, up"]
    assert differences.loc["clear packet, up, radio a delay"].equals(first)
    thresholds = differences["cpu_capacity_kbps"].abs().max(axis=1)
    keeps = differences[("queue_bytes:ms", "des-md5", "model")].abs() < 0.1
    assert keeps["clear packet, up"]
    assert thresholds[keeps].min() == pytest.approx(thresholds["clear packet, up"])


def test_paper_w_reads_in_eight_ways() -> None:
    study = outcome("wimax").study
    assert len(study.sweep("readings").readings) == 8
    assert any("None of the eight readings" in body for _, body in study.texts)


def test_which_suite_s_bytes_are_cheaper_is_as_the_text_says() -> None:
    found = outcome("umts-today")
    assert any("a factor of two to six" in body for _, body in found.study.texts)
    rows = found.rows[(found.rows["sweep"] == "packet") & (found.rows["metric"] == "time_ms")]
    times = rows.pivot_table(index=["device", "packet_bytes"], columns="policy", values="value")
    dearer = (times["aes128gcm16"] / times["chacha20poly1305"]).unstack()
    has_aes = {"cortex-m4-hw", "cortex-m33-hw", "cortex-a53", "cortex-a57"}
    is_here = dearer.index.isin(has_aes)
    assert is_here.sum() == len(has_aes)
    large = dearer[1400.0]
    assert large[~is_here].between(2, 6).all() and (1 / large[is_here]).between(2, 4).all()
    assert (dearer[~is_here] > 1).all(axis=None) and (dearer[is_here] < 1).all(axis=None)


def test_the_grid_of_paper_u() -> None:
    grid = outcome("umts").study.sweep("grid").grid
    assert grid["rate_kbps"] == (8, 64, 128, 256, 384, 512, 716, 768, 1024, 1536, 2048)
    assert grid["mips"] == (100, 200, 300, 500)
    assert len(grid["policy"]) == 6


def test_parts_of_a_packet_make_the_sizes_of_the_core() -> None:
    rows = outcome("umts").rows
    rows = rows[(rows["sweep"] == "packet") & (rows["metric"] == "protected_bytes")]
    policies = {policy.name: policy for policy in sizes.POLICIES}
    assert len(rows) > 2000
    for policy, size, ours in rows[["policy", "packet_bytes", "value"]].itertuples(index=False):
        assert policies[policy].paper_bytes(int(size)) == ours


def test_a_full_run_has_every_parameter_as_printed() -> None:
    for name in ("umts", "wimax"):
        study = outcome(name).study
        keys = study.sweep("parameters").keys
        files = Files.of(study)
        held = lab_document(study, files)
        for item in study.all_published():
            if item.sweep == "parameters":
                ours = number(held, keys[str(item.at["reading"])])
                assert relative_difference(ours, item.value) == pytest.approx(0, abs=SAME), item


def lab_document(study: Study, files: Files) -> Any:
    from caravan.study.cells import cells  # noqa: PLC0415

    return resolve(cells(study.sweep("parameters"), is_quick=False)[0], files).document


def test_results_and_parameters_are_counted_apart() -> None:
    found = outcome("umts")
    given, printed = (score(found.study, found.rows) for score in (parameters_score, results_score))
    # Table 2, Table 3, §4 and equation (7); two of Table 3 are the time of a quick run
    assert (given.compared, given.agreeing) == (6 + 13 + 8 + 1, 6 + 11 + 8 + 1)
    # Fig. 7 and the mean packet: each once, however many levels
    assert printed == Score(5 + 1, 5 + 1)
    # two thresholds and a buffer, by which the reading was chosen
    ((what, fitted),) = fitted_scores(found.study, found.rows).items()
    assert "reading" in what
    assert fitted.compared == 3 and fitted.agreeing < 3
    found = outcome("wimax")
    given, printed = (score(found.study, found.rows) for score in (parameters_score, results_score))
    assert (given.compared, given.agreeing) == (14, 14)
    # Everything that paper W prints was fitted to: the reading, and the bytes of both tables.
    assert printed == Score(0, 0)
    fitted_to = fitted_scores(found.study, found.rows)
    assert {what.partition(";")[0]: score for what, score in fitted_to.items()} == {
        "the reading, one of eight": Score(2, 1),
        "22 and 52 bytes": Score(80, 78),
    }


def test_a_quick_run_says_why_its_time_is_shorter() -> None:
    rows = outcome("umts").rows
    rows = rows[(rows["printed"] == "Table 3") & (rows["relative_difference"].abs() > 0)]
    assert set(rows["reading"]) == {"Simulated time, shortest, h", "Simulated time, longest, h"}
    assert rows["reason"].str.contains("quick run").all()
    assert UNEXPLAINED not in set(rows["reason"])


def test_a_parameter_that_is_nowhere_is_said() -> None:
    held = document({"nodes": [{"name": "ms"}]}, {"grid": {"mips": {"least": 1}}}, {})
    assert number(held, "nodes.count") == 1
    with pytest.raises(StudyError, match="the nearest valid one is 'mips'"):
        number(held, "sweeps.grid.mip.least")
    with pytest.raises(StudyError, match="has no 'sg'"):
        number(held, "nodes.sg.name")


@pytest.mark.parametrize("name", ["umts", "wimax", "mvpn"])
def test_the_printed_values_beside_a_study_are_those_of_its_run(name: str) -> None:
    kept = pd.read_csv(CATALOGUE / f"studies/{name}/printed.csv", keep_default_na=False)
    found = headline(outcome(name).study, outcome(name).rows)
    study = outcome(name).study
    # A full run has measured values, too, and their relations.
    measured = [item for item in study.all_published() if is_measured(study, item.sweep)]
    assert len(kept) == len(found) + len(measured) + len(study.relations) + len(study.left)
    at_end = [float(value) for value in kept["published"].iloc[len(found) + len(measured) :]]
    relations = [item.value for item in study.relations]
    assert at_end == relations + [item.value for item in study.left]
    kept = kept.iloc[: len(found) + len(measured)]
    kept, found = kept[kept["level"] == "model"], found[found["level"] == "model"]
    for (_, old), (_, new) in zip(kept.iterrows(), found.iterrows(), strict=True):
        assert (old["printed"], old["reading"]) == (new["printed"], new["reading"])
        is_time = new["reading"].startswith("Simulated time")
        assert is_time or float(old["value"]) == pytest.approx(new["value"], abs=1e-6)


def is_measured(study: Study, sweep: str) -> bool:
    """Whether only the testbed has values of a sweep."""
    return study.sweep(sweep).levels == ("testbed",)


def test_ciphers_of_the_radio_take_a_processor_what_the_study_of_today_says() -> None:
    text = (TOP / "BENCHMARKS.md").read_text().partition("frame of a wireless link")[2]
    found = dict(re.findall(r"^(\S+) protect 1400 +([\d.]+) ", text, re.MULTILINE))
    order = sorted(found, key=lambda cipher: float(found[cipher]))
    assert (len(order), order[0], order[-1]) == (5, "gcmp-256", "tkip")
    assert float(found["ccmp-128"]) > 2.5 * float(found["gcmp-256"])


def test_the_exact_buffer_lies_in_the_interval_of_a_full_run() -> None:
    kept = pd.read_csv(CATALOGUE / "studies/umts/printed.csv")
    kept = kept[kept["printed"] == "text of Fig. 13"].set_index("level")
    simulated = kept.loc["simulate"]
    assert simulated["ci95_low"] < kept.loc["model", "value"] < simulated["ci95_high"]


@pytest.mark.parametrize(
    "name", [*STUDIES, "mvpn", "mvpn-today", "wireless-policies", "tunnel-agents"]
)
def test_what_a_folder_says_of_its_study_is_what_the_study_says(name: str) -> None:
    """The README is the study's text with the numbers of a full run."""
    folder = CATALOGUE / f"studies/{name}"
    readme, results = flat((folder / "README.md").read_text()), folder / "results.parquet"
    study = caravan.study.load(name)
    for title, body in study.texts:
        if results.exists():
            # The run that the folder keeps.
            rows = pd.read_parquet(results)
            filled = fill(with_sentences(body, study, rows), rows)
            assert ABSENT not in filled, title
            assert f"## {title} {flat(filled)} ##" in readme, title
            continue
        parts = [re.escape(flat(part)) for part in FILLED.split(body)]
        pattern = r"\s?(?:at (?:least|most) )?\S+(?: %)?\s?".join(parts)
        assert f"## {title}" in readme
        assert re.search(pattern, readme), title


@pytest.mark.parametrize(
    "name", [*STUDIES, "mvpn", "mvpn-today", "wireless-policies", "tunnel-agents"]
)
def test_every_figure_shows_values_and_no_text_says_a_word_twice(name: str) -> None:
    found = outcome(name)
    for figure in found.study.figures:
        drawn = picture(found.study, figure, found.rows)
        assert drawn is None or shown(drawn.spec), figure.name
    for text in said(found.study):
        filled = fill(text, found.rows)
        assert not re.search(r"(?i)\b([a-z]+) \1\b", filled), filled


def shown(spec: dict[str, Any]) -> int:
    """How many points the layers of a figure draw."""
    (points,) = spec["datasets"].values()
    layers = spec.get("spec", spec).get("layer", [spec])
    chosen = [one["filter"]["oneOf"] for layer in layers for one in layer.get("transform", [])]
    kinds = {kind for kinds in chosen for kind in kinds} or {point["kind"] for point in points}
    return sum(point["kind"] in kinds for point in points)


def flat(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
