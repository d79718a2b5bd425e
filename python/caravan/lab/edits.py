"""Options of the command line as edits of a scenario."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from caravan.lab.core import LabError, Question, find, finite, scenario

KERNEL_ALONE = ("loss", "reorder", "queue", "mtu", "trace")
"""Keys of a link that the tandem cannot follow."""


@dataclass(frozen=True)
class Choice:
    """What the short options say; None leaves the scenario's own. Rates in kbit/s, times in h."""

    suite: str | None = None
    rate_kbps: float | None = None
    mips: float | None = None
    mhz: float | None = None
    device: str | None = None
    hours: float | None = None
    replications: int | None = None
    seed: int | None = None


def question(name: str, choice: Choice, edits: tuple[str, ...]) -> Question:
    """The scenario `name` with the short options set, and then `edits`, which win."""
    finite(rate_kbps=choice.rate_kbps, mips=choice.mips, mhz=choice.mhz, hours=choice.hours)
    extra = []
    settings: list[str] = []
    if choice.mips is not None and choice.mhz is not None:
        raise LabError("--mips and --mhz: a device counts operations or cycles, give one")
    station = ""
    if choice.device is not None or choice.mips is not None or choice.mhz is not None:
        station = f"node.{_station(name)}"
    if choice.device is not None:
        device = find("device", choice.device)
        extra.append(device)
        # The clock of another device says nothing of this one.
        settings += [f'{station}.device="{device.name}"', f"{station}.mips=", f"{station}.clock="]
    if choice.mips is not None:
        settings += [f"{station}.mips={choice.mips!r}", f"{station}.clock="]
    if choice.mhz is not None:
        settings += [f"{station}.clock={choice.mhz!r} MHz", f"{station}.mips="]
    if choice.suite is not None:
        settings.append(f'policy="{choice.suite}"')
    if choice.rate_kbps is not None:
        settings.append(f"traffic.rate={choice.rate_kbps!r} kbit/s")
    if choice.hours is not None:
        settings.append(f"run.time={choice.hours!r} h")
    if choice.replications is not None:
        settings.append(f"run.replications={choice.replications}")
    if choice.seed is not None:
        settings.append(f"seed={choice.seed}")
    return Question(name, (*settings, *edits), tuple(extra))


def check_tandem(resolved: Mapping[str, Any], edits: Sequence[str]) -> None:
    """Refuse what the tandem would leave out without a word.

    Loss, reordering and queues wherever they stand; an MTU and a trace where `edits` set them: a
    catalogue's link may have an MTU that no packet reaches, and a trace file states its mean rate.
    """
    for edit in edits:
        path, _, value = edit.partition("=")
        head, _, key = path.strip().rpartition(".")
        if head.startswith("link.") and key in KERNEL_ALONE and value.strip() not in ("", "0"):
            raise _no_tandem(path.strip(), key)
    for link in resolved["links"]:
        for key, name in (("loss", "loss"), ("reorder", "reorder"), ("queue_bytes", "queue")):
            if link[key]:
                raise _no_tandem(f'link "{link["link"]}": {name}', name)


def _no_tandem(place: str, key: str) -> LabError:
    return LabError(
        f"{place}: the tandem has no {key}: add --events for the event kernel, which has it"
    )


def _station(name: str) -> str:
    """The name of the scenario's station."""
    return str(scenario(Question(name))["scenario"]["nodes"][0]["name"])
