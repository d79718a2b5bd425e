"""The table of standings: what standards say of each building block, and from when on.

The data is `standings.toml` of the catalogue. Left out: which blocks a stack has (`stacks`).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from functools import cache

from caravan.files import CATALOGUE
from caravan.messages import Refused, unknown
from caravan.study.text import Table

UNJUDGED = "unjudged"
VERDICTS = ("must-not", "should-not", UNJUDGED, "allowed", "recommended")
"""From worst to best. `unjudged`: no standard says anything of it."""
PERMITTED = ("allowed", "recommended")
FILE = "standings.toml"
MONTH = len("2021-03")


@dataclass(frozen=True)
class Verdict:
    """What a document says of a block, from its day on. `word` is one of `VERDICTS`; what is
    unjudged has the document that describes it."""

    since: date
    word: str
    document: str
    section: str
    note: str
    written: str = ""
    """Its day as the table has it: a month alone names no day."""
    as_cited: bool = False
    """Whether nobody could open the document here: it is said as others cite it."""

    @property
    def is_permitted(self) -> bool:
        """Whether the block may be used."""
        return self.word in PERMITTED


@dataclass(frozen=True)
class Block:
    """A building block: the properties that it `gives`, where those are claimed, its verdicts by
    date. `named` is what layers of policies call it besides its name."""

    name: str
    title: str
    gives: tuple[str, ...]
    claims: str
    verdicts: tuple[Verdict, ...]
    named: tuple[str, ...] = ()

    def on(self, day: date) -> Verdict | None:
        """The verdict of a day; None before the block existed."""
        return next((one for one in reversed(self.verdicts) if one.since <= day), None)


@dataclass(frozen=True)
class Standings:
    """All blocks by name, the properties in words, and the day of the last revision."""

    revised: date
    properties: Mapping[str, str]
    blocks: Mapping[str, Block]

    def of(self, word: str) -> Block | None:
        """The block that a layer of a policy calls so: a method, a cipher, a version of TLS."""
        found = (one for one in self.blocks.values() if word == one.name or word in one.named)
        return next(found, None)


@cache
def standings() -> Standings:
    """Those of the catalogue."""
    return parse(FILE, (CATALOGUE / FILE).read_text(encoding="utf-8"))


def parse(file: str, text: str) -> Standings:
    """A table of standings; unknown words, verdicts without a document or out of order, and names
    that are used twice are errors with their place."""
    table = Table.parse(file, text)
    revised = day_of(table, "revised")
    words = table.leaves("properties")
    properties = {name: str(what) for name, what in words.items()}
    blocks = table.tables("block", lambda one: _block(one, properties))
    table.done()
    names = [name for block in blocks for name in (block.name, *block.named)]
    for name in names:
        if names.count(name) > 1:
            raise table.fault("block", f'the name "{name}" is used twice')
    return Standings(revised, properties, {block.name: block for block in blocks})


def _block(table: Table, properties: Mapping[str, str]) -> Block:
    gives = table.texts("gives")
    for word in gives:
        if word not in properties:
            raise table.fault("gives", unknown("property", word, properties))
    block = Block(
        table.text("name"),
        table.text("title"),
        gives,
        _filled(table, "claims"),
        table.tables("verdict", _verdict),
        table.texts("named") if table.has("named") else (),
    )
    days = [one.since for one in block.verdicts]
    if not days:
        raise table.fault("", "a block needs at least one [[block.verdict]]")
    if days != sorted(set(days)):
        raise table.fault("verdict", "the verdicts of a block must be in the order of their dates")
    return block


def _verdict(table: Table) -> Verdict:
    return Verdict(
        day_of(table, "from"),
        table.choice("is", VERDICTS),
        _filled(table, "document"),
        _filled(table, "section"),
        table.text("note", ""),
        table.text("from"),
        table.flag("as_cited"),
    )


def _filled(table: Table, key: str) -> str:
    text = table.text(key)
    if not text.strip():
        raise table.fault(key, "must not be empty: every verdict has a source")
    return text


def day_of(table: Table, key: str) -> date:
    """The day that a key of a table says; a month stands for its first day."""
    text = table.text(key)
    try:
        return day(f"{text}-01" if len(text) == MONTH else text)
    except Refused:
        what = f"'{text}' is not a day such as 2026-11-25, nor a month such as 2026-11"
        raise table.fault(key, what) from None


def day(text: str) -> date:
    """A day as `2026-11-25`, and in no other form."""
    found: date | None = None
    with suppress(ValueError):
        found = date.fromisoformat(text)
    # The library also reads 20261125 and 2026-W48-3.
    if found is None or found.isoformat() != text:
        raise Refused(f"'{text}' is not a day such as 2026-11-25: write year, month and day")
    return found
