"""strongSwan as the peer: `charon-systemd` with a private configuration in a namespace.

Its ESP is the userspace plugin kernel-libipsec: only tunnel mode, always in UDP, always with
integrity, no ESN. It always claims to be behind a NAT. Several can run at the same time, because
every path (configuration, control socket, credentials and log) is below the host's own directory.

`StrongSwan` is the system's release, `NewStrongSwan` the one that `tools/peers` unpacks.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from caravan.testbed.connection import Connection, Eap, PublicKey, SharedKey
from caravan.testbed.errors import TimedOut
from caravan.testbed.host import Host
from caravan.testbed.peers import peer
from caravan.testbed.process import Completed

PROGRAM_PATH = "/usr/sbin:/usr/libexec/ipsec:/usr/local/sbin"
LIBRARIES = "/usr/lib/ipsec"
RELEASE = "strongswan-6.1"
READY_S = 15.0
PLUGINS = (
    "random nonce aesni openssl gcrypt aes md5 sha1 sha2 hmac kdf gcm chapoly curve25519 gmp "
    "x509 pem pkcs1 pkcs8 pubkey mgf1 constraints revocation kernel-libipsec kernel-netlink "
    "socket-default vici updown counters des md4 eap-identity eap-mschapv2 eap-tls"
)
TOOL_PLUGINS = "random openssl x509 pem pkcs1 pkcs8 pubkey"


@dataclass(frozen=True)
class SwanChild:
    """An IPsec SA pair in charon's listing."""

    name: str
    state: str
    mode: str
    spi_in: str
    spi_out: str
    bytes_in: int
    bytes_out: int
    encryption: str
    integrity: str


@dataclass(frozen=True)
class SwanSa:
    """An IKE SA in charon's listing; `vips`: inner addresses assigned to or by the peer."""

    name: str
    unique_id: int
    version: int
    state: str
    local_host: str
    remote_host: str
    remote_port: int
    local_id: str
    remote_id: str
    children: tuple[SwanChild, ...]
    vips: tuple[str, ...] = field(default=())


class BareStrongSwan:
    """A running charon that nothing is loaded into; a context manager."""

    release: str | None = None
    """The folder of `tools/peers` that it comes from; None: the system's."""

    def __init__(self, host: Host, options: str = "") -> None:
        self.host = host
        self.directory = host.logs / "strongswan"
        self._write(options)
        self._mount()
        self._swanctl = self._copy_of("swanctl")
        daemon = self._copy_of("charon-systemd")
        self.process = host.popen([daemon], self._environment(), name="charon")
        self.process.wait_for(self.socket.exists, "control socket", READY_S)

    # Commands.

    def swanctl(self, *arguments: str, timeout_s: float = 20.0, check: bool = True) -> Completed:
        """Run swanctl against this charon."""
        command, *rest = arguments
        argv = [self._swanctl, command, "--uri", f"unix://{self.socket}", *rest]
        return self.host.run(argv, timeout_s, self._environment(), check=check)

    # Its state and log.

    def sas(self) -> list[SwanSa]:
        """Every IKE SA with its children."""
        listing = self.swanctl("--list-sas", "--pretty").stdout
        found: list[SwanSa] = []
        for event in parse_pretty(listing):
            found += [_sa(name, entry) for name, entry in event.items() if isinstance(entry, dict)]
        return found

    def children(self) -> list[SwanChild]:
        """Every installed child of every IKE SA."""
        return [child for sa in self.sas() for child in sa.children if child.state == "INSTALLED"]

    def log(self) -> str:
        """Charon's log so far."""
        path = self.directory / "charon.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def selected_proposals(self) -> list[str]:
        """The proposals it chose, in order, as `IKE:AES_CBC_128/...` and `ESP:...`."""
        return re.findall(r"selected proposal: (\S+)", self.log())

    def wait_for_log(self, pattern: str, timeout_s: float = 10.0) -> re.Match[str]:
        """Wait until a line of the log matches, otherwise `TimedOut` with the log's end."""
        deadline = time.monotonic() + timeout_s
        while True:
            match = re.search(pattern, self.log())
            if match is not None:
                return match
            if time.monotonic() > deadline:
                tail = "\n".join(self.log().splitlines()[-25:])
                raise TimedOut(f"charon did not log {pattern!r} in {timeout_s} s\n{tail}")
            time.sleep(0.05)

    def stop(self) -> Completed:
        """End charon; it deletes its SAs first."""
        return self.process.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # Files.

    def _copy_of(self, program: str) -> str:
        """A copy to run: the system may restrict the installed program to its own files."""
        path = PROGRAM_PATH
        if self.release is not None:
            path = str(peer(self.release) / "usr/sbin")
        found = shutil.which(program, path=path)
        if found is None:
            raise FileNotFoundError(f"no {program} in {path}; make setup installs it")
        return str(shutil.copy(found, str(self.directory / program)))

    def _mount(self) -> None:
        """Its plugins are looked for in one place; only this host sees them there."""
        if self.release is not None:
            folder = str(peer(self.release)) + LIBRARIES
            self.host.run(["mount", "--bind", folder, LIBRARIES])

    @property
    def socket(self) -> Path:
        """Its control socket."""
        # The path of a Unix socket has at most 107 bytes, so it is not below the output directory.
        return Path("/run") / f"{self.host.namespace}.vici"

    def _environment(self) -> Mapping[str, str]:
        return {
            "STRONGSWAN_CONF": str(self.directory / "strongswan.conf"),
            "SWANCTL_DIR": str(self.directory / "swanctl"),
        }

    def _write(self, options: str) -> None:
        swanctl = self.directory / "swanctl"
        for name in ("x509", "x509ca", "private"):
            (swanctl / name).mkdir(parents=True, exist_ok=True)
        text = _STRONGSWAN_CONF.format(
            plugins=PLUGINS,
            tool_plugins=TOOL_PLUGINS,
            socket=self.socket,
            log=self.directory / "charon.log",
            options=options,
        )
        (self.directory / "strongswan.conf").write_text(text)


class StrongSwan(BareStrongSwan):
    """A running charon with one loaded connection."""

    def __init__(self, host: Host, connection: Connection, options: str = "") -> None:
        self.connection = connection
        super().__init__(host, options)
        self._load()

    def initiate(self, timeout_s: float = 20.0) -> Completed:
        """Initiate the child and wait for it; `CommandFailed` if it fails."""
        child = self.connection.child
        return self.swanctl(
            "--initiate",
            "--child",
            child,
            "--timeout",
            str(int(timeout_s)),
            timeout_s=timeout_s + 5,
        )

    def terminate_child(self) -> Completed:
        """Delete the child on both sides."""
        return self.swanctl("--terminate", "--child", self.connection.child)

    def terminate_ike(self) -> Completed:
        """Delete the IKE SA and its children on both sides."""
        return self.swanctl("--terminate", "--ike", self.connection.name)

    def rekey_child(self) -> Completed:
        """Start the renewal of the child's SAs."""
        return self.swanctl("--rekey", "--child", self.connection.child)

    def rekey_ike(self) -> Completed:
        """Start the renewal of the IKE SA; IKEv1 reauthenticates."""
        return self.swanctl("--rekey", "--ike", self.connection.name)

    def change(self, words: str, others: str) -> None:
        """Replace words of its swanctl.conf and load it; `ValueError` if they are missing."""
        path = self.directory / "swanctl/swanctl.conf"
        text = path.read_text()
        if words not in text:
            raise ValueError(f"{words!r} is not in {path}")
        path.write_text(text.replace(words, others))
        self._load()

    def _load(self) -> None:
        self.swanctl("--load-all", "--noprompt")

    def _write(self, options: str) -> None:
        super()._write(options)
        swanctl = self.directory / "swanctl"
        auth = self.connection.auth
        if isinstance(auth, Eap):
            auth = auth.certified
        if isinstance(auth, PublicKey):
            shutil.copy(auth.own.certificate, swanctl / "x509/own.pem")
            shutil.copy(auth.own.key, swanctl / "private/own.key")
            shutil.copy(auth.authority.certificate, swanctl / "x509ca/ca.pem")
            for number, path in enumerate(auth.own.intermediates):
                shutil.copy(path, swanctl / f"x509ca/intermediate-{number}.pem")
        (swanctl / "swanctl.conf").write_text(swanctl_conf(self.connection))


class NewStrongSwan(StrongSwan):
    """The same from Debian's newest suite: it has ML-KEM, by OpenSSL."""

    release = RELEASE


def swanctl_conf(connection: Connection) -> str:
    """The text of swanctl.conf for one connection: one setting per line, as its parser requires."""
    local, remote = _end(connection, is_local=True), _end(connection, is_local=False)
    child: dict[str, Any] = {
        "mode": connection.mode,
        "esp_proposals": connection.esp_proposals or "default",
        "local_ts": connection.local_ts or "dynamic",
        "remote_ts": connection.remote_ts or "dynamic",
    }
    if connection.child_rekey_s is not None:
        # charon counts whole seconds: its default margin of a tenth would round to zero.
        times = {"rekey_time": connection.child_rekey_s, "life_time": connection.child_rekey_s + 60}
        child |= {key: f"{seconds}s" for key, seconds in (times | {"rand_time": 0}).items()}
    settings: dict[str, Any] = {
        "version": connection.version,
        "aggressive": _yes(connection.is_aggressive),
        "proposals": connection.proposals or "default",
        "local_addrs": "%any",
        "remote_addrs": connection.remote_addrs or "%any",
        "encap": _yes(connection.is_encapsulated is not False),
        "fragmentation": _yes(connection.has_fragments),
        "mobike": _yes(connection.version == 2 and connection.has_mobike),
    }
    settings |= {"childless": connection.childless} if connection.childless else {}
    if connection.ppk:
        required = _yes(connection.ppk.is_required)
        settings |= {"ppk_id": connection.ppk.name, "ppk_required": required}
    any_address = "::" if ":" in connection.remote_ts else "0.0.0.0"
    settings |= {"vips": any_address} if connection.wants_address else {}
    settings |= {"pools": "inner"} if connection.pool else {}
    if connection.rekey_s is not None:
        # IKEv1 has no rekeying: charon uses the reauthentication time.
        times = {"rekey_time": connection.rekey_s, "reauth_time": 0, "over_time": 60}
        settings |= {key: f"{seconds}s" for key, seconds in (times | {"rand_time": 0}).items()}
    settings |= {"dpd_delay": f"{connection.dpd_s}s"} if connection.dpd_s else {}
    settings |= {"local": local, "remote": remote, "children": {connection.child: child}}
    tree: dict[str, Any] = {"connections": {connection.name: settings}}
    if connection.pool:
        tree["pools"] = {"inner": {"addrs": connection.pool, "dns": "10.10.0.53"}}
    if isinstance(connection.auth, SharedKey):
        tree["secrets"] = {"ike-road": {"secret": f'"{connection.auth.secret}"'}}
    if isinstance(connection.auth, Eap) and connection.auth.user and not connection.auth.servers:
        user = {"id": connection.auth.user, "secret": f'"{connection.auth.password}"'}
        tree["secrets"] = {"eap-road": user}
    if connection.ppk:
        key = {"id": connection.ppk.name, "secret": f'"{connection.ppk.key}"'}
        tree.setdefault("secrets", {})["ppk-road"] = key
    return _section(tree, 0)


def _end(connection: Connection, *, is_local: bool) -> dict[str, Any]:
    """One end's section."""
    auth, identity = connection.auth, connection.local_id if is_local else connection.remote_id
    named = {"id": identity} if identity else {}
    certificate = {"certs": "own.pem"} if is_local else {"cacerts": "ca.pem"}
    if isinstance(auth, SharedKey):
        return {"auth": "psk"} | named
    is_client = is_local == bool(connection.remote_addrs)
    if isinstance(auth, Eap) and auth.is_alone and not is_client:
        # Its check of the authority looks at certificates in IKE alone.
        return {"auth": "eap-tls"} | (certificate if is_local else {}) | named
    if isinstance(auth, PublicKey) or not is_client:
        return {"auth": "pubkey"} | certificate | named
    kind = {"auth": f"eap-{auth.method}"}
    if not is_local:
        return kind | {"eap_id": "%any"} | (certificate if auth.method == "tls" else {}) | named
    if auth.method == "tls":
        server = {"aaa_id": auth.aaa_id} if auth.aaa_id else {}
        return kind | certificate | server | named
    return kind | {"eap_id": auth.user} | named


def _section(tree: Mapping[str, Any], depth: int) -> str:
    indent = "  " * depth
    lines = []
    for key, value in tree.items():
        if isinstance(value, Mapping):
            lines.append(f"{indent}{key} {{\n{_section(value, depth + 1)}{indent}}}\n")
        else:
            lines.append(f"{indent}{key} = {value}\n")
    return "".join(lines)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def parse_pretty(text: str) -> list[dict[str, Any]]:
    """Parse swanctl's `--pretty` listing: one mapping per event, nested sections, and lists."""
    events: list[dict[str, Any]] = []
    stack: list[Any] = []
    for raw in text.splitlines():
        line = raw.strip()
        if not line:
            continue
        if line in ("}", "]"):
            stack.pop()
        elif line.endswith("{"):
            name = line.removesuffix("{").strip()
            section: dict[str, Any] = {}
            if stack:
                stack[-1][name] = section
            else:
                events.append(section)
            stack.append(section)
        elif line.endswith("= ["):
            items: list[str] = []
            stack[-1][line.removesuffix("= [").strip()] = items
            stack.append(items)
        elif stack and isinstance(stack[-1], list):
            stack[-1].append(line)
        elif stack:
            key, _, value = line.partition("=")
            stack[-1][key.strip()] = value.strip()
    return events


def _sa(name: str, entry: Mapping[str, Any]) -> SwanSa:
    children = entry.get("child-sas", {})
    return SwanSa(
        name,
        int(entry["uniqueid"]),
        int(entry["version"]),
        str(entry["state"]),
        str(entry.get("local-host", "")),
        str(entry.get("remote-host", "")),
        int(entry.get("remote-port", 0)),
        str(entry.get("local-id", "")),
        str(entry.get("remote-id", "")),
        tuple(_child(child) for child in children.values()),
        tuple(entry.get("local-vips", []) or entry.get("remote-vips", [])),
    )


def _child(entry: Mapping[str, Any]) -> SwanChild:
    size = entry.get("encr-keysize")
    encryption = str(entry.get("encr-alg", "")) + (f"-{size}" if size else "")
    return SwanChild(
        str(entry["name"]),
        str(entry["state"]),
        str(entry.get("mode", "")),
        str(entry.get("spi-in", "")),
        str(entry.get("spi-out", "")),
        int(entry.get("bytes-in", 0)),
        int(entry.get("bytes-out", 0)),
        encryption,
        str(entry.get("integ-alg", "")),
    )


_STRONGSWAN_CONF = """charon-systemd {{
  load = {plugins}
  dh_exponent_ansi_x9_42 = no
  i_dont_care_about_security_and_use_aggressive_mode_psk = yes
  retransmit_timeout = 1.0
  retransmit_tries = 4
  plugins {{
    vici {{
      socket = unix://{socket}
    }}
    openssl {{
      load_legacy = yes
    }}
  }}
  filelog {{
    file {{
      path = {log}
      time_format = %b %e %T
      default = 1
      flush_line = yes
    }}
  }}
  {options}
}}
swanctl {{
  load = {tool_plugins}
}}
"""
