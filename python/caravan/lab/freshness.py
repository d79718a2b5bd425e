"""Checks in a checkout whether the native core is built from the current Rust sources.

After a pull the Python files are new at once, the core only after `make setup`. Left out: a wheel,
which contains both.
"""

from __future__ import annotations

import zlib
from pathlib import Path

from caravan import _lab

TOP = Path(__file__).resolve().parents[3]
CRATES = ("wire", "crypto", "document", "engine", "lab", "python")
REMEDY = "the native core was not built from the Rust sources in {top}: run `make setup` there"


def is_stale() -> bool:
    """Whether this is a checkout and the core was built from other sources."""
    if not (TOP / "crates/python/src").is_dir():
        return False
    built_from = getattr(_lab, "sources", None)
    return built_from is None or built_from() != sources()


def sources() -> str:
    """The same hash of the sources as in `crates/python/build.rs`: a check, not a signature."""
    found = 0
    for crate in CRATES:
        folder = TOP / "crates" / crate / "src"
        paths = (path.relative_to(folder).as_posix() for path in folder.rglob("*.rs"))
        for path in sorted(paths):
            found = zlib.crc32(f"{crate}/{path}".encode(), found)
            found = zlib.crc32((folder / path).read_bytes(), found)
    return f"{found:08x}"


def remedy() -> str:
    """What to do about it."""
    return REMEDY.format(top=TOP)
