"""The answer of `ask`: as tables for people, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from caravan.lab.ask import Answer, AskRequest, Verdict, order
from caravan.lab.columns import show, standing, table
from caravan.lab.core import version
from caravan.lab.handshakes import Exchange
from caravan.numbers import significant

if TYPE_CHECKING:
    from rich.console import Console

CARRIED_STYLE = {"yes": "green", "barely": "yellow", "no": "red"}


def verdicts(console: Console, asked: AskRequest, answer: Answer) -> None:
    """Policies by rank, each with its reason; then the key exchanges of IKE."""
    console.print(f"{asked.device} over {asked.link}; {order(asked.rank)}", markup=False)
    found = answer.verdicts
    handshake = ("rounds", "handshake, bytes", "handshake, ms")
    right = ("delay, ms", "95 %, ms", "kbit/s", "at most", "bytes", *handshake)
    shown = table("policy", "carried", "standing", *right, right=right)
    priced = [one for one in found if one.carried != "unknown"]
    for one in priced:
        style = CARRIED_STYLE[one.carried]
        shown.add_row(
            one.policy,
            f"[{style}]{one.carried}[/]",
            _standing_of(one),
            significant(one.delay_ms),
            _between(one.p95_between_ms),
            significant(one.throughput_kbps),
            significant(one.capacity_kbps),
            "-" if one.expansion is None else f"x {one.expansion:.3f}",
            *_handshake(one),
        )
    show(console, shown)
    _exchanges(console, answer.exchanges)
    for assumption in answer.assumptions:
        console.print(f"Assumed: {assumption}", markup=False)
    for caveat in answer.caveats:
        console.print(f"Caveat: {caveat}", markup=False)
    for one in priced:
        keys = f"; {one.handshake_why}" if one.rounds is None and one.handshake_why else ""
        console.print(f"{one.policy}: {one.why}{keys}", markup=False)
    for one in found:
        if one.carried == "unknown":
            console.print(f"{one.policy}: {one.why}", markup=False, style="dim")


def _handshake(one: Verdict) -> tuple[str, str, str]:
    if one.rounds is None:
        return "-", "-", "-"
    time_ms = _least(one.handshake_ms, one.handshake_is_least)
    return str(one.rounds), f"{one.handshake_bytes:,.0f}", time_ms


def _least(time_ms: float | None, is_least: bool) -> str:
    return f">= {significant(time_ms)}" if is_least else significant(time_ms)


def _exchanges(console: Console, found: Sequence[Exchange]) -> None:
    """What brings a tunnel up, and what keeps it at a new address."""
    right = ("rounds", "messages", "bytes", "ms")
    parts = (("key exchange", False), ("at a new address", True))
    for heading, is_move in parts:
        shown = table(heading, *right, "what it is", right=right)
        for one in found:
            if one.is_move != is_move:
                continue
            taken = one.handshake
            time_ms = taken.gap_ms if is_move else taken.send_ms
            counts = (str(taken.rounds), str(taken.messages), f"{taken.bytes:,.0f}")
            shown.add_row(one.name, *counts, _least(time_ms, bool(taken.least)), one.title)
        show(console, shown)


def _between(ends: tuple[float, float] | None) -> str:
    """A percentile: a number if it is exact enough, otherwise a range."""
    if ends is None:
        return "-"
    low, high = (significant(end) for end in ends)
    return low if low == high else f"{low} to {high}"


def _standing_of(one: Verdict) -> str:
    """The standing of a verdict's algorithms, and of its key exchange."""
    said = standing(one.standing, is_forbidden=one.is_forbidden)
    if not one.encrypts and one.standing != "clear":
        said += ", not encrypted"
    return said if one.exchange is None else f"{said}; {one.exchange}"


def verdicts_json(asked: AskRequest, answer: Answer, picture: Path | None) -> dict[str, Any]:
    """The content of `ask --json`; `picture` None if it could not be written."""
    return {
        "device": asked.device,
        "link": asked.link,
        "rate_kbps": asked.rate_kbps,
        "traffic": None if asked.capture is None else str(asked.capture),
        "seed": asked.seed,
        "version": version(),
        "picture": None if picture is None else str(picture.resolve()),
        "rank": asked.rank,
        "order": order(asked.rank),
        "station": asked.station,
        "capture": answer.capture,
        "assumptions": answer.assumptions,
        "caveats": answer.caveats,
        "policies": [asdict(one) for one in answer.verdicts],
        "exchanges": [_exchange_json(one) for one in answer.exchanges],
    }


def _exchange_json(one: Exchange) -> dict[str, Any]:
    return {
        "exchange": one.name,
        "title": one.title,
        "is_move": one.is_move,
        **asdict(one.handshake),
    }
