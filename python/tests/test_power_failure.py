"""The DNS configuration of a host whose power failed while its tunnel was up."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.caravan import Caravan, environment, order, write_files
from caravan.testbed.connection import Connection
from caravan.testbed.host import Host
from caravan.testbed.nameserver import name_server
from caravan.testbed.remote_access import GATEWAY_ADDRESS, HOME_ADDRESS
from caravan.threeways.measurement import Keys, tunnel_ends

pytestmark = pytest.mark.root

RESOLVER = "10.10.0.53"
GATEWAY_NAME = "gateway.example"
NAMES = {GATEWAY_NAME: GATEWAY_ADDRESS}
Ends = tuple[Connection, Connection]


@pytest.fixture(scope="module")
def ends(keys: Keys) -> Ends:
    return tunnel_ends(keys, "aes128gcm16")


@pytest.fixture
def network(output: Path) -> Iterator[RemoteAccess]:
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        yield network


def resolvers(host: Host) -> str:
    return host.run(["cat", "/etc/resolv.conf"]).stdout


def set_resolvers(host: Host, text: str) -> None:
    host.run(["sh", "-c", f"printf '{text}' >/etc/resolv.conf"])


def fail(host: Host, connection: Connection) -> None:
    """The power fails while the tunnel is up: a reboot empties the runtime directory, but not the
    state directory and `/etc`."""
    with Caravan(host, connection) as station:
        station.wait_ready()
        station.crash()
    assert RESOLVER in resolvers(host)
    for path in Path(environment(host)["CARAVAN_RUNTIME_DIR"]).iterdir():
        if path.name == "state":
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def test_resolv_conf_returns_after_a_power_failure(network: RemoteAccess, ends: Ends) -> None:
    text = "nameserver 192.0.2.53\n"
    set_resolvers(network.ms, text)
    with Caravan(network.sg, ends[0]) as gateway:
        gateway.wait_ready()
        fail(network.ms, ends[1])
        for attempt in range(2):
            with Caravan(network.ms, ends[1]) as station:
                station.wait_ready()
                assert f"nameserver {RESOLVER}\n" in resolvers(network.ms), attempt
            assert resolvers(network.ms) == text


def test_after_a_power_failure_a_gateway_is_found_by_its_name(
    network: RemoteAccess, ends: Ends
) -> None:
    text = f"nameserver {HOME_ADDRESS}\n"
    set_resolvers(network.ms, text)
    assert network.nat is not None
    named = replace(ends[1], remote_addrs=GATEWAY_NAME)
    with (
        Caravan(network.sg, ends[0]) as gateway,
        name_server(network.nat.host, HOME_ADDRESS, NAMES),
    ):
        gateway.wait_ready()
        fail(network.ms, named)
        file = write_files(network.ms, named)
        order(network.ms, "up", "-c", str(file), "--detach").check()
        assert f"nameserver {RESOLVER}\n" in resolvers(network.ms)
        order(network.ms, "down", "road").check()
        assert resolvers(network.ms) == text


def test_down_gives_back_what_a_reboot_has_forgotten(network: RemoteAccess, ends: Ends) -> None:
    text = "nameserver 192.0.2.53\n"
    set_resolvers(network.ms, text)
    with Caravan(network.sg, ends[0]) as gateway:
        gateway.wait_ready()
        fail(network.ms, ends[1])
    unknown = order(network.ms, "down", "other")
    assert unknown.code == 1 and RESOLVER in resolvers(network.ms)
    assert "as it was before" in order(network.ms, "down", "road").check().stdout
    assert resolvers(network.ms) == text
    assert order(network.ms, "down", "road").code == 1
