"""A link with rate, delay, loss and queue: `caravan link` between two veth ends.

The relay forwards Ethernet frames in user space, so the links at its sides must deliver them as on
a wire: with complete checksums, and no frame above the MTU.
"""

from __future__ import annotations

import array
import fcntl
import itertools
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from caravan.testbed.binary import caravan_binary
from caravan.testbed.errors import NamespaceError
from caravan.testbed.host import Host
from caravan.testbed.process import CommandFailed

READY_S = 10.0
SIOCETHTOOL = 0x8946
ETHTOOL_OFF = {"tx-checksum": 0x17, "tso": 0x1F, "gso": 0x24, "gro": 0x2C}
"""Commands of ethtool(8) that set one offload, from linux/ethtool.h."""


@dataclass(frozen=True)
class LinkConfig:
    """The link's properties; rates as `2mbit`, one-way delays as `50ms`, loss from 0 to 1.

    `rate_back`: from right to left, if it differs. `queue`: what may wait in front of it, packets
    as `100` or bytes as `64kb`. `trace`: Mahimahi's format, one delivery opportunity of 1500 bytes
    per line, in ms; it replaces the rate. `overhead`: bytes that the link adds to each datagram.
    `reorder`: the share of datagrams that others overtake, from 0 to 1. `access_time`: what the
    medium takes for each datagram besides its bytes, as `810us`. `is_half_duplex`: both directions
    share it. `has_all_frames`: ARP, EAPOL and all others without IP are charged too.
    """

    rate: str | None = None
    rate_back: str | None = None
    delay: str | None = None
    loss: float = 0.0
    queue: str | None = None
    trace: Path | None = None
    overhead: int = 0
    reorder: float = 0.0
    access_time: str | None = None
    is_half_duplex: bool = False
    has_all_frames: bool = False

    @classmethod
    def of(cls, link: Mapping[str, Any]) -> Self:
        """Of a link as the native core lists it (`_lab.listing`); without its loss and queue."""
        rate, access_s = link["rate"], link.get("access_s", 0.0)
        return cls(
            rate=f"{rate['up_bps']:.0f}bit",
            rate_back=f"{rate['down_bps']:.0f}bit",
            delay=f"{link['delay_s'] * 1e9:.0f}ns",
            overhead=int(link["overhead_bytes"]),
            access_time=f"{access_s * 1e9:.0f}ns" if access_s else None,
            is_half_duplex=link.get("is_half_duplex", False),
        )

    def arguments(self) -> list[str]:
        """The options of `caravan link`."""
        options: list[str] = []
        if self.rate is not None:
            options += ["--rate", self.rate]
        if self.rate_back is not None:
            options += ["--rate-back", self.rate_back]
        if self.delay is not None:
            options += ["--delay", self.delay]
        if self.loss > 0:
            options += ["--loss", str(self.loss)]
        if self.queue is not None:
            options += ["--queue", self.queue]
        if self.trace is not None:
            options += ["--trace", str(self.trace)]
        if self.overhead > 0:
            options += ["--overhead", str(self.overhead)]
        if self.reorder > 0:
            options += ["--reorder", str(self.reorder)]
        if self.access_time is not None:
            options += ["--access-time", self.access_time]
        if self.is_half_duplex:
            options += ["--half-duplex"]
        if self.has_all_frames:
            options += ["--all-frames"]
        return options


@dataclass(frozen=True)
class Late:
    """A frame that left a relay: when, in seconds since the epoch, how much later than it was due,
    how long others had the medium before it, and the Ethernet addresses that it is from and for."""

    left_s: float
    late_s: float
    waited_s: float
    source: str
    destination: str


class Relay:
    """A running `caravan link` in a namespace with nothing else.

    `has_lateness`: it notes how late each frame leaves.
    """

    def __init__(
        self,
        host: Host,
        config: LinkConfig,
        left: str,
        right: str,
        *,
        has_lateness: bool = False,
    ) -> None:
        self.host = host
        self._changes = 0
        for interface in (left, right):
            software_checksums(host, interface)
        argv = [str(caravan_binary()), "link", "--control", "--left", left, "--right", right]
        # In memory: a relay that waits for a disk would be late by that.
        self._lateness = Path("/run") / f"{host.namespace}-late" if has_lateness else None
        if self._lateness is not None:
            self._lateness.unlink(missing_ok=True)
            argv += ["--late", str(self._lateness)]
        self.process = host.popen([*argv, *config.arguments()], name="link", is_told=True)
        wanted = {host.index(left), host.index(right)}
        self.process.wait_for(lambda: wanted <= bound_interfaces(host), "relay", READY_S)

    def change(self, words: str) -> None:
        """Change the running link, in words such as `rate=1mbit delay=80ms` or `up=false`.

        The relay reads it in its own time; `settle` waits until it has.
        """
        self.process.tell(words)
        self._changes += 1

    def settle(self) -> None:
        """Wait until all changes are made; `NamespaceError` if one was refused, or it has ended."""
        self.process.wait_for(lambda: len(self._answers()) >= self._changes, "change", READY_S)
        if not self.process.is_running():
            raise CommandFailed(self.process.stop())
        refused = [answer for answer in self._answers() if answer != "ok"]
        if refused:
            raise NamespaceError("; ".join(refused))

    def late(self) -> list[Late]:
        """The frames that have left since `forget_late`, in that order."""
        if self._lateness is None:
            return []
        lines = self._lateness.read_text().splitlines(keepends=True)
        # The last line may be incomplete.
        return sorted((_late(line) for line in lines if line.endswith("\n")), key=_left)

    def forget_late(self) -> None:
        """Forget the frames that have left so far."""
        if self._lateness is not None:
            os.truncate(self._lateness, 0)

    def _answers(self) -> list[str]:
        return [line for line in self.process.stdout().splitlines() if not line.startswith("{")]


def lateness_s(frames: Sequence[Late], station: str, began_s: float, ended_s: float) -> float:
    """How much of a time a relay took by being late, in which a station and whoever it talks to
    wait for each other: of frames in a row from one side the other waits for the last. What two of
    them are late at once counts once, so it is never more than the time."""
    own = [
        one
        for one in frames
        if station in (one.source, one.destination) and began_s < one.left_s <= ended_s
    ]
    last = [one for one, other in itertools.pairwise(own) if one.source != other.source]
    total_s, covered_s = 0.0, ended_s
    # What left later covers all from when it was due until then.
    for one in reversed([*last, *own[-1:]]):
        due_s = max(one.left_s - one.late_s, began_s)
        if due_s < covered_s:
            total_s += min(one.left_s, covered_s) - due_s
            covered_s = due_s
    return total_s


def waited_s(frames: Sequence[Late], station: str, since_s: float) -> float:
    """How long others had the medium before the first frame that a station sent after a moment."""
    own = (one.waited_s for one in frames if one.source == station and one.left_s > since_s)
    return next(own, 0.0)


def _late(line: str) -> Late:
    due, late_ns, waited_ns, source, destination = line.split()
    late_s = int(late_ns) / 1e9
    return Late(float(due) + late_s, late_s, int(waited_ns) / 1e9, source, destination)


def _left(one: Late) -> float:
    return one.left_s


def bound_interfaces(host: Host) -> set[int]:
    """Indices of the interfaces that packet sockets of a host are bound to."""
    with host.entered():
        lines = Path("/proc/thread-self/net/packet").read_text().splitlines()[1:]
    return {int(line.split()[4]) for line in lines}


def software_checksums(host: Host, interface: str) -> None:
    """Make an interface send frames as on a wire: no partial checksum, no frame above the MTU."""
    with host.entered():
        control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with control:
        for command in ETHTOOL_OFF.values():
            value = bytearray(struct.pack("II", command, 0))
            _ethtool(control, interface, value)


def _ethtool(control: socket.socket, interface: str, value: bytearray) -> None:
    buffer = array.array("B", value)
    address, _ = buffer.buffer_info()
    request = struct.pack("16sP", interface.encode(), address)
    # `struct ifreq` is 40 bytes on 64-bit machines.
    fcntl.ioctl(control, SIOCETHTOOL, request.ljust(40, b"\0"))
