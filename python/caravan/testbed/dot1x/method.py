"""The EAP methods of the testbed, and what the two ends of an exchange need to know.

EAP-MD5 (RFC 3748 §5.4) proves the station alone, and yields no key. EAP-TLS (RFC 5216, RFC 9190)
has a certificate at both ends. PEAP with EAP-MSCHAPv2 and TTLS with PAP (RFC 5281) have one at the
server, and send the password inside its tunnel.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path

from caravan.testbed.pki import Credentials

LEGACY_OPENSSL = """openssl_conf = programs
[programs]
ssl_conf = protocols
[protocols]
system_default = legacy
[legacy]
CipherString = DEFAULT:@SECLEVEL=0
MinProtocol = TLSv1.2
"""
"""A configuration of OpenSSL that takes keys as short as those of 2004."""
SERVER_NAME = "radius.example"
"""The name in the server's certificate, which stations demand."""


class Method(enum.Enum):
    """An EAP method, with what runs inside it. All programs write it as its name here."""

    MD5 = "EAP-MD5"
    TLS = "EAP-TLS"
    PEAP = "PEAP-MSCHAPv2"
    TTLS = "TTLS-PAP"


class Tls(enum.Enum):
    """The version of TLS that a method uses."""

    V1_2 = "1.2"
    V1_3 = "1.3"


@dataclass(frozen=True)
class Account:
    """What an authentication server knows about a user; EAP-TLS needs no password."""

    identity: str
    method: Method
    password: str = ""


@dataclass(frozen=True)
class Login:
    """What a station knows.

    `is_legacy`: certificates may have keys that are too short today, such as RSA-1024.
    `credentials`: its certificate, for EAP-TLS. `authority`: who must have certified the server,
    and `server_name` the name that must be in its certificate; EAP-MD5 checks neither.
    """

    identity: str
    method: Method
    password: str = ""
    credentials: Credentials | None = None
    authority: Path | None = None
    server_name: str = SERVER_NAME
    tls: Tls = Tls.V1_2
    is_legacy: bool = False


@dataclass(frozen=True)
class ServerIdentity:
    """An authentication server's certificate, and the authority of the stations' certificates."""

    credentials: Credentials
    authority: Path


@dataclass(frozen=True)
class ServerConfig:
    """What an authentication server has, whichever program it is.

    `is_resuming`: it keeps TLS sessions, so that a station which comes again needs no certificate.
    `is_legacy`: certificates may have keys that are too short today, such as RSA-1024.
    """

    identity: ServerIdentity
    accounts: tuple[Account, ...]
    tls: Tls = Tls.V1_2
    is_resuming: bool = False
    is_legacy: bool = False


def legacy_openssl(directory: Path, *, is_legacy: bool) -> dict[str, str]:
    """The environment of a program of EAP: with `is_legacy` its OpenSSL takes short keys."""
    if not is_legacy:
        return {}
    path = directory / "openssl-legacy.cnf"
    path.write_text(LEGACY_OPENSSL)
    return {"OPENSSL_CONF": str(path)}
