"""`caravan-lab run` and `caravan-lab compare`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from caravan.study.claims import verdicts
from caravan.study.compare import TOLERANCE, compare
from caravan.study.files import load
from caravan.study.published import headline, matches
from caravan.study.runner import Choice, Outcome, run
from caravan.study.store import Stopped
from caravan.study.text import StudyError

DIFFERENCES_SHOWN = 20
STOPPED = 130


def add_to(app: typer.Typer) -> None:
    """Give `app` the commands of studies."""
    app.command("run")(run_command)
    app.command("compare")(compare_command)


def run_command(
    study: Annotated[str, typer.Argument(help="a study's name, file or folder")],
    *,
    output: Annotated[Path, typer.Option("-o", "--output", help="folder for results and report")],
    level: Annotated[
        list[str] | None,
        typer.Option(help="model, simulate or testbed; may be repeated; all but testbed if absent"),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="shorter runs and a smaller grid")] = False,
    jobs: Annotated[
        int | None, typer.Option(min=1, max=1024, help="threads; all cores if absent")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(help="address of a Dask scheduler, as tcp://host:8786")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=2**31 - 1, help="the study's own if absent")
    ] = None,
) -> None:
    """Run a study: results as Parquet and CSV, figures, and a report to open in a browser."""
    console = Console(highlight=False, soft_wrap=True)
    if jobs and cluster:
        _fail(console, "--jobs and --cluster: choose one")
    choice = Choice(tuple(level or ()), quick, seed, jobs, cluster)
    try:
        report = run_and_report(study, choice, output, console)
    except StudyError as fault:
        _fail(console, str(fault))
    except Stopped as stopped:
        _stop(str(stopped))
    except KeyboardInterrupt:
        _stop("stopped; run again to go on")
    console.print(f"Report  {report}", markup=False)


def run_and_report(study: str, choice: Choice, output: Path, console: Console) -> Path:
    """Run the study and write its report; print what came of it. The path of the report."""
    from caravan.report import write_report  # noqa: PLC0415

    outcome = run(load(study), choice, output, console)
    report = write_report(outcome.study, outcome.rows, outcome.provenance, output)
    console.print(summary(outcome), markup=False)
    return report.resolve()


def summary(outcome: Outcome) -> str:
    """Two lines: what was run, and how it stands to what is printed."""
    rows = outcome.rows
    printed = headline(outcome.study, rows)
    near = matches(printed)
    decided = [verdict for verdict in verdicts(outcome.study, rows) if verdict.holds is not None]
    held = sum(bool(verdict.holds) for verdict in decided)
    packets = float(rows[rows["metric"] == "packets"]["value"].sum())
    return (
        f"{outcome.study.title}\n"
        f"{len(rows):,} rows, {packets / 1e6:,.0f} million packets, {outcome.provenance['time']}\n"
        f"{near} of {len(printed)} comparisons with print within 2 %; "
        f"{held} of {len(decided)} sentences hold"
    )


def compare_command(
    first: Annotated[Path, typer.Argument(help="output folder of a run")],
    second: Annotated[Path, typer.Argument(help="output folder of another run")],
    tolerance: Annotated[
        float, typer.Option(min=0, max=1, help="part of a value that is no difference")
    ] = TOLERANCE,
) -> None:
    """Show where two runs differ beyond tolerance; status 1 if they do."""
    console = Console(highlight=False, soft_wrap=True)
    try:
        found = compare(first, second, tolerance)
    except StudyError as fault:
        _fail(console, str(fault))
    console.print(f"{found.compared:,} values compared, {len(found.differing):,} differ")
    for count, where in ((found.only_first, first), (found.only_second, second)):
        if count:
            console.print(f"{count:,} values only in {where}", markup=False)
    if not found.differing.empty:
        table = Table(box=None, pad_edge=False)
        for name in ("sweep", "reading", "level", "where", "metric", "first", "second", "%"):
            table.add_column(name, justify="right" if name in ("first", "second", "%") else "left")
        for _, row in found.differing.head(DIFFERENCES_SHOWN).iterrows():
            axes = [row[axis] for axis in ("policy", "device", "link")]
            axes += [f"{row[axis]:g}" for axis in ("mips", "rate_kbps", "packet_bytes")]
            where_cell = " ".join(str(part) for part in axes if part and part != "nan")
            values = [f"{row[key]:.5g}" for key in ("value_a", "value_b")]
            apart = f"{row['difference'] * 100:+.2f}"
            table.add_row(
                row["sweep"],
                row["reading"],
                row["level"],
                where_cell,
                row["metric"],
                *values,
                apart,
            )
        console.print(table)
    if not found.is_same:
        raise typer.Exit(1)


def _stop(text: str) -> NoReturn:
    # Where results go to a file, whoever pressed the keys still reads this.
    sys.stderr.write(f"caravan-lab: {text}\n")
    raise typer.Exit(STOPPED) from None


def _fail(console: Console, text: str) -> None:
    console.print(f"caravan-lab: {text}", style="red", markup=False)
    raise typer.Exit(2)
