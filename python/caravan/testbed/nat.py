"""The operator's NAT: an nftables ruleset inside a router, as at the paper's GGSN.

It maps sources of TCP and UDP to ports of its own range, filters by address and port (silently
drops packets without a mapping), and can be made to forget its mappings.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from pyroute2 import NFCTSocket

from caravan.testbed.host import Host

TABLE = "operator"


@dataclass(frozen=True)
class NatConfig:
    """The NAT's configuration.

    `addresses`: its own outer addresses, the first one in use. `port_ranges`: mappings use the
    first range; each rebinding takes the next one. `udp_timeout_s`: idle seconds after which a UDP
    mapping is forgotten (the kernel's default: 30 s, 120 s once both sides have sent).
    """

    outer: str
    addresses: tuple[str, ...]
    port_ranges: tuple[tuple[int, int], ...] = ((20_000, 29_999), (30_000, 39_999))
    udp_timeout_s: int | None = None


class Nat:
    """Masquerading on a host that already forwards."""

    def __init__(self, host: Host, config: NatConfig) -> None:
        self.host = host
        self.config = config
        self._binding = 0
        self._address = 0
        self._load()
        if config.udp_timeout_s is not None:
            self.set_udp_timeout(config.udp_timeout_s)

    @property
    def address(self) -> str:
        """The outer address."""
        return self.config.addresses[self._address]

    def set_udp_timeout(self, seconds: int) -> None:
        """Forget UDP mappings after this many idle seconds."""
        for key in ("nf_conntrack_udp_timeout", "nf_conntrack_udp_timeout_stream"):
            self.host.sysctl(f"net.netfilter.{key}", str(seconds))

    def rebind(self, *, address: bool = False) -> float:
        """Forget every mapping and use other ports, and optionally the next outer address; returns
        when it forgot."""
        self._binding += 1
        if address:
            self._address = (self._address + 1) % len(self.config.addresses)
        self._load()
        moment = time.time()
        self.flush()
        return moment

    def flush(self) -> None:
        """Forget every mapping; the next packet of a flow makes a new one."""
        with self.host.entered(), NFCTSocket() as conntrack:
            conntrack.flush()

    def flows(self) -> list[Flow]:
        """The current mappings of TCP and UDP."""
        with self.host.entered(), NFCTSocket() as conntrack:
            entries = [_flow(item) for item in conntrack.dump()]
        return [flow for flow in entries if flow is not None]

    def _load(self) -> None:
        low, high = self.config.port_ranges[self._binding % len(self.config.port_ranges)]
        outer = self.config.outer
        self.host.load_nft(
            f"""table ip {TABLE}
delete table ip {TABLE}
table ip {TABLE} {{
    chain postrouting {{
        type nat hook postrouting priority srcnat;
        oifname "{outer}" meta l4proto {{ tcp, udp }} snat to {self.address}:{low}-{high}
        oifname "{outer}" snat to {self.address}
    }}
    chain input {{
        type filter hook input priority filter;
        iifname "{outer}" meta l4proto {{ tcp, udp }} ct state new,invalid drop
    }}
}}
""",
            "nat",
        )


@dataclass(frozen=True)
class Flow:
    """One mapping: `source` inside becomes `mapped` outside, towards `destination`."""

    protocol: int
    source: tuple[str, int]
    mapped: tuple[str, int]
    destination: tuple[str, int]


def _flow(entry: object) -> Flow | None:
    original = _tuple(entry, "CTA_TUPLE_ORIG")
    reply = _tuple(entry, "CTA_TUPLE_REPLY")
    if original is None or reply is None:
        return None
    return Flow(original[0], original[1], reply[2], original[2])


def _tuple(entry: object, name: str) -> tuple[int, tuple[str, int], tuple[str, int]] | None:
    ends = entry.get_attr(name)  # type: ignore[attr-defined]
    addresses = ends.get_attr("CTA_TUPLE_IP")
    ports = ends.get_attr("CTA_TUPLE_PROTO")
    source_port = ports.get_attr("CTA_PROTO_SRC_PORT")
    source = addresses.get_attr("CTA_IP_V4_SRC")
    if source_port is None or source is None:
        return None
    destination = addresses.get_attr("CTA_IP_V4_DST")
    destination_port = ports.get_attr("CTA_PROTO_DST_PORT")
    return (
        int(ports.get_attr("CTA_PROTO_NUM")),
        (str(source), int(source_port)),
        (str(destination), int(destination_port)),
    )
