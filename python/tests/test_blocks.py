"""The block of a station whose tunnel does not come up: nothing leaves in clear until `caravan
down`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.caravan import Caravan, order, write_files
from caravan.testbed.connection import Connection
from caravan.testbed.host import Host
from caravan.testbed.nameserver import name_server
from caravan.testbed.remote_access import GATEWAY_ADDRESS, HOME_ADDRESS, PRIVATE_NETWORK
from caravan.threeways.measurement import Keys, tunnel_ends

pytestmark = pytest.mark.root

GATEWAY_NAME = "gateway.example"
SENTENCE = f"{PRIVATE_NETWORK} stays blocked; `caravan down road` unblocks that"
Ends = tuple[Connection, Connection]
BOTH = pytest.mark.parametrize("version", [1, 2], ids=["ikev1", "ikev2"])


@pytest.fixture
def ends(version: int, keys: Keys) -> Ends:
    return tunnel_ends(keys, "aes128gcm16", version=version)


@pytest.fixture
def network(output: Path) -> Iterator[RemoteAccess]:
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        yield network


def tables(host: Host) -> list[str]:
    return [
        host.run(argv).stdout
        for argv in (["ip", "rule"], ["ip", "route", "show", "table", "all"], ["ip", "-o", "link"])
    ]


def up(host: Host, file: Path, *options: str) -> str:
    """An `up --detach` that fails; returns its output."""
    done = order(host, "up", "-c", str(file), "--detach", *options, timeout_s=60)
    assert done.code != 0
    return done.stderr


def assert_blocked(host: Host, told: str, before: list[str]) -> None:
    assert SENTENCE in told
    assert host.unreachable_routes() == [PRIVATE_NETWORK]
    order(host, "down", "road").check()
    assert tables(host) == before


@BOTH
def test_giving_up_after_a_crash_keeps_the_block(network: RemoteAccess, ends: Ends) -> None:
    before = tables(network.ms)
    with Caravan(network.sg, ends[0]) as gateway:
        gateway.wait_ready()
        with Caravan(network.ms, ends[1]) as station:
            station.wait_ready()
            station.crash()
    told = up(network.ms, write_files(network.ms, ends[1]), "--timeout", "1")
    assert "not up after 1 s" in told
    assert_blocked(network.ms, told, before)


@pytest.mark.parametrize("trouble", ["silent gateway", "no name", "device taken", "port taken"])
def test_a_first_start_that_fails_blocks(trouble: str, network: RemoteAccess, ends: Ends) -> None:
    station = ends[1]
    if trouble == "no name":
        station = replace(station, remote_addrs="gateway.invalid")
    if trouble == "device taken":
        network.ms.run(["ip", "link", "add", "caravan0", "type", "bridge"])
    if trouble == "port taken":
        argv = ["python3", "-c", "import socket,time;s=socket.socket(socket.AF_INET,"]
        argv[-1] += "socket.SOCK_DGRAM);s.bind((str(),500));print(1,flush=True);time.sleep(99)"
        taker = network.ms.popen(argv)
        taker.wait_for(lambda: taker.stdout().startswith("1"), "port 500", 10)
    before = tables(network.ms)
    told = up(network.ms, write_files(network.ms, station), "--timeout", "1")
    reasons = {
        "silent gateway": "not up after 1 s",
        "no name": "cannot resolve gateway.invalid",
        "device taken": "cannot make the TUN device",
        "port taken": "cannot bind UDP ports",
    }
    assert reasons[trouble] in told
    assert_blocked(network.ms, told, before)


def test_on_failure_pass_blocks_nothing_before_it_is_up(network: RemoteAccess, ends: Ends) -> None:
    before = tables(network.ms)
    station = replace(ends[1], on_failure="pass")
    told = up(network.ms, write_files(network.ms, station), "--timeout", "1")
    assert "blocked" not in told
    assert tables(network.ms) == before


def test_the_block_is_there_while_the_name_of_the_gateway_is_not(
    network: RemoteAccess, ends: Ends
) -> None:
    named = replace(ends[1], remote_addrs="gateway.invalid")
    with Caravan(network.ms, named) as station:
        station.wait_for_event("cannot resolve gateway.invalid")
        assert network.ms.unreachable_routes() == [PRIVATE_NETWORK]


@BOTH
def test_a_tunnel_that_takes_all_finds_its_gateway_by_name(
    network: RemoteAccess, ends: Ends
) -> None:
    """The block refuses DNS queries of other programs; ours carry the mark and pass."""
    assert network.nat is not None
    network.ms.run(["sh", "-c", f"echo nameserver {HOME_ADDRESS} >/etc/resolv.conf"])
    on_gateway = replace(ends[0], local_ts="0.0.0.0/0")
    station = replace(ends[1], local_ts="", remote_ts="0.0.0.0/0", remote_addrs=GATEWAY_NAME)
    names = {GATEWAY_NAME: GATEWAY_ADDRESS}
    with Caravan(network.sg, on_gateway) as gateway:
        gateway.wait_ready()
        file = write_files(network.ms, station)
        told = up(network.ms, file, "--timeout", "1")
        assert "cannot resolve" in told and "0.0.0.0/0, ::/0 stay blocked" in told
        with name_server(network.nat.host, HOME_ADDRESS, names):
            order(network.ms, "up", "-c", str(file), "--detach").check()
        order(network.ms, "down", "road").check()
