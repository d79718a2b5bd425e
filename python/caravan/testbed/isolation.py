"""A private part of the machine for namespaces: `unshare(2)` of mounts, network and users.

It has its own `/run` and `/dev/shm` (so network namespace names, control sockets, pid files and
shared memory of other programs are neither seen nor touched) and its own network (so nothing leaves
on the machine's links). It disappears with its last process; a guard ends those whose owner was
killed (`owner.py`). Without root, a user namespace maps the caller to root inside.
Left out: a pid namespace, because Python would have to be its init.
"""

from __future__ import annotations

import ctypes
import os
import threading
from pathlib import Path

from pyroute2 import IPRoute

from caravan.testbed.errors import NamespaceError
from caravan.testbed.owner import OWNER_VARIABLE, Owner, start_guard

CLONE_NEWNS = 0x0002_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWNET = 0x4000_0000
MS_REC = 0x4000
MS_PRIVATE = 0x4_0000
PR_SET_CHILD_SUBREAPER = 36

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
    os.environ[OWNER_VARIABLE] = str(Owner.own())
    start_guard()


def is_entered() -> bool:
    """Whether this process is in private namespaces."""
    return os.environ.get(OWNER_VARIABLE) == str(Owner.own())


def _private_mounts() -> None:
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    mount("tmpfs", "/run", "tmpfs", 0, "mode=0755")
    # Other programs of the machine keep shared memory there, and change it at any time.
    if Path("/dev/shm").is_dir():
        mount("tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777")
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
