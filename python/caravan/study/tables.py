"""The tables of paper T as `caravan tunnel-agent tables` prints them from the machines: which
objective an option satisfies and which threat it counters, and the steps of each function of AAA.

A mark is 1 where the table has one, and 0 where it has none.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from caravan.study.metrics import Measure
from caravan.study.text import StudyError
from caravan.study.tunnel import COMPLETE

COMMAND = ("tunnel-agent", "tables", "--json")
LIMIT_S = 10.0
NUMBERS = {1: "objective", 2: "threat", 3: "option", 4: "function"}
"""What the rows of each table are."""
SATISFIES, COUNTERS, STEPS, KNOWN = "satisfies", "counters", "steps", "objectives"


def measured() -> bytes:
    """What the program prints."""
    from caravan.testbed.binary import caravan_binary  # noqa: PLC0415

    argv = [str(caravan_binary()), *COMMAND]
    try:
        done = subprocess.run(argv, capture_output=True, timeout=LIMIT_S, check=True)
    except (OSError, subprocess.SubprocessError) as fault:
        said = getattr(fault, "stderr", None) or str(fault).encode()
        text = said.decode(errors="replace").strip()
        raise StudyError(f"--level testbed: caravan {' '.join(COMMAND)}: {text}") from None
    return done.stdout


def read(result: bytes) -> list[Measure]:
    """The marks of all tables."""
    found: dict[int, Sequence[Sequence[str]]] = {}
    for table in json.loads(result)["tables"]:
        number, rows = _rows(table)
        found[number] = rows
    if set(found) != set(NUMBERS):
        raise StudyError(f"the program prints tables {sorted(found)}, not {sorted(NUMBERS)}")
    measures = _marks(found)
    return [Measure(name, float(value), state=COMPLETE) for name, value in measures]


def _rows(table: Mapping[str, Any]) -> tuple[int, Sequence[Sequence[str]]]:
    number, rows = table["number"], table["rows"]
    head = NUMBERS.get(number)
    if not rows or rows[0][0] != head:
        raise StudyError(f"table {number} does not begin with '{head}'")
    return number, rows


def _marks(found: Mapping[int, Sequence[Sequence[str]]]) -> Iterator[tuple[str, int]]:
    objectives = [row[0] for row in found[1][1:]]
    yield KNOWN, len(objectives)
    for threat, countered in found[2][1:]:
        for objective in objectives:
            yield f"{COUNTERS}:{objective} {threat}", objective in countered.split()
    head, *options = found[3]
    for option, _, *marks in options:
        for objective, mark in zip(head[2:], marks, strict=True):
            yield f"{SATISFIES}:{option} {objective}", mark != ""
    for function, steps in found[4][1:]:
        yield f"{STEPS}:{function}", len(steps.split(", "))
