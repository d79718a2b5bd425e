"""The configuration of both ends for a policy that the native core has resolved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from caravan.testbed.connection import Connection, Eap, PublicKey, SharedKey
from caravan.testbed.graph import NotForTestbed
from caravan.testbed.pki import Key

CLEAR = Connection(SharedKey("nobody's"), mode="transport", esp_proposals="none")
"""Of a gateway that publishes ports, and protects nothing."""
PROOFS = {
    "psk": None,
    "rsa2048": Key.RSA_2048,
    "ecdsa-p256": Key.P256,
    "ed25519": Key.ED25519,
    "eap-mschapv2": Key.RSA_2048,
    "eap-tls": Key.RSA_2048,
}
"""The keys of certificates by `keys.proof`, where it needs any."""
LOST_S, GONE_S = 2, 4
"""How soon a client probes a gateway that it is to lose, and for how long, s."""
SECRET = "in everybody's hands"
USER = "ms.example"
"""Of EAP, the only one of a gateway. Each client of its policy is this user."""


def check_policy(tunnel: Mapping[str, Any]) -> None:
    """Refuse a tunnel, as the native core has set it up, whose keys the testbed cannot make."""
    policy, key = tunnel["protection"], tunnel["policy_key"]
    name, exchange = policy["name"], policy["keys"]
    if exchange is None:
        what = f"{name}: the testbed needs a key exchange, and the policy has no [keys]"
        raise NotForTestbed(key, what)
    if exchange["proof"] not in PROOFS:
        what = "the testbed's RSA keys have 2048 bits, and its openssl has no ML-DSA"
        raise NotForTestbed(key, f"{name}: keys.proof: {what}")
    if exchange.get("cookie"):
        raise NotForTestbed(key, f"{name}: keys.cookie: no gateway of the testbed is under load")


def connection(tunnel: Mapping[str, Any], own: PublicKey) -> Connection:
    """What both ends of a tunnel have alike; `own` proves who an end is, where keys do."""
    check_policy(tunnel)
    policy = tunnel["protection"]
    exchange = policy["keys"]
    return Connection(
        _auth(exchange["proof"], own),
        version=2 if exchange["exchange"] == "ikev2" else 1,
        has_fragments=exchange.get("fragments", True),
        mode=policy["mode"],
        proposals=exchange["proposal"],
        esp_proposals=policy["suite"],
        ah_proposals=policy.get("around", ""),
        is_layered="around" in policy,
        is_aggressive=exchange["exchange"] == "ikev1-aggressive",
        is_encapsulated=None if policy["udp"] else False,
        resumption=exchange.get("resumed", False),
        dpd_s=LOST_S if exchange.get("resumed") else None,
        dpd_timeout_s=GONE_S if exchange.get("resumed") else None,
    )


def key_of(tunnel: Mapping[str, Any]) -> Key:
    """The kind of the keys that the ends of a tunnel have."""
    return PROOFS[tunnel["protection"]["keys"]["proof"]] or Key.RSA_2048


def _auth(proof: str, own: PublicKey) -> PublicKey | SharedKey | Eap:
    if proof == "psk":
        return SharedKey(SECRET)
    if proof.startswith("eap-"):
        return Eap(proof.removeprefix("eap-"), own, USER, SECRET)
    return own
