"""How stations come onto a radio link: the time of each part before their data can go, and the
messages of the access. Simulated with the machines themselves, or computed from rounds, bytes and
work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from caravan.study.metrics import Measure
from caravan.study.tunnel import COMPLETE, EXACT, INCOMPLETE

PARTS = {
    "eap_start_ms": "eap_start_s",
    "eap_ms": "eap_s",
    "discovery_ms": "discovery_s",
    "registration_ms": "registration_s",
    "key_exchange_ms": "tunnel_s",
    "transport_ms": "transport_s",
}
"""Metrics of the parts; a station has those that its policy has."""
WHOLE, WHOLE_KEY = "authentication_ms", "all_s"
"""The sum of the parts but discovery: a node looks for agents under every policy, and whether
advertisements come soon is none of it. `authentication_s` of a wireless policy is the same."""
COUNTS = {
    "access_frames": "frames",
    "access_bytes": "frame_bytes",
    "radius_packets": "packets",
    "radius_bytes": "packet_bytes",
}
"""Frames of 802.1X without what the link adds, and IP packets of RADIUS."""


def simulated(run: Mapping[str, Any]) -> Iterator[Measure]:
    """The metrics of each station of a run, named by it."""
    for one in run.get("admitted", ()):
        state = COMPLETE if one["is_complete"] else INCOMPLETE
        yield from _parts(one, state)
        for name, key in COUNTS.items():
            if one["eap_s"] is not None:
                yield Measure(f"{name}:{one['station']}", one[key], state=state)


def computed(model: Mapping[str, Any]) -> Iterator[Measure]:
    """The same parts in closed form."""
    for one in model["admitted"]:
        yield from _parts(one, EXACT)


def _parts(one: Mapping[str, Any], state: str) -> Iterator[Measure]:
    for name, key in PARTS.items():
        if one[key] is not None:
            yield Measure(f"{name}:{one['station']}", one[key] * 1e3, state=state)
    if one[WHOLE_KEY] is not None:
        seconds = one[WHOLE_KEY] - (one["discovery_s"] or 0.0)
        yield Measure(f"{WHOLE}:{one['station']}", seconds * 1e3, state=state)
