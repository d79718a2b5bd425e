"""`caravan-lab advise`. Status 3: nothing fits, and the nearest miss is named."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from caravan.advice.question import ALSO, BUDGETS, DEFAULT
from caravan.advice.standings import standings
from caravan.messages import Refused

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

NOTHING_FITS = 3
PIPED_WIDTH = 10_000
"""Output without a terminal has no width, so lines are not wrapped."""


def add_to(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("advise")(advise_command)


def advise_command(
    *,
    scenario: Annotated[
        list[str], typer.Option(metavar="SCENARIO", help="a scenario: its name or a file")
    ],
    must: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PROPERTY,...",
            help=f"of {', '.join(standings().properties)}; besides {' and '.join(DEFAULT)}, which "
            "are always asked; may be repeated",
        ),
    ] = None,
    budget: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=LIMIT,...",
            help=f"of {', '.join(BUDGETS)}, as gap=100ms,bytes=10%; may be repeated",
        ),
    ] = None,
    as_of: Annotated[
        list[str] | None, typer.Option(metavar="DATE", help="as 2020-06-30; default: today")
    ] = None,
    also: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORD,...",
            help="what else the answer may be: "
            f"{', '.join(f'{word} ({says})' for word, says in ALSO.items())}; may be repeated",
        ),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="a table of all stacks that apply, not the nearest ones")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="one JSON object for programs, all stacks")
    ] = False,
) -> None:
    """Name the cheapest security stack that standards allow, and why; status 3 if none fits.

    What no standard judges, such as WireGuard, is an answer only with --also unjudged.
    """
    from rich.console import Console  # noqa: PLC0415

    from caravan.advice import answers  # noqa: PLC0415
    from caravan.advice.choice import advise  # noqa: PLC0415
    from caravan.advice.question import Asked  # noqa: PLC0415

    of = _only("--scenario", scenario)
    day = _only("--as-of", as_of) if as_of else None
    asked = Asked.read(_joined(must), _joined(budget), day, _joined(also))
    found = advise(of, asked)
    for doubt in found.setting.doubts:
        sys.stderr.write(f"caravan-lab: warning: {doubt}\n")
    if as_json:
        sys.stdout.write(json.dumps(answers.as_json(found), allow_nan=False) + "\n")
    else:
        console = Console(highlight=False, soft_wrap=True)
        if not console.is_terminal:
            console.width = PIPED_WIDTH
        console.print(answers.heading(found), markup=False)
        console.print()
        _show(console, answers.table(found, every=every))
        for line in answers.below(found, every=every):
            console.print(line, markup=False)
        console.print()
        for line in answers.sentences(found):
            console.print(line, markup=False)
    if found.best is None:
        raise typer.Exit(NOTHING_FITS)


def _joined(words: list[str] | None) -> str | None:
    """What a repeated option asks for in all."""
    return ",".join(words) if words else None


def _only(option: str, words: list[str]) -> str:
    """The value of an option that makes no sense twice."""
    if len(words) > 1:
        raise Refused(f"{option}: {', '.join(words)}: give only one of them")
    return words[0]


def _show(console: Console, table: Table) -> None:
    """Print a table whole, without the blanks that would fill its last column."""
    from rich.measure import Measurement  # noqa: PLC0415

    options = console.options.update(width=PIPED_WIDTH)
    table.width = Measurement.get(console, options, table).maximum
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        console.file.write(f"{line.rstrip()}\n")
