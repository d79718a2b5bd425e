"""The advisor's answer as sentences and a short table, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from caravan.advice.choice import Advice, Miss, Option, gains, losses
from caravan.advice.costs import BYTES, DEVICE, GAP, SETUP, TIMED, Cost
from caravan.advice.question import ALSO, BUDGETS, CLEAR, shown
from caravan.advice.standings import UNJUDGED, Block, Verdict, standings
from caravan.lab.core import version
from caravan.numbers import significant

if TYPE_CHECKING:
    from rich.table import Table

ROWS = 8
"""Stacks that the table shows besides the answer."""
CHEAPER = 3
"""Cheaper stacks that are named with what is against them."""
LEAST_POINTS = 1e-3
"""A smaller difference in per cent of the bytes is none."""
RIGHT = ("bytes", "more", "rounds", "setup, ms", "gap, ms", "device, us")
FORBIDDEN = {"must-not": "must not be used", "should-not": "should not be used"}
MISSING = {
    "confidentiality": "who listens learns the data",
    "integrity": "changed packets are accepted",
}
"""What it means that a stack has not the properties that are always asked."""
LEAST = ">="
"""Marks an amount that is a lower bound."""


def heading(advice: Advice) -> str:
    """What was asked, of which scenario and day."""
    setting, asked = advice.setting, advice.asked
    limits = [f"{name} at most {shown(name, limit)}" for name, limit in asked.budgets.items()]
    days = f"As of {asked.as_of}, by the standings of {advice.revised}."
    if asked.as_of.isoformat() > advice.revised:
        days += " What was published later is not in them."
    words = ", ".join([*asked.must, *limits]) or "nothing"
    also = "".join(f" Also: {ALSO[word]}." for word in asked.also)
    return f"{setting.title} ({setting.name})\nAsked: {words}.{also}\n{days}"


LEGEND = (
    "bytes: a packet on the client's link; more: what packets and messages have more than the "
    "packets alone; rounds: how often the client waits before data; setup: until the first data "
    "may leave"
)


def below(advice: Advice, *, every: bool) -> Iterator[str]:
    """What the table means, and what it leaves out."""
    setting = advice.setting
    says = [LEGEND]
    says += ["gap: of the worst move"] if setting.moves else []
    says += ["device: the client's time for a packet"] if setting.device else []
    if advice.best or advice.nearest:
        says.append(f">: {'the answer' if advice.best else 'the nearest miss'}")
    yield "; ".join(says)
    if not setting.moves:
        yield "no column gap: the client does not move in this scenario"
    if not setting.device:
        yield "no column device: the scenario names no device of the client"
    inside = advice.options if every else rows(advice)
    if any(option.cost.least for option in inside):
        yield f"{LEAST}: at least; a part of the work or of the messages has no known cost"
    left = len(advice.options) - len(inside)
    if left:
        whole = len(advice.options)
        yield f"{left} of the {whole} stacks that apply are left out: --all shows them"


def table(advice: Advice, *, every: bool = False) -> Table:
    """The stacks that come into question, the cheapest first; or every one that applies."""
    from rich.table import Table  # noqa: PLC0415

    found = Table(box=None, pad_edge=False)
    columns = _columns(advice, every=every)
    for name in columns:
        is_right = name in RIGHT
        found.add_column(name, justify="right" if is_right else "left", no_wrap=True)
    for option in advice.options if every else rows(advice):
        cost = option.cost
        cells = {
            "": ">" if option in (advice.best, advice.nearest) else "",
            "stack": option.stack.name,
            "bytes": significant(cost.packet_bytes),
            "more": _marked(cost, BYTES, f"{significant(cost.share * 100, 3)} %"),
            "rounds": str(cost.setup_rounds),
            "setup, ms": _marked(cost, SETUP, _scaled(cost.setup_s, 1e3)),
            "gap, ms": _marked(cost, GAP, _scaled(cost.gap_s, 1e3)),
            "device, us": _marked(cost, DEVICE, _scaled(cost.device_s, 1e6)),
            "standing": option.standing or "not yet",
            "lacks": ", ".join(option.lacks),
            "misses": ", ".join(miss.budget for miss in option.misses),
        }
        found.add_row(*(cells[name] for name in columns))
    return found


def _columns(advice: Advice, *, every: bool) -> list[str]:
    """Those that have a meaning for the scenario."""
    absent = set() if advice.setting.moves else {"gap, ms"}
    absent |= set() if advice.setting.device else {"device, us"}
    absent |= set() if advice.asked.budgets else {"misses"}
    absent |= set() if every else {"lacks"}
    known = ("", "stack", *RIGHT, "standing", "lacks", "misses")
    return [name for name in known if name not in absent]


def rows(advice: Advice) -> list[Option]:
    """The answer, its neighbours, and the next dearer one."""
    chosen = [one for one in (advice.best, advice.next, advice.nearest) if one]
    close = [one for one in advice.options if one.standing and not one.lacks]
    others = [one for one in close if one not in chosen][:ROWS]
    return [one for one in advice.options if one in chosen or one in others]


def _marked(cost: Cost, budget: str, amount: str) -> str:
    """An amount, with a mark if it is a lower bound."""
    return f"{LEAST} {amount}" if budget in cost.least else amount


def _scaled(seconds: float | None, factor: float) -> str:
    return significant(None if seconds is None else seconds * factor)


def why_not(option: Option) -> Iterator[str]:
    """Each reason against a stack, in words."""
    for layer in option.early:
        yield f"{layer.title}: not before {layer.since}"
    for block, verdict in option.verdicts.items():
        if verdict is None:
            yield f"{block.title}: not yet defined"
        elif option.permits(verdict):
            continue
        elif verdict.word == UNJUDGED:
            yield f"{block.title} is judged by no standard (--also {UNJUDGED} lets it in)"
        else:
            yield f"{block.title} {FORBIDDEN[verdict.word]} ({cited(verdict)})"
    yield from _short_of(option)


def _short_of(option: Option) -> Iterator[str]:
    """What was asked and a stack has not, whatever its standing."""
    if option.lacks:
        yield f"no {', '.join(option.lacks)}"
    yield from (missed(miss, option.cost) for miss in option.misses)


def missed(miss: Miss, cost: Cost) -> str:
    """By how much a budget is not kept."""
    if miss.amount is None:
        return f"{miss.budget} is not known"
    over = shown(miss.budget, miss.amount - miss.limit)
    if over.endswith(" %"):
        over = points(over.removesuffix(" %"))
    least = "at least " if miss.budget in cost.least else ""
    return f"{miss.budget} {least}{shown(miss.budget, miss.amount)}, {over} too much"


def points(number: str) -> str:
    """A difference of two percentages."""
    return f"{number} point{'' if number == '1' else 's'}"


def cited(verdict: Verdict) -> str:
    """Document, section, and day or month; and whether only others have read it."""
    others = ", as cited by others" if verdict.as_cited else ""
    return f"{verdict.document}, {verdict.section}, {verdict.written}{others}"


def sentences(advice: Advice) -> Iterator[str]:
    """The answer, and what follows from it."""
    if advice.best is None:
        yield from _nothing(advice)
        return
    best, cost = advice.best, advice.best.cost
    fitting = sum(one.fits for one in advice.options)
    is_wide = UNJUDGED in advice.asked.also
    allowed = "allowed or unjudged" if is_wide else "allowed"
    which = f"the only stack that is {allowed}, has all that is asked and keeps every budget"
    if fitting > 1:
        which = (
            f"the cheapest of {fitting} stacks that are {allowed}, have all that is asked and "
            "keep every budget"
        )
    added = _least(cost, BYTES) + shown(BYTES, cost.share)
    yield f"Use {best.stack.title}: {which}. It adds {added} to the bytes on the client's link."
    yield f"It gives: {', '.join(best.gives) or 'nothing'}."
    yield from _unprotected(best)
    yield from _trusted(advice, best)
    timed = [name for name in advice.asked.budgets if name in cost.least]
    if timed:
        yield f"Its amounts are the least, so it may still miss: {', '.join(timed)}."
    known = [one for one in advice.options if one.standing and not one.lacks]
    for one in [one for one in known if one.rank < best.rank][:CHEAPER]:
        yield f"Cheaper, but not it: {one.stack.title}: {'; '.join(why_not(one))}."
    if advice.next is None:
        yield NO_NEXT
    else:
        yield _next(advice, best, advice.next)
    yield from (f"{block.title}: {spoken(verdict)}" for block, verdict in best.verdicts.items())
    yield from _left_out(advice, best)


NO_NEXT = (
    "No dearer stack that fits has another property, a better standing, or a gap, setup or time of "
    "the device that is known to be shorter by a tenth."
)


def _least(cost: Cost, budget: str) -> str:
    return "at least " if budget in cost.least else ""


def _unprotected(option: Option) -> Iterator[str]:
    """What stays open because the user did not ask for it."""
    open_to = [says for word, says in MISSING.items() if word not in option.gives]
    if open_to:
        yield f"It leaves data open: {', and '.join(open_to)}. You said --also {CLEAR}."


def _trusted(advice: Advice, option: Option) -> Iterator[str]:
    """What is taken as safe behind the end of the protection, and what in the scenario says so."""
    if not option.trusted:
        return
    links = f"{'link' if len(option.trusted) == 1 else 'links'} {', '.join(option.trusted)}"
    if advice.setting.has_gateway:
        yield f"It ends at the gateway: what lies behind that is trusted, {links}."
        return
    yield (
        "It protects the radio alone: what lies behind that is trusted, as the scenario has no "
        f"gateway and no router with ends_tunnels: {links}."
    )


NONE_ALLOWED = "Nothing fits: no stack that applies here is allowed on this day."


def _nothing(advice: Advice) -> Iterator[str]:
    nearest = advice.nearest
    if nearest is None:
        yield NONE_ALLOWED
        return
    what = f"The nearest miss is {nearest.stack.title}"
    if nearest.is_permitted:
        yield f"Nothing fits. {what}: {'; '.join(why_not(nearest))}."
    else:
        first = f"allowed from {nearest.permitted_after(advice.asked.as_of)} on"
        yield f"{NONE_ALLOWED} {what}: {'; '.join([first, *_short_of(nearest)])}."
        yield from _oldest(advice)
    wide = (replace(one, also=(*one.also, UNJUDGED)) for one in advice.options)
    unjudged = next((one for one in wide if one.fits), None)
    if unjudged is not None:
        yield (
            f"{unjudged.stack.title} would fit, but is judged by no standard: --also {UNJUDGED} "
            "lets it in."
        )
    yield from (f"{block.title}: {spoken(verdict)}" for block, verdict in nearest.verdicts.items())
    yield from _left_out(advice, nearest)


def _oldest(advice: Advice) -> Iterator[str]:
    """Since when standards say anything of what applies here, if the day is before that."""
    blocks = {block for option in advice.options for block in option.verdicts}
    days = (verdict.since for block in blocks for verdict in block.verdicts)
    first = min(days, default=advice.asked.as_of)
    if advice.asked.as_of < first:
        yield f"The oldest standing of what applies here is of {first}."


def _next(advice: Advice, best: Option, other: Option) -> str:
    more = gains(best, other, standings())
    words = [word for word in more if word in other.gives]
    for name in [name for name in TIMED if name in more]:
        own, its = (
            _least(cost, name) + shown(name, cost.time_s(name) or 0.0)
            for cost in (best.cost, other.cost)
        )
        what = "time of the device for a packet" if name == DEVICE else name
        words.append(f"a {what} of {its} instead of {own}")
    if "standing" in more:
        words.append(f"'{other.standing}' instead of '{best.standing}'")
    more_percent = (other.cost.share - best.cost.share) * 100
    is_dearer = more_percent > LEAST_POINTS
    number = significant(more_percent, 2)
    dearer = f"{points(number)} more" if is_dearer else "no more bytes"
    buy = "buys" if is_dearer and number == "1" else "buy"
    lost = losses(best, other)
    but = f", and give up {', '.join(lost)}" if lost else ""
    return f"The next dearer one is {other.stack.title}: {dearer} {buy} {', '.join(words)}{but}."


def spoken(verdict: Verdict | None) -> str:
    """A verdict with its source."""
    if verdict is None:
        return "not yet defined."
    note = f": {verdict.note}" if verdict.note else ""
    if verdict.word == UNJUDGED:
        return f"no standard judges it; it is described in {cited(verdict)}{note}."
    return f"{verdict.word} by {cited(verdict)}{note}."


def _left_out(advice: Advice, option: Option) -> Iterator[str]:
    """What the numbers of the answer leave out."""
    notes = list(option.cost.notes)
    if any(not place.link.is_wifi for place in advice.setting.places):
        notes.append("what the operator of a link that is no Wi-Fi adds is not counted")
    notes.append("nothing is lost, peers compute in no time, and the client notices a move at once")
    least = [name for name in (BYTES, SETUP, GAP, DEVICE) if name in option.cost.least]
    so = f" So these are at least what is said: {', '.join(least)}." if least else ""
    yield f"Not counted: {'; '.join(notes)}.{so}"


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
        "also": list(asked.also),
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
        "allowed_from": _allowed_from(advice),
        "doubts": list(setting.doubts),
        "stacks": [_option(one) for one in advice.options],
    }


def _allowed_from(advice: Advice) -> str | None:
    """From which day on the nearest miss is allowed; None if it is, or if there is none."""
    nearest = advice.nearest
    if nearest is None or nearest.is_permitted:
        return None
    first = nearest.permitted_after(advice.asked.as_of)
    return None if first is None else first.isoformat()


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
        "trusted": list(option.trusted),
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
        "least": sorted(cost.least),
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
        "as_cited": verdict.as_cited,
    }
