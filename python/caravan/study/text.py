"""Strict reading of study files: every key is known, every value has its type, every error its
place.

`caravan.document` parses the text. Left out: the meaning of values, which is in `parse`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from caravan import _lab
from caravan.document import Item, Step
from caravan.messages import Place, Refused, unknown

T = TypeVar("T")
Value = str | int | float | bool
"""The leaf types of a TOML table here."""


class StudyError(Refused):
    """Says which file, line and key are wrong, and what would be right."""


class Table:
    """One table of the file. Every key is taken once; `done` refuses the rest."""

    def __init__(self, file: str, item: Item, path: tuple[Step, ...]) -> None:
        self._file = file
        self._item = item
        self._path = path
        self._values: dict[str, object] = item.plain()
        self._known: list[str] = []

    @classmethod
    def parse(cls, file: str, text: str) -> Table:
        """The whole file. Errors of TOML itself name their line too."""
        try:
            return cls(file, Item.parse(file, text), ())
        except _lab.Refusal as fault:
            raise StudyError.of(fault) from None

    def fault(self, key: str, what: str, *inner: Step) -> StudyError:
        """An error at `key` of this table."""
        inside = (key, *inner) if key else ()
        dotted = ".".join(str(step) for step in (*self._path, *inside)) or "the file"
        at = self._item.find(inside)
        found = StudyError(f"{self._file}:{at.line}:{at.column}: {dotted}: {what}")
        found.place, found.what = Place(self._file, at.line, at.column, dotted), what
        return found

    def has(self, key: str) -> bool:
        """Whether the file has it."""
        self._known.append(key)
        return key in self._values

    def _take(self, key: str) -> object:
        self._known.append(key)
        if key not in self._values:
            strange = [name for name in self._values if name not in self._known]
            if slip := _lab.nearest(key, strange):
                raise self.fault(slip, unknown("key", slip, [key]))
            raise self.fault("", f"the key '{key}' is missing")
        return self._values[key]

    def text(self, key: str, default: str | None = None) -> str:
        """A string."""
        if default is not None and not self.has(key):
            return default
        value = self._take(key)
        if not isinstance(value, str):
            raise self.fault(key, f"must be text, found {value!r}")
        return value

    def choice(self, key: str, valid: Sequence[str], default: str | None = None) -> str:
        """One of the `valid` strings."""
        value = self.text(key, default)
        if value not in valid:
            raise self.fault(key, unknown("value", value, valid))
        return value

    def number(self, key: str, default: float | None = None, above: float = -1e300) -> float:
        """A finite number above `above`."""
        if default is not None and not self.has(key):
            return default
        value = self._take(key)
        return self.check_number(value, key, above)

    def check_number(self, value: object, key: str, above: float = -1e300) -> float:
        """Convert `value` to a number, or report an error at `key`."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.fault(key, f"must be a number, found {value!r}")
        if not above < value < 1e300:
            raise self.fault(key, f"must be above {above:g} and finite, found {value}")
        return float(value)

    def count(self, key: str, default: int | None = None, most: int = 1_000_000) -> int:
        """A whole number from 1 to `most`."""
        if default is not None and not self.has(key):
            return default
        value = self._take(key)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise self.fault(key, f"must be a whole number from 1 to {most}, found {value!r}")
        return value

    def flag(self, key: str) -> bool:
        """True or false; false if absent."""
        if not self.has(key):
            return False
        value = self._take(key)
        if not isinstance(value, bool):
            raise self.fault(key, f"must be true or false, found {value!r}")
        return value

    def values(self, key: str) -> tuple[Value, ...]:
        """A list of texts and numbers; empty if absent."""
        if not self.has(key):
            return ()
        found = self._take(key)
        if not isinstance(found, list) or not all(isinstance(item, Value) for item in found):
            raise self.fault(key, f"must be a list of texts or numbers, found {found!r}")
        return tuple(found)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; empty if absent."""
        found = self.values(key)
        if not all(isinstance(item, str) for item in found):
            raise self.fault(key, f"must be a list of texts, found {list(found)!r}")
        return tuple(str(item) for item in found)

    def leaves(self, key: str, valid: Sequence[str] = ()) -> dict[str, Value]:
        """A table of leaves; if `valid` is given, only with these keys."""
        if not self.has(key):
            return {}
        found = self._take(key)
        if not isinstance(found, dict):
            raise self.fault(key, f"must be a table, found {found!r}")
        for name, value in found.items():
            if valid and name not in valid:
                raise self.fault(key, unknown("key", name, valid), name)
            if not isinstance(value, Value):
                raise self.fault(key, f"must be text or a number, found {value!r}", name)
        return dict(found)

    def rows(self, key: str) -> list[list[object]]:
        """A list of lists."""
        found = self._take(key)
        if not isinstance(found, list) or not all(isinstance(row, list) for row in found):
            raise self.fault(key, "must be a list of lists")
        return found

    def table(self, key: str) -> Table:
        """An inner table; empty if absent."""
        found = self._take(key) if self.has(key) else {}
        if not isinstance(found, dict):
            raise self.fault(key, f"must be a table, found {found!r}")
        at = self._item.find((key,))
        inner = at if key in self._values else Item(at.line, at.column, {})
        return Table(self._file, inner, (*self._path, key))

    def tables(self, key: str, read: Callable[[Table], T]) -> tuple[T, ...]:
        """`[[key]]`: read each one with `read`, then check that all keys were taken."""
        if not self.has(key):
            return ()
        found = self._take(key)
        if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
            raise self.fault(key, f"must be a list of tables, [[{key}]]")
        out = []
        for index in range(len(found)):
            item = self._item.find((key, index))
            inner = Table(self._file, item, (*self._path, key, index))
            out.append(read(inner))
            inner.done()
        return tuple(out)

    def peek(self, key: str) -> object:
        """The value without taking it."""
        return self._values.get(key)

    def names(self) -> tuple[str, ...]:
        """The keys of the table."""
        return tuple(self._values)

    def done(self) -> None:
        """Refuse keys that were not taken."""
        for key in self._values:
            if key not in self._known:
                raise self.fault(key, unknown("key", key, sorted(set(self._known))))
