"""The parts that all messages of the lab share: errors, and the nearest valid word.

Every refusal is one sentence: the place (an option, or file, line and key), what is wrong, and what
to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from caravan import _lab

UNPRICED = frozenset({"unpriced", "no-formula"})
"""Codes of the native core for a cost table without a price, or an unknown size."""


def printable(text: str) -> str:
    """The text with what a terminal would obey in escapes; line ends stay."""
    return "".join(one if one.isprintable() or one == "\n" else ascii(one)[1:-1] for one in text)


@dataclass(frozen=True)
class Place:
    """Where a value was written; lines and columns count from 1, None is unknown.

    `file` is None for an edit from outside, as `--set`; `key` is in the form of `--set`.
    """

    file: str | None
    line: int | None
    column: int | None
    key: str

    @classmethod
    def edit(cls, key: str) -> Place:
        """The place of an edit of `key`."""
        return cls(None, None, None, key)

    @property
    def is_edit(self) -> bool:
        """Whether an edit set the value there."""
        return self.file is None


class Refused(ValueError):
    """Says which file, line, key or option is wrong, and what would be right.

    Its text is one sentence for people; code reads the attributes. `code` is that of the native
    core's refusal, otherwise empty. `what` is the sentence without `place`; `brief` leaves out the
    remedy, for lists. `argument` is the wrong value of a request.
    """

    def __init__(self, said: str) -> None:
        super().__init__(said)
        self.code = ""
        self.place: Place | None = None
        self.what = self.brief = said
        self.argument: str | None = None

    @classmethod
    def of(cls, fault: Refused | _lab.Refusal) -> Self:
        """The same refusal in this class."""
        found = cls(str(fault))
        found.code, found.what, found.brief = fault.code, fault.what, fault.brief
        found.argument = fault.argument
        place = fault.place
        found.place = Place(*place) if isinstance(place, tuple) else place
        return found

    @classmethod
    def told(cls, answer: Mapping[str, Any]) -> Self:
        """A refusal in an answer of the native core."""
        found = cls(answer["said"])
        found.code, found.what, found.brief = answer["code"], answer["what"], answer["brief"]
        found.place = Place(*answer["place"]) if answer["place"] else None
        return found

    @classmethod
    def edit(cls, key: str, what: str) -> Self:
        """An error of the edit of `key`."""
        found = cls(f"--set {key}: {what}")
        found.place, found.what, found.brief = Place.edit(key), what, what
        return found

    @property
    def is_unpriced(self) -> bool:
        """Whether a cost table has no price, or a size is unknown."""
        return self.code in UNPRICED


class Stopped(Exception):
    """Ctrl-C; its text says what is kept."""


def unknown(what: str, word: str, valid: Iterable[str]) -> str:
    """ "unknown `what` 'word'", and the nearest valid one or all of them."""
    return f"unknown {what} '{word}', {nearest(word, valid)}"


def nearest(word: str, valid: Iterable[str]) -> str:
    """Half a sentence: the valid word nearest to `word`, otherwise all valid ones."""
    return _lab.choices(word, list(valid))
