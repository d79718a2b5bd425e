"""Measures one case of Gupta and Montenegro (1998) in namespaces, with the program and the kernel's
TCP of this machine.

Round trips are those of ping with the least that it can time, which an Ethernet frame holds without
growing, like the paper's empty ones. Rates are those of whole transfers from one program to
another, the connection included. What TCP's timer did is the kernel's own count, of the namespace
that sends. Left out: packets of a chosen size, because TCP makes its own of what a program writes.
"""

from __future__ import annotations

import contextlib
import json
import math
import socket
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from caravan.document import plain
from caravan.testbed import flow_end
from caravan.testbed.capture import Capture
from caravan.testbed.cases import BEHIND, SUBNET, Cases, running
from caravan.testbed.flow_end import Listening, Received, results
from caravan.testbed.host import Host
from caravan.testbed.mobile_ip import MOBILE
from caravan.testbed.mvpn import HOP_RATE, Protection
from caravan.testbed.process import Process
from caravan.testbed.traffic import ping
from caravan.threeways.eight import as_printed

PORT = 5001
"""That of ttcp."""
READY_S = 10.0
TRANSFER_S = 120.0
PINGS = 20
STAMP_BYTES = 16
"""The least payload of an echo request that ping can time."""
FULL_BYTES = 1064
"""A packet with 1024 bytes of TCP, before the tunnels."""
ECHO_HEADERS = 28
TUNNEL_BYTES = 20
LINK_BYTES = 1500
QUANTILES = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 10: 2.262}
"""Of Student's distribution, 95 %, by the number of runs."""

RUNS = tuple(QUANTILES)
WRITE_BYTES = 1024
ETHERNET, UNLIMITED = "10 Mbit/s", "unlimited"
RATES = (ETHERNET, UNLIMITED)
"""What every link carries, each direction alone."""


@dataclass(frozen=True)
class Setting:
    """A case, what protects it, and what is sent.

    `writes` of 1024 bytes each go from the node to its correspondent, `runs` times. With
    `file_bytes` two files of this size come from the correspondent instead.
    """

    case: str
    protection: Protection
    is_ethernet: bool
    runs: int
    writes: int
    file_bytes: int | None

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> Self:
        """From a study's request."""
        return cls(
            case=request["case"],
            protection=_protection(request["policy"]),
            is_ethernet=request["rate"] == ETHERNET,
            runs=request["runs"],
            writes=request["writes"],
            file_bytes=request["file_bytes"],
        )


@dataclass(frozen=True)
class Value:
    """A metric, and its 95 % interval if it was measured several times."""

    metric: str
    value: float
    low: float | None = None
    high: float | None = None


def _protection(policy: Mapping[str, str] | None) -> Protection:
    """The program's own words for a policy of SKIP."""
    if policy is None:
        return Protection()
    table = plain(policy["file"], policy["text"])["skip"]
    keys = {name: table[name] for name in ("kij", "crypt", "mac") if name in table}
    return Protection(table["profile"], keys)


def measure(setting: Setting, output: Path) -> list[dict[str, Any]]:
    """The metrics of a case. The process must have entered a private namespace."""
    rate = HOP_RATE if setting.is_ethernet else ()
    with Cases(output, rate=rate) as network, contextlib.ExitStack() as stack:
        is_heard = setting.case == BEHIND and setting.file_bytes is None
        ears = [_ear(network, link) for link in ("out0", "in0") if is_heard]
        for ear in ears:
            stack.enter_context(ear)
        case = running(network, setting.case, setting.protection)
        peer, address = stack.enter_context(case)
        if setting.file_bytes is not None:
            found = _files(network, peer, setting.file_bytes)
        else:
            found = [*_packet(network, setting.case, address), _round_trip(network, address)]
            found += _eight(ears)
            found += _rate(network.ms, peer, address, setting)
    return [asdict(value) for value in found]


def _ear(network: Cases, link: str) -> Capture:
    return Capture(network.fw, link, network.fw.logs / f"{link}.pcap")


def _eight(ears: Sequence[Capture]) -> Iterator[Value]:
    """How many headers of packets 1 to 8 are those of the figures."""
    for ear in ears:
        ear.stop()
    frames = [ear.frames() for ear in ears]
    if frames:
        for number, headers in as_printed(*frames).items():
            yield Value(f"headers:packet {number}", headers)


def _round_trip(network: Cases, address: str) -> Value:
    told = ping(network.ms, address, PINGS, 0.05, STAMP_BYTES)
    if told.received < PINGS:
        raise ValueError(f"{PINGS - told.received} of {PINGS} echo requests were lost")
    return Value("rtt_ms", told.mean_ms)


def _packet(network: Cases, case: str, address: str) -> Iterator[Value]:
    """The bytes of a full packet on the node's wire, and what SKIP adds to it."""
    output = network.ms.logs / "full.pcap"
    with Capture(network.ms, "eth0", output) as capture:
        ping(network.ms, address, 1, payload_bytes=FULL_BYTES - ECHO_HEADERS)
    own = bytes.fromhex(network.ms.hardware_address("eth0").replace(":", ""))
    sent = [it.packet for it in capture.frames() if it.data[6:12] == own]
    wire = max(len(packet) for packet in sent)
    yield Value("protected_bytes", wire)
    if case in (BEHIND, SUBNET):
        tunnel = TUNNEL_BYTES if case == BEHIND else 0
        yield Value("bytes:protection", wire - FULL_BYTES - tunnel)


def _rate(node: Host, peer: Host, address: str, setting: Setting) -> list[Value]:
    size = setting.writes * WRITE_BYTES
    rates = []
    for _ in range(setting.runs):
        with _listening(peer, "take", 0) as taker:
            node.popen(_argv("connect", address, PORT, size, time.monotonic_ns()), name="give")
            rates.append(_received(taker, size))
    mean = statistics.mean(rates)
    half = QUANTILES[setting.runs] * statistics.stdev(rates) / math.sqrt(setting.runs)
    return [Value("tcp_kbytes_s", mean, max(0.0, mean - half), mean + half)]


def _files(network: Cases, peer: Host, size: int) -> list[Value]:
    """A file to the node while nobody knows the size of the path, and another one after it."""
    found = []
    for when in ("before", "after"):
        earlier = Counts.of(peer)
        with _listening(peer, f"give-{when}", size):
            words = ("connect", _address_of(peer), PORT, 0, time.monotonic_ns())
            taker = network.ms.popen(_argv(*words), name=f"take-{when}")
            rate = _received(taker, size)
        later = Counts.of(peer)
        found.append(Value(f"tcp_kbytes_s:{when}", rate))
        found.append(Value(f"timeouts:{when}", later.timeouts - earlier.timeouts))
        found.append(Value(f"reports:{when}", later.reports - earlier.reports))
    route = peer.run(["ip", "-j", "route", "get", MOBILE]).stdout
    (told,) = json.loads(route)
    metrics = told.get("metrics") or [{}]
    found.append(Value("path_bytes", metrics[0].get("mtu", LINK_BYTES)))
    return found


def _address_of(host: Host) -> str:
    (address,) = host.addresses("eth0")
    return address.split("/")[0]


def _listening(host: Host, name: str, size: int) -> Process:
    process = host.popen(_argv("serve", int(socket.AF_INET), PORT, size), name=name)
    process.wait_for(lambda: Listening() in results(process.stdout()), name, READY_S)
    return process


def _argv(*words: object) -> list[str]:
    return [sys.executable, flow_end.__file__, *map(str, words)]


def _received(taker: Process, size: int) -> float:
    """KB/s of a transfer."""
    told = results(taker.wait(TRANSFER_S).check().stdout)
    (moved,) = [one for one in told if isinstance(one, Received)]
    if moved.size_bytes != size:
        raise ValueError(f"{moved.size_bytes} of {size} bytes came")
    return moved.size_bytes / moved.seconds / 1e3


@dataclass(frozen=True)
class Counts:
    """What the kernel of a host counts: ends of TCP's timers, and what ICMP told it about packets
    that did not arrive."""

    timeouts: int
    reports: int

    @classmethod
    def of(cls, host: Host) -> Self:
        """The counts so far."""
        with host.entered():
            texts = [
                Path(f"/proc/thread-self/net/{name}").read_text() for name in ("netstat", "snmp")
            ]
        of_tcp, of_icmp = texts
        return cls(
            _count(of_tcp, "TcpExt:", "TCPTimeouts"), _count(of_icmp, "Icmp:", "InDestUnreachs")
        )


def _count(text: str, group: str, name: str) -> int:
    names, values = (line.split() for line in text.splitlines() if line.startswith(group))
    return int(values[names.index(name)])
