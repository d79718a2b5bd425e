"""What a user asks of the advisor: properties, budgets and a day, as words of the command line.

Left out: how a stack meets them (`choice`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

from caravan.advice.stacks import DATA
from caravan.advice.standings import UNJUDGED, day, standings
from caravan.messages import Refused, unknown
from caravan.numbers import significant

DEFAULT = DATA
"""The properties that are asked in any case, unless `CLEAR` is tolerated."""
CLEAR = "clear"
ALSO = {
    UNJUDGED: "what no standard judges",
    CLEAR: f"what does not give {' and '.join(DEFAULT)}",
}
"""What an answer may be only if the user says so."""
TIMES = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}
SHARES = {"%": 0.01}
SIZES = {"B": 1.0, "KB": 1e3, "MB": 1e6}
COUNTS = {"": 1.0}
US_BELOW_S, S_FROM_S = 1e-4, 10.0
"""Times between these are shown in ms."""
AMOUNT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z%]*)\s*")
MINUS = ("-", "\N{MINUS SIGN}")


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
    """Properties that a stack must have, limits that it must keep, the day of the answer, and what
    it may be also.

    Limits are by names of `BUDGETS`, in s, bytes, shares and counts. `also` are words of `ALSO`.
    """

    must: tuple[str, ...]
    budgets: Mapping[str, float] = field(default_factory=dict)
    as_of: date = field(default_factory=date.today)
    also: tuple[str, ...] = ()

    @classmethod
    def read(
        cls, must: str | None, budget: str | None, as_of: str | None, also: str | None = None
    ) -> Asked:
        """From the words of the options; None is the default."""
        tolerated = () if also is None else _words("--also", "word", also, ALSO)
        asked = () if must is None else _words("--must", "property", must, standings().properties)
        always = () if CLEAR in tolerated else DEFAULT
        return cls(
            tuple(dict.fromkeys([*always, *asked])),
            {} if budget is None else budgets(budget),
            date.today() if as_of is None else _day(as_of),
            tolerated,
        )


def _day(text: str) -> date:
    try:
        return day(text)
    except Refused as fault:
        raise Refused(f"--as-of: {fault}") from None


def _words(option: str, what: str, text: str, valid: Mapping[str, str]) -> tuple[str, ...]:
    """The words of an option, each once."""
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word not in valid:
            raise Refused(f"{option}: {unknown(what, word, valid)}")
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
    if text.startswith(MINUS) and AMOUNT.fullmatch(text[1:]):
        raise Refused(
            f"--budget: {name}={text}: must not be below 0: write {name}={_example(name)}"
        )
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
        if amount and amount < US_BELOW_S:
            return f"{significant(amount * 1e6)} us"
        is_long = amount >= S_FROM_S
        return f"{significant(amount)} s" if is_long else f"{significant(amount * 1e3)} ms"
    if units is SHARES:
        return f"{significant(amount * 100, 3)} %"
    return f"{significant(amount)} bytes" if units is SIZES else f"{amount:g}"
