"""A chain at three levels: if a link is the bottleneck and nothing is lost, they must agree."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest
from road_policies import TOLERANCE, own_policy

from caravan.files import CATALOGUE
from caravan.lab.core import Question, find
from caravan.testbed.capture import PCAP_MAGIC
from caravan.testbed.connection import PublicKey
from caravan.testbed.graph import NotForTestbed
from caravan.threeways.bed import Setting
from caravan.threeways.compare import NAMES, three_ways
from caravan.threeways.ends import connection

PCAPNG_MAGIC = 0x0A0D_0D0A
LIMITED = [
    ("2 Mbit/s", "2 MB", "3des-md5"),
    ("10 Mbit/s", "8 MB", "3des-md5"),
    ("10 Mbit/s", "8 MB", "aes128gcm16"),
    ("10 Mbit/s", "8 MB", "none"),
]


def setting(*edits: str) -> Setting:
    """The scenario `road` with edits."""
    return Setting.of(Question("road", edits).request())


@pytest.mark.root
@pytest.mark.measures
@pytest.mark.parametrize(("rate", "size", "policy"), LIMITED)
def test_simulation_and_testbed_agree_where_the_link_limits(
    rate: str, size: str, policy: str, tmp_path: Path
) -> None:
    edits = (f"link.nat.rate={rate}", f"traffic.bytes={size}", f"policy={policy}")
    levels = three_ways(setting(*edits), tmp_path)
    assert levels.testbed is not None
    for name in NAMES:
        difference = levels.difference(name, "testbed")
        print(name, levels.model[name], levels.simulate[name], levels.testbed[name], difference)
    for name in ("wire_bytes_64", "wire_bytes_480", "handshake_messages"):
        assert levels.simulate[name] == levels.testbed[name], name
    difference = levels.difference("tcp_kbps", "testbed")
    assert difference is not None and abs(difference) < TOLERANCE


def test_the_ends_of_the_testbed_have_the_policy_of_the_request() -> None:
    text = find("policy", "aes128gcm16").text
    for name in ("3des-md5", "psk"):
        setting = own_policy(name, text)
        setting.check_testbed()
        (tunnel,) = setting.setup["tunnels"]
        ends = connection(tunnel, PublicKey(mock.Mock(), mock.Mock()))
        assert (ends.mode, ends.esp_proposals) == ("tunnel", "aes128gcm16-modp2048")
    strong = own_policy("strong", text.replace('"rsa2048"', '"rsa4096"'))
    with pytest.raises(NotForTestbed, match="keys have 2048 bits"):
        strong.check_testbed()
    bare = own_policy("bare", text.partition("[keys]")[0])
    with pytest.raises(NotForTestbed, match=r"has no \[keys\]"):
        bare.check_testbed()


def test_a_policy_that_the_testbed_cannot_make_is_blamed_at_its_key() -> None:
    text = find("policy", "aes128gcm16").text.replace('"rsa2048"', '"rsa4096"')
    chain = own_policy("strong", text)
    with pytest.raises(NotForTestbed) as found:
        chain.check_testbed()
    assert found.value.key == "policy"
    layer = "layer=[{ kind = 'ipsec', policy = 'strong', from = 'ms1', to = 'sg' }]"
    question = Question("handover", ("policy=", layer)).request()
    own = {"kind": "policy", "name": "strong", "file": "policies/own.toml", "text": text}
    catalogue = question["catalogue"]
    assert isinstance(catalogue, list)
    graph = Setting.of({**question, "catalogue": [*catalogue, own]})
    assert graph.is_graph and not chain.is_graph
    with pytest.raises(NotForTestbed) as found:
        graph.check_testbed()
    assert found.value.key == "layer.ms1.policy"


@pytest.mark.root
def test_a_policy_of_the_request_counts_at_each_level(tmp_path: Path) -> None:
    text = find("policy", "aes128gcm16").text
    levels = three_ways(own_policy("3des-md5", text), tmp_path)
    assert levels.testbed is not None
    for size in (64, 480):
        name = f"wire_bytes_{size}"
        assert levels.model[name] == levels.simulate[name] == levels.testbed[name]


@pytest.mark.root
def test_a_scenario_runs_again_in_the_same_folder(tmp_path: Path) -> None:
    for _ in range(2):
        levels = three_ways(setting("traffic.bytes=100 KB"), tmp_path)
        assert levels.testbed is not None and levels.testbed["wire_bytes_64"] == 104
    assert not list(tmp_path.rglob("pki-*")), "the keys of a run go with it"


def test_model_and_simulation_agree_and_leave_a_capture(tmp_path: Path) -> None:
    levels = three_ways(setting(), tmp_path, runs_testbed=False)
    again = three_ways(setting(), tmp_path, runs_testbed=False)
    assert levels.simulate == again.simulate
    for name, tolerance in (("handshake_ms", 0.01), ("rtt_ms", 0.01), ("tcp_kbps", 0.1)):
        difference = levels.difference(name, "model")
        assert difference is not None and abs(difference) < tolerance, name
    assert levels.testbed is None and levels.difference("rtt_ms", "testbed") is None
    captured = (tmp_path / "simulate.pcapng").read_bytes()
    assert int.from_bytes(captured[:4], "little") == PCAPNG_MAGIC != PCAP_MAGIC
    assert not list(tmp_path.glob("*.part"))


def test_only_packets_that_were_cut_are_said_to_be(tmp_path: Path) -> None:
    edits = (
        "policy=aes128gcm16",
        "traffic.model=poisson",
        "traffic.bytes=",
        "traffic.rate=16 kbit/s",
        "run.time=20 s",
    )
    for size, is_cut in (("64 B", False), ("66000 B", True)):
        fixed = f'traffic.sizes={{ model = "fixed", bytes = "{size}" }}'
        levels = three_ways(setting(*edits, fixed), tmp_path, runs_testbed=False)
        assert any("packets are cut" in note for note in levels.notes) == is_cut


def test_a_transfer_that_time_ends_is_noted(tmp_path: Path) -> None:
    edits = ("traffic.bytes=9 MB", "link.nat.rate=1 Mbit/s", "run.time=3 s")
    (note,) = three_ways(setting(*edits), tmp_path, runs_testbed=False).notes
    assert note.startswith("simulate: tcp_kbps: cut by the end of the run: ")
    assert note.endswith(" of 9,000,000 bytes arrived")


@pytest.mark.root
@pytest.mark.measures
@pytest.mark.parametrize(
    ("policy", "direction"), [("aes128gcm16", "up"), ("3des-md5", "up"), ("3des-md5", "down")]
)
def test_datagrams_of_a_chain_with_a_shape_on_every_link_agree(
    policy: str, direction: str, tmp_path: Path
) -> None:
    edits = (
        f"policy={policy}",
        "traffic.model=packet-call",
        "traffic.bytes=",
        f"traffic.direction={direction}",
        "traffic.rate=400 kbit/s",
        "traffic.sizes={ model = 'pareto', shape = 1.5, smallest = '81.5 B', largest = '1400 B' }",
        "traffic.reading=0.3 s",
        "traffic.idle=0.5 s",
        "link.ms.delay=5 ms",
        "link.ms.rate=5 Mbit/s",
        "link.sg.delay=3 ms",
        "run.time=4 s",
    )
    levels = three_ways(setting(*edits), tmp_path)
    assert levels.testbed is not None
    print(levels)
    for name in ("wire_bytes_64", "wire_bytes_480", "handshake_messages", "datagrams"):
        assert levels.simulate[name] == levels.testbed[name], name
    assert (levels.simulate["datagrams"] or 0) > 10
    difference = levels.difference("rtt_ms", "testbed")
    assert difference is not None and abs(difference) < TOLERANCE


def test_what_namespaces_cannot_show_is_named() -> None:
    radio = CATALOGUE / "studies/wireless-policies/scenarios/m5.toml"
    with pytest.raises(NotForTestbed, match=r"node\.ap1: only studies with measure"):
        Setting.of(Question(str(radio)).request()).check_testbed()
    edits = ("traffic.model=closed-loop", "traffic.bytes=", "traffic.rate=64 kbit/s")
    sizes = 'traffic.sizes={ model = "fixed", bytes = "64 B" }'
    with pytest.raises(ValueError, match=r"traffic\.model: only the tandem supports closed-loop"):
        setting(*edits, sizes).check_testbed()
