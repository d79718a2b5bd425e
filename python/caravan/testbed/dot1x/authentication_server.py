"""An authentication server: FreeRADIUS with a private configuration (RFC 2865, RFC 3579).

It serves the EAP methods of `method.py` and nothing else: no accounting, no proxy. Everything it
needs is below the host's own directory, so several can run at the same time.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Self

from caravan.testbed.capture import RADIUS_PORT
from caravan.testbed.dot1x.method import Account, Method, ServerConfig, legacy_openssl
from caravan.testbed.dot1x.quoting import radius_name, radius_password, radius_setting
from caravan.testbed.folders import private_folder, write_private
from caravan.testbed.host import Host
from caravan.testbed.process import Completed

READY_S = 20.0
FRAGMENT_BYTES = 1024
SESSION_LIFETIME_H = 1
OUTER, INNER, SESSIONS = "outer", "inner", "sessions"
"""Its files of users, and the folder of TLS sessions."""
TUNNELS = (Method.PEAP, Method.TTLS)
UNKNOWN_USER = "unknown user"
"""What the server says of a user whom it does not know."""


class RadiusServer:
    """A running FreeRADIUS; `clients`: the secret of each access point, by its address."""

    def __init__(
        self, host: Host, address: str, clients: Mapping[str, str], config: ServerConfig
    ) -> None:
        self.host = host
        self.address = address
        self.directory = private_folder(host.logs / "raddb")
        self._clients = dict(clients)
        self._config = config
        self._start()

    def log(self) -> str:
        """What it has said so far."""
        return self.process.stdout()

    def pause(self) -> None:
        """Answer nothing; what is asked waits."""
        self.process.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Answer what has waited."""
        self.process.signal(signal.SIGCONT)

    def stop(self) -> Completed:
        """End it."""
        self.resume()
        return self.process.stop()

    def restart(self) -> None:
        """Start it again."""
        self.stop()
        self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self) -> None:
        self._write()
        argv = ["freeradius", "-f", "-l", "stdout", "-d", str(self.directory)]
        environment = legacy_openssl(self.directory, is_legacy=self._config.is_legacy)
        self.process = self.host.popen(argv, environment, name="freeradius")
        self.process.wait_for(
            lambda: "Ready to process requests" in self.process.stdout(), "FreeRADIUS", READY_S
        )

    def _write(self) -> None:
        private_folder(self.directory / SESSIONS)
        text = radiusd_conf(self.directory, self.address, self._clients, self._config)
        write_private(self.directory / "radiusd.conf", text)
        for name, is_inner in ((OUTER, False), (INNER, True)):
            users = radius_users(self._config.accounts, is_inner=is_inner)
            write_private(self.directory / name, users)


def radiusd_conf(
    directory: Path, address: str, clients: Mapping[str, str], config: ServerConfig
) -> str:
    """The text of radiusd.conf: one setting per line, as its parser requires.

    `ValueError` for a secret or a path that it cannot quote, and for what is no address.
    """
    known = "".join(
        _CLIENT.format(
            address=ip_address(client),
            secret=radius_setting(secret, f"the secret of {client}"),
        )
        for client, secret in clients.items()
    )

    def path(of: Path) -> str:
        return radius_setting(str(of), f"the path {str(of)!r}")

    return known + _RADIUSD_CONF.format(
        directory=path(directory),
        outer=path(directory / OUTER),
        inner=path(directory / INNER),
        sessions=path(directory / SESSIONS),
        address=ip_address(address),
        port=RADIUS_PORT,
        fragment=FRAGMENT_BYTES,
        certificate=path(config.identity.credentials.certificate),
        key=path(config.identity.credentials.key),
        authority=path(config.identity.authority),
        tls=config.tls.value,
        cache="yes" if config.is_resuming else "no",
        lifetime=SESSION_LIFETIME_H,
        unknown=UNKNOWN_USER,
    )


def radius_users(accounts: Sequence[Account], *, is_inner: bool) -> str:
    """FreeRADIUS's users, in its file's words: of all, or of those with a method in a tunnel.

    `ValueError` for a name or a password that the file cannot quote.
    """
    lines = []
    for account in accounts:
        name = radius_name(account.identity)
        if is_inner and account.method not in TUNNELS:
            continue
        checks = []
        if not is_inner:
            # The method is offered at once: another offer would be refused, which costs a round.
            checks.append(f"EAP-Type := {account.method.name}")
        if is_inner or account.method is Method.MD5:
            password = radius_password(account.password, account.identity)
            checks.append(f"Cleartext-Password := {password}")
        lines.append(f"{name} {', '.join(checks)}\n")
    return "".join(lines)


_CLIENT = """client at-{address} {{
  ipaddr = {address}
  secret = {secret}
}}
"""

_RADIUSD_CONF = """name = radiusd
prefix = /usr
libdir = /usr/lib/freeradius
raddbdir = {directory}
logdir = {directory}
run_dir = {directory}
cleanup_delay = 5
max_requests = 1024
hostname_lookups = no
log {{
  destination = stdout
  auth = yes
}}
security {{
  reject_delay = 0
  status_server = no
}}
thread pool {{
  start_servers = 1
  max_servers = 1
  min_spare_servers = 1
  max_spare_servers = 1
}}
modules {{
  files outer {{
    filename = {outer}
  }}
  files inner {{
    filename = {inner}
  }}
  pap {{
  }}
  mschap {{
  }}
  eap eap {{
    default_eap_type = tls
    tls-config common {{
      private_key_file = {key}
      certificate_file = {certificate}
      ca_file = {authority}
      fragment_size = {fragment}
      tls_min_version = "1.2"
      tls_max_version = "{tls}"
      cache {{
        enable = {cache}
        lifetime = {lifetime}
        name = caravan
        persist_dir = {sessions}
      }}
    }}
    md5 {{
    }}
    tls {{
      tls = common
    }}
    peap {{
      tls = common
      default_eap_type = mschapv2
      virtual_server = inner
    }}
    ttls {{
      tls = common
      default_eap_type = md5
      virtual_server = inner
    }}
    mschapv2 {{
    }}
  }}
  always reject {{
    rcode = reject
  }}
}}
server outer {{
  listen {{
    type = auth
    ipaddr = {address}
    port = {port}
  }}
  authorize {{
    outer
    if (noop) {{
      update request {{
        Module-Failure-Message := "{unknown}"
      }}
      reject
    }}
    eap
  }}
  authenticate {{
    Auth-Type MS-CHAP {{
      mschap
    }}
    eap
  }}
  post-auth {{
    Post-Auth-Type REJECT {{
      eap
    }}
  }}
}}
server inner {{
  authorize {{
    update request {{
      &Calling-Station-Id := &outer.request:Calling-Station-Id
    }}
    inner
    eap
    pap
  }}
  authenticate {{
    Auth-Type PAP {{
      pap
    }}
    Auth-Type MS-CHAP {{
      mschap
    }}
    eap
  }}
}}
"""
