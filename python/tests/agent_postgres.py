"""A private PostgreSQL for the tests of tunnel agents."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

SERVERS = Path("/usr/lib/postgresql")
SLOWEST_S = 60.0
"""How long the server may take to start."""
AS_NOBODY = ["unshare", "--user", "--map-user=65534", "--map-group=65534"]
"""PostgreSQL refuses to run as root: in a user namespace we are somebody else, with our files."""
AS_ONE = ["--ipc", "--pid", "--fork", "--kill-child=KILL"]
"""All of its processes end at once, with their shared memory, as at a loss of power."""


@dataclass
class Postgres:
    """A server of our own on a Unix socket, and on loopback with TLS."""

    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"postgresql:///postgres?host={self.folder}&user=postgres"

    def program(self, name: str) -> str:
        newest = max(SERVERS.iterdir(), key=lambda path: int(path.name))
        return str(newest / "bin" / name)

    def make(self) -> None:
        argv = [self.program("initdb"), "--pgdata", str(self.folder / "data"), "--auth=trust"]
        argv += ["--username=postgres", "--encoding=UTF8", "--no-locale", "--no-sync"]
        subprocess.run([*AS_NOBODY, *argv], check=True, stdout=subprocess.DEVNULL)

    def start(self) -> None:
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.folder),
            "max_connections": "50",
            **self.settings,
        }
        argv = [self.program("postgres"), "-D", str(self.folder / "data")]
        for name, value in settings.items():
            argv += ["-c", f"{name}={value}"]
        log = (self.folder / "log").open("ab")
        with log:
            self.process = subprocess.Popen([*AS_NOBODY, *AS_ONE, *argv], stdout=log, stderr=log)
        ready = [self.program("pg_isready"), "-q", "-h", str(self.folder), "-U", "postgres"]
        deadline = time.monotonic() + SLOWEST_S
        while subprocess.run(ready, check=False).returncode != 0:
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.05)

    def said(self) -> str:
        return (self.folder / "log").read_text()

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        # Its socket is refused once the last of its processes is gone.
        ready = [self.program("pg_isready"), "-q", "-h", str(self.folder), "-U", "postgres"]
        while subprocess.run(ready, check=False).returncode != 2:
            time.sleep(0.01)


@contextlib.contextmanager
def postgres() -> Iterator[Postgres]:
    """A running server, whose folder is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="caravan-postgres-") as folder:
        server = Postgres(Path(folder))
        server.make()
        server.start()
        try:
            yield server
        finally:
            if server.process is not None:
                server.kill()
