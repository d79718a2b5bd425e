"""Split DNS of IKEv2 (RFC 8598): charon and Caravan name the domains of their resolvers, pluto and
Caravan take them. With keys of DNSSEC a program behind a client validates names inside.
"""

from __future__ import annotations

import json
import re
import subprocess
from functools import partial
from itertools import groupby
from pathlib import Path

import pytest
from libreswan_pair import NEEDS_PLUTO
from strongswan_pair import connected, ends_of_ikev2, settle

from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.caravan import Caravan, environment, order, write_files
from caravan.testbed.connection import Connection
from caravan.testbed.host import Host
from caravan.testbed.libreswan import NewPluto
from caravan.testbed.remote_access import GATEWAY_ADDRESS, SERVER_ADDRESS
from caravan.testbed.strongswan import StrongSwan
from caravan.testbed.traffic import make_file
from caravan.threeways.measurement import Keys

pytestmark = pytest.mark.root

FILE_BYTES = 1_000_000
DOMAINS = ("corp.example", "lab.example")
INTERNAL_DNS_DOMAIN = 25
INTERNAL_DNSSEC_TA = 26
"""The numbers of the attributes (RFC 8598 §4)."""
ZONE = DOMAINS[0]
NAME = f"www.{ZONE}"
NAME_ADDRESS = "10.10.0.80"
PRINTABLE_KEY = "AB\x0f\x02" + "0123456789abcdef" * 2
"""A key in octets that fit into charon's file: a tag, Ed25519, SHA-256 and a digest."""


class Naming(StrongSwan):
    """A charon whose pool has domains."""

    attributes = f"    {INTERNAL_DNS_DOMAIN} = {','.join(DOMAINS)}\n"

    def _load(self) -> None:
        path = self.directory / "swanctl/swanctl.conf"
        before = "    dns = 10.10.0.53\n"
        path.write_text(path.read_text().replace(before, before + self.attributes))
        super()._load()


class Vouching(Naming):
    """A charon whose pool has a domain with a key of DNSSEC."""

    attributes = (
        f'    {INTERNAL_DNS_DOMAIN} = {ZONE}\n    {INTERNAL_DNSSEC_TA} = "{PRINTABLE_KEY}"\n'
    )


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


def listing(network: RemoteAccess, station: Connection, domain: str) -> Path:
    """The file of a client that takes keys of DNSSEC for a domain."""
    file = write_files(network.ms, station)
    table = f"[connections.{station.name}]\n"
    text = file.read_text()
    assert table in text
    lines = [
        f'dnssec_domains = ["{domain}"]',
        f"dnssec_top_level = {str('.' not in domain).lower()}",
    ]
    file.write_text(text.replace(table, table + "\n".join([*lines, ""])))
    return file


def anchors(host: Host, station: Connection) -> Path:
    """Where a client writes keys of DNSSEC."""
    return Path(environment(host)["CARAVAN_RUNTIME_DIR"]) / f"{station.name}.trust-anchors"


def test_a_key_that_charon_gives_is_taken(
    ends: tuple[Connection, Connection], output: Path
) -> None:
    gateway, station = ends
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        charon = Vouching(network.sg, gateway)
        with Caravan(
            network.ms, station, file=listing(network, station, ZONE)
        ).wait_ready() as ours:
            digest = PRINTABLE_KEY[4:].encode().hex().upper()
            record = f"{ZONE}. IN DS {0x4142} 15 2 {digest}"
            assert ours.status()["connections"][0]["trust_anchors"] == [record], charon.log()


def signed(folder: Path) -> tuple[str, str]:
    """A zone in the answers of `ldns-testns`, and the DS record of its key."""
    zone = folder / "zone"
    zone.write_text(
        f"{ZONE}. 3600 IN SOA ns.{ZONE}. admin.{ZONE}. 1 3600 600 86400 3600\n"
        f"{ZONE}. 3600 IN NS ns.{ZONE}.\n"
        f"ns.{ZONE}. 3600 IN A {SERVER_ADDRESS}\n"
        f"{NAME}. 3600 IN A {NAME_ADDRESS}\n"
    )
    run = partial(subprocess.run, cwd=folder, check=True, capture_output=True, text=True)
    key = run(["ldns-keygen", "-a", "ECDSAP256SHA256", "-k", ZONE]).stdout.strip()
    run(["ldns-signzone", "-o", ZONE, "-f", "signed", "zone", key])
    lines = (folder / "signed").read_text().splitlines()
    records = [line.partition(";")[0].split() for line in lines]
    return answers([words for words in records if words]), (folder / f"{key}.ds").read_text()


def answers(records: list[list[str]]) -> str:
    """The answers to each name and type of these records, with their signatures."""

    def asked(words: list[str]) -> tuple[str, str]:
        owner, _, _, kind, covered, *_ = words
        return owner, covered if kind == "RRSIG" else kind

    return "".join(
        "ENTRY_BEGIN\nMATCH opcode qtype qname\nREPLY QR RD RA NOERROR\nADJUST copy_id\n"
        f"SECTION QUESTION\n{owner} IN {kind}\nSECTION ANSWER\n"
        + "".join(f"{' '.join(words)}\n" for words in found)
        + "ENTRY_END\n"
        for (owner, kind), found in groupby(sorted(records, key=asked), asked)
    )


def looked_up(host: Host, keys: Path | None) -> str:
    """What a program that validates says of the name, with keys or without."""
    trusting = ["-f", str(keys)] if keys else []
    argv = ["unbound-host", "-v", "-r", *trusting, "-t", "A", NAME]
    return host.run(argv, check=False).stdout


def test_a_name_inside_is_secure_by_the_key_that_the_gateway_gives(
    ends: tuple[Connection, Connection], output: Path
) -> None:
    gateway, station = ends
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        zone, record = signed(network.server.logs)
        (network.server.logs / "answers").write_text(zone)
        network.server.popen(["ldns-testns", "-p", "53", "answers"])
        file = naming(network, gateway)
        text = file.read_text().replace('["10.10.0.53"]', json.dumps([SERVER_ADDRESS]))
        # As the signer has written it, with blanks and its time to live.
        file.write_text(f"{text}dnssec_ta = {json.dumps([record.strip()])}\n")
        keys = anchors(network.ms, station)
        listed = listing(network, station, "example")
        with Caravan(network.sg, gateway, file=file).wait_ready():
            with Caravan(network.ms, station, file=listed).wait_ready() as ours:
                settle(keys.exists)
                assert keys.stat().st_mode & 0o777 == 0o644
                (said,) = ours.status()["connections"]
                assert said["trust_anchor_file"] == str(keys)
                assert keys.read_text().splitlines()[1:] == said["trust_anchors"]
                is_secure = f"{NAME} has address {NAME_ADDRESS} (secure)"
                settle(lambda: is_secure in looked_up(network.ms, keys))
                assert "(insecure)" in looked_up(network.ms, None)
                another = network.ms.logs / "another"
                another.write_text(re.sub(r"\S{8}$", "00000000", said["trust_anchors"][0]) + "\n")
                assert "BOGUS" in looked_up(network.ms, another)
            assert not keys.exists()
            with Caravan(network.ms, station, file=listed).wait_ready() as ours:
                settle(keys.exists)
                ours.crash()
            assert keys.exists()
            order(network.ms, "down", station.name).check()
            assert not keys.exists()


def test_keys_of_other_domains_are_not_taken(
    ends: tuple[Connection, Connection], output: Path
) -> None:
    gateway, station = ends
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        file = naming(network, gateway)
        digest = "07" * 32
        file.write_text(f'{file.read_text()}dnssec_ta = ["{ZONE} 43547 13 2 {digest}"]\n')
        with (
            Caravan(network.sg, gateway, file=file).wait_ready(),
            Caravan(
                network.ms, station, file=listing(network, station, DOMAINS[1])
            ).wait_ready() as ours,
        ):
            ours.wait_for_event("keys of DNSSEC are ignored")
            (said,) = ours.status()["connections"]
            assert said["trust_anchors"] == [] and said["trust_anchor_file"] is None
            assert not anchors(network.ms, station).exists()
