"""Rate, round trips, floods and CPU time of data planes, measured in turns so that all meet the
same machine. No program is pinned to a processor or niced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from caravan.bench.congestion import Congestion
from caravan.bench.probe import Probe
from caravan.bench.systems import PLAIN, System
from caravan.testbed.traffic import Flow, iperf

ECHO_INTERVALS_US = (10_000, 2_000, 200)
"""From sparse traffic, between which processors sleep, to dense."""
TAIL = 0.99
FLOOD_RATES_PER_S = tuple(round(10_000 * 2 ** (step / 3)) for step in range(18))
"""Rates in steps of a quarter: 10,000 to 508,000 datagrams per second."""
LOSS_AT_KNEE = 0.01


@dataclass(frozen=True)
class Effort:
    """How much one turn measures: seconds of each TCP flow, echo requests at each interval, ms of
    each step of a flood (0: no flood)."""

    turns: int
    seconds: int
    echoes: int
    flood_ms: int = 0


@dataclass(frozen=True)
class Flood:
    """Arriving datagrams of 64 bytes per second: at the highest rate that loses at most one in a
    hundred, and from a sender that never waits."""

    knee_per_s: float
    overload_per_s: float


@dataclass(frozen=True)
class Sample:
    """One turn of one system.

    `mbit_s`: with the machine's own congestion control; `beside_mbit_s`: with the other one, None
    if there is none. `round_trips_us`: a list for each of `ECHO_INTERVALS_US`. `cpu_s_per_gb`: both
    ends' programs in the first flow; None for plain forwarding.
    """

    mbit_s: float
    beside_mbit_s: float | None
    round_trips_us: Sequence[Sequence[float]]
    flood: Flood | None
    cpu_s_per_gb: float | None


@dataclass(frozen=True)
class RoundTrip:
    """Over all turns, for one interval between echo requests."""

    interval_us: int
    median_us: float
    p99_us: float


@dataclass(frozen=True)
class PlaneResult:
    """All turns of one system: medians, and the extremes of the rate; as in `Sample`."""

    name: str
    mbit_s: float
    mbit_s_min: float
    mbit_s_max: float
    beside_mbit_s: float | None
    round_trips: Sequence[RoundTrip]
    flood: Flood | None
    cpu_s_per_gb: float | None


def measure(
    systems: Sequence[System],
    effort: Effort,
    congestion: Congestion,
    probe: Probe,
    say: Callable[[str], None],
) -> list[PlaneResult]:
    """Measure every system once, then again, for the requested number of turns."""
    samples: dict[str, list[Sample]] = {system.name: [] for system in systems}
    for turn in range(effort.turns):
        for system in systems:
            sample = measure_once(system, effort, congestion, probe)
            samples[system.name].append(sample)
            say(f"turn {turn + 1} of {effort.turns}: {system.name}: {in_short(sample)}")
    return [summary(name, taken) for name, taken in samples.items()]


def measure_once(system: System, effort: Effort, congestion: Congestion, probe: Probe) -> Sample:
    """Round trips on an idle path, a TCP stream with each control, a flood."""
    round_trips = [
        probe.round_trips_us(system.station, system.address, interval_us, effort.echoes)
        for interval_us in ECHO_INTERVALS_US
    ]
    before = system.cpu_s()
    flow = stream(system, effort, congestion.own)
    spent_s = system.cpu_s() - before
    per_gb = spent_s / (flow.received_bytes / 1e9) if system.daemons else None
    beside = congestion.beside
    beside_mbit_s = stream(system, effort, beside).mbit_s if beside is not None else None
    flood = flooded(system, effort.flood_ms, probe) if effort.flood_ms else None
    return Sample(flow.mbit_s, beside_mbit_s, round_trips, flood, per_gb)


def stream(system: System, effort: Effort, congestion: str) -> Flow:
    """One TCP stream from the client."""
    ends = (system.station, system.gateway, system.address)
    return iperf(*ends, effort.seconds, congestion=congestion)


def flooded(system: System, length_ms: int, probe: Probe) -> Flood:
    """Find the highest sustained rate, then send without a pause."""

    def arrive(rate_per_s: int) -> tuple[float, float]:
        """The lost share, and the arriving rate."""
        passed = probe.flood(system.station, system.gateway, system.address, rate_per_s, length_ms)
        return 1 - passed.received / passed.offered, passed.received / passed.seconds

    return bisect(arrive, FLOOD_RATES_PER_S)


def bisect(arrive: Callable[[int], tuple[float, float]], rates_per_s: Sequence[int]) -> Flood:
    """A flood: `arrive` sends at a rate (0: no pause) and returns lost share and arriving rate.

    The rates rise. A rate that loses too much twice is too high, and so are all above it.
    """
    knee_per_s = 0.0
    low, high = 0, len(rates_per_s)
    while low < high:
        middle = (low + high) // 2
        # One bad moment of the machine does not count.
        tries = (arrive(rates_per_s[middle]) for _ in range(2))
        found = next((rate for lost, rate in tries if lost <= LOSS_AT_KNEE), None)
        if found is None:
            high = middle
        else:
            low, knee_per_s = middle + 1, found
    return Flood(knee_per_s, arrive(0)[1])


def in_short(sample: Sample) -> str:
    """One line of progress."""
    medians = " / ".join(f"{median(each):.0f}" for each in sample.round_trips_us)
    text = f"{sample.mbit_s:,.0f} Mbit/s, {medians} us"
    if sample.flood is not None:
        flood = sample.flood
        text += f", {flood.knee_per_s:,.0f} and {flood.overload_per_s:,.0f} datagrams/s"
    return text


def summary(name: str, samples: Sequence[Sample]) -> PlaneResult:
    """Medians of the samples; round trips of all turns together."""
    rates = [sample.mbit_s for sample in samples]
    floods = [sample.flood for sample in samples if sample.flood is not None]
    return PlaneResult(
        name,
        median(rates),
        min(rates),
        max(rates),
        median_of([sample.beside_mbit_s for sample in samples]),
        tuple(
            round_trip(interval, [us for sample in samples for us in sample.round_trips_us[at]])
            for at, interval in enumerate(ECHO_INTERVALS_US)
        ),
        Flood(
            median(flood.knee_per_s for flood in floods),
            median(flood.overload_per_s for flood in floods),
        )
        if floods
        else None,
        median_of([sample.cpu_s_per_gb for sample in samples]),
    )


def round_trip(interval_us: int, found_us: Sequence[float]) -> RoundTrip:
    """Median, and the smallest value that 99 % do not exceed."""
    ordered = sorted(found_us)
    at = -int(-TAIL * len(ordered) // 1) - 1
    return RoundTrip(interval_us, median(ordered), ordered[at])


def median_of(values: Sequence[float | None]) -> float | None:
    """The median of those that exist."""
    found = [value for value in values if value is not None]
    return median(found) if found else None


def plain_of(planes: Sequence[PlaneResult]) -> PlaneResult | None:
    """The path without a tunnel, if it was measured."""
    return next((plane for plane in planes if plane.name == PLAIN), None)
