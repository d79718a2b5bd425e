"""The parts of the benchmark: its input, its conclusions, and its output. Nothing is timed."""

from __future__ import annotations

import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from caravan.bench import roaming
from caravan.bench.benches import build, parse_executable
from caravan.bench.congestion import Congestion, choose, is_accepted, preferred
from caravan.bench.control import (
    EXCHANGES,
    IKEV1,
    Handshakes,
    Load,
    Memory,
    median_of,
    resident_bytes,
)
from caravan.bench.document import (
    BEGIN,
    END,
    Machine,
    busy,
    processor_name,
    provenance,
    replaced,
    version_in,
)
from caravan.bench.figures import Results, delay_table, plane_table, report, targets
from caravan.bench.planes import (
    ECHO_INTERVALS_US,
    FLOOD_RATES_PER_S,
    Effort,
    Flood,
    PlaneResult,
    RoundTrip,
    Sample,
    bisect,
    measure,
    round_trip,
    summary,
)
from caravan.bench.probe import Probe
from caravan.bench.roaming import Move, Roam, Way, way
from caravan.bench.simulators import Kernel, Tandem, parse_kernel, parse_tandem
from caravan.bench.systems import (
    BORINGTUN_1,
    CARAVAN,
    FORWARDER,
    PLAIN,
    STRONGSWAN,
    WIREGUARD_GO,
    Bench,
)
from caravan.bench.wireguard import KeyPair, Peer, configuration, control
from caravan.testbed.pki import CaravanAuthority
from caravan.threeways.measurement import Keys

CUBIC = Congestion("cubic", None)
BESIDE_BBR = Congestion("bbr", "cubic")
TOP = Path(__file__).resolve().parents[2]


def plane(name: str, mbit_s: float, rtt_us: float) -> PlaneResult:
    """Under cubic a third more; half the round trip and a quarter of it in denser traffic."""
    cost = None if name == PLAIN else 7.25
    rates = (mbit_s, mbit_s - 1, mbit_s + 1, mbit_s * 4 / 3)
    round_trips = tuple(
        RoundTrip(interval, rtt_us / part, 2 * rtt_us)
        for interval, part in zip(ECHO_INTERVALS_US, (1, 2, 4), strict=True)
    )
    return PlaneResult(name, *rates, round_trips, Flood(mbit_s * 10, mbit_s * 8), cost)


PLANES = (
    plane(PLAIN, 20_000, 50),
    plane(WIREGUARD_GO, 2_000, 450),
    plane(BORINGTUN_1, 800, 230),
    plane(STRONGSWAN, 300, 500),
    plane(CARAVAN, 6_000, 240),
)


def test_a_tail_is_a_value_that_was_seen() -> None:
    assert round_trip(200, [float(us) for us in range(1, 201)]) == RoundTrip(200, 100.5, 198)
    assert round_trip(200, [7.0]) == RoundTrip(200, 7, 7)


def test_a_summary_holds_medians_and_the_extremes_of_the_rate() -> None:
    echoes = [[5.0, 6.0], [4.0, 5.0], [1.0, 2.0]]
    samples = [
        Sample(10, 9, echoes, Flood(5, 2), 1.0),
        Sample(30, 8, echoes, Flood(7, 3), 3.0),
        Sample(20, 7, [[1.0], [1.0], [9.0]], Flood(9, 4), 2.0),
    ]
    round_trips = (RoundTrip(10_000, 5, 6), RoundTrip(2_000, 4, 5), RoundTrip(200, 2, 9))
    assert summary("x", samples) == PlaneResult("x", 20, 10, 30, 8, round_trips, Flood(7, 3), 2.0)
    bare = summary("x", [Sample(10, None, echoes, None, None)])
    assert (bare.beside_mbit_s, bare.flood, bare.cpu_s_per_gb) == (None, None, None)


def test_the_knee_is_the_highest_rate_without_two_bad_tries() -> None:
    asked = []

    def arrive(rate_per_s: int) -> tuple[float, float]:
        asked.append(rate_per_s)
        if rate_per_s == 0:
            return 0.9, 30_000
        # The first try at every rate fails by chance.
        is_bad = asked.count(rate_per_s) == 1 or rate_per_s > 50_000
        return (0.02 if is_bad else 0.01), 0.99 * rate_per_s

    last = max(rate for rate in FLOOD_RATES_PER_S if rate <= 50_000)
    assert bisect(arrive, FLOOD_RATES_PER_S) == Flood(0.99 * last, 30_000)
    assert asked[-1] == 0
    assert len(asked) <= 2 * len(FLOOD_RATES_PER_S).bit_length() + 1
    assert bisect(lambda _: (0.5, 12), FLOOD_RATES_PER_S) == Flood(0, 12)


def test_targets_compare_with_the_peers_of_the_same_run() -> None:
    found = {target.what: target for target in targets(Results(BESIDE_BBR, PLANES))}
    rate = found[f"TCP rate over that of {WIREGUARD_GO}, bbr as this machine has it"]
    assert (rate.measured, rate.is_met) == (3.0, True)
    assert found[f"TCP rate over that of {STRONGSWAN}, cubic"].measured == 20
    delay = found[f"added round trip, every 10 ms, 0.5 x {WIREGUARD_GO}'s"]
    assert (delay.measured, delay.limit, delay.is_met) == (190, 200, True)
    assert not found[f"added round trip, every 2 ms, 1 x {BORINGTUN_1}'s"].is_met
    dense = found[f"added round trip, every 0.2 ms, 0.5 x {WIREGUARD_GO}'s"]
    assert (dense.measured, dense.limit, dense.is_met) == (47.5, 50, True)
    flood = found["64-byte datagrams that arrive at the knee, the best peer's"]
    assert (flood.measured, flood.limit, flood.is_met) == (60, 20, True)


def test_the_congestion_control_beside_is_the_first_that_a_flow_may_have() -> None:
    assert preferred("bbr", {"cubic", "reno", "bbr"}.__contains__) == Congestion("bbr", "cubic")
    assert preferred("bbr", {"reno", "bbr"}.__contains__) == Congestion("bbr", "reno")
    assert preferred("bbr", {"bbr"}.__contains__).beside is None
    assert preferred("cubic", lambda _: True).beside is None
    assert is_accepted(choose().own)
    assert not is_accepted("no-such-control")


def tandem(million_per_s: float, widest: str = "Avx512") -> Tandem:
    rows = [
        ("plain f64", "Scalar", 0, 9e6),
        ("plain [f32; 16] Scalar", "Scalar", 0, 100e6),
        ("tandem Scalar", "Scalar", 1, 20e6),
        (f"plain [f32; 16] {widest}", widest, 0, 600e6),
        (f"tandem {widest}", widest, 1, million_per_s * 1e6),
        (f"tandem {widest} 24 roads", widest, 24, 900e6),
    ]
    keys = ("name", "instructions", "roads", "packets_per_s")
    grid = {"points": 264, "packets": 13_000_000_000, "threads": 2, "wall_s": 20.5}
    return parse_tandem({"rows": [dict(zip(keys, row, strict=True)) for row in rows]}, grid)


def kernel(peak_bytes: int) -> Kernel:
    rows = [
        {"fingerprint": False, "packets_per_s": 2.5e6, "packets_per_s_max": 2.6e6},
        {"fingerprint": True, "packets_per_s": 1.9e6, "packets_per_s_max": 2.0e6},
    ]
    memory = [
        {"hours": 1, "packets": 480_000, "peak_bytes": 2**21},
        {"hours": 10, "packets": 4_800_000, "peak_bytes": peak_bytes},
    ]
    return parse_kernel({"stations": 8, "rows": rows}, memory)


def test_targets_of_the_simulators() -> None:
    found = targets(Results(CUBIC, tandem=tandem(450), kernel=kernel(2**21)))
    assert [(target.measured, target.is_met) for target in found] == [
        (450, True),
        (4.5, True),
        (20.5, True),
        (2.5, True),
        (1.0, True),
    ]
    missed = targets(Results(CUBIC, tandem=tandem(80), kernel=kernel(3 * 2**20)))
    assert [target.is_met for target in missed] == [False, False, True, True, False]


def test_the_number_of_the_tandem_is_one_for_the_widest_instructions() -> None:
    found = targets(Results(CUBIC, tandem=tandem(95, "Avx2")))
    assert [target.unit for target in found] == ["times", "s"]


def test_the_simulators_have_a_row_a_way_to_compute() -> None:
    text = report(Results(CUBIC, tandem=tandem(450), kernel=kernel(2**21)))
    for line in (
        "| plain f64 | as the workspace is built | - | 9.0 |",
        "| plain [f32; 16] | as the workspace is built | - | 100.0 |",
        "| plain [f32; 16] | compiled for AVX-512 | - | 600.0 |",
        "| tandem | none | 1 | 20.0 |",
        "| tandem | AVX-512 | 24 | 900.0 |",
        "| events alone | 2.50 (2.60) |",
        "| 10 | 4,800,000 | 2.00 |",
    ):
        assert line in text
    assert "264 points, 13.00 billion packets, 20.5 s on 2 cores." in text


def test_targets_of_handshakes_and_memory_are_ours_alone() -> None:
    handshakes = (
        Handshakes(IKEV1, "caravan", "program", 20, 2.4),
        Handshakes(IKEV1, "strongSwan", "program", 20, 8.4),
    )
    memory = Memory(100_000, {1: 5 * 1024, 2: 7 * 1024}, 10 * 1024**2, 2 * 1024**2)
    found = targets(Results(CUBIC, handshakes=handshakes, memory=memory))
    assert [target.is_met for target in found] == [True, True, False, True]
    assert [target.measured for target in found] == [2.4, 5, 7, 10]


def test_a_rate_of_handshakes_is_that_of_one_core_of_the_program() -> None:
    name = EXCHANGES[0].name
    handshakes = (
        Handshakes(name, "caravan", "engine alone", 300, 0.4),
        Handshakes(name, "caravan", "program", 600, 0.8, 900.0),
        Handshakes(name, "strongSwan", "program", 600, 4.0, 300.0),
    )
    found, ratio = targets(Results(CUBIC, handshakes=handshakes))
    assert (found.bound, found.limit, found.measured, found.is_met) == (
        "at least",
        1000,
        1250,
        True,
    )
    # strongSwan's 250 a second beside it: five times as many.
    assert (ratio.what, ratio.limit, ratio.measured, ratio.unit, ratio.is_met) == (
        f"handshakes of one core, {name}, over those of strongSwan",
        *(4, 5, "times", True),
    )
    (alone,) = targets(Results(CUBIC, handshakes=handshakes[:2]))
    assert alone == found
    text = report(Results(CUBIC, handshakes=handshakes))
    assert f"| {name} | caravan | engine alone | 300 | 0.40 | 2,500 | - |" in text
    assert f"| {name} | strongSwan | program | 600 | 4.00 | 250 | 300 |" in text


def test_programs_are_measured_by_the_median_of_their_runs() -> None:
    runs = [
        Handshakes("any", "caravan", "program", 200, each_ms, seen)
        for each_ms, seen in ((0.5, 1_000.0), (2.5, 200.0), (0.6, 900.0))
    ]
    assert median_of(runs) == Handshakes("any", "caravan", "program", 600, 0.6, 900.0)


def test_each_exchange_says_what_strongswan_has() -> None:
    by_name = {each.name: each for each in EXCHANGES}
    assert len(by_name) == len(EXCHANGES)
    assert [each.has_peer for each in EXCHANGES] == [
        "mlkem" not in each.proposal and not each.is_resumed for each in EXCHANGES
    ]


def flow(*, lost: range, late: range = range(0)) -> tuple[dict[int, float], dict[int, float]]:
    """A datagram every millisecond for two seconds, each 20 ms under way, late ones 70 ms more."""
    sent = {number: number / 1e3 for number in range(2_000)}
    came = {
        number: at + (0.09 if number in late else 0.02)
        for number, at in sent.items()
        if number not in lost
    }
    return sent, came


def test_a_move_begins_with_the_first_datagram_and_is_over_with_the_last_lost_one() -> None:
    # At 1 s the link is dead: what is under way downwards dies, and 40 ms later it comes again.
    sent, came = flow(lost=range(980, 1_025))
    found = way(sent, came, 1.0, is_down=True)
    assert (found.first_s, found.whole_s) == pytest.approx((0.045, 0.045))
    # What waits is late, and is not lost.
    sent, came = flow(lost=range(980, 1_025), late=range(1_030, 1_050))
    found = way(sent, came, 1.0, is_down=True)
    assert (found.first_s, found.whole_s) == pytest.approx((0.045, 0.07))


def test_upwards_the_old_path_still_delivers_and_does_not_count() -> None:
    sent, came = flow(lost=range(1_001, 1_010))
    found = way(sent, came, 1.0, is_down=False)
    assert (found.first_s, found.whole_s) == pytest.approx((0.03, 0.03))


def test_a_way_on_which_nothing_comes_any_more_has_no_figure() -> None:
    sent, came = flow(lost=range(900, 2_000))
    assert way(sent, came, 1.0, is_down=True) == Way(None, None)
    # What was under way behind the NAT still came.
    sent, came = flow(lost=range(990, 2_000))
    found = way(sent, came, 1.0, is_down=True)
    assert found.first_s == pytest.approx(0.001) and found.whole_s is None


def test_moves_are_compared_by_their_medians() -> None:
    def move(down_s: float | None) -> Move:
        return Move(Way(0.02, 0.02), Way(down_s, down_s))

    ours = Roam("caravan", [move(0.05), move(0.055), move(None)], [move(0.045)])
    theirs = Roam("strongSwan", [move(0.2)], [move(None)])
    found = {one.what: one for one in targets(Results(CUBIC, roam=[ours, theirs]))}
    down = found["a move: the first datagram downwards"]
    assert (down.limit, down.is_met) == (60, True)
    assert down.measured == pytest.approx(55)
    assert found["a move: the full rate downwards"].limit == 100
    assert found["a NAT that forgets: downwards again"].measured == pytest.approx(45)
    text = report(Results(CUBIC, roam=[ours, theirs]))
    assert "| caravan | 3 | 20 | 55 | 55 | 45 |" in text
    assert "| strongSwan | 1 | 20 | 200 | 200 | not at all |" in text
    silent = Roam("caravan", [move(None)], [move(None)])
    assert not any(one.is_met for one in targets(Results(CUBIC, roam=[silent]))[1:])


def test_without_our_own_plane_there_is_no_target() -> None:
    assert targets(Results(CUBIC, PLANES[:-1])) == []


def test_a_table_has_a_row_a_system_and_shares_of_plain_forwarding() -> None:
    lines = plane_table(PLANES, PLANES[0], CUBIC).splitlines()
    assert lines[2] == "| plain veth | 20,000 (19,999 - 20,001) | 1.000 | - |"
    assert lines[6] == f"| {CARAVAN} | 6,000 (5,999 - 6,001) | 0.300 | 7.2 |"
    beside = plane_table(PLANES, PLANES[0], BESIDE_BBR).splitlines()
    assert "| Mbit/s, bbr (min - max) | share of plain | Mbit/s, cubic |" in beside[0]
    assert "| 0.300 | 8,000 |" in beside[6]
    assert "share" not in plane_table(PLANES[1:], None, CUBIC)


def test_round_trips_have_a_column_an_interval() -> None:
    lines = delay_table(PLANES, PLANES[0]).splitlines()
    assert lines[0].startswith("| system | every 10 ms, us (p99) | added us | every 2 ms,")
    assert lines[6] == f"| {CARAVAN} | 240 (480) | 190 | 120 (480) | 95 | 60 (480) | 48 |"
    assert "added" not in delay_table(PLANES[1:], None)


def test_a_flood_has_a_row_a_system_that_was_flooded() -> None:
    text = report(Results(CUBIC, (*PLANES[:-1], replace(PLANES[-1], flood=None))))
    assert "| plain veth | 200 | 160 |" in text
    assert f"| {CARAVAN} | 60" not in text


def test_a_report_names_only_what_was_measured() -> None:
    memory = Memory(1_000, {2: 5_120}, 2**20, 2**19)
    text = report(Results(CUBIC, memory=memory, primitives="aes 1 ns\n"))
    assert "each of 1,000 idle tunnels in a gateway, IKEv2 | 5.00 KiB" in text
    assert "```text\naes 1 ns\n```" in text
    assert "## Data planes" not in text
    assert "not met" not in text


def test_only_what_stands_between_the_markers_is_rewritten() -> None:
    document = f"# Head\n{BEGIN}\nold\n{END}\ntail\n"
    assert replaced(document, "new\n") == f"# Head\n{BEGIN}\nnew\n{END}\ntail\n"
    with pytest.raises(ValueError, match="lacks"):
        replaced("# Head\n", "new")


def test_the_projects_document_has_the_markers() -> None:
    text = (TOP / "BENCHMARKS.md").read_text()
    assert replaced(text, "x") != text


def test_versions_and_machines_are_told() -> None:
    assert version_in("caravan 0.1.0\n") == "0.1.0"
    assert version_in("strongSwan 5.9.8 PKI tool\n") == "5.9.8"
    assert version_in("iperf 3.12 (cJSON 1.7.15)\n") == "3.12"
    assert version_in("unnamed\n") == "unnamed"
    assert processor_name("flags\t: x\nmodel name\t: A Processor\n") == "A Processor"
    machine = Machine("A Processor", 2, "6.1", CUBIC, 0.1, "2026-01-02", {"caravan": "0.1.0"})
    expected = "Measured on 2026-01-02: A Processor, 2 cores, Linux 6.1, TCP cubic "
    expected += "(the machine's own).\ncaravan 0.1.0."
    assert provenance(machine) == expected
    assert "TCP bbr (the machine's own) and cubic." in provenance(
        replace(machine, congestion=BESIDE_BBR)
    )
    busy = provenance(replace(machine, load=6.5))
    assert "kept the machine busy: load 6.5." in busy


def test_resident_memory_is_read_in_bytes() -> None:
    status = "VmHWM:\t  9 kB\nVmRSS:\t    7168 kB\nRssAnon:\t    1024 kB\n"
    assert resident_bytes(status) == 7 * 1024**2
    assert resident_bytes(status, "RssAnon") == 1024**2
    with pytest.raises(ValueError, match="VmRSS"):
        resident_bytes("Name: x\n")


def test_the_program_that_cargo_built_is_found() -> None:
    messages = (
        '{"reason":"compiler-artifact","target":{"name":"daemon"},"executable":null}\n'
        '{"reason":"compiler-artifact","target":{"name":"load"},"executable":"/t/load-1"}\n'
    )
    assert parse_executable(messages, "load") == Path("/t/load-1")
    with pytest.raises(ValueError, match="no bench"):
        parse_executable(messages, "tandem")


def test_a_configuration_holds_our_private_and_the_peers_public_key() -> None:
    pair = KeyPair.make()
    assert (len(pair.private), len(pair.public)) == (32, 32)
    assert pair != KeyPair.make()
    text = configuration(pair, Peer(pair.public, "192.0.2.1", "10.10.0.1/32"))
    assert text.startswith(f"set=1\nprivate_key={pair.private.hex()}\n")
    assert text.endswith("endpoint=192.0.2.1:51820\nallowed_ip=10.10.0.1/32\n\n")


@pytest.mark.parametrize("answer", [b"errno=0\n\n", b"errno=22\n\n", b""])
def test_a_refused_configuration_is_an_error(tmp_path: Path, answer: bytes) -> None:
    path = tmp_path / "wg.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        server = threading.Thread(target=answer_once, args=(listener, answer))
        server.start()
        if b"errno=0" in answer:
            control(path, "set=1\n\n")
        else:
            with pytest.raises(RuntimeError, match="refuses"):
                control(path, "set=1\n\n")
        server.join()


def answer_once(listener: socket.socket, answer: bytes) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.recv(4096)
        connection.sendall(answer)


@pytest.mark.root
def test_plain_and_strongswan_are_measured_side_by_side(
    authority: CaravanAuthority, output: Path
) -> None:
    keys = Keys.of(authority)
    told: list[str] = []
    probe = Probe(build(TOP, "daemon", "probe", profile="dev"))
    with Bench(keys, output / "no-peers", output) as bench:
        systems = [bench.bring_up(name) for name in (PLAIN, STRONGSWAN)]
        effort = Effort(1, 1, 10, 50)
        found = measure(systems, effort, Congestion("cubic", "reno"), probe, told.append)
        with pytest.raises(FileNotFoundError, match="bench-peers builds it"):
            bench.bring_up(WIREGUARD_GO)
        with pytest.raises(FileNotFoundError, match="--bench forwarder builds it"):
            bench.bring_up(FORWARDER)
    assert [one.name for one in found] == [PLAIN, STRONGSWAN]
    for one in found:
        assert one.mbit_s > 1 and one.beside_mbit_s and one.beside_mbit_s > 1
        assert all(0 < each.median_us <= each.p99_us for each in one.round_trips)
        assert one.flood and one.flood.overload_per_s > 0
    assert found[0].cpu_s_per_gb is None and found[1].cpu_s_per_gb
    assert len(told) == 2


@pytest.mark.root
def test_clients_of_the_bench_connect_to_both_gateways(
    authority: CaravanAuthority, output: Path
) -> None:
    keys = Keys.of(authority)
    program = build(TOP, "daemon", "load", profile="dev")
    load = Load.prepare(program, keys, output / "of-load")
    with Bench(keys, output / "no-peers", output) as bench:
        for exchange in EXCHANGES:
            assert load.alone(2, exchange).responder_ms > 0
            runs = 1 + exchange.is_shared
            found = load.of_gateways(bench, exchange, 5, runs=runs)
            assert {one.count for one in found} == {5 * runs}
            systems = ["caravan", "strongSwan"][: 1 + exchange.has_peer]
            assert [one.system for one in found] == systems
            assert all(one.responder_ms > 0 and one.seen_per_s for one in found)


@pytest.mark.root
@pytest.mark.measures
def test_moves_are_measured_with_both_systems(authority: CaravanAuthority, output: Path) -> None:
    keys = Keys.of(authority)
    caravan, strongswan = roaming.measure(keys, output, 1, 1)
    assert (caravan.system, strongswan.system) == ("caravan", "strongSwan")
    (move,), (rebinding,) = caravan.moves, caravan.rebindings
    assert move.up.first_s and move.down.first_s and move.down.whole_s
    assert rebinding.down.whole_s
    assert strongswan.moves[0].down.first_s


def test_a_machine_that_is_half_busy_is_said_to_be() -> None:
    assert busy(0.99, 2) == ""
    assert busy(1.0, 2) == "Other programs kept the machine busy: load 1.0."
