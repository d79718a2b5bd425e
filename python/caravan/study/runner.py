"""Runs a study: cells to jobs, jobs to a pool, results to rows, rows to files and a report.

Left out: the meaning of a cell (`resolve`, `compute`), and pictures (`caravan.report`).
"""

from __future__ import annotations

import os
import platform
import shlex
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd
from rich.console import Console

from caravan.bench.document import busy, processor_name
from caravan.messages import unknown
from caravan.study import compute, hosts, output, prices, relations, results, unrun, wireless
from caravan.study.cells import Cell, Job, cells
from caravan.study.compute import HERE, MACHINE, STATIONARY, TESTBED
from caravan.study.files import called, located
from caravan.study.metrics import (
    APPROXIMATION,
    DIVERGES,
    NEAR,
    OF_THE_PATH,
    UPPER,
    Measure,
    describe,
)
from caravan.study.parsed import AGENTS, HOSTS, LEVELS, SUCCESSORS, WIRELESS, Study, Sweep
from caravan.study.pool import OneByOne, available_cores, pool
from caravan.study.published import beside_published, headline
from caravan.study.resolve import Files, ResolvedCell, missing, resolve
from caravan.study.results import Row
from caravan.study.store import Store
from caravan.study.text import StudyError, Value
from caravan.study.values import ABSENT, fill

STABLE = (STATIONARY, NEAR, APPROXIMATION)


@dataclass(frozen=True)
class Choice:
    """The choices of the command line."""

    levels: tuple[str, ...] = ()
    is_quick: bool = False
    seed: int | None = None
    jobs: int | None = None
    cluster: str | None = None


@dataclass(frozen=True)
class Outcome:
    """A finished run."""

    study: Study
    rows: pd.DataFrame
    provenance: Mapping[str, str]


@dataclass(frozen=True)
class _Task:
    """A cell at one level, and its jobs."""

    cell: Cell
    level: str
    resolved: ResolvedCell
    jobs: tuple[Job, ...]


def run(study: Study, choice: Choice, directory: Path, console: Console) -> Outcome:
    """Compute everything that the study needs, as rows; results are written to `directory`."""
    began = time.monotonic()
    levels = _levels(study, choice.levels)
    output.check(directory, study)
    if TESTBED in levels:
        enter_testbed()
    seed = study.seed if choice.seed is None else choice.seed
    files = Files.of(study, is_quick=choice.is_quick)
    tasks, without_source = [], []
    for sweep in study.sweeps:
        if sweep.is_quick or not choice.is_quick:
            try:
                found, absent = _ask(sweep, levels, choice, seed, files)
            except StudyError as fault:
                raise located(study, sweep, fault, is_quick=choice.is_quick) from None
            tasks += found
            without_source += absent
    output.check_study(directory, study, {item.resolved.scenario_hash for item in tasks})
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise StudyError(f"--output {directory}: {fault.strerror or fault}") from None
    store = Store(directory, compute.fingerprint())
    jobs = list({(job.kind, job.request): job for item in tasks for job in item.jobs}.values())
    computed, crowd = _fill(store, jobs, choice, levels, console)
    with ThreadPoolExecutor(choice.jobs or available_cores()) as threads:
        answers = list(threads.map(lambda item: _answer(study, item, store), tasks))
    rows = _once(
        [
            _row(study, item, measure, seed)
            for item, measures in zip(tasks, answers, strict=True)
            for measure in measures
        ]
    )
    rows = prices.priced(study, rows)
    rows += _carried(rows)
    rows += wireless.costs(rows, _of(study, WIRELESS))
    rows += hosts.peaks(rows, _of(study, HOSTS))
    empty = [row.reason for row in rows if row.value is None and row.reason]
    rows = _with_values(beside_published(study, rows))
    table = results.write(rows, directory, study.digest)
    rest = _write_printed(study, choice, table, directory)
    seconds = time.monotonic() - began
    provenance = _provenance(study, choice, seed, rows, directory)
    provenance["jobs"] = f"{len(jobs):,}, of which {computed:,} were computed in this run"
    provenance["time"] = f"{seconds:.1f} s"
    provenance |= {"load": crowd} if crowd else {}
    provenance |= {output.REST: rest} if rest else {}
    if without_source:
        reasons = dict.fromkeys(without_source)
        provenance["cells without a source"] = f"{len(without_source)}: {'; '.join(reasons)}"
    if empty:
        provenance["empty values"] = f"{len(empty):,}: {'; '.join(dict.fromkeys(empty))}"
    return Outcome(study, table, provenance)


def _fill(
    store: Store, jobs: Sequence[Job], choice: Choice, levels: Sequence[str], console: Console
) -> tuple[int, str]:
    """Do the jobs that are not done. Returns how many were, and a sentence if programs of others
    were in the way of what was measured."""
    computed = 0
    crowd = busy(os.getloadavg()[0], available_cores())
    there = [job for job in jobs if job.kind not in HERE]
    if choice.cluster and not there:
        raise StudyError(f"--cluster {choice.cluster}: {_for_cluster(levels)}")
    if there:
        computed += store.fill(there, pool(compute.compute, choice.jobs, choice.cluster), console)
    here = [job for job in jobs if job.kind in HERE]
    if not here:
        return computed, ""
    if crowd:
        console.print(f"{crowd} What is measured takes longer.")
    with compute.Here() as whole:
        computed += store.fill(here, OneByOne(whole.compute), console, "measuring")
    return computed, crowd


def _of(study: Study, measure: str) -> frozenset[str]:
    """The sweeps of a measure."""
    return frozenset(sweep.name for sweep in study.sweeps if sweep.measure == measure)


def _write_printed(study: Study, choice: Choice, table: pd.DataFrame, directory: Path) -> str:
    """Write `printed.csv` if something is printed; returns the command that runs what is not
    there yet, or nothing."""
    printed = headline(study, table)
    related = relations.beside(study, table)
    rest = unrun.command(study, directory, choice.seed)
    without = unrun.unrun(study, table, rest)
    if study.left or not (printed.empty and related.empty and without.empty):
        results.write_printed(printed, directory, related, without, study.left)
    is_said = all(ABSENT not in fill(body, table) for _, body in study.texts)
    return "" if without.empty and is_said else rest


def _for_cluster(levels: Sequence[str]) -> str:
    """Why a run has nothing for a cluster."""
    named = " and ".join(levels)
    return f"{named} has no jobs for a cluster in this study: omit --cluster"


def enter_testbed() -> None:
    """Enter a private namespace, before any thread starts."""
    from caravan.testbed import IsolationError, enter  # noqa: PLC0415
    from caravan.testbed.binary import caravan_binary  # noqa: PLC0415

    try:
        caravan_binary()
        enter()
    except FileNotFoundError as fault:
        said = f"there is no program '{fault.filename}' here" if fault.filename else fault
        raise StudyError(f"--level testbed: {said}") from None
    except IsolationError as fault:
        raise StudyError(f"--level testbed: {fault}") from None


def _levels(study: Study, chosen: Sequence[str]) -> tuple[str, ...]:
    """The levels to run: the chosen ones, otherwise all of the study except the testbed."""
    held = {level for sweep in study.sweeps for level in sweep.levels}
    for level in chosen:
        if level not in LEVELS:
            raise StudyError(f"--level: {unknown('level', level, LEVELS)}")
        if level not in held:
            has = ", ".join(level for level in LEVELS if level in held)
            raise StudyError(f"--level: no sweep of {study.name} has '{level}'; it has {has}")
    return tuple(chosen) or tuple(level for level in LEVELS if level in held and level != TESTBED)


def _ask(
    sweep: Sweep, levels: tuple[str, ...], choice: Choice, seed: int, files: Files
) -> tuple[list[_Task], list[str]]:
    """The cells of a sweep, and those without a cost if the sweep may skip them."""
    tasks = []
    found = cells(sweep, choice.is_quick)
    with ThreadPoolExecutor(choice.jobs or available_cores()) as threads:
        resolved = list(threads.map(lambda cell: resolve(cell, files), found))
    faults = [missing(one) for one in resolved] if sweep.skips_missing else []
    for cell, one, fault in zip(found, resolved, list(faults) or [""] * len(found), strict=True):
        if fault:
            continue
        for level in levels:
            if level in sweep.levels:
                tasks.append(_Task(cell, level, one, compute.jobs(cell, one, level, seed)))
    return tasks, list(filter(None, faults))


def _answer(study: Study, item: _Task, store: Store) -> list[Measure]:
    """The rows of one cell."""
    results_of = [store.read(job) for job in item.jobs]
    try:
        return compute.answer(item.cell, item.resolved, item.level, results_of)
    except StudyError as fault:
        raise located(study, item.cell.sweep, fault) from None


def _row(study: Study, item: _Task, measure: Measure, seed: int) -> Row:
    resolved, point = item.resolved, item.cell.point
    is_measured = item.level == TESTBED
    return Row(
        study=study.name,
        sweep=item.cell.sweep.name,
        reading=measure.reading or item.cell.reading,
        scenario=resolved.scenario,
        scenario_hash=resolved.scenario_hash,
        level=item.level,
        seed=seed,
        version=compute.version(),
        cost_table=MACHINE if is_measured else resolved.cost_table,
        policy=_text(point.get("policy", measure.policy or resolved.policy)),
        device=MACHINE if is_measured else _text(point.get("device", resolved.device)),
        link=_text(point.get("link", resolved.link)),
        mips=_number(point.get("mips", resolved.mips)),
        rate_kbps=_number(point.get("rate_kbps", resolved.rate_kbps)),
        packet_bytes=_number(point.get("packet_bytes", resolved.packet_bytes)),
        metric=measure.metric,
        unit=describe(measure.metric).unit,
        value=measure.value,
        ci95_low=measure.low,
        ci95_high=measure.high,
        state=measure.state,
        bound=measure.bound,
        replications=_replications(item),
        reason=measure.reason,
    )


def _replications(item: _Task) -> int | None:
    """The number of runs behind a value; closed forms have none."""
    if item.level == "model":
        return None
    if item.level == TESTBED and item.cell.sweep.measure == WIRELESS:
        return int(item.resolved.request["cell"]["runs"])
    is_repeated = item.cell.sweep.measure in ("road", WIRELESS, HOSTS, AGENTS, SUCCESSORS)
    return item.cell.run.replications if is_repeated else 1


def _text(value: Value | None) -> str | None:
    return None if value is None else str(value)


def _number(value: Value | None) -> float | None:
    return None if value is None or isinstance(value, str) else float(value)


def _path(row: Row) -> tuple[object, ...]:
    """The columns that identify a path, whatever its rate."""
    place = (row.sweep, row.reading, row.level, row.policy, row.device, row.link, row.mips)
    return (*place, row.packet_bytes)


def _once(rows: Sequence[Row]) -> list[Row]:
    """Keep metrics that do not depend on the rate once for each path, without a rate."""
    out: list[Row] = []
    seen: set[tuple[object, ...]] = set()
    for row in rows:
        if row.metric not in OF_THE_PATH:
            out.append(row)
        elif (key := (*_path(row), row.metric)) not in seen:
            seen.add(key)
            out.append(replace(row, rate_kbps=None))
    return out


def _carried(rows: Sequence[Row]) -> list[Row]:
    """The highest rate of each grid up to which every rate is stable, as `carried_kbps`.

    A rate is stable if nothing diverges: neither the path nor any of its stations. Only for sweeps
    over rates; 0 if not even the lowest is stable.
    """
    paths: dict[tuple[object, ...], list[Row]] = {}
    diverging = set()
    for row in rows:
        if row.metric == "mean_delay_ms" and row.rate_kbps is not None:
            paths.setdefault(_path(row), []).append(row)
        if row.state == DIVERGES:
            diverging.add((_path(row), row.rate_kbps))
    found = []
    for path in paths.values():
        if len(path) < 2:
            continue
        carried = 0.0
        for row in sorted(path, key=lambda row: row.rate_kbps or 0.0):
            if row.state not in STABLE or (_path(row), row.rate_kbps) in diverging:
                break
            carried = row.rate_kbps or 0.0
        found.append(
            replace(
                path[0],
                rate_kbps=None,
                metric="carried_kbps",
                bound=UPPER if path[0].bound else "",
                unit=describe("carried_kbps").unit,
                value=carried,
                ci95_low=None,
                ci95_high=None,
                state="",
            )
        )
    return found


def _with_values(rows: list[Row]) -> list[Row]:
    """Reasons with the values that they cite."""
    if not any("{{" in (row.reason or "") for row in rows):
        return rows
    frame = results.frame(rows)
    filled = []
    for row in rows:
        reason = row.reason
        filled.append(row if reason is None else replace(row, reason=fill(reason, frame)))
    return filled


def _provenance(
    study: Study, choice: Choice, seed: int, rows: Sequence[Row], directory: Path
) -> dict[str, str]:
    """Everything needed to reproduce the numbers."""
    tables = sorted({row.cost_table for row in rows if row.cost_table})
    scenarios = sorted({row.scenario for row in rows if row.scenario})
    hashes = len({row.scenario_hash for row in rows if row.scenario})
    levels = [level for level in LEVELS if any(row.level == level for row in rows)]
    packets = sum(row.value or 0.0 for row in rows if row.metric == "packets")
    return {
        "study": study.name,
        "command": _command(study, choice, directory),
        "caravan": compute.version(),
        "seed": str(seed),
        "levels": ", ".join(levels),
        "scenarios": f"{', '.join(scenarios)}: {hashes:,} variants, each with its hash in the rows",
        "cost tables": ", ".join(tables),
        "rows": f"{len(rows):,}",
        **({"packets simulated": f"{packets:,.0f}"} if packets else {}),
        "machine": f"{processor_name(_cpuinfo())}, {available_cores()} cores, "
        f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
    }


def _cpuinfo() -> str:
    """The kernel's description of the processor; empty if there is none."""
    path = Path("/proc/cpuinfo")
    return path.read_text() if path.exists() else ""


def _command(study: Study, choice: Choice, directory: Path) -> str:
    """The command that repeats the run from the same folder."""
    words = ["caravan-lab", "run", called(study), "-o", str(directory)]
    for level in choice.levels:
        words += ["--level", level]
    if choice.is_quick:
        words.append("--quick")
    if choice.seed is not None:
        words += ["--seed", str(choice.seed)]
    return shlex.join(words)
