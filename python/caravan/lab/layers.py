"""What a policy of layers has, and what standards say of each layer today.

The native core judges the algorithms of IPsec; access and link ciphers have their verdicts in the
table of standings. Left out: what layers cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

from caravan.advice.answers import spoken
from caravan.advice.standings import standings
from caravan.document import plain
from caravan.files import Entry
from caravan.lab import core
from caravan.lab.ask import reasons

CURRENT, LEGACY, CLEAR, UNKNOWN = "current", "legacy", "clear", "not judged"
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
    worst = next((word for word in (LEGACY, UNKNOWN, CURRENT) if word in words), CLEAR)
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
    named = str(layer.get(KEYS.get(kind, ""), ""))
    found = {"kind": kind, "what": named, "standing": UNKNOWN, "is_forbidden": False, "why": ""}
    if kind == "ipsec":
        path = core.beside(entry, f"{named}.toml")
        policy = core.find("policy", str(path) if path else named)
        (row,) = (row for row in core.listing("policy", [policy]) if row["name"] == policy.name)
        told = {"standing": row["standing"], "is_forbidden": row["is_forbidden"]}
        return {**found, **told, "why": "; ".join(reasons(row))}
    block = standings().blocks.get(named) or standings().blocks.get(named.partition("-")[0])
    if block is None:
        return found
    verdict = block.on(date.today())
    is_permitted = verdict is not None and verdict.is_permitted
    return {
        **found,
        "standing": CURRENT if is_permitted else LEGACY,
        "is_forbidden": verdict is not None and verdict.word == "must-not",
        "why": spoken(verdict),
    }
