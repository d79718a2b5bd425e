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

Metrics = dict[str, float | None]


def read(level: str, result: bytes) -> Metrics:
    """The metrics of a level out of a job's result; None where there is no such thing."""
    answer = json.loads(result)
    if level == "model":
        return _computed(answer["model"])
    if level == "simulate":
        return _simulated(answer["simulate"])
    metrics: Metrics = answer
    return metrics


def measured(scenario: Mapping[str, Any]) -> bytes:
    """The scenario in namespaces; the process must have entered its corner of the machine."""
    threeways = importlib.import_module("caravan.threeways")
    with tempfile.TemporaryDirectory(prefix="caravan-testbed-") as output:
        return json.dumps(threeways.testbed(scenario, Path(output))).encode()


def _computed(model: Mapping[str, Any]) -> Metrics:
    has_tunnel = model["handshake_messages"] > 0
    return {
        "handshake_ms": _ms(model["handshake_s"]),
        "handshake_messages": model["handshake_messages"] if has_tunnel else None,
        "handshake_bytes": model["handshake_wire_bytes"] if has_tunnel else None,
        **_wire(model["wire_bytes"]),
        "rtt_ms": _ms(model["round_trip_s"]),
        "tcp_kbps": model["throughput_bps"] / 1e3,
    }


def _simulated(outcome: Mapping[str, Any]) -> Metrics:
    exchange, tcp = outcome["exchange"], outcome["transferred"]
    trips = outcome["round_trips"]
    return {
        "handshake_ms": _ms(exchange and exchange["handshake_s"]),
        "handshake_messages": exchange and len(exchange["messages"]),
        "handshake_bytes": exchange and exchange["wire_bytes"],
        **_wire(outcome["wire_bytes"]),
        "rtt_ms": _ms(trips["mean_s"] if trips and trips["received"] else None),
        "tcp_kbps": tcp and tcp["throughput_bps"] / 1e3,
    }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3


def _wire(sizes: list[list[int]]) -> Metrics:
    return {f"wire_bytes_{clear}": wire for clear, wire in sizes}
