"""Jobs, their stored results, and the comparison of two runs."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from typer.testing import CliRunner

import caravan.report
import caravan.study
from caravan.lab.cli import app
from caravan.messages import Stopped, printable
from caravan.study import Study, compute, results
from caravan.study.cells import Job, points, replication_ranges
from caravan.study.commands import summary
from caravan.study.comparison import compare
from caravan.study.parse import parse
from caravan.study.parsed import Run
from caravan.study.pool import Threads, pool
from caravan.study.results import COLUMNS, Row, land, land_all, land_text
from caravan.study.store import Store
from caravan.study.text import StudyError
from caravan.testbed.binary import TOP

JOBS = [Job("simulate", f'{{"n":{number}}}', 1.0 + number) for number in range(12)]
ROW = Row(
    study="s",
    sweep="w",
    reading="",
    scenario="umts",
    scenario_hash="00",
    level="simulate",
    seed=1,
    version="0",
    cost_table="paper-u",
    policy="des",
    device="paper-u",
    link=None,
    mips=100.0,
    rate_kbps=512.0,
    packet_bytes=None,
    metric="mean_delay_ms",
    unit="ms",
    value=10.0,
    ci95_low=9.5,
    ci95_high=10.5,
    state="stationary",
    replications=4,
)


def quiet() -> Console:
    return Console(file=io.StringIO())


def counted(seen: list[str]) -> Callable[[Job], bytes]:
    """A computation that counts its calls."""

    def compute(job: Job) -> bytes:
        seen.append(job.request)
        return job.request.encode()

    return compute


class Interrupted:
    """A pool that is interrupted by Ctrl-C after some results."""

    def __init__(self, after: int) -> None:
        self._after = after

    def results(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, bytes]]:
        for count, job in enumerate(jobs):
            if count == self._after:
                signal.raise_signal(signal.SIGINT)
            yield job, job.request.encode()


def test_a_second_run_computes_nothing(tmp_path: Path) -> None:
    seen: list[str] = []
    store = Store(tmp_path, "core")
    assert store.fill(JOBS, Threads(counted(seen), 3), quiet()) == len(JOBS)
    assert store.fill(JOBS, Threads(counted(seen), 3), quiet()) == 0
    assert sorted(seen) == sorted(job.request for job in JOBS)
    assert store.read(JOBS[5]) == JOBS[5].request.encode()


def test_ctrl_c_leaves_what_is_done_and_a_rerun_goes_on(tmp_path: Path) -> None:
    # A shell that starts this in the background ignores Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    store = Store(tmp_path, "core")
    with pytest.raises(Stopped, match="5 of 12"):
        store.fill(JOBS, Interrupted(5), quiet())
    seen: list[str] = []
    assert store.fill(JOBS, Threads(counted(seen), 2), quiet()) == 7
    assert len(seen) == 7


def test_another_core_computes_again(tmp_path: Path) -> None:
    seen: list[str] = []
    for built in ("one", "two"):
        Store(tmp_path, built).fill(JOBS[:1], Threads(counted(seen), 1), quiet())
    assert len(seen) == 2


def test_a_failing_job_stops_the_run_with_its_reason(tmp_path: Path) -> None:
    def compute(job: Job) -> bytes:
        raise StudyError(f"cannot: {job.request}")

    with pytest.raises(StudyError, match="cannot"):
        Store(tmp_path, "core").fill(JOBS, Threads(compute, 2), quiet())
    assert not list((tmp_path / "cells").glob("*")) if (tmp_path / "cells").exists() else True


def test_a_full_disk_is_said_and_leaves_no_half_file(tmp_path: Path) -> None:
    def fill_up(path: Path) -> None:
        path.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(StudyError, match="no space left"):
        land(tmp_path / "results.csv", fill_up)
    assert list(tmp_path.iterdir()) == []


def test_two_files_of_one_result_appear_together_or_not_at_all(tmp_path: Path) -> None:
    def fill_up(path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    first, second = tmp_path / "a.parquet", tmp_path / "a.csv"
    with pytest.raises(StudyError, match="no space left"):
        land_all({first: lambda path: path.write_text("new"), second: fill_up})
    assert list(tmp_path.iterdir()) == []
    land_all({path: lambda part: part.write_text("new") for path in (first, second)})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "a.parquet"]


def test_an_output_that_is_a_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(StudyError, match="out"):
        land_text(tmp_path / "out" / "results.csv", "")


@pytest.mark.parametrize("address", ["nonsense", ":8786", "host:port", "host:99999"])
def test_an_address_of_no_cluster_is_said(address: str) -> None:
    with pytest.raises(StudyError, match="must be HOST:PORT"):
        pool(counted([]), None, address)


def test_a_missing_cluster_is_said_at_once() -> None:
    with pytest.raises(StudyError, match=r"127\.0\.0\.1:9: no Dask scheduler answers"):
        pool(counted([]), None, "127.0.0.1:9")


def test_results_keep_their_schema_through_parquet_and_csv(tmp_path: Path) -> None:
    results.write([ROW, replace(ROW, policy=None, value=None)], tmp_path)
    back = results.read(tmp_path)
    assert tuple(back.columns) == COLUMNS
    assert back["value"].tolist()[0] == 10.0
    header = (tmp_path / "results.csv").read_text().splitlines()[0]
    assert tuple(header.split(",")) == COLUMNS


def test_every_column_is_documented() -> None:
    document = Path(__file__).parents[2] / "docs/lab-results.md"
    text = document.read_text()
    assert [name for name in COLUMNS if f"`{name}`" not in text] == []


def test_what_is_no_result_is_said(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="not the output of a run"):
        results.read(tmp_path)
    (tmp_path / "results.parquet").write_bytes(b"nothing")
    with pytest.raises(StudyError, match="not a results file"):
        results.read(tmp_path)


def test_runs_differ_where_values_and_intervals_do(tmp_path: Path) -> None:
    rows = [replace(ROW, rate_kbps=float(rate)) for rate in range(4)]
    results.write(rows, tmp_path / "a")
    results.write(rows, tmp_path / "b")
    assert compare(tmp_path / "a", tmp_path / "b").is_same
    near = replace(rows[0], value=10.4, ci95_low=10.0, ci95_high=10.8)
    far = replace(rows[1], value=12.0, ci95_low=11.0, ci95_high=13.0)
    results.write([near, far, rows[2]], tmp_path / "b")
    found = compare(tmp_path / "a", tmp_path / "b")
    assert found.differing["rate_kbps"].tolist() == [1.0]
    assert found.differing["difference"].tolist() == pytest.approx([0.2])
    assert (found.compared, found.only_first, found.only_second) == (3, 1, 0)


def tiny(name: str = "tiny") -> Study:
    return parse("tiny.toml", TINY.replace('"tiny"', f'"{name}"'))


TINY = """
name = "tiny"
title = "Two packets"
[[sweep]]
name = "packet"
title = "One packet"
measure = "price"
profile = "paper-u"
grid = { policy = ["des", "3des"], packet_bytes = [64, 128] }
set = { mips = 100 }
[[figure]]
name = "sizes"
title = "Sizes"
sweep = "packet"
x = "packet_bytes"
y = ["protected_bytes"]
series = "policy"
"""


def test_a_run_goes_into_its_own_folder_again(tmp_path: Path) -> None:
    for _ in range(2):
        caravan.report.write(caravan.study.run(tiny(), directory=tmp_path), tmp_path)
    assert (tmp_path / "report.html").exists()


def test_the_results_of_another_study_are_not_written_over(tmp_path: Path) -> None:
    caravan.study.run(tiny(), directory=tmp_path)
    before = (tmp_path / "results.csv").read_bytes()
    with pytest.raises(StudyError, match=r"holds results of the study 'tiny': give another folder"):
        caravan.study.run(tiny("other"), directory=tmp_path)
    assert (tmp_path / "results.csv").read_bytes() == before


def test_a_study_of_the_same_name_is_another_one(tmp_path: Path) -> None:
    caravan.study.run(tiny(), directory=tmp_path)
    before = (tmp_path / "results.csv").read_bytes()
    other = parse("other.toml", TINY.replace("[64, 128]", "[100]"))
    with pytest.raises(StudyError, match=r"another study with the name tiny: give another"):
        caravan.study.run(other, directory=tmp_path)
    assert (tmp_path / "results.csv").read_bytes() == before
    # A study of the same scenario is the same study, edited.
    edited = parse("tiny.toml", TINY.replace("[64, 128]", "[100, 128]"))
    caravan.study.run(edited, directory=tmp_path)
    assert (tmp_path / "results.csv").read_bytes() != before


def test_a_study_whose_scenarios_all_changed_is_the_same_by_its_file(tmp_path: Path) -> None:
    caravan.study.run(tiny(), directory=tmp_path)
    path = tmp_path / "results.parquet"
    table = pq.read_table(path)
    strange = pa.array(["0" * 64] * table.num_rows)
    index = table.column_names.index("scenario_hash")
    pq.write_table(table.set_column(index, "scenario_hash", strange), path)
    caravan.study.run(tiny(), directory=tmp_path)
    assert "0" * 64 not in set(pq.read_table(path)["scenario_hash"].to_pylist())


@pytest.mark.parametrize(
    "name", ["report.html", "results.csv", "printed.csv", "results.parquet", "figures/sizes.svg"]
)
def test_a_foreign_file_is_not_written_over(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")
    with pytest.raises(StudyError, match=f"--output .*: holds a {name} that no run has written"):
        caravan.study.run(tiny(), directory=tmp_path)
    assert path.read_text() == "mine"


def test_a_foreign_report_among_our_results_is_not_written_over(tmp_path: Path) -> None:
    caravan.study.run(tiny(), directory=tmp_path)
    (tmp_path / "report.html").write_text("<html>mine</html>")
    with pytest.raises(StudyError, match=r"holds a report\.html that no run has written"):
        caravan.study.run(tiny(), directory=tmp_path)


def test_a_cluster_that_has_nothing_to_do_is_refused() -> None:
    with pytest.raises(StudyError, match="model has no jobs for a cluster"):
        caravan.study.run(tiny(), cluster="127.0.0.1:9")


def test_an_output_without_a_name_is_refused() -> None:
    done = CliRunner().invoke(app, ["run", "umts", "-o", ""])
    assert isinstance(done.exception, StudyError)
    assert "--output: must name a folder" in str(done.exception)


def test_differences_are_whole_lines_when_piped_and_json(tmp_path: Path) -> None:
    named = replace(ROW, reading="a reading of many words that no table may cut short", link="lte")
    results.write([named], tmp_path / "a")
    results.write([replace(named, value=20.0, ci95_low=19.0, ci95_high=21.0)], tmp_path / "b")
    words = ["compare", str(tmp_path / "a"), str(tmp_path / "b")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    (line,) = (line for line in done.output.splitlines() if "+100.00" in line)
    assert named.reading in line and "mean_delay_ms" in line
    done = CliRunner().invoke(app, [*words, "--json"])
    found = json.loads(done.output)
    assert (done.exit_code, found["compared"], len(found["differing"])) == (1, 1, 1)
    assert (found["differing"][0]["first"], found["differing"][0]["second"]) == (10.0, 20.0)
    assert found["differing"][0]["packet_bytes"] is None


def test_a_study_without_print_says_how_its_levels_agree() -> None:
    outcome = caravan.study.run("road", quick=True)
    said = summary(outcome)
    assert re.search(r"\n[\d,]+ of [\d,]+ simulated values are within 5 % of", said)
    assert "3 sentences not run: they need another level" in said


def test_a_station_that_is_full_makes_the_road_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def station(name: str, state: str) -> dict[str, Any]:
        interval = dict.fromkeys(("utilisation_ci95", "wait_ci95_s", "queue_ci95_bytes"))
        waits = {"mean_wait_s": 1.0, "mean_queue_bytes": 1.0}
        return {"name": name, "utilisation": 0.5, "state": state, **waits, **interval}

    def states(of_ms: str) -> dict[str, str]:
        names = ("mean_delay_s", "throughput_bps", "protected_bps", "packets_per_s", "packets")
        widths = dict.fromkeys(("delay_ci95_s", "throughput_ci95_bps", "protected_ci95_bps"))
        answer: dict[str, Any] = {
            **dict.fromkeys(names, 1.0),
            **widths,
            "percentiles": [],
            "state": of_ms,
        }
        answer["stations"] = [
            station("cpu", "stationary"),
            station("ms", of_ms),
            station("radio", "stationary"),
        ]
        core = SimpleNamespace(outcome=lambda _: json.dumps(answer))
        monkeypatch.setattr(compute, "_lab", core)
        return {item.metric: item.state for item in compute.outcome([])}

    for state in ("near-saturation", "not-stationary"):
        found = states(state)
        assert found["mean_delay_ms"] == found["packets"] == state
        assert found["queue_bytes:ms"] == found["queue_bytes:radio"] == state
        assert found["utilisation:radio"] == found["queue_bytes:cpu"] == "stationary"


def test_a_grid_is_the_product_of_its_axes() -> None:
    grid = {"policy": ("a", "b"), "mips": (1.0, 2.0, 3.0)}
    assert len(list(points(grid))) == 6
    assert list(replication_ranges(Run(1, 0, 20))) == [(0, 8), (8, 8), (16, 4)]


@pytest.mark.parametrize("length", [0, 10, 60])
def test_a_torn_result_is_computed_again(length: int, tmp_path: Path) -> None:
    seen: list[str] = []
    store = Store(tmp_path, "core")
    store.fill(JOBS, Threads(counted(seen), 2), quiet())
    torn = store.path(JOBS[3])
    torn.write_bytes(torn.read_bytes()[:length] + b"\0" * 3)
    with pytest.raises(StudyError, match=f"{torn.name}: damaged"):
        store.read(JOBS[3])
    seen.clear()
    assert store.fill(JOBS, Threads(counted(seen), 2), quiet()) == 1
    assert seen == [JOBS[3].request]
    assert store.read(JOBS[3]) == JOBS[3].request.encode()


def test_the_result_of_another_job_is_computed_again(tmp_path: Path) -> None:
    store = Store(tmp_path, "core")
    store.fill(JOBS, Threads(counted([]), 2), quiet())
    one, other = store.path(JOBS[0]), store.path(JOBS[1])
    held = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(held)
    seen: list[str] = []
    assert store.fill(JOBS, Threads(counted(seen), 2), quiet()) == 2
    assert sorted(seen) == sorted(job.request for job in JOBS[:2])
    assert store.read(JOBS[0]) == JOBS[0].request.encode()


@pytest.mark.parametrize(
    "columns",
    [
        {"study": [1, 2]},
        {"study": [["tiny"]]},
        {"study": pa.array([None], pa.string())},
        {"other": ["tiny"]},
        {"study": ["tiny"], "scenario_hash": [["a"]]},
    ],
)
def test_a_strange_file_of_results_is_refused_in_words(
    columns: dict[str, object], tmp_path: Path
) -> None:
    pq.write_table(pa.table(columns), tmp_path / "results.parquet")
    with pytest.raises(StudyError, match=r"that no run has written"):
        caravan.study.run(tiny(), directory=tmp_path)
    with pytest.raises(StudyError, match="columns of another version"):
        results.read(tmp_path)


def test_what_a_terminal_obeys_is_shown(tmp_path: Path) -> None:
    pq.write_table(pa.table({"study": ["\x1b[2Jx"]}), tmp_path / "results.parquet")
    with pytest.raises(StudyError, match=r"holds results of the study '\\x1b\[2Jx'"):
        caravan.study.run(tiny(), directory=tmp_path)
    assert printable("a\x1b[2J\n\x9bm é") == "a\\x1b[2J\n\\x9bm é"
    for value, folder in ((1.0, "a"), (2.0, "b")):
        row = replace(ROW, policy="[/x]\x1b", value=value, ci95_low=value, ci95_high=value)
        results.write([row], tmp_path / folder)
    said = CliRunner().invoke(app, ["compare", str(tmp_path / "a"), str(tmp_path / "b")])
    assert "[/x]\\x1b" in said.output and said.exit_code == 1


@pytest.mark.parametrize(
    ("written", "instead", "line", "said"),
    [
        ('scenario = "umts"', 'scenario = "umtz"', 7, "scenario: unknown scenario 'umtz'"),
        ('measure = "road"\n', 'measure = "price"\nprofile = "papr-u"\n', 7, "profile: unknown"),
        ("mips = [100]", "link = ['lte']", 9, "axes: say which key"),
        ('measure = "road"', 'measure = "parameters"\nkeys = { a = "links.mz.rate" }', 7, "keys: "),
        (
            'measure = "road"',
            'measure = "parameters"\nkeys = { a = "seed / 0" }',
            7,
            "keys: cannot divide by '0'",
        ),
    ],
)
def test_what_a_sweep_names_and_is_not_there_is_said_with_its_line(
    written: str, instead: str, line: int, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "small.toml"
    text = """\
name = "small"
title = "A small grid"

[[sweep]]
name = "grid"
measure = "road"
scenario = "umts"
title = "A point"
axes = { mips = "node.ms.mips" }
grid = { mips = [100] }
"""
    assert written in text
    path.write_text(text.replace(written, instead))
    with pytest.raises(StudyError) as refused:
        caravan.study.run(str(path), level="model")
    assert str(refused.value).startswith(f"{path}:{line}:1: sweep.grid: {said}")


def test_the_page_runs_one_cell_of_a_study(tmp_path: Path) -> None:
    """The commands of `docs/lab-run.md`, as they are there."""
    page = (TOP / "docs/lab-run.md").read_text()
    (block,) = re.findall(r"^    studies=.*?^    caravan-lab run .*?$", page, re.M | re.S)
    paths = (str(Path(sys.executable).parent), os.environ["PATH"])
    environment = {
        **os.environ,
        "PATH": os.pathsep.join(paths),
        "PYTHONPATH": str(TOP / "python"),
    }
    subprocess.run(
        ["bash", "-ec", textwrap.dedent(block)], cwd=tmp_path, env=environment, check=True
    )
    rows = pd.read_csv(tmp_path / "out/pn-12-m8/results.csv")
    assert set(rows["policy"]) == {"pn-1", "pn-12"} and set(rows["scenario"]) == {"m8"}
    cost = rows[(rows["policy"] == "pn-12") & (rows["metric"] == "udp_cost_bytes_s")]
    assert float(cost["value"].iloc[0]) > 0
    whole = rows[rows["metric"] == "authentication_s"]
    assert list(whole["bound"]) == ["lower", "lower"]


def test_the_library_takes_paths_as_texts_and_as_paths(tmp_path: Path) -> None:
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    first, second = tmp_path / "a", tmp_path / "b"
    caravan.study.run(path, directory=first)
    caravan.study.run(str(path), directory=str(second))
    assert caravan.study.compare(str(first), str(second)).is_same
    assert caravan.study.compare(first, second).is_same
