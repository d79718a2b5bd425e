"""Certificates for tests, behind one small interface: `Authority`.

`OpensslAuthority` makes them by the openssl program, a second implementation beside the
certificates of `caravan pki`; it also makes what no authority should: expired certificates and
wrong usages.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

KEY_BITS = 2048


@dataclass(frozen=True)
class Credentials:
    """A certificate and its private key, PEM files, and the subject as IKE prints it."""

    certificate: Path
    key: Path
    subject: str


class Authority(Protocol):
    """What the testbed asks of a certificate authority."""

    @property
    def certificate(self) -> Path:
        """The authority's own certificate, PEM."""

    def issue(self, name: str) -> Credentials:
        """A certificate with the subject `CN=name` and `name` as its DNS name."""

    def revoke(self, credentials: Credentials) -> Path:
        """Revoke a certificate; the path of the new revocation list, PEM."""


class OpensslAuthority:
    """An authority in a directory of its own, by the openssl program."""

    def __init__(self, directory: Path, name: str = "Caravan test CA") -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "index.txt").touch()
        (directory / "serial").write_text("1000\n")
        (directory / "crlnumber").write_text("1000\n")
        (directory / "openssl.cnf").write_text(_CONFIGURATION.format(directory=directory))
        files = ["-keyout", "ca.key", "-out", "ca.pem", "-extensions", "authority"]
        self._run(["req", "-x509", "-days", "30", *_new_key(name), *files])

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

        `extended_usage` as openssl spells it, such as `codeSigning`; absent by default.
        """
        stem = name.replace("/", "_")
        usage = f"extendedKeyUsage = critical, {extended_usage}\n" if extended_usage else ""
        (self.directory / f"{stem}.ext").write_text(
            f"basicConstraints = CA:FALSE\nsubjectAltName = DNS:{name}\n"
            f"keyUsage = critical, digitalSignature\n{usage}"
        )
        files = ["-keyout", f"{stem}.key", "-out", f"{stem}.csr"]
        self._run(["req", "-new", *_new_key(name), *files])
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

    def _run(self, arguments: list[str]) -> None:
        command, *rest = arguments
        done = subprocess.run(
            ["openssl", command, "-config", "openssl.cnf", *rest],
            cwd=self.directory,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"openssl {' '.join(arguments)}: {done.stderr.strip()}")


def _new_key(name: str) -> list[str]:
    return ["-newkey", f"rsa:{KEY_BITS}", "-nodes", "-subj", f"/CN={name}"]


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
default_md = sha256
default_days = 10
default_crl_days = 10
unique_subject = no
policy = any
[any]
commonName = supplied
"""
