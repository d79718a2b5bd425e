"""A tunnel without root, behind a SOCKS server: curl through it, and what it leaves behind."""

from __future__ import annotations

import re
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.agents import WITHOUT_RIGHTS
from caravan.testbed.binary import caravan_binary
from caravan.testbed.caravan import Caravan, write_files
from caravan.testbed.connection import Connection
from caravan.testbed.host import Host
from caravan.testbed.inventory import Inventory
from caravan.testbed.process import Completed, Process
from caravan.testbed.remote_access import SERVER_ADDRESS
from caravan.testbed.traffic import make_file, serve_files
from caravan.threeways.measurement import Keys, tunnel_ends

pytestmark = pytest.mark.root

READY_S = 20.0
FILE_BYTES = 8_000_000
CURLE_PROXY = 97
"""curl: the proxy refuses."""


@pytest.fixture(scope="module")
def ends(keys: Keys) -> tuple[Connection, Connection]:
    return tunnel_ends(keys, "aes128gcm16")


@pytest.fixture
def network(output: Path) -> Iterator[RemoteAccess]:
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        yield network


class Way:
    """`caravan socks` of a user without rights."""

    def __init__(self, host: Host, file: Path, *options: str) -> None:
        self.host = host
        # pytest's own folders are private.
        self.folder = Path(tempfile.mkdtemp(prefix="caravan-socks-"))
        shutil.copytree(file.parent, self.folder, dirs_exist_ok=True)
        for path in (self.folder, *self.folder.iterdir()):
            path.chmod(0o755 if path.is_dir() else 0o644)
        argv = [str(caravan_binary()), "socks", "-c", str(self.folder / file.name)]
        argv += ["--listen", "127.0.0.1:0"]
        self.process: Process = host.popen([*WITHOUT_RIGHTS, *argv, *options], name="socks")

    def wait_up(self) -> str:
        """Wait for the tunnel; return the proxy's address with its password."""
        self.process.wait_for(lambda: "up: " in self.process.stdout(), "the tunnel", READY_S)
        return self.process.stdout().splitlines()[0]

    def __enter__(self) -> Way:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop()
        shutil.rmtree(self.folder)


def curl(host: Host, proxy: str, url: str, *options: str, check: bool = True) -> Completed:
    """Fetch a URL through a proxy; curl prints size, seconds and its own error."""
    told = ["--write-out", "%{size_download} %{time_total} %{errormsg}", "--output", "/dev/null"]
    argv = ["curl", "-sS", "--max-time", "60", "--proxy", proxy, *told, *options, url]
    return host.run(argv, 70, check=check, name="curl")


URL = f"http://{SERVER_ADDRESS}/file"


def serve(network: RemoteAccess, size: int) -> None:
    """Serve a file of this size behind the gateway."""
    folder = network.server.logs / "served"
    make_file(folder / "file", size)
    serve_files(network.server, folder, SERVER_ADDRESS)


def test_curl_fetches_a_file_without_root_and_nothing_is_left(
    network: RemoteAccess, ends: tuple[Connection, Connection]
) -> None:
    on_gateway, on_station = ends
    file = write_files(network.ms, on_station)
    serve(network, FILE_BYTES)
    with Caravan(network.sg, on_gateway) as gateway:
        gateway.wait_ready()
        before = Inventory.take(network.ms)
        with Way(network.ms, file) as way:
            proxy = way.wait_up()
            assert curl(network.ms, proxy, URL).stdout.split()[0] == str(FILE_BYTES)
            during = before.changes(Inventory.take(network.ms))
            assert [line for line in during if not line.startswith("+ program ")] == []
            assert gateway.is_established()
            assert way.process.stop().code == 0
            gateway.process.wait_for(lambda: not gateway.is_established(), "goodbye", READY_S)
        assert before.changes(Inventory.take(network.ms)) == []


def test_other_users_do_not_come_in(
    network: RemoteAccess, ends: tuple[Connection, Connection]
) -> None:
    on_gateway, on_station = ends
    file = write_files(network.ms, on_station)
    serve(network, 1_000)
    with Caravan(network.sg, on_gateway) as gateway:
        gateway.wait_ready()
        with Way(network.ms, file) as way:
            proxy = way.wait_up()
            bare = re.sub("//.*@", "//", proxy)
            for refused in (bare, re.sub(":[0-9a-f]{32}@", ":wrong@", proxy)):
                assert curl(network.ms, refused, URL, check=False).code == CURLE_PROXY
        with Way(network.ms, file, "--same-user") as way:
            proxy = way.wait_up()
            assert "@" not in proxy
            assert curl(network.ms, proxy, URL, check=False).code != 0
            argv = ["curl", "-sS", "--max-time", "60", "--proxy", proxy, URL]
            argv += ["--write-out", "%{size_download}", "--output", "/dev/null"]
            same = network.ms.run([*WITHOUT_RIGHTS, *argv], 70, name="curl")
            assert same.stdout == "1000"


def test_it_is_hidden_and_killed_without_a_trace(
    network: RemoteAccess, ends: tuple[Connection, Connection]
) -> None:
    on_gateway, on_station = ends
    on_gateway = replace(on_gateway, dpd_s=1)
    file = write_files(network.ms, on_station)
    with Caravan(network.sg, on_gateway) as gateway:
        gateway.wait_ready()
        before = Inventory.take(network.ms)
        with Way(network.ms, file) as way:
            way.wait_up()
            own = Path(f"/proc/{way.process.pid}")
            assert re.search(r"Max core file size +0 +0 ", (own / "limits").read_text())
            # The files of a process that is not dumpable belong to root, whoever runs it.
            assert (own / "mem").stat().st_uid == 0
            effective = re.search(r"CapEff:\s*(\w+)", (own / "status").read_text())
            assert effective is not None and int(effective[1], 16) == 0
            way.process.signal(signal.SIGKILL)
            way.process.wait(5)
            assert before.changes(Inventory.take(network.ms)) == []
        gateway.process.wait_for(lambda: not gateway.is_established(), "a dead peer", 60)


def test_the_speed_of_a_download(
    network: RemoteAccess, ends: tuple[Connection, Connection]
) -> None:
    """Prints Mbit/s; what counts here is that all of a long file comes."""
    size = 200_000_000
    on_gateway, on_station = ends
    file = write_files(network.ms, on_station)
    serve(network, size)
    with Caravan(network.sg, on_gateway) as gateway:
        gateway.wait_ready()
        with Way(network.ms, file) as way:
            proxy = way.wait_up()
            began, before_s = time.monotonic(), way.process.cpu_s()
            octets, seconds, *_ = curl(network.ms, proxy, URL).stdout.split()
            cpu_s = way.process.cpu_s() - before_s
            assert int(octets) == size
            mbit_s = size * 8 / float(seconds) / 1e6
            print(f"{mbit_s:.0f} Mbit/s, {cpu_s / (time.monotonic() - began):.0%} of a CPU")
