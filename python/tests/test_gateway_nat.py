"""A gateway that is itself behind a NAT, which forwards IKE's two ports to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from caravan.testbed import Network
from caravan.testbed.caravan import Caravan
from caravan.testbed.host import Host
from caravan.testbed.pki import CaravanAuthority
from caravan.testbed.remote_access import GATEWAY_ADDRESS, SERVER_ADDRESS
from caravan.testbed.traffic import download, make_file, serve_files
from caravan.threeways.measurement import PUBLISHED_HTTP_PORT, Keys, transport_ends, tunnel_ends

pytestmark = pytest.mark.root

HIDDEN_ADDRESS = "10.30.0.2"
FRONT = """table ip front {
    chain prerouting {
        type nat hook prerouting priority dstnat;
        iifname "wan0" udp dport { 500, 4500 } dnat to 10.30.0.2
    }
    chain postrouting {
        type nat hook postrouting priority srcnat;
        oifname "wan0" masquerade
    }
}
"""


def hosts(network: Network) -> tuple[Host, Host, Host]:
    """Station, gateway and server; the gateway is behind a router that has its public address."""
    ms, front, sg, server = (network.host(role) for role in ("ms", "front", "sg", "server"))
    ms.connect("wan0", front, "wan0", 1500)
    front.connect("lan0", sg, "wan0", 1500)
    sg.connect("lan0", server, "lan0", 1500)
    ms.add_address("wan0", "192.0.2.9/24")
    front.add_address("wan0", f"{GATEWAY_ADDRESS}/24")
    front.add_address("lan0", "10.30.0.1/24")
    sg.add_address("wan0", f"{HIDDEN_ADDRESS}/24")
    sg.add_address("lan0", "10.10.0.1/24")
    server.add_address("lan0", f"{SERVER_ADDRESS}/24")
    sg.add_route("default", "10.30.0.1")
    server.add_route("default", "10.10.0.1")
    front.forward()
    sg.forward()
    front.load_nft(FRONT, "front")
    return ms, sg, server


@pytest.mark.parametrize(("mode", "version"), [("tunnel", 2), ("transport", 2), ("transport", 1)])
def test_a_gateway_behind_a_nat_serves(
    mode: str, version: int, authority: CaravanAuthority, output: Path
) -> None:
    expected = make_file(output / "www/file", 1_000_000)
    keys = Keys.of(authority)
    make_ends, place = {
        "tunnel": (tunnel_ends, SERVER_ADDRESS),
        "transport": (transport_ends, f"{GATEWAY_ADDRESS}:{PUBLISHED_HTTP_PORT}"),
    }[mode]
    on_gateway, on_station = make_ends(keys, "aes128gcm16", version=version)
    with Network(output) as network:
        ms, sg, server = hosts(network)
        serve_files(server, output / "www", SERVER_ADDRESS)
        with Caravan(sg, on_gateway) as gateway:
            gateway.wait_ready()
            with Caravan(ms, on_station) as station:
                station.wait_ready()
                assert download(ms, f"http://{place}/file").sha256 == expected
