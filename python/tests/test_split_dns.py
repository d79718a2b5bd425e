"""Split DNS of IKEv2 (RFC 8598): charon and Caravan name the domains of their resolvers, pluto and
Caravan take them.
"""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import pytest
from libreswan_pair import NEEDS_PLUTO
from strongswan_pair import connected, ends_of_ikev2, settle

from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.caravan import Caravan, write_files
from caravan.testbed.connection import Connection
from caravan.testbed.libreswan import NewPluto
from caravan.testbed.remote_access import GATEWAY_ADDRESS
from caravan.testbed.strongswan import StrongSwan
from caravan.testbed.traffic import make_file
from caravan.threeways.measurement import Keys

pytestmark = pytest.mark.root

FILE_BYTES = 1_000_000
DOMAINS = ("corp.example", "lab.example")
INTERNAL_DNS_DOMAIN = 25
"""The number of the attribute (RFC 8598 §6)."""


class Naming(StrongSwan):
    """A charon whose pool has domains."""

    def _load(self) -> None:
        path = self.directory / "swanctl/swanctl.conf"
        before = "    dns = 10.10.0.53\n"
        after = f"{before}    {INTERNAL_DNS_DOMAIN} = {','.join(DOMAINS)}\n"
        path.write_text(path.read_text().replace(before, after))
        super()._load()


@pytest.fixture(scope="module")
def ends(keys: Keys) -> tuple[Connection, Connection]:
    """A connection at the gateway and at the station."""
    return ends_of_ikev2(keys, "aes128gcm16-prfsha256-curve25519")


def taken(station: Caravan) -> list[str]:
    """The domains that a station's log names with its inner address."""
    told = [fields for _, fields in station.events() if fields.get("message") == "inner address"]
    assert told, "no inner address"
    return re.findall(r'"([^"]*)"', told[-1]["domains"])


def test_the_domains_of_charons_pool_are_taken(
    ends: tuple[Connection, Connection], output: Path
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    with connected(*ends, output, is_initiator=True, strongswan=Naming) as pair:
        assert pair.fetch() == expected
        assert taken(pair.ours) == list(DOMAINS)
        sent = r"generating IKE_AUTH response 1 \[.* CPRP\(ADDR DNS DOMAIN DOMAIN\)"
        assert re.search(sent, pair.charon.log())


@NEEDS_PLUTO
def test_pluto_takes_the_domains_of_our_pool(
    ends: tuple[Connection, Connection], output: Path
) -> None:
    gateway, station = ends
    with RemoteAccess(RemoteAccessConfig(has_nat=False), output) as network:
        network.ms.add_route("default", GATEWAY_ADDRESS)
        with (
            Caravan(network.sg, gateway, file=naming(network, gateway)).wait_ready(),
            NewPluto(network.ms, station, "%defaultroute", GATEWAY_ADDRESS) as pluto,
        ):
            pluto.initiate()
            for domain in DOMAINS:
                settle(partial(has_taken, pluto, domain))


def has_taken(pluto: NewPluto, domain: str) -> bool:
    """Whether pluto's log names a domain that it got."""
    return re.search(rf"INTERNAL_DNS_DOMAIN.* {re.escape(domain)}\b", pluto.log()) is not None


def naming(network: RemoteAccess, gateway: Connection) -> Path:
    """The file of a gateway whose pool has domains."""
    file = write_files(network.sg, gateway)
    file.write_text(f"{file.read_text()}domains = {json.dumps(DOMAINS)}\n")
    return file


def test_a_pool_of_ours_names_its_domains(
    ends: tuple[Connection, Connection], output: Path
) -> None:
    gateway, station = ends
    with (
        RemoteAccess(RemoteAccessConfig(), output) as network,
        Caravan(network.sg, gateway, file=naming(network, gateway)).wait_ready(),
        Caravan(network.ms, station).wait_ready() as ours,
    ):
        assert taken(ours) == list(DOMAINS)
