"""Where the `caravan` program is."""

from __future__ import annotations

import os
from pathlib import Path

BINARY_VARIABLE = "CARAVAN"
"""Environment variable that names the program; else `target/release/caravan` above this file."""


def caravan_binary() -> Path:
    """The program's absolute path; `FileNotFoundError` says how to make it."""
    named = os.environ.get(BINARY_VARIABLE)
    if named is not None:
        path = Path(named).absolute()
    else:
        path = Path(__file__).resolve().parents[3] / "target/release/caravan"
    if not path.is_file():
        raise FileNotFoundError(
            f"no caravan program at {path}; cargo build --release, or set {BINARY_VARIABLE}"
        )
    return path
