"""`caravan-lab` in scripts: exact output, exact keys, exit status, and the stream of error
messages."""

from __future__ import annotations

import contextlib
import io
import json
import re
import struct
import subprocess
import sys
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from caravan.advice.answers import spoken
from caravan.advice.standings import standings
from caravan.files import CATALOGUE, find
from caravan.lab import core
from caravan.lab.ask import AskRequest
from caravan.lab.ask import answer as ranked
from caravan.lab.cli import main
from caravan.lab.picture import specification
from caravan.messages import Stopped

TOP = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Done:
    """The result of a program run."""

    returncode: int
    stdout: str
    stderr: str


def lab(*words: str, cwd: Path = TOP) -> Done:
    """Run `caravan-lab` in this process, because starting an interpreter takes longer than most
    questions."""
    out, err = io.StringIO(), io.StringIO()
    status = 0
    with (
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(sys, "argv", ["caravan-lab", *words]),
    ):
        try:
            main()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1 if end.code else 0
    return Done(status, out.getvalue(), err.getvalue())


def answer(*words: str, cwd: Path = TOP) -> dict[str, Any]:
    done = lab(*words, "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def refusal(*words: str, cwd: Path = TOP) -> str:
    """The standard error of an invalid question; standard output must be empty."""
    done = lab(*words, cwd=cwd)
    assert (done.returncode, done.stdout) == (2, ""), done
    return done.stderr


def write_capture(path: Path, packets: int, packet_bytes: int, per_s: float) -> None:
    """A pcap of raw IP packets at equal intervals."""
    write_packets(path, packet_bytes, [number / per_s for number in range(packets)])


def write_packets(path: Path, packet_bytes: int, times: list[float]) -> None:
    """A pcap of raw IP packets at these seconds."""
    with path.open("wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101))
        packet = b"\x45\x00" + struct.pack(">H", packet_bytes) + bytes(packet_bytes - 4)
        for time in times:
            seconds, rest = divmod(time, 1)
            head = struct.pack("<IIII", int(seconds), int(rest * 1e6), len(packet), packet_bytes)
            out.write(head + packet)


def test_cost_prints_the_papers_numbers() -> None:
    words = ("cost", "--profile", "paper-u", "--suite", "3des-md5", "--bytes", "480")
    found = answer(*words, "--mips", "100")
    # paper U: 60 blocks of 8091, and 2264 + 744 x 8; equation (11)
    assert found["operations"] == 60 * 8091 + 2264 + 744 * 8
    assert found["time_ms"] == pytest.approx(found["operations"] / 100e6 * 1e3)
    assert found["protected_bytes"] == 512
    assert found["payload_ratio"] == pytest.approx(440 / 512)


def test_cost_prices_a_policy_of_ones_own(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    words = ("cost", "--profile", "cortex-a53", "--mhz", "1000", "--bytes", "480", "--suite")
    text = 'name = "mine"\ntitle = "T"\nsuite = "aes128gcm16"\nmode = "{}"\nudp = true\nouter = 4\n'
    sizes = {}
    for mode in ("tunnel", "transport"):
        mine.write_text(text.format(mode))
        sizes[mode] = answer(*words, str(mine))["protected_bytes"]
    assert sizes["tunnel"] == answer(*words, "aes128gcm16")["protected_bytes"]
    # RFC 4303 §3.1: without the outer header the payload alone is padded
    assert sizes["tunnel"] - sizes["transport"] == 20
    mine.write_text('name = "mine"\n')
    assert "mine.toml" in refusal(*words, str(mine))


def test_cost_knows_the_policies_of_skip_by_their_names() -> None:
    words = ("cost", "--profile", "pentium-pro-200", "--bytes", "1084", "--suite")
    found = answer(*words, "skip-des-md5-paper")
    # the paper's 116 octets
    assert found["protected_bytes"] == 1084 + 116
    assert any("single DES: MUST NOT" in reason for reason in found["reasons"])
    assert answer(*words, "skip-des-md5-paper-ipv4")["protected_bytes"] == 1084 + 88
    assert "aes256-gcm-siv is empty" in refusal(*words, "skip-x25519")


def test_cost_of_a_policy_file_that_is_not_there_says_so() -> None:
    words = ("cost", "--profile", "paper-u", "--mips", "100", "--bytes", "480", "--suite")
    for name in ("nosuch.toml", "./nosuch", "/none/such.toml"):
        assert refusal(*words, name) == f"caravan-lab: --suite: {name}: no such file\n"
    assert "no algorithm is called" in refusal(*words, "rot13")


@pytest.mark.parametrize("size", ["5", "19.5", "20.5", "-1", "65536", "66666"])
def test_cost_refuses_what_is_no_packet(size: str) -> None:
    words = ("cost", "--profile", "paper-u", "--suite", "3des", "--mips", "100", "--bytes", size)
    assert f"--bytes: {size} is not the size of an IP packet: 20 " in refusal(*words)


def test_cost_of_paper_w_goes_both_ways() -> None:
    words = ("cost", "--profile", "paper-w", "--suite", "aes128", "--bytes", "800", "--mips", "400")
    assert answer(*words)["time_ms"] == pytest.approx(0.802, abs=0.001)
    assert answer(*words, "--decrypt")["operations"] == 52 * 10992


def test_a_suite_outside_the_profile_names_those_inside() -> None:
    said = refusal(
        "cost", "--profile", "paper-u", "--suite", "aes128", "--bytes", "480", "--mips", "100"
    )
    for suite in ("none", "null-md5", "des", "3des", "des-md5", "3des-md5"):
        assert suite in said.split("suites inside")[1]


def test_simulate_prints_the_keys_that_others_read() -> None:
    words = ["simulate", "scenarios/umts.toml", "--suite", "3des-md5", "--rate-kbps", "512"]
    words += ["--mips", "100", "--hours", "0.2", "--replications", "8"]
    found = answer(*words)
    assert {
        "mean_delay_ms",
        "delay_ci95_ms",
        "throughput_kbps",
        "cpu_queue_bytes",
        "protected_kbps",
        "stationary",
        "packets",
        "wall_s",
    } <= found.keys()
    assert found["stationary"] is True
    assert found["throughput_kbps"] == pytest.approx(512, rel=0.03)
    assert found["protected_kbps"] > found["throughput_kbps"]
    one = answer(*words, "--jobs", "1")
    assert one["mean_delay_ms"] == pytest.approx(found["mean_delay_ms"], rel=1e-12)
    assert one["scenario_hash"] == found["scenario_hash"]


@pytest.mark.parametrize("edit", ["loss=0.1", "reorder=0.1", "queue=5 KB", "mtu=1500", "trace=x"])
def test_the_tandem_refuses_what_only_the_event_kernel_has(edit: str) -> None:
    said = refusal("simulate", "scenarios/umts.toml", "--set", f"link.ms.{edit}")
    key = edit.partition("=")[0]
    assert f"link.ms.{key}: the tandem does not support {key}" in said
    assert "--events" in said


def test_loss_of_the_scenario_itself_is_refused_too(tmp_path: Path) -> None:
    own = tmp_path / "lossy.toml"
    text = (TOP / "scenarios/umts.toml").read_text()
    own.write_text(text.replace('link = "umts-radio"', 'link = "umts-radio"\nloss = 0.01'))
    assert "the tandem does not support loss" in refusal("simulate", str(own))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--bytes", "nan"), "bytes: nan is not a finite number"),
        (("--bytes", "inf"), "bytes: inf is not a finite number"),
        (("--bytes", "480", "--mips", "nan"), "mips: nan is not a finite number"),
        (("--bytes", "480", "--mips", "inf"), "mips: inf is not a finite number"),
    ],
)
def test_cost_refuses_what_is_no_number(words: tuple[str, ...], said: str) -> None:
    assert said in refusal("cost", "--profile", "paper-u", "--suite", "3des", *words)
    assert said in refusal("cost", "--profile", "paper-u", "--suite", "3des", "--json", *words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("simulate", "umts", "--hours", "nan"), "hours: nan is not a finite number"),
        (("simulate", "umts", "--mips", "1e-300"), "--mips: 1e-300 is outside 0.001 to 1000000000"),
        (("simulate", "umts", "--rate-kbps", "1e16"), "too large, limit 1e15 bit/s"),
        (("simulate", "umts", "--rate-kbps", "1e-9"), "too small, limit 0.01 bit/s"),
        (("simulate", "umts", "--rate-kbps", "1e9", "--hours", "0.001"), "limit 1e11: lower"),
        (("simulate", "umts", "--suite", "foo"), "'foo', valid are '3des', '3des-md5', "),
        (("simulate", "umts", "--rate-kbps", "inf"), "rate-kbps: inf is not a finite number"),
        (("ask", "--rate-kbps", "nan"), "rate-kbps: nan is not a finite number"),
        (("ask", "--rate-kbps", "-5"), "rate-kbps: -5, must be above 0"),
        (("ask", "--rate-kbps", "5", "--bytes", "0"), "bytes: 0, must be above 0"),
    ],
)
def test_a_wrong_number_is_named_by_its_option(
    words: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    if words[0] == "ask":
        words = (*words, "--device", "cortex-a53", "--link", "lte")
    assert said in refusal(*words, cwd=tmp_path)


def test_a_rate_beyond_the_processor_is_not_stationary() -> None:
    words = ("simulate", "umts", "--rate-kbps", "1024", "--hours", "0.2", "--replications", "4")
    assert answer(*words)["stationary"] is False


def test_a_device_of_ones_own_replaces_the_papers(tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    own.write_text((CATALOGUE / "devices/paper-u.toml").read_text().replace("8091", "809"))
    words = ("simulate", "umts", "--hours", "0.1", "--replications", "2")
    found = answer(*words, "--device", str(own), "--mips", "100")
    assert found["utilisation"]["ms"] < answer(*words)["utilisation"]["ms"] / 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--rate-kbps", "-5"), "--rate-kbps: -5, must be above 0"),
        (("--rate-kbps", "nan"), "rate-kbps: nan"),
        (("--mips", "0"), "--mips: 0, must be above 0"),
        (("--hours", "0"), "--hours: 0, must be above 0"),
        (("--set", "node.ms.mipz=3"), "nearest valid one is 'mips'"),
        (("--set", "node.mz.mips=3"), "nearest valid one is 'ms'"),
        (("--set", "link.sg.to=ms"), "closes a cycle"),
        (("--suite", "3des-md6"), "nearest valid one is '3des-md5'"),
        (("--suite", "aes128gcm16"), "paper-u"),
        (("--device", "papr-u"), "the nearest valid one is 'paper-u'"),
        (("--mips", "5", "--mhz", "5"), "give only one"),
    ],
)
def test_a_wrong_scenario_says_where(words: tuple[str, ...], said: str) -> None:
    assert said in refusal("simulate", "umts", *words)


def test_a_file_of_ones_own_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    text = (CATALOGUE / "scenarios/umts.toml").read_text()
    path.write_text(text.replace('name = "rnc"', 'nmae = "rnc"'))
    line = path.read_text().splitlines().index('nmae = "rnc"') + 1
    said = refusal("simulate", str(path))
    assert f"{path}:" in said
    assert "'name' is missing" in said or f":{line}:" in said


def test_every_kind_is_listed_and_shown() -> None:
    for kind, name in (("devices", "cortex-m4"), ("links", "lte"), ("policies", "aes128gcm16")):
        rows = json.loads(lab(kind, "--json").stdout)
        assert name in [row["name"] for row in rows]
        assert name in lab(kind).stdout
        assert lab("show", name).stdout.startswith(f"{name}:")
    assert "mvpn" in answer("show")["studies"]
    listed = dict(line.split(": ", 1) for line in lab("show").stdout.splitlines())
    assert list(listed) == ["devices", "links", "policies", "scenarios", "studies"]
    assert "lte" in listed["links"].split(", ")
    assert answer("show", "umts")["scenario"]["nodes"][0]["name"] == "ms"
    assert "the nearest valid one is 'lte'" in refusal("show", "ltee")


def test_a_policy_of_layers_is_as_old_as_its_oldest_layer() -> None:
    found = answer("show", "pn-9")
    assert [one["what"] for one in found["layers"]] == ["eap-md5", "wep-104", "ipsec-3des-md5"]
    assert [one["standing"] for one in found["layers"]] == ["legacy"] * 3
    assert (found["standing"], found["is_forbidden"]) == ("legacy", True)
    assert "RFC 4017" in found["layers"][0]["why"]
    path = "studies/wireless-policies/policies/pn-3.toml"
    assert "3DES: SHOULD NOT, RFC 8221" in lab("show", path).stdout
    assert answer("show", path)["standing"] == answer("show", "pn-3")["standing"] == "legacy"
    assert answer("show", "pn-6")["standing"] == "current"
    assert answer("show", "pn-6-rsa1024")["standing"] == "legacy"
    assert answer("show", "pn-1")["standing"] == "clear"
    for version in ("tls-1.2", "tls-1.3"):
        assert answer("show", version)["standing"] == "current"


def test_a_list_of_methods_is_judged_by_each_of_them(tmp_path: Path) -> None:
    policy = tmp_path / "own.toml"

    def shown(methods: str) -> dict[str, Any]:
        layer = f'[[layer]]\nkind = "access"\nmethod = {methods}\n'
        policy.write_text(f'name = "own"\ntitle = "Own"\nlegacy = true\n{layer}')
        (found,) = answer("show", str(policy))["layers"]
        return dict(found)

    found = shown('["wifi-rsn", "eap-peap", "wifi-four-way-pmf"]')
    assert (found["what"], found["standing"]) == (
        "wifi-rsn, eap-peap, wifi-four-way-pmf",
        "not judged",
    )
    assert "PEAP with MS-CHAPv2: no standard judges it; it is described in draft-" in found["why"]
    assert shown('["eap-tls-p256", "wifi-four-way"]')["standing"] == "current"
    assert shown('["eap-ttls-pap", "eap-md5"]')["is_forbidden"]
    assert shown('["eap-tls", "wifi-four-way-tkip"]')["standing"] == "legacy"
    assert shown('"eap-tls-rsa1024"')["is_forbidden"]
    assert shown('["eap-tls", "tls13"]')["standing"] == "current"
    assert shown('["eap-tls", "mobile-ip", "socks5-password"]')["standing"] == "not judged"
    shown('["eap-tls", "wifi-four-way"]')
    assert "access  eap-tls, wifi-four-way  current" in lab("show", str(policy)).stdout


def test_a_policy_is_shown_if_and_only_if_it_can_be_simulated(tmp_path: Path) -> None:
    policy = tmp_path / "own.toml"

    def said(layer: str, head: str = "") -> list[str]:
        policy.write_text(f'name = "own"\ntitle = "Own"\n{head}[[layer]]\n{layer}')
        return [refusal("show", str(policy)), refusal("simulate", "m1", "--suite", str(policy))]

    md5 = 'kind = "access"\nmethod = ["eap-md5", "wifi-four-way"]\n'
    tls = 'kind = "transport"\nversion = "tls-1.2"\nsuite = "3des-sha1"\nmethod = "tls12"\n'
    for layer, why in (
        (md5, "layer.0.method.0: legacy = true is needed for eap-md5"),
        (tls, "legacy = true is needed for 3des-sha1"),
        ('kind = "access"\nmethod = 5\n', "must be text, found a whole number"),
        ('kind = "acces"\nmethod = "eap-tls"\n', "'acces'"),
        ('kind = "ipsec"\npolicy = "des-md5"\n', "legacy = true is needed for des-md5"),
    ):
        one, other = said(layer)
        assert one == other and why in one
    policy.write_text(f'name = "own"\ntitle = "Own"\nlegacy = true\n[[layer]]\n{md5}')
    assert answer("show", str(policy))["is_forbidden"]
    # A file that a layer names is beside the policy, wherever the program runs.
    (tmp_path / "inner.toml").write_text('name = "inner"\ntitle = "In"\nsuite = "3des-sha1"\n')
    layer = 'legacy = true\n[[layer]]\nkind = "ipsec"\npolicy = "inner.toml"\n'
    policy.write_text(f'name = "own"\ntitle = "Own"\n{layer}')
    (found,) = answer("show", str(policy))["layers"]
    assert (found["suite"], found["key_exchange"]) == ("legacy", None)


def test_a_layer_of_tls_is_judged_by_its_suite_too(tmp_path: Path) -> None:
    policy = tmp_path / "own.toml"

    def shown(suite: str) -> dict[str, Any]:
        layer = f'version = "tls-1.2"\nsuite = "{suite}"\nmethod = "tls12"\n'
        head = 'name = "own"\ntitle = "Own"\nlegacy = true\n[[layer]]\nkind = "transport"\n'
        policy.write_text(head + layer)
        (found,) = answer("show", str(policy))["layers"]
        return dict(found)

    found = shown("3des-sha1")
    assert (found["what"], found["standing"]) == ("tls-1.2, 3des-sha1", "legacy")
    assert "should-not by RFC 9325" in found["why"]
    for suite in ("aes128-sha1", "aes256-sha384", "aes128gcm16", "chacha20poly1305"):
        assert shown(suite)["standing"] == "current"


def test_what_a_study_has_for_itself_is_shown_by_its_name() -> None:
    assert answer("show", "m5")["scenario"]["name"] == "m5"
    assert lab("show", "m5").stdout.startswith("m5:")
    assert lab("show", "air-half").stdout.startswith("air-half:")


def test_a_shared_air_is_shown_with_what_a_frame_takes() -> None:
    shown = lab("show", "wifi-11b").stdout
    assert "access_time 810 us a frame, half_duplex: both ways share its time" in shown


def test_every_link_of_the_catalogue_has_sources() -> None:
    for row in core.listing("link"):
        assert row["sources"], row["name"]
        assert all(source["source"].strip() for source in row["sources"])


def ranked_names() -> set[str]:
    """The policies of the catalogue that protect the way to a gateway: all but those of SKIP."""
    return {name for name in core.names("policy") if not name.startswith("skip-")}


def test_ask_ranks_what_is_carried_first_and_says_why(tmp_path: Path) -> None:
    words = ("ask", "--device", "cortex-m4", "--link", "lte", "--rate-kbps", "2000")
    picture = tmp_path / "answer.svg"
    found = answer(*words, "-o", str(picture))
    order = {"yes": 0, "barely": 1, "no": 2, "unknown": 3}
    *ranked, baseline = found["policies"]
    ranks = [order[policy["carried"]] for policy in ranked]
    assert ranks == sorted(ranks)
    assert (baseline["policy"], baseline["standing"]) == ("none", "clear")
    traffic, link, tunnel, handshake = found["assumptions"]
    assert "Poisson" in traffic and "287 bytes on average" in traffic
    assert "MTU" in link
    assert "keepalive" in tunnel and "messages of the real machine" in handshake
    by_name = {policy["policy"]: policy for policy in found["policies"]}
    assert by_name.keys() == ranked_names()
    assert by_name["chacha20poly1305"]["carried"] == "yes"
    assert by_name["aes256-sha512"]["carried"] == "no"
    assert "the device would be" in by_name["aes256-sha512"]["why"]
    assert by_name["sha1"]["carried"] == "unknown"
    assert "has no cost of" in by_name["sha1"]["why"]
    assert "RFC 8221" in by_name["aes128"]["why"]
    assert found["policies"][0]["encrypts"]
    assert picture.read_text().startswith("<svg")
    assert [path.name for path in tmp_path.iterdir()] == ["answer.svg"]


def test_the_question_of_the_readme_is_answered(tmp_path: Path) -> None:
    lines = (TOP / "README.md").read_text().splitlines()
    line = next(line for line in lines if line.startswith("caravan-lab ask "))
    words = line.partition("#")[0].split()[1:]
    assert answer(*words, cwd=tmp_path)["policies"][0]["carried"] == "yes"


def test_ask_prices_a_capture_of_ones_own(tmp_path: Path) -> None:
    capture = tmp_path / "mine.pcap"
    write_capture(capture, packets=2000, packet_bytes=500, per_s=200)
    words = ("ask", "--device", "cortex-a53", "--link", "lte", "--traffic", str(capture))
    found = answer(*words, "-o", str(tmp_path / "answer.html"))
    clear = next(policy for policy in found["policies"] if policy["policy"] == "none")
    # 500 bytes at 20.2 Mbit/s after 10 ms: no packet waits
    assert clear["delay_ms"] == pytest.approx(10 + 4000 / 20.2e3, rel=0.02)
    assert clear["throughput_kbps"] == pytest.approx(800, rel=0.01)


def test_a_capture_that_is_none_is_refused_by_name(tmp_path: Path) -> None:
    words = ("ask", "--device", "cortex-a53", "--link", "lte", "--traffic")
    capture = tmp_path / "mine.pcap"
    assert "mine.pcap" in refusal(*words, str(capture), cwd=tmp_path)
    capture.write_bytes(b"")
    assert "empty" in refusal(*words, str(capture), cwd=tmp_path)
    write_capture(capture, packets=0, packet_bytes=100, per_s=10)
    assert "the capture holds no packets" in refusal(*words, str(capture), cwd=tmp_path)
    write_capture(capture, packets=10, packet_bytes=100, per_s=10)
    capture.write_bytes(capture.read_bytes()[:-7])
    assert "ends inside" in refusal(*words, str(capture), cwd=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.pcap"]


def test_a_capture_of_one_moment_has_no_rate(tmp_path: Path) -> None:
    capture = tmp_path / "mine.pcap"
    words = ("ask", "--device", "cortex-a53", "--link", "lte", "--traffic", str(capture))
    for seconds in ([3.0], [3.0] * 5):
        write_packets(capture, 500, seconds)
        assert "mine.pcap: the rate is unknown" in refusal(*words, cwd=tmp_path)


def test_a_picture_of_capacities_is_of_points_and_the_rate_asked(tmp_path: Path) -> None:
    capture = tmp_path / "mine.pcap"
    write_capture(capture, packets=2000, packet_bytes=500, per_s=200)
    for asked in (
        AskRequest("cortex-a53", "lte", 800.0),
        AskRequest("cortex-a53", "lte", capture=capture),
    ):
        spec = specification(asked, ranked(asked).verdicts)
        points, line = spec["hconcat"][0]["layer"]
        assert (points["mark"]["type"], line["mark"]["type"]) == ("point", "rule")
        (drawn,) = spec["datasets"][line["data"]["name"]]
        assert drawn["rate"] == pytest.approx(800, rel=0.01)


def test_a_tunnel_that_does_not_come_up_is_status_1() -> None:
    for form in ((), ("--json",)):
        done = lab("simulate", "road", "--set", "link.0.loss=1", *form)
        assert done.returncode == 1
        assert "differ by" not in done.stdout
        said = "caravan-lab: the tunnel does not come up: no reply from "
        (line,) = done.stderr.splitlines()
        assert line.startswith(said)


@pytest.mark.parametrize("words", [("--events",), ("--set", "policy=pn-12")])
def test_a_scenario_of_wireless_policies_has_its_flow_and_the_parts_of_its_arrival(
    words: tuple[str, ...],
) -> None:
    done = lab("simulate", "studies/wireless-policies/scenarios/m5.toml", *words)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.split() for line in done.stdout.splitlines()]
    assert any(line[:1] == ["data"] for line in lines)
    assert {line[1] for line in lines if line[:1] == ["mn1"]} == {"model", "simulate"}
    (head,) = (line for line in lines if line[:1] == ["arrival"])
    assert ("EAP," in head) == ("policy=pn-12" in words)


def test_behind_a_full_processor_only_what_passes_keeps_stations_busy() -> None:
    words = ("simulate", "umts", "--rate-kbps", "1e5", "--hours", "0.005", "--replications", "1")
    found = answer(*words)
    busy = found["utilisation"]
    assert (found["state"], busy["ms"]) == ("not-stationary", pytest.approx(1))
    # 771 kbit/s pass the processor, and the radio after it carries 1867
    assert busy["ms-node-b"] == pytest.approx(771 / 1867, rel=0.15)
    assert busy["node-b-rnc"] < 0.02


def test_a_capture_out_of_order_is_refused(tmp_path: Path) -> None:
    capture = tmp_path / "mine.pcap"
    write_packets(capture, 500, [5, 3, 1, 4, 2])
    words = ("ask", "--device", "cortex-a53", "--link", "lte", "--traffic", str(capture))
    said = refusal(*words, cwd=tmp_path)
    assert "record 2 is 2 s before an earlier one: sort the capture with reordercap" in said
    write_packets(capture, 500, [1, 0.9995, 2])
    assert answer(*words, cwd=tmp_path)["policies"]


def test_the_standing_of_algorithms_and_of_the_exchange_stand_side_by_side(
    tmp_path: Path,
) -> None:
    rows = {row["name"]: row for row in core.listing("policy")}
    assert rows["aes128gcm16"]["standing"] == "current"
    # A policy of today has today's exchange, and one of the papers that of its time.
    assert rows["aes128gcm16"]["exchange"] is None
    assert rows["des"]["exchange"] == "IKEv1 deprecated, RFC 9395"
    assert rows["none"]["exchange"] is None
    assert any("3DES in the exchange" in why for why in rows["3des-md5"]["reasons"])
    assert {name for name, row in rows.items() if row["is_forbidden"]} == {
        name for name, row in rows.items() if any("MUST NOT" in why for why in row["reasons"])
    }
    lines = {line.split()[0]: line for line in lab("policies").stdout.splitlines()}
    assert "  current  " in lines["aes128gcm16"] and "IKEv1" not in lines["aes128gcm16"]
    assert "  IKEv1 legacy  " in lines["des"]
    # The verdict on IKEv1 is that of the advisor.
    verdict = standings().blocks["ikev1"].on(date.today())
    assert verdict is not None and verdict.word == "should-not"
    old = tmp_path / "old.toml"
    text = find("policy", "aes128gcm16").text.replace('"ikev2"', '"ikev1-main"')
    text = text.replace("aes128gcm16-prfsha256-curve25519", "aes128-sha256-modp2048")
    old.write_text(text.replace('name = "aes128gcm16"', 'name = "old"'))
    for line in (lines["des"], lab("show", str(old)).stdout):
        assert line.strip().endswith(f"IKEv1: {spoken(verdict)}")
    rows = {row["name"]: row for row in json.loads(lab("policies", "--json").stdout)}
    assert rows["none"]["key_exchange"] is None
    skip = rows["skip-x25519"]["key_exchange"]
    assert (skip["name"], skip["standing"]) == ("SKIP", "not judged")
    assert rows["aes128gcm16"]["standing"] == "current"
    assert rows["aes128gcm16"]["key_exchange"] is None
    assert rows["des"]["key_exchange"]["standing"] == "legacy"
    assert answer("show", "aes128gcm16") == rows["aes128gcm16"]
    own = tmp_path / "own.toml"
    own.write_text(
        'name = "own"\ntitle = "Own"\n[[layer]]\nkind = "ipsec"\npolicy = "./old.toml"\n'
    )
    (layer,) = answer("show", str(own))["layers"]
    assert (layer["suite"], layer["standing"]) == ("current", "legacy")
    assert "legacy, MUST NOT" in lines["des"]
    assert "RFC 9395" not in lines["none"]
    words = ("ask", "--device", "cortex-m4", "--link", "lte", "--rate-kbps", "2000")
    asked = (*words, "-o", str(tmp_path / "answer.html"), "--policy", str(old))
    assert "current; IKEv1 deprecated, RFC 9395" in lab(*asked).stdout
    ranked = answer(*asked)["policies"]
    found = {one["policy"]: one for one in ranked}
    assert found["des"]["is_forbidden"] is True
    assert found["aes128gcm16"]["is_forbidden"] is False
    assert "IKEv1" not in found["chacha20poly1305"]["why"]
    assert found[str(old)]["why"].endswith("; IKEv1 deprecated, RFC 9395")
    # Two policies that cost the same: today's exchange decides.
    order = [one["policy"] for one in ranked]
    assert order.index("aes128gcm16") < order.index(str(old))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("umts", "--events", "--replications", "9"), "--replications: 9, but the event kernel"),
        (("road", "--replications", "2"), "the event kernel runs once"),
        (("umts", "--events", "--jobs", "4"), "the event kernel runs on one core"),
        (("road", "--hours", "1"), "--hours: 1, but a TCP transfer ends with its last byte"),
    ],
)
def test_the_event_kernel_refuses_what_it_would_ignore(words: tuple[str, ...], said: str) -> None:
    assert said in refusal("simulate", *words)


@pytest.mark.parametrize(("link", "is_told"), [("nb-iot", True), ("wifi", True), ("lte", False)])
def test_ask_says_where_no_delay_of_the_radio_is_known(
    link: str, is_told: bool, tmp_path: Path
) -> None:
    words = ["ask", "--device", "cortex-m4", "--link", link, "--rate-kbps", "5"]
    words += ["--bytes", "200", "-o", str(tmp_path / "answer.svg")]
    found = answer(*words)["caveats"]
    assert sum("no source gives" in caveat for caveat in found) == is_told
    assert (
        "Caveat: these delays do not include the delay of the radio" in lab(*words).stdout
    ) == is_told


def test_ask_wants_one_traffic_and_a_picture_that_it_can_write(tmp_path: Path) -> None:
    words = ("ask", "--device", "cortex-a53", "--link", "lte")
    assert "--traffic, --rate-kbps: give one of them" in refusal(*words, cwd=tmp_path)
    said = refusal(*words, "--rate-kbps", "5", "-o", "answer.gif", cwd=tmp_path)
    assert ".html, .png, .svg" in said
    assert "there is no folder x" in refusal(
        *words, "--rate-kbps", "5", "-o", "x/a.png", cwd=tmp_path
    )


def test_the_road_runs_the_real_node_beside_its_model(tmp_path: Path) -> None:
    capture = tmp_path / "road.pcapng"
    words = ("simulate", "road", "--set", "traffic.bytes=200 KB", "--pcap", str(capture))
    found = answer(*words)
    assert found["simulate"]["exchange"]["is_up"]
    assert found["model"]["handshake_wire_bytes"] == found["simulate"]["exchange"]["wire_bytes"]
    assert capture.read_bytes()[:4] == b"\x0a\x0d\x0d\x0a"
    assert answer(*words)["simulate"]["fingerprint"] == found["simulate"]["fingerprint"]
    assert "handshake" in lab(*words).stdout


SLOW_ROAD = """name = "slow"
title = "A sensor at a gateway"
seed = 1
policy = "aes128gcm16"
accounting = "rfc"
calendar = 2026-01-01T00:00:00Z
run = { time = "600 s" }
traffic = { model = "tcp", bytes = "2 KB", direction = "up" }
node = [{ name = "ms", role = "station", device = "cortex-m4" }, { name = "sg", role = "gateway" }]
link = [{ from = "ms", to = "sg", link = "nb-iot" }]
"""


def test_on_a_slow_link_each_message_of_the_handshake_leaves_once(tmp_path: Path) -> None:
    """The first messages, which teach the path's time, are far shorter than the later ones."""
    file = tmp_path / "slow.toml"
    file.write_text(SLOW_ROAD)
    found = answer("simulate", str(file), "--events")
    assert found["simulate"]["exchange"]["is_up"]
    assert found["model"]["handshake_wire_bytes"] == found["simulate"]["exchange"]["wire_bytes"]


def test_a_suite_that_the_papers_accounting_cannot_size_says_what_to_set() -> None:
    words = ("simulate", "scenarios/umts.toml", "--device", "cortex-m4", "--suite", "aes128gcm16")
    said = refusal(*words)
    assert "--set accounting=rfc" in said
    assert "in the file" in said


@pytest.mark.parametrize("fault", [KeyboardInterrupt(), Stopped("stopped: run again to resume")])
def test_a_run_that_is_stopped_says_so_where_output_is_redirected(
    fault: BaseException, tmp_path: Path
) -> None:
    with mock.patch("caravan.study.runner.run", side_effect=fault):
        done = lab("run", "umts", "-o", str(tmp_path / "out"))
    assert (done.returncode, done.stdout) == (130, "")
    assert "stopped" in done.stderr
    assert "run again to resume" in done.stderr


def test_the_version_is_the_packages() -> None:
    assert lab("--version").stdout == f"caravan-lab {core.version()}\n"


def test_the_program_is_installed_beside_its_interpreter() -> None:
    program = Path(sys.executable).parent / "caravan-lab"
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"caravan-lab {core.version()}\n"


def examples_of(page: str) -> list[str]:
    """The TOML files in a page of the documentation."""
    return re.findall(r"^```toml\n(.*?)^```$", (TOP / "docs" / page).read_text(), re.M | re.S)


def test_the_files_of_the_page_of_devices_work_as_they_stand(tmp_path: Path) -> None:
    names = ("board.toml", "paper.toml", "mine.toml", "skip.toml")
    for name, text in zip(names, examples_of("lab-devices.md"), strict=True):
        (tmp_path / name).write_text(text)
        # A device has operations that end in "generate =", and is not a link for that reason.
        assert lab("show", name, cwd=tmp_path).stdout.startswith(f"{name}: ")
    words = ("ask", "--device", "board.toml", "--link", "lte", "--rate-kbps", "100")
    found = answer(*words, "--policy", "mine.toml", cwd=tmp_path)
    ranks = {policy["policy"]: policy for policy in found["policies"]}
    assert ranks.keys() == {*ranked_names(), "mine.toml"}
    assert ranks["mine.toml"]["carried"] == "yes"
    # an outer header of IPv6
    assert ranks["mine.toml"]["expansion"] > ranks["aes128gcm16"]["expansion"]
    write_talk(tmp_path / "talk.pcap")
    words = ("ask", "--device", "board.toml", "--link", "lte", "--traffic", "talk.pcap")
    found = answer(*words, "--policy", "mine.toml", cwd=tmp_path)
    replayed = {policy["policy"]: policy["expansion"] for policy in found["policies"]}
    assert replayed["mine.toml"] > replayed["aes128gcm16"]
    priced = answer(
        *("cost", "--profile", "paper.toml", "--suite", "des-md5"),
        *("--bytes", "480", "--mips", "100"),
        cwd=tmp_path,
    )
    assert priced["operations"] == 60 * 2697 + 2264 + 8 * 744


def write_talk(path: Path) -> None:
    """A pcap of Ethernet: ten questions of 52 bytes, ten answers of 9,000, ten frames of ARP."""
    device, server = bytes((10, 0, 0, 1)), bytes((10, 0, 0, 2))
    with path.open("wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for second in range(10):
            talk = ((52, device, server), (9000, server, device), (0, b"", b""))
            for number, (length, source, target) in enumerate(talk):
                packet = struct.pack(">BBHIHH", 0x45, 0, length, 0, 0x4011, 0) + source + target
                kind = b"\x08\x00" if length else b"\x08\x06"
                frame = bytes(12) + kind + packet + bytes(20)
                out.write(struct.pack("<IIII", second, number, len(frame), 14 + length) + frame)


def test_what_a_capture_holds_besides_is_said(tmp_path: Path) -> None:
    write_talk(tmp_path / "talk.pcap")
    words = ("ask", "--device", "cortex-a53", "--link", "lte", "--traffic", "talk.pcap")
    whole = answer(*words, cwd=tmp_path)
    said = "\n".join(whole["caveats"])
    assert "10 of the capture's 30 packets are left out" in said
    assert "both directions, and all packets were sent up: --station ADDRESS" in said
    assert "packets of up to 9,000 bytes" in said
    assert "has a cost per byte but no cost per packet" in said
    sent = answer(*words, "--station", "10.0.0.1", cwd=tmp_path)
    got = answer(*words, "--station", "10.0.0.1", "--down", cwd=tmp_path)
    for found, packet_bytes in ((sent, 52), (got, 9000)):
        assert "both directions" not in "\n".join(found["caveats"])
        clear = next(one for one in found["policies"] if one["policy"] == "none")
        # ten packets, one a second
        assert clear["offered_kbps"] == pytest.approx(packet_bytes * 8e-3, rel=0.001)
    other = refusal(*words, "--station", "10.0.0.9", cwd=tmp_path)
    assert "talk.pcap: none of its 20 packets is from 10.0.0.9" in other
    assert "--station: 'ms' is not an IP address" in refusal(
        *words, "--station", "ms", cwd=tmp_path
    )
    text = (CATALOGUE / "scenarios/umts.toml").read_text()
    begins, ends = text.index("[traffic]"), text.index("[run]")
    for station, both in (("", True), ('station = "10.0.0.1"', False)):
        traffic = f'[traffic]\nmodel = "pcap"\nfile = "talk.pcap"\n{station}\n'
        (tmp_path / "talk.toml").write_text(text[:begins] + traffic + text[ends:])
        said = lab("simulate", "talk.toml", cwd=tmp_path).stdout.splitlines()[0]
        assert "10 are not IP" in said
        assert ("both directions were sent up: traffic.station" in said) is both
    alone = ("ask", "--device", "cortex-a53", "--link", "lte", "--rate-kbps", "5")
    assert "--station: selects packets" in refusal(*alone, "--station", "10.0.0.1", cwd=tmp_path)


def test_a_device_whose_packets_have_a_price_has_no_caveat(tmp_path: Path) -> None:
    (tmp_path / "board.toml").write_text(examples_of("lab-devices.md")[0])
    words = ("ask", "--device", "board.toml", "--link", "lte", "--rate-kbps", "5")
    assert answer(*words, cwd=tmp_path)["caveats"] == []
    (caveat,) = answer(*words[:3], "--link", "ethernet", *words[5:], cwd=tmp_path)["caveats"]
    assert "exceeds the link's 1,500 bytes" in caveat


def test_what_is_not_carried_stands_by_its_rate_and_says_one_number(tmp_path: Path) -> None:
    words = ("ask", "--device", "cortex-m4", "--link", "lte", "--rate-kbps", "2000")
    found = answer(*words, cwd=tmp_path)["policies"]
    refused = [one for one in found if one["carried"] == "no" and one["standing"] == "current"]
    rates = [one["capacity_kbps"] for one in refused]
    assert len(rates) > 2 and rates == sorted(rates, reverse=True)
    for one in found:
        if one["load"] is not None:
            # the packets that were asked for, divided by the most that can be carried
            assert one["load"] == pytest.approx(2000 / one["capacity_kbps"])


@pytest.mark.parametrize("words", [("--hours", "2"), ("--replications", "5"), ("--seed", "4")])
def test_a_capture_is_replayed_as_it_is(words: tuple[str, str], tmp_path: Path) -> None:
    write_capture(tmp_path / "mine.pcap", packets=100, packet_bytes=500, per_s=10)
    text = (CATALOGUE / "scenarios/umts.toml").read_text()
    begins, ends = text.index("[traffic]"), text.index("[run]")
    traffic = '[traffic]\nmodel = "pcap"\nfile = "mine.pcap"\n'
    (tmp_path / "mine.toml").write_text(text[:begins] + traffic + text[ends:])
    assert answer("simulate", "mine.toml", cwd=tmp_path)["packets"] == 100
    assert "100 packets used, 0 are not IP" in lab("simulate", "mine.toml", cwd=tmp_path).stdout
    said = refusal("simulate", "mine.toml", *words, cwd=tmp_path)
    assert f"{words[0]}: {words[1]}, but a capture is replayed once" in said
