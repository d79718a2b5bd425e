"""What a key exchange costs over a link, on a device: rounds, bytes, and the time until data goes.

The messages of a policy are those of the real machine, from a run of the event kernel; those of the
catalogue's exchanges are in its files. Their time is a closed form, which the native core computes.
Left out: losses, what the peer computes, and the prf and the ciphers of messages, which cost next
to nothing beside key exchanges and signatures.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

from caravan import _lab
from caravan.document import plain
from caravan.files import Entry
from caravan.lab import core
from caravan.lab.core import LabError
from caravan.lab.exchanges import MACHINES, message

DATA_BYTES = 148
"""The first data: an echo request of 84 bytes in UDP, in ESP with AES-128-GCM."""
WORK = "work"
IKE = "ike"
"""What the names of exchanges of IKE alone begin with."""
SCENARIO = """
name = "handshake"
title = "A client and its gateway"
policy = {policy}
accounting = "rfc"
{family}

[traffic]
model = "tcp"
bytes = "1 KB"
direction = "up"

[[node]]
name = "station"
role = "station"

{nat}
[[node]]
name = "gateway"
role = "gateway"

[[node]]
name = "server"
role = "server"

{links}
[[link]]
from = "gateway"
to = "server"
rate = "1 Gbit/s"
"""
NAT = '[[node]]\nname = "nat"\nrole = "nat"\n'
LINK = '[[link]]\nfrom = "{}"\nto = "{}"\nrate = "1 Gbit/s"\nmtu = 1500\n'


@dataclass(frozen=True)
class Way:
    """The link, and the device of the client with its speed if it is not the device's own."""

    link: Entry
    device: Entry
    mips: float | None = None
    clock_mhz: float | None = None


@dataclass(frozen=True)
class Handshake:
    """What an exchange takes: how often the client waits, IP packets, and times in ms.

    `send_ms` ends when the client's first data may leave, `gap_ms` when the gateway's first data
    arrives: of an exchange for a move that is the gap. `least` says what the times leave out; empty
    if they leave out nothing.
    """

    rounds: int
    messages: int
    bytes: float
    send_ms: float
    gap_ms: float
    least: str = ""


@dataclass(frozen=True)
class Exchange:
    """An exchange of the catalogue, over a way. `is_move`: it is what a new address takes."""

    name: str
    title: str
    is_move: bool
    handshake: Handshake


def of_policy(entry: Entry, family: int, way: Way) -> Handshake | str | None:
    """What the key exchange of a policy takes, or why that is not known; `family` is the IP version
    of the path. None: keys are there by hand."""
    if "keys" not in plain(entry.file, entry.text):
        return None
    try:
        text = _text(entry, family)
    except LabError as fault:
        return fault.what
    return taken(text, way)


def of_catalogue(way: Way) -> list[Exchange]:
    """What each exchange of IKE takes: first those that set a tunnel up, the quickest first, then
    those whose times leave something out, and those of IKEv1 last; then those of a move. Rows of
    studies with Mobile IP besides are left out."""
    found = []
    for name, machine in MACHINES.items():
        if not name.startswith(IKE):
            continue
        entry = core.find("exchange", name)
        found.append(Exchange(name, machine.title, machine.is_move, taken(entry.text, way)))
    return sorted(found, key=_place)


def _place(one: Exchange) -> tuple[bool, bool, bool, float, str]:
    is_old = MACHINES[one.name].exchange != "ikev2"
    time_ms = one.handshake.gap_ms if one.is_move else one.handshake.send_ms
    return one.is_move, is_old, bool(one.handshake.least), time_ms, one.name


def taken(text: str, way: Way) -> Handshake:
    """What the messages of an exchange file take over a way."""
    why = ""
    device: Entry | None = way.device
    if way.mips is not None:
        device = None
        if any(WORK in one for one in plain("exchange", text).get("message", ())):
            why = "its speed is in MIPS, operations of key exchanges are in cycles"
    try:
        found = _answer(text, way.link, device, way.clock_mhz)
    except LabError as fault:
        if not fault.is_unpriced:
            raise
        why = fault.brief
        found = _answer(text, way.link, None, None)
    least = f"without what the device computes: {why}" if why else ""
    return Handshake(
        rounds=found["rounds"],
        messages=found["messages"],
        bytes=found["bytes"],
        send_ms=found["send_s"] * 1e3,
        gap_ms=found["gap_s"] * 1e3,
        least=least,
    )


def _answer(
    text: str, link: Entry, device: Entry | None, clock_mhz: float | None
) -> dict[str, Any]:
    def named(entry: Entry) -> dict[str, str]:
        return {"name": entry.name, "file": entry.file, "text": entry.text}

    request = {
        "file": "exchange",
        "text": text,
        "link": named(link),
        "policy": None,
        "device": None if device is None else named(device),
        "clock_mhz": None if device is None else clock_mhz,
        "detection_s": 0.0,
        "data_bytes": DATA_BYTES,
    }
    answer: dict[str, Any] = core.ask(lambda: _lab.exchange(json.dumps(request)))
    return answer


@cache
def _text(policy: Entry, family: int) -> str:
    """The messages of a policy's exchange as an exchange file: behind a NAT, if it passes one."""
    is_v6 = family == 6
    try:
        rows = _rows(policy, family, has_nat=not is_v6)
    except LabError:
        if is_v6:
            raise
        rows = _rows(policy, family, has_nat=False)
    lines = [f"name = {json.dumps(policy.name)}", 'title = "The exchange of a policy"']
    for row in rows:
        lines += message(row, str(row["what"]), "the event kernel")
    return "\n".join(lines) + "\n"


def _rows(policy: Entry, family: int, *, has_nat: bool) -> Sequence[dict[str, Any]]:
    ends = ["station", *(["nat"] if has_nat else []), "gateway"]
    links = pairwise(ends)
    text = SCENARIO.format(
        policy=json.dumps(policy.name),
        family="family = 6" if family == 6 else "",
        nat=NAT if has_nat else "",
        links="".join(LINK.format(*pair) for pair in links),
    )
    entries = {(one.kind, one.name): one for one in (*core.catalogue(), policy)}
    answer = core.kernel(
        {
            "file": "handshake",
            "text": text,
            "set": [],
            "catalogue": [one.request() for one in entries.values()],
        }
    )
    exchange = answer["simulate"]["exchange"]
    if exchange is None or not exchange["is_up"]:
        failures = () if exchange is None else exchange["failures"]
        raise LabError(f"the tunnel does not come up: {'; '.join(failures) or 'no answer'}")
    messages: Sequence[dict[str, Any]] = exchange["messages"]
    return messages
