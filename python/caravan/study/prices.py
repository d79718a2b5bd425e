"""What the parts of an authentication take of this machine, measured in sweeps of their own, and
computed times with it: rounds times round trip, and work.

The sweeps that `prices` names have the arrivals of single policies over an air of their own, in the
testbed and computed: what the testbed takes more is the work of all programs there, those at the
ends of links among them. Over an air that takes no time it would be less than it is elsewhere: a
processor that has slept for a frame wakes up later. A part costs the same under every policy that
has it in the same form, so policies of several layers, and all over another air, are predicted. A
cell that was disturbed is outvoted where three or more have a part: their median counts. EAP that
yields the keys of a link cipher is a form of its own. Left out: the work of TLS between the ends of
a flow, which only the testbed has.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from caravan import _lab
from caravan.document import plain
from caravan.study.metrics import LOWER
from caravan.study.parsed import LEVELS, WIRELESS, Study, Sweep
from caravan.study.resolve import Files
from caravan.study.results import Row
from caravan.study.text import Value
from caravan.study.wireless import NODE

TOTAL = "authentication_s"
COMPUTING = "computing_s"
APART = "apart_percent"
"""What a computed part has more than the measured one, in percent of that."""
PRICING, TESTBED = LEVELS[0], LEVELS[2]
"""What the testbed takes more than the first of these is work."""

KEYLESS = "eap-md5"
"""The method of EAP that yields no keys (RFC 3748 §5.4)."""
Key = tuple[str, ...]


@dataclass(frozen=True)
class _Price:
    value: float
    half: float


class Told:
    """What the files of a study say of policies and scenarios."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._catalogue = files.entries()
        self._away: dict[str, bool] = {}

    def access(self, policy: str) -> tuple[str, str]:
        """The exchanges of a policy's access, empty without them, and the link cipher that has
        their keys."""
        text = self._files.text("policy", policy)
        layers = plain(text["file"], text["text"]).get("layer", [])
        method = str(next((one["method"] for one in layers if one["kind"] == "access"), ""))
        ciphers = (str(one["cipher"]) for one in layers if one["kind"] == "link-cipher")
        cipher = next(ciphers, "")
        return method, cipher if method and KEYLESS not in method else ""

    def is_away(self, scenario: str) -> bool:
        """Whether the node begins away from home."""
        from caravan.testbed.dot1x.scenarios import is_away  # noqa: PLC0415

        if scenario not in self._away:
            file, text = self._files.scenario(scenario)
            asked = {"file": file, "text": text, "set": [], "catalogue": self._catalogue}
            found = json.loads(_lab.Scenario(json.dumps(asked)).resolved())
            names = [node["name"] for node in found["scenario"]["nodes"]]
            self._away[scenario] = is_away(found, names.index(NODE))
        return self._away[scenario]


def priced(study: Study, rows: Sequence[Row]) -> list[Row]:
    """The rows, with the work of this machine in computed times of sweeps with `prices`, and what
    these then have more than the testbed. Without prices such times are the least, whether this
    run has not measured them or the sweep names none."""
    naming = {
        one.name: one
        for one in study.sweeps
        if one.measure == WIRELESS and "prices" in one.settings
    }
    idle = {
        one.name
        for one in study.sweeps
        if one.measure == WIRELESS and one.name not in naming and "device" not in one.grid
    }
    told = Told(Files.of(study))
    prices = {name: _prices(study, one, rows, told) for name, one in naming.items()}
    found = []
    for row in rows:
        sweep = naming.get(row.sweep)
        if row.level == TESTBED or row.metric.partition(":")[0] != TOTAL:
            found.append(row)
        elif sweep is None:
            found.append(replace(row, bound=LOWER) if row.sweep in idle and row.value else row)
        elif row.metric != TOTAL:
            price = prices[sweep.name].get(key(row, _settings(sweep, row.reading), told))
            found += _part(row, price)
    return found + _totals(found, naming) + _apart(found, naming)


def key(row: Row, settings: Mapping[str, Value], told: Told) -> Key:
    """What the work of a row's part depends on."""
    part = row.metric.partition(":")[2]
    is_away = told.is_away(str(settings["scenario"]))
    place = "away" if is_away else "at home"
    if part == "ike":
        return (part, place, str(settings["proof"]), str(settings["group"]))
    if part == "registration":
        return (part, place)
    if part == "start":  # the identity, whatever the method
        return (part,)
    return (part, *told.access(str(row.policy)))


def _prices(study: Study, sweep: Sweep, rows: Sequence[Row], told: Told) -> dict[Key, _Price]:
    """The work of each part that takes some, measured less computed."""
    own = {name: study.sweep(name) for name in sweep.priced_by}
    computed = {
        (*_place(row), row.metric): row.value or 0.0
        for row in rows
        if row.sweep in own and row.level == PRICING
    }
    found: dict[Key, list[_Price]] = {}
    for row in rows:
        is_part = row.level == TESTBED and row.metric.startswith(f"{TOTAL}:")
        rounds_s = computed.get((*_place(row), row.metric))
        if row.sweep in own and is_part and row.value and rounds_s is not None:
            ends = (row.ci95_low, row.ci95_high)
            half = max(0.0 if end is None else abs(end - row.value) for end in ends)
            price = _Price(row.value - rounds_s, half)
            found.setdefault(key(row, _settings(own[row.sweep], row.reading), told), []).append(
                price
            )
    return {one: _middle(prices) for one, prices in found.items()}


def _middle(prices: Sequence[_Price]) -> _Price:
    """The price in the middle, of an even number the mean of the two there: an arrival that it is
    to predict has been disturbed as often."""
    ordered = sorted(prices, key=lambda one: one.value)
    two = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return _Price(median(one.value for one in two), max(one.half for one in two))


def _settings(sweep: Sweep, reading: str) -> Mapping[str, Value]:
    from caravan.testbed.dot1x.ipsec import GROUPS  # noqa: PLC0415

    known: dict[str, Value] = {"proof": "psk", "group": GROUPS[-1], **sweep.settings}
    for one in sweep.readings:
        if one.name == reading:
            known |= one.settings
    return known


def _part(row: Row, price: _Price | None) -> list[Row]:
    if not row.value:
        return [row]  # the policy has no such part
    if price is None:
        return [replace(row, bound=LOWER)]
    whole = row.value + price.value
    low, high = max(0.0, whole - price.half), whole + price.half
    own = replace(row, value=whole, ci95_low=low, ci95_high=high)
    name = row.metric.partition(":")[2]
    return [
        own,
        replace(
            own,
            metric=f"{COMPUTING}:{name}",
            value=price.value,
            ci95_low=price.value - price.half,
            ci95_high=price.value + price.half,
        ),
    ]


def _place(row: Row) -> tuple[object, ...]:
    return (row.sweep, row.reading, row.policy, row.link)


def _totals(rows: Sequence[Row], naming: Mapping[str, Sweep]) -> list[Row]:
    """The sums of computed parts."""
    parts: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        is_part = row.metric.startswith(f"{TOTAL}:")
        if is_part and row.sweep in naming and row.level != TESTBED:
            parts.setdefault((*_place(row), row.level), []).append(row)
    found = []
    for group in parts.values():
        value = sum(row.value or 0.0 for row in group)
        halves = [row.ci95_high - (row.value or 0.0) for row in group if row.ci95_high is not None]
        half = sum(one**2 for one in halves) ** 0.5
        found.append(
            replace(
                group[0],
                metric=TOTAL,
                value=value,
                ci95_low=value - half if halves else None,
                ci95_high=value + half if halves else None,
                bound=LOWER if any(row.bound for row in group) else "",
            )
        )
    return found


def _apart(rows: Sequence[Row], naming: Mapping[str, Sweep]) -> list[Row]:
    """How far computed parts, and their sum, are from the measured ones."""
    there = {
        (*_place(row), row.metric): row.value
        for row in rows
        if row.level == TESTBED and row.sweep in naming
    }
    found = []
    for row in [*rows, *_totals(rows, naming)]:
        if row.sweep not in naming or row.level == TESTBED or row.bound or not row.value:
            continue
        name, _, part = row.metric.partition(":")
        measured = there.get((*_place(row), row.metric))
        if name == TOTAL and measured:
            found.append(
                replace(
                    row,
                    metric=f"{APART}:{part or 'all'}",
                    unit="%",
                    value=100 * (row.value / measured - 1),
                    ci95_low=None,
                    ci95_high=None,
                )
            )
    return found
