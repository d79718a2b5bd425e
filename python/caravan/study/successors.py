"""Moves outside in the successors of paper M's system, measured in namespaces: the request of a
cell.

Left out: how they are measured, which is in `caravan.threeways.successors`. What their messages
take is the measure `exchange`, of the files with the same names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from caravan.messages import unknown
from caravan.study.agents import link_with_rate
from caravan.study.parsed import Run
from caravan.study.text import StudyError, Value


def request(system: Value, link: Mapping[str, str], run: Run) -> dict[str, Any]:
    """A cell's request; an error names the key of the sweep that is to blame. `link`: its file."""
    from caravan.threeways.cases import RUNS  # noqa: PLC0415
    from caravan.threeways.successors import SYSTEMS  # noqa: PLC0415

    systems = tuple(one.moved for one in SYSTEMS)
    if system not in systems:
        raise StudyError.edit("policy", unknown("successor", str(system), systems))
    runs = (1, *RUNS)
    if run.replications not in runs:
        what = f"must be one of {', '.join(map(str, runs))}, found {run.replications}"
        raise StudyError.edit("replications", what)
    return {"system": system, "link": link_with_rate(link), "runs": run.replications}


def measured(request: Mapping[str, Any]) -> bytes:
    """The result of a cell; the process must have entered a private namespace."""
    from caravan.testbed import NamespaceError  # noqa: PLC0415
    from caravan.testbed.folders import temporary_folder  # noqa: PLC0415
    from caravan.threeways.successors import Setting, measure  # noqa: PLC0415

    try:
        with temporary_folder("caravan-successor-") as output:
            return json.dumps(measure(Setting.of(request), output)).encode()
    except (NamespaceError, OSError, ValueError) as fault:
        raise StudyError(f"--level testbed: {request['system']}: {fault}") from None
