"""Turns the text of a study file into a `Study`; every error names file, line, key and what is
valid.

The format is described in `docs/lab-study-files.md`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from caravan.messages import nearest, unknown
from caravan.study.metrics import AXES, NUMERIC_AXES
from caravan.study.parsed import (
    AGENTS,
    CASE,
    CASE_KEYS,
    EXCHANGE,
    EXCHANGE_KEYS,
    FLOWS,
    HELD,
    HOSTS,
    HOSTS_KEYS,
    MEASURES,
    PRICE_KEYS,
    RUN_KEYS,
    STACK,
    STACK_KEYS,
    SUCCESSORS,
    TABLES,
    UNASKED,
    WIRELESS,
    WIRELESS_KEYS,
    Left,
    Reading,
    Run,
    Study,
    Sweep,
)
from caravan.study.referring import Referring
from caravan.study.text import StudyError, Table, Value

CELLS_MAX = 100_000
DEFAULT_RUN = Run(3600.0, 60.0, 4)
DEFAULT_FLOW = Run(1.0, 0.0, 3)
"""A flow of a wireless policy, or between two hosts, a tunnel of agents, or a move."""
WITHOUT_SCENARIO = ("price", EXCHANGE, CASE, STACK, WIRELESS, HOSTS, TABLES, AGENTS, SUCCESSORS)
SECONDS_MAX = 1e7
ROUNDED = 1e-6
"""Fraction of a step by which rounding may miss the end of a span."""


def parse(file: str, text: str) -> Study:
    """The study that `text` describes; `file` is its name in messages."""
    table = Table.parse(file, text)
    sweeps = table.tables("sweep", read_sweep)
    if not sweeps:
        raise table.fault("", "a study needs at least one [[sweep]]")
    names = [sweep.name for sweep in sweeps]
    for name in names:
        if names.count(name) > 1:
            raise table.fault("sweep", f'the name "{name}" is used twice')
    for at, sweep in enumerate(sweeps):
        if fault := _wrong_prices(sweep, sweeps):
            raise table.fault("sweep", fault, at, "set", "prices")
    inside = Referring({sweep.name: sweep for sweep in sweeps})
    claims = table.tables("claim", inside.claim)
    study = Study(
        name=table.text("name"),
        title=table.text("title"),
        publication=table.text("publication", ""),
        seed=table.count("seed", 1, 2**31 - 1),
        texts=table.tables("text", lambda part: (part.text("title"), inside.body(part, "body"))),
        sweeps=sweeps,
        published=table.tables("published", inside.published),
        tables=table.tables("table", inside.printed_table),
        reasons=inside.reasons(table),
        claims=claims,
        figures=table.tables("figure", inside.figure),
        labels={key: str(label) for key, label in table.leaves("labels").items()},
        file=file,
        left=table.tables("left", read_left),
        relations=table.tables("relation", inside.relation),
        digest=hashlib.sha256(text.encode()).hexdigest(),
    )
    table.done()
    _check_twice(table, study)
    return study


def read_sweep(table: Table) -> Sweep:
    """One `[[sweep]]`."""
    measure = table.choice("measure", MEASURES, "road")
    levels = table.texts("levels") or UNASKED.get(measure, HELD[measure])
    for level in levels:
        if level not in HELD[measure]:
            what = f'"{measure}" has no level "{level}"'
            raise table.fault("levels", f"{what}, {nearest(level, HELD[measure])}")
    scenario, profile = table.text("scenario", ""), table.text("profile", "")
    if measure not in WITHOUT_SCENARIO and not scenario:
        raise table.fault("", f'"{measure}" needs a scenario')
    if measure == "price" and not profile:
        raise table.fault("", '"price" needs a profile, a cost table of devices/')
    grid = read_grid(table.table("grid"))
    quick = table.table("quick")
    is_measured = measure in (WIRELESS, HOSTS, AGENTS, SUCCESSORS)
    run = read_run(table, DEFAULT_FLOW if is_measured else DEFAULT_RUN)
    sweep = Sweep(
        name=table.text("name"),
        title=table.text("title"),
        measure=measure,
        levels=levels,
        scenario=scenario,
        profile=profile,
        grid=grid,
        settings=table.leaves("set"),
        axes={axis: str(key) for axis, key in table.leaves("axes", tuple(AXES)).items()},
        readings=table.tables("reading", read_reading),
        keys={name: str(key) for name, key in table.leaves("keys").items()},
        run=run,
        quick=read_run(quick, run),
        is_quick=not quick.flag("skip"),
        skips_missing=table.flag("skip_missing"),
        quick_grid=read_grid(quick, ("seconds", "warm_up", "replications", "skip")),
    )
    quick.done()
    for place, settings in (
        (("set",), sweep.settings),
        *((("reading", at, "set"), one.settings) for at, one in enumerate(sweep.readings)),
    ):
        for name in settings:
            if name == "prices" and place[0] == "reading":
                fault = "all readings of a sweep have the same prices: name them in its own set"
                raise table.fault("reading", fault, *place[1:], name)
            if fault := unheard(sweep, name):
                raise table.fault(str(place[0]), fault, *place[1:], name)
    _check_measure(table, sweep)
    return sweep


def _check_measure(table: Table, sweep: Sweep) -> None:
    """Refuse keys that the measure ignores, and a measure without a key that it needs."""
    measure = sweep.measure
    if measure in ("tunnel", FLOWS) and sweep.skips_missing:
        what = (
            "only road and price support it: the costs that a tunnel needs are known only after it "
            "has run"
        )
        raise table.fault("skip_missing", what)
    if measure == FLOWS:
        what = f'"{FLOWS}" runs each cell once, for the scenario\'s own "run.time"'
        for key in RUN_KEYS.values():
            if table.has(key):
                raise table.fault(key, what)
            if table.table("quick").has(key):
                raise table.fault("quick", what, key)
    if measure in (EXCHANGE, STACK, WIRELESS, HOSTS, AGENTS, SUCCESSORS):
        for axis in ("policy", "link"):
            if axis not in sweep.grid:
                held = f"files of {axis_files(axis)}"
                if measure == STACK and axis == "policy":
                    held = "layers of stacks.toml"
                if measure == WIRELESS and axis == "policy":
                    held = "policies in layers, such as pn-1"
                if measure == AGENTS and axis == "policy":
                    held = "parts of the ten steps, such as agent-client-host"
                what = f'"{measure}" needs the axis "{axis}": {held}'
                raise table.fault("grid", what)
    if measure == "parameters" and not sweep.keys:
        raise table.fault("", '"parameters" needs [sweep.keys]: a name and its key')


def _wrong_prices(sweep: Sweep, sweeps: Sequence[Sweep]) -> str:
    """Why a sweep's `prices` are none; empty if they are, or if it names none."""
    both = {"model", "testbed"}
    measured = [it.name for it in sweeps if it.measure == WIRELESS and set(it.levels) == both]
    wrong = [name for name in sweep.priced_by if name not in measured]
    if sweep.measure != WIRELESS or not wrong:
        return ""
    return unknown("sweep of model and testbed alone", wrong[0], measured)


def axis_files(axis: str) -> str:
    """Where the files are whose names an axis of exchanges has."""
    return "exchanges/" if axis == "policy" else f"{axis}s/"


def unheard(sweep: Sweep, name: str) -> str:
    """Why setting a key in a sweep would have no effect; empty if it has one."""
    of_measures = {
        "price": PRICE_KEYS,
        EXCHANGE: EXCHANGE_KEYS,
        CASE: CASE_KEYS,
        STACK: STACK_KEYS,
        WIRELESS: WIRELESS_KEYS,
        HOSTS: HOSTS_KEYS,
        TABLES: (),
        AGENTS: (),
        SUCCESSORS: (),
    }
    known = of_measures.get(sweep.measure)
    if known is not None and name not in known:
        return unknown("key", name, known)
    if name == "seed":
        return 'use "seed" at the top of the study, or --seed'
    if sweep.measure == "road" and name in RUN_KEYS:
        return f'use "{RUN_KEYS[name]}" of the sweep'
    return ""


def read_run(table: Table, default: Run) -> Run:
    """`seconds`, `warm_up` and `replications`."""
    seconds = table.number("seconds", default.seconds, above=0)
    if seconds > SECONDS_MAX:
        raise table.fault("seconds", f"must be at most {SECONDS_MAX:g} s, found {seconds:g}")
    warm_up = table.number("warm_up", min(default.warm_up_s, seconds / 10), above=-1e-9)
    if warm_up >= seconds:
        raise table.fault("warm_up", f"must be shorter than the {seconds:g} s of the run")
    return Run(seconds, warm_up, table.count("replications", default.replications, 100_000))


def read_grid(table: Table, besides: tuple[str, ...] = ()) -> dict[str, tuple[Value, ...]]:
    """The axes of a grid: a list of values, or `{ from, to, step }` for numbers."""
    grid: dict[str, tuple[Value, ...]] = {}
    cells = 1
    for axis in table.names():
        if axis in besides:
            continue
        if axis not in AXES or axis == "reading":
            raise table.fault(axis, unknown("axis", axis, AXES))
        grid[axis] = read_axis(table, axis)
        cells *= len(grid[axis])
        if cells > CELLS_MAX:
            raise table.fault(axis, f"the grid has {cells} cells, limit {CELLS_MAX}")
    if not besides:
        table.done()
    return grid


def read_axis(table: Table, axis: str) -> tuple[Value, ...]:
    """The values of one axis."""
    if axis in NUMERIC_AXES and not isinstance(table.peek(axis), list):
        span = table.table(axis)
        start = span.number("from", above=0)
        end = span.number("to", above=start)
        step = span.number("step", above=0)
        span.done()
        if (end - start) / step > CELLS_MAX:
            raise table.fault(axis, f"more than {CELLS_MAX} steps")
        steps = int((end - start) / step + ROUNDED)
        return tuple(start + step * index for index in range(steps + 1))
    values = table.values(axis)
    if not values:
        raise table.fault(axis, "must hold at least one value")
    for value in values:
        if axis in NUMERIC_AXES:
            table.check_number(value, axis, above=0)
        elif not isinstance(value, str):
            raise table.fault(axis, f"must be a list of texts, found {value!r}")
    if len(set(values)) < len(values):
        raise table.fault(axis, "holds a value twice")
    return tuple(float(value) if axis in NUMERIC_AXES else value for value in values)


def read_reading(table: Table) -> Reading:
    """One `[[sweep.reading]]`."""
    return Reading(table.text("name"), table.text("says"), table.leaves("set"))


def read_left(table: Table) -> Left:
    """One `[[left]]`."""
    return Left(
        table.text("printed"),
        table.text("says"),
        table.number("value"),
        table.text("unit", ""),
        table.text("needs"),
    )


def _check_twice(table: Table, study: Study) -> None:
    """Refuse a second printed value at the same point: the two could not be told apart."""
    seen: set[tuple[object, ...]] = set()
    for item in study.all_published():
        key = (item.sweep, item.metric, tuple(sorted(item.at.items())))
        if key in seen:
            raise table.fault("published", f"{item.metric} at {dict(item.at)} is published twice")
        seen.add(key)
    _names(table, "figure", [figure.name for figure in study.figures])
    _names(table, "table", [printed.name for printed in study.tables])


def _names(table: Table, key: str, names: list[str]) -> None:
    for index, name in enumerate(names):
        if name in names[:index]:
            raise table.fault(key, f'the name "{name}" is used twice', index)


__all__ = ["StudyError", "parse"]
