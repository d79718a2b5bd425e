"""Tests of the testbed's strongSwan configuration, with strongSwan on both sides of the NAT."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.connection import Connection, PublicKey, SharedKey
from caravan.testbed.pki import CaravanAuthority
from caravan.testbed.remote_access import (
    GATEWAY_ADDRESS,
    INNER_POOL,
    PRIVATE_NETWORK,
    SERVER_ADDRESS,
)
from caravan.testbed.strongswan import StrongSwan
from caravan.testbed.traffic import download, make_file, serve_files

pytestmark = pytest.mark.root

FILE_BYTES = 2_000_000


def certificate_pair(authority: CaravanAuthority) -> tuple[Connection, Connection]:
    """Gateway and station with certificates, aggressive mode, Mode Config."""
    gateway = Connection(
        PublicKey(authority.issue("sg.example"), authority),
        local_id="sg.example",
        version=1,
        is_aggressive=True,
        local_ts=PRIVATE_NETWORK,
        pool=INNER_POOL,
    )
    station = Connection(
        PublicKey(authority.issue("ms.example"), authority),
        local_id="ms.example",
        version=1,
        is_aggressive=True,
        remote_id="sg.example",
        remote_addrs=GATEWAY_ADDRESS,
        remote_ts=PRIVATE_NETWORK,
        wants_address=True,
    )
    return gateway, station


def test_aggressive_certificates_carry_a_file_across_the_nat(
    authority: CaravanAuthority, output: Path
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    on_gateway, on_station = certificate_pair(authority)
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        gateway, station = StrongSwan(network.sg, on_gateway), StrongSwan(network.ms, on_station)
        serve_files(network.server, output / "www", SERVER_ADDRESS)
        station.initiate()
        fetched = download(network.ms, f"http://{SERVER_ADDRESS}/file")
        assert fetched.sha256 == expected
        assert fetched.local_address.startswith("10.99.0.")
        assert gateway.selected_proposals() == [
            "IKE:AES_CBC_128/HMAC_SHA1_96/PRF_HMAC_SHA1/MODP_2048",
            "ESP:AES_GCM_16_128/NO_EXT_SEQ",
        ]
        (sa,) = gateway.sas()
        assert (sa.state, sa.remote_host) == ("ESTABLISHED", "192.0.2.2")
        assert sa.remote_port != 4500
        (child,) = sa.children
        assert child.encryption == "AES_GCM_16-128"
        assert child.bytes_out > FILE_BYTES
        station.terminate_ike()
        gateway.wait_for_log("received DELETE for IKE_SA")
        assert gateway.sas() == []


@pytest.mark.parametrize(
    ("proposals", "esp_proposals", "expected_child"),
    [
        ("3des-md5-modp1024", "des-md5", "ESP:DES_CBC/HMAC_MD5_96/NO_EXT_SEQ"),
        ("3des-sha1-modp1024", "null-md5", "ESP:NULL/HMAC_MD5_96/NO_EXT_SEQ"),
    ],
)
def test_main_mode_with_a_shared_key_is_rekeyed(
    output: Path, proposals: str, esp_proposals: str, expected_child: str
) -> None:
    both = Connection(
        SharedKey("a group key of the fleet"),
        version=1,
        proposals=proposals,
        esp_proposals=esp_proposals,
    )
    on_gateway = replace(both, local_ts=PRIVATE_NETWORK, pool=INNER_POOL)
    on_station = replace(
        both, remote_ts=PRIVATE_NETWORK, wants_address=True, remote_addrs=GATEWAY_ADDRESS
    )
    expected = make_file(output / "www/file", FILE_BYTES)
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        gateway, station = StrongSwan(network.sg, on_gateway), StrongSwan(network.ms, on_station)
        serve_files(network.server, output / "www", SERVER_ADDRESS)
        station.initiate()
        (before,) = station.children()
        station.rekey_child()
        gateway.wait_for_log(r"(?s)CHILD_SA net\{1\}.*CHILD_SA net\{2\} established")
        assert any(child.spi_in != before.spi_in for child in station.children())
        assert download(network.ms, f"http://{SERVER_ADDRESS}/file").sha256 == expected
        assert gateway.selected_proposals()[1:] == [expected_child] * 2
