"""The parts of the demonstration: its measurements and its output."""

from __future__ import annotations

import io
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from rich.console import Console
from sizes_by_hand import POLICIES, Policy

from caravan import demo, guest
from caravan.demo import (
    MARKER,
    cost_table,
    handshake_line,
    open_commands,
    own_folder,
    wire_cell,
)
from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.caravan import Caravan, HandshakeMessage
from caravan.testbed.connection import PublicKey
from caravan.testbed.pki import CaravanAuthority
from caravan.testbed.remote_access import GATEWAY_ADDRESS, SERVER_ADDRESS
from caravan.testbed.traffic import download, make_file, serve_files
from caravan.threeways.measurement import (
    CLEAR,
    PUBLISHED_HTTP_PORT,
    SIZES_BYTES,
    Cost,
    Keys,
    ikev2_ends,
    measure,
    transport_ends,
    tunnel_ends,
)

BY_NAME = {policy.name: policy for policy in POLICIES}


def test_a_message_is_one_line() -> None:
    message = HandshakeMessage(10.0125, "aggressive", 2, "received", 1600, 2, "SA KE NONCE")
    line = handshake_line(2, message, 10.0)
    assert line.split() == [
        *("2", "ms", "<-", "sg", "12.5", "ms", "aggressive"),
        *("1600", "bytes", "in", "2", "datagrams", "SA", "KE", "NONCE"),
    ]


def test_captured_sizes_stand_beside_both_formulas_and_red_where_they_differ() -> None:
    assert wire_cell("des", 64, 92) == "92/92/84"
    assert wire_cell("aes128gcm16", 64, 107) == "[red]107[/]/108/-"


def test_the_table_has_a_row_a_policy_and_names_the_legacy_ones() -> None:
    costs = [
        Cost(
            policy.name,
            41.26,
            {64: policy.rfc_bytes(64), 480: policy.rfc_bytes(480)},
            1234.5,
            0.2,
            2.5,
        )
        for policy in POLICIES
    ]
    text = io.StringIO()
    Console(file=text, width=80).print(cost_table(costs))
    lines = text.getvalue().splitlines()
    (row,) = [line for line in lines if "3des-md5 *" in line]
    cells = row.split()
    assert cells[2:] == ["41.3", "104/104/96", "520/520/512", "1,234", "0.200", "2.5"]
    assert "…" not in text.getvalue()
    assert sum("*" in line for line in lines[1:]) == 5


def sizes_by_rfc(policy: Policy) -> dict[int, int]:
    return {size: policy.rfc_bytes(size) for size in SIZES_BYTES}


@pytest.mark.root
def test_the_clear_policy_is_measured_in_the_same_network(
    authority: CaravanAuthority, output: Path
) -> None:
    key = PublicKey(authority.issue("unused.example"), authority)
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        cost = measure(network, Keys(key, key), CLEAR, 1, output)
    assert cost.wire_bytes == {64: 64, 480: 480}
    assert cost.handshake_ms is None and cost.cpu_s_per_gb is None
    assert cost.mbit_s > 100
    assert 0 < cost.rtt_ms < 100


def shell(command: str) -> str:
    """The output of a command that a reader of the demonstration would type."""
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.root
@pytest.mark.parametrize(
    ("mode", "suite"),
    [
        ("transport", "aes128gcm16"),
        ("tunnel", "aes128gcm16"),
        ("tunnel", "aes128-sha1"),
        ("tunnel", "null-md5"),
        ("transport", "3des-md5"),
        ("transport", "des"),
        ("ikev2", "aes128gcm16-prfsha256-curve25519"),
        ("ikev2", "aes256-sha384-ecp384"),
        ("ikev2", "3des-sha1-modp2048"),
    ],
)
def test_the_commands_that_are_named_show_what_a_capture_holds(
    mode: str, suite: str, authority: CaravanAuthority, output: Path
) -> None:
    keys = Keys.of(authority)
    make_file(output / "www/file", 10_000)
    host = f"{GATEWAY_ADDRESS}:{PUBLISHED_HTTP_PORT}" if mode == "transport" else SERVER_ADDRESS
    if mode == "ikev2":
        on_gateway, on_station = (
            replace(end, proposals=suite, is_legacy=True) for end in ikev2_ends(keys)
        )
    else:
        make_ends = transport_ends if mode == "transport" else tunnel_ends
        on_gateway, on_station = make_ends(keys, f"{suite}-modp2048")
    capture = output / "a capture.pcapng"
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        serve_files(network.server, output / "www", SERVER_ADDRESS)
        with Caravan(network.sg, on_gateway) as gateway:
            gateway.wait_ready()
            with Caravan(network.ms, on_station, options=["--capture", str(capture)]) as station:
                station.wait_ready()
                assert station.status()["process"]["capture"] == str(capture)
                download(network.ms, f"http://{host}/file")
    assert capture.stat().st_mode & 0o777 == 0o600
    inside, ike = (shell(command) for command in open_commands(capture))
    assert "GET /file HTTP/1.1" in inside
    assert "HTTP/1.1 200 OK" in inside
    if mode == "ikev2":
        auth = ike[ike.index("Exchange type: IKE_AUTH") :]
        # Both directions: what the station asks for, and what it gets.
        for said in (": INTERNAL_IP4_ADDRESS", "Payload: Traffic Selector"):
            assert auth.count(said) >= 2
        return
    # Quick mode is fully encrypted: its proposal is visible only with the key.
    quick = ike[ike.index("Exchange type: Quick Mode") :]
    assert "Payload: Security Association" in quick
    assert "Encapsulation-Mode: UDP-Encapsulated" in quick


@pytest.mark.root
def test_the_last_part_uses_a_key_fetches_a_file_and_sees_the_key_refused(
    output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = make_file(output / "www/file", 100_000)
    text = io.StringIO()
    monkeypatch.setattr(demo, "console", Console(file=text, width=200))
    visits: list[guest.Visit] = []
    go = guest.go

    def once(*folders: Path) -> guest.Visit:
        visits[:] = visits or [go(*folders)]
        return visits[0]

    monkeypatch.setattr(guest, "go", once)
    demo.show_guest(output, digest)
    said = text.getvalue()
    # Used: each agent tells its steps, and Host last that the key is.
    for step in ("key-taken", "key-used", "up"):
        assert re.search(rf"^  \w+ +{step} +[\d.]+ ms$", said, re.M), said
    assert "/file: 100,000 bytes, hash equal" in said
    assert "the same key again: caravan: there is no tunnel: the key was used before" in said
    # Both logs say the same: one tunnel, and a refusal.
    host, target = (
        (output / f"guest/folder/{role}.log").read_text() for role in ("host", "target")
    )
    assert host.count(" step=key-used ") == 1 and host.count(" why=key-used") == 1
    assert target.count(" step=up ") == 1 and target.count(" step=ended ") == 1
    with pytest.raises(typer.Exit):
        demo.show_guest(output, "0" * 64)


def test_the_demonstration_empties_only_a_folder_that_one_has_made(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "thesis.tex").write_text("all of it")
    with pytest.raises(FileExistsError, match="no demonstration has made"):
        own_folder(theirs)
    # Nor by a marker that somebody else wrote, or a link to one.
    (theirs / MARKER).write_text("")
    with pytest.raises(FileExistsError):
        own_folder(theirs)
    own = own_folder(tmp_path / "a/b")
    (theirs / MARKER).unlink()
    (theirs / MARKER).symlink_to(own / MARKER)
    with pytest.raises(FileExistsError):
        own_folder(theirs)
    assert (theirs / "thesis.tex").read_text() == "all of it"
    (own / "logs/ms").mkdir(parents=True)
    (own / "transport.pcapng").write_text("")
    (own / "link").symlink_to(theirs)
    own_folder(own)
    assert [one.name for one in own.iterdir()] == [MARKER]
    assert (theirs / "thesis.tex").exists()
