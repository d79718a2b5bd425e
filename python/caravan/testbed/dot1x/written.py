"""Texts of a study that say what the testbed shall do, and refusals that name their file and key.

A request carries every text that it needs, in the native core's form: `kind`, `name`, `file` and
`text`. The native core has checked them. Left out: the meaning of values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from caravan.document import Item, Step
from caravan.messages import Place, Refused

Catalogue = Sequence[Mapping[str, str]]


@dataclass(frozen=True)
class Written:
    """A text: its `file` for messages, and its values with their places."""

    file: str
    item: Item

    @classmethod
    def of(cls, text: Mapping[str, str]) -> Written:
        """Parse a text."""
        return cls(text["file"], Item.parse(text["file"], text["text"]))

    @property
    def values(self) -> Mapping[str, Any]:
        """Its values without places."""
        found: Mapping[str, Any] = self.item.plain()
        return found

    def path(self, steps: Sequence[Step]) -> tuple[Step, ...] | None:
        """The way to a value; a text after a list is the name of its member. None: it is absent."""
        found: list[Step] = []
        at: Any = self.values
        for step in steps:
            where: Step | None = step
            if isinstance(at, list) and isinstance(step, str):
                names = (index for index, one in enumerate(at) if one.get("name") == step)
                where = next(names, None)
            is_there = (
                where in at
                if isinstance(at, Mapping)
                else where is not None and isinstance(at, list)
            )
            if not is_there or where is None:
                return None
            found.append(where)
            at = at[where]
        return tuple(found)

    def fault(self, steps: Sequence[Step], what: str) -> Refused:
        """A refusal at a value, or at the nearest one around it."""
        key = ".".join(map(str, steps))
        known = next(
            path
            for count in range(len(steps), -1, -1)
            if (path := self.path(steps[:count])) is not None
        )
        at = self.item.find(known)
        found = Refused(f"{self.file}:{at.line}:{at.column}: {key}: {what}")
        found.place, found.what = Place(self.file, at.line, at.column, key), what
        return found


def find(kind: str, name: str, catalogue: Catalogue) -> Written | None:
    """A text of a request; None: it has none of this name."""
    named = (one for one in catalogue if (one["kind"], one["name"]) == (kind, name))
    return next(map(Written.of, named), None)


def with_bases(own: Mapping[str, str], catalogue: Catalogue) -> Iterator[Written]:
    """A scenario's text, and those of its bases."""
    text: Written | None = Written.of(own)
    while text is not None:
        yield text
        base = text.values.get("base")
        text = None if base is None else find("scenario", base, catalogue)
