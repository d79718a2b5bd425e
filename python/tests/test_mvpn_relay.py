"""A hostile network outside and an accomplice inside, who has no rights on his host: together they
pass on what node and home agent tell each other, so that the node takes itself to be inside."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from mvpn_by_hand import wait_reaches
from mvpn_relay import relay

from caravan.testbed.mobile_ip import HOME_AGENT, Place
from caravan.testbed.mvpn import CORRESPONDENT, VISITED, Mvpn, all_roles, walk

pytestmark = pytest.mark.root

LIKE_INSIDE = Place("hotel", "10.20.9.9/24", "10.20.9.1")
"""Its address is one of the node's `networks`."""
LIKE_HOME = Place("hotel", "10.18.3.99/24", HOME_AGENT)
"""Its address is one of the home network."""
REQUESTS = 2


@pytest.mark.parametrize("place", [LIKE_INSIDE, LIKE_HOME], ids=["inside", "home"])
def test_a_relayed_request_gets_no_answer_and_lifts_no_filter(place: Place, output: Path) -> None:
    with Mvpn(output) as network, all_roles(network) as it:
        walk(network, it.ms, VISITED)
        wait_reaches(network)
        rogue = network.host("rogue")
        rogue.connect("eth0", network.links, "rogue-eth0", 1500)
        network.links.plug("rogue-eth0", "hotel")
        rogue.add_address("eth0", f"{place.router}/24")
        if place.router != HOME_AGENT:
            rogue.add_address("lo", f"{HOME_AGENT}/32")
        with relay(rogue, (network.cn1, CORRESPONDENT)) as passed_on:
            network.move(place)
            until = time.monotonic() + 20
            while passed_on.requests < REQUESTS and time.monotonic() < until:
                assert it.ms.mobility()["state"] not in ("registered", "at home")
                time.sleep(0.1)
            it.ha.wait_for(lambda ha: ha["refused"].get("denied-129", 0) >= REQUESTS, "denied")
        assert passed_on.replies == []
        assert it.ms.mobility()["state"] not in ("registered", "at home")
        assert "caravan" in network.ms.run(["nft", "list", "tables"]).stdout
        walk(network, it.ms, VISITED)
        wait_reaches(network)
