"""Measures a policy of paper P in one of its scenarios, in namespaces, with the real programs.

A cell is an arrival of the mobile node, and then flows from it to its correspondent: TCP, or TLS
in it, and UDP, for some time each, and datagrams that come back. The parts of an authentication are
those that the paper counts: IEEE 802.1X, the registration of Mobile IP and IKE. What the testbed
itself takes, as its relay of the air that wakes up late, and the time until a node looks for
agents, are columns of their own. Left out: flows to the mobile node, what other stations do to the
air at the same time, and the relay's part in a handshake of TLS.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from caravan import _lab
from caravan.testbed.dot1x.bed import Arrival, Bed, Cell, Proofs
from caravan.testbed.dot1x.network import MTU_BYTES
from caravan.testbed.dot1x.policies import Policy, policy
from caravan.testbed.dot1x.scenarios import scenario
from caravan.testbed.dot1x.subnets import Scenario
from caravan.testbed.dot1x.wireless import FCS_BYTES, LinkSecurity, dynamic_wep, static_wep
from caravan.testbed.dot1x.written import Catalogue, Written
from caravan.testbed.errors import NamespaceError
from caravan.testbed.graph import link_config
from caravan.testbed.relay import LinkConfig
from caravan.testbed.traffic_end import SEGMENT_BYTES
from caravan.threeways.cases import QUANTILES, Value
from caravan.threeways.hosts import median

SLOW, FAST = (32_768, 64), (262_144, 64)
"""Bytes in a sender's buffer of TCP, and datagrams under way by UDP: what the air carries while a
busy machine lets a program wait, and enough for a path without it."""
QUICK_WINDOW = 32
"""Datagrams under way over the air in a cell that is measured once: it waits for two windows."""
QUEUE = "100"
"""Frames that wait for an air whose file has no `queue`; a sender by UDP has fewer under way."""
HEADER_BYTES = 32
"""Of 802.11 and LLC in a frame of the air: what a link's `overhead` has more is added."""
RESPONSES, QUICK_RESPONSES = 20, 5
ECHO_BYTES, UDP_HEADERS = 52, 28
"""Of a datagram that comes back, and of it the headers of IP and UDP: as long as TCP's SYN in the
event kernel."""
RUNS = (1, *QUANTILES)
MEDIAN_QUANTILES = {2: 12.706, 3: 4.408, 4: 3.274, 5: 3.024, 10: 2.552}
"""How many standard errors (standard deviation over the root of the runs) around the median of so
many runs hold with 95 %, if these have a normal distribution: simulated, a tenth more than around
their mean."""
TRIES = 2
"""A cell that fails is tried once more, in a network of its own."""
AIR = "air1"
KEPT, RENEWED = "kept", "renewed"
LATE_PARTS = ("start", "eap", "registration", "ike")
"""The parts of an authentication that wait for frames of the air."""


@dataclass(frozen=True)
class Setting:
    """A cell: `seconds` a flow, and everything `runs` times.

    `air`: what the air of an access point carries; None: as fast as it can. Without `has_flows`
    each run is an arrival, else there is one arrival. `is_renewed`: a tunnel is made anew after a
    roam.
    """

    policy: Policy
    scenario: Scenario
    air: LinkConfig | None
    seconds: float
    runs: int
    has_flows: bool
    is_renewed: bool

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> Self:
        """From a study's request; `Refused` names file and key of what the testbed cannot do."""
        run = request["run"]
        resolved = json.loads(_lab.Scenario(json.dumps(run)).resolved())
        link = request["link"]
        return cls(
            policy=policy(request["policy"], run["catalogue"]),
            scenario=scenario(run, resolved, has_air=link is not None),
            air=None if link is None else air(link, resolved, run["catalogue"]),
            seconds=request["seconds"],
            runs=request["runs"],
            has_flows=request["flows"],
            is_renewed=request["tunnel"] == RENEWED,
        )


def air(link: Mapping[str, str], resolved: Mapping[str, Any], catalogue: Catalogue) -> LinkConfig:
    """The options of `caravan link` for a link's file, which the airs of a resolved scenario have;
    `Refused` names file and key of what the testbed cannot do."""
    text = Written.of(link)
    own, told = (
        next(one for one in document["links"] if one["name"] == AIR)
        for document in (resolved["graph"], resolved["scenario"])
    )
    if told["mtu_bytes"] not in (None, MTU_BYTES):
        what = f"stations of the testbed have {MTU_BYTES} B, found {told['mtu_bytes']:g} B"
        raise text.fault(("mtu",), what)
    if told["overhead_bytes"] < HEADER_BYTES + FCS_BYTES:
        least = HEADER_BYTES + FCS_BYTES
        what = f"a frame of the testbed has {least} B of 802.11, found {told['overhead_bytes']:g} B"
        raise text.fault(("overhead",), what)
    traces = {one["name"]: Path(one["file"]) for one in catalogue if one["kind"] == "trace"}
    config = link_config(own, traces, is_changing=True)
    assert config is not None, "a link that changes has a relay"
    # The left end of the relay is the access point: what comes from there goes down.
    is_same = config.rate == config.rate_back
    return replace(
        config,
        rate=config.rate_back,
        rate_back=None if is_same else config.rate,
        # Frames of the air have their headers; what they lack is the frame check sequence.
        overhead=round(told["overhead_bytes"]) - HEADER_BYTES,
        has_all_frames=True,
        queue=config.queue if own["queue_bytes"] else QUEUE,
    )


def security_of(policy: Policy) -> LinkSecurity:
    """What protects the frames of a policy."""
    if not policy.has_wep:
        return LinkSecurity("open", "")
    return dynamic_wep() if policy.is_dynamic else static_wep()


class Beds:
    """Networks that stay for cells to come, over one air at a time: one for each link cipher, and
    for keys of EAP-TLS that are as short as those of 2004."""

    def __init__(self, output: Path) -> None:
        self._output = output
        self._count = 0
        self._proofs: dict[bool, Proofs] = {}
        """By whether keys are short."""
        self._beds: dict[tuple[LinkSecurity, bool], Bed] = {}
        self._air: LinkConfig | None = None

    def measure(self, setting: Setting) -> list[dict[str, Any]]:
        """The metrics of a cell. The process must have entered a private namespace."""
        for left in reversed(range(TRIES)):
            try:
                return [asdict(value) for value in _measured(self._of(setting), setting)]
            except NamespaceError:
                # Whatever is wrong may still be there.
                self.close()
                if not left:
                    raise
        raise AssertionError("a cell is tried at least once")

    def _of(self, setting: Setting) -> Bed:
        if self._air != setting.air:
            self.close()
            self._air = setting.air
        security, is_short = security_of(setting.policy), setting.policy.has_short_keys
        if (security, is_short) not in self._beds:
            self._count += 1
            output = self._output / str(self._count)
            proofs = self._proofs_of(output, is_short=is_short)
            self._beds[security, is_short] = Bed(output, setting.air, security, proofs)
        return self._beds[security, is_short]

    def _proofs_of(self, output: Path, *, is_short: bool) -> Proofs:
        # If that fails, a second try needs another folder.
        if False not in self._proofs:
            self._proofs[False] = Proofs.made(output / "pki")
        if is_short and True not in self._proofs:
            self._proofs[True] = self._proofs[False].with_short_keys(output / "pki-2004")
        return self._proofs[is_short]

    def close(self) -> None:
        """End the networks, all at once."""
        beds, self._beds = list(self._beds.values()), {}
        with ThreadPoolExecutor() as threads:
            list(threads.map(Bed.close, beds))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _measured(bed: Bed, setting: Setting) -> list[Value]:
    arrivals: list[Arrival] = []
    found: list[Value] = []
    setups: list[float] = []
    for _ in range(1 if setting.has_flows else setting.runs):
        with bed.cell(setting.policy, setting.scenario, is_renewed=setting.is_renewed) as cell:
            arrivals.append(cell.arrival)
            if setting.has_flows:
                found = list(_flows(cell, setting, setups))
            elif setting.policy.transport:
                setups.append(cell.order(setting.policy.transport, 0, SLOW[0])["setup_s"])
    return [*authentication(arrivals, setups), *found]


def authentication(arrivals: Sequence[Arrival], setups: Sequence[float]) -> Iterator[Value]:
    """The parts of an authentication, and what the testbed took; `setups` are those of TLS.

    Each is the median of the arrivals: a program that the kernel runs late for once would move a
    mean of five by more than all the work that is measured.
    """
    parts: dict[str, list[float]] = {}
    for one in arrivals:
        for name, seconds in _parts(one).items():
            parts.setdefault(name, []).append(seconds)
    if setups:
        parts["tls"] = list(setups)[: len(arrivals)]
    totals = [sum(run) for run in zip(*parts.values(), strict=True)]
    yield median("authentication_s", totals)
    for name, values in parts.items():
        yield median(f"authentication_s:{name}", values)
    yield median("discovery_s", [one.discovery_s for one in arrivals])
    harness = [_harness(one) for one in arrivals]
    yield median("harness_s", [sum(one.values()) for one in harness])
    for name in harness[0]:
        yield median(f"harness_s:{name}", [one[name] for one in harness])


def _parts(arrival: Arrival) -> dict[str, float]:
    """What is the node's and its network's; the testbed's own time is in none of them."""
    own = arrival.authentication
    parts = {
        "start": own.start_s if own else 0.0,
        "eap": own.eap_s if own else 0.0,
        "port": own.port_s if own else 0.0,
        "registration": arrival.registration_s,
        "ike": arrival.exchange_s,
    }
    late_s = arrival.late_s
    # Moments are rounded, by less than a microsecond.
    return {name: max(0.0, seconds - late_s.get(name, 0.0)) for name, seconds in parts.items()}


def _harness(arrival: Arrival) -> dict[str, float]:
    """What the testbed takes in each part: the air, by letting frames go later than they are due,
    and in `port` the opening of the port."""
    own = arrival.authentication
    opening = {"port": own.harness_s if own else 0.0}
    late = {name: arrival.late_s.get(name, 0.0) for name in LATE_PARTS}
    return {**late, **opening}


def _flows(cell: Cell, setting: Setting, setups: list[float]) -> Iterator[Value]:
    # A cell that is measured once is a quick one.
    is_quick = setting.runs == 1
    number = QUICK_RESPONSES if is_quick else RESPONSES
    yield median("response_ms", _came_ms(cell.order("connect", number), "no connection was made"))
    if not setting.policy.transport:
        answer = cell.order("echo", number, ECHO_BYTES - UDP_HEADERS)
        yield median("udp_response_ms", _came_ms(answer, "no datagram came back"))
    buffer, window = SLOW if setting.air else FAST
    if is_quick and setting.air:
        window = QUICK_WINDOW
    kinds: list[tuple[str, str, tuple[int, ...]]] = [
        ("tcp", setting.policy.transport or "tcp", (buffer,))
    ]
    if not setting.policy.transport:
        # TLS protects no datagram: plain ones would pass for its own.
        kinds.append(("udp", "udp", (SEGMENT_BYTES, window)))
    for name, command, words in kinds:
        before = cell.cpu_s()
        told = [cell.order(command, setting.seconds, *words) for _ in range(setting.runs)]
        sent = sum(one["bytes"] for one in told)
        yield rate(f"{name}_bytes_s", [one["bytes_s"] for one in told])
        for what, seconds in cell.cpu_s().items():
            yield Value(f"{what}_cpu_ns_byte:{name}", (seconds - before[what]) / sent * 1e9)
        setups += [one["setup_s"] for one in told if command == setting.policy.transport]
        if name == "udp":
            yield Value("missing_packets", sum(one["lost"] for one in told))


def _came_ms(answer: Mapping[str, Any], fault: str) -> list[float]:
    """The round trips that were answered."""
    came = [one * 1e3 for one in answer["seconds"] if one is not None]
    if not came:
        raise NamespaceError(fault)
    return came


def rate(metric: str, values: Sequence[float]) -> Value:
    """The median of a flow's runs, and its 95 % interval by their standard deviation.

    A run that something else disturbed is slower than all others, by up to a half: it would move a
    mean of five by a tenth, many times what a link cipher costs. It still widens the interval: the
    standard deviation has all runs in it. Three runs have no interval of 95 % by their order.
    """
    middle = statistics.median(values)
    if len(values) < 2:
        return Value(metric, middle)
    half = MEDIAN_QUANTILES[len(values)] * statistics.stdev(values) / math.sqrt(len(values))
    return Value(metric, middle, max(0.0, middle - half), middle + half)
