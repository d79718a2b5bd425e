"""The measure `stack`: what security layers on top of each other cost over one link.

`caravan.advice` computes it, as for `caravan-lab advise`. Left out: scenarios. A cell is a client
on a link that moves once, and one packet a second.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

from caravan import files
from caravan.advice.costs import BYTES, DEVICE, GAP, SETUP, cost
from caravan.advice.setting import Device, Link, Place, Setting, Stay, Traffic, is_wifi_file
from caravan.advice.stacks import ACCESS, TUNNEL, Layer, Stack, layers
from caravan.advice.standings import VERDICTS, day
from caravan.files import Entry
from caravan.messages import Refused, unknown
from caravan.study.text import StudyError

JOINED = " + "
PING_BYTES = 84
"""The packet of data if nothing else is set."""


def _stack(name: str) -> Stack:
    """Layers by their names, joined by ` + `."""
    known = layers()
    words = name.split(JOINED)
    for word in words:
        if word not in known:
            raise StudyError.edit("policy", unknown("layer", word, known))
    return Stack(tuple(known[word] for word in words))


def texts(name: str) -> list[str]:
    """Every exchange that a stack uses, so that a change of one changes the hash of its cells."""
    found = [one for layer in _stack(name).layers for one in _named(layer)]
    return [files.find("exchange", one).text for one in found]


def _named(layer: Layer) -> tuple[str, ...]:
    data = (layer.data,) if layer.data else ()
    return (*layer.setup, *layer.renewal, *data)


LEAST = {
    "message_bytes": BYTES,
    "move_bytes": BYTES,
    "first_sent_ms": SETUP,
    "gap_ms": GAP,
    "time_ms": DEVICE,
    "byte_ns": DEVICE,
}
"""The budget of each metric that may be a lower bound."""


def priced(
    request: Mapping[str, Any],
) -> tuple[Mapping[str, float | None] | StudyError, frozenset[str]]:
    """The metrics of a cell, and those that are lower bounds."""
    stack, setting = _stack(request["stack"]), _setting(request)
    if not setting.is_all_wifi and any(layer.at == ACCESS for layer in stack.layers):
        raise StudyError.edit("link", f"{request['stack']} needs a link of Wi-Fi")
    try:
        found = cost(stack, setting)
    except Refused as fault:
        return StudyError.of(fault), frozenset()
    size = setting.traffic[0].packet_bytes
    has_device = setting.device is not None
    device_s = found.device_s if has_device else None
    return {
        "rounds": float(found.setup_rounds),
        "message_bytes": found.setup_bytes,
        "move_bytes": found.move_bytes,
        "data_bytes": found.packet_bytes,
        "first_sent_ms": _milli(found.setup_s),
        "gap_ms": _milli(found.gap_s),
        "time_ms": _milli(device_s),
        "byte_ns": None if device_s is None else device_s / size * 1e9,
        "standing": _standing(stack, str(request.get("as_of", ""))),
    }, frozenset(metric for metric, budget in LEAST.items() if budget in found.least)


def _standing(stack: Stack, as_of: str) -> float | None:
    try:
        when = day(as_of) if as_of else date.max
    except Refused as fault:
        raise StudyError.edit("as_of", str(fault)) from None
    verdicts = [block.on(when) for block in stack.blocks]
    if None in verdicts or not all(layer.exists_on(when) for layer in stack.layers):
        return None
    return float(min(VERDICTS.index(one.word) for one in verdicts if one is not None))


def _setting(request: Mapping[str, Any]) -> Setting:
    link, behind, device = request["link"], request["behind"], request["device"]
    has_gateway = any(layer.at == TUNNEL for layer in _stack(request["stack"]).layers)
    more = () if behind is None else (_link(behind),)
    place = Place(_link(link), more, ())
    clock = request.get("clock_mhz")
    return Setting(
        name=link["name"],
        title="",
        hash="",
        has_gateway=has_gateway,
        stays=(Stay(place, 1.0, False), Stay(place, 1.0, bool(request.get("roams", False)))),
        traffic=(Traffic(int(request.get("data_bytes", PING_BYTES)), 1.0, True),),
        device=None
        if device is None
        else Device(
            Entry("device", device["name"], device["file"], device["text"]),
            None,
            None if clock is None else float(clock),
        ),
        has_software_radio=bool(request.get("software_radio", False)),
    )


def _link(text: Mapping[str, str]) -> Link:
    return Link(text["name"], is_wifi_file(text["name"]), text["text"])


def _milli(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3
