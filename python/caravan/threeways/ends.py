"""The configuration of both ends for a policy that the native core has resolved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from caravan.testbed.connection import Connection, PublicKey, SharedKey
from caravan.testbed.graph import NotForTestbed

CLEAR = Connection(SharedKey("nobody's"), mode="transport", esp_proposals="none")
"""Of a gateway that publishes ports, and protects nothing."""


def check_policy(tunnel: Mapping[str, Any]) -> None:
    """Refuse a tunnel, as the native core has set it up, whose keys the testbed cannot make."""
    policy, key = tunnel["protection"], tunnel["policy_key"]
    name, exchange = policy["name"], policy["keys"]
    if exchange is None:
        what = f"{name}: the testbed needs a key exchange, and the policy has no [keys]"
        raise NotForTestbed(key, what)
    if exchange["proof"] not in ("rsa2048", "psk"):
        raise NotForTestbed(key, f"{name}: keys.proof: the testbed's keys have 2048 bits")


def connection(tunnel: Mapping[str, Any], own: PublicKey) -> Connection:
    """What both ends of a tunnel have alike; `own` proves who an end is, where keys do."""
    check_policy(tunnel)
    policy = tunnel["protection"]
    exchange = policy["keys"]
    return Connection(
        SharedKey("in everybody's hands") if exchange["proof"] == "psk" else own,
        mode=policy["mode"],
        proposals=exchange["proposal"],
        esp_proposals=policy["suite"],
        ah_proposals=policy.get("around", ""),
        is_layered="around" in policy,
        is_aggressive=exchange["exchange"] == "ikev1-aggressive",
        is_encapsulated=None if policy["udp"] else False,
    )
