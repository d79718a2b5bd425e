"""The parts of a study's file that refer to its sweeps: printed values, sentences, figures.

Left out: the sweeps themselves and the whole, which are in `parse`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from caravan.messages import nearest, unknown
from caravan.study import places
from caravan.study.cells import points
from caravan.study.metrics import AXES, METRICS, NUMERIC_AXES, is_known
from caravan.study.parsed import (
    FLOWS,
    LEVELS,
    PART,
    WIRELESS,
    Claim,
    ClaimTest,
    Figure,
    Part,
    Point,
    PrintedTable,
    Published,
    Reason,
    Relation,
    Sweep,
)
from caravan.study.text import Table, Value

DRAWN = ("line", "step", "bar", "stack", "points")
SCALES = ("linear", "log")
COMPARES = ("<", "<=", ">", ">=", "=", "about", "within")
RELATIONS = ("loss", "share", "times")
EVERY = "all"
"""In `over`: every value of the axis in the grid."""
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Referring:
    """Reads the parts that refer to sweeps, and checks the references."""

    def __init__(self, sweeps: Mapping[str, Sweep]) -> None:
        self._sweeps = sweeps
        self._sentences: list[str] = []

    def words(self, table: Table, key: str, default: str | None = None) -> str:
        """A text whose citations, `{{ sweep: metric }}`, a run can fill."""
        return self._checked(table, key, table.text(key, default))

    def body(self, table: Table, key: str) -> str:
        """Such a text that may also count the sentences of the study, which were read before, and
        cite the verdicts of those with names."""
        return self._checked(table, key, table.text(key), self._sentences)

    def _checked(
        self, table: Table, key: str, text: str, sentences: Sequence[str] | None = None
    ) -> str:
        if fault := places.check(text, self._sweeps, sentences):
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
            name=table.text("name", ""),
        )
        if claim.name in self._sentences:
            raise table.fault("name", f'the name "{claim.name}" is used twice')
        if claim.name:
            self._sentences.append(claim.name)
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
