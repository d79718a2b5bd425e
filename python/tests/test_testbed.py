"""The testbed itself: which hosts are reachable, how the NAT works, and what remains afterwards."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from waiting import wait_for

from caravan.testbed import CommandFailed, Host, Network, RemoteAccess, RemoteAccessConfig, sweep
from caravan.testbed.capture import IPPROTO_ICMP, IPPROTO_TCP, Capture
from caravan.testbed.caravan import HandshakeMessage, read_message, without_repeats
from caravan.testbed.owner import OWNER_VARIABLE, own_namespace
from caravan.testbed.process import Process
from caravan.testbed.relay import Late, LinkConfig, Relay, software_checksums
from caravan.testbed.remote_access import (
    GATEWAY_ADDRESS,
    GATEWAY_ADDRESS6,
    OPERATOR_ADDRESSES,
    SERVER_ADDRESS,
    SERVER_ADDRESS6,
    STATION_ADDRESS,
)
from caravan.testbed.traffic import (
    download,
    finish_download,
    iperf,
    make_file,
    ping,
    serve_files,
    start_download,
)

pytestmark = pytest.mark.root

ECHO = """
import socket, sys
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("0.0.0.0", 4500))
while True:
    data, source = server.recvfrom(2048)
    print(*source, flush=True)
    server.sendto(data, source)
"""
READY_S, GONE_S = 10.0, 15.0
SWEEPS_MAX = 20
HELD_S = 0.02
"""How long a relay is kept from running."""
CALL = """
import socket, sys
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.bind(("0.0.0.0", 4500))
client.settimeout(2)
client.sendto(b"call", (sys.argv[1], 4500))
client.recvfrom(2048)
"""


ON_MACHINE = {folder: os.stat(folder).st_dev for folder in ("/run", "/dev/shm")}
"""The file systems of the machine: this module is read before the testbed is entered."""


def echo_service(host: Host) -> Process:
    """Sends back what comes to port 4500, and prints from where it came."""
    echo = host.popen([sys.executable, "-c", ECHO])
    echo.wait_for(lambda: ":4500" in host.run(["ss", "-lun"]).stdout, "a port", READY_S)
    return echo


def call(station: Host) -> None:
    """One datagram from port 4500 to the gateway's echo service and back."""
    station.run([sys.executable, "-c", CALL, GATEWAY_ADDRESS])


def test_the_private_network_is_reached_without_a_tunnel_only_by_a_route(output: Path) -> None:
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        assert ping(network.ms, GATEWAY_ADDRESS, 2).received == 2
        assert ping(network.sg, SERVER_ADDRESS, 1).received == 1
        assert ping(network.ms, SERVER_ADDRESS, 1, timeout_s=0.5).received == 0
        network.open_clear_route()
        assert ping(network.ms, SERVER_ADDRESS, 1).received == 1
        network.close_clear_route()
        assert ping(network.ms, SERVER_ADDRESS, 1, timeout_s=0.5).received == 0


def test_the_nat_maps_ports_and_a_rebinding_changes_them(output: Path) -> None:
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        assert network.nat is not None
        echo = echo_service(network.sg)
        call(network.ms)
        call(network.ms)
        network.nat.rebind()
        call(network.ms)
        (flow,) = network.nat.flows()
        assert flow.source == (STATION_ADDRESS, 4500)
        assert flow.destination == (GATEWAY_ADDRESS, 4500)
        network.nat.rebind(address=True)
        call(network.ms)
        first, again, other_port, other_address = (
            (line.split()[0], int(line.split()[1])) for line in echo.stdout().splitlines()
        )
        assert first == again
        assert first[0] == other_port[0] == OPERATOR_ADDRESSES[0]
        assert first[1] in range(20_000, 30_000)
        assert other_port[1] in range(30_000, 40_000)
        assert flow.mapped == other_port
        assert other_address[0] == OPERATOR_ADDRESSES[1]


@pytest.mark.measures
def test_a_mapping_is_forgotten_when_idle(output: Path) -> None:
    with RemoteAccess(RemoteAccessConfig(udp_timeout_s=1), output) as network:
        assert network.nat is not None
        echo_service(network.sg)
        call(network.ms)
        assert len(network.nat.flows()) == 1
        time.sleep(2.5)
        assert network.nat.flows() == []


def test_the_nat_answers_unasked_packets_with_silence(output: Path) -> None:
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        with pytest.raises(CommandFailed, match="timed out"):
            network.sg.run([sys.executable, "-c", CALL, OPERATOR_ADDRESSES[0]])
        with pytest.raises(CommandFailed, match=r"Connection timed out|Timeout"):
            network.sg.run(
                ["curl", "-sS", "--connect-timeout", "1", f"http://{OPERATOR_ADDRESSES[0]}/"]
            )


def test_stations_with_equal_addresses_and_ports_share_the_operator_address(output: Path) -> None:
    with RemoteAccess(RemoteAccessConfig(stations=2), output) as network:
        assert [host.addresses("wan0") for host in network.stations] == [
            [f"{STATION_ADDRESS}/24"]
        ] * 2
        echo = echo_service(network.sg)
        for station in network.stations:
            call(station)
        (one, two) = (line.split() for line in echo.stdout().splitlines())
        assert one[0] == two[0] == OPERATOR_ADDRESSES[0]
        assert one[1] != two[1]


def test_stations_download_at_once(output: Path) -> None:
    expected = make_file(output / "www/file", 500_000)
    with RemoteAccess(RemoteAccessConfig(stations=2), output) as network:
        serve_files(network.sg, output / "www", GATEWAY_ADDRESS)
        url = f"http://{GATEWAY_ADDRESS}/file"
        started = [start_download(station, url) for station in network.stations]
        ended = [finish_download(process.wait(20), path) for process, path in started]
        assert [result.sha256 for result in ended] == [expected] * 2


def test_both_families_reach_the_server_without_a_nat(output: Path) -> None:
    with RemoteAccess(RemoteAccessConfig(has_nat=False, is_dual_stack=True), output) as network:
        assert ping(network.ms, GATEWAY_ADDRESS, 1).received == 1
        assert ping(network.ms, GATEWAY_ADDRESS6, 1).received == 1
        assert ping(network.server, GATEWAY_ADDRESS6, 1).received == 1


def test_both_families_cross_the_operator(output: Path) -> None:
    with RemoteAccess(RemoteAccessConfig(is_dual_stack=True), output) as network:
        assert ping(network.ms, GATEWAY_ADDRESS, 1).received == 1
        assert ping(network.ms, SERVER_ADDRESS6, 1).received == 1


def test_a_small_mtu_stops_what_may_not_be_fragmented(output: Path) -> None:
    with RemoteAccess(RemoteAccessConfig(mtu_bytes=1280), output) as network:
        fits, exceeds = 1280 - 28, 1280 - 27
        assert ping(network.ms, GATEWAY_ADDRESS, 1, payload_bytes=fits, dont_fragment=True).received
        lost = ping(network.ms, GATEWAY_ADDRESS, 1, 0.2, exceeds, timeout_s=0.5, dont_fragment=True)
        assert lost.received == 0


def test_a_capture_holds_what_the_link_carried(output: Path) -> None:
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        host, interface = network.outer
        before = host.counters(interface)
        with Capture(host, interface, output / "outer.pcap") as capture:
            ping(network.ms, GATEWAY_ADDRESS, 3, payload_bytes=36)
        echoes = [frame for frame in capture.frames() if frame.protocol == IPPROTO_ICMP]
        ends = [OPERATOR_ADDRESSES[0], GATEWAY_ADDRESS]
        assert [frame.source for frame in echoes] == ends * 3
        assert [len(frame.packet) for frame in echoes] == [64] * 6
        assert (host.counters(interface) - before).sent_packets >= 3


@pytest.mark.measures
def test_tcp_and_udp_are_measured(output: Path) -> None:
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        assert iperf(network.ms, network.sg, GATEWAY_ADDRESS, 1).mbit_s > 100
        flow = iperf(network.ms, network.sg, GATEWAY_ADDRESS, 1, udp_mbit_s=2, payload_bytes=400)
        assert flow.lost_packets == 0
        assert flow.mbit_s == pytest.approx(2, rel=0.1)


def test_frames_of_a_relayed_link_have_whole_checksums_and_sizes(output: Path) -> None:
    expected = make_file(output / "www/file", 300_000)
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        for host in (network.outer[0], network.sg):
            software_checksums(host, "wan0")
        serve_files(network.sg, output / "www", GATEWAY_ADDRESS)
        with Capture(network.sg, "wan0", output / "wire.pcap") as capture:
            assert download(network.ms, f"http://{GATEWAY_ADDRESS}/file").sha256 == expected
        frames = [frame for frame in capture.frames() if frame.protocol == IPPROTO_TCP]
        assert len(frames) > 300_000 / 1500
        assert max(len(frame.packet) for frame in frames) <= 1500
        assert all(tcp_checksum_holds(frame.packet) for frame in frames)


def tcp_checksum_holds(packet: bytes) -> bool:
    """The checksum of RFC 9293 §3.1, over the IPv4 pseudo header."""
    header = (packet[0] & 15) * 4
    segment = packet[header:]
    pseudo = packet[12:20] + bytes([0, 6]) + len(segment).to_bytes(2, "big")
    data = pseudo + segment + b"\0" * (len(segment) % 2)
    total = sum(int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2))
    return total % 0xFFFF == 0


def test_a_relay_says_how_late_a_frame_leaves_that_came_while_it_slept(output: Path) -> None:
    with Network(output) as network:
        near, middle, far = (network.host(role) for role in ("near", "middle", "far"))
        near.connect("eth0", middle, "left", 1500)
        middle.connect("right", far, "eth0", 1500)
        near.add_address("eth0", "10.0.0.1/24")
        source, destination = near.hardware_address("eth0"), far.hardware_address("eth0")
        near.add_neighbour("eth0", "10.0.0.2", destination)
        relay = Relay(middle, LinkConfig(delay="1ms"), "left", "right", has_lateness=True)
        with near.entered():
            sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with sender:
            # The kernel begins to note when frames come some time after it was asked to.
            wait_for(lambda: is_noted(relay, sender), "times of frames")
            relay.process.signal(signal.SIGSTOP)
            relay.forget_late()
            sender.sendto(b"a datagram", ("10.0.0.2", 9))
            sent_s = time.time()
            time.sleep(HELD_S)
            woken_s = time.time()
            relay.process.signal(signal.SIGCONT)
            wait_for(lambda: len(own(relay, source)) == 1, "the frame")
        (late,) = own(relay, source)
        assert late.destination == destination
        # It was due a millisecond after it had come, and could not leave before the end of that.
        assert late.late_s >= woken_s - sent_s - 0.001
        assert late.left_s >= woken_s


def test_a_relay_keeps_no_right_once_it_has_its_sockets(output: Path) -> None:
    with Network(output) as network:
        near, middle, far = (network.host(role) for role in ("near", "middle", "far"))
        near.connect("eth0", middle, "left", 1500)
        middle.connect("right", far, "eth0", 1500)
        near.add_address("eth0", "10.0.0.1/24")
        far.add_address("eth0", "10.0.0.2/24")
        relay = Relay(middle, LinkConfig(delay="1ms"), "left", "right")
        wait_for(lambda: "ready" in relay.process.stderr(), "the relay")
        status = Path(f"/proc/{relay.process.pid}/status").read_text()
        for expected in ("CapPrm:\t0+", "CapEff:\t0+", "NoNewPrivs:\t1", "Seccomp:\t2"):
            assert re.search(f"^{expected}$", status, re.M), status
        assert ping(near, "10.0.0.2", 2).received == 2
        relay.change("up=false")
        relay.settle()
        assert ping(near, "10.0.0.2", 1, timeout_s=1).received == 0


def is_noted(relay: Relay, sender: socket.socket) -> bool:
    """Whether a frame that waits for a relay is known to have waited."""
    relay.process.signal(signal.SIGSTOP)
    before = len(relay.late())
    sender.sendto(b"a datagram", ("10.0.0.2", 9))
    time.sleep(HELD_S)
    relay.process.signal(signal.SIGCONT)
    wait_for(lambda: len(relay.late()) > before, "the frame")
    return relay.late()[-1].late_s > HELD_S / 2


def own(relay: Relay, source: str) -> list[Late]:
    return [one for one in relay.late() if one.source == source]


def test_nothing_is_left_and_networks_stand_side_by_side(output: Path) -> None:
    names = set(os.listdir("/run/netns"))
    with (
        RemoteAccess(RemoteAccessConfig(), output / "one") as one,
        RemoteAccess(RemoteAccessConfig(), output / "two") as two,
    ):
        assert ping(one.ms, GATEWAY_ADDRESS, 1).received == 1
        assert ping(two.ms, GATEWAY_ADDRESS, 1).received == 1
        detached = one.ms.run(["sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!"])
        sleeper = int(detached.stdout)
        assert sleeper in one.ms.pids()
        attached = two.ms.popen(["sleep", "1000"])
    assert not attached.is_running()
    assert not Path(f"/proc/{sleeper}").exists()
    assert set(os.listdir("/run/netns")) == names


@pytest.mark.parametrize("folder", ON_MACHINE)
def test_what_other_programs_of_the_machine_write_is_not_seen(folder: str) -> None:
    """Two inventories would differ by it."""
    assert os.stat(folder).st_dev != ON_MACHINE[folder]


def test_a_failed_network_leaves_nothing(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = set(os.listdir("/run/netns"))
    monkeypatch.setenv("CARAVAN", str(output / "absent"))
    with pytest.raises(FileNotFoundError, match="no caravan program"):
        RemoteAccess(RemoteAccessConfig(link=LinkConfig(rate="2mbit")), output)
    assert set(os.listdir("/run/netns")) == names


def test_blocking_routes_are_seen(output: Path) -> None:
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        assert network.ms.unreachable_routes() == []
        network.ms.run(["ip", "route", "add", "unreachable", "10.10.0.0/24", "metric", "999"])
        assert network.ms.unreachable_routes() == ["10.10.0.0/24"]


def test_each_host_writes_its_own_resolver(output: Path) -> None:
    before = Path("/etc/resolv.conf").read_text()
    with Network(output) as network:
        one, two = network.host("one"), network.host("two")
        write = "echo nameserver 10.10.0.53 > /etc/r && mv /etc/r /etc/resolv.conf"
        one.run(["sh", "-c", write])
        assert one.run(["cat", "/etc/resolv.conf"]).stdout == "nameserver 10.10.0.53\n"
        assert two.run(["cat", "/etc/resolv.conf"]).stdout == before
    assert Path("/etc/resolv.conf").read_text() == before


@pytest.mark.measures
def test_cpu_time_is_the_program_s_own(output: Path) -> None:
    burn = "import time\nwhile time.process_time() < 0.4: pass"
    with Network(output) as network:
        host = network.host("one")
        assert host.run([sys.executable, "-c", burn]).cpu_s == pytest.approx(0.45, abs=0.15)
        assert host.run(["sleep", "0.2"]).cpu_s < 0.1


CRASH = """
import os, signal, sys, time
from pathlib import Path
from caravan.testbed import Network
host = Network(Path(sys.argv[1])).host("one")
attached = host.popen(["sleep", "1000"])
detached = host.run(["sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!"])
# A user namespace of one user has no other.
is_root = "4294967295" in Path("/proc/self/uid_map").read_text()
other = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "sleep", "1000"]
changed = host.popen(other) if is_root else attached
while is_root and Path(f"/proc/{changed.pid}/status").stat().st_uid != 65534:
    time.sleep(0.01)
print(attached.pid, detached.stdout, changed.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_crash_leaves_nothing(output: Path) -> None:
    """Not even what has detached, and what has another user by then."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    argv = [sys.executable, "-c", CRASH, str(output)]
    crashed = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert crashed.returncode == -signal.SIGKILL, crashed.stderr
    pids = [int(word) for word in crashed.stdout.split()]
    assert [is_gone_soon(pid) for pid in pids] == [True] * 3


def is_gone(pid: int) -> bool:
    """Whether a process has ended, reaped or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def is_gone_soon(pid: int) -> bool:
    """Whether it ends within a while."""
    deadline = time.monotonic() + GONE_S
    while not is_gone(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return is_gone(pid)


def test_a_sweep_ends_only_orphans_of_dead_owners() -> None:
    with subprocess.Popen(["true"]) as gone:
        pass
    own = own_namespace()
    with (
        # That pid may be a living process's in the other namespace.
        marked(f"{gone.pid}:1:{own + 1}") as elsewhere,
        subprocess.Popen(["sleep", "1000"]) as owned,
    ):
        for _ in range(SWEEPS_MAX):
            with marked(f"{gone.pid}:1:{own}") as orphan:
                ended = sweep()
                assert orphan.wait(GONE_S) == -signal.SIGKILL
            # Another testbed that begins meanwhile may end it first.
            if orphan.pid in ended:
                break
        assert orphan.pid in ended
        for process in (elsewhere, owned):
            assert process.poll() is None
            process.kill()


@pytest.mark.parametrize("mark", ["", "1", "1:1", "-1:1:1", "x:1:1", "٣:1:1", f"{'9' * 5000}:1:1"])
def test_a_mark_that_is_none_is_ignored(mark: str) -> None:
    with marked(mark) as process:
        assert process.pid not in sweep()
        assert process.poll() is None
        process.kill()


@contextlib.contextmanager
def marked(mark: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process in whose environment anybody has written this."""
    environment = {**os.environ, OWNER_VARIABLE: mark}
    with subprocess.Popen(["sleep", "1000"], env=environment) as process:
        try:
            while b"sleep" not in Path(f"/proc/{process.pid}/cmdline").read_bytes():
                time.sleep(0.01)
            yield process
        finally:
            process.kill()


INSIDE = """
import subprocess, sys
from caravan.testbed import enter
enter()
with subprocess.Popen(["sleep", "1000"]) as program:
    print("running", flush=True)
    sys.stdin.readline()
    print(program.poll(), flush=True)
    program.kill()
"""


def test_a_sweep_leaves_a_testbed_in_another_pid_namespace_alone() -> None:
    kept = {key: it for key, it in os.environ.items() if key != OWNER_VARIABLE}
    environment = {**kept, "PYTHONPATH": os.pathsep.join(sys.path)}
    argv = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", INSIDE]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, env=environment, text=True, stdin=pipe, stdout=pipe) as testbed:
        assert testbed.stdin is not None and testbed.stdout is not None
        assert testbed.stdout.readline() == "running\n"
        sweep()
        testbed.stdin.write("\n")
        testbed.stdin.flush()
        assert testbed.stdout.readline() == "None\n"


def test_a_logged_message_of_an_exchange_is_read_by_its_fields() -> None:
    logged = {"is_sent": True, "bytes": 92, "datagrams": 1, "payloads": "HASH CFG"}
    for exchange, number in (("aggressive", 1), ("config set", None), ("informational", None)):
        numbered = {} if number is None else {"number": number}
        found = read_message(2.5, {"exchange": exchange, **numbered, **logged})
        assert (found.exchange, found.number) == (exchange, number)
        assert (found.direction, found.size_bytes, found.payloads) == ("sent", 92, "HASH CFG")


def test_a_repeated_message_counts_once_and_one_like_an_earlier_one_counts() -> None:
    sent = HandshakeMessage(1.0, "create child", 1, "sent", 300, 1, "SA No KE")
    answer = replace(sent, number=2, direction="received")
    one = [sent, replace(sent, time_s=2.0), replace(sent, time_s=4.0), answer]
    assert without_repeats(one) == [sent, answer]
    assert without_repeats([*one, *one]) == [sent, answer] * 2
    assert without_repeats([sent, replace(sent, size_bytes=301)])[1].size_bytes == 301
