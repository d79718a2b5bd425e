"""IKEv2: two Caravans, and Caravan against strongSwan 5.9 in both roles, across the operator's NAT.

Each case fetches a file through the tunnel and compares its hash. strongSwan's ESP is the userspace
kernel-libipsec: tunnel mode only.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest
from strongswan_pair import NAMES, connected, ends_of_ikev2, settle

from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.caravan import Caravan, without_repeats
from caravan.testbed.connection import Connection, SharedKey
from caravan.testbed.host import Host
from caravan.testbed.pki import Key, OpensslAuthority
from caravan.testbed.remote_access import (
    GATEWAY_ADDRESS6,
    PRIVATE_NETWORK6,
    SERVER_ADDRESS,
    SERVER_ADDRESS6,
)
from caravan.testbed.strongswan import StrongSwan
from caravan.testbed.traffic import download, make_file, ping, serve_files
from caravan.threeways.measurement import Keys

pytestmark = pytest.mark.root

FILE_BYTES = 1_000_000
ROLES = pytest.mark.parametrize("is_initiator", [True, False], ids=["initiator", "responder"])
PROOFS = pytest.mark.parametrize("has_certificates", [True, False], ids=["rsa", "psk"])
ESP_CHOSEN = {
    "aes128gcm16": "AES_GCM_16_128",
    "aes192gcm16": "AES_GCM_16_192",
    "aes256gcm16": "AES_GCM_16_256",
    "chacha20poly1305": "CHACHA20_POLY1305",
    "aes128-sha1": "AES_CBC_128/HMAC_SHA1_96",
    "aes128-sha256": "AES_CBC_128/HMAC_SHA2_256_128",
    "aes192-sha384": "AES_CBC_192/HMAC_SHA2_384_192",
    "aes256-sha256": "AES_CBC_256/HMAC_SHA2_256_128",
    "aes256-sha512": "AES_CBC_256/HMAC_SHA2_512_256",
}
"""The suites of children, and how charon names them."""


@dataclass(frozen=True)
class Suites:
    """Proposals, and charon's log line when it chose them."""

    ike: str
    esp: str
    ike_chosen: str

    @property
    def esp_chosen(self) -> str:
        """The line about the child, whose first pair has no key exchange."""
        return f"ESP:{ESP_CHOSEN[self.esp]}/NO_EXT_SEQ"


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
    Suites(
        "aes256gcm16-prfsha512-ecp521",
        "aes256gcm16",
        "IKE:AES_GCM_16_256/PRF_HMAC_SHA2_512/ECP_521",
    ),
    Suites(
        "aes192gcm16-prfsha384-modp3072",
        "aes192gcm16",
        "IKE:AES_GCM_16_192/PRF_HMAC_SHA2_384/MODP_3072",
    ),
    Suites(
        "aes256-sha512-modp4096",
        "aes256-sha512",
        "IKE:AES_CBC_256/HMAC_SHA2_512_256/PRF_HMAC_SHA2_512/MODP_4096",
    ),
    Suites(
        "aes192-sha256-modp6144",
        "aes192-sha384",
        "IKE:AES_CBC_192/HMAC_SHA2_256_128/PRF_HMAC_SHA2_256/MODP_6144",
    ),
    Suites(
        "aes256gcm16-prfsha1-modp8192",
        "aes128-sha256",
        "IKE:AES_GCM_16_256/PRF_HMAC_SHA1/MODP_8192",
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
        assert pair.charon.selected_proposals() == [suites.ike_chosen, suites.esp_chosen]
        (sa,) = pair.charon.sas()
        assert (sa.state, sa.version) == ("ESTABLISHED", 2)
        (child,) = sa.children
        assert child.bytes_in + child.bytes_out > FILE_BYTES


CHARONS_FIRST = (
    "IKE:AES_CBC_128/HMAC_SHA2_256_128/PRF_HMAC_SHA2_256/CURVE_25519",
    f"ESP:{ESP_CHOSEN['aes128-sha256']}/NO_EXT_SEQ",
)
"""What it chooses of our defaults."""


@dataclass(frozen=True)
class Proof:
    """A kind of key, and what charon says of a peer's signature with it.

    `method`: where it does not announce RFC 7427, so the AUTH payload has a method of its own;
    `signature`: where it does.
    """

    key: Key
    method: str
    signature: str


PROOFS_BY_KEY = (
    Proof(Key.P256, "ECDSA-256 signature", "ECDSA_WITH_SHA256_DER"),
    Proof(Key.P384, "ECDSA-384 signature", "ECDSA_WITH_SHA384_DER"),
    Proof(Key.P521, "ECDSA-521 signature", "ECDSA_WITH_SHA512_DER"),
    # Method 14 alone has it (RFC 8420).
    Proof(Key.ED25519, "", "ED25519"),
    Proof(Key.RSA_2048, "", "RSA_EMSA_PSS_SHA2_256"),
)


@ROLES
@pytest.mark.parametrize(
    ("proof", "announces_hashes"),
    [(it, it_does) for it in PROOFS_BY_KEY for it_does in (True, False) if it_does or it.method],
    ids=lambda it: it.key.name.lower() if isinstance(it, Proof) else ("14" if it else "own-method"),
)
def test_every_kind_of_key_proves_itself(
    is_initiator: bool, proof: Proof, announces_hashes: bool, tmp_path: Path, output: Path
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    keys = Keys.of(OpensslAuthority(tmp_path / "pki", key=proof.key))
    both = ends(keys, SUITES[0], has_certificates=True)
    options = f"rsa_pss = yes\n  signature_authentication = {'yes' if announces_hashes else 'no'}"
    strongswan = partial(StrongSwan, options=options)
    with connected(*both, output, is_initiator=is_initiator, strongswan=strongswan) as pair:
        assert pair.fetch() == expected
        name, own = NAMES if not is_initiator else reversed(NAMES)
        said = proof.signature if announces_hashes else proof.method
        log = pair.charon.log()
        assert f"authentication of '{name}' with {said}" in log
        assert f"authentication of '{own}' (myself) with {said}" in log
        (child,) = pair.charon.children()
        assert child.bytes_in + child.bytes_out > FILE_BYTES


@ROLES
@pytest.mark.parametrize("outer", ["ipv4", "ipv6"])
def test_a_station_has_an_inner_address_of_ipv6(
    outer: str, is_initiator: bool, keys: Keys, output: Path
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    gateway, station = ends(keys, SUITES[0], has_certificates=True)
    gateway = replace(gateway, local_ts=PRIVATE_NETWORK6, pool="fd99::/112")
    station = replace(station, remote_ts=PRIVATE_NETWORK6)
    if outer == "ipv6":
        station = replace(station, remote_addrs=GATEWAY_ADDRESS6)
    both_families = RemoteAccessConfig(is_dual_stack=True)
    with connected(
        gateway, station, output, is_initiator=is_initiator, config=both_families
    ) as pair:
        ms, server = pair.network.ms, pair.network.server
        serve_files(server, output / "www", SERVER_ADDRESS6)
        assert download(ms, f"http://[{SERVER_ADDRESS6}]/file").sha256 == expected
        (sa,) = pair.charon.sas()
        assert [address.startswith("fd99::") for address in sa.vips] == [True]
        assert (":" in sa.remote_host) == (outer == "ipv6")
        assert "ADDR6" in pair.charon.log()


@ROLES
def test_large_messages_come_in_fragments(is_initiator: bool, keys: Keys, output: Path) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    both = ends(keys, SUITES[0], has_certificates=True)
    strongswan = partial(StrongSwan, options="fragment_size = 600")
    with connected(*both, output, is_initiator=is_initiator, strongswan=strongswan) as pair:
        assert pair.fetch() == expected
        log = pair.charon.log()
        assert re.search(r"splitting IKE message \(\d+ bytes\) into \d fragments", log)
        assert re.search(r"reassembled fragmented IKE message \(\d+ bytes\)", log)
        auth = [it for it in without_repeats(pair.ours.handshake()) if it.exchange == "auth"]
        assert [it.datagrams >= 2 for it in auth] == [True, True]


@ROLES
@pytest.mark.parametrize("is_ours_without", [True, False], ids=["ours", "theirs"])
def test_where_one_end_reads_no_fragments_none_is_sent(
    is_ours_without: bool, is_initiator: bool, keys: Keys, output: Path
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    gateway, station = ends(keys, SUITES[0], has_certificates=True)
    if is_ours_without == is_initiator:
        station = replace(station, has_fragments=False)
    else:
        gateway = replace(gateway, has_fragments=False)
    with connected(gateway, station, output, is_initiator=is_initiator) as pair:
        assert pair.fetch() == expected
        assert not re.search(r"splitting IKE message|reassembled fragmented", pair.charon.log())
        auth = [it for it in without_repeats(pair.ours.handshake()) if it.exchange == "auth"]
        assert [it.datagrams for it in auth] == [1, 1]


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
        assert re.search(r"IKE_SA road\[\d+\] rekeyed between", log)
        chosen = pair.charon.selected_proposals()
        assert chosen.count(SUITES[0].ike_chosen) >= 2 and chosen.count(SUITES[0].esp_chosen) >= 3
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
        assert re.search(r"IKE_SA road\[\d+\] rekeyed between", pair.charon.log())
        assert re.search(r"closing CHILD_SA net\{\d+\}", pair.charon.log())
        (new,) = pair.charon.children()
        assert new.spi_in != old.spi_in
        assert pair.fetch() == expected


def test_we_authenticate_again_before_charon_ends_the_tunnel(keys: Keys, output: Path) -> None:
    """RFC 4478: charon says for how long it believes us, and ends the session then."""
    expected = make_file(output / "www/file", FILE_BYTES)
    gateway, station = ends(keys, SUITES[0], has_certificates=True)

    def charon(host: Host, connection: Connection) -> StrongSwan:
        one = StrongSwan(host, connection)
        times = {"rekey_time": 0, "reauth_time": 34, "over_time": 2, "rand_time": 0}
        lines = [f"{key} = {seconds}s" for key, seconds in times.items()]
        one.change("mobike = yes", "\n".join(["mobike = yes", *lines]))
        return one

    with connected(gateway, station, output, is_initiator=True, strongswan=charon) as pair:
        (before,) = pair.charon.sas()
        echoes = ping(pair.network.ms, SERVER_ADDRESS, 220, 0.2)
        # charon ends the old session as soon as it knows the new one.
        assert echoes.sent - echoes.received <= 1
        (after,) = pair.charon.sas()
        assert after.unique_id != before.unique_id
        said = pair.ours.process.stderr()
        assert "authenticated-again" in said and "deleted-by-peer" not in said
        assert pair.fetch() == expected


@ROLES
def test_either_end_may_end_the_tunnel(is_initiator: bool, keys: Keys, output: Path) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    gateway, station = ends(keys, SUITES[0], has_certificates=False)
    with connected(gateway, station, output, is_initiator=is_initiator) as pair:
        pair.charon.terminate_ike()
        settle(lambda: not pair.charon.sas() or is_initiator)
        if not is_initiator:
            pair.ours.wait_until(False)
            pair.charon.initiate()
            pair.ours.wait_until(True)
        assert ping(pair.network.ms, SERVER_ADDRESS, 40, 0.1).received > 0
        assert pair.fetch() == expected
        pair.ours.stop()
        settle(lambda: not pair.charon.sas())
        assert re.search(r"received DELETE for IKE_SA road\[\d+\]", pair.charon.log())


@ROLES
def test_the_defaults_of_both_meet(is_initiator: bool, keys: Keys, output: Path) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    gateway, station = ends(keys, SUITES[0], has_certificates=True)
    gateway, station = (replace(it, proposals="", esp_proposals="") for it in (gateway, station))
    with connected(gateway, station, output, is_initiator=is_initiator) as pair:
        assert pair.fetch() == expected
        # Both take what is first in the responder's list.
        chosen = CHARONS_FIRST if is_initiator else (SUITES[0].ike_chosen, SUITES[0].esp_chosen)
        assert tuple(pair.charon.selected_proposals()) == chosen


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
