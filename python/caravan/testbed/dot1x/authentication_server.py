"""An authentication server: FreeRADIUS with a private configuration (RFC 2865, RFC 3579).

It serves the EAP methods of `method.py` and nothing else: no accounting, no proxy. Everything it
needs is below the host's own directory, so several can run at the same time.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from caravan.testbed.capture import RADIUS_PORT
from caravan.testbed.dot1x.method import Account, Method, ServerConfig, legacy_openssl
from caravan.testbed.folders import private_folder, write_private
from caravan.testbed.host import Host
from caravan.testbed.process import Completed

READY_S = 20.0
FRAGMENT_BYTES = 1024
SESSION_LIFETIME_H = 1
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
        private_folder(self.directory / "sessions")
        text = radiusd_conf(self.directory, self.address, self._clients, self._config)
        write_private(self.directory / "radiusd.conf", text)
        for name, is_inner in (("outer", False), ("inner", True)):
            users = _users(self._config.accounts, is_inner=is_inner)
            write_private(self.directory / name, users)


def radiusd_conf(
    directory: Path, address: str, clients: Mapping[str, str], config: ServerConfig
) -> str:
    """The text of radiusd.conf: one setting per line, as its parser requires."""
    known = "".join(
        _CLIENT.format(name=f"at-{client}", address=client, secret=secret)
        for client, secret in clients.items()
    )
    return known + _RADIUSD_CONF.format(
        directory=directory,
        address=address,
        port=RADIUS_PORT,
        fragment=FRAGMENT_BYTES,
        certificate=config.identity.credentials.certificate,
        key=config.identity.credentials.key,
        authority=config.identity.authority,
        tls=config.tls.value,
        cache="yes" if config.is_resuming else "no",
        lifetime=SESSION_LIFETIME_H,
        unknown=UNKNOWN_USER,
    )


def _users(accounts: Sequence[Account], *, is_inner: bool) -> str:
    lines = []
    for account in accounts:
        checks = []
        if not is_inner:
            # The method is offered at once: another offer would be refused, which costs a round.
            checks.append(f"EAP-Type := {account.method.name}")
        if is_inner or account.method is Method.MD5:
            checks.append(f'Cleartext-Password := "{account.password}"')
        lines.append(f'"{account.identity}" {", ".join(checks)}\n')
    return "".join(lines)


_CLIENT = """client {name} {{
  ipaddr = {address}
  secret = "{secret}"
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
    filename = {directory}/outer
  }}
  files inner {{
    filename = {directory}/inner
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
        persist_dir = {directory}/sessions
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
