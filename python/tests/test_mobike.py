"""MOBIKE (RFC 4555): a station moves between networks under a ping and a download.

Two Caravans, and strongSwan 5.9 in both roles. Each move prints its gap. The old link is dead at
once. A gap is at most a round trip and 20 ms on an idle machine. That nothing was negotiated is
seen by SPIs and sessions: the gaps depend on what runs beside.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from strongswan_pair import road_warrior, settle

from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.caravan import Caravan
from caravan.testbed.connection import Connection, PublicKey
from caravan.testbed.remote_access import (
    GATEWAY_ADDRESS,
    GATEWAY_ADDRESS6,
    SERVER_ADDRESS,
    STATION_ADDRESS6,
)
from caravan.testbed.roaming import CELL, WIFI, Access, Pinging, RoamNetwork
from caravan.testbed.strongswan import StrongSwan
from caravan.testbed.traffic import endless_download, ping

pytestmark = pytest.mark.root

SUITE = "aes128gcm16-prfsha256-curve25519"
MOVED_S = 5.0
"""A client that recovers only by its own probe needs more than this of silence; 0.04 s is usual."""


def ends(keys: tuple[PublicKey, PublicKey]) -> tuple[Connection, Connection]:
    """The connection at the gateway and at the station."""
    both = Connection(
        keys[0], version=2, is_legacy=False, proposals=SUITE, esp_proposals="aes128gcm16"
    )
    return road_warrior(both, keys)


def session_of(end: Caravan) -> Mapping[str, Any]:
    """The one session of an end."""
    (connection,) = end.status()["connections"]
    (session,) = connection["sessions"]
    found: Mapping[str, Any] = session
    return found


def spis(end: Caravan) -> tuple[str, str]:
    """The SPIs of an end's one child."""
    (child,) = session_of(end)["children"]
    return child["spi_in"], child["spi_out"]


def roam(network: RoamNetwork, pinging: Pinging, *places: Access) -> None:
    """Go from place to place under a ping, and print each gap."""
    for place in places:
        print(f"to {place.name}: {pinging.gap(network.move(place))}")


@pytest.mark.parametrize("has_nat", [True, False], ids=["nat", "plain"])
def test_two_caravans_roam_under_a_ping_and_a_download(
    has_nat: bool, keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    gateway, station = ends(keys)
    with RoamNetwork(output, has_nat=has_nat) as network:
        sg = Caravan(network.sg, gateway).wait_ready()
        ms = Caravan(network.ms, station).wait_ready()
        assert session_of(ms)["mobike"] and session_of(sg)["mobike"]
        assert session_of(ms)["nat"] == ("local" if has_nat else "none")
        before = spis(ms)
        pinging = Pinging(network.ms)
        with endless_download(network.ms, network.server, SERVER_ADDRESS) as fetching:
            for place in (CELL, WIFI, CELL):
                roam(network, pinging, place)
                fetching.wait_for_more()
        pinging.stop()
        assert pinging.longest_s() < MOVED_S
        # One session, the same keys: nothing was negotiated.
        assert spis(ms) == before
        assert session_of(ms)["moves"] == 3
        # The kernel may send packets from the old address over the new link at first.
        assert session_of(sg)["moves"] >= 3
        remote = session_of(sg)["remote"]
        assert remote.startswith(f"{CELL.outer if has_nat else CELL.station}:")
        ms.stop()
        sg.stop()


def test_ipv4_to_ipv6_and_back(keys: tuple[PublicKey, PublicKey], output: Path) -> None:
    gateway, station = ends(keys)
    station = replace(station, remote_addrs=f"{GATEWAY_ADDRESS},{GATEWAY_ADDRESS6}")
    with RoamNetwork(output, is_cell_v6=True) as network:
        sg = Caravan(network.sg, gateway).wait_ready()
        ms = Caravan(network.ms, station).wait_ready()
        before = spis(ms)
        pinging = Pinging(network.ms)
        with endless_download(network.ms, network.server, SERVER_ADDRESS) as fetching:
            for place, start in ((CELL, "["), (WIFI, "192.0.2."), (CELL, "[")):
                roam(network, pinging, place)
                assert session_of(sg)["remote"].startswith(start)
                fetching.wait_for_more()
        pinging.stop()
        assert pinging.longest_s() < MOVED_S
        assert spis(ms) == before
        assert session_of(ms)["nat"] == "none"


def test_a_link_local_address_is_no_way_to_the_gateway(
    keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    """The route to it stays when the only other address of IPv6 goes."""
    gateway, station = ends(keys)
    station = replace(station, remote_addrs=f"{GATEWAY_ADDRESS6},{GATEWAY_ADDRESS}")
    with RemoteAccess(RemoteAccessConfig(is_dual_stack=True), output) as network:
        Caravan(network.sg, gateway).wait_ready()
        ms = Caravan(network.ms, station).wait_ready()
        assert session_of(ms)["remote"] == f"[{GATEWAY_ADDRESS6}]:4500"
        network.ms.remove_address("wan0", f"{STATION_ADDRESS6}/64")
        assert "default via" in network.ms.run(["ip", "-6", "route"]).stdout
        settle(lambda: session_of(ms)["remote"] == f"{GATEWAY_ADDRESS}:4500")
        assert session_of(ms)["moves"] == 1
        assert ping(network.ms, SERVER_ADDRESS, 3, 0.1).received == 3


def test_a_nat_rebinds_under_a_ping(keys: tuple[PublicKey, PublicKey], output: Path) -> None:
    gateway, station = ends(keys)
    with RoamNetwork(output) as network:
        sg = Caravan(network.sg, gateway).wait_ready()
        ms = Caravan(network.ms, station).wait_ready()
        before, port = spis(ms), session_of(sg)["remote"]
        pinging = Pinging(network.ms)
        moment = time.time()
        network.nats[WIFI.name].rebind()
        print(f"NAT rebinding: {pinging.gap(moment)}")
        pinging.stop()
        assert pinging.longest_s() < MOVED_S
        assert spis(ms) == before
        assert session_of(sg)["remote"] != port


@pytest.mark.parametrize("has_nat", [True, False], ids=["nat", "plain"])
def test_a_gateway_that_loses_its_address_is_followed(
    has_nat: bool, keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    gateway, station = ends(keys)
    with RoamNetwork(output, has_nat=has_nat, addresses=2) as network:
        sg = Caravan(network.sg, gateway).wait_ready()
        ms = Caravan(network.ms, station).wait_ready()
        settle(lambda: "192.0.2.2" in session_of(ms)["peer_addresses"])
        before = spis(ms)
        pinging = Pinging(network.ms)
        # The kernel would remove the network's other address too, unless a setting forbids it.
        network.sg.sysctl("net.ipv4.conf.wan0.promote_secondaries", "1")
        moment = time.time()
        network.sg.remove_address("wan0", f"{GATEWAY_ADDRESS}/24")
        # A NAT lets nothing in from another address: the station finds it when all is silent.
        print(f"gateway: {pinging.gap(moment, settle_s=15 if has_nat else 3)}")
        pinging.stop()
        assert has_nat or pinging.longest_s() < MOVED_S
        assert spis(ms) == before
        assert session_of(ms)["remote"].startswith("192.0.2.2:")
        assert session_of(sg)["local"].startswith("192.0.2.2:")


def test_a_second_link_takes_over_when_the_first_one_falls_silent(
    keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    """The first one has the better route and a carrier: the kernel would go on to send by it, from
    whichever address."""
    gateway, station = ends(keys)
    with RoamNetwork(output) as network:
        ms = network.ms
        ms.link_up(CELL.name)
        ms.add_address(CELL.name, f"{CELL.station}/24")
        ms.run(["ip", "route", "add", "default", "via", CELL.router, "metric", "600"])
        Caravan(network.sg, gateway).wait_ready()
        client = Caravan(ms, station).wait_ready()
        assert session_of(client)["local"].startswith(WIFI.station)
        before = spis(client)
        pinging = Pinging(ms)
        moment = time.time()
        network.nats[WIFI.name].host.link_down("wan0")
        print(f"second link: {pinging.gap(moment, settle_s=15)}")
        pinging.stop()
        assert spis(client) == before
        assert session_of(client)["local"].startswith(CELL.station)


def test_charon_roams(keys: tuple[PublicKey, PublicKey], output: Path) -> None:
    gateway, station = ends(keys)
    with RoamNetwork(output) as network:
        ours = Caravan(network.sg, gateway).wait_ready()
        charon = StrongSwan(network.ms, station)
        charon.initiate()
        ours.wait_until(True)
        assert session_of(ours)["mobike"]
        charon.wait_for_log(r"peer supports MOBIKE")
        before = spis(ours)
        pinging = Pinging(network.ms)
        with endless_download(network.ms, network.server, SERVER_ADDRESS) as fetching:
            for place in (CELL, WIFI):
                moment = network.move(place)
                print(f"charon to {place.name}: {pinging.gap(moment, settle_s=5)}")
                fetching.wait_for_more()
        pinging.stop()
        charon.wait_for_log(r"requesting address change using MOBIKE")
        charon.wait_for_log(r"generating INFORMATIONAL request \d+ \[ N\(UPD_SA_ADDR\)")
        # charon cannot move SAs of its libipsec: it renews the child.
        assert spis(ours) != before
        assert session_of(ours)["moves"] >= 2
        assert session_of(ours)["remote"].startswith(f"{WIFI.outer}:")


@pytest.mark.parametrize("has_nat", [True, False], ids=["nat", "plain"])
def test_caravan_roams_and_charon_follows(
    has_nat: bool, keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    gateway, station = ends(keys)
    with RoamNetwork(output, has_nat=has_nat) as network:
        charon = StrongSwan(network.sg, gateway)
        ours = Caravan(network.ms, station).wait_ready()
        assert session_of(ours)["mobike"]
        (sa,) = charon.sas()
        before = spis(ours)
        pinging = Pinging(network.ms)
        with endless_download(network.ms, network.server, SERVER_ADDRESS) as fetching:
            for place in (CELL, WIFI, CELL):
                roam(network, pinging, place)
                fetching.wait_for_more()
        pinging.stop()
        words = r"parsed INFORMATIONAL request \d+ \[ N\(UPD_SA_ADDR\)"
        assert len(re.findall(words, charon.log())) >= 3
        (after,) = charon.sas()
        assert after.unique_id == sa.unique_id
        assert after.remote_host == (CELL.outer if has_nat else CELL.station)
        # charon cannot move SAs of its libipsec: it renews the child.
        assert spis(ours) != before


def test_charon_follows_us_from_ipv4_to_ipv6_and_back(
    keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    gateway, station = ends(keys)
    station = replace(station, remote_addrs=f"{GATEWAY_ADDRESS},{GATEWAY_ADDRESS6}")
    with RoamNetwork(output, is_cell_v6=True) as network:
        charon = StrongSwan(network.sg, gateway)
        ours = Caravan(network.ms, station).wait_ready()
        (sa,) = charon.sas()
        pinging = Pinging(network.ms)
        with endless_download(network.ms, network.server, SERVER_ADDRESS) as fetching:
            for place, address in (
                (CELL, CELL.station6),
                (WIFI, WIFI.outer),
                (CELL, CELL.station6),
            ):
                roam(network, pinging, place)
                (now,) = charon.sas()
                assert (now.unique_id, now.remote_host) == (sa.unique_id, address)
                fetching.wait_for_more()
        pinging.stop()
        words = r"parsed INFORMATIONAL request \d+ \[ N\(UPD_SA_ADDR\)"
        assert len(re.findall(words, charon.log())) >= 3
        assert session_of(ours)["moves"] == 3


def test_charon_goes_from_ipv4_to_ipv6_and_back(
    keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    gateway, station = ends(keys)
    with RoamNetwork(output, is_cell_v6=True) as network:
        ours = Caravan(network.sg, gateway).wait_ready()
        charon = StrongSwan(network.ms, station)
        charon.initiate()
        ours.wait_until(True)
        (sa,) = charon.sas()
        pinging = Pinging(network.ms)
        with endless_download(network.ms, network.server, SERVER_ADDRESS) as fetching:
            for place, start in ((CELL, f"[{CELL.station6}]"), (WIFI, WIFI.outer)):
                moment = network.move(place)
                print(f"charon to {place.name}: {pinging.gap(moment, settle_s=5)}")
                assert session_of(ours)["remote"].startswith(f"{start}:")
                fetching.wait_for_more()
        pinging.stop()
        charon.wait_for_log(r"requesting address change using MOBIKE")
        charon.wait_for_log(r"generating INFORMATIONAL request \d+ \[ N\(UPD_SA_ADDR\)")
        (now,) = charon.sas()
        assert now.unique_id == sa.unique_id


def test_without_mobike_a_move_is_a_new_session_that_keeps_address_and_flow(
    keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    gateway, station = ends(keys)
    with RoamNetwork(output) as network:
        charon = StrongSwan(network.sg, replace(gateway, has_mobike=False))
        ours = Caravan(network.ms, station).wait_ready()
        assert not session_of(ours)["mobike"]
        before, inner = spis(ours), session_of(ours)["inner"]
        pinging = Pinging(network.ms)
        with endless_download(network.ms, network.server, SERVER_ADDRESS) as fetching:
            gap = pinging.gap(network.move(CELL))
            print(f"without MOBIKE: {gap}")
            fetching.wait_for_more()
        pinging.stop()
        assert session_of(ours)["inner"] == inner
        assert spis(ours) != before
        settle(lambda: len(charon.sas()) == 1)
        assert ping(network.ms, SERVER_ADDRESS, 5, 0.1).received == 5
        (sa,) = charon.sas()
        assert sa.remote_host == CELL.outer
        assert list(sa.vips) == inner
        log = charon.log()
        assert "peer supports MOBIKE, but disabled in config" in log
        assert not re.search(r"generating IKE_AUTH response .*MOBIKE", log)


def test_two_caravans_without_mobike(keys: tuple[PublicKey, PublicKey], output: Path) -> None:
    gateway, station = ends(keys)
    with RoamNetwork(output, has_nat=False) as network:
        sg = Caravan(network.sg, replace(gateway, has_mobike=False)).wait_ready()
        ms = Caravan(network.ms, station).wait_ready()
        assert not session_of(ms)["mobike"]
        inner = session_of(ms)["inner"]
        pinging = Pinging(network.ms)
        with endless_download(network.ms, network.server, SERVER_ADDRESS) as fetching:
            print(f"without MOBIKE: {pinging.gap(network.move(CELL))}")
            fetching.wait_for_more()
        pinging.stop()
        settle(lambda: session_of(ms)["inner"] == inner)
        assert session_of(sg)["remote"].startswith(f"{CELL.station}:")


def test_a_tunnel_begins_by_the_second_link_where_the_first_one_is_silent(
    keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    """The first one has the better route and a carrier, and leads nowhere."""
    gateway, station = ends(keys)
    with RoamNetwork(output) as network:
        ms, beyond = network.ms, network.nats[WIFI.name].host
        beyond.link_down("wan0")
        ms.link_up(CELL.name)
        ms.add_address(CELL.name, f"{CELL.station}/24")
        ms.run(["ip", "route", "add", "default", "via", CELL.router, "metric", "600"])
        Caravan(network.sg, gateway).wait_ready()
        client = Caravan(ms, station).wait_ready(30)
        assert session_of(client)["local"].startswith(CELL.station)
        assert ping(ms, SERVER_ADDRESS, 3).received == 3
        # It moves when that link is gone, in the same session.
        before = spis(client)
        beyond.link_up("wan0")
        ms.link_down(CELL.name)
        settle(lambda: session_of(client)["local"].startswith(WIFI.station))
        assert ping(ms, SERVER_ADDRESS, 3).received == 3
        assert spis(client) == before
