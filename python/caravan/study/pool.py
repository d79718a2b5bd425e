"""Runs jobs: in threads of this process, or on the workers of a Dask cluster.

Each pool yields results as they come, in any order. The native code releases the GIL, so threads
are enough on one machine. Left out: storing results, which is in `store`.
"""

from __future__ import annotations

import os
import pickle
import socket
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from caravan import _lab
from caravan.background import IS_TOLD_TO_END, computed
from caravan.study.cells import Job
from caravan.study.text import StudyError

CONNECT_S = 5
CLOSE_S = 2
KEPT = "what was done is kept: run again to resume"
RETRIES = 5
"""How many other workers get a job after its worker died."""


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
    """All cores of this machine, or the number `jobs`."""

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
    """The testbed: each job has the whole machine."""

    def __init__(self, compute: Compute) -> None:
        self._compute = compute

    def results(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, bytes]]:
        """In the given order."""
        for job in jobs:
            if IS_TOLD_TO_END.is_set():
                raise KeyboardInterrupt
            yield job, self._compute(job)


def build() -> str:
    """The native core of this process: its version, and a check of its sources."""
    return f"{_lab.version()}, sources {_lab.sources()}"


def _signed(compute: Compute, job: Job) -> tuple[str, bytes]:
    """The result of a job, and the core that computed it."""
    return build(), compute(job)


class _Call:
    """A job that is computed where it is unpickled, and becomes its result.

    The scheduler unpickles what it gets but may lack caravan, so it gets bytes.
    """

    def __init__(self, compute: Compute, job: Job) -> None:
        self._call = (compute, job)

    def __reduce__(self) -> tuple[Callable[[Compute, Job], tuple[str, bytes]], tuple[Compute, Job]]:
        return _signed, self._call


class Cluster:
    """An existing Dask scheduler and its workers, which need the same caravan installed.

    The same means built from the same sources, for any machine.
    """

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
        self._address = address
        try:
            for worker, found in self._client.run(build, on_error="return").items():
                self._check(found, f"the worker {worker}")
        except BaseException:
            self._client.close()
            raise

    def _check(self, found: Any, who: str) -> None:
        """Refuse a worker with another core: its results would count as ours."""
        if isinstance(found, BaseException):
            raise StudyError(
                f"--cluster {self._address}: {who} has no working caravan: {found}; "
                "install this version there"
            )
        if found != build():
            raise StudyError(
                f"--cluster {self._address}: {who} has another native core ({found}, here "
                f"{build()}): install this version there"
            )

    def results(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, bytes]]:
        """Other workers compute a lost worker's jobs; the name of a job makes it run once."""
        from distributed import KilledWorker  # noqa: PLC0415
        from distributed import as_completed as completed  # noqa: PLC0415

        is_lost = False
        queue = sorted(jobs, key=lambda job: -job.packets)
        futures = {
            self._client.submit(
                pickle.loads,
                pickle.dumps(_Call(self._compute, job)),
                key=f"caravan-{job.address(build())}",
                retries=RETRIES,
            ): job
            for job in queue
        }
        try:
            for future in completed(list(futures)):
                found, result = future.result()
                self._check(found, "a worker")
                yield futures.pop(future), result
        except KilledWorker as fault:
            said = f"{RETRIES} workers died on one job ({fault}): look at their logs"
            raise StudyError(f"--cluster {self._address}: {said}; {KEPT}") from None
        except (ImportError, RuntimeError) as fault:
            said = f"a worker cannot compute ({fault}): install this version of caravan there"
            raise StudyError(f"--cluster {self._address}: {said}") from None
        except (OSError, CancelledError) as fault:
            is_lost = True
            said = f"lost the scheduler ({type(fault).__name__})"
            raise StudyError(f"--cluster {self._address}: {said}; {KEPT}") from None
        finally:
            with suppress(OSError, CancelledError):
                if not is_lost:
                    self._client.cancel(list(futures))
                self._client.close(timeout=CLOSE_S)


def _knock(address: str, target: str) -> None:
    """Report a refused connection at once; Dask's own client would retry for seconds."""
    scheme, _, place = target.partition("://")
    host, _, port = place.rpartition(":")
    if scheme not in ("tcp", "tls"):
        return
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise StudyError(f"--cluster {address}: must be HOST:PORT, such as tcp://scheduler:8786")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
    except OSError as fault:
        said = fault.strerror or fault
        raise StudyError(f"--cluster {address}: no Dask scheduler answers: {said}") from None


def pool(compute: Compute, jobs: int | None, cluster: str | None) -> Pool:
    """The pool that the command line selects."""
    if cluster:
        return Cluster(compute, cluster)
    return Threads(compute, jobs)
