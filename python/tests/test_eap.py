"""EAP in IKEv2: a user's password or a certificate within TLS, between two Caravans, and against
strongSwan 5.9 in both roles.

Each case fetches a file through the tunnel and compares its hash.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from newer_peers import needs
from strongswan_pair import NAMES, connected, road_warrior

from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.binary import caravan_binary
from caravan.testbed.caravan import Caravan, add_user, remove_user, without_repeats
from caravan.testbed.connection import Connection, Eap, PublicKey
from caravan.testbed.host import Host
from caravan.testbed.remote_access import SERVER_ADDRESS
from caravan.testbed.strongswan import RELEASE, NewStrongSwan, StrongSwan
from caravan.testbed.traffic import download, make_file, ping, serve_files

pytestmark = pytest.mark.root

FILE_BYTES = 1_000_000
USER, PASSWORD = "alice", "correct horse battery"
ROLES = pytest.mark.parametrize("is_initiator", [True, False], ids=["initiator", "responder"])
METHODS = pytest.mark.parametrize("method", ["mschapv2", "tls"])


def ends(
    keys: tuple[PublicKey, PublicKey], method: str, password: str = PASSWORD, at_gateway: str = ""
) -> tuple[Connection, Connection]:
    """The configuration of one connection for the gateway and for the station."""
    gateway = Eap(at_gateway or method, keys[0], USER, PASSWORD)
    station = Eap(method, keys[1], USER, password)
    both = Connection(
        gateway,
        version=2,
        is_legacy=False,
        proposals="aes128gcm16-prfsha256-curve25519",
        esp_proposals="aes128gcm16",
    )
    name = NAMES[1] if method == "tls" else ""
    names = (NAMES[0], name)
    one, other = road_warrior(replace(both, auth=keys[0]), keys, names)
    return replace(one, auth=gateway), replace(other, auth=station)


@METHODS
@pytest.mark.parametrize("at_gateway", ["", "any"], ids=["same", "any"])
def test_two_caravans_carry_a_file(
    method: str, at_gateway: str, keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    gateway, station = ends(keys, method, at_gateway=at_gateway)
    # Renewals of everything meanwhile.
    station = replace(station, child_rekey_s=2, rekey_s=4)
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        serve_files(network.server, output / "www", SERVER_ADDRESS)
        sg = Caravan(network.sg, gateway).wait_ready()
        ms = Caravan(network.ms, station).wait_ready()
        echoes = ping(network.ms, SERVER_ADDRESS, 120, 0.05)
        assert echoes.received == echoes.sent
        assert download(network.ms, f"http://{SERVER_ADDRESS}/file").sha256 == expected
        (connection,) = sg.status()["connections"]
        (session,) = connection["sessions"]
        assert session["peer"] == (USER if method == "mschapv2" else NAMES[1])
        auths = [it.payloads for it in without_repeats(ms.handshake()) if it.exchange == "auth"]
        assert "AUTH" not in auths[0] and "EAP" in auths[1]
        assert auths[-2] == "AUTH"


def test_a_user_that_is_removed_loses_the_tunnel_at_a_reload(
    keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    gateway, station = ends(keys, "mschapv2")
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        sg = Caravan(network.sg, gateway).wait_ready()
        ms = Caravan(network.ms, station).wait_ready()
        users = network.sg.logs / "caravan/users"
        add_user(users, "bob", "another password")
        sg.reload()
        assert ms.is_established() and sg.is_established()
        remove_user(users, USER)
        sg.reload()
        sg.wait_until(False)
        ms.wait_until(False)
        add_user(users, USER, PASSWORD)
        sg.reload()
        ms.wait_until(True, 90)


def test_a_wrong_password_is_refused_and_named(
    keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    gateway, station = ends(keys, "mschapv2", password="wrong horse")
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        sg = Caravan(network.sg, gateway).wait_ready()
        ms = Caravan(network.ms, station)
        ms.wait_for_event("the gateway refuses the user's name or password")
        sg.wait_for_event('the password of user "alice" is wrong')
        assert not sg.is_established()
        for log in (ms.process.stderr(), sg.process.stderr()):
            assert "wrong horse" not in log and PASSWORD not in log


@METHODS
@ROLES
def test_a_file_crosses_with_strongswan(
    is_initiator: bool, method: str, keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    gateway, station = ends(keys, method)
    with connected(gateway, station, output, is_initiator=is_initiator) as pair:
        assert pair.fetch() == expected
        (sa,) = pair.charon.sas()
        assert (sa.state, sa.version) == ("ESTABLISHED", 2)
        name = "MSCHAPV2" if method == "mschapv2" else "TLS"
        assert re.search(rf"EAP_{name}", pair.charon.log())
        assert re.search(r"EAP method EAP_\w+ succeeded, MSK established", pair.charon.log())
        pair.charon.rekey_ike()
        echoes = ping(pair.network.ms, SERVER_ADDRESS, 20, 0.05)
        assert echoes.received == echoes.sent


@needs(RELEASE)
@ROLES
def test_certificates_by_tls_1_3_with_strongswan(
    is_initiator: bool, keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    """RFC 9190. strongSwan 5.9 crashes at the server's last word."""
    expected = make_file(output / "www/file", FILE_BYTES)
    gateway, station = ends(keys, "tls")

    def with_tls_1_3(host: Host, connection: Connection) -> StrongSwan:
        options = "tls {\n    version_min = 1.3\n    version_max = 1.3\n  }"
        return NewStrongSwan(host, connection, options)

    with connected(
        gateway, station, output, is_initiator=is_initiator, strongswan=with_tls_1_3
    ) as pair:
        assert pair.fetch() == expected
        assert "negotiated TLS 1.3 using suite" in pair.charon.log()
        assert "EAP method EAP_TLS succeeded, MSK established" in pair.charon.log()


@ROLES
def test_strongswan_and_we_refuse_a_wrong_password(
    is_initiator: bool, keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    gateway, station = ends(keys, "mschapv2", password="wrong horse")
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        if is_initiator:
            StrongSwan(network.sg, gateway)
            ms = Caravan(network.ms, station)
            ms.wait_for_event("the gateway refuses the user's name or password")
        else:
            sg = Caravan(network.sg, gateway).wait_ready()
            charon = StrongSwan(network.ms, station)
            with pytest.raises(Exception, match="initiate"):
                charon.initiate(8)
            sg.wait_for_event('the password of user "alice" is wrong')
            assert "EAP-MS-CHAPv2 failed" in charon.log()


@METHODS
def test_a_charon_with_one_method_meets_a_gateway_that_takes_both(
    method: str, keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    gateway, station = ends(keys, method, at_gateway="any")
    with connected(gateway, station, output, is_initiator=False) as pair:
        assert pair.fetch() == expected
        name = "MSCHAPV2" if method == "mschapv2" else "TLS"
        assert f"EAP method EAP_{name} succeeded, MSK established" in pair.charon.log()


def test_users_are_added_listed_and_removed(output: Path) -> None:
    output.mkdir()
    file = output / "users"

    def user(*words: str, text: str = "") -> subprocess.CompletedProcess[str]:
        command = [str(caravan_binary()), "user", *words, "--file", str(file)]
        return subprocess.run(command, input=text, text=True, capture_output=True, check=False)

    assert user("add", "alice", text="one\n").returncode == 0
    assert user("add", "bob", text="two").returncode == 0
    assert file.stat().st_mode & 0o777 == 0o600
    assert user("list").stdout == "alice\nbob\n"
    before = file.read_text()
    assert "one" not in before.split("alice")[1] and "two" not in before
    assert "has another password" in user("add", "ALICE", text="three\n").stdout
    assert file.read_text() != before
    assert user("remove", "bob").returncode == 0
    refused = user("remove", "bob")
    assert refused.returncode == 1 and "there is no user bob" in refused.stderr
    assert user("add", "no/name", text="x\n").returncode == 1
    assert user("add", "carol", text="").returncode == 1
    assert user("list").stdout == "alice\n"
    file.chmod(0o640)
    exposed = user("list")
    assert exposed.returncode == 1 and "chmod 600" in exposed.stderr
