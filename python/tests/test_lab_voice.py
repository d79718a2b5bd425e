"""All refusals of `caravan-lab` have one form: a sentence that begins with the place, on standard
error."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from unittest import mock

import pytest
from test_lab_cli import TOP, answer, lab, refusal, write_capture

from caravan import _lab
from caravan.lab import freshness
from caravan.messages import unknown
from caravan.study import load
from caravan.study.cells import cells
from caravan.study.compute import jobs
from caravan.study.files import located
from caravan.study.resolve import Files, resolve
from caravan.study.text import StudyError

LOSSY_STUDY = """
name = "lossy"
title = "A link that loses packets"

[[sweep]]
name = "rates"
title = "Delay"
scenario = "umts"
levels = [{levels}]
seconds = 10
grid = {{ policy = ["none"], mips = [100] }}
axes = {{ mips = "node.ms.mips" }}
set = {{ "traffic.rate" = "64 kbit/s", "link.ms.loss" = 0.1 }}
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--bytez",), "unknown option '--bytez'; see caravan-lab --help"),
        (("cots",), "unknown command 'cots', the nearest valid one is 'cost'; see caravan-lab"),
        (("cost", "--suites", "x"), "'--suites', the nearest valid one is '--suite'; see"),
        (("cost", "--suite", "x"), "--profile is missing (a device: its name or a file); see"),
        (("cost", "--bytes", "abc"), "--bytes: abc, must be a number"),
        (("simulate",), "SCENARIO is missing (a scenario: its name or a file); see"),
        (("simulate", "umts", "more"), "got unexpected extra argument(s) (more); see"),
        (("simulate", "umts", "--seed"), "option '--seed' requires an argument; see"),
        (("simulate", "umts", "--seed", "1.5"), "--seed: 1.5, must be a whole number"),
        (("simulate", "umts", "--seed", "99999999999"), "must be at most 2147483647\n"),
        (("run", "", "-o", "x"), "the name of the study is empty: give a file, or one of mvpn, "),
        (("simulate", " "), "the name of the scenario is empty: give a file, or one of advise-"),
        (("show", ""), "NAME: it is empty: caravan-lab show alone lists all names"),
        (("show", "/dev/null"), "/dev/null: not a plain file: save its text in a file, and name"),
        (("simulate", "umts", "--jobs", "0"), "--jobs: 0, must be at least 1"),
        (("simulate", "umts", "--jobs", "1025"), "--jobs: 1025, must be at most 1024"),
        (("cost", "--decrypt=3"), "option '--decrypt' does not take a value; see"),
        (("simulate", "umts", "--suite", "zzz"), "--suite: unknown policy 'zzz', valid are"),
        (("simulate", "umts", "--set", "link.zz.loss=1"), "--set link.zz.loss: unknown name 'zz',"),
        (("simulate", "umts", "--set", "node.ms.mips="), "--set node.ms.mips: paper-u: it counts"),
        (("show", "zebra"), "there is no device, link, policy, scenario or study 'zebra', neither"),
        (("run", "umts", "-o", "x", "--level", "modle"), "the nearest valid one is 'model'"),
        (("run", "umtz", "-o", "x"), "the nearest valid one is 'umts'"),
        (("run", "umts", "-o", "/dev/null/x", "--quick"), "--output /dev/null/x: Not a directory"),
        (("compare", ".", "."), "not the output of a run"),
    ],
)
def test_every_refusal_is_one_sentence_on_standard_error(
    words: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    text = refusal(*words, cwd=tmp_path)
    assert text.startswith("caravan-lab: ")
    assert said in text
    assert text.count("\n") == 1
    assert not set(text) & set("\u2500\u2502\u256d\x1b"), "neither boxes nor colours in a pipe"


def test_a_word_that_is_near_to_nothing_is_answered_with_all_that_would_do() -> None:
    assert unknown("key", "mipz", ["mips", "clock"]).endswith("the nearest valid one is 'mips'")
    assert unknown("key", "zebra", ["mips", "clock"]).endswith("valid are 'mips', 'clock'")
    assert unknown("level", "sim", ["model", "simulate"]).endswith("one is 'simulate'")
    assert unknown("key", "x", []) == "unknown key 'x', and none is valid here"


@pytest.mark.parametrize("levels", ['"simulate"', '"model"', '"model", "simulate"'])
def test_a_study_whose_links_lose_packets_is_refused_at_its_line(
    levels: str, tmp_path: Path
) -> None:
    study = tmp_path / "lossy.toml"
    study.write_text(LOSSY_STUDY.format(levels=levels))
    said = refusal("run", str(study), "-o", str(tmp_path / "out"))
    assert f"{study}:13:39: sweep.rates: link.ms.loss: the tandem does not support loss" in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "setting", ['reorder" = 0.1', 'queue" = "5 KB"', 'mtu" = 1500', 'trace" = "x"']
)
def test_a_study_at_a_level_that_leaves_out_what_it_sets_is_refused(
    setting: str, tmp_path: Path
) -> None:
    study = tmp_path / "beyond.toml"
    study.write_text(LOSSY_STUDY.format(levels='"model"').replace('loss" = 0.1', setting))
    said = refusal("run", str(study), "-o", str(tmp_path / "out"))
    key = setting.partition('"')[0]
    assert f"{study}:13:39: sweep.rates: link.ms.{key}: the tandem does not support {key}" in said


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("link.ms.loss", "run.time", '13:39: sweep.0.set.run.time: use "seconds" of the sweep'),
        ("link.ms.loss", "seed", '13:39: sweep.0.set.seed: use "seed" at the top of the study'),
        ('"umts"', '"umts"\nmeasure = "price"\nprofile = "paper-u"', "15:9: sweep.0.set.traffic."),
    ],
)
def test_a_study_that_sets_what_nobody_hears_is_refused_at_its_line(
    old: str, new: str, said: str, tmp_path: Path
) -> None:
    study = tmp_path / "unheard.toml"
    study.write_text(LOSSY_STUDY.format(levels='"model"').replace(old, new, 1))
    fault = refusal("run", str(study), "-o", str(tmp_path / "out"))
    assert fault.startswith(f"caravan-lab: {study}:"), fault
    assert said in fault


def test_a_study_of_what_the_testbed_cannot_show_is_refused_at_its_line(tmp_path: Path) -> None:
    path = tmp_path / "shaped.toml"
    text = LOSSY_STUDY.format(levels='"testbed"').replace('"umts"', '"road"\nmeasure = "tunnel"')
    path.write_text(
        text.replace(
            '"traffic.rate" = "64 kbit/s", "link.ms.loss" = 0.1', '"link.ms.trace" = "no"'
        ).replace(", mips = [100]", "")
    )
    study = load(str(path))
    (sweep,) = study.sweeps
    (cell,) = cells(sweep, is_quick=False)
    with pytest.raises(StudyError, match=r"link.ms.trace: there is no trace 'no'") as fault:
        jobs(cell, resolve(cell, Files.of(study)), "testbed", 1)
    assert str(located(study, sweep, fault.value)).startswith(f"{path}:14:9: sweep.rates: ")


def test_a_catalogue_link_that_loses_packets_is_refused_by_every_question(tmp_path: Path) -> None:
    link = tmp_path / "lossy.toml"
    text = (TOP / "links/lte.toml").read_text()
    link.write_text(text.replace("[sources]", "loss = 0.01\n[sources]\nloss = 'made up'", 1))
    said = refusal("simulate", "umts", "--set", f"link.ms.link={link}")
    assert "--set link.ms.link: the tandem does not support loss" in said
    words = ("ask", "--device", "cortex-m4", "--link", str(link))
    assert "the tandem does not support loss" in refusal(*words, "--rate-kbps", "8", cwd=tmp_path)
    write_capture(tmp_path / "mine.pcap", packets=9, packet_bytes=100, per_s=10)
    said = refusal(*words, "--traffic", "mine.pcap", cwd=tmp_path)
    assert "the tandem does not support loss" in said


def test_ask_says_faults_of_its_road_by_option(tmp_path: Path) -> None:
    words = ("ask", "--device", "paper-u", "--link", "lte", "--rate-kbps", "8")
    said = refusal(*words, cwd=tmp_path)
    assert said.startswith("caravan-lab: --device: paper-u: it counts operations")
    said = refusal(*words, "--mips", "100", "--bytes", "5", cwd=tmp_path)
    assert said.startswith(
        "caravan-lab: --rate-kbps, --bytes: 5 bytes is not the size of an IP packet"
    )


def test_what_is_shown_tells_speeds_and_leaves_no_blanks() -> None:
    shown = lab("show", "road").stdout
    assert "queue 1,500,000 B, mtu 1,500 B" in shown
    assert "paper-u, 100 MIPS" in lab("show", "scenarios/umts").stdout
    heading = lab("show", "pn-12").stdout.splitlines()[2]
    assert heading.split() == ["layer", "uses", "standing", "why"]
    assert "levels           scenario or device  points" in lab("show", "studies/umts").stdout
    for words in (("show", "road"), ("policies",), ("devices",), ("links",)):
        lines = lab(*words).stdout.splitlines()
        assert lines == [line.rstrip() for line in lines]
    both = lab("show", "wimax")
    assert both.stdout.startswith("wimax: Fixed WiMAX")
    assert "'wimax' is also a scenario: caravan-lab show scenarios/wimax" in both.stderr


def test_ctrl_c_is_heard_while_the_core_computes() -> None:
    words = ["simulate", "umts", "--hours", "8000", "--jobs", "1"]
    code = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)"
    script = (
        f"{code}; sys.argv = {['caravan-lab', *words]!r}; from caravan.lab.cli import main; "
        "print('begins', flush=True); main()"
    )
    pipe = subprocess.PIPE
    argv = [sys.executable, "-c", script]
    running = subprocess.Popen(argv, stdout=pipe, stderr=pipe, text=True)
    assert running.stdout is not None
    assert running.stdout.readline() == "begins\n"
    time.sleep(1)
    assert running.poll() is None
    running.send_signal(signal.SIGINT)
    # The whole computation takes longer.
    _, said = running.communicate(timeout=30)
    assert (running.returncode, said) == (130, "caravan-lab: stopped\n")


def test_a_run_too_short_for_a_packet_says_so() -> None:
    said = refusal("simulate", "umts", "--hours", "0.0000001")
    assert "of 16 replications no packet arrived in the measured time: simulate longer" in said


def test_an_empty_file_is_said_to_be_empty(tmp_path: Path) -> None:
    empty = tmp_path / "empty.toml"
    empty.write_text("")
    assert f"{empty}: the file is empty" in refusal("simulate", str(empty))
    assert f"{empty}: the file is empty" in refusal("run", str(empty), "-o", str(tmp_path / "out"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("cost", "--profile", "paper-u", "--suite", "des", "--bytes", "480"),
            "paper-u: it counts operations: give the MIPS of the processor, --mips 100 or "
            "mips = 100 in its node",
        ),
        (
            ("cost", "--profile", "cortex-a9", "--suite", "aes128", "--bytes", "480"),
            '--mhz 80 or clock = "80 MHz" in its node',
        ),
        (
            ("cost", "--profile", "paper-u", "--suite", "des", "--bytes", "480", "--mips", "0"),
            "--mips: 0, must be above 0",
        ),
    ],
)
def test_a_speed_that_is_missing_is_asked_for_by_its_option(
    words: tuple[str, ...], said: str
) -> None:
    assert said in refusal(*words)


def test_two_speeds_at_once_are_refused_by_every_question(tmp_path: Path) -> None:
    speeds = ("--mips", "100", "--mhz", "80")
    for words in (
        ("cost", "--profile", "paper-u", "--suite", "des", "--bytes", "480"),
        ("simulate", "umts"),
        ("ask", "--device", "paper-u", "--link", "lte", "--rate-kbps", "8"),
    ):
        said = refusal(*words, *speeds, cwd=tmp_path)
        assert said.startswith(
            "caravan-lab: --mips, --mhz: a device counts either operations or cycles"
        )


def test_what_the_event_kernel_refuses_has_file_line_and_key(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    text = (TOP / "scenarios/road.toml").read_text()
    device = 'role = "station"\ndevice = "cortex-m4-asm"\nclock = "80 MHz"'
    own.write_text(text.replace('role = "station"', device, 1))
    said = refusal("simulate", str(own))
    assert said.startswith(f"caravan-lab: {own}:7:1: policy: cortex-m4-asm has no cost of 3des-md5")
    said = refusal("simulate", str(own), "--suite", "aes256-sha512")
    assert said.startswith("caravan-lab: --suite: ")
    two = 'from = "ms"\ntrace = "gone.trace"'
    own.write_text(text.replace('from = "ms"', two, 1))
    line = own.read_text().splitlines().index('trace = "gone.trace"') + 1
    said = refusal("simulate", str(own))
    assert said.startswith(f"caravan-lab: {own}:{line}:1: link.ms.trace: ")


def test_a_capture_that_is_cut_in_its_header_says_so(tmp_path: Path) -> None:
    capture = tmp_path / "mine.pcap"
    write_capture(capture, packets=1, packet_bytes=100, per_s=1)
    capture.write_bytes(capture.read_bytes()[:10])
    words = ("ask", "--device", "cortex-m4", "--link", "lte", "--traffic", str(capture))
    said = "the capture is cut short: it ends after 10 bytes, its header alone has 24"
    assert refusal(*words, cwd=tmp_path) == f"caravan-lab: {capture}: {said}\n"


@pytest.mark.parametrize("delay_s", [0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5])
def test_ctrl_c_is_quiet_from_the_first_moment(delay_s: float) -> None:
    script = (
        "import builtins, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from caravan.program import main\n"
        f"sys.argv = {['caravan-lab', 'simulate', 'umts', '--hours', '8000']!r}\n"
        "load = builtins.__import__\n"
        "def begin(name, *rest):\n"
        "    if name == 'caravan.lab.cli':\n"
        "        builtins.__import__ = load\n"
        "        print('begun', flush=True)\n"
        "    return load(name, *rest)\n"
        "builtins.__import__ = begin\n"
        "main()"
    )
    pipe, here = subprocess.PIPE, {**os.environ, "PYTHONPATH": str(TOP / "python")}
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=pipe, stderr=pipe, text=True, env=here
    ) as running:
        assert running.stdout is not None
        running.stdout.readline()
        time.sleep(delay_s)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=30)
    assert running.returncode == 130
    assert said in ("", "caravan-lab: stopped\n")


@pytest.mark.parametrize("words", [("links",), ("links", "--json"), ("--version",)])
def test_a_full_disk_under_the_answer_is_one_sentence(words: tuple[str, ...]) -> None:
    script = "from caravan.program import main\nmain()"
    here = {**os.environ, "PYTHONPATH": str(TOP / "python")}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", script, *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=here,
            check=False,
        )
    assert done.stderr == "caravan-lab: standard output: No space left on device\n"
    assert done.returncode == 2


ADVISE = ("advise", "--scenario", "advise-sensor")


@pytest.mark.parametrize(
    "words", [("links",), ("links", "--json"), ("--version",), ("simulate", "--help"), ADVISE]
)
def test_a_reader_that_has_left_ends_the_program_without_a_word(words: tuple[str, ...]) -> None:
    script = "from caravan.program import main\nmain()"
    here = {**os.environ, "PYTHONPATH": str(TOP / "python")}
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [sys.executable, "-c", script, *words],
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
            env=here,
            check=False,
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, "")


@pytest.mark.parametrize("words", [("advise", "--scenario"), ("simulate",), ("show",)])
def test_a_pipe_instead_of_a_file_is_told_what_to_do(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    what = "not a plain file: save its text in a file, and name that"
    assert refusal(*words, str(pipe), cwd=tmp_path) == f"caravan-lab: {pipe}: {what}\n"


def _of_another_version() -> _lab.Refusal:
    with pytest.raises(_lab.Refusal) as raised:
        _lab.Scenario('{"from": "another version"}')
    return raised.value


def test_a_core_of_other_sources_is_told_by_its_remedy() -> None:
    assert not freshness.is_stale(), freshness.remedy()
    questions = (
        (("devices",), mock.patch("caravan.lab.core.listing", return_value=[{}])),
        (("show", "umts"), mock.patch("caravan.lab.core.scenario", return_value={})),
        (
            ("simulate", "umts", "--hours", "0.1"),
            mock.patch("caravan._lab.Scenario", side_effect=_of_another_version()),
        ),
    )
    for words, older in questions:
        with older, mock.patch("caravan._lab.sources", return_value="00000000"):
            assert ": run `make setup` there" in refusal(*words)
        with older, pytest.raises(KeyError) if words[0] != "simulate" else nullcontext():
            lab(*words)
    with mock.patch("caravan._lab.sources", return_value="00000000"):
        assert "warning: the native core was not built" in lab("policies").stderr
    assert lab("policies").stderr == ""


def test_pictures_that_nobody_named_replace_no_file_of_somebody_else(tmp_path: Path) -> None:
    words = ("ask", "--device", "cortex-m4", "--link", "lte", "--rate-kbps", "64")
    named = tmp_path / "caravan-ask-cortex-m4-lte-64kbps.html"
    assert answer(*words, cwd=tmp_path)["picture"] == str(named)
    done = lab(*words, cwd=tmp_path)
    assert f"Picture  {named} (-o FILE sets another file)\n" in done.stdout
    # The same question gives the same image; another question gives another.
    assert [path.name for path in tmp_path.iterdir()] == [named.name]
    other = answer(*words, "--bytes", "100", "--down", cwd=tmp_path)["picture"]
    assert other == str(tmp_path / "caravan-ask-cortex-m4-lte-64kbps-100B-down.html")
    named.write_text("<head>mine</head>")
    assert answer(*words, cwd=tmp_path)["picture"] == str(named.with_stem(f"{named.stem}-2"))
    assert named.read_text() == "<head>mine</head>"


def test_an_answer_does_not_hang_on_a_picture_that_nobody_named(tmp_path: Path) -> None:
    words = ("ask", "--device", "cortex-m4", "--link", "lte", "--rate-kbps", "64")
    full = OSError(errno.EROFS, "Read-only file system")
    with mock.patch("tempfile.mkstemp", side_effect=full):
        done = lab(*words, "--json", cwd=tmp_path)
        assert done.returncode == 0
        assert json.loads(done.stdout)["picture"] is None
        assert "no picture: " in done.stderr
        assert "Read-only file system; -o FILE sets another file" in done.stderr
        asked = lab(*words, "-o", str(tmp_path / "a.svg"), cwd=tmp_path)
    assert asked.returncode == 2
    assert "best first" in asked.stdout
    assert "Read-only file system" in asked.stderr
    assert not list(tmp_path.iterdir())
    assert "this is a folder" in refusal(*words, "-o", folder(tmp_path / "a.png"), cwd=tmp_path)


def folder(path: Path) -> str:
    path.mkdir()
    return str(path)


def test_studies_are_shown_as_everything_else_is() -> None:
    shown = answer("show", "umts-today")
    assert {"policy", "mips"} & set(shown["sweeps"][0]["grid"])
    both = lab("show", "road")
    assert both.stdout.startswith("road: Station, NAT, gateway, server")
    assert "'road' is also a study: caravan-lab show studies/road" in both.stderr
    for name in ("studies/road", "studies/road/study.toml"):
        done = lab("show", name)
        assert done.stdout.startswith("road: Paper U's tunnel three ways")
        assert "caravan-lab run road -o DIR" in done.stdout


def test_a_scenario_names_files_beside_it(tmp_path: Path) -> None:
    text = (TOP / "scenarios/road.toml").read_text()
    (tmp_path / "slow.trace").write_text("20\n40\n")
    own = tmp_path / "own.toml"
    own.write_text(text.replace('from = "ms"', 'from = "ms"\ntrace = "slow.trace"', 1))
    found = answer("simulate", str(own), "--set", "traffic.bytes=50 KB")
    # 1500 bytes in 20 ms
    assert found["simulate"]["transferred"]["throughput_bps"] < 600e3


def test_a_scenario_of_a_capture_is_simulated(tmp_path: Path) -> None:
    write_capture(tmp_path / "mine.pcap", packets=2000, packet_bytes=480, per_s=50)
    text = (TOP / "scenarios/umts.toml").read_text()
    head, _, tail = text.partition('model = "poisson"')
    tail = tail.partition("[run]")[2]
    own = tmp_path / "own.toml"
    own.write_text(f'{head}model = "pcap"\nfile = "mine.pcap"\n[run]{tail}')
    found = answer("simulate", str(own))
    assert found["packets"] == 2000
    assert found["throughput_kbps"] == pytest.approx(480 * 8 * 50 / 1e3, rel=0.01)
    assert "mine.pcap" in lab("show", str(own), "--json").stdout


def test_two_studies_are_not_compared(tmp_path: Path) -> None:
    for name in ("wimax", "road"):
        done = lab("run", name, "-o", str(tmp_path / name), "--level", "model", "--quick")
        assert done.returncode == 0, done.stderr
    said = refusal("compare", str(tmp_path / "wimax"), str(tmp_path / "road"))
    assert "only runs of one study can be compared" in said
    assert lab("compare", str(tmp_path / "road"), str(tmp_path / "road")).returncode == 0


def test_the_order_of_an_answer_is_explained(tmp_path: Path) -> None:
    words = ("ask", "--device", "cortex-m4", "--link", "lte", "--rate-kbps", "64")
    done = lab(*words, "-o", str(tmp_path / "a.svg"))
    assert "best first: carried, barely, not" in done.stdout
    assert "mean delay" in done.stdout


@pytest.mark.parametrize("words", [["--help"], ["policies"]])
def test_a_short_question_brings_no_heavy_library_along(words: list[str]) -> None:
    heavy = ("pandas", "pyarrow", "altair", "distributed", "vl_convert", "numpy")
    script = f"""
import sys
from caravan.lab.cli import main
sys.argv = ["caravan-lab", *{words!r}]
try:
    main()
except SystemExit:
    print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stderr == "[]\n"


ENDLESS_STUDY = """
name = "endless"
title = "More than anybody waits for"

[[sweep]]
name = "rates"
title = "Delay"
scenario = "umts"
levels = ["model", "simulate"]
seconds = {seconds}
replications = {replications}
grid = {{ policy = ["none"], rate_kbps = [{rate}] }}

[sweep.quick]
seconds = 60
"""


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"seconds": 3600, "replications": 4, "rate": "1e9"}, "12:29: sweep.rates: traffic.rate"),
        ({"seconds": "9e6", "replications": 100, "rate": "1e6"}, "10:1: sweep.rates: run.time"),
        (
            {"seconds": 3600, "replications": 99_999, "rate": "5e5"},
            "11:1: sweep.rates: run.replications",
        ),
    ],
)
def test_a_study_without_end_is_refused_at_its_line(
    values: dict[str, object], said: str, tmp_path: Path
) -> None:
    study = tmp_path / "endless.toml"
    study.write_text(ENDLESS_STUDY.format(**values))
    out = str(tmp_path / "out")
    fault = refusal("run", str(study), "-o", out)
    assert f"{study}:{said}: " in fault
    assert "limit 1e11: lower the rate, or simulate a shorter time or fewer replications" in fault
    assert not (tmp_path / "out").exists()
    # The level that takes no time to compute is accepted.
    assert lab("run", str(study), "-o", out, "--level", "model").returncode == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--hours", "8000", "--rate-kbps", "1e9"), "--rate-kbps: 1.2e17 packets: "),
        (("--hours", "8000", "--replications", "9999"), "--hours: "),
        (("--replications", "99999", "--hours", "20"), "--replications: "),
        (("--set", "run.replications=99999"), "--set run.replications: "),
    ],
)
def test_a_simulation_without_end_is_refused_by_its_option(
    words: tuple[str, ...], said: str
) -> None:
    fault = refusal("simulate", "umts", *words)
    assert fault.startswith(f"caravan-lab: {said}"), fault
    assert "limit 1e11: " in fault


def test_a_scenario_without_end_is_refused_at_its_line(tmp_path: Path) -> None:
    own = tmp_path / "endless.toml"
    text = (TOP / "scenarios/umts.toml").read_text()
    own.write_text(text.replace("replications = ", "replications = 99999  # ", 1))
    text = own.read_text()
    line = 1 + text[: text.index("replications = ")].count("\n")
    assert f"{own}:{line}:1: run.replications: " in refusal("simulate", str(own), "--mips", "300")
