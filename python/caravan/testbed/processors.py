"""What the processors of this machine have done so far, whoever is charged with it.

A process is charged with the interrupts and softirqs that come while it runs, so the kernel's work
for a network is in the time of processes, as far as one of them sends or receives meanwhile. What
comes while a processor is idle, as the timer of a token bucket, is in nobody's; the threads
`ksoftirqd` have it if there is much of it. Left out: which device a softirq worked for, which the
kernel does not count.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Self

STAT = Path("/proc/stat")
IDLE, IOWAIT, SOFTIRQ, STEAL = 3, 4, 6, 7
"""Columns of `/proc/stat` behind the name of a processor: proc_stat(5)."""
KSOFTIRQD = "ksoftirqd/"


@dataclass(frozen=True)
class Processors:
    """Seconds of all processors together.

    `busy_s`: all but idle ones, and what the hypervisor took. `softirq_s`: in softirqs, charged to
    whomever, by the samples of the kernel's tick. `threads_s`: of the threads `ksoftirqd`, 0 where
    they cannot be seen.
    """

    busy_s: float
    softirq_s: float
    threads_s: float

    @classmethod
    def now(cls) -> Self:
        """Up to this moment; only differences mean something."""
        return cls.of(STAT.read_text(), time.monotonic(), sum(map(_clock_s, _threads())))

    @classmethod
    def of(cls, stat: str, now_s: float, threads_s: float) -> Self:
        """From the text of `/proc/stat`."""
        whole, *each = (line.split()[1:] for line in stat.splitlines() if line.startswith("cpu"))
        ticks = [int(value) for value in whole]
        hertz = os.sysconf("SC_CLK_TCK")
        # Times of work are samples, that of idling is measured.
        not_busy = ticks[IDLE] + ticks[IOWAIT] + ticks[STEAL]
        return cls(len(each) * now_s - not_busy / hertz, ticks[SOFTIRQ] / hertz, threads_s)

    def __sub__(self, earlier: Processors) -> Processors:
        return Processors(
            self.busy_s - earlier.busy_s,
            self.softirq_s - earlier.softirq_s,
            self.threads_s - earlier.threads_s,
        )


@cache
def _threads() -> tuple[int, ...]:
    """The threads `ksoftirqd`, one for each processor."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if (entry / "comm").read_text().startswith(KSOFTIRQD):
                    found.append(int(entry.name))
    return tuple(found)


def _clock_s(pid: int) -> float:
    """Its time by the kernel's clock id of a process: clock_getcpuclockid(3)."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0
