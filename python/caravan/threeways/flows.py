"""A graph's flows at two levels: simulated by the event kernel, and run in namespaces.

The testbed sets up all tunnels with the real program, starts all flows at the same time, and moves
clients at the scenario's times. Both levels report which datagrams arrived, by number, and what
each link carried. There is no model of a graph.
"""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from caravan.lab import core
from caravan.numbers import missing
from caravan.testbed import datagrams
from caravan.testbed.capture import Capture, read_pcap
from caravan.testbed.caravan import Caravan
from caravan.testbed.connection import Connection, PublicKey
from caravan.testbed.graph import GraphNetwork, NotForTestbed
from caravan.testbed.host import Host
from caravan.testbed.pki import CaravanAuthority, passing_folder
from caravan.testbed.process import Process
from caravan.threeways.ends import policy_ends, policy_mode
from caravan.threeways.measurement import CLEAR, Keys

UDP_HEADERS_BYTES = 28
FIRST_PORT = 20_000
LEAD_S = 1.5
"""Time from starting the senders to the first datagram, so that all senders are ready."""
QUIET_S = 2.0
"""Time after the last datagram, so that it can arrive."""
READY_S = 10.0
IPV4 = 0x0800
TUNNEL = "caravan0"


@dataclass(frozen=True)
class Counted:
    """A flow: how many datagrams were sent, and the ranges of received numbers, first and last."""

    name: str
    sent: int
    runs: tuple[tuple[int, int], ...]

    @property
    def received(self) -> int:
        """How many were received."""
        return sum(last - first + 1 for first, last in self.runs)

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """Missing numbers, including those before the first received one and after the last one."""
        return missing(self.runs, self.sent)


@dataclass(frozen=True)
class Flows:
    """The results of a level: each flow, and for each link the IP bytes up and down."""

    flows: tuple[Counted, ...]
    link_bytes: Mapping[str, tuple[int, int]]


def two_ways(
    question: core.Question, resolved: Mapping[str, Any], output: Path, *, runs_testbed: bool = True
) -> tuple[Flows, Flows | None]:
    """Both levels of a graph that the native core has `resolved`; captures and logs in `output`."""
    output.mkdir(parents=True, exist_ok=True)
    answer = core.kernel(question, output / "simulate.pcapng")["simulate"]
    if not answer["flows"]:
        failures = (said for one in answer["tunnels"] for said in one["exchange"]["failures"])
        raise ValueError(f"a tunnel does not come up: {'; '.join(failures)}")
    measured = testbed(resolved, output / "testbed") if runs_testbed else None
    return simulated(answer), measured


def simulated(outcome: Mapping[str, Any]) -> Flows:
    """The event kernel's: `simulate` in the result of `_lab.kernel`."""
    flows = (
        Counted(flow["name"], flow["streamed"]["sent"], tuple(map(tuple, flow["numbers"])))
        for flow in outcome["flows"]
        if flow["streamed"] is not None
    )
    links = {
        link["name"]: (link["up"]["bytes"], link["down"]["bytes"]) for link in outcome["links"]
    }
    return Flows(tuple(flows), links)


def testbed(resolved: Mapping[str, Any], output: Path) -> Flows:
    """The scenario with the real program in namespaces; `resolved` is the native core's answer."""
    scenario, graph = resolved["scenario"], resolved["graph"]
    check(scenario)
    output.mkdir(parents=True, exist_ok=True)
    with GraphNetwork(scenario, graph, output) as network, _tunnels(scenario, graph, network):
        captures = {
            link["name"]: (network.links[index], output / f"link-{index}.pcap")
            for index, link in enumerate(graph["links"])
        }
        with contextlib.ExitStack() as stack:
            for (host, interface), path in captures.values():
                stack.enter_context(Capture(host, interface, path))
            flows = _run(scenario, graph, network, output)
        return Flows(flows, {name: _carried(*end, path) for name, (end, path) in captures.items()})


def check(scenario: Mapping[str, Any]) -> None:
    """Refuse what namespaces cannot reproduce, with the name of its key."""
    for flow in scenario["flows"]:
        if flow["model"]["kind"] != "constant" or flow["sizes"]["kind"] != "fixed":
            raise NotForTestbed(
                f"flow.{flow['name']}.model",
                f"{flow['model']['kind']}: the testbed of a graph sends constant datagrams of one "
                "size",
            )
        if flow["direction"] == "down" and policy_mode(scenario["policy"]) == "transport":
            raise NotForTestbed(
                f"flow.{flow['name']}.from",
                "in transport mode the testbed's stations send, and no server begins",
            )
    for step in scenario["moves"]:
        if "link" in step and "up" not in step["link"]:
            raise NotForTestbed("move", "a running link of the testbed goes up and down alone")


@contextlib.contextmanager
def _tunnels(
    scenario: Mapping[str, Any], graph: Mapping[str, Any], network: GraphNetwork
) -> Iterator[None]:
    """Every gateway and client up; without protection the gateways only publish."""
    roles = [node["role"] for node in scenario["nodes"]]
    gateways = [index for index, role in enumerate(roles) if role == "gateway"]
    with contextlib.ExitStack() as stack:
        authority = CaravanAuthority(stack.enter_context(passing_folder(network.output)))

        def issue(name: str) -> PublicKey:
            return PublicKey(authority.issue(f"{name}.example"), authority)

        for number, gateway in enumerate(gateways):
            name = network.names[gateway]
            keys = Keys(issue(name), issue(f"of-{name}"))
            on_gateway, on_station = policy_ends(keys, scenario["policy"])
            on_gateway = replace(on_gateway, local_id=f"{name}.example")
            on_gateway = _published(on_gateway, scenario, graph, network, gateway)
            inside = network.inside(gateway) or f"{network.address(gateway)}/32"
            if on_gateway.mode == "tunnel":
                on_gateway = replace(on_gateway, local_ts=inside)
            on_gateway = replace(on_gateway, pool=f"10.99.{number}.0/24")
            stack.enter_context(Caravan(network.node(gateway), on_gateway)).wait_ready()
            stations = [one["from"] for one in graph["tunnels"] if one["to"] == gateway]
            daemons = []
            if on_station is None:
                continue
            for station in stations:
                end = replace(
                    on_station,
                    auth=issue(network.names[station]),
                    local_id=f"{network.names[station]}.example",
                    remote_id=f"{name}.example",
                    remote_addrs=network.address(gateway),
                    remote_ts=inside if on_station.mode == "tunnel" else "",
                )
                daemons.append(stack.enter_context(Caravan(network.node(station), end)))
            for daemon in daemons:
                daemon.wait_ready()
        yield


def _published(
    connection: Connection,
    scenario: Mapping[str, Any],
    graph: Mapping[str, Any],
    network: GraphNetwork,
    gateway: int,
) -> Connection:
    """The ports of flows to the server behind a gateway, if clients know only the gateway."""
    if connection.mode == "tunnel" and scenario["policy"] != CLEAR:
        return connection
    ports = tuple(
        (FIRST_PORT + number, f"{network.address(flow['to'])}:{FIRST_PORT + number}")
        for number, flow in enumerate(graph["flows"])
        if flow["direction"] == "up" and flow["to"] != gateway
    )
    return replace(connection, publish=ports, publish_protocol="udp")


def _run(
    scenario: Mapping[str, Any],
    graph: Mapping[str, Any],
    network: GraphNetwork,
    output: Path,
) -> tuple[Counted, ...]:
    """Start all flows at the same time, and make the moves at their times after it."""
    receivers = [
        _receiver(network.node(flow["to"]), FIRST_PORT + number, output / f"flow-{number}.numbers")
        for number, flow in enumerate(graph["flows"])
    ]
    time_s = scenario["run"]["time_s"]
    start_ns = time.monotonic_ns() + int(LEAD_S * 1e9)
    senders = [
        _sender(scenario, graph, network, number, start_ns) for number in range(len(receivers))
    ]
    for step in scenario["moves"]:
        _wait_until(start_ns + int(step["at_s"] * 1e9))
        if "station" in step:
            network.attach(step["station"]["node"], step["station"]["to"])
        else:
            network.set_up(step["link"]["link"], is_up=step["link"]["up"])
    for sender in senders:
        sender.wait(time_s + LEAD_S + READY_S).check()
    _wait_until(start_ns + int((time_s + QUIET_S) * 1e9))
    for receiver in receivers:
        receiver.stop().check()
    return tuple(
        Counted(
            flow["name"],
            _count(flow, time_s),
            _runs([int(line) for line in path.read_text().split()]),
        )
        for flow, path in (
            (flow, output / f"flow-{number}.numbers") for number, flow in enumerate(graph["flows"])
        )
    )


def _receiver(host: Host, port: int, path: Path) -> Process:
    argv = [sys.executable, datagrams.__file__, "receive", str(port), str(path)]
    process = host.popen(argv, name="receive")
    process.wait_for(lambda: "listening" in process.stdout(), "receiver", READY_S)
    return process


def _sender(
    scenario: Mapping[str, Any],
    graph: Mapping[str, Any],
    network: GraphNetwork,
    number: int,
    start_ns: int,
) -> Process:
    flow = graph["flows"][number]
    is_down = flow["direction"] == "down"
    station = flow["to" if is_down else "from"]
    has_tunnel = any(tunnel["from"] == station for tunnel in graph["tunnels"])
    is_inner = has_tunnel and policy_mode(scenario["policy"]) == "tunnel"
    if is_down:
        address = _inner(network.node(station)) if is_inner else network.address(station)
    elif is_inner:
        address = network.address(flow["to"])
    else:
        address = network.address(_door(graph, flow["to"]))
    size = int(flow["sizes"]["bytes"]) - UDP_HEADERS_BYTES
    words = (address, FIRST_PORT + number, size, _gap_ns(flow))
    count = _count(flow, scenario["run"]["time_s"])
    argv = [sys.executable, datagrams.__file__, "send", *map(str, words), str(count), str(start_ns)]
    return network.node(flow["from"]).popen(argv, name="send")


def _door(graph: Mapping[str, Any], node: int) -> int:
    """The gateway of a server."""
    own = {port["segment"] for port in graph["ports"] if port["node"] == node}
    behind = (graph["segments"][index]["behind"] for index in own)
    return next((gateway for gateway in behind if gateway is not None), node)


def _inner(station: Host) -> str:
    """The inner address of a client."""
    (address,) = (text.partition("/")[0] for text in station.addresses(TUNNEL))
    return address


def _gap_ns(flow: Mapping[str, Any]) -> int:
    size, rate_bps = float(flow["sizes"]["bytes"]), float(flow["model"]["rate_bps"])
    return round(size * 8e9 / rate_bps)


def _count(flow: Mapping[str, Any], time_s: float) -> int:
    """The first datagram leaves at time 0, the last one not after the end."""
    return math.floor(time_s * 1e9 / _gap_ns(flow)) + 1


def _wait_until(moment_ns: int) -> None:
    time.sleep(max(0, moment_ns - time.monotonic_ns()) / 1e9)


def _runs(numbers: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Numbers as ranges, in the order of arrival."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] + 1 == number:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return tuple(runs)


def _carried(host: Host, interface: str, path: Path) -> tuple[int, int]:
    """IP bytes of a capture at the far end of a link: received and sent."""
    own = bytes.fromhex(host.hardware_address(interface).replace(":", ""))
    frames = [frame for frame in read_pcap(path) if frame.ether_type == IPV4]
    sent = sum(len(frame.packet) for frame in frames if frame.data[6:12] == own)
    return sum(len(frame.packet) for frame in frames) - sent, sent
