"""The speed of the simulators: runs the crate's benches `tandem` and `kernel` and reads their
output.

Both use one thread, except the study's grid, which reports its number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from caravan.bench import benches

SCALAR = "Scalar"
WIDEST_X86 = "Avx512"
SHORT_HOURS, LONG_HOURS = 1, 10


@dataclass(frozen=True)
class TandemRow:
    """One way to compute the tandem; `roads` per stream, 0 for the plain recursions."""

    name: str
    instructions: str
    roads: int
    packets_per_s: float


@dataclass(frozen=True)
class Grid:
    """The whole grid of `studies/umts`."""

    points: int
    packets: int
    threads: int
    wall_s: float


@dataclass(frozen=True)
class Tandem:
    """The tandem simulator, instruction sets narrowest first."""

    rows: Sequence[TandemRow]
    grid: Grid

    def single(self) -> list[TandemRow]:
        """Our simulator with one path."""
        return [row for row in self.rows if row.roads == 1]

    def plain(self, instructions: str) -> TandemRow | None:
        """The plain recursion over `[f32; 16]`, compiled for an instruction set."""
        name = f"plain [f32; 16] {instructions}"
        return next((row for row in self.rows if row.name == name), None)


@dataclass(frozen=True)
class KernelRow:
    """Median and best rate of the event kernel; `fingerprint`: whether it hashed each event."""

    fingerprint: bool
    packets_per_s: float
    packets_per_s_max: float


@dataclass(frozen=True)
class KernelMemory:
    """The peak resident memory of a run of this many simulated hours."""

    hours: int
    packets: int
    peak_bytes: int


@dataclass(frozen=True)
class Kernel:
    """The event kernel."""

    stations: int
    rows: Sequence[KernelRow]
    memory: Sequence[KernelMemory]

    @property
    def growth(self) -> float:
        """Peak memory of the longest run over that of the shortest."""
        return self.memory[-1].peak_bytes / self.memory[0].peak_bytes


def tandem(program: Path, seconds: float) -> Tandem:
    """Rows of this many simulated seconds, then the grid."""
    rows = benches.run(program, "--json", "--seconds", str(seconds))
    return parse_tandem(rows, benches.run(program, "--json", "--grid"))


def parse_tandem(rows: dict[str, Any], grid: dict[str, Any]) -> Tandem:
    """Parse the output of the bench `tandem`."""
    return Tandem(tuple(TandemRow(**row) for row in rows["rows"]), Grid(**grid))


def kernel(program: Path, seconds: int) -> Kernel:
    """Rates over this many simulated seconds, then memory at two lengths."""
    rates = benches.run(program, "--json", "--seconds", str(seconds))
    lengths = (SHORT_HOURS, LONG_HOURS)
    return parse_kernel(rates, [benches.run(program, "--memory", str(each)) for each in lengths])


def parse_kernel(rates: dict[str, Any], memory: Sequence[dict[str, Any]]) -> Kernel:
    """Parse the output of the bench `kernel`."""
    return Kernel(
        int(rates["stations"]),
        tuple(KernelRow(**row) for row in rates["rows"]),
        tuple(KernelMemory(**each) for each in memory),
    )
