"""Certificates for tests, with one small interface: `Authority`.

`CaravanAuthority` makes them with `caravan pki`, as a user does. `OpensslAuthority` makes what no
authority should and `caravan pki` cannot: expired certificates and wrong usages. `SwanAuthority`
stands for another party: keys and certificates of strongSwan's `pki`, in PEM.
"""

from __future__ import annotations

import contextlib
import enum
import json
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from caravan.testbed.binary import caravan_binary
from caravan.testbed.errors import NamespaceError

KEY_BITS = 2048


class Key(enum.Enum):
    """The kind of a private key, as `openssl req -newkey` has it.

    RSA-1024 is legacy: programs take it only with `method.legacy_openssl`.
    """

    RSA_1024 = ("rsa:1024",)
    RSA_2048 = (f"rsa:{KEY_BITS}",)
    P256 = ("ec", "-pkeyopt", "ec_paramgen_curve:P-256")
    P384 = ("ec", "-pkeyopt", "ec_paramgen_curve:P-384")
    P521 = ("ec", "-pkeyopt", "ec_paramgen_curve:P-521")
    ED25519 = ("ed25519",)


@dataclass(frozen=True)
class Credentials:
    """A certificate and its private key, PEM files, and the subject as IKE prints it.

    `intermediates`: the authorities between it and the one that peers trust, from below.
    """

    certificate: Path
    key: Path
    subject: str
    intermediates: tuple[Path, ...] = ()


class Authority(Protocol):
    """The testbed's interface of a certificate authority."""

    @property
    def certificate(self) -> Path:
        """The authority's own certificate, PEM."""

    def issue(self, name: str) -> Credentials:
        """A certificate with the subject `CN=name` and `name` as its DNS name."""

    def revoke(self, credentials: Credentials) -> Path:
        """Revoke a certificate; the path of the new revocation list, PEM."""


@contextlib.contextmanager
def passing_folder(directory: Path) -> Iterator[Path]:
    """A temporary folder for the keys of one run."""
    with tempfile.TemporaryDirectory(prefix="pki-", dir=directory) as folder:
        yield Path(folder) / "pki"


class CaravanAuthority:
    """An authority in its own directory, made by `caravan pki`."""

    def __init__(self, directory: Path, name: str = "Caravan test CA") -> None:
        self.directory = directory
        self._pki("ca", "--subject", f"CN={name}", "--out", str(directory), "--bits", str(KEY_BITS))

    @property
    def certificate(self) -> Path:
        """The authority's own certificate, PEM."""
        return self.directory / "ca.pem"

    @property
    def revocations(self) -> Path:
        """Its revocation list, PEM; it exists from the beginning."""
        return self.directory / "crl.pem"

    def issue(self, name: str, *, bits: int = KEY_BITS, others: Sequence[str] = ()) -> Credentials:
        """A certificate with the subject `CN=name` and `name` as its DNS name, for a new key.

        `others`: further names, such as mail addresses. Each has a folder of its own, because a
        name may be issued again.
        """
        count = len(json.loads((self.directory / "index.json").read_text())["issued"])
        folder = self.directory / f"issued-{count}"
        self._pki(
            *("issue", "--ca", str(self.directory), "--name", name, "--out", str(folder)),
            *("--bits", str(bits)),
            *(word for other in others for word in ("--san", other)),
        )
        return Credentials(folder / f"{name}.pem", folder / f"{name}.key", f"CN={name}")

    def bundle(self, name: str, output: Path, arguments: Sequence[str]) -> Path:
        """A client's ready file; `arguments` are those of `caravan pki issue --bundle`."""
        self._pki(
            *("issue", "--ca", str(self.directory), "--name", name, "--out", str(output)),
            *("--bundle", *arguments),
        )
        return output / name / f"{name}.toml"

    def profile(
        self, device: str, name: str, output: Path, arguments: Sequence[str]
    ) -> tuple[Path, str]:
        """A device's profile: its folder, and the password of its certificate, which is shown once;
        empty for the profile of a user. `arguments` are those of `caravan pki issue --profile`."""
        told = _run(
            [
                *(
                    str(caravan_binary()),
                    "pki",
                    "issue",
                    "--ca",
                    str(self.directory),
                    "--name",
                    name,
                ),
                *("--out", str(output), "--profile", device, *arguments),
            ]
        )
        shown = re.search(r"^password of the certificate: (\S+)$", told, re.M)
        return output / name, shown[1] if shown else ""

    def revoke(self, credentials: Credentials) -> Path:
        """Revoke a certificate; the path of the new revocation list, PEM."""
        self._pki("revoke", "--ca", str(self.directory), str(credentials.certificate))
        return self.revocations

    def _pki(self, *arguments: str) -> None:
        _run([str(caravan_binary()), "pki", *arguments])


class SwanAuthority:
    """An authority by strongSwan's `pki`, whose private keys are PKCS #1."""

    def __init__(self, directory: Path, name: str = "swan CA") -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.subject = f"C=CH, O=Test, CN={name}"
        self.intermediates: tuple[Path, ...] = ()
        self._key("ca")
        self._pki("ca.pem", ["--self", "--ca", "--in", "ca.key", "--dn", self.subject])

    def subordinate(self, name: str) -> SwanAuthority:
        """An authority certified by this one."""
        below = SwanAuthority(self.directory / name, name)
        signer = ["--cacert", "ca.pem", "--cakey", "ca.key"]
        request = ["--type", "priv", "--in", f"{name}/ca.key", "--dn", below.subject]
        self._pki(f"{name}/ca.pem", ["--issue", "--ca", *signer, *request])
        below.intermediates = (below.certificate, *self.intermediates)
        return below

    @property
    def certificate(self) -> Path:
        """The authority's own certificate, PEM."""
        return self.directory / "ca.pem"

    def issue(self, name: str) -> Credentials:
        """A certificate with the subject `C=CH, CN=name` and `name` as its DNS name."""
        self._key(name)
        self._pki(f"{name}.pub", ["--pub", "--in", f"{name}.key"])
        signer = ["--cacert", "ca.pem", "--cakey", "ca.key"]
        names = ["--dn", f"C=CH, CN={name}", "--san", name]
        self._pki(f"{name}.pem", ["--issue", *signer, "--in", f"{name}.pub", *names])
        stem, subject = self.directory / name, f"C=CH, CN={name}"
        certificate, key = Path(f"{stem}.pem"), Path(f"{stem}.key")
        return Credentials(certificate, key, subject, self.intermediates)

    def request(self, name: str) -> Path:
        """A certificate request for a new key, `name.key` beside it."""
        self._key(name)
        names = ["--dn", f"C=CH, CN={name}", "--san", name]
        self._pki(f"{name}.csr", ["--req", "--type", "priv", "--in", f"{name}.key", *names])
        return self.directory / f"{name}.csr"

    def revoke(self, credentials: Credentials) -> Path:
        """Revoke a certificate; the path of the new revocation list, PEM."""
        signer = ["--cacert", "ca.pem", "--cakey", "ca.key"]
        self._pki("ca.crl", ["--signcrl", *signer, "--cert", str(credentials.certificate)])
        return self.directory / "ca.crl"

    def _key(self, name: str) -> None:
        (self.directory / f"{name}.key").touch(0o600)
        self._pki(f"{name}.key", ["--gen", "--type", "rsa", "--size", str(KEY_BITS)])

    def _pki(self, output: str, arguments: Sequence[str]) -> None:
        pem = _run(["pki", *arguments, "--outform", "pem"], self.directory)
        (self.directory / output).write_text(pem)


class OpensslAuthority:
    """An authority in its own directory, made by the openssl program; `key`: of all its keys."""

    def __init__(self, directory: Path, name: str = "openssl CA", key: Key = Key.RSA_2048) -> None:
        self.directory = directory
        self.key = key
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "index.txt").touch()
        (directory / "serial").write_text("1000\n")
        (directory / "crlnumber").write_text("1000\n")
        # Ed25519 hashes by itself.
        digest = "default" if key is Key.ED25519 else "sha256"
        text = _CONFIGURATION.format(directory=directory, digest=digest)
        (directory / "openssl.cnf").write_text(text)
        files = ["-keyout", "ca.key", "-out", "ca.pem", "-extensions", "authority"]
        self._run(["req", "-x509", "-days", "30", *self._new_key(name), *files])

    @property
    def certificate(self) -> Path:
        """The authority's own certificate, PEM."""
        return self.directory / "ca.pem"

    def issue(
        self,
        name: str,
        *,
        valid_from: timedelta = timedelta(days=-1),
        valid_until: timedelta = timedelta(days=10),
        extended_usage: str | None = None,
    ) -> Credentials:
        """A certificate for `name`; times are relative to the present.

        `extended_usage` is in openssl's spelling, such as `codeSigning`; absent by default.
        """
        stem = name.replace("/", "_")
        usage = f"extendedKeyUsage = critical, {extended_usage}\n" if extended_usage else ""
        (self.directory / f"{stem}.ext").write_text(
            f"basicConstraints = CA:FALSE\nsubjectAltName = DNS:{name}\n"
            f"keyUsage = critical, digitalSignature\n{usage}"
        )
        files = ["-keyout", f"{stem}.key", "-out", f"{stem}.csr"]
        self._run(["req", "-new", *self._new_key(name), *files])
        files = ["-in", f"{stem}.csr", "-out", f"{stem}.pem", "-extfile", f"{stem}.ext"]
        dates = ["-startdate", _asn1_time(valid_from), "-enddate", _asn1_time(valid_until)]
        self._run(["ca", "-batch", "-notext", *files, *dates])
        path = self.directory / stem
        return Credentials(
            path.with_name(f"{stem}.pem"), path.with_name(f"{stem}.key"), f"CN={name}"
        )

    def revoke(self, credentials: Credentials) -> Path:
        """Revoke a certificate; the path of the new revocation list, PEM."""
        self._run(["ca", "-revoke", str(credentials.certificate)])
        self._run(["ca", "-gencrl", "-out", "ca.crl"])
        return self.directory / "ca.crl"

    def _new_key(self, name: str) -> list[str]:
        return ["-newkey", *self.key.value, "-nodes", "-subj", f"/CN={name}"]

    def _run(self, arguments: list[str]) -> None:
        command, *rest = arguments
        _run(["openssl", command, "-config", "openssl.cnf", *rest], self.directory)


def _run(argv: Sequence[str], directory: Path | None = None) -> str:
    done = subprocess.run(argv, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NamespaceError(f"{' '.join(argv)}: {done.stderr.strip()}")
    return done.stdout


def _asn1_time(from_present: timedelta) -> str:
    return (datetime.now(UTC) + from_present).strftime("%Y%m%d%H%M%SZ")


_CONFIGURATION = """[req]
distinguished_name = name
prompt = no
[name]
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[ca]
default_ca = authority_files
[authority_files]
database = {directory}/index.txt
serial = {directory}/serial
crlnumber = {directory}/crlnumber
new_certs_dir = {directory}
certificate = {directory}/ca.pem
private_key = {directory}/ca.key
default_md = {digest}
default_days = 10
default_crl_days = 10
unique_subject = no
policy = any
[any]
commonName = supplied
"""
