"""What all messages of the lab share: their faults, and the word that a wrong one is a slip of.

Every refusal is one sentence: the place (an option, or file, line and key), what is wrong, and
what to do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from caravan import _lab

PLACE = re.compile(r"^(?:--set [^:]+|[^:]+:\d+(?::\d+)?(?:: [^:]+)?): ")


class Refused(ValueError):
    """Says which file, line, key or option is wrong, and what would be right."""


class Stopped(Exception):
    """Ctrl-C; its text says what is kept."""


def unknown(what: str, word: str, valid: Iterable[str]) -> str:
    """ "unknown `what` 'word'", and the nearest valid one or all of them."""
    return f"unknown {what} '{word}', {nearest(word, valid)}"


def nearest(word: str, valid: Iterable[str]) -> str:
    """Half a sentence: the valid word that `word` is a slip or a part of, else all valid ones."""
    return _lab.choices(word, list(valid))


def is_unpriced(fault: str) -> bool:
    """Whether the native core refused because a cost table has no price, or no size is known."""
    return " has no cost of " in fault or " has no formula for " in fault


def without_place(fault: str) -> str:
    """A refusal of the native core for lists, where the place is the same in every line."""
    return PLACE.sub("", fault).partition("; suites inside")[0]
