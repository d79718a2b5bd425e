"""What tests of studies share: a study of their own, and one value of its rows."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from caravan.study import Study, load


def written(folder: Path, text: str) -> Study:
    """The study of a text."""
    path = folder / "study.toml"
    path.write_text(text)
    return load(str(path))


def value(rows: pd.DataFrame, metric: str, **at: object) -> float:
    """The only value there."""
    found = rows[rows["metric"] == metric]
    for axis, wanted in at.items():
        found = found[found[axis] == wanted]
    (one,) = found["value"]
    return float(one)
