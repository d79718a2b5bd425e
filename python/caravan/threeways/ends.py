"""The configuration of both ends for a policy of the catalogue."""

from __future__ import annotations

from typing import Any

from caravan.document import plain
from caravan.lab import core
from caravan.testbed.connection import Connection, PublicKey, SharedKey
from caravan.testbed.graph import NotForTestbed

CLEAR = Connection(SharedKey("nobody's"), mode="transport", esp_proposals="none")
"""Of a gateway that publishes ports, and protects nothing."""


def check_policy(policy: str) -> None:
    """Refuse a policy whose keys the testbed cannot make."""
    proof = _policy(policy)["keys"]["proof"]
    if proof not in ("rsa2048", "psk"):
        raise NotForTestbed("policy", f"{policy}: keys.proof: the testbed's keys have 2048 bits")


def connection(policy: str, own: PublicKey) -> Connection:
    """What both ends of a policy have alike; `own` proves who an end is, where keys do."""
    check_policy(policy)
    found = _policy(policy)
    exchange = found["keys"]
    return Connection(
        SharedKey("in everybody's hands") if exchange["proof"] == "psk" else own,
        mode=found.get("mode", "tunnel"),
        proposals=exchange["proposal"],
        esp_proposals=found["suite"],
        is_aggressive=exchange["exchange"] == "ikev1-aggressive",
        is_encapsulated=None if found.get("udp", True) else False,
    )


def _policy(name: str) -> dict[str, Any]:
    entry = core.find("policy", name)
    return plain(entry.file, entry.text)
