"""`caravan reload`: what changes while tunnels carry traffic, and what the next authentication
changes."""

from __future__ import annotations

import contextlib
import json
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.caravan import Caravan, caravan_toml, order, write_credentials
from caravan.testbed.connection import Connection, PublicKey, SharedKey
from caravan.testbed.host import Host
from caravan.testbed.pki import CaravanAuthority
from caravan.testbed.remote_access import GATEWAY_ADDRESS, PRIVATE_NETWORK, SERVER_ADDRESS
from caravan.testbed.traffic import ping
from caravan.threeways.measurement import Keys, tunnel_ends

pytestmark = pytest.mark.root

PING_S = 0.02
FARTHER_NETWORK = "10.20.0.0/24"


@dataclass(frozen=True)
class Running:
    """A network with both ends up."""

    network: RemoteAccess
    gateway: Caravan
    station: Caravan

    @contextlib.contextmanager
    def without_loss(self) -> Iterator[None]:
        """While entered, echo requests go through the tunnel; all of them must be answered."""
        argv = ["ping", "-n", "-i", str(PING_S), "-w", "60", SERVER_ADDRESS]
        echoes = self.network.ms.popen(argv)
        assert ping(self.network.ms, SERVER_ADDRESS, 5, PING_S).received == 5
        yield
        assert ping(self.network.ms, SERVER_ADDRESS, 5, PING_S).received == 5
        echoes.signal(signal.SIGINT)
        # The last ones may still be on their way.
        seen = [int(text) for text in re.findall(r"icmp_seq=(\d+)", echoes.wait(10).stdout)]
        assert sorted(seen) == list(range(1, len(seen) + 1))

    def sessions(self) -> list[str]:
        """The station's SPIs; a tunnel that was set up again has others."""
        return [child["spi_in"] for child in self.station.children()]


BOTH = pytest.mark.parametrize("version", [1, 2], ids=["ikev1", "ikev2"])


@pytest.fixture
def running(version: int, keys: Keys, output: Path) -> Iterator[Running]:
    on_gateway, on_station = tunnel_ends(keys, "aes128gcm16", version=version)
    with (
        RemoteAccess(RemoteAccessConfig(), output) as network,
        Caravan(network.sg, on_gateway) as gateway,
    ):
        gateway.wait_ready()
        with Caravan(network.ms, on_station) as station:
            yield Running(network, gateway, station.wait_ready())


def names(host: Host) -> list[str]:
    """The connections that run on a host."""
    report = json.loads(order(host, "status", "--json").check().stdout)
    return sorted(connection["name"] for connection in report["connections"])


def second(connection: Connection) -> str:
    """The text of another connection, with a pre-shared key."""
    other = replace(
        connection,
        auth=SharedKey("of the second"),
        name="second",
        is_aggressive=False,
        local_id="192.0.2.1",
        pool="",
        wants_address=False,
    )
    return caravan_toml(other)


def test_a_gateway_s_connections_come_and_go_under_traffic(running: Running) -> None:
    gateway, host = running.gateway, running.network.sg
    before, text = running.sessions(), gateway.file.read_text()
    with running.without_loss():
        gateway.file.write_text(text + second(gateway.connection))
        gateway.reload()
        assert names(host) == ["road", "second"]
        assert order(host, "status", "second").code == 0
        gateway.file.write_text(text)
        gateway.reload()
        assert names(host) == ["road"]
        assert order(host, "status", "second").code == 1
    assert running.sessions() == before


def test_a_station_s_connections_come_and_go_with_their_routes(running: Running) -> None:
    station, host = running.station, running.network.ms
    before, text = running.sessions(), station.file.read_text()
    added = replace(station.connection, remote_ts=FARTHER_NETWORK, remote_id=GATEWAY_ADDRESS)
    with running.without_loss():
        station.file.write_text(text + second(added).replace("192.0.2.1", GATEWAY_ADDRESS))
        station.reload()
        assert names(host) == ["road", "second"]
        assert any(FARTHER_NETWORK in route for route in host.unreachable_routes())
        station.file.write_text(text)
        station.reload()
        assert names(host) == ["road"]
        assert host.unreachable_routes() == [PRIVATE_NETWORK]
    assert running.sessions() == before


def test_a_reload_that_narrows_a_network_takes_its_former_route_away(running: Running) -> None:
    station, host = running.station, running.network.ms
    assert routed(host) == [PRIVATE_NETWORK]
    half = PRIVATE_NETWORK.replace("/24", "/25")
    text = station.file.read_text()
    for destination in (half, PRIVATE_NETWORK):
        station.file.write_text(text.replace(PRIVATE_NETWORK, destination))
        station.reload()
        assert routed(host) == [destination]
        assert host.unreachable_routes() == [destination]


def routed(host: Host) -> list[str]:
    """The destinations that are routed into the tunnel."""
    routes = host.run(["ip", "route", "show", "table", "221", "metric", "100"]).stdout
    return [route.split()[0] for route in routes.splitlines()]


@pytest.mark.parametrize("version", [1])
def test_new_certificates_serve_the_next_authentication(
    running: Running, authority: CaravanAuthority
) -> None:
    before = running.sessions()
    with running.without_loss():
        give_new_certificates(running, authority)
        assert running.sessions() == before
        # Both ends delete their keys: phase 1 of IKEv1 runs again with the new ones.
        order(running.network.ms, "rekey", "road", "--ike").check()
        running.station.process.wait_for(lambda: established(running.station) == 2, "renewal", 10)
    assert running.sessions() == before


@BOTH
def test_new_certificates_serve_the_next_tunnel(
    running: Running, keys: Keys, authority: CaravanAuthority
) -> None:
    before = running.sessions()
    give_new_certificates(running, authority)
    assert running.sessions() == before
    # Who still shows the former one is refused.
    for former in (keys.gateway.own, keys.station.own):
        authority.revoke(former)
    add_revocations(running.gateway, authority.revocations)
    running.station.process.wait_for(
        lambda: running.station.is_established() and running.sessions() != before, "a tunnel", 15
    )
    after = running.sessions()
    add_revocations(running.station, authority.revocations)
    assert running.sessions() == after
    assert ping(running.network.ms, SERVER_ADDRESS, 3).received == 3
    assert refusals(running.gateway) == 0


def give_new_certificates(running: Running, authority: CaravanAuthority) -> None:
    """Both ends read new certificates and keys."""
    for end in (running.gateway, running.station):
        renewed = authority.issue(end.connection.local_id)
        connection = replace(end.connection, auth=PublicKey(renewed, authority))
        write_credentials(end.file.parent, connection)
        end.reload()


def add_revocations(end: Caravan, revocations: Path) -> None:
    """An end reads a list of revoked certificates."""
    text = end.file.read_text()
    with_list = text.replace(
        'cacerts = ["ca.pem"]', f'cacerts = ["ca.pem"], crls = ["{revocations}"]'
    )
    assert with_list != text
    end.file.write_text(with_list)
    end.reload()


def established(end: Caravan) -> int:
    """How many times phase 1 has run."""
    said = [str(fields.get("message", "")) for _, fields in end.events()]
    return sum(message.startswith("IKEv1 established") for message in said)


@BOTH
def test_a_revoked_peer_loses_its_tunnel_at_once_and_is_not_let_in_again(
    running: Running, keys: Keys, authority: CaravanAuthority
) -> None:
    gateway = running.gateway
    add_revocations(gateway, authority.revoke(keys.station.own))
    assert not gateway.is_established()
    assert "was revoked at" in gateway.wait_for_event("negotiation failed")
    running.station.stop()
    with Caravan(running.network.ms, running.station.connection) as again:
        again.process.wait_for(lambda: refusals(gateway) > 1, "the second refusal", 10)
        assert not again.is_established()


@BOTH
def test_one_peer_is_ended_by_its_name_and_may_come_back(running: Running) -> None:
    host, before = running.network.sg, running.sessions()
    wrong = order(host, "down", "road", "--peer", "ms.exmaple")
    assert wrong.code == 1
    assert "no tunnel with ms.exmaple; it has one with ms.example" in wrong.stderr
    assert running.sessions() == before
    ended = order(host, "down", "road", "--peer", "ms.example").check()
    assert ended.stdout == "road: 1 tunnel of ms.example ended\n"
    running.station.process.wait_for(
        lambda: running.station.is_established() and running.sessions() != before, "a tunnel", 15
    )
    station = order(running.network.ms, "down", "road", "--peer", "sg.example")
    assert "has one gateway" in station.stderr


@BOTH
def test_a_changed_connection_is_set_up_anew_with_the_address_it_had(running: Running) -> None:
    station, before = running.station, running.sessions()
    address = [session["local_ts"] for session in station.children()]
    station.file.write_text(caravan_toml(replace(station.connection, dpd_s=5)))
    station.reload()
    station.process.wait_for(
        lambda: station.is_established() and running.sessions() != before, "another tunnel", 15
    )
    assert [session["local_ts"] for session in station.children()] == address
    assert ping(running.network.ms, SERVER_ADDRESS, 3).received == 3
    assert running.network.ms.unreachable_routes() == [PRIVATE_NETWORK]


def refusals(end: Caravan) -> int:
    """How many negotiations failed."""
    said = [str(fields.get("message", "")) for _, fields in end.events()]
    return sum("negotiation failed" in message for message in said)


@contextlib.contextmanager
def owned_table(host: Host) -> Iterator[None]:
    """Another program owns the nftables table of Caravan's name: nft does not let others replace
    it."""
    (name,) = re.findall(r"inet (caravan\S+)", host.run(["nft", "list", "tables"]).stdout)
    # One line is one transaction: nobody puts the table back in between.
    line = f"delete table inet {name}; add table inet {name} {{ flags owner; }}"
    script = f"exec nft --interactive < <(echo '{line}'; exec sleep 60)"
    owner = host.popen(["bash", "-c", script], name="owner")

    def is_there() -> bool:
        shown = host.run(["nft", "list", "table", "inet", name], check=False)
        return "owner" in shown.stdout

    owner.wait_for(is_there, "its table", 10)
    yield
    owner.signal(signal.SIGKILL)
    owner.wait(10)


def test_a_configuration_that_the_host_refuses_leaves_nothing_behind(running: Running) -> None:
    gateway, host = running.gateway, running.network.sg
    text = gateway.file.read_text()
    added = text + second(gateway.connection)
    gateway.file.write_text(added + '[[publish]]\nport = 8080\nto = "10.10.0.2:80"\n')
    with running.without_loss(), owned_table(host):
        refused = order(host, "reload")
        assert refused.code == 1 and "nft refuses" in refused.stderr, refused
    assert order(host, "status", "second").code == 1
    gateway.file.write_text(added)
    gateway.reload()
    assert names(host) == ["road", "second"]


def test_a_broken_file_changes_nothing(running: Running) -> None:
    gateway, before = running.gateway, running.sessions()
    text = gateway.file.read_text()
    for broken, reason in (
        (text.replace("proposals", "proposal", 1), "nearest valid"),
        (text + '[daemon]\ntun = "other0"\n', "restart"),
        (text.replace("own.pem", "gone.pem"), "gone.pem"),
    ):
        with running.without_loss():
            gateway.file.write_text(broken)
            done = order(running.network.sg, "reload")
            assert done.code == 1 and reason in done.stderr, done
    assert running.sessions() == before
