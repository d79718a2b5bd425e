"""What lets frames pass at the two ends of a link: the controlled ports of IEEE 802.1X.

An authenticator's port is a locked port of a bridge: the kernel drops every frame whose source has
no entry there, and learns none. A supplicant's is a rule that makes every address unreachable, and
an interface that is dormant. Both are changed by netlink messages made here, because pyroute2 takes
1 to 10 ms for each, which would be measured. Left out: what a station behind its port still answers
to ARP.
"""

from __future__ import annotations

import errno
import os
import socket
import struct

from caravan.testbed.errors import NamespaceError
from caravan.testbed.host import Host

AF_INET, AF_BRIDGE = 2, 7
RTM_NEWNEIGH, RTM_DELNEIGH, RTM_GETNEIGH = 28, 29, 30
RTM_NEWRULE, RTM_DELRULE = 32, 33
RTM_SETLINK = 19
NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP = 0x1, 0x4, 0x300
NLM_F_REPLACE, NLM_F_CREATE, NLM_F_EXCL = 0x100, 0x400, 0x200
NLMSG_ERROR, NLMSG_DONE = 2, 3
HEADER_BYTES, ATTRIBUTE_BYTES, NEIGHBOUR_BYTES = 16, 4, 12
ANSWER_BYTES = 1 << 16

NUD_REACHABLE, NUD_NOARP = 0x02, 0x40
"""Both make an entry static; the kernel lists it with the second. From linux/neighbour.h."""
NTF_MASTER = 0x04
NDA_LLADDR = 2

FR_ACT_UNREACHABLE = 7
FRA_IIFNAME, FRA_PRIORITY = 3, 6
"""From linux/fib_rules.h."""
FIRST_PRIORITY = 1
"""After the rule for local addresses only."""

IFLA_OPERSTATE, IFLA_LINKMODE = 16, 17
OPER_DORMANT, OPER_UP = 5, 6
LINK_MODE_DEFAULT, LINK_MODE_DORMANT = 0, 1
"""In the second mode a link that comes up is dormant. From linux/if.h."""


class AuthenticatorPort:
    """The port of a bridge at which stations are; its calls must not overlap."""

    def __init__(self, host: Host, interface: str) -> None:
        # What was learned before the port is locked would pass for ever.
        host.set_port(interface, learning=0, locked=1)
        host.flush_port(interface)
        self._index = host.index(interface)
        self._netlink = _Netlink(host, interface)

    def open(self, address: str) -> None:
        """Let frames from this Ethernet address pass."""
        entry = self._entry(address)
        self._netlink.change(RTM_NEWNEIGH, NLM_F_REPLACE | NLM_F_CREATE, entry)

    def shut(self, address: str) -> None:
        """Let them pass no more.

        The entry of a station that was heard behind another port is there, and no more here.
        """
        self._netlink.change(RTM_DELNEIGH, 0, self._entry(address), accepted=errno.ENOENT)

    def addresses(self) -> set[str]:
        """The Ethernet addresses that pass, as the kernel has them."""
        found = set()
        wanted = struct.pack("=BxxxiHBB", AF_BRIDGE, 0, 0, 0, 0)
        for body in self._netlink.dump(RTM_GETNEIGH, wanted):
            _, index, state = struct.unpack_from("=BxxxiH", body)
            if index == self._index and state == NUD_NOARP:
                found.add(_hardware_address(body[NEIGHBOUR_BYTES:]))
        return found

    def close(self) -> None:
        """Leave the port as it is."""
        self._netlink.close()

    def _entry(self, address: str) -> bytes:
        state = NUD_REACHABLE | NUD_NOARP
        head = struct.pack("=BxxxiHBB", AF_BRIDGE, self._index, state, NTF_MASTER, 0)
        return head + _attribute(NDA_LLADDR, bytes.fromhex(address.replace(":", "")))


class SupplicantPort:
    """A station's own port, shut at first: no packet of its programs leaves while it is.

    Its interface is dormant then, as the kernel has it for 802.1X: programs that wait for a link,
    as a mobile node does, see one only when the port is open, also after a move.
    """

    def __init__(self, host: Host, interface: str) -> None:
        self._index = host.index(interface)
        self._netlink = _Netlink(host, interface)
        self.is_open = True
        self.set_open(False)

    def set_open(self, is_open: bool) -> None:
        """Open or shut it."""
        if is_open == self.is_open:
            return
        rule = struct.pack("=BBBBBBBBI", AF_INET, 0, 0, 0, 0, 0, 0, FR_ACT_UNREACHABLE, 0)
        rule += _attribute(FRA_PRIORITY, struct.pack("=I", FIRST_PRIORITY))
        rule += _attribute(FRA_IIFNAME, b"lo\0")
        if is_open:
            self._netlink.change(RTM_DELRULE, 0, rule)
            self._set_link(LINK_MODE_DORMANT, OPER_UP)
        else:
            self._set_link(LINK_MODE_DORMANT, OPER_DORMANT)
            self._netlink.change(RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, rule)
        self.is_open = is_open

    def close(self) -> None:
        """Take the port away: a host without a supplicant has none."""
        self.set_open(True)
        self._set_link(LINK_MODE_DEFAULT, OPER_UP)
        self._netlink.close()

    def _set_link(self, mode: int, state: int) -> None:
        link = struct.pack("=BxHiII", 0, 0, self._index, 0, 0)
        link += _attribute(IFLA_OPERSTATE, bytes((state,)))
        link += _attribute(IFLA_LINKMODE, bytes((mode,)))
        self._netlink.change(RTM_SETLINK, 0, link)


class _Netlink:
    def __init__(self, host: Host, name: str) -> None:
        self._name = f"{host.role}, {name}"
        with host.entered():
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)

    def change(self, kind: int, flags: int, body: bytes, accepted: int = 0) -> None:
        """Send a message and wait until it is carried out; one error may be `accepted`."""
        self._send(kind, flags | NLM_F_ACK, body)
        answer = self._socket.recv(ANSWER_BYTES)
        _, kind, _, _, _, code = struct.unpack_from("=IHHIIi", answer)
        if kind != NLMSG_ERROR or -code not in (0, accepted):
            raise NamespaceError(f"{self._name}: {os.strerror(-code)}")

    def dump(self, kind: int, body: bytes) -> list[bytes]:
        """All messages of an answer, without their headers."""
        self._send(kind, NLM_F_DUMP, body)
        found: list[bytes] = []
        while True:
            answer = self._socket.recv(ANSWER_BYTES)
            while answer:
                length, kind = struct.unpack_from("=IH", answer)
                if kind == NLMSG_DONE:
                    return found
                found.append(answer[HEADER_BYTES:length])
                answer = answer[_aligned(length) :]

    def close(self) -> None:
        self._socket.close()

    def _send(self, kind: int, flags: int, body: bytes) -> None:
        length = HEADER_BYTES + len(body)
        self._socket.send(struct.pack("=IHHII", length, kind, NLM_F_REQUEST | flags, 0, 0) + body)


def _attribute(kind: int, value: bytes) -> bytes:
    length = ATTRIBUTE_BYTES + len(value)
    return (struct.pack("=HH", length, kind) + value).ljust(_aligned(length), b"\0")


def _hardware_address(attributes: bytes) -> str:
    while attributes:
        length, kind = struct.unpack_from("=HH", attributes)
        if kind == NDA_LLADDR:
            return attributes[ATTRIBUTE_BYTES:length].hex(":")
        attributes = attributes[_aligned(length) :]
    raise NamespaceError("an entry of a bridge has no Ethernet address")


def _aligned(length: int) -> int:
    return (length + 3) & ~3
