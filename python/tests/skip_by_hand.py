"""SKIP packets by a second implementation: pure Python over `hashlib` and `cryptography`.

It follows draft-ietf-ipsec-skip-06, RFC 1826 to 1829, 1851 and 1852, and for algorithm 252
`docs/design/skip.md`. It shares no code with the engine. `python skip_by_hand.py FILE` writes
golden packets, one a line, in the columns of `Line`.
"""

from __future__ import annotations

import hashlib
import hmac
import sys
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.decrepit.ciphers.algorithms import ARC4, RC2, TripleDES
from cryptography.hazmat.primitives.ciphers import BlockCipherAlgorithm, Cipher, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV

DES, TRIPLE_DES, RC2_CBC, RC4, GCM_SIV = 1, 2, 250, 251, 252
MD5_MAC, DES_MAC, SHA_MAC = 1, 2, 3
CRYPT_KEY_BYTES = {0: 0, DES: 8, TRIPLE_DES: 24, RC2_CBC: 16, RC4: 16, GCM_SIV: 32}
MAC_KEY_BYTES = {0: 0, MD5_MAC: 16, DES_MAC: 8, SHA_MAC: 20, GCM_SIV: 32}
MAC_BYTES = {0: 0, MD5_MAC: 16, DES_MAC: 8, SHA_MAC: 20, GCM_SIV: 0}
MKID_BYTES = {0: 0, 1: 4, 2: 4, 7: 6}
AH, ESP, IP_IN_IP, SKIP = 51, 50, 4, 57
IP_BYTES = 20


@dataclass(frozen=True)
class Line:
    """A golden packet. `master` is K_ij; with HKDF, the public values of sender and receiver
    follow it. Names are (NSID, MKID)."""

    kij: int
    crypt: int
    mac: int
    iv_bytes: int
    source: tuple[int, bytes]
    destination: tuple[int, bytes]
    n: int
    master: bytes
    clear: bytes
    packet: bytes

    @classmethod
    def parse(cls, text: str) -> Line:
        numbers = text.split()
        kij, crypt, mac, iv_bytes = map(int, numbers[:4])
        source, destination = (_name(word) for word in numbers[4:6])
        n = int(numbers[6])
        master, clear, packet = (bytes.fromhex(word.strip("-")) for word in numbers[7:])
        return cls(kij, crypt, mac, iv_bytes, source, destination, n, master, clear, packet)

    def __str__(self) -> str:
        names = (f"{nsid}/{mkid.hex() or '-'}" for nsid, mkid in (self.source, self.destination))
        octets = (octets.hex() or "-" for octets in (self.master, self.clear, self.packet))
        numbers = (self.kij, self.crypt, self.mac, self.iv_bytes)
        return " ".join([*map(str, numbers), *names, str(self.n), *octets])


def _name(word: str) -> tuple[int, bytes]:
    nsid, mkid = word.split("/")
    return int(nsid), bytes.fromhex(mkid.strip("-"))


def md5(*parts: bytes) -> bytes:
    return hashlib.md5(b"".join(parts)).digest()


def hkdf_expand(key: bytes, info: bytes, length: int) -> bytes:
    """RFC 5869 §2.3."""
    out = last = b""
    number = 1
    while len(out) < length:
        last = hmac.digest(key, last + info + bytes([number]), "sha256")
        out += last
        number += 1
    return out[:length]


def block_cipher(crypt: int, key: bytes) -> BlockCipherAlgorithm:
    if crypt == DES:
        return TripleDES(key * 3)
    return TripleDES(key) if crypt == TRIPLE_DES else RC2(key)


def cbc(crypt: int, key: bytes, iv: bytes, data: bytes, encrypts: bool) -> bytes:
    cipher = Cipher(block_cipher(crypt, key), modes.CBC(iv))
    context = cipher.encryptor() if encrypts else cipher.decryptor()
    return context.update(data) + context.finalize()


@dataclass(frozen=True)
class Keys:
    """The keys of one packet."""

    encryption: bytes
    authentication: bytes


def field_bytes(crypt: int, mac: int) -> int:
    """Length of the field of the packet key."""
    if crypt == GCM_SIV:
        return 16
    return -(-max(CRYPT_KEY_BYTES[crypt], MAC_KEY_BYTES[mac]) // 8) * 8


def packet_keys(line: Line, field: bytes) -> Keys:
    """E_kp and A_kp from the field of the packet key; with HKDF, the key and its salt."""
    n = line.n.to_bytes(4, "big")
    if line.kij == GCM_SIV:
        shared, publics = line.master[:32], line.master[32:]
        extracted = hmac.digest(b"caravan skip-x25519 1", shared, "sha256")
        interval = hkdf_expand(extracted, b"n" + publics + n, 32)
        return Keys(hkdf_expand(interval, b"packet" + field, 36), b"")
    interval = md5(line.master, n, b"\1") + md5(line.master, n, b"\0")
    wrapping = interval[-8:] if line.kij == DES else interval[-24:]
    clear = cbc(line.kij, wrapping, bytes(8), field, False)
    key_bytes = max(CRYPT_KEY_BYTES[line.crypt], MAC_KEY_BYTES[line.mac])
    packet_key = bytes(len(clear) - key_bytes) + clear[len(clear) - key_bytes :]
    crypt, mac = bytes([line.crypt]), bytes([line.mac])
    encryption = md5(packet_key, crypt, b"\2") + md5(packet_key, crypt, b"\0")
    authentication = md5(packet_key, mac, b"\3") + md5(packet_key, mac, b"\1")
    return Keys(
        encryption[32 - CRYPT_KEY_BYTES[line.crypt] :],
        authentication[32 - MAC_KEY_BYTES[line.mac] :],
    )


def mac_of(mac: int, key: bytes, data: bytes) -> bytes:
    if mac == DES_MAC:
        return cbc(DES, key, bytes(8), data + bytes(-len(data) % 8), True)[-8:]
    order, name = ("little", "md5") if mac == MD5_MAC else ("big", "sha1")
    filled = key + b"\x80" + bytes(55 - len(key))
    length = (8 * len(key)).to_bytes(8, "little" if order == "little" else "big")
    return hashlib.new(name, filled + length + data + key).digest()


def covered(packet: bytes, mac: int) -> bytes:
    """The packet as it is authenticated: without what changes on the way."""
    octets = bytearray(packet)
    octets[8] = 0
    octets[10:12] = bytes(2)
    octets[IP_BYTES] &= 0xF0
    if mac == GCM_SIV:
        octets[1] = 0
        octets[6:8] = bytes(2)
    return bytes(octets)


def whole_iv(iv: bytes) -> bytes:
    return iv + bytes(octet ^ 0xFF for octet in iv) if len(iv) == 4 else iv


def header(line: Line, field: bytes) -> bytes:
    next_header = AH if MAC_BYTES[line.mac] else ESP
    fixed = bytes([0x10, line.source[0], line.destination[0], next_header])
    fixed += line.n.to_bytes(4, "big") + bytes([line.kij, line.crypt, line.mac, 0])
    return fixed + field + line.source[1] + line.destination[1]


ENDS = bytes([192, 0, 2, 9, 198, 51, 100, 2])
"""Source and destination of golden packets."""


def seal(line: Line, field: bytes, iv: bytes, ends: bytes = ENDS) -> bytes:
    """The packet between these two addresses that carries `line.clear`, with this field and IV (or
    sequence number)."""
    keys = packet_keys(line, field)
    skip = header(line, field)
    mac_bytes = MAC_BYTES[line.mac]
    inner = ESP if line.crypt else IP_IN_IP
    ah = bytes([inner, mac_bytes // 4, 0, 0, 0, 0, 0, 1]) if mac_bytes else b""
    text = b""
    if line.crypt:
        block = 8 if line.crypt in (DES, TRIPLE_DES, RC2_CBC) else 1
        pad = -(len(line.clear) + 2) % block
        text = line.clear + bytes(range(1, pad + 1)) + bytes([pad, IP_IN_IP])
    tag_bytes = 16 if line.crypt == GCM_SIV else 0
    esp = bytes([0, 0, 0, 1]) + iv if line.crypt else line.clear
    total = IP_BYTES + len(skip + ah) + mac_bytes + len(esp + text) + tag_bytes
    outer = bytes([0x45, 0]) + total.to_bytes(2, "big")
    outer += bytes([7, 8, 0x40, 0, 61, SKIP, 9, 9]) + ends
    if line.crypt == GCM_SIV:
        head = covered(outer + skip + esp, line.mac)
        nonce = keys.encryption[32:] + iv
        return outer + skip + esp + AESGCMSIV(keys.encryption[:32]).encrypt(nonce, text, head)
    sealed = crypt_text(line.crypt, keys.encryption, iv, text, True)
    body = esp + sealed
    if mac_bytes:
        data = mac_of(
            line.mac,
            keys.authentication,
            covered(outer + skip + ah + bytes(mac_bytes) + body, line.mac),
        )
        ah += data
    return outer + skip + ah + body


def crypt_text(crypt: int, key: bytes, iv: bytes, text: bytes, encrypts: bool) -> bytes:
    if crypt == 0:
        return text
    if crypt == RC4:
        return Cipher(ARC4(key), mode=None).encryptor().update(text)
    return cbc(crypt, key, whole_iv(iv), text, encrypts)


def opened(line: Line) -> bytes:
    """The clear text of `line.packet`, after every check."""
    packet = line.packet
    at = IP_BYTES + 12
    length = field_bytes(line.crypt, line.mac)
    field = packet[at : at + length]
    skip = header(line, field)
    assert packet[IP_BYTES : IP_BYTES + len(skip)] == skip, "header"
    keys = packet_keys(line, field)
    at = IP_BYTES + len(skip)
    mac_bytes = MAC_BYTES[line.mac]
    inner = ESP
    if mac_bytes:
        inner, words, data = packet[at], packet[at + 1], packet[at + 8 : at + 8 + mac_bytes]
        assert words * 4 == mac_bytes, "length of AH"
        assert packet[at + 2 : at + 8] == bytes([0, 0, 0, 0, 0, 1]), "AH"
        zeroed = packet[: at + 8] + bytes(mac_bytes) + packet[at + 8 + mac_bytes :]
        assert data == mac_of(line.mac, keys.authentication, covered(zeroed, line.mac)), "MAC"
        at += 8 + mac_bytes
    if not line.crypt:
        assert inner == IP_IN_IP
        return packet[at:]
    assert inner == ESP
    assert packet[at : at + 4] == bytes([0, 0, 0, 1]), "SPI"
    iv = packet[at + 4 : at + 4 + line.iv_bytes]
    at += 4 + line.iv_bytes
    if line.crypt == GCM_SIV:
        head, nonce = covered(packet[:at], line.mac), keys.encryption[32:] + iv
        text = AESGCMSIV(keys.encryption[:32]).decrypt(nonce, packet[at:], head)
    else:
        text = crypt_text(line.crypt, keys.encryption, iv, packet[at:], False)
    pad, next_header = text[-2:]
    assert next_header == IP_IN_IP
    return text[: len(text) - 2 - pad]


def choices() -> list[tuple[int, int, int]]:
    """Kij, Crypt and MAC algorithm: every choice that some profile allows."""
    legacy = [
        (kij, crypt, mac)
        for kij in (DES, TRIPLE_DES)
        for crypt in (0, DES, TRIPLE_DES, RC2_CBC, RC4)
        for mac in (0, MD5_MAC, DES_MAC, SHA_MAC)
        if (crypt or mac) and (kij == TRIPLE_DES or mac or crypt == DES)
    ]
    return [*legacy, (GCM_SIV, GCM_SIV, GCM_SIV)]


def golden(n: int) -> list[Line]:
    """Packets for every choice of algorithms and every form of a name."""
    lines: list[Line] = []

    def add(
        choice: tuple[int, int, int],
        iv_bytes: int,
        source: tuple[int, bytes],
        destination: tuple[int, bytes],
    ) -> None:
        seed = hashlib.shake_256(f"caravan {len(lines)}".encode()).digest(512)
        kij, crypt, mac = choice
        iv_bytes = {0: 0, RC4: 0, GCM_SIV: 8}.get(crypt, iv_bytes)
        master = seed[:96] if kij == GCM_SIV else seed[:32]
        clear = seed[96 : 96 + 3 * len(lines) % 64]
        line = Line(*choice, iv_bytes, source, destination, n, master, clear, b"")
        field = seed[200 : 200 + field_bytes(crypt, mac)]
        packet = seal(line, field, seed[300 : 300 + iv_bytes])
        lines.append(Line(*choice, iv_bytes, source, destination, n, master, clear, packet))

    home, none = (1, bytes([10, 18, 3, 17])), (0, b"")
    for choice in choices():
        for iv_bytes in (4, 8):
            add(choice, iv_bytes, home, none)
    for nsid in range(12):
        name = nsid, bytes([0xA0 + nsid]) * MKID_BYTES.get(nsid, 16)
        add((TRIPLE_DES, DES, MD5_MAC), 8, name, none)
        add((TRIPLE_DES, DES, MD5_MAC), 8, none, name)
    add((TRIPLE_DES, DES, MD5_MAC), 8, (8, bytes([1]) * 16), (8, bytes([2]) * 16))
    return lines


GOLDEN_N = 279_581


def main() -> None:
    """Write the golden packets."""
    text = "".join(f"{line}\n" for line in golden(GOLDEN_N))
    Path(sys.argv[1]).write_text(text)


if __name__ == "__main__":
    main()
