"""The advisor's answer as sentences and a short table, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from caravan.advice.choice import Advice, Miss, Option, gains, losses
from caravan.advice.costs import Cost
from caravan.advice.question import BUDGETS, shown
from caravan.advice.standings import Block, Verdict, standings
from caravan.lab.core import version
from caravan.numbers import significant

if TYPE_CHECKING:
    from rich.table import Table

ROWS = 8
"""Stacks that the table shows besides the answer."""
TIMED = ("gap", "setup", "device")
"""Budgets that depend on what a device computes."""
CHEAPER = 3
"""Cheaper stacks that are named with what is against them."""
LEAST_POINTS = 1e-3
"""A smaller difference in per cent of the bytes is none."""
RIGHT = ("bytes", "more", "rounds", "setup, ms", "gap, ms", "device, us")
FORBIDDEN = {"must-not": "must not be used", "should-not": "should not be used"}


def heading(advice: Advice) -> str:
    """What was asked, of which scenario and day."""
    setting, asked = advice.setting, advice.asked
    limits = [f"{name} at most {shown(name, limit)}" for name, limit in asked.budgets.items()]
    days = f"As of {asked.as_of}, by the standings of {advice.revised}."
    if asked.as_of.isoformat() > advice.revised:
        days += " What was published later is not in them."
    return f"{setting.title} ({setting.name})\nAsked: {', '.join([*asked.must, *limits])}.\n{days}"


LEGEND = (
    "bytes: a packet on the client's link; more: what packets and messages have more than the "
    "packets alone; setup: until the first data may leave; gap: of the worst move"
)


def table(advice: Advice) -> Table:
    """The stacks that come into question, the cheapest first."""
    from rich.table import Table  # noqa: PLC0415

    found = Table(box=None, pad_edge=False)
    columns = _columns(advice)
    for name in columns:
        is_right = name in RIGHT
        found.add_column(name, justify="right" if is_right else "left", no_wrap=name != "why not")
    for option in rows(advice):
        cost = option.cost
        cells = {
            "": ">" if option in (advice.best, advice.nearest) else "",
            "stack": option.stack.name,
            "bytes": significant(cost.packet_bytes),
            "more": f"{significant(cost.share * 100, 3)} %",
            "rounds": str(cost.setup_rounds),
            "setup, ms": _scaled(cost.setup_s, 1e3),
            "gap, ms": _scaled(cost.gap_s, 1e3),
            "device, us": _scaled(cost.device_s, 1e6),
            "standing": option.standing or "not yet",
            "misses": ", ".join(miss.budget for miss in option.misses),
        }
        found.add_row(*(cells[name] for name in columns))
    return found


def _columns(advice: Advice) -> list[str]:
    """Those that have a meaning for the scenario."""
    absent = set() if advice.setting.moves else {"gap, ms"}
    absent |= set() if advice.setting.device else {"device, us"}
    absent |= set() if advice.asked.budgets else {"misses"}
    every = ("", "stack", *RIGHT, "standing", "misses")
    return [name for name in every if name not in absent]


def rows(advice: Advice) -> list[Option]:
    """The answer, its neighbours, and the next dearer one; the rest is in the JSON."""
    chosen = [one for one in (advice.best, advice.next, advice.nearest) if one]
    close = [one for one in advice.options if one.standing and not one.lacks]
    others = [one for one in close if one not in chosen][:ROWS]
    return [one for one in advice.options if one in chosen or one in others]


def _scaled(seconds: float | None, factor: float) -> str:
    return significant(None if seconds is None else seconds * factor)


def why_not(option: Option) -> Iterator[str]:
    """Each reason against a stack, in words."""
    for layer in option.early:
        yield f"{layer.title}: not before {layer.since}"
    for block, verdict in option.verdicts.items():
        if verdict is None:
            yield f"{block.title}: not yet defined"
        elif not verdict.is_permitted:
            yield f"{block.title} {FORBIDDEN[verdict.word]} ({cited(verdict)})"
    if option.lacks:
        yield f"no {', '.join(option.lacks)}"
    yield from (missed(miss) for miss in option.misses)


def missed(miss: Miss) -> str:
    """By how much a budget is not kept."""
    if miss.amount is None:
        return f"{miss.budget} is not known"
    over = shown(miss.budget, miss.amount - miss.limit)
    if over.endswith(" %"):
        over = over.removesuffix("%") + "points"
    return f"{miss.budget} {shown(miss.budget, miss.amount)}, {over} too much"


def cited(verdict: Verdict) -> str:
    """Document, section, and day or month."""
    return f"{verdict.document}, {verdict.section}, {verdict.written}"


def sentences(advice: Advice) -> Iterator[str]:
    """The answer, and what follows from it."""
    if advice.best is None:
        yield from _nothing(advice)
        return
    best, cost = advice.best, advice.best.cost
    fitting = sum(one.fits for one in advice.options)
    which = "the only stack that is allowed, has all that is asked and keeps every budget"
    if fitting > 1:
        which = (
            f"the cheapest of {fitting} stacks that are allowed, have all that is asked and keep "
            "every budget"
        )
    added = shown("bytes", cost.share)
    yield f"Use {best.stack.title}: {which}. It adds {added} to the bytes on the client's link."
    yield f"It gives: {', '.join(best.gives) or 'nothing'}."
    timed = [name for name in advice.asked.budgets if name in TIMED]
    if cost.is_lower_bound and timed:
        yield f"Its times are the least, so it may still miss: {', '.join(timed)}."
    known = [one for one in advice.options if one.standing and not one.lacks]
    for one in [one for one in known if one.rank < best.rank][:CHEAPER]:
        yield f"Cheaper, but not it: {one.stack.title}: {'; '.join(why_not(one))}."
    if advice.next is None:
        yield "No dearer stack that fits buys anything more."
    else:
        yield _next(advice, best, advice.next)
    yield from (f"{block.title}: {spoken(verdict)}" for block, verdict in best.verdicts.items())
    yield from _left_out(advice, best)


def _nothing(advice: Advice) -> Iterator[str]:
    nearest = advice.nearest
    if nearest is None:
        yield "Nothing fits: no stack that applies here is allowed on this day."
        return
    yield (
        f"Nothing fits. The nearest miss is {nearest.stack.title}: {'; '.join(why_not(nearest))}."
    )
    yield from (f"{block.title}: {spoken(verdict)}" for block, verdict in nearest.verdicts.items())
    yield from _left_out(advice, nearest)


def _next(advice: Advice, best: Option, other: Option) -> str:
    more = gains(best, other, standings())
    words = [word for word in more if word in other.gives]
    if "gap" in more and best.cost.gap_s is not None and other.cost.gap_s is not None:
        words.append(
            f"a gap of {shown('gap', other.cost.gap_s)} instead of {shown('gap', best.cost.gap_s)}"
        )
    if "setup" in more and best.cost.setup_s is not None and other.cost.setup_s is not None:
        own, its = shown("setup", best.cost.setup_s), shown("setup", other.cost.setup_s)
        words.append(f"a setup of {its} instead of {own}")
    if "standing" in more:
        words.append(f"'{other.standing}' instead of '{best.standing}'")
    points = (other.cost.share - best.cost.share) * 100
    dearer = f"{significant(points, 2)} points more" if points > LEAST_POINTS else "no more bytes"
    lost = losses(best, other)
    but = f", and give up {', '.join(lost)}" if lost else ""
    return f"The next dearer one is {other.stack.title}: {dearer} buy {', '.join(words)}{but}."


def spoken(verdict: Verdict | None) -> str:
    """A verdict with its source."""
    if verdict is None:
        return "not yet defined."
    note = f": {verdict.note}" if verdict.note else ""
    return f"{verdict.word} by {cited(verdict)}{note}."


def _left_out(advice: Advice, option: Option) -> Iterator[str]:
    """What the numbers of the answer leave out."""
    notes = list(option.cost.notes)
    if any(not place.link.is_wifi for place in advice.setting.places):
        notes.append("what the operator of a link that is no Wi-Fi adds is not counted")
    notes.append("nothing is lost, peers compute in no time, and the client notices a move at once")
    yield f"Not counted: {'; '.join(notes)}."


def as_json(advice: Advice) -> dict[str, Any]:
    """The whole answer for programs: times in ms, shares of 1."""
    asked, setting = advice.asked, advice.setting
    best, other = advice.best, advice.next
    return {
        "as_of": asked.as_of.isoformat(),
        "standings_revised": advice.revised,
        "scenario": setting.name,
        "scenario_hash": setting.hash,
        "version": version(),
        "must": list(asked.must),
        "budget": {name: _amount(name, limit) for name, limit in asked.budgets.items()},
        "answer": None if best is None else best.stack.name,
        "next": None
        if best is None or other is None
        else {
            "stack": other.stack.name,
            "buys": gains(best, other, standings()),
            "gives_up": losses(best, other),
        },
        "nearest": None if advice.nearest is None else advice.nearest.stack.name,
        "stacks": [_option(one) for one in advice.options],
    }


def _amount(name: str, amount: float | None) -> float | None:
    is_time = amount is not None and "ms" in BUDGETS[name].units
    return amount * 1e3 if is_time and amount is not None else amount


def _option(option: Option) -> dict[str, Any]:
    return {
        "stack": option.stack.name,
        "title": option.stack.title,
        "fits": option.fits,
        "standing": option.standing or None,
        "gives": list(option.gives),
        "lacks": list(option.lacks),
        "misses": [
            {
                "budget": miss.budget,
                "limit": _amount(miss.budget, miss.limit),
                "amount": _amount(miss.budget, miss.amount),
            }
            for miss in option.misses
        ],
        "cost": _cost(option.cost),
        "verdicts": [_verdict(block, verdict) for block, verdict in option.verdicts.items()],
    }


def _cost(cost: Cost) -> dict[str, Any]:
    return {
        "packet_bytes": cost.packet_bytes,
        "more": cost.share,
        "setup_rounds": cost.setup_rounds,
        "setup_bytes": cost.setup_bytes,
        "setup_ms": _amount("setup", cost.setup_s),
        "move_bytes": cost.move_bytes,
        "gap_ms": _amount("gap", cost.gap_s),
        "device_ms": _amount("device", cost.device_s),
        "lower_bound": cost.is_lower_bound,
        "notes": list(cost.notes),
    }


def _verdict(block: Block, verdict: Verdict | None) -> dict[str, Any]:
    found = {"block": block.name, "verdict": None, "claims": block.claims}
    if verdict is None:
        return found
    return {
        **found,
        "verdict": verdict.word,
        "document": verdict.document,
        "section": verdict.section,
        "from": verdict.written,
        "note": verdict.note,
    }
