"""Releases of peers that are newer than the system's, from the folders that `tools/peers` unpacks,
and programs that `tools/bench-peers` builds.

What the mirror or the registry does not give has a file there that says why.
"""

from __future__ import annotations

from pathlib import Path

from caravan.testbed.binary import TOP

FOLDER = TOP / ".build/peers"


def peer(name: str) -> Path:
    """The folder of a release, such as "strongswan-6.1"; `FileNotFoundError` if it is missing."""
    reason = missing(name)
    if reason is not None:
        raise FileNotFoundError(f"not run: {reason}")
    return FOLDER / name


def program(name: str) -> Path:
    """A program such as "wireguard-go"."""
    return FOLDER / "bin" / name


def missing(name: str) -> str | None:
    """Why a release or a program is not here, with its name; None if it is."""
    if (FOLDER / name / "stamp").is_file() or program(name).is_file():
        return None
    told = FOLDER / f"{name}.missing"
    return f"{name}: {told.read_text().strip() if told.is_file() else 'make setup brings it'}"
