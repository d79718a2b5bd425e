"""The parameters of a study, read from where the computation takes them.

A key is a path into the resolved scenario, or into one of these: `sweeps` (the ranges of the
study's own sweeps), `devices` (cost tables), `packet` (parts of a protected packet) and `packets`
(those of each policy of SKIP).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from caravan.document import plain
from caravan.messages import nearest
from caravan.study.metrics import NUMERIC_AXES
from caravan.study.parsed import Study
from caravan.study.text import StudyError
from caravan.threeways import sizes

PACKET_SUITE = "null-md5"
"""The suite of the packet whose parts keys may name: its check value is HMAC-MD5-96."""
COUNT = "count"
COUNTED = ("runs", "writes")
"""What a sweep of cases sets besides its grid."""


def ranges(study: Study, *, is_quick: bool) -> dict[str, Any]:
    """Each sweep's numeric axes, with ends and number of points, and its run."""
    found: dict[str, Any] = {}
    for sweep in study.sweeps:
        run = sweep.quick if is_quick else sweep.run
        grid = {**sweep.grid, **(sweep.quick_grid if is_quick else {})}
        found[sweep.name] = {
            "seconds": run.seconds,
            "replications": run.replications,
            **{key: sweep.settings[key] for key in COUNTED if key in sweep.settings},
            **{axis: _ends(grid[axis]) for axis in NUMERIC_AXES if axis in grid},
        }
    return found


def _ends(values: Sequence[Any]) -> dict[str, float]:
    return {"least": min(values), "most": max(values), COUNT: len(values)}


def document(
    scenario: Mapping[str, Any],
    sweeps: Mapping[str, Any],
    devices: Mapping[str, str],
    skip: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Everything that keys may refer to; `devices` are texts of cost tables by name, `skip` those
    of policies."""
    tables = {name: plain(name, text) for name, text in devices.items()}
    packets = {name: sizes.parts_of(name, text) for name, text in (skip or {}).items()}
    known = {"sweeps": sweeps, "devices": tables, "packet": sizes.parts(PACKET_SUITE)}
    return {**scenario, **known, "packets": packets}


def number(document: Mapping[str, Any], key: str) -> float:
    """The number at `key`, as `links.ms.rate.up_bps / 1e6`, `links.count - 1` or
    `sweeps.grid.mips.least`.

    Nodes, flows and the links of a graph are named, links of a chain by the node from which they
    start; `nodes.count` counts the nodes.
    """
    whole, _, less = (part.strip() for part in key.partition(" - "))
    path, _, divisor = (part.strip() for part in whole.partition("/"))
    names = [node["name"] for node in document["nodes"]]
    value: Any = document
    for step in path.split("."):
        if isinstance(value, list):
            own = [str(one["name"]) for one in value if isinstance(one, dict) and "name" in one]
            held = own if len(own) == len(value) else names
            valid: Sequence[str] = (*held, COUNT)
            value = _of_list(value, held, step)
        elif isinstance(value, dict):
            valid, value = list(value), value.get(step)
        else:
            valid, value = (), None
        if value is None:
            what = f"{path} of the scenario has no '{step}', {nearest(step, valid)}"
            raise StudyError.edit("keys", what)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise StudyError.edit("keys", f"{path} of the scenario is not a number")
    try:
        return float(value) / float(divisor or 1) - float(less or 0)
    except (ValueError, ZeroDivisionError):
        said = f"cannot divide by '{divisor}'" + (f" and subtract '{less}'" if less else "")
        raise StudyError.edit("keys", said) from None


def _of_list(values: Sequence[Any], names: Sequence[str], step: str) -> Any:
    if step == COUNT:
        return len(values)
    index = names.index(step) if step in names else len(values)
    return values[index] if index < len(values) else None
