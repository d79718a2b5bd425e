"""Turns the text of a study file into a `Study`; every error names file, line, key and what is
valid.

The format is described in `docs/lab-study-files.md`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from caravan.messages import nearest, unknown
from caravan.study import places
from caravan.study.cells import points
from caravan.study.metrics import AXES, METRICS, NUMERIC_AXES, is_known
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
    LEVELS,
    MEASURES,
    PART,
    PRICE_KEYS,
    RUN_KEYS,
    STACK,
    STACK_KEYS,
    TABLES,
    UNASKED,
    WIRELESS,
    WIRELESS_KEYS,
    Claim,
    ClaimTest,
    Figure,
    Left,
    Part,
    Point,
    PrintedTable,
    Published,
    Reading,
    Reason,
    Relation,
    Run,
    Study,
    Sweep,
)
from caravan.study.text import StudyError, Table, Value

CELLS_MAX = 100_000
DRAWN = ("line", "step", "bar", "stack", "points")
SCALES = ("linear", "log")
COMPARES = ("<", "<=", ">", ">=", "=", "about", "within")
DEFAULT_RUN = Run(3600.0, 60.0, 4)
DEFAULT_FLOW = Run(1.0, 0.0, 3)
"""A flow of a wireless policy, or between two hosts, or a tunnel of agents."""
WITHOUT_SCENARIO = ("price", EXCHANGE, CASE, STACK, WIRELESS, HOSTS, TABLES, AGENTS)
RELATIONS = ("loss", "share", "times")
EVERY = "all"
"""In `over`: every value of the axis in the grid."""
SECONDS_MAX = 1e7
ROUNDED = 1e-6
"""Fraction of a step by which rounding may miss the end of a span."""
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


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
    inside = _Inside({sweep.name: sweep for sweep in sweeps})
    study = Study(
        name=table.text("name"),
        title=table.text("title"),
        publication=table.text("publication", ""),
        seed=table.count("seed", 1, 2**31 - 1),
        texts=table.tables("text", lambda part: (part.text("title"), inside.words(part, "body"))),
        sweeps=sweeps,
        published=table.tables("published", inside.published),
        tables=table.tables("table", inside.printed_table),
        reasons=inside.reasons(table),
        claims=table.tables("claim", inside.claim),
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
    run = read_run(table, DEFAULT_FLOW if measure in (WIRELESS, HOSTS, AGENTS) else DEFAULT_RUN)
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
    if measure in (EXCHANGE, STACK, WIRELESS, HOSTS, AGENTS):
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


class _Inside:
    """Reads the parts that refer to sweeps, and checks the references."""

    def __init__(self, sweeps: Mapping[str, Sweep]) -> None:
        self._sweeps = sweeps

    def words(self, table: Table, key: str, default: str | None = None) -> str:
        """A text whose citations, `{{ sweep: metric }}`, a run can fill."""
        text = table.text(key, default)
        if fault := places.check(text, self._sweeps):
            raise table.fault(key, fault)
        return text

    def reasons(self, table: Table) -> tuple[Reason, ...]:
        """The reasons. The first that covers a printed value counts: none may hide a later one."""
        found: list[Reason] = []
        for index, reason in enumerate(table.tables("reason", self.reason)):
            for earlier in found:
                is_same = earlier.printed == reason.printed
                if is_same and earlier.at.items() <= reason.at.items():
                    what = "an earlier reason covers its values: put the special one first"
                    raise table.fault("reason", what, index, "at")
            found.append(reason)
        return tuple(found)

    def reason(self, table: Table) -> Reason:
        return Reason(
            printed=table.text("printed"),
            at=_at(table),
            text=self.words(table, "text"),
            is_explained=not table.flag("unexplained"),
        )

    def published(self, table: Table) -> Published:
        sweep = self._sweep(table)
        metric = self._metric(table, "metric")
        return Published(
            printed=table.text("printed"),
            sweep=sweep.name,
            metric=metric,
            at=self._point(table, sweep, metric),
            value=_printed(table, table.number("value"), "value"),
            says=table.text("says", ""),
            reason=self.words(table, "reason", ""),
            is_parameter=_is_parameter(table, sweep),
            fitted=table.text("fitted", ""),
        )

    def printed_table(self, table: Table) -> PrintedTable:
        sweep = self._sweep(table)
        metric = self._metric(table, "metric")
        at = self._point(table, sweep, metric)
        row = table.choice("row", tuple(AXES))
        column = table.choice("column", tuple(AXES)) if table.has("column") else None
        for key, axis in (("row", row), ("column", column)):
            if axis is not None and (fault := places.for_all(metric, (axis,))):
                raise table.fault(key, fault)
        columns = table.values("columns")
        if not columns or (column is None and len(columns) > 1):
            raise table.fault("columns", 'must name the columns; several need the key "column"')
        printed, is_parameter = table.text("printed"), _is_parameter(table, sweep)
        fitted = table.text("fitted", "")
        cells = []
        for index, cell in enumerate(table.rows("rows")):
            if len(cell) != len(columns) + 1:
                what = f"row {index + 1} has {len(cell)} values, needs {len(columns) + 1}"
                raise table.fault("rows", what)
            for name, value in zip(columns, cell[1:], strict=True):
                point = {**at, row: _axis_value(table, row, cell[0])}
                if column is not None:
                    point[column] = _axis_value(table, column, name)
                self._check_point(table, "rows", sweep, point)
                number = _printed(table, table.check_number(value, "rows"), "rows")
                alone = Published(printed, sweep.name, metric, point, number)
                cells.append(replace(alone, is_parameter=is_parameter, fitted=fitted))
        title = table.text("title")
        name = table.text("name")
        return PrintedTable(
            name, printed, title, sweep.name, metric, at, row, column, columns, tuple(cells)
        )

    def claim(self, table: Table) -> Claim:
        claim = Claim(
            printed=table.text("printed"),
            says=table.text("says"),
            tests=self._tests(table),
            comment=self.words(table, "comment", ""),
            counts_spread=table.flag("spread"),
            share=_fraction(table, "share") if table.has("share") else None,
        )
        if claim.counts_spread and any(test.compares == "within" for test in claim.tests):
            raise table.fault("spread", "a bound of `within` has no spread")
        if not claim.counts_spread and any(test.margin for test in claim.tests):
            raise table.fault("", "a test with a margin needs spread = true in its claim")
        return claim

    def relation(self, table: Table) -> Relation:
        sides = [self._claim_point(table.table(side)) for side in ("left", "right")]
        for key, side in zip(("left", "right"), sides, strict=True):
            if fault := places.too_few(self._sweeps[side.sweep], side.metric, side.at):
                raise table.fault(key, fault)
        return Relation(
            printed=table.text("printed"),
            says=table.text("says"),
            value=_printed(table, table.number("value"), "value"),
            kind=table.choice("is", RELATIONS),
            left=sides[0],
            right=sides[1],
            reason=self.words(table, "reason", ""),
        )

    def _tests(self, table: Table) -> tuple[ClaimTest, ...]:
        tests = table.tables("test", self._claim_tests)
        if not tests:
            raise table.fault("", "a claim needs at least one [[claim.test]]")
        return tuple(one for several in tests for one in several)

    def _claim_tests(self, table: Table) -> tuple[ClaimTest, ...]:
        """A test; with `against` one for each of the values there, which the right side has."""
        left = self._claim_point(table.table("left"))
        compares = table.choice("is", COMPARES)
        right: Point | float
        if table.has("value"):
            right = table.number("value")
        else:
            right = self._claim_point(table.table("right"))
        against = self._over(table, "against", (right,))
        over = self._over(table, "over", (left, right))
        for key, side, axes in (("left", left, over), ("right", right, {**over, **against})):
            if isinstance(side, Point):
                sweep = self._sweeps[side.sweep]
                if fault := places.too_few(sweep, side.metric, {*side.at, *axes}):
                    raise table.fault(key, fault)
        has_margin = table.has("margin")
        if has_margin and compares != "=":
            raise table.fault("margin", f'only is = "=" has one, not "{compares}"')
        margin = _fraction(table, "margin") if has_margin else 0.0
        test = ClaimTest(left, compares, right, over, margin)
        if not isinstance(right, Point):
            return (test,)
        sides = (replace(right, at={**right.at, **point}) for point in points(against))
        return tuple(replace(test, right=side) for side in sides)

    def _over(
        self, table: Table, key: str, sides: Sequence[Point | float]
    ) -> dict[str, tuple[Value, ...]]:
        """The axes that sides of a test run over; they must have every point."""
        inner = table.table(key)
        points = [side for side in sides if isinstance(side, Point)]
        if inner.names() and not points:
            raise table.fault(key, "the right side is a number")
        over: dict[str, tuple[Value, ...]] = {}
        for axis in inner.names():
            if axis not in AXES:
                raise inner.fault(axis, unknown("axis", axis, AXES))
            if inner.peek(axis) == EVERY:
                inner.text(axis)
                over[axis] = self._sweeps[points[0].sweep].grid.get(axis, ())
            else:
                over[axis] = tuple(_axis_value(inner, axis, item) for item in inner.values(axis))
            if not over[axis]:
                raise inner.fault(axis, "must hold at least one value")
            for side in points:
                if axis not in side.at and (fault := places.for_all(side.metric, (axis,))):
                    raise inner.fault(axis, fault)
                for value in over[axis]:
                    self._check_point(table, key, self._sweeps[side.sweep], {axis: value})
        inner.done()
        return over

    def _claim_point(self, table: Table) -> Point:
        sweep = self._sweep(table)
        minus = _at(table, "minus")
        self._check_point(table, "minus", sweep, minus)
        metric = self._metric(table, "metric")
        has_level = table.has("level")
        point = Point(
            sweep=sweep.name,
            metric=metric,
            at=self._point(table, sweep, metric),
            minus=minus,
            level=table.choice("level", LEVELS, _telling(sweep)),
            factor=table.number("factor", 1.0),
            is_level_named=has_level,
            is_absolute=table.flag("absolute"),
        )
        table.done()
        return point

    def figure(self, table: Table) -> Figure:
        has_parts = table.has(PART)
        parts = table.tables(PART, self.part) if has_parts else (self._part(table, ""),)
        name = table.text("name")
        if not FILE_NAME.fullmatch(name):
            what = "of letters, digits and . _ -, because files get this name"
            raise table.fault("name", f"must be a word {what}, found {name!r}")
        axes = tuple(AXES)
        for key in ("x", "series", "panels"):
            for part in parts:
                self._check_axis(table, key, part)
        axes += (PART,) if has_parts else ()
        return Figure(
            name=name,
            printed=table.text("printed", ""),
            title=table.text("title"),
            parts=parts,
            x=table.choice("x", axes),
            series=table.choice("series", (*axes, "metric", "level")),
            panels=table.choice("panels", (*axes, ""), ""),
            draw=table.choice("draw", DRAWN, "line"),
            x_scale=table.choice("x_scale", SCALES, "linear"),
            y_scale=table.choice("y_scale", SCALES, "linear"),
            y_most=table.number("y_most", above=0) if table.has("y_most") else None,
            note=self.words(table, "note", ""),
        )

    def part(self, table: Table) -> Part:
        return self._part(table, table.text("name"))

    def _part(self, table: Table, name: str) -> Part:
        """One sweep of a figure, or all of a figure of one sweep."""
        sweep = self._sweep(table)
        metrics = table.texts("y")
        for metric in metrics:
            self._check_metric(table, "y", metric)
        if not metrics:
            raise table.fault("y", "must name at least one metric")
        return Part(name, sweep.name, metrics, self._point(table, sweep, *metrics))

    def _check_axis(self, table: Table, key: str, part: Part) -> None:
        """Refuse an axis of a figure that the sweep or its metrics do not have."""
        axis, sweep = str(table.peek(key)), self._sweeps[part.sweep]
        if axis in AXES and not sweep.held(axis):
            held = [one for one in AXES if sweep.held(one)]
            what = f'the sweep "{sweep.name}" has no axis {axis}'
            raise table.fault(key, f"{what}, {nearest(axis, held)}")
        for metric in part.metrics:
            if fault := places.for_all(metric, (axis,)):
                raise table.fault(key, fault)

    def _sweep(self, table: Table) -> Sweep:
        return self._sweeps[table.choice("sweep", tuple(self._sweeps))]

    def _metric(self, table: Table, key: str) -> str:
        metric = table.text(key)
        self._check_metric(table, key, metric)
        return metric

    @staticmethod
    def _check_metric(table: Table, key: str, metric: str) -> None:
        if not is_known(metric):
            raise table.fault(key, unknown("metric", metric, METRICS))

    def _point(self, table: Table, sweep: Sweep, *metrics: str) -> dict[str, Value]:
        point = _at(table)
        self._check_point(table, "at", sweep, point)
        for metric in metrics:
            if fault := places.for_all(metric, point):
                raise table.fault("at", fault, "rate_kbps")
        return point

    @staticmethod
    def _check_point(table: Table, key: str, sweep: Sweep, point: Mapping[str, Value]) -> None:
        """Refuse a value outside the grid, which would never be compared."""
        for axis, value in point.items():
            held = sweep.held(axis)
            if value not in held:
                valid = [f"{item:g}" if isinstance(item, float) else str(item) for item in held]
                what = f'the sweep "{sweep.name}" has no {axis} = {value}'
                raise table.fault(key, f"{what}, {nearest(str(value), valid)}", axis)


def _telling(sweep: Sweep) -> str:
    """The level of a sentence's values that names none."""
    if sweep.levels == ("testbed",) or (sweep.measure == WIRELESS and "testbed" in sweep.levels):
        return "testbed"
    is_run = sweep.measure in ("road", FLOWS) and "simulate" in sweep.levels
    return "simulate" if is_run else "model"


def _is_parameter(table: Table, sweep: Sweep) -> bool:
    """Whether a value is a parameter: always in a sweep of parameters, otherwise by its key."""
    return table.flag("parameter") or sweep.measure == "parameters"


def _fraction(table: Table, key: str) -> float:
    value = table.number(key)
    if not 0 < value < 1:
        raise table.fault(key, f"must be between 0 and 1, found {value:g}")
    return value


def _printed(table: Table, value: float, key: str) -> float:
    """A printed value. A printed 0 has no relative difference."""
    if value == 0:
        what = 'there is no relative difference from 0: use a [[claim]] with is = "="'
        raise table.fault(key, what)
    return value


def _at(table: Table, key: str = "at") -> dict[str, Value]:
    point = table.leaves(key, tuple(AXES))
    return {axis: _axis_value(table, axis, value) for axis, value in point.items()}


def _axis_value(table: Table, axis: str, value: object) -> Value:
    """Numbers on numeric axes, texts on the others."""
    if axis in NUMERIC_AXES:
        return table.check_number(value, "at")
    if not isinstance(value, str):
        raise table.fault("at", f"{axis} must be text, found {value!r}")
    return value


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
