"""The policies of the demonstration, and the sizes of their packets as the native core has them.

There are two accountings: `rfc` (exact sizes: ESP in UDP, RFC 3948 and RFC 4303, with the
initialization vector of each cipher's RFC) and `paper-u` (the paper's formulas (9) to (11), which
have no initialization vector). Left out: formulas. Only `caravan._lab` computes sizes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from caravan import _lab
from caravan.lab import core

POLICIES = (
    "none",
    "null-md5",
    "des",
    "3des",
    "des-md5",
    "3des-md5",
    "aes128-sha1",
    "aes128gcm16",
    "chacha20poly1305",
)
"""The policies of the demonstration's table, in its order. Each has the name of its suite."""


def wire_bytes(
    suite: str, packet_bytes: Sequence[int], accounting: str = "rfc", mode: str = "transport"
) -> list[int] | None:
    """Sizes on the wire of clear IP packets in UDP; None if the accounting has no formula."""
    wire: list[float] | None = _sizes(suite, packet_bytes, accounting, mode)["wire_bytes"]
    return None if wire is None else list(map(int, wire))


@cache
def parts(suite: str) -> Mapping[str, int] | None:
    """Bytes of headers, trailer and check value of a packet under a suite; None without one."""
    found: Mapping[str, int] | None = _sizes(suite, (), "rfc", "transport")["parts"]
    return found


def parts_of(file: str, text: str) -> Mapping[str, int] | None:
    """The same under a policy file, which may be of SKIP."""
    request = {"file": file, "text": text, "accounting": "rfc", "bytes": []}
    found: Mapping[str, int] | None = core.ask(lambda: _lab.sizes(json.dumps(request)))["parts"]
    return found


def _sizes(suite: str, packet_bytes: Sequence[int], accounting: str, mode: str) -> dict[str, Any]:
    keys = {"name": suite, "title": suite, "suite": suite, "mode": mode}
    request = {
        "file": suite,
        "text": "".join(f'{key} = "{value}"\n' for key, value in keys.items()),
        "accounting": accounting,
        "bytes": list(packet_bytes),
    }
    found: dict[str, Any] = core.ask(lambda: _lab.sizes(json.dumps(request)))
    return found
