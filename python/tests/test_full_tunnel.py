"""Full tunnels together with the other traffic of a host, DNS servers outside all tunnels, and
traffic of a gateway's own programs to stations."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from waiting import wait_for

from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.binary import caravan_binary
from caravan.testbed.capture import Capture
from caravan.testbed.caravan import Caravan, order, write_files
from caravan.testbed.connection import Connection, SharedKey
from caravan.testbed.host import Host
from caravan.testbed.remote_access import (
    GATEWAY_ADDRESS,
    GATEWAY_ADDRESS6,
    HOME_ADDRESS,
    SERVER_ADDRESS,
    STATION_ADDRESS,
)
from caravan.testbed.traffic import ping
from caravan.threeways.measurement import Keys, tunnel_ends

pytestmark = pytest.mark.root

EVERYTHING = "0.0.0.0/0"
MDNS = "224.0.0.251"
NOBODY = 65534


@contextlib.contextmanager
def network_with(
    keys: Keys,
    output: Path,
    more: str = "",
    remote_ts: tuple[str, ...] = (EVERYTHING,),
    *,
    version: int = 2,
) -> Iterator[tuple[RemoteAccess, Caravan]]:
    """A gateway that protects all of IPv4, and its station with these keys in its connection."""
    on_gateway, on_station = tunnel_ends(keys, "aes128gcm16", version=version)
    with RemoteAccess(RemoteAccessConfig(is_dual_stack=True), output) as network:
        listed = "[" + ", ".join(f'"{one}"' for one in remote_ts) + "]"
        gateway_file = write_files(network.sg, replace(on_gateway, local_ts="LISTED"))
        gateway_file.write_text(gateway_file.read_text().replace('["LISTED"]', listed))
        station_file = write_files(network.ms, replace(on_station, remote_ts="LISTED"))
        text = station_file.read_text().replace('["LISTED"]', listed)
        station_file.write_text(
            text.replace("[connections.road]\n", f"[connections.road]\n{more}\n")
        )
        with Caravan(network.sg, on_gateway, file=gateway_file) as gateway:
            gateway.wait_ready()
            with Caravan(network.ms, on_station, file=station_file) as station:
                yield network, station.wait_ready()


def way(host: Host, *words: str) -> str:
    """Where the kernel sends a packet, or that it sends it nowhere."""
    done = host.run(["ip", "route", "get", *words], check=False)
    return done.stdout.splitlines()[0] if done.code == 0 else done.stderr.strip()


def rules(host: Host) -> str:
    """The rules that choose the routing table, for both families."""
    return host.run(["ip", "rule"]).stdout + host.run(["ip", "-6", "rule"]).stdout


def say(host: Host, address: str, port: int) -> None:
    """Send one datagram; its fate does not matter."""
    kind = socket.SOCK_DGRAM
    with host.entered(), socket.socket(socket.AF_INET, kind) as out, contextlib.suppress(OSError):
        out.sendto(b"anybody there?", (address, port))


@pytest.mark.parametrize("version", [1, 2], ids=["ikev1", "ikev2"])
def test_a_full_tunnel_keeps_the_local_network_and_refuses_the_other_family(
    version: int, keys: Keys, output: Path
) -> None:
    with network_with(keys, output, version=version) as (network, station):
        before = network.sg.run(["ip", "rule"]).stdout
        with Capture(network.ms, "wan0", output / "wire.pcap") as capture:
            assert ping(network.ms, SERVER_ADDRESS, 2).received == 2
            assert ping(network.ms, GATEWAY_ADDRESS, 1).received == 1
            assert ping(network.ms, HOME_ADDRESS, 1).received == 1
            assert ping(network.ms, GATEWAY_ADDRESS6, 1, timeout_s=0.5).received == 0
            say(network.ms, MDNS, 5353)
            say(network.ms, HOME_ADDRESS, 53)
            capture.stop()
            seen = {(frame.protocol, frame.destination) for frame in capture.frames()}
        icmp, udp, icmpv6 = 1, 17, 58
        assert (icmp, HOME_ADDRESS) in seen and (udp, MDNS) in seen
        assert not seen & {(icmp, SERVER_ADDRESS), (icmp, GATEWAY_ADDRESS), (udp, HOME_ADDRESS)}
        assert (icmpv6, GATEWAY_ADDRESS6) not in seen
        assert before == network.sg.run(["ip", "rule"]).stdout
        assert any("the rest of IPv6 is refused" in text for text in station.status()["warnings"])
        # Another Wi-Fi, whose network is just as local.
        assert network.nat is not None
        network.nat.host.add_address("lan0", "192.168.7.1/24")
        network.ms.add_address("wan0", "192.168.7.2/24")
        assert ping(network.ms, "192.168.7.1", 1).received == 1
        # A Wi-Fi with public addresses gets nothing of the tunnel's traffic.
        network.ms.add_address("wan0", "198.51.100.2/24")
        assert "dev caravan0" in way(network.ms, "198.51.100.1")
        station.process.signal(signal.SIGKILL)
        station.process.wait(5)
        assert ping(network.ms, HOME_ADDRESS, 1).received == 1
        assert ping(network.ms, SERVER_ADDRESS, 1, timeout_s=0.5).received == 0
        assert ping(network.ms, GATEWAY_ADDRESS6, 1, timeout_s=0.5).received == 0
        order(network.ms, "down", "road").check()
        assert ping(network.ms, GATEWAY_ADDRESS6, 1).received == 1
        assert "fwmark" not in rules(network.ms) and "suppress" not in rules(network.ms)


def shout(host: Host, device: str, targets: list[tuple[str, int]]) -> None:
    """Send a datagram to each address, from sockets that are bound to a device."""
    with host.entered():
        for address, port in targets:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            with socket.socket(family, socket.SOCK_DGRAM) as out, contextlib.suppress(OSError):
                out.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
                out.sendto(b"anybody there?", (address, port))


def shouts(capture: Capture) -> list[str]:
    """The destinations of these packets that left in clear; packets quoted in ICMP errors do not
    count."""
    udp = 17
    frames = [frame for frame in capture.frames() if b"anybody there?" in frame.packet]
    return [str(frame.destination) for frame in frames if frame.protocol == udp]


def test_a_program_that_binds_itself_to_a_device_does_not_pass_the_block(
    keys: Keys, output: Path
) -> None:
    strange, near = (
        [(GATEWAY_ADDRESS6, 9), (HOME_ADDRESS, 53), (SERVER_ADDRESS, 9)],
        (HOME_ADDRESS, 9),
    )
    with network_with(keys, output) as (network, station):
        with Capture(network.ms, "wan0", output / "wire.pcap") as capture:
            shout(network.ms, "wan0", [*strange, near])
            assert ping(network.ms, SERVER_ADDRESS, 1).received == 1
            station.crash()
            shout(network.ms, "wan0", [*strange, near])
            order(network.ms, "down", "road").check()
            assert "caravan" not in network.ms.run(["nft", "list", "ruleset"]).stdout
            capture.stop()
            # The traffic that the tunnel leaves to the local network, once with this setting and
            # once without.
            assert shouts(capture) == [HOME_ADDRESS] * 2
        with Capture(network.ms, "wan0", output / "down.pcap") as capture:
            shout(network.ms, "wan0", strange)
            capture.stop()
            assert GATEWAY_ADDRESS6 in shouts(capture)


def test_two_halves_are_a_full_tunnel_and_a_named_network_is_not_local(
    keys: Keys, output: Path
) -> None:
    halves = ("0.0.0.0/1", "128.0.0.0/1", "192.168.9.0/24")
    with network_with(keys, output, remote_ts=halves) as (network, _):
        assert ping(network.ms, SERVER_ADDRESS, 1).received == 1
        assert ping(network.ms, HOME_ADDRESS, 1).received == 1
        assert ping(network.ms, GATEWAY_ADDRESS6, 1, timeout_s=0.5).received == 0
        # A network with the same addresses as the protected ones and the gateway's DNS server.
        network.ms.add_address("wan0", "192.168.9.2/24")
        network.ms.add_address("wan0", "10.10.0.9/24")
        # The client follows.
        wait_for(lambda: "dev wan0" in way(network.ms, "10.10.0.54"), "the network here")
        assert "dev caravan0" in way(network.ms, "192.168.9.1")
        # Of a host here that the gateway calls its resolver only DNS is the gateway's.
        udp, tcp = (("ipproto", name, "dport") for name in ("udp", "tcp"))
        for to in ((*udp, "53"), (*tcp, "53"), (*tcp, "853")):
            assert "dev caravan0" in way(network.ms, "10.10.0.53", *to)
        assert "dev wan0" in way(network.ms, "10.10.0.53")
        assert "dev wan0" in way(network.ms, "10.10.0.53", *tcp, "443")
        assert "dev wan0" in way(network.ms, "10.10.0.54", *tcp, "853")
        assert "dev caravan0" in way(network.ms, HOME_ADDRESS, *udp, "53")
        assert "dev wan0" in way(network.ms, HOME_ADDRESS, *udp, "54")


def test_a_local_network_can_be_shunned(keys: Keys, output: Path) -> None:
    with (
        network_with(keys, output, 'lan = "block"') as (network, _),
        Capture(network.ms, "wan0", output / "wire.pcap") as capture,
    ):
        assert ping(network.ms, SERVER_ADDRESS, 1).received == 1
        assert ping(network.ms, HOME_ADDRESS, 1, timeout_s=0.5).received == 0
        with network.ms.entered(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
            # A program that binds to the interface bypasses every route.
            interface = socket.inet_aton(STATION_ADDRESS)
            out.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, interface)
            with pytest.raises(PermissionError):
                out.sendto(b"anybody there?", (MDNS, 5353))
        capture.stop()
        seen = {frame.destination for frame in capture.frames()}
    assert MDNS not in seen and HOME_ADDRESS not in seen


def test_the_other_family_passes_where_a_key_says_so(keys: Keys, output: Path) -> None:
    with network_with(keys, output, 'other_family = "pass"') as (network, station):
        assert ping(network.ms, SERVER_ADDRESS, 1).received == 1
        assert ping(network.ms, GATEWAY_ADDRESS6, 1).received == 1
        assert any("IPv6 leaves unencrypted" in text for text in station.status()["warnings"])


def test_without_blocks_the_other_family_is_refused_as_long_as_the_process_runs(
    keys: Keys, output: Path
) -> None:
    with network_with(keys, output, 'on_failure = "pass"') as (network, station):
        assert ping(network.ms, SERVER_ADDRESS, 1).received == 1
        assert ping(network.ms, GATEWAY_ADDRESS6, 1, timeout_s=0.5).received == 0
        station.stop()
        assert ping(network.ms, GATEWAY_ADDRESS6, 1).received == 1
        assert "fwmark" not in rules(network.ms) and "suppress" not in rules(network.ms)


def test_check_says_what_a_full_tunnel_does(keys: Keys, output: Path) -> None:
    _, on_station = tunnel_ends(keys, "aes128gcm16")
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        file = write_files(network.ms, replace(on_station, remote_ts=EVERYTHING))
        said = order(network.ms, "check", str(file)).check().stdout
    assert "warning: road: remote_ts covers all of IPv4 but not of IPv6" in said
    assert "note: road: full tunnel: all of IPv4 goes into it" in said
    assert "here 10.0.0.0/24 on wan0" in said


def test_a_resolver_that_no_tunnel_leads_to_is_not_asked(keys: Keys, output: Path) -> None:
    on_gateway, on_station = tunnel_ends(keys, "aes128gcm16")
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        file = write_files(network.sg, on_gateway)
        file.write_text(file.read_text().replace('["10.10.0.53"]', '["9.9.9.9", "10.10.0.53"]'))
        before = network.ms.run(["cat", "/etc/resolv.conf"]).stdout
        with Caravan(network.sg, on_gateway, file=file) as gateway:
            gateway.wait_ready()
            with Caravan(network.ms, on_station) as station:
                station.wait_ready()
                text = network.ms.run(["cat", "/etc/resolv.conf"]).stdout
                assert "nameserver 10.10.0.53" in text and "9.9.9.9" not in text
                station.wait_for_event("the gateway's resolver 9.9.9.9 is not used")
                warnings = station.status()["warnings"]
                assert any("resolver 9.9.9.9 is not used" in one for one in warnings)
                station.stop()
        # None of ours is left; the host's own remain.
        file.write_text(file.read_text().replace(', "10.10.0.53"]', "]"))
        with Caravan(network.sg, on_gateway, file=file) as gateway:
            gateway.wait_ready()
            with Caravan(network.ms, on_station) as station:
                station.wait_ready()
                assert network.ms.run(["cat", "/etc/resolv.conf"]).stdout == before


def test_programs_of_the_gateway_itself_reach_stations(keys: Keys, output: Path) -> None:
    on_gateway, on_station = tunnel_ends(keys, "aes128gcm16")
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        # By default the kernel uses the address of the first interface, which is the outer one
        # here.
        network.sg.remove_address("lan0", "10.10.0.1/24")
        network.sg.connect("inner0", network.server, "inner0", 1500)
        network.sg.add_address("inner0", "10.10.0.1/32")
        with Caravan(network.sg, on_gateway) as gateway:
            gateway.wait_ready()
            with Caravan(network.ms, on_station) as station:
                station.wait_ready()
                assert ping(network.sg, "10.99.0.1", 2).received == 2
                assert gateway.status()["drops"]["no-policy"] == 0
                # The address is removed, and another one is added.
                network.sg.remove_address("inner0", "10.10.0.1/32")
                gateway.wait_for_event("no IPv4 address of this host is in local_ts")
                network.sg.add_address("inner0", "10.10.0.7/32")
                gateway.process.wait_for(
                    lambda: "src 10.10.0.7" in way(network.sg, "10.99.0.1"), "the other source", 5
                )
                assert ping(network.sg, "10.99.0.1", 1).received == 1


def test_the_right_to_low_ports_is_named_where_it_is_missing(output: Path) -> None:
    connection = Connection(
        SharedKey("secret"),
        local_id="ms.example",
        remote_id="sg.example",
        remote_addrs=GATEWAY_ADDRESS,
        remote_ts="10.10.0.0/24",
    )
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        # Other users cannot read it, as with pytest's folders.
        folder = Path(tempfile.mkdtemp(dir="/run"))
        try:
            file = folder / "caravan.toml"
            file.write_text(write_files(network.ms, connection).read_text())
            program = folder / "caravan"
            shutil.copy(caravan_binary(), program)
            for path in (folder, file):
                os.chown(path, NOBODY, NOBODY)
            argv = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
            argv += ["--inh-caps", "+net_admin", "--ambient-caps", "+net_admin"]
            places = {"CARAVAN_RUNTIME_DIR": str(folder), "CARAVAN_STATE_DIR": str(folder)}
            done = network.ms.run(
                [*argv, str(program), "up", "-c", str(file)], 20, places, check=False
            )
        finally:
            shutil.rmtree(folder)
    assert done.code == 1
    assert "UDP port 500 needs CAP_NET_BIND_SERVICE" in done.stderr
