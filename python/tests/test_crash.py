"""A gateway that is killed and starts again: its client is back by quick crash detection (RFC 6290)
and by its ticket (RFC 5723), without a timeout.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from strongswan_pair import certificates, road_warrior, settle

from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.caravan import Caravan, environment
from caravan.testbed.connection import Connection, SharedKey
from caravan.testbed.pki import CaravanAuthority
from caravan.testbed.remote_access import SERVER_ADDRESS
from caravan.testbed.traffic import ping

pytestmark = pytest.mark.root

BACK_S = 2.0
"""A few round trips on a busy machine; a timeout would take 10 s and more."""


@pytest.fixture(scope="module")
def ends(authority: CaravanAuthority) -> tuple[Connection, Connection]:
    """The gateway's connection and the client's."""
    both = Connection(
        SharedKey("unused"), version=2, is_legacy=False, crash_detection=True, resumption=True
    )
    return road_warrior(both, certificates(authority))


def is_resumed(station: Caravan) -> bool:
    """Whether the client's session goes on from a lost one."""
    sessions = station.status()["connections"][0]["sessions"]
    return [bool(it["resumed"]) for it in sessions] == [True]


def test_a_client_of_a_killed_gateway_is_back_at_its_next_packet(
    ends: tuple[Connection, Connection], output: Path
) -> None:
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        with Caravan(network.sg, ends[0]) as gateway:
            gateway.wait_ready()
            with Caravan(network.ms, ends[1]) as station:
                station.wait_ready()
                ping(network.ms, SERVER_ADDRESS, 1)
                assert not is_resumed(station)
                gateway.crash()
                with Caravan(network.sg, ends[0]) as again:
                    again.wait_ready()
                    begun = time.monotonic()
                    settle(lambda: ping_once(network))
                    took_s = time.monotonic() - begun
                    assert took_s < BACK_S, took_s
                    assert is_resumed(station)
                    log = station.process.stderr()
                    assert "as its token shows" in log
                    (session,) = again.status()["connections"][0]["sessions"]
                    assert session["resumed"]


def ping_once(network: RemoteAccess) -> bool:
    """Whether one echo comes back."""
    argv = ["ping", "-c", "1", "-W", "1", "-i", "0.2", SERVER_ADDRESS]
    return network.ms.run(argv, 10, check=False).code == 0


def test_a_gateway_that_has_lost_its_secrets_is_found_by_a_timeout(
    ends: tuple[Connection, Connection], output: Path
) -> None:
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        with Caravan(network.sg, ends[0]) as gateway:
            gateway.wait_ready()
            with Caravan(network.ms, ends[1]) as station:
                station.wait_ready()
                gateway.crash()
                secrets = Path(environment(network.sg)["CARAVAN_STATE_DIR"]) / "ike-secrets"
                assert secrets.stat().st_mode & 0o777 == 0o600
                secrets.unlink()
                with Caravan(network.sg, ends[0]) as again:
                    again.wait_ready()
                    settle(lambda: ping_once(network))
                    assert not is_resumed(station)
