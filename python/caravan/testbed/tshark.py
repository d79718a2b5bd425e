"""What tshark reads in a capture: a reader of Mobile IP that is not ours. It does not know SKIP."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

TIMEOUT_S = 120
FIELDS = (
    "ip.src",
    "ip.dst",
    "ip.proto",
    "mip.type",
    "mip.homeaddr",
    "mip.haaddr",
    "mip.coa",
    "_ws.expert.message",
)


@dataclass(frozen=True)
class Reading:
    """A frame: sources, destinations and protocol numbers of its IP headers, the outermost first,
    and what a message of Mobile IP says, with all that tshark finds wrong with the frame."""

    sources: tuple[str, ...]
    destinations: tuple[str, ...]
    protocols: tuple[int, ...]
    mobile_ip_type: int | None
    home: str | None
    home_agent: str | None
    care_of: str | None
    faults: str

    @property
    def layers(self) -> tuple[tuple[str, str], ...]:
        """Source and destination of each header."""
        return tuple(zip(self.sources, self.destinations, strict=True))


def read(path: Path, wanted: str) -> list[Reading]:
    """The frames of a capture that fit a display filter."""
    argv = ["tshark", "-n", "-r", str(path), "-Y", wanted, "-T", "fields"]
    argv += [word for field in FIELDS for word in ("-e", field)]
    done = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=TIMEOUT_S)
    return [_reading(line) for line in done.stdout.splitlines()]


def _reading(line: str) -> Reading:
    source, destination, protocol, kind, home, agent, care_of, faults = line.split("\t")
    return Reading(
        tuple(source.split(",")),
        tuple(destination.split(",")),
        tuple(map(int, protocol.split(","))),
        int(kind) if kind else None,
        home or None,
        agent or None,
        care_of or None,
        faults,
    )
