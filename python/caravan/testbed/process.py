"""Programs run by the testbed: output to files, CPU time from the kernel, no pipe that can fill up.

Only the owner reads the files, because some programs say their keys. Waits use pid file
descriptors, so a time limit costs no polling. Only processes started here get signals.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from caravan.testbed.errors import NamespaceError, TimedOut
from caravan.testbed.folders import open_private

FIRST_PAUSE_S, PAUSE_S, PAUSE_GROWTH = 0.004, 0.02, 1.25
"""A wait for what a program does looks often at first."""
TERMINATE_GRACE_S = 5.0
"""How long a program may take to end after SIGTERM before it is killed."""


@dataclass(frozen=True)
class Completed:
    """A program that ended: exit code (negative: signal), output, CPU and wall seconds."""

    argv: tuple[str, ...]
    code: int
    stdout: str
    stderr: str
    cpu_s: float
    wall_s: float

    def check(self) -> Self:
        """Return itself if the program succeeded, otherwise raise `CommandFailed`."""
        if self.code != 0:
            raise CommandFailed(self)
        return self


class CommandFailed(NamespaceError):
    """A program ended with an error; the text has its command line and last output."""

    def __init__(self, completed: Completed) -> None:
        tail = "\n".join((completed.stdout + completed.stderr).splitlines()[-20:])
        super().__init__(f"{' '.join(completed.argv)}: exit code {completed.code}\n{tail}")
        self.completed = completed


class Process:
    """A running program whose stdout and stderr go to `log.out` and `log.err`."""

    def __init__(
        self,
        argv: Sequence[str],
        log: Path,
        prefix: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        *,
        is_told: bool = False,
    ) -> None:
        """`is_told`: its standard input is what `tell` says; else there is none."""
        self.argv = tuple(argv)
        self.stdout_path = log.with_name(log.name + ".out")
        self.stderr_path = log.with_name(log.name + ".err")
        self._usage_cpu_s: float | None = None
        self._started = time.monotonic()
        self._ended: float | None = None
        with open_private(self.stdout_path) as out, open_private(self.stderr_path) as err:
            self._popen = subprocess.Popen(
                [*prefix, *argv],
                stdin=subprocess.PIPE if is_told else subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**os.environ, **(environment or {})},
                cwd=directory,
                start_new_session=True,
            )
        self._pidfd = os.pidfd_open(self._popen.pid)

    @property
    def pid(self) -> int:
        """The program's own pid: nsenter becomes the program by exec."""
        return self._popen.pid

    def stdout(self) -> str:
        """Its output so far."""
        return self.stdout_path.read_text(errors="replace")

    def stderr(self) -> str:
        """Its error output so far."""
        return self.stderr_path.read_text(errors="replace")

    def tell(self, line: str) -> None:
        """Write a line to its standard input; `NamespaceError` with its last words if nobody reads
        that any more."""
        assert self._popen.stdin is not None
        try:
            self._popen.stdin.write(f"{line}\n".encode())
            self._popen.stdin.flush()
        # The second: it was seen to have ended, and its standard input is closed.
        except (BrokenPipeError, ValueError):
            tail = "\n".join(self.stderr().splitlines()[-20:])
            said = f"{' '.join(self.argv)}: cannot be told {line!r}: it has ended\n{tail}"
            raise NamespaceError(said.rstrip()) from None

    def is_running(self) -> bool:
        """Whether it is running."""
        return not self._reap(os.WNOHANG)

    def cpu_s(self) -> float:
        """CPU seconds, user and system, of all threads, including ended ones."""
        if not self._reap(os.WNOHANG):
            # The kernel's clock id of a process: clock_getcpuclockid(3).
            return time.clock_gettime((~self.pid << 3) | 2)
        assert self._usage_cpu_s is not None
        return self._usage_cpu_s

    def wait(self, timeout_s: float) -> Completed:
        """Wait for its end; kill it and raise `TimedOut` after `timeout_s` seconds."""
        if not self._ends_within(timeout_s):
            self.stop(grace_s=0)
            tail = "\n".join((self.stdout() + self.stderr()).splitlines()[-20:])
            raise TimedOut(f"{' '.join(self.argv)}: still running after {timeout_s} s\n{tail}")
        return self._completed()

    def signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if not self._reap(os.WNOHANG):
            signal.pidfd_send_signal(self._pidfd, number)

    def stop(self, grace_s: float = TERMINATE_GRACE_S) -> Completed:
        """SIGTERM, then SIGKILL after `grace_s` seconds; returns how it ended."""
        if grace_s > 0:
            self.signal(signal.SIGTERM)
        if not self._ends_within(grace_s):
            self.signal(signal.SIGKILL)
            self._reap(0)
        return self._completed()

    def wait_for(self, ready: Callable[[], bool], what: str, timeout_s: float) -> None:
        """Poll `ready` until it holds; raise if the program ends or `timeout_s` passes."""
        deadline = time.monotonic() + timeout_s
        pause_s = FIRST_PAUSE_S
        while not ready():
            if not self.is_running():
                raise CommandFailed(self._completed())
            if time.monotonic() > deadline:
                tail = "\n".join((self.stdout() + self.stderr()).splitlines()[-20:])
                raise TimedOut(f"{' '.join(self.argv)}: no {what} in {timeout_s} s\n{tail}")
            time.sleep(pause_s)
            pause_s = min(PAUSE_S, pause_s * PAUSE_GROWTH)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _ends_within(self, timeout_s: float) -> bool:
        poll = select.poll()
        if self._reap(os.WNOHANG):
            return True
        poll.register(self._pidfd, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000)) and self._reap(os.WNOHANG)

    def _reap(self, flags: int) -> bool:
        if self._popen.returncode is not None:
            return True
        pid, status, usage = os.wait4(self._popen.pid, flags)
        if pid == 0:
            return False
        self._ended = time.monotonic()
        self._usage_cpu_s = usage.ru_utime + usage.ru_stime
        self._popen.returncode = os.waitstatus_to_exitcode(status)
        if self._popen.stdin is not None:
            # What nobody has read is still to be written.
            with contextlib.suppress(BrokenPipeError):
                self._popen.stdin.close()
        os.close(self._pidfd)
        return True

    def _completed(self) -> Completed:
        assert self._usage_cpu_s is not None and self._ended is not None
        return Completed(
            self.argv,
            self._popen.returncode,
            self.stdout(),
            self.stderr(),
            self._usage_cpu_s,
            self._ended - self._started,
        )


def stop_all(pids: Sequence[int], grace_s: float = TERMINATE_GRACE_S) -> None:
    """SIGTERM then SIGKILL to processes that are not direct children (daemons that detached)."""
    handles = []
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            handles.append((pid, os.pidfd_open(pid)))
    deadline = time.monotonic() + grace_s
    for number in (signal.SIGTERM, signal.SIGKILL):
        for _, handle in handles:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, number)
        for _, handle in handles:
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
        deadline = time.monotonic() + 1.0
    for pid, handle in handles:
        os.close(handle)
        # Orphans become children of the testbed, their subreaper, which must wait for them.
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
