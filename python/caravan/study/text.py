"""Study files are read strictly: each key is known, each value has its type, each fault its line.

`tomllib` forgets where a key stood, so `Lines` finds the line again from the path of the key.
Left out: what the values mean, which is `parse`.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from caravan.messages import LIKENESS, Refused, unknown

Step = str | int
T = TypeVar("T")
Value = str | int | float | bool
"""What a TOML table may hold at its leaves here."""

HEADER = re.compile(r"^\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
KEY = re.compile(r"""^\s*((?:"[^"]*"|'[^']*'|[\w-]+)(?:\s*\.\s*(?:"[^"]*"|[\w-]+))*)\s*=""")
PART = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([\w-]+))\s*\.?""")
STRING = re.compile(r'"(?:\\.|[^"\\])*"|\'[^\']*\'')

TRIPLE_QUOTES = ('"' * 3, "'" * 3)


class StudyError(Refused):
    """Says which file, line and key are wrong, and what would be right."""


class Lines:
    """Where the keys of a TOML text stand."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()
        self._starts: dict[tuple[Step, ...], int] = {}
        self._scan()

    def find(self, path: Sequence[Step]) -> int:
        """The line of the key at `path`, or of the closest table around it; 1 at worst."""
        whole = tuple(path)
        for length in range(len(whole), 0, -1):
            start = self._starts.get(whole[:length])
            if start is None:
                # Of [[a list]] that nobody asked for, the first.
                start = self._starts.get((*whole[:length], 0))
            if start is not None:
                return self._inside(start, whole[length:])
        return 1

    def _inside(self, start: int, rest: tuple[Step, ...]) -> int:
        """An inline table may go over lines: look for the innermost key that is a word."""
        words = [step for step in rest if isinstance(step, str)]
        if not words:
            return start
        key = re.compile(rf'(?:^|[\s{{,"]){re.escape(words[-1])}"?\s*=')
        for number in range(start, min(start + 200, len(self._lines) + 1)):
            line = self._lines[number - 1]
            if number > start and HEADER.match(line):
                break
            if key.search(line):
                return number
        return start

    def _scan(self) -> None:
        table: tuple[Step, ...] = ()
        counts: dict[tuple[Step, ...], int] = {}
        depth, quote = 0, ""
        for number, line in enumerate(self._lines, start=1):
            if not depth and not quote:
                if header := HEADER.match(line):
                    table = self._open(header[2], header[1] == "[[", counts)
                    self._starts.setdefault(table, number)
                    continue
                if key := KEY.match(line):
                    self._starts.setdefault((*table, *split_key(key[1])), number)
            depth, quote = _still_open(line, depth, quote)

    @staticmethod
    def _open(name: str, is_list: bool, counts: dict[tuple[Step, ...], int]) -> tuple[Step, ...]:
        path: tuple[Step, ...] = ()
        parts = split_key(name)
        for index, part in enumerate(parts):
            path = (*path, part)
            if is_list and index == len(parts) - 1:
                counts[path] = counts.get(path, -1) + 1
            if path in counts:
                path = (*path, counts[path])
        return path


def split_key(dotted: str) -> list[str]:
    """The parts of `a."b c".d`."""
    return [match[1] or match[2] or match[3] or "" for match in PART.finditer(dotted)]


def _still_open(line: str, depth: int, quote: str) -> tuple[int, str]:
    """Brackets and triple quotes that are open after this line."""
    for mark in TRIPLE_QUOTES:
        if quote in ("", mark) and line.count(mark) % 2 == 1:
            return depth, "" if quote else mark
    if quote:
        return depth, quote
    bare = STRING.sub("", line).split("#")[0]
    opened = bare.count("[") + bare.count("{") - bare.count("]") - bare.count("}")
    return max(0, depth + opened), ""


class Table:
    """One table of the file. Every key is taken once; `done` refuses those that are left."""

    def __init__(
        self, file: str, lines: Lines, path: tuple[Step, ...], values: Mapping[str, object]
    ) -> None:
        self._file = file
        self._lines = lines
        self._path = path
        self._values = dict(values)
        self._known: list[str] = []

    @classmethod
    def parse(cls, file: str, text: str) -> Table:
        """The whole file. Faults of TOML itself name their line too."""
        try:
            values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as fault:
            where = re.search(r"line (\d+)", str(fault))
            line = where[1] if where else text.count("\n") + 1
            raise StudyError(f"{file}:{line}: {fault}") from None
        if not values:
            raise StudyError(f"{file}: the file is empty")
        return cls(file, Lines(text), (), values)

    def fault(self, key: str, what: str, *inner: Step) -> StudyError:
        """An error at `key` of this table."""
        path = (*self._path, key, *inner) if key else self._path
        dotted = ".".join(str(step) for step in path) or "the file"
        return StudyError(f"{self._file}:{self._lines.find(path)}: {dotted}: {what}")

    def has(self, key: str) -> bool:
        """Whether the file gives it."""
        self._known.append(key)
        return key in self._values

    def _take(self, key: str) -> object:
        self._known.append(key)
        if key not in self._values:
            strange = [name for name in self._values if name not in self._known]
            if close := difflib.get_close_matches(key, strange, n=1, cutoff=LIKENESS):
                raise self.fault(close[0], unknown("key", close[0], [key]))
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
        """A string out of `valid`."""
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
        """The number that `value` is, or the fault at `key`."""
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
        """True or false; false where it is absent."""
        if not self.has(key):
            return False
        value = self._take(key)
        if not isinstance(value, bool):
            raise self.fault(key, f"must be true or false, found {value!r}")
        return value

    def values(self, key: str) -> tuple[Value, ...]:
        """A list of texts and numbers; none where it is absent."""
        if not self.has(key):
            return ()
        found = self._take(key)
        if not isinstance(found, list) or not all(isinstance(item, Value) for item in found):
            raise self.fault(key, f"must be a list of texts or numbers, found {found!r}")
        return tuple(found)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; none where it is absent."""
        found = self.values(key)
        if not all(isinstance(item, str) for item in found):
            raise self.fault(key, f"must be a list of texts, found {list(found)!r}")
        return tuple(str(item) for item in found)

    def leaves(self, key: str, valid: Sequence[str] = ()) -> dict[str, Value]:
        """A table of leaves, its keys out of `valid` where that is given."""
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
        """An inner table; empty where it is absent."""
        found = self._take(key) if self.has(key) else {}
        if not isinstance(found, dict):
            raise self.fault(key, f"must be a table, found {found!r}")
        return Table(self._file, self._lines, (*self._path, key), found)

    def tables(self, key: str, read: Callable[[Table], T]) -> tuple[T, ...]:
        """`[[key]]`, each read by `read` and then closed."""
        if not self.has(key):
            return ()
        found = self._take(key)
        if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
            raise self.fault(key, f"must be a list of tables, [[{key}]]")
        out = []
        for index, item in enumerate(found):
            inner = Table(self._file, self._lines, (*self._path, key, index), item)
            out.append(read(inner))
            inner.done()
        return tuple(out)

    def peek(self, key: str) -> object:
        """The value as it stands, without taking it."""
        return self._values.get(key)

    def names(self) -> tuple[str, ...]:
        """What the file gives here."""
        return tuple(self._values)

    def done(self) -> None:
        """Refuse keys that nobody took."""
        for key in self._values:
            if key not in self._known:
                raise self.fault(key, unknown("key", key, sorted(set(self._known))))
