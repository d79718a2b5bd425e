"""One VPN connection in plain facts, without any program's syntax.

`strongswan.swanctl_conf` and `caravan.caravan_toml` write it in each program's words. The two share
most words, because Caravan's dialect is swanctl's.
"""

from __future__ import annotations

from dataclasses import dataclass

from caravan.testbed.pki import Authority, Credentials


@dataclass(frozen=True)
class PublicKey:
    """Authentication by RSA signature; peers certified by `authority` are accepted."""

    own: Credentials
    authority: Authority


@dataclass(frozen=True)
class SharedKey:
    """Authentication by a pre-shared key."""

    secret: str


@dataclass(frozen=True)
class Eap:
    """The client proves itself by EAP, the gateway by its certificate.

    `method`: "mschapv2" or "tls"; at a Caravan gateway also "any"; at a gateway "radius": `servers`
    know the clients, and share `secret` with it. `user` and `password`: of the client, and the only
    user of the gateway. `certified`: the gateway's certificate, with "tls" also the client's, and
    the authority that both accept. `aaa_id`: of a client with "tls", the name of the RADIUS server.
    `is_alone`: with "tls", the gateway proves itself within TLS too, and by nothing else.
    """

    method: str
    certified: PublicKey
    user: str = ""
    password: str = ""
    servers: tuple[str, ...] = ()
    secret: str = ""
    aaa_id: str = ""
    is_alone: bool = False


@dataclass(frozen=True)
class Ppk:
    """A post-quantum pre-shared key of IKEv2 (RFC 8784), and whether there is no tunnel without."""

    name: str
    key: str
    is_required: bool = True


@dataclass(frozen=True)
class Published:
    """A port of the gateway that leads to `target`, an `address:port` behind it.

    `is_masqueraded`: the server sees the gateway's address; else that of the pool.
    """

    port: int
    target: str
    protocol: str = "tcp"
    is_masqueraded: bool = True


@dataclass(frozen=True)
class Connection:
    """One connection with one child.

    `local_id` empty: the certificate's subject, or the address. `remote_id` empty: any
    authenticated peer. `proposals` and `esp_proposals` empty: the program's defaults; several
    have commas. `pool`: a prefix for the addresses of peers (in transport mode: addresses
    that represent peers). `remote_addrs`, and `local_ts` and `remote_ts`: several with commas.
    `wants_address`: request an inner address of the family of `remote_ts` by mode config.
    `publish`: in transport mode the ports of the gateway that lead to servers behind it.
    `is_encapsulated`: ESP always in UDP, or only through a NAT; None: each program's default, which
    is UDP. `has_mobike`: IKEv2 keeps the tunnel when an address changes. `has_fragments`: large
    messages of IKE are split. `ppk`: the key that IKEv2 uses besides. `takes_rsa_sha1`: of Caravan
    alone, RSA with SHA-1 for peers of IKEv2 that announce no hashes. `is_layered`: AH around ESP in
    a second tunnel; it needs both proposals, and Caravan alone has; else `ah_proposals` stand for
    ESP's. `version`: of IKE; 0: a gateway of Caravan takes both; aggressive mode is only of 1.
    `childless`: whether IKEv2 begins without a child, in the word that both programs have.
    `crash_detection`, `resumption`, `redirect`: of Caravan alone, for IKEv2; charon follows
    redirects by itself. `dpd_s`: after how much silence a peer is probed; `dpd_timeout_s`, of
    Caravan alone: for how long it may answer no probe.
    Times in seconds; None: the program's default.
    """

    auth: PublicKey | SharedKey | Eap
    local_id: str = ""
    remote_id: str = ""
    name: str = "road"
    child: str = "net"
    mode: str = "tunnel"
    is_aggressive: bool = False
    proposals: str = "aes128-sha1-modp2048"
    esp_proposals: str = "aes128gcm16"
    ah_proposals: str = ""
    is_layered: bool = False
    remote_addrs: str = ""
    local_ts: str = ""
    remote_ts: str = ""
    pool: str = ""
    wants_address: bool = False
    is_encapsulated: bool | None = None
    is_legacy: bool = True
    start: str = ""
    on_failure: str = ""
    rekey_s: int | None = None
    child_rekey_s: int | None = None
    dpd_s: int | None = None
    dpd_timeout_s: int | None = None
    publish: tuple[Published, ...] = ()
    version: int = 2
    has_mobike: bool = True
    has_fragments: bool = True
    ppk: Ppk | None = None
    takes_rsa_sha1: bool = False
    childless: str = ""
    crash_detection: bool = False
    resumption: bool = False
    redirect: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.is_aggressive and self.version == 2:
            raise ValueError("IKEv2 has no aggressive mode: version must be 1")
