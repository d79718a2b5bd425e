"""The security policies of paper P (Agarwal, Gill and Wang, GLOBECOM 2004), and TLS beside them.

A policy is what protects the air (WEP), who opens the port (IEEE 802.1X), what protects a node's
packets as far as the gateway of its home (IPsec), and what protects them as far as the other end
(TLS). All but TLS 1.3 and the method EAP-TLS are insecure, or have been replaced: they are here to
be measured.
"""

from __future__ import annotations

from dataclasses import dataclass

from caravan.testbed.dot1x.method import Method


@dataclass(frozen=True)
class Policy:
    """One policy. `integrity`: of ESP with 3DES, empty without IPsec. `transport`: the version of
    TLS between both ends, empty without it."""

    name: str
    has_wep: bool = False
    method: Method | None = None
    integrity: str = ""
    transport: str = ""

    @property
    def is_dynamic(self) -> bool:
        """Whether keys of WEP come from IEEE 802.1X: only EAP-TLS yields keys (RFC 5216 §2.3)."""
        return self.has_wep and self.method is Method.TLS


MD5, TLS = Method.MD5, Method.TLS
POLICIES = {
    one.name: one
    for one in (
        Policy("pn-1"),
        Policy("pn-2", has_wep=True),
        Policy("pn-3", integrity="sha1"),
        Policy("pn-4", has_wep=True, integrity="sha1"),
        Policy("pn-5", method=MD5),
        Policy("pn-6", method=TLS),
        Policy("pn-7", has_wep=True, method=MD5),
        Policy("pn-8", has_wep=True, method=TLS),
        Policy("pn-9", has_wep=True, method=MD5, integrity="md5"),
        Policy("pn-10", has_wep=True, method=TLS, integrity="md5"),
        Policy("pn-11", has_wep=True, method=MD5, integrity="sha1"),
        Policy("pn-12", has_wep=True, method=TLS, integrity="sha1"),
        Policy("tls-1.2", transport="tls-1.2"),
        Policy("tls-1.3", transport="tls-1.3"),
    )
}
"""By name: `pn-1` to `pn-12` as numbered in the paper, and TLS as its transport-layer protocol."""
