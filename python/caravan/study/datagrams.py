"""Datagrams and TCP between two hosts in closed form, as the native core has them (`_lab.hosts`):
what leaves for the wire, and whether wire or processor is full first."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Self

from caravan import _lab
from caravan.document import plain
from caravan.study.cells import canonical
from caravan.study.text import StudyError

INSIDE, OUTSIDE = "inside", "outside"
CLEAR = "none"

Text = Mapping[str, str]
"""A file of the catalogue: `name`, `file` and `text`."""


@dataclass(frozen=True)
class Wire:
    """The link between the hosts."""

    rate_bps: float
    overhead_bytes: float
    mtu_bytes: int


@dataclass(frozen=True)
class Sent:
    """An IP packet on its way: the packets that are protected, those on the wire, and what both
    ends compute; None: work takes no time."""

    clear: tuple[int, ...]
    wired: tuple[int, ...]
    seal_cycles: float | None
    open_cycles: float | None

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Self:
        """From the native core."""
        return cls(**{**answer, **{key: tuple(answer[key]) for key in ("clear", "wired")}})


@dataclass(frozen=True)
class Load:
    """What `data_bytes` of a program take on the wire, and of each processor.

    `largest_bytes`: of the IP packet that needs no fragment. `cycles`: of the sender. `processor_s`
    and what follows from it are of the busier end; None: work takes no time.
    """

    data_bytes: int
    wired: tuple[int, ...]
    largest_bytes: int
    wire_s: float
    cycles: float | None
    processor_s: float | None
    link_mbit_s: float
    cpu_mbit_s: float | None
    data_mbit_s: float
    cycles_byte: float | None
    cpu_percent: float | None

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Self:
        """From the native core."""
        return cls(**{**answer, "wired": tuple(answer["wired"])})


@dataclass(frozen=True)
class Hosts:
    """Two hosts of one device under one policy. None: no protection, or work that takes no time.

    `cuts`: whether a tunnel cuts packets `inside`, before it protects them, or `outside`.
    """

    policy: Text | None
    device: Text | None
    wire: Wire
    cuts: str = INSIDE

    def sent(self, packet: int) -> Sent:
        """What becomes of an IP packet."""
        return Sent.of(self._asked({"packet": packet}, None))

    def datagram(self, data: int, offered_mbit_s: float | None = None) -> Load:
        """A datagram with so much data; the rate is for `cpu_percent`."""
        return Load.of(self._asked({"datagram": data}, offered_mbit_s))

    def segment(self, offered_mbit_s: float | None = None) -> Load:
        """A full segment of TCP, and its share of an acknowledgement."""
        return Load.of(self._asked("segment", offered_mbit_s))

    def _asked(self, flow: Mapping[str, int] | str, offered: float | None) -> Mapping[str, Any]:
        request = {
            "policy": self.policy,
            "device": self.device,
            "wire": asdict(self.wire),
            "cuts": self.cuts,
            "flow": flow,
            "offered_mbit_s": offered,
        }
        return _answer(canonical(request))


@cache
def _answer(request: str) -> Mapping[str, Any]:
    try:
        answer: Mapping[str, Any] = json.loads(_lab.hosts(request))
    except _lab.Refusal as fault:
        raise StudyError.of(fault) from None
    return answer


def peak(rates: Mapping[int, float]) -> int:
    """The size with the highest rate, the smallest of several."""
    return max(sorted(rates), key=lambda size: rates[size])


def has_packets(device: Text) -> bool:
    """Whether a device has a cost per packet."""
    return "per_packet" in plain(device["file"], device["text"])
