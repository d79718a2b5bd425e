"""The folders that a run may write to: a new one, an empty one, or one with results of its study.

Left out: writing, which is in `results`, and reuse of an earlier run's files, which is in `store`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from caravan.study.parsed import Study
from caravan.study.results import CSV, PARQUET, PRINTED, STUDY_DIGEST, texts
from caravan.study.text import StudyError

REPORT = "report.html"
REST = "what was not run"
"""In a run's provenance: the command that also computes the printed values that it left out."""
FIGURES = "figures"
PICTURES = (".svg", ".png")
MARK = '<meta name="generator" content="caravan-lab">'
"""A text in the head of each of our reports."""
MADE = "<footer><div>Made by caravan-lab"
"""A text at the end of reports of earlier versions."""
NO_RUN = f"holds a {PARQUET} that no run has written"
ADVICE = "give another folder with -o, or move these files away"


def check(directory: Path, study: Study) -> None:
    """Refuse a folder in which the run would overwrite other files."""
    try:
        fault = _fault(directory, study)
    except OSError as problem:
        raise StudyError(f"--output {directory}: {problem.strerror or problem}") from None
    if fault:
        raise StudyError(f"--output {directory}: {fault}: {ADVICE}")


def check_study(directory: Path, study: Study, hashes: Collection[str]) -> None:
    """Refuse a folder whose results are of another study with the same name.

    An edited study counts as the same while any of its scenarios, by their `hashes`, is the same.
    """
    path = directory / PARQUET
    if not path.exists():
        return
    try:
        held, metadata = texts(path, "scenario_hash")
    except ValueError:
        raise StudyError(f"--output {directory}: {NO_RUN}: {ADVICE}") from None
    digest = metadata.get(STUDY_DIGEST, b"").decode(errors="replace")
    if (digest and digest == study.digest) or not held.isdisjoint(hashes):
        return
    fault = f"holds results of another study with the name {study.name}"
    raise StudyError(f"--output {directory}: {fault}: {ADVICE}")


def _fault(directory: Path, study: Study) -> str:
    if not directory.is_dir():
        return ""
    results = directory / PARQUET
    if not results.exists():
        there = next((path for path in _written(directory, study) if path.exists()), None)
        return f"holds a {there.relative_to(directory)} that no run has written" if there else ""
    try:
        held, _ = texts(results, "study")
    except ValueError:
        return NO_RUN
    if held - {study.name}:
        return f"holds results of the study {', '.join(repr(name) for name in sorted(held))}"
    report = directory / REPORT
    if report.exists() and not _is_ours(report):
        return f"holds a {REPORT} that no run has written"
    return ""


def _written(directory: Path, study: Study) -> Iterator[Path]:
    """Everything that the run writes besides its results."""
    yield from (directory / name for name in (REPORT, CSV, PRINTED))
    for figure in study.figures:
        yield from (directory / FIGURES / f"{figure.name}{suffix}" for suffix in PICTURES)


def _is_ours(report: Path) -> bool:
    text = report.read_text(encoding="utf-8", errors="replace")
    return MARK in text or MADE in text
