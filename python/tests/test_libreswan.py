"""IKEv2 with Libreswan 5.2, which `tools/peers` unpacks, in both roles.

Its SAs carry nothing here, so each case compares SPIs and selectors and reads pluto's own words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from libreswan_pair import NEEDS_PLUTO, STATION_ADDRESS, Pair, connected
from strongswan_pair import ends_of_ikev2, settle

from caravan.testbed.caravan import order
from caravan.testbed.connection import Connection, Ppk
from caravan.testbed.remote_access import GATEWAY_ADDRESS
from caravan.threeways.measurement import Keys

pytestmark = [pytest.mark.root, NEEDS_PLUTO]

OTHER_ADDRESS = "192.0.2.77"
KEY = "b2610f4c9d8833a7e15f02c6d4907be83a1c5f60972be4d8036fa9517c2d84e1"
ROLES = pytest.mark.parametrize("is_initiator", [True, False], ids=["initiator", "responder"])
PROOFS = pytest.mark.parametrize("has_certificates", [True, False], ids=["rsa", "psk"])


@dataclass(frozen=True)
class Suites:
    """Proposals, and how pluto names them."""

    ike: str
    esp: str
    ike_chosen: str
    esp_chosen: str


SUITES = (
    Suites(
        "aes256gcm16-prfsha384-curve25519",
        "aes128gcm16",
        "{cipher=AES_GCM_16_256 integ=n/a prf=HMAC_SHA2_384 group=DH31}",
        "AES_GCM_16_128-NONE",
    ),
    Suites(
        "chacha20poly1305-prfsha256-ecp256",
        "chacha20poly1305",
        "{cipher=CHACHA20_POLY1305_256 integ=n/a prf=HMAC_SHA2_256 group=DH19}",
        "CHACHA20_POLY1305-NONE",
    ),
    Suites(
        "aes256-sha512-modp3072",
        "aes256-sha512",
        "{cipher=AES_CBC_256 integ=HMAC_SHA2_512_256 prf=HMAC_SHA2_512 group=MODP3072}",
        "AES_CBC_256-HMAC_SHA2_512_256",
    ),
    Suites(
        "aes128-sha1-ecp521",
        "aes128-sha1",
        "{cipher=AES_CBC_128 integ=HMAC_SHA1_96 prf=HMAC_SHA1 group=DH21}",
        "AES_CBC_128-HMAC_SHA1_96",
    ),
)


def ends(
    keys: Keys, suites: Suites = SUITES[0], *, has_certificates: bool = True
) -> tuple[Connection, Connection]:
    """The configuration of one connection for the gateway and for the station."""
    return ends_of_ikev2(keys, suites.ike, suites.esp, has_certificates=has_certificates)


def spis(pair: Pair) -> tuple[str, str]:
    """Of our only child."""
    (child,) = pair.ours.children()
    return child["spi_in"], child["spi_out"]


def renew(pair: Pair, what: str = "child", *, is_ours: bool) -> None:
    """Our end or pluto renews its child or its IKE SA."""
    if is_ours:
        order(pair.ours.host, "rekey", "road", *(["--ike"] if what == "ike" else [])).check()
    else:
        pair.pluto.whack(f"--rekey-{what}", "--name", "road")


def another_ike_sa(pair: Pair, former: list[int]) -> int:
    """Pluto's number of the one IKE SA that follows the former ones."""
    settle(lambda: len(pair.pluto.ike_sas()) == 1 and pair.pluto.ike_sas()[0] not in former)
    return pair.pluto.ike_sas()[0]


@ROLES
@PROOFS
@pytest.mark.parametrize("suites", SUITES, ids=lambda it: str(it.ike))
def test_both_ends_have_the_same_child(
    suites: Suites,
    has_certificates: bool,
    is_initiator: bool,
    keys: Keys,
    output: Path,
) -> None:
    both = ends(keys, suites, has_certificates=has_certificates)
    with connected(*both, output, is_initiator=is_initiator) as pair:
        log = pair.pluto.log()
        assert suites.ike_chosen in log
        assert f"xfrm={suites.esp_chosen}" in log
        if is_initiator:
            assert "IPsec tunnel [10.10.0.0/24===10.99.0.1/32]" in log
        else:
            assert "IPsec tunnel [10.99.0.1/32===10.10.0.0/24]" in log
        session = pair.session()
        assert session["suite"] == suites.ike
        (child,) = session["children"]
        assert child["suite"] == suites.esp
        local, remote = (
            ("10.99.0.1", "10.10.0.0/24") if is_initiator else ("10.10.0.0/24", "10.99.0.1")
        )
        assert (child["local_ts"], child["remote_ts"]) == (local, remote)
        proof = "certificate" if has_certificates else "using authby=secret"
        assert f"established IKE SA; authenticated peer {proof}" in log


@ROLES
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [("aes128gcm16-esn", "yes"), ("", "yes"), ("", "either"), ("", "no")],
    ids=["long", "default-long", "default-either", "default-short"],
)
def test_both_ends_agree_on_the_length_of_numbers(
    ours: str, theirs: str, is_initiator: bool, keys: Keys, output: Path
) -> None:
    """RFC 9827: 64 bits or 32 of a packet's number are counted."""
    gateway, station = ends(keys)
    if is_initiator:
        station = replace(station, esp_proposals=ours)
    else:
        gateway = replace(gateway, esp_proposals=ours)
    more = f"esn={theirs}"
    with connected(gateway, station, output, more, is_initiator=is_initiator) as pair:
        assert has_long_numbers(pair) is (theirs != "no")
        seen = [spis(pair)]
        for is_ours in (True, False):
            renew(pair, is_ours=is_ours)
            settle(lambda: pair.agrees() and spis(pair) not in seen)
            seen.append(spis(pair))
            assert has_long_numbers(pair) is (theirs != "no")


def has_long_numbers(pair: Pair) -> bool:
    """What both ends say of their child."""
    (ours,), (theirs,) = pair.session()["children"], pair.pluto.children()
    *_, said = re.findall(rf"#{theirs.number}: .*{{(ESP\S*)=>", pair.pluto.log())
    is_long: bool = ours["suite"].endswith("-esn")
    assert ("ESN" in said) is is_long, said
    return is_long


@ROLES
def test_either_end_renews_the_child_and_the_ike_sa(
    is_initiator: bool, keys: Keys, output: Path
) -> None:
    with connected(*ends(keys), output, is_initiator=is_initiator) as pair:
        seen = [spis(pair)]
        ike_sas = pair.pluto.ike_sas()
        for is_ours in (True, False, True):
            renew(pair, is_ours=is_ours)
            settle(lambda: pair.agrees() and spis(pair) not in seen)
            seen.append(spis(pair))
        for is_ours in (True, False, True):
            renew(pair, "ike", is_ours=is_ours)
            ike_sas.append(another_ike_sa(pair, ike_sas))
            pair.settle()
            # The child stays, under the new IKE SA.
            assert spis(pair) == seen[-1]
        pair.pluto.whack("--rekey-child", "--name", "road")
        settle(lambda: pair.agrees() and spis(pair) not in seen)


@ROLES
def test_either_end_may_end_the_tunnel(is_initiator: bool, keys: Keys, output: Path) -> None:
    both = ends(keys, has_certificates=False)
    with connected(*both, output, is_initiator=is_initiator) as pair:
        if not is_initiator:
            pair.pluto.ipsec("down", "road")
            pair.ours.wait_until(False)
            pair.pluto.initiate()
            pair.settle()
        pair.ours.stop()
        settle(lambda: not pair.pluto.children() and not pair.pluto.ike_sas())


@pytest.mark.parametrize(
    ("has_intermediate", "is_initiator"),
    [(True, False), (False, False), (False, True)],
    ids=["draft-responder", "plain-responder", "plain-initiator"],
)
@PROOFS
def test_a_preshared_key_besides(
    has_intermediate: bool,
    has_certificates: bool,
    is_initiator: bool,
    keys: Keys,
    output: Path,
) -> None:
    """With IKE_INTERMEDIATE pluto has a draft of RFC 9867, by other numbers: it gets RFC 8784.

    As a responder pluto then refuses our AUTH: IKE_INTERMEDIATE is announced and not used, which
    is its issue 2834.
    """
    more = ["intermediate=yes"] if has_intermediate else []
    key = Ppk("fleet", KEY)
    gateway, station = ends(keys, has_certificates=has_certificates)
    both = (replace(gateway, ppk=key), replace(station, ppk=key))
    with connected(*both, output, *more, is_initiator=is_initiator) as pair:
        session = pair.session()
        assert (session["ppk"], session["ppk_exchange"]) == ("fleet", "IKE_AUTH")
        role = "responder" if is_initiator else "initiator"
        assert f"PPK AUTH calculated as {role}" in pair.pluto.log()
        # The keys of the next IKE SA come from it.
        before = spis(pair)
        order(pair.ours.host, "rekey", "road", "--ike").check()
        settle(lambda: len(pair.pluto.ike_sas()) == 1 and pair.agrees())
        pair.pluto.whack("--rekey-child", "--name", "road")
        settle(lambda: pair.agrees() and spis(pair) != before)


def test_pluto_follows_our_move(keys: Keys, output: Path) -> None:
    with connected(*ends(keys), output, is_initiator=True) as pair:
        before = spis(pair)
        station = pair.network.ms
        station.remove_address("wan0", f"{STATION_ADDRESS}/24")
        station.add_address("wan0", f"{OTHER_ADDRESS}/24")
        settle(lambda: pair.session()["moves"] == 1)
        assert str(pair.session()["local"]).startswith(OTHER_ADDRESS)
        pair.pluto.wait_for_log(f"MOBIKE.*{OTHER_ADDRESS}|{OTHER_ADDRESS}.*MOBIKE")
        assert pair.agrees() and spis(pair) == before
        # What pluto begins goes to the new address.
        pair.pluto.whack("--rekey-child", "--name", "road")
        settle(lambda: pair.agrees() and spis(pair) != before)


def test_we_follow_pluto_to_another_address(keys: Keys, output: Path) -> None:
    gateway, station = ends(keys)
    with connected(gateway, station, output, is_initiator=False) as pair:
        before = spis(pair)
        host = pair.network.ms
        host.remove_address("wan0", f"{STATION_ADDRESS}/24")
        host.add_address("wan0", f"{OTHER_ADDRESS}/24")
        host.add_route("default", GATEWAY_ADDRESS)
        settle(lambda: str(pair.session()["remote"]).startswith(OTHER_ADDRESS))
        assert pair.agrees() and spis(pair) == before
        order(pair.ours.host, "rekey", "road").check()
        settle(lambda: pair.agrees() and spis(pair) != before)
