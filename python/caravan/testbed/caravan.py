"""The program under test on hosts of a testbed: gateways, clients, and the roles of Mobile IPv4.

Only this module of the Python code knows the daemon's command line, TOML dialect, status and log.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from caravan.testbed.binary import caravan_binary
from caravan.testbed.connection import Connection, Eap, PublicKey
from caravan.testbed.errors import TimedOut
from caravan.testbed.host import Host
from caravan.testbed.process import CommandFailed, Completed

READY_S = 15.0
HANDSHAKE_EVENT = "handshake_message"
LOG_LEVEL = "info,daemon::run::report=debug"
"""Includes a line for each message of a key exchange."""


@dataclass(frozen=True)
class HandshakeMessage:
    """One message of a key exchange in the daemon's log; `time_s` since the epoch.

    `number` counts from 1; None: the exchange has no numbers, such as "config set". `direction` is
    `sent` or `received`; `size_bytes` counts UDP payload in all its `datagrams`.
    """

    time_s: float
    exchange: str
    number: int | None
    direction: str
    size_bytes: int
    datagrams: int
    payloads: str


class Daemon:
    """One running `caravan COMMAND -c FILE`; a context manager."""

    def __init__(
        self,
        host: Host,
        command: str,
        file: Path,
        *,
        options: Sequence[str] = (),
        log_level: str = LOG_LEVEL,
        instance: str = "",
    ) -> None:
        """`instance`: another name for each process of a host that must not share directories."""
        self.host = host
        self.file = file
        self._instance = instance
        argv = [str(caravan_binary()), command, "-c", str(file)]
        log = ["--log-format", "json", "--log-level", log_level]
        own = environment(host, instance)
        self.process = host.popen([*argv, *log, *options], own, name="caravan")

    def is_ready(self) -> bool:
        """Whether it answers `status`."""
        return self.try_status() is not None

    def wait_ready(self, timeout_s: float = READY_S) -> Self:
        """Wait until it is ready."""
        self.process.wait_for(self.is_ready, "readiness", timeout_s)
        return self

    def status(self) -> dict[str, Any]:
        """`caravan status --json`."""
        done = order(self.host, "status", "--json", instance=self._instance).check()
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    def try_status(self) -> dict[str, Any] | None:
        """The status, or None while the control socket is missing."""
        try:
            return self.status()
        except CommandFailed:
            return None

    def reload(self) -> Completed:
        """`caravan reload`: read configuration and revocation lists again."""
        return order(self.host, "reload", instance=self._instance).check()

    def cpu_s(self) -> float:
        """CPU seconds of the daemon, all threads."""
        return self.process.cpu_s()

    def steward(self) -> int:
        """The process number of its host steward."""
        return int(self.status()["process"]["steward"])

    def crash(self) -> None:
        """Kill both processes at once, as a power failure or the kernel does."""
        steward = self.steward()
        os.kill(steward, signal.SIGSTOP)
        self.process.signal(signal.SIGKILL)
        self.process.wait(5)
        os.kill(steward, signal.SIGKILL)

    def stop(self) -> Completed:
        """SIGTERM and wait: the daemon sends deletes to its peers."""
        return self.process.stop()

    def events(self) -> Iterator[tuple[float, dict[str, Any]]]:
        """The daemon's log so far: seconds since the epoch, and the fields of each line."""
        for line in self.process.stderr().splitlines():
            if not line.startswith("{"):
                continue
            try:
                entry = json.loads(line)
            except json.JSONDecodeError:
                # The last line may be incomplete.
                continue
            stamp = str(entry.get("timestamp", "1970-01-01T00:00:00Z"))
            moment = datetime.fromisoformat(stamp).timestamp()
            yield moment, entry.get("fields", entry)

    def wait_for_event(self, words: str, timeout_s: float = READY_S) -> str:
        """Wait for a line of the log that contains these words, and return it."""
        found: list[str] = []

        def is_said() -> bool:
            found.extend(
                message
                for message in (str(fields.get("message", "")) for _, fields in self.events())
                if words in message
            )
            return len(found) > 0

        self.process.wait_for(is_said, repr(words), timeout_s)
        return found[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Caravan(Daemon):
    """A gateway, or a client with one connection."""

    def __init__(
        self,
        host: Host,
        connection: Connection,
        *,
        others: Sequence[Connection] = (),
        options: Sequence[str] = (),
        file: Path | None = None,
        log_level: str = LOG_LEVEL,
    ) -> None:
        """`file`: a ready configuration; then only name and role of `connection` are used.

        `others`: further connections of a gateway, with the same credentials.
        """
        self.connection = connection
        self.is_gateway = not connection.remote_addrs
        command = "gateway" if self.is_gateway else "up"
        file = file or write_files(host, connection, *others)
        super().__init__(host, command, file, options=options, log_level=log_level)

    def is_ready(self) -> bool:
        """Whether a gateway is running, or a client's tunnel is up, and its routes are there."""
        status = self.try_status()
        if status is None:
            return False
        return self.is_gateway or self._is_carrying(status)

    def is_established(self, status: Mapping[str, Any] | None = None) -> bool:
        """Whether any connection has a child that carries packets."""
        return len(self.children(status)) > 0

    def _is_carrying(self, status: Mapping[str, Any] | None = None) -> bool:
        """Whether it is established, and the host has its routes."""
        known = self.status() if status is None else status
        return self.is_established(known) and not known["process"]["is_setting_up"]

    def children(self, status: Mapping[str, Any] | None = None) -> list[Mapping[str, Any]]:
        """The installed children of every connection in a status."""
        known = self.status() if status is None else status
        sessions = [
            session for entry in known["connections"] for session in entry.get("sessions", [])
        ]
        return [child for session in sessions for child in session.get("children", [])]

    def is_resumed(self) -> bool:
        """Whether each session goes on from a lost one, and there is one."""
        status = self.status()
        sessions = [one for entry in status["connections"] for one in entry.get("sessions", [])]
        is_up = self.is_established(status)
        return is_up and all(one["resumed"] for one in sessions)

    def down(self) -> Completed:
        """`caravan down`: end the connection and remove its blocking routes."""
        return order(self.host, "down", self.connection.name).check()

    def wait_until(self, state: bool, timeout_s: float = READY_S) -> None:
        """Wait until the tunnel carries packets (`state`) or is gone."""
        deadline = time.monotonic() + timeout_s
        is_up = self._is_carrying if state else self.is_established
        while is_up() is not state:
            if time.monotonic() > deadline:
                raise TimedOut(f"the tunnel did not change in {timeout_s} s: {self.status()}")
            time.sleep(0.05)

    def messages(self) -> list[HandshakeMessage]:
        """Every message of IKE so far, in order."""
        return [
            read_message(moment, fields)
            for moment, fields in self.events()
            if fields.get("message") == HANDSHAKE_EVENT
        ]

    def handshake(self) -> list[HandshakeMessage]:
        """The messages of the key exchange so far, in order; from the ticket on, if it goes on from
        a lost session."""
        found = [message for message in self.messages() if message.exchange != "informational"]
        tickets = (at for at, message in enumerate(found) if message.exchange == "resume")
        return found[next(tickets, 0) :]


def without_repeats(messages: Sequence[HandshakeMessage]) -> list[HandshakeMessage]:
    """The same without a message equal to the one before it: an end repeats a message whose answer
    is late, and an answer that is asked for again."""
    befores = [None, *messages]
    return [
        message
        for before, message in zip(befores, messages, strict=False)
        if before is None or replace(before, time_s=message.time_s) != message
    ]


def order(host: Host, *arguments: str, timeout_s: float = 30, instance: str = "") -> Completed:
    """Run `caravan` with these arguments on a host until it ends; ignores its exit code."""
    argv = [str(caravan_binary()), *arguments]
    own = environment(host, instance)
    return host.run(argv, timeout_s, own, check=False, name="caravan-order")


def environment(host: Host, instance: str = "") -> dict[str, str]:
    """The environment of every `caravan` on a host: directories of its own, and of `instance`."""
    # The path of a Unix socket has at most 107 bytes, so it is not below the output directory.
    runtime = Path("/run") / f"caravan-{host.namespace}{instance and f'-{instance}'}"
    runtime.mkdir(mode=0o755, exist_ok=True)
    state = runtime / "state"
    return {"CARAVAN_RUNTIME_DIR": str(runtime), "CARAVAN_STATE_DIR": str(state)}


def write_files(host: Host, connection: Connection, *others: Connection) -> Path:
    """Write the configuration and its keys into a folder of the host; return the file's path."""
    directory = host.logs / "caravan"
    directory.mkdir(exist_ok=True)
    write_credentials(directory, connection)
    path = directory / "caravan.toml"
    path.touch(0o600)
    path.write_text(caravan_toml(connection, *others))
    return path


def write_credentials(directory: Path, connection: Connection) -> None:
    """Replace certificate, key and authority."""
    auth = connection.auth
    if connection.ppk:
        file = directory / "ppk"
        file.touch(0o600)
        file.write_text(f"{connection.ppk.key}\n")
    if isinstance(auth, Eap):
        if not connection.remote_addrs and auth.user and not auth.servers:
            add_user(directory / "users", auth.user, auth.password)
        if auth.servers:
            secret = directory / "radius.secret"
            secret.touch(0o600)
            secret.write_text(f"{auth.secret}\n")
        auth = auth.certified
    if isinstance(auth, PublicKey):
        chain = (auth.own.certificate, *auth.own.intermediates)
        (directory / "own.pem").write_text("".join(path.read_text() for path in chain))
        shutil.copy(auth.own.key, directory / "own.key")
        shutil.copy(auth.authority.certificate, directory / "ca.pem")
        (directory / "own.key").chmod(0o600)


def add_user(file: Path, user: str, password: str) -> None:
    """Add a user of EAP, or give one another password."""
    command = [str(caravan_binary()), "user", "add", user, "--file", str(file)]
    subprocess.run(command, input=f"{password}\n", text=True, check=True, capture_output=True)


def remove_user(file: Path, user: str) -> None:
    """Remove a user of EAP."""
    command = [str(caravan_binary()), "user", "remove", user, "--file", str(file)]
    subprocess.run(command, check=True, capture_output=True)


def read_message(moment: float, fields: Mapping[str, Any]) -> HandshakeMessage:
    """One logged message."""
    number = fields.get("number")
    return HandshakeMessage(
        moment,
        str(fields["exchange"]),
        None if number is None else int(number),
        "sent" if fields["is_sent"] in (True, "true") else "received",
        int(fields["bytes"]),
        int(fields["datagrams"]),
        str(fields["payloads"]),
    )


def caravan_toml(connection: Connection, *others: Connection) -> str:
    """The text of the daemon's configuration; each of several connections has its own pool."""
    if not others:
        return _connection(connection, "inner")
    pools = ((each, f"inner-{each.name}") for each in (connection, *others))
    return "".join(_connection(each, pool) for each, pool in pools)


def _connection(connection: Connection, inner: str) -> str:
    name, child = connection.name, connection.child
    any_address = "::" if ":" in connection.remote_ts else "0.0.0.0"
    settings: dict[str, Any] = {
        "version": connection.version,
        "aggressive": connection.is_aggressive if connection.version == 1 else None,
        "proposals": connection.proposals.split(",") if connection.proposals else None,
        "remote_addrs": connection.remote_addrs.replace(",", " ").split() or None,
        "vips": [any_address] if connection.wants_address else None,
        "pools": [inner] if connection.pool else None,
        "encap": connection.is_encapsulated,
        "mobike": None if connection.has_mobike else False,
        "fragmentation": None if connection.has_fragments else False,
        "childless": connection.childless or None,
        "crash_detection": connection.crash_detection or None,
        "resumption": connection.resumption or None,
        "redirect": None if connection.redirect is None else list(connection.redirect),
        "ppk_id": connection.ppk.name if connection.ppk else None,
        "ppk_file": "ppk" if connection.ppk else None,
        "ppk_required": connection.ppk.is_required if connection.ppk else None,
        "legacy": connection.is_legacy,
        "rsa_sha1": connection.takes_rsa_sha1 or None,
        "start": connection.start or None,
        "on_failure": connection.on_failure or None,
        "rekey_time": _seconds(connection.rekey_s),
        "dpd_delay": _seconds(connection.dpd_s),
        "dpd_timeout": _seconds(connection.dpd_timeout_s),
        "local": _end(connection, is_local=True),
        "remote": _end(connection, is_local=False),
    }
    suites = {"ah_proposals": connection.ah_proposals, "esp_proposals": connection.esp_proposals}
    if connection.ah_proposals and not connection.is_layered:
        del suites["esp_proposals"]
    selectors: dict[str, Any] = {
        "mode": connection.mode,
        "local_ts": connection.local_ts.split(",") if connection.local_ts else None,
        "remote_ts": connection.remote_ts.split(",") if connection.remote_ts else None,
        **{key: words.replace(",", " ").split() for key, words in suites.items() if words},
        "ah_around_esp": connection.is_layered or None,
        "rekey_time": _seconds(connection.child_rekey_s),
    }
    text = _table(f"connections.{name}", settings)
    text += _table(f"connections.{name}.children.{child}", selectors)
    if isinstance(connection.auth, Eap) and connection.auth.servers:
        servers = {"servers": list(connection.auth.servers), "secret_file": "radius.secret"}
        text += _table("radius", servers)
    if connection.pool:
        pool: dict[str, Any] = {"addrs": connection.pool}
        pool |= {"dns": ["10.10.0.53"]} if connection.mode == "tunnel" else {}
        text += _table(f"pools.{inner}", pool)
    for one in connection.publish:
        text += f'[[publish]]\nprotocol = "{one.protocol}"\nport = {one.port}\n'
        text += f'to = "{one.target}"\n'
        text += "\n" if one.is_masqueraded else "masquerade = false\n\n"
    return text


def _end(connection: Connection, *, is_local: bool) -> dict[str, Any]:
    auth = connection.auth
    if isinstance(auth, Eap):
        return _eap_end(connection, auth, is_local=is_local)
    if not isinstance(auth, PublicKey):
        end: dict[str, Any] = {"auth": "psk", "secret": auth.secret}
    elif is_local:
        end = {"auth": "pubkey", "certs": ["own.pem"], "key": "own.key"}
    else:
        end = {"auth": "pubkey", "cacerts": ["ca.pem"]}
    identity = connection.local_id if is_local else connection.remote_id or "*"
    return end | ({"id": identity} if identity else {})


def _eap_end(connection: Connection, auth: Eap, *, is_local: bool) -> dict[str, Any]:
    is_client = bool(connection.remote_addrs)
    identity = connection.local_id if is_local else connection.remote_id
    named = {"id": identity} if identity else {}
    if is_local != is_client:
        # The gateway.
        own: dict[str, Any] = (
            {"certs": ["own.pem"], "key": "own.key"} if is_local else {"cacerts": ["ca.pem"]}
        )
        return {"auth": "eap-tls" if auth.is_alone else "pubkey"} | own | named
    if is_local:
        kind = f"eap-{auth.method}"
        password = {"eap_id": auth.user, "secret": auth.password}
        certified = {"certs": ["own.pem"], "key": "own.key"}
        own = certified if auth.method == "tls" else password
        server = {"aaa_id": auth.aaa_id} if auth.aaa_id else {}
        return {"auth": kind} | own | server | named
    kind = "eap" if auth.method == "any" else f"eap-{auth.method}"
    users = {"users": "users"} if auth.method in ("mschapv2", "any") else {}
    authority = {"cacerts": ["ca.pem"]} if auth.method in ("tls", "any") else {}
    return {"auth": kind} | users | authority | named


def _seconds(value: int | None) -> str | None:
    return None if value is None else f"{value}s"


def toml(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """The text of a configuration with these tables; a value None leaves its key out."""
    return "".join(_table(name, settings) for name, settings in tables.items())


def _table(name: str, settings: Mapping[str, Any]) -> str:
    lines = [f"{key} = {_toml(value)}" for key, value in settings.items() if value is not None]
    return f"[{name}]\n" + "\n".join(lines) + "\n\n"


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    # JSON's booleans, numbers and basic strings are valid TOML.
    return json.dumps(value, ensure_ascii=False)
