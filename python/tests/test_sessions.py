"""The session log: who was connected, for how long, and how much was transferred."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.caravan import Caravan, order
from caravan.testbed.pki import CaravanAuthority
from caravan.testbed.remote_access import SERVER_ADDRESS
from caravan.testbed.traffic import ping
from caravan.threeways.measurement import Keys, tunnel_ends

pytestmark = pytest.mark.root

ECHO_BYTES = 84
"""The IP packet inside the tunnel for one echo of ping's usual size."""
DOCUMENT = Path(__file__).resolve().parents[2] / "docs/vpn-sessions.md"


def sessions(end: Caravan, message: str) -> list[dict[str, Any]]:
    return [fields for _, fields in end.events() if fields.get("message") == message]


def test_every_end_is_told_with_what_has_passed(authority: CaravanAuthority, output: Path) -> None:
    keys = Keys.of(authority)
    gateway_end, station_end = tunnel_ends(keys, "aes128gcm16")
    with (
        RemoteAccess(RemoteAccessConfig(), output) as network,
        Caravan(network.sg, gateway_end) as gateway,
    ):
        gateway.wait_ready()
        with Caravan(network.ms, station_end) as station:
            station.wait_ready()
            assert ping(network.ms, SERVER_ADDRESS, 5, 0.02).received == 5
            order(network.ms, "rekey", "road").check()
            order(network.ms, "rekey", "road", "--ike").check()
            assert ping(network.ms, SERVER_ADDRESS, 5, 0.02).received == 5
            (began,) = sessions(gateway, "session began")
            assert sessions(gateway, "session ended") == []
            assert (began["connection"], began["identity"]) == ("road", "ms.example")
            order(network.sg, "down", "road", "--peer", "ms.example").check()
            gateway.wait_for_event("session ended")
            # It reconnects, and is then ended from its own side.
            station.process.wait_for(
                lambda: len(sessions(station, "session began")) == 2, "the next session", 30
            )
            station.stop()
            (taken_down, stopped) = sessions(station, "session ended")
            assert taken_down["cause"] == "deleted-by-peer"
            assert stopped["cause"] == "stopped"
        gateway.process.wait_for(
            lambda: len(sessions(gateway, "session ended")) == 2, "the second end", 30
        )
        (first, second) = sessions(gateway, "session ended")
        assert (first["cause"], second["cause"]) == ("taken-down", "deleted-by-peer")
        assert first["session"] == began["session"] == taken_down["session"]
        assert first["inner"] == began["inner"] != ""
        assert first["packets_in"] >= 10 and first["bytes_in"] >= 10 * ECHO_BYTES
        assert first["packets_out"] >= 10 and first["bytes_out"] >= 10 * ECHO_BYTES
        assert first["is_complete"] and second["is_complete"]
        assert_documented(gateway, first)


def assert_documented(gateway: Caravan, ended: dict[str, Any]) -> None:
    """The filters in the documentation give the documented output for this log."""
    text = DOCUMENT.read_text()
    for field in ended:
        assert field == "message" or f"`{field}`" in text
    filters = re.findall(r"^journalctl .* \| jq (-\w+) '(.*)'$", text, re.MULTILINE)
    assert len(filters) == 2
    told = []
    for options, program in filters:
        done = subprocess.run(
            ["jq", options, program],
            input="a line of something else\n" + gateway.process.stderr(),
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
        told.append([line.split("\t") for line in done.stdout.splitlines()])
    rows, sums = told
    assert len(rows) == 2
    assert rows[0][1:3] == ["ms.example", ended["inner"]]
    assert json.loads(rows[0][4]) == ended["bytes_in"]
    assert sums[0][:2] == ["ms.example", "2"]
    assert int(sums[0][2]) >= ended["bytes_in"]
