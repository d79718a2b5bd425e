"""The ten steps of tunnel agents over a link, measured in namespaces: the request of a cell.

Left out: how they are measured, which is in `caravan.threeways.agents`. What their messages alone
take is the measure `exchange`, of the files with the same names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from caravan import _lab
from caravan.messages import unknown
from caravan.study import measured
from caravan.study.cells import canonical
from caravan.study.parsed import Run
from caravan.study.text import StudyError, Value

if TYPE_CHECKING:
    from caravan.threeways.agents import Beds, Setting


def request(part: Value, link: Mapping[str, str], run: Run) -> dict[str, Any]:
    """A cell's request; an error names the key of the sweep that is to blame. `link`: its file."""
    from caravan.threeways.agents import PARTS  # noqa: PLC0415
    from caravan.threeways.cases import QUANTILES  # noqa: PLC0415

    if part not in PARTS:
        raise StudyError.edit("policy", unknown("part", str(part), PARTS))
    runs = (1, *QUANTILES)
    if run.replications not in runs:
        what = f"must be one of {', '.join(map(str, runs))}, found {run.replications}"
        raise StudyError.edit("replications", what)
    return {"part": part, "link": link_with_rate(link), "runs": run.replications}


def link_with_rate(link: Mapping[str, str]) -> dict[str, Any]:
    """A link's file as the native core reads it; a recording is refused."""
    try:
        (read,) = json.loads(
            _lab.listing(canonical({"kind": "link", "catalogue": [{"kind": "link", **link}]}))
        )
    except _lab.Refusal as fault:
        raise StudyError.of(fault) from None
    found: dict[str, Any] = read["link"]
    if found["trace"] is not None:
        raise StudyError.edit("link", "a recording has no rate: name a link that has one")
    return found


class Measuring(measured.Measuring):
    """Agents stay for cells over the same wire."""

    name = "agents"

    def bed(self, output: Path) -> Beds:
        from caravan.threeways.agents import Beds  # noqa: PLC0415

        return Beds(output)

    def setting(self, request: Mapping[str, Any]) -> Setting:
        from caravan.threeways.agents import Setting  # noqa: PLC0415

        return Setting.of(request)

    def place(self, request: Mapping[str, Any]) -> str:
        return str(request["part"])
