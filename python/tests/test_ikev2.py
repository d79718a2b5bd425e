"""IKEv2: two Caravans, and Caravan against strongSwan 5.9 in both roles, across the operator's NAT.

Each case fetches a file through the tunnel and compares its hash. strongSwan's ESP is the userspace
kernel-libipsec: tunnel mode only.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from strongswan_pair import connected, ends_of_ikev2, settle

from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.caravan import Caravan
from caravan.testbed.connection import Connection, SharedKey
from caravan.testbed.remote_access import (
    SERVER_ADDRESS,
)
from caravan.testbed.strongswan import StrongSwan
from caravan.testbed.traffic import download, make_file, ping, serve_files
from caravan.threeways.measurement import Keys

pytestmark = pytest.mark.root

FILE_BYTES = 1_000_000
ROLES = pytest.mark.parametrize("is_initiator", [True, False], ids=["initiator", "responder"])
PROOFS = pytest.mark.parametrize("has_certificates", [True, False], ids=["rsa", "psk"])


@dataclass(frozen=True)
class Suites:
    """Proposals, and charon's log line when it chose them."""

    ike: str
    esp: str
    ike_chosen: str


SUITES = (
    Suites(
        "aes128gcm16-prfsha256-curve25519",
        "aes128gcm16",
        "IKE:AES_GCM_16_128/PRF_HMAC_SHA2_256/CURVE_25519",
    ),
    Suites(
        "chacha20poly1305-prfsha256-ecp256",
        "chacha20poly1305",
        "IKE:CHACHA20_POLY1305/PRF_HMAC_SHA2_256/ECP_256",
    ),
    Suites(
        "aes256-sha384-ecp384",
        "aes256-sha256",
        "IKE:AES_CBC_256/HMAC_SHA2_384_192/PRF_HMAC_SHA2_384/ECP_384",
    ),
    Suites(
        "aes128-sha1-modp2048",
        "aes128-sha1",
        "IKE:AES_CBC_128/HMAC_SHA1_96/PRF_HMAC_SHA1/MODP_2048",
    ),
)


def ends(keys: Keys, suites: Suites, *, has_certificates: bool) -> tuple[Connection, Connection]:
    """The configuration of one connection for the gateway and for the station."""
    return ends_of_ikev2(keys, suites.ike, suites.esp, has_certificates=has_certificates)


@PROOFS
def test_two_caravans_carry_a_file(has_certificates: bool, keys: Keys, output: Path) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    gateway, station = ends(keys, SUITES[0], has_certificates=has_certificates)
    # Renewals of everything meanwhile.
    station = replace(station, child_rekey_s=2, rekey_s=5)
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        serve_files(network.server, output / "www", SERVER_ADDRESS)
        sg = Caravan(network.sg, gateway).wait_ready()
        ms = Caravan(network.ms, station).wait_ready()
        echoes = ping(network.ms, SERVER_ADDRESS, 200, 0.05)
        assert echoes.received == echoes.sent
        assert download(network.ms, f"http://{SERVER_ADDRESS}/file").sha256 == expected
        for end in (sg, ms):
            (connection,) = end.status()["connections"]
            assert connection["version"] == "IKEv2"
            assert connection["deprecated"] is None
            (session,) = connection["sessions"]
            assert session["version"] == 2
            assert session["suite"] == SUITES[0].ike
            assert len(session["children"]) == 1


@ROLES
@pytest.mark.parametrize(
    ("has_certificates", "suites"),
    list(itertools.product((True, False), SUITES)),
    ids=lambda it: it.ike if isinstance(it, Suites) else ("rsa" if it else "psk"),
)
def test_a_file_crosses(
    is_initiator: bool,
    has_certificates: bool,
    suites: Suites,
    keys: Keys,
    output: Path,
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    gateway, station = ends(keys, suites, has_certificates=has_certificates)
    with connected(gateway, station, output, is_initiator=is_initiator) as pair:
        assert pair.fetch() == expected
        assert pair.charon.selected_proposals()[0] == suites.ike_chosen
        (sa,) = pair.charon.sas()
        assert (sa.state, sa.version) == ("ESTABLISHED", 2)
        (child,) = sa.children
        assert child.bytes_in + child.bytes_out > FILE_BYTES


@ROLES
def test_we_renew_the_child_and_the_ike_sa_without_loss(
    is_initiator: bool, keys: Keys, output: Path
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    gateway, station = ends(keys, SUITES[0], has_certificates=True)
    if is_initiator:
        station = replace(station, child_rekey_s=2, rekey_s=5)
    else:
        gateway = replace(gateway, child_rekey_s=2, rekey_s=5)
    with connected(gateway, station, output, is_initiator=is_initiator) as pair:
        echoes = ping(pair.network.ms, SERVER_ADDRESS, 240, 0.05)
        assert echoes.received == echoes.sent
        log = pair.charon.log()
        assert re.search(r"rekeyed between|IKE_SA .* rekeyed|scheduling", log)
        assert len(pair.charon.selected_proposals()) >= 4
        settle(lambda: len(pair.charon.sas()) == 1 and len(pair.charon.children()) == 1)
        assert pair.fetch() == expected


@ROLES
def test_charon_renews_the_child_and_the_ike_sa_without_loss(
    is_initiator: bool, keys: Keys, output: Path
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    gateway, station = ends(keys, SUITES[0], has_certificates=True)
    with connected(gateway, station, output, is_initiator=is_initiator) as pair:
        (before,) = pair.charon.sas()
        (old,) = pair.charon.children()
        pair.charon.rekey_child()
        echoes = ping(pair.network.ms, SERVER_ADDRESS, 40, 0.05)
        assert echoes.received == echoes.sent
        pair.charon.rekey_ike()
        echoes = ping(pair.network.ms, SERVER_ADDRESS, 40, 0.05)
        assert echoes.received == echoes.sent
        settle(lambda: len(pair.charon.sas()) == 1 and len(pair.charon.children()) == 1)
        (after,) = pair.charon.sas()
        assert after.unique_id != before.unique_id
        (new,) = pair.charon.children()
        assert new.spi_in != old.spi_in
        assert pair.fetch() == expected


@ROLES
def test_either_end_may_end_the_tunnel(is_initiator: bool, keys: Keys, output: Path) -> None:
    make_file(output / "www/file", FILE_BYTES)
    gateway, station = ends(keys, SUITES[0], has_certificates=False)
    with connected(gateway, station, output, is_initiator=is_initiator) as pair:
        pair.charon.terminate_ike()
        settle(lambda: not pair.charon.sas() or is_initiator)
        if not is_initiator:
            pair.ours.wait_until(False)
            pair.charon.initiate()
            pair.ours.wait_until(True)
        assert ping(pair.network.ms, SERVER_ADDRESS, 40, 0.1).received > 0
        pair.ours.stop()
        settle(lambda: not pair.charon.sas())


@ROLES
def test_the_defaults_of_both_meet(is_initiator: bool, keys: Keys, output: Path) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    gateway, station = ends(keys, SUITES[0], has_certificates=True)
    gateway, station = (replace(it, proposals="", esp_proposals="") for it in (gateway, station))
    with connected(gateway, station, output, is_initiator=is_initiator) as pair:
        assert pair.fetch() == expected


def test_a_wrong_key_is_named_at_both_ends(keys: Keys, output: Path) -> None:
    gateway, station = ends(keys, SUITES[0], has_certificates=False)
    station = replace(station, auth=SharedKey("another"))
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        ours = Caravan(network.sg, gateway).wait_ready()
        charon = StrongSwan(network.ms, station)
        with pytest.raises(Exception, match=r"initiate|AUTHENTICATION_FAILED"):
            charon.initiate()
        charon.wait_for_log("AUTH_FAILED")
        assert "the pre-shared key differs" in ours.process.stderr()
