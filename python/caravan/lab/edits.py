"""Options of the command line as edits of a scenario."""

from __future__ import annotations

from dataclasses import dataclass

from caravan.lab.core import LabError, Question, find, scenario


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


def _station(name: str) -> str:
    """The name of the scenario's station."""
    return str(scenario(Question(name))["scenario"]["nodes"][0]["name"])
