"""Libreswan's pluto as a hostile peer: `ipsec whack --impair` makes it break IKEv2.

The table says what comes of each impairment. In no case may our end crash, hang, or have a child
that pluto does not have. Once pluto is well again, both ends agree on a child. Left out: what
touches only IKEv1, TCP, or pluto's own configuration; and what ends pluto itself: an empty
attribute of the key's length in a proposal of its own.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from libreswan_pair import NEEDS_PLUTO, Pair, both_running
from strongswan_pair import road_warrior, settle

from caravan.testbed.connection import Connection, SharedKey

pytestmark = [pytest.mark.root, NEEDS_PLUTO]

TUNNEL = ""
"""The result of an impairment that changes nothing."""
QUIET_S = 1.0
RECOVERY_S = 60.0


@dataclass(frozen=True)
class Impairment:
    """What pluto does, in which role, and what comes of it.

    `result`: `TUNNEL`, or a reason for drops that our end counts, or words of our log.
    """

    what: str
    is_pluto_initiator: bool
    result: str

    def __str__(self) -> str:
        role = "initiator" if self.is_pluto_initiator else "responder"
        return f"{self.what}-{role}"


def both(what: str, as_initiator: str, as_responder: str) -> list[Impairment]:
    """The same in both roles."""
    return [Impairment(what, True, as_initiator), Impairment(what, False, as_responder)]


def initiator(what: str, result: str) -> list[Impairment]:
    """Of an initiator alone."""
    return [Impairment(what, True, result)]


def responder(what: str, result: str) -> list[Impairment]:
    """Of a responder alone."""
    return [Impairment(what, False, result)]


ANSWERED = "retransmitted-message"
"""It does not take our last answer: our end has a child until liveness ends it."""
NO_PROPOSAL = "no-proposal-chosen"
NOT_OFFERED = "the peer chose a proposal that we did not offer"
NO_AUTH = "and not on UDP 4500"
TABLE = [
    # Headers.
    *both("major_version_bump", "unsupported-version", "unsupported-version"),
    *both("minor_version_bump", TUNNEL, TUNNEL),
    *both("send_bogus_isakmp_flag", TUNNEL, TUNNEL),
    *both("send_bogus_payload_flag", TUNNEL, TUNNEL),
    *both("ike_initiator_spi:0", "unknown-cookies", TUNNEL),
    *both("ike_responder_spi:0", TUNNEL, "malformed-message"),
    *both("bad_ike_auth_xchg", TUNNEL, ANSWERED),
    # Proposals.
    *both("ike_key_length_attribute:omit", NO_PROPOSAL, NOT_OFFERED),
    *both("ike_key_length_attribute:0", NO_PROPOSAL, NOT_OFFERED),
    *both("child_key_length_attribute:omit", NO_PROPOSAL, NOT_OFFERED),
    *both("child_key_length_attribute:129", NO_PROPOSAL, NOT_OFFERED),
    *both("v2_proposal_integ:omit", NO_PROPOSAL, NOT_OFFERED),
    *both("v2_proposal_dh:omit", NO_PROPOSAL, NOT_OFFERED),
    # Transforms of a type that nobody knows, and of a known one with an unknown number.
    *both("ikev2_add_ike_transform:458753", NO_PROPOSAL, NOT_OFFERED),
    *both("ikev2_add_ike_transform:131071", TUNNEL, NOT_OFFERED),
    *both("ikev2_add_child_transform:458753", NO_PROPOSAL, NOT_OFFERED),
    *both("ikev2_add_child_transform:131071", TUNNEL, NOT_OFFERED),
    *both("v2_proposal_protoid:2", NO_PROPOSAL, NOT_OFFERED),
    *both("send_nonzero_reserved", TUNNEL, TUNNEL),
    # Public values.
    *both("ke_payload:omit", "malformed-message", "malformed-message"),
    *both("ke_payload:empty", "bad-public-value", "bad-public-value"),
    *both("ke_payload:0", "bad-public-value", "bad-public-value"),
    *both("ke_payload:255", "undecryptable-message", NO_AUTH),
    *both("ke_payload:duplicate", TUNNEL, TUNNEL),
    # Messages under keys.
    # What it gets under keys, it changes before it reads it.
    *both("corrupt_encrypted", ANSWERED, NO_AUTH),
    *both("replay_encrypted", TUNNEL, TUNNEL),
    *both("jacob_two_two", TUNNEL, TUNNEL),
    # Payloads that nobody knows.
    *both("add_unknown_v2_payload_to:IKE_SA_INIT", TUNNEL, TUNNEL),
    *both("add_unknown_v2_payload_to:IKE_AUTH", TUNNEL, TUNNEL),
    *both("add_unknown_v2_payload_to_sk:IKE_AUTH", TUNNEL, TUNNEL),
    # NO_PROPOSAL_CHOSEN beside a proposal that was chosen.
    *both("add_v2_notification:14", TUNNEL, TUNNEL),
    *both("add_v2_notification:16441", TUNNEL, TUNNEL),
    *both("add_v2_notification:65535", TUNNEL, TUNNEL),
    *both("omit_v2_notification:NAT_DETECTION_SOURCE_IP", TUNNEL, TUNNEL),
    *both("omit_v2_notification:MOBIKE_SUPPORTED", TUNNEL, TUNNEL),
    *responder("send_bogus_dcookie", TUNNEL),
    # Identities and their proof.
    *both("send_no_ikev2_auth", "retransmitted-message", NO_AUTH),
    *initiator("send_no_idr", TUNNEL),
    *both("send_nonzero_reserved_id", TUNNEL, TUNNEL),
    *both("force_v2_auth_method:NULL", "authentication-failed", "authentication-failed"),
    # Selectors and children.
    *both("number_of_TSi_selectors:0", "malformed-message", "malformed-message"),
    *both("number_of_TSi_selectors:2", "malformed-message", "malformed-message"),
    *both("number_of_TSr_selectors:255", "malformed-message", "malformed-message"),
    # As a responder it answers nothing.
    *both("omit_v2_ike_auth_child", "IKEv2 established", NO_AUTH),
    *initiator("install_ipsec_sa_inbound_state", "deleted by the peer"),
    *responder("install_ipsec_sa_inbound_state", "the gateway lends no inner address"),
    # Loss.
    *both("drop_outbound:1", TUNNEL, TUNNEL),
    *both("drop_inbound:2", TUNNEL, TUNNEL),
    *both("drip_outbound:1", TUNNEL, TUNNEL),
    *both("duplicate_outbound", TUNNEL, TUNNEL),
    *both("duplicate_inbound", TUNNEL, TUNNEL),
    *both("replay_outbound", TUNNEL, TUNNEL),
    *both("replay_inbound", TUNNEL, TUNNEL),
]


def ends() -> tuple[Connection, Connection]:
    """The configuration of one connection for the gateway and for the station."""
    shared = SharedKey("a group key of the fleet, long enough for pluto")
    both = Connection(
        shared,
        version=2,
        is_legacy=False,
        proposals="aes256-sha256-curve25519",
        esp_proposals="aes128-sha256",
    )
    return road_warrior(both, (shared, shared))


def has_come_to(pair: Pair, result: str) -> bool:
    """Whether our end has counted or logged this."""
    status = pair.ours.try_status()
    counted = 0 if status is None else status["drops"].get(result, 0)
    return counted > 0 or result in pair.ours.process.stderr()


def children(pair: Pair) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Our children and pluto's, each as we name its SPIs."""
    status = pair.ours.try_status() or {"connections": []}
    ours = {(it["spi_in"], it["spi_out"]) for it in pair.ours.children(status)}
    return ours, {(it.spi_out, it.spi_in) for it in pair.pluto.children()}


def recover(pair: Pair, impairment: Impairment) -> None:
    """Make pluto a good peer that begins anew, and wait for a child that both have."""
    pair.pluto.whack("--no-impair", impairment.what.partition(":")[0])
    pair.pluto.ipsec("delete", "road")
    pair.pluto.ipsec("add", "road")
    if impairment.is_pluto_initiator:
        pair.pluto.whack("--initiate", "--name", "road", "--asynchronous")
    deadline = time.monotonic() + RECOVERY_S
    while True:
        ours, theirs = children(pair)
        if len(ours) == 1 and ours <= theirs:
            return
        assert time.monotonic() < deadline, f"{ours} and {theirs} after {RECOVERY_S} s"
        time.sleep(0.2)


@pytest.mark.parametrize("impairment", TABLE, ids=str)
def test_a_peer_that_breaks_the_protocol(impairment: Impairment, output: Path) -> None:
    is_initiator = not impairment.is_pluto_initiator
    with both_running(
        *ends(),
        output,
        "retransmit-interval=500",
        is_initiator=is_initiator,
        impairments=(impairment.what,),
    ) as pair:
        if impairment.is_pluto_initiator:
            pair.pluto.whack("--initiate", "--name", "road", "--asynchronous")
        if impairment.result == TUNNEL:
            settle(pair.agrees)
        else:
            settle(lambda: has_come_to(pair, impairment.result))
            time.sleep(QUIET_S)
            ours, theirs = children(pair)
            assert not ours & theirs
            assert ours <= theirs or impairment.result == ANSWERED
        assert "panicked" not in pair.ours.process.stderr()
        assert pair.ours.process.is_running()
        if impairment.result not in (TUNNEL, ANSWERED) and pair.pluto.process.is_running():
            recover(pair, impairment)
