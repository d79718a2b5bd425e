"""wireguard-go and boringtun: userspace WireGuard, configured over its Unix socket.

The socket speaks the cross-platform userspace protocol of WireGuard (`set=1`, one `key=value` per
line, an empty line ends). The openssl program makes the keys.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from caravan.testbed.host import Host
from caravan.testbed.process import Process

SOCKETS = Path("/var/run/wireguard")
READY_S = 10.0
KEY_BYTES = 32
PORT = 51820


@dataclass(frozen=True)
class KeyPair:
    """A Curve25519 key pair, raw."""

    private: bytes
    public: bytes

    @classmethod
    def make(cls) -> KeyPair:
        """A new one."""
        private = _openssl(["genpkey", "-algorithm", "X25519", "-outform", "DER"], b"")
        public = _openssl(["pkey", "-inform", "DER", "-pubout", "-outform", "DER"], private)
        # RFC 8410 §4 and §7: in both encodings the raw key comes last.
        return cls(private[-KEY_BYTES:], public[-KEY_BYTES:])


@dataclass(frozen=True)
class Peer:
    """The other end: its key, its address, and the one prefix behind it."""

    public: bytes
    address: str
    allowed: str


class WireGuard:
    """A running userspace WireGuard with one peer; it ends with its host.

    `interface` must be unique in the testbed, because all control sockets are in one folder.
    """

    def __init__(
        self, host: Host, argv: Sequence[str], interface: str, own: KeyPair, peer: Peer
    ) -> None:
        SOCKETS.mkdir(parents=True, exist_ok=True)
        path = SOCKETS / f"{interface}.sock"
        self.process: Process = host.popen([*argv, interface])
        self.process.wait_for(path.exists, "control socket", READY_S)
        control(path, configuration(own, peer))


def configuration(own: KeyPair, peer: Peer) -> str:
    """The program's configuration: itself, then its peer."""
    settings = (
        ("set", "1"),
        ("private_key", own.private.hex()),
        ("listen_port", str(PORT)),
        ("public_key", peer.public.hex()),
        ("endpoint", f"{peer.address}:{PORT}"),
        ("allowed_ip", peer.allowed),
    )
    return "".join(f"{key}={value}\n" for key, value in settings) + "\n"


def control(path: Path, request: str) -> None:
    """Send a request; `RuntimeError` unless the answer is `errno=0`."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(READY_S)
        connection.connect(str(path))
        connection.sendall(request.encode())
        answer = b""
        while not answer.endswith(b"\n\n"):
            part = connection.recv(4096)
            if not part:
                break
            answer += part
    if b"errno=0\n" not in answer:
        raise RuntimeError(f"{path.name} refuses its configuration: {answer.decode().strip()}")


def _openssl(arguments: Sequence[str], given: bytes) -> bytes:
    done = subprocess.run(["openssl", *arguments], input=given, capture_output=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {' '.join(arguments)}: {done.stderr.decode().strip()}")
    return done.stdout
