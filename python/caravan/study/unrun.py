"""The printed values that a run has no value for, such as those of the testbed.

Left out: what no sweep computes at all; the study itself names that.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pandas as pd

from caravan.study import published, relations
from caravan.study.files import called
from caravan.study.levels import TESTBED
from caravan.study.metrics import describe
from caravan.study.parsed import LEVELS, Study

REASON = "not run"


def unrun(study: Study, rows: pd.DataFrame, command: str) -> pd.DataFrame:
    """In the columns of `printed.csv`: values first, then relations. `command` runs them."""
    reason = f"{REASON}: {command}"
    values: list[dict[str, object]] = [
        {
            "printed": item.printed,
            "sweep": item.sweep,
            "reading": "",
            "level": "",
            **item.at,
            "metric": item.metric,
            "unit": describe(item.metric).unit,
            "published": item.value,
            "reason": reason,
        }
        for item in published.not_run(study, rows)
    ]
    related: list[dict[str, object]] = [
        {
            "printed": item.printed,
            "sweep": relations.sweeps(item),
            "reading": item.says,
            "level": "",
            "metric": item.kind,
            "unit": relations.unit(item),
            "published": item.value,
            "reason": reason,
        }
        for item in relations.not_run(study, rows)
    ]
    return pd.DataFrame(values + related)


def counted(study: Study, rows: pd.DataFrame) -> int:
    """How many printed values and relations the run has left out."""
    return len(published.not_run(study, rows)) + len(relations.not_run(study, rows))


def command(study: Study, directory: Path, seed: int | None) -> str:
    """The command that runs everything into the same folder; what is there is not run again."""
    words = ["caravan-lab", "run", called(study), "-o", str(directory)]
    held = {level for sweep in study.sweeps for level in sweep.levels}
    # Only the testbed has to be asked for.
    if TESTBED in held:
        for level in LEVELS:
            words += ["--level", level] if level in held else []
    words += [] if seed is None else ["--seed", str(seed)]
    return shlex.join(words)
