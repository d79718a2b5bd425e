"""Caravan on both ends of the testbed: what no other implementation here can do, and stations that
move."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from caravan.testbed import CommandFailed, RemoteAccess, RemoteAccessConfig
from caravan.testbed.capture import IPPROTO_AH, IPPROTO_ESP, IPPROTO_UDP, Capture
from caravan.testbed.caravan import Caravan, order, without_repeats, write_files
from caravan.testbed.connection import Connection, PublicKey
from caravan.testbed.pki import CaravanAuthority
from caravan.testbed.relay import LinkConfig
from caravan.testbed.remote_access import (
    GATEWAY_ADDRESS,
    GATEWAY_ADDRESS6,
    OPERATOR_ADDRESSES,
    PRIVATE_NETWORK,
    PRIVATE_NETWORK6,
    SERVER_ADDRESS,
    SERVER_ADDRESS6,
    STATION_NETWORK6,
)
from caravan.testbed.traffic import (
    download,
    finish_download,
    iperf,
    iperf_server,
    make_file,
    ping,
    serve_files,
    start_download,
)
from caravan.threeways.measurement import (
    PUBLISHED_HTTP_PORT,
    Keys,
    transport_ends,
    tunnel_ends,
)
from caravan.threeways.sizes import POLICIES

pytestmark = pytest.mark.root

FILE_BYTES = 1_000_000
PUBLISHED_URL = f"http://{GATEWAY_ADDRESS}:{PUBLISHED_HTTP_PORT}/file"
PRIVATE_URL = f"http://{SERVER_ADDRESS}/file"
NEW = ("aes128-sha1", "aes128gcm16", "chacha20poly1305")
OLD = tuple(policy for policy in POLICIES if policy not in ("none", *NEW))
"""The legacy suites; they go with IKEv1."""


@contextlib.contextmanager
def connected(
    network: RemoteAccess, ends: tuple[Connection, Connection], www: Path
) -> Iterator[Caravan]:
    """Gateway and first station up, and the file server; the station's daemon."""
    serve_files(network.server, www, SERVER_ADDRESS)
    with Caravan(network.sg, ends[0]) as gateway:
        gateway.wait_ready()
        with Caravan(network.ms, ends[1]) as station:
            yield station.wait_ready()


@pytest.mark.parametrize(
    ("suite", "version"),
    [*((suite, 1) for suite in (*OLD, *NEW)), *((suite, 2) for suite in NEW)],
)
def test_every_suite_carries_a_file_in_transport_mode(
    suite: str, version: int, keys: Keys, output: Path
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    proposal = f"{suite}-modp2048" if version == 1 else suite
    ends = transport_ends(keys, proposal, version=version)
    with (
        RemoteAccess(RemoteAccessConfig(), output) as network,
        connected(network, ends, output / "www") as station,
    ):
        assert download(network.ms, PUBLISHED_URL).sha256 == expected
        assert len(without_repeats(station.handshake())) == 6


@pytest.mark.parametrize(
    ("suite", "version"), [*((suite, 1) for suite in OLD), *((suite, 2) for suite in NEW)]
)
def test_every_suite_carries_a_file_in_tunnel_mode(
    suite: str, version: int, keys: Keys, output: Path
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    proposal = f"{suite}-modp2048" if version == 1 else suite
    ends = tunnel_ends(keys, proposal, version=version)
    with (
        RemoteAccess(RemoteAccessConfig(), output) as network,
        connected(network, ends, output / "www") as station,
    ):
        fetched = download(network.ms, PRIVATE_URL)
        assert fetched.sha256 == expected
        assert fetched.local_address.startswith("10.99.0.")
        # IKEv1 has two more for the address, IKEv2 two more for ML-KEM.
        assert len(without_repeats(station.handshake())) == (8 if version == 1 else 6)


@pytest.mark.parametrize("version", [1, 2], ids=["ikev1", "ikev2"])
def test_two_stations_with_equal_addresses_and_ports_download_at_once(
    version: int, authority: CaravanAuthority, keys: Keys, output: Path
) -> None:
    """RFC 3948 §5.2: only the pool addresses distinguish their transport SAs."""
    expected = make_file(output / "www/file", 4 * FILE_BYTES)
    on_gateway, on_station = transport_ends(keys, "aes128gcm16", version=version)
    other = PublicKey(authority.issue("other.example"), authority)
    on_other = replace(on_station, auth=other, local_id="other.example")
    with RemoteAccess(RemoteAccessConfig(stations=2), output) as network:
        serve_files(network.server, output / "www", SERVER_ADDRESS)
        Caravan(network.sg, on_gateway).wait_ready()
        for host, connection in zip(network.stations, (on_station, on_other), strict=True):
            Caravan(host, connection).wait_ready()
        # The same source port at both.
        started = [
            start_download(host, PUBLISHED_URL, local_port=40_000) for host in network.stations
        ]
        ended = [finish_download(process.wait(60), path) for process, path in started]
        assert [result.sha256 for result in ended] == [expected] * 2


@dataclass(frozen=True)
class Way:
    """How packets travel without a NAT, what `status` shows, and which settings change it."""

    protocol: int
    said: str
    is_encapsulated: bool | None = None
    ah_proposals: str = ""

    def of(self, end: Connection) -> Connection:
        return replace(end, is_encapsulated=self.is_encapsulated, ah_proposals=self.ah_proposals)


@pytest.mark.parametrize("mode", ["tunnel", "transport"])
@pytest.mark.parametrize(
    "way",
    [
        Way(IPPROTO_UDP, " in UDP,"),
        Way(IPPROTO_ESP, " by protocol 50 (one system call a packet),", is_encapsulated=False),
        Way(IPPROTO_AH, ", ah-sha256,", ah_proposals="sha256"),
    ],
    ids=["udp", "esp", "ah"],
)
def test_without_a_nat_esp_goes_in_udp_unless_it_is_told_not_to(
    mode: str, way: Way, keys: Keys, output: Path
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    make_ends = tunnel_ends if mode == "tunnel" else transport_ends
    on_gateway, on_station = make_ends(keys, "aes128gcm16")
    ends = (way.of(on_gateway), way.of(on_station))
    url = PRIVATE_URL if mode == "tunnel" else PUBLISHED_URL
    with (
        RemoteAccess(RemoteAccessConfig(has_nat=False), output) as network,
        connected(network, ends, output / "www"),
        Capture(network.ms, "wan0", output / "wire.pcap") as capture,
    ):
        assert download(network.ms, url).sha256 == expected
        capture.stop()
        seen = [frame for frame in capture.frames() if len(frame.packet) > 1000]
        assert {frame.protocol for frame in seen} == {way.protocol}
        assert f" {mode}{way.said}" in order(network.ms, "status").check().stdout
        assert ", no NAT, " in order(network.ms, "status").check().stdout


def test_a_download_survives_rebindings_of_the_nat(keys: Keys, output: Path) -> None:
    expected = make_file(output / "www/file", 3 * FILE_BYTES)
    ends = tunnel_ends(keys, "aes128gcm16")
    with (
        RemoteAccess(RemoteAccessConfig(), output) as network,
        connected(network, ends, output / "www"),
    ):
        assert network.nat is not None
        process, path = start_download(network.ms, PRIVATE_URL, rate_bytes_s=1_000_000)
        for is_other_address in (False, True):
            time.sleep(0.7)
            network.nat.rebind(address=is_other_address)
            # The gateway follows the source address of the station's packets; a TCP receiver sends
            # only when something arrives.
            assert ping(network.ms, SERVER_ADDRESS, 5, 0.1).received >= 4
        assert finish_download(process.wait(60), path).sha256 == expected


def test_the_first_packet_brings_the_tunnel_up(keys: Keys, output: Path) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    on_gateway, on_station = tunnel_ends(keys, "aes128gcm16")
    waiting = replace(on_station, start="on-traffic")
    with (
        RemoteAccess(RemoteAccessConfig(), output) as network,
        Caravan(network.sg, on_gateway) as gateway,
    ):
        gateway.wait_ready()
        serve_files(network.server, output / "www", SERVER_ADDRESS)
        with Caravan(network.ms, waiting) as station:
            # The station was not assigned an address: the gateway learns it before there is
            # traffic.
            station.wait_ready()
        gateway.wait_until(False)
        with Caravan(network.ms, waiting) as station:
            station.process.wait_for(lambda: station.try_status() is not None, "control socket", 10)
            time.sleep(0.5)
            assert not station.is_established()
            # The packet that triggers the tunnel waits for it, and its source address is right.
            assert ping(network.ms, SERVER_ADDRESS, 1, timeout_s=3).received == 1
            assert station.status()["drops"]["no-sa"] == 0
            # The same holds for a TCP connection that triggers it.
            fetched = download(network.ms, PRIVATE_URL)
            assert fetched.sha256 == expected
            assert fetched.local_address.startswith("10.99.0.")
            assert station.is_established()


def test_a_transport_connection_comes_up_at_the_first_packet(keys: Keys, output: Path) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    on_gateway, on_station = transport_ends(keys, "aes128gcm16")
    with (
        RemoteAccess(RemoteAccessConfig(), output) as network,
        Caravan(network.sg, on_gateway) as gateway,
    ):
        gateway.wait_ready()
        serve_files(network.server, output / "www", SERVER_ADDRESS)
        with Caravan(network.ms, replace(on_station, start="on-traffic")) as station:
            station.process.wait_for(lambda: station.try_status() is not None, "control socket", 10)
            time.sleep(0.5)
            assert not station.is_established()
            assert ping(network.ms, GATEWAY_ADDRESS, 1, timeout_s=3).received == 1
            assert download(network.ms, PUBLISHED_URL).sha256 == expected


def test_nothing_leaks_after_a_crash_until_down(keys: Keys, output: Path) -> None:
    make_file(output / "www/file", FILE_BYTES)
    ends = tunnel_ends(keys, "aes128gcm16")
    # Nothing blocks clear packets on the network: what the station does not block would arrive.
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        network.open_clear_route()
        with connected(network, ends, output / "www") as station:
            assert ping(network.ms, SERVER_ADDRESS, 2).received == 2
            with Capture(network.ms, "wan0", output / "leak.pcap") as capture:
                station.process.signal(signal.SIGKILL)
                station.process.wait(5)
                assert ping(network.ms, SERVER_ADDRESS, 3, timeout_s=0.5).received == 0
            private = [frame for frame in capture.frames() if b"\x0a\x0a\x00\x02" in frame.packet]
            assert private == []
            assert any(PRIVATE_NETWORK in route for route in network.ms.unreachable_routes())
            station.down()
            assert network.ms.unreachable_routes() == []


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
def test_a_gateway_that_ends_lets_nothing_out_in_clear(
    ending: signal.Signals, keys: Keys, output: Path
) -> None:
    make_file(output / "www/file", 40 * FILE_BYTES)
    on_gateway, on_station = tunnel_ends(keys, "aes128gcm16")
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        # Without its tunnels everything would be sent this way.
        network.sg.add_route("default", OPERATOR_ADDRESSES[0])
        serve_files(network.server, output / "www", SERVER_ADDRESS)
        before = network.sg.run(["ip", "rule"]).stdout
        with Caravan(network.sg, on_gateway) as gateway:
            gateway.wait_ready()
            assert network.sg.unreachable_routes() == [on_gateway.pool]
            with (
                Caravan(network.ms, on_station) as station,
                Capture(network.sg, "wan0", output / "leak.pcap") as capture,
            ):
                station.wait_ready()
                fetch, _ = start_download(network.ms, PRIVATE_URL, rate_bytes_s=2 * FILE_BYTES)
                time.sleep(0.3)
                gateway.process.signal(ending)
                gateway.process.wait(5)
                time.sleep(1)
                fetch.stop()
            sources = {frame.source for frame in capture.frames()}
            assert GATEWAY_ADDRESS in sources and SERVER_ADDRESS not in sources
            assert f"{on_gateway.pool} stays blocked" in order(network.sg, "status").stderr
            gateway.down()
        assert network.sg.unreachable_routes() == []
        assert network.sg.run(["ip", "rule"]).stdout == before


def test_a_gateway_s_on_failure_pass_leaves_no_block(keys: Keys, output: Path) -> None:
    on_gateway, _ = tunnel_ends(keys, "aes128gcm16")
    with (
        RemoteAccess(RemoteAccessConfig(), output) as network,
        Caravan(network.sg, replace(on_gateway, on_failure="pass")) as gateway,
    ):
        gateway.wait_ready()
        assert network.sg.unreachable_routes() == []


def test_a_stopped_station_leaves_its_host_as_it_was(keys: Keys, output: Path) -> None:
    make_file(output / "www/file", FILE_BYTES)
    ends = tunnel_ends(keys, "aes128gcm16")
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        before = host_state(network)
        with connected(network, ends, output / "www") as station:
            assert host_state(network) != before
            station.stop()
            # Blocking connections remain until the user ends them; others do not.
            assert any(PRIVATE_NETWORK in route for route in network.ms.unreachable_routes())
            station.down()
            assert host_state(network) == before


def test_the_policy_none_takes_the_same_path_in_clear(keys: Keys, output: Path) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    on_gateway, on_station = transport_ends(keys, "none", version=1)
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        serve_files(network.server, output / "www", SERVER_ADDRESS)
        before = host_state(network)
        with Caravan(network.sg, on_gateway) as gateway, Caravan(network.ms, on_station) as station:
            gateway.wait_ready()
            station.process.wait_for(lambda: station.try_status() is not None, "control socket", 10)
            for end in (gateway, station):
                (connection,) = end.status()["connections"]
                assert connection["state"] == "in clear"
                assert any("NOT protected" in text for text in end.status()["warnings"])
            with Capture(network.ms, "wan0", output / "clear.pcap") as capture:
                assert download(network.ms, PUBLISHED_URL).sha256 == expected
            assert any(b"GET /file" in frame.packet for frame in capture.frames())
        assert host_state(network) == before
        with pytest.raises(CommandFailed, match=r"Couldn't connect|Failed to connect"):
            download(network.ms, PUBLISHED_URL, timeout_s=1)


def test_a_server_sees_the_pool_s_address_where_the_file_wants_it(keys: Keys, output: Path) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    ends = transport_ends(keys, "aes128gcm16")
    with (
        RemoteAccess(RemoteAccessConfig(), output) as network,
        connected(network, ends, output / "www") as station,
    ):
        for masquerade, source in (("true", "10.10.0.1"), ("false", "10.99.0.1")):
            file = network.sg.logs / "caravan/caravan.toml"
            text = file.read_text().replace("masquerade = true\n", "")
            file.write_text(
                text.replace("port = 8080\n", f"port = 8080\nmasquerade = {masquerade}\n")
            )
            order(network.sg, "reload").check()
            with Capture(network.server, "lan0", output / "lan.pcap") as capture:
                assert download(network.ms, PUBLISHED_URL).sha256 == expected
            asked = [frame for frame in capture.frames() if b"GET /file" in frame.packet]
            assert [frame.source for frame in asked] == [source]
        assert station.is_established()


@pytest.mark.parametrize("mode", ["tunnel", "transport"])
@pytest.mark.parametrize(
    ("protocol", "ah_proposals"),
    [(IPPROTO_ESP, ""), (IPPROTO_AH, "sha256"), (IPPROTO_UDP, "")],
    ids=["esp", "ah", "udp"],
)
def test_an_ipv6_tunnel_carries_a_file_and_long_datagrams(
    mode: str, protocol: int, ah_proposals: str, keys: Keys, output: Path
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    ends = (
        replace(
            end,
            mode=mode,
            ah_proposals=ah_proposals,
            is_encapsulated=protocol == IPPROTO_UDP,
            wants_address=False,
            local_ts="",
            remote_ts="",
        )
        for end in tunnel_ends(keys, "aes128gcm16")
    )
    on_gateway, on_station = ends
    on_station = replace(on_station, remote_addrs=GATEWAY_ADDRESS6)
    if mode == "tunnel":
        inside, outside = PRIVATE_NETWORK6, STATION_NETWORK6
        on_gateway = replace(on_gateway, pool="", local_ts=inside, remote_ts=outside)
        on_station = replace(on_station, local_ts=outside, remote_ts=inside)
    else:
        on_gateway = replace(on_gateway, pool="fd99::/112")
    place = SERVER_ADDRESS6 if mode == "tunnel" else GATEWAY_ADDRESS6
    with RemoteAccess(RemoteAccessConfig(is_dual_stack=True), output) as network:
        holder = network.server if mode == "tunnel" else network.sg
        serve_files(holder, output / "www", place)
        with Caravan(network.sg, on_gateway) as gateway:
            gateway.wait_ready()
            with Caravan(network.ms, on_station) as station:
                station.wait_ready()
                with Capture(network.ms, "wan0", output / "wire.pcap") as capture:
                    assert download(network.ms, f"http://[{place}]/file").sha256 == expected
                    capture.stop()
                    seen = [frame for frame in capture.frames() if len(frame.packet) > 1000]
                    assert {frame.protocol for frame in seen} == {protocol}
                # One may be lost while a sender learns the path MTU.
                assert ping(network.ms, place, 4, 0.05, payload_bytes=3000).received >= 3


@pytest.mark.parametrize("version", [1, 2], ids=["ikev1", "ikev2"])
@pytest.mark.parametrize(
    "networks",
    [(PRIVATE_NETWORK, PRIVATE_NETWORK6), ("0.0.0.0/0", "::/0")],
    ids=["networks", "everything"],
)
def test_a_station_has_an_inner_address_of_each_family(
    version: int, networks: tuple[str, str], keys: Keys, output: Path
) -> None:
    """Both addresses are assigned at once and kept. With IKEv1 each network has its own child."""
    suite = "aes128gcm16-modp2048" if version == 1 else ""
    on_gateway, on_station = tunnel_ends(keys, suite, version=version)
    both = json.dumps(networks)
    with RemoteAccess(RemoteAccessConfig(is_dual_stack=True), output) as network:
        files = [write_files(network.sg, on_gateway), write_files(network.ms, on_station)]
        for file in files:
            text = file.read_text().replace(f'["{PRIVATE_NETWORK}"]', both)
            text = text.replace('pools = ["inner"]', 'pools = ["inner", "inner6"]')
            file.write_text(text.replace('vips = ["0.0.0.0"]', 'vips = ["0.0.0.0", "::"]'))
        with files[0].open("a") as more:
            more.write('[pools.inner6]\naddrs = "fd99::/112"\n')
        with Caravan(network.sg, on_gateway, file=files[0]) as gateway:
            gateway.wait_ready()
            inner: list[list[str]] = []
            for _ in range(2):
                with Caravan(network.ms, on_station, file=files[1]) as station:
                    station.wait_ready()
                    deadline = time.monotonic() + 10
                    while len(station.children()) < 3 - version and time.monotonic() < deadline:
                        time.sleep(0.05)
                    assert ping(network.ms, SERVER_ADDRESS, 2).received == 2
                    assert ping(network.ms, SERVER_ADDRESS6, 2).received == 2
                    assert len(station.children()) == 3 - version
                    inner.append(network.ms.addresses("caravan0"))
            lent = [text for text in inner[0] if text.startswith(("10.99.0.", "fd99::"))]
            assert len(lent) == 2, inner
            assert set(lent) <= set(inner[1]), inner
            stations = gateway.status()
            assert {pool["lent"] for pool in stations["pools"]} <= {0, 1}


@pytest.mark.parametrize(("has_nat", "version"), [(True, 2), (False, 1)], ids=["nat", "raw"])
def test_a_published_udp_port_takes_and_gives_datagrams_longer_than_the_links(
    has_nat: bool, version: int, keys: Keys, output: Path
) -> None:
    """RFC 4303 §3.3.4: transport mode protects whole datagrams; the hosts fragment them."""
    ends = transport_ends(keys, "aes128gcm16", version=version)
    with (
        RemoteAccess(RemoteAccessConfig(has_nat=has_nat), output) as network,
        connected(network, ends, output) as station,
    ):
        file = network.sg.logs / "caravan/caravan.toml"
        published = f'[[publish]]\nprotocol = "udp"\nport = 7777\nto = "{SERVER_ADDRESS}:7777"\n'
        file.write_text(file.read_text() + published)
        order(network.sg, "reload").check()
        server = network.server.popen([sys.executable, "-c", ECHO, SERVER_ADDRESS], name="echo")
        server.wait_for(lambda: "ready" in server.stdout(), "echo server", 10)
        # Twice: after the first the station's kernel knows the MTU of the tunnel.
        for length in (100, 1472, 3000, 3000, 20_000):
            argv = [sys.executable, "-c", ASK, GATEWAY_ADDRESS, str(length)]
            assert network.ms.run(argv).stdout.strip() == "same", length
        assert ping(network.ms, GATEWAY_ADDRESS, 3, 0.05, payload_bytes=3000).received == 3
        assert station.is_established()


ECHO = """
import socket, sys
end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
end.bind((sys.argv[1], 7777))
print("ready", flush=True)
while True:
    data, peer = end.recvfrom(65535)
    end.sendto(data, peer)
"""
ASK = """
import random, socket, sys
end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
end.settimeout(1)
end.connect((sys.argv[1], 7777))
data = random.Random(1).randbytes(int(sys.argv[2]))
for attempt in range(3):
    try:
        end.send(data)
        print("same" if end.recv(65535) == data else "different")
        break
    except OSError as fault:
        print(fault, file=sys.stderr)
"""


def test_a_strict_reverse_path_filter_is_named(keys: Keys, output: Path) -> None:
    on_gateway, on_station = transport_ends(keys, "aes128gcm16")
    with (
        RemoteAccess(RemoteAccessConfig(), output) as network,
        Caravan(network.sg, on_gateway) as gateway,
    ):
        gateway.wait_ready()
        network.ms.sysctl("net.ipv4.conf.all.rp_filter", "1")
        with Caravan(network.ms, on_station) as station:
            station.process.wait_for(lambda: station.try_status() is not None, "control socket", 10)
            (warning,) = [text for text in station.status()["warnings"] if "rp_filter" in text]
            assert "wan0" in warning
            time.sleep(1.5)
            assert not station.is_established()
            network.ms.sysctl("net.ipv4.conf.all.rp_filter", "2")
            station.wait_ready()
        with Caravan(network.ms, on_station) as station:
            warnings = station.wait_ready().status()["warnings"]
            assert not any("rp_filter" in text for text in warnings)


def test_a_file_is_checked_without_a_network(keys: Keys, output: Path) -> None:
    _, on_station = transport_ends(keys, "aes128gcm16")
    named = replace(on_station, remote_addrs="gateway.invalid")
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        # A DNS server that refuses at once: the machine's own may be slow.
        network.ms.run(["sh", "-c", "echo nameserver 127.0.0.9 >/etc/resolv.conf"])
        file = write_files(network.ms, named)
        done = order(network.ms, "check", str(file)).check()
        assert "warning: road: remote_addrs: gateway.invalid cannot be resolved here" in done.stdout
        assert "is valid: 1 connection (road)" in done.stdout
        narrow = write_files(
            network.ms, replace(named, remote_ts=f"{GATEWAY_ADDRESS}/32[tcp/8080]")
        )
        done = order(network.ms, "check", str(narrow)).check()
        assert "traffic that no selector covers is dropped there" in done.stdout
        done = order(network.ms, "up", "-c", str(file), "--detach")
        assert done.code == 2 and "cannot resolve gateway.invalid" in done.stderr


def host_state(network: RemoteAccess) -> list[str]:
    """What a tunnel changes on the station: interfaces, rules, routes, DNS, packet filter."""
    argvs = (
        ["ip", "-brief", "link"],
        ["ip", "rule"],
        ["ip", "route", "show", "table", "all"],
        ["cat", "/etc/resolv.conf"],
        ["nft", "list", "ruleset"],
    )
    return [network.ms.run(argv).stdout for argv in argvs]


@pytest.mark.measures
@pytest.mark.parametrize("version", [1, 2], ids=["ikev1", "ikev2"])
def test_no_end_sends_a_message_twice(version: int, keys: Keys, output: Path) -> None:
    """Elsewhere repeats are not counted, since a busy machine makes an end repeat itself."""
    suite = f"{NEW[0]}-modp2048" if version == 1 else NEW[0]
    make_file(output / "www/file", FILE_BYTES)
    with (
        RemoteAccess(RemoteAccessConfig(), output) as network,
        connected(network, transport_ends(keys, suite, version=version), output / "www") as station,
    ):
        assert len(station.handshake()) == 6


@pytest.mark.measures
def test_the_link_charges_rate_and_delay(output: Path) -> None:
    config = RemoteAccessConfig(link=LinkConfig(rate="2mbit", delay="50ms"))
    with RemoteAccess(config, output) as network:
        assert 100 < ping(network.ms, GATEWAY_ADDRESS, 5, 0.2).minimum_ms < 115
        flow = iperf(network.ms, network.sg, GATEWAY_ADDRESS, 5)
        # 1448 of 1514 bytes of a full frame are the application's.
        assert 1.6 < flow.mbit_s < 2 * 1448 / 1500


def test_the_link_loses_what_it_is_told_to(output: Path) -> None:
    with RemoteAccess(RemoteAccessConfig(link=LinkConfig(loss=0.2)), output) as network:
        echoes = ping(network.ms, GATEWAY_ADDRESS, 300, 0.01, timeout_s=1.0)
        # In both directions: 0.64 of them return; five standard deviations of 300 trials are 0.14.
        assert 0.50 < echoes.received / echoes.sent < 0.78


def test_both_directions_at_once_take_two_threads(keys: Keys, output: Path) -> None:
    """The second packet thread takes over one direction while both are busy, and returns it."""
    # The suite is so slow that one thread is not enough for it on any machine.
    ends = tunnel_ends(keys, "3des-md5-modp2048", version=1)
    both_ways = ["iperf3", "-c", SERVER_ADDRESS, "--bidir", "-t", "2"]
    with (
        RemoteAccess(RemoteAccessConfig(), output) as network,
        connected(network, ends, output) as station,
    ):
        assert ping(network.ms, SERVER_ADDRESS, 5, 0.1).received == 5
        assert cpu_ticks(station.process.pid, "caravan-2") == 0
        iperf_server(network.server, SERVER_ADDRESS)
        network.ms.run(both_ways)
        spent = cpu_ticks(station.process.pid, "caravan-2")
        assert spent > 0
        time.sleep(0.5)
        assert ping(network.ms, SERVER_ADDRESS, 20, 0.02).received == 20
        assert cpu_ticks(station.process.pid, "caravan-2") <= spent + 1


def cpu_ticks(pid: int, thread: str) -> int:
    """The CPU time of the threads with this name, in the kernel's clock ticks."""
    ticks = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text().strip() == thread:
            fields = (task / "stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks
