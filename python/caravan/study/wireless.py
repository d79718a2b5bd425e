"""The policies and scenarios of paper P, measured in namespaces: the request of a cell, and its
metrics.

Left out: how a cell is measured, which is in `caravan.threeways.policies`.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from caravan.messages import unknown
from caravan.study.metrics import Measure
from caravan.study.parsed import Run
from caravan.study.results import Row
from caravan.study.text import StudyError, Value
from caravan.study.tunnel import COMPLETE

if TYPE_CHECKING:
    from caravan.threeways.policies import Beds

BASE = "pn-1"
"""The policy without security, against which costs are counted."""
COSTS = {"tcp_bytes_s": "tcp_cost_bytes_s", "udp_bytes_s": "udp_cost_bytes_s"}
SHORTEST_S, LONGEST_S = 0.2, 60.0
YES, NO = "yes", "no"


def request(
    settings: Mapping[str, Value], policy: Value, link: Mapping[str, str] | None, run: Run
) -> dict[str, Any]:
    """A cell's request; an error names the key of the sweep that is to blame.

    `link`: what the air carries; None: it is no limit.
    """
    from caravan.testbed.dot1x.ipsec import GROUPS  # noqa: PLC0415
    from caravan.testbed.dot1x.policies import POLICIES  # noqa: PLC0415
    from caravan.testbed.dot1x.subnets import SCENARIOS  # noqa: PLC0415
    from caravan.threeways.policies import KEPT, RENEWED, RUNS  # noqa: PLC0415

    scenarios = tuple(one.name for one in SCENARIOS)
    if "scenario" not in settings:
        raise StudyError.edit("scenario", f"say which one: {', '.join(scenarios)}")
    known = {"tunnel": KEPT, "proof": "psk", "group": GROUPS[-1], "flows": YES}
    known |= {key: str(value) for key, value in settings.items()}
    for key, value, valid in (
        ("policy", str(policy), tuple(POLICIES)),
        ("scenario", known["scenario"], scenarios),
        ("tunnel", known["tunnel"], (KEPT, RENEWED)),
        ("proof", known["proof"], ("psk", "rsa")),
        ("group", known["group"], GROUPS),
        ("flows", known["flows"], (YES, NO)),
    ):
        if value not in valid:
            raise StudyError.edit(key, unknown(key, value, valid))
    if run.replications not in RUNS:
        what = f"must be one of {', '.join(map(str, RUNS))}, found {run.replications}"
        raise StudyError.edit("replications", what)
    if not SHORTEST_S <= run.seconds <= LONGEST_S:
        what = f"a flow takes {SHORTEST_S:g} s to {LONGEST_S:g} s, found {run.seconds:g} s"
        raise StudyError.edit("seconds", what)
    return {
        **known,
        "policy": str(policy),
        "link": link,
        "seconds": run.seconds,
        "runs": run.replications,
        "flows": known["flows"] == YES,
    }


class Measuring:
    """Measures cells one after the other in a network that stays; a context manager."""

    def __init__(self) -> None:
        self._running = contextlib.ExitStack()
        self._beds: Beds | None = None

    def result(self, request: Mapping[str, Any]) -> bytes:
        """The result of a cell; the process must have entered a private namespace."""
        from caravan.testbed import NamespaceError  # noqa: PLC0415
        from caravan.threeways.policies import Beds, Setting  # noqa: PLC0415

        try:
            if self._beds is None:
                folder = tempfile.TemporaryDirectory(prefix="caravan-wireless-")
                output = Path(self._running.enter_context(folder))
                self._beds = self._running.enter_context(Beds(output))
            return json.dumps(self._beds.measure(Setting.of(request))).encode()
        except (NamespaceError, OSError, ValueError) as fault:
            place = f"{request['policy']} in {request['scenario']}"
            raise StudyError(f"--level testbed: {place}: {fault}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()


def read(result: bytes) -> list[Measure]:
    """The metrics of a result."""
    return [
        Measure(one["metric"], one["value"], one["low"], one["high"], COMPLETE)
        for one in json.loads(result)
    ]


def costs(rows: Sequence[Row], sweeps: frozenset[str]) -> list[Row]:
    """What each policy of these sweeps costs: the throughput without security less its own, in the
    same scenario, over the same link, with the intervals of both."""
    place = {
        (row.sweep, row.reading, row.level, row.link, row.metric): row
        for row in rows
        if row.sweep in sweeps and row.policy == BASE and row.metric in COSTS
    }
    found = []
    for row in rows:
        if row.sweep not in sweeps or row.metric not in COSTS or row.policy == BASE:
            continue
        base = place.get((row.sweep, row.reading, row.level, row.link, row.metric))
        if base is None or base.value is None or row.value is None:
            continue
        cost = base.value - row.value
        ends = base.ci95_high, base.ci95_low, row.ci95_high, row.ci95_low
        low = high = None
        if None not in ends:
            half = (_half(base) ** 2 + _half(row) ** 2) ** 0.5
            low, high = cost - half, cost + half
        metric = COSTS[row.metric]
        found.append(replace(row, metric=metric, value=cost, ci95_low=low, ci95_high=high))
    return found


def _half(row: Row) -> float:
    """Half of an interval; above its value, because it is cut off at 0 below."""
    assert row.ci95_high is not None and row.value is not None
    return row.ci95_high - row.value
