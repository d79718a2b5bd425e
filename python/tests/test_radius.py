"""RADIUS behind a gateway (RFC 3579), and EAP alone (RFC 5998).

FreeRADIUS examines the clients of our gateway, which are Caravan and strongSwan, and those of
strongSwan's gateway. Each case that comes up fetches a file and compares its hash.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from newer_peers import needs
from strongswan_pair import NAMES, connected, road_warrior, settle

from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.caravan import Caravan, add_user, order, without_repeats, write_files
from caravan.testbed.connection import Connection, Eap, PublicKey
from caravan.testbed.dot1x.method import ServerIdentity, Tls
from caravan.testbed.pki import CaravanAuthority
from caravan.testbed.process import Process
from caravan.testbed.radius import VpnRadius, VpnUser, forging_server
from caravan.testbed.remote_access import GATEWAY_LAN_ADDRESS, SERVER_ADDRESS
from caravan.testbed.strongswan import PLUGINS, RELEASE, NewStrongSwan, StrongSwan
from caravan.testbed.traffic import download, make_file, ping, serve_files

pytestmark = pytest.mark.root

FILE_BYTES = 1_000_000
USER, PASSWORD = "alice", "correct horse battery"
SECRET = "a shared secret of the house"
RADIUS = "radius.example"
METHODS = pytest.mark.parametrize("method", ["mschapv2", "tls"])
CLIENTS = pytest.mark.parametrize("client", ["caravan", "strongswan"])
ROLES = pytest.mark.parametrize("is_initiator", [True, False], ids=["initiator", "responder"])
USERS = (VpnUser(USER, PASSWORD), VpnUser(NAMES[1]))
SG_RADIUS = GATEWAY_LAN_ADDRESS
"""The gateway's own host stands for a second server."""


@pytest.fixture(scope="module")
def identity(authority: CaravanAuthority) -> ServerIdentity:
    """The RADIUS server's certificate."""
    return ServerIdentity(authority.issue(RADIUS), authority.certificate)


def ends(
    keys: tuple[PublicKey, PublicKey],
    method: str,
    *,
    password: str = PASSWORD,
    servers: tuple[str, ...] = (SERVER_ADDRESS,),
    secret: str = SECRET,
) -> tuple[Connection, Connection]:
    """The configuration of one connection for the gateway and for the station."""
    gateway = Eap("radius", keys[0], servers=servers, secret=secret)
    is_tls = method == "tls"
    user, aaa = ("", RADIUS) if is_tls else (USER, "")
    station = Eap(method, keys[1], user, password, aaa_id=aaa)
    both = Connection(
        gateway,
        version=2,
        is_legacy=False,
        proposals="aes128gcm16-prfsha256-curve25519",
        esp_proposals="aes128gcm16",
    )
    names = (NAMES[0], NAMES[1] if is_tls else "")
    one, other = road_warrior(replace(both, auth=keys[0]), keys, names)
    return replace(one, auth=gateway, remote_id=""), replace(other, auth=station)


@dataclass(frozen=True)
class Bed:
    """A network with a file to fetch."""

    network: RemoteAccess
    expected: str
    identity: ServerIdentity

    def radius(
        self,
        *users: VpnUser,
        secret: str = SECRET,
        is_second: bool = False,
        tls: Tls = Tls.V1_2,
    ) -> VpnRadius:
        """A FreeRADIUS for the gateway."""
        host, address = self.network.server, SERVER_ADDRESS
        if is_second:
            host, address = self.network.sg, SG_RADIUS
        clients = {GATEWAY_LAN_ADDRESS: secret}
        return VpnRadius(host, address, clients, self.identity, users or USERS, tls=tls)

    def fetch(self) -> None:
        """Fetch the file through the tunnel."""
        found = download(self.network.ms, f"http://{SERVER_ADDRESS}/file").sha256
        assert found == self.expected


@pytest.fixture
def bed(output: Path, identity: ServerIdentity) -> Iterator[Bed]:
    """The network."""
    expected = make_file(output / "www/file", FILE_BYTES)
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        serve_files(network.server, output / "www", SERVER_ADDRESS)
        yield Bed(network, expected, identity)


def server_of(sg: Caravan, number: int = 0) -> dict[str, Any]:
    """What the gateway's status says of a server."""
    found: dict[str, Any] = sg.status()["radius"][number]
    return found


def peer_of(sg: Caravan) -> str:
    """The name of the only peer."""
    (connection,) = sg.status()["connections"]
    (session,) = connection["sessions"]
    return str(session["peer"])


@contextlib.contextmanager
def station(
    bed: Bed, client: str, connection: Connection, options: str = ""
) -> Iterator[Caravan | StrongSwan]:
    """A station that is up; the options are charon's."""
    if client == "caravan":
        with Caravan(bed.network.ms, connection) as ms:
            yield ms.wait_ready()
    else:
        program = NewStrongSwan if client == "new-strongswan" else StrongSwan
        with program(bed.network.ms, connection, options) as charon:
            charon.initiate()
            yield charon


@pytest.mark.parametrize(
    ("client", "tls"),
    [
        ("caravan", Tls.V1_2),
        ("caravan", Tls.V1_3),
        ("strongswan", Tls.V1_2),
        # strongSwan 5.9 crashes at the server's last word of RFC 9190.
        pytest.param("new-strongswan", Tls.V1_3, marks=needs(RELEASE)),
    ],
)
def test_freeradius_examines_certificates_by_each_version_of_tls(
    client: str, tls: Tls, keys: tuple[PublicKey, PublicKey], bed: Bed
) -> None:
    """RFC 5216, and RFC 9190 with TLS 1.3. The server has no other version."""
    gateway, other = ends(keys, "tls")
    server = bed.radius(tls=tls)
    sg = Caravan(bed.network.sg, gateway).wait_ready()
    with station(bed, client, other, f"tls {{\n    version_max = {tls.value}\n  }}") as ms:
        bed.fetch()
        assert peer_of(sg) == NAMES[1]
        if isinstance(ms, StrongSwan):
            assert f"negotiated TLS {tls.value} using suite" in ms.log()
    assert "Login OK" in server.log()


@METHODS
@CLIENTS
def test_freeradius_examines_the_clients_of_our_gateway(
    method: str, client: str, keys: tuple[PublicKey, PublicKey], bed: Bed
) -> None:
    gateway, other = ends(keys, method)
    server = bed.radius()
    sg = Caravan(bed.network.sg, gateway).wait_ready()
    assert server_of(sg)["state"] == "unasked"
    checked = order(bed.network.sg, "check", str(sg.file)).check()
    assert f"RADIUS servers: {SERVER_ADDRESS}:1812" in checked.stdout + checked.stderr
    with station(bed, client, other) as ms:
        bed.fetch()
        if isinstance(ms, StrongSwan):
            name = "MSCHAPV2" if method == "mschapv2" else "TLS"
            assert f"EAP method EAP_{name} succeeded, MSK established" in ms.log()
            assert "authentication of 'sg.example' with EAP successful" in ms.log()
            (sa,) = ms.sas()
            assert (sa.state, sa.version) == ("ESTABLISHED", 2)
        assert peer_of(sg) == (USER if method == "mschapv2" else NAMES[1])
        found = server_of(sg)
        assert (found["state"], found["accepts"], found["rejects"]) == ("answers", 1, 0)
        assert found["address"] == f"{SERVER_ADDRESS}:1812"
        assert (found["drops"], found["unanswered"]) == (0, 0)
        assert "Login OK" in server.log()
        text = order(bed.network.sg, "status").check().stdout
        assert f"RADIUS server {SERVER_ADDRESS}:1812: answers" in text
    for log in (sg.process.stderr(), server.log()):
        assert SECRET not in log


@CLIENTS
def test_a_wrong_password_is_refused_by_the_server(
    client: str, keys: tuple[PublicKey, PublicKey], bed: Bed
) -> None:
    gateway, other = ends(keys, "mschapv2", password="wrong horse")
    server = bed.radius()
    sg = Caravan(bed.network.sg, gateway).wait_ready()
    if client == "caravan":
        ms = Caravan(bed.network.ms, other)
        ms.wait_for_event("the gateway refuses")
    else:
        charon = StrongSwan(bed.network.ms, other)
        with pytest.raises(Exception, match="initiate"):
            charon.initiate(8)
    settle(lambda: server_of(sg)["rejects"] >= 1)
    assert not sg.is_established()
    assert "Login incorrect" in server.log()
    assert PASSWORD not in sg.process.stderr()


def test_a_user_whom_the_server_does_not_know_is_refused(
    keys: tuple[PublicKey, PublicKey], bed: Bed
) -> None:
    gateway, other = ends(keys, "mschapv2")
    bed.radius(VpnUser("bob", PASSWORD))
    sg = Caravan(bed.network.sg, gateway).wait_ready()
    ms = Caravan(bed.network.ms, other)
    sg.wait_for_event('refuses the user "alice"')
    assert not ms.is_established()


def test_a_second_server_takes_over_from_one_that_is_dead(
    keys: tuple[PublicKey, PublicKey], bed: Bed
) -> None:
    gateway, other = ends(keys, "mschapv2", servers=(SERVER_ADDRESS, SG_RADIUS))
    first = bed.radius()
    bed.radius(is_second=True)
    first.pause()
    sg = Caravan(bed.network.sg, gateway).wait_ready()
    ms = Caravan(bed.network.ms, other)
    ms.wait_ready(30)
    bed.fetch()
    sg.wait_for_event(f"the RADIUS server {SERVER_ADDRESS}:1812 does not answer")
    one, two = server_of(sg), server_of(sg, 1)
    assert (one["state"], one["unanswered"], one["repeats"]) == ("silent", 1, 2)
    assert (two["state"], two["accepts"]) == ("answers", 1)
    # For the next client the first one is not asked.
    ms.down()
    ms.stop()
    Caravan(bed.network.ms, other).wait_ready()
    assert server_of(sg, 1)["accepts"] == 2
    assert server_of(sg)["requests"] == one["requests"]


@CLIENTS
def test_a_client_hears_in_bounded_time_that_no_server_answers(
    client: str, keys: tuple[PublicKey, PublicKey], bed: Bed
) -> None:
    gateway, other = ends(keys, "mschapv2")
    sg = Caravan(bed.network.sg, gateway).wait_ready()
    if client == "caravan":
        ms = Caravan(bed.network.ms, other)
        ms.wait_for_event("the gateway refuses the user", 15)
    else:
        charon = StrongSwan(bed.network.ms, other)
        with pytest.raises(Exception, match="initiate"):
            charon.initiate(20)
        assert "EAP_FAILURE" in charon.log() or "EAP/FAIL" in charon.log()
    sg.wait_for_event("no RADIUS server answers", 15)
    assert server_of(sg)["state"] == "silent"


def test_a_gateway_with_another_secret_says_that_it_may_be_that(
    keys: tuple[PublicKey, PublicKey], bed: Bed
) -> None:
    gateway, other = ends(keys, "mschapv2", secret="another secret of a house")
    server = bed.radius()
    sg = Caravan(bed.network.sg, gateway).wait_ready()
    ms = Caravan(bed.network.ms, other)
    sg.wait_for_event("is the secret the same?", 15)
    assert not ms.is_established()
    assert "Message-Authenticator" in server.log()
    # The right one, at a reload.
    (bed.network.sg.logs / "caravan/radius.secret").write_text(f"{SECRET}\n")
    assert "[radius]: changed" in sg.reload().stdout
    ms.wait_until(True, 90)
    bed.fetch()


@pytest.mark.parametrize("how", ["unsigned", "forged"])
def test_an_accept_that_the_secret_has_not_signed_is_dropped_and_counted(
    how: str, keys: tuple[PublicKey, PublicKey], bed: Bed
) -> None:
    gateway, other = ends(keys, "mschapv2")
    forger: Process = forging_server(bed.network.server, SERVER_ADDRESS, SECRET, how)
    sg = Caravan(bed.network.sg, gateway).wait_ready()
    ms = Caravan(bed.network.ms, other)
    sg.wait_for_event("no RADIUS server answers", 15)
    assert forger.stdout().count("sent") >= 3
    assert sg.status()["drops"][f"radius-{how}"] >= 3
    assert server_of(sg)["accepts"] == 0 and server_of(sg)["drops"] >= 3
    assert not sg.is_established() and not ms.is_established()


def test_the_servers_name_and_time_count(keys: tuple[PublicKey, PublicKey], bed: Bed) -> None:
    gateway, other = ends(keys, "mschapv2")
    replies = ('User-Name := "alice.smith"', "Session-Timeout := 8")
    bed.radius(VpnUser(USER, PASSWORD, replies))
    sg = Caravan(bed.network.sg, gateway).wait_ready()
    Caravan(bed.network.ms, other).wait_ready()
    assert peer_of(sg) == "alice.smith"
    # It authenticates again when its time is over.
    settle(lambda: server_of(sg)["accepts"] >= 2)


@METHODS
def test_our_station_is_examined_by_freeradius_behind_strongswan(
    method: str, keys: tuple[PublicKey, PublicKey], bed: Bed
) -> None:
    gateway, other = ends(keys, method)
    server = bed.radius()
    options = f"""load = {PLUGINS} eap-radius
  plugins {{
    eap-radius {{
      servers {{
        one {{
          address = {SERVER_ADDRESS}
          secret = "{SECRET}"
        }}
      }}
    }}
  }}
"""
    charon = StrongSwan(bed.network.sg, gateway, options)
    Caravan(bed.network.ms, other).wait_ready()
    bed.fetch()
    user = USER if method == "mschapv2" else NAMES[1]
    assert f"RADIUS authentication of '{user}' successful" in charon.log()
    assert f"authentication of '{user}' with EAP successful" in charon.log()
    assert "Login OK" in server.log()


# EAP alone.


def alone(keys: tuple[PublicKey, PublicKey]) -> tuple[Connection, Connection]:
    """Both ends prove their certificates within TLS, and nothing else."""
    gateway, station = (Eap("tls", key, is_alone=True) for key in keys)
    both = Connection(
        gateway,
        version=2,
        is_legacy=False,
        proposals="aes128gcm16-prfsha256-curve25519",
        esp_proposals="aes128gcm16",
    )
    one, other = road_warrior(replace(both, auth=keys[0]), keys, NAMES)
    return replace(one, auth=gateway), replace(other, auth=station)


def test_two_caravans_prove_themselves_within_tls_alone(
    keys: tuple[PublicKey, PublicKey], bed: Bed
) -> None:
    gateway, other = alone(keys)
    sg = Caravan(bed.network.sg, gateway).wait_ready()
    ms = Caravan(bed.network.ms, other).wait_ready()
    bed.fetch()
    assert peer_of(sg) == NAMES[1]
    first = [it.payloads for it in without_repeats(ms.handshake()) if it.exchange == "auth"][:2]
    assert "N(EAP_ONLY_AUTHENTICATION)" in first[0]
    assert first[1] == "IDr EAP"


@ROLES
def test_strongswan_and_we_prove_ourselves_within_tls_alone(
    is_initiator: bool, keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    gateway, other = alone(keys)
    with connected(gateway, other, output, is_initiator=is_initiator) as pair:
        assert pair.fetch() == expected
        (sa,) = pair.charon.sas()
        assert (sa.state, sa.version) == ("ESTABLISHED", 2)
        name = NAMES[1] if not is_initiator else NAMES[0]
        assert name in (sa.local_id, sa.remote_id)
        log = pair.charon.log()
        assert "EAP_ONLY" in log
        assert "EAP method EAP_TLS succeeded, MSK established" in log
        auths = [it.payloads for it in pair.ours.handshake() if it.exchange == "auth"]
        assert not any("CERT " in it for it in auths)
        echoes = ping(pair.network.ms, SERVER_ADDRESS, 10, 0.05)
        assert echoes.received == echoes.sent


def test_a_password_alone_is_refused_by_the_configuration(
    keys: tuple[PublicKey, PublicKey], bed: Bed
) -> None:
    gateway, other = alone(keys)
    host = bed.network.ms
    password = 'auth = "eap-mschapv2", secret = "x", eap_id = "a", certs'
    changes = [
        (other, 'auth = "eap-tls", certs', password),
        (gateway, 'remote = { auth = "eap-tls"', 'remote = { users = "users", auth = "eap"'),
    ]
    for connection, words, others in changes:
        file = write_files(host, connection)
        add_user(file.parent / "users", USER, PASSWORD)
        assert order(host, "check", str(file)).code == 0
        text = file.read_text()
        assert words in text
        file.write_text(text.replace(words, others, 1))
        refused = order(host, "check", str(file))
        assert refused.code != 0
        assert "proves itself by a certificate" in refused.stderr
