"""What an answer of `caravan-lab ask` states about its own numbers: digits, bounds, sources."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from test_lab_cli import TOP, answer, lab, refusal

from caravan.lab.ask import AskRequest
from caravan.lab.ask import answer as ranked
from caravan.lab.core import LabError, find, kernel, listing, request_with
from caravan.lab.exchanges import MACHINES
from caravan.lab.picture import specification


def test_rates_of_a_slow_link_keep_their_digits_and_percentiles_their_bounds(
    tmp_path: Path,
) -> None:
    words = ("ask", "--device", "cortex-m0plus", "--link", "nb-iot", "--bytes", "100")
    slow = ("--rate-kbps", "0.001", "-o", str(tmp_path / "a.svg"))
    for one in answer(*words, *slow)["policies"]:
        if one["carried"] != "unknown":
            # So few packets wait for another that most have the shortest possible delay.
            low, high = one["p95_between_ms"]
            assert low <= one["p95_ms"] <= high <= low * 1.032
            assert low == pytest.approx(one["delay_ms"], rel=1e-3)
            full = one["why"].partition("full at ")[2].partition(" kbit/s")[0]
            assert float(full) == pytest.approx(one["capacity_kbps"], rel=1e-3) and float(full) < 17
    said = lab(*words, *slow).stdout
    assert " 1 kbit/s" not in said and "16.7 kbit/s" in said
    (clear,) = (line for line in said.splitlines() if line.startswith("none  "))
    assert re.search(r" 47\.91? +47\.9 to 48\.8\d ", clear), clear


def test_ask_refuses_what_no_ip_header_can_say(tmp_path: Path) -> None:
    words = ("ask", "--device", "cortex-a53", "--link", "lte", "--rate-kbps", "64", "--bytes")
    for size in ("65536", "20.5"):
        assert f"--bytes: {size} is not a packet size: up to 65535 whole" in refusal(*words, size)
    assert answer(*words, "65535", "-o", str(tmp_path / "a.svg"))["policies"]


def test_ask_refuses_a_policy_of_skip() -> None:
    asked = AskRequest("cortex-a53", "lte", rate_kbps=64, policies=("skip-x25519",))
    with pytest.raises(LabError, match="skip-x25519 is SKIP's, between a station and a firewall"):
        ranked(asked)


def test_simulate_shows_the_gap_of_each_move() -> None:
    said = lab("simulate", "mobile").stdout
    rows = [line.split() for line in said.splitlines() if line.startswith("mn ")]
    assert [(row[1], row[2]) for row in rows] == [("elsewhere", "3"), ("home", "8")]
    assert all(0 < float(gap) < 1000 for row in rows for gap in row[3:5])
    assert "rounds" not in said


def test_simulate_shows_what_each_move_of_a_node_with_a_gateway_says() -> None:
    # An edit of what a scenario has from its base, which is of the same study.
    said = lab("simulate", "walk-agent", "--set", "link.access.delay=50 ms").stdout
    (head,) = (line for line in said.splitlines() if "moved to" in line)
    assert head.split()[-3:] == ["rounds", "message", "bytes"]
    rows = [line.split() for line in said.splitlines() if line.startswith("mn ")]
    moves = [row for row in rows if row[1] != "dropped"]
    places = ["visited", "hotel", "company", "branch", "agent", "visited", "agent", "visited"]
    places += ["home", "lounge", "visited", "lounge"]
    assert [row[1] for row in moves] == places
    rounds = ["5", "1", "1", "2", "1", "5", "1", "5", "1", "5", "1", "1"]
    assert [row[-2] for row in moves] == rounds


def test_a_picture_says_of_which_packets_and_that_it_shows_bounds(tmp_path: Path) -> None:
    priced = tmp_path / "board.toml"
    text = (TOP / "devices/cortex-a53.toml").read_text()
    priced.write_text(text + '\n[per_packet]\nvalue = 9000\nsource = "measured"\n')
    for device, are_bounds in (("cortex-a53", True), (str(priced), False)):
        asked = AskRequest(device, "lte", rate_kbps=64, packet_bytes=100)
        drawn = specification(asked, ranked(asked).verdicts)
        said = " ".join(drawn["title"]["subtitle"])
        assert "packets of 100 bytes" in said and "from the device" in said
        assert ("lower bounds" in said) == are_bounds
    assert (
        "delays are lower bounds"
        in lab(
            *("ask", "--device", "cortex-a53", "--link", "lte", "--rate-kbps", "64"),
            *("-o", str(tmp_path / "a.svg")),
        ).stdout
    )


def test_a_picture_has_a_pane_of_delays_only_where_there_are_some() -> None:
    for rate_kbps, panes in ((64, 2), (100_000, 1)):
        asked = AskRequest("cortex-a53", "lte", rate_kbps=rate_kbps)
        drawn = specification(asked, ranked(asked).verdicts)
        assert len(drawn.get("hconcat", [drawn])) == panes


def test_ask_says_where_the_delay_of_a_link_is_from(tmp_path: Path) -> None:
    words = ("ask", "--device", "cortex-a53", "--link", "lte", "--rate-kbps", "64")
    found = answer(*words, "-o", str(tmp_path / "a.svg"))["assumptions"]
    assert any("a delay of 10 ms (ITU-R M.2134" in assumed for assumed in found)


def asked_of(device: str, tmp_path: Path, *more: str) -> dict[str, Any]:
    words = ("ask", "--device", device, "--link", "lte", "--rate-kbps", "64")
    found: dict[str, Any] = answer(*words, *more, "-o", str(tmp_path / "a.svg"))
    return found


CHAIN = """
name = "chain"
title = "A client over the link that is asked about"
policy = "{policy}"
accounting = "rfc"

[traffic]
model = "tcp"
bytes = "1 KB"
direction = "up"

[[node]]
name = "station"
role = "station"
{device}

[[node]]
name = "nat"
role = "nat"

[[node]]
name = "gateway"
role = "gateway"

[[node]]
name = "server"
role = "server"

[[link]]
from = "station"
to = "nat"
link = "lte"

[[link]]
from = "nat"
to = "gateway"
rate = "100 Gbit/s"
mtu = 1500

[[link]]
from = "gateway"
to = "server"
rate = "100 Gbit/s"
mtu = 1500
"""


@pytest.mark.parametrize(
    ("policy", "rounds"),
    [("aes128gcm16", 2), ("aes256gcm16-mlkem768", 3), ("3des-md5", 2), ("null-sha256", 2)],
)
def test_ask_prices_the_key_exchange_as_the_event_kernel_does(
    policy: str, rounds: int, tmp_path: Path
) -> None:
    entry = find("policy", policy)

    def kernel_of(device: str) -> dict[str, Any]:
        text = CHAIN.format(policy=policy, device=device)
        return kernel(request_with(entry, text))

    # This device has no cost of a key exchange: its times are those of the link alone.
    (found,) = (
        one for one in asked_of("cortex-a53", tmp_path)["policies"] if one["policy"] == policy
    )
    free = kernel_of("")
    assert found["rounds"] == rounds
    assert (
        found["handshake_is_least"] and "without what the device computes" in found["handshake_why"]
    )
    rows = free["simulate"]["exchange"]["messages"]
    assert found["handshake_bytes"] == sum(row["wire_bytes"] for row in rows)
    for level in (free["model"]["handshake_s"], free["simulate"]["exchange"]["handshake_s"]):
        assert found["handshake_ms"] == pytest.approx(level * 1e3, rel=0.02)


def test_ask_prices_what_the_device_computes_for_the_key_exchange(tmp_path: Path) -> None:
    found = {one["policy"]: one for one in asked_of("cortex-m4", tmp_path)["policies"]}
    one = found["aes128gcm16"]
    assert not one["handshake_is_least"]
    text = CHAIN.format(policy="aes128gcm16", device='device = "cortex-m4"')
    closed = kernel(request_with(find("policy", "aes128gcm16"), text))["model"]["handshake_s"]
    cells = {cell["name"]: cell["value"] for cell in row_of("device", "cortex-m4")["cells"]}
    # The event kernel counts from the first message on; the key pair in it is made before that.
    generate_s = cells["per_operation.x25519-generate"] / 80e6
    assert one["handshake_ms"] == pytest.approx((closed + generate_s) * 1e3, rel=0.02)
    # ML-KEM has no cost on this device: the time is the least.
    assert found["aes256gcm16-mlkem768"]["handshake_is_least"]
    by_hand = found["md5"]
    assert by_hand["rounds"] is None and by_hand["handshake_why"] == "keys are there by hand"
    assert found["none"]["handshake_why"] == ""


def test_ask_lists_each_exchange_of_ike_and_what_a_move_takes(tmp_path: Path) -> None:
    found = asked_of("cortex-m4", tmp_path)["exchanges"]
    assert {one["exchange"] for one in found} == {one for one in MACHINES if one.startswith("ike")}
    by_name = {one["exchange"]: one for one in found}
    moves = [one["exchange"] for one in found if one["is_move"]]
    assert moves == ["ikev2-mobike", "ikev1-move"]
    ups = [one for one in found if not one["is_move"]]
    assert found == [*ups, *(by_name[name] for name in moves)]
    of_v2 = [one for one in ups if one["exchange"].startswith("ikev2")]
    times = [(one["least"] != "", one["send_ms"]) for one in of_v2]
    assert times == sorted(times) and ups[: len(of_v2)] == of_v2
    # A ticket needs two rounds of the link and nothing of the device; a move one round.
    assert of_v2[0]["exchange"] in ("ikev2-psk-resumed", "ikev2-rsa2048-resumed")
    assert by_name["ikev2-rsa2048-resumed"]["send_ms"] == pytest.approx(40, rel=0.02)
    assert by_name["ikev2-mobike"]["gap_ms"] == pytest.approx(20, rel=0.03)
    said = lab(
        *("ask", "--device", "cortex-m4", "--link", "lte", "--rate-kbps", "64"),
        *("-o", str(tmp_path / "a.svg")),
    ).stdout
    lines = {line.split()[0]: line for line in said.splitlines() if line.strip()}
    assert re.search(r" 1 +4 +1,532 +20\.47 ", lines["ikev2-mobike"]), lines["ikev2-mobike"]
    assert ">= " in lines["ikev2-rsa2048-x25519-mlkem768"]


def test_ask_ranks_by_the_key_exchange_if_asked(tmp_path: Path) -> None:
    by_delay = asked_of("cortex-m4", tmp_path)
    found = asked_of("cortex-m4", tmp_path, "--rank", "handshake")
    assert found["rank"] == "handshake" and "by the shorter key exchange" in found["order"]

    def group(one: dict[str, Any]) -> tuple[Any, ...]:
        return one["carried"], one["standing"], one["encrypts"], one["exchange"]

    groups = [group(one) for one in found["policies"]]
    assert groups == [group(one) for one in by_delay["policies"]]
    for each in dict.fromkeys(groups):
        members = [one for one in found["policies"] if group(one) == each]
        keyed = [one for one in members if one["rounds"] is not None]
        times = [(one["handshake_is_least"], one["handshake_ms"]) for one in keyed]
        assert times == sorted(times) and members[: len(keyed)] == keyed
    current = [one["policy"] for one in found["policies"] if group(one) == groups[0]]
    # The smallest messages first; a time that leaves out ML-KEM is not known to be shorter.
    assert (current[0], current[-1]) == ("chacha20poly1305", "aes256gcm16-mlkem768")
    words = ("ask", "--device", "cortex-a53", "--link", "lte", "--rate-kbps", "64")
    assert "--rank: size is not one of delay, handshake" in refusal(*words, "--rank", "size")


def test_the_exchange_of_an_own_policy_may_go_on_by_a_ticket(tmp_path: Path) -> None:
    text = find("policy", "aes128gcm16").text.replace('"aes128gcm16"', '"mine"', 1)
    own, strong = tmp_path / "mine.toml", tmp_path / "strong.toml"
    own.write_text(f"{text}resumed = true\n")
    strong.write_text(text.replace('"mine"', '"strong"').replace('"rsa2048"', '"rsa4096"'))
    more = ("--policy", str(own), "--policy", str(strong), "--rank", "handshake")
    found = asked_of("cortex-m4", tmp_path, *more)["policies"]
    by_name = {one["policy"].rpartition("/")[2]: one for one in found}
    mine = by_name.get("mine") or by_name["mine.toml"]
    assert mine["handshake_ms"] < by_name["aes128gcm16"]["handshake_ms"] / 10
    unknown = by_name.get("strong") or by_name["strong.toml"]
    assert unknown["rounds"] is None
    assert "the simulator's RSA keys have 2048 bits" in unknown["handshake_why"]


def row_of(kind: str, name: str) -> dict[str, Any]:
    (row,) = (row for row in listing(kind) if row["name"] == name)
    return row


@pytest.mark.parametrize("columns", [20, 60, 80, 200])
def test_a_narrow_terminal_cuts_neither_names_nor_numbers(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("caravan.lab.cli.PIPE_COLUMNS", columns)
    said = lab("links").stdout
    assert "…" not in said
    for row in listing("link"):
        (line,) = (line for line in said.splitlines() if line.startswith(f"{row['name']} "))
        assert f" {row['link']['rate']['up_bps'] / 1e3:,.10g} " in line
