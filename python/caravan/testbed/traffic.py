"""Traffic of applications: ping, iperf3 and an HTTP download, with their measurements.

Runs the machine's own programs and reads their reports.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import re
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

from caravan.testbed.errors import TimedOut
from caravan.testbed.host import Host
from caravan.testbed.process import Completed, Process

SERVER_READY_S = 10.0
REACHED_S, ECHO_S = 2.5, 0.5
"""A registration of 4 s is renewed after 3 s, and that would heal a first one that set up nothing:
who waits for no healing gives up before."""
HTTP_PORT = 80
ENDLESS_BYTES = 48_000_000
ENDLESS_RATE_BYTES_S = 400_000
"""Two minutes for the whole file: longer than any test goes on."""
MORE_BYTES = 200_000
"""More than was on its way before a move."""
IPERF_PORT = 5201


@dataclass(frozen=True)
class Ping:
    """Round trips in ms; zeros if nothing came back."""

    sent: int
    received: int
    minimum_ms: float
    mean_ms: float
    maximum_ms: float
    deviation_ms: float


def ping(
    host: Host,
    address: str,
    count: int = 5,
    interval_s: float = 0.2,
    payload_bytes: int = 56,
    *,
    timeout_s: float = 2.0,
    dont_fragment: bool = False,
) -> Ping:
    """Send echo requests of `payload_bytes` after the 8-byte ICMP header; loss is a valid result,
    and so is a host without a route to the address."""
    argv = ["ping", "-n", "-q", "-c", str(count), "-i", str(interval_s)]
    argv += ["-s", str(payload_bytes), "-W", str(timeout_s)]
    argv += ["-M", "do"] if dont_fragment else []
    limit_s = count * interval_s + timeout_s + 10
    done = host.run([*argv, address], limit_s, check=False)
    counts = re.search(r"(\d+) packets transmitted, (\d+) received", done.stdout)
    if counts is None:
        if "No route to host" in done.stderr or "unreachable" in done.stderr:
            return Ping(count, 0, 0.0, 0.0, 0.0, 0.0)
        done.check()
        raise ValueError(f"ping printed no packet counts: {done.stdout}")
    times = re.search(r"= ([\d.]+)/([\d.]+)/([\d.]+)/([\d.]+) ms", done.stdout)
    values = [float(text) for text in times.groups()] if times else [0.0] * 4
    return Ping(int(counts[1]), int(counts[2]), values[0], values[1], values[2], values[3])


def reach_each_other(
    one: tuple[Host, str], other: tuple[Host, str], *, echo_s: float = 2.0
) -> bool:
    """Whether a ping gets through from one host to the address of the other, and one back."""
    to = ping(one[0], other[1], 1, timeout_s=echo_s)
    back = ping(other[0], one[1], 1, timeout_s=echo_s)
    return to.received == back.received == 1


def wait_to_reach_each_other(
    one: tuple[Host, str], other: tuple[Host, str], timeout_s: float = REACHED_S
) -> None:
    """Wait until they do: a program may say that it is ready before its host has all routes."""
    until = time.monotonic() + timeout_s
    while not reach_each_other(one, other, echo_s=ECHO_S):
        if time.monotonic() > until:
            ends = f"{one[0].role} and {other[0].role}"
            raise TimedOut(f"{ends} do not reach each other in {timeout_s:g} s")


@dataclass(frozen=True)
class Flow:
    """One iperf3 run as the receiver measured it.

    `lost_packets` and `jitter_ms` are UDP's, `retransmits` TCP's.
    """

    received_bytes: int
    seconds: float
    mbit_s: float
    retransmits: int
    lost_packets: int
    jitter_ms: float


def iperf(
    client: Host,
    server: Host,
    address: str,
    seconds: int = 3,
    *,
    reverse: bool = False,
    udp_mbit_s: float | None = None,
    payload_bytes: int | None = None,
    streams: int = 1,
    bind: str | None = None,
    congestion: str | None = None,
) -> Flow:
    """TCP, or UDP at `udp_mbit_s`, from client to server; with `reverse` the other way.

    `bind`: the server's own address if it differs from the one that the client uses. `congestion`:
    TCP's congestion control for this flow if it is not the machine's own.
    """
    with iperf_server(server, bind or address):
        argv = ["iperf3", "-c", address, "-J", "-t", str(seconds), "-P", str(streams)]
        argv += ["-R"] if reverse else []
        argv += ["-u", "-b", f"{udp_mbit_s}M"] if udp_mbit_s is not None else []
        argv += ["-l", str(payload_bytes)] if payload_bytes is not None else []
        argv += ["-C", congestion] if congestion is not None else []
        done = client.run(argv, seconds + 30)
    return _flow(json.loads(done.stdout), is_udp=udp_mbit_s is not None)


def iperf_server(host: Host, address: str) -> Process:
    """A server for one client."""
    argv = ["iperf3", "-s", "-1", "-B", address, "--forceflush"]
    process = host.popen(argv, name="iperf3-server")
    process.wait_for(
        lambda: "Server listening" in process.stdout(), "iperf3 server", SERVER_READY_S
    )
    return process


def _flow(report: dict[str, Any], *, is_udp: bool) -> Flow:
    end = report["end"]
    if is_udp:
        total = end["sum"]
        received = total.get("bytes", 0)
        lost = int(total["lost_packets"])
        share = 1 - lost / max(1, int(total["packets"]))
        seconds = float(total["seconds"])
        received = round(int(received) * share)
        return Flow(received, seconds, received * 8e-6 / seconds, 0, lost, total["jitter_ms"])
    total = end["sum_received"]
    return Flow(
        int(total["bytes"]),
        float(total["seconds"]),
        float(total["bits_per_second"]) / 1e6,
        int(end["sum_sent"].get("retransmits", 0)),
        0,
        0.0,
    )


def make_file(path: Path, size_bytes: int, seed: int = 1) -> str:
    """An incompressible file, the same for the same seed; returns its SHA-256 in hex."""
    content = random.Random(seed).randbytes(size_bytes)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return hashlib.sha256(content).hexdigest()


def serve_files(
    host: Host,
    directory: Path,
    address: str,
    port: int = HTTP_PORT,
    rate_bytes_s: int | None = None,
) -> Process:
    """An HTTP server of the files in a directory; ends with the host. `rate_bytes_s`: no faster
    than this for each client."""
    script = Path(__file__).with_name("fileserver.py")
    argv = [sys.executable, str(script), address, str(port), str(directory)]
    argv += [str(rate_bytes_s)] if rate_bytes_s is not None else []
    process = host.popen(argv, name="fileserver")
    process.wait_for(lambda: "serving" in process.stdout(), "HTTP server", SERVER_READY_S)
    return process


@dataclass(frozen=True)
class Download:
    """A file fetched by curl: its hash, its speed, and the client's address as curl saw it."""

    sha256: str
    received_bytes: int
    seconds: float
    mbit_s: float
    local_address: str


def download(host: Host, url: str, name: str = "download", timeout_s: float = 60.0) -> Download:
    """Fetch a URL; `CommandFailed` if curl fails."""
    process, path = start_download(host, url, name, timeout_s)
    return finish_download(process.wait(timeout_s + 5).check(), path)


def start_download(
    host: Host,
    url: str,
    name: str = "download",
    timeout_s: float = 60.0,
    *,
    local_port: int | None = None,
    rate_bytes_s: int | None = None,
) -> tuple[Process, Path]:
    """Start fetching; several fetches may run at the same time. Pass the result to
    `finish_download`.

    `local_port`: the source port to use. `rate_bytes_s`: curl's speed limit.
    """
    path = host.logs / name
    argv = ["curl", "--silent", "--show-error", "--fail", "--noproxy", "*", "--no-buffer"]
    argv += ["--output", str(path), "--max-time", str(timeout_s), "--write-out", "%{json}", url]
    argv += ["--local-port", str(local_port)] if local_port is not None else []
    argv += ["--limit-rate", str(rate_bytes_s)] if rate_bytes_s is not None else []
    return host.popen(argv, name=f"curl-{name}"), path


def finish_download(done: Completed, path: Path) -> Download:
    """Read curl's report and hash the file."""
    report = json.loads(done.check().stdout)
    content = path.read_bytes()
    seconds = float(report["time_total"])
    return Download(
        hashlib.sha256(content).hexdigest(),
        len(content),
        seconds,
        len(content) * 8e-6 / seconds,
        str(report["local_ip"]),
    )


@dataclass(frozen=True)
class EndlessDownload:
    """A download that goes on until its test has seen enough."""

    client: Host
    process: Process
    path: Path

    def wait_for_more(self, timeout_s: float = 20.0) -> None:
        """Wait until so much more has come that the connection is alive where the client is."""
        before = self.received_bytes()

        def has_more() -> bool:
            return self.received_bytes() >= before + MORE_BYTES

        self.process.wait_for(has_more, "more of the download", timeout_s)

    def received_bytes(self) -> int:
        """What has come so far."""
        return self.path.stat().st_size if self.path.exists() else 0

    def local_addresses(self) -> set[str]:
        """The client's addresses in its TCP connections."""
        lines = self.client.run(["ss", "--tcp", "--no-header", "--numeric"]).stdout.splitlines()
        return {line.split()[3].rsplit(":", 1)[0] for line in lines if line.startswith("ESTAB")}


class Growth:
    """When a file grew, from `__enter__` to `__exit__`: what a download's program had by when."""

    POLL_S = 0.002

    def __init__(self, path: Path) -> None:
        self.path = path
        self.times_s: list[float] = []
        """Of each growth, and first when the watching began."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def longest_pause_s(self) -> float:
        """The longest time between two growths."""
        return max((later - earlier for earlier, later in pairwise(self.times_s)), default=0.0)

    def _watch(self) -> None:
        before = self._bytes()
        self.times_s.append(time.monotonic())
        while not self._ended.wait(self.POLL_S):
            if (size := self._bytes()) != before:
                self.times_s.append(time.monotonic())
                before = size

    def _bytes(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


@contextlib.contextmanager
def endless_download(client: Host, server: Host, address: str) -> Iterator[EndlessDownload]:
    """Download from a server at this address, in one connection; at the end, what came must be
    the beginning of the file."""
    directory = server.logs / "endless"
    make_file(directory / "file", ENDLESS_BYTES)
    serve_files(server, directory, address, rate_bytes_s=ENDLESS_RATE_BYTES_S)
    process, path = start_download(client, f"http://{address}/file", "endless", timeout_s=300)
    download = EndlessDownload(client, process, path)
    download.wait_for_more()
    yield download
    process.stop()
    with (directory / "file").open("rb") as file:
        received = path.read_bytes()
        if file.read(len(received)) != received:
            raise ValueError(f"{path} was not received as it was sent")
    (directory / "file").unlink()
