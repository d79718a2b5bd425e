"""Citations in texts that a run fills in: `{{ sweep: metric, axis = value, level = model }}`.

With `minus axis = value` it is a difference: less the value at the point with that one. And
`{{ sentences }}` is how many sentences of the study hold, `{{ verdict: name }}` the grade of one.

Left out: the values, which are in `values`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from caravan.messages import nearest, unknown
from caravan.study.metrics import AXES, METRICS, NUMERIC_AXES, ONE_FOR_ALL, is_known
from caravan.study.parsed import Sweep
from caravan.study.text import Value

BRACES = re.compile(r"\{\{.*?(?:\}\}|$)", re.DOTALL)
PLACE = re.compile(r"\{\{\s*([\w-]+)\s*:\s*([\w-]+(?::[^,{}]*[^,{}\s])?)\s*((?:,[^{}]*)?)\}\}")
COLUMNS = ("value", "ci95_low", "ci95_high", "relative_difference")
"""The columns that a text may cite."""
MINUS = "minus "
SENTENCES = re.compile(r"\{\{\s*sentences\s*\}\}")
VERDICT = re.compile(r"\{\{\s*verdict\s*:\s*([\w.-]+)\s*\}\}")


def check(text: str, sweeps: Mapping[str, Sweep], sentences: Collection[str] | None = None) -> str:
    """The error of the text's first invalid citation; empty if there is none. `sentences`: the
    names of those that it may cite; None: it may not even count them."""
    for written in BRACES.findall(text):
        if sentences is not None and SENTENCES.fullmatch(written):
            continue
        match = VERDICT.fullmatch(written)
        if match and sentences is not None:
            name = match[1]
            fault = "" if name in sentences else unknown("name of a claim", name, sorted(sentences))
        else:
            match = PLACE.fullmatch(written)
            fault = _fault(match, sweeps) if match else "is not {{ sweep: metric, axis = value }}"
        if fault:
            return f"{' '.join(written.split())}: {fault}"
    return ""


def _fault(match: re.Match[str], sweeps: Mapping[str, Sweep]) -> str:
    name, metric, places = match.groups()
    if name not in sweeps:
        return unknown("sweep", name, sweeps)
    if not is_known(metric):
        return unknown("metric", metric, METRICS)
    named = [key for key, _ in parts(places)]
    for written, value in parts(places):
        key = written.removeprefix(MINUS)
        known = AXES if key != written else (*AXES, "level", "column")
        if key not in known:
            return unknown("axis", key, known)
        if key != written and ("column" in named or key not in named):
            return f"{written} needs {key}, and no column"
        held, meant = _held(sweeps[name], key), _as_held(key, value)
        if meant not in held:
            what = f'the sweep "{name}" has no {key} = {value}'
            return f"{what}, {nearest(meant, held)}"
    return for_all(metric, named) or too_few(sweeps[name], metric, named)


FOR_ALL = {"rate_kbps": "rates", "packet_bytes": "sizes"}


def for_all(metric: str, named: Collection[str]) -> str:
    """Why a citation must not name a rate or a size; empty if the metric has a value at each."""
    for axis, words in FOR_ALL.items():
        if axis in named and metric in ONE_FOR_ALL[axis]:
            return f"{metric} has one value for all {words}: leave out {axis}"
    return ""


def too_few(sweep: Sweep, metric: str, named: Collection[str]) -> str:
    """The axes with several values that a citation leaves open; empty if it means one value."""
    missing = sweep.unnamed(metric, named)
    if not missing:
        return ""
    several = " and ".join(missing)
    return f'the sweep "{sweep.name}" has several values of {several}: say which one you mean'


def _held(sweep: Sweep, key: str) -> Sequence[str]:
    """The valid words there."""
    if key == "level":
        return sweep.levels
    if key == "column":
        return COLUMNS
    return [_written(item) for item in sweep.held(key)]


def parts(text: str) -> list[tuple[str, str]]:
    """`axis = value, ...` as pairs. A line of the text may end anywhere between two words."""
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    return [(" ".join(key.split()), " ".join(value.split())) for key, _, value in pairs]


def _written(value: Value) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _as_held(axis: str, value: str) -> str:
    """A value of a text in the grid's form."""
    if axis not in NUMERIC_AXES:
        return value.replace(";", ",")
    try:
        return f"{float(value):g}"
    except ValueError:
        return value
