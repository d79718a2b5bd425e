"""TCP's congestion control: the machine's own, and another one that does not pace.

BBR paces by its own estimate of the path, so a rate under BBR reflects that estimate as much as the
tunnel. CUBIC (RFC 9438) and Reno (RFC 5681) only fill the window when nothing is lost. Left out:
any change to the machine's settings.

iperf3 sets the congestion control on a connected socket. A socket that started with BBR stays paced
by a kernel timer, at half the rate of a plain veth. So the measured namespaces start with
`UNPACED`.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PREFERRED = ("cubic", "reno")
UNPACED = "reno"
"""The one that every kernel has and every namespace may use."""
SETTING = "net.ipv4.tcp_congestion_control"
"""The namespace's own, by sysctl."""
DEFAULT = Path("/proc/sys") / SETTING.replace(".", "/")


@dataclass(frozen=True)
class Congestion:
    """The congestion controls of the measured flows: the machine's own, and one that only fills the
    window; None if the machine's own is that one."""

    own: str
    beside: str | None


def choose() -> Congestion:
    """The controls that flows may use in the caller's network, with the caller's rights."""
    return preferred(DEFAULT.read_text().strip(), is_accepted)


def preferred(own: str, accepts: Callable[[str], bool]) -> Congestion:
    """The first preferred control that a flow may use, besides the machine's own."""
    first = next((name for name in PREFERRED if accepts(name)), own)
    return Congestion(own, first if first != own else None)


def is_accepted(name: str) -> bool:
    """Whether the kernel permits it for our sockets, found by trying."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as flow:
        try:
            flow.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        except OSError:
            return False
    return True
