"""What a cell of the testbed has measured, as its result holds it: metrics with their intervals."""

from __future__ import annotations

import json

from caravan.study.metrics import Measure
from caravan.study.tunnel import COMPLETE


def read(result: bytes) -> list[Measure]:
    """The metrics of a result."""
    return [
        Measure(one["metric"], one["value"], one["low"], one["high"], COMPLETE)
        for one in json.loads(result)
    ]
