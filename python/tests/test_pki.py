"""Certificates in use: those made by `caravan pki`, those of other tools, and those that are
refused."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.binary import caravan_binary
from caravan.testbed.caravan import Caravan, order, write_files
from caravan.testbed.connection import PublicKey
from caravan.testbed.pki import (
    Authority,
    CaravanAuthority,
    Credentials,
    OpensslAuthority,
    SwanAuthority,
)
from caravan.testbed.remote_access import GATEWAY_ADDRESS, PRIVATE_NETWORK, SERVER_ADDRESS
from caravan.testbed.traffic import ping
from caravan.threeways.measurement import Keys, tunnel_ends

pytestmark = pytest.mark.root


def keys_of(authority: Authority) -> Keys:
    """Certificates of both ends from one authority."""
    return Keys.of(authority)


def carries(keys: Keys, output: Path, file: Path | None = None, version: int = 2) -> bool:
    """Whether a tunnel with these certificates, or this client file, carries traffic."""
    on_gateway, on_station = tunnel_ends(keys, "aes128gcm16", version=version)
    with (
        RemoteAccess(RemoteAccessConfig(), output) as network,
        Caravan(network.sg, on_gateway) as gateway,
    ):
        gateway.wait_ready()
        with Caravan(network.ms, on_station, file=file) as station:
            station.wait_ready()
            return ping(network.ms, SERVER_ADDRESS, 3).received == 3


@pytest.mark.parametrize(("version", "mode"), [(1, ["--aggressive"]), (2, [])])
def test_a_bundle_is_a_ready_client(
    version: int, mode: list[str], authority: CaravanAuthority, output: Path
) -> None:
    gateway = ["--gateway", GATEWAY_ADDRESS, "--gateway-id", "sg.example", *mode]
    file = authority.bundle("road", output / "clients", [*gateway, "--remote-ts", PRIVATE_NETWORK])
    assert sorted(path.name for path in file.parent.iterdir()) == [
        *("ca.pem", "road.key", "road.pem", "road.toml")
    ]
    assert carries(keys_of(authority), output, file, version)


def test_keys_and_certificates_of_strongswan_serve_both_ends(tmp_path: Path, output: Path) -> None:
    assert carries(keys_of(SwanAuthority(tmp_path / "swan")), output)


def test_a_request_made_by_strongswan_is_certified(
    authority: CaravanAuthority, tmp_path: Path, output: Path
) -> None:
    request = SwanAuthority(tmp_path / "swan").request("ms.example")
    argv = [*("pki", "issue", "--ca", str(authority.directory), "--name", "ms.example")]
    argv += ["--csr", str(request), "--accept-names", "--out", str(tmp_path / "certified")]
    subprocess.run([str(caravan_binary()), *argv], check=True, capture_output=True)
    own = Credentials(
        tmp_path / "certified/ms.example.pem",
        request.with_suffix(".key"),
        "C=CH, CN=ms.example",
    )
    keys = keys_of(authority)
    assert carries(keys._replace(station=PublicKey(own, authority)), output)


def test_an_authority_of_strongswan_goes_on_under_caravan(tmp_path: Path, output: Path) -> None:
    swan = SwanAuthority(tmp_path / "swan")
    keys = keys_of(swan)
    argv = ["pki", "issue", "--ca", str(swan.directory), "--name", "ms.example"]
    argv += ["--out", str(tmp_path / "further")]
    subprocess.run([str(caravan_binary()), *argv], check=True, capture_output=True)
    folder = tmp_path / "further"
    own = Credentials(folder / "ms.example.pem", folder / "ms.example.key", "CN=ms.example")
    assert carries(keys._replace(station=PublicKey(own, swan)), output)


def expired(authority: OpensslAuthority) -> Credentials:
    """Expired an hour ago."""
    return authority.issue("ms.example", valid_until=timedelta(hours=-1))


def future(authority: OpensslAuthority) -> Credentials:
    """Valid from tomorrow on."""
    return authority.issue("ms.example", valid_from=timedelta(days=1))


def misused(authority: OpensslAuthority) -> Credentials:
    """For code signing."""
    return authority.issue("ms.example", extended_usage="codeSigning")


def keys_with(make: Callable[[OpensslAuthority], Credentials], tmp_path: Path) -> Keys:
    """The gateway's certificate, and the client's as `make` makes it."""
    authority = OpensslAuthority(tmp_path / "openssl")
    return Keys(
        PublicKey(authority.issue("sg.example"), authority), PublicKey(make(authority), authority)
    )


@pytest.mark.parametrize(
    ("make", "reason"),
    [(expired, "expired"), (future, "not valid before"), (misused, "usage")],
)
def test_a_wrong_certificate_is_refused_in_one_sentence(
    make: Callable[[OpensslAuthority], Credentials], reason: str, tmp_path: Path, output: Path
) -> None:
    keys = keys_with(make, tmp_path)
    assert reason in refusal(keys, output)


@pytest.mark.parametrize(
    ("make", "words"), [(expired, "expired at"), (future, "is not valid before")]
)
def test_a_client_hears_that_its_own_certificate_is_not_in_force(
    make: Callable[[OpensslAuthority], Credentials], words: str, tmp_path: Path, output: Path
) -> None:
    keys = keys_with(make, tmp_path)
    sentence = f"our own certificate CN=ms.example {words}"
    on_gateway, on_station = tunnel_ends(keys, "aes128gcm16")
    with (
        RemoteAccess(RemoteAccessConfig(), output) as network,
        Caravan(network.sg, on_gateway) as gateway,
    ):
        gateway.wait_ready()
        file = write_files(network.ms, on_station)
        done = order(network.ms, "up", "-c", str(file), "--detach", timeout_s=60)
        assert done.code == 1 and sentence in done.stderr, done
        assert "AUTHENTICATION_FAILED" in done.stderr, done
        order(network.ms, "down", "road")
        with Caravan(network.ms, on_station) as station:
            assert sentence in station.wait_for_event("negotiation failed")
            shown = order(network.ms, "status", "--json").check().stdout
            assert sentence in json.loads(shown)["connections"][0]["last_failure"]


def test_an_unknown_authority_is_refused_in_one_sentence(
    authority: CaravanAuthority, tmp_path: Path, output: Path
) -> None:
    stranger = CaravanAuthority(tmp_path / "stranger", "a stranger's CA")
    keys = keys_of(authority)
    # The station trusts the gateway; only its own certificate is from an unknown authority.
    own = PublicKey(stranger.issue("ms.example"), authority)
    assert "a stranger's CA" in refusal(keys._replace(station=own), output)


def refusal(keys: Keys, output: Path) -> str:
    """Why the gateway refuses the station, from its log; no tunnel may come up."""
    on_gateway, on_station = tunnel_ends(keys, "aes128gcm16")
    with (
        RemoteAccess(RemoteAccessConfig(), output) as network,
        Caravan(network.sg, on_gateway) as gateway,
    ):
        gateway.wait_ready()
        with Caravan(network.ms, on_station) as station:
            reasons = gateway.wait_for_event("negotiation failed")
            assert not gateway.is_established() and not station.is_established()
    return reasons
