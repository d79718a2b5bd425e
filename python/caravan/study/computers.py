"""What the nodes of a wireless policy's cell compute in, and what of that has no source.

A cell computes in no time unless its sweep has the axis `device`: then its stations are of that
device, and agents, routers and servers of the one that `servers` names. Access points have no
processor that counts: their hardware ciphers. So does that of stations, unless `wep` is `software`.
What a device has no cost of leaves metrics empty, each with the reason: all of a cell whose packets
it cannot price, else the parts of an authentication that need it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from caravan import _lab
from caravan.document import plain

HARDWARE, SOFTWARE = "hardware", "software"
STATION, ACCESS_POINT = "station", "access-point"
DIGEST = "null-md5"
"""A suite that is HMAC-MD5 alone: it signs registrations (RFC 5944 §5.1), and EAP-MD5 is MD5."""
DIGESTED_BYTES = 100
MD5 = "eap-md5"


def edits(nodes: list[Mapping[str, Any]], cell: Mapping[str, Any]) -> list[str]:
    """The devices of a cell's nodes, as `KEY=VALUE`; none if it computes in no time."""
    if cell.get("devices") is None:
        return []
    stations, servers = (cell["devices"][one]["name"] for one in ("stations", "servers"))
    found = []
    for node in nodes:
        if node["role"] == STATION:
            found.append(f"node.{node['name']}.device={stations}")
            if cell["wep"] == HARDWARE:
                found.append(f"node.{node['name']}.ciphers_in_hardware=true")
        elif node["role"] != ACCESS_POINT:
            found.append(f"node.{node['name']}.device={servers}")
    return found


def unpriced(results: list[Mapping[str, Any]]) -> str:
    """Why no packet of a cell has a cost; empty if all have one."""
    return next((str(one["unpriced"]) for one in results if "unpriced" in one), "")


def absent(cell: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, str]:
    """The parts of an authentication whose work has no cost, each with the reason. `run`: what the
    event kernel says, which names the first operation of an exchange without a cost."""
    if cell.get("devices") is None:
        return {}
    digest = next(filter(None, map(_without_digest, cell["devices"].values())), "")
    reasons = {"registration": digest}
    if methods := _methods(cell):
        reasons["eap"] = digest if methods == [MD5] else run["unpriced"] or ""
    for part in ("ike", "tls"):
        reasons[part] = run["unpriced"] or ""
    return {part: why for part, why in reasons.items() if why}


def _without_digest(device: Mapping[str, str]) -> str:
    asked = {"file": device["file"], "text": device["text"]}
    request = json.dumps({**asked, "suite": DIGEST, "bytes": DIGESTED_BYTES})
    try:
        _lab.price(request)
    except _lab.Unpriced as fault:
        return f"{fault.profile} has no cost of HMAC-MD5: {fault.cell} is empty"
    return ""


def _methods(cell: Mapping[str, Any]) -> list[str]:
    """The exchanges of the access of a cell's policy."""
    (text,) = (
        one
        for one in cell["run"]["catalogue"]
        if (one["kind"], one["name"]) == ("policy", cell["policy"])
    )
    return list(_access(plain(text["file"], text["text"])))


def _access(policy: Mapping[str, Any]) -> Iterator[str]:
    for layer in policy.get("layer", []):
        if layer["kind"] == "access":
            method = layer["method"]
            yield from [method] if isinstance(method, str) else method
