"""Datagrams and TCP between two hosts in closed form: what leaves for the wire, and whether wire or
processor is full first.

The native core knows the size and the cost of a packet (`_lab.sizes`, `_lab.price`); here is what
happens to one that is too large. A tunnel of Caravan cuts it before it protects it, another
gateway may protect it and cut the result, and transport mode always does that (RFC 4303 §3.3.4).
Left out: Ethernet's least frame, and everything that queues.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from caravan import _lab
from caravan.document import plain
from caravan.study.cells import canonical

IP_BYTES, UDP_BYTES = 20, 8
TCP_BYTES = 32
"""With the option of time stamps (RFC 7323), which Linux has had since 2.2."""
SEGMENTS_AN_ACK = 2
"""RFC 1122 §4.2.3.2."""
FRAGMENT_UNIT = 8
"""RFC 791 §3.1."""
TRANSPORT = "transport"
INSIDE, OUTSIDE = "inside", "outside"
CLEAR = "none"

Text = Mapping[str, str]
"""A file of the catalogue: `file` and `text`."""


@dataclass(frozen=True)
class Wire:
    """The link between the hosts."""

    rate_bps: float
    overhead_bytes: float
    mtu_bytes: int

    def seconds(self, packets: Sequence[int]) -> float:
        """The time that IP packets of these sizes take."""
        return sum(size + self.overhead_bytes for size in packets) * 8 / self.rate_bps


@dataclass(frozen=True)
class Hosts:
    """Two hosts of one device under one policy. None: no protection, or work that takes no time.

    `cuts`: whether a tunnel cuts packets `inside`, before it protects them, or `outside`.
    """

    policy: Text | None
    device: Text | None
    wire: Wire
    cuts: str = INSIDE

    @property
    def largest(self) -> int:
        """The largest IP packet that needs no fragment."""
        sizes = range(IP_BYTES, self.wire.mtu_bytes + 1)
        wired = self._wired(tuple(sizes))
        return max(one for one, size in zip(sizes, wired, strict=True) if self._fits(size))

    def sent(self, packet: int) -> Sent:
        """What becomes of an IP packet."""
        cuts_outside = self.policy is not None and (
            self.cuts == OUTSIDE or _mode(self.policy) == TRANSPORT
        )
        if packet <= self.largest:
            return Sent((packet,), self._wired((packet,)))
        if cuts_outside:
            (whole,) = self._wired((packet,))
            return Sent((packet,), tuple(fragments(whole, self.wire.mtu_bytes)))
        pieces = tuple(fragments(packet, self.largest))
        return Sent(pieces, self._wired(pieces))

    def cycles(self, sent: Sent, direction: str) -> float | None:
        """What a host computes for it; None without a device. What a packet costs whatever its size
        is paid for every packet on the wire."""
        if self.device is None:
            return None
        each = per_packet(self.device)
        if self.policy is None:
            return each * len(sent.wired)
        whole = sum(price(self.device, self.policy, one, direction) for one in sent.clear)
        return whole + each * (len(sent.wired) - len(sent.clear))

    def _fits(self, size: int) -> bool:
        return size <= self.wire.mtu_bytes

    def _wired(self, clear: tuple[int, ...]) -> tuple[int, ...]:
        return clear if self.policy is None else wired(canonical(self.policy), clear)


@dataclass(frozen=True)
class Sent:
    """An IP packet on its way: the packets that are protected, and those on the wire."""

    clear: tuple[int, ...]
    wired: tuple[int, ...]


@dataclass(frozen=True)
class Load:
    """What `data_bytes` of a program take on the wire, and of each processor, in seconds.

    `cycles`: of the sender. No processor time: None.
    """

    data_bytes: int
    wired: tuple[int, ...]
    wire_s: float
    cycles: float | None
    processor_s: float | None

    @property
    def link_mbit_s(self) -> float:
        """What the wire carries."""
        return self.data_bytes * 8e-6 / self.wire_s

    @property
    def cpu_mbit_s(self) -> float | None:
        """What the processor carries; None: it takes no time."""
        return self.data_bytes * 8e-6 / self.processor_s if self.processor_s else None

    @property
    def data_mbit_s(self) -> float:
        """What both carry."""
        return min(self.link_mbit_s, self.cpu_mbit_s or self.link_mbit_s)

    def share(self, mbit_s: float) -> float | None:
        """The share of the processor at this rate, in percent."""
        return None if self.cpu_mbit_s is None else 100 * mbit_s / self.cpu_mbit_s


def of_datagram(hosts: Hosts, data: int) -> Load:
    """A datagram with so much data."""
    sent = hosts.sent(IP_BYTES + UDP_BYTES + data)
    return _load(hosts, data, sent.wired, [(sent, "seal", 1.0)], [(sent, "open", 1.0)])


def of_segment(hosts: Hosts) -> Load:
    """A full segment of TCP, and its share of an acknowledgement."""
    headers = IP_BYTES + TCP_BYTES
    segment, ack = hosts.sent(hosts.largest), hosts.sent(headers)
    share = 1 / SEGMENTS_AN_ACK
    return _load(
        hosts,
        hosts.largest - headers,
        segment.wired,
        [(segment, "seal", 1.0), (ack, "open", share)],
        [(segment, "open", 1.0), (ack, "seal", share)],
    )


Task = tuple[Sent, str, float]


def _load(
    hosts: Hosts, data: int, wired: tuple[int, ...], sender: list[Task], receiver: list[Task]
) -> Load:
    ends = [_cycles(hosts, tasks) for tasks in (sender, receiver)]
    cycles = [one for one in ends if one is not None]
    seconds = None
    if hosts.device is not None and cycles:
        seconds = max(cycles) / (clock_mhz(hosts.device) * 1e6)
    return Load(data, wired, hosts.wire.seconds(wired), ends[0], seconds)


def _cycles(hosts: Hosts, tasks: Sequence[Task]) -> float | None:
    found = [(hosts.cycles(sent, direction), share) for sent, direction, share in tasks]
    return None if hosts.device is None else sum((one or 0.0) * share for one, share in found)


def fragments(packet: int, mtu: int) -> Iterator[int]:
    """The sizes of the fragments of an IPv4 packet (RFC 791 §3.2)."""
    room = mtu - IP_BYTES
    payload, unit = packet - IP_BYTES, room // FRAGMENT_UNIT * FRAGMENT_UNIT
    while payload > room:
        yield IP_BYTES + unit
        payload -= unit
    yield IP_BYTES + payload


def peak(rates: Mapping[int, float]) -> int:
    """The size with the highest rate, the smallest of several."""
    return max(sorted(rates), key=lambda size: rates[size])


@cache
def wired(policy: str, clear: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes of clear IP packets on the wire."""
    request = {**json.loads(policy), "accounting": "rfc", "bytes": list(clear)}
    request.pop("name", None)
    return tuple(int(size) for size in json.loads(_lab.sizes(canonical(request)))["wire_bytes"])


def price(device: Text, policy: Text, clear: int, direction: str) -> float:
    """The cycles of a packet."""
    return _price(canonical(device), canonical(policy), clear, direction)


@cache
def _price(device: str, policy: str, clear: int, direction: str) -> float:
    own, protection = json.loads(device), json.loads(policy)
    request = {
        "file": own["file"],
        "text": own["text"],
        "suite": {"file": protection["file"], "text": protection["text"]},
        "bytes": clear,
        "direction": direction,
    }
    return float(json.loads(_lab.price(canonical(request)))["cycles"])


def per_packet(device: Text) -> float:
    """The cycles of a packet whatever its bytes, and without protection; 0 if no source gives
    them."""
    return _values(device).get("per_packet", {"value": 0.0})["value"]


def has_packets(device: Text) -> bool:
    """Whether a device has a cost per packet."""
    return "per_packet" in _values(device)


def clock_mhz(device: Text) -> float:
    """Its clock."""
    return float(_values(device)["clock_mhz"]["value"])


def _mode(policy: Text) -> str:
    return str(plain(policy["file"], policy["text"]).get("mode", "tunnel"))


def _values(device: Text) -> Mapping[str, Mapping[str, float]]:
    values: Mapping[str, Mapping[str, float]] = plain(device["file"], device["text"])
    return values
