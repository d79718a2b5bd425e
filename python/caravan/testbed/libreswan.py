"""Libreswan's pluto in a namespace, from files that `tools/setup` has unpacked: its package
conflicts with strongSwan's. Without IPsec in the kernel it negotiates, and cannot install what it
has agreed.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Self

from caravan.testbed.binary import TOP
from caravan.testbed.host import Host
from caravan.testbed.process import Completed

FILES = TOP / ".build/libreswan"
PROGRAMS = "/usr/libexec/ipsec"
READY_S = 15.0


class Pluto:
    """A running pluto without connections; a context manager."""

    def __init__(self, host: Host) -> None:
        if not (FILES / "usr/libexec/ipsec/pluto").is_file():
            raise FileNotFoundError(f"no pluto in {FILES}; make setup brings it")
        self.host = host
        self.directory = host.logs / "libreswan"
        self.folder = self.directory / "ipsec.d"
        (self.folder / "nss").mkdir(parents=True)
        # The path of a Unix socket has at most 107 bytes.
        self.runtime = Path("/run") / f"{host.namespace}-pluto"
        self.runtime.mkdir()
        self._mount()
        database = f"sql:{self.folder}/nss"
        host.run(["certutil", "-N", "-d", database, "--empty-password"])
        secrets, configuration = self.directory / "ipsec.secrets", self.directory / "ipsec.conf"
        secrets.write_text(f"include {self.folder}/*.secrets\n")
        configuration.write_text("config setup\n\tuniqueids=no\n\tikev1-policy=accept\n")
        argv = [f"{PROGRAMS}/pluto", "--nofork", "--stderrlog", "--nhelpers", "0"]
        argv += ["--config", str(configuration), "--secretsfile", str(secrets)]
        argv += ["--nssdir", f"{self.folder}/nss", "--ipsecdir", str(self.folder)]
        self.process = host.popen([*argv, "--rundir", str(self.runtime)], name="pluto")
        self.process.wait_for(self._is_ready, "control socket", READY_S)

    @property
    def environment(self) -> dict[str, str]:
        """For the commands of this pluto."""
        path = f"{FILES}/usr/sbin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
        configuration = str(self.directory / "ipsec.conf")
        nss = f"{self.folder}/nss"
        names = {"IPSEC_RUNDIR": str(self.runtime), "IPSEC_CONF": configuration}
        return names | {"PATH": path, "IPSEC_NSSDIR": nss, "IPSEC_CONFDDIR": str(self.folder)}

    def ipsec(self, *arguments: str, check: bool = True) -> Completed:
        """Run `ipsec` for this pluto."""
        argv = [f"{FILES}/usr/sbin/ipsec", *arguments]
        return self.host.run(argv, 30, self.environment, check=check, name="ipsec")

    def log(self) -> str:
        """Its log so far."""
        return self.process.stderr()

    def stop(self) -> None:
        """End it."""
        self.process.stop()
        shutil.rmtree(self.runtime, ignore_errors=True)

    def _is_ready(self) -> bool:
        return self.ipsec("whack", "--status", check=False).code == 0

    def _mount(self) -> None:
        """Its programs look for each other in one place; only this host sees them there."""
        self.host.run(["mount", "-t", "tmpfs", "none", "/usr/libexec"])
        self.host.run(["mkdir", PROGRAMS])
        self.host.run(["mount", "--bind", str(FILES / "usr/libexec/ipsec"), PROGRAMS])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
