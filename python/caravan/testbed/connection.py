"""One VPN connection as both programs are told it: plain facts, no program's syntax.

`strongswan.swanctl_conf` and `caravan.caravan_toml` write it in the words of each; the two share
most words, because Caravan's dialect is swanctl's.
"""

from __future__ import annotations

from dataclasses import dataclass

from caravan.testbed.pki import Authority, Credentials


@dataclass(frozen=True)
class PublicKey:
    """Authentication by RSA signature; peers are accepted when `authority` certified them."""

    own: Credentials
    authority: Authority


@dataclass(frozen=True)
class SharedKey:
    """Authentication by a pre-shared key."""

    secret: str


@dataclass(frozen=True)
class Connection:
    """One connection with one child.

    `local_id` empty: the certificate's subject, or the address. `remote_id` empty: any peer that
    proves itself. `proposals` and `esp_proposals` empty: the program's own. `pool`: a prefix whose
    addresses are leased (in transport mode: that stand for peers). `remote_addrs`: addresses
    between commas. `wants_address`: ask for an inner address by Mode Config. `publish`: in
    transport mode the ports of the gateway, of `publish_protocol`, and the servers behind them.
    `is_encapsulated`: ESP always in UDP, or through a NAT alone; none: each program's habit, which
    is UDP. Times in seconds; none: the program's own.
    """

    auth: PublicKey | SharedKey
    local_id: str = ""
    remote_id: str = ""
    name: str = "road"
    child: str = "net"
    mode: str = "tunnel"
    is_aggressive: bool = True
    proposals: str = "aes128-sha1-modp2048"
    esp_proposals: str = "aes128gcm16"
    ah_proposals: str = ""
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
    publish: tuple[tuple[int, str], ...] = ()
    publish_protocol: str = "tcp"
