"""Children of IKEv2: their own key exchanges, ranges of ports, and tunnels that begin without one.

The peer is charon 5.9 where it can: it has no ML-KEM and no additional key exchanges, so those are
between two Caravans here, and with strongSwan 6.1 in `test_mlkem_strongswan.py`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from strongswan_pair import Pair, connected, join, road_warrior, settle

from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.caravan import Caravan, order
from caravan.testbed.connection import Connection, PublicKey
from caravan.testbed.process import CommandFailed
from caravan.testbed.remote_access import SERVER_ADDRESS
from caravan.testbed.strongswan import StrongSwan
from caravan.testbed.traffic import download, make_file, ping, serve_files

pytestmark = pytest.mark.root

FILE_BYTES = 1_000_000
ROLES = pytest.mark.parametrize("is_initiator", [True, False], ids=["initiator", "responder"])
MIDDLE, MIDDLE_NETWORK = "10.20.0.2", "10.20.0.0/24"
FARTHER, FARTHER_NETWORK = "10.30.0.2", "10.30.0.0/24"
"""Two more networks behind the gateway, and the server there."""
HYBRID = "aes256gcm16-curve25519-ke1_mlkem768"
PLAIN = "aes128gcm16"


def ends(keys: tuple[PublicKey, PublicKey], esp_proposals: str) -> tuple[Connection, Connection]:
    """The configuration of one connection for the gateway and for the station."""
    suite = "aes128gcm16-prfsha256-curve25519"
    both = Connection(
        keys[0], version=2, is_legacy=False, proposals=suite, esp_proposals=esp_proposals
    )
    return road_warrior(both, keys)


def suite_of(end: Caravan) -> str:
    """The suite of its one child."""
    (session,) = end.status()["connections"][0]["sessions"]
    (child,) = session["children"]
    return str(child["suite"])


def flows(pair: Pair) -> bool:
    """Whether no echo is lost for two seconds."""
    echoes = ping(pair.network.ms, SERVER_ADDRESS, 40, 0.05)
    return echoes.received == echoes.sent


@ROLES
@pytest.mark.parametrize(
    ("group", "theirs"),
    [
        ("ecp256", "ECP_256"),
        ("ecp384", "ECP_384"),
        ("ecp521", "ECP_521"),
        ("curve25519", "CURVE_25519"),
        ("modp2048", "MODP_2048"),
        ("modp3072", "MODP_3072"),
        ("modp4096", "MODP_4096"),
        ("modp6144", "MODP_6144"),
        ("modp8192", "MODP_8192"),
    ],
)
def test_charon_renews_children_with_every_group_that_it_has(
    is_initiator: bool, group: str, theirs: str, keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    both = ends(keys, f"{PLAIN}-{group}")
    with connected(*both, output, is_initiator=is_initiator) as pair:
        assert pair.fetch() == expected
        # The child of IKE_AUTH has no key exchange of its own.
        assert suite_of(pair.ours) == PLAIN
        for renew in (pair.charon.rekey_child, lambda: order(pair.ours.host, "rekey", "road")):
            before = pair.charon.selected_proposals().count(chosen(theirs))
            renew()
            settle(partial(is_renewed, pair.charon, theirs, before))
            settle(lambda: suite_of(pair.ours) == f"{PLAIN}-{group}")
            assert flows(pair)
        assert pair.fetch() == expected


def is_renewed(charon: StrongSwan, theirs: str, before: int) -> bool:
    """Whether charon has chosen this group once more."""
    return charon.selected_proposals().count(chosen(theirs)) > before


def chosen(group: str) -> str:
    """The agreed proposal in charon's words."""
    return f"ESP:AES_GCM_16_128/{group}/NO_EXT_SEQ"


@ROLES
def test_one_end_names_another_group_and_the_other_takes_it(
    is_initiator: bool, keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    gateway, station = ends(keys, f"{PLAIN}-ecp256,{PLAIN}-ecp384")
    # Whoever asks sends a value of ecp256 first.
    if is_initiator:
        gateway = replace(gateway, esp_proposals=f"{PLAIN}-ecp384")
    else:
        station = replace(station, esp_proposals=f"{PLAIN}-ecp256,{PLAIN}-ecp384")
        gateway = replace(gateway, esp_proposals=f"{PLAIN}-ecp384")
    with connected(gateway, station, output, is_initiator=is_initiator) as pair:
        if is_initiator:
            order(pair.ours.host, "rekey", "road").check()
        else:
            pair.charon.rekey_child()
        settle(lambda: suite_of(pair.ours) == f"{PLAIN}-ecp384")
        text = "peer didn't accept DH group ECP_256|DH group ECP_256 unacceptable"
        pair.charon.wait_for_log(text)
        assert flows(pair)
        assert pair.fetch() == expected


@ROLES
def test_pfs_may_be_optional_at_one_end(
    is_initiator: bool, keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    gateway, station = ends(keys, f"{PLAIN}-ecp256,{PLAIN}")
    if is_initiator:
        gateway = replace(gateway, esp_proposals=PLAIN)
    else:
        station = replace(station, esp_proposals=PLAIN)
    with connected(gateway, station, output, is_initiator=is_initiator) as pair:
        before = pair.charon.selected_proposals().count("ESP:AES_GCM_16_128/NO_EXT_SEQ")
        order(pair.ours.host, "rekey", "road").check()
        text = "ESP:AES_GCM_16_128/NO_EXT_SEQ"
        settle(lambda: pair.charon.selected_proposals().count(text) > before)
        assert suite_of(pair.ours) == PLAIN
        assert flows(pair)
        assert pair.fetch() == expected


@pytest.mark.parametrize("esp", [HYBRID, "aes128gcm16-mlkem1024-ke2_ecp256"])
def test_two_caravans_renew_children_with_additional_exchanges(
    esp: str, keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    gateway, station = ends(keys, esp)
    station = replace(station, child_rekey_s=2)
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        serve_files(network.server, output / "www", SERVER_ADDRESS)
        sg = Caravan(network.sg, gateway).wait_ready()
        ms = Caravan(network.ms, station).wait_ready()
        echoes = ping(network.ms, SERVER_ADDRESS, 120, 0.05)
        assert echoes.received == echoes.sent
        order(network.sg, "rekey", "road").check()
        echoes = ping(network.ms, SERVER_ADDRESS, 40, 0.05)
        assert echoes.received == echoes.sent
        assert download(network.ms, f"http://{SERVER_ADDRESS}/file").sha256 == expected
        assert suite_of(sg) == suite_of(ms) == esp
        exchanges = [message.exchange for message in ms.handshake()]
        assert exchanges.count("followup") >= 4


@pytest.mark.parametrize(
    ("is_initiator", "word"),
    [(True, "force"), (True, "prefer"), (False, "force")],
    ids=["initiator", "initiator-prefers", "responder"],
)
def test_a_tunnel_begins_without_a_child_and_gets_it_in_an_exchange_of_its_own(
    is_initiator: bool, word: str, keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    gateway, station = ends(keys, f"{PLAIN}-ecp256")
    station = replace(station, childless=word)
    with connected(gateway, station, output, is_initiator=is_initiator) as pair:
        assert pair.fetch() == expected
        # So its first pair has a key exchange of its own too.
        assert suite_of(pair.ours) == f"{PLAIN}-ecp256"
        messages = pair.ours.handshake()
        auth = [message.payloads for message in messages if message.exchange == "auth"]
        assert auth
        assert not any(" SA" in payloads or "TS" in payloads for payloads in auth)
        assert "create child" in [message.exchange for message in messages]
        # Nor in charon's words.
        log = pair.charon.log()
        theirs = re.findall(r"(?:generating|parsed) IKE_AUTH \w+ 1 (\[ ID.*\])", log)
        assert len(theirs) == 2
        assert not any(re.search(r"\b(SA|TSi|TSr)\b", words) for words in theirs)
        assert chosen("ECP_256") in pair.charon.selected_proposals()


@ROLES
def test_an_end_that_must_begin_without_a_child_gets_no_tunnel_where_the_other_refuses(
    is_initiator: bool, keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    gateway, station = ends(keys, PLAIN)
    gateway = replace(gateway, childless="never")
    station = replace(station, childless="force")
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        if is_initiator:
            charon = StrongSwan(network.sg, gateway)
            ours = Caravan(network.ms, station)
            text = "authenticates with a child alone"
            ours.process.wait_for(lambda: text in ours.process.stderr(), "the refusal", 15)
        else:
            ours = Caravan(network.sg, gateway).wait_ready()
            charon = StrongSwan(network.ms, station)
            with pytest.raises(CommandFailed):
                charon.initiate()
            charon.wait_for_log("peer does not support childless|childless IKE_SA")
        assert not ours.is_established()
        assert "CHDLESS_SUP" not in charon.log()


@ROLES
def test_a_range_of_ports_is_narrowed_and_passes_what_is_in_it(
    is_initiator: bool, keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    gateway, station = ends(keys, PLAIN)
    network = gateway.local_ts
    gateway = replace(gateway, local_ts=f"{network}[tcp/50-2000]")
    station = replace(station, remote_ts=f"{network}[tcp/1-1000]")
    with connected(gateway, station, output, is_initiator=is_initiator) as pair:
        (session,) = pair.ours.status()["connections"][0]["sessions"]
        (child,) = session["children"]
        narrowed = child["remote_ts" if is_initiator else "local_ts"]
        assert narrowed == f"{network}[tcp/50-1000]"
        assert f"{network}[tcp/50-1000]" in pair.charon.swanctl("--list-sas").stdout
        assert pair.fetch() == expected
        assert ping(pair.network.ms, SERVER_ADDRESS, 3, 0.05).received == 0
        pair.charon.rekey_child()
        order(pair.ours.host, "rekey", "road").check()
        settle(lambda: pair.fetch() == expected)


def has_another(pair: Pair, before: set[str]) -> bool:
    """Whether one child is left, and is another than those before."""
    spis = {one.spi_in for one in pair.charon.children()}
    return len(spis) == 1 and not spis & before


@ROLES
def test_several_networks_and_a_range_of_ports_are_one_child_with_charon(
    is_initiator: bool, keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    """RFC 7296 §2.9: each side of a child has as many selectors as it needs."""
    expected = make_file(output / "www/file", FILE_BYTES)
    gateway, station = ends(keys, PLAIN)
    near, range_of = gateway.local_ts, f"{FARTHER_NETWORK}[tcp/50-2000]"
    gateway = replace(gateway, local_ts=f"{near},{MIDDLE_NETWORK},{range_of}")
    station = replace(station, remote_ts=f"{near},{MIDDLE_NETWORK},{FARTHER_NETWORK}[tcp/1-1000]")
    wanted = [near, MIDDLE_NETWORK, f"{FARTHER_NETWORK}[tcp/50-1000]"]
    with RemoteAccess(RemoteAccessConfig(), output) as bed:
        serve_files(bed.server, output / "www", SERVER_ADDRESS)
        for place, ports in ((MIDDLE, (80,)), (FARTHER, (80, 1500))):
            bed.sg.add_address("lan0", f"{place[:-1]}1/24")
            bed.server.add_address("lan0", f"{place}/24")
            for port in ports:
                serve_files(bed.server, output / "www", place, port)
        pair = join(bed, gateway, station, is_initiator=is_initiator)
        by_us = partial(order, pair.ours.host, "rekey", "road")
        for renew in (None, pair.charon.rekey_child, by_us):
            before = {one.spi_in for one in pair.charon.children()}
            if renew:
                renew().check()
                settle(lambda: has_another(pair, before))  # noqa: B023
            settle(lambda: pair.fetch() == expected)
            (session,) = pair.ours.status()["connections"][0]["sessions"]
            (child,) = session["children"]
            ours = child["remote_ts" if is_initiator else "local_ts"].split(",")
            assert sorted(ours) == sorted(wanted)
            listed = pair.charon.swanctl("--list-sas").stdout
            (theirs,) = {
                line.split(maxsplit=1)[1]
                for line in listed.splitlines()
                if line.split()[:1] == ["local" if is_initiator else "remote"]
                and MIDDLE_NETWORK in line
            }
            assert sorted(theirs.split()) == sorted(wanted)
            assert pair.fetch() == expected
            for place in (MIDDLE, FARTHER):
                assert download(bed.ms, f"http://{place}/file").sha256 == expected
            assert ping(bed.ms, MIDDLE, 3, 0.05).received == 3
            # What no selector holds: another protocol, and a port above the range.
            assert ping(bed.ms, FARTHER, 3, 0.05).received == 0
            with pytest.raises(CommandFailed):
                download(bed.ms, f"http://{FARTHER}:1500/file", timeout_s=1)


def test_two_caravans_pass_several_ranges_of_ports_and_nothing_else(
    keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    gateway, station = ends(keys, PLAIN)
    network = gateway.local_ts
    ranges = [f"{network}[tcp/50-1000]", f"{network}[tcp/1500-2000]"]
    gateway = replace(gateway, local_ts=",".join(ranges))
    with RemoteAccess(RemoteAccessConfig(), output) as bed:
        for port in (80, 1200, 1500):
            serve_files(bed.server, output / "www", SERVER_ADDRESS, port)
        Caravan(bed.sg, gateway).wait_ready()
        ms = Caravan(bed.ms, station).wait_ready()
        (session,) = ms.status()["connections"][0]["sessions"]
        (child,) = session["children"]
        assert sorted(child["remote_ts"].split(",")) == sorted(ranges)
        for port in (80, 1500):
            fetched = download(bed.ms, f"http://{SERVER_ADDRESS}:{port}/file")
            assert fetched.sha256 == expected
        with pytest.raises(CommandFailed):
            download(bed.ms, f"http://{SERVER_ADDRESS}:1200/file", timeout_s=1)
        assert ping(bed.ms, SERVER_ADDRESS, 3, 0.05).received == 0
        assert "it protects only" in ms.process.stderr()
