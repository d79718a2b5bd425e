"""Session resumption (RFC 5723) with Libreswan 5.2.

As a client it goes on from its session at our gateway. Its AUTH covers its first message alone,
where RFC 5723 §4.3.3 refers to all that AUTH covers in IKEv2: our gateway takes both and answers in
the same way. As a gateway it gives us a ticket, and refuses our AUTH, so a full exchange follows.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from libreswan_pair import NEEDS_PLUTO, Pair, connected
from strongswan_pair import certificates, road_warrior, settle

from caravan.testbed.connection import Connection, PublicKey, SharedKey
from caravan.testbed.pki import CaravanAuthority

pytestmark = [pytest.mark.root, NEEDS_PLUTO]

PROOFS = pytest.mark.parametrize("has_certificates", [True, False], ids=["rsa", "psk"])
RESUMES = "session-resumption=yes"


@pytest.fixture(scope="module")
def keys(authority: CaravanAuthority) -> tuple[PublicKey, PublicKey]:
    """The gateway's and the station's certificates."""
    return certificates(authority)


def ends(
    keys: tuple[PublicKey, PublicKey], *, has_certificates: bool
) -> tuple[Connection, Connection]:
    """The configuration of one connection for the gateway and for the station."""
    shared = SharedKey("a group key of the fleet, long enough for pluto")
    both = Connection(
        shared,
        version=2,
        is_legacy=False,
        proposals="aes256gcm16-prfsha384-curve25519",
        esp_proposals="aes128gcm16",
        resumption=True,
    )
    return road_warrior(both, keys if has_certificates else (shared, shared))


def is_resumed(pair: Pair) -> bool:
    """Whether our only session goes on from a lost one."""
    status = pair.ours.try_status() or {"connections": [{"sessions": []}]}
    sessions = status["connections"][0]["sessions"]
    return [it["resumed"] for it in sessions] == [True]


@PROOFS
def test_pluto_goes_on_from_its_session_at_our_gateway(
    has_certificates: bool, keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    both = ends(keys, has_certificates=has_certificates)
    with connected(*both, output, RESUMES, is_initiator=False) as pair:
        assert not is_resumed(pair)
        pair.pluto.whack("--suspend", "--name", both[1].name)
        pair.pluto.initiate(check=False)
        settle(lambda: is_resumed(pair))
        pair.settle()
        assert "IKE_SESSION_RESUME" in pair.pluto.log()
        assert pair.ours.status()["drops"]["ticket-refused"] == 0


@PROOFS
def test_pluto_gives_us_a_ticket(
    has_certificates: bool, keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    gateway, station = ends(keys, has_certificates=has_certificates)
    with connected(gateway, station, output, RESUMES, is_initiator=True) as pair:
        assert "sending IKE_SESSION_RESUME ticket" in pair.pluto.log()
