"""Results of a run, the targets for them, and the tables that show them.

Targets compare figures of one run; a missed target is not an error here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from caravan.bench import simulators
from caravan.bench.congestion import Congestion
from caravan.bench.control import EXCHANGES, IKEV1, Handshakes, Memory
from caravan.bench.planes import ECHO_INTERVALS_US, Flood, PlaneResult, plain_of
from caravan.bench.roaming import Move, Roam, median_ms
from caravan.bench.simulators import Grid, Kernel, Tandem
from caravan.bench.systems import BORINGTUN, BORINGTUN_1, CARAVAN, STRONGSWAN, WIREGUARD_GO
from caravan.testbed.roaming import ROUND_TRIP_S

TIMES_WIREGUARD_GO = 3.0
TIMES_STRONGSWAN = 15.0
SHARE_OF_WIREGUARD_GO_DELAY = 0.5
HANDSHAKE_MS = 2.5
TUNNEL_BYTES = 6 * 1024
CLIENT_BYTES = 15 * 1024 * 1024
TANDEM_PER_S = 100e6
SHARE_OF_PLAIN_ROW = 0.9
KERNEL_PER_S = 2e6
# What the programs may take beside the round trips of a move.
ROAM_SLACK_MS = 20.0
# The page count fluctuates by a few; more than these is growth.
KERNEL_GROWTH = 1.05
GRID_S = 120.0


@dataclass(frozen=True)
class Results:
    """The measurements of a run; a part that was left out is empty or None.

    `congestion`: the controls of the rates. `primitives`: the table of `caravan bench` as printed.
    """

    congestion: Congestion
    roads: Sequence[PlaneResult] = ()
    """Of all systems; a key of the result files."""
    suites: Sequence[PlaneResult] = ()
    handshakes: Sequence[Handshakes] = ()
    roam: Sequence[Roam] = ()
    memory: Memory | None = None
    tandem: Tandem | None = None
    kernel: Kernel | None = None
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
    """Every target that the results can decide."""
    found = rate_targets(results.roads, results.congestion)
    found += delay_targets(results.roads) + flood_targets(results.roads)
    found += handshake_targets(results.handshakes) + roam_targets(results.roam)
    memory = results.memory
    if memory is not None:
        found += [
            *(
                Target(
                    f"memory of each of {memory.tunnels:,} idle tunnels, IKEv{version}",
                    *("at most", TUNNEL_BYTES / 1024, each / 1024, "KiB"),
                )
                for version, each in memory.bytes_per_tunnel.items()
            ),
            Target(
                "memory of a client at rest",
                *("at most", CLIENT_BYTES / 1024**2, memory.client_bytes / 1024**2, "MiB"),
            ),
        ]
    found += tandem_targets(results.tandem) if results.tandem is not None else []
    found += kernel_targets(results.kernel) if results.kernel is not None else []
    return found


def handshake_targets(handshakes: Sequence[Handshakes]) -> list[Target]:
    """Our responder: of IKEv2 the running program's rate, and how many times strongSwan's of the
    same run it is; of IKEv1 the time."""
    own = [one for one in handshakes if one.system == "caravan"]
    programs = {(one.exchange, one.system): one for one in handshakes if one.how == "program"}
    found = []
    for exchange in EXCHANGES:
        ours = programs.get((exchange.name, "caravan"))
        theirs = programs.get((exchange.name, "strongSwan"))
        what = f"handshakes of one core, {exchange.name}"
        if ours is None:
            continue
        found.append(Target(what, "at least", exchange.per_s, ours.per_s, "/s"))
        if theirs is not None and exchange.times_peer is not None:
            ratio = ours.per_s / theirs.per_s
            what = f"{what}, over those of strongSwan"
            found.append(Target(what, "at least", exchange.times_peer, ratio, "times"))
    found += [
        Target(
            f"responder CPU per handshake, {one.exchange}, {one.how}",
            *("at most", HANDSHAKE_MS, one.responder_ms, "ms"),
        )
        for one in own
        if one.exchange == IKEV1
    ]
    return found


def roam_targets(roams: Sequence[Roam]) -> list[Target]:
    """Our own moves against round trips; a figure that there is none of is not reached."""
    own = next((one for one in roams if one.system == "caravan"), None)
    if own is None:
        return []
    once, twice = ROUND_TRIP_S * 1e3 + ROAM_SLACK_MS, 2 * ROUND_TRIP_S * 1e3 + ROAM_SLACK_MS
    found = [
        ("a move: the first datagram upwards", once, first_up, own.moves),
        ("a move: the first datagram downwards", once, first_down, own.moves),
        ("a move: the full rate downwards", twice, whole_down, own.moves),
        ("a NAT that forgets: downwards again", once, whole_down, own.rebindings),
    ]
    return [
        Target(what, "at most", limit, math.inf if ms is None else ms, "ms")
        for what, limit, of, moves in found
        for ms in [median_ms(moves, of)]
    ]


def rate_targets(planes: Sequence[PlaneResult], congestion: Congestion) -> list[Target]:
    """Rates compared with the measured peers, under each congestion control."""
    by_name = {plane.name: plane for plane in planes}
    own = by_name.get(CARAVAN)
    if own is None:
        return []
    found = []
    for name, times in ((WIREGUARD_GO, TIMES_WIREGUARD_GO), (STRONGSWAN, TIMES_STRONGSWAN)):
        peer = by_name.get(name)
        if peer is None:
            continue
        what = f"TCP rate over that of {name}"
        ratio = own.mbit_s / peer.mbit_s
        heading = f"{what}, {congestion.own} as this machine has it"
        found.append(Target(heading, "at least", times, ratio, "times"))
        if own.beside_mbit_s is not None and peer.beside_mbit_s is not None:
            ratio = own.beside_mbit_s / peer.beside_mbit_s
            found.append(Target(f"{what}, {congestion.beside}", "at least", times, ratio, "times"))
    return found


def delay_targets(planes: Sequence[PlaneResult]) -> list[Target]:
    """Added round trips compared with the measured peers, at each interval."""
    by_name = {plane.name: plane for plane in planes}
    own, plain = by_name.get(CARAVAN), plain_of(planes)
    if own is None or plain is None:
        return []
    shares = [(WIREGUARD_GO, SHARE_OF_WIREGUARD_GO_DELAY), (BORINGTUN, 1.0), (BORINGTUN_1, 1.0)]

    def added(plane: PlaneResult, at: int) -> float:
        return plane.round_trips[at].median_us - plain.round_trips[at].median_us

    return [
        Target(
            f"added round trip, {every(interval)}, {share:g} x {name}'s",
            *("at most", share * added(by_name[name], at), added(own, at), "us"),
        )
        for at, interval in enumerate(ECHO_INTERVALS_US)
        for name, share in shares
        if name in by_name
    ]


def flood_targets(planes: Sequence[PlaneResult]) -> list[Target]:
    """Arriving datagrams compared with the best measured peer."""
    own = next((plane.flood for plane in planes if plane.name == CARAVAN), None)
    names = (WIREGUARD_GO, BORINGTUN, BORINGTUN_1, STRONGSWAN)
    peers = [plane.flood for plane in planes if plane.name in names and plane.flood is not None]
    if own is None or not peers:
        return []
    kinds: list[tuple[str, Callable[[Flood], float]]] = [
        ("at the knee", lambda flood: flood.knee_per_s),
        ("under overload", lambda flood: flood.overload_per_s),
    ]
    return [
        Target(
            f"64-byte datagrams that arrive {what}, the best peer's",
            *("at least", max(map(of, peers)) / 1e3, of(own) / 1e3, "thousand/s"),
        )
        for what, of in kinds
    ]


def every(interval_us: int) -> str:
    """The interval between echo requests."""
    return f"every {interval_us / 1e3:g} ms"


def tandem_targets(tandem: Tandem) -> list[Target]:
    """The widest instructions compared with a fixed target and with the plain row."""
    own, plain = tandem.single()[-1], tandem.plain(simulators.SCALAR)
    found = []
    if own.instructions == simulators.WIDEST_X86:
        what = "tandem with 3des-md5, one core with AVX-512"
        rate = own.packets_per_s
        found.append(Target(what, "at least", TANDEM_PER_S / 1e6, rate / 1e6, "million/s"))
    if plain is not None:
        what = "tandem over the plain row `[f32; 16]`, one core"
        ratio = own.packets_per_s / plain.packets_per_s
        found.append(Target(what, "at least", SHARE_OF_PLAIN_ROW, ratio, "times"))
    grid = tandem.grid
    what = f"the whole UMTS grid, {grid.threads} cores"
    return [*found, Target(what, "at most", GRID_S, grid.wall_s, "s")]


def kernel_targets(kernel: Kernel) -> list[Target]:
    """Rate and memory."""
    rate = kernel.rows[0].packets_per_s
    hours = f"{kernel.memory[-1].hours} simulated hours over {kernel.memory[0].hours}"
    return [
        Target(
            f"event kernel, {kernel.stations} stations, one core",
            *("at least", KERNEL_PER_S / 1e6, rate / 1e6, "million/s"),
        ),
        Target(
            f"event kernel, memory of {hours}",
            *("at most", KERNEL_GROWTH, kernel.growth, "times"),
        ),
    ]


Column = tuple[str, Callable[[PlaneResult], str]]


def plane_table(
    planes: Sequence[PlaneResult], plain: PlaneResult | None, congestion: Congestion
) -> str:
    """Rates and costs, one row per system."""
    columns: list[Column] = [
        ("system", lambda plane: plane.name),
        (f"Mbit/s, {congestion.own} (min - max)", rates),
    ]
    if plain is not None:
        columns.append(("share of plain", lambda plane: f"{plane.mbit_s / plain.mbit_s:.3f}"))
    if congestion.beside is not None:
        heading = f"Mbit/s, {congestion.beside}"
        columns.append((heading, lambda plane: number(plane.beside_mbit_s, 0)))
    columns.append(("CPU s/GB, both ends", lambda plane: number(plane.cpu_s_per_gb, 1)))
    rows = [[cell(plane) for _, cell in columns] for plane in planes]
    return markdown([heading for heading, _ in columns], rows)


def delay_table(planes: Sequence[PlaneResult], plain: PlaneResult | None) -> str:
    """Round trips at each interval, one row per system."""
    headings, cells = ["system"], [[plane.name] for plane in planes]
    for at, interval in enumerate(ECHO_INTERVALS_US):
        headings.append(f"{every(interval)}, us (p99)")
        headings += ["added us"] if plain is not None else []
        for row, plane in zip(cells, planes, strict=True):
            row.append(delays(plane, at))
            if plain is not None:
                added = plane.round_trips[at].median_us - plain.round_trips[at].median_us
                row.append(f"{added:.0f}")
    return markdown(headings, cells)


def delays(plane: PlaneResult, at: int) -> str:
    """Median and tail."""
    found = plane.round_trips[at]
    return f"{found.median_us:.0f} ({found.p99_us:.0f})"


def flood_table(planes: Sequence[PlaneResult]) -> str:
    """Arriving datagrams of floods, one row per flooded system."""
    rows = [
        [plane.name, *(f"{rate / 1e3:.0f}" for rate in (flood.knee_per_s, flood.overload_per_s))]
        for plane in planes
        if (flood := plane.flood) is not None
    ]
    return markdown(["system", "at the knee, thousand/s", "under overload, thousand/s"], rows)


def rates(plane: PlaneResult) -> str:
    """Median and extremes."""
    return f"{plane.mbit_s:,.0f} ({plane.mbit_s_min:,.0f} - {plane.mbit_s_max:,.0f})"


def handshake_table(handshakes: Sequence[Handshakes]) -> str:
    """One row per measurement."""
    rows = [
        [
            one.exchange,
            one.system,
            one.how,
            str(one.count),
            f"{one.responder_ms:.2f}",
            number(one.per_s, 0),
            number(one.seen_per_s, 0),
        ]
        for one in handshakes
    ]
    headings = ["exchange", "responder", "measured", "handshakes", "CPU ms each"]
    return markdown([*headings, "one core, /s", "seen, /s"], rows)


def roam_table(roams: Sequence[Roam]) -> str:
    """Medians, one row per system."""
    headings = ["system", "moves", "first up, ms", "first down, ms", "full rate down, ms"]
    rows = [
        [
            one.system,
            str(len(one.moves)),
            *(milliseconds(one.moves, of) for of in (first_up, first_down, whole_down)),
            milliseconds(one.rebindings, whole_down),
        ]
        for one in roams
    ]
    return markdown([*headings, "a NAT forgets: down again, ms"], rows)


def milliseconds(moves: Sequence[Move], of: Callable[[Move], float | None]) -> str:
    """The median, or that it is the one of a move after which nothing came."""
    found = median_ms(moves, of)
    return "not at all" if found is None else f"{found:.0f}"


def first_up(move: Move) -> float | None:
    """The first datagram from the station."""
    return move.up.first_s


def first_down(move: Move) -> float | None:
    """The first datagram to the station."""
    return move.down.first_s


def whole_down(move: Move) -> float | None:
    """The first datagram to the station from which on all came in time."""
    return move.down.whole_s


def memory_table(memory: Memory) -> str:
    """Tunnels and a client."""
    rows = [
        *(
            [
                f"each of {memory.tunnels:,} idle tunnels in a gateway, IKEv{version}",
                f"{each / 1024:.2f} KiB",
            ]
            for version, each in memory.bytes_per_tunnel.items()
        ),
        ["a client at rest", f"{memory.client_bytes / 1024**2:.1f} MiB"],
        [
            "of that, without the pages of the program and of its libraries",
            f"{memory.client_own_bytes / 1024**2:.1f} MiB",
        ],
    ]
    return markdown(["what", "resident"], rows)


def tandem_table(tandem: Tandem) -> str:
    """One row per way to compute."""
    rows = [
        [
            row.name.removesuffix(f" {row.roads} roads").removesuffix(f" {row.instructions}"),
            compiled(row.instructions) if row.roads == 0 else INSTRUCTIONS[row.instructions],
            "-" if row.roads == 0 else str(row.roads),
            f"{row.packets_per_s / 1e6:,.1f}",
        ]
        for row in tandem.rows
    ]
    return markdown(["row", "instructions", "roads off one stream", "million packets/s"], rows)


def compiled(instructions: str) -> str:
    """What a plain row was compiled for."""
    if instructions == simulators.SCALAR:
        return "as the workspace is built"
    return f"compiled for {INSTRUCTIONS[instructions]}"


def grid_sentence(grid: Grid) -> str:
    """How long the study's grid took."""
    return (
        f"The whole grid of `studies/umts`: {grid.points} points, {grid.packets / 1e9:.2f} billion "
        f"packets, {grid.wall_s:.1f} s on {grid.threads} cores."
    )


def kernel_table(kernel: Kernel) -> str:
    """Rates."""
    rows = [
        [
            "with the fingerprint of every event" if row.fingerprint else "events alone",
            f"{row.packets_per_s / 1e6:.2f} ({row.packets_per_s_max / 1e6:.2f})",
        ]
        for row in kernel.rows
    ]
    return markdown([f"{kernel.stations} stations", "million packets/s (best)"], rows)


def kernel_memory_table(kernel: Kernel) -> str:
    """Peaks, one row per length."""
    rows = [
        [str(each.hours), f"{each.packets:,}", f"{each.peak_bytes / 1024**2:.2f}"]
        for each in kernel.memory
    ]
    return markdown(["simulated hours", "packets", "most resident, MiB"], rows)


def target_table(found: Sequence[Target]) -> str:
    """One row per target."""
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
    """Every table that has results, with its heading."""
    parts = []
    found = targets(results)
    if found:
        parts.append("## Targets\n\n" + target_table(found))
    plain = plain_of(results.roads)
    if results.roads:
        parts += [
            PLANES
            + congestion_text(results.congestion)
            + plane_table(results.roads, plain, results.congestion),
            DELAYS + delay_table(results.roads, plain),
            FLOODS + flood_table(results.roads),
        ]
    if results.suites:
        suites = plane_table(results.suites, plain, results.congestion)
        parts.append(SUITES + suites + "\n\n" + delay_table(results.suites, plain))
    if results.handshakes:
        parts.append(HANDSHAKES + handshake_table(results.handshakes))
    if results.roam:
        parts.append(ROAM + roam_table(results.roam))
    if results.memory is not None:
        parts.append(MEMORY + memory_table(results.memory))
    if results.tandem is not None:
        grid = grid_sentence(results.tandem.grid)
        parts.append(TANDEM + tandem_table(results.tandem) + "\n\n" + grid)
    if results.kernel is not None:
        tables = (kernel_table(results.kernel), kernel_memory_table(results.kernel))
        parts.append(KERNEL + "\n\n".join(tables))
    if results.primitives:
        parts.append(PRIMITIVES + "```text\n" + results.primitives.strip() + "\n```")
    return "\n\n".join(parts)


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; columns after the first are right-aligned."""
    rule = ["---", *["---:"] * (len(headings) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (headings, rule, *rows))


def number(value: float | None, digits: int) -> str:
    """A number, or a dash for None."""
    return "-" if value is None else f"{value:,.{digits}f}"


def congestion_text(congestion: Congestion) -> str:
    """The congestion controls of the rates."""
    text = f"TCP's congestion control is {congestion.own}, this machine's own."
    if congestion.beside is not None:
        text += (
            f" {congestion.beside} has a column\n"
            "beside it: on a path of 0.1 ms without loss it only fills the window, while\n"
            f"{congestion.own} paces by its own estimate of the path."
        )
    return text + "\n\n"


INSTRUCTIONS = {"Scalar": "none", "Avx2": "AVX2", "Avx512": "AVX-512", "Neon": "NEON"}

PLANES = """## Data planes

Two namespaces joined by a veth, inner MTU 1400, one TCP stream by iperf3. Every program runs with
its defaults; none is pinned to a CPU or niced. The CPU time is that of the tunnel programs, without
iperf3. All tunnels use UDP, except the one named protocol 50, which has neither GSO nor GRO and
needs one system call per packet. IPsec tunnels are set up by IKEv2; those between Caravans have
64-bit sequence numbers, which strongSwan's userspace plugin does not have.

"""
DELAYS = """## Round trips

Echo requests on an idle tunnel, at three intervals (`crates/daemon/benches/probe.rs`): medians, and
99th percentiles in brackets. With sparse traffic the CPUs sleep, and waking them takes most of the
round trip. With dense traffic they are awake. The forwarder (`crates/daemon/benches/forwarder.rs`)
copies each frame of its device into a datagram and back, and does nothing else. No tunnel can add
less than the forwarder.

"""
FLOODS = """## Floods of 64-byte datagrams

One sender, one datagram per system call. The rate rises in steps of a quarter. The knee is the
highest rate at which 99 % arrive. Under overload the sender never waits and takes one whole CPU.

"""
SUITES = """## Caravan's suites

The same measurements for each suite. DES, 3DES and MD5 are legacy (RFC 8221).

"""
HANDSHAKES = """## Handshakes

Mutual RSA-2048 with one authority, or a pre-shared key; an inner address; a child is installed.
`engine alone` is the responder of `crates/daemon/benches/load`, without sockets. `program` is a
running gateway with its own suites. For IKEv2, clients of that bench connect, 16 at the same time:
each has an address, an identity and a certificate of its own, and its tunnel stays. `resumed`:
each then loses its tunnel and goes on with its ticket (RFC 5723), and only that counts. CPU time is
that of the gateway, all threads, and the rate of one core follows from it. The rate that was seen
is that of clients and gateway on this machine together. Both are medians of three runs, each with a
gateway that has just begun; the targets are also shown as multiples of strongSwan's rate in the
same run, which depend less on the processor. IKEv1 is aggressive mode (deprecated, RFC
9395) with MODP-2048 and PFS: one client connects to the gateway and disconnects, including the
delete.

"""
ROAM = f"""## Moves

A station with two access networks behind NATs, and a gateway at a round trip of
{ROUND_TRIP_S * 1e3:.0f} ms. The station gets an address in the other network, and the old link is
dead. Times begin with the new default route, and are medians. Datagrams flow both ways, downwards
more than three times as much: a gateway that does not limit them could be made to flood a stranger.
Then the NAT forgets its mappings. strongSwan does ESP with its userspace plugin, whose SAs cannot
move: it renews the child at each move, and does not follow a NAT.

"""
MEMORY = """## Memory

A tunnel is one IKE SA and one ESP pair, in both packet planes.

"""
TANDEM = """## Tandem simulator

`cargo bench -p lab --bench tandem`: the scenario `scenarios/umts.toml` with eight stations and
3des-md5, except where several scenarios share one stream of packets; one core. The plain rows are
the bare recursion, which computes only a mean. The first one with sixteen lanes is the baseline.

"""
KERNEL = """## Event kernel

`cargo bench -p lab --bench kernel`: four processors and four links, alternating, with Poisson
packets of the same sizes; one core. The memory is that of the whole process, at 512 kbit/s.

"""
PRIMITIVES = """## Suites and packet path

`caravan bench` on the same machine:

"""
