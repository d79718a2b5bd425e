"""What a policy of layers has, and what standards say of each layer today.

The native core judges the algorithms of IPsec; methods of access, link ciphers and versions of TLS
have their verdicts in the table of standings, which also has their names. Left out: what layers
cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

from caravan.advice.answers import spoken
from caravan.advice.standings import Block, standings
from caravan.document import plain
from caravan.files import Entry
from caravan.lab import core
from caravan.lab.ask import reasons

CURRENT, LEGACY, CLEAR, UNKNOWN = "current", "legacy", "clear", "not judged"
WORST = (LEGACY, UNKNOWN, CURRENT)
"""From the worst on: the standing of a whole is that of its worst part."""
KEYS = {"access": "method", "link-cipher": "cipher", "ipsec": "policy", "transport": "version"}
"""What a layer of each kind names."""


def has_layers(entry: Entry) -> bool:
    """Whether a policy is one of layers."""
    return "layer" in plain(entry.file, entry.text)


def outline(entry: Entry) -> dict[str, Any]:
    """A policy of layers; its standing is that of its worst layer."""
    document = plain(entry.file, entry.text)
    layers = [_layer(entry, one) for one in document["layer"]]
    words = [one["standing"] for one in layers]
    worst = next((word for word in WORST if word in words), CLEAR)
    return {
        "name": document["name"],
        "title": document["title"],
        "file": entry.file,
        "standing": worst,
        "is_forbidden": any(one["is_forbidden"] for one in layers),
        "layers": layers,
    }


def _layer(entry: Entry, layer: Mapping[str, Any]) -> dict[str, Any]:
    kind = str(layer.get("kind", ""))
    named = layer.get(KEYS.get(kind, ""), "")
    words = [str(word) for word in named] if isinstance(named, list) else [str(named)]
    found = {"kind": kind, "what": ", ".join(words)}
    if kind == "ipsec":
        (name,) = words
        path = core.beside(entry, f"{name}.toml")
        policy = core.find("policy", str(path) if path else name)
        (row,) = (row for row in core.listing("policy", [policy]) if row["name"] == policy.name)
        told = {"standing": row["standing"], "is_forbidden": row["is_forbidden"]}
        return {**found, **told, "why": "; ".join(reasons(row))}
    judged = [_judged(standings().of(word)) for word in words]
    standing = next(word for word in WORST if word in [one["standing"] for one in judged])
    return {
        **found,
        "standing": standing,
        "is_forbidden": any(one["is_forbidden"] for one in judged),
        "why": " ".join(dict.fromkeys(filter(None, (one["why"] for one in judged)))),
    }


def _judged(block: Block | None) -> dict[str, Any]:
    """What the standings say of a block today."""
    if block is None:
        return {"standing": UNKNOWN, "is_forbidden": False, "why": ""}
    verdict = block.on(date.today())
    is_permitted = verdict is not None and verdict.is_permitted
    return {
        "standing": CURRENT if is_permitted else LEGACY,
        "is_forbidden": verdict is not None and verdict.word == "must-not",
        "why": f"{block.title}: {spoken(verdict)}",
    }
