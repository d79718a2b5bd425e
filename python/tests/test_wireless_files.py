"""All levels of wireless policies read the study's files: a change counts at each of them, or the
testbed refuses it before anything runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from ike_frames import first_ones
from study_by_hand import value, written
from wireless_study import FOLDER, cell, copied, request

import caravan.study
from caravan import _lab
from caravan.study import StudyError, compute, wireless
from caravan.study.cells import cells
from caravan.study.resolve import Files, resolve
from caravan.testbed.dot1x.bed import Bed
from caravan.testbed.dot1x.exchange import Tap
from caravan.testbed.dot1x.ipsec import Ipsec
from caravan.testbed.dot1x.method import Method
from caravan.testbed.dot1x.policies import of_the_study as policies_of_the_study
from caravan.testbed.dot1x.scenarios import of_the_study as scenarios_of_the_study
from caravan.testbed.dot1x.subnets import FIRST, SECOND
from caravan.testbed.dot1x.wireless import DEVICE, LinkSecurity
from caravan.threeways.policies import RESPONSES, Setting

IKE_PORT, TCP_PROTOCOL, UDP_PROTOCOL = 500, 6, 17
ANSWER_S = 0.9
"""An answer may be late on a busy machine. The kernel sends a SYN again after 1 s."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the study."""
    shutil.copytree(FOLDER, tmp_path, dirs_exist_ok=True)
    return tmp_path


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) >= 1
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("file", "change_of", "policy", "wanted"),
    [
        ("pn-3", ("-3des-sha", "-3des-md5"), "pn-3", {"ipsec": "3des-md5-modp1536"}),
        ("ipsec-3des-sha", ("modp1536", "modp1024"), "pn-3", {"ipsec": "3des-sha1-modp1024"}),
        ("pn-8", ("eap-tls", "eap-md5"), "pn-8", {"method": Method.MD5}),
        ("pn-8", ("eap-tls", "eap-tls-rsa1024"), "pn-8", {"has_short_keys": True}),
        ("pn-8-rsa1024", ('-rsa1024"\n\n', '"\n\n'), "pn-8-rsa1024", {"has_short_keys": False}),
        (
            "pn-5",
            ('kind = "access"\nmethod = "eap-md5"', 'kind = "link-cipher"\ncipher = "wep-104"'),
            "pn-5",
            {"method": None, "has_wep": True},
        ),
    ],
)
def test_the_testbed_has_the_policy_of_the_file(
    file: str, change_of: tuple[str, str], policy: str, wanted: dict[str, Any], folder: Path
) -> None:
    change(folder / f"policies/{file}.toml", *change_of)
    found = Setting.of(request(folder, policy=policy)).policy
    for key, told in wanted.items():
        have = getattr(found, key)
        assert (have.suite if isinstance(have, Ipsec) else have) == told


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("pn-2", "wep-104", "tkip", r"pn-2\.toml:\d+:1: layer\.0\.cipher: .* wep-104, found tkip"),
        ("pn-6", '"eap-tls"', '"eap-peap"', r"method: .* eap-tls-rsa1024, found eap-peap"),
        ("pn-6", '"eap-tls"', '["eap-tls", "wifi-four-way"]', r"method: .* one method"),
        ("pn-6-rsa1024", "legacy = true\n", "", r"legacy = true is needed for eap-tls-rsa1024"),
        ("pn-3", '"ipsec-3des-sha"', '"3des-sha1"', r"pn-3\.toml|3des-sha1"),
        ("ipsec-3des-sha", 'suite = "3des-sha1-modp1536"', 'suite = "aes128-sha1-modp1536"',
         r"ipsec-3des-sha\.toml:5:1: suite: .*found aes128-sha1-modp1536"),
        ("ipsec-3des-sha", "udp = false", "udp = true", r"udp: the testbed has false, found true"),
        ("ipsec-3des-sha", "udp = false\n", "", r"udp: the testbed has false, found true"),
        ("ipsec-3des-sha", '"psk"', '"rsa3072"', r"keys\.proof: .*found rsa3072"),
        ("ipsec-3des-sha", "ikev1-main", "ikev1-aggressive", r"keys\.exchange: .*aggressive"),
        ("ipsec-3des-sha", 'proposal = "3des-sha1-modp1536"', 'proposal = "3des-sha1-modp2048"',
         r"keys\.proposal: .*found 3des-sha1-modp2048"),
        ("tls-1.2", 'tls-1.2"\nsuite', 'tls-1.3"\nsuite', r"tls-1\.2\.toml:\d+:1: .*\.method"),
        ("tls-1.3", "aes256gcm16", "aes128gcm16", r"layer\.0\.suite: .*found aes128gcm16"),
        ("between-subnets", 'suite = "aes128-sha256-modp2048"', 'suite = "aes256-sha256-modp2048"',
         r"m1\.toml:\d+:\d+: layer\.0\.policy: between-subnets: suite: the testbed has aes128"),
    ],
)  # fmt: skip
def test_what_the_programs_are_not_configured_for_is_refused(
    file: str, old: str, new: str, said: str, folder: Path
) -> None:
    change(folder / f"policies/{file}.toml", old, new)
    policy = {"ipsec-3des-sha": "pn-3", "between-subnets": "pn-1"}.get(file, file)
    with pytest.raises(StudyError, match=said):
        wireless.check(request(folder, policy=policy))


@pytest.mark.parametrize(
    ("file", "old", "new", "wanted"),
    [
        ("m5", '"cn1"', '"mn3"', (FIRST, "mn3", "10.18.2.17")),
        ("m5", '"cn1"', '"ha1"', (FIRST, "ha1", "10.18.1.3")),
        ("m8", '["mn2", "fn1"]', '["mn2", "fn1", "mn1"]', (FIRST, "cn1", "10.18.1.5")),
        ("m5", 'base = "m1"', 'base = "m8"', (SECOND, "cn1", "10.18.1.5")),
    ],
)
def test_who_talks_with_whom_and_where_is_what_the_file_says(
    file: str, old: str, new: str, wanted: tuple[object, str, str], folder: Path
) -> None:
    change(folder / f"scenarios/{file}.toml", old, new)
    if file == "m8":
        change(folder / "scenarios/m8.toml", '"mn3", "mn1"', '"mn3"')
    own = request(folder, scenario=file)
    found = Setting.of(own).scenario
    assert (found.at, found.correspondent, found.address) == wanted
    # The other levels see it, too.
    assert own["is_away"] == found.is_roaming == (wanted[0] == SECOND)


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("m1", '"10.18.1.5"', '"10.18.1.6"',
         r"m1\.toml:\d+:\d+: node\.cn1\.address: the testbed has 10\.18\.1\.5, found 10\.18\.1\.6"),
        ("m1", '"10.18.1.18"', '"10.18.1.19"', r"node\.mn2\.address: .*found 10\.18\.1\.19"),
        ("m1", '"192.0.2.0/24"', '"198.51.100.0/24"', r"node\.r1\.address: .*198\.51\.100"),
        ("m1", 'radius = "r2"', 'radius = "r1"', r"node\.ap2\.radius: .*has r2, found r1"),
        ("m5", '"cn1"', '"cn2"', r"m5\.toml:\d+:\d+: flow\.data\.to: .*found cn2"),
        ("m1", '["ap2", "ha2", "fa2", "cn2"]\nto = "r2"\nlink = "ethernet-100"',
         '["ap2", "ha2", "fa2", "cn2"]\nto = "r2"\nlink = "satellite-geo"',
         r"m1\.toml:\d+:\d+: link\.lan2\.rate: wires"),
        ("m1", 'udp = "never"', 'udp = "always"', r"layer\.1: .*udp never.*found .*udp always"),
        ("m5", "[[flow]]", '[[layer]]\nkind = "access"\nfrom = "mn1"\nto = "ap1"\n'
         'method = "eap-tls"\n\n[[flow]]', r"m5\.toml:\d+:\d+: layer\.0: .*from a policy"),
        ("m1", 'name = "cn2"\nrole = "server"', 'name = "cn2"\nrole = "home-agent"',
         r"node\.cn2\.role: the testbed has server, found home-agent"),
        ("m1", '[[link]]\nname = "air1"',
         '[[node]]\nname = "cn3"\nrole = "server"\n\n[[link]]\nname = "lan3"\nfrom = "cn3"\n'
         'to = "r1"\nlink = "ethernet-100"\n\n[[link]]\nname = "air1"',
         r"node\.cn3: the testbed has no such node"),
    ],
)  # fmt: skip
def test_another_graph_than_the_testbeds_is_refused(
    file: str, old: str, new: str, said: str, folder: Path
) -> None:
    change(folder / f"scenarios/{file}.toml", old, new)
    with pytest.raises(StudyError, match=said):
        wireless.check(request(folder, policy="pn-1", scenario="m5"))


def test_the_testbed_refuses_before_anything_runs_and_other_levels_go_on(folder: Path) -> None:
    change(folder / "policies/pn-2.toml", "wep-104", "wep-40")
    text = """
name = "own"
title = "Own"

[[sweep]]
name = "air"
title = "Air"
measure = "wireless"
replications = 1
seconds = 0.2
set = { scenario = "m5", flows = "no" }
grid = { policy = ["pn-2"], link = ["wifi-11b"] }
"""
    study = written(folder, text)
    (one,) = cells(study.sweeps[0], is_quick=False)
    found = resolve(one, Files.of(study))
    assert compute.jobs(one, found, "model", 1)
    with pytest.raises(StudyError, match=r"pn-2\.toml:\d+:\d+: layer\.0\.cipher"):
        compute.jobs(one, found, "testbed", 1)


@pytest.mark.parametrize("level", [None, "testbed"])
@pytest.mark.parametrize(
    ("file", "is_named"),
    [
        ("policies/pn-3.toml", True),
        ("policies/ipsec-3des-sha.toml", True),
        ("policies/between-subnets.toml", True),
        ("scenarios/m8.toml", True),
        ("scenarios/m1.toml", True),
        ("policies/pn-4.toml", False),
        ("scenarios/m7.toml", False),
    ],
)
def test_the_hash_of_a_row_has_every_file_that_its_cell_names(
    file: str, is_named: bool, level: str | None, folder: Path
) -> None:
    levels = "" if level is None else f'levels = ["{level}"]\n'
    text = f"""
name = "own"
title = "Own"

[[sweep]]
name = "air"
title = "Air"
measure = "wireless"
{levels}replications = 1
seconds = 0.2
set = {{ scenario = "m8" }}
grid = {{ policy = ["pn-3"], link = ["wifi-11b"] }}
"""
    hashes = []
    # Of a scenario itself counts what it says, of all others the text.
    note = '\n[run]\ntime = "21 s"\n' if file.endswith(("m7.toml", "m8.toml")) else "# A note.\n"
    for extra in ("", note):
        with (folder / file).open("a") as end:
            end.write(extra)
        study = written(folder, text)
        (one,) = cells(study.sweeps[0], is_quick=False)
        hashes.append(resolve(one, Files.of(study)).scenario_hash)
    assert (hashes[0] != hashes[1]) == is_named


def ike(
    folder: Path = FOLDER, link: str = "air-half", **reading: str
) -> tuple[dict[str, float], int, str]:
    """Seconds of IKE by level, bytes of the packets of its messages, and hash."""
    _, runs, found = cell(folder, link=link, scenario="m5", flows="no", **reading)
    (run,) = runs
    answer = json.loads(_lab.Scenario(json.dumps({**run, "set": [*run["set"], "seed=1"]})).kernel())
    seconds = {}
    for level in ("model", "simulate"):
        (own,) = (one for one in answer[level]["admitted"] if one["station"] == "mn1")
        seconds[level] = own["tunnel_s"]
    (own,) = (one for one in answer["simulate"]["tunnels"] if one["station"] == "mn1")
    return seconds, own["exchange"]["wire_bytes"], found


def test_ike_has_the_messages_of_its_reading_at_all_levels() -> None:
    readings = [(proof, group) for proof in ("psk", "rsa") for group in ("modp1024", "modp1536")]
    found = {one: ike(proof=one[0], group=one[1]) for one in readings}
    assert len({each for _, _, each in found.values()}) == 4
    octets = {one: count for one, (_, count, _) in found.items()}
    for proof in ("psk", "rsa"):
        # Four public values, two of each phase, of 1536 bits instead of 1024; the padding of those
        # in phase 2, which are encrypted with blocks of 8, stays.
        assert octets[proof, "modp1536"] - octets[proof, "modp1024"] == 4 * (1536 - 1024) // 8
    for group in ("modp1024", "modp1536"):
        # Two certificates and two signatures of 256 bytes.
        assert octets["rsa", group] - octets["psk", group] > 2 * 256 + 2 * 500
    for level in ("model", "simulate"):
        times = [found[one][0][level] for one in readings]
        assert times == sorted(set(times)), level
    for seconds, _, _ in found.values():
        assert seconds["model"] == pytest.approx(seconds["simulate"], rel=0.05)
    # Without a reading it is what the file says.
    assert ike()[:2] == found["psk", "modp1536"][:2]


def test_a_reading_of_ike_is_that_of_the_testbed() -> None:
    found = Setting.of(request(proof="rsa", group="modp1024")).policy
    assert found.ipsec == Ipsec("3des-sha1-modp1024", "3des-sha1-modp1024", is_signed=True)
    # A policy without IPsec has none of it.
    assert Setting.of(request(policy="pn-1", proof="rsa")).policy.ipsec is None


def test_a_reading_that_a_file_has_no_place_for_is_refused(folder: Path) -> None:
    path = folder / "policies/ipsec-3des-sha.toml"
    change(path, 'proof = "psk"', 'proof = """psk"""')
    with pytest.raises(StudyError, match=r"ipsec-3des-sha\.toml:\d+:1: keys\.proof: write it"):
        request(folder, proof="rsa")
    change(folder / "policies/pn-3.toml", '"ipsec-3des-sha"', '"3des-sha1"')
    with pytest.raises(StudyError, match=r"proof: 3des-sha1, which pn-3 names"):
        request(folder, proof="rsa")


LINK = """
title = "An air of two rates"
rate = { up = "2 Mbit/s", down = "8 Mbit/s" }
delay = "3 ms"
loss = 0.01
reorder = 0.02
queue = "64 KB"
overhead = "40 B"

[sources]
rate = "none: a test"
delay = "none: a test"
loss = "none: a test"
reorder = "none: a test"
queue = "none: a test"
overhead = "none: a test"
"""


def test_the_air_has_everything_of_its_file(folder: Path) -> None:
    (folder / "links/two.toml").write_text(LINK)
    found = Setting.of(request(folder, policy="pn-2", link="two")).air
    assert found is not None
    # The left end is the access point, and 32 bytes of the overhead are in the frames themselves.
    assert found.arguments() == [
        *["--rate", "8000000bit", "--rate-back", "2000000bit", "--delay", "3000000ns"],
        *["--loss", "0.01", "--queue", "64000b", "--overhead", "8", "--reorder", "0.02"],
        "--all-frames",
    ]
    # The simulation keeps that queue for datagrams, too.
    _, runs, _ = cell(folder, policy="pn-2", link="two")
    for run in runs:
        resolved = json.loads(_lab.Scenario(json.dumps(run)).resolved())
        airs = [one for one in resolved["graph"]["links"] if one["name"].startswith("air")]
        assert [one["queue_bytes"] for one in airs] == [64_000, 64_000]


def test_what_a_scenario_says_of_its_airs_counts(folder: Path) -> None:
    assert Setting.of(request(folder, policy="pn-1", link=None)).air is None
    path = folder / "scenarios/m1.toml"
    change(path, 'to = "ap2"\n', 'to = "ap2"\nloss = 0.1\n')
    with pytest.raises(StudyError, match=r"m1\.toml:\d+:1: link\.air2\.loss: both"):
        wireless.check(request(folder, policy="pn-1"))
    with pytest.raises(StudyError, match=r"m1\.toml:\d+:1: link\.air2\.loss: wires"):
        wireless.check(request(folder, policy="pn-1", link=None))
    change(path, 'to = "ap1"\n', 'to = "ap1"\nloss = 0.1\n')
    found = Setting.of(request(folder, policy="pn-1")).air
    assert found is not None and found.loss == 0.1


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"40 B"', '"35 B"', r"two\.toml:\d+:1: overhead: .* 36 B of 802\.11, found 35 B"),
        ('overhead = "40 B"', 'mtu = 1400\noverhead = "40 B"', r"two\.toml:\d+:1: mtu: .*1400 B"),
    ],
)
def test_an_air_that_the_testbed_cannot_have_is_refused(
    old: str, new: str, said: str, folder: Path
) -> None:
    text = LINK.replace(old, new, 1)
    (folder / "links/two.toml").write_text(
        text + ('mtu = "none: a test"\n' if "mtu" in new else "")
    )
    with pytest.raises(StudyError, match=said):
        wireless.check(request(folder, link="two"))


def test_a_link_without_frames_of_802_11_is_refused_in_a_sentence() -> None:
    with pytest.raises(StudyError, match=r"links/lte\.toml:\d+:1: overhead: .*found 0 B"):
        wireless.check(request(link="lte"))


def test_a_scenario_without_the_node_of_the_study_is_refused(folder: Path) -> None:
    change(folder / "scenarios/m1.toml", 'from = "mn1"\nto = "mn2"', 'from = "mn2"\nto = "mn3"')
    with pytest.raises(StudyError, match='no flow "data" of a station mn1'):
        request(folder, scenario="m5")


TWO_RATES = """
name = "own"
title = "Own"

[[sweep]]
name = "air"
title = "Air"
measure = "wireless"
levels = ["model", "testbed"]
replications = 1
seconds = 0.5
set = { scenario = "m5" }
grid = { policy = ["pn-1"], link = ["two", "wifi-11b"] }
"""


@pytest.mark.root
def test_the_air_of_two_rates_is_slow_where_the_file_says_so(tmp_path: Path) -> None:
    study = copied(tmp_path, TWO_RATES)
    lines = [line for line in LINK.splitlines() if not line.startswith(("loss", "reorder"))]
    (tmp_path / "links/two.toml").write_text("\n".join(lines))
    rows = caravan.study.run(study, directory=tmp_path / "out", level=("model", "testbed")).rows
    for link in ("two", "wifi-11b"):
        at = {"link": link, "policy": "pn-1"}
        there, computed = (
            {name: value(rows, name, level=one, **at) for name in ("udp_bytes_s", "response_ms")}
            for one in ("testbed", "model")
        )
        # Rates the wrong way round would be four times as much.
        assert 0.5 < there["udp_bytes_s"] / computed["udp_bytes_s"] < 1.5
        assert there["response_ms"] > computed["response_ms"]


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with Bed(tmp_path_factory.mktemp("bed"), None, LinkSecurity("open", "")) as it:
        yield it


@pytest.mark.root
def test_a_response_is_two_packets_of_tcp(bed: Bed) -> None:
    (scenario,) = (one for one in scenarios_of_the_study() if one.name == "m5")
    with (
        bed.cell(policies_of_the_study()["pn-1"], scenario) as own,
        Tap(bed.network.roles["mn1"], DEVICE, has_everything=True) as tap,
    ):
        tap.read()
        seconds = own.order("connect", RESPONSES, ANSWER_S)["seconds"]
        frames = [one for one in tap.read() if one.protocol == TCP_PROTOCOL]
    assert len(seconds) == RESPONSES and None not in seconds
    # SYN, its answer, the acknowledgement of that, and the reset: nothing else is in the air.
    flags = [one.payload[13] for one in frames]
    assert flags == [0x02, 0x12, 0x10, 0x14] * RESPONSES
    for at, told in enumerate(seconds):
        asked, answered = frames[4 * at], frames[4 * at + 1]
        assert answered.time_s - asked.time_s <= told + 1e-4


@pytest.mark.root
@pytest.mark.parametrize(("proof", "is_signed"), [("psk", False), ("rsa", True)])
def test_ike_in_the_testbed_has_the_bytes_that_are_computed(
    proof: str, is_signed: bool, bed: Bed
) -> None:
    (scenario,) = (one for one in scenarios_of_the_study() if one.name == "m5")
    policy = Setting.of(request(proof=proof)).policy
    assert policy.ipsec is not None and policy.ipsec.is_signed == is_signed
    with (
        Tap(bed.network.roles["mn1"], DEVICE, has_everything=True) as tap,
        bed.cell(policy, scenario),
    ):
        frames = [one for one in tap.read() if one.protocol == UDP_PROTOCOL]
    own = first_ones(one for one in frames if int.from_bytes(one.payload[2:4]) == IKE_PORT)
    _, computed, _ = ike(proof=proof)
    measured = sum(len(one.payload) + 20 for one in own)
    # Names in certificates are of other lengths.
    assert measured == pytest.approx(computed, rel=0.05 if is_signed else 0.02)
