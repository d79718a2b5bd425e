"""Caravan against strongSwan 5.9 across the operator's NAT, in both roles.

Each case fetches a file through the tunnel, compares its hash, and reads charon's log line about
the proposals that it chose. strongSwan's ESP is the userspace kernel-libipsec: tunnel mode only.
"""

from __future__ import annotations

import itertools
import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from strongswan_pair import SETTLE_S, connected, road_warrior, settle

from caravan.testbed import CommandFailed, RemoteAccess, RemoteAccessConfig
from caravan.testbed.caravan import Caravan, write_files
from caravan.testbed.connection import Connection, PublicKey, SharedKey
from caravan.testbed.pki import CaravanAuthority, SwanAuthority
from caravan.testbed.relay import LinkConfig
from caravan.testbed.remote_access import (
    GATEWAY_ADDRESS,
    PRIVATE_NETWORK,
    SERVER_ADDRESS,
    STATION_ADDRESS,
)
from caravan.testbed.strongswan import StrongSwan
from caravan.testbed.traffic import make_file, ping

pytestmark = pytest.mark.root

FILE_BYTES = 1_000_000


@dataclass(frozen=True)
class Suites:
    """Proposals in strongSwan's notation, and charon's log line when it chose them."""

    ike: str
    esp: str
    ike_chosen: str
    esp_chosen: str


WEAK = Suites(
    "3des-md5-modp1024",
    "des-md5",
    "IKE:3DES_CBC/HMAC_MD5_96/PRF_HMAC_MD5/MODP_1024",
    "ESP:DES_CBC/HMAC_MD5_96/NO_EXT_SEQ",
)
PLAIN = Suites(
    "3des-sha1-modp1024",
    "null-md5",
    "IKE:3DES_CBC/HMAC_SHA1_96/PRF_HMAC_SHA1/MODP_1024",
    "ESP:NULL/HMAC_MD5_96/NO_EXT_SEQ",
)
FIT = Suites(
    "aes128-sha1-modp2048",
    "aes128gcm16",
    "IKE:AES_CBC_128/HMAC_SHA1_96/PRF_HMAC_SHA1/MODP_2048",
    "ESP:AES_GCM_16_128/NO_EXT_SEQ",
)
STRONG = replace(
    FIT,
    ike="aes256-sha256-modp4096",
    esp="aes128-sha1-modp2048",
    ike_chosen="IKE:AES_CBC_256/HMAC_SHA2_256_128/PRF_HMAC_SHA2_256/MODP_4096",
    esp_chosen="ESP:AES_CBC_128/HMAC_SHA1_96/MODP_2048/NO_EXT_SEQ",
)
CURVE = Suites(
    "aes128-sha256-curve25519",
    "aes128gcm16-curve25519",
    "IKE:AES_CBC_128/HMAC_SHA2_256_128/PRF_HMAC_SHA2_256/CURVE_25519",
    "ESP:AES_GCM_16_128/CURVE_25519/NO_EXT_SEQ",
)


@dataclass(frozen=True)
class Case:
    """One cell of the matrix."""

    is_initiator: bool
    is_aggressive: bool
    has_certificates: bool
    suites: Suites

    def __str__(self) -> str:
        words = (
            "initiator" if self.is_initiator else "responder",
            "aggressive" if self.is_aggressive else "main",
            "rsa" if self.has_certificates else "psk",
            self.suites.ike,
            self.suites.esp,
        )
        return "-".join(words)


MATRIX = [
    Case(is_initiator, is_aggressive, has_certificates, suites)
    for is_initiator, is_aggressive, has_certificates, suites in itertools.product(
        (True, False), (True, False), (True, False), (WEAK, PLAIN, FIT)
    )
] + [Case(is_initiator, True, True, STRONG) for is_initiator in (True, False)]


def ends(case: Case, keys: tuple[PublicKey, PublicKey]) -> tuple[Connection, Connection]:
    """The configuration of one connection for the gateway and for the station."""
    shared = SharedKey("a group key of the fleet")
    both = Connection(
        shared,
        version=1,
        is_aggressive=case.is_aggressive,
        proposals=case.suites.ike,
        esp_proposals=case.suites.esp,
    )
    # A main-mode pre-shared key is found by address only (RFC 2409 §5.4): names would not help.
    has_names = case.has_certificates or case.is_aggressive
    names = ("sg.example", "ms.example") if has_names else (GATEWAY_ADDRESS, STATION_ADDRESS)
    return road_warrior(both, keys if case.has_certificates else (shared, shared), names)


@pytest.mark.parametrize("case", MATRIX, ids=str)
def test_a_file_crosses(case: Case, keys: tuple[PublicKey, PublicKey], output: Path) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    gateway, station = ends(case, keys)
    with connected(gateway, station, output, is_initiator=case.is_initiator) as pair:
        assert pair.fetch() == expected
        assert pair.charon.selected_proposals() == [
            case.suites.ike_chosen,
            case.suites.esp_chosen,
        ]
        (sa,) = pair.charon.sas()
        assert sa.state == "ESTABLISHED"
        (child,) = sa.children
        assert child.bytes_in + child.bytes_out > FILE_BYTES


ROLES = pytest.mark.parametrize("is_initiator", [True, False], ids=["initiator", "responder"])


@ROLES
def test_we_rekey_the_child_without_loss(
    is_initiator: bool, keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    gateway, station = ends(Case(is_initiator, True, True, FIT), keys)
    if is_initiator:
        station = replace(station, child_rekey_s=4)
    else:
        gateway = replace(gateway, child_rekey_s=4)
    with connected(gateway, station, output, is_initiator=is_initiator) as pair:
        echoes = ping(pair.network.ms, SERVER_ADDRESS, 120, 0.05)
        assert echoes.received == echoes.sent
        assert len(pair.charon.selected_proposals()) >= 3
        assert pair.fetch() == expected


@ROLES
def test_charon_rekeys_the_child_without_loss(
    is_initiator: bool, keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    gateway, station = ends(Case(is_initiator, True, True, FIT), keys)
    with connected(gateway, station, output, is_initiator=is_initiator) as pair:
        (before,) = pair.charon.children()
        pair.charon.rekey_child()
        echoes = ping(pair.network.ms, SERVER_ADDRESS, 40, 0.05)
        assert echoes.received == echoes.sent
        assert any(child.spi_in != before.spi_in for child in pair.charon.children())
        assert pair.fetch() == expected


@ROLES
def test_we_renew_the_ike_sa(
    is_initiator: bool, keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    gateway, station = ends(Case(is_initiator, True, True, FIT), keys)
    if is_initiator:
        station = replace(station, rekey_s=4)
    else:
        gateway = replace(gateway, rekey_s=4)
    with connected(gateway, station, output, is_initiator=is_initiator) as pair:
        before = {sa.unique_id for sa in pair.charon.sas()}
        echoes = ping(pair.network.ms, SERVER_ADDRESS, 120, 0.05)
        assert echoes.received == echoes.sent
        assert any(sa.unique_id not in before for sa in pair.charon.sas())
        assert pair.fetch() == expected


RENEWALS = 8
"""What the seconds of one round bring where the machine is not busy."""
ROUNDS_MAX = 4


@ROLES
def test_no_packet_is_lost_in_many_renewals(
    is_initiator: bool, keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    gateway, station = ends(Case(is_initiator, True, True, FIT), keys)
    if is_initiator:
        station = replace(station, child_rekey_s=1, rekey_s=4)
    else:
        gateway = replace(gateway, child_rekey_s=1, rekey_s=4)
    with connected(gateway, station, output, is_initiator=is_initiator) as pair:
        for _ in range(ROUNDS_MAX):
            echoes = ping(pair.network.ms, SERVER_ADDRESS, 2000, 0.005)
            assert echoes.received == echoes.sent
            if (renewals := len(pair.charon.selected_proposals())) >= RENEWALS:
                break
        assert renewals >= RENEWALS


@ROLES
@pytest.mark.parametrize("is_aggressive", [False, True], ids=["main", "aggressive"])
def test_the_defaults_of_both_meet(
    is_initiator: bool, is_aggressive: bool, keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    gateway, station = ends(Case(is_initiator, is_aggressive, True, FIT), keys)
    gateway, station = (replace(it, proposals="", esp_proposals="") for it in (gateway, station))
    if is_initiator:
        station = replace(station, child_rekey_s=3)
    with connected(gateway, station, output, is_initiator=is_initiator) as pair:
        assert pair.fetch() == expected
        first, *others = pair.charon.selected_proposals()
        # Our station offers only MODP in aggressive mode.
        is_modp = is_aggressive and is_initiator
        assert first.endswith("MODP_2048" if is_modp else "CURVE_25519")
        if is_initiator:
            # It asks for PFS once in each group that charon may support, and not again at a
            # rekeying.
            settle(lambda: len(pair.charon.selected_proposals()) >= 4)
            _, *others = pair.charon.selected_proposals()
            said = pair.ours.process.stderr()
            assert said.count("our other proposals are next") == (1 if is_modp else 2)
            # This is normal, and logged once.
            assert "the peer reports: the peer refused" not in said
        assert others and not any(re.search("MODP|CURVE", chosen) for chosen in others)


@ROLES
def test_a_peer_of_modp_alone_meets_our_defaults(
    is_initiator: bool, keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    gateway, station = ends(Case(is_initiator, False, True, FIT), keys)
    suites = [("aes128-sha256-modp2048", "aes128gcm16-modp2048"), ("", "")]
    of_gateway, of_station = suites if is_initiator else reversed(suites)
    gateway = replace(gateway, proposals=of_gateway[0], esp_proposals=of_gateway[1])
    station = replace(station, proposals=of_station[0], esp_proposals=of_station[1])
    with connected(gateway, station, output, is_initiator=is_initiator) as pair:
        assert pair.fetch() == expected
        chosen = pair.charon.selected_proposals()
        assert chosen and all("MODP_2048" in words for words in chosen)
        # ECP is not offered to a peer that did not choose it in phase 1.
        assert "our other proposals are next" not in pair.ours.process.stderr()


@ROLES
def test_curve25519_is_agreed_on_in_both_phases(
    is_initiator: bool, keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    gateway, station = ends(Case(is_initiator, True, True, CURVE), keys)
    station = replace(station, child_rekey_s=3)
    with connected(gateway, station, output, is_initiator=is_initiator) as pair:
        settle(lambda: len(pair.charon.selected_proposals()) >= 3)
        first, *others = pair.charon.selected_proposals()
        assert first == CURVE.ike_chosen
        assert set(others) == {CURVE.esp_chosen}


def test_a_difference_of_pfs_alone_is_named(
    keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    gateway, station = ends(Case(False, False, True, FIT), keys)
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        ours = Caravan(
            network.sg, replace(gateway, esp_proposals="aes128gcm16-modp2048")
        ).wait_ready()
        charon = StrongSwan(network.ms, station)
        with pytest.raises(CommandFailed):
            charon.initiate(3)
        wait_for_words(ours, "PFS differs: the peer offers aes128gcm16 without PFS")


def test_charon_hears_that_we_do_not_speak_ikev2(
    keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    gateway, station = ends(Case(False, False, True, FIT), keys)
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        ours = Caravan(network.sg, gateway).wait_ready()
        charon = StrongSwan(network.ms, station)
        charon.change("version = 1", "version = 2")
        with pytest.raises(CommandFailed):
            charon.initiate(3)
        charon.wait_for_log("received INVALID_MAJOR_VERSION notify error")
        wait_for_words(ours, "the peer starts with IKEv2, but we support only IKEv1")
        # With IKEv1 it comes up.
        charon.change("version = 2", "version = 1")
        charon.initiate()
        ours.wait_until(True)


@ROLES
def test_xauth_is_named(
    is_initiator: bool, keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    gateway, station = ends(Case(is_initiator, False, True, FIT), keys)
    second = "remote-xauth" if is_initiator else "local-xauth"
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        if is_initiator:
            charon = StrongSwan(network.sg, gateway)
        else:
            ours = Caravan(network.sg, gateway).wait_ready()
            charon = StrongSwan(network.ms, station)
        charon.change(
            "    children {", f"    {second} {{\n      auth = xauth\n    }}\n    children {{"
        )
        if is_initiator:
            ours = Caravan(network.ms, station)
        else:
            with pytest.raises(CommandFailed):
                charon.initiate(3)
        wait_for_words(ours, "XAUTH")


def test_charon_renews_the_ike_sa(keys: tuple[PublicKey, PublicKey], output: Path) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    gateway, station = ends(Case(False, True, True, FIT), keys)
    with connected(gateway, station, output, is_initiator=False) as pair:
        (before,) = pair.charon.sas()
        pair.charon.rekey_ike()
        echoes = ping(pair.network.ms, SERVER_ADDRESS, 60, 0.05)
        assert echoes.received == echoes.sent
        assert any(sa.unique_id != before.unique_id for sa in pair.charon.sas())
        assert pair.fetch() == expected


@ROLES
def test_charon_deletes(
    is_initiator: bool, keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    make_file(output / "www/file", FILE_BYTES)
    gateway, station = ends(Case(is_initiator, True, True, FIT), keys)
    with connected(gateway, station, output, is_initiator=is_initiator) as pair:
        (before,) = pair.charon.sas()
        pair.charon.terminate_ike()
        if is_initiator:
            # A station reconnects without being told.
            wait_for_another_sa(pair.charon, before.unique_id)
        else:
            pair.ours.wait_until(False)
            assert ping(pair.network.ms, SERVER_ADDRESS, 1, timeout_s=0.5).received == 0


@ROLES
def test_we_delete(is_initiator: bool, keys: tuple[PublicKey, PublicKey], output: Path) -> None:
    make_file(output / "www/file", FILE_BYTES)
    gateway, station = ends(Case(is_initiator, True, True, FIT), keys)
    with connected(gateway, station, output, is_initiator=is_initiator) as pair:
        pair.ours.down()
        pair.charon.wait_for_log(r"received DELETE for IKE_SA")
        assert pair.charon.sas() == []


def test_we_follow_a_station_whose_nat_rebinds(
    keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    make_file(output / "www/file", FILE_BYTES)
    gateway, station = ends(Case(False, True, True, FIT), keys)
    with connected(gateway, station, output, is_initiator=False) as pair:
        assert pair.network.nat is not None
        for is_other_address in (False, True):
            pair.network.nat.rebind(address=is_other_address)
            assert ping(pair.network.ms, SERVER_ADDRESS, 5, 0.1).received >= 4


def test_dead_peers_are_found(keys: tuple[PublicKey, PublicKey], output: Path) -> None:
    make_file(output / "www/file", FILE_BYTES)
    gateway, station = ends(Case(True, True, True, FIT), keys)
    with connected(gateway, replace(station, dpd_s=1), output, is_initiator=True) as pair:
        # Charon answers R-U-THERE (RFC 3706 §5.3) as long as it lives.
        pair.charon.wait_for_log(r"parsed INFORMATIONAL_V1 request .*N\(DPD\)")
        assert pair.ours.is_established()


@ROLES
def test_charon_hears_that_we_are_there(
    is_initiator: bool, keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    make_file(output / "www/file", FILE_BYTES)
    gateway, station = ends(Case(is_initiator, False, True, FIT), keys)
    if is_initiator:
        gateway = replace(gateway, dpd_s=1)
    else:
        station = replace(station, dpd_s=1)
    with connected(gateway, station, output, is_initiator=is_initiator) as pair:
        pair.charon.wait_for_log(
            r"(?s)(parsed INFORMATIONAL_V1 \w+ \d+ \[ HASH N\(DPD_ACK\) \].*){3}"
        )
        assert pair.ours.is_established()


@ROLES
@pytest.mark.parametrize("is_aggressive", [True, False], ids=["aggressive", "main"])
def test_long_messages_travel_in_fragments_of_ike(
    is_initiator: bool,
    is_aggressive: bool,
    authority: CaravanAuthority,
    output: Path,
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    # With keys of 2048 bits main mode's messages are short enough.
    keys = (
        PublicKey(authority.issue("sg.example", bits=3072), authority),
        PublicKey(authority.issue("ms.example", bits=3072), authority),
    )
    gateway, station = ends(Case(is_initiator, is_aggressive, True, FIT), keys)
    with connected(gateway, station, output, is_initiator=is_initiator) as pair:
        pair.charon.wait_for_log(r"received fragment #\d, reassembled fragmented IKE message")
        pair.charon.wait_for_log(r"splitting IKE message \(\d+ bytes\) into 2 fragments")
        assert pair.fetch() == expected


@pytest.fixture(scope="module")
def chained(tmp_path_factory: pytest.TempPathFactory) -> tuple[PublicKey, PublicKey]:
    """Each end's certificate is of an intermediate authority that the other end does not have."""
    root = SwanAuthority(tmp_path_factory.mktemp("chain"), "root")
    gateways, stations = root.subordinate("gateways"), root.subordinate("stations")
    return (
        PublicKey(gateways.issue("sg.example"), root),
        PublicKey(stations.issue("ms.example"), root),
    )


@ROLES
@pytest.mark.parametrize("is_aggressive", [True, False], ids=["aggressive", "main"])
def test_certificates_of_intermediate_authorities_travel_along(
    is_initiator: bool, is_aggressive: bool, chained: tuple[PublicKey, PublicKey], output: Path
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    gateway, station = ends(Case(is_initiator, is_aggressive, True, FIT), chained)
    with connected(gateway, station, output, is_initiator=is_initiator) as pair:
        assert pair.fetch() == expected
        ours = "stations" if is_initiator else "gateways"
        pair.charon.wait_for_log(rf'received issuer cert "C=CH, O=Test, CN={ours}"')


@ROLES
def test_an_intermediate_authority_that_is_missing_is_named(
    is_initiator: bool, chained: tuple[PublicKey, PublicKey], output: Path
) -> None:
    bare = [
        replace(key, own=replace(key.own, intermediates=())) if is_charon else key
        for key, is_charon in zip(chained, (is_initiator, not is_initiator), strict=True)
    ]
    gateway, station = ends(Case(is_initiator, True, True, FIT), (bare[0], bare[1]))
    whose, missing = ("sg", "gateways") if is_initiator else ("ms", "stations")
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        if is_initiator:
            StrongSwan(network.sg, gateway)
            ours = Caravan(network.ms, station)
        else:
            ours = Caravan(network.sg, gateway).wait_ready()
            charon = StrongSwan(network.ms, station)
            with pytest.raises(CommandFailed):
                charon.initiate(3)
        wait_for_words(
            ours,
            rf"certificate C=CH, CN={whose}.example was issued by C=CH, O=Test, CN={missing}, "
            "which is not trusted: its certificate is not configured, and the peer sent none",
        )


def test_many_selectors_come_up_one_after_the_other(
    keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    """Charon keeps the state of three exchanges (`max_ikev1_exchanges`) and forgets the others."""
    gateway, station = ends(Case(True, True, True, FIT), keys)
    wanted = [f"10.{number}.0.0/24" for number in range(10, 22)]
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        for number in range(11, 22):
            # Charon installs no route without an address of its own in the network.
            network.sg.add_address("lan0", f"10.{number}.0.1/24")
        charon = StrongSwan(network.sg, replace(gateway, local_ts="10.0.0.0/8"))
        file = write_files(network.ms, station)
        file.write_text(file.read_text().replace(f'["{PRIVATE_NETWORK}"]', json.dumps(wanted)))
        ours = Caravan(network.ms, station, file=file).wait_ready()
        settle(lambda: len(ours.children()) == len(charon.children()) == len(wanted))
        assert ping(network.ms, SERVER_ADDRESS, 2).received == 2
        assert "PAYLOAD_MALFORMED" not in charon.log()


def test_a_gateway_that_protects_a_part_of_what_is_asked_serves_that(
    keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    gateway, station = ends(Case(True, True, True, FIT), keys)
    station = replace(station, remote_ts="10.0.0.0/8", child_rekey_s=4)
    with connected(gateway, station, output, is_initiator=True) as pair:
        pair.ours.wait_for_event("not all of 10.0.0.0/8; nothing else passes")
        assert [child["remote_ts"] for child in pair.ours.children()] == [PRIVATE_NETWORK]
        echoes = ping(pair.network.ms, SERVER_ADDRESS, 60, 0.1)
        assert echoes.received == echoes.sent
        assert len(pair.charon.selected_proposals()) >= 3
        assert ping(pair.network.ms, "10.77.0.1", 1, timeout_s=0.5).received == 0


def test_a_nat_rebinds_in_the_middle_of_a_handshake(
    keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    gateway, station = ends(Case(False, False, True, FIT), keys)
    config = RemoteAccessConfig(link=LinkConfig(delay="100ms"))
    with RemoteAccess(config, output) as network, ThreadPoolExecutor(1) as pool:
        assert network.nat is not None
        ours = Caravan(network.sg, gateway).wait_ready()
        charon = StrongSwan(network.ms, station)
        begun = pool.submit(charon.initiate)
        ours.wait_for_event("IKEv1 established")
        network.nat.rebind()
        # Charon sends the request again from its new port, and receives the answer there.
        begun.result()
        assert ping(network.ms, SERVER_ADDRESS, 5).received >= 4


def test_a_refusal_says_what_differed(keys: tuple[PublicKey, PublicKey], output: Path) -> None:
    gateway, station = ends(Case(True, True, True, FIT), keys)
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        StrongSwan(network.sg, replace(gateway, proposals="aes256-sha256-modp2048"))
        ours = Caravan(network.ms, station)
        wait_for_words(ours, "(?i)no.proposal.chosen")


def wait_for_another_sa(charon: StrongSwan, unique_id: int) -> None:
    """Wait until charon has an established SA with another number."""
    deadline = time.monotonic() + SETTLE_S
    while time.monotonic() < deadline:
        if any(sa.unique_id != unique_id and sa.children for sa in charon.sas()):
            return
        time.sleep(0.1)
    raise AssertionError(f"no new SA in {SETTLE_S} s\n{charon.log()[-2000:]}")


def wait_for_words(ours: Caravan, pattern: str) -> None:
    """Wait until our log contains a text."""
    deadline = time.monotonic() + SETTLE_S
    while time.monotonic() < deadline:
        if re.search(pattern, ours.process.stderr()):
            return
        time.sleep(0.1)
    raise AssertionError(f"never said {pattern!r}:\n{ours.process.stderr()[-2000:]}")
