"""The cases of paper M with the real program: what does not depend on the machine's speed."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from study_by_hand import value, written

import caravan.report
import caravan.study
from caravan.study import StudyError, case
from caravan.study.commands import summary
from caravan.study.relations import related
from caravan.testbed.capture import IPPROTO_IPIP, IPPROTO_SKIP, IPPROTO_UDP
from caravan.threeways.eight import PRINTED, chain

DES, RC4 = "skip-des-md5-paper", "skip-rc4-md5-paper"
STUDY = """
name = "cases"
title = "Cases"

[[sweep]]
name = "plain"
title = "Without protection"
measure = "case"
set = { runs = 2, writes = 500 }

[[sweep.reading]]
name = "A"
says = "At home."
set = { case = "home" }

[[sweep.reading]]
name = "B"
says = "Away."
set = { case = "away" }

[[sweep]]
name = "skip"
title = "With SKIP"
measure = "case"
set = { runs = 2, writes = 500 }
grid = { policy = ["skip-des-md5-paper", "skip-rc4-md5-paper"] }

[[sweep.reading]]
name = "C"
says = "Away."
set = { case = "behind" }

[[sweep.reading]]
name = "D"
says = "On one subnet."
set = { case = "subnet" }

[[sweep]]
name = "ftp"
title = "Files"
measure = "case"
set = { case = "behind" }
grid = { policy = ["skip-des-md5-paper"], packet_bytes = [1000, 10000] }

[[relation]]
printed = "table of cases"
says = "C loses of B"
value = 38
is = "loss"
reason = "It is {{ skip: tcp_kbytes_s, policy = skip-des-md5-paper, reading = C }} here."

[relation.left]
sweep = "skip"
metric = "tcp_kbytes_s"
at = { policy = "skip-des-md5-paper", reading = "C" }

[relation.right]
sweep = "plain"
metric = "tcp_kbytes_s"
at = { reading = "B" }
"""


@pytest.mark.root
def test_the_cases_have_the_papers_packets(tmp_path: Path) -> None:
    run = caravan.study.run(written(tmp_path, STUDY), directory=tmp_path / "out", level="testbed")
    rows = run.rows
    # A full packet of 1064 bytes, its reverse tunnel, and SKIP with a whole IV.
    wire = [value(rows, "protected_bytes", reading=reading) for reading in ("A", "B")]
    assert wire == [1064, 1084]
    for policy, added, alone in ((DES, 120, 124), (RC4, 110, 110)):
        at = {"policy": policy, "metric": "bytes:protection"}
        assert value(rows, "bytes:protection", reading="C", policy=policy) == added, at
        assert value(rows, "bytes:protection", reading="D", policy=policy) == alone, at
        assert value(rows, "protected_bytes", reading="C", policy=policy) == 1084 + added
    for number, printed in PRINTED.items():
        found = value(rows, f"headers:packet {number}", reading="C", policy=DES)
        assert found == len(printed), number
    rates = [value(rows, "tcp_kbytes_s", reading=reading) for reading in ("A", "B")]
    rates.append(value(rows, "tcp_kbytes_s", reading="C", policy=DES))
    # No more than 10 Mbit/s carry. A busy machine may do less: only the bytes above have an order.
    assert all(0 < rate < 1250 for rate in rates)
    assert all(value(rows, "rtt_ms", reading=reading) > 0 for reading in ("A", "B"))
    assert value(rows, "reports:before", packet_bytes=1000) == 0
    assert value(rows, "path_bytes", packet_bytes=1000) == 1500
    # One report for each size that the sender has to learn.
    assert value(rows, "reports:before", packet_bytes=10000) >= 2
    assert value(rows, "path_bytes", packet_bytes=10000) == 1362
    for size in (1000, 10000):
        assert value(rows, "reports:after", packet_bytes=size) == 0
    (loss,) = pd.read_csv(tmp_path / "out/printed.csv").to_dict("records")
    assert loss["value"] == pytest.approx(related("loss", rates[2], rates[1]), abs=1e-4)
    assert loss["level"] == "testbed" and "here." in loss["reason"]


def test_what_only_the_testbed_has_is_listed_as_not_run(tmp_path: Path) -> None:
    text = STUDY + PRICED
    run = caravan.study.run(written(tmp_path, text), directory=tmp_path / "out")
    rest = f"caravan-lab run {tmp_path}/study.toml -o {tmp_path}/out"
    rest += " --level model --level testbed"
    kept = pd.read_csv(tmp_path / "out/printed.csv")
    assert list(kept["published"]) == [60, 795, 38]
    assert list(kept["reason"][1:]) == [f"not run: {rest}"] * 2
    said = summary(run)
    assert "2 printed values not run" in said and said.endswith(f"All of them  {rest}")
    page = caravan.report.write(run, tmp_path / "out").read_text()
    assert f"2 printed values were not run. With them: <code>{rest}</code>" in page
    assert page.count("<td>not run</td>") == 2
    assert f"<li>Not run: plain. With them: <code>{rest}</code></li>" in page
    assert "<li>Model: 52 bytes.</li>" in page and "(not run)" not in page


PRICED = """
[[text]]
title = "The answer"
body = '''
- Model: {{ one: protected_bytes }} bytes.
- The program carries
  {{ plain: tcp_kbytes_s, reading = A }} KB/s.'''

[[sweep]]
name = "one"
title = "One packet"
measure = "price"
profile = "paper-u"
set = { mips = 100 }
grid = { policy = ["none"], packet_bytes = [52] }

[[published]]
printed = "text"
sweep = "one"
metric = "protected_bytes"
at = { packet_bytes = 52 }
value = 60

[[published]]
printed = "text"
sweep = "plain"
metric = "tcp_kbytes_s"
at = { reading = "A" }
value = 795
"""


def test_a_relation_is_a_loss_a_share_or_a_ratio() -> None:
    assert related("loss", 55, 100) == pytest.approx(45)
    assert related("share", 116, 1160) == pytest.approx(10)
    assert related("times", 3, 1.5) == 2


def test_headers_are_read_until_they_are_encrypted() -> None:
    def ip(protocol: int, source: int, destination: int, payload: bytes) -> bytes:
        header = bytearray(20)
        header[0], header[9], header[15], header[19] = 0x45, protocol, source, destination
        return bytes(header) + payload

    tunnelled = ip(IPPROTO_IPIP, 1, 2, ip(IPPROTO_IPIP, 3, 4, ip(IPPROTO_UDP, 5, 6, bytes(8))))
    ends = [f"ip 0.0.0.{one} 0.0.0.{other}" for one, other in ((1, 2), (3, 4), (5, 6))]
    assert list(chain(tunnelled)) == [*ends, "udp"]
    ah = bytes([50, 4]) + bytes(22)
    skip = bytes([0x10, 1, 0, 51]) + bytes(8 + 16 + 4)
    sealed = ip(IPPROTO_SKIP, 1, 2, skip + ah + bytes(40))
    assert list(chain(sealed)) == [ends[0], "skip", "ah", "esp"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("runs = 2, writes = 500 }\n\n", "rums = 2 }\n\n", "'runs'"),
        ('measure = "case"\nset', 'measure = "case"\nlevels = ["model"]\nset', "'testbed'"),
        ('is = "loss"', 'is = "gain"', "'loss'"),
        ("value = 38", "value = 0", "no relative difference"),
    ],
)
def test_what_is_wrong_in_a_study_is_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(StudyError, match=said):
        written(tmp_path, STUDY.replace(old, new, 1))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"case": "hame"}, "'home'"),
        ({}, "say which one"),
        ({"case": "subnet"}, "a policy of SKIP belongs to"),
        ({"case": "home", "runs": 7}, "must be one of"),
        ({"case": "home", "writes": 0}, "from 1 to"),
        ({"case": "home", "rate": "1 Mbit/s"}, "'10 Mbit/s'"),
    ],
)
def test_what_is_wrong_with_a_case_is_named(settings: dict[str, str | int], said: str) -> None:
    with pytest.raises(StudyError, match=said):
        case.request(settings, None, None)
