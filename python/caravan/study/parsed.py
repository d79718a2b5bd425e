"""A parsed study: sweeps, published values, figures and texts."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from caravan.study.metrics import ONE_FOR_ALL
from caravan.study.text import Value

PART = "part"
"""The axis of a figure whose values are the names of its parts."""
LEVELS = ("model", "simulate", "testbed")
FLOWS = "flows"
EXCHANGE = "exchange"
CASE = "case"
STACK = "stack"
WIRELESS = "wireless"
HOSTS = "hosts"
TABLES = "tables"
AGENTS = "agents"
SUCCESSORS = "successors"
MEASURES = (
    "road",
    "price",
    "parameters",
    "tunnel",
    FLOWS,
    EXCHANGE,
    CASE,
    STACK,
    WIRELESS,
    HOSTS,
    TABLES,
    AGENTS,
    SUCCESSORS,
)
HELD = {
    "road": ("model", "simulate"),
    "price": ("model",),
    "parameters": ("model",),
    "tunnel": LEVELS,
    FLOWS: ("model", "simulate"),
    EXCHANGE: ("model",),
    CASE: ("testbed",),
    STACK: ("model",),
    WIRELESS: LEVELS,
    HOSTS: LEVELS,
    TABLES: ("testbed",),
    AGENTS: ("testbed",),
    SUCCESSORS: ("testbed",),
}
"""The possible levels of each measure."""
UNASKED = {FLOWS: ("simulate",)}
"""The levels without `levels`, where not all are possible everywhere."""
RUN_KEYS = {"run.time": "seconds", "run.warm_up": "warm_up", "run.replications": "replications"}
"""The sweep's names for a scenario's run keys."""
PRICE_KEYS = ("suite", "bytes", "mips", "clock_mhz", "direction")
"""The keys that a sweep of prices may set."""
EXCHANGE_KEYS = ("through", "detection_s", "data_bytes", "clock_mhz")
"""The keys that a sweep of exchanges may set."""
CASE_KEYS = ("case", "rate", "runs", "writes")
"""The keys that a sweep of cases may set."""
STACK_KEYS = ("behind", "roams", "data_bytes", "clock_mhz", "as_of", "software_radio")
"""The keys that a sweep of stacks may set."""
WIRELESS_KEYS = (
    "scenario",
    "tunnel",
    "proof",
    "group",
    "flows",
    "prices",
    "servers",
    "wep",
)
"""The keys that a sweep of wireless policies may set."""
HOSTS_KEYS = ("flow", "cuts", "offered_mbit_s", "device_mtu", "pace")
"""The keys that a sweep of two hosts may set."""
PRINT_TOLERANCE = 0.02
"""A larger relative difference from print needs a reason."""
RUN_TOLERANCE = 0.01
"""A smaller relative difference between two runs does not count."""


@dataclass(frozen=True)
class Reading:
    """One interpretation of an ambiguous publication: keys of the scenario that differ."""

    name: str
    says: str
    settings: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """How long and how often a path is simulated."""

    seconds: float
    warm_up_s: float
    replications: int


@dataclass(frozen=True)
class Sweep:
    """One measure at every point of a grid.

    `road` sends traffic through a scenario, `price` computes the cost of single packets,
    `parameters` reads the parameters of a computation, `tunnel` sets up the scenario's tunnel with
    the real node and uses it, `flows` runs every flow of a graph with the real nodes, `exchange`
    counts the messages that a policy needs, `case` measures a case of paper M in namespaces,
    `stack` prices security layers on top of each other, `wireless` measures a policy of paper P in
    one of its scenarios, `hosts` sends from one host to another as paper T does, `tables` reads the
    tables of paper T from the program, `agents` measures the ten steps of its agents by part,
    `successors` measures moves outside in a successor of paper M's system.
    """

    name: str
    title: str
    measure: str
    levels: tuple[str, ...]
    scenario: str
    profile: str
    grid: Mapping[str, tuple[Value, ...]]
    settings: Mapping[str, Value]
    axes: Mapping[str, str]
    readings: tuple[Reading, ...]
    keys: Mapping[str, str]
    run: Run
    quick: Run
    quick_grid: Mapping[str, tuple[Value, ...]]
    is_quick: bool
    skips_missing: bool
    """Leave out cells without a cost; the report counts and names them."""

    def held(self, axis: str) -> tuple[Value, ...]:
        """The values of an axis; readings are an axis too."""
        if axis != "reading":
            return self.grid.get(axis, ())
        return tuple(reading.name for reading in self.readings) or tuple(self.keys)

    @property
    def priced_by(self) -> list[str]:
        """The sweeps that `prices` names; none if it has none."""
        names = str(self.settings.get("prices", "")).split(",")
        return [name.strip() for name in names if name]

    def unnamed(self, metric: str, named: Collection[str]) -> list[str]:
        """The axes that must be named in addition to `named` to leave a single value."""
        axes = dict.fromkeys((*self.grid, *self.quick_grid, "reading"))
        return [
            axis
            for axis in axes
            if axis not in named
            and max(len(self.held(axis)), len(self.quick_grid.get(axis, ()))) > 1
            and metric not in ONE_FOR_ALL.get(axis, ())
        ]


@dataclass(frozen=True)
class Published:
    """A printed value, and the point at which ours is compared with it."""

    printed: str
    sweep: str
    metric: str
    at: Mapping[str, Value]
    value: float
    says: str = ""
    reason: str = ""
    is_parameter: bool = False
    """Whether it is an input of a computation, not a result."""
    fitted: str = ""
    """What was chosen to match it; empty if nothing was."""


@dataclass(frozen=True)
class PrintedTable:
    """A table in the publication's form, with ours beside each cell."""

    name: str
    printed: str
    title: str
    sweep: str
    metric: str
    at: Mapping[str, Value]
    row: str
    column: str | None
    """None: one column, whose points differ only by their row."""
    columns: tuple[Value, ...]
    cells: tuple[Published, ...]


@dataclass(frozen=True)
class Reason:
    """Why printed values differ from ours: for all values `printed` there, at these points."""

    printed: str
    at: Mapping[str, Value]
    text: str
    is_explained: bool


@dataclass(frozen=True)
class Claim:
    """A sentence of the publication, and comparisons of our values, one or more for each part.

    `counts_spread`: two values that are no further apart than their intervals do not decide it,
    which are those of a family: all points of the sentence.
    `share`: it holds if its comparisons do at more than this share of the points that are decided;
    None: at all of them.
    """

    printed: str
    says: str
    tests: tuple[ClaimTest, ...]
    comment: str
    counts_spread: bool = False
    share: float | None = None
    name: str = ""
    """By which texts of the study cite its verdict."""

    @property
    def comparisons(self) -> int:
        """At how many points it is tested, which are one family of intervals."""
        return sum(math.prod(map(len, test.over.values())) for test in self.tests)


@dataclass(frozen=True)
class Point:
    """One of our values: a metric at one point of a sweep, times `factor`.

    With `minus`, the value at the point with this difference is subtracted; with `is_absolute` the
    sign of what is left does not count.
    """

    sweep: str
    metric: str
    at: Mapping[str, Value]
    minus: Mapping[str, Value]
    level: str
    factor: float
    is_level_named: bool = True
    """Whether the study's file says the level; where it does not, another may stand in."""
    is_absolute: bool = False


@dataclass(frozen=True)
class ClaimTest:
    """`left compares right`, as `<`; right is a point or a number.

    With `over`, at every point of these axes, which replace those of both sides. `margin`: how near
    `=` is, as a fraction of the right side.
    """

    left: Point
    compares: str
    right: Point | float
    over: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    margin: float = 0.0


@dataclass(frozen=True)
class Relation:
    """A printed loss in percent, share in percent, or ratio, and the two values of ours whose
    relation it is."""

    printed: str
    says: str
    value: float
    kind: str
    left: Point
    right: Point
    reason: str


@dataclass(frozen=True)
class Left:
    """A printed value that no sweep computes, and what that would need."""

    printed: str
    says: str
    value: float
    unit: str
    needs: str


@dataclass(frozen=True)
class Part:
    """The rows of one sweep in a figure."""

    name: str
    """Its value on the axis `part`; empty in a figure of one sweep."""
    sweep: str
    metrics: tuple[str, ...]
    at: Mapping[str, Value]


@dataclass(frozen=True)
class Figure:
    """One picture: which rows, which columns on which axes, and how they are drawn."""

    name: str
    printed: str
    title: str
    parts: tuple[Part, ...]
    x: str
    series: str
    panels: str
    draw: str
    x_scale: str
    y_scale: str
    y_most: float | None
    note: str

    @property
    def metrics(self) -> tuple[str, ...]:
        """Those of all parts, each once."""
        return tuple(dict.fromkeys(metric for part in self.parts for metric in part.metrics))


@dataclass(frozen=True)
class Study:
    """The content of a study file."""

    name: str
    title: str
    publication: str
    seed: int
    texts: tuple[tuple[str, str], ...]
    sweeps: tuple[Sweep, ...]
    published: tuple[Published, ...]
    tables: tuple[PrintedTable, ...]
    reasons: tuple[Reason, ...]
    claims: tuple[Claim, ...]
    figures: tuple[Figure, ...]
    labels: Mapping[str, str]
    file: str
    left: tuple[Left, ...] = ()
    """Printed values that are not computed."""
    relations: tuple[Relation, ...] = ()
    digest: str = ""
    """SHA-256 of the file's text; empty for a study that was never a file."""

    def sweep(self, name: str) -> Sweep:
        """The sweep of that name; the parser has checked that it exists."""
        return next(sweep for sweep in self.sweeps if sweep.name == name)

    def all_published(self) -> tuple[Published, ...]:
        """Printed values, including those in tables."""
        return self.published + tuple(cell for table in self.tables for cell in table.cells)
