"""Rate, round trip and CPU time of data planes, in turns, so that all meet the same machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from caravan.bench.systems import PLAIN, System
from caravan.testbed.host import Host
from caravan.testbed.traffic import iperf

PING_INTERVAL_S = 0.005
PING_TIMEOUT_S = 2


@dataclass(frozen=True)
class Sample:
    """One turn of one system. `cpu_s_per_gb`: both ends' programs; none for plain forwarding."""

    mbit_s: float
    rtt_us: float
    cpu_s_per_gb: float | None


@dataclass(frozen=True)
class Road:
    """All turns of one system: medians, and the extremes of the rate."""

    name: str
    mbit_s: float
    mbit_s_min: float
    mbit_s_max: float
    rtt_us: float
    cpu_s_per_gb: float | None


@dataclass(frozen=True)
class Effort:
    """How much is measured: turns, seconds of TCP a turn, echo requests a turn."""

    turns: int
    seconds: int
    echoes: int


def measure(systems: Sequence[System], effort: Effort, say: Callable[[str], None]) -> list[Road]:
    """Every system once, then again, as many turns as asked."""
    samples: dict[str, list[Sample]] = {system.name: [] for system in systems}
    for turn in range(effort.turns):
        for system in systems:
            sample = measure_once(system, effort)
            samples[system.name].append(sample)
            say(
                f"turn {turn + 1} of {effort.turns}: {system.name}: "
                f"{sample.mbit_s:,.0f} Mbit/s, {sample.rtt_us:.0f} us"
            )
    return [summary(name, taken) for name, taken in samples.items()]


def measure_once(system: System, effort: Effort) -> Sample:
    """Round trips on an idle road, then one TCP stream."""
    rtt_us = median(round_trips_us(system.station, system.address, effort.echoes))
    before = system.cpu_s()
    flow = iperf(system.station, system.gateway, system.address, effort.seconds)
    spent_s = system.cpu_s() - before
    per_gb = spent_s / (flow.received_bytes / 1e9) if system.daemons else None
    return Sample(flow.mbit_s, rtt_us, per_gb)


def round_trips_us(host: Host, address: str, count: int) -> list[float]:
    """Each round trip of `count` echo requests; a lost one is left out."""
    argv = ["ping", "-n", "-c", str(count), "-i", str(PING_INTERVAL_S), "-W", str(PING_TIMEOUT_S)]
    return parse_round_trips_us(host.run([*argv, address]).stdout)


def parse_round_trips_us(text: str) -> list[float]:
    """The times of ping's lines; `ValueError` when there is none."""
    found = [float(value) * 1000 for value in re.findall(r"time=([\d.]+) ms", text)]
    if not found:
        raise ValueError(f"ping tells no round trip: {text}")
    return found


def summary(name: str, samples: Sequence[Sample]) -> Road:
    """Medians of the samples."""
    rates = [sample.mbit_s for sample in samples]
    costs = [sample.cpu_s_per_gb for sample in samples if sample.cpu_s_per_gb is not None]
    return Road(
        name,
        median(rates),
        min(rates),
        max(rates),
        median(sample.rtt_us for sample in samples),
        median(costs) if costs else None,
    )


def plain_of(roads: Sequence[Road]) -> Road | None:
    """The road without a tunnel, if it was measured."""
    return next((road for road in roads if road.name == PLAIN), None)
