"""Where jobs run: threads of this process, or the workers of a Dask cluster.

Each yields results as they come, in any order. The native code releases the GIL, so threads are
enough on one machine. Left out: what is done with results, which is `store`.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Protocol

from caravan.background import computed
from caravan.study.cells import Job
from caravan.study.text import StudyError

CONNECT_S = 5
RETRIES = 5
"""How often a job is given to another worker after its worker died."""


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


Compute = Callable[[Job], bytes]


class Pool(Protocol):
    """Computes jobs."""

    def results(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, bytes]]:
        """Each job with its result, as they end."""
        ...


class Threads:
    """All cores of this machine, or as many as `jobs` says."""

    def __init__(self, compute: Compute, jobs: int | None) -> None:
        self._compute = compute
        self._threads = jobs or available_cores()

    def results(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, bytes]]:
        """Longest first, so that no core waits for a long one at the end."""
        queue = sorted(jobs, key=lambda job: -job.packets)
        calls = [partial(self._compute, job) for job in queue]
        for number, result in computed(calls, self._threads):
            yield queue[number], result


class OneByOne:
    """The testbed: each job has the machine for itself."""

    def __init__(self, compute: Compute) -> None:
        self._compute = compute

    def results(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, bytes]]:
        """In the order given."""
        for job in jobs:
            yield job, self._compute(job)


class Cluster:
    """An existing Dask scheduler and its workers, which need the same caravan installed."""

    def __init__(self, compute: Compute, address: str) -> None:
        try:
            from distributed import Client  # noqa: PLC0415
        except ImportError:
            raise StudyError(
                "--cluster needs dask.distributed: pip install 'caravan[cluster]'"
            ) from None
        target = address if "://" in address else f"tcp://{address}"
        _knock(address, target)
        try:
            self._client = Client(target, timeout=CONNECT_S)
        except (OSError, ValueError, ImportError) as fault:
            raise StudyError(f"--cluster {address}: no Dask scheduler answers ({fault})") from None
        if not self._client.scheduler_info()["workers"]:
            self._client.close()
            raise StudyError(f"--cluster {address}: the scheduler has no workers")
        self._compute = compute

    def results(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, bytes]]:
        """Lost workers' jobs are computed by others; the name of a job makes it run once."""
        from distributed import as_completed as completed  # noqa: PLC0415

        queue = sorted(jobs, key=lambda job: -job.packets)
        futures = {
            self._client.submit(
                self._compute, job, key=f"caravan-{job.address('')}", retries=RETRIES
            ): job
            for job in queue
        }
        try:
            for future in completed(list(futures)):
                result = future.result()
                if not isinstance(result, bytes):
                    raise StudyError("a worker answered something else than a result")
                yield futures.pop(future), result
        finally:
            with suppress(OSError):
                self._client.cancel(list(futures))
                self._client.close()


def _knock(address: str, target: str) -> None:
    """A refused connection is told at once; Dask's own client would try again for seconds."""
    scheme, _, place = target.partition("://")
    host, _, port = place.rpartition(":")
    if scheme not in ("tcp", "tls"):
        return
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise StudyError(f"--cluster {address}: must be HOST:PORT, as tcp://scheduler:8786")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
    except OSError as fault:
        said = fault.strerror or fault
        raise StudyError(f"--cluster {address}: no Dask scheduler answers: {said}") from None


def pool(compute: Compute, jobs: int | None, cluster: str | None) -> Pool:
    """The pool that the command line asks for."""
    if cluster:
        return Cluster(compute, cluster)
    return Threads(compute, jobs)
