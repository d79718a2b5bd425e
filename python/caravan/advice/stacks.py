"""Layers and stacks: what people put on top of each other, from `stacks.toml` of the catalogue.

Left out: what they cost (`costs`), and whether they are allowed (`standings`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache

from caravan import files
from caravan.advice.standings import Block, Standings, day_of, standings
from caravan.files import CATALOGUE
from caravan.messages import unknown
from caravan.study.text import Table

ACCESS, TUNNEL, TRANSPORT = "access", "tunnel", "transport"
PLACES = (ACCESS, TUNNEL, TRANSPORT)
"""Where a layer works, from the lowest up."""
DATA = ("confidentiality", "integrity")
"""The properties that protect the data itself."""
FILE = "stacks.toml"
NOTHING = "nothing"
"""The name of a stack without a layer."""


@dataclass(frozen=True)
class Layer:
    """One protection at one place. `setup` and `move` are names of exchanges.

    What a packet gets: `data` names an exchange, `suite` is ESP's, `policy` names a policy.
    `since`: the day on which somebody first put its blocks together; None: there was nothing to
    put together.
    """

    name: str
    title: str
    at: str
    blocks: tuple[Block, ...]
    setup: tuple[str, ...]
    move: tuple[str, ...] | None
    data: str
    suite: str
    policy: str
    priced: str
    since: date | None = None

    @property
    def protects_data(self) -> bool:
        """Whether any of its blocks keeps data secret or whole."""
        return any(word in block.gives for block in self.blocks for word in DATA)

    def exists_on(self, day: date) -> bool:
        """Whether it is there on a day; each block has a first day of its own."""
        return self.since is None or self.since <= day

    @property
    def renewal(self) -> tuple[str, ...]:
        """The exchanges of a move."""
        return self.setup if self.move is None else self.move


@dataclass(frozen=True)
class Stack:
    """Layers from the lowest up."""

    layers: tuple[Layer, ...]

    @property
    def name(self) -> str:
        """The names of the layers."""
        return " + ".join(layer.name for layer in self.layers) or NOTHING

    @property
    def title(self) -> str:
        """For people."""
        return ", ".join(layer.title for layer in self.layers) or "no protection"

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Each block once."""
        return tuple(dict.fromkeys(block for layer in self.layers for block in layer.blocks))

    def below(self, place: str) -> tuple[Layer, ...]:
        """The layers under a place."""
        return tuple(one for one in self.layers if PLACES.index(one.at) < PLACES.index(place))


@cache
def stacks() -> tuple[Stack, ...]:
    """Those of the catalogue."""
    return parse(FILE, (CATALOGUE / FILE).read_text(encoding="utf-8"), standings())


@cache
def layers() -> Mapping[str, Layer]:
    """The layers of all stacks of the catalogue by name."""
    return {layer.name: layer for stack in stacks() for layer in stack.layers}


def parse(file: str, text: str, known: Standings) -> tuple[Stack, ...]:
    """A file of stacks; unknown blocks, exchanges, policies and layers are errors."""
    table = Table.parse(file, text)
    read = table.tables("layer", lambda one: _layer(one, known))
    by_name = {layer.name: layer for layer in read}
    found = table.tables("stack", lambda one: _stack(one, by_name))
    table.done()
    return found


def _layer(table: Table, known: Standings) -> Layer:
    names = table.texts("blocks")
    _check(table, "blocks", "block", names, tuple(known.blocks))
    has_move = table.has("move")
    layer = Layer(
        name=table.text("name"),
        title=table.text("title"),
        at=table.choice("at", PLACES),
        blocks=tuple(known.blocks[name] for name in names),
        setup=table.texts("setup"),
        move=table.texts("move") if has_move else None,
        data=table.text("data", ""),
        suite=table.text("suite", ""),
        policy=table.text("policy", ""),
        priced=table.text("priced", ""),
        since=day_of(table, "since") if table.has("since") else None,
    )
    exchanges = files.names("exchange")
    _check(table, "setup", "exchange", layer.setup, exchanges)
    _check(table, "move", "exchange", layer.move or (), exchanges)
    _check(table, "data", "exchange", filter(None, [layer.data]), exchanges)
    _check(table, "policy", "policy", filter(None, [layer.policy]), files.names("policy"))
    if len([one for one in (layer.data, layer.suite, layer.policy) if one]) > 1:
        raise table.fault("", "only one of data, suite and policy says what a packet gets")
    return layer


def _check(
    table: Table, key: str, what: str, words: Sequence[str] | filter[str], valid: Sequence[str]
) -> None:
    for word in words:
        if word not in valid:
            raise table.fault(key, unknown(what, word, valid))


def _stack(table: Table, known: Mapping[str, Layer]) -> Stack:
    names = table.texts("layers")
    _check(table, "layers", "layer", names, tuple(known))
    found = tuple(known[name] for name in names)
    places = [PLACES.index(layer.at) for layer in found]
    if places != sorted(set(places)):
        order = ", ".join(PLACES)
        raise table.fault("layers", f"at most one layer at each place, in this order: {order}")
    return Stack(found)
