"""The flows of a graph in the event kernel, with the real nodes: metrics of every flow and tunnel.

A metric is written `name:flow`, those of a handshake `name:station`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from caravan.lab.policies import Policies
from caravan.study.metrics import OF_HANDSHAKE, Measure
from caravan.study.tunnel import COMPLETE, INCOMPLETE

TCP = ("tcp_kbps",)
DATAGRAMS = (
    "sent_packets",
    "received_packets",
    "missing_packets",
    "throughput_kbps",
    "mean_delay_ms",
)
"""The metrics of a flow of datagrams."""


def read(result: bytes, scenario: Mapping[str, Any], policies: Policies) -> list[Measure]:
    """The metrics of each tunnel and flow, from a job's result, with their policies.

    No flow starts unless every tunnel is up: then its metrics have no value.
    """
    run = json.loads(result)["simulate"]
    measures = [
        replace(one, policy=policies.of_clients[tunnel["station"]])
        for tunnel in run["tunnels"]
        for one in _handshake(tunnel)
    ]
    is_started = bool(run["flows"])
    for flow in run["flows"] if is_started else scenario["flows"]:
        found = _of_flow(flow) if is_started else _never_started(flow)
        measures += [replace(one, policy=policies.of_flows[flow["name"]]) for one in found]
    return measures


def _handshake(tunnel: Mapping[str, Any]) -> Iterator[Measure]:
    exchange = tunnel["exchange"]
    seconds = exchange["handshake_s"]
    values = (
        None if seconds is None else seconds * 1e3,
        len(exchange["messages"]),
        exchange["wire_bytes"],
    )
    state = COMPLETE if exchange["is_up"] else INCOMPLETE
    for name, value in zip(OF_HANDSHAKE, values, strict=True):
        yield Measure(f"{name}:{tunnel['station']}", value, state=state)


def _never_started(flow: Mapping[str, Any]) -> Iterator[Measure]:
    is_tcp = flow["model"]["kind"] == "tcp"
    for name in TCP if is_tcp else DATAGRAMS:
        yield Measure(f"{name}:{flow['name']}", None, state=INCOMPLETE)


def _of_flow(flow: Mapping[str, Any]) -> Iterator[Measure]:
    name, moved, streamed = flow["name"], flow["transferred"], flow["streamed"]
    if moved is not None:
        state = COMPLETE if moved["is_complete"] else INCOMPLETE
        yield Measure(f"{TCP[0]}:{name}", moved["throughput_bps"] / 1e3, state=state)
        return
    sent, received = streamed["sent"], streamed["received"]
    values = (
        sent,
        received,
        sent - received,
        streamed["throughput_bps"] / 1e3,
        streamed["mean_delay_s"] * 1e3 if received else None,
    )
    for metric, value in zip(DATAGRAMS, values, strict=True):
        yield Measure(f"{metric}:{name}", value, state=COMPLETE)
