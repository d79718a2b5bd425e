"""A gateway that is killed and starts again: its client is back by quick crash detection (RFC 6290)
and by its ticket (RFC 5723), without a timeout.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from strongswan_pair import road_warrior, settle

from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.caravan import Caravan, environment
from caravan.testbed.connection import Connection, SharedKey
from caravan.testbed.remote_access import SERVER_ADDRESS
from caravan.testbed.traffic import ping
from caravan.threeways.measurement import Keys

pytestmark = pytest.mark.root

TOKEN = "as its token shows"
"""What the client says where quick crash detection has told it."""

TIMEOUT_S = 60.0
"""What the client's probes take at most: it looks for the gateway at its other addresses too."""


@pytest.fixture(scope="module")
def ends(keys: Keys) -> tuple[Connection, Connection]:
    """The gateway's connection and the client's."""
    both = Connection(
        SharedKey("unused"), version=2, is_legacy=False, crash_detection=True, resumption=True
    )
    return road_warrior(both, keys)


def is_resumed(end: Caravan) -> bool:
    """Whether its only session goes on from a lost one."""
    sessions = end.status()["connections"][0]["sessions"]
    return [bool(it["resumed"]) for it in sessions] == [True]


@contextlib.contextmanager
def killed(
    ends: tuple[Connection, Connection], output: Path, *, keeps_secrets: bool
) -> Iterator[tuple[RemoteAccess, Caravan, Caravan]]:
    """A network whose gateway was killed and runs again, that gateway, and its client."""
    with contextlib.ExitStack() as stack:
        network = stack.enter_context(RemoteAccess(RemoteAccessConfig(), output))
        gateway = stack.enter_context(Caravan(network.sg, ends[0])).wait_ready()
        station = stack.enter_context(Caravan(network.ms, ends[1])).wait_ready()
        ping(network.ms, SERVER_ADDRESS, 1)
        assert not is_resumed(station)
        gateway.crash()
        state = Path(environment(network.sg)["CARAVAN_STATE_DIR"])
        (secrets,) = state.glob("*/ike-secrets")
        assert secrets.stat().st_mode & 0o777 == 0o600
        if not keeps_secrets:
            secrets.unlink()
        again = stack.enter_context(Caravan(network.sg, ends[0])).wait_ready()
        yield network, again, station


def test_a_client_of_a_killed_gateway_is_back_at_its_next_packet(
    ends: tuple[Connection, Connection], output: Path
) -> None:
    with killed(ends, output, keeps_secrets=True) as (network, gateway, station):
        settle(lambda: echoes(network))
        settle(lambda: is_resumed(station))
        assert TOKEN in station.process.stderr()
        assert is_resumed(gateway)


def test_a_gateway_that_has_lost_its_secrets_is_found_by_a_timeout(
    ends: tuple[Connection, Connection], output: Path
) -> None:
    with killed(ends, output, keeps_secrets=False) as (network, gateway, station):
        settle(lambda: echoes(network), TIMEOUT_S)
        assert TOKEN not in station.process.stderr()
        assert not is_resumed(station)
        assert not is_resumed(gateway)


def echoes(network: RemoteAccess) -> bool:
    """Whether one echo comes back."""
    argv = ["ping", "-c", "1", "-W", "1", SERVER_ADDRESS]
    return network.ms.run(argv, 10, check=False).code == 0
