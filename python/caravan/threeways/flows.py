"""A graph's flows at two levels: simulated by the event kernel, and run in namespaces.

The testbed sets up all tunnels with the real program and starts all flows at the same time. It
sends the same datagrams as the event kernel, and changes clients and links at the scenario's times.
Both levels report which datagrams arrived, by number, and what each link carried. There is no model
of a graph.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from caravan.lab import core
from caravan.numbers import missing
from caravan.testbed import flow_end
from caravan.testbed.capture import ETHER_TYPE_IPV4, ETHER_TYPE_IPV6, Capture, Frame, read_pcap
from caravan.testbed.flow_end import Listening, Received, Refused, results
from caravan.testbed.headers import datagram_headers_bytes
from caravan.testbed.process import Process
from caravan.threeways.bed import Bed, Setting, running

LEAD_S = 1.5
"""Time from starting the senders to the first datagram, so that all senders are ready."""
QUIET_S = 2.0
"""Time after the last datagram, so that it can arrive."""
READY_S = 10.0
POLL_S = 0.05


@dataclass(frozen=True)
class Counted:
    """A flow: how many datagrams were sent, and the ranges of received numbers, first and last.

    For TCP, `sent` and `received` count bytes, and `seconds` is the time of the transfer: to the
    last byte, or if not all came, to the end of the run. `refused`: what the kernel refused to do.
    """

    name: str
    sent: int
    runs: tuple[tuple[int, int], ...]
    seconds: float | None = None
    refused: tuple[Refused, ...] = ()

    @property
    def shortfall(self) -> str | None:
        """What is missing of a transfer by TCP that time ended; None: nothing, or no transfer."""
        if self.seconds is None or self.received >= self.sent:
            return None
        return cut_text(self.received, self.sent)

    @property
    def received(self) -> int:
        """How many were received."""
        return sum(last - first + 1 for first, last in self.runs)

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """Missing numbers, including those before the first received one and after the last one."""
        return missing(self.runs, self.sent)

    @property
    def kbps(self) -> float | None:
        """The throughput of TCP; None for datagrams."""
        return self.received * 8e-3 / self.seconds if self.seconds else None


@dataclass(frozen=True)
class Flows:
    """The results of a level: each flow, and the IP bytes that each link delivered up and down."""

    flows: tuple[Counted, ...]
    link_bytes: Mapping[str, tuple[int, int]]

    @property
    def notes(self) -> list[str]:
        """What the kernel refused to do, and what time cut, by flow."""
        return [
            f"{flow.name}: {said}"
            for flow in self.flows
            for said in (*flow.refused, *((flow.shortfall,) if flow.shortfall else ()))
        ]


def cut_text(received_bytes: int, sent_bytes: int) -> str:
    """A transfer that time ended, in words."""
    return f"cut by the end of the run: {received_bytes:,} of {sent_bytes:,} bytes arrived"


def two_ways(
    setting: Setting, output: Path, *, runs_testbed: bool = True
) -> tuple[Flows, Flows | None]:
    """Both levels of a graph; captures and logs go to `output`."""
    output.mkdir(parents=True, exist_ok=True)
    if runs_testbed:
        setting.check_testbed()
    answer = core.kernel(setting.opened, output / "simulate.pcapng")["simulate"]
    if not answer["flows"]:
        failures = (said for one in answer["tunnels"] for said in one["exchange"]["failures"])
        raise ValueError(f"a tunnel does not come up: {'; '.join(failures)}")
    return simulated(answer), testbed(setting, output / "testbed") if runs_testbed else None


def simulated(outcome: Mapping[str, Any]) -> Flows:
    """The event kernel's: `simulate` in the result of `_lab.Scenario.kernel`."""
    links = {
        link["name"]: (link["up"]["delivered_bytes"], link["down"]["delivered_bytes"])
        for link in outcome["links"]
    }
    return Flows(tuple(map(_counted, outcome["flows"])), links)


def _counted(flow: Mapping[str, Any]) -> Counted:
    if transferred := flow["transferred"]:
        came = _bytes(transferred["received_bytes"])
        return Counted(flow["name"], transferred["bytes"], came, transferred["seconds"])
    runs = tuple((first, last) for first, last in flow["numbers"])
    return Counted(flow["name"], flow["streamed"]["sent"], runs)


def _bytes(count: int) -> tuple[tuple[int, int], ...]:
    return ((0, count - 1),) if count else ()


def testbed(setting: Setting, output: Path) -> Flows:
    """The scenario with the real program in namespaces."""
    names = [link["name"] for link in setting.graph["links"]]
    with running(setting, output) as bed, contextlib.ExitStack() as stack:
        captures = [
            tuple(
                stack.enter_context(Capture(host, interface, output / f"link-{index}-{end}.pcap"))
                for end, (host, interface) in zip(("near", "far"), ends, strict=True)
            )
            for index, ends in enumerate(zip(bed.network.near_ends, bed.network.links, strict=True))
        ]
        flows = run(bed, output)
        stack.close()
        carried = (
            _delivered(bed.network.far_side(index), near.path, far.path)
            for index, (near, far) in enumerate(captures)
        )
        return Flows(flows, dict(zip(names, carried, strict=True)))


def run(bed: Bed, output: Path) -> tuple[Counted, ...]:
    """Start all flows at the same time, and make the moves at their times after it."""
    flows = [
        _Flow(bed, number, output / f"flow-{number}.arrived")
        for number in range(len(bed.setting.graph["flows"]))
    ]
    for flow in flows:
        flow.listen()
    start_ns = time.monotonic_ns() + int(LEAD_S * 1e9)
    for flow in flows:
        flow.start(start_ns)
    for step in bed.setting.graph["moves"]:
        _wait_until(start_ns + step["at_ns"])
        if "station" in step:
            bed.network.attach(step["station"]["node"], step["station"]["to"])
        else:
            bed.network.change(step["link"]["link"], step["link"])
    bed.network.finish()
    end_ns = start_ns + int(bed.setting.scenario["run"]["time_s"] * 1e9)
    while time.monotonic_ns() < end_ns and any(flow.is_running() for flow in flows):
        time.sleep(POLL_S)
    # Of a graph it counts what each link carries, to the last acknowledgement.
    is_quiet = not bed.setting.is_graph and all(flow.is_transferred() for flow in flows)
    for flow in flows:
        flow.end_transfer()
    if not is_quiet:
        time.sleep(QUIET_S)
    bed.network.finish()
    return tuple(flow.finish() for flow in flows)


class _Flow:
    """The two programs of a flow."""

    def __init__(self, bed: Bed, number: int, path: Path) -> None:
        graph = bed.setting.graph
        self._bed, self._path = bed, path
        self._flow, self._aim = graph["flows"][number], bed.setting.setup["flows"][number]
        self._listed = bed.setting.departures[number]
        self._is_up = self._flow["direction"] == "up"
        self._address = self._aim["server_address"]
        if not self._is_up and self._listed is not None:
            inner = self._aim["station_address"]
            self._address = inner or bed.inner_address(self._aim["station"])
        self._first: Process | None = None
        self._second: Process | None = None

    @property
    def _family(self) -> int:
        return socket.AF_INET6 if ":" in self._address else socket.AF_INET

    def listen(self) -> None:
        """Start the program that receives or listens."""
        size = 0 if self._is_up or self._listed is not None else self._flow["model"]["bytes"]
        port = self._aim["port"]
        if self._listed is None:
            words = ["serve", int(self._family), port, size]
            self._first = self._popen(self._aim["server"], words)
        else:
            words = ["receive", int(self._family), port, self._path, *self._opened()]
            self._first = self._popen(self._flow["to"], words)
        waiting = self._first
        waiting.wait_for(lambda: Listening() in results(waiting.stdout()), "receiver", READY_S)

    def _opened(self) -> list[str]:
        """In transport mode a gateway translates only what its client has begun."""
        tunnels = self._bed.setting.setup["tunnels"]
        is_protected = any(one["from"] == self._aim["station"] for one in tunnels)
        is_inner = self._aim["station_address"] is None
        return (
            [self._aim["server_address"]]
            if not self._is_up and is_protected and not is_inner
            else []
        )

    def start(self, start_ns: int) -> None:
        """Start the program that sends or connects, which waits for its start time."""
        port = self._aim["port"]
        if self._listed is None:
            size = self._flow["model"]["bytes"] if self._is_up else 0
            words = ["connect", self._address, port, size, start_ns]
            self._second = self._popen(self._aim["station"], words)
            return
        headers = datagram_headers_bytes(self._address)
        path = self._path.with_suffix(".departures")
        path.write_text("".join(f"{at} {size - headers}\n" for at, size in self._listed))
        words = ["send", self._address, port, path, start_ns]
        self._second = self._popen(self._flow["from"], words)

    def is_running(self) -> bool:
        """Whether the sender or the client is still running."""
        return self._second is not None and self._second.is_running()

    def is_transferred(self) -> bool:
        """Whether it is a transfer by TCP that is complete: nothing more comes."""
        return self._listed is None and not self.is_running()

    def end_transfer(self) -> None:
        """End a transfer by TCP that is not complete; what comes later does not count."""
        programs = (self._second, self._first) if self._is_up else (self._first, self._second)
        for program in programs if self._listed is None and self.is_running() else ():
            assert program is not None
            program.signal(signal.SIGTERM)

    def finish(self) -> Counted:
        """Stop both programs; return what arrived. `CommandFailed` if one of them has failed."""
        assert self._first is not None and self._second is not None
        ended = [program.stop().check() for program in (self._second, self._first)]
        told = [one for done in ended for one in results(done.stdout)]
        refused = tuple(one for one in told if isinstance(one, Refused))
        name = self._flow["name"]
        if self._listed is None:
            size = self._flow["model"]["bytes"]
            limit_s = self._bed.setting.scenario["run"]["time_s"]
            # a client that did not connect receives nothing
            nothing = Received(0, limit_s)
            moved = next((one for one in told if isinstance(one, Received)), nothing)
            seconds = moved.seconds if moved.size_bytes >= size else limit_s
            return Counted(name, size, _bytes(moved.size_bytes), seconds, refused)
        lines = self._path.read_text().split() if self._path.exists() else []
        numbers, sizes = map(int, lines[0::2]), map(int, lines[1::2])
        came = list(zip(numbers, sizes, strict=True))
        self._check(came)
        runs = _runs([number for number, _ in came])
        return Counted(name, len(self._listed), runs, refused=refused)

    def _check(self, came: Sequence[tuple[int, int]]) -> None:
        """Raise if a datagram does not have its size of the list."""
        headers = datagram_headers_bytes(self._address)
        for number, size in came:
            if size + headers != self._listed[number][1]:  # type: ignore[index]
                raise ValueError(f"{self._path}: datagram {number} has {size} bytes")

    def _popen(self, node: int, words: Sequence[object]) -> Process:
        argv = [sys.executable, flow_end.__file__, *map(str, words)]
        return self._bed.network.node(node).popen(argv, name=self._path.name)


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


def _delivered(far: set[bytes], near_path: Path, far_path: Path) -> tuple[int, int]:
    """IP bytes that a link delivered, up and down, each as captured at the end that they reach.

    `far` has the Ethernet addresses of those that send down.
    """
    up = sum(len(frame.packet) for frame in _told(far_path) if frame.data[6:12] not in far)
    down = sum(len(frame.packet) for frame in _told(near_path) if frame.data[6:12] in far)
    return up, down


def _told(path: Path) -> Iterator[Frame]:
    """Frames of IP, without the messages that IPv6 hosts send about the link itself."""
    return (
        frame
        for frame in read_pcap(path)
        if frame.ether_type in (ETHER_TYPE_IPV4, ETHER_TYPE_IPV6)
        and not str(frame.source).startswith("fe80:")
    )
