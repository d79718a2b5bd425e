"""strongSwan's IKEv2 and wireguard-go before data and at a move, beside their exchanges' files."""

from __future__ import annotations

from pathlib import Path

import pytest
from newer_peers import needs

from caravan import files
from caravan.bench.tunnels import Measured, Message, measure
from caravan.document import plain
from caravan.testbed.peers import program

ECHO_BYTES = 84


def listed(name: str) -> list[Message]:
    entry = files.find("exchange", name)
    messages = plain(entry.file, entry.text)["message"]
    return [Message(one["from"] == "node", one["bytes"]) for one in messages]


@pytest.mark.root
def test_strongswan_sends_what_its_exchange_file_says(tmp_path: Path) -> None:
    (found,) = measure(tmp_path)
    assert list(found.messages) == listed("ikev2-psk-strongswan")
    assert found.rounds == 2
    assert found.data_s > 0
    assert found.gap_s > 0


@needs("wireguard-go")
@pytest.mark.root
def test_wireguard_go_sends_what_its_exchange_file_says(tmp_path: Path) -> None:
    _, found = measure(tmp_path, program("wireguard-go"))
    # The third message is empty only if no data waits: here the echo goes in its place.
    *handshake, empty = listed("wireguard")
    assert list(found.messages) == handshake
    assert (found.rounds, empty.is_from_station) == (1, True)
    # An echo is filled up to whole blocks; without data it would be the empty message.
    entry = files.find("exchange", "wireguard")
    data = plain(entry.file, entry.text)["data"]
    filled_bytes = -(-ECHO_BYTES // data["block"]) * data["block"]
    assert {one.bytes for one in found.data} == {filled_bytes + data["added"]}
    assert [one.is_from_station for one in found.data] == [True, False]
    assert data["added"] == empty.bytes
    assert found.data_s > 0
    assert found.gap_s > 0


def test_what_follows_from_the_formats_is_the_least_of_it() -> None:
    formats, real = listed("ikev2-psk"), listed("ikev2-psk-strongswan")
    assert [one.is_from_station for one in formats] == [one.is_from_station for one in real]
    assert all(one.bytes <= other.bytes for one, other in zip(formats, real, strict=True))
    # Together it is less than what strongSwan sends, and within a fifth of it.
    ours, theirs = (sum(one.bytes for one in all_of) for all_of in (formats, real))
    assert 0.8 * theirs < ours < theirs


def test_a_round_is_an_answer_that_was_waited_for() -> None:
    def rounds(*senders: str) -> int:
        messages = tuple(Message(one == "node", 100) for one in senders)
        return Measured("it", messages, 0.0, 0.0).rounds

    assert rounds() == rounds("node") == rounds("peer", "node") == 0
    assert rounds("node", "peer", "node") == 1
    assert rounds("node", "peer", "peer", "node", "peer") == 2
