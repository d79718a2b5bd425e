"""The benchmark's parts: what it reads, what it concludes, and how it says it. No timing."""

from __future__ import annotations

import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from caravan.bench.control import Handshakes, Memory, parse_executable, resident_bytes
from caravan.bench.document import (
    BEGIN,
    END,
    Machine,
    processor_name,
    provenance,
    replaced,
    version_in,
)
from caravan.bench.figures import Results, report, road_table, targets
from caravan.bench.roads import Effort, Road, Sample, measure, parse_round_trips_us, summary
from caravan.bench.systems import (
    BORINGTUN_1,
    CARAVAN,
    PLAIN,
    STRONGSWAN,
    WIREGUARD_GO,
    Bench,
)
from caravan.bench.wireguard import KeyPair, Peer, configuration, control
from caravan.measurement import Keys
from caravan.testbed.connection import PublicKey
from caravan.testbed.pki import CaravanAuthority


def road(name: str, mbit_s: float, rtt_us: float) -> Road:
    return Road(name, mbit_s, mbit_s - 1, mbit_s + 1, rtt_us, None if name == PLAIN else 7.25)


ROADS = (
    road(PLAIN, 20_000, 50),
    road(WIREGUARD_GO, 2_000, 450),
    road(BORINGTUN_1, 800, 230),
    road(STRONGSWAN, 300, 500),
    road(CARAVAN, 6_000, 240),
)


def test_round_trips_are_read_line_by_line() -> None:
    text = "64 bytes from 10.0.0.1: icmp_seq=1 ttl=64 time=0.051 ms\n64 bytes: time=1.2 ms\n"
    assert parse_round_trips_us(text) == pytest.approx([51, 1200])
    with pytest.raises(ValueError, match="no round trip"):
        parse_round_trips_us("2 packets transmitted, 0 received")


def test_a_summary_holds_medians_and_the_extremes_of_the_rate() -> None:
    samples = [Sample(10, 5, 1.0), Sample(30, 7, 3.0), Sample(20, 9, 2.0)]
    assert summary("x", samples) == Road("x", 20, 10, 30, 7, 2.0)
    assert summary("x", [Sample(10, 5, None)]).cpu_s_per_gb is None


def test_targets_compare_with_the_peers_of_the_same_run() -> None:
    found = {target.what: target for target in targets(Results(ROADS))}
    rate = found[f"TCP rate over that of {WIREGUARD_GO}"]
    assert (rate.measured, rate.is_met) == (3.0, True)
    assert found[f"TCP rate over that of {STRONGSWAN}"].measured == 20
    delay = found[f"added round trip, 0.5 x {WIREGUARD_GO}'s"]
    assert (delay.measured, delay.limit, delay.is_met) == (190, 200, True)
    assert not found[f"added round trip, 1 x {BORINGTUN_1}'s"].is_met


def test_targets_of_handshakes_and_memory_are_ours_alone() -> None:
    handshakes = (
        Handshakes("caravan", "program", 20, 2.4),
        Handshakes("strongSwan", "program", 20, 8.4),
    )
    memory = Memory(100_000, 7 * 1024, 10 * 1024**2)
    found = targets(Results(handshakes=handshakes, memory=memory))
    assert [target.is_met for target in found] == [True, False, True]
    assert [target.measured for target in found] == [2.4, 7, 10]


def test_without_our_own_road_there_is_no_road_target() -> None:
    assert targets(Results(ROADS[:-1])) == []


def test_a_table_has_a_row_a_system_and_shares_of_the_plain_road() -> None:
    lines = road_table(ROADS, ROADS[0]).splitlines()
    assert lines[2] == "| plain veth | 20,000 (19,999 - 20,001) | 1.000 | 50 | 0 | - |"
    assert lines[6] == f"| {CARAVAN} | 6,000 (5,999 - 6,001) | 0.300 | 240 | 190 | 7.2 |"
    assert "share" not in road_table(ROADS[1:], None)


def test_a_report_names_only_what_was_measured() -> None:
    text = report(Results(memory=Memory(1_000, 5_120, 2**20), primitives="aes 1 ns\n"))
    assert "each of 1,000 idle tunnels in a gateway | 5.00 KiB" in text
    assert "```text\naes 1 ns\n```" in text
    assert "## Data planes" not in text
    assert "not met" not in text


def test_only_what_stands_between_the_markers_is_rewritten() -> None:
    document = f"# Head\n{BEGIN}\nold\n{END}\ntail\n"
    assert replaced(document, "new\n") == f"# Head\n{BEGIN}\nnew\n{END}\ntail\n"
    with pytest.raises(ValueError, match="lacks"):
        replaced("# Head\n", "new")


def test_the_projects_document_has_the_markers() -> None:
    text = (Path(__file__).resolve().parents[2] / "BENCHMARKS.md").read_text()
    assert replaced(text, "x") != text


def test_versions_and_machines_are_told() -> None:
    assert version_in("caravan 0.1.0\n") == "0.1.0"
    assert version_in("strongSwan 5.9.8 PKI tool\n") == "5.9.8"
    assert version_in("iperf 3.12 (cJSON 1.7.15)\n") == "3.12"
    assert version_in("unnamed\n") == "unnamed"
    assert processor_name("flags\t: x\nmodel name\t: A Processor\n") == "A Processor"
    machine = Machine("A Processor", 2, "6.1", "cubic", 0.1, "2026-01-02", {"caravan": "0.1.0"})
    expected = "Measured on 2026-01-02: A Processor, 2 cores, Linux 6.1, TCP cubic.\ncaravan 0.1.0."
    assert provenance(machine) == expected
    busy = provenance(replace(machine, load=6.5))
    assert "kept the machine busy: load 6.5." in busy


def test_resident_memory_is_read_in_bytes() -> None:
    assert resident_bytes("VmHWM:\t  9 kB\nVmRSS:\t    7168 kB\n") == 7 * 1024**2
    with pytest.raises(ValueError, match="VmRSS"):
        resident_bytes("Name: x\n")


def test_the_program_that_cargo_built_is_found() -> None:
    messages = (
        '{"reason":"compiler-artifact","target":{"name":"daemon"},"executable":null}\n'
        '{"reason":"compiler-artifact","target":{"name":"load"},"executable":"/t/load-1"}\n'
    )
    assert parse_executable(messages) == Path("/t/load-1")
    with pytest.raises(ValueError, match="no bench"):
        parse_executable("")


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
    keys = Keys(
        PublicKey(authority.issue("sg.example"), authority),
        PublicKey(authority.issue("ms.example"), authority),
    )
    told: list[str] = []
    with Bench(keys, output / "no-peers", output) as bench:
        systems = [bench.bring_up(name) for name in (PLAIN, STRONGSWAN)]
        found = measure(systems, Effort(1, 1, 10), told.append)
        with pytest.raises(FileNotFoundError, match="bench-peers builds it"):
            bench.bring_up(WIREGUARD_GO)
    assert [(one.name, one.mbit_s > 1, one.rtt_us > 0) for one in found] == [
        (PLAIN, True, True),
        (STRONGSWAN, True, True),
    ]
    assert found[0].cpu_s_per_gb is None and found[1].cpu_s_per_gb
    assert len(told) == 2
