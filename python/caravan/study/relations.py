"""Printed relations of two values beside ours: a loss or a share in percent, or a ratio.

Left out: sentences, which are in `claims`: they hold or do not, and have no number of their own.
"""

from __future__ import annotations

import pandas as pd

from caravan.study.claims import value_at
from caravan.study.parsed import PRINT_TOLERANCE, Relation, Study
from caravan.study.published import UNEXPLAINED
from caravan.study.values import fill

PERCENT = ("loss", "share")


def beside(study: Study, rows: pd.DataFrame) -> pd.DataFrame:
    """The printed relations whose values were run, in the columns of `printed.csv`."""
    found = [_row(item, rows) for item in study.relations]
    return pd.DataFrame([row for row in found if row is not None])


def not_run(study: Study, rows: pd.DataFrame) -> list[Relation]:
    """The printed relations that lack a value in this run."""
    return [item for item in study.relations if _row(item, rows) is None]


def _row(item: Relation, rows: pd.DataFrame) -> dict[str, object] | None:
    left, right = (value_at(side, rows) for side in (item.left, item.right))
    if left is None or right is None:
        return None
    ours = related(item.kind, left, right)
    apart = (ours - item.value) / item.value
    reason = "" if abs(apart) <= PRINT_TOLERANCE else fill(item.reason, rows) or UNEXPLAINED
    return {
        "printed": item.printed,
        "sweep": sweeps(item),
        "reading": item.says,
        "level": item.left.level,
        "metric": item.kind,
        "unit": unit(item),
        "value": ours,
        "published": item.value,
        "relative_difference": apart,
        "reason": reason,
    }


def unit(item: Relation) -> str:
    """The unit of a relation."""
    return "%" if item.kind in PERCENT else ""


def related(kind: str, left: float, right: float) -> float:
    """`loss`: how many percent of right are missing in left; `share`: how many left is."""
    if kind == "loss":
        return 100 * (1 - left / right)
    return 100 * left / right if kind == "share" else left / right


def sweeps(item: Relation) -> str:
    """The sweeps of its two values."""
    return ", ".join(dict.fromkeys(side.sweep for side in (item.left, item.right)))
