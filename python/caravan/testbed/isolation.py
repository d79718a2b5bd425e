"""A private part of the machine for namespaces: `unshare(2)` of mounts, network and users.

It has its own `/run` (so network namespace names, control sockets and pid files of other programs
are neither seen nor touched) and its own network (so nothing leaves on the machine's links). It
disappears with its last process. Without root, a user namespace maps the caller to root inside.
Left out: a pid namespace, because Python would have to be its init.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from pathlib import Path

from pyroute2 import IPRoute

from caravan.testbed.errors import NamespaceError

CLONE_NEWNS = 0x0002_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWNET = 0x4000_0000
MS_REC = 0x4000
MS_PRIVATE = 0x4_0000
PR_SET_CHILD_SUBREAPER = 36

OWNER_VARIABLE = "CARAVAN_TESTBED_OWNER"
"""Environment of every child: `PID:START`, the process that must outlive it."""

_libc = ctypes.CDLL(None, use_errno=True)


class IsolationError(NamespaceError):
    """The kernel or the caller's state does not permit private namespaces."""


def enter() -> None:
    """Move the calling process into private namespaces; once per process, later calls do nothing.

    Call it from the main thread before any other thread starts: running threads stay outside, and a
    user namespace cannot be entered with them.
    """
    if is_entered():
        return
    if threading.active_count() > 1:
        raise IsolationError("enter() must come before any thread is started")
    uid, gid = os.geteuid(), os.getegid()
    flags = CLONE_NEWNS | CLONE_NEWNET | (CLONE_NEWUSER if uid != 0 else 0)
    if _libc.unshare(flags) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise IsolationError(
            f"unshare: {reason}; run as root, or allow user namespaces "
            "(sysctl kernel.unprivileged_userns_clone, user.max_user_namespaces, "
            "kernel.apparmor_restrict_unprivileged_userns)"
        )
    if uid != 0:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    _private_mounts()
    with IPRoute() as links:
        links.link("set", index=1, state="up")
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    os.environ[OWNER_VARIABLE] = _own_mark()


def is_entered() -> bool:
    """Whether this process is in private namespaces."""
    return os.environ.get(OWNER_VARIABLE) == _own_mark()


def _own_mark() -> str:
    return f"{os.getpid()}:{start_ticks(os.getpid())}"


def _private_mounts() -> None:
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    mount("tmpfs", "/run", "tmpfs", 0, "mode=0755")
    Path("/run/netns").mkdir()


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    """`mount(2)`; raises `OSError` naming the target."""
    result = _libc.mount(
        source.encode(),
        target.encode(),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        options.encode(),
    )
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"mount: {os.strerror(number)}", target)


def start_ticks(pid: int) -> int:
    """When a process started, in clock ticks since boot: tells a reused pid from its first owner.

    Raises `OSError` if there is no such process.
    """
    stat = Path(f"/proc/{pid}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[19])


def sweep() -> list[int]:
    """Kill the processes of a crashed testbed, and return their pids.

    Namespaces and mounts end with their last process, so only orphans can be left. Only processes
    whose environment names a dead owner are touched.
    """
    killed = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        owner = _owner_of(entry)
        if owner is None or _is_alive(owner):
            continue
        try:
            os.kill(int(entry.name), signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue
        killed.append(int(entry.name))
    return killed


def _owner_of(process: Path) -> tuple[int, int] | None:
    try:
        environment = (process / "environ").read_bytes()
    except OSError:
        return None
    prefix = OWNER_VARIABLE.encode() + b"="
    for item in environment.split(b"\0"):
        if item.startswith(prefix):
            pid, _, ticks = item[len(prefix) :].partition(b":")
            return (int(pid), int(ticks)) if pid.isdigit() and ticks.isdigit() else None
    return None


def _is_alive(owner: tuple[int, int]) -> bool:
    pid, ticks = owner
    try:
        return start_ticks(pid) == ticks
    except OSError:
        return False
