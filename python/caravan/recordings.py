"""Recorded links, which may be longer than memory: identified by path and digest.

A request for the native core has the path and the SHA-256 of a recording, never its lines: the
process that computes it, on any machine, reads the same bytes or refuses. Left out: the meaning of
the lines, which the native core knows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

REMEMBERED = 256
"""Digests that are kept: a file is read again only after a change."""


def digest(path: Path) -> str:
    """SHA-256 of a recording, read as a stream; an `OSError` if it cannot be read."""
    found = path.stat()
    return _digest(path, found.st_ino, found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=REMEMBERED)
def _digest(path: Path, _inode: int, _size: int, _changed_ns: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def unlike(catalogue: Iterable[Mapping[str, str]]) -> str:
    """Why a recording of a request is missing or different here; empty if all are equal."""
    for entry in catalogue:
        if "digest" not in entry:
            continue
        path = Path(entry["file"])
        try:
            here = digest(path)
        except OSError as fault:
            why = fault.strerror or fault
            return f"{path}: {why}: a trace must be at the same path on every machine of a run"
        if here != entry["digest"]:
            return f"{path}: this is not the trace that the run began with"
    return ""
