"""The two subnets of paper P: its nine scenarios over 802.1X, Mobile IP and an IPsec tunnel between
the routers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from caravan.testbed.capture import ETHER_TYPE_ARP, IPPROTO_ESP, IPPROTO_UDP, Frame
from caravan.testbed.dot1x.exchange import Tap
from caravan.testbed.dot1x.measurement import Meter
from caravan.testbed.dot1x.method import (
    SERVER_NAME,
    Account,
    Login,
    Method,
    ServerConfig,
    ServerIdentity,
)
from caravan.testbed.dot1x.network import STATION_INTERFACE
from caravan.testbed.dot1x.scenarios import of_the_study
from caravan.testbed.dot1x.subnets import (
    MN1,
    NODES,
    Scenario,
    Servers,
    TwoSubnets,
    mobile_node,
    serving,
    visit,
)
from caravan.testbed.dot1x.supplicant import Supplicant
from caravan.testbed.dot1x.wireless import LinkSecurity, WirelessCipher, dynamic_wep
from caravan.testbed.mobile_ip import Role
from caravan.testbed.pki import CaravanAuthority
from caravan.testbed.traffic import reach_each_other

USER = "mobile@bench"
IKE_PORTS = {500, 4500}
SCENARIOS = of_the_study()


def test_the_scenarios_are_those_of_the_paper() -> None:
    assert [one.name for one in SCENARIOS] == [f"m{number}" for number in range(1, 10)]
    assert [one.name for one in SCENARIOS if one.is_roaming] == ["m6", "m7", "m8", "m9"]
    assert len({(one.at, one.correspondent) for one in SCENARIOS}) == 9


@dataclass(frozen=True)
class Running:
    """Everything of both subnets, with each node at home."""

    network: TwoSubnets
    servers: Servers
    stations: dict[str, Supplicant]
    roles: dict[str, Role]

    def works(self, scenario: Scenario) -> bool:
        """Whether the ends of a scenario reach each other."""
        hosts = self.network.roles
        return reach_each_other(
            (hosts[MN1.role], scenario.address), (hosts[scenario.correspondent], MN1.address)
        )


@contextlib.contextmanager
def running(
    folder: Path, authority: CaravanAuthority, security: LinkSecurity | None = None
) -> Iterator[Running]:
    """EAP-TLS with certificates of `caravan pki`; one user stands for all nodes."""
    identity = ServerIdentity(authority.issue(SERVER_NAME), authority.certificate)
    config = ServerConfig(identity, (Account(USER, Method.TLS),))
    own = authority.issue("station.example")
    login = Login(USER, Method.TLS, credentials=own, authority=authority.certificate)
    with contextlib.ExitStack() as stack:
        network = stack.enter_context(TwoSubnets(folder))
        cipher = None
        if security is not None:
            cipher = stack.enter_context(WirelessCipher(network, security))
        servers = stack.enter_context(serving(network, config))
        it = Running(network, servers, {}, {})
        for node in NODES:
            host = network.roles[node.role]
            if cipher is None:
                station = Supplicant(host, STATION_INTERFACE, login)
            else:
                station = cipher.supplicant(host, login)
            it.stations[node.role] = stack.enter_context(station)
            with Meter(station, servers.access_points[node.home.number]) as meter:
                meter.authenticate()
            if not node.is_fixed:
                it.roles[node.role] = stack.enter_context(mobile_node(network, node))
        for role in it.roles.values():
            role.wait_ready().wait_for(lambda part: bool(part["state"] == "at home"), "at home")
        yield it


@pytest.mark.root
def test_each_scenario_works_and_the_way_between_the_subnets_is_sealed(
    authority: CaravanAuthority, output: Path
) -> None:
    with running(output, authority) as it:
        router = it.network.roles["r1"]
        with contextlib.closing(Tap(router, "wan0", has_everything=True)) as between:
            for scenario in SCENARIOS:
                if not scenario.is_roaming:
                    assert it.works(scenario), scenario.name
            correspondent = it.network.roles["cn1"]
            found = visit(
                it.network, it.servers, it.stations["mn1"], it.roles["mn1"], correspondent
            )
            for scenario in SCENARIOS:
                if scenario.is_roaming:
                    assert it.works(scenario), scenario.name
            frames = between.read()
        sealed = [is_sealed(frame) for frame in frames if frame.ether_type != ETHER_TYPE_ARP]
        assert len(sealed) > 0 and all(sealed)
        assert found.authentication.exchange.is_success
        assert min(found.moved_s, found.registration_s) > 0
        parts = found.authentication.total_s, found.discovery_s, found.registration_s
        assert found.gap_s > sum(parts)
        address = it.stations["mn1"].hardware_address
        assert address not in it.servers.access_points[1].authorized()
        assert address in it.servers.access_points[2].authorized()


@pytest.mark.root
def test_a_node_moves_between_the_subnets_under_dynamic_wep(
    authority: CaravanAuthority, output: Path
) -> None:
    home, away = (SCENARIOS[at] for at in (0, 5))
    with running(output, authority, dynamic_wep()) as it:
        assert it.works(home), home.name
        correspondent = it.network.roles["cn1"]
        assert it.network.cipher is not None
        times_secured = it.network.cipher.status()["mn1"]["times_secured"]
        assert times_secured > 0
        visit(it.network, it.servers, it.stations["mn1"], it.roles["mn1"], correspondent)
        assert it.works(away), away.name
        status = it.network.cipher.status()
        address = it.stations["mn1"].hardware_address
        assert address not in status["ap1"]["stations"]
        assert status["ap2"]["stations"][address]["secured"]
        # An access point gives the same keys again until a frame is under them, and each counts.
        assert status["mn1"]["times_secured"] > times_secured


def is_sealed(frame: Frame) -> bool:
    """Whether a frame is ESP or IKE."""
    if frame.protocol == IPPROTO_ESP:
        return True
    ports = {int.from_bytes(frame.payload[at : at + 2]) for at in (0, 2)}
    return frame.protocol == IPPROTO_UDP and bool(ports & IKE_PORTS)
