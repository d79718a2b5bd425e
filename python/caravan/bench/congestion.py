"""TCP's congestion control: the machine's own, and one beside it that does not pace.

BBR paces by its own estimate of the road, so a rate under it tells of that estimate as much as of
the tunnel. CUBIC (RFC 9438), and Reno (RFC 5681) likewise, only fill the window where nothing is
lost. Left out: any change to the machine's settings.

iperf3 chooses for a socket that is connected already. What began under BBR stays paced by a timer
of the kernel's whatever is chosen then, at half the rate of a plain veth: so the namespaces that
are measured begin under `UNPACED`.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PREFERRED = ("cubic", "reno")
UNPACED = "reno"
"""The one that every kernel has and every namespace may have."""
SETTING = "net.ipv4.tcp_congestion_control"
"""A namespace's own, by sysctl."""
DEFAULT = Path("/proc/sys") / SETTING.replace(".", "/")


@dataclass(frozen=True)
class Congestion:
    """What flows are measured under: the machine's own, and beside it one that only fills the
    window; none where the machine's own is that one."""

    own: str
    beside: str | None


def choose() -> Congestion:
    """What flows may use here: in the network, and with the rights, of whoever calls."""
    return preferred(DEFAULT.read_text().strip(), is_accepted)


def preferred(own: str, accepts: Callable[[str], bool]) -> Congestion:
    """The first of those preferred that a flow is let have, beside the machine's own."""
    first = next((name for name in PREFERRED if accepts(name)), own)
    return Congestion(own, first if first != own else None)


def is_accepted(name: str) -> bool:
    """Whether the kernel lets a socket of ours have it: asked by trying, which alone tells."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as flow:
        try:
            flow.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        except OSError:
            return False
    return True
