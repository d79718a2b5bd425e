"""Stations in transport mode without a pool address: the gateway identifies them by their outer
address, and sends to it in clear again after their tunnel has ended."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.capture import IPPROTO_TCP, Capture
from caravan.testbed.caravan import Caravan, order
from caravan.testbed.connection import Connection
from caravan.testbed.remote_access import GATEWAY_ADDRESS, OPERATOR_ADDRESSES, SERVER_ADDRESS
from caravan.testbed.traffic import download, make_file, serve_files, start_download
from caravan.threeways.measurement import PUBLISHED_HTTP_PORT, Keys, transport_ends

pytestmark = pytest.mark.root

URL = f"http://{GATEWAY_ADDRESS}:{PUBLISHED_HTTP_PORT}/file"
FILE_BYTES = 40_000_000
RATE_BYTES_S = 2_000_000
PEER = f"{OPERATOR_ADDRESSES[0]}/32"
SIXTH = """
[connections.sixth]
local = { auth = "psk", id = "sg.example" }
remote = { auth = "psk", id = "other.example", secret = "a long secret of the road" }
[connections.sixth.children.net]
local_ts = ["fd00:10::/64"]
remote_ts = ["fd00:66::/64"]
"""
Ends = tuple[Connection, Connection]


@pytest.fixture
def ends(version: int, keys: Keys) -> Ends:
    both = transport_ends(keys, "aes128gcm16", version=version)
    # So a station finds out at once that its gateway was killed; IKEv1 has that without a setting.
    on_gateway, on_station = (replace(end, crash_detection=version == 2) for end in both)
    # Both have the same identity, so that no two of them can have one address.
    return replace(on_gateway, pool="", remote_id="ms.example", dpd_s=1), on_station


@pytest.fixture(params=[True, False], ids=["nat", "bare"])
def network(request: pytest.FixtureRequest, output: Path) -> Iterator[RemoteAccess]:
    make_file(output / "www/file", FILE_BYTES)
    make_file(output / "www/small", 1000)
    with RemoteAccess(RemoteAccessConfig(has_nat=request.param), output) as network:
        serve_files(network.server, output / "www", SERVER_ADDRESS)
        yield network


def clear_bytes(capture: Capture) -> int:
    """A TCP packet, which must be protected."""
    frames = [frame for frame in capture.frames() if frame.protocol == IPPROTO_TCP]
    return sum(len(frame.payload) for frame in frames if frame.source == GATEWAY_ADDRESS)


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
def test_a_gateway_that_ends_says_no_more_in_clear(
    ending: signal.Signals, network: RemoteAccess, ends: Ends, output: Path
) -> None:
    rules = network.sg.run(["ip", "rule"]).stdout
    with (
        Caravan(network.sg, ends[0]) as gateway,
        Capture(network.sg, "wan0", output / "leak.pcap") as capture,
    ):
        gateway.wait_ready()
        assert gateway.status()["connections"][0]["blocks"] is False
        with Caravan(network.ms, ends[1]) as station:
            station.wait_ready()
            gateway.process.wait_for(
                lambda: gateway.status()["connections"][0]["blocks"], "the block", 15
            )
            (first,) = station.children()
            fetch, _ = start_download(network.ms, URL, rate_bytes_s=RATE_BYTES_S)
            time.sleep(0.5)
            gateway.process.signal(ending)
            gateway.process.wait(5)
            time.sleep(1.5)
            assert f"{PEER} stays blocked" in order(network.sg, "status").stderr
            # The next one does not begin by removing that block.
            with Caravan(network.sg, ends[0]) as again:
                again.wait_ready()
                assert network.sg.unreachable_routes() == [PEER]
                # The next tunnel may be up before the end of the first one has been noticed.
                station.process.wait_for(
                    lambda: any(one["spi_in"] != first["spi_in"] for one in station.children()),
                    "another tunnel",
                    90,
                )
                fetch.stop()
                assert download(network.ms, URL.replace("file", "small")).received_bytes == 1000
                again.down()
    assert clear_bytes(capture) == 0
    assert network.sg.unreachable_routes() == []
    assert network.sg.run(["ip", "rule"]).stdout == rules


def test_a_station_that_has_gone_is_told_nothing_in_clear(
    network: RemoteAccess, ends: Ends, output: Path
) -> None:
    with (
        Caravan(network.sg, ends[0]) as gateway,
        Caravan(network.ms, ends[1]) as station,
        Capture(network.sg, "wan0", output / "leak.pcap") as capture,
    ):
        gateway.wait_ready()
        station.wait_ready()
        fetch, _ = start_download(network.ms, URL, rate_bytes_s=RATE_BYTES_S)
        time.sleep(0.5)
        station.process.signal(signal.SIGTERM)
        gateway.wait_until(False, 10)
        time.sleep(1)
        fetch.stop()
        assert clear_bytes(capture) == 0
        assert network.sg.unreachable_routes() == [PEER]
        assert "traffic without a tunnel blocked" in order(network.sg, "status").check().stdout


def test_on_failure_pass_lets_them_be_answered(network: RemoteAccess, ends: Ends) -> None:
    with (
        Caravan(network.sg, replace(ends[0], on_failure="pass")) as gateway,
        Caravan(network.ms, ends[1]) as station,
    ):
        gateway.wait_ready()
        station.wait_ready()
        assert gateway.status()["connections"][0]["blocks"] is False
        assert network.sg.unreachable_routes() == []


def test_of_peers_that_the_host_refuses_routes_to_none_keeps_the_others_waiting(
    network: RemoteAccess, ends: Ends
) -> None:
    def warnings() -> str:
        return "\n".join(gateway.status()["warnings"])

    with Caravan(network.sg, ends[0]) as gateway:
        gateway.wait_ready()
        # A kernel without IPv6 on the device refuses the routes of a connection with IPv6.
        network.sg.run(["sysctl", "-qw", "net.ipv6.conf.caravan0.disable_ipv6=1"]).check()
        text = gateway.file.read_text()
        gateway.file.write_text(text + SIXTH)
        assert order(network.sg, "reload").code == 1
        assert "this host refused what the configuration wants" in warnings()
        with Caravan(network.ms, ends[1]) as station:
            # Its next attempt is answered too.
            gateway.process.wait_for(lambda: "to their peers: 2" in warnings(), "two ends", 60)
            gateway.wait_for_event("these peers are disconnected")
            # It connects as soon as the host accepts its route.
            gateway.file.write_text(text)
            order(network.sg, "reload").check()
            station.wait_ready(90)
            assert download(network.ms, URL.replace("file", "small")).received_bytes == 1000
