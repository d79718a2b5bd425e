"""What a policy of layers has, and what standards say of each layer today.

The native core reads the layers, so that a policy is shown if and only if it can be simulated, and
judges the algorithms of IPsec. Key exchanges, methods of access, link ciphers, versions and suites
of TLS have their verdicts in the table of standings, which also has their names. Left out: what
layers cost.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from typing import Any

from caravan.advice.answers import spoken
from caravan.advice.standings import UNJUDGED, Block, standings
from caravan.document import plain
from caravan.files import Entry
from caravan.lab import core
from caravan.lab.ask import reasons

CURRENT, LEGACY, CLEAR, UNKNOWN = "current", "legacy", "clear", "not judged"
WORST = (LEGACY, UNKNOWN, CURRENT)
"""From the worst on: the standing of a whole is that of its worst part."""
KEYS = {"access": "method", "link-cipher": "cipher", "ipsec": "policy", "transport": "version"}
"""What a layer of each kind names."""
PLACE = """
name = "place"
title = "A client with each kind of layer"
policy = {policy}

[[node]]
name = "client"
role = "station"

[[node]]
name = "point"
role = "access-point"

[[node]]
name = "gateway"
role = "router"
ends_tunnels = true

[[node]]
name = "server"
role = "server"

[[link]]
from = ["client"]
to = "point"
rate = "1 Mbit/s"

[[link]]
from = ["point"]
to = "gateway"
rate = "1 Mbit/s"

[[link]]
from = "gateway"
to = "server"
rate = "1 Mbit/s"

[[flow]]
name = "data"
from = "client"
to = "server"
model = "tcp"
bytes = "1 KB"
"""


def has_layers(entry: Entry) -> bool:
    """Whether a policy is one of layers."""
    return "layer" in plain(entry.file, entry.text)


def outline(entry: Entry) -> dict[str, Any]:
    """A policy of layers; its standing is that of its worst layer. What `simulate` refuses is
    refused."""
    core.opened(
        core.request_with(entry, PLACE.format(policy=json.dumps(entry.name, ensure_ascii=False)))
    )
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
        path = core.beside(entry, name) or core.beside(entry, f"{name}.toml")
        policy = core.find("policy", str(path) if path else name)
        row = next(row for row in core.listing("policy", [policy]) if row["name"] == policy.name)
        return {**found, **_with_keys(told(row))}
    if kind == "transport":
        words.append(str(layer["suite"]))
        found["what"] = ", ".join(words)
        words[-1] = f"tls-{words[-1]}"
    judged = [_judged(standings().of(word)) for word in words]
    standing = next(word for word in WORST if word in [one["standing"] for one in judged])
    return {
        **found,
        "standing": standing,
        "is_forbidden": any(one["is_forbidden"] for one in judged),
        "why": " ".join(dict.fromkeys(filter(None, (one["why"] for one in judged)))),
    }


def told(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the core's policies, with the verdict on its key exchange besides that on its suite:
    None if it has none, or one that nothing speaks against."""
    deprecated = row["exchange"]
    if deprecated is None and row["layer"] != "skip":
        return {**row, "key_exchange": None}
    # The core's sentence begins with the name of the protocol. SKIP has its keys in each packet.
    name = "SKIP" if deprecated is None else str(deprecated).split()[0]
    block = standings().of(name.lower())
    judged = {**_judged(block), "why": deprecated} if block is None else _judged(block)
    return {**row, "key_exchange": {"name": name, **judged}}


def why(row: Mapping[str, Any]) -> str:
    """What speaks against a row of `told`: the suite, then the key exchange."""
    exchange = row["key_exchange"]
    against = reasons({**row, "exchange": None})
    return "; ".join([*against, *([] if exchange is None else [exchange["why"]])])


def _with_keys(row: Mapping[str, Any]) -> dict[str, Any]:
    """Suite and key exchange of a layer of IPsec: its standing is that of the worse one."""
    exchange = row["key_exchange"]
    parts = [row] if exchange is None else [row, exchange]
    words = [one["standing"] for one in parts]
    return {
        "standing": next((word for word in WORST if word in words), CLEAR),
        "is_forbidden": any(one["is_forbidden"] for one in parts),
        "suite": row["standing"],
        "key_exchange": exchange,
        "why": why(row),
    }


def _judged(block: Block | None) -> dict[str, Any]:
    """What the standings say of a block today."""
    if block is None:
        return {"standing": UNKNOWN, "is_forbidden": False, "why": ""}
    verdict = block.on(date.today())
    is_permitted = verdict is not None and verdict.is_permitted
    is_unjudged = verdict is not None and verdict.word == UNJUDGED
    return {
        "standing": CURRENT if is_permitted else UNKNOWN if is_unjudged else LEGACY,
        "is_forbidden": verdict is not None and verdict.word == "must-not",
        "why": f"{block.title}: {spoken(verdict)}",
    }
