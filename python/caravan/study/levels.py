"""Compares the simulation with the other levels: which points are comparable, and how near they
are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from caravan.study.metrics import APPROXIMATION, DIVERGES, NEAR, describe
from caravan.study.parsed import LEVELS
from caravan.study.results import POINT
from caravan.study.tunnel import INCOMPLETE

TESTBED = LEVELS[-1]
BLUNT = 0.25
"""Above this ratio of half the interval to the mean, a simulated value is too uncertain."""
ROUGH = {
    "mean_delay_ms": "an approximation: after the first loaded station, arrivals are not Poisson",
    "handshake_ms": "an approximation: all fragments of a message count as equal",
    "tcp_kbps": "an approximation: without TCP's slow start",
}
"""Closed forms that are compared although they are not exact here."""
SAME = 5e-5
"""A difference that tables show as 0.00 %: an interval of zero width may miss it."""
WHY_CUT = "a transfer ran out of time, or a tunnel did not come up"
LEVEL_TOLERANCE = 0.05
"""How near a simulated value must be to confirm the other level's."""


@dataclass(frozen=True)
class Pairs:
    """Values of the simulation beside another level's.

    The columns of both have the endings `_simulate` and `_other`; `apart` is their difference
    relative to the other level's. `left` has the points whose simulated interval is too wide.
    """

    both: pd.DataFrame
    left: pd.DataFrame


def paired(rows: pd.DataFrame, against: str) -> Pairs:
    """The points of a run that the simulation and the level `against` share."""
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
    """Whether the other value is in the simulated 95 % interval or equals the simulated value."""
    other = both["value_other"]
    is_same = both["apart"].abs() < SAME
    return is_same | (both["ci95_low_simulate"] <= other) & (other <= both["ci95_high_simulate"])


def in_words(rows: pd.DataFrame) -> list[str]:
    """What is incomplete; then a sentence for each other level, and for its approximations."""
    said = list(_cut(rows))
    for level in (LEVELS[0], TESTBED):
        both = paired(rows, level).both
        is_rough = both["state_other"] == APPROXIMATION
        if not (exact := both[~is_rough]).empty:
            near = int(((exact["apart"].abs() <= LEVEL_TOLERANCE) | is_inside(exact)).sum())
            said.append(
                f"{near:,} of {len(exact):,} simulated values are within "
                f"{LEVEL_TOLERANCE * 100:.0f} % of the {level}'s, or their interval contains it"
            )
        for metric, rough in both[is_rough].groupby("metric", sort=False):
            reach = " to ".join(f"{rough['apart'].agg(end) * 100:+.1f} %" for end in ("min", "max"))
            label = describe(str(metric)).label
            said.append(f"{label}: simulated differs by {reach} from the {level}'s approximation")
    return said


def _cut(rows: pd.DataFrame) -> Iterator[str]:
    """What each level did not complete, by metric."""
    for (level, metric), cut in rows[rows["state"] == INCOMPLETE].groupby(["level", "metric"]):
        same = rows[(rows["level"] == level) & (rows["metric"] == metric)]
        yield f"{level}: {len(cut):,} of {len(same):,} values of {metric} are incomplete: {WHY_CUT}"


def _is_blunt(both: pd.DataFrame) -> pd.Series:
    """Whether simulated values are too uncertain: zero waits, and intervals that are too wide."""
    value = both["value_simulate"]
    half = (both["ci95_high_simulate"] - both["ci95_low_simulate"]) / 2
    return (value == 0) | (half > BLUNT * value.abs())
