"""Session resumption (RFC 5723) with Libreswan 5.2.

As a client it goes on from its session at our gateway. Its AUTH covers its first message alone,
where RFC 5723 §4.3.3 refers to all that AUTH covers in IKEv2: our gateway takes both and answers in
the same way. As a gateway it gives us a ticket, and refuses our AUTH, so a full exchange follows.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from libreswan_pair import NEEDS_PLUTO, Pair, connected
from strongswan_pair import NAMES, road_warrior, settle

from caravan.testbed.connection import Connection, SharedKey
from caravan.testbed.remote_access import GATEWAY_ADDRESS, PRIVATE_NETWORK
from caravan.threeways.measurement import Keys

pytestmark = [pytest.mark.root, NEEDS_PLUTO]

PROOFS = pytest.mark.parametrize("has_certificates", [True, False], ids=["rsa", "psk"])
RESUMES = "session-resumption=yes"
SHARED = SharedKey("a group key of the fleet, long enough for pluto")
SITE = "10.20.0.0/24"


def connection() -> Connection:
    """What both ends have."""
    return Connection(
        SHARED,
        version=2,
        is_legacy=False,
        proposals="aes256gcm16-prfsha384-curve25519",
        esp_proposals="aes128gcm16",
        resumption=True,
    )


def sessions(pair: Pair) -> list[Any]:
    """Our sessions."""
    status = pair.ours.try_status() or {"connections": [{"sessions": []}]}
    found: list[Any] = status["connections"][0]["sessions"]
    return found


def is_resumed(pair: Pair) -> bool:
    """Whether our only session goes on from a lost one."""
    return [it["resumed"] for it in sessions(pair)] == [True]


def has_resumed(pair: Pair, times: int) -> bool:
    """Whether pluto has gone on from a session this often."""
    return pair.pluto.log().count("authby=session-resume") == times


@PROOFS
def test_pluto_goes_on_from_its_session_at_our_gateway(
    has_certificates: bool, keys: Keys, output: Path
) -> None:
    # It keeps a ticket with a connection that has no instances, so it gets no inner address.
    own, theirs = keys if has_certificates else (SHARED, SHARED)
    gateway = replace(
        connection(), auth=own, local_id=NAMES[0], local_ts=PRIVATE_NETWORK, remote_ts=SITE
    )
    station = replace(
        connection(),
        auth=theirs,
        local_id=NAMES[1],
        remote_id=NAMES[0],
        remote_addrs=GATEWAY_ADDRESS,
        local_ts=SITE,
        remote_ts=PRIVATE_NETWORK,
    )
    with connected(gateway, station, output, RESUMES, is_initiator=False) as pair:
        assert not is_resumed(pair)
        # As if the network were away: it says nothing.
        pair.pluto.impair("send_no_delete")
        for number in (1, 2):
            pair.pluto.whack("--suspend", "--name", station.name)
            pair.pluto.initiate(check=False)
            settle(partial(has_resumed, pair, number))
            settle(lambda: is_resumed(pair))
            pair.settle()
        assert pair.ours.status()["drops"]["ticket-refused"] == 0
        # A session that ends in order ends its ticket (RFC 5723 §6.2), which it tries nevertheless.
        pair.pluto.impair("no-send_no_delete")
        pair.pluto.whack("--suspend", "--name", station.name)
        pair.pluto.initiate(check=False)
        settle(lambda: [it["resumed"] for it in sessions(pair)] == [False])
        assert pair.ours.status()["drops"]["ticket-refused"] >= 1


SILENCE = """table ip silence {
    chain input {
        type filter hook input priority filter;
        udp dport { 500, 4500 } drop
    }
}
"""


@PROOFS
def test_pluto_gives_us_a_ticket_and_a_full_exchange_follows_where_it_refuses_our_auth(
    has_certificates: bool, keys: Keys, output: Path
) -> None:
    gateway, station = road_warrior(connection(), keys if has_certificates else (SHARED, SHARED))
    station = replace(station, dpd_s=1, dpd_timeout_s=2)
    with connected(gateway, station, output, RESUMES, is_initiator=True) as pair:
        assert "sending IKE_SESSION_RESUME ticket" in pair.pluto.log()
        before = len(pair.ours.messages())
        # The network is away until we have given the session up.
        pair.network.sg.load_nft(SILENCE, "silence")
        pair.ours.wait_until(False, 30)
        pair.network.sg.run(["nft", "delete", "table", "ip", "silence"])
        pair.ours.wait_until(True, 60)
        # Pluto keeps the child of the lost session besides.
        (child,) = pair.ours.children()
        own = child["spi_out"], child["spi_in"]
        settle(lambda: own in [(it.spi_in, it.spi_out) for it in pair.pluto.children()])
        said = [(it.exchange, it.direction) for it in pair.ours.messages()[before:]]
        # We come with the ticket, it takes that and refuses our AUTH; then all is anew.
        ticket = said.index(("resume", "received"))
        assert ("resume", "sent") in said[:ticket]
        refused = said.index(("auth", "received"), ticket)
        anew = said.index(("init", "sent"), refused)
        assert ("auth", "received") in said[anew:]
        (session,) = sessions(pair)
        assert not session["resumed"]
        assert "authentication failed" in pair.pluto.log()
