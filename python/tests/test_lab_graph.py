"""A scenario that branches and has moves: the output of the command line."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from test_lab_cli import TOP, answer, lab, refusal

from caravan.files import CATALOGUE
from caravan.lab.core import LabError, Question, kernel, scenario
from caravan.lab.simulation import simulate

PINNED = tomllib.loads((TOP / "crates/lab/src/kernel/fingerprints.toml").read_text())["graph"]


def test_an_optimised_build_has_the_fingerprint_of_an_unoptimised_one() -> None:
    found = kernel(Question("handover", ("run.time=6 s",)))
    assert found["simulate"]["fingerprint"] == PINNED["fingerprint"]
    assert found["model"] is None


def test_the_example_is_simulated_without_being_told_by_which_level() -> None:
    said = lab("simulate", "handover").stdout
    assert "498 to 501" in said and "cell-b" in said, said
    found = answer("simulate", "handover", "--set", "run.time=6 s")
    names = [flow["name"] for flow in found["simulate"]["flows"]]
    assert names == ["ms1 up", "ms2 up", "ms2 down"]


def test_what_never_came_is_missing_after_the_last_packet_too() -> None:
    for at, said in (("5 s", "498 to 1200"), ("1 ms", "0 to 1200")):
        moves = f"move=[{{ at = '{at}', link = 'router', up = false }}]"
        near = ("--set", "link.0.from=['ms1']", "--set", "link.1.from=['ms2']")
        lines = lab("simulate", "handover", "--set", moves, *near).stdout.splitlines()
        (row,) = (line.split() for line in lines if line.startswith("ms1 up"))
        sent, came, _, delay, *missing = row[2:]
        first, last = said.split(" to ")
        assert " ".join(missing) == said
        assert int(sent.replace(",", "")) - int(came) == int(last) - int(first) + 1
        # If nothing arrived, there is no delay.
        assert (delay == "-") == (came == "0")


def test_a_graph_is_shown_with_its_links_flows_and_moves() -> None:
    said = lab("show", "handover").stdout
    for part in ("nobody yet", "flow ms2 down: constant from server to ms2 at 800 kbit/s"):
        assert part in said
    assert "after 5 s ms2 moves to cell-b" in said
    change = ("--set", "move=[{ at = '2 s', link = 'cell-a', up = false }]")
    assert "no station is ever on" in refusal("simulate", "handover", *change)


POLICY_STUDY = CATALOGUE / "studies/wireless-policies/scenarios"


def based_on(base: str, file: Path) -> str:
    """The hash of a scenario of one's own with this base."""
    file.parent.mkdir(exist_ok=True)
    file.write_text(f'name = "own"\ntitle = "Own"\nbase = "{base}"\n')
    found: str = scenario(Question(str(file)))["hash"]
    return found


def test_a_base_is_found_in_the_same_folder_by_name_or_path(tmp_path: Path) -> None:
    text = (POLICY_STUDY / "m1.toml").read_text()
    (tmp_path / "m1.toml").write_text(text.replace('time = "20 s"', 'time = "7 s"'))
    (tmp_path / "m5.toml").write_text((POLICY_STUDY / "m5.toml").read_text())
    for base in ("m5", "m5.toml", "./m5.toml", str(tmp_path / "m5.toml")):
        based_on(base, tmp_path / "own.toml")
        found = scenario(Question(str(tmp_path / "own.toml")))["scenario"]
        assert (found["name"], found["run"]["time_s"]) == ("own", 7), base
        # What names it by its path, from another folder.
        based_on("../own.toml", tmp_path / "other/far.toml")
        found = scenario(Question(str(tmp_path / "other/far.toml")))["scenario"]
        assert found["run"]["time_s"] == 7, base


def test_a_base_is_known_by_the_names_that_commands_know(tmp_path: Path) -> None:
    own = based_on("m5", tmp_path / "own.toml")
    (tmp_path / "m1.toml").write_text((POLICY_STUDY / "m1.toml").read_text())
    (tmp_path / "m5.toml").write_text((POLICY_STUDY / "m5.toml").read_text())
    assert based_on("m5", tmp_path / "own.toml") == own
    # A file may have the name of its base, and then means that of the catalogue.
    based_on("handover", tmp_path / "handover.toml")
    with pytest.raises(LabError, match="base: unknown scenario 'nosuch'"):
        based_on("nosuch", tmp_path / "nosuch.toml")


def test_what_sees_chains_alone_says_so() -> None:
    for words in (
        ("simulate", "handover", "--replications", "4"),
        ("simulate", "handover", "--jobs", "2"),
    ):
        assert "the event kernel runs" in refusal(*words)
    with pytest.raises(LabError, match="the tandem cannot simulate moves"):
        simulate(Question("handover"))


def test_the_resolved_graph_of_a_chain_has_every_address() -> None:
    graph = scenario(Question("road"))["graph"]
    addresses = [port["address"] for port in graph["ports"]]
    expected = ["10.0.0.2", "10.0.0.1", "192.0.2.2", "192.0.2.1", "10.10.0.1", "10.10.0.2"]
    assert addresses == expected
    assert graph["tunnels"] == [{"from": 0, "to": 2, "policy": "3des-md5"}]


def test_a_layer_may_name_its_policy_by_path(tmp_path: Path) -> None:
    text = (TOP / "scenarios/handover.toml").read_text()
    (line,) = (line for line in text.splitlines(keepends=True) if line.startswith("policy"))
    layer = '[[layer]]\nkind = "ipsec"\npolicy = "./mine.toml"\nfrom = "ms1"\nto = "sg"\n'
    own = tmp_path / "own.toml"
    own.write_text(text.replace(line, "") + layer)
    policy = (TOP / "policies/aes128gcm16.toml").read_text().replace("udp = true", "udp = false")
    (tmp_path / "mine.toml").write_text(policy)
    (tunnel,) = scenario(Question(str(own)))["graph"]["setup"]["tunnels"]
    assert tunnel["policy"] == "./mine.toml"
    found = tunnel["protection"]
    assert (found["suite"], found["mode"], found["udp"]) == (
        "aes128gcm16-modp2048",
        "tunnel",
        False,
    )
    assert found["keys"]["proof"] == "rsa2048"
    assert (found["outer"], tunnel["has_nat"]) == (4, False)
