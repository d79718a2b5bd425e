"""The perimeter of a mobile private network: a second site by an IPsec tunnel, and the application
relay by which hosts inside and outside meet."""

from __future__ import annotations

from pathlib import Path

import pytest

from caravan.testbed.capture import ETHER_TYPE_IPV4, IPPROTO_UDP, Capture
from caravan.testbed.mobile_ip import MOBILE
from caravan.testbed.mvpn import (
    CN3,
    CORRESPONDENT,
    GATEWAY1,
    GATEWAY2,
    HOME,
    INSIDE,
    OUTSIDE,
    RELAY_PORT,
    SITE,
    SITE_NETWORK,
    VISITED,
    Mvpn,
    TwoSites,
    all_roles,
    application_relay,
    joined,
    walk,
)
from caravan.testbed.traffic import (
    Download,
    endless_download,
    finish_download,
    make_file,
    ping,
    serve_files,
)

pytestmark = pytest.mark.root

FILE_BYTES = 200_000


def test_a_node_walks_to_the_second_site_and_to_the_outside(output: Path) -> None:
    networks = {"networks": ["10.0.0.0/8", SITE_NETWORK]}
    with (
        TwoSites(output) as network,
        joined(network),
        all_roles(network, through=networks) as roles,
    ):
        with (
            Capture(network.gw2, "wan0", output / "between") as heard,
            endless_download(network.ms, network.cn1, CORRESPONDENT) as download,
        ):
            seen = []
            for place in (SITE, VISITED, SITE, HOME):
                walk(network, roles.ms, place)
                download.wait_for_more()
                (entry,) = [it for it in roles.fw.mobility()["entries"] if it["name"] == "ms"]
                seen.append(entry["care_of"])
            # The firewall never hears of a node at the second site.
            outside = f"{VISITED.care_of}:0"
            assert seen == [None, outside, outside, outside]
            assert download.local_addresses() == {MOBILE}
        frames = [frame for frame in heard.frames() if frame.ether_type == ETHER_TYPE_IPV4]
        # Between the sites everything is in their tunnel: IKE and ESP in UDP.
        ends = {frozenset((frame.packet[12:16], frame.packet[16:20])) for frame in frames}
        assert ends == {frozenset(map(octets, (GATEWAY1, GATEWAY2)))}
        assert {frame.protocol for frame in frames} == {IPPROTO_UDP}
        assert len(frames) > 100


def octets(address: str) -> bytes:
    return bytes(map(int, address.split(".")))


def test_inside_and_outside_meet_at_the_application_relay_alone(output: Path) -> None:
    """As two connections: a server outside sees the firewall, wherever the client inside is."""
    expected = make_file(output / "www/file", FILE_BYTES)
    with Mvpn(output) as network, all_roles(network) as roles:
        server = serve_files(network.cn3, output / "www", CN3)
        application_relay(network)
        assert ping(network.cn1, CN3, 1, timeout_s=0.5).received == 0
        assert fetched(network, "cn1").sha256 == expected
        assert fetched(network, "ms").sha256 == expected
        walk(network, roles.ms, VISITED)
        assert ping(network.ms, CN3, 1, timeout_s=0.5).received == 0
        outside = fetched(network, "ms", "outside")
        assert (outside.sha256, outside.local_address) == (expected, MOBILE)
        clients = {line.split(":")[0] for line in server.stderr().splitlines() if "GET" in line}
        assert clients == {OUTSIDE}


def fetched(network: Mvpn, client: str, name: str = "inside") -> Download:
    """The file of the server outside, by the relay."""
    host = network.ms if client == "ms" else network.cn1
    path = host.logs / name
    argv = ["curl", "--silent", "--show-error", "--fail", "--max-time", "10", "--output", str(path)]
    argv += ["--socks5-hostname", f"{INSIDE}:{RELAY_PORT}", "--write-out", "%{json}"]
    return finish_download(host.run([*argv, f"http://{CN3}/file"]), path)
