"""The parts of the demonstration: its measurements and its output."""

from __future__ import annotations

import contextlib
import functools
import io
import re
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from rich.console import Console
from sizes_by_hand import POLICIES, Policy
from waiting import wait_for

from caravan import demo, guest
from caravan.demo import (
    MARKER,
    Shown,
    cost_table,
    handshake_line,
    handshake_table,
    open_commands,
    own_folder,
    roam_line,
    wire_cell,
)
from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.caravan import Caravan, HandshakeMessage
from caravan.testbed.connection import PublicKey
from caravan.testbed.pki import CaravanAuthority
from caravan.testbed.remote_access import GATEWAY_ADDRESS, SERVER_ADDRESS
from caravan.testbed.roaming import ROUND_TRIP_S
from caravan.testbed.traffic import Growth, download, make_file, serve_files
from caravan.threeways.measurement import (
    CLEAR,
    PUBLISHED_HTTP_PORT,
    SIZES_BYTES,
    Cost,
    Keys,
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


def messages(*each: tuple[float, int, int]) -> list[HandshakeMessage]:
    """Messages with these times in ms, octets and datagrams."""
    return [
        HandshakeMessage(at / 1000, "auth", number, "sent", size, datagrams, "SA")
        for number, (at, size, datagrams) in enumerate(each, start=1)
    ]


def test_key_exchanges_stand_in_one_table_with_their_messages_octets_and_time() -> None:
    shown = [
        Shown("IKEv2", messages((10, 564, 1), (11, 281, 1), (11.5, 1575, 2), (13.5, 900, 2))),
        Shown("IKEv1 of the paper", messages((20, 515, 1), (22.8, 1787, 2), (25, 80, 1))),
    ]
    text = io.StringIO()
    Console(file=text, width=80).print(handshake_table(shown))
    rows = [line.split() for line in text.getvalue().splitlines() if line.strip()]
    assert ["key", "exchange", "messages", "datagrams", "bytes", "ms"] in rows
    at = rows.index(["IKEv2", "4", "6", "3,320", "3.5"])
    assert rows[at + 1] == ["IKEv1", "of", "the", "paper", "3", "4", "2,382", "5.0"]


def test_a_roam_tells_the_gap_of_the_download() -> None:
    assert roam_line("cell", 0.1412).startswith("  to cell: the download pauses for 141 ms, ")


def has_grown(growth: Growth, times: int) -> bool:
    return len(growth.times_s) == times


def test_the_longest_pause_of_a_file_is_between_two_growths(tmp_path: Path) -> None:
    growth = Growth(tmp_path / "file")
    assert growth.longest_pause_s() == 0
    growth.times_s[:] = [1.0, 1.02, 1.04, 1.25, 1.27, 9.0]
    assert growth.longest_pause_s() == 7.73
    growth.times_s.clear()
    with (tmp_path / "file").open("wb", buffering=0) as file, growth:
        for count, pause_s in enumerate((0.0, 0.3, 0.0), start=1):
            wait_for(functools.partial(has_grown, growth, count), "the watcher sees it")
            time.sleep(pause_s)
            file.write(b"x")
        wait_for(functools.partial(has_grown, growth, 4), "the watcher sees it")
    # Its beginning and each growth; a busy machine only makes a pause longer.
    assert len(growth.times_s) == 4
    assert growth.longest_pause_s() > 0.29


def test_main_shows_the_key_exchanges_then_the_roam_then_the_policies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def stub(name: str, result: object) -> None:
        def call(*_: object, **__: object) -> object:
            said.append(name)
            return result

        monkeypatch.setattr(demo, name, call)

    stub("enter", None)
    stub("RemoteAccess", contextlib.nullcontext())
    monkeypatch.setattr(Keys, "make", lambda _: None)
    parts = ("show_handshakes", "show_roam", "measure_all", "show_walk", "show_guest")
    for name in (*parts, "run_and_report", "say_next"):
        stub(name, [] if name == "measure_all" else tmp_path)
    text = io.StringIO()
    monkeypatch.setattr(demo, "console", Console(file=text, width=200))
    demo.main(tmp_path / "out")
    assert [name for name in said if name in parts] == list(parts)
    assert "What each policy costs" in text.getvalue()


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
@pytest.mark.measures
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
            replace(end, proposals=suite, is_legacy=True) for end in tunnel_ends(keys)
        )
    else:
        make_ends = transport_ends if mode == "transport" else tunnel_ends
        on_gateway, on_station = make_ends(keys, f"{suite}-modp2048", version=1)
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
def test_the_first_parts_show_ikev2_ikev1_beside_it_and_the_gap_of_a_download(
    authority: CaravanAuthority, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = make_file(output / "www/file", 100_000)
    keys = Keys.of(authority)
    text = io.StringIO()
    monkeypatch.setattr(demo, "console", Console(file=text, width=400))
    capture = demo.show_handshakes(output, keys, None, digest)
    assert capture == output / "ikev2.pcapng" and capture.exists()
    demo.show_roam(output, keys)
    lines = text.getvalue().splitlines()
    assert lines[0] == "IKEv2 with ML-KEM, tunnel mode"
    assert sum("hash equal" in line for line in lines) == 3
    # The totals are those of the messages above them.
    rows = [line.rsplit(maxsplit=4) for line in lines if re.match(r"  IKEv.*\d *$", line)]
    said = [re.findall(r"  (\d) ms [-<>]+ sg +([\d.]+) ms .* (\d+) bytes", line) for line in lines]
    exchanges: list[list[tuple[str, str, str]]] = []
    for ((number, at, octets),) in filter(None, said):
        if number == "1":
            exchanges.append([])
        exchanges[-1].append((number, at, octets))
    assert len(rows) == len(exchanges) == 3
    for (_, count, _, octets, elapsed), exchange in zip(rows, exchanges, strict=True):
        assert int(count) == len(exchange)
        assert int(octets.replace(",", "")) == sum(int(one[2]) for one in exchange)
        assert elapsed == exchange[-1][1]
    assert [row[0].strip()[:5] for row in rows] == ["IKEv2", "IKEv1", "IKEv1"]
    # What the download was without: a round trip at least.
    pauses = re.findall(r"to (\w+): the download pauses for (\d+) ms", text.getvalue())
    assert [place for place, _ in pauses] == ["cell", "wifi"]
    for _, pause_ms in pauses:
        assert int(pause_ms) >= 1000 * ROUND_TRIP_S


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
