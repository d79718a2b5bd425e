"""A station as a service: started, supervised, interrupted, ended, and the state of its host
afterwards."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from waiting import wait_for

from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.binary import caravan_binary
from caravan.testbed.caravan import Caravan, environment, order, write_files
from caravan.testbed.connection import Connection, PublicKey, SharedKey
from caravan.testbed.host import Host
from caravan.testbed.pki import CaravanAuthority
from caravan.testbed.remote_access import (
    GATEWAY_ADDRESS,
    HOME_ADDRESS,
    PRIVATE_NETWORK,
    SERVER_ADDRESS,
    STATION_ADDRESS,
)
from caravan.testbed.traffic import ping
from caravan.threeways.measurement import Keys, tunnel_ends

pytestmark = pytest.mark.root

UNITS = Path(__file__).resolve().parents[2] / "packaging"
RESOLVER = "10.10.0.53"
MINUTES_S = 300
"""So long after the last packet, a station asks whether its gateway is there: no test
waits that long."""
Ends = tuple[Connection, Connection]
BOTH = pytest.mark.parametrize("version", [1, 2], ids=["ikev1", "ikev2"])


@pytest.fixture
def ends(version: int, keys: Keys) -> Ends:
    """The gateway and the station of a tunnel that detects a dead peer within seconds."""
    on_gateway, on_station = tunnel_ends(keys, "aes128gcm16", version=version)
    return on_gateway, replace(on_station, dpd_s=1)


@pytest.fixture
def network(output: Path) -> Iterator[RemoteAccess]:
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        yield network


def state(host: Host) -> list[str]:
    """What a tunnel changes on the station's host."""
    argvs = (
        ["ip", "-brief", "link"],
        ["ip", "address"],
        ["ip", "rule"],
        ["ip", "route", "show", "table", "all"],
        ["cat", "/etc/resolv.conf"],
        ["nft", "list", "ruleset"],
    )
    # The kernel counts down the lifetimes of addresses.
    return [re.sub(r"valid_lft.*", "", host.run(argv).stdout) for argv in argvs]


def inner_addresses(host: Host) -> list[str]:
    """The addresses that were assigned to the tunnels of a host."""
    report = json.loads(order(host, "status", "--json").check().stdout)
    sessions = [s for connection in report["connections"] for s in connection["sessions"]]
    return [address for session in sessions for address in session["inner"]]


def tables_put_back(host: Host) -> int:
    process = json.loads(order(host, "status", "--json").check().stdout)["process"]
    return int(process["tables_put_back"])


def wait_for_echo(host: Host, within_s: float = 30) -> None:
    """Wait until the server answers again."""
    wait_for(
        lambda: ping(host, SERVER_ADDRESS, 1, timeout_s=0.3).received == 1,
        f"{host.role}: an echo",
        within_s,
    )


def resolvers(host: Host) -> str:
    return host.run(["cat", "/etc/resolv.conf"]).stdout


# Ctrl-C in the terminal.


@BOTH
def test_detach_returns_when_the_tunnel_is_up_and_down_ends_it(
    network: RemoteAccess, ends: Ends
) -> None:
    before = state(network.ms)
    with Caravan(network.sg, ends[0]) as gateway:
        gateway.wait_ready()
        file = write_files(network.ms, ends[1])
        done = order(network.ms, "up", "-c", str(file), "--detach").check()
        assert done.stdout == "up: road\n"
        assert ping(network.ms, SERVER_ADDRESS, 2).received == 2
        again = order(network.ms, "up", "-c", str(file), "--detach")
        assert again.code == 1 and "already running" in again.stderr
        assert stat.S_IMODE((runtime(network.ms) / "road.log").stat().st_mode) == 0o600
        assert "WARNING: unencrypted packets" not in order(network.ms, "status").check().stdout
        network.ms.run(["nft", "delete", "table", "inet", "caravan_road"])
        wait_for(lambda: tables_put_back(network.ms) == 1, "the table is put back", 30)
        network.ms.run(["nft", "list", "table", "inet", "caravan_road"])
        assert "WARNING: unencrypted packets" not in order(network.ms, "status").check().stdout
        assert "road is down" in order(network.ms, "down", "road").check().stdout
        wait_for_end(network.ms)
        assert state(network.ms) == before
        assert order(network.ms, "down", "road").code == 1


def test_detach_returns_as_soon_when_the_first_address_is_dead(
    network: RemoteAccess, ends: Ends
) -> None:
    dead = "192.0.2.77"
    with Caravan(network.sg, ends[0]) as gateway:
        gateway.wait_ready()
        file = write_files(network.ms, replace(ends[1], remote_addrs=f"{dead}, {GATEWAY_ADDRESS}"))
        order(network.ms, "up", "-c", str(file), "--detach", "--timeout", "8").check()
        assert ping(network.ms, SERVER_ADDRESS, 2).received == 2
        assert f"not used: {dead}:500: no answer\n" in order(network.ms, "status").check().stdout
        log = (runtime(network.ms) / "road.log").read_text()
        assert "this address of the gateway is used" in log and dead in log
        order(network.ms, "down", "road").check()
        wait_for_end(network.ms)


def wait_for_end(host: Host) -> None:
    wait_for(lambda: order(host, "status").code != 0, "the end")


def test_a_folder_of_another_user_is_not_said_to_be_empty(tmp_path: Path) -> None:
    argv = [str(caravan_binary()), "status", "--runtime-dir", str(tmp_path)]
    tmp_path.chmod(0o700)
    nobody = 65534
    done = subprocess.run(
        argv,
        check=False,
        user=nobody,
        group=nobody,
        extra_groups=[],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "permission denied" in done.stderr


def test_detach_says_why_it_is_not_up_and_leaves_its_block_alone(
    network: RemoteAccess, ends: Ends
) -> None:
    before = state(network.ms)
    # The gateway accepts only another station.
    with Caravan(network.sg, replace(ends[0], remote_id="other.example")) as gateway:
        gateway.wait_ready()
        file = write_files(network.ms, ends[1])
        done = order(network.ms, "up", "-c", str(file), "--detach", timeout_s=60)
        assert done.code == 1
        assert "not up after" in done.stderr
        wait_for_end(network.ms)
    assert_blocked(network.ms, done.stderr)
    assert state(network.ms) == before


def assert_blocked(host: Host, told: str) -> None:
    """The block remains, `up` reports it when it ends, and `down` removes it."""
    assert f"{PRIVATE_NETWORK} stays blocked; `caravan down road` unblocks that" in told
    assert host.unreachable_routes() == [PRIVATE_NETWORK]
    order(host, "down", "road").check()
    assert host.unreachable_routes() == []


@BOTH
def test_a_child_that_the_gateway_refuses_is_told_at_once(
    version: int, network: RemoteAccess, ends: Ends
) -> None:
    wrong = replace(ends[1], remote_ts="10.77.0.0/24")
    name = "INVALID-ID-INFORMATION" if version == 1 else "TS_UNACCEPTABLE"
    refused = (
        f"the peer refused with {name}: it does not protect these networks for us; "
        "we asked for tunnel mode"
    )
    with Caravan(network.sg, ends[0]) as gateway:
        gateway.wait_ready()
        file = write_files(network.ms, wrong)
        done = order(network.ms, "up", "-c", str(file), "--detach")
        assert done.code == 1 and refused in done.stderr and "10.77.0.0/24" in done.stderr
        wait_for_end(network.ms)
        with Caravan(network.ms, wrong) as station:
            station.process.wait_for(
                lambda: refused in str(last_failure(station)), "last failure", 30
            )


def last_failure(station: Caravan) -> str | None:
    """Why the only connection is not up."""
    done = order(station.host, "status", "--json")
    if done.code != 0:
        return None
    (connection,) = json.loads(done.stdout)["connections"]
    failure: str | None = connection["last_failure"]
    return failure


def test_up_follows_down_at_once(network: RemoteAccess, ends: Ends) -> None:
    before = state(network.ms)
    with Caravan(network.sg, ends[0]) as gateway:
        gateway.wait_ready()
        file = write_files(network.ms, ends[1])
        for _ in range(6):
            order(network.ms, "up", "-c", str(file), "--detach").check()
            log = runtime(network.ms) / "road.log"
            lines = log.read_text().splitlines()
            assert order(network.ms, "up", "-c", str(file), "--detach").code == 1
            assert log.read_text().splitlines()[: len(lines)] == lines
            assert "\x1b" not in log.read_text()
            order(network.ms, "down", "road").check()
            assert order(network.ms, "status").code == 1
        # Beside a process that is about to end: its block is removed all the same.
        with Caravan(network.ms, ends[1]) as station:
            station.wait_ready()
            station.process.signal(signal.SIGTERM)
            order(network.ms, "down", "road").check()
    assert state(network.ms) == before


def runtime(host: Host) -> Path:
    """The folders of control sockets and logs."""
    return Path(environment(host)["CARAVAN_RUNTIME_DIR"])


def test_an_interrupted_detach_leaves_its_block_alone(network: RemoteAccess, ends: Ends) -> None:
    before = state(network.ms)
    file = write_files(network.ms, ends[1])
    argv = [str(caravan_binary()), "up", "-c", str(file), "--detach"]
    process = network.ms.popen(argv, environment(network.ms), name="caravan-detach")
    words = "192.0.2.1 says that nothing listens on UDP 500 (ICMP port unreachable"
    process.wait_for(lambda: words in process.stderr(), "note", 20)
    process.signal(signal.SIGINT)
    done = process.wait(10)
    assert done.code == 1 and "nothing is left in the background" in done.stderr
    assert order(network.ms, "status").code == 1
    assert_blocked(network.ms, done.stderr)
    assert state(network.ms) == before


def test_after_a_crash_status_says_what_stays_blocked(network: RemoteAccess, ends: Ends) -> None:
    with Caravan(network.sg, ends[0]) as gateway:
        gateway.wait_ready()
        with Caravan(network.ms, ends[1]) as station:
            station.wait_ready()
            station.crash()
    done = order(network.ms, "status")
    assert_blocked(network.ms, done.stderr)
    assert "blocked" not in order(network.ms, "status").stderr
    assert list(runtime(network.ms).glob("*.sock")) == []


def test_a_station_waits_for_the_name_of_its_gateway(network: RemoteAccess, ends: Ends) -> None:
    named = replace(ends[1], remote_addrs="gateway.invalid")
    with Caravan(network.ms, named) as station:
        station.wait_for_event("cannot resolve gateway.invalid")
        station.wait_for_event("trying again in 2 s")


def test_detach_without_a_gateway_ends_with_a_reason(network: RemoteAccess, ends: Ends) -> None:
    file = write_files(network.ms, ends[1])
    network.ms.link_down("wan0")
    done = order(network.ms, "up", "-c", str(file), "--detach", timeout_s=60)
    assert done.code == 1 and "no route to the peer" in done.stderr


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        ("admin-prohibited", "that this is forbidden (ICMP administratively prohibited)"),
        ("host-prohibited", "that this is forbidden (ICMP administratively prohibited)"),
        ("net-unreachable", "that it has no route there (ICMP network unreachable)"),
        ("host-unreachable", "that it cannot reach this host (ICMP host unreachable)"),
        ("port-unreachable", "in its place that the port is closed (ICMP port unreachable)"),
    ],
)
def test_what_a_router_answers_is_told_and_ends_no_attempt(
    verdict: str, words: str, network: RemoteAccess, ends: Ends
) -> None:
    rule = f"""table ip wall {{
    chain forward {{
        type filter hook forward priority 0;
        udp dport 500 reject with icmp type {verdict}
    }}
}}
"""
    assert network.nat is not None
    network.nat.host.load_nft(rule, "wall")
    with Caravan(network.sg, ends[0]) as gateway:
        gateway.wait_ready()
        with Caravan(network.ms, ends[1]) as station:
            said = station.wait_for_event("ICMP")
            assert f"no reply from {GATEWAY_ADDRESS}, UDP 500 (1 try): {HOME_ADDRESS}" in said
            assert words in said
            # The attempt continues if the message was forged.
            network.nat.host.run(["nft", "delete", "table", "ip", "wall"]).check()
            station.wait_ready()
            events = [str(fields.get("message")) for _, fields in station.events()]
            assert not any("will try again" in event for event in events)


@pytest.mark.parametrize(
    ("router", "gateway", "words"),
    [
        (HOME_ADDRESS, "10.0.0.77", "no host with this address answers on our own link"),
        ("10.0.0.77", GATEWAY_ADDRESS, "the router to it does not answer on our own link"),
    ],
)
def test_a_neighbour_that_does_not_answer_is_told_as_that(
    router: str, gateway: str, words: str, network: RemoteAccess, ends: Ends
) -> None:
    network.ms.run(["ip", "route", "replace", "default", "via", router]).check()
    file = write_files(network.ms, replace(ends[1], remote_addrs=gateway))
    options = ("--detach", "--timeout", "8")
    done = order(network.ms, "up", "-c", str(file), *options, timeout_s=60)
    assert done.code == 1 and words in done.stderr, done
    assert "answers that" not in done.stderr, done
    order(network.ms, "down", "road")


def test_a_firewall_of_the_station_itself_is_told(network: RemoteAccess, ends: Ends) -> None:
    rule = """table ip wall {
    chain output {
        type filter hook output priority 0;
        udp dport 500 drop
    }
}
"""
    network.ms.load_nft(rule, "wall")
    file = write_files(network.ms, ends[1])
    options = ("--detach", "--timeout", "2")
    done = order(network.ms, "up", "-c", str(file), *options, timeout_s=60)
    assert done.code == 1
    words = f"cannot send to {GATEWAY_ADDRESS}:500: Operation not permitted"
    assert words in done.stderr and "no reply" not in done.stderr


@pytest.mark.parametrize("reader", ["full", "gone"])
def test_a_log_that_nobody_takes_ends_no_tunnel(
    reader: str, network: RemoteAccess, ends: Ends
) -> None:
    log = "/dev/full" if reader == "full" else ">(exec head -n 1 > /dev/null)"
    with Caravan(network.sg, ends[0]) as gateway:
        gateway.wait_ready()
        file = write_files(network.ms, ends[1])
        argv = [str(caravan_binary()), "up", "-c", str(file)]
        script = f'exec "$@" 2> {log}'
        station = network.ms.popen(["bash", "-c", script, "up", *argv], environment(network.ms))
        wait_for_echo(network.ms)
        for _ in range(3):
            order(network.ms, "rekey", "road").check()
        assert ping(network.ms, SERVER_ADDRESS, 2).received == 2
        assert "lines of the log" in order(network.ms, "status").check().stdout
        order(network.ms, "down", "road").check()
        assert station.wait(10).code == 0


def test_detach_gives_up_when_its_time_is_over(network: RemoteAccess, ends: Ends) -> None:
    before = state(network.ms)
    file = write_files(network.ms, ends[1])
    began = time.monotonic()
    done = order(network.ms, "up", "-c", str(file), "--detach", "--timeout", "3", timeout_s=60)
    assert time.monotonic() - began >= 3
    assert done.code == 1
    # Nothing listens there, and the host reports that.
    closed = "says that nothing listens on UDP 500 (ICMP port unreachable, "
    assert "not up after 3 s (--timeout), and" in done.stderr and closed in done.stderr
    assert "nothing is left in the background" in done.stderr
    for name in ((), ("road",)):
        said = order(network.ms, "status", *name)
        assert said.code == 1
        assert "the last `up --detach` of road ended: not up after 3 s" in said.stderr
    assert_blocked(network.ms, done.stderr)
    assert state(network.ms) == before


def test_a_wrong_key_in_main_mode_is_told_from_a_silent_gateway(
    network: RemoteAccess, ends: Ends
) -> None:
    gateway, station = (
        replace(end, auth=SharedKey(secret), version=1)
        for end, secret in zip(ends, ("right", "wrong"), strict=True)
    )
    with Caravan(network.sg, gateway) as serving:
        serving.wait_ready()
        file = write_files(network.ms, station)
        done = order(network.ms, "up", "-c", str(file), "--detach", "--timeout", "4", timeout_s=60)
    assert done.code == 1
    told = "the peer answers but cannot read our authentication: a wrong PSK looks like this"
    assert f"not up after 4 s (--timeout), and nothing is left in the background: {told}" in (
        done.stderr
    )
    wait_for_end(network.ms)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_cleans_up_but_keeps_the_block(
    number: signal.Signals, network: RemoteAccess, ends: Ends
) -> None:
    before = state(network.ms)
    with Caravan(network.sg, ends[0]) as gateway:
        gateway.wait_ready()
        with Caravan(network.ms, ends[1]) as station:
            station.wait_ready()
            station.process.signal(number)
            assert station.process.wait(10).code == 0
        gateway.wait_until(False)
    assert network.ms.unreachable_routes() == [PRIVATE_NETWORK]
    assert RESOLVER not in resolvers(network.ms)
    order(network.ms, "down", "road").check()
    assert state(network.ms) == before


def test_after_a_crash_the_next_one_takes_over_and_cleans_up(
    network: RemoteAccess, ends: Ends
) -> None:
    before = state(network.ms)
    with Caravan(network.sg, ends[0]) as gateway:
        gateway.wait_ready()
        for _ in range(2):
            with Caravan(network.ms, ends[1]) as station:
                station.wait_ready()
                station.crash()
            assert RESOLVER in resolvers(network.ms)
            assert ping(network.ms, SERVER_ADDRESS, 1, timeout_s=0.5).received == 0
        with Caravan(network.ms, ends[1]) as station:
            station.wait_ready()
            assert ping(network.ms, SERVER_ADDRESS, 2).received == 2
            station.down()
            station.process.wait(5)
    assert state(network.ms) == before


def test_on_failure_pass_leaves_no_block(network: RemoteAccess, ends: Ends) -> None:
    before = state(network.ms)
    with Caravan(network.sg, ends[0]) as gateway:
        gateway.wait_ready()
        with Caravan(network.ms, replace(ends[1], on_failure="pass")) as station:
            station.wait_ready()
    assert state(network.ms) == before


# Supervision.


class Manager:
    """The service manager's end of sd_notify(3)."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.settimeout(10)

    def next(self, word: str) -> str:
        """The next notification that contains a text; others are skipped."""
        while True:
            notice = self.socket.recv(4096).decode()
            if word in notice:
                return notice


@pytest.fixture
def manager(network: RemoteAccess, monkeypatch: pytest.MonkeyPatch) -> Manager:
    """The manager of every program that is started from here on."""
    path = Path("/run") / f"notify-{os.getpid()}-{network.number}"
    monkeypatch.setenv("NOTIFY_SOCKET", str(path))
    return Manager(path)


def test_the_service_manager_hears_of_every_turn(
    network: RemoteAccess, ends: Ends, manager: Manager
) -> None:
    with Caravan(network.sg, ends[0]) as gateway:
        manager.next("READY=1")
        gateway.wait_ready()
        with Caravan(network.ms, ends[1]) as station:
            manager.next("READY=1")
            manager.next("STATUS=up: road")
            assert station.is_established()
            station.process.signal(signal.SIGHUP)
            assert "MONOTONIC_USEC=" in manager.next("RELOADING=1")
            manager.next("READY=1")
            assert order(network.ms, "rekey", "road").code == 0
            gateway.stop()
            station.wait_until(False, 10)
            assert "waiting to try again" in manager.next("STATUS=road: waiting")
            done = order(network.ms, "rekey", "road")
            assert done.code == 1 and "road is not up" in done.stderr
            station.process.signal(signal.SIGTERM)
            manager.next("STOPPING=1")


def test_a_boot_does_not_wait_for_the_gateway(
    network: RemoteAccess, ends: Ends, manager: Manager
) -> None:
    with Caravan(network.ms, ends[1]) as station:
        manager.next("READY=1")
        assert network.ms.unreachable_routes() == [PRIVATE_NETWORK]
        assert not station.is_established(), "and yet it answers"
        station.process.signal(signal.SIGHUP)
        manager.next("RELOADING=1")
        manager.next("READY=1")
        with Caravan(network.sg, ends[0]):
            manager.next("STATUS=up: road")
            assert station.is_established()


def test_a_boot_does_not_wait_for_the_name_of_the_gateway(
    network: RemoteAccess, ends: Ends, manager: Manager
) -> None:
    # A DNS server that refuses at once: the machine's own may be slow.
    network.ms.run(["sh", "-c", "echo nameserver 127.0.0.9 >/etc/resolv.conf"])
    with Caravan(network.ms, replace(ends[1], remote_addrs="gateway.invalid")) as station:
        manager.next("READY=1")
        assert network.ms.unreachable_routes() == [PRIVATE_NETWORK]
        manager.next("STATUS=waiting: ")
        # A reload does not end it.
        write_files(network.ms, ends[1])
        station.process.signal(signal.SIGHUP)
        station.wait_for_event("the configuration is read again")
        with Caravan(network.sg, ends[0]):
            manager.next("STATUS=up: road")


def test_rules_and_blocks_that_another_program_removes_are_put_back(
    network: RemoteAccess, ends: Ends
) -> None:
    """As systemd-networkd does, unless its configuration forbids that."""
    with (
        Caravan(network.sg, replace(ends[0], local_ts="0.0.0.0/0")) as gateway,
        Caravan(network.ms, replace(ends[1], remote_ts="0.0.0.0/0")) as station,
    ):
        gateway.wait_ready()
        station.wait_ready()
        before = entries(network.ms)
        removed = 0
        for version in ("-4", "-6"):
            for line in network.ms.run(["ip", version, "rule"]).stdout.splitlines():
                number = line.partition(":")[0]
                if 0 < int(number) < 32766:
                    network.ms.run(["ip", version, "rule", "del", "priority", number]).check()
                    removed += 1
            flush = ["ip", version, "route", "flush", "type", "unreachable", "table", "221"]
            network.ms.run(flush).check()
        await_entries(network.ms, before)
        process = station.status()["process"]
        assert process["entries_put_back"] == removed + 2
        assert "rules and blocking routes, which were put back" in (
            order(network.ms, "status").check().stdout
        )
        # What it removes itself stays away.
        order(network.ms, "down", "road").check()
        assert network.ms.unreachable_routes() == []


def await_entries(host: Host, expected: list[str]) -> None:
    """Wait until the rules and blocking routes are these."""
    deadline = time.monotonic() + 30
    while (found := entries(host)) != expected:
        assert time.monotonic() < deadline, "\n".join(found)
        time.sleep(0.1)


def entries(host: Host) -> list[str]:
    """Rules and blocking routes, in any order: rules of one priority lead to the same table."""
    found = []
    for version in ("-4", "-6"):
        found += host.run(["ip", version, "rule"]).stdout.splitlines()
        routes = host.run(["ip", version, "route", "show", "table", "221"]).stdout.splitlines()
        found += [line for line in routes if "unreachable" in line]
    return sorted(found)


def test_the_journal_gets_priorities_and_its_own_time(
    network: RemoteAccess, ends: Ends, output: Path
) -> None:
    file = write_files(network.ms, ends[1])
    log = output / "journal"
    script = 'JOURNAL_STREAM=$(stat -Lc %d:%i /dev/stderr) exec "$@"'
    argv = ["bash", "-c", f"exec 2> {log}; {script}", "up", str(caravan_binary())]
    order_of = [*argv, "up", "-c", str(file)]
    station = network.ms.popen(order_of, environment(network.ms))
    station.wait_for(lambda: log.exists() and "2 tries" in log.read_text(), "a hint", 30)
    station.signal(signal.SIGTERM)
    station.wait(10)
    lines = log.read_text().splitlines()
    assert all(re.match(r"<[3467]> ?(ERROR|WARN|INFO|DEBUG) ", line) for line in lines), lines
    assert any(line.startswith("<4> ") for line in lines)
    assert any(line.startswith("<6> ") for line in lines)
    network.ms.run([*argv, "check", "/no/such/file"], check=False)
    assert log.read_text().startswith("<3>caravan: ")


def test_what_trying_again_does_not_mend_ends_with_status_2(
    network: RemoteAccess, ends: Ends
) -> None:
    file = write_files(network.ms, ends[1])
    done = order(network.ms, "up", "-c", str(file), "--user", "no-such-user")
    assert done.code == 2 and "there is no user" in done.stderr
    other = file.with_name("other.toml")
    other.write_text(file.read_text().replace("connections.road", "connections.other"))
    with Caravan(network.ms, ends[1]) as station:
        station.wait_for_event("nothing listens on UDP 500")
        done = order(network.ms, "up", "-c", str(other))
        assert done.code == 2 and "so put them into one file" in done.stderr
    network.ms.run(["ip", "link", "add", "caravan0", "type", "bridge"]).check()
    done = order(network.ms, "up", "-c", str(file))
    assert done.code == 2 and "cannot make the TUN device caravan0" in done.stderr


@pytest.mark.parametrize("unit", sorted(path.name for path in UNITS.glob("*.service")))
def test_the_units_are_good(unit: str, tmp_path: Path) -> None:
    text = (UNITS / unit).read_text()
    # Without CAP_KILL a plain kill of the user's process is refused.
    assert "CAP_KILL" not in text and "\nExecReload=+/bin/kill -HUP $MAINPID\n" in text
    file = "%i" if "@" in unit else unit.removeprefix("caravan-").removesuffix(".service")
    assert f"\nExecReload=/usr/local/bin/caravan check /etc/caravan/{file}.toml\n" in text
    text = text.replace("/usr/local/bin/caravan", shutil.which("true") or "")
    path = tmp_path / unit.replace("@", "@home")
    path.write_text(text)
    argv = ["systemd-analyze", "verify", "--man=no", str(path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert unit.partition(".")[0].rstrip("@") not in done.stderr, done.stderr


# Interruptions.


@BOTH
def test_a_restarted_gateway_gets_its_station_back_with_the_address_it_had(
    version: int, network: RemoteAccess, ends: Ends
) -> None:
    # Traffic does not wait for that. With IKEv2 the gateway's word counts by its token alone.
    ends = ends[0], replace(ends[1], dpd_s=MINUTES_S)
    if version == 2:
        ends = replace(ends[0], crash_detection=True), replace(ends[1], crash_detection=True)
    patient = ends[1]
    with Caravan(network.sg, ends[0]) as gateway:
        gateway.wait_ready()
        with Caravan(network.ms, patient) as station:
            station.wait_ready()
            address = inner_addresses(network.ms)
            gateway.process.signal(signal.SIGKILL)
            gateway.process.wait(5)
            assert ping(network.ms, SERVER_ADDRESS, 1, timeout_s=0.5).received == 0
            with Caravan(network.sg, ends[0]) as again:
                again.wait_ready()
                # Its packets tell the gateway, which says that it does not know them.
                wait_for_echo(network.ms)
                assert inner_addresses(network.ms) == address
                again.stop()
                station.wait_until(False)
                wait_for(lambda: "deleted-by-peer" in causes(station), "it says that it ends")
            tries = retries(station)
            assert tries == sorted(tries), "ever more time between attempts"
            with Caravan(network.sg, ends[0]) as third:
                third.wait_ready()
                wait_for_echo(network.ms, 40)


def causes(station: Caravan) -> list[str]:
    """Why its sessions have ended, in order."""
    events = [fields for _, fields in station.events()]
    return [fields["cause"] for fields in events if fields.get("message") == "session ended"]


def retries(station: Caravan) -> list[int]:
    """The numbers of the attempts, in order, since the tunnel was last up."""
    found: list[int] = []
    for _, fields in station.events():
        if fields.get("message") == "child established":
            found.clear()
        if fields.get("message") == "will try again":
            found.append(int(fields["attempt"]))
    return found


def test_a_lost_link_comes_back(network: RemoteAccess, ends: Ends) -> None:
    with Caravan(network.sg, ends[0]) as gateway:
        gateway.wait_ready()
        with Caravan(network.ms, ends[1]) as station:
            station.wait_ready()
            before = [child["spi_in"] for child in station.children()]
            for seconds in (0.5, 13.0):
                network.ms.link_down("wan0")
                assert ping(network.ms, SERVER_ADDRESS, 1, timeout_s=0.3).received == 0
                time.sleep(seconds)
                network.ms.link_up("wan0")
                network.ms.add_route("default", HOME_ADDRESS)
                wait_for_echo(network.ms)
                if seconds < 1:
                    # The tunnel outlives a short loss.
                    assert [child["spi_in"] for child in station.children()] == before


def test_a_station_with_another_address_goes_on(network: RemoteAccess, ends: Ends) -> None:
    with Caravan(network.sg, ends[0]) as gateway:
        gateway.wait_ready()
        with Caravan(network.ms, replace(ends[1], dpd_s=MINUTES_S)) as station:
            station.wait_ready()
            before = [child["spi_in"] for child in station.children()]
            assert ping(network.ms, SERVER_ADDRESS, 2).received == 2
            network.ms.add_address("wan0", "10.0.0.77/24")
            # The kernel would remove the network's other address too, unless a setting forbids it.
            network.ms.sysctl("net.ipv4.conf.wan0.promote_secondaries", "1")
            network.ms.remove_address("wan0", f"{STATION_ADDRESS}/24")
            if "default" not in network.ms.run(["ip", "route"]).stdout:
                network.ms.add_route("default", HOME_ADDRESS)
            wait_for_echo(network.ms)
            assert [child["spi_in"] for child in station.children()] == before
            (session,) = station.status()["connections"][0]["sessions"]
            assert session["local"].startswith("10.0.0.77:")


def test_a_block_stays_that_another_connection_has_too(network: RemoteAccess, ends: Ends) -> None:
    file = write_files(network.ms, ends[1])
    other = file.with_name("other.toml")
    other.write_text(file.read_text().replace("connections.road", "connections.other"))

    def is_blocked() -> bool:
        routes = network.ms.run(["ip", "route", "show", "table", "221"]).stdout
        return f"unreachable {PRIVATE_NETWORK}" in routes

    with Caravan(network.sg, ends[0]) as gateway:
        gateway.wait_ready()
        for dead, living in ((file, other), (other, file)):
            order(network.ms, "up", "-c", str(dead), "--detach").check()
            status = json.loads(order(network.ms, "status", "--json").check().stdout)
            os.kill(status["process"]["pid"], signal.SIGKILL)
            wait_for_end(network.ms)
            order(network.ms, "up", "-c", str(living), "--detach").check()
            names = ["road", "other"] if dead == file else ["other", "road"]
            # Once the crashed process is taken down first, once the running one.
            for name in names if dead == file else reversed(names):
                assert is_blocked()
                order(network.ms, "down", name).check()
            wait_for_end(network.ms)
            assert not is_blocked()


def test_local_addrs_name_the_address_that_a_station_goes_out_from(
    network: RemoteAccess, ends: Ends
) -> None:
    network.ms.add_address("wan0", "10.0.0.77/24")
    file = write_files(network.ms, ends[1])
    text = file.read_text()
    head = "[connections.road]\n"
    assert head in text
    with Caravan(network.sg, ends[0]) as gateway:
        gateway.wait_ready()
        file.write_text(text.replace(head, f'{head}local_addrs = ["::1", "10.0.0.77"]\n'))
        order(network.ms, "up", "-c", str(file), "--detach").check()
        report = json.loads(order(network.ms, "status", "--json").check().stdout)
        (session,) = report["connections"][0]["sessions"]
        assert session["local"].startswith("10.0.0.77:")
        assert all(child["age_s"] >= 0 for child in session["children"])
        assert ping(network.ms, SERVER_ADDRESS, 2).received == 2
        order(network.ms, "down", "road").check()
        wait_for_end(network.ms)
        file.write_text(text.replace(head, f'{head}start = "on-traffic"\n'))
        done = order(network.ms, "up", "-c", str(file), "--detach").check()
        assert done.stdout == "road: awaiting traffic\n", "up is what carries packets"
        order(network.ms, "down", "road").check()
        wait_for_end(network.ms)
        file.write_text(text.replace(head, f'{head}local_addrs = ["10.0.0.99"]\n'))
        done = order(network.ms, "up", "-c", str(file), "--detach")
        assert done.code == 1 and "from local_addrs = [10.0.0.99]" in done.stderr


@pytest.mark.parametrize(("version", "count"), [(1, 40), (2, 32)], ids=["ikev1", "ikev2"])
def test_every_network_of_a_long_list_comes_up(
    version: int, count: int, network: RemoteAccess, ends: Ends
) -> None:
    """IKEv1 has a child for each; IKEv2 has them in one, which takes 32."""
    on_gateway = replace(ends[0], local_ts="10.10.0.0/16")
    file = write_files(network.ms, ends[1])
    text = file.read_text()
    destinations = '["10.10.0.0/24"]'
    assert text.count(destinations) == 1
    networks = ", ".join(f'"10.10.{number}.0/24"' for number in range(count))
    file.write_text(text.replace(destinations, f"[{networks}]"))
    with Caravan(network.sg, on_gateway) as gateway:
        gateway.wait_ready()
        order(network.ms, "up", "-c", str(file), "--detach").check()

        def number_up() -> int:
            report = json.loads(order(network.ms, "status", "--json").check().stdout)
            (connection,) = report["connections"]
            (session,) = connection["sessions"]
            children = session["children"]
            up = sum(len(child["remote_ts"].split(",")) for child in children)
            assert len(children) == (up if version == 1 else 1)
            assert up + len(connection["missing"]) == count
            return up

        gateway.process.wait_for(lambda: number_up() == count, "each network", 30)
        assert gateway.status()["drops"]["too-many-exchanges"] == 0
        order(network.ms, "down", "road").check()


def test_a_full_disk_under_a_capture_is_told_and_leaves_nothing(
    network: RemoteAccess, ends: Ends, tmp_path: Path
) -> None:
    capture = tmp_path / "full.pcapng"
    os.mknod(capture, stat.S_IFCHR | 0o600, os.makedev(1, 7))
    before = resolvers(network.ms)
    with Caravan(network.sg, ends[0]) as gateway:
        gateway.wait_ready()
        file = write_files(network.ms, ends[1])
        order(network.ms, "up", "-c", str(file), "--detach", "--capture", str(capture)).check()
        assert ping(network.ms, SERVER_ADDRESS, 2).received == 2
        deadline = time.monotonic() + 30
        status: dict[str, Any] = {"warnings": []}
        # The log is written once no further lines have come for a moment.
        while not any("the capture has ended" in text for text in status["warnings"]):
            assert time.monotonic() < deadline, status["warnings"]
            status = json.loads(order(network.ms, "status", "--json").check().stdout)
        os.kill(status["process"]["pid"], signal.SIGTERM)
        wait_for_end(network.ms)
        assert resolvers(network.ms) == before
        assert "caravan_road" not in network.ms.run(["nft", "list", "ruleset"]).stdout
        order(network.ms, "down", "road").check()


@BOTH
def test_a_station_is_lent_the_address_it_had(
    network: RemoteAccess, ends: Ends, authority: CaravanAuthority
) -> None:
    other = replace(
        ends[1], auth=PublicKey(authority.issue("x.example"), authority), local_id="x.example"
    )
    with Caravan(network.sg, ends[0]) as gateway:
        gateway.wait_ready()
        lent: dict[str, list[Any]] = {"ms": [], "x": []}
        for name, connection in (("x", other), ("ms", ends[1])) * 2:
            with Caravan(network.ms, connection) as station:
                station.wait_ready()
                lent[name].append(inner_addresses(network.ms))
    assert lent["ms"][0] == lent["ms"][1] != lent["x"][0] == lent["x"][1]


@pytest.mark.parametrize("version", [1])
def test_an_idle_station_hears_of_a_gateway_that_was_killed_and_runs_again(
    network: RemoteAccess, ends: Ends
) -> None:
    """Its own next request would follow after minutes. `test_crash.py` has IKEv2."""
    on_gateway, on_station = ends[0], replace(ends[1], dpd_s=MINUTES_S)
    with (
        Caravan(network.sg, on_gateway, options=["--user", "nobody"]) as gateway,
        Caravan(network.ms, on_station) as station,
    ):
        gateway.wait_ready()
        station.wait_ready()
        peers = Path(environment(network.sg)["CARAVAN_STATE_DIR"]) / "road.leases/peers"
        gateway.process.wait_for(peers.exists, "the places of the peers", 30)
        assert peers.owner() == "nobody" and peers.stat().st_mode & 0o777 == 0o600
        assert re.fullmatch(rf"{GATEWAY_ADDRESS}:4500 [\d.]+:\d+\n", peers.read_text())
        (old,) = {child["spi_in"] for child in station.children()}
        gateway.crash()
        with Caravan(network.sg, on_gateway, options=["--user", "nobody"]):
            station.process.wait_for(
                lambda: old not in {child["spi_in"] for child in station.children()},
                "the end of the old tunnel",
                30,
            )
            station.wait_until(True)


# DNS.


def test_resolv_conf_is_taken_and_given_back(network: RemoteAccess, ends: Ends) -> None:
    before = resolvers(network.ms)
    with Caravan(network.sg, ends[0]) as gateway:
        gateway.wait_ready()
        with Caravan(network.ms, ends[1]) as station:
            station.wait_ready()
            assert f"nameserver {RESOLVER}\n" in resolvers(network.ms)
            # No DNS query is sent elsewhere in clear while the tunnel is being set up again.
            gateway.stop()
            station.wait_until(False)
            assert f"nameserver {RESOLVER}\n" in resolvers(network.ms)
        assert resolvers(network.ms) == before


RESOLVECTL = """#!/bin/sh
echo "$@" >>{log}
"""


def test_systemd_resolved_is_told_and_reverted(
    network: RemoteAccess, ends: Ends, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With our own resolvectl, which records its arguments: the real service needs a bus and
    systemd, which namespaces do not have."""
    programs, log = output / "programs", output / "resolvectl.log"
    programs.mkdir()
    program = programs / "resolvectl"
    program.write_text(RESOLVECTL.format(log=log))
    program.chmod(0o755)
    resolved = Path("/run/systemd/resolve")
    resolved.mkdir(parents=True)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    before = resolvers(network.ms)
    try:
        with Caravan(network.sg, ends[0]) as gateway:
            gateway.wait_ready()
            with Caravan(network.ms, ends[1]) as station:
                station.wait_ready()
                assert resolvers(network.ms) == before
    finally:
        shutil.rmtree("/run/systemd")
    told = [line for line in log.read_text().splitlines() if line != "--version"]
    assert told == [
        f"dns caravan0 {RESOLVER}",
        "domain caravan0 ~.",
        "revert caravan0",
    ]
