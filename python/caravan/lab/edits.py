"""Options of the command line as edits of a scenario."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from caravan.files import Entry
from caravan.lab.core import LabError, Question, find, one_speed, positive, scenario


@dataclass(frozen=True)
class Choice:
    """The short options; None keeps the scenario's value. Rates in kbit/s, times in h."""

    suite: str | None = None
    rate_kbps: float | None = None
    mips: float | None = None
    mhz: float | None = None
    device: str | None = None
    hours: float | None = None
    replications: int | None = None
    seed: int | None = None


def question(name: str, choice: Choice, edits: tuple[str, ...]) -> tuple[Question, dict[str, str]]:
    """The scenario `name` with the short options applied, and then `edits`, which take precedence.

    Also returns which option has set each key, because errors name it.
    """
    positive(rate_kbps=choice.rate_kbps, mips=choice.mips, mhz=choice.mhz, hours=choice.hours)
    one_speed(choice.mips, choice.mhz)
    device = None if choice.device is None else find("device", choice.device)
    settings = list(_settings(name, choice, device))
    options = {edit.partition("=")[0]: option for option, edit in settings}
    for edit in edits:
        options.pop(edit.partition("=")[0].strip(), None)
    extra = () if device is None else (device,)
    return Question(name, (*(edit for _, edit in settings), *edits), extra), options


def _settings(name: str, choice: Choice, device: Entry | None) -> Iterator[tuple[str, str]]:
    """Options and the edits that they stand for."""
    station = ""
    if device is not None or choice.mips is not None or choice.mhz is not None:
        station = f"node.{_station(name)}"
    if device is not None:
        yield "--device", f'{station}.device="{device.name}"'
        # The clock of one device says nothing about another device.
        yield "--device", f"{station}.mips="
        yield "--device", f"{station}.clock="
    if choice.mips is not None:
        yield "--mips", f"{station}.mips={choice.mips!r}"
        yield "--mips", f"{station}.clock="
    if choice.mhz is not None:
        yield "--mhz", f"{station}.clock={choice.mhz!r} MHz"
        yield "--mhz", f"{station}.mips="
    if choice.suite is not None:
        yield "--suite", f'policy="{choice.suite}"'
    if choice.rate_kbps is not None:
        yield "--rate-kbps", f"traffic.rate={choice.rate_kbps!r} kbit/s"
    if choice.hours is not None:
        yield "--hours", f"run.time={choice.hours!r} h"
    if choice.replications is not None:
        yield "--replications", f"run.replications={choice.replications}"
    if choice.seed is not None:
        yield "--seed", f"seed={choice.seed}"


def in_options(fault: LabError, options: Mapping[str, str]) -> LabError:
    """An edit's error with the name of the option that made the edit."""
    place = fault.place
    option = options.get(place.key) if place is not None and place.is_edit else None
    return LabError(f"{option}: {fault.what}") if option else fault


def _station(name: str) -> str:
    """The name of the scenario's client."""
    return str(scenario(Question(name))["scenario"]["nodes"][0]["name"])
