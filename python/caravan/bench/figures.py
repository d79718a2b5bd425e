"""Results of a run, the targets they are held against, and the tables that show them.

Targets compare figures of one run; nothing here fails when one is missed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from caravan.bench.control import Handshakes, Memory
from caravan.bench.roads import Road, plain_of
from caravan.bench.systems import BORINGTUN, BORINGTUN_1, CARAVAN, STRONGSWAN, WIREGUARD_GO

TIMES_WIREGUARD_GO = 3.0
TIMES_STRONGSWAN = 15.0
SHARE_OF_WIREGUARD_GO_DELAY = 0.5
HANDSHAKE_MS = 2.5
TUNNEL_BYTES = 6 * 1024
CLIENT_BYTES = 15 * 1024 * 1024


@dataclass(frozen=True)
class Results:
    """What a run measured; a part that was left out is empty or none.

    `primitives`: the table of `caravan bench` as it printed it.
    """

    roads: Sequence[Road] = ()
    suites: Sequence[Road] = ()
    handshakes: Sequence[Handshakes] = ()
    memory: Memory | None = None
    primitives: str = ""


@dataclass(frozen=True)
class Target:
    """A figure to reach; `bound` is `at least` or `at most`."""

    what: str
    bound: str
    limit: float
    measured: float
    unit: str

    @property
    def is_met(self) -> bool:
        """Whether the figure reaches its limit."""
        if self.bound == "at least":
            return self.measured >= self.limit
        return self.measured <= self.limit


def targets(results: Results) -> list[Target]:
    """Every target that the results can tell of."""
    found = road_targets(results.roads)
    found += [
        Target(
            f"responder CPU per handshake, {one.how}",
            *("at most", HANDSHAKE_MS, one.responder_ms, "ms"),
        )
        for one in results.handshakes
        if one.system == "caravan"
    ]
    memory = results.memory
    if memory is not None:
        found += [
            Target(
                f"memory of each of {memory.tunnels:,} idle tunnels",
                *("at most", TUNNEL_BYTES / 1024, memory.bytes_per_tunnel / 1024, "KiB"),
            ),
            Target(
                "memory of a client at rest",
                *("at most", CLIENT_BYTES / 1024**2, memory.client_bytes / 1024**2, "MiB"),
            ),
        ]
    return found


def road_targets(roads: Sequence[Road]) -> list[Target]:
    """Rates and added round trips against the peers that were measured."""
    by_name = {road.name: road for road in roads}
    own, plain = by_name.get(CARAVAN), plain_of(roads)
    if own is None:
        return []
    found = [
        Target(f"TCP rate over that of {name}", "at least", times, ratio, "times")
        for name, times in ((WIREGUARD_GO, TIMES_WIREGUARD_GO), (STRONGSWAN, TIMES_STRONGSWAN))
        if name in by_name
        for ratio in [own.mbit_s / by_name[name].mbit_s]
    ]
    if plain is None:
        return found
    shares = [(WIREGUARD_GO, SHARE_OF_WIREGUARD_GO_DELAY), (BORINGTUN, 1.0), (BORINGTUN_1, 1.0)]
    for name, share in shares:
        if name in by_name:
            limit = share * (by_name[name].rtt_us - plain.rtt_us)
            what = f"added round trip, {share:g} x {name}'s"
            found.append(Target(what, "at most", limit, own.rtt_us - plain.rtt_us, "us"))
    return found


Column = tuple[str, Callable[[Road], str]]


def road_table(roads: Sequence[Road], plain: Road | None) -> str:
    """Rates, round trips and costs, a row a system."""
    columns: list[Column] = [
        ("system", lambda road: road.name),
        ("TCP Mbit/s (min - max)", rates),
    ]
    if plain is not None:
        columns.append(("share of plain", lambda road: f"{road.mbit_s / plain.mbit_s:.3f}"))
    columns.append(("RTT us", lambda road: f"{road.rtt_us:.0f}"))
    if plain is not None:
        columns.append(("added us", lambda road: f"{road.rtt_us - plain.rtt_us:.0f}"))
    columns.append(("CPU s/GB, both ends", lambda road: number(road.cpu_s_per_gb, 1)))
    rows = [[cell(road) for _, cell in columns] for road in roads]
    return markdown([heading for heading, _ in columns], rows)


def rates(road: Road) -> str:
    """Median and extremes."""
    return f"{road.mbit_s:,.0f} ({road.mbit_s_min:,.0f} - {road.mbit_s_max:,.0f})"


def handshake_table(handshakes: Sequence[Handshakes]) -> str:
    """A row a measurement."""
    rows = [[one.system, one.how, str(one.count), f"{one.responder_ms:.2f}"] for one in handshakes]
    return markdown(["responder", "measured", "handshakes", "CPU ms each"], rows)


def memory_table(memory: Memory) -> str:
    """Tunnels and a client."""
    rows = [
        [
            f"each of {memory.tunnels:,} idle tunnels in a gateway",
            f"{memory.bytes_per_tunnel / 1024:.2f} KiB",
        ],
        ["a client at rest", f"{memory.client_bytes / 1024**2:.1f} MiB"],
    ]
    return markdown(["what", "resident"], rows)


def target_table(found: Sequence[Target]) -> str:
    """A row a target."""
    rows = [
        [
            target.what,
            f"{target.bound} {target.limit:,.2f} {target.unit}",
            f"{target.measured:,.2f}",
            "met" if target.is_met else "**not met**",
        ]
        for target in found
    ]
    return markdown(["target", "limit", "measured", "verdict"], rows)


def report(results: Results) -> str:
    """Every table that the results can fill, under its heading."""
    parts = []
    found = targets(results)
    if found:
        parts.append("## Targets\n\n" + target_table(found))
    plain = plain_of(results.roads)
    if results.roads:
        parts.append(ROADS + road_table(results.roads, plain))
    if results.suites:
        parts.append(SUITES + road_table(results.suites, plain))
    if results.handshakes:
        parts.append(HANDSHAKES + handshake_table(results.handshakes))
    if results.memory is not None:
        parts.append(MEMORY + memory_table(results.memory))
    if results.primitives:
        parts.append(PRIMITIVES + "```text\n" + results.primitives.strip() + "\n```")
    return "\n\n".join(parts)


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; columns after the first are right-aligned."""
    rule = ["---", *["---:"] * (len(headings) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (headings, rule, *rows))


def number(value: float | None, digits: int) -> str:
    """A number, or a dash where there is none."""
    return "-" if value is None else f"{value:,.{digits}f}"


ROADS = """## Data planes

Two namespaces joined by a veth, inner MTU 1400, one TCP stream by iperf3; round trips are medians
of ping's on an idle tunnel. The CPU time is that of the tunnel programs, not of iperf3. All
tunnels are in UDP, but for the one named protocol 50: there the kernel neither cuts nor gathers,
so it costs a system call a packet.

"""
SUITES = """## Caravan's suites

The same, after one another. DES, 3DES and MD5 are legacy (RFC 8221).

"""
HANDSHAKES = """## Handshakes

IKEv1 aggressive mode (deprecated, RFC 9395), RSA-2048, MODP-2048, PFS, an inner address by Mode
Config. `engine alone` is the responder of `crates/daemon/benches/load`, without sockets; `program`
is a running gateway to which a station comes and goes, the delete included.

"""
MEMORY = """## Memory

A tunnel is one ISAKMP SA and one ESP pair, in both packet planes.

"""
PRIMITIVES = """## Suites and packet road

`caravan bench` on the same machine:

"""
