"""Finds studies: by path, or by name in the package's catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from caravan import files
from caravan.document import Item, Step
from caravan.files import CATALOGUE, STUDY_FILE
from caravan.messages import Refused
from caravan.study.metrics import AXIS_KEYS
from caravan.study.parse import parse
from caravan.study.parsed import RUN_KEYS, Study, Sweep
from caravan.study.text import StudyError

SWEEP_KEYS = {**RUN_KEYS, **{key: key for key in ("scenario", "profile", "axes", "keys")}}
"""The sweep's names for a scenario's run keys, and keys that only a sweep has."""


def load(name: str) -> Study:
    """Load the study `name`: a file, a folder with `study.toml`, or a name of the catalogue."""
    try:
        path = files.locate("study", name)
        return parse(str(path), files.read("study", path, name).text)
    except StudyError:
        raise
    except Refused as fault:
        raise StudyError.of(fault) from None


def called(study: Study) -> str:
    """The word with which `load` finds the study again: its catalogue name, otherwise its path."""
    inside = CATALOGUE / "studies" / study.name / STUDY_FILE
    return study.name if Path(study.file) == inside else study.file or study.name


def names() -> list[str]:
    """The studies of the catalogue."""
    return files.names("study")


def located(study: Study, sweep: Sweep, fault: StudyError, *, is_quick: bool = False) -> StudyError:
    """An error that a sweep causes in its scenario, at the line of the study file."""
    found = fault.place
    if found is not None and found.line is not None:
        return fault  # It names file and line itself.
    key, what = "", str(fault)
    if found is not None and found.is_edit:
        key, what = found.key, fault.what
    place = ""
    # A study that was never a file has no positions.
    with suppress(OSError, ValueError):
        whole = Item.parse(study.file, Path(study.file).read_text(encoding="utf-8"))
        first, *others = (whole.find(path) for path in _paths(study, sweep, key, is_quick=is_quick))
        # A missing key is reported at the head of the sweep.
        at = [first, *(item for item in others if item is not first)][-1]
        place = f":{at.line}:{at.column}"
    said = f"{key}: {what}" if key else what
    return StudyError(f"{study.file}{place}: sweep.{sweep.name}: {said}")


def _paths(study: Study, sweep: Sweep, key: str, *, is_quick: bool) -> Iterator[tuple[Step, ...]]:
    """Where the study may set `key`; the last one counts."""
    top = ("sweep", study.sweeps.index(sweep))
    yield top
    if name := SWEEP_KEYS.get(key):
        yield (*top, name)
        if is_quick and asdict(sweep.quick) != asdict(sweep.run):
            yield (*top, "quick", name)
    if key in sweep.settings:
        yield (*top, "set", key)
    for axis in (axis for axis in sweep.grid if AXIS_KEYS.get(axis) == key):
        yield (*top, "grid", axis)
        if is_quick and axis in sweep.quick_grid:
            yield (*top, "quick", axis)
    for axis, keys in sweep.axes.items():
        if key in [one.strip() for one in keys.split(",")]:
            yield (*top, "axes", axis)
    for number, reading in enumerate(sweep.readings):
        if key in reading.settings:
            yield (*top, "reading", number, "set", key)
