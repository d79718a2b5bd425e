"""Cells of the testbed: what measures them, and what their results hold, metrics with intervals."""

from __future__ import annotations

import contextlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

from caravan.study.metrics import Measure
from caravan.study.text import StudyError
from caravan.study.tunnel import COMPLETE


def read(result: bytes) -> list[Measure]:
    """The metrics of a result."""
    return [
        Measure(one["metric"], one["value"], one["low"], one["high"], COMPLETE)
        for one in json.loads(result)
    ]


class Bed(Protocol):
    """What stays for cells to come."""

    def measure(self, setting: Any) -> list[dict[str, Any]]:
        """The metrics of a cell."""


class Measuring(ABC):
    """Measures cells one after the other in a bed that the first one makes. A context manager.

    Its parts import the testbed only when a cell is measured.
    """

    name: ClassVar[str]
    """Of the bed's folder."""

    def __init__(self) -> None:
        self._running = contextlib.ExitStack()
        self._bed: Bed | None = None

    @abstractmethod
    def bed(self, output: Path) -> AbstractContextManager[Bed]:
        """A new bed."""

    @abstractmethod
    def setting(self, request: Mapping[str, Any]) -> object:
        """A cell as the bed knows it."""

    @abstractmethod
    def place(self, request: Mapping[str, Any]) -> str:
        """A cell in the words of an error."""

    def result(self, request: Mapping[str, Any]) -> bytes:
        """The result of a cell; the process must have entered a private namespace."""
        from caravan.testbed import NamespaceError  # noqa: PLC0415
        from caravan.testbed.folders import temporary_folder  # noqa: PLC0415

        try:
            if self._bed is None:
                output = self._running.enter_context(temporary_folder(f"caravan-{self.name}-"))
                self._bed = self._running.enter_context(self.bed(output))
            return json.dumps(self._bed.measure(self.setting(request))).encode()
        except (NamespaceError, OSError, ValueError) as fault:
            raise StudyError(f"--level testbed: {self.place(request)}: {fault}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()
