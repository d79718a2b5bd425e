"""The flows of a graph in the event kernel, with the real nodes: metrics of every flow and tunnel.

A metric is written `name:flow`, those of a handshake `name:station`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from caravan.lab.policies import Policies
from caravan.study import access
from caravan.study.metrics import APPROXIMATION, OF_HANDSHAKE, Measure
from caravan.study.text import StudyError
from caravan.study.tunnel import COMPLETE, EXACT, INCOMPLETE

TCP = ("tcp_kbps", "tcp_kbytes_s", "rtt_ms", "timeouts")
"""The metrics of a flow that is a transfer by TCP."""
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
    measures += [one for node in run.get("mobile", ()) for one in _gaps(node)]
    return [*measures, *access.simulated(run)]


def check_model(scenario: Mapping[str, Any]) -> None:
    """Refuses a graph whose flows have no closed form."""
    if all(node["role"] != "access-point" for node in scenario["nodes"]):
        what = "only a graph with access points has one"
        raise StudyError(f"{scenario['name']} has no closed form of flows: {what}")


def modelled(result: bytes, scenario: Mapping[str, Any], policies: Policies) -> list[Measure]:
    """The closed forms of each flow alone, and of each station's way onto its radio."""
    model = json.loads(result)["model"]
    measures = []
    for flow, own in zip(model["flows"], scenario["flows"], strict=True):
        name, is_tcp = flow["name"], own["model"]["kind"] == "tcp"
        rate = flow["throughput_bps"]
        response = flow["response_s"]
        found = {
            "tcp_kbps": rate if is_tcp else None,
            "tcp_kbytes_s": rate / 8 if is_tcp and rate is not None else None,
            "capacity_kbps": None if is_tcp else rate,
        }
        policy = policies.of_flows[name]
        measures += [
            Measure(f"{metric}:{name}", value / 1e3, state=APPROXIMATION, policy=policy)
            for metric, value in found.items()
            if value is not None
        ]
        if response is not None:
            rtt = Measure(f"rtt_ms:{name}", response * 1e3, state=EXACT, policy=policy)
            measures.append(rtt)
    return [*measures, *access.computed(model)]


def _gaps(node: Mapping[str, Any]) -> Iterator[Measure]:
    """Both gaps of each move, named by the link that the node moved to, the first time there."""
    known = set()
    for move in node["moves"]:
        if move["to"] in known:
            continue
        known.add(move["to"])
        for name, seconds in (("gap_ms", move["data_gap_s"]), ("reachable_ms", move["gap_s"])):
            value = None if seconds is None else seconds * 1e3
            state = INCOMPLETE if seconds is None else COMPLETE
            yield Measure(f"{name}:{move['to']}", value, state=state)


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
        connected = moved["connected_s"]
        tcp = (
            moved["throughput_bps"] / 1e3,
            moved["throughput_bps"] / 8e3,
            None if connected is None else connected * 1e3,
            moved["timeouts"],
        )
        for metric, value in zip(TCP, tcp, strict=True):
            yield Measure(f"{metric}:{name}", value, state=state)
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
