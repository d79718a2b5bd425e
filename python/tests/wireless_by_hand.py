"""OWE by a second implementation, over `cryptography`: RFC 8110 has no vectors. It shares no code
with the engine. `python wireless_by_hand.py FILE` writes the vectors that the engine's tests read.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hmac import HMAC
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

GROUP = (19).to_bytes(2, "little")
COORDINATE_BYTES = 32


def owe_vectors() -> str:
    """Secrets of client and access point, their public values, master key and its name: one
    exchange a line."""
    return "".join(f"{' '.join(part.hex() for part in _exchange(at))}\n" for at in range(4))


def _exchange(number: int) -> tuple[bytes, ...]:
    secrets = [hashlib.sha256(f"{end} {number}".encode()).digest() for end in ("client", "ap")]
    keys = [ec.derive_private_key(int.from_bytes(it, "big"), ec.SECP256R1()) for it in secrets]
    client, access_point = (_x(key) for key in keys)
    shared = keys[0].exchange(ec.ECDH(), keys[1].public_key())
    extract = HMAC(client + access_point + GROUP, hashes.SHA256())
    extract.update(shared)
    expand = HKDFExpand(hashes.SHA256(), 32, b"OWE Key Generation")
    master = expand.derive(extract.finalize())
    name = hashlib.sha256(client + access_point).digest()[:16]
    return (*secrets, client, access_point, master, name)


def _x(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_numbers().x.to_bytes(COORDINATE_BYTES, "big")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(owe_vectors())
