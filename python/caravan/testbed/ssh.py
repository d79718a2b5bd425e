"""A session of SSH between two hosts: Dropbear's server and client.

The server runs one program for the session, which sends back each line that it gets. Left out:
passwords; the client has a key.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from caravan.testbed.host import Host
from caravan.testbed.process import Process

READY_S = 10.0


@dataclass
class SshSession:
    """A client that is logged in."""

    process: Process
    _lines: list[str] = field(default_factory=list)

    def answers(self, line: str, timeout_s: float = READY_S) -> None:
        """Send a line, and wait until it and all before it have come back, each once."""
        self._lines.append(line)
        self.process.tell(line)
        expected = "".join(f"{one}\n" for one in self._lines)
        self.process.wait_for(
            lambda: self.process.stdout() == expected, f"the echo of {line!r}", timeout_s
        )


@contextlib.contextmanager
def ssh_session(client: Host, server: Host, address: str) -> Iterator[SshSession]:
    """Log in at a server with this address; ends with the context."""
    home = server.logs / "ssh"
    keys = home / ".ssh"
    keys.mkdir(parents=True, mode=0o700)
    home.chmod(0o700)
    make = ["dropbearkey", "-t", "ed25519", "-f"]
    server.run([*make, str(home / "host.key")])
    shown = client.run([*make, str(client.logs / "ssh.key")]).stdout
    public = next(line for line in shown.splitlines() if line.startswith("ssh-"))
    (keys / "authorized_keys").write_text(f"{public}\n")
    (keys / "authorized_keys").chmod(0o600)
    # The host has an /etc of its own.
    server.run(["sed", "-i", f"s|^root:.*|root:x:0:0::{home}:/bin/sh|", "/etc/passwd"])
    argv = ["dropbear", "-F", "-E", "-s", "-r", str(home / "host.key"), "-p", f"{address}:22"]
    listening = server.popen([*argv, "-P", str(home / "pid")])
    listening.wait_for(lambda: "Not backgrounding" in listening.stderr(), "SSH server", READY_S)
    login = ["dbclient", "-y", "-y", "-i", str(client.logs / "ssh.key"), f"root@{address}", "cat"]
    session = SshSession(client.popen(login, {"HOME": str(client.logs)}, is_told=True))
    session.answers("begin")
    yield session
