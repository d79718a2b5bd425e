"""The same grid on a Dask cluster, also when a worker is killed in the middle of it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

import pandas as pd
import pytest
from distributed import LocalCluster

import caravan.study
from caravan.study import pool
from caravan.study.cells import Job

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
    """Two workers in processes of their own."""
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
