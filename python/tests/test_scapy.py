"""ESP and AH packet by packet against a second implementation, `scapy.layers.ipsec`.

Here is what strongSwan's userspace ESP cannot carry: transport mode, AH, extended sequence
numbers and raw protocol 50. Both ways: scapy opens what Caravan seals, and Caravan opens what
scapy seals. The program's hidden command is `caravan packet seal|open`: on its input first one
line with the SA as JSON, then a line a packet, `{"seal": hex}` or `{"open": hex}`; on its output
a line each, `{"packet": hex}` or `{"drop": reason}`. Packets are whole, IP header included. `seq`
and `seq_high` are the number of the first packet, sealed or expected.

Marked `root` for the run that has the release build; no namespace is used.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import Any

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.ipsec import AH, ESP, SecurityAssociation

from caravan.testbed.binary import caravan_binary

pytestmark = pytest.mark.root

SPI = 0xC0DE_CAFE
OUTER4 = ("192.0.2.2", "192.0.2.1")
OUTER6 = ("2001:db8::2", "2001:db8::1")
NAT_T_PORTS = (31_000, 4500)


@dataclass(frozen=True)
class Suite:
    """Our name of a suite, scapy's names, and the key lengths in bytes (salt included)."""

    word: str
    cipher: str | None
    cipher_key_bytes: int
    integrity: str | None
    integrity_key_bytes: int

    def __str__(self) -> str:
        return self.word


ESP_SUITES = (
    Suite("null-md5", "NULL", 0, "HMAC-MD5-96", 16),
    Suite("des", "DES", 8, None, 0),
    Suite("3des", "3DES", 24, None, 0),
    Suite("des-md5", "DES", 8, "HMAC-MD5-96", 16),
    Suite("3des-md5", "3DES", 24, "HMAC-MD5-96", 16),
    Suite("aes128-sha1", "AES-CBC", 16, "HMAC-SHA1-96", 20),
    Suite("aes192-sha1", "AES-CBC", 24, "HMAC-SHA1-96", 20),
    Suite("aes256-sha256", "AES-CBC", 32, "SHA2-256-128", 32),
    Suite("aes128gcm16", "AES-GCM", 20, None, 0),
    Suite("aes256gcm16", "AES-GCM", 36, None, 0),
    Suite("chacha20poly1305", "CHACHA20-POLY1305", 36, None, 0),
)
AH_SUITES = (
    Suite("md5", None, 0, "HMAC-MD5-96", 16),
    Suite("sha1", None, 0, "HMAC-SHA1-96", 20),
    Suite("sha256", None, 0, "SHA2-256-128", 32),
)


@dataclass(frozen=True)
class Association:
    """One SA for both programs; `number` is the 64-bit number of its first packet."""

    protocol: str
    mode: str
    suite: Suite
    is_ipv6: bool = False
    has_esn: bool = False
    is_encapsulated: bool = False
    number: int = 1

    @property
    def outer(self) -> tuple[str, str]:
        """Source and destination of the SA."""
        return OUTER6 if self.is_ipv6 else OUTER4

    @property
    def cipher_key(self) -> bytes:
        """A key that is not weak for DES; parity does not matter."""
        return bytes(range(0x21, 0x21 + self.suite.cipher_key_bytes))

    @property
    def integrity_key(self) -> bytes:
        """A key of any bytes."""
        return bytes(range(0x61, 0x61 + self.suite.integrity_key_bytes))

    def ours(self) -> dict[str, Any]:
        """The JSON that `caravan packet` reads."""
        return {
            "protocol": self.protocol,
            "mode": self.mode,
            "spi": SPI,
            "suite": self.suite.word,
            "encryption_key": self.cipher_key.hex(),
            "integrity_key": self.integrity_key.hex(),
            "esn": self.has_esn,
            "seq_high": self.number >> 32,
            "seq": self.number & 0xFFFF_FFFF,
            "tunnel_src": self.outer[0],
            "tunnel_dst": self.outer[1],
            "encap": list(NAT_T_PORTS) if self.is_encapsulated else None,
        }

    def theirs(self, number: int) -> Any:
        """scapy's SA for the packet with one number, because scapy has no window."""
        header = None
        if self.mode == "tunnel":
            kind = IPv6 if self.is_ipv6 else IP
            header = kind(src=self.outer[0], dst=self.outer[1])
        source, destination = NAT_T_PORTS
        encapsulation = UDP(sport=source, dport=destination) if self.is_encapsulated else None
        return SecurityAssociation(
            ESP if self.protocol == "esp" else AH,
            spi=SPI,
            seq_num=number & 0xFFFF_FFFF,
            crypt_algo=self.suite.cipher,
            crypt_key=self.cipher_key or None,
            auth_algo=self.suite.integrity,
            auth_key=self.integrity_key or None,
            tunnel_header=header,
            nat_t_header=encapsulation,
            esn_en=self.has_esn,
            esn=number >> 32,
        )

    def clear_packets(self) -> list[bytes]:
        """What to protect: TCP, UDP and ICMP of sizes around every block's edge."""
        inner = ("10.0.0.2", "10.10.0.2") if self.mode == "tunnel" else OUTER4
        inner6 = ("2001:db8:a::2", "2001:db8:c::2") if self.mode == "tunnel" else OUTER6
        packets = []
        for index, size in enumerate((0, 1, 5, 8, 15, 16, 17, 63, 452, 1300)):
            body = bytes((index + at) & 0xFF for at in range(size))
            kind = (TCP(sport=40_000, dport=80, seq=7), UDP(sport=5000, dport=53))[index % 2]
            if self.is_ipv6:
                packet = IPv6(src=inner6[0], dst=inner6[1], hlim=61) / kind / body
            else:
                kind = ICMP() if index % 3 == 2 else kind
                packet = IP(src=inner[0], dst=inner[1], id=index + 1, ttl=61) / kind / body
            packets.append(bytes(packet))
        return packets

    def read(self, packet: bytes) -> Any:
        """scapy's class for a packet of this family."""
        return (IPv6 if self.is_ipv6 else IP)(packet)


ASSOCIATIONS = [
    Association("esp", mode, suite, is_ipv6, is_encapsulated=is_encapsulated)
    for suite in ESP_SUITES
    for mode in ("tunnel", "transport")
    for is_ipv6, is_encapsulated in ((False, False), (False, True), (True, False))
] + [
    Association("ah", mode, suite, is_ipv6)
    for suite in AH_SUITES
    for mode in ("tunnel", "transport")
    for is_ipv6 in (False, True)
]
LAST_OF_AN_EPOCH = (7 << 32) | 0xFFFF_FFFC
"""The fifth packet from here begins the next 2^32 (RFC 4303 §2.2.1)."""
EXTENDED = [
    Association(protocol, mode, suite, has_esn=True, number=LAST_OF_AN_EPOCH)
    for protocol, suites in (("esp", ESP_SUITES), ("ah", AH_SUITES))
    for suite in suites
    for mode in ("tunnel", "transport")
    if suite.integrity or suite.word.endswith(("gcm16", "poly1305"))
]


def name_of(association: Association) -> str:
    """The name of a test case."""
    words = [association.protocol, association.mode, association.suite.word]
    words.append("ipv6" if association.is_ipv6 else "ipv4")
    words += ["udp"] if association.is_encapsulated else []
    return "-".join(words)


def run_packets(association: Association, verb: str, packets: list[bytes]) -> list[dict[str, str]]:
    """The results of `caravan packet` for each packet."""
    lines = [json.dumps(association.ours())]
    lines += [json.dumps({verb: packet.hex()}) for packet in packets]
    done = subprocess.run(
        [str(caravan_binary()), "packet", verb],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers: list[dict[str, str]] = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(packets)
    return answers


def sealed_by_scapy(association: Association) -> tuple[list[bytes], list[bytes]]:
    """Clear packets, and the same under the SA with ascending numbers."""
    clear = association.clear_packets()
    sealed = [
        bytes(association.theirs(association.number + index).encrypt(association.read(packet)))
        for index, packet in enumerate(clear)
    ]
    return clear, sealed


@pytest.mark.parametrize("association", ASSOCIATIONS + EXTENDED, ids=name_of)
def test_scapy_opens_what_we_seal(association: Association) -> None:
    clear = association.clear_packets()
    for index, answer in enumerate(run_packets(association, "seal", clear)):
        number = association.number + index
        packet = association.read(bytes.fromhex(answer["packet"]))
        layer = packet[ESP if association.protocol == "esp" else AH]
        assert (layer.spi, layer.seq) == (SPI, number & 0xFFFF_FFFF)
        if association.is_encapsulated:
            assert (packet[UDP].sport, packet[UDP].dport) == NAT_T_PORTS
        assert bytes(association.theirs(number).decrypt(packet)) == clear[index]


@pytest.mark.parametrize("association", ASSOCIATIONS + EXTENDED, ids=name_of)
def test_we_open_what_scapy_seals(association: Association) -> None:
    clear, sealed = sealed_by_scapy(association)
    opened = run_packets(association, "open", sealed)
    assert [answer.get("packet") for answer in opened] == [packet.hex() for packet in clear]


CHECKED = [item for item in ASSOCIATIONS if item.suite.word not in ("des", "3des")]


@pytest.mark.parametrize("association", CHECKED, ids=name_of)
def test_a_changed_bit_or_a_replay_is_dropped(association: Association) -> None:
    _, sealed = sealed_by_scapy(association)
    first, second = sealed[:2]
    forged = second[:-1] + bytes([second[-1] ^ 1])
    answers = run_packets(association, "open", [first, first, forged, second])
    assert ["packet" in answer for answer in answers] == [True, False, False, True]
    assert all(answers[index]["drop"] for index in (1, 2))
