"""The configuration of both ends for a policy of the catalogue."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from caravan.document import plain
from caravan.lab import core
from caravan.testbed.connection import Connection
from caravan.testbed.graph import NotForTestbed
from caravan.threeways.measurement import CLEAR, Keys, transport_ends, tunnel_ends


def policy_mode(policy: str) -> str:
    """`tunnel` or `transport` of a policy of the catalogue; `none` without protection."""
    return CLEAR if policy == CLEAR else str(_policy(policy).get("mode", "tunnel"))


def _policy(name: str) -> dict[str, Any]:
    entry = core.find("policy", name)
    return plain(entry.file, entry.text)


def policy_ends(keys: Keys, policy: str) -> tuple[Connection, Connection | None]:
    """Gateway and client for a policy of the catalogue; without protection the gateway only
    publishes."""
    if policy == CLEAR:
        return transport_ends(keys, CLEAR)[0], None
    found = _policy(policy)
    make = tunnel_ends if policy_mode(policy) == "tunnel" else transport_ends
    exchange = found["keys"]
    if exchange["proof"] != "rsa2048":
        raise NotForTestbed("policy", f"{policy}: keys.proof: the testbed's keys have 2048 bits")
    gateway, station = (
        replace(
            end,
            proposals=exchange["proposal"],
            is_aggressive=exchange["exchange"] == "ikev1-aggressive",
            is_encapsulated=None if found.get("udp", True) else False,
        )
        for end in make(keys, found["suite"])
    )
    return gateway, station
