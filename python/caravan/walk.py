"""A node walks out of its company's network under a download, and comes back: Fig. 1 of Gupta and
Montenegro (1998) in namespaces, with the program's own firewall, home agent and mobile node."""

from __future__ import annotations

import bisect
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from caravan.testbed.capture import Capture
from caravan.testbed.mobile_ip import MOBILE, Settings
from caravan.testbed.mvpn import (
    CORRESPONDENT,
    HOME,
    HOTEL,
    VISITED,
    Move,
    Mvpn,
    all_roles,
    data_frames,
    gaps,
    walk,
)
from caravan.testbed.traffic import endless_download

WAY = (VISITED, HOTEL, HOME)
STAY_S = 1.5
WORDS = {
    HOME.bridge: "at home",
    VISITED.bridge: "outside",
    HOTEL.bridge: "behind a NAT",
}


@dataclass(frozen=True)
class Visit:
    """A stay at one place: what came there, and for how long nothing came because of the move to
    it (the gap; none where the walk begins)."""

    place: str
    since_s: float
    gap_s: float | None
    received_bytes: int


@dataclass(frozen=True)
class Walked:
    """A walk: its visits, and what the node had received by when, in seconds since the first
    octet and octets; frames on the node's link are counted."""

    visits: Sequence[Visit]
    received: Sequence[tuple[float, int]]


def go(output: Path) -> Walked:
    """Walk from home to each place of `WAY` under one download; raises if it ends, or if the node
    needs another address for it. Captures and logs go to `output`."""
    udp = {"udp": True}
    with (
        Mvpn(output) as network,
        all_roles(network, wall=Settings(udp), through=udp) as roles,
        Capture(network.ms, "eth0", output / "node") as heard,
        endless_download(network.ms, network.cn1, CORRESPONDENT) as download,
    ):
        time.sleep(STAY_S)
        moves = []
        for place in WAY:
            moves.append(walk(network, roles.ms, place))
            download.wait_for_more()
            time.sleep(STAY_S)
        addresses = download.local_addresses()
        heard.stop()
        if addresses != {MOBILE}:
            raise RuntimeError(f"the download is from {addresses}, not from {MOBILE} alone")
        own = network.ms.hardware_address("eth0")
        frames = heard.frames()
        data = [(frame.time_s, len(frame.data)) for frame in data_frames(frames, own)]
        return told(data, moves, [gap.seconds for gap in gaps(moves, frames, own)])


def told(
    data: Sequence[tuple[float, int]],
    moves: Sequence[Move],
    silences_s: Sequence[float],
) -> Walked:
    """A walk from its data frames (time and octets), moves and gaps."""
    began = data[0][0]
    times = [at - began for at, _ in data]
    sums = [0, *accumulate(octets for _, octets in data)]
    starts = [0.0, *(move.time_s - began for move in moves)]
    counts = [sums[bisect.bisect_left(times, at)] for at in starts] + [sums[-1]]
    places = [HOME, *(move.to for move in moves)]
    visits = [
        Visit(WORDS[place.bridge], since, gap, after - before)
        for place, since, gap, before, after in zip(
            places, starts, [None, *silences_s], counts[:-1], counts[1:], strict=True
        )
    ]
    return Walked(visits, list(zip(times, sums[1:], strict=True)))
