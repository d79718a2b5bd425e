"""Whose the processes of a testbed are, and the end of those whose owner is gone.

Each has its owner's mark in its environment. Namespaces and mounts end with their last process, so
after a SIGKILL of the owner only processes can be left. The kernel kills most of them at once
(`--pdeathsig`), but not those that change their user, which clears that, nor those that detach. So
each owner has a guard: run by path, `python owner.py MARK` waits for the end of the owner and kills
what it has left. `sweep` kills what a guard could not, because it was killed too.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

OWNER_VARIABLE = "CARAVAN_TESTBED_OWNER"
"""Environment of every child: `PID:START:NAMESPACE`, the process that must outlive it, when it
started, and the pid namespace in which that is its pid."""
MARK = re.compile(rb"([0-9]{1,10}):([0-9]{1,20}):([0-9]{1,20})")
"""Anybody can write an environment: no number is longer than the kernel's."""
GUARD_S = 5.0
GUARD_POLL_S = 0.02


@dataclass(frozen=True)
class Owner:
    """A process of a pid namespace; `ticks` tells a reused pid from its first owner."""

    pid: int
    ticks: int
    namespace: int

    @classmethod
    def own(cls) -> Owner:
        """This process."""
        return cls(os.getpid(), start_ticks("self"), own_namespace())

    @classmethod
    def read(cls, mark: bytes) -> Owner | None:
        """The owner of a mark, if it is one."""
        found = MARK.fullmatch(mark)
        return cls(*map(int, found.groups())) if found else None

    def __str__(self) -> str:
        return f"{self.pid}:{self.ticks}:{self.namespace}"

    def is_alive(self) -> bool:
        """Whether it runs, if its pid namespace is this one."""
        try:
            return start_ticks(str(self.pid)) == self.ticks
        except OSError:
            return False


def own_namespace() -> int:
    """The number of this process's pid namespace."""
    return os.stat("/proc/self/ns/pid").st_ino


def start_ticks(pid: str) -> int:
    """When a process started, in clock ticks since boot.

    Raises `OSError` if there is no such process.
    """
    stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    return int(stat.rpartition(")")[2].split()[19])


def sweep() -> list[int]:
    """Kill the processes of a crashed testbed, and return their pids.

    Only processes whose environment names a dead owner are touched. An owner in another pid
    namespace has another pid here, so nothing is known of it.
    """
    own = own_namespace()
    return _end(lambda owner: owner.namespace == own and not owner.is_alive())


def start_guard() -> None:
    """Start the guard of this process, whose mark is in the environment; it has none itself."""
    unmarked = {key: value for key, value in os.environ.items() if key != OWNER_VARIABLE}
    nothing = [(os.POSIX_SPAWN_OPEN, number, "/dev/null", os.O_RDWR, 0) for number in range(3)]
    argv = [sys.executable, "-I", "-S", __file__, os.environ[OWNER_VARIABLE]]
    os.posix_spawn(sys.executable, argv, unmarked, file_actions=nothing, setsid=True)


def guard(owner: Owner) -> None:
    """Wait for the end of a process, and kill what has its mark."""
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(owner.pid)
        if owner.is_alive():
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            poll.poll()
    deadline = time.monotonic() + GUARD_S
    # What was just being started is found the next time.
    while _end(lambda it: it == owner) and time.monotonic() < deadline:
        time.sleep(GUARD_POLL_S)


def _end(is_left: Callable[[Owner], bool]) -> list[int]:
    """Kill every other process whose owner is such a one, and return their pids."""
    # Another namespace's /proc has pids of others.
    if os.readlink("/proc/self") != str(os.getpid()):
        return []
    killed = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        owner = _owner_of(entry)
        if owner is None or not is_left(owner):
            continue
        with contextlib.suppress(ProcessLookupError, PermissionError):
            handle = os.pidfd_open(int(entry.name))
            try:
                # The pid may be another process's meanwhile.
                if _owner_of(entry) == owner:
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
                    killed.append(int(entry.name))
            finally:
                os.close(handle)
    return killed


def _owner_of(process: Path) -> Owner | None:
    try:
        environment = (process / "environ").read_bytes()
    except OSError:
        return None
    prefix = OWNER_VARIABLE.encode() + b"="
    for item in environment.split(b"\0"):
        if item.startswith(prefix):
            return Owner.read(item[len(prefix) :])
    return None


if __name__ == "__main__":
    os.chdir("/")
    of_mark = Owner.read(os.fsencode(sys.argv[1]))
    if of_mark is None:
        raise SystemExit(f"{sys.argv[1]!r} is no mark")
    guard(of_mark)
