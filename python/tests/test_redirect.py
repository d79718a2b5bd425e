"""Redirect (RFC 5685) with charon in both roles, and between Caravans. The other gateway is the
same host at another address: a gateway serves who was sent there. It gets that address just after
the order to drain, which refuses the host's own.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from strongswan_pair import Pair, connected, road_warrior, settle

from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.caravan import Caravan, order
from caravan.testbed.connection import Connection, SharedKey
from caravan.testbed.remote_access import GATEWAY_ADDRESS, SERVER_ADDRESS
from caravan.testbed.strongswan import StrongSwan
from caravan.testbed.traffic import download, make_file, ping, serve_files
from caravan.threeways.measurement import Keys

pytestmark = pytest.mark.root

FILE_BYTES = 1_000_000
OTHER_ADDRESS = "192.0.2.77"


@pytest.fixture(scope="module")
def ends(keys: Keys) -> tuple[Connection, Connection]:
    """The gateway's connection and the client's."""
    both = Connection(SharedKey("unused"), version=2, is_legacy=False, redirect=None)
    gateway, station = road_warrior(both, keys)
    return gateway, replace(station, redirect=(f"{OTHER_ADDRESS}/32",))


def other(pair: Pair | RemoteAccess) -> None:
    """The gateway's host gets its other address."""
    network = pair.network if isinstance(pair, Pair) else pair
    network.sg.add_address("wan0", f"{OTHER_ADDRESS}/24")


def remote(station: Caravan) -> list[str]:
    """Where the client's sessions are."""
    sessions = station.status()["connections"][0]["sessions"]
    return [str(it["remote"]).rsplit(":", 1)[0] for it in sessions]


def test_charon_sends_a_connected_client_elsewhere(
    ends: tuple[Connection, Connection], output: Path
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    with connected(*ends, output, is_initiator=True) as pair:
        other(pair)
        assert remote(pair.ours) == [GATEWAY_ADDRESS]
        argv = ["--redirect", "--ike", ends[0].name, "--gateway", OTHER_ADDRESS]
        pair.charon.swanctl(*argv)
        settle(lambda: remote(pair.ours) == [OTHER_ADDRESS])
        settle(lambda: len(pair.charon.sas()) == 1)
        assert pair.fetch() == expected
        (sa,) = pair.charon.sas()
        assert sa.local_host == OTHER_ADDRESS
        pair.charon.wait_for_log(r"parsed INFORMATIONAL response \d+ \[ \]")
        pair.charon.wait_for_log(r"parsed IKE_SA_INIT request 0 \[.* N\(REDIR_FROM\)")


def test_a_client_that_may_not_go_there_stays(
    ends: tuple[Connection, Connection], output: Path
) -> None:
    gateway, station = ends
    expected = make_file(output / "www/file", FILE_BYTES)
    station = replace(station, redirect=("198.51.100.0/24",))
    with connected(gateway, station, output, is_initiator=True) as pair:
        other(pair)
        argv = ["--redirect", "--ike", gateway.name, "--gateway", OTHER_ADDRESS]
        pair.charon.swanctl(*argv)
        pair.ours.wait_for_event("which neither remote_addrs nor redirect names")
        assert remote(pair.ours) == [GATEWAY_ADDRESS]
        pair.charon.wait_for_log(r"generating INFORMATIONAL request \d+ \[ N\(REDIR\)")
        assert pair.fetch() == expected
        assert "REDIR_FROM" not in pair.charon.log()


def test_charon_is_sent_elsewhere_while_it_is_connected(
    ends: tuple[Connection, Connection], output: Path
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    with connected(*ends, output, is_initiator=False) as pair:
        order(pair.ours.host, "drain", ends[0].name, "--to", OTHER_ADDRESS).check()
        other(pair)
        settle(lambda: own(pair.ours) == [OTHER_ADDRESS])
        assert pair.fetch() == expected
        is_redirected(pair.charon)


def test_charon_is_sent_elsewhere_when_it_begins(
    ends: tuple[Connection, Connection], output: Path
) -> None:
    gateway, station = ends
    expected = make_file(output / "www/file", FILE_BYTES)
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        serve_files(network.server, output / "www", SERVER_ADDRESS)
        ours = Caravan(network.sg, gateway).wait_ready()
        refused = order(ours.host, "drain", gateway.name, "--to", GATEWAY_ADDRESS)
        assert f"{GATEWAY_ADDRESS} is an address of this gateway" in refused.stderr
        assert ours.status()["draining"] is None
        said = order(ours.host, "drain", gateway.name, "--to", OTHER_ADDRESS).check()
        other(network)
        assert f"are sent to {OTHER_ADDRESS}" in said.stdout
        assert ours.status()["draining"] == OTHER_ADDRESS
        charon = StrongSwan(network.ms, station)
        charon.initiate()
        settle(lambda: own(ours) == [OTHER_ADDRESS])
        assert download(network.ms, f"http://{SERVER_ADDRESS}/file").sha256 == expected
        is_redirected(charon)
        assert ours.status()["drops"]["sent-away"] > 0
        order(ours.host, "drain", gateway.name, "--off").check()
        assert ours.status()["draining"] is None


def test_a_caravan_is_sent_elsewhere_and_its_tunnel_stays_until_then(
    ends: tuple[Connection, Connection], output: Path
) -> None:
    gateway, station = ends
    with (
        RemoteAccess(RemoteAccessConfig(), output) as network,
        Caravan(network.sg, gateway).wait_ready() as ours,
        Caravan(network.ms, station).wait_ready() as client,
    ):
        assert ping(network.ms, SERVER_ADDRESS, 1).received == 1
        order(ours.host, "drain", gateway.name, "--to", OTHER_ADDRESS).check()
        other(network)
        settle(lambda: remote(client) == [OTHER_ADDRESS])
        assert ping(network.ms, SERVER_ADDRESS, 1).received == 1
        settle(lambda: own(ours) == [OTHER_ADDRESS])
        assert "the gateway sends us to another one" in client.process.stderr()


def is_redirected(charon: StrongSwan) -> None:
    """It says so, and is at the other address alone; it may still be deleting what it left."""
    charon.wait_for_log(f"redirected to {OTHER_ADDRESS}")
    up = [sa.remote_host for sa in charon.sas() if sa.state == "ESTABLISHED"]
    assert up == [OTHER_ADDRESS]


def own(gateway: Caravan) -> list[str]:
    """At which addresses of the gateway its sessions are."""
    sessions = gateway.status()["connections"][0]["sessions"]
    return [str(it["local"]).rsplit(":", 1)[0] for it in sessions]
