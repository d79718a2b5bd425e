"""Folders and files of a testbed that only their owner reads: they have private keys and secrets.

A temporary folder ends with its process. After a SIGKILL nobody removes it, so the next testbed
does: the lock on a file inside tells whether its owner lives, because the kernel gives up locks of
processes that end.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

PREFIXES = (
    "caravan-wireless-",
    "caravan-testbed-run-",
    "caravan-case-",
    "caravan-hosts-",
    "caravan-agents-",
)
"""How the names of temporary folders of runs begin, the only ones that are ever removed."""
LOCK = "lock"


def private_folder(path: Path) -> Path:
    """Make a folder, and let only its owner in; its parents stay as they are."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)
    return path


def write_private(path: Path, text: str) -> Path:
    """Write a file that only its owner reads."""
    path.touch(0o600)
    path.chmod(0o600)
    path.write_text(text)
    return path


@contextlib.contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """A folder for one run, removed at the end; and what runs that were killed have left."""
    if prefix not in PREFIXES:
        raise ValueError(f"{prefix} is none of {', '.join(PREFIXES)}")
    remove_left()
    while True:
        path = Path(tempfile.mkdtemp(prefix=prefix))
        held = _locked(path / LOCK, os.O_CREAT, fcntl.LOCK_EX)
        if held is not None:
            break
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(held)


def remove_left() -> list[Path]:
    """Remove the folders of runs whose process is gone, and return them.

    Folders of other users and those without a lock, which somebody is just making, stay.
    """
    removed = []
    for prefix in PREFIXES:
        for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
            if path.is_symlink() or path.lstat().st_uid != os.geteuid():
                continue
            held = _locked(path / LOCK, 0, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if held is not None:
                shutil.rmtree(path, ignore_errors=True)
                os.close(held)
                removed.append(path)
    return removed


def _locked(path: Path, flags: int, operation: int) -> int | None:
    """The locked file; None if it is not there, another process holds it, or it was removed while
    this one waited."""
    try:
        held = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(held, operation)
        if os.fstat(held).st_ino == path.stat().st_ino:
            return held
    except OSError:
        pass
    os.close(held)
    return None
