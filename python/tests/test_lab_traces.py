"""Recorded links of any length: read as a stream when replayed, and identified by their content."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_lab_cli import TOP, answer, refusal

from caravan import recordings
from caravan.study import load
from caravan.study.cells import Job, cells
from caravan.study.compute import compute, jobs
from caravan.study.resolve import Files, resolve
from caravan.study.text import StudyError

FORMER_LIMIT_BYTES = 64 << 20
"""The former limit of a recording, when all of it was kept in memory."""
SLACK_KB = 24 << 10
"""The difference in memory use that two runs of one program may have."""

MEASURED = """
from caravan.program import main

try:
    main()
finally:
    status = open("/proc/self/status").read()
    print(status.partition("VmHWM:")[2].partition("\\n")[0])
"""
STUDY = """
name = "air"
title = "A recorded link"

[[sweep]]
name = "tunnel"
title = "A tunnel over it"
measure = "tunnel"
scenario = "road"
levels = ["simulate"]
grid = { policy = ["none"] }
set = { "link.ms.trace" = "air", "traffic.bytes" = "20 KB" }
"""


def recording(path: Path, lines: int) -> Path:
    """One delivery opportunity every 2 ms."""
    with path.open("w") as file:
        for first in range(0, lines, 1_000_000):
            last = min(first + 1_000_000, lines)
            file.write("".join(f"{2 * at + 2}\n" for at in range(first, last)))
    return path


def most_kb(*words: str) -> int:
    """The largest memory use of a run of `caravan-lab` in its own process, in KiB."""
    environment = {**os.environ, "PYTHONPATH": str(TOP / "python")}
    argv = [sys.executable, "-c", MEASURED, *words]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-2])


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """The scenario with `air.trace`, in the same folder, on its first link."""
    text = (TOP / "scenarios/road.toml").read_text()
    path = tmp_path / "own.toml"
    path.write_text(text.replace('from = "ms"', 'from = "ms"\ntrace = "air.trace"', 1))
    return path


def test_a_huge_trace_takes_no_more_memory_than_a_small_one(own: Path) -> None:
    words = ("simulate", str(own), "--set", "traffic.bytes=20 KB", "--json")
    trace = recording(own.with_name("air.trace"), 100)
    small = most_kb(*words)
    recording(trace, 9_000_000)
    assert trace.stat().st_size > FORMER_LIMIT_BYTES
    huge = most_kb(*words)
    assert huge < small + SLACK_KB, (small, huge)


def test_a_bad_line_far_behind_is_named(own: Path) -> None:
    trace = own.with_name("air.trace")
    recording(trace, 1_000_000).open("a").write("5\n")
    said = refusal("simulate", str(own))
    assert f"{trace}:1000001: 5 ms comes after 2000000 ms" in said
    trace.write_text("")
    assert "air.trace: a trace needs an opportunity after 0 ms" in refusal("simulate", str(own))
    trace.unlink()
    trace.mkdir()
    assert "there is no trace 'air.trace'" in refusal("simulate", str(own))


def test_the_hash_of_a_scenario_covers_what_its_trace_holds(own: Path) -> None:
    found = []
    for lines in (10, 10, 20):
        recording(own.with_name("air.trace"), lines)
        found.append(answer("simulate", str(own), "--set", "traffic.bytes=20 KB"))
    hashes = [one["scenario_hash"] for one in found]
    prints = [one["simulate"]["fingerprint"] for one in found]
    assert hashes[0] == hashes[1] != hashes[2]
    assert prints[0] == prints[1]


def trace_job(folder: Path) -> Job:
    """The only job of the study, whose folder has a recording of 1000 lines."""
    (folder / "traces").mkdir()
    recording(folder / "traces/air.trace", 1000)
    (folder / "study.toml").write_text(STUDY)
    study = load(str(folder))
    (cell,) = cells(study.sweeps[0], is_quick=False)
    (job,) = jobs(cell, resolve(cell, Files.of(study)), "simulate", 1)
    return job


def test_a_job_names_its_trace_by_what_it_holds_and_refuses_another(tmp_path: Path) -> None:
    job = trace_job(tmp_path)
    trace = tmp_path / "traces/air.trace"
    (entry,) = [one for one in json.loads(job.request)["catalogue"] if one["kind"] == "trace"]
    assert entry["digest"] == hashlib.sha256(trace.read_bytes()).hexdigest()
    assert (entry["file"], entry["text"]) == (str(trace.resolve()), "")
    assert json.loads(compute(job))["simulate"]["transferred"]["is_complete"]
    recording(trace, 1001)
    with pytest.raises(
        StudyError, match=r"air.trace: this is not the trace that the run began with"
    ):
        compute(job)
    trace.unlink()
    with pytest.raises(StudyError, match=r"air.trace: No such file .*at the same path on every"):
        compute(job)


def test_a_digest_is_made_again_when_the_file_changes(tmp_path: Path) -> None:
    path = recording(tmp_path / "air.trace", 10)
    first = recordings.digest(path)
    assert recordings.digest(recording(path, 20)) != first
    assert recordings.digest(recording(path, 10)) == first
