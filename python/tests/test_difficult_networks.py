"""The testbed with difficult conditions: small links, NATs that forget mappings, another port, a
kernel without offloads, and a user who is not root."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyroute2
import pytest

import caravan
from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.binary import caravan_binary
from caravan.testbed.caravan import Caravan, order, write_files
from caravan.testbed.connection import Connection, SharedKey
from caravan.testbed.host import Host
from caravan.testbed.isolation import mount
from caravan.testbed.relay import LinkConfig
from caravan.testbed.remote_access import GATEWAY_ADDRESS, SERVER_ADDRESS
from caravan.testbed.traffic import download, iperf, make_file, ping, serve_files
from caravan.threeways.measurement import Keys, tunnel_ends

pytestmark = pytest.mark.root

FILE_BYTES = 1_000_000
PRIVATE_URL = f"http://{SERVER_ADDRESS}/file"
SUITE = "aes128gcm16-modp2048"
OTHER_PORT = 5500
PACKET_S = 1028 * 8 / 1e6
"""What a datagram of 1000 octets takes at 1 Mbit/s."""
NOBODY = 65534
MS_BIND = 0x1000
"""Flag of mount(2), from linux/mount.h."""


@contextlib.contextmanager
def tunnel(
    network: RemoteAccess, ends: tuple[Connection, Connection], file: Path | None = None
) -> Iterator[tuple[Caravan, Caravan]]:
    """The gateway and the station, both up."""
    with Caravan(network.sg, ends[0]) as gateway:
        gateway.wait_ready()
        with Caravan(network.ms, ends[1], file=file) as station:
            yield gateway, station.wait_ready()


def both(ends: tuple[Connection, Connection], **settings: Any) -> tuple[Connection, Connection]:
    """Both ends with other settings."""
    return replace(ends[0], **settings), replace(ends[1], **settings)


def edited(host: Host, connection: Connection, after: str, line: str) -> Path:
    """The connection's file with one more line after another."""
    path = write_files(host, connection)
    text = path.read_text()
    assert after in text
    path.write_text(text.replace(after, f"{after}\n{line}", 1))
    return path


@pytest.mark.parametrize("has_nat", [True, False], ids=["nat", "plain"])
@pytest.mark.parametrize("exchange", ["aggressive", "main", "ikev2"])
def test_a_gateway_on_another_port_is_reached(
    has_nat: bool, exchange: str, keys: Keys, output: Path
) -> None:
    """The provider forwards one port to the port that carries both IKE and ESP."""
    expected = make_file(output / "www/file", FILE_BYTES)
    ends = tunnel_ends(keys)
    if exchange != "ikev2":
        old = tunnel_ends(keys, SUITE, version=1)
        ends = both(old, is_aggressive=exchange == "aggressive")
    with RemoteAccess(RemoteAccessConfig(has_nat=has_nat), output) as network:
        network.sg.load_nft(
            f"""table ip front {{
    chain first {{
        type filter hook prerouting priority raw;
        udp dport {{ 500, 4500 }} drop
    }}
    chain prerouting {{
        type nat hook prerouting priority dstnat;
        udp dport {OTHER_PORT} redirect to :4500
    }}
}}
""",
            "front",
        )
        serve_files(network.server, output / "www", SERVER_ADDRESS)
        file = edited(
            network.ms,
            ends[1],
            f'remote_addrs = ["{GATEWAY_ADDRESS}"]',
            f"remote_port = {OTHER_PORT}",
        )
        with tunnel(network, ends, file) as (_, station):
            assert download(network.ms, PRIVATE_URL).sha256 == expected
            (session,) = station.status()["connections"][0]["sessions"]
            assert session["remote"] == f"{GATEWAY_ADDRESS}:{OTHER_PORT}"
            order(network.ms, "rekey", "road").check()
            order(network.ms, "rekey", "road", "--ike").check()
            assert ping(network.ms, SERVER_ADDRESS, 20, 0.05).received == 20


@pytest.mark.parametrize("has_nat", [True, False], ids=["udp", "esp"])
def test_a_path_smaller_than_the_links_is_told_to_the_sender(
    has_nat: bool, keys: Keys, output: Path
) -> None:
    """The operator's link carries 1300 bytes: senders that forbid fragments learn the MTU of the
    tunnel, and all other packets fit or are fragmented."""
    expected = make_file(output / "www/file", FILE_BYTES)
    with RemoteAccess(RemoteAccessConfig(has_nat=has_nat), output) as network:
        outer, interface = network.outer
        outer.set_mtu(interface, 1300)
        network.sg.set_mtu("wan0", 1300)
        serve_files(network.server, output / "www", SERVER_ADDRESS)
        with tunnel(network, tunnel_ends(keys, "aes128gcm16")):
            argv = ["ping", "-n", "-M", "do", "-c", "6", "-i", "0.2", "-s", "1400", "-W", "1"]
            said = network.ms.run([*argv, SERVER_ADDRESS], check=False)
            assert re.search(r"mtu ?= ?1\d\d\d", said.stdout + said.stderr), said
            assert ping(network.ms, SERVER_ADDRESS, 3, 0.05, 1150, dont_fragment=True).received == 3
            # The path MTU is found by the first packet that is too large.
            ping(network.ms, SERVER_ADDRESS, 1, 0.05, 3000)
            assert ping(network.ms, SERVER_ADDRESS, 3, 0.05, 3000).received == 3
            assert download(network.ms, PRIVATE_URL).sha256 == expected
            for reverse in (False, True):
                flow = iperf(network.ms, network.server, SERVER_ADDRESS, 1, reverse=reverse)
                assert flow.mbit_s > 20


def test_keepalives_hold_the_mapping_of_a_silent_station(keys: Keys, output: Path) -> None:
    with RemoteAccess(RemoteAccessConfig(udp_timeout_s=4), output) as network:
        ends = tunnel_ends(keys)
        address = f'remote_addrs = ["{GATEWAY_ADDRESS}"]'
        for keepalive, is_reached in (("1s", True), ("30s", False)):
            more = f'keepalive = "{keepalive}"\ndpd_delay = "0s"'
            file = edited(network.ms, ends[1], address, more)
            with tunnel(network, ends, file):
                (inner,) = (text.partition("/")[0] for text in network.ms.addresses("caravan0"))
                assert ping(network.ms, SERVER_ADDRESS, 1).received == 1
                time.sleep(10)
                got = ping(network.server, inner, 3, 0.2, timeout_s=0.5).received
                assert (got == 3) is is_reached


REFUSALS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <stdlib.h>

int setsockopt(int fd, int level, int name, const void *value, socklen_t length) {
    static int (*next)(int, int, int, const void *, socklen_t);
    if (!next) next = dlsym(RTLD_NEXT, "setsockopt");
    if (level == SOL_UDP) { errno = ENOPROTOOPT; return -1; }
    return next(fd, level, name, value, length);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    static ssize_t (*next)(int, const struct msghdr *, int);
    if (!next) next = dlsym(RTLD_NEXT, "sendmsg");
    for (struct cmsghdr *each = CMSG_FIRSTHDR(message); each;
         each = CMSG_NXTHDR((struct msghdr *)message, each))
        if (each->cmsg_level == SOL_UDP) { errno = EINVAL; return -1; }
    return next(fd, message, flags);
}

int ioctl(int fd, unsigned long request, ...) {
    static int (*next)(int, unsigned long, ...);
    va_list rest;
    va_start(rest, request);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    if (!next) next = dlsym(RTLD_NEXT, "ioctl");
    if (request == TUNSETOFFLOAD && argument) { errno = EINVAL; return -1; }
    if (request == TUNSETIFF && getenv("WITHOUT_VNET_HEADER")
        && ((struct ifreq *)argument)->ifr_flags & IFF_VNET_HDR) { errno = EINVAL; return -1; }
    return next(fd, request, argument);
}
"""
"""Imitates an old kernel without offloads, between the program and its C library."""


@pytest.mark.parametrize("has_vnet_header", [True, False], ids=["header", "bare"])
def test_a_kernel_without_offloads_serves_and_status_says_so(
    has_vnet_header: bool, keys: Keys, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    source, library = output / "refusals.c", output / "refusals.so"
    source.write_text(REFUSALS)
    argv = ["cc", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
    subprocess.run(argv, check=True, capture_output=True)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    if not has_vnet_header:
        monkeypatch.setenv("WITHOUT_VNET_HEADER", "1")
    with (
        RemoteAccess(RemoteAccessConfig(), output) as network,
        tunnel(network, tunnel_ends(keys)) as running,
    ):
        monkeypatch.delenv("LD_PRELOAD")
        serve_files(network.server, output / "www", SERVER_ADDRESS)
        assert download(network.ms, PRIVATE_URL).sha256 == expected
        for reverse in (False, True):
            assert iperf(network.ms, network.server, SERVER_ADDRESS, 1, reverse=reverse).mbit_s > 20
        for end in running:
            said = order(end.host, "status").check().stdout
            (without,) = (line for line in said.splitlines() if "without offload:" in line)
            for offload in ("tun checksum", "tun tcp segments", "udp gso", "udp gro"):
                assert f"{offload} (this kernel" in without
            assert ("tun vnet header" in without) is not has_vnet_header, without


def test_a_recorded_link_gives_what_its_trace_says(output: Path) -> None:
    """An opportunity of 1500 bytes every 4 ms, and a pause of 300 ms every second."""
    trace = output / "umts.trace"
    trace.parent.mkdir(parents=True)
    moments = range(4, 701, 4)
    trace.write_text("".join(f"{moment}\n" for moment in moments) + "1000\n")
    mean_mbit_s = (len(moments) + 1) * 1500 * 8 / 1e6
    with RemoteAccess(RemoteAccessConfig(link=LinkConfig(trace=trace)), output) as network:
        flow = iperf(network.ms, network.sg, GATEWAY_ADDRESS, 4)
        assert 0.75 * mean_mbit_s < flow.mbit_s < mean_mbit_s
        # Only packets that arrive during the pause are delayed by it.
        echoes = ping(network.ms, GATEWAY_ADDRESS, 100, 0.02, timeout_s=2)
        assert echoes.received == 100
        assert 250 < echoes.maximum_ms < 650


def test_a_recording_that_is_cut_ends_the_relay_with_a_sentence(output: Path) -> None:
    trace = output / "cut.trace"
    trace.parent.mkdir(parents=True)
    trace.write_text("".join(f"{moment}\n" for moment in range(4, 201, 4)))
    with RemoteAccess(RemoteAccessConfig(link=LinkConfig(trace=trace)), output) as network:
        assert ping(network.ms, GATEWAY_ADDRESS, 1).received == 1
        trace.write_text("4\n")
        assert ping(network.ms, GATEWAY_ADDRESS, 10, 0.1, timeout_s=1).received < 10
        assert network.relay is not None
        done = network.relay.process.wait(5)
        assert done.code == 1
        assert "--trace: the trace changed while it was replayed" in done.stderr


def test_a_full_queue_drops_its_tail(output: Path) -> None:
    config = RemoteAccessConfig(link=LinkConfig(rate="1mbit", queue="5"))
    with RemoteAccess(config, output) as network:
        with network.sg.entered():
            listener = socket.socket(type=socket.SOCK_DGRAM)
        with network.ms.entered():
            speaker = socket.socket(type=socket.SOCK_DGRAM)
        with listener, speaker:
            listener.bind((GATEWAY_ADDRESS, 9999))
            listener.settimeout(1)
            assert ping(network.ms, GATEWAY_ADDRESS, 1).received == 1
            began = time.monotonic()
            for number in range(50):
                speaker.sendto(bytes([number]) * 1000, (GATEWAY_ADDRESS, 9999))
            took_s = time.monotonic() - began
            heard = []
            with contextlib.suppress(TimeoutError):
                while True:
                    heard.append(listener.recv(2000)[0])
        # One on the wire, five that wait, and those that arrived while others were sent.
        assert heard[:5] == list(range(5))
        assert 5 <= len(heard) <= 10 + math.ceil(took_s / PACKET_S), (heard, took_s)


ORDINARY = """
import sys
from pathlib import Path
from caravan.threeways.measurement import Keys, tunnel_ends
from caravan.testbed import RemoteAccess, RemoteAccessConfig, enter
enter()
from caravan.testbed.caravan import Caravan
from caravan.testbed.remote_access import SERVER_ADDRESS
from caravan.testbed.traffic import ping
folder = Path(sys.argv[1])
gateway, station = tunnel_ends(Keys.make(folder / "pki"))
network = RemoteAccess(RemoteAccessConfig(), folder / "logs")
with network, Caravan(network.sg, gateway) as serving:
    serving.wait_ready()
    with Caravan(network.ms, station) as caravan:
        caravan.wait_ready()
        print("received", ping(network.ms, SERVER_ADDRESS, 3, 0.1).received, flush=True)
"""


@pytest.fixture
def stage() -> Iterator[Path]:
    """A folder that every user may enter, whatever folders the parts of the suite are in."""
    place = Path("/mnt")
    mount("tmpfs", str(place), "tmpfs", 0, "mode=0755")
    yield place
    # It is unmounted, not deleted: parts of the machine are mounted in it.
    subprocess.run(["umount", "--recursive", "--lazy", str(place)], check=True)


def test_the_testbed_needs_no_root(stage: Path) -> None:
    """The interpreter, its packages and the program, run as a user without any rights."""
    packages = Path(pyroute2.__file__).parents[1]
    for name, source in (("python", Path(sys.base_prefix)), ("packages", packages)):
        (stage / name).mkdir()
        mount(str(source), str(stage / name), None, MS_BIND)
    shutil.copytree(Path(caravan.__file__).parent, stage / "own/caravan")
    shutil.copy(caravan_binary(), stage / "program")
    home = stage / "home"
    home.mkdir()
    _, _, users = Path("/proc/self/uid_map").read_text().split()
    entry: list[str] = []
    if int(users) > NOBODY:
        os.chown(home, NOBODY, NOBODY)
        entry = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    interpreter = stage / "python/bin" / Path(sys.executable).resolve().name
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "CARAVAN": str(stage / "program"),
        "LD_LIBRARY_PATH": str(stage / "python/lib"),
        "PYTHONPATH": f"{stage / 'own'}:{stage / 'packages'}",
    }
    argv = [*entry, str(interpreter), "-c", ORDINARY, str(home)]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    if are_user_namespaces_allowed():
        assert done.stdout == "received 3\n", done.stderr
    else:
        assert done.returncode == 1 and "namespaces" in done.stderr


def are_user_namespaces_allowed() -> bool:
    """What the machine allows an ordinary user to do."""
    denials = {
        "user/max_user_namespaces": "0",
        "kernel/unprivileged_userns_clone": "0",
        "kernel/apparmor_restrict_unprivileged_userns": "1",
    }
    files = {Path("/proc/sys") / key: value for key, value in denials.items()}
    return not any(
        path.exists() and path.read_text().strip() == value for path, value in files.items()
    )


SECRET = "correct horse battery staple"


@pytest.mark.parametrize("is_right", [True, False], ids=["right", "wrong"])
def test_no_log_holds_a_secret(is_right: bool, keys: Keys, output: Path) -> None:
    ends = both(tunnel_ends(keys, SUITE, version=1), auth=SharedKey(SECRET), is_aggressive=False)
    asking = replace(ends[1], auth=SharedKey(SECRET if is_right else f"not {SECRET}"))
    with RemoteAccess(RemoteAccessConfig(), output) as network, contextlib.ExitStack() as stack:
        gateway = stack.enter_context(Caravan(network.sg, ends[0], log_level="trace"))
        gateway.wait_ready()
        capture = ["--capture", str(output / "ms.pcapng")]
        station = Caravan(network.ms, asking, options=capture, log_level="trace")
        stack.enter_context(station)
        if not is_right:
            gateway.wait_for_event("negotiation failed")
            keys_written: set[str] = set()
        else:
            station.wait_ready()
            order(network.ms, "rekey", "road").check()
            assert ping(network.ms, SERVER_ADDRESS, 5, 0.1).received == 5
            keys_written = captured_keys(output / "ms.pcapng.keys")
            assert len(keys_written) >= 5
        statuses = [end.status() for end in (gateway, station)]
        for end, status in zip((gateway, station), statuses, strict=True):
            said = (end.process.stderr() + end.process.stdout() + json.dumps(status)).lower()
            assert len(said) > 1000
            for secret in (SECRET, SECRET.encode().hex(), *keys_written):
                assert secret not in said


def captured_keys(folder: Path) -> set[str]:
    """Every key that a capture wrote next to itself, in lower case without prefix."""
    for path in (folder.with_suffix(""), *folder.iterdir()):
        assert path.stat().st_mode & 0o077 == 0, path
    texts = [path.read_text() for path in folder.iterdir()]
    words = (word for text in texts for word in re.split(r'[",\s]+', text))
    longest = (word.lower().removeprefix("0x") for word in words)
    return {word for word in longest if re.fullmatch(r"[0-9a-f]{16,}", word)}


def test_it_becomes_the_user_that_the_file_names(keys: Keys, output: Path) -> None:
    on_gateway, on_station = tunnel_ends(keys)
    with (
        RemoteAccess(RemoteAccessConfig(), output) as network,
        Caravan(network.sg, on_gateway) as gateway,
    ):
        gateway.wait_ready()
        before = network.ms.run(["cat", "/etc/resolv.conf"]).stdout
        file = write_files(network.ms, on_station)
        file.write_text(file.read_text() + '[daemon]\nuser = "nobody"\n')
        with Caravan(network.ms, on_station, file=file) as station:
            station.wait_ready()
            status = Path(f"/proc/{station.process.pid}/status").read_text()
            assert re.search(r"^Uid:\t65534\t65534\t65534\t65534$", status, re.M)
            # The host steward does what needs rights.
            (effective,) = re.findall(r"CapEff:\s*([0-9a-f]+)", status)
            assert int(effective, 16) == 0
            assert "10.10.0.53" in network.ms.run(["cat", "/etc/resolv.conf"]).stdout
            assert ping(network.ms, SERVER_ADDRESS, 2).received == 2
            order(network.ms, "reload").check()
            station.down()
            station.process.wait(5)
        assert network.ms.run(["cat", "/etc/resolv.conf"]).stdout == before
        assert "caravan0" not in network.ms.interfaces()
        assert network.ms.unreachable_routes() == []


PHASE_1 = [
    *("des-md5-modp768", "3des-sha1-modp1024", "aes128-sha256-modp1536", "aes192-sha384-modp2048"),
    *("aes256-sha512-modp3072", "aes256-sha256-modp4096"),
]
PHASE_2 = [
    *("des", "des-sha1-modp768", "3des-md5-modp1024", "aes192-sha256-modp1536-esn"),
    *("aes256gcm16-modp3072-esn", "null-sha256-modp4096"),
]


def test_every_group_cipher_and_hash_is_agreed_on(keys: Keys, output: Path) -> None:
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        for number, suites in enumerate(zip(PHASE_1, PHASE_2, strict=True)):
            ike, esp = suites
            ends = both(
                tunnel_ends(keys, esp, version=1), proposals=ike, is_aggressive=number % 2 == 0
            )
            with tunnel(network, ends) as (_, station):
                assert ping(network.ms, SERVER_ADDRESS, 3, 0.05).received == 3
                (session,) = station.status()["connections"][0]["sessions"]
                assert session["suite"] == ike
                assert session["children"][0]["suite"] == esp
