"""The native library of `caravan-lab`, and its behaviour with hostile texts."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caravan import _lab, lab
from caravan.document import plain
from caravan.files import CATALOGUE, TEXT_BYTES_MAX
from caravan.lab import core, simulation
from caravan.messages import Stopped

UMTS = (CATALOGUE / "scenarios/umts.toml").read_text(encoding="utf-8")
WORDS = ("", "-1", "nan", "inf", "1e308", "[]", "{}", "'x'", "true", "0", "[[node]]", '"', "\n=\n")


def ask_text(text: str) -> None:
    """The native core reads a scenario that is only a text; it may only refuse it."""
    request = {**lab.Question("umts").request(), "text": text}
    try:
        scenario = core.opened(request)
        core.scenario(scenario)
        core.model(scenario)
    except lab.LabError as fault:
        assert str(fault).strip()


LAYER = '[[layer]]\nkind = "ipsec"\npolicy = "{}"\n'


def test_a_file_that_names_itself_in_many_ways_is_read_once(tmp_path: Path) -> None:
    ways = [f"./{'./' * more}mine.toml" for more in range(40)]
    head = 'name = "mine"\ntitle = "M"\n'
    (tmp_path / "mine.toml").write_text(head + "".join(map(LAYER.format, ways)))
    # Forty to the power of the depth would take hours.
    with pytest.raises(lab.LabError):
        lab.scenario(lab.Question("umts", (f'policy="{tmp_path}/mine.toml"',)))


def test_too_many_files_are_refused(tmp_path: Path) -> None:
    head = 'name = "many"\ntitle = "M"\n'
    for number in range(core.NAMED_MAX):
        (tmp_path / f"p{number}.toml").write_text(head)
    layers = "".join(LAYER.format(f"./p{number}.toml") for number in range(core.NAMED_MAX))
    (tmp_path / "many.toml").write_text(head + layers)
    with pytest.raises(lab.LabError, match=f"names more than {core.NAMED_MAX} files"):
        lab.scenario(lab.Question("umts", (f'policy="{tmp_path}/many.toml"',)))


@settings(max_examples=150, deadline=None)
@given(st.integers(0, len(UMTS)), st.integers(0, 12), st.sampled_from(WORDS))
def test_a_damaged_scenario_is_refused_and_nothing_worse(at: int, cut: int, put: str) -> None:
    ask_text(UMTS[:at] + put + UMTS[at + cut :])


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=40), st.text(max_size=20))
def test_a_strange_edit_is_refused_and_nothing_worse(key: str, value: str) -> None:
    try:
        lab.scenario(lab.Question("umts", (f"{key}={value}",)))
    except lab.LabError as fault:
        assert str(fault).strip()


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"file": 1}', '{"text": "", "x": 1}'])
def test_what_is_no_request_is_refused(text: str) -> None:
    for function in (_lab.Scenario, _lab.price, _lab.listing, _lab.sizes):
        with pytest.raises(ValueError, match="not a request"):
            function(text)
    with pytest.raises(ValueError, match="not a result"):
        _lab.outcome([text.encode()])


@pytest.mark.parametrize(
    ("was", "damaged"),
    [
        (b'"index":1', b'"index":0'),
        (b'"packets":', b'"packets":9999999999999999'),
        (b'"delay_s":', b'"delay_s":-'),
        (b'"work_s":', b'"work_s":-'),
        (b'"stations":["ms",', b'"stations":['),
        (b'"propagation_s":', b'"propagation_s":-1'),
    ],
)
def test_a_result_that_no_simulation_could_have_is_refused(was: bytes, damaged: bytes) -> None:
    run = {"seconds": 50.0, "warm_up_s": 5.0, "first_replication": 0, "replications": 2, "seed": 7}
    found = core.opened(lab.Question("umts")).simulate(json.dumps(run))
    assert json.loads(_lab.outcome([found]))["replications"] == 2
    assert was in found
    with pytest.raises(_lab.Refusal, match="not a result"):
        _lab.outcome([found.replace(was, damaged, 1)])


def test_a_scenario_is_resolved_once_for_all_jobs_of_a_simulation() -> None:
    question = lab.Question("umts", ("run.time=10 min", "run.warm_up=10 s"))
    with mock.patch("caravan._lab.Scenario", wraps=_lab.Scenario) as resolving:
        lab.simulate(question, replications=8, jobs=4)
        assert resolving.call_count == 1
        found = core.opened(question)
        assert core.opened(found) is found
        core.scenario(found)
        core.model(found)
        assert resolving.call_count == 2


def test_every_split_of_replications_is_the_same_result() -> None:
    question = lab.Question("umts", ("run.time=10 min", "run.warm_up=10 s"))
    found = [lab.simulate(question, replications=6, jobs=jobs) for jobs in (1, 2, 5)]
    delays = {f"{one['mean_delay_s']:.12e}" for one in found}
    assert len(delays) == 1
    assert all(one["replications"] == 6 for one in found)


def test_jobs_fill_vectors_without_idle_cores() -> None:
    assert list(simulation.split(64, 2)) == [(0, 16), (16, 16), (32, 16), (48, 16)]
    assert list(simulation.split(6, 4)) == [(0, 2), (2, 2), (4, 2)]
    assert list(simulation.split(1, 8)) == [(0, 1)]


def test_the_interpreter_is_free_while_the_core_computes() -> None:
    question = lab.Question("umts", ("run.time=20 h", "run.replications=16"))
    ticks = 0
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(lab.simulate, question, jobs=1)
        while not running.done():
            ticks += 1
            time.sleep(0.005)
    assert ticks > 10


def test_ctrl_c_is_told_apart_from_a_fault() -> None:
    stopped = mock.patch.object(simulation, "computed", side_effect=KeyboardInterrupt)
    with stopped, pytest.raises(Stopped):
        lab.simulate(lab.Question("umts"), replications=1)


def test_a_path_counts_before_the_catalogue(tmp_path: Path) -> None:
    own = tmp_path / "lte.toml"
    own.write_text("title = 'mine'\nrate = '1 Mbit/s'\n[sources]\nrate = 'measured'\n")
    entry = core.find("link", str(own))
    rows = {row["name"]: row for row in lab.listing("link", [entry])}
    assert rows[str(own)]["link"]["rate"]["up_bps"] == 1e6
    assert core.find("link", "lte").file == "links/lte.toml"
    with pytest.raises(lab.LabError, match="limit"):
        own.write_bytes(b" " * (TEXT_BYTES_MAX + 1))
        core.find("link", str(own))


def test_one_limit_for_every_text() -> None:
    with pytest.raises(ValueError, match=f"limit {TEXT_BYTES_MAX}"):
        plain("long.toml", " " * (TEXT_BYTES_MAX + 1))
