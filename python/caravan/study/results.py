"""The schema of results, and writing result files completely or not at all.

One row is one metric at one point of a sweep, at one level. `docs/lab-results.md` explains the
columns for other programs.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from caravan.study.parsed import Left
from caravan.study.text import StudyError

PARQUET = "results.parquet"
CSV = "results.csv"
PRINTED = "printed.csv"
DIGITS = 6
"""Significant digits there."""
STUDY_DIGEST = b"caravan.study.sha256"
"""The metadata of the Parquet file that names the study file of its rows."""


@dataclass(frozen=True)
class Row:
    """One metric at one point. None if a column does not apply."""

    study: str
    sweep: str
    reading: str
    scenario: str
    scenario_hash: str
    level: str
    seed: int
    version: str
    cost_table: str
    policy: str | None
    device: str | None
    link: str | None
    mips: float | None
    rate_kbps: float | None
    packet_bytes: float | None
    metric: str
    unit: str
    value: float | None
    ci95_low: float | None = None
    ci95_high: float | None = None
    state: str = ""
    bound: str = ""
    replications: int | None = None
    printed: str | None = None
    published: float | None = None
    relative_difference: float | None = None
    reason: str | None = None


TEXT = pa.string()
NUMBER = pa.float64()
SCHEMA = pa.schema(
    [
        ("study", TEXT),
        ("sweep", TEXT),
        ("reading", TEXT),
        ("scenario", TEXT),
        ("scenario_hash", TEXT),
        ("level", TEXT),
        ("seed", pa.int64()),
        ("version", TEXT),
        ("cost_table", TEXT),
        ("policy", TEXT),
        ("device", TEXT),
        ("link", TEXT),
        ("mips", NUMBER),
        ("rate_kbps", NUMBER),
        ("packet_bytes", NUMBER),
        ("metric", TEXT),
        ("unit", TEXT),
        ("value", NUMBER),
        ("ci95_low", NUMBER),
        ("ci95_high", NUMBER),
        ("state", TEXT),
        ("bound", TEXT),
        ("replications", pa.int64()),
        ("printed", TEXT),
        ("published", NUMBER),
        ("relative_difference", NUMBER),
        ("reason", TEXT),
    ]
)
COLUMNS = tuple(SCHEMA.names)
POINT = ("policy", "device", "link", "mips", "rate_kbps", "packet_bytes")
"""The columns that place a row in its grid."""
KEY = ("study", "sweep", "reading", "level", *POINT, "metric")
"""The columns that identify a row within a run."""


def arrow(rows: Sequence[Row]) -> pa.Table:
    """The rows as an Arrow table."""
    columns = {name: [getattr(row, name) for row in rows] for name in COLUMNS}
    return pa.table(columns, schema=SCHEMA)


def frame(rows: Sequence[Row]) -> pd.DataFrame:
    """The rows as a DataFrame with the schema's columns and types."""
    table: pd.DataFrame = arrow(rows).to_pandas()
    return table


def write(rows: Sequence[Row], directory: Path, digest: str = "") -> pd.DataFrame:
    """Write `results.parquet` and `results.csv` into `directory`, and return a DataFrame of them.

    `digest` is that of the study file, kept in the metadata of the first.
    """
    table = arrow(rows).replace_schema_metadata({STUDY_DIGEST: digest})
    rows_read: pd.DataFrame = table.to_pandas()
    # Both or none: no reader finds columns of two runs side by side.
    land_all(
        {
            directory / PARQUET: lambda path: pq.write_table(table, path, compression="zstd"),
            directory / CSV: lambda path: rows_read.to_csv(path, index=False, lineterminator="\n"),
        }
    )
    return rows_read


def write_printed(
    rows: pd.DataFrame,
    directory: Path,
    related: pd.DataFrame,
    without: pd.DataFrame,
    left: Sequence[Left] = (),
) -> None:
    """`printed.csv`: the rows with a printed value, and the columns that identify them.

    Relations of two values follow, then what is printed `without` a value in this run. `left` come
    last: what is printed and not computed has no value but the reason.
    """
    columns = ["printed", "sweep", "reading", "level", *POINT, "metric", "unit", "value"]
    columns += ["ci95_low", "ci95_high", "published", "relative_difference", "reason"]
    columns += ["bound"] if (rows["bound"] != "").any() else []
    shown = rows[columns].dropna(axis="columns", how="all")
    for more in (related, without, _not_computed(left)):
        if not more.empty:
            shown = pd.concat([shown, more], ignore_index=True)
    for name in ("value", "ci95_low", "ci95_high"):
        if name in shown:
            shown[name] = shown[name].map(_rounded)
    shown = shown.round({"relative_difference": 5})
    land(directory / PRINTED, lambda path: shown.to_csv(path, index=False, lineterminator="\n"))


def _rounded(value: float | None) -> float | None:
    """With six significant digits, whatever its unit: an interval keeps holding its value."""
    return value if value is None or pd.isna(value) else float(f"{value:.{DIGITS}g}")


def _not_computed(left: Sequence[Left]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "printed": item.printed,
            "reading": item.says,
            "unit": item.unit,
            "published": item.value,
            "reason": f"not computed: {item.needs}",
        }
        for item in left
    )


def read(directory: Path) -> pd.DataFrame:
    """Read the results of a run from `directory`."""
    path = directory / PARQUET
    if not path.exists():
        raise StudyError(f"{directory}: no {PARQUET} there: not the output of a run")
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as fault:
        raise StudyError(f"{path}: not a results file: {fault}") from None
    if not table.schema.equals(SCHEMA):
        raise StudyError(f"{path}: columns of another version: run the study again")
    rows: pd.DataFrame = table.to_pandas()
    return rows


def texts(path: Path, column: str) -> tuple[set[str], Mapping[bytes, bytes]]:
    """The texts in a column of a results file of any version, and the file's metadata.

    ValueError: it is none.
    """
    try:
        table = pq.read_table(path, columns=[column])
        values = table[column]
    except (pa.ArrowException, KeyError) as fault:
        raise ValueError(str(fault)) from None
    if values.type != TEXT or values.null_count:
        raise ValueError(f"{column} is not a text in every row")
    return set(values.to_pylist()), table.schema.metadata or {}


def land(path: Path, write_to: Callable[[Path], object]) -> None:
    """Let `write_to` fill a file beside `path`, then rename it: readers see all of it or none."""
    land_all({path: write_to})


def land_all(writers: Mapping[Path, Callable[[Path], object]]) -> None:
    """The same for several files; none appears before all are written."""
    partials: dict[Path, Path] = {}
    path = Path()
    try:
        for path, write_to in writers.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(
                dir=path.parent, prefix=".partial-", suffix=path.suffix
            )
            partials[path] = Path(name)
            os.close(descriptor)
            partials[path].chmod(0o644)
            write_to(partials[path])
        for path, partial in partials.items():
            partial.replace(path)
    except OSError as fault:
        raise _in_words(path, fault) from fault
    finally:
        for partial in partials.values():
            partial.unlink(missing_ok=True)


def land_text(path: Path, text: str) -> None:
    """`land` for text."""
    land_bytes(path, text.encode())


def land_bytes(path: Path, content: bytes) -> None:
    """`land` for bytes."""
    land(path, lambda partial: partial.write_bytes(content))


def _in_words(path: Path, fault: OSError) -> StudyError:
    if fault.errno in (errno.ENOSPC, errno.EDQUOT):
        return StudyError(f"{path.parent}: no space left on the disk: free some and run again")
    return StudyError(f"{path}: {fault.strerror or fault}")
