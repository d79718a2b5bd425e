"""The lab as a library: what a policy costs on a device, over a link, for some traffic.

    >>> from caravan import lab
    >>> lab.price("paper-u", "3des-md5", 480, mips=100)["time_ms"]
    >>> lab.simulate(lab.Question("scenarios/umts.toml", ("policy=des",)), replications=4)

Names are paths, or names in the package's catalogue. Left out: studies (`caravan.study`) and
everything that uses this machine's network (`caravan.testbed`).
"""

from __future__ import annotations

from caravan.lab.core import (
    LabError,
    Question,
    kernel,
    listing,
    model,
    price,
    scenario,
    version,
)
from caravan.lab.simulation import simulate

__all__ = [
    "LabError",
    "Question",
    "kernel",
    "listing",
    "model",
    "price",
    "scenario",
    "simulate",
    "version",
]
