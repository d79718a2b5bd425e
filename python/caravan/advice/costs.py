"""What a stack costs in a setting: bytes of each packet, messages, rounds and times.

The native core computes each number: an exchange over a link, a packet under a policy, a packet on
a device. A layer over several links takes the sum of its runs over each of them. Left out: losses,
detection (the client knows its new place at once), and what peers compute.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any

from caravan import _lab, files
from caravan.advice.setting import Device, Link, Place, Setting, Stay
from caravan.advice.stacks import ACCESS, TRANSPORT, TUNNEL, Layer, Stack
from caravan.document import plain
from caravan.files import Entry
from caravan.lab import core
from caravan.lab.core import LabError

PING_BYTES = 84
"""The first data after the messages: an echo request of 56 bytes."""
BYTES, GAP, SETUP, DEVICE = "bytes", "gap", "setup", "device"
TIMED = (GAP, SETUP, DEVICE)
"""Budgets that depend on what a device computes."""
WORK = "\nwork = "
"""What a text of messages has if the device computes for one of them."""
RADIO_CIPHERS = {"wep": "wep-104", "tkip": "tkip", "ccmp": "ccmp-128", "gcmp": "gcmp-256"}
"""The cipher of a wireless link that gives a frame the octets of an exchange."""
EMPTY = 'name = "empty"\ntitle = "no messages"\n'


@dataclass(frozen=True)
class Cost:
    """What a stack costs. Times in s; None is not known, or does not apply.

    `packet_bytes` is a packet on the client's link, the mean over all; `share` is what all packets
    and messages have more than the packets alone. `setup_*` is before the first data may leave,
    `move_bytes` and `gap_s` are of the worst move, `device_s` of a packet on the client's device.
    `least` names the budgets of which these are lower bounds: times if a device has no cost of a
    part of its work, bytes if the size of a message is not known.
    """

    packet_bytes: float
    share: float
    setup_rounds: int
    setup_bytes: float | None
    setup_s: float | None
    move_bytes: float | None
    gap_s: float | None
    device_s: float | None
    least: frozenset[str]
    notes: tuple[str, ...]

    @property
    def is_lower_bound(self) -> bool:
        """Whether a time is one."""
        return bool(self.least & {*TIMED})

    def time_s(self, budget: str) -> float | None:
        """The time that one of `TIMED` limits."""
        return {GAP: self.gap_s, SETUP: self.setup_s, DEVICE: self.device_s}[budget]


@dataclass(frozen=True)
class Taken:
    """What some messages take: until the client may send, and until data comes to it."""

    rounds: int
    bytes: float | None
    send_s: float | None
    gap_s: float | None


def cost(stack: Stack, setting: Setting) -> Cost:
    """What a stack costs in a setting, whose layers all apply there."""
    return _Meter(stack, setting).cost()


class _Meter:
    def __init__(self, stack: Stack, setting: Setting) -> None:
        self.stack = stack
        self.setting = setting
        self.notes: dict[str, None] = {}
        self.least: set[str] = set()
        self.measured = SETUP
        """The budget that the next runs are of."""

    def cost(self) -> Cost:
        """All of it."""
        setting, first = self.setting, self.setting.stays[0].place
        setup = self._phase(first, [(one, one.setup) for one in self.stack.layers])
        self.measured = GAP
        moves = [self._move(former.place, stay) for former, stay in pairwise(setting.stays)]
        clear = carried = packets = 0.0
        for stay in setting.stays:
            for one in setting.traffic:
                count = one.per_second * stay.seconds
                packets += count
                clear += count * one.packet_bytes
                carried += count * self.data(stay.place, one.packet_bytes)
        messages = [setup.bytes, *(move.bytes for move in moves)]
        share = (carried + sum(size or 0.0 for size in messages)) / clear - 1
        if None in messages:
            self.notes["a message has no known size: bytes are the least"] = None
            self.least.add(BYTES)
        device_s = self._device_s(packets)
        gaps = [move.gap_s for move in moves]
        sizes = [move.bytes for move in moves]
        return Cost(
            packet_bytes=carried / packets,
            share=share,
            setup_rounds=setup.rounds,
            setup_bytes=setup.bytes,
            setup_s=setup.send_s,
            move_bytes=None
            if None in sizes or not sizes
            else max(filter(None, sizes), default=0.0),
            gap_s=None if None in gaps or not gaps else max(gap or 0.0 for gap in gaps),
            device_s=device_s,
            least=frozenset(self.least),
            notes=tuple(self.notes),
        )

    def data(self, place: Place, size: int) -> float:
        """A packet of data on the client's link at a place."""
        return self._through(self.stack.layers, place, 0, size)

    def _through(self, layers: Sequence[Layer], place: Place, link: int, size: float) -> float:
        """A packet that goes through layers on the link of this number: 0 is the client's own."""
        for layer in reversed(layers):
            if self._reaches(layer, place, link):
                size = _carried(layer, round(size))
        return size

    def _reaches(self, layer: Layer, place: Place, link: int) -> bool:
        if layer.at == ACCESS:
            return link == 0 and place.link.is_wifi
        return layer.at == TRANSPORT or link <= len(place.gateway)

    def _links(self, layer: Layer, place: Place) -> tuple[Link, ...]:
        if layer.at == ACCESS:
            return (place.link,) if place.link.is_wifi else ()
        more = place.beyond if layer.at == TRANSPORT else ()
        return (place.link, *place.gateway, *more)

    def _move(self, former: Place, stay: Stay) -> Taken:
        """Layers that a move makes necessary. A tunnel keeps the addresses inside.

        A client that comes from no Wi-Fi has nothing there to renew: its access begins anew.
        """
        again = [one for one in self.stack.layers if one.at == ACCESS or not stay.is_roam]
        if any(one.at == TUNNEL for one in again):
            again = [one for one in again if one.at != TRANSPORT]

        def exchanges(layer: Layer) -> tuple[str, ...]:
            is_new = layer.at == ACCESS and not former.link.is_wifi
            return layer.setup if is_new else layer.renewal

        taken = self._phase(stay.place, [(one, exchanges(one)) for one in again])
        if stay.is_roam or any(one.at != ACCESS for one in again):
            return taken
        # Nobody but the client tells the server of its new address: its first packet does.
        return replace(taken, gap_s=_sum([taken.send_s, *self._round_trip(stay.place)]))

    def _round_trip(self, place: Place) -> list[float | None]:
        """From the client to the server and back, link by link."""
        links = 1 + len(place.gateway) + len(place.beyond)
        return [self._run(EMPTY, place, number).gap_s for number in range(links)]

    def _phase(self, place: Place, steps: Sequence[tuple[Layer, tuple[str, ...]]]) -> Taken:
        """Layers one after the other."""
        found = [self._layer(layer, place, on) for layer, on in steps]
        runs = [run for run in found if run is not None]
        if not runs:
            # The first packet from there moves what has to move.
            empty = self._run(EMPTY, place, 0)
            return Taken(0, 0.0, 0.0, empty.gap_s)
        *before, last = runs
        sent = [run.send_s for run in before]
        sizes = [run.bytes for run in runs]
        return Taken(
            rounds=sum(run.rounds for run in runs),
            bytes=_sum(sizes),
            send_s=_sum([*sent, last.send_s]),
            gap_s=_sum([*sent, last.gap_s]),
        )

    def _layer(self, layer: Layer, place: Place, names: tuple[str, ...]) -> Taken | None:
        """The messages of a layer over each link that it covers. What an access point relays goes
        over the links behind it."""
        links = self._links(layer, place)
        if not links:
            return None

        def sized(link: int) -> Callable[[float], float]:
            return lambda size: self._through(self.stack.below(layer.at), place, link, size)

        behind = place.gateway if layer.at == ACCESS else ()
        runs = [
            self._run(_combined(names, sized(number)), place, number, behind)
            for number in range(len(links))
        ]
        return Taken(
            runs[0].rounds,
            runs[0].bytes,
            _sum([run.send_s for run in runs]),
            _sum([run.gap_s for run in runs]),
        )

    def _run(self, text: str, place: Place, number: int, behind: tuple[Link, ...] = ()) -> Taken:
        """One run over the link of this number, with the first packet of data as it is there; the
        device works once, on the client's own link."""
        link = (place.link, *place.gateway, *place.beyond)[number]
        size = round(self._through(self.stack.layers, place, number, PING_BYTES))
        device = self.setting.device if number == 0 else None
        if device is not None and device.mips is not None:
            if WORK in text:
                self._leave_out("its speed is in MIPS, operations of key exchanges are in cycles")
            device = None
        try:
            found = _exchange(text, link, device, size, behind=behind)
        except LabError as fault:
            if not fault.is_unpriced:
                raise
            self._leave_out(fault.brief)
            known = _without_unpriced(text, device)
            found = _exchange(known, link, device, size, behind=behind)
        return Taken(found["rounds"], found["bytes"], found["send_s"], found["gap_s"])

    def _leave_out(self, why: str) -> None:
        """Times without a part of what the device computes for messages are the least."""
        self.notes[f"times leave out what has no cost for messages: {why}"] = None
        self.least.add(self.measured)

    def _device_s(self, packets: float) -> float | None:
        """The time of a packet on the client's device, the mean of all packets: of the layers that
        have a cost, and the least if others have none. None: no layer that works has one."""
        device = self.setting.device
        if device is None:
            return None
        found = [self._work_s(device, one) for one in self.stack.layers if self._works(one)]
        known = [work_s for work_s in found if work_s is not None]
        if found and not known:
            return None
        if len(known) < len(found):
            self.least.add(DEVICE)
        return sum(known) / packets

    def _works(self, layer: Layer) -> bool:
        """Whether a layer does something to a packet."""
        is_there = layer.at != ACCESS or any(one.link.is_wifi for one in self.setting.places)
        return is_there and bool(layer.data or layer.suite or layer.policy)

    def _work_s(self, device: Device, layer: Layer) -> float | None:
        """What a layer takes of the device for all packets."""
        suite = layer.priced or layer.suite or layer.policy
        if self.setting.has_software_radio and layer.at == ACCESS:
            suite = RADIO_CIPHERS.get(layer.data, "")
        if not suite:
            self.notes[f"no cost of a packet of {layer.title} on a device"] = None
            return None
        inside = [up for up in self.stack.layers if up.at == TRANSPORT and up != layer]
        total = 0.0
        for one in self.setting.traffic:
            size = float(one.packet_bytes)
            for up in inside:
                size = _carried(up, round(size))
            price = self._price(device, suite, size, is_up=one.is_up)
            if price is None:
                return None
            total += one.per_second * self.setting.seconds * price
        return total

    def _price(self, device: Device, suite: str, size: float, *, is_up: bool) -> float | None:
        try:
            found = _priced(device, suite, size, is_up)
        except LabError as fault:
            if not fault.is_unpriced:
                raise
            self.notes[fault.brief] = None
            return None
        if found["is_lower_bound"]:
            self.least.add(DEVICE)
            self.notes[
                "the device has a cost per byte but none per packet: its time is the least"
            ] = None
        return float(found["time_ms"]) / 1e3


def _sum(values: Sequence[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return sum(found) if len(found) == len(values) else None


@cache
def _priced(device: Device, suite: str, size: float, is_up: bool) -> dict[str, Any]:
    return core.price(
        device.entry.file,
        suite,
        size,
        mips=device.mips,
        clock_mhz=device.clock_mhz,
        decrypt=not is_up,
    )


@cache
def _carried(layer: Layer, size: int) -> float:
    """A packet under one layer."""
    if layer.data:
        found = _exchange(files.find("exchange", layer.data).text, _ANY, None, size)
    elif layer.suite or layer.policy:
        found = _exchange(EMPTY, _ANY, None, size, _policy(layer))
    else:
        return float(size)
    return float(found["data_bytes"])


_ANY = Link("any", False, 'title = "any"\nrate = "1 Mbit/s"\n[sources]\nrate = "sizes only"\n')


def _policy(layer: Layer) -> Entry:
    """The policy of a layer: a file of the catalogue, or ESP in UDP with the suite."""
    if layer.policy:
        return files.find("policy", layer.policy)
    text = f'name = "{layer.suite}"\ntitle = "T"\nsuite = "{layer.suite}"\nmode = "tunnel"\n'
    return Entry("policy", layer.suite, layer.suite, text)


@cache
def _exchange(
    text: str,
    link: Link,
    device: Device | None,
    size: int,
    policy: Entry | None = None,
    *,
    behind: tuple[Link, ...] = (),
) -> dict[str, Any]:
    """One question for the native core."""

    def named(entry: Entry) -> dict[str, str]:
        return {"name": entry.name, "file": entry.file, "text": entry.text}

    clock_mhz = None if device is None else device.clock_mhz
    request = {
        "file": "stack",
        "text": text,
        "link": link.request(),
        "behind": [one.request() for one in behind],
        "policy": None if policy is None else named(policy),
        "device": None if device is None else named(device.entry),
        "clock_mhz": clock_mhz,
        "detection_s": 0.0,
        "data_bytes": size,
    }
    answer: dict[str, Any] = core.ask(lambda: _lab.exchange(json.dumps(request)))
    return answer


ONE_MESSAGE = {"from": "node", "says": "one", "source": "one", "bytes": PING_BYTES}


def _without_unpriced(text: str, device: Device | None) -> str:
    """The same messages without the operations that have no cost on the device."""

    def kept(line: str) -> str:
        if not line.startswith(WORK[1:]):
            return line
        each = json.loads(line.removeprefix(WORK[1:]))
        known = [operation for operation in each if _has_cost(operation, device)]
        return f"work = {json.dumps(known)}" if known else ""

    return "\n".join(map(kept, text.split("\n")))


@cache
def _has_cost(operation: str, device: Device | None) -> bool:
    message = ["[[message]]", *_lines({**ONE_MESSAGE, "work": [operation]}, float)]
    text = EMPTY + "\n".join(message) + "\n"
    try:
        _exchange(text, _ANY, device, PING_BYTES)
    except LabError as fault:
        if not fault.is_unpriced:
            raise
        return False
    return True


def _combined(names: Sequence[str], sized: Callable[[float], float]) -> str:
    """Exchanges one after the other as one text, with messages as large as a link carries them.

    They belong to one layer, so all of them are frames of one link or all are packets.
    """
    lines = ['name = "stack"', 'title = "messages of a layer"']
    framings = {_document(one).get("framing", 0) for one in names} or {0}
    if len(framings) > 1:
        raise ValueError(f"{', '.join(names)}: frames and packets in one layer")
    lines.append(f"framing = {framings.pop()}")
    parts, before = [], 0
    for name in names:
        document = _document(name)
        messages = document.get("message", [])
        if "knows" in document and name == names[-1]:
            lines.append(f"knows = {before + document['knows']}")
        before += len(messages)
        for message in messages:
            parts += ["[[message]]", *_lines(message, sized)]
    return "\n".join((*lines, *parts)) + "\n"


def _lines(message: dict[str, Any], sized: Callable[[float], float]) -> list[str]:
    keys = ("from", "says", "source", "work", "peer_work", "relayed")
    lines = [
        f"{key} = {json.dumps(message[key], ensure_ascii=False)}" for key in keys if key in message
    ]
    if "bytes" in message:
        # Each packet of a message gets what the layers below add.
        packets = message.get("packets", 1)
        lines.append(f"bytes = {round(packets * sized(message['bytes'] / packets))}")
        lines += [f"packets = {packets}"] if packets > 1 else []
    return lines


@cache
def _document(name: str) -> dict[str, Any]:
    entry = files.find("exchange", name)
    return plain(entry.file, entry.text)
