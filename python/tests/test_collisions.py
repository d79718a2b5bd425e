"""Renewals of IKEv2 that cross: charon 5.9 and Caravan ask at the same time, in both roles.

A slow link makes each request meet one of the other end (RFC 7296 §2.8.1, §2.8.2, §2.25.1). A file
is fetched and echoes are sent meanwhile. The cases in which messages are lost or come late are
worlds of the engine's tests.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from strongswan_pair import Pair, connected, ends_of_ikev2, settle
from waiting import at_once

from caravan.testbed import RemoteAccessConfig
from caravan.testbed.caravan import order
from caravan.testbed.relay import LinkConfig
from caravan.testbed.roaming import Pinging
from caravan.testbed.traffic import EndlessDownload, endless_download, make_file
from caravan.threeways.measurement import Keys

pytestmark = pytest.mark.root

ROLES = pytest.mark.parametrize("is_initiator", [True, False], ids=["initiator", "responder"])
DELAY_MS = 150
"""One way: mostly longer than one command begins after the other, so neither end has the other's
request."""
CROSSINGS = 2
ROUNDS_MAX = 12
"""A busy machine may be late with one command, and then the requests do not cross."""
HOLE_ECHOES = 30
"""So many echoes are never lost in a row, at one every 10 ms. A new tunnel would take two round
trips of 300 ms, and lose some 60. On a busy machine a few do not fit into charon's socket."""
OTHER_SERVER = "10.10.0.3"
SUITE = "aes128gcm16-prfsha256-curve25519"


@ROLES
@pytest.mark.parametrize("what", ["child", "ike"])
def test_equal_renewals_that_cross_leave_one_tunnel_and_interrupt_nothing(
    what: str, is_initiator: bool, keys: Keys, output: Path
) -> None:
    with under_traffic(keys, output, is_initiator=is_initiator) as (pair, fetching):
        name = "CHILD_SA" if what == "child" else "IKE_SA"
        for _ in range(ROUNDS_MAX):
            cross(pair, what, what)
            fetching.wait_for_more()
            found = re.findall(rf"{name} rekey collision (won|lost)", pair.charon.log())
            if len(found) >= CROSSINGS:
                break
        assert len(found) >= CROSSINGS


@ROLES
@pytest.mark.parametrize(("ours", "theirs"), [("child", "ike"), ("ike", "child")])
def test_renewals_of_the_child_and_the_ike_sa_that_cross_are_refused_and_come_later(
    ours: str, theirs: str, is_initiator: bool, keys: Keys, output: Path
) -> None:
    with under_traffic(keys, output, is_initiator=is_initiator) as (pair, fetching):
        for _ in range(ROUNDS_MAX):
            before = renewed(pair, ours)
            cross(pair, ours, theirs)
            fetching.wait_for_more()
            if min(refusals(pair)) >= CROSSINGS:
                break
        assert min(refusals(pair)) >= CROSSINGS
        # Whoever tries again first: with the IKE SA after 10 s to 20 s.
        settle(lambda: renewed(pair, ours) != before, 30)
        settle(lambda: is_one(pair))


@contextlib.contextmanager
def under_traffic(
    keys: Keys, output: Path, *, is_initiator: bool
) -> Iterator[tuple[Pair, EndlessDownload]]:
    """A tunnel over a slow link, with a download and echoes that nothing may interrupt for long."""
    make_file(output / "www/file", 1)
    both = ends_of_ikev2(keys, SUITE, "aes128gcm16-curve25519")
    slow = RemoteAccessConfig(link=LinkConfig(rate="20mbit", delay=f"{DELAY_MS}ms"))
    with connected(*both, output, is_initiator=is_initiator, config=slow) as pair:
        pinging = Pinging(pair.network.ms)
        network = pair.network
        network.server.add_address("lan0", f"{OTHER_SERVER}/24")
        with endless_download(network.ms, network.server, OTHER_SERVER) as fetching:
            yield pair, fetching
        pinging.stop()
        numbers = sorted({number for _, number in pinging.answers()})
        assert max(later - earlier - 1 for earlier, later in pairwise(numbers)) < HOLE_ECHOES


def cross(pair: Pair, ours: str, theirs: str) -> None:
    """Both ends begin a renewal before they hear of each other's, and agree in the end."""
    before = pair.charon.log().count("CREATE_CHILD_SA request")
    words = ["rekey", "road", *(["--ike"] if ours == "ike" else [])]
    at_once(
        pair.charon.rekey_ike if theirs == "ike" else pair.charon.rekey_child,
        lambda: order(pair.ours.host, *words).check(),
    )
    settle(partial(has_seen, pair, before + 2))
    settle(lambda: is_one(pair))


def refusals(pair: Pair) -> tuple[int, int]:
    """How many renewals each end has refused as they crossed its own: charon, and we."""
    answer = r"CREATE_CHILD_SA response \d+ \[ N\(TEMP_FAIL\) \]"
    log = pair.charon.log()
    return len(re.findall(rf"generating {answer}", log)), len(re.findall(rf"parsed {answer}", log))


def has_seen(pair: Pair, requests: int) -> bool:
    """Whether so many requests are in charon's log, of both ends."""
    return pair.charon.log().count("CREATE_CHILD_SA request") >= requests


def is_one(pair: Pair) -> bool:
    """Whether both ends have one IKE SA with one child, and it is the same."""
    sas, own = pair.charon.sas(), sessions(pair)
    if len(sas) != 1 or len(own) != 1 or len(sas[0].children) != 1 or len(own[0]["children"]) != 1:
        return False
    (theirs,), (child,) = sas[0].children, own[0]["children"]
    pairs = ((theirs.spi_in, child["spi_out"]), (theirs.spi_out, child["spi_in"]))
    return all(int(one, 16) == int(other, 16) for one, other in pairs)


def sessions(pair: Pair) -> list[Mapping[str, Any]]:
    """Our IKE SAs."""
    found: list[Mapping[str, Any]] = pair.ours.status()["connections"][0]["sessions"]
    return found


def renewed(pair: Pair, what: str) -> object:
    """What a renewal changes."""
    if what == "ike":
        return [sa.unique_id for sa in pair.charon.sas()]
    return [child.spi_in for child in pair.charon.children()]
