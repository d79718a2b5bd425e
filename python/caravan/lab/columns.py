"""Tables on a terminal: whole names and numbers, however narrow it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WIDEST = 10_000
GAP = 2
"""Blanks between two columns."""


def table(*columns: str, right: Sequence[str] = ()) -> Table:
    """An empty table with these columns; those of numbers are `right`."""
    from rich.table import Table  # noqa: PLC0415

    made = Table(box=None, pad_edge=False)
    for number, column in enumerate(columns):
        is_right = column in right
        is_whole = is_right or number == 0
        made.add_column(column, justify="right" if is_right else "left", no_wrap=is_whole)
    return made


def show(console: Console, shown: Table) -> None:
    """Print a table without the blanks that would fill its last column."""
    least = _least_width(console, shown)
    if least > console.width:
        # Let the terminal wrap lines rather than truncate names and numbers.
        shown.width = least
    with console.capture() as captured:
        console.print(shown)
    for line in captured.get().splitlines():
        console.file.write(f"{line.rstrip()}\n")


def _least_width(console: Console, shown: Table) -> int:
    """The least width with whole names and numbers, and other columns broken at each word."""
    from rich.measure import Measurement  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    options = console.options.update(width=WIDEST)
    least = 0
    for column in shown.columns:
        texts = [Text.from_markup(str(cell)) for cell in (column.header, *column.cells)]
        sizes = [Measurement.get(console, options, text) for text in texts]
        least += max(size.maximum if column.no_wrap else size.minimum for size in sizes)
    return least + (len(shown.columns) - 1) * GAP


def standing(word: str, *, is_forbidden: bool) -> str:
    """The standing of algorithms, and whether a standard forbids any of them."""
    return f"{word}, MUST NOT" if is_forbidden else word
