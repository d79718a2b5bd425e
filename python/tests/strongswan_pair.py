"""Caravan and strongSwan at the ends of one connection, for the tests of both versions of IKE."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.caravan import Caravan
from caravan.testbed.connection import Connection, PublicKey, SharedKey
from caravan.testbed.host import Host
from caravan.testbed.remote_access import (
    GATEWAY_ADDRESS,
    INNER_POOL,
    PRIVATE_NETWORK,
    SERVER_ADDRESS,
)
from caravan.testbed.strongswan import StrongSwan
from caravan.testbed.traffic import download, serve_files
from caravan.threeways.measurement import Keys

SETTLE_S = 15.0
PLAIN = RemoteAccessConfig()
NAMES = ("sg.example", "ms.example")


def road_warrior(
    both: Connection,
    auths: tuple[PublicKey, PublicKey] | tuple[SharedKey, SharedKey],
    names: tuple[str, str] = NAMES,
) -> tuple[Connection, Connection]:
    """A station that gets an inner address: the connection at the gateway and at the station."""
    gateway = replace(
        both, auth=auths[0], local_id=names[0], local_ts=PRIVATE_NETWORK, pool=INNER_POOL
    )
    station = replace(
        both,
        auth=auths[1],
        local_id=names[1],
        remote_id=names[0],
        remote_addrs=GATEWAY_ADDRESS,
        remote_ts=PRIVATE_NETWORK,
        wants_address=True,
    )
    return gateway, station


def ends_of_ikev2(
    keys: Keys, proposals: str, esp_proposals: str = "aes128gcm16", *, has_certificates: bool = True
) -> tuple[Connection, Connection]:
    """The same with IKEv2, by certificates or a key that both ends share."""
    shared = SharedKey("a group key of the fleet, long enough for pluto")
    both = Connection(
        shared, version=2, is_legacy=False, proposals=proposals, esp_proposals=esp_proposals
    )
    return road_warrior(both, keys if has_certificates else (shared, shared))


@dataclass(frozen=True)
class Pair:
    """Both programs, running and connected, on a testbed network with a file server."""

    network: RemoteAccess
    ours: Caravan
    charon: StrongSwan

    def fetch(self) -> str:
        """The hash of the file that arrived through the tunnel."""
        return download(self.network.ms, f"http://{SERVER_ADDRESS}/file").sha256


@contextlib.contextmanager
def connected(
    gateway: Connection,
    station: Connection,
    output: Path,
    *,
    is_initiator: bool,
    strongswan: Callable[[Host, Connection], StrongSwan] = StrongSwan,
    config: RemoteAccessConfig = PLAIN,
) -> Iterator[Pair]:
    """Start both ends: ours is the station (`is_initiator`) or the gateway."""
    with RemoteAccess(config, output) as network:
        serve_files(network.server, output / "www", SERVER_ADDRESS)
        yield join(network, gateway, station, is_initiator=is_initiator, strongswan=strongswan)


def join(
    network: RemoteAccess,
    gateway: Connection,
    station: Connection,
    *,
    is_initiator: bool,
    strongswan: Callable[[Host, Connection], StrongSwan] = StrongSwan,
) -> Pair:
    """Start both ends on a network that is there; they end with it."""
    if is_initiator:
        charon = strongswan(network.sg, gateway)
        ours = Caravan(network.ms, station).wait_ready()
    else:
        ours = Caravan(network.sg, gateway).wait_ready()
        charon = strongswan(network.ms, station)
        charon.initiate()
        ours.wait_until(True)
    return Pair(network, ours, charon)


def settle(is_so: Callable[[], bool], within_s: float = SETTLE_S) -> None:
    """Wait until a condition is true."""
    deadline = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < deadline, f"not so in {within_s} s"
        time.sleep(0.1)
