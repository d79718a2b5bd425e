"""The ten steps of tunnel agents over a link, measured in namespaces: the request of a cell.

Left out: how they are measured, which is in `caravan.threeways.agents`. What their messages alone
take is the measure `exchange`, of the files with the same names.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from caravan import _lab
from caravan.messages import unknown
from caravan.study.cells import canonical
from caravan.study.parsed import Run
from caravan.study.text import StudyError, Value

if TYPE_CHECKING:
    from caravan.threeways.agents import Beds


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
    try:
        (read,) = json.loads(
            _lab.listing(canonical({"kind": "link", "catalogue": [{"kind": "link", **link}]}))
        )
    except _lab.Refusal as fault:
        raise StudyError.of(fault) from None
    if read["link"]["trace"] is not None:
        raise StudyError.edit("link", "a recording has no rate: name a link that has one")
    return {"part": part, "link": read["link"], "runs": run.replications}


class Measuring:
    """Measures cells one after the other; agents stay for cells over the same wire. A context
    manager."""

    def __init__(self) -> None:
        self._running = contextlib.ExitStack()
        self._beds: Beds | None = None

    def result(self, request: Mapping[str, Any]) -> bytes:
        """The result of a cell; the process must have entered a private namespace."""
        from caravan.testbed import NamespaceError  # noqa: PLC0415
        from caravan.testbed.folders import temporary_folder  # noqa: PLC0415
        from caravan.threeways.agents import Beds, Setting  # noqa: PLC0415

        try:
            if self._beds is None:
                output = self._running.enter_context(temporary_folder("caravan-agents-"))
                self._beds = self._running.enter_context(Beds(output))
            return json.dumps(self._beds.measure(Setting.of(request))).encode()
        except (NamespaceError, OSError, ValueError) as fault:
            said = f"{request['part']}: {fault}"
            raise StudyError(f"--level testbed: {said}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()
