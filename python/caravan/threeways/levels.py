"""The results of the event kernel's two levels, under the testbed's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Metrics = dict[str, float | None]
"""By name: `handshake_ms`, `handshake_messages`, `handshake_bytes` (IP packets of all messages),
`wire_bytes_64` and `wire_bytes_480` (IP packet that carries a clear one of that size), `rtt_ms`,
`tcp_kbps`, `datagrams` (received). None: it does not exist without protection, or something has no
cost."""


def computed(model: Mapping[str, Any]) -> Metrics:
    """The closed forms': `model` in the result of `_lab.Scenario.kernel`."""
    has_tunnel = model["handshake_messages"] > 0
    return {
        "handshake_ms": _ms(model["handshake_s"]),
        "handshake_messages": model["handshake_messages"] if has_tunnel else None,
        "handshake_bytes": model["handshake_wire_bytes"] if has_tunnel else None,
        **_wire(model["wire_bytes"]),
        "rtt_ms": _ms(model["round_trip_s"]),
        "tcp_kbps": model["throughput_bps"] / 1e3,
        "datagrams": None,
    }


def simulated(outcome: Mapping[str, Any]) -> Metrics:
    """The event kernel's: `simulate` in the result of `_lab.Scenario.kernel`."""
    exchange, tcp = outcome["exchange"], outcome["transferred"]
    streamed = outcome["streamed"]
    trips = outcome["round_trips"]
    return {
        "handshake_ms": _ms(exchange and exchange["handshake_s"]),
        "handshake_messages": exchange and len(exchange["messages"]),
        "handshake_bytes": exchange and exchange["wire_bytes"],
        **_wire(outcome["wire_bytes"]),
        "rtt_ms": _ms(trips["mean_s"] if trips and trips["received"] else None),
        "tcp_kbps": tcp and tcp["throughput_bps"] / 1e3,
        "datagrams": streamed and streamed["received"],
    }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3


def _wire(sizes: list[list[int]]) -> Metrics:
    return {f"wire_bytes_{clear}": wire for clear, wire in sizes}
