"""Which version of IKE a tunnel has: IKEv2 by default, and no way back to IKEv1."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from strongswan_pair import road_warrior

from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.caravan import Caravan, caravan_toml, order, write_files
from caravan.testbed.connection import Connection, PublicKey
from caravan.testbed.remote_access import SERVER_ADDRESS
from caravan.testbed.traffic import ping

pytestmark = pytest.mark.root


def ends(keys: tuple[PublicKey, PublicKey]) -> tuple[Connection, Connection]:
    """A gateway that takes either version, and a station."""
    both = Connection(keys[0], version=2, is_legacy=False, proposals="", esp_proposals="")
    gateway, station = road_warrior(both, keys)
    return replace(gateway, version=0), station


def refusals(gateway: Caravan) -> list[str]:
    """What a gateway says of clients that come with IKEv1."""
    said = [str(fields.get("message", "")) for _, fields in gateway.events()]
    return [line for line in said if "has used IKEv2 before, so IKEv1 is refused" in line]


def is_refused(network: RemoteAccess, gateway: Caravan, old: Connection) -> str:
    """Waits until the gateway refuses a station of IKEv1; returns its identity."""
    with Caravan(network.ms, old) as ms:
        gateway.process.wait_for(lambda: bool(refusals(gateway)), "a refusal", 15)
        assert not ms.is_established()
    assert gateway.status()["drops"]["downgraded"] > 0
    (peer,) = re.findall(r"--peer ([^`]+)`", refusals(gateway)[0])
    return str(peer)


def test_a_station_may_not_go_back_to_ikev1(
    keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    gateway, station = ends(keys)
    old = replace(station, version=1, is_aggressive=False)
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        with Caravan(network.sg, gateway).wait_ready() as sg:
            with Caravan(network.ms, old).wait_ready():
                pass
            with Caravan(network.ms, station).wait_ready() as ms:
                (connection,) = ms.status()["connections"]
                assert connection["version"] == "IKEv2"
                assert ping(network.ms, SERVER_ADDRESS, 3, 0.1).received > 0
            is_refused(network, sg, old)
        # What was learned outlives the process.
        with Caravan(network.sg, gateway).wait_ready() as sg:
            peer = is_refused(network, sg, old)
            order(network.sg, "forget", gateway.name, "--peer", peer).check()
            again = order(network.sg, "forget", gateway.name, "--peer", peer)
            assert again.code == 1
            assert "has not used IKEv2" in again.stderr
            with Caravan(network.ms, old).wait_ready() as ms:
                (connection,) = ms.status()["connections"]
                assert connection["version"] == "IKEv1"
                assert ping(network.ms, SERVER_ADDRESS, 3, 0.1).received > 0


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("aggressive = true\n", "add version = 1, or remove aggressive"),
        ('legacy = true\nproposals = ["3des-sha1-modp1024"]\n', "add version = 1"),
    ],
)
def test_a_file_that_means_ikev1_is_told_the_line_to_add(
    more: str, said: str, keys: tuple[PublicKey, PublicKey], output: Path
) -> None:
    _, station = ends(keys)
    plain = re.sub(r"(?m)^(version|legacy|aggressive) = .*\n", "", caravan_toml(station))
    text = plain.replace("[connections.road]\n", f"[connections.road]\n{more}", 1)
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        file = write_files(network.ms, station)
        file.write_text(text)
        checked = order(network.ms, "check", str(file))
        assert checked.code == 2
        assert said in checked.stdout + checked.stderr
        fixed = text.replace("aggressive", "version = 1\naggressive")
        fixed = fixed.replace('proposals = ["3des', 'version = 1\nproposals = ["3des')
        file.write_text(fixed)
        order(network.ms, "check", str(file)).check()
