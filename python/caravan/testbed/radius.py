"""Servers of RADIUS for a VPN gateway: FreeRADIUS, and one that forges answers.

FreeRADIUS is that of the access points (`dot1x.authentication_server`), with users of another file:
EAP-MSCHAPv2 and EAP-TLS without a tunnel around them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from caravan.testbed.capture import RADIUS_PORT
from caravan.testbed.dot1x.authentication_server import INNER, OUTER, RadiusServer
from caravan.testbed.dot1x.method import ServerConfig, ServerIdentity, Tls
from caravan.testbed.dot1x.quoting import radius_name, radius_password
from caravan.testbed.folders import write_private
from caravan.testbed.host import Host
from caravan.testbed.process import Process

READY_S = 10.0


@dataclass(frozen=True)
class VpnUser:
    """A user whom FreeRADIUS knows.

    Without a password it proves a certificate by EAP-TLS. `replies`: attributes of the
    Access-Accept, such as `Session-Timeout := 60`.
    """

    name: str
    password: str = ""
    replies: tuple[str, ...] = ()


class VpnRadius(RadiusServer):
    """A running FreeRADIUS that examines a gateway's clients; `clients`: secrets by address.
    It speaks no version of TLS but `tls`."""

    def __init__(
        self,
        host: Host,
        address: str,
        clients: Mapping[str, str],
        identity: ServerIdentity,
        users: Sequence[VpnUser],
        *,
        tls: Tls = Tls.V1_2,
    ) -> None:
        self._users = tuple(users)
        super().__init__(host, address, clients, ServerConfig(identity, (), tls))

    def _write(self) -> None:
        super()._write()
        path = self.directory / "radiusd.conf"
        lowest = f'tls_min_version = "{self._config.tls.value}"'
        text = re.sub(r'tls_min_version = "[\d.]+"', lowest, path.read_text())
        write_private(path, text)
        write_private(self.directory / OUTER, "".join(_entry(user) for user in self._users))
        write_private(self.directory / INNER, "")


def _entry(user: VpnUser) -> str:
    checks = [f"EAP-Type := {'MSCHAPv2' if user.password else 'TLS'}"]
    if user.password:
        checks.append(f"Cleartext-Password := {radius_password(user.password, user.name)}")
    replies = ",\n".join(f"\t{reply}" for reply in user.replies)
    return f"{radius_name(user.name)} {', '.join(checks)}\n{replies}\n"


def forging_server(host: Host, address: str, secret: str, how: str) -> Process:
    """A server that accepts everybody: `how` is "unsigned", without a Message-Authenticator but
    with a right Response Authenticator, as who collides MD5 can make it, or "forged", with both by
    another secret."""
    argv = [sys.executable, "-c", _FORGER, address, str(RADIUS_PORT), secret, how]
    process = host.popen(argv, name=f"forger-{how}")
    process.wait_for(lambda: "ready" in process.stdout(), "the forging server", READY_S)
    return process


_FORGER = """
import hashlib, hmac, os, socket, sys

address, port, secret, how = sys.argv[1:]
key = secret.encode() if how == "unsigned" else b"another secret of nobody"
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind((address, int(port)))
print("ready", flush=True)

def half(kind, clear, asked):
    salt, block = os.urandom(2), bytes([len(clear)]) + clear
    block += bytes(-len(block) % 16)
    value, before = b"", asked + salt
    for at in range(0, len(block), 16):
        pad = hashlib.md5(key + before).digest()
        before = bytes(a ^ b for a, b in zip(block[at : at + 16], pad))
        value += before
    inner = bytes([kind, len(value) + 4]) + salt + value
    return bytes([26, len(inner) + 6]) + (311).to_bytes(4, "big") + inner

while True:
    request, peer = server.recvfrom(4096)
    asked = request[4:20]
    success = bytes([79, 6, 3, 0, 0, 4])
    attributes = success + half(17, bytes(32), asked) + half(16, bytes(32), asked)
    signed = how == "forged"
    attributes = (bytes([80, 18]) + bytes(16) if signed else b"") + attributes
    head = bytes([2, request[1]]) + (20 + len(attributes)).to_bytes(2, "big")
    if signed:
        mac = hmac.digest(key, head + asked + attributes, "md5")
        attributes = attributes[:2] + mac + attributes[18:]
    whole = hashlib.md5(head + asked + attributes + key).digest()
    server.sendto(head + whole + attributes, peer)
    print("sent", flush=True)
"""
