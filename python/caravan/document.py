"""TOML texts as the native core parses them: every value with its line and column.

All files of the lab use one reader, in Rust. Left out: the meaning of values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from caravan import _lab

Step = str | int
"""A key of a table, or an index of a list."""


@dataclass(frozen=True)
class Item:
    """A value and the position of its key, from 1.

    `value`: a text, number or truth value, or items in a table or a list.
    """

    line: int
    column: int
    value: str | float | bool | Mapping[str, Item] | Sequence[Item]

    @classmethod
    def parse(cls, file: str, text: str) -> Item:
        """The whole text. Invalid TOML is a `ValueError` with file, line and column."""
        return cls._of(json.loads(_lab.document(file, text)))

    @classmethod
    def _of(cls, node: Mapping[str, Any]) -> Item:
        line, column = node["at"]
        if "table" in node:
            return cls(line, column, {key: cls._of(inner) for key, inner in node["table"]})
        if "list" in node:
            return cls(line, column, [cls._of(inner) for inner in node["list"]])
        return cls(line, column, node["value"])

    def plain(self) -> Any:
        """The value without positions."""
        if isinstance(self.value, Mapping):
            return {key: inner.plain() for key, inner in self.value.items()}
        if isinstance(self.value, list):
            return [inner.plain() for inner in self.value]
        return self.value

    def find(self, path: Sequence[Step]) -> Item:
        """The item at `path`, or the closest one around it."""
        if not path:
            return self
        inner: Item | None = None
        if isinstance(self.value, Mapping):
            inner = self.value.get(str(path[0]))
        elif isinstance(self.value, list) and isinstance(path[0], int):
            inner = self.value[path[0]] if path[0] < len(self.value) else None
        return self if inner is None else inner.find(path[1:])


def plain(file: str, text: str) -> dict[str, Any]:
    """The values of a text."""
    values: dict[str, Any] = Item.parse(file, text).plain()
    return values
