"""Libreswan's pluto in a namespace, from files that `tools/setup` has unpacked: its package
conflicts with strongSwan's. Without IPsec in the kernel it negotiates, and cannot install what it
has agreed.

`NewPluto` is of the release that `tools/peers` unpacks, with a stand-in for the kernel: it installs
SAs that carry nothing.
"""

from __future__ import annotations

import ipaddress
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from caravan.testbed.binary import TOP
from caravan.testbed.connection import Connection, Ppk, PublicKey, SharedKey
from caravan.testbed.host import Host
from caravan.testbed.peers import peer
from caravan.testbed.process import Completed

FILES = TOP / ".build/libreswan"
PROGRAMS = "/usr/libexec/ipsec"
READY_S = 15.0
RELEASE = "libreswan-5.2"


class Pluto:
    """A running pluto without connections; a context manager."""

    def __init__(self, host: Host) -> None:
        self.files = self._find_files()
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
        path = f"{self.files}/usr/sbin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
        configuration = str(self.directory / "ipsec.conf")
        nss = f"{self.folder}/nss"
        names = {"IPSEC_RUNDIR": str(self.runtime), "IPSEC_CONF": configuration}
        return names | {"PATH": path, "IPSEC_NSSDIR": nss, "IPSEC_CONFDDIR": str(self.folder)}

    def ipsec(self, *arguments: str, check: bool = True) -> Completed:
        """Run `ipsec` for this pluto."""
        argv = [f"{self.files}/usr/sbin/ipsec", *arguments]
        return self.host.run(argv, 30, self.environment, check=check, name="ipsec")

    def log(self) -> str:
        """Its log so far."""
        return self.process.stderr()

    def stop(self) -> None:
        """End it."""
        self.process.stop()
        shutil.rmtree(self.runtime, ignore_errors=True)

    def _find_files(self) -> Path:
        if not (FILES / "usr/libexec/ipsec/pluto").is_file():
            raise FileNotFoundError(f"no pluto in {FILES}; make setup brings it")
        return FILES

    def _is_ready(self) -> bool:
        return self.ipsec("whack", "--status", check=False).code == 0

    def _mount(self) -> None:
        """Its programs look for each other in one place; only this host sees them there."""
        self.host.run(["mount", "-t", "tmpfs", "none", "/usr/libexec"])
        self.host.run(["mkdir", PROGRAMS])
        self.host.run(["mount", "--bind", str(self.files / "usr/libexec/ipsec"), PROGRAMS])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


@dataclass(frozen=True)
class PlutoChild:
    """A child that pluto has installed in both directions."""

    number: int
    spi_in: str
    spi_out: str


class NewPluto(Pluto):
    """A running pluto of IKEv2 with one connection, which it waits for or initiates."""

    def __init__(
        self, host: Host, connection: Connection, local: str, remote: str, *more: str
    ) -> None:
        """`local`, `remote`: addresses; `remote` may be "%any". `more`: lines of its connection."""
        self.connection = connection
        super().__init__(host)
        self._import(connection)
        path = self.directory / "ipsec.conf"
        path.write_text(path.read_text() + conn_text(connection, local, remote, *more))
        self.ipsec("rereadsecrets")
        self.ipsec("add", connection.name)

    def initiate(self, *, check: bool = True) -> Completed:
        """Initiate the connection and wait for it; `CommandFailed` if it fails."""
        return self.ipsec("up", self.connection.name, check=check)

    def whack(self, *arguments: str, check: bool = True) -> Completed:
        """Give an order."""
        return self.ipsec("whack", *arguments, check=check)

    def impair(self, what: str) -> None:
        """Make it a bad peer."""
        self.whack("--impair", what)

    def ike_sas(self) -> list[int]:
        """The numbers of its IKE SAs that are established."""
        listing = self.whack("--showstates").stdout
        return [int(it) for it in re.findall(r"^#(\d+): .*\bESTABLISHED_IKE_SA\b", listing, re.M)]

    def children(self) -> list[PlutoChild]:
        """Its children."""
        listing = self.whack("--showstates").stdout
        found = re.findall(r"^#(\d+): .* esp\.(\w+)@\S+ esp\.(\w+)@", listing, re.M)
        # It leaves out leading zeros.
        return [PlutoChild(int(it), theirs.zfill(8), out.zfill(8)) for it, out, theirs in found]

    def wait_for_log(self, pattern: str, timeout_s: float = READY_S) -> re.Match[str]:
        """Wait until a line of the log matches."""
        found: list[re.Match[str]] = []

        def is_said() -> bool:
            found.extend(re.finditer(pattern, self.log()))
            return len(found) > 0

        self.process.wait_for(is_said, repr(pattern), timeout_s)
        return found[0]

    def _find_files(self) -> Path:
        return peer(RELEASE)

    def _import(self, connection: Connection) -> None:
        """Its certificate and authority into its database, its keys into its secrets."""
        secrets, auth = [], connection.auth
        if isinstance(auth, PublicKey):
            database = f"sql:{self.folder}/nss"
            bundle, password = self.directory / "own.p12", "of this test"
            argv = ["openssl", "pkcs12", "-export", "-in", str(auth.own.certificate)]
            argv += ["-inkey", str(auth.own.key), "-name", "own", "-out", str(bundle)]
            self.host.run([*argv, "-passout", f"pass:{password}"])
            self.host.run(["pk12util", "-i", str(bundle), "-d", database, "-W", password])
            trusted = ["certutil", "-A", "-n", "ca", "-t", "CT,,", "-d", database]
            self.host.run([*trusted, "-i", str(auth.authority.certificate)])
        if isinstance(auth, SharedKey):
            secrets.append(f': PSK "{auth.secret}"\n')
        if connection.ppk:
            secrets.append(f': PPKS "{connection.ppk.name}" "{connection.ppk.key}"\n')
        path = self.folder / "own.secrets"
        path.touch(0o600)
        path.write_text("".join(secrets))


def conn_text(connection: Connection, local: str, remote: str, *more: str) -> str:
    """A connection in ipsec.conf's words: left is its own end."""
    is_signed = isinstance(connection.auth, PublicKey)
    lines = [
        f"left={local}",
        f"right={remote}",
        "keyexchange=ikev2",
        f"authby={'rsa-sha2' if is_signed else 'secret'}",
        f"leftid=@{connection.local_id}",
        f"rightid=@{connection.remote_id}" if connection.remote_id else "rightid=%any",
        f"mobike={'yes' if connection.has_mobike else 'no'}",
        "leftupdown=%disabled",
        "rekey=no",
        "retransmit-timeout=10s",
    ]
    lines += ["leftcert=own", "leftsendcert=always", "rightca=%same"] if is_signed else []
    lines += [f"leftsubnet={connection.local_ts}"] if connection.local_ts else []
    lines += [f"rightsubnet={connection.remote_ts}"] if connection.remote_ts else []
    if connection.pool:
        network = ipaddress.ip_network(connection.pool)
        lines += [f"rightaddresspool={network[1]}-{network[-2]}"]
        lines += ["rightmodecfgclient=yes", "leftmodecfgserver=yes"]
    if connection.wants_address:
        lines += ["leftmodecfgclient=yes", "rightmodecfgserver=yes", "narrowing=yes"]
        lines += ["leftsubnet=0.0.0.0/0"]
    # Without a group the keys of a renewed child come from those of the IKE SA.
    lines += [] if ";" in _esp_words(connection.esp_proposals) else ["pfs=no"]
    if connection.ppk:
        lines += ppk_lines(connection.ppk)
    lines += [f"ike={_ike_words(connection.proposals)}"] if connection.proposals else []
    lines += [f"esp={_esp_words(connection.esp_proposals)}"]
    return "".join([f"\nconn {connection.name}\n", *(f"\t{line}\n" for line in [*lines, *more])])


def ppk_lines(ppk: Ppk) -> list[str]:
    """The lines of a post-quantum pre-shared key."""
    return [f"ppk={'insist' if ppk.is_required else 'propose'}", f'ppk-ids="{ppk.name}"']


_WORDS = {
    "aes128gcm16": "aes_gcm128",
    "aes256gcm16": "aes_gcm256",
    "aes128": "aes128",
    "aes256": "aes256",
    "chacha20poly1305": "chacha20_poly1305",
    "sha1": "sha1",
    "sha256": "sha2_256",
    "sha384": "sha2_384",
    "sha512": "sha2_512",
    "prfsha256": "sha2_256",
    "prfsha384": "sha2_384",
    "prfsha512": "sha2_512",
    "curve25519": "dh31",
    "ecp256": "dh19",
    "ecp384": "dh20",
    "ecp521": "dh21",
    "modp2048": "dh14",
    "modp3072": "dh15",
}
"""Words of swanctl's proposals in Libreswan's."""


def _ike_words(proposals: str) -> str:
    """Encryption, integrity or PRF, and group."""
    written = []
    for proposal in proposals.split(","):
        *rest, group = [_WORDS[word] for word in proposal.split("-")]
        written.append(f"{'-'.join(rest)};{group}")
    return ",".join(written)


def _esp_words(proposals: str) -> str:
    """Encryption and integrity, which AEAD does not have, and perhaps a group."""
    written = []
    for proposal in proposals.split(","):
        words = [_WORDS[word] for word in proposal.split("-")]
        groups = [word for word in words if word.startswith("dh")]
        written.append(";".join(["-".join(it for it in words if it not in groups), *groups]))
    return ",".join(written)
