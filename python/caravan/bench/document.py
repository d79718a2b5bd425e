"""BENCHMARKS.md: the tables of the last whole run between two markers, and their origin."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from caravan.bench.congestion import Congestion
from caravan.testbed.binary import caravan_binary
from caravan.testbed.processors import Processors

BEGIN = "<!-- measured: begin -->"
END = "<!-- measured: end -->"
LOOKS_S = 3.0
"""How long we look at what else runs."""


@dataclass(frozen=True)
class Machine:
    """When and where figures were measured, and the versions of all programs.

    `congestion`: TCP's, the same for all systems. `load`: how many processors other programs
    used before the measurements; our own builds are over by then.
    """

    processor: str
    cores: int
    kernel: str
    congestion: Congestion
    load: float
    date: str
    versions: dict[str, str]


def in_use() -> float:
    """How many processors are busy while we do nothing."""
    before = Processors.now()
    time.sleep(LOOKS_S)
    return (Processors.now() - before).busy_s / LOOKS_S


def this_machine(peers: Path, congestion: Congestion) -> Machine:
    """This one, while we do nothing; `peers` is where `tools/bench-peers` builds."""
    versions = {"caravan": said([str(caravan_binary()), "--version"])}
    versions |= {
        name: path.read_text().strip()
        for name in ("wireguard-go", "boringtun")
        if (path := peers / f"{name}.version").is_file()
    }
    pki = shutil.which("pki")
    if pki is not None:
        versions["strongSwan"] = said([pki, "--help"])
    versions["iperf3"] = said(["iperf3", "--version"])
    return Machine(
        processor_name(Path("/proc/cpuinfo").read_text()),
        os.cpu_count() or 1,
        platform.release(),
        congestion,
        in_use(),
        datetime.now(UTC).strftime("%Y-%m-%d"),
        versions,
    )


def processor_name(cpuinfo: str) -> str:
    """The processor's name, or the architecture's if the kernel reports none."""
    found = re.search(r"^model name\s*: (.+)$", cpuinfo, re.MULTILINE)
    return found[1].strip() if found else platform.machine()


def said(argv: list[str]) -> str:
    """The version in the first line of a program's output."""
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=10
    )
    return version_in(done.stdout or done.stderr)


def version_in(text: str) -> str:
    """The first word that looks like a version, otherwise the first line."""
    first = text.partition("\n")[0].strip()
    found = re.search(r"\b[vU]?(\d+\.\d\S*)", first)
    return found[1].rstrip(",;)") if found else first


def busy(load: float, cores: int) -> str:
    """A sentence if programs of others wanted half of the processors when a measurement began."""
    if load < cores / 2:
        return ""
    return f"Other programs kept the machine busy: load {load:.1f}."


def provenance(machine: Machine) -> str:
    """One paragraph."""
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    warning = busy(machine.load, machine.cores)
    congestion = f"{machine.congestion.own} (the machine's own)"
    if machine.congestion.beside is not None:
        congestion += f" and {machine.congestion.beside}"
    return (
        f"Measured on {machine.date}: {machine.processor}, {machine.cores} cores, "
        f"Linux {machine.kernel}, TCP {congestion}.{warning and ' ' + warning}\n{versions}."
    )


def rewrite(path: Path, measured: str) -> None:
    """Replace the text between the document's markers; `ValueError` if they are missing."""
    path.write_text(replaced(path.read_text(), measured))


def replaced(document: str, measured: str) -> str:
    """The document with another text between its markers."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document lacks {BEGIN} or {END}")
    return f"{before}{BEGIN}\n{measured.strip()}\n{END}{after}"
