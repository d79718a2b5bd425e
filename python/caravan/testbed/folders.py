"""Folders and files of a testbed that only their owner reads: they have private keys and secrets.

A temporary folder ends with its process. After a SIGKILL nobody removes it, so the next testbed
does: the lock on a file inside tells whether its owner lives, because the kernel gives up locks of
processes that end.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from caravan.testbed.errors import NamespaceError

PREFIXES = (
    "caravan-wireless-",
    "caravan-testbed-run-",
    "caravan-case-",
    "caravan-hosts-",
    "caravan-agents-",
    "caravan-successor-",
)
"""How the names of temporary folders of runs begin, the only ones that are ever removed."""
LOCK = "lock"


def private_folder(path: Path) -> Path:
    """Make a folder, and let only its owner in; its parents stay as they are.

    `NamespaceError` if it is another user's, who could look in or put links there, or a link.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        held = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as fault:
        raise NamespaceError(f"{path} is no folder of its own: {fault.strerror}") from None
    try:
        if os.fstat(held).st_uid != os.geteuid():
            raise NamespaceError(f"{path} belongs to another user: name another folder")
        os.fchmod(held, 0o700)
    finally:
        os.close(held)
    return path


def open_private(path: Path) -> BinaryIO:
    """An empty file that only its owner reads.

    `NamespaceError` if there is a link, another user's file, or no plain file.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        held = os.open(path, flags, 0o600)
    except OSError as fault:
        # As for a link, and for a pipe that nobody reads.
        if fault.errno in (errno.ELOOP, errno.ENXIO):
            raise NamespaceError(f"{path} is no file of its own: {fault.strerror}") from None
        raise
    file = os.fdopen(held, "wb")
    found = os.fstat(held)
    is_own = found.st_uid == os.geteuid() and found.st_nlink == 1
    if not stat.S_ISREG(found.st_mode) or not is_own:
        file.close()
        raise NamespaceError(f"{path} is no file of its own: another user's, or linked elsewhere")
    os.fchmod(held, 0o600)
    os.ftruncate(held, 0)
    return file


def write_private(path: Path, text: str) -> Path:
    """Write a file that only its owner reads, as `open_private` opens it."""
    with open_private(path) as file:
        file.write(text.encode())
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
            try:
                found = path.lstat()
            except FileNotFoundError:
                # Another testbed is removing what was left, too.
                continue
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
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
