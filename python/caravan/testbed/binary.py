"""Finds the `caravan` program."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

BINARY_VARIABLE = "CARAVAN"
"""The path of the program; default: `target/release/caravan` of a checkout, otherwise the wheel's.
"""
TOKEN_VARIABLE = "CARAVAN_TOKEN"
TOP = Path(__file__).resolve().parents[3]
"""The top of a checkout; a wheel has no `crates` there."""


def caravan_binary() -> Path:
    """The program's absolute path; `FileNotFoundError` says how to build it."""
    named = os.environ.get(BINARY_VARIABLE)
    if named is not None:
        path, remedy = Path(named).absolute(), f"{BINARY_VARIABLE} must name it"
    elif (TOP / "crates").is_dir():
        path, remedy = TOP / "target/release/caravan", f"make release, or set {BINARY_VARIABLE}"
    else:
        path = _installed()
        remedy = f"install the wheel again, or set {BINARY_VARIABLE}"
    if not path.is_file():
        raise FileNotFoundError(f"no caravan program at {path}: {remedy}")
    return path


def token_helper() -> Path:
    """`caravan-token`, beside the program or where `CARAVAN_TOKEN` says."""
    named = os.environ.get(TOKEN_VARIABLE)
    path = Path(named).absolute() if named else caravan_binary().with_name("caravan-token")
    if not path.is_file():
        raise FileNotFoundError(f"no helper for tokens at {path}: make release")
    return path


def _installed() -> Path:
    """Where this package's wheel has installed its program."""
    schemes = (sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user"))
    places = [Path(sysconfig.get_path("scripts", scheme)) / "caravan" for scheme in schemes]
    return next((place for place in places if place.is_file()), places[0])
