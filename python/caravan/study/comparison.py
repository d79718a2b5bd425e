"""Two runs side by side: values that only one has, and values that differ beyond tolerance."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from caravan.study import results
from caravan.study.parsed import RUN_TOLERANCE
from caravan.study.results import KEY
from caravan.study.text import StudyError


@dataclass(frozen=True)
class Comparison:
    """The differences between two runs."""

    compared: int
    differing: pd.DataFrame
    only_first: int
    only_second: int

    @property
    def is_same(self) -> bool:
        """Nothing differs and nothing is missing."""
        return self.differing.empty and not self.only_first and not self.only_second

    def as_json(self) -> str:
        """One object; a missing value is null."""
        named = {"value_a": "first", "value_b": "second"}
        named |= {"state_a": "first_state", "state_b": "second_state"}
        differing = json.loads(self.differing.rename(columns=named).to_json(orient="records"))
        return json.dumps(
            {
                "compared": self.compared,
                "only_first": self.only_first,
                "only_second": self.only_second,
                "differing": differing,
            }
        )


def compare(first: Path | str, second: Path | str, tolerance: float = RUN_TOLERANCE) -> Comparison:
    """Compare the run in `first` with the run in `second`.

    Values differ if they are further apart than `tolerance` of the larger one and their confidence
    intervals, if both have one, do not overlap.
    """
    first, second = Path(first), Path(second)
    left, right = results.read(first), results.read(second)
    _check_same_study((first, left), (second, right))
    both = left.merge(right, on=list(KEY), how="outer", suffixes=("_a", "_b"), indicator=True)
    shared = both[both["_merge"] == "both"]
    apart = (shared["value_a"] - shared["value_b"]).abs()
    most = shared[["value_a", "value_b"]].abs().max(axis=1)
    far = apart > tolerance * most
    is_missing = shared["value_a"].isna() != shared["value_b"].isna()
    meets = (shared["ci95_low_a"] <= shared["ci95_high_b"]) & (
        shared["ci95_low_b"] <= shared["ci95_high_a"]
    )
    state = shared["state_a"] != shared["state_b"]
    differing = shared[(far & ~meets) | is_missing | state].copy()
    differing["difference"] = (differing["value_b"] - differing["value_a"]) / differing["value_a"]
    columns = [*KEY, "value_a", "value_b", "difference", "state_a", "state_b"]
    return Comparison(
        compared=len(shared),
        differing=differing[columns].sort_values("difference", key=abs, ascending=False),
        only_first=int((both["_merge"] == "left_only").sum()),
        only_second=int((both["_merge"] == "right_only").sum()),
    )


def _check_same_study(*runs: tuple[Path, pd.DataFrame]) -> None:
    """Refuse runs of two studies: they have no comparable values."""
    held = [sorted(rows["study"].unique()) for _, rows in runs]
    if held[0] != held[1]:
        said = [
            f"{path} holds {', '.join(names)}" for (path, _), names in zip(runs, held, strict=True)
        ]
        raise StudyError(f"{'; '.join(said)}: only runs of one study can be compared")
