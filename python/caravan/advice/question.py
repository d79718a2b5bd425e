"""What a user asks of the advisor: properties, budgets and a day, as words of the command line.

Left out: how a stack meets them (`choice`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

from caravan.advice.standings import day, standings
from caravan.messages import Refused, unknown
from caravan.numbers import significant

DEFAULT = ("confidentiality", "integrity")
"""The properties that are asked if nothing else is."""
TIMES = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}
SHARES = {"%": 0.01}
SIZES = {"B": 1.0, "KB": 1e3, "MB": 1e6}
COUNTS = {"": 1.0}
AMOUNT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z%]*)\s*")


@dataclass(frozen=True)
class Kind:
    """A budget: its meaning, and its units with their factors."""

    says: str
    units: Mapping[str, float]


BUDGETS = {
    "bytes": Kind(
        "what the stack adds to the bytes on the client's link, messages included", SHARES
    ),
    "gap": Kind("the longest gap of a move", TIMES),
    "setup": Kind("time until the first data may leave", TIMES),
    "rounds": Kind("how often the client waits before that", COUNTS),
    "messages": Kind("bytes of the messages before that, on the client's link", SIZES),
    "device": Kind("time of the client's device for a packet", TIMES),
}


@dataclass(frozen=True)
class Asked:
    """Properties that a stack must have, limits that it must keep, and the day of the answer.

    Limits are by names of `BUDGETS`, in s, bytes, shares and counts.
    """

    must: tuple[str, ...]
    budgets: Mapping[str, float] = field(default_factory=dict)
    as_of: date = field(default_factory=date.today)

    @classmethod
    def read(cls, must: str | None, budget: str | None, as_of: str | None) -> Asked:
        """From the words of the options; None is the default."""
        return cls(
            DEFAULT if must is None else properties(must),
            {} if budget is None else budgets(budget),
            date.today() if as_of is None else _day(as_of),
        )


def _day(text: str) -> date:
    try:
        return day(text)
    except Refused as fault:
        raise Refused(f"--as-of: {fault}") from None


def properties(text: str) -> tuple[str, ...]:
    """The words of `--must`."""
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word not in standings().properties:
            raise Refused(f"--must: {unknown('property', word, standings().properties)}")
    return tuple(dict.fromkeys(words))


def budgets(text: str) -> dict[str, float]:
    """The limits of `--budget`, as `gap=100ms,bytes=10%`."""
    found: dict[str, float] = {}
    for part in text.split(","):
        name, mark, amount = (word.strip() for word in part.partition("="))
        if name not in BUDGETS:
            raise Refused(f"--budget: {unknown('budget', name, BUDGETS)}")
        if name in found:
            raise Refused(f"--budget: {name} is given twice")
        if not mark:
            raise Refused(f"--budget: {name}: no limit: write {name}={_example(name)}")
        found[name] = _limit(name, amount)
    return found


def _limit(name: str, text: str) -> float:
    units = BUDGETS[name].units
    match = AMOUNT.fullmatch(text)
    if match is None:
        raise Refused(f"--budget: {name}={text}: not a number: write {name}={_example(name)}")
    number, unit = match.groups()
    if unit not in units:
        valid = ", ".join(filter(None, units)) or "none"
        what = "a unit is missing" if not unit else f"'{unit}' is not its unit"
        raise Refused(f"--budget: {name}={text}: {what}; valid: {valid}")
    limit = float(number) * units[unit]
    if not math.isfinite(limit):
        raise Refused(f"--budget: {name}: {len(text)} characters, the number is too large")
    if units is COUNTS and not limit.is_integer():
        raise Refused(f"--budget: {name}={text}: must be a whole number")
    return limit


def _example(name: str) -> str:
    units = tuple(BUDGETS[name].units)
    return {"%": "10%", "B": "5KB", "": "3"}.get(units[0], "100ms")


def shown(name: str, amount: float) -> str:
    """An amount of a budget for people."""
    units = BUDGETS[name].units
    if units is TIMES:
        is_long = amount >= 10.0
        return f"{significant(amount)} s" if is_long else f"{significant(amount * 1e3)} ms"
    if units is SHARES:
        return f"{significant(amount * 100, 3)} %"
    return f"{significant(amount)} bytes" if units is SIZES else f"{amount:g}"
