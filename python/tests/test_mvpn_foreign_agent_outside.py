"""A foreign agent outside (mode fvc of RFC 5265): on a link without an address, the tunnel to the
VPN gateway begins at the same address, and the agent of the link delivers its packets."""

from __future__ import annotations

from pathlib import Path

import pytest
from mobile_ip_captures import ends, is_told
from mvpn_by_hand import reaches

from caravan.testbed import mvpn_gateway
from caravan.testbed.capture import IPPROTO_ESP, IPPROTO_IPIP, Capture, Frame
from caravan.testbed.caravan import order
from caravan.testbed.mobile_ip import MOBILE
from caravan.testbed.mvpn import CORRESPONDENT, HOME, HOTEL, OUTSIDE, PLAIN, VISITED
from caravan.testbed.mvpn_gateway import WITH_AGENT, is_inside, session
from caravan.testbed.mvpn_outside import (
    LOUNGE,
    LOUNGE_AGENT,
    OUTSIDE_AGENT,
    OUTSIDE_HOME,
    WithAgentOutside,
    agents,
    all_roles,
    foreign_agent,
    node,
    place_outside,
    walk,
)
from caravan.testbed.traffic import endless_download, ping

pytestmark = pytest.mark.root

PLACES = (LOUNGE, VISITED, LOUNGE, WITH_AGENT, LOUNGE, HOTEL, LOUNGE, HOME)


def spis(network: WithAgentOutside) -> list[str]:
    return []


def kinds(frames: list[Frame]) -> set[tuple[str, str, int]]:
    """Who sends what to whom."""
    return {(*ends(frame.packet), frame.protocol) for frame in frames if is_told(frame)}


def test_a_node_without_an_address_outside_goes_through_a_foreign_agent(output: Path) -> None:
    own = mvpn_gateway.with_agent(PLAIN)
    agent = mvpn_gateway.with_agent_of_visitors(PLAIN)
    with (
        WithAgentOutside(output) as network,
        all_roles(network, agent=agent, own=own) as roles,
        foreign_agent(network) as lounge,
    ):
        mvpn_gateway.add_network_with_agent(network)
        lounge.wait_ready()
        with (
            mvpn_gateway.foreign_agent(network) as inside,
            endless_download(network.ms, network.cn1, CORRESPONDENT) as download,
        ):
            inside.wait_ready()
            tunnels = []
            for place in PLACES:
                walk(network, roles.ms, place)
                download.wait_for_more()
                now = session(roles.ms)
                assert (now is None) == is_inside(place)
                tunnels.append(now and [child["spi_in"] for child in now["children"]])
            assert download.local_addresses() == {MOBILE}
        # One tunnel for each stay outside.
        assert tunnels[0] == tunnels[1] == tunnels[2] != tunnels[4]
        assert tunnels[4] == tunnels[5] == tunnels[6]
