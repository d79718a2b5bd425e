"""The advisor: the cheapest stack that is allowed on a day, has all that is asked and keeps every
budget; what the next dearer one would buy; or which stack misses least.

Stacks are compared by the bytes on the client's link over the whole scenario, packets and
messages, then by gap, time of the setup, and time of the device. Left out: what a stack costs in
money or work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from caravan.advice.costs import TIMED, Cost, cost
from caravan.advice.question import Asked
from caravan.advice.setting import Setting, read
from caravan.advice.stacks import ACCESS, TRANSPORT, TUNNEL, Layer, Stack, stacks
from caravan.advice.standings import PERMITTED, VERDICTS, Block, Standings, Verdict, standings
from caravan.messages import Refused

SURVIVES = "survives-moves"
FAR = float("inf")
LESS = 0.9
"""A time that is worth naming is below this share of another."""
BARE = "wifi-open"
"""The layer that protects nothing; without Wi-Fi it stands for no layer at all."""


@dataclass(frozen=True)
class Miss:
    """A budget that a stack does not keep; `amount` None is not known."""

    budget: str
    limit: float
    amount: float | None

    @property
    def excess(self) -> tuple[float, float]:
        """How far above the limit, as a share of it; and the amount, which alone tells misses of
        the limit 0 apart."""
        if self.amount is None:
            return FAR, FAR
        return (self.amount / self.limit - 1 if self.limit else FAR), self.amount


@dataclass(frozen=True)
class Option:
    """A stack in the setting: its verdicts on the day, its properties, its cost, what it misses.

    `verdicts` are by block; None: the block did not exist yet. `early`: layers that did not exist
    yet, although each of their blocks may have. `also` are verdicts that the user tolerates.
    `trusted` are links on which nothing of the stack protects the data that it protects before.
    """

    stack: Stack
    verdicts: Mapping[Block, Verdict | None]
    gives: tuple[str, ...]
    cost: Cost
    lacks: tuple[str, ...]
    misses: tuple[Miss, ...]
    early: tuple[Layer, ...] = ()
    also: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()

    @property
    def standing(self) -> str:
        """The worst verdict of its blocks; empty if one of them or a layer did not exist yet."""
        found = self.verdicts.values()
        if self.early or any(verdict is None for verdict in found):
            return ""
        words = [verdict.word for verdict in found if verdict is not None]
        return min(words, key=VERDICTS.index, default=PERMITTED[0])

    @property
    def is_permitted(self) -> bool:
        """Whether every block may be used on the day."""
        return not self.early and all(map(self.permits, self.verdicts.values()))

    def permitted_after(self, day: date) -> date | None:
        """The first day after this one on which every block may be used."""
        blocks, layers = self.stack.blocks, self.stack.layers
        days = {verdict.since for block in blocks for verdict in block.verdicts}
        days |= {one.since for one in layers if one.since is not None}

        def is_permitted(on: date) -> bool:
            is_there = all(one.exists_on(on) for one in layers)
            return is_there and all(self.permits(block.on(on)) for block in blocks)

        return next((on for on in sorted(days) if on > day and is_permitted(on)), None)

    def permits(self, verdict: Verdict | None) -> bool:
        """Whether a block with this verdict may be used."""
        return verdict is not None and (verdict.is_permitted or verdict.word in self.also)

    @property
    def fits(self) -> bool:
        """Whether it is allowed, has all that was asked and keeps every budget."""
        return self.is_permitted and not self.lacks and not self.misses

    @property
    def rank(self) -> tuple[float, float, float, float, str]:
        """Its place: cheaper stacks are smaller."""
        cost = self.cost
        return (
            round(cost.share, 9),
            FAR if cost.gap_s is None else cost.gap_s,
            FAR if cost.setup_s is None else cost.setup_s,
            FAR if cost.device_s is None else cost.device_s,
            self.stack.name,
        )


@dataclass(frozen=True)
class Advice:
    """The answer. `best` is None if nothing fits; then `nearest` misses least, or is allowed first
    if nothing is allowed on the day. `next` is the next dearer stack that fits and has something
    that `best` has not."""

    setting: Setting
    asked: Asked
    revised: str
    options: tuple[Option, ...]
    """Every stack that applies, the cheapest first."""
    best: Option | None
    next: Option | None
    nearest: Option | None


def advise(scenario: str, asked: Asked) -> Advice:
    """The answer for a scenario, by path or name."""
    setting = read(scenario)
    if "gap" in asked.budgets and not setting.moves:
        raise Refused(f"--budget: gap: {setting.name} has no move")
    if "device" in asked.budgets and setting.device is None:
        raise Refused(f"--budget: device: {setting.name} names no device of its client")
    known = standings()
    found = [_option(stack, setting, asked) for stack in applying(stacks(), setting)]
    options = tuple(sorted(found, key=lambda one: one.rank))
    fitting = [one for one in options if one.fits]
    best = fitting[0] if fitting else None
    return Advice(
        setting,
        asked,
        known.revised.isoformat(),
        options,
        best,
        next((one for one in fitting[1:] if best and gains(best, one, known)), None),
        None if best else _nearest(options) or _soonest(options, asked.as_of),
    )


def applying(all_stacks: Sequence[Stack], setting: Setting) -> tuple[Stack, ...]:
    """The stacks for a setting, each once: without access layers where no link is Wi-Fi, and
    without stacks that need a gateway where there is none."""
    has_wifi = any(place.link.is_wifi for place in setting.places)
    found = []
    for stack in all_stacks:
        if not setting.has_gateway and any(one.at == TUNNEL for one in stack.layers):
            continue
        kept = tuple(one for one in stack.layers if has_wifi or one.at != ACCESS)
        is_bare = [one.name for one in stack.layers] == [BARE]
        if kept or is_bare:
            found.append(Stack(kept))
    return tuple(dict.fromkeys(found))


def _option(stack: Stack, setting: Setting, asked: Asked) -> Option:
    gives = properties(stack, setting)
    found = cost(stack, setting)
    return Option(
        stack=stack,
        verdicts={block: block.on(asked.as_of) for block in stack.blocks},
        gives=gives,
        cost=found,
        lacks=tuple(word for word in asked.must if word not in gives),
        misses=tuple(_misses(found, setting, asked.budgets)),
        early=tuple(one for one in stack.layers if not one.exists_on(asked.as_of)),
        also=asked.also,
        trusted=trusted(stack, setting),
    )


def properties(stack: Stack, setting: Setting) -> tuple[str, ...]:
    """The properties of a stack, in the order of the table, over all that lies open.

    A scenario with a gateway says that the network up to it is not trusted: access layers protect
    the radio alone and do not count. Without a gateway they count, if every link is Wi-Fi.
    """
    layers = _counting(stack, setting)
    words = {word for layer in layers for block in layer.blocks for word in block.gives}
    if setting.moves and setting.keeps_addresses:
        words.add(SURVIVES)
    return tuple(word for word in standings().properties if word in words)


def _counting(stack: Stack, setting: Setting) -> list[Layer]:
    """The layers that protect all that lies open."""
    is_open = setting.has_gateway or not setting.is_all_wifi
    return [one for one in stack.layers if one.at != ACCESS or not is_open]


def trusted(stack: Stack, setting: Setting) -> tuple[str, ...]:
    """The links behind the end of the protection, at any place of the client: without a gateway
    those behind the radio. Empty if it reaches the server, or if nothing protects data."""
    ends = [one.at for one in _counting(stack, setting) if one.protects_data]
    if not ends or TRANSPORT in ends:
        return ()
    is_tunnel = TUNNEL in ends
    found = (
        link.name
        for place in setting.places
        for link in (*(() if is_tunnel else place.gateway), *place.beyond)
    )
    return tuple(dict.fromkeys(found))


def _misses(cost: Cost, setting: Setting, budgets: Mapping[str, float]) -> Sequence[Miss]:
    amounts = {
        "bytes": cost.share,
        "gap": cost.gap_s if setting.moves else 0.0,
        "setup": cost.setup_s,
        "rounds": float(cost.setup_rounds),
        "messages": cost.setup_bytes,
        "device": cost.device_s,
    }
    found = [Miss(name, limit, amounts[name]) for name, limit in budgets.items()]
    return [one for one in found if one.amount is None or one.amount > one.limit]


def gains(best: Option, other: Option, known: Standings) -> list[str]:
    """What a dearer stack has that the best has not: properties, then shorter times.

    A time of which only the least is known is not known to be shorter than any other.
    """
    more = [word for word in known.properties if word in other.gives and word not in best.gives]
    for name in TIMED:
        own, its = best.cost.time_s(name), other.cost.time_s(name)
        is_less = own is not None and its is not None and its < LESS * own
        if is_less and name not in other.cost.least:
            more.append(name)
    if VERDICTS.index(other.standing) > VERDICTS.index(best.standing):
        more.append("standing")
    return more


def losses(best: Option, other: Option) -> list[str]:
    """The properties of the best that the other has not."""
    return [word for word in best.gives if word not in other.gives]


def _nearest(options: Sequence[Option]) -> Option | None:
    """The allowed stack that misses least: the fewest properties, then the smallest excess."""
    allowed = [one for one in options if one.is_permitted]
    return min(
        allowed,
        key=lambda one: (
            len(one.lacks),
            max((miss.excess for miss in one.misses), default=(0.0, 0.0)),
            one.rank,
        ),
        default=None,
    )


def _soonest(options: Sequence[Option], day: date) -> Option | None:
    """The stack that is allowed first after a day on which none is: of those with the fewest
    properties missing."""
    later = [(one.permitted_after(day) or date.max, one) for one in options]
    found = [(len(one.lacks), first, one.rank, one) for first, one in later if first < date.max]
    return min(found, key=lambda each: each[:3], default=(0, day, (), None))[-1]
