"""Measures two hosts on one wire with the real program at both ends, in namespaces.

The wire carries frames as large as its MTU, one packet each, at the rate of a link's file or as
fast as it can. What a datagram becomes is counted on it, so it does not depend on the machine's
speed. Processor time is that of processes: of Caravan and of the programs at both ends, user and
system, with the softirqs that come while they run. A pair of `veth` has the receiving kernel's work
done by whoever sends, so the time of one end is half of what both take. Softirqs that come while a
processor is idle are told apart, with what else this machine does (`testbed.processors`).
"""

from __future__ import annotations

import contextlib
import json
import math
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from caravan.document import plain
from caravan.testbed import stream_end, traffic_end
from caravan.testbed.capture import IPPROTO_AH, IPPROTO_ESP, IPPROTO_UDP, Capture
from caravan.testbed.caravan import Caravan
from caravan.testbed.connection import Connection, SharedKey
from caravan.testbed.errors import NamespaceError
from caravan.testbed.host import Host
from caravan.testbed.network import Network
from caravan.testbed.process import Process
from caravan.testbed.processors import Processors
from caravan.testbed.relay import software_checksums
from caravan.testbed.traffic import IPERF_PORT, iperf_server
from caravan.threeways.bed import TUNNEL
from caravan.threeways.cases import QUANTILES, Value

CLIENT, TARGET = "192.0.2.2", "192.0.2.1"
INSIDE, POOL = "10.10.0.1", "10.99.0.0/24"
"""Target's own address in the tunnel, and the network of Client's."""
WIRE = "wan0"
MTU_BYTES = 1500
DEVICE_BYTES = 9000
"""More than any datagram: then the program itself cuts, not the kernel for its device."""
PORT = 5003
SECRET = SharedKey("a key of both hosts, long enough to be none of a dictionary")
AH_SUITES, AH_PREFIX = ("md5", "sha1"), "ah-"
COUNTED, COUNTED_GAP_S = 8, 0.002
WINDOW = 64
"""Datagrams under way: nothing overflows."""
HEADER_BYTES = 14
"""Of Ethernet, which the kernel counts as a part of a packet."""
BURST = "10kb"
READY_S = 10.0
CPUINFO, CPUFREQ = Path("/proc/cpuinfo"), Path("/sys/devices/system/cpu/cpu0/cpufreq")


@dataclass(frozen=True)
class Policy:
    """What protects; `suite` is none without protection. `around`: AH around ESP, or empty."""

    suite: str
    mode: str
    proposal: str
    around: str = ""

    @classmethod
    def of(cls, text: Mapping[str, str] | None) -> Self:
        """From a file of the catalogue."""
        if text is None:
            return cls("none", "", "")
        table = plain(text["file"], text["text"])
        if table.get("udp", True):
            raise ValueError(f"{table['name']}: these hosts have no NAT: udp must be false")
        keys = table["keys"]
        return cls(table["suite"], table["mode"], keys["proposal"], table.get("around", ""))

    @property
    def is_clear(self) -> bool:
        """Whether nothing is protected."""
        return self.suite == "none"

    @property
    def is_ah(self) -> bool:
        """Whether AH alone protects."""
        return self.suite in AH_SUITES or self.suite.startswith(AH_PREFIX)

    @property
    def esp(self) -> str:
        """The suite of ESP; empty: there is none."""
        return "" if self.is_clear or self.is_ah else self.suite

    @property
    def ah(self) -> str:
        """The suite of AH; empty: there is none."""
        return self.suite if self.is_ah else self.around

    @property
    def protocol(self) -> int:
        """The protocol of IP on the wire."""
        if self.is_clear:
            return IPPROTO_UDP
        return IPPROTO_AH if self.ah else IPPROTO_ESP

    @property
    def address(self) -> str:
        """Where the client sends to."""
        return INSIDE if self.mode == "tunnel" else TARGET


@dataclass(frozen=True)
class Link:
    """The wire: what `tc` is told of it; empty: as fast as it can."""

    rate: str
    overhead_bytes: int
    bits_per_s: float

    @classmethod
    def of(cls, text: Mapping[str, str] | None) -> Self:
        """From a file of the catalogue."""
        if text is None:
            return cls("", 0, math.inf)
        table = plain(text["file"], text["text"])
        number, unit = table["rate"].split()
        bits = {"kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9}[unit]
        overhead = int(table.get("overhead", "0 B").split()[0])
        return cls(f"{number}{unit.removesuffix('/s').lower()}", overhead, float(number) * bits)


@dataclass(frozen=True)
class Setting:
    """A cell, as in `caravan.study.hosts`."""

    flow: str
    policy: Policy
    link: Link
    is_whole: bool
    """Whether the program's device takes every datagram as it is."""
    data_bytes: int | None
    offered_mbit_s: float | None
    pace: str
    seconds: float
    runs: int

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> Self:
        """From a study's request."""
        return cls(
            flow=request["flow"],
            policy=Policy.of(request["policy"]),
            link=Link.of(request["link"]),
            is_whole=request["device_mtu"] == "whole",
            data_bytes=request["data_bytes"],
            offered_mbit_s=request["offered_mbit_s"],
            pace=request["pace"],
            seconds=request["seconds"],
            runs=request["runs"],
        )


class Hosts(Network):
    """Two hosts and their wire."""

    def __init__(self, output: Path, link: Link) -> None:
        super().__init__(output)
        try:
            self.client, self.target = self.host("client"), self.host("target")
            self.client.connect(WIRE, self.target, WIRE, MTU_BYTES)
            for host, address in ((self.client, CLIENT), (self.target, TARGET)):
                host.add_address(WIRE, f"{address}/24")
                software_checksums(host, WIRE)
                # TCP joins segments even so, and a limit would see them as one packet.
                host.run(["ip", "link", "set", "dev", WIRE, "gso_max_segs", "1"])
                limit(host, link)
            self.target.add_address("lo", f"{INSIDE}/32")
        except BaseException:
            self.close()
            raise


def limit(host: Host, link: Link) -> None:
    """Let an interface send no faster than a link."""
    if not link.rate:
        return
    table = ["stab", "overhead", str(link.overhead_bytes - HEADER_BYTES), "linklayer", "ethernet"]
    bucket = ["tbf", "rate", link.rate, "burst", BURST, "latency", "50ms"]
    host.run(["tc", "qdisc", "add", "dev", WIRE, "root", "handle", "1:", *table, *bucket])


def ends(policy: Policy) -> tuple[Connection, Connection]:
    """The configurations of target and client."""
    target = Connection(
        SECRET,
        local_id="target.example",
        remote_id="client.example",
        mode=policy.mode,
        version=1,
        proposals=policy.proposal,
        esp_proposals=policy.esp,
        ah_proposals=policy.ah,
        is_layered=bool(policy.around),
        pool=POOL,
        local_ts=f"{INSIDE}/32" if policy.mode == "tunnel" else "",
        is_encapsulated=False,
    )
    client = Connection(
        SECRET,
        local_id="client.example",
        remote_id="target.example",
        mode=policy.mode,
        version=1,
        proposals=policy.proposal,
        esp_proposals=target.esp_proposals,
        ah_proposals=target.ah_proposals,
        is_layered=target.is_layered,
        remote_addrs=TARGET,
        wants_address=policy.mode == "tunnel",
        remote_ts=target.local_ts,
        is_encapsulated=False,
    )
    return target, client


class Bed:
    """Two hosts with a tunnel that stays until a cell needs another one; a context manager."""

    def __init__(self, output: Path) -> None:
        self._output = output
        self._count = 0
        self._key: tuple[Policy, Link, bool] | None = None
        self._running = contextlib.ExitStack()
        self._up: Up | None = None

    def measure(self, setting: Setting) -> list[dict[str, Any]]:
        """The metrics of a cell. The process must have entered a private namespace."""
        return [asdict(value) for value in self._of(setting).measured(setting)]

    def _of(self, setting: Setting) -> Up:
        key = setting.policy, setting.link, setting.is_whole
        if self._up is None or key != self._key:
            self.close()
            self._count += 1
            output = self._output / f"{self._count:03}"
            self._up = self._running.enter_context(running(output, *key))
            self._key = key
        return self._up

    def close(self) -> None:
        """End the tunnel, and both hosts."""
        self._running.close()
        self._up = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextlib.contextmanager
def running(output: Path, policy: Policy, link: Link, is_whole: bool) -> Iterator[Up]:
    """Both hosts with their tunnel."""
    with contextlib.ExitStack() as stack:
        hosts = stack.enter_context(Hosts(output, link))
        daemons: list[Caravan] = []
        if not policy.is_clear:
            for host, end in zip((hosts.target, hosts.client), ends(policy), strict=True):
                daemons.append(stack.enter_context(Caravan(host, end)))
                daemons[-1].wait_ready()
                await_children(daemons[-1], policy)
                if is_whole:
                    host.set_mtu(TUNNEL, DEVICE_BYTES)
        programs = [
            host.popen([sys.executable, traffic_end.__file__], name="traffic", is_told=True)
            for host in (hosts.client, hosts.target)
        ]
        for program in programs:
            _await_ready(program)
        yield Up(hosts, policy, link, daemons, programs)


def await_children(daemon: Caravan, policy: Policy) -> None:
    """Wait until a client's tunnel has both its layers."""
    if policy.around and not daemon.is_gateway:
        daemon.process.wait_for(lambda: len(daemon.children()) == 2, "second layer", READY_S)


def _await_ready(program: Process) -> None:
    program.wait_for(lambda: "ready" in program.stdout(), "program", READY_S)


@dataclass(frozen=True)
class Spent:
    """What moved, in what time, and the processor time of Caravan and of the other programs at
    both ends."""

    size_bytes: float
    seconds: float
    caravan_s: float
    programs_s: float

    @property
    def mbit_s(self) -> float:
        """The rate."""
        return self.size_bytes * 8e-6 / self.seconds

    @property
    def own_s(self) -> float:
        """Processor time of both ends."""
        return self.caravan_s + self.programs_s

    def percent(self, seconds: float) -> float:
        """What processor time of both ends is of one processor at one end."""
        return 50 * seconds / self.seconds


@dataclass(frozen=True)
class Up:
    """Two hosts that are up. `programs`: those of client and target that send and answer."""

    hosts: Hosts
    policy: Policy
    link: Link
    daemons: Sequence[Caravan]
    programs: Sequence[Process]

    def measured(self, setting: Setting) -> list[Value]:
        """The metrics of a cell."""
        found: list[Value] = []
        if setting.data_bytes is not None:
            found += self._counted(setting.data_bytes)
        if setting.flow == "datagrams":
            return found
        runs = [self._timed(setting) for _ in range(setting.runs)]
        spent = [one for one, _ in runs]
        found.append(mean("data_mbit_s", [one.mbit_s for one in spent]))
        found.append(mean("cpu_percent", [one.percent(one.own_s) for one in spent]))
        if setting.offered_mbit_s is None:
            found += _kernel(runs)
        clock = tsc_mhz()
        if clock is not None:
            found += _cycles(spent, clock)
        return found

    def _timed(self, setting: Setting) -> tuple[Spent, Processors]:
        """A run, and what the processors of this machine did in it."""
        before = Processors.now()
        spent = self._run(setting)
        return spent, Processors.now() - before

    def _run(self, setting: Setting) -> Spent:
        if setting.data_bytes is None:
            return self._tcp(setting.seconds)
        if setting.offered_mbit_s is None:
            return self._udp(setting.data_bytes, setting.seconds)
        return self._paced(setting, setting.offered_mbit_s)

    def _counted(self, data: int) -> Iterator[Value]:
        """What a datagram becomes on the wire."""
        path = self.hosts.output / f"{data}.pcap"
        with Capture(self.hosts.client, WIRE, path) as capture:
            gap_ns = int(COUNTED_GAP_S * 1e9)
            _, came = self._stream(data, COUNTED, gap_ns, "sleeps")
        path_frames = [
            frame.packet
            for frame in capture.frames()
            if frame.source == CLIENT and frame.protocol == self.policy.protocol
        ]
        path.unlink()
        packets, rest = divmod(len(path_frames), COUNTED)
        size, rest_bytes = divmod(sum(map(len, path_frames)), COUNTED)
        if came["datagrams"] != COUNTED or rest or rest_bytes or not packets:
            said = f"{came['datagrams']} of {COUNTED} datagrams of {data} bytes came, in"
            raise NamespaceError(f"{said} {len(path_frames)} packets")
        yield Value("wire_packets", packets)
        yield Value("wire_bytes", size)
        if self.link.rate:
            bits = (size + packets * self.link.overhead_bytes) * 8
            yield Value("link_mbit_s", data * 8e-6 * self.link.bits_per_s / bits)

    def _stream(
        self, data: int, count: int, gap_ns: int, pace: str
    ) -> tuple[Mapping[str, float], Mapping[str, float]]:
        """Send datagrams: what went and what came."""
        client, target, address = self.hosts.client, self.hosts.target, self.policy.address
        taker = target.popen(_argv("take", address, PORT), name="take")
        with taker:
            _await_ready(taker)
            limit_s = count * gap_ns / 1e9 + READY_S
            words = ("give", address, PORT, data, count, gap_ns, pace)
            gave = client.run(_argv(*words), limit_s, name="give")
            time.sleep(COUNTED_GAP_S * COUNTED)
            took = taker.stop().check()
        return json.loads(gave.stdout), json.loads(took.stdout.splitlines()[-1])

    def _paced(self, setting: Setting, offered_mbit_s: float) -> Spent:
        """Datagrams at a rate: what the sending program and its Caravan take. Of one end, so it
        counts twice."""
        assert setting.data_bytes is not None
        gap_ns = int(setting.data_bytes * 8e3 / offered_mbit_s)
        before = self._caravan_s()
        count = int(setting.seconds * 1e9 / gap_ns)
        gave, _ = self._stream(setting.data_bytes, count, gap_ns, setting.pace)
        caravan_s = self._caravan_s() - before
        return Spent(gave["bytes"], gave["seconds"], caravan_s, 2 * gave["cpu_s"])

    def _udp(self, data: int, seconds: float) -> Spent:
        """As many datagrams as come."""
        sender = self.programs[0]
        known = len(sender.stdout().splitlines())
        before, busy, began = self._caravan_s(), self._programs_s(), time.monotonic()
        sender.tell(f"udp {self.policy.address} {seconds:g} {data} {WINDOW} {traffic_end.CUT}")
        sender.wait_for(
            lambda: len(sender.stdout().splitlines()) > known, "answer", seconds + READY_S
        )
        told = json.loads(sender.stdout().splitlines()[-1])
        if "fault" in told:
            raise NamespaceError(told["fault"])
        took_s = time.monotonic() - began
        share = told["bytes_s"] * took_s / told["bytes"]
        # The rate is that of the time in between; what both ends took is of all bytes.
        caravan_s, programs_s = self._caravan_s() - before, self._programs_s() - busy
        return Spent(told["bytes"], took_s / share, caravan_s, programs_s)

    def _tcp(self, seconds: float) -> Spent:
        """As much as TCP carries."""
        client, target, address = self.hosts.client, self.hosts.target, self.policy.address
        server = iperf_server(target, address)
        before = self._caravan_s()
        argv = ["iperf3", "-c", address, "-p", str(IPERF_PORT), "-J", "-t", str(int(seconds))]
        done = client.run(argv, seconds + 30)
        caravan_s = self._caravan_s() - before
        took = server.wait(READY_S).check()
        told = json.loads(done.stdout)["end"]["sum_received"]
        return Spent(told["bytes"], told["seconds"], caravan_s, done.cpu_s + took.cpu_s)

    def _caravan_s(self) -> float:
        return sum(daemon.cpu_s() for daemon in self.daemons)

    def _programs_s(self) -> float:
        return sum(program.cpu_s() for program in self.programs)


def _argv(*words: object) -> list[str]:
    return [sys.executable, stream_end.__file__, *map(str, words)]


def _kernel(runs: Sequence[tuple[Spent, Processors]]) -> Iterator[Value]:
    """What the kernel took: in softirqs, whoever is charged with them; of that what its own threads
    are; and what this machine did besides, as softirqs on idle processors and all other programs.
    """
    for name, seconds in (
        ("softirq", [all_s.softirq_s for _, all_s in runs]),
        ("ksoftirqd", [all_s.threads_s for _, all_s in runs]),
        ("besides", [all_s.busy_s - all_s.threads_s - one.own_s for one, all_s in runs]),
    ):
        shares = [one.percent(took) for (one, _), took in zip(runs, seconds, strict=True)]
        yield mean(f"cpu_percent:{name}", shares)


def _cycles(spent: Sequence[Spent], clock_mhz: float) -> Iterator[Value]:
    """Nanoseconds times the clock of the time stamp counter, of one end."""
    each = clock_mhz * 1e6 / 2
    whole = [each * one.own_s / one.size_bytes for one in spent]
    yield mean("cycles_byte", whole)
    yield mean("cycles_byte:caravan", [each * one.caravan_s / one.size_bytes for one in spent])


def mean(metric: str, values: Sequence[float]) -> Value:
    """A mean, with its 95 % interval if there are several values."""
    middle = statistics.mean(values)
    if len(values) < 2:
        return Value(metric, middle)
    half = QUANTILES[len(values)] * statistics.stdev(values) / math.sqrt(len(values))
    return Value(metric, middle, max(0.0, middle - half), middle + half)


def median(metric: str, values: Sequence[float]) -> Value:
    """The median of runs, with its 95 % interval by the order of the values (binomial). Five of
    them have an interval of 94 %: from the least to the greatest; ten have one of 98 %, from the
    second to the last but one."""
    ordered = sorted(values)
    middle = statistics.median(ordered)
    if len(ordered) < 2:
        return Value(metric, middle)
    half = 1.96 * math.sqrt(len(ordered)) / 2
    low = max(0, math.floor(len(ordered) / 2 - half))
    return Value(metric, middle, ordered[low], ordered[-1 - low])


def tsc_mhz() -> float | None:
    """The clock of the time stamp counter. None if the processor has none that keeps its speed, or
    if the kernel tells another clock."""
    text = CPUINFO.read_text() if CPUINFO.exists() else ""
    lines = (line.partition(":") for line in text.splitlines())
    known = {key.strip(): value.strip() for key, _, value in lines}
    if "constant_tsc" not in known.get("flags", "").split() or CPUFREQ.exists():
        return None
    told = known.get("cpu MHz")
    return None if told is None else float(told)
