"""ML-KEM with strongSwan 6.1, which `tools/peers` unpacks, in both roles.

Each case fetches a file through the tunnel, compares its hash, and reads charon's own words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from newer_peers import needs
from strongswan_pair import Pair, connected, ends_of_ikev2, settle

from caravan.testbed.caravan import order, without_repeats
from caravan.testbed.connection import Ppk
from caravan.testbed.remote_access import SERVER_ADDRESS
from caravan.testbed.strongswan import RELEASE, NewStrongSwan
from caravan.testbed.traffic import make_file, ping
from caravan.threeways.measurement import Keys

pytestmark = [
    pytest.mark.root,
    needs(RELEASE),
]

FILE_BYTES = 1_000_000
KEY = "5f0e9b3a71c84d2296ee08fd45b1a3c7609d12fb8e5a7c3490bb62d1e8f4a70c"
HYBRID = "aes256gcm16-prfsha384-curve25519-ke1_mlkem768"
CLASSICAL = "aes128gcm16-prfsha256-curve25519"
CHOSEN = {
    HYBRID: "IKE:AES_GCM_16_256/PRF_HMAC_SHA2_384/CURVE_25519/KE1_ML_KEM_768",
    CLASSICAL: "IKE:AES_GCM_16_128/PRF_HMAC_SHA2_256/CURVE_25519",
    "aes128gcm16-prfsha256-ecp384-ke1_mlkem1024": (
        "IKE:AES_GCM_16_128/PRF_HMAC_SHA2_256/ECP_384/KE1_ML_KEM_1024"
    ),
    "aes256-sha384-mlkem768": ("IKE:AES_CBC_256/HMAC_SHA2_384_192/PRF_HMAC_SHA2_384/ML_KEM_768"),
    "chacha20poly1305-prfsha512-ecp256-ke1_mlkem768-ke2_mlkem1024": (
        "IKE:CHACHA20_POLY1305/PRF_HMAC_SHA2_512/ECP_256/KE1_ML_KEM_768/KE2_ML_KEM_1024"
    ),
}
"""Suites, and how charon names them."""
LARGE = "aes128gcm16-prfsha256-ecp384-ke1_mlkem1024"
ROLES = pytest.mark.parametrize("is_initiator", [True, False], ids=["initiator", "responder"])
PROOFS = pytest.mark.parametrize("has_certificates", [True, False], ids=["rsa", "psk"])
WITH_MLKEM = pytest.mark.parametrize("suite", [it for it in CHOSEN if "mlkem" in it])


def is_lossless(pair: Pair) -> bool:
    """Whether every echo comes back for two seconds."""
    echoes = ping(pair.network.ms, SERVER_ADDRESS, 40, 0.05)
    return echoes.received == echoes.sent


def suite_of(pair: Pair) -> str:
    """The suite of our only session."""
    (session,) = pair.ours.status()["connections"][0]["sessions"]
    return str(session["suite"])


@ROLES
@PROOFS
@WITH_MLKEM
def test_a_file_crosses(
    suite: str,
    has_certificates: bool,
    is_initiator: bool,
    keys: Keys,
    output: Path,
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    both = ends_of_ikev2(keys, suite, has_certificates=has_certificates)
    with connected(*both, output, is_initiator=is_initiator, strongswan=NewStrongSwan) as pair:
        assert pair.fetch() == expected
        assert pair.charon.selected_proposals()[0] == CHOSEN[suite]
        assert suite_of(pair) == suite
        (sa,) = pair.charon.sas()
        assert (sa.state, sa.version) == ("ESTABLISHED", 2)
        (child,) = sa.children
        assert child.bytes_in + child.bytes_out > FILE_BYTES
        exchanges = [message.exchange for message in without_repeats(pair.ours.handshake())]
        assert exchanges.count("intermediate") == 2 * suite.count("-ke")


@ROLES
@pytest.mark.parametrize("suite", [HYBRID, LARGE, "aes256-sha384-mlkem768"])
def test_either_end_renews_the_ike_sa_with_the_same_exchanges(
    suite: str, is_initiator: bool, keys: Keys, output: Path
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    with connected(
        *ends_of_ikev2(keys, suite),
        output,
        is_initiator=is_initiator,
        strongswan=NewStrongSwan,
    ) as pair:
        (before,) = pair.charon.sas()
        pair.charon.rekey_ike()
        assert is_lossless(pair)
        order(pair.ours.host, "rekey", "road", "--ike").check()
        assert is_lossless(pair)
        pair.charon.rekey_child()
        assert is_lossless(pair)
        settle(lambda: len(pair.charon.sas()) == 1 and len(pair.charon.children()) == 1)
        (after,) = pair.charon.sas()
        assert after.unique_id >= before.unique_id + 2
        chosen = [it for it in pair.charon.selected_proposals() if it.startswith("IKE:")]
        assert chosen == [CHOSEN[suite]] * 3
        exchanges = [message.exchange for message in without_repeats(pair.ours.handshake())]
        assert exchanges.count("followup") == 2 * 2 * suite.count("-ke")
        assert pair.fetch() == expected


@ROLES
@pytest.mark.parametrize(
    ("esp", "chosen"),
    [
        (
            "aes256gcm16-curve25519-ke1_mlkem768",
            "AES_GCM_16_256/CURVE_25519/NO_EXT_SEQ/KE1_ML_KEM_768",
        ),
        (
            "aes128gcm16-ecp256-ke1_mlkem768-ke2_mlkem1024",
            "AES_GCM_16_128/ECP_256/NO_EXT_SEQ/KE1_ML_KEM_768/KE2_ML_KEM_1024",
        ),
        ("aes128gcm16-mlkem1024", "AES_GCM_16_128/ML_KEM_1024/NO_EXT_SEQ"),
    ],
    ids=["one", "two", "alone"],
)
def test_either_end_renews_the_child_with_additional_exchanges(
    esp: str, chosen: str, is_initiator: bool, keys: Keys, output: Path
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    both = ends_of_ikev2(keys, CLASSICAL, esp)
    with connected(*both, output, is_initiator=is_initiator, strongswan=NewStrongSwan) as pair:
        renewals: tuple[Callable[[], object], ...] = (
            pair.charon.rekey_child,
            lambda: order(pair.ours.host, "rekey", "road").check(),
        )
        for number, renew in enumerate(renewals, 1):
            renew()
            settle(partial(has_chosen, pair, f"ESP:{chosen}", number))
            assert is_lossless(pair)
        settle(lambda: len(pair.charon.children()) == 1 and len(pair.ours.children()) == 1)
        (child,) = pair.ours.children()
        assert child["suite"] == esp
        exchanges = [message.exchange for message in without_repeats(pair.ours.handshake())]
        assert exchanges.count("followup") == 2 * 2 * esp.count("-ke")
        assert pair.fetch() == expected


def has_chosen(pair: Pair, suite: str, times: int) -> bool:
    """Whether charon has chosen a suite so often."""
    return pair.charon.selected_proposals().count(suite) == times


@ROLES
def test_a_large_key_comes_in_fragments(is_initiator: bool, keys: Keys, output: Path) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    with connected(
        *ends_of_ikev2(keys, LARGE),
        output,
        is_initiator=is_initiator,
        strongswan=NewStrongSwan,
    ) as pair:
        assert pair.fetch() == expected
        messages = without_repeats(pair.ours.handshake())
        large = [it for it in messages if it.exchange == "intermediate"]
        assert [it.datagrams >= 2 for it in large] == [True, True]
        assert "splitting IKE message" in pair.charon.log()
        assert "reassembled fragmented IKE message" in pair.charon.log()


@ROLES
@pytest.mark.parametrize("is_ours_classical", [True, False], ids=["ours", "theirs"])
def test_a_classical_suite_is_chosen_although_the_other_end_has_mlkem(
    is_ours_classical: bool,
    is_initiator: bool,
    keys: Keys,
    output: Path,
) -> None:
    """AUTH then covers no IKE_INTERMEDIATE, although both announce it (Libreswan's issue 2834)."""
    expected = make_file(output / "www/file", FILE_BYTES)
    gateway, station = ends_of_ikev2(keys, CLASSICAL)
    # Ours has both by default.
    both_of_them = f"{HYBRID},{CLASSICAL}" if is_ours_classical else ""
    if is_ours_classical == is_initiator:
        gateway = replace(gateway, proposals=both_of_them)
    else:
        station = replace(station, proposals=both_of_them)
    with connected(
        gateway, station, output, is_initiator=is_initiator, strongswan=NewStrongSwan
    ) as pair:
        assert pair.fetch() == expected
        assert suite_of(pair) == CLASSICAL
        assert pair.charon.selected_proposals()[0] == CHOSEN[CLASSICAL]
        pair.charon.rekey_ike()
        assert is_lossless(pair)
        assert pair.fetch() == expected


@ROLES
def test_the_defaults_of_both_meet(is_initiator: bool, keys: Keys, output: Path) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    gateway, station = ends_of_ikev2(keys, "")
    both = (replace(gateway, esp_proposals=""), replace(station, esp_proposals=""))
    with connected(*both, output, is_initiator=is_initiator, strongswan=NewStrongSwan) as pair:
        assert pair.fetch() == expected


@ROLES
def test_a_preshared_key_besides_mlkem(is_initiator: bool, keys: Keys, output: Path) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    key = Ppk("fleet", KEY)
    gateway, station = ends_of_ikev2(keys, HYBRID)
    both = (replace(gateway, ppk=key), replace(station, ppk=key))
    with connected(*both, output, is_initiator=is_initiator, strongswan=NewStrongSwan) as pair:
        assert pair.fetch() == expected
        (session,) = pair.ours.status()["connections"][0]["sessions"]
        assert (session["suite"], session["ppk"]) == (HYBRID, "fleet")
        assert session["ppk_exchange"] == "IKE_AUTH"
        pair.charon.wait_for_log("using PPK for PPK_ID 'fleet'")
        pair.charon.rekey_ike()
        assert is_lossless(pair)
        assert pair.fetch() == expected
