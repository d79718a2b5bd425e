"""`caravan-lab run` and `caravan-lab compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from caravan.messages import Stopped, printable
from caravan.numbers import amount, significant
from caravan.study.files import names
from caravan.study.parsed import RUN_TOLERANCE
from caravan.study.text import StudyError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from caravan.study.comparison import Comparison
    from caravan.study.runner import Choice, Outcome

DIFFERENCES_SHOWN = 20
PIPED_WIDTH = 10_000
"""Output without a terminal has no width, so lines are not wrapped."""


def add_to(app: typer.Typer) -> None:
    """Add the commands of studies to `app`."""
    app.command("run")(run_command)
    app.command("compare")(compare_command)


def run_command(
    study: Annotated[str, typer.Argument(help=f"a file, a folder or one of: {', '.join(names())}")],
    *,
    output: Annotated[
        str,
        typer.Option("-o", "--output", metavar="FOLDER", help="folder for results and report"),
    ],
    level: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LEVEL",
            help="model, simulate or testbed; may be repeated; default: all except testbed",
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="shorter runs and a smaller grid")] = False,
    jobs: Annotated[
        int | None, typer.Option(min=1, max=1024, help="threads; default: all cores")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(help="address of a Dask scheduler, such as tcp://host:8786")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=2**31 - 1, help="default: the study's")
    ] = None,
) -> None:
    """Run a study: results, figures, and a report for a browser."""
    from rich.console import Console  # noqa: PLC0415

    from caravan.study.runner import Choice  # noqa: PLC0415

    if jobs and cluster:
        raise StudyError("--jobs, --cluster: give one of them")
    if not output.strip():
        raise StudyError("--output: must name a folder, such as -o out/umts")
    choice = Choice(tuple(level or ()), quick, seed, jobs, cluster)
    console = Console(highlight=False, soft_wrap=True)
    try:
        report = run_and_report(study, choice, Path(output), console)
    except KeyboardInterrupt:
        raise Stopped("stopped; run again to resume") from None
    console.print(f"Report  {report}", markup=False)


def run_and_report(study: str, choice: Choice, output: Path, console: Console) -> Path:
    """Run the study, write its report, and print a summary. Returns the report's path."""
    from rich.console import Console  # noqa: PLC0415

    import caravan.report  # noqa: PLC0415
    from caravan.study.files import load  # noqa: PLC0415
    from caravan.study.runner import run  # noqa: PLC0415

    outcome = run(load(study), choice, output, Console(stderr=True))
    report = caravan.report.write(outcome, output)
    console.print(printable(summary(outcome)), markup=False)
    return report.resolve()


def summary(outcome: Outcome) -> str:
    """What was run, and how it compares with the printed values."""
    from caravan.study import unrun  # noqa: PLC0415
    from caravan.study.claims import counted, verdicts  # noqa: PLC0415
    from caravan.study.levels import in_words  # noqa: PLC0415
    from caravan.study.output import REST  # noqa: PLC0415
    from caravan.study.published import (  # noqa: PLC0415
        fitted_scores,
        parameters_score,
        results_score,
    )

    rows = outcome.rows
    printed = results_score(outcome.study, rows)
    given = parameters_score(outcome.study, rows)
    packets = float(rows[rows["metric"] == "packets"]["value"].sum())
    counts = [f"{len(rows):,} rows"]
    if packets:
        counts.append(f"{amount(packets)} packets")
    compared: list[str] = []
    if printed.compared:
        compared.append(f"{printed.agreeing} of {printed.compared} printed results within 2 %")
    for what, score in fitted_scores(outcome.study, rows).items():
        compared.append(f"{score.agreeing} of {score.compared} fitted results within 2 % ({what})")
    if given.compared:
        compared.append(f"{given.agreeing} of {given.compared} printed parameters the same")
    if outcome.study.left:
        compared.append(f"{len(outcome.study.left)} printed values not computed")
    rest = outcome.provenance.get(REST)
    if rest is not None:
        compared.append(f"{unrun.counted(outcome.study, rows)} printed values not run")
    if sentences := counted(verdicts(outcome.study, rows)):
        compared.append(sentences)
    lines = [outcome.study.title, ", ".join((*counts, outcome.provenance["time"]))]
    lines += [*filter(None, ["; ".join(compared)]), *in_words(rows)]
    return "\n".join((*lines, *([f"All of them  {rest}"] if rest is not None else [])))


def compare_command(
    first: Annotated[Path, typer.Argument(help="output folder of a run")],
    second: Annotated[Path, typer.Argument(help="output folder of another run")],
    *,
    tolerance: Annotated[
        float, typer.Option(min=0, max=1, help="relative difference that does not count")
    ] = RUN_TOLERANCE,
    as_json: Annotated[
        bool, typer.Option("--json", help="one JSON object, all differences")
    ] = False,
) -> None:
    """Compare two runs of a study; status 1 if they differ."""
    from rich.console import Console  # noqa: PLC0415

    from caravan.study.comparison import compare  # noqa: PLC0415

    found = compare(first, second, tolerance)
    if as_json:
        typer.echo(found.as_json())
        raise typer.Exit(0 if found.is_same else 1)
    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = PIPED_WIDTH
    console.print(f"{found.compared:,} values compared, {len(found.differing):,} differ")
    for count, where in ((found.only_first, first), (found.only_second, second)):
        if count:
            console.print(f"{count:,} values only in {where}", markup=False)
    if not found.differing.empty:
        console.print(_differences(found))
    if (hidden := len(found.differing) - DIFFERENCES_SHOWN) > 0:
        console.print(f"and {hidden:,} smaller ones")
    if not found.is_same:
        raise typer.Exit(1)


def _differences(found: Comparison) -> Table:
    """The largest differences, each with its point in the grid."""
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, pad_edge=False)
    for name in ("sweep", "reading", "level", "where", "metric", "first", "second", "%"):
        table.add_column(name, justify="right" if name in ("first", "second", "%") else "left")
    for _, row in found.differing.head(DIFFERENCES_SHOWN).iterrows():
        axes = [row[axis] for axis in ("policy", "device", "link")]
        axes += [f"{row[axis]:g}" for axis in ("mips", "rate_kbps", "packet_bytes")]
        where = " ".join(str(part) for part in axes if part and part != "nan")
        values = [significant(row[key], 5) for key in ("value_a", "value_b")]
        apart = f"{row['difference'] * 100:+.2f}"
        place = (row["sweep"], row["reading"], row["level"], where, row["metric"])
        table.add_row(*(Text(printable(str(part))) for part in place), *values, apart)
    return table
