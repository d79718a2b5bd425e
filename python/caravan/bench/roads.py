"""Rate, round trips and CPU time of data planes, in turns, so that all meet the same machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from caravan.bench.affinity import held, one_cpu
from caravan.bench.congestion import Congestion
from caravan.bench.systems import PLAIN, System
from caravan.testbed.host import Host
from caravan.testbed.traffic import Flow, iperf

PING_INTERVAL_S = 0.005
PING_TIMEOUT_S = 2


@dataclass(frozen=True)
class Sample:
    """One turn of one system.

    `default_mbit_s`: the rate under the machine's own congestion control, none where that is the
    primary one. `one_cpu_us`: the round trip with all programs held on one processor.
    `cpu_s_per_gb`: both ends' programs under the primary one; none for plain forwarding.
    """

    mbit_s: float
    default_mbit_s: float | None
    rtt_us: float
    one_cpu_us: float
    cpu_s_per_gb: float | None


@dataclass(frozen=True)
class Road:
    """All turns of one system: medians, and the extremes of the rate; as in `Sample`."""

    name: str
    mbit_s: float
    mbit_s_min: float
    mbit_s_max: float
    default_mbit_s: float | None
    rtt_us: float
    one_cpu_us: float
    cpu_s_per_gb: float | None


@dataclass(frozen=True)
class Effort:
    """How much is measured: turns, seconds of TCP a turn, echo requests a turn."""

    turns: int
    seconds: int
    echoes: int


def measure(
    systems: Sequence[System],
    effort: Effort,
    congestion: Congestion,
    say: Callable[[str], None],
) -> list[Road]:
    """Every system once, then again, as many turns as asked."""
    samples: dict[str, list[Sample]] = {system.name: [] for system in systems}
    for turn in range(effort.turns):
        for system in systems:
            sample = measure_once(system, effort, congestion)
            samples[system.name].append(sample)
            say(
                f"turn {turn + 1} of {effort.turns}: {system.name}: "
                f"{sample.mbit_s:,.0f} Mbit/s, {sample.rtt_us:.0f} us, "
                f"{sample.one_cpu_us:.0f} on one CPU"
            )
    return [summary(name, taken) for name, taken in samples.items()]


def measure_once(system: System, effort: Effort, congestion: Congestion) -> Sample:
    """Round trips on an idle road, then one TCP stream, and one under the machine's own control."""
    rtt_us = median(round_trips_us(system.station, system.address, effort.echoes))
    cpu = one_cpu()
    with held([daemon.pid for daemon in system.daemons], cpu):
        alone = round_trips_us(system.station, system.address, effort.echoes, cpu)
    before = system.cpu_s()
    flow = stream(system, effort, congestion.primary)
    spent_s = system.cpu_s() - before
    per_gb = spent_s / (flow.received_bytes / 1e9) if system.daemons else None
    other = congestion.other
    default_mbit_s = stream(system, effort, other).mbit_s if other is not None else None
    return Sample(flow.mbit_s, default_mbit_s, rtt_us, median(alone), per_gb)


def stream(system: System, effort: Effort, congestion: str) -> Flow:
    """One TCP stream from the station."""
    ends = (system.station, system.gateway, system.address)
    return iperf(*ends, effort.seconds, congestion=congestion)


def round_trips_us(host: Host, address: str, count: int, cpu: int | None = None) -> list[float]:
    """Each round trip of `count` echo requests; a lost one is left out.

    `cpu`: the processor that ping is held on.
    """
    argv = ["taskset", "-c", str(cpu)] if cpu is not None else []
    argv += ["ping", "-n", "-c", str(count), "-i", str(PING_INTERVAL_S), "-W", str(PING_TIMEOUT_S)]
    return parse_round_trips_us(host.run([*argv, address], name="ping").stdout)


def parse_round_trips_us(text: str) -> list[float]:
    """The times of ping's lines; `ValueError` when there is none."""
    found = [float(value) * 1000 for value in re.findall(r"time=([\d.]+) ms", text)]
    if not found:
        raise ValueError(f"ping tells no round trip: {text}")
    return found


def summary(name: str, samples: Sequence[Sample]) -> Road:
    """Medians of the samples."""
    rates = [sample.mbit_s for sample in samples]
    return Road(
        name,
        median(rates),
        min(rates),
        max(rates),
        median_of([sample.default_mbit_s for sample in samples]),
        median(sample.rtt_us for sample in samples),
        median(sample.one_cpu_us for sample in samples),
        median_of([sample.cpu_s_per_gb for sample in samples]),
    )


def median_of(values: Sequence[float | None]) -> float | None:
    """The median of those that there are."""
    found = [value for value in values if value is not None]
    return median(found) if found else None


def plain_of(roads: Sequence[Road]) -> Road | None:
    """The road without a tunnel, if it was measured."""
    return next((road for road in roads if road.name == PLAIN), None)
