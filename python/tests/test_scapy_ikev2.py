"""Every message of IKEv2 that Caravan captures, read by a second implementation: scapy.

The capture has keys beside it (`ikev2_decryption_table`). What they open is handed to scapy as a
message in clear. scapy must know every payload, write it again octet for octet, and name what our
log names.
"""

from __future__ import annotations

import csv
import hmac
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from scapy.contrib import ikev2
from scapy.layers.inet import UDP
from scapy.packet import Padding, Raw
from scapy.utils import PcapNgReader
from strongswan_pair import road_warrior

from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.caravan import Caravan, order
from caravan.testbed.connection import Connection, PublicKey, SharedKey

pytestmark = pytest.mark.root

HEADER_BYTES = 28
SK, SKF = 46, 53
TAG_BYTES = 16
"""Of AES-GCM, and of HMAC-SHA2-256-128."""
WORDS = {
    ikev2.IKEv2_SA: "SA",
    ikev2.IKEv2_KE: "KE",
    ikev2.IKEv2_Nonce: "No",
    ikev2.IKEv2_IDi: "IDi",
    ikev2.IKEv2_IDr: "IDr",
    ikev2.IKEv2_CERT: "CERT",
    ikev2.IKEv2_CERTREQ: "CERTREQ",
    ikev2.IKEv2_AUTH: "AUTH",
    ikev2.IKEv2_CP: "CP",
    ikev2.IKEv2_TSi: "TSi",
    ikev2.IKEv2_TSr: "TSr",
    ikev2.IKEv2_Delete: "D",
}


@dataclass(frozen=True)
class Keys:
    """Of one IKE SA: encryption and integrity, the initiator's first."""

    encryption: tuple[bytes, bytes]
    integrity: tuple[bytes, bytes]

    def open(self, header: Any, before: bytes, body: bytes) -> bytes:
        """The payloads in the body of an encrypted payload; `before`: the octets up to it."""
        of_responder = not header.flags & 8
        encryption, integrity = self.encryption[of_responder], self.integrity[of_responder]
        if not integrity:
            key, salt = encryption[:-4], encryption[-4:]
            clear = AESGCM(key).decrypt(salt + body[:8], body[8:], before)
        else:
            sealed, tag = body[:-TAG_BYTES], body[-TAG_BYTES:]
            made = hmac.digest(integrity, before + sealed, "sha256")[:TAG_BYTES]
            assert hmac.compare_digest(made, tag)
            cipher = Cipher(algorithms.AES(encryption), modes.CBC(sealed[:16])).decryptor()
            clear = cipher.update(sealed[16:]) + cipher.finalize()
        return clear[: -1 - clear[-1]]


def read_keys(folder: Path) -> dict[tuple[bytes, bytes], Keys]:
    """The keys beside a capture, by both SPIs."""
    found = {}
    with (folder / "ikev2_decryption_table").open() as file:
        for row in csv.reader(file):
            spi_i, spi_r, ei, er, _, ai, ar, _ = row
            read = bytes.fromhex
            keys = Keys((read(ei), read(er)), (read(ai), read(ar)))
            found[read(spi_i), read(spi_r)] = keys
    return found


def datagrams(capture: Path) -> Iterator[bytes]:
    """The messages of IKE in a capture, without the marker of port 4500."""
    with PcapNgReader(str(capture)) as reader:
        for packet in reader:
            if UDP not in packet:
                continue
            octets = bytes(packet[UDP].payload)
            if 4500 in (packet[UDP].sport, packet[UDP].dport):
                if octets[:4] != bytes(4):
                    continue
                octets = octets[4:]
            if len(octets) >= HEADER_BYTES:
                yield octets


class Opener:
    """Opens messages, and puts fragments together."""

    def __init__(self, keys: dict[tuple[bytes, bytes], Keys]) -> None:
        self._keys = keys
        self._fragments: dict[tuple[bytes, int, int], dict[int, bytes]] = {}
        self.fragments = 0

    def open(self, octets: bytes) -> bytes | None:
        """A message with its payloads in clear; `None`: more fragments are missing."""
        header = ikev2.IKEv2(octets[:HEADER_BYTES])
        first = octets[16]
        if first not in (SK, SKF):
            return octets
        keys = self._keys[header.init_SPI, header.resp_SPI]
        inner = octets[HEADER_BYTES]
        start = HEADER_BYTES + (4 if first == SK else 8)
        clear = keys.open(header, octets[:start], octets[start:])
        if first == SKF:
            self.fragments += 1
            number, total = (int.from_bytes(octets[at : at + 2], "big") for at in (32, 34))
            name = (header.init_SPI, header.id, int(header.flags))
            held = self._fragments.setdefault(name, {})
            held[number] = clear
            if number == 1:
                held[0] = bytes([inner])
            if len(held) <= total:
                return None
            inner = held[0][0]
            clear = b"".join(held[at] for at in range(1, total + 1))
            del self._fragments[name]
        size = HEADER_BYTES + len(clear)
        return octets[:16] + bytes([inner]) + octets[17:24] + size.to_bytes(4, "big") + clear


NEWER = {16447: "IKE_SA_INIT_FULL_TRANSCRIPT_AUTH"}
"""Notify message types that IANA has given since scapy's table was made."""


def words_of(message: Any) -> str:
    """What our log writes for the payloads of a message."""
    words = []
    layer = message.payload
    while layer:
        assert not isinstance(layer, Raw | Padding), layer
        if isinstance(layer, ikev2.IKEv2_Notify):
            name = NEWER.get(layer.type) or ikev2.IKEv2NotifyMessageTypes[layer.type]
            words.append(f"N({name})")
        elif type(layer) in WORDS:
            words.append(WORDS[type(layer)])
        layer = layer.payload
    return " ".join(words)


def renew(ours: Caravan, *what: str) -> None:
    """Renew the child or what the words say, and wait for the answer."""
    before = len(ours.handshake())
    order(ours.host, "rekey", "road", *what).check()
    ours.process.wait_for(lambda: len(ours.handshake()) >= before + 2, "renewal", 10)


@pytest.mark.parametrize("has_certificates", [True, False], ids=["rsa", "psk"])
@pytest.mark.parametrize(
    "suite", ["aes256gcm16-prfsha384-curve25519", "aes128-sha256-ecp256", "aes256-sha256-modp3072"]
)
def test_scapy_reads_every_message(
    suite: str, has_certificates: bool, keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    shared = SharedKey("a group key of the fleet")
    both = Connection(shared, version=2, is_legacy=False, proposals=suite)
    gateway, station = road_warrior(both, keys if has_certificates else (shared, shared))
    station = replace(station, esp_proposals="aes128gcm16-curve25519")
    gateway = replace(gateway, esp_proposals="aes128gcm16-curve25519")
    capture = output / "ms.pcapng"
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        Caravan(network.sg, gateway).wait_ready()
        ms = Caravan(network.ms, station, options=["--capture", str(capture)]).wait_ready()
        renew(ms)
        renew(ms, "--ike")
        renew(ms)
        order(network.ms, "down", "road").check()
        ms.stop()
        logged = [
            str(fields["payloads"])
            for _, fields in ms.events()
            if fields.get("message") == "handshake_message"
        ]
    opener = Opener(read_keys(Path(f"{capture}.keys")))
    read = []
    for octets in datagrams(capture):
        message = opener.open(octets)
        if message is None:
            continue
        found = ikev2.IKEv2(message)
        assert bytes(found) == message
        # Built anew from its fields, not from what scapy has kept of the octets.
        found.clear_cache()
        assert bytes(found) == message
        read.append(words_of(found))
    assert read[: len(logged)] == logged
    assert len(logged) >= 10
    assert (opener.fragments > 0) == has_certificates
