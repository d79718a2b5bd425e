"""The main question: which policy can this device carry over this link, at what cost, and why?

The path is `station - link - gateway - server`. The gateway and everything behind it take no time:
the ranking is about the device and the link. Without a capture, packets are Poisson with the sizes
of TR 101 112's web browsing, cut at 1500 bytes. The key exchange of each policy stands beside that:
it comes once, before the packets, and has no part in their delays. Left out: renewals, keepalives,
and loss.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from caravan.files import Entry
from caravan.lab import core, handshakes
from caravan.lab.core import (
    LabError,
    ask_slow,
    catalogue,
    find,
    listing,
    one_speed,
    opened,
    positive,
)
from caravan.lab.handshakes import Handshake, Way
from caravan.lab.simulation import simulate_run
from caravan.numbers import significant
from caravan.progress import progress

if TYPE_CHECKING:
    from rich.console import Console

PACKETS = 400_000
"""Packets simulated for each policy: enough for a delay within a few per cent."""
REPLICATIONS = 16
P95 = 95.0
SECONDS_MAX = 100 * 86_400.0
NOT_STATIONARY = "not-stationary"
NEAR_SATURATION = "near-saturation"
FAR_MBPS = 100_000
BASELINE = "clear"
"""The standing of policies without protection."""
STANDING_ORDER = {"current": 0, "legacy": 2, BASELINE: 3}
UNENCRYPTED = 1
"""Policies that only authenticate rank below permitted ones that encrypt."""

DELAY, HANDSHAKE = "delay", "handshake"
RANKS = {
    DELAY: "by smaller mean delay, or by higher rate where there is none",
    HANDSHAKE: "by the shorter key exchange, those whose time leaves something out after the "
    "others, those without keys last, and equal ones by smaller mean delay",
}
"""What decides among policies of equal standing, by the word for it."""
ORDER = (
    "best first: carried, barely, not, unknown; then policies that today's standards permit and "
    "that encrypt, then those that only authenticate, then legacy; then those whose key exchange "
    "no standard deprecates; then {rank}; last, as the baseline only, policies without protection"
)
LEFT_OUT = (
    "not counted in delays and rates: key exchanges and their renewals, NAT keepalives (29 bytes "
    "of IP in every 20 s in which nothing is sent), and dead peer detection"
)
HANDSHAKES = (
    "key exchanges have the messages of the real machine, behind a NAT, with small certificates; "
    "nothing is lost, and the gateway computes in no time. Times end when the device may send its "
    "first data, at a move when data comes to the new address"
)

SCENARIO = """
name = "ask"
title = "What a device carries over a link"
policy = "none"
accounting = "rfc"

[traffic]
{traffic}
direction = "{direction}"

[[node]]
name = "station"
role = "station"
device = {device}
{speed}

[[node]]
name = "gateway"
role = "gateway"

[[node]]
name = "server"
role = "server"

[[link]]
from = "station"
to = "gateway"
link = {link}

[[link]]
from = "gateway"
to = "server"
rate = "{far} Mbit/s"
"""
SCENARIO_FILE = "ask"
"""The file name in errors of the generated scenario text."""
OPTIONS = {"node": "--device", "link": "--link", "traffic": "--rate-kbps, --bytes"}
"""The options by the first word of the scenario's keys."""
STATION_KEY = "traffic.station"
UNPROTECTED = "none"
"""A policy that every device has costs for."""
WEB_BYTES_MAX = 1500
"""Largest packet of web browsing, and of Ethernet."""
IP_BYTES_MAX = 65_535
"""The largest value of the length field of an IP header."""
ADDED_LEAST = 26
"""Bytes that every policy adds at least: ESP in UDP with DES and no padding."""
WEB = 'sizes = { model = "pareto", shape = 1.1, smallest = "81.5 B", largest = "1500 B" }'


@dataclass(frozen=True)
class AskRequest:
    """The question: one of `rate_kbps` and `capture`; `packet_bytes` None for web browsing."""

    device: str
    link: str
    rate_kbps: float | None = None
    capture: Path | None = None
    packet_bytes: float | None = None
    mips: float | None = None
    clock_mhz: float | None = None
    direction: str = "up"
    seed: int = 1
    station: str | None = None
    """Address of the device in the capture; None uses all packets."""
    policies: tuple[str, ...] = ()
    """Names or files besides those of the catalogue."""
    rank: str = DELAY
    """What decides among policies of equal standing: a word of `RANKS`."""


@dataclass(frozen=True)
class Verdict:
    """One policy: whether it is `carried` (yes, barely, no, unknown), its cost, and why.

    Delays in ms, rates in kbit/s, `expansion` protected bytes per clear byte. None if there is no
    number. `load` is the work per second that all the traffic brings to the `busiest` part, 1 or
    more if it is not carried; `utilisation` is the share of the time in which it works. `standing`
    is that of the algorithms, `is_forbidden` whether a standard says MUST NOT of one of them;
    `exchange` is about the key exchange itself: why standards deprecate it. `rounds` is how often
    the device waits in it, `handshake_bytes` its IP packets, `handshake_ms` the time until the
    first data may leave: None if keys are there by hand, or for what `handshake_why` says. If
    `handshake_is_least`, that says what the time leaves out.
    """

    policy: str
    title: str
    standing: str
    is_forbidden: bool
    encrypts: bool
    carried: str
    delay_ms: float | None = None
    p95_ms: float | None = None
    p95_between_ms: tuple[float, float] | None = None
    """The range of the percentile; both ends are equal if it is exact."""
    offered_kbps: float | None = None
    throughput_kbps: float | None = None
    capacity_kbps: float | None = None
    protected_kbps: float | None = None
    expansion: float | None = None
    exchange: str | None = None
    busiest: str = ""
    load: float | None = None
    utilisation: float | None = None
    why: str = ""
    rounds: int | None = None
    handshake_bytes: float | None = None
    handshake_ms: float | None = None
    handshake_is_least: bool = False
    handshake_why: str = ""


@dataclass(frozen=True)
class Answer:
    """Policies by rank, the key exchanges of IKE, and what their numbers leave out."""

    verdicts: list[Verdict]
    exchanges: list[handshakes.Exchange]
    assumptions: list[str]
    caveats: list[str]
    capture: Mapping[str, int] | None
    """The capture's counts: used packets, packets that are not IP or of others, and so on."""


def answer(asked: AskRequest, jobs: int | None = None, console: Console | None = None) -> Answer:
    """Every policy of the catalogue and of `asked`, in the order that `ORDER` describes."""
    if (asked.rate_kbps is None) == (asked.capture is None):
        raise LabError("--traffic, --rate-kbps: give one of them")
    if asked.rank not in RANKS:
        raise LabError(f"--rank: {asked.rank} is not one of {', '.join(RANKS)}")
    positive(
        rate_kbps=asked.rate_kbps, bytes=asked.packet_bytes, mips=asked.mips, mhz=asked.clock_mhz
    )
    one_speed(asked.mips, asked.clock_mhz)
    size = asked.packet_bytes or 0.0
    if size > IP_BYTES_MAX or size % 1:
        raise LabError(
            f"--bytes: {size:.10g} is not a packet size: up to {IP_BYTES_MAX} whole bytes"
        )
    if asked.station is not None and asked.capture is None:
        raise LabError("--station: selects packets of a capture: give --traffic too")
    named = [find("policy", name) for name in asked.policies]
    own = [entry for entry in named if entry not in catalogue()]
    # A client reaches a gateway; SKIP ends at a firewall, in a scenario of its own.
    listed = listing("policy", own)
    layers = {one["name"]: one["layer"] for one in listed}
    for entry in named:
        if layers.get(entry.name) == "skip":
            raise LabError(
                f"--policy: {entry.name} is SKIP's, between a station and a firewall: simulate a "
                "scenario with a layer of the kind skip"
            )
    request, policies = _request(asked, own), [one for one in listed if one["layer"] == "ipsec"]
    capture = None
    try:
        if asked.capture is not None:
            found, capture = _replayed(request, policies, asked.capture)
        else:
            found = _simulated(request, policies, asked, jobs, console)
    except LabError as fault:
        raise _in_options(fault) from None
    way = Way(find("link", asked.link), find("device", asked.device), asked.mips, asked.clock_mhz)
    found = _with_handshakes(found, policies, (*catalogue(), *own), way)
    return Answer(
        sorted(found, key=partial(_place, rank=asked.rank)),
        handshakes.of_catalogue(way),
        assumptions(asked, request),
        caveats(asked, capture),
        capture,
    )


def order(rank: str) -> str:
    """How policies are ranked, in one sentence."""
    return ORDER.format(rank=RANKS[rank])


def _place(one: Verdict, rank: str) -> tuple[Any, ...]:
    """The place of a policy: better ones are smaller."""
    carried = {"yes": 0, "barely": 1, "no": 2, "unknown": 3}
    delay = one.delay_ms if one.delay_ms is not None else float("inf")
    time_ms = one.handshake_ms if one.handshake_ms is not None else float("inf")
    handshake = (one.rounds is None, one.handshake_is_least, time_ms)
    return (
        one.standing == BASELINE,
        carried[one.carried],
        _worth(one),
        # today's exchange before one that a standard deprecates
        one.exchange is not None,
        handshake if rank == HANDSHAKE else (),
        delay,
        -(one.capacity_kbps or 0.0),
        one.policy,
    )


def _with_handshakes(
    found: Sequence[Verdict],
    policies: Sequence[Mapping[str, Any]],
    entries: Sequence[Entry],
    way: Way,
) -> list[Verdict]:
    """The verdicts with the key exchanges of their policies."""
    texts = {entry.name: entry for entry in entries if entry.kind == "policy"}
    families = {policy["name"]: policy["outer"] for policy in policies}

    def told(one: Verdict) -> Verdict:
        taken = handshakes.of_policy(texts[one.policy], families[one.policy], way)
        if isinstance(taken, Handshake):
            return replace(
                one,
                rounds=taken.rounds,
                handshake_bytes=taken.bytes,
                handshake_ms=taken.send_ms,
                handshake_is_least=bool(taken.least),
                handshake_why=taken.least,
            )
        why = "keys are there by hand" if taken is None else taken
        return replace(one, handshake_why="" if one.standing == BASELINE else why)

    return [told(one) for one in found]


def assumptions(asked: AskRequest, request: Mapping[str, object]) -> list[str]:
    """The assumptions about traffic, link and tunnel."""
    link = _row("link", asked.link)
    mtu, delay_s = link["link"]["mtu_bytes"], link["link"]["delay_s"]
    limit = "no MTU" if mtu is None else f"an MTU of {mtu:,.10g} bytes"
    of = f"a link with {limit}"
    if delay_s:
        of += f" and a delay of {significant(delay_s * 1e3)} ms"
    sources = {one["key"]: one["source"] for one in link["sources"]}
    of += f" ({sources['delay']})" if delay_s and "delay" in sources else " (caravan-lab show)"
    return [_traffic(asked, request), of, LEFT_OUT, HANDSHAKES]


def _traffic(asked: AskRequest, request: Mapping[str, object]) -> str:
    if asked.capture is not None:
        return "packets with the times and sizes of the capture"
    if asked.packet_bytes is not None:
        sizes = f"of {asked.packet_bytes:,.10g} bytes each"
    else:
        model = core.model({**request, "set": [f"policy={UNPROTECTED}"]})
        sizes = f"sized as web browsing (TR 101 112), {model['mean_bytes']:,.0f} bytes on average"
    return f"packets at random times (Poisson), {sizes}, IP header included"


def caveats(asked: AskRequest, capture: Mapping[str, int] | None = None) -> list[str]:
    """What the numbers of an answer leave out; `capture` as in `Answer`."""
    device, link = _row("device", asked.device), _row("link", asked.link)
    found = []
    if link["link"]["delay_s"] == 0:
        found.append(
            "these delays do not include the delay of the radio or the line: "
            f"no source gives it for {link['name']}"
        )
    if are_bounds(asked):
        found.append(
            f"{device['name']} has a cost per byte but no cost per packet: delays are lower bounds "
            "and rates are upper bounds, above all with small packets"
        )
    largest = asked.packet_bytes or WEB_BYTES_MAX
    mtu = link["link"]["mtu_bytes"]
    if capture is not None:
        found += _of_capture(asked, capture, mtu)
        largest = capture["largest_bytes"]
    if mtu is not None and largest + ADDED_LEAST > mtu:
        found.append(
            f"a packet that exceeds the link's {mtu:,.10g} bytes after protection counts as one "
            "packet: the cost of fragments is left out"
        )
    return found


def are_bounds(asked: AskRequest) -> bool:
    """Whether only bytes have a cost on the device: then delays are longer and rates lower than
    shown."""
    device = _row("device", asked.device)
    cells = {cell["name"] for cell in device["cells"]}
    return device["unit"] == "cycles" and "per_packet" not in cells


def _of_capture(asked: AskRequest, capture: Mapping[str, int], mtu: float | None) -> list[str]:
    """Facts about reading a capture that its owner may not expect."""
    found = []
    if strange := capture["strange"]:
        whole = strange + capture["packets"] + capture["unwanted"]
        found.append(
            f"{strange:,} of the capture's {whole:,} packets are left out: they are not IP"
        )
    if capture["returning"] and asked.station is None:
        other = "that it receives" if asked.direction == "down" else "that it sends"
        found.append(
            f"the capture has both directions, and all packets were sent {asked.direction}: "
            f"--station ADDRESS selects one host and the packets {other}"
        )
    if capture["largest_bytes"] > (mtu or WEB_BYTES_MAX):
        found.append(
            f"the capture has packets of up to {capture['largest_bytes']:,} bytes, from "
            "before a network card splits them: the link carries several packets instead, each "
            "with its own headers and protection, which costs more than shown here"
        )
    return found


def _row(kind: str, name: str) -> Mapping[str, Any]:
    """A device or link from its listing."""
    entry = find(kind, name)
    row: Mapping[str, Any]
    (row,) = (row for row in listing(kind, [entry])[::-1] if row["name"] == entry.name)
    return row


def _in_options(fault: LabError) -> LabError:
    """An error of the generated scenario, with the option that caused it."""
    place = fault.place
    if place is None or place.file != SCENARIO_FILE:
        return fault
    if place.key == STATION_KEY:
        return LabError(f"--station: {fault.what}")
    option = OPTIONS.get(place.key.partition(".")[0])
    return LabError(f"{option}: {fault.what}") if option else fault


def _worth(one: Verdict) -> int:
    if one.standing == "current" and not one.encrypts:
        return UNENCRYPTED
    return STANDING_ORDER[one.standing]


def _request(asked: AskRequest, policies: Sequence[Entry]) -> dict[str, object]:
    """The generated scenario as a request of the native core, which may also name `policies`."""
    device, link = find("device", asked.device), find("link", asked.link)
    speed = ""
    if asked.mips is not None:
        speed = f"mips = {asked.mips!r}"
    elif asked.clock_mhz is not None:
        speed = f'clock = "{asked.clock_mhz!r} MHz"'
    if asked.rate_kbps is None:
        traffic = 'model = "pcap"\nfile = "capture"'
        if asked.station is not None:
            traffic += f"\nstation = {json.dumps(asked.station)}"
    else:
        sizes = WEB
        if asked.packet_bytes is not None:
            sizes = f'sizes = {{ model = "fixed", bytes = "{asked.packet_bytes!r} B" }}'
        traffic = f'model = "poisson"\nrate = "{asked.rate_kbps!r} kbit/s"\n{sizes}'
    text = SCENARIO.format(
        traffic=traffic,
        direction=asked.direction,
        device=json.dumps(device.name),
        speed=speed,
        link=json.dumps(link.name),
        far=FAR_MBPS,
    )
    texts = (*catalogue(), device, link, *policies)
    entries = {(entry.kind, entry.name): entry for entry in texts}
    return {
        "file": SCENARIO_FILE,
        "text": text,
        "set": [],
        "catalogue": [entry.request() for entry in entries.values()],
    }


def _replayed(
    request: dict[str, object], policies: Sequence[dict[str, Any]], capture: Path
) -> tuple[list[Verdict], Mapping[str, int] | None]:
    answers: dict[str, Any] = {}
    for outer in sorted({policy["outer"] for policy in policies}):
        names = [policy["name"] for policy in policies if policy["outer"] == outer]
        scenario = opened({**request, "set": [_family(outer)]})
        replayed = ask_slow(partial(scenario.replay, names, str(capture)))
        answers.update(zip(names, replayed, strict=True))
    verdicts = [
        _unknown(policy, LabError.told(found["missing"]))
        if "missing" in found
        else _verdict(policy, found["outcome"], None)
        for policy, found in ((policy, answers[policy["name"]]) for policy in policies)
    ]
    held = (found["capture"] for found in answers.values() if "capture" in found)
    return verdicts, next(held, None)


def _family(outer: int) -> str:
    """The edit that gives a policy a path of its outer header's version."""
    return f"family={outer}"


def _simulated(
    request: dict[str, object],
    policies: Sequence[dict[str, Any]],
    asked: AskRequest,
    jobs: int | None,
    console: Console | None,
) -> list[Verdict]:
    found = []
    with progress(console, len(policies)) as bar:
        for policy in policies:
            edits = [_family(policy["outer"]), f"policy={policy['name']}"]
            try:
                scenario = opened({**request, "set": edits})
                model = core.model(scenario)
            except LabError as fault:
                if not fault.is_unpriced:
                    raise
                found.append(_unknown(policy, fault))
                bar.advance(1)
                continue
            rate = model["packets_per_s"]
            seconds = min(SECONDS_MAX, PACKETS / REPLICATIONS / rate)
            run = {
                "seconds": seconds,
                "warm_up_s": seconds / 20,
                "replications": REPLICATIONS,
                "seed": asked.seed,
            }
            outcome = simulate_run(scenario, run, jobs)
            found.append(_verdict(policy, outcome, model))
            bar.advance(1)
    return found


def _unknown(policy: dict[str, Any], fault: LabError) -> Verdict:
    return Verdict(
        policy["name"],
        policy["title"],
        policy["standing"],
        policy["is_forbidden"],
        policy["encrypts"],
        "unknown",
        exchange=policy["exchange"],
        why=fault.brief,
    )


def _verdict(
    policy: dict[str, Any], outcome: dict[str, Any], model: dict[str, Any] | None
) -> Verdict:
    # The formula's load is exact; that of a run varies around it.
    exact = outcome if model is None else model
    loads = [station["load"] for station in exact["stations"]]
    stations = zip(outcome["stations"], loads, strict=True)
    busiest, load = max(stations, key=lambda station: station[1])
    state = outcome["state"]
    carried = {NOT_STATIONARY: "no", NEAR_SATURATION: "barely"}.get(state, "yes")
    (p95,) = (one for one in outcome["percentiles"] if one["percent"] == P95)
    low_ms, high_ms = (end * 1e3 for end in p95["between_s"])
    if model is not None:
        capacity = model["capacity_bps"] / 1e3
    else:
        capacity = outcome["offered_bps"] / 1e3 / max(load, 1e-12)
    is_moving = carried == "no"
    return Verdict(
        policy=policy["name"],
        title=policy["title"],
        standing=policy["standing"],
        is_forbidden=policy["is_forbidden"],
        encrypts=policy["encrypts"],
        carried=carried,
        delay_ms=None if is_moving else outcome["mean_delay_s"] * 1e3,
        p95_ms=None if is_moving else p95["delay_s"] * 1e3,
        p95_between_ms=None if is_moving else (low_ms, high_ms),
        offered_kbps=outcome["offered_bps"] / 1e3,
        throughput_kbps=outcome["throughput_bps"] / 1e3,
        capacity_kbps=capacity,
        protected_kbps=outcome["protected_bps"] / 1e3,
        expansion=outcome["expansion"],
        exchange=policy["exchange"],
        busiest="device" if busiest["name"] == "station" else "link",
        load=load,
        utilisation=busiest["utilisation"],
        why=_why(policy, carried, busiest["name"], load, capacity),
    )


def _why(
    policy: dict[str, Any], carried: str, busiest: str, share: float, capacity_kbps: float
) -> str:
    where = "device" if busiest == "station" else "link"
    capacity = significant(capacity_kbps)
    if carried == "no" and share < 1:
        said = f"delays grow with time, though the {where} is only {share:.1%} busy"
    elif carried == "no":
        said = f"the {where} would be {share:.1%} busy: it carries {capacity} kbit/s"
    elif carried == "barely":
        said = f"the {where} is {share:.1%} busy: queues depend on every burst"
    else:
        said = f"the {where} is {share:.1%} busy, and full at {capacity} kbit/s"
    if policy["standing"] == "clear":
        return f"{said}; no protection"
    return "; ".join((said, *reasons(policy)))


def reasons(policy: Mapping[str, Any]) -> list[str]:
    """What today's standards say against a policy of the catalogue: algorithms, then exchange."""
    found = [] if policy["encrypts"] else ["not encrypted"]
    found += policy["reasons"]
    return found if policy["exchange"] is None else [*found, policy["exchange"]]
