"""The headers of packets that programs send in clear."""

IPV4_BYTES, IPV6_BYTES = 20, 40
DATAGRAM_BYTES = 8
"""Of UDP, and of an echo request."""


def datagram_headers_bytes(address: str) -> int:
    """The bytes before the payload of a datagram or a ping to an address: IP, and UDP or ICMP."""
    return (IPV6_BYTES if ":" in address else IPV4_BYTES) + DATAGRAM_BYTES
