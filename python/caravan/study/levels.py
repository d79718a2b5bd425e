"""The simulation against the other levels: which points can be compared, and how near they are."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from caravan.study.metrics import APPROXIMATION, DIVERGES, NEAR, describe
from caravan.study.plan import LEVELS
from caravan.study.results import POINT

TESTBED = LEVELS[-1]
BLUNT = 0.25
"""Half an interval over its mean, beyond which a simulated value says too little to compare."""
ROUGH = {
    "mean_delay_ms": "an approximation: after the first loaded station, arrivals are not Poisson",
    "handshake_ms": "an approximation: all fragments of a message count as equal",
    "tcp_kbps": "an approximation: without TCP's slow start",
}
"""Closed forms that are used beyond what they are exact for, and yet compared."""
SAME = 5e-5
"""A difference that the tables show as 0.00 %: an interval without width may not hold it."""
TOLERANCE = 0.05
"""How near a simulated value is to the other level's that it confirms."""


@dataclass(frozen=True)
class Pairs:
    """Values of the simulation beside another level's.

    The columns of both have the endings `_simulate` and `_other`; `apart` is their difference over
    the other level's. `left` holds the points whose simulated interval cannot tell.
    """

    both: pd.DataFrame
    left: pd.DataFrame


def paired(rows: pd.DataFrame, against: str) -> Pairs:
    """The points of a run that the simulation has and the level `against` has too."""
    # The testbed's device is the machine that it ran on.
    point = [axis for axis in POINT if axis != "device" or against != TESTBED]
    keys = ["sweep", "reading", *point, "metric"]
    other = rows[(rows["level"] == against) & rows["value"].notna()]
    simulated = rows[(rows["level"] == "simulate") & (rows["state"] != DIVERGES)]
    both = other.merge(simulated, on=keys, suffixes=("_other", "_simulate"))
    is_rough = both["state_other"] == APPROXIMATION
    is_noted = both["metric"].isin(list(ROUGH))
    both = both[(both["value_other"].abs() > 0) & (~is_rough | is_noted)]
    is_left = _is_blunt(both) | (both["state_simulate"] == NEAR)
    left, both = both[is_left], both[~is_left].copy()
    both["apart"] = (both["value_simulate"] - both["value_other"]) / both["value_other"]
    return Pairs(both, left)


def is_inside(both: pd.DataFrame) -> pd.Series:
    """Where the other value lies in the simulation's 95 % interval, or is the simulated value."""
    other = both["value_other"]
    is_same = both["apart"].abs() < SAME
    return is_same | (both["ci95_low_simulate"] <= other) & (other <= both["ci95_high_simulate"])


def in_words(rows: pd.DataFrame) -> list[str]:
    """A sentence for each other level that was run, and one for each of its approximations."""
    said = []
    for level in (LEVELS[0], TESTBED):
        both = paired(rows, level).both
        is_rough = both["state_other"] == APPROXIMATION
        if not (exact := both[~is_rough]).empty:
            near = int(((exact["apart"].abs() <= TOLERANCE) | is_inside(exact)).sum())
            said.append(
                f"{near:,} of {len(exact):,} simulated values are within {TOLERANCE * 100:.0f} % "
                f"of the {level}'s, or their interval contains it"
            )
        for metric, rough in both[is_rough].groupby("metric", sort=False):
            reach = " to ".join(f"{rough['apart'].agg(end) * 100:+.1f} %" for end in ("min", "max"))
            label = describe(str(metric)).label
            said.append(f"{label}: simulated differs by {reach} from the {level}'s approximation")
    return said


def _is_blunt(both: pd.DataFrame) -> pd.Series:
    """Which simulated values cannot tell: waits of nobody, and intervals that are too wide."""
    value = both["value_simulate"]
    half = (both["ci95_high_simulate"] - both["ci95_low_simulate"]) / 2
    return (value == 0) | (half > BLUNT * value.abs())
