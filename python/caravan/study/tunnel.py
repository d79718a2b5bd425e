"""A tunnel that is set up and used, at each level: results of the event kernel and of the testbed.

`model` and `simulate` come from one call of the native core, with the real node inside; `testbed`
is the real program in namespaces (`caravan.threeways.compare`). All have the same metrics.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cache
from typing import Any

from caravan.messages import Refused
from caravan.study.metrics import APPROXIMATION, LOWER
from caravan.study.text import StudyError
from caravan.threeways.levels import Metrics, computed, simulated

TESTBED = "testbed"
HANDSHAKE = "handshake_ms"
TRANSFER = "tcp_kbps"
ROUGH = (HANDSHAKE, TRANSFER)
"""Closed forms that leave something out: TCP's slow start, and differences between fragments."""
EXACT = "exact"
COMPLETE = "complete"
INCOMPLETE = "incomplete"
"""Of all metrics: the tunnel did not come up. Of `tcp_kbps`: the transfer ran out of time."""


def read(level: str, result: bytes) -> Metrics:
    """The metrics of a level from a job's result; None if they do not exist."""
    answer = json.loads(result)
    if level == "model":
        return computed(answer["model"])
    if level == "simulate":
        return simulated(answer["simulate"])
    metrics: Metrics = answer["metrics"]
    return metrics


def state(level: str, result: bytes) -> Callable[[str], str]:
    """The state of each metric of a level, by its name."""
    if level == "model":
        return lambda name: APPROXIMATION if name in ROUGH else EXACT
    if level == TESTBED:
        is_up, is_whole = True, json.loads(result)["cut"] is None
    else:
        answer = json.loads(result)["simulate"]
        exchange, transferred = answer["exchange"], answer["transferred"]
        is_up = exchange is None or exchange["is_up"]
        is_whole = transferred is not None and transferred["is_complete"]
    return lambda name: COMPLETE if is_up and (is_whole or name != TRANSFER) else INCOMPLETE


def bound(level: str, result: bytes, metric: str) -> str:
    """The direction of a metric's error because handshake work has no cost; empty: none.

    A graph's `handshake_ms:STATION` counts like that of a single tunnel.
    """
    if level == TESTBED or metric.partition(":")[0] != HANDSHAKE:
        return ""
    return LOWER if json.loads(result)[level]["unpriced"] is not None else ""


def check(request: Mapping[str, Any]) -> None:
    """Refuse a scenario that namespaces cannot reproduce, at the key that is to blame."""
    from caravan.testbed.graph import NotForTestbed  # noqa: PLC0415
    from caravan.threeways.bed import Setting  # noqa: PLC0415

    try:
        Setting.of(request).check_testbed()
    except NotForTestbed as found:
        raise StudyError.edit(found.key, found.what) from None
    except Refused as found:
        raise StudyError.of(found) from None


@cache
def program() -> str:
    """A hash of the program that the testbed runs: another program's results are measured again."""
    from caravan.testbed.binary import caravan_binary  # noqa: PLC0415

    return hashlib.sha256(caravan_binary().read_bytes()).hexdigest()


def measured(request: Mapping[str, Any]) -> bytes:
    """A request's scenario in namespaces; the process must have entered a private namespace."""
    from caravan.testbed import NamespaceError  # noqa: PLC0415
    from caravan.testbed.folders import temporary_folder  # noqa: PLC0415
    from caravan.threeways.bed import Setting  # noqa: PLC0415
    from caravan.threeways.compare import testbed  # noqa: PLC0415

    try:
        with temporary_folder("caravan-testbed-run-") as output:
            return json.dumps(asdict(testbed(Setting.of(request), output))).encode()
    except (NamespaceError, OSError, ValueError) as fault:
        raise StudyError(f"--level testbed: {fault}") from None
