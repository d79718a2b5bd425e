"""Post-quantum keys of IKEv2: ML-KEM between two Caravans, pre-shared keys with strongSwan too.

charon 5.9 has no ML-KEM and gets a classical suite; it has pre-shared keys (RFC 8784). Each case
fetches a file through the tunnel and compares its hash.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from strongswan_pair import connected, ends_of_ikev2

from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.caravan import Caravan, order, without_repeats
from caravan.testbed.connection import Connection, Ppk
from caravan.testbed.process import CommandFailed
from caravan.testbed.remote_access import SERVER_ADDRESS
from caravan.testbed.strongswan import StrongSwan
from caravan.testbed.traffic import download, make_file, ping, serve_files
from caravan.threeways.measurement import Keys

pytestmark = pytest.mark.root

FILE_BYTES = 1_000_000
HYBRID = "aes256gcm16-prfsha384-curve25519-ke1_mlkem768"
CLASSICAL = "aes128gcm16-prfsha256-curve25519"
KEY = "0b7f9a1e44c35d2288e6aa90cd13f7524e6f00b18a7c9d3355f1aa2bb84410ce"
ROLES = pytest.mark.parametrize("is_initiator", [True, False], ids=["initiator", "responder"])
LACKING = "does not use the post-quantum pre-shared key"


def with_ppk(
    both: tuple[Connection, Connection], gateway: Ppk | None, station: Ppk | None
) -> tuple[Connection, Connection]:
    """The same with these pre-shared keys."""
    return replace(both[0], ppk=gateway), replace(both[1], ppk=station)


def carries(network: RemoteAccess, expected: str) -> bool:
    """Whether a file arrives as it is."""
    return download(network.ms, f"http://{SERVER_ADDRESS}/file").sha256 == expected


@pytest.mark.parametrize(
    ("proposals", "suite"),
    [
        ("", HYBRID),
        (HYBRID, HYBRID),
        (
            "aes128gcm16-prfsha256-mlkem768",
            "aes128gcm16-prfsha256-mlkem768",
        ),
        (
            "aes256gcm16-prfsha384-ecp384-ke1_mlkem768-ke2_mlkem1024",
            "aes256gcm16-prfsha384-ecp384-ke1_mlkem768-ke2_mlkem1024",
        ),
    ],
    ids=["defaults", "hybrid", "alone", "three"],
)
def test_two_caravans_agree_on_mlkem_and_renew_it(
    proposals: str, suite: str, keys: Keys, output: Path
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    gateway, station = ends_of_ikev2(keys, proposals)
    station = replace(station, child_rekey_s=2, rekey_s=5)
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        serve_files(network.server, output / "www", SERVER_ADDRESS)
        sg = Caravan(network.sg, gateway).wait_ready()
        ms = Caravan(network.ms, station).wait_ready()
        echoes = ping(network.ms, SERVER_ADDRESS, 200, 0.05)
        assert echoes.received == echoes.sent
        order(network.sg, "rekey", "road", "--ike").check()
        echoes = ping(network.ms, SERVER_ADDRESS, 40, 0.05)
        assert echoes.received == echoes.sent
        assert carries(network, expected)
        for end in (sg, ms):
            (connection,) = end.status()["connections"]
            (session,) = connection["sessions"]
            assert session["suite"] == suite
            assert session["ppk"] is None
            log = end.process.stderr()
            assert log.count(suite) >= 3, "each renewal is logged with its suite"
        exchanges = [message.exchange for message in without_repeats(ms.handshake())]
        additional = suite.count("-ke")
        assert exchanges.count("intermediate") == 2 * additional
        assert exchanges.count("followup") >= 4 * additional


def test_two_caravans_use_a_preshared_key_besides(keys: Keys, output: Path) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    key = Ppk("fleet", KEY)
    gateway, station = with_ppk(ends_of_ikev2(keys, ""), key, key)
    station = replace(station, rekey_s=5)
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        serve_files(network.server, output / "www", SERVER_ADDRESS)
        sg = Caravan(network.sg, gateway).wait_ready()
        ms = Caravan(network.ms, station).wait_ready()
        echoes = ping(network.ms, SERVER_ADDRESS, 150, 0.05)
        assert echoes.received == echoes.sent
        assert carries(network, expected)
        for end in (sg, ms):
            (session,) = end.status()["connections"][0]["sessions"]
            assert (session["suite"], session["ppk"]) == (HYBRID, "fleet")
            assert session["ppk_exchange"] == "IKE_INTERMEDIATE"
            assert KEY not in end.process.stderr()
        # The key is named before the identities (RFC 9867).
        named = [
            message.exchange
            for message in without_repeats(ms.handshake())
            if "N(PPK_IDENTITY" in message.payloads
        ]
        assert named == ["intermediate", "intermediate"]


@pytest.mark.parametrize("is_at_gateway", [True, False], ids=["gateway", "station"])
def test_a_required_key_that_the_other_caravan_lacks_is_named(
    is_at_gateway: bool, keys: Keys, output: Path
) -> None:
    key = Ppk("fleet", KEY)
    of_gateway, of_station = (key, None) if is_at_gateway else (None, key)
    gateway, station = with_ppk(ends_of_ikev2(keys, ""), of_gateway, of_station)
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        sg = Caravan(network.sg, gateway).wait_ready()
        ms = Caravan(network.ms, station)
        end = sg if is_at_gateway else ms
        end.process.wait_for(lambda: LACKING in end.process.stderr(), "the refusal", 15)
        assert not sg.is_established()


@ROLES
def test_charon_without_mlkem_gets_a_classical_suite(
    is_initiator: bool, keys: Keys, output: Path
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    both = ends_of_ikev2(keys, CLASSICAL)
    # Ours offers and accepts its defaults, the hybrid first.
    gateway, station = both
    if is_initiator:
        station = replace(station, proposals="")
    else:
        gateway = replace(gateway, proposals="")
    with connected(gateway, station, output, is_initiator=is_initiator) as pair:
        assert pair.fetch() == expected
        (session,) = pair.ours.status()["connections"][0]["sessions"]
        assert session["suite"] == CLASSICAL
        pair.charon.rekey_ike()
        echoes = ping(pair.network.ms, SERVER_ADDRESS, 40, 0.05)
        assert echoes.received == echoes.sent
        order(pair.ours.host, "rekey", "road", "--ike").check()
        echoes = ping(pair.network.ms, SERVER_ADDRESS, 40, 0.05)
        assert echoes.received == echoes.sent
        assert pair.fetch() == expected


@ROLES
@pytest.mark.parametrize("has_certificates", [True, False], ids=["rsa", "psk"])
@pytest.mark.parametrize("is_required", [True, False], ids=["required", "optional"])
def test_charon_uses_a_preshared_key_besides(
    is_initiator: bool,
    has_certificates: bool,
    is_required: bool,
    keys: Keys,
    output: Path,
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    key = Ppk("fleet", KEY, is_required)
    both = with_ppk(ends_of_ikev2(keys, CLASSICAL, has_certificates=has_certificates), key, key)
    with connected(*both, output, is_initiator=is_initiator) as pair:
        assert pair.fetch() == expected
        (session,) = pair.ours.status()["connections"][0]["sessions"]
        assert (session["ppk"], session["ppk_exchange"]) == ("fleet", "IKE_AUTH")
        pair.charon.wait_for_log("using PPK for PPK_ID 'fleet'")
        # The keys of the next IKE SA and child come from it.
        pair.charon.rekey_ike()
        pair.charon.rekey_child()
        echoes = ping(pair.network.ms, SERVER_ADDRESS, 40, 0.05)
        assert echoes.received == echoes.sent
        assert pair.fetch() == expected


@ROLES
def test_charon_without_the_key_is_served_if_it_is_optional(
    is_initiator: bool, keys: Keys, output: Path
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    ours = Ppk("fleet", KEY, False)
    both = ends_of_ikev2(keys, CLASSICAL)
    # As a responder charon refuses any name but its own. As an initiator it may name another key,
    # and sends the AUTH without it along.
    theirs = None if is_initiator else Ppk("another", KEY, False)
    both = with_ppk(both, theirs, ours) if is_initiator else with_ppk(both, ours, theirs)
    with connected(*both, output, is_initiator=is_initiator) as pair:
        assert pair.fetch() == expected
        (session,) = pair.ours.status()["connections"][0]["sessions"]
        assert session["ppk"] is None


@ROLES
def test_charon_without_the_required_key_is_refused_with_a_sentence(
    is_initiator: bool, keys: Keys, output: Path
) -> None:
    key = Ppk("fleet", KEY)
    both = ends_of_ikev2(keys, CLASSICAL)
    gateway, station = with_ppk(both, None, key) if is_initiator else with_ppk(both, key, None)
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        if is_initiator:
            StrongSwan(network.sg, gateway)
            ours = Caravan(network.ms, station)
        else:
            ours = Caravan(network.sg, gateway).wait_ready()
            charon = StrongSwan(network.ms, station)
            with pytest.raises(CommandFailed):
                charon.initiate()
            charon.wait_for_log("AUTH_FAILED")
        ours.process.wait_for(lambda: LACKING in ours.process.stderr(), "the refusal", 15)
        assert not ours.is_established()


@ROLES
def test_charon_that_requires_a_key_which_we_lack_gets_no_tunnel(
    is_initiator: bool, keys: Keys, output: Path
) -> None:
    key = Ppk("fleet", KEY)
    both = ends_of_ikev2(keys, CLASSICAL)
    gateway, station = with_ppk(both, key, None) if is_initiator else with_ppk(both, None, key)
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        if is_initiator:
            charon = StrongSwan(network.sg, gateway)
            ours = Caravan(network.ms, station)
            charon.wait_for_log("PPK required")
            text = "the peer refused with AUTHENTICATION_FAILED"
            ours.process.wait_for(lambda: text in ours.process.stderr(), "the refusal", 15)
        else:
            ours = Caravan(network.sg, gateway).wait_ready()
            charon = StrongSwan(network.ms, station)
            with pytest.raises(CommandFailed):
                charon.initiate()
        assert not ours.is_established()
