"""The exchange files of today: every message has a source, and the sizes add up to what was
measured."""

from __future__ import annotations

import json
import re

import pytest

from caravan import _lab
from caravan.document import plain
from caravan.files import find, names
from caravan.lab.core import kernel, request_with
from caravan.lab.exchanges import MACHINES, text

ETHERNET = 14
DOT11 = 24 + 8
"""Header of a data frame of 802.11, and LLC: they take the place of Ethernet's header."""


def messages(name: str) -> list[dict[str, object]]:
    entry = find("exchange", name)
    found: list[dict[str, object]] = plain(entry.file, entry.text).get("message", [])
    return found


def _delay_s(link: str) -> float:
    """The delay of a link's text, in s."""
    found = re.search(r'^delay = "([\d.]+) ms"', link, re.M)
    assert found is not None
    return float(found[1]) / 1e3


def taken(name: str, **more: object) -> dict[str, float]:
    entry, link = find("exchange", name), find("link", "lte")
    request = {
        "file": entry.file,
        "text": entry.text,
        "link": {"name": "lte", "file": link.file, "text": link.text},
        "detection_s": 0.0,
        "data_bytes": 100,
        **more,
    }
    found: dict[str, float] = json.loads(_lab.exchange(json.dumps(request)))
    return found


@pytest.mark.parametrize("name", names("exchange"))
def test_every_message_and_every_overhead_has_a_source(name: str) -> None:
    entry = find("exchange", name)
    document = plain(entry.file, entry.text)
    assert document["name"] == name
    for message in messages(name):
        assert message["source"], message
    assert "data" not in document or document["data"]["source"]
    assert taken(name)["messages"] == len(messages(name))


# Frames and bytes of Ethernet, counted with hostapd 2.10, wpa_supplicant 2.10, FreeRADIUS 3.2.1;
# test_dot1x counts them again.
@pytest.mark.parametrize(
    ("name", "frames", "octets", "pairs"),
    [
        ("eap-md5", 5, 151, 2),
        ("eap-tls", 15, 4770, 7),
        ("eap-peap", 21, 3323, 10),
        ("eap-ttls-pap", 13, 2792, 6),
        ("eap-tls-p256", 11, 2723, 5),
        ("eap-tls-rsa1024", 11, 3372, 5),
        ("eap-tls-resumed", 7, 579, 3),
        ("eap-peap-resumed", 9, 707, 4),
        ("eap-ttls-resumed", 7, 579, 3),
    ],
)
def test_802_1x_has_the_bytes_that_were_measured(
    name: str, frames: int, octets: int, pairs: int
) -> None:
    found = messages(name)
    assert len(found) == frames
    sizes = [int(str(message["bytes"])) for message in found]
    assert sum(size - DOT11 + ETHERNET for size in sizes) == octets
    assert found[0]["from"] == "peer"
    # A pair is a request and its response; the node also waits for the success.
    assert taken(name)["rounds"] == pairs + 1
    # The least is EAPOL with the header of EAP, in the success.
    assert min(sizes) == DOT11 + 8


@pytest.mark.parametrize(
    ("name", "packets", "octets"),
    [
        ("eap-md5", 4, 643),
        ("eap-tls", 14, 6769),
        ("eap-peap", 20, 6127),
        ("eap-ttls-pap", 12, 4504),
        ("eap-tls-p256", 10, 4164),
        ("eap-tls-resumed", 6, 1460),
        ("eap-peap-resumed", 8, 1861),
        ("eap-ttls-resumed", 6, 1460),
    ],
)
def test_radius_has_the_bytes_that_were_measured(name: str, packets: int, octets: int) -> None:
    found = [one for one in messages(name) if "relayed" in one]
    assert len(found) == packets
    assert sum(int(str(one["relayed"])) + ETHERNET for one in found) == octets
    # Each question of the access point has an answer, and waits for it.
    assert [one["from"] for one in found] == ["node", "peer"] * (packets // 2)
    lte = find("link", "lte")
    behind = [{"name": "lte", "file": lte.file, "text": lte.text}]
    delay_s = _delay_s(lte.text)
    more_s = taken(name, behind=behind)["send_s"] - taken(name)["send_s"]
    assert more_s == pytest.approx(packets * delay_s, rel=0.1)


RADIUS = 20 + 8 + 20
"""IP, UDP, and the header of RADIUS (RFC 2865 §3)."""
AUTHENTICATOR = 18
"""Message-Authenticator, which every packet with EAP has (RFC 3579 §3.2)."""
MPPE_KEY = 6 + 2 + 2 + 48
"""A key of 32 octets: attribute, vendor's attribute, salt, length and key in blocks of 16
(RFC 2548 §2.4.2)."""
NAME = 2 + 3


@pytest.mark.parametrize("name", [name for name in names("exchange") if name.startswith("eap-")])
def test_every_packet_of_radius_has_room_for_what_must_be_in_it(name: str) -> None:
    """EAP as it goes on the air, in attributes of at most 253 octets, and what RADIUS needs."""
    found = [one for one in messages(name) if "relayed" in one]
    besides = []
    for one in found:
        eap = int(str(one["bytes"])) - DOT11 - 4
        besides.append(int(str(one["relayed"])) - RADIUS - AUTHENTICATOR - eap - 2 * -(-eap // 253))
    is_keyed = name != "eap-md5"
    # The access point says the same of the station in each request, with a State from then on.
    station, *later = besides[::2]
    assert station > NAME
    state = later[0] - station
    assert 2 < state <= 255 and set(later) == {station + state}
    # A challenge has that State, the acceptance has the keys and the name.
    *challenges, acceptance = besides[1::2]
    assert set(challenges) == {state}
    assert acceptance == (2 * MPPE_KEY if is_keyed else 0) + NAME


@pytest.mark.parametrize(
    ("name", "rounds", "added"),
    [
        ("wep", 0, 8),
        ("tkip", 0, 20),
        ("ccmp", 0, 16),
        ("gcmp", 0, 24),
        ("wifi-open", 2, 0),
        ("wifi-sae", 3, 0),
        ("wifi-owe", 2, 0),
        ("wifi-ft", 2, 0),
        ("wifi-four-way", 2, 0),
        ("wifi-four-way-tkip", 2, 0),
        ("wifi-four-way-pmkid", 2, 0),
        ("wifi-four-way-gcmp", 2, 0),
        ("ikev2-psk", 2, 0),
        ("ikev2-rsa2048", 2, 0),
        ("ikev2-psk-cookie", 3, 0),
        ("ikev2-psk-x25519-mlkem768", 3, 0),
        ("ikev2-eap-mschapv2", 6, 0),
        ("ikev2-eap-tls", 9, 0),
        ("ikev2-psk-resumed", 2, 0),
        ("ikev2-rsa2048-resumed", 2, 0),
        ("ikev2-mobike", 1, 0),
        # 100 octets, 20 of IP in IP and the trailer's 2 are 124 in whole words.
        ("mvpn-mobike", 1, 24 + 20 + 8 + 8 + 8 + 16),
        ("mvpn-agent", 1, 24 + 20 + 8 + 8 + 16 + 20),
        ("mvpn-foreign-agent", 1, 24 + 20 + 8 + 8 + 16),
        ("ikev1-main-psk", 5, 0),
        ("tls12", 3, 29),
        ("tls13", 2, 22),
        ("quic", 1, 28),
        ("quic-migration", 1, 28),
    ],
)
def test_rounds_and_overheads_are_those_of_the_formats(name: str, rounds: int, added: int) -> None:
    found = taken(name)
    assert (found["rounds"], found["data_bytes"] - 100) == (rounds, added)
    assert found["gap_s"] is not None


def test_a_new_address_costs_mobike_and_quic_one_packet() -> None:
    for name in ("ikev2-mobike", "quic-migration", "wireguard-roaming", "mobile-ip", "mvpn-agent"):
        # There and back, 10 ms each; nothing else takes long on this link, not even MOBIKE's update
        # of a thousand bytes.
        assert taken(name)["gap_s"] == pytest.approx(0.020, rel=0.03)


@pytest.mark.parametrize(
    ("name", "pmkid", "hidden"),
    [
        ("wifi-four-way", 0, 8 + 48),  # RSN 22 and a group key of 24, padded and wrapped
        ("wifi-four-way-pmf", 0, 8 + 80),  # and a key for management frames of 30
        ("wifi-four-way-pmkid", 22, 8 + 80),
        ("wifi-four-way-gcmp", 0, 8 + 96),  # a group key of 40
        ("wifi-four-way-tkip", 0, 22 + 40),  # RC4 pads and wraps nothing
    ],
)
def test_a_handshake_has_the_sizes_of_its_cipher(name: str, pmkid: int, hidden: int) -> None:
    empty = 24 + 8 + 4 + 95
    sizes = [message["bytes"] for message in messages(name)]
    assert sizes == [empty + pmkid, empty + 22, empty + hidden, empty]


def test_sae_sends_a_scalar_and_an_element_of_group_19() -> None:
    sizes = [message["bytes"] for message in messages("wifi-sae")]
    # header 24, fields 6; group 2, scalar 32, element 64; then send-confirm 2, confirm 32
    assert sizes[:4] == [128, 128, 64, 64]


CHAIN = """name = "chain"
title = "A station at a gateway"
seed = 1
policy = "{policy}"
accounting = "rfc"
calendar = 2026-01-01T00:00:00Z
run = {{ time = "600 s" }}
traffic = {{ model = "tcp", bytes = "2 KB", direction = "up" }}
node = [{{ name = "ms", role = "station" }}, {{ name = "sg", role = "gateway" }}]
link = [{{ from = "ms", to = "sg", link = "{link}" }}]
"""


@pytest.mark.parametrize(("policy", "messages"), [("aes128gcm16", 4), ("aes256gcm16-mlkem768", 6)])
@pytest.mark.parametrize("link", names("link"))
def test_ikev2_takes_as_long_over_every_link_as_its_formula_says(
    link: str, policy: str, messages: int
) -> None:
    found = kernel(request_with(find("link", link), CHAIN.format(policy=policy, link=link)))
    model, exchange = found["model"], found["simulate"]["exchange"]
    assert exchange["is_up"]
    assert model["handshake_messages"] == len(exchange["messages"]) == messages
    assert model["handshake_wire_bytes"] == exchange["wire_bytes"]
    assert exchange["handshake_s"] == pytest.approx(model["handshake_s"], rel=0.05)


@pytest.mark.parametrize("name", MACHINES)
def test_ike_has_the_bytes_of_the_real_machine(name: str) -> None:
    """`python -m caravan.lab.exchanges python/caravan/catalogue/exchanges` writes them again."""
    assert find("exchange", name).text == text(name)


BOTH = ["x25519-agree", "x25519-generate"]
RSA = ["rsa2048-sign", "rsa2048-verify"]


@pytest.mark.parametrize(
    ("name", "own", "peers"),
    [
        ("ikev2-psk", BOTH, BOTH),
        # The key exchange of a first message serves the second one too, which has the cookie.
        ("ikev2-psk-cookie", BOTH, BOTH),
        ("ikev2-rsa2048", BOTH + RSA, BOTH + RSA),
        (
            "ikev2-ecdsa-p256",
            [*BOTH, "ecdsa-p256-sign", "ecdsa-p256-verify"],
            [*BOTH, "ecdsa-p256-sign", "ecdsa-p256-verify"],
        ),
        ("ikev2-eap-mschapv2", [*BOTH, "rsa2048-verify"], [*BOTH, "rsa2048-sign"]),
        (
            "ikev2-psk-mlkem768",
            ["ml-kem-768-decapsulate", "ml-kem-768-generate"],
            ["ml-kem-768-encapsulate"],
        ),
        (
            "ikev2-rsa2048-x25519-mlkem768",
            [*BOTH, *RSA, "ml-kem-768-decapsulate", "ml-kem-768-generate"],
            [*BOTH, *RSA, "ml-kem-768-encapsulate"],
        ),
        # TLS has a key exchange of its own, and the gateway signs once more.
        ("ikev2-eap-tls", [*BOTH * 2, *RSA, "rsa2048-verify"], [*BOTH * 2, *RSA, "rsa2048-sign"]),
        # Main mode and a key exchange of the child's own.
        ("ikev1-main-psk", ["modp1024-agree", "modp1024-generate"] * 2, None),
        ("ikev2-psk-resumed", [], []),
        ("ikev2-rsa2048-resumed", [], []),
        ("ikev2-mobike", [], []),
        ("ikev1-move", [], []),
    ],
)
def test_both_ends_compute_what_the_protocol_asks(
    name: str, own: list[str], peers: list[str] | None
) -> None:
    found = messages(name)

    def done(key: str) -> list[str]:
        works = (one.get(key, []) for one in found)
        return sorted(word for work in works if isinstance(work, list) for word in work)

    assert done("work") == sorted(own)
    assert done("peer_work") == sorted(own if peers is None else peers)


def test_a_ticket_takes_two_messages_more_bytes_than_a_key_and_fewer_than_certificates() -> None:
    (asked, answered, *_) = (int(str(one["bytes"])) for one in messages("ikev2-psk-resumed"))
    header, nonce, detection = 28, 36, 2 * 28
    # A ticket instead of SA and key exchange (RFC 5723 §4.3.2); the answer has nothing of the kind.
    assert asked > 28 + header + nonce + detection > answered - 40
    whole = taken("ikev2-rsa2048")["bytes"]
    assert taken("ikev2-rsa2048-resumed")["bytes"] < whole


def test_the_first_message_of_ikev2_follows_from_its_formats() -> None:
    header, sa, ke, nonce, detection = 28, 40, 40, 36, 2 * 28
    # N(IKEV2_FRAGMENTATION_SUPPORTED), N(IKE_SA_INIT_FULL_TRANSCRIPT_AUTH)
    announced = 2 * 8
    least = 28 + header + sa + ke + nonce + detection + announced
    (first, *_) = messages("ikev2-psk")
    # And the hashes of signatures, which a pre-shared key does not need (RFC 7427 §4).
    assert least <= int(str(first["bytes"])) <= least + 32
    # A public value of 1184 octets and a text of 1088 (FIPS 203 §8) instead of two of 32, and in
    # the answer that an IKE SA may begin without a child (RFC 6023 §4).
    kem = [int(str(one["bytes"])) for one in messages("ikev2-psk-mlkem768")[:2]]
    assert kem == [int(str(first["bytes"])) + octets - 32 for octets in (1184, 1088 + 8)]


@pytest.mark.parametrize(
    ("name", "asked", "answered"),
    [
        # An empty R-U-THERE has the format of its acknowledgement (RFC 3706 §5.3, §5.4).
        ("ikev1-move", 0, 1),
        ("ikev1-move", 2, 3),
        ("ikev1-move", 4, 5),
        # The peer copies what it is asked with (RFC 4555 §3.7).
        ("ikev2-mobike", 2, 3),
    ],
)
def test_an_answer_that_repeats_its_question_is_as_long(
    name: str, asked: int, answered: int
) -> None:
    found = messages(name)
    assert found[asked]["from"] != found[answered]["from"]
    assert found[asked]["bytes"] == found[answered]["bytes"]


def test_a_larger_message_takes_as_long_as_its_fragments() -> None:
    split = [one for one in messages("ikev2-rsa2048") if "packets" in one]
    assert len(split) == 2
    assert taken("ikev2-rsa2048")["bytes"] > taken("ikev2-psk")["bytes"] + 2 * 1000
