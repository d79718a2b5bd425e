"""The eight packets of Gupta and Montenegro (1998), Figs. 7 and 8, found in captures at both sides
of the firewall: 1 to 4 are a registration, 5 to 8 data to a correspondent and back.

Outside, packets are encrypted behind the header of ESP, so the first of each direction counts as
the registration's and the last one as data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address

from caravan.testbed.capture import (
    ETHER_TYPE_IPV4,
    IPPROTO_AH,
    IPPROTO_ESP,
    IPPROTO_IPIP,
    IPPROTO_SKIP,
    IPPROTO_UDP,
    Frame,
)
from caravan.testbed.cases import BESIDE
from caravan.testbed.mobile_ip import HOME_AGENT, MOBILE
from caravan.testbed.mvpn import CORRESPONDENT, INSIDE, OUTSIDE

Chain = tuple[str, ...]
"""The headers of a packet from the outside in, those of IP as `ip SOURCE DESTINATION`."""

NEXT = {
    IPPROTO_IPIP: "ip",
    IPPROTO_UDP: "udp",
    IPPROTO_ESP: "esp",
    IPPROTO_AH: "ah",
    IPPROTO_SKIP: "skip",
}
IP_BYTES = 20
FIXED_BYTES, KEY_BYTES = 12, 16
"""Of the SKIP header: its fixed part, and the key of a packet with keyed MD5."""
MKID_BYTES = {0: 0, 1: 4, 6: 16}
"""By name space."""
SEALED = ("skip", "ah", "esp")
CARE_OF = BESIDE.care_of


def _ip(source: str, destination: str) -> str:
    return f"ip {source} {destination}"


PRINTED: dict[int, Chain] = {
    1: (_ip(CARE_OF, OUTSIDE), *SEALED),
    2: (_ip(INSIDE, HOME_AGENT), _ip(CARE_OF, HOME_AGENT), "udp"),
    3: (_ip(HOME_AGENT, INSIDE), _ip(HOME_AGENT, CARE_OF), "udp"),
    4: (_ip(OUTSIDE, CARE_OF), *SEALED),
    5: (_ip(CARE_OF, OUTSIDE), *SEALED),
    6: (_ip(INSIDE, HOME_AGENT), _ip(CARE_OF, HOME_AGENT), _ip(MOBILE, CORRESPONDENT)),
    7: (_ip(HOME_AGENT, INSIDE), _ip(HOME_AGENT, CARE_OF), _ip(CORRESPONDENT, MOBILE)),
    8: (_ip(OUTSIDE, CARE_OF), *SEALED),
}
"""The headers that each packet has in the figures, as far as the wire shows them."""


def as_printed(outside: Sequence[Frame], inside: Sequence[Frame]) -> dict[int, int]:
    """How many headers of each packet are those of the figures, counted from the first one on."""
    without, within = ([tuple(chain(one)) for one in _of_ip(it)] for it in (outside, inside))
    found = {}
    for number, printed in PRINTED.items():
        heard = without if SEALED[0] in printed else within
        alike = [one for one in heard if one[0] == printed[0]]
        if printed[1] not in SEALED:
            alike = [one for one in alike if one[: len(printed)] == printed]
        one = () if not alike else alike[0 if number <= 4 else -1]
        same = 0
        while same < min(len(one), len(printed)) and one[same] == printed[same]:
            same += 1
        found[number] = same
    return found


def _of_ip(frames: Sequence[Frame]) -> Iterator[bytes]:
    return (frame.packet for frame in frames if frame.ether_type == ETHER_TYPE_IPV4)


def chain(packet: bytes) -> Iterator[str]:
    """The headers of an IP packet that are not encrypted."""
    kind, rest = "ip", packet
    while True:
        protocol, length = 0, 0
        if kind == "ip":
            ends = (str(IPv4Address(rest[at : at + 4])) for at in (12, 16))
            yield _ip(*ends)
            protocol, length = rest[9], IP_BYTES
        else:
            yield kind
        if kind == "skip":
            names = sum(MKID_BYTES[space] for space in rest[1:3])
            protocol, length = rest[3], FIXED_BYTES + KEY_BYTES + names
        elif kind == "ah":
            protocol, length = rest[0], 4 * (rest[1] + 2)
        if protocol not in NEXT:
            return
        kind, rest = NEXT[protocol], rest[length:]
