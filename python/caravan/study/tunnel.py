"""A tunnel brought up and used, at each level: the event kernel's answers and the testbed's.

`model` and `simulate` come from one call of the native core, with the real node inside; `testbed`
is the real program in namespaces (`caravan.threeways`). All give the same metrics.
"""

from __future__ import annotations

import importlib
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from caravan.levels import Metrics, computed, simulated


def read(level: str, result: bytes) -> Metrics:
    """The metrics of a level out of a job's result; None where there is no such thing."""
    answer = json.loads(result)
    if level == "model":
        return computed(answer["model"])
    if level == "simulate":
        return simulated(answer["simulate"])
    metrics: Metrics = answer
    return metrics


def measured(scenario: Mapping[str, Any]) -> bytes:
    """The scenario in namespaces; the process must have entered its corner of the machine."""
    threeways = importlib.import_module("caravan.threeways")
    with tempfile.TemporaryDirectory(prefix="caravan-testbed-") as output:
        return json.dumps(threeways.testbed(scenario, Path(output))).encode()
