"""The same grid on a Dask cluster, also if a worker is killed during the computation."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pandas as pd
import pytest
from distributed import LocalCluster

import caravan.study
from caravan.study import compute, pool
from caravan.study.cells import Job
from caravan.study.text import StudyError

SMALL = """\
name = "small"
title = "A small grid"

[[sweep]]
name = "grid"
title = "Two policies"
scenario = "umts"
levels = ["simulate"]
seconds = 200
warm_up = 10
replications = 8

[sweep.grid]
policy = ["none", "des-md5", "3des-md5"]
rate_kbps = [64, 128, 256, 512]
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Two workers in separate processes."""
    with LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
        local_directory=str(tmp_path / "dask"),
        worker_dashboard_address=None,
    ) as running:
        yield running


@pytest.fixture
def study(tmp_path: Path) -> str:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return str(path)


def test_a_cluster_that_loses_a_worker_loses_nothing(
    cluster: LocalCluster, study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = caravan.study.run(study, directory=tmp_path / "here")
    killed: list[int] = []
    of_cluster = pool.Cluster.results

    def results(self: pool.Cluster, jobs: Iterable[Job]) -> Iterator[tuple[Job, bytes]]:
        for job, result in of_cluster(self, jobs):
            if not killed:
                killed.append(cluster.workers[0].pid)
                os.kill(killed[0], signal.SIGKILL)
            yield job, result

    monkeypatch.setattr(pool.Cluster, "results", results)
    address = cluster.scheduler_address
    there = caravan.study.run(study, directory=tmp_path / "there", cluster=address)
    assert killed
    pd.testing.assert_frame_equal(here.rows, there.rows)


@contextmanager
def processes(folder: Path, *preloaded: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Address and process of a scheduler with one worker, which runs `preloaded` first."""
    # The scheduler takes a free port itself, and writes which.
    told = folder / "scheduler.json"
    common = ("--scheduler-file", str(told), "--no-dashboard")
    words = [
        ["dask_scheduler", "--host", "127.0.0.1", "--port", "0", *common],
        ["dask_worker", "--nthreads", "1", "--no-nanny", *common, *preloaded],
    ]
    running: list[subprocess.Popen[bytes]] = []
    try:
        for one in words:
            argv = [sys.executable, "-m", f"distributed.cli.{one[0]}", *one[1:]]
            with (folder / f"{len(running)}.log").open("wb") as log:
                running.append(subprocess.Popen(argv, cwd=folder, stdout=log, stderr=log))
        yield address_in(told, running[0], folder / "0.log"), running[0]
    finally:
        for process in running:
            process.kill()
            process.wait()


def address_in(told: Path, scheduler: subprocess.Popen[bytes], log: Path) -> str:
    until = time.monotonic() + 60
    while time.monotonic() < until and scheduler.poll() is None:
        with suppress(FileNotFoundError, json.JSONDecodeError):
            return str(json.loads(told.read_text())["address"])
        time.sleep(0.1)
    raise TimeoutError(f"the scheduler wrote no address:\n{log.read_text()}")


def answering(compute: Callable[[Job], bytes], address: str) -> pool.Pool:
    """The cluster as soon as it has a worker."""
    until = time.monotonic() + 60
    while True:
        try:
            return pool.pool(compute, None, address)
        except StudyError as fault:
            is_early = "no Dask scheduler" in str(fault) or "has no workers" in str(fault)
            if not is_early or time.monotonic() > until:
                raise
            time.sleep(0.2)


SLOW = """\
import time

def compute(job):
    time.sleep(0.2)
    return job.request.encode()
"""


def test_a_scheduler_that_is_killed_is_said_and_what_was_done_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The worker has this module, the scheduler does not: it need not know the computation.
    (tmp_path / "slow_of_test.py").write_text(SLOW)
    monkeypatch.syspath_prepend(tmp_path)
    from slow_of_test import (  # type: ignore[import-not-found]  # noqa: PLC0415
        compute,
    )

    jobs = [Job("simulate", f"{number}", 1.0) for number in range(50)]
    done = []
    with processes(tmp_path, "--preload", str(tmp_path / "slow_of_test.py")) as running:
        address, scheduler = running
        cluster = answering(compute, address)
        with pytest.raises(StudyError) as refused:
            for job, result in cluster.results(jobs):
                done.append((job.request.encode(), result))
                if len(done) == 3:
                    scheduler.kill()
    assert str(refused.value).startswith(f"--cluster {address}: lost the scheduler")
    assert str(refused.value).endswith("what was done is kept: run again to resume")
    assert len(done) >= 3 and all(sent == got for sent, got in done)


OTHER = """\
import caravan._lab
caravan._lab.sources = lambda: "00000000"
"""


def test_a_worker_of_another_core_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text(OTHER)
    preloaded = ("--preload", str(tmp_path / "other.py"))
    with processes(tmp_path, *preloaded) as (address, _), pytest.raises(StudyError) as refused:
        answering(compute.compute, address)
    said = str(refused.value)
    assert said.startswith(f"--cluster {address}: the worker tcp://")
    assert "has another native core" in said and "sources 00000000, here " in said


def test_a_worker_without_caravan_is_refused(tmp_path: Path) -> None:
    (tmp_path / "without.py").write_text("import sys\nsys.modules['caravan'] = None\n")
    preloaded = ("--preload", str(tmp_path / "without.py"))
    with processes(tmp_path, *preloaded) as (address, _), pytest.raises(StudyError) as refused:
        answering(compute.compute, address)
    assert "has no working caravan" in str(refused.value)
