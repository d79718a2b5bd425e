"""`caravan-lab advise`: answers for the sample scenarios, days, budgets, refusals, tables."""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from caravan.advice.answers import below, cited, missed, points, sentences
from caravan.advice.choice import LESS, Miss, advise, applying, gains
from caravan.advice.costs import cost as cost_of
from caravan.advice.question import BUDGETS, Asked, budgets
from caravan.advice.setting import Stay, read
from caravan.advice.stacks import Stack, stacks
from caravan.advice.stacks import parse as parse_stacks
from caravan.advice.standings import PERMITTED, VERDICTS, parse, standings
from caravan.document import plain
from caravan.files import CATALOGUE, find, names
from caravan.lab import core
from caravan.lab.cli import main
from caravan.lab.exchanges import MACHINES
from caravan.messages import Refused

TODAY, REVISED = "2026-11-25", "2026-11-27"


def lab(*words: str) -> tuple[int, str, str]:
    """Status, output and errors of `caravan-lab advise`, run in this process."""
    out, err = io.StringIO(), io.StringIO()
    status = 0
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(sys, "argv", ["caravan-lab", "advise", *words]),
    ):
        try:
            main()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
    return status, out.getvalue(), err.getvalue()


def answer(scenario: str, *words: str, as_of: str = TODAY) -> dict[str, Any]:
    status, out, err = lab("--scenario", scenario, "--as-of", as_of, *words, "--json")
    found: dict[str, Any] = json.loads(out)
    assert status == (0 if found["answer"] else 3), err
    return found


def refusal(*words: str) -> str:
    status, out, err = lab(*words)
    assert (status, out) == (2, "")
    return err.removeprefix("caravan-lab: ").strip()


# Samples: each answer changes with one budget.


@pytest.mark.parametrize(
    ("scenario", "free", "budget", "bound"),
    [
        ("advise-scanner", "wpa2-psk", "gap=25ms", "wpa3-sae-ft"),
        ("advise-vehicle", "wifi-open + tls13", "gap=100ms", "wifi-open + quic"),
        ("advise-sensor", "tls13", "setup=2s", "ikev2-chacha"),
    ],
)
def test_the_answer_of_a_sample_changes_with_one_budget(
    scenario: str, free: str, budget: str, bound: str
) -> None:
    assert answer(scenario)["answer"] == free
    assert answer(scenario, "--budget", budget)["answer"] == bound


def test_work_without_a_cost_takes_nothing_from_the_rest_of_the_work() -> None:
    found = {one["stack"]: one["cost"] for one in answer("advise-sensor")["stacks"]}
    hybrid, plain_one = found["ikev2-mlkem"], found["ikev2-gcm"]
    assert "setup" in hybrid["least"] and "setup" not in plain_one["least"]
    # The same X25519, and a round trip more.
    assert hybrid["setup_ms"] > plain_one["setup_ms"]


def test_a_scanner_with_a_user_needs_fast_transition_for_a_short_gap() -> None:
    must = ("--must", "confidentiality,integrity,per-user-authentication")
    found = {one["stack"]: one for one in answer("advise-scanner", *must)["stacks"]}
    # four messages to the access point 5 ms away, and the first data back
    assert found["wpa3-eap-tls-ft"]["cost"]["gap_ms"] == pytest.approx(20, abs=0.2)
    # 8 waits: 2 to associate, the second one also for the question of 802.1X, 5 for the rest of
    # that, one that the handshake needs; and 5 to the server
    full = found["wpa3-eap-tls"]["cost"]
    assert full["setup_rounds"] == 8
    assert full["setup_ms"] == pytest.approx(8 * 10 + 5 * 40, abs=1)
    assert found["wpa2-psk"]["lacks"] == ["per-user-authentication"]


def test_access_protects_the_radio_alone_and_does_not_count_up_to_a_gateway() -> None:
    found = {one["stack"]: one for one in answer("advise-vehicle")["stacks"]}
    assert found["wpa3-eap-tls"]["gives"] == []
    assert "confidentiality" in found["wifi-open + wireguard"]["gives"]
    must = ("--must", "hides-addresses,survives-moves")
    assert answer("advise-vehicle", *must)["answer"] == "wifi-open + ikev2-gcm"
    found = answer("advise-vehicle", *must, "--also", "unjudged")
    assert found["answer"] == "wifi-open + wireguard"


def test_each_packet_of_a_split_message_gets_what_the_layers_below_add() -> None:
    layers = {layer.name: layer for stack in stacks() for layer in stack.layers}
    setting = read("advise-vehicle")
    (wifi,) = (place for place in setting.places if place.link.is_wifi)
    still = replace(setting, stays=(Stay(wifi, 10.0, is_roam=False),))

    def setup_bytes(*names: str) -> float:
        found = cost_of(Stack(tuple(layers[name] for name in names)), still).setup_bytes
        assert found is not None
        return found

    packets = sum(
        one.get("packets", 1)
        for one in plain("exchange", find("exchange", "ikev2-psk-x25519-mlkem768").text)["message"]
    )
    assert packets == 7
    added = setup_bytes("wpa3-sae", "ikev2-mlkem") - setup_bytes("wpa3-sae")
    # CCMP adds 16 to each.
    assert added == setup_bytes("ikev2-mlkem") + 16 * packets


def test_what_lies_behind_the_end_of_the_protection_is_said_to_be_trusted(tmp_path: Path) -> None:
    def said(scenario: str, *words: str) -> tuple[list[str], str]:
        found = answer(scenario, *words)
        (best,) = (one for one in found["stacks"] if one["stack"] == found["answer"])
        _, out, _ = lab("--scenario", scenario, "--as-of", TODAY, *words)
        lines = [line for line in out.splitlines() if "is trusted" in line]
        return best["trusted"], "".join(lines)

    own = changed("advise-vehicle", tmp_path, *DEPOT, NO_GATEWAY, more=POINTS)
    links = ["hall", "internet", "gateway"]
    because = "as the scenario has no gateway and no router with ends_tunnels"
    assert answer(own)["answer"] == "wpa2-psk"
    assert said(own) == (
        links,
        "It protects the radio alone: what lies behind that is trusted, "
        f"{because}: links hall, internet, gateway.",
    )
    # A tunnel ends at the gateway; what reaches the server trusts nobody.
    assert said("advise-vehicle", "--must", "hides-addresses") == (
        ["gateway"],
        "It ends at the gateway: what lies behind that is trusted, link gateway.",
    )
    assert said("advise-vehicle") == ([], "")
    # Who protects nothing needs no trust: it says that data lies open.
    found = answer(own, "--also", "clear")
    assert (found["answer"], found["stacks"][0]["trusted"]) == ("wifi-open", [])


def test_bytes_of_a_packet_are_those_of_the_layers() -> None:
    found = {one["stack"]: one["cost"] for one in answer("advise-scanner")["stacks"]}
    assert found["wpa2-psk"]["packet_bytes"] == 200 + 16
    assert found["wep"]["packet_bytes"] == 200 + 8
    assert found["wpa3-eap-tls-gcmp"]["packet_bytes"] == 200 + 24
    assert found["wpa3-sae + tls13-mutual"]["packet_bytes"] == 200 + 22 + 16
    vehicle = {one["stack"]: one["cost"] for one in answer("advise-vehicle")["stacks"]}
    # half an hour of the hour is on Wi-Fi
    assert vehicle["wpa3-sae + wireguard"]["packet_bytes"] == 400 + 60 + 16 / 2
    price = core.price("cortex-a53", "chacha20poly1305", 400)
    device_ms = vehicle["wifi-open + wireguard"]["device_ms"]
    assert device_ms == pytest.approx(price["time_ms"])


def test_what_a_stack_adds_has_its_messages_in_it() -> None:
    found = {one["stack"]: one["cost"] for one in answer("advise-sensor")["stacks"]}
    cost, packets = found["tls13"], 24 * 12
    assert cost["packet_bytes"] == 82
    assert cost["setup_bytes"] == 60 + 60 + (52 + 248) + (52 + 718) + (52 + 80)
    assert cost["more"] == pytest.approx((packets * 22 + cost["setup_bytes"]) / (packets * 60))


def test_messages_of_a_tunnel_go_through_the_cipher_of_the_radio(tmp_path: Path) -> None:
    text = (CATALOGUE / "scenarios/advise-vehicle.toml").read_text()
    # It is at the depot all the time.
    text = text.replace('link = "lte"', 'link = "wifi"')
    own = tmp_path / "depot.toml"
    own.write_text(text)
    found = {one["stack"]: one["cost"] for one in answer(str(own))["stacks"]}
    access = found["wpa3-sae"]["setup_bytes"]
    assert found["wpa3-sae + wireguard"]["setup_bytes"] == access + 176 + 120 + 60 + 3 * 16


# Days


@pytest.mark.parametrize(
    ("as_of", "expected"),
    [
        ("2004-01-01", None),
        ("2005-01-01", "wpa2-psk"),
        (TODAY, "wpa2-psk"),
    ],
)
def test_the_answer_is_that_of_the_day(as_of: str, expected: str | None) -> None:
    assert answer("advise-scanner", as_of=as_of)["answer"] == expected


@pytest.mark.parametrize(
    ("as_of", "there"),
    [
        ("2004-11-29", {"wpa2-psk": True, "wpa3-eap-tls": False, "wpa3-sae": False}),
        ("2018-03-31", {"wpa2-eap-tls": True, "wpa3-eap-tls": False, "wpa3-sae": False}),
        ("2018-04-01", {"wpa2-eap-tls": True, "wpa3-eap-tls": True, "wpa3-sae": True}),
    ],
)
def test_no_stack_is_offered_before_it_existed(as_of: str, there: dict[str, bool]) -> None:
    found = {one["stack"]: one for one in answer("advise-scanner", as_of=as_of)["stacks"]}
    assert {name: found[name]["standing"] is not None for name in there} == there
    assert not any(found[name]["fits"] for name, is_there in there.items() if not is_there)


@pytest.mark.parametrize(
    ("as_of", "word"),
    [
        ("1997-01-01", None),
        ("2000-01-01", "allowed"),
        ("2004-06-24", "should-not"),
        ("2010-06-29", "should-not"),
        ("2010-06-30", "must-not"),
    ],
)
def test_wep_falls_step_by_step(as_of: str, word: str | None) -> None:
    verdict = standings().blocks["wep"].on(date.fromisoformat(as_of))
    assert (None if verdict is None else verdict.word) == word


def test_ikev1_was_allowed_before_rfc_9395() -> None:
    must = ("--must", "confidentiality,mutual-authentication")
    stack = "wifi-open + ikev1-aes"
    for as_of, standing in (("2005-06-01", "allowed"), ("2023-04-01", "should-not")):
        found = answer("advise-vehicle", *must, as_of=as_of)
        (one,) = [one for one in found["stacks"] if one["stack"] == stack]
        assert one["standing"] == standing
    assert answer("advise-vehicle", *must, as_of="2004-12-01")["answer"] == "wifi-open + ikev1-3des"


def test_an_answer_carries_its_day_and_that_of_the_table() -> None:
    found = answer("advise-scanner", as_of="2027-01-01")
    assert (found["as_of"], found["standings_revised"]) == ("2027-01-01", REVISED)
    _, out, _ = lab("--scenario", "advise-scanner", "--as-of", "2027-01-01")
    assert f"As of 2027-01-01, by the standings of {REVISED}. What was published later" in out


@pytest.mark.parametrize(
    ("scenario", "words"),
    [
        ("advise-vehicle", ("--must", "hides-addresses")),
        ("advise-scanner", ("--must", "identity-hiding")),
        ("advise-sensor", ("--must", "hides-addresses", "--budget", "setup=2s")),
    ],
)
def test_if_nothing_more_can_be_bought_no_stack_that_fits_has_more(
    scenario: str, words: tuple[str, ...]
) -> None:
    found = answer(scenario, *words)
    fitting = [one for one in found["stacks"] if one["fits"]]
    best = fitting[0]
    assert best["stack"] == found["answer"]
    dearer = [one for one in fitting[1:] if has_more(one, best)]
    assert (found["next"] or {}).get("stack") == (dearer[0]["stack"] if dearer else None)
    _, out, _ = lab("--scenario", scenario, "--as-of", TODAY, *words)
    assert ("No dearer stack that fits has another property" in out) == (not dearer)


def has_more(one: dict[str, Any], best: dict[str, Any]) -> bool:
    """Whether a stack has what its verdict, its properties or its times are worth."""
    if not set(one["gives"]) <= set(best["gives"]):
        return True
    own, its = best["cost"], one["cost"]
    for name in ("gap", "setup", "device"):
        key = f"{name}_ms"
        is_known = own[key] is not None and its[key] is not None
        if is_known and name not in its["least"] and its[key] < 0.9 * own[key]:
            return True
    return VERDICTS.index(one["standing"]) > VERDICTS.index(best["standing"])


# Words


def test_the_text_says_why_what_comes_next_and_from_which_standard() -> None:
    status, out, err = lab("--scenario", "advise-scanner", "--budget", "gap=25ms", "--as-of", TODAY)
    assert (status, err) == (0, "")
    assert "Use WPA3-Personal with 802.11r: the cheapest of 7 stacks" in out
    assert "Cheaper, but not it: WPA2-Personal: gap 40.04 ms, 15.04 ms too much." in out
    assert "The next dearer one is WPA3-Enterprise, EAP-TLS with P-256 and 802.11r" in out
    assert "SAE: recommended by Wi-Fi Alliance WPA3 Specification 3.5, §2.2, 2025-02, as" in out
    assert "802.11r: allowed by IEEE 802.11r-2008, §11A, 2008-07, as cited by others." in out


def test_what_the_next_dearer_one_gives_up_is_said() -> None:
    words = ("--scenario", "advise-scanner", "--budget", "rounds=3", "--as-of", TODAY)
    _, out, _ = lab(*words)
    said = "0.063 points more buy forward-secrecy, and give up mutual-authentication."
    assert f"The next dearer one is Enhanced Open (OWE): {said}" in out


def test_nothing_fits_is_status_3_with_the_nearest_miss() -> None:
    words = ("--scenario", "advise-vehicle", "--budget", "gap=100ms,bytes=6%", "--as-of", TODAY)
    status, out, err = lab(*words)
    assert (status, err) == (3, "")
    assert (
        "Nothing fits. The nearest miss is open Wi-Fi, QUIC: "
        "bytes 7.02 %, 1.02 points too much." in out
    )
    found = answer("advise-vehicle", *words[2:4])
    assert (found["answer"], found["nearest"]) == (None, "wifi-open + quic")
    assert found["allowed_from"] is None


def test_before_all_standings_the_nearest_miss_is_what_is_allowed_first() -> None:
    words = ("--scenario", "advise-scanner", "--as-of", "1990-01-01")
    status, out, err = lab(*words)
    assert (status, err) == (3, "")
    none = "Nothing fits: no stack that applies here is allowed on this day."
    first = "The nearest miss is WPA2-Personal: allowed from 2004-09-01 on."
    assert f"{none} {first}\nThe oldest standing of what applies here is of 1997-06-01.\n" in out
    assert table_row(out, "wpa2-psk")[-1] == "not yet"
    found = answer("advise-scanner", as_of="1990-01-01")
    assert (found["answer"], found["nearest"]) == (None, "wpa2-psk")
    assert found["allowed_from"] == "2004-09-01"
    # The day is the first one on which it is allowed.
    assert answer("advise-scanner", as_of="2004-08-31")["answer"] is None
    assert answer("advise-scanner", as_of="2004-09-01")["answer"] == "wpa2-psk"
    _, out, _ = lab(*words, "--budget", "gap=1ms")
    assert "allowed from 2004-09-01 on; gap 40.04 ms, 39.04 ms too much." in out


def test_one_point_is_not_points() -> None:
    assert [points(one) for one in ("1", "1.02", "10")] == ["1 point", "1.02 points", "10 points"]
    advice = advise("advise-vehicle", Asked.read(None, "bytes=10%", TODAY))
    assert advice.best is not None and advice.next is not None
    share = advice.best.cost.share + 0.01
    other = replace(advice.next, cost=replace(advice.next.cost, share=share))
    assert any(": 1 point more buys " in one for one in sentences(replace(advice, next=other)))
    over = Miss("bytes", 0.1, 0.11)
    assert missed(over, other.cost) == "bytes 11 %, 1 point too much"


def test_the_nearest_miss_of_a_limit_of_0_is_that_with_the_least() -> None:
    found = answer("advise-scanner", "--budget", "gap=0ms")
    allowed = [one for one in found["stacks"] if one["standing"] in PERMITTED and not one["lacks"]]
    least = min(one["cost"]["gap_ms"] for one in allowed)
    (nearest,) = (one for one in found["stacks"] if one["stack"] == found["nearest"])
    assert nearest["cost"]["gap_ms"] == pytest.approx(least)
    assert found["nearest"] != allowed[0]["stack"]


def test_what_is_asked_twice_is_asked_together() -> None:
    words = ("confidentiality", "survives-moves")
    apart = answer("advise-vehicle", *(word for one in words for word in ("--must", one)))
    assert apart["must"] == ["confidentiality", "integrity", "survives-moves"]
    assert apart["stacks"] == answer("advise-vehicle", "--must", ",".join(words))["stacks"]
    limits = answer("advise-vehicle", "--budget", "gap=100ms", "--budget", "bytes=6%")["budget"]
    assert limits == {"gap": 100.0, "bytes": 0.06}


def test_a_budget_that_cannot_be_known_is_not_kept() -> None:
    found = answer("advise-vehicle", "--budget", "device=1s")
    (tls,) = [one for one in found["stacks"] if one["stack"] == "wifi-open + tls13"]
    assert tls["misses"] == [{"budget": "device", "limit": 1e3, "amount": None}]
    assert found["answer"] == "wifi-open + ikev2-gcm"


def test_the_work_of_a_radio_is_not_known_and_keeps_no_budget(tmp_path: Path) -> None:
    own = changed("advise-vehicle", tmp_path, *DEPOT, NO_GATEWAY, more=POINTS)
    assert answer(own)["answer"] == "wpa2-psk"
    found = answer(own, "--budget", "device=1s")
    costs = {one["stack"]: one["cost"] for one in found["stacks"]}
    assert found["answer"] is None
    for name in ("wep", "wpa2-psk", "wpa3-eap-tls-gcmp"):
        assert costs[name]["device_ms"] is None
        assert any(note.startswith("no cost of a packet of ") for note in costs[name]["notes"])
    # Nothing is done to a packet there.
    assert (costs["wifi-open"]["device_ms"], costs["wifi-open"]["least"]) == (0, [])
    _, out, _ = lab("--scenario", own, "--as-of", TODAY, "--budget", "device=1s")
    assert "Not counted: no cost of a packet of WPA2-Personal on a device; " in out
    assert table_row(out, "wpa2-psk")[6] == "-"


def test_times_of_a_device_in_mips_are_the_least(tmp_path: Path) -> None:
    own = changed("advise-vehicle", tmp_path, ('"cortex-a53"', '"paper-u"\nmips = 200'))
    costs = costs_of(own)
    assert costs["wifi-open + ikev2-gcm"]["least"] == ["setup"]
    assert costs["wifi-open + tls13"]["least"] == ["gap", "setup"]
    # Nobody computes for these.
    assert costs["wifi-open + mobile-ip"]["least"] == costs["wifi-open"]["least"] == []
    _, out, _ = lab("--scenario", own, "--as-of", TODAY)
    assert "operations of key exchanges are in cycles" in out


def test_with_the_work_of_a_radio_the_time_of_a_tunnel_is_the_least(tmp_path: Path) -> None:
    text = (CATALOGUE / "devices/cortex-a53.toml").read_text()
    packet = 'per_packet = { value = 1000, source = "this test" }'
    (tmp_path / "exact.toml").write_text(text.replace("[per_byte]", f"{packet}\n\n[per_byte]", 1))
    own = changed("advise-vehicle", tmp_path, ('"cortex-a53"', '"exact.toml"'))
    costs = costs_of(own)
    bare, both = costs["wifi-open + ikev2-gcm"], costs["wpa2-psk + ikev2-gcm"]
    assert bare["device_ms"] == both["device_ms"] > 0
    assert "device" not in bare["least"] and "device" in both["least"]
    _, out, _ = lab("--scenario", own, "--as-of", TODAY, "--all")
    assert table_row(out, "wpa2-psk + ikev2-gcm")[6].startswith(">= ")


def test_amounts_that_are_the_least_are_said_to_be_so() -> None:
    words = ("--scenario", "advise-vehicle", "--as-of", TODAY)
    _, out, _ = lab(*words, "--budget", "setup=100ms")
    assert "Its amounts are the least, so it may still miss: setup." in out
    # Nothing of QUIC's move is left out.
    for budget in ("gap=100ms", "bytes=10%"):
        _, out, _ = lab(*words, "--budget", budget)
        assert "the least, so" not in out
    assert "So these are at least what is said: setup, gap." in out
    found = {one["stack"]: one["cost"] for one in answer("advise-vehicle")["stacks"]}
    assert found["wifi-open + quic"]["least"] == ["setup"]
    assert found["wifi-open + ikev2-gcm"]["least"] == ["device", "setup"]
    assert not found["wifi-open"]["least"] and not found["wifi-open"]["lower_bound"]


def table_row(out: str, stack: str) -> list[str]:
    """The cells of a stack in the table."""
    lines = (line.removeprefix(">").strip() for line in out.splitlines())
    (line,) = (line for line in lines if line.startswith(f"{stack}  "))
    return re.split(r"\s{2,}", line)


def test_the_table_marks_lower_bounds() -> None:
    found = {one["stack"]: one["cost"] for one in answer("advise-sensor")["stacks"]}
    assert found["ikev1-3des"]["lower_bound"] and found["ikev1-3des"]["least"] == ["setup"]
    _, out, _ = lab("--scenario", "advise-sensor", "--as-of", TODAY, "--all")
    header = table_row(out, "stack")
    at = header.index("setup, ms")
    for stack, cost in found.items():
        is_least = table_row(out, stack)[at].startswith(">= ")
        assert is_least == ("setup" in cost["least"]), stack
    assert "\n>=: at least; a part of the work" in out
    _, out, _ = lab("--scenario", "advise-scanner", "--as-of", TODAY, "--all")
    assert ">=" not in out


def test_a_budget_that_is_missed_by_a_lower_bound_says_at_least() -> None:
    words = ("--must", "hides-addresses", "--also", "unjudged", "--budget", "device=1us")
    _, out, _ = lab("--scenario", "advise-vehicle", "--as-of", TODAY, *words)
    assert "WireGuard: device at least 2.078 us, 1.078 us too much." in out


def test_what_the_table_leaves_out_is_counted_and_all_shows_it() -> None:
    words = ("--scenario", "advise-vehicle", "--as-of", TODAY)
    _, out, _ = lab(*words)
    stacks_here = [one["stack"] for one in answer("advise-vehicle")["stacks"]]

    def listed(text: str) -> list[str]:
        head, _, _ = text.partition("bytes: a packet")
        return [line for line in head.splitlines()[4:] if line][1:]

    left = len(stacks_here) - len(listed(out))
    assert left > 0
    said = f"{left} of the {len(stacks_here)} stacks that apply are left out: --all shows them"
    assert said in out
    _, out, _ = lab(*words, "--all")
    assert len(listed(out)) == len(stacks_here)
    assert "left out: --all" not in out
    assert table_row(out, "wifi-open")[-1] == "confidentiality, integrity"


def test_what_is_below_the_table_explains_its_own_columns_and_those_it_lacks() -> None:
    _, moving, _ = lab("--scenario", "advise-scanner", "--as-of", TODAY)
    assert "gap: of the worst move; >: the answer\n" in moving
    assert "no column device: the scenario names no device of the client\n" in moving
    assert "no column gap" not in moving
    _, still, _ = lab("--scenario", "advise-sensor", "--as-of", TODAY)
    assert "device: the client's time for a packet; >: the answer\n" in still
    assert "no column gap: the client does not move in this scenario\n" in still
    assert "worst move" not in still
    _, none, _ = lab("--scenario", "advise-scanner", "--budget", "gap=0ms", "--as-of", TODAY)
    assert ">: the nearest miss\n" in none
    advice = replace(advise("advise-scanner", Asked.read(None, None, TODAY)), best=None, next=None)
    assert not any(">:" in line for line in below(advice, every=True))


# What is asked in any case


def test_what_is_asked_comes_on_top_of_confidentiality_and_integrity() -> None:
    found = answer("advise-vehicle", "--must", "survives-moves")
    assert found["must"] == ["confidentiality", "integrity", "survives-moves"]
    assert found["answer"] == "wifi-open + quic"
    _, out, _ = lab("--scenario", "advise-vehicle", "--must", "survives-moves", "--as-of", TODAY)
    assert "leaves data open" not in out


def test_data_in_clear_needs_a_word_and_is_said() -> None:
    words = ("--must", "survives-moves", "--also", "clear")
    found = answer("advise-vehicle", *words)
    assert (found["must"], found["also"]) == (["survives-moves"], ["clear"])
    assert found["answer"] == "wifi-open + mobile-ip"
    _, out, _ = lab("--scenario", "advise-vehicle", *words, "--as-of", TODAY)
    said = "It leaves data open: who listens learns the data, and changed packets are accepted."
    assert said in out
    assert answer("advise-vehicle", "--also", "clear")["must"] == []
    half = answer("advise-vehicle", "--must", "integrity", "--also", "clear")
    assert half["must"] == ["integrity"]


# What no standard judges


def test_what_no_standard_judges_needs_a_word() -> None:
    must = ("--must", "hides-addresses")
    found = answer("advise-vehicle", *must)
    (one,) = (one for one in found["stacks"] if one["stack"] == "wifi-open + wireguard")
    assert (one["standing"], one["fits"], one["lacks"]) == ("unjudged", False, [])
    assert found["answer"] == "wifi-open + ikev2-gcm"
    words = ("--scenario", "advise-vehicle", "--as-of", TODAY, *must)
    _, out, _ = lab(*words)
    assert "WireGuard is judged by no standard (--also unjudged lets it in)" in out
    assert "stacks that are allowed, have" in out
    _, out, _ = lab(*words, "--also", "unjudged")
    assert "Use open Wi-Fi, WireGuard: " in out
    assert "stacks that are allowed or unjudged, have" in out
    assert "WireGuard: no standard judges it; it is described in Donenfeld, WireGuard" in out
    assert "'allowed' instead of 'unjudged'" in out


def test_what_would_fit_if_it_were_judged_is_named_when_nothing_fits() -> None:
    words = ("--must", "hides-addresses", "--budget", "rounds=1")
    found = answer("advise-vehicle", *words)
    assert found["answer"] is None
    _, out, _ = lab("--scenario", "advise-vehicle", *words, "--as-of", TODAY)
    assert "open Wi-Fi, WireGuard would fit, but is judged by no standard: --also unjudged" in out
    assert answer("advise-vehicle", *words, "--also", "unjudged")["answer"] is not None


def test_no_paper_draft_or_vendor_allows_anything() -> None:
    """Only bodies of standards do; RFCs of the IETF, and programmes of the Wi-Fi Alliance."""
    bodies = ("RFC", "IEEE", "Wi-Fi Alliance", "NIST", "PCI")
    for block in standings().blocks.values():
        for one in block.verdicts:
            assert one.document.startswith(bodies) or one.word == "unjudged", block.name


def test_a_time_of_which_the_least_alone_is_known_cannot_be_bought() -> None:
    words = ("--must", "survives-moves,hides-addresses", "--also", "unjudged")
    found = answer("advise-vehicle", *words)
    assert found["next"]["stack"] == "wifi-open + ikev2-gcm"
    assert found["next"]["buys"] == ["standing"]
    costs = {one["stack"]: one["cost"] for one in found["stacks"]}
    own, its = (costs[name] for name in (found["answer"], found["next"]["stack"]))
    assert "device" in own["least"] and "device" in its["least"]
    assert its["device_ms"] < LESS * own["device_ms"]
    _, out, _ = lab("--scenario", "advise-vehicle", *words, "--as-of", TODAY)
    assert "a time of the device" not in out


def test_a_verdict_whose_document_nobody_could_open_says_so() -> None:
    """As the head of the table says which these are."""
    closed = ("IEEE", "Wi-Fi Alliance", "NIST", "PCI", "Microsoft", "Netscape")
    for block in standings().blocks.values():
        for one in block.verdicts:
            is_new = one.document.startswith("RFC") and one.since.year >= 2023
            assert one.as_cited == (one.document.startswith(closed) or is_new), one
            assert cited(one).endswith(", as cited by others") == one.as_cited
    _, out, _ = lab("--scenario", "advise-scanner", "--as-of", TODAY)
    assert "CCMP-128: recommended by IEEE 802.11i-2004, §8.3.3, 2004-06-24, as cited by oth" in out
    with pytest.raises(Refused, match="as_cited: must be true or false"):
        parse("t", BLOCK.replace('"§1"\n', '"§1"\nas_cited = "yes"\n'))


def test_a_shorter_time_that_is_known_can_be_bought() -> None:
    advice = advise("advise-vehicle", Asked.read("hides-addresses", None, TODAY, "unjudged"))
    assert advice.best is not None and advice.next is not None
    other = replace(advice.next, cost=replace(advice.next.cost, least=frozenset({"setup"})))
    assert "device" in advice.best.cost.least
    assert gains(advice.best, other, standings()) == ["device", "standing"]
    said = list(sentences(replace(advice, next=other)))
    instead = "a time of the device for a packet of 0.6899 us instead of at least 2.078 us"
    assert any(instead in one for one in said)


def test_the_help_names_properties_and_budgets() -> None:
    status, out, _ = lab("--help")
    words = out.replace("\n", " ").replace("- ", "-")
    assert status == 0
    for word in ("--scenario", "--must", "--budget", "--as-of", "--json", *BUDGETS):
        assert word in words
    flat = re.sub(r"\s+", "", out)
    assert all(word in flat for word in standings().properties)
    assert "list[" not in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--must", "confidentality"),
            "--must: unknown property 'confidentality', the nearest valid one is 'confidentiality'",
        ),
        (("--must", ""), "--must: unknown property ''"),
        (("--also", "unjuged"), "--also: unknown word 'unjuged', the nearest valid one is 'unju"),
        (("--also", "clear,x"), "--also: unknown word 'x', valid are 'unjudged', 'clear'"),
        (("--budget", "gap=100"), "--budget: gap=100: a unit is missing; valid: us, ms, s, min"),
        (("--budget", "gap=100kg"), "--budget: gap=100kg: 'kg' is not its unit"),
        (("--budget", "bytes=10"), "--budget: bytes=10: a unit is missing; valid: %"),
        (("--budget", "gap"), "--budget: gap: no limit: write gap=100ms"),
        (("--budget", "gap=-1ms"), "--budget: gap=-1ms: must not be below 0: write gap=100ms"),
        (("--budget", "bytes=-1%"), "--budget: bytes=-1%: must not be below 0: write bytes=10%"),
        (("--budget", "gap=--1ms"), "--budget: gap=--1ms: not a number: write gap=100ms"),
        (("--budget", "gapp=1s"), "unknown budget 'gapp', the nearest valid one is 'gap'"),
        (("--budget", "gap=1s,gap=2s"), "--budget: gap is given twice"),
        (("--budget", "rounds=1.5"), "--budget: rounds=1.5: must be a whole number"),
        (("--budget", f"bytes={'9' * 400}%"), "--budget: bytes: 401 characters, the number is too"),
        (("--budget", "gap=1s", "--budget", "gap=2s"), "--budget: gap is given twice"),
        (
            ("--scenario", "advise-sensor"),
            "--scenario: advise-scanner, advise-sensor: give only one of them",
        ),
        (("--as-of", TODAY, "--as-of", TODAY), "--as-of: 2026-11-25, 2026-11-25: give only one"),
        (("--as-of", "2026-13-01"), "--as-of: '2026-13-01' is not a day such as 2026-11-25"),
        (("--as-of", "yesterday"), "--as-of: 'yesterday' is not a day"),
        (("--as-of", "20261125"), "'20261125' is not a day such as 2026-11-25: write year, month"),
        (("--as-of", "2026-W48-3"), "--as-of: '2026-W48-3' is not a day such as 2026-11-25"),
        (("--as-of", "2026-11"), "--as-of: '2026-11' is not a day such as 2026-11-25"),
    ],
)
def test_bad_words_are_refused(words: tuple[str, ...], said: str) -> None:
    assert said in refusal("--scenario", "advise-scanner", *words)


def test_scenarios_that_say_too_little_are_refused(tmp_path: Path) -> None:
    assert "there is no scenario 'nosuch'" in refusal("--scenario", "nosuch")
    assert "--scenario is missing" in refusal()
    assert "gap: advise-sensor has no move" in refusal(
        "--scenario", "advise-sensor", "--budget", "gap=1s"
    )
    assert "device: advise-scanner names no device" in refusal(
        "--scenario", "advise-scanner", "--budget", "device=1ms"
    )
    assert "handover has 2 clients, not one" in refusal("--scenario", "handover")
    assert "sizes of the model pareto" in refusal("--scenario", "umts")
    own = tmp_path / "own.toml"
    text = (CATALOGUE / "scenarios/advise-scanner.toml").read_text()
    own.write_text(f'{text}\n[[move]]\nat = "50 min"\nlink = "aisle-1"\ndelay = "9 ms"\n')
    assert "a move changes a link" in refusal("--scenario", str(own))
    own.write_text("name = 1\n")
    assert "own.toml:1:1: name" in refusal("--scenario", str(own))


def test_budgets_have_units() -> None:
    limits = budgets("gap=100ms, setup=2 min,bytes=10%,messages=5KB,rounds=4,device=3us")
    assert limits == pytest.approx(
        {"gap": 0.1, "setup": 120, "bytes": 0.1, "messages": 5e3, "rounds": 4, "device": 3e-6}
    )


# JSON

COST = {
    "packet_bytes",
    "more",
    "setup_rounds",
    "setup_bytes",
    "setup_ms",
    "move_bytes",
    "gap_ms",
    "device_ms",
    "lower_bound",
    "least",
    "notes",
}


def test_the_json_has_these_keys() -> None:
    found = answer("advise-scanner", "--budget", "gap=25ms")
    assert set(found) == {
        *("as_of", "standings_revised", "scenario", "scenario_hash", "version", "must", "also"),
        *("budget", "answer", "next", "nearest", "allowed_from", "doubts"),
        "stacks",
    }
    assert found["budget"] == {"gap": 25.0}
    assert found["next"]["buys"] == ["per-user-authentication"]
    assert found["next"]["gives_up"] == []
    for one in found["stacks"]:
        assert set(one) == {
            *("stack", "title", "fits", "standing", "gives", "lacks", "misses", "cost"),
            *("trusted", "verdicts"),
        }
        assert set(one["cost"]) == COST
        for verdict in one["verdicts"]:
            assert verdict["verdict"] in VERDICTS
            assert verdict["document"] and verdict["section"] and verdict["from"]
            block = standings().blocks[verdict["block"]].on(date.fromisoformat(TODAY))
            assert block is not None and verdict["as_cited"] is block.as_cited
    assert {verdict["as_cited"] for one in found["stacks"] for verdict in one["verdicts"]} == {
        True,
        False,
    }


# The tables


def test_every_verdict_has_a_source_and_a_date() -> None:
    known = standings()
    assert len(known.blocks) >= 25
    for block in known.blocks.values():
        assert block.claims, block.name
        assert set(block.gives) <= set(known.properties), block.name
        for verdict in block.verdicts:
            assert re.search(r"\d", verdict.document), (block.name, verdict)
            assert verdict.section, (block.name, verdict)
            assert date(1995, 1, 1) <= verdict.since <= known.revised, (block.name, verdict)


@pytest.mark.parametrize(
    ("block", "as_of", "word", "document"),
    [
        ("eap-md5", "2004-01-01", "recommended", "RFC 2284"),
        ("eap-md5", "2005-02-28", "recommended", "RFC 3748"),
        ("eap-md5", "2005-03-01", "must-not", "RFC 4017"),
        ("modp1024", "2004-01-01", "recommended", "RFC 2409"),
        ("modp1024", "2006-01-01", "recommended", "RFC 4109"),
        ("modp1024", "2018-01-01", "should-not", "RFC 8247"),
        ("esp-aes128-sha1", "2005-11-30", "allowed", "RFC 3602"),
        ("esp-aes128-sha1", "2005-12-01", "recommended", "RFC 4305"),
        ("sae", "2011-08-31", None, ""),
        ("sae", "2011-12-01", "allowed", "IEEE 802.11s-2011"),
        # Nothing recommends TLS 1.2 under EAP, nor GCMP-256 with keys of RSA-2048.
        ("eap-tls", "2007-01-01", "allowed", "RFC 2716"),
        ("eap-tls", "2020-01-01", "allowed", "RFC 5216"),
        ("eap-tls", TODAY, "allowed", "RFC 9190"),
        ("gcmp", TODAY, "allowed", "IEEE 802.11ac-2013"),
    ],
)
def test_a_verdict_is_what_its_document_says(
    block: str, as_of: str, word: str | None, document: str
) -> None:
    verdict = standings().blocks[block].on(date.fromisoformat(as_of))
    assert (verdict and verdict.word, verdict.document if verdict else "") == (word, document)


CIPHERS = ("wep-40", "wep-104", "tkip", "ccmp-128", "gcmp-256")


@pytest.mark.parametrize(
    "word",
    [
        *(name for name in names("exchange") if name.startswith(("eap-", "wifi-"))),
        *CIPHERS,
        *("tls-1.2", "tls-1.3"),
    ],
)
def test_every_method_cipher_and_version_of_tls_in_a_policy_is_judged(word: str) -> None:
    block = standings().of(word)
    assert block is not None and block.on(date.fromisoformat(TODAY)) is not None
    # What a layer of a stack has as its exchange or cipher is among its blocks.
    for layer in (layer for stack in stacks() for layer in stack.layers):
        if word in layer.setup and word.startswith("eap-"):
            assert block in layer.blocks, layer.name
        if layer.data and layer.at == "access" and word.startswith(layer.data):
            assert block in layer.blocks, layer.name


def test_blocks_that_are_broken_give_nothing() -> None:
    for block in standings().blocks.values():
        if block.name in ("wep", "tkip", "esp-des-md5", "ssl3", "tls-rc4", "open"):
            assert block.gives == ()


BLOCK = """
revised = "2026-11-25"
[properties]
integrity = "whole"
[[block]]
name = "one"
title = "One"
gives = ["integrity"]
claims = "RFC 1 §1"
[[block.verdict]]
from = "2020-01"
is = "allowed"
document = "RFC 1"
section = "§1"
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"allowed"', '"alowed"', "unknown value 'alowed', the nearest valid one is 'allowed'"),
        ('["integrity"]', '["integrty"]', "unknown property 'integrty'"),
        ('document = "RFC 1"\n', "", "the key 'document' is missing"),
        ('section = "§1"', 'section = ""', "must not be empty: every verdict has a source"),
        ('claims = "RFC 1 §1"', 'claims = " "', "must not be empty"),
        ('"2020-01"', '"soon"', "'soon' is not a day"),
        ('title = "One"', 'title = "One"\ntitel = "x"', "unknown key 'titel'"),
        ('name = "one"', 'name = "one"\nnamed = ["one"]', 'the name "one" is used twice'),
        (
            'section = "§1"\n',
            'section = "§1"\n[[block.verdict]]\nfrom = "2019-01"\nis = "must-not"\n'
            'document = "RFC 2"\nsection = "§1"\n',
            "in the order of their dates",
        ),
    ],
)
def test_a_table_of_standings_refuses_unknown_words(old: str, new: str, said: str) -> None:
    assert len(parse("t", BLOCK).blocks) == 1
    with pytest.raises(Refused, match=re.escape(said)):
        parse("t", BLOCK.replace(old, new))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('at = "acces"\nblocks = ["ccmp"]', "unknown value 'acces'"),
        ('at = "access"\nblocks = ["ccmpp"]', "unknown block 'ccmpp'"),
        ('at = "access"\nblocks = ["ccmp"]\nsetup = ["wifi-opn"]', "unknown exchange 'wifi-opn'"),
        ('at = "tunnel"\nblocks = ["ccmp"]\npolicy = "skp"', "unknown policy 'skp'"),
        ('at = "tunnel"\nblocks = ["ccmp"]\ndata = "ccmp"\nsuite = "des"', "only one of"),
    ],
)
def test_a_file_of_stacks_refuses_unknown_names(text: str, said: str) -> None:
    with pytest.raises(Refused, match=said):
        parse_stacks("t", f'[[layer]]\nname = "a"\ntitle = "A"\n{text}\n', standings())


def test_layers_lie_in_order() -> None:
    layers = "".join(
        f'[[layer]]\nname = "{at}"\ntitle = "T"\nat = "{at}"\nblocks = ["ccmp"]\n'
        for at in ("access", "tunnel")
    )
    stack = '[[stack]]\nlayers = ["tunnel", "access"]\n'
    with pytest.raises(Refused, match="at most one layer at each place"):
        parse_stacks("t", layers + stack, standings())


def test_the_core_says_of_suites_what_the_table_says_today() -> None:
    rows = {row["name"]: row for row in core.listing("policy")}
    for suite in ("aes128gcm16", "chacha20poly1305", "aes128-sha1"):
        verdict = standings().blocks[f"esp-{suite}"].on(date.fromisoformat(TODAY))
        assert verdict is not None and verdict.word in PERMITTED
        assert rows[suite]["standing"] == "current"
    des = standings().blocks["esp-des-md5"].on(date.fromisoformat(TODAY))
    assert des is not None and des.word == "must-not" and rows["des-md5"]["is_forbidden"]
    assert rows["aes128gcm16"]["exchange"] is None
    assert "deprecated" in str(rows["des-md5"]["exchange"])


def test_every_exchange_of_today_is_in_a_layer_or_stands_for_itself() -> None:
    used = {
        name
        for stack in stacks()
        for layer in stack.layers
        for name in (*layer.setup, *layer.renewal, layer.data)
    }
    alone = {"ikev1-aggressive", "ikev1-main", "ikev2", "ikev2-psk-strongswan", "skip"}
    # Rows of studies: other proofs and key exchanges than those of the layers.
    alone |= set(MACHINES) - {
        "ikev1-main-psk",
        "ikev2-psk",
        "ikev2-psk-x25519-mlkem768",
        "ikev2-mobike",
    }
    # Rows of studies: Mobile IP below the tunnel.
    alone |= {"mvpn-agent", "mvpn-foreign-agent"}
    # Of the layer `transport`.
    alone |= {"tls12-resumed", "tls12-rsa2048", "tls13-rsa2048"}
    # Keys of 2004, in rows of a study.
    alone |= {"eap-tls-rsa1024"}
    alone |= {name for name in names("exchange") if name.startswith("socks5")}
    assert set(names("exchange")) - used == alone


# Settings


def test_a_scenario_without_wifi_has_no_access_layers() -> None:
    found = applying(stacks(), read("advise-sensor"))
    assert all(layer.at != "access" for stack in found for layer in stack.layers)
    assert len(found) == len(set(found))


def test_moves_between_access_points_of_one_link_keep_the_address() -> None:
    assert [stay.is_roam for stay in read("advise-scanner").stays] == [False, True, True]
    assert [stay.is_roam for stay in read("advise-vehicle").stays] == [False, False, False]
    assert [stay.seconds for stay in read("advise-vehicle").stays] == [600, 1800, 1200]


def changed(sample: str, folder: Path, *changes: tuple[str, str], more: str = "") -> str:
    """A sample with other lines."""
    text = (CATALOGUE / f"scenarios/{sample}.toml").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    own = folder / "own.toml"
    own.write_text(text + more)
    return str(own)


DEPOT = (
    ('to = "internet"\nlink = "lte"', 'to = "point-1"\nlink = "wifi"'),
    ('to = "internet"\nlink = "wifi"', 'to = "point-2"\nlink = "wifi"'),
)
POINTS = """
[[node]]
name = "point-1"
role = "access-point"

[[node]]
name = "point-2"
role = "access-point"

[[link]]
name = "hall"
from = ["point-1", "point-2"]
to = "internet"
link = "ethernet"
"""
"""The van is at the depot all the time, and goes from one of its access points to another."""
NO_GATEWAY = ('role = "gateway"', 'role = "router"')
YARD = """
[[link]]
name = "yard"
from = "point-2"
to = "internet"
rate = "1 Gbit/s"
delay = "2 s"
"""
APART = POINTS.replace('"point-1", "point-2"', '"point-1"') + YARD
"""The other access point is of another network, two seconds away."""


def test_only_access_points_on_one_link_are_one_network(tmp_path: Path) -> None:
    """As docs/lab-scenarios.md says, and as the core divides the graph into networks."""

    def roams(scenario: str) -> list[bool]:
        return [stay.is_roam for stay in read(scenario).stays]

    own = changed("advise-vehicle", tmp_path, *DEPOT, more=POINTS)
    assert roams(own) == [False, True, True]
    found = {one["stack"]: one for one in answer(own, "--must", "survives-moves")["stacks"]}
    assert "survives-moves" in found["wifi-open + tls13"]["gives"]
    # Two radios that end at one router are two of its networks.
    own = changed("advise-vehicle", tmp_path, ('link = "lte"', 'link = "wifi"'))
    assert roams(own) == [False, False, False]
    apart = POINTS.replace('"point-1", "point-2"', '"point-1"')
    apart += '\n[[link]]\nname = "yard"\nfrom = "point-2"\nto = "internet"\nlink = "ethernet"\n'
    own = changed("advise-vehicle", tmp_path, *DEPOT, more=apart)
    assert roams(own) == [False, False, False]


def test_whether_a_link_is_wifi_goes_by_the_files_own_name(tmp_path: Path) -> None:
    text = (CATALOGUE / "links/wifi.toml").read_text()
    for name in ("wifi.toml", "wifi-hall.toml", "radio.toml"):
        (tmp_path / name).write_text(text)

    def wifi(link: str) -> list[bool]:
        own = changed("advise-vehicle", tmp_path, ('link = "wifi"', f'link = "{link}"'))
        return [stay.place.link.is_wifi for stay in read(own).stays]

    yes, no = [False, True, False], [False, False, False]
    assert wifi("wifi") == wifi("./wifi.toml") == wifi(f"{tmp_path}/wifi-hall.toml") == yes
    assert wifi("radio.toml") == no
    (tmp_path / "wifi").mkdir()
    (tmp_path / "wifi/lte.toml").write_text((CATALOGUE / "links/lte.toml").read_text())
    assert wifi("wifi/lte.toml") == no
    # The radio of an access point is Wi-Fi, whatever its file is called.
    point = (DEPOT[1][0], DEPOT[1][1].replace('"wifi"', '"radio.toml"'))
    first = '\n[[node]]\nname = "point-1"\nrole = "access-point"\n'
    more = POINTS.replace(first, "").replace('"point-1", ', "")
    own = changed("advise-vehicle", tmp_path, point, more=more)
    assert [stay.place.link.is_wifi for stay in read(own).stays] == yes


def test_a_link_that_looks_like_wifi_and_is_not_taken_so_is_said(tmp_path: Path) -> None:
    (tmp_path / "radio.toml").write_text((CATALOGUE / "links/wifi-11b.toml").read_text())
    own = changed("advise-vehicle", tmp_path, ('link = "wifi"', 'link = "radio.toml"'))
    (doubt,) = answer(own)["doubts"]
    assert doubt.startswith("link depot has an access_time")
    _, _, err = lab("--scenario", own, "--as-of", TODAY)
    assert f"caravan-lab: warning: {doubt}" in err
    assert answer("advise-vehicle")["doubts"] == []
    (tmp_path / "radio.toml").rename(tmp_path / "wifi-own.toml")
    assert (
        answer(changed("advise-vehicle", tmp_path, ('"wifi"', '"wifi-own.toml"')))["doubts"] == []
    )


def costs_of(scenario: str) -> dict[str, dict[str, Any]]:
    return {one["stack"]: one["cost"] for one in answer(scenario)["stacks"]}


ROUTER = ('role = "gateway"', 'role = "router"\nends_tunnels = true')


def test_a_router_that_ends_tunnels_is_a_gateway(tmp_path: Path) -> None:
    own, usual = read(changed("advise-vehicle", tmp_path, ROUTER)), read("advise-vehicle")
    assert own.has_gateway
    assert own.stays == usual.stays
    (link,) = own.stays[0].place.gateway
    assert link.name == "internet"


def test_of_several_gateways_the_nearest_is_taken(tmp_path: Path) -> None:
    before = ("advise-vehicle", tmp_path, ROUTER, ('to = "server"\nrate', 'to = "other"\nrate'))
    more = """
[[node]]
name = "other"
role = "router"
ends_tunnels = true

[[link]]
from = "other"
to = "server"
rate = "1 Gbit/s"
"""
    place = read(changed(*before, more=more)).stays[0].place
    assert [link.name for link in place.gateway] == ["internet"]
    assert len(place.beyond) == 2
    # The scenario's own tunnel says which one it is.
    own = '[[layer]]\nkind = "ipsec"\nfrom = "van"\nto = "other"\npolicy = "aes128gcm16"\n'
    place = read(changed(*before, more=more + own)).stays[0].place
    assert len(place.gateway) == 2 and len(place.beyond) == 1


def test_what_the_medium_takes_for_each_frame_is_in_the_times(tmp_path: Path) -> None:
    usual = costs_of("advise-scanner")["wpa2-psk"]
    more = 'link = "wifi"\naccess_time = "810 us"\n'
    own = costs_of(changed("advise-scanner", tmp_path, ('link = "wifi"\n', more)))["wpa2-psk"]
    # 4 frames to associate, 4 of the handshake; and the first data back
    assert own["setup_ms"] - usual["setup_ms"] == pytest.approx(8 * 0.81, abs=1e-6)
    assert own["gap_ms"] - usual["gap_ms"] == pytest.approx(9 * 0.81, abs=1e-6)


def test_the_first_data_has_the_size_of_its_place_and_link(tmp_path: Path) -> None:
    # It moves from LTE to a slow Wi-Fi, where a byte takes a millisecond.
    slow = ('link = "wifi"', 'link = "wifi"\nrate = "8 kbit/s"')
    found = costs_of(changed("advise-vehicle", tmp_path, slow))
    for stack, size in (("wpa2-psk + wireguard", 84 + 72 + 16), ("wifi-open + wireguard", 84 + 72)):
        cost = found[stack]
        # 10 ms to the gateway and back
        assert cost["gap_ms"] == pytest.approx(cost["move_bytes"] + size + 20, abs=0.1)
    # The cipher of the radio is on no link behind it.
    slow = ('rate = "1 Gbit/s"\ndelay', 'rate = "8 kbit/s"\ndelay')
    found = costs_of(changed("advise-vehicle", tmp_path, *DEPOT, slow, more=POINTS))
    one, other = found["wpa2-psk + wireguard"], found["wifi-open + wireguard"]
    # Both are moves between access points of one network, which wireguard does not notice.
    assert one["setup_ms"] == pytest.approx(other["setup_ms"], abs=0.1)
    assert one["gap_ms"] == pytest.approx(other["gap_ms"], abs=0.1)


def test_at_a_new_address_access_alone_waits_for_the_way_to_the_server(tmp_path: Path) -> None:
    own = changed("advise-vehicle", tmp_path, *DEPOT, NO_GATEWAY, more=APART)
    found = costs_of(own)
    for stack in ("wifi-open", "wpa2-psk", "wpa3-sae-ft"):
        # 2 s to the router and 10 ms to the server, there and back
        assert found[stack]["gap_ms"] == pytest.approx(4020, abs=1), stack
    # QUIC's first packet goes that way, too.
    assert found["wifi-open + quic"]["gap_ms"] == pytest.approx(4020, abs=1)
    assert answer(own, "--budget", "gap=50ms")["answer"] is None
    # Whoever keeps the address is found there.
    near = costs_of(changed("advise-vehicle", tmp_path, *DEPOT, NO_GATEWAY, more=POINTS))
    assert near["wpa2-psk"]["gap_ms"] < 1


def test_who_comes_from_no_wifi_authenticates_anew(tmp_path: Path) -> None:
    found = costs_of("advise-vehicle")
    full = found["wpa3-eap-tls + wireguard"]
    assert found["wpa3-eap-tls-ft + wireguard"]["gap_ms"] == pytest.approx(full["gap_ms"])
    # 5 questions to the server of accounts 10 ms away, and WireGuard's own
    assert full["gap_ms"] == pytest.approx(5 * 20 + 20, abs=1)
    assert found["wpa3-peap + wireguard"]["gap_ms"] == pytest.approx(10 * 20 + 20, abs=1)
    # From one access point to another the keys are renewed.
    depot = costs_of(changed("advise-vehicle", tmp_path, *DEPOT, more=POINTS))
    assert depot["wpa3-eap-tls-ft + wireguard"]["gap_ms"] < 1
    assert depot["wpa3-eap-tls + wireguard"]["gap_ms"] > 100


def test_the_answer_is_the_cheapest_that_fits() -> None:
    found = advise("advise-vehicle", Asked(("confidentiality",), {}, date.fromisoformat(TODAY)))
    assert found.best is not None
    assert found.best.rank == min(one.rank for one in found.options if one.fits)


def test_the_page_has_the_answers_of_the_samples() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/lab-policies.md").read_text()
    rows = re.findall(r"\| `(advise-\w+)`: [^|]+\| ([^|]+) \| `([^`]+)`: ([^|]+) \|", page)
    assert len(rows) == 3
    for scenario, free, budget, bound in rows:
        for words, said in (((), free), (("--budget", budget), bound)):
            found = answer(scenario, *words)
            (one,) = [one for one in found["stacks"] if one["stack"] == found["answer"]]
            title = one["title"].removeprefix("open Wi-Fi, ")
            assert said in (title, title.replace("MOBIKE, ESP ", "")), scenario
    for word in (*standings().properties, *BUDGETS):
        assert f"`{word}`" in page


def test_what_the_page_says_of_wifi_is_what_is_answered(tmp_path: Path) -> None:
    """A client of one access point, without a gateway."""
    page = (Path(__file__).resolve().parents[2] / "docs/lab-policies.md").read_text()
    second = '[[node]]\nname = "point-2"\nrole = "access-point"\n'
    one_point = POINTS.replace('"point-1", "point-2"', '"point-1"').replace(second, "")
    text = Path(changed("advise-vehicle", tmp_path, DEPOT[0], NO_GATEWAY)).read_text()
    text = text[: text.index("[[move]]")]
    start = text.index('[[link]]\nname = "depot"')
    own = tmp_path / "wifi.toml"
    own.write_text(text[:start] + text[text.index("[[link]]", start + 1) :] + one_point)

    def said(*words: str) -> str:
        found = answer(str(own), *words)
        (title,) = (one["title"] for one in found["stacks"] if one["stack"] == found["answer"])
        return str(title)

    assert f"which names {said()} there" in page
    rows = {
        "of your own": "forward-secrecy,mutual-authentication",
        ", users with proofs of their own": "per-user-authentication",
        "for guests": "forward-secrecy",
    }
    for row, must in rows.items():
        use = re.search(rf"^\| Wi-Fi ?{row}[^|]* \| ([^|]+) \|", page, re.MULTILINE)
        assert use is not None and f"`--must {must}`" in page
        assert use[1].replace(" with", ",") in said("--must", must)


def test_the_example_of_the_page_is_what_is_answered() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/lab-policies.md").read_text()
    example = re.search(r"    \$ caravan-lab advise (.*)\n((?:    .*\n)+)", page)
    assert example is not None
    status, out, _ = lab(*example[1].split())
    parts = [" ".join(part.split()) for part in example[2].split("    ...\n")]
    assert status == 0 and len(parts) > 3
    assert all(part in " ".join(out.split()) for part in parts)


def test_no_verdict_is_from_before_its_sources() -> None:
    """A document with a year in its name, and one that a note cites, is there when it is cited."""
    table = standings()
    for block in table.blocks.values():
        for one in block.verdicts:
            assert one.since <= table.revised, block.name
            for year in re.findall(r"(?:IEEE 802\.[\w.]+|FIPS [\d-]+)-(\d{4})\b", one.document):
                assert int(year) <= one.since.year, (block.name, one.document)
            for year in re.findall(r"IEEE 802\.[\w.]+-(\d{4})\b", one.note):
                assert int(year) <= one.since.year, (block.name, one.note)
