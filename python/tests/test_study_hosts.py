"""Two hosts on one wire, as in paper T: sizes by hand, closed forms, the event kernel, and real
packets. Only what does not depend on the machine's speed."""

from __future__ import annotations

import json
import math
import re
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from study_by_hand import value

import caravan.study
from caravan import files
from caravan.document import plain
from caravan.files import CATALOGUE
from caravan.report.figures import marks_say, specification
from caravan.study import Outcome, StudyError, hosts, load, tables
from caravan.study.claims import HOLDS, IN_PART, NOT_RUN, verdicts
from caravan.study.datagrams import Hosts, Wire, peak
from caravan.study.parsed import Run
from caravan.threeways.hosts import mean, tsc_mhz

STUDY = "tunnel-agents"
FOLDER = CATALOGUE / "studies" / STUDY
ETHERNET = Wire(1e8, 38, 1500)
RUN = Run(1.0, 0.0, 3)
TABLE_5 = {
    "none": (92.6, 9.9, 14.5453),
    "ah-md5": (91.0, 36.9, 55.0922),
    "ah-sha1": (91.2, 60.4, 90.0094),
    "esp-3des-md5": (53.9, 92.0, 231.9884),
}
"""Mbit/s, system time in percent, cycles for a byte."""
SLICE = """
name = "slice"
title = "A slice of Fig. 4 and Table 5"

[[sweep]]
name = "tunnel"
title = "Tunnel mode"
measure = "hosts"

[sweep.grid]
policy = ["{tunnel}"]
link = ["ethernet-100"]
packet_bytes = [1417, 1418, 1419, 2842, 2843]

[[sweep]]
name = "transport"
title = "Transport mode"
measure = "hosts"
grid = {{ policy = ["{transport}"], link = ["ethernet-100"], packet_bytes = [1437, 1438, 1439] }}

[[sweep]]
name = "clear"
title = "Without protection"
measure = "hosts"
grid = {{ policy = ["none"], link = ["ethernet-100"], packet_bytes = [1472, 1473] }}

[[sweep]]
name = "ah"
title = "AH of today, transport mode"
measure = "hosts"
grid = {{ policy = ["ah-sha256"], link = ["ethernet-100"], packet_bytes = [1443, 1444, 1445] }}

[[sweep]]
name = "layers"
title = "AH around ESP"
measure = "hosts"
grid = {{ policy = ["{layers}"], link = ["ethernet-100"], packet_bytes = [1369, 1370, 1371] }}

[[sweep]]
name = "installed"
title = "As installed"
measure = "hosts"
levels = ["testbed"]
set = {{ device_mtu = "own" }}
grid = {{ policy = ["{tunnel}"], link = ["ethernet-100"], packet_bytes = [1372, 1373] }}

[[sweep]]
name = "tcp"
title = "TCP"
measure = "hosts"
levels = ["testbed"]
seconds = 1
replications = 2
set = {{ flow = "tcp" }}
grid = {{ policy = ["none", "ah-md5", "esp-aes128gcm16", "{layers}"], link = ["none"] }}

[[sweep]]
name = "limited"
title = "TCP over the wire"
measure = "hosts"
levels = ["model", "testbed"]
seconds = 2
replications = 2
set = {{ flow = "tcp" }}
grid = {{ policy = ["none", "ah-md5"], link = ["ethernet-100"] }}

[[sweep]]
name = "udp"
title = "UDP"
measure = "hosts"
levels = ["testbed"]
seconds = 0.3
replications = 2
set = {{ flow = "udp" }}
grid = {{ policy = ["esp-aes128gcm16"], link = ["ethernet-100"], packet_bytes = [1000, 1419] }}

[[sweep]]
name = "paced"
title = "At a rate"
measure = "hosts"
levels = ["testbed"]
seconds = 0.5
replications = 2
set = {{ flow = "udp", offered_mbit_s = 5 }}
grid = {{ policy = ["none"], link = ["none"], packet_bytes = [1000] }}

[[sweep.reading]]
name = "sleeps"
says = "It sleeps."
set = {{ pace = "sleeps" }}

[[sweep.reading]]
name = "spins"
says = "It asks the clock."
set = {{ pace = "spins" }}
"""


LAYERED = """
name = "layered"
title = "AH around ESP"

[[sweep]]
name = "layers"
title = "Datagrams"
measure = "hosts"
levels = ["model", "simulate"]
grid = {{ policy = ["{layers}"], link = ["ethernet-100"], packet_bytes = [64, 1369, 1370, 1371] }}

[[sweep]]
name = "tcp"
title = "TCP"
measure = "hosts"
levels = ["model", "simulate"]
set = {{ flow = "tcp" }}
grid = {{ policy = ["{layers}"], link = ["ethernet-100"] }}
"""
NAMES = {
    "tunnel": "esp-3des-md5",
    "transport": "esp-3des-md5-transport",
    "layers": "ah-sha256-aes128gcm16",
}
LARGEST = {"tunnel": 1418, "transport": 1438, "clear": 1472, "ah": 1444, "layers": 1370}
"""The largest datagram in one packet, by sweep of the slice."""


def policy(name: str) -> dict[str, str]:
    return text("policies", name)


def text(kind: str, name: str) -> dict[str, str]:
    path = FOLDER / kind / f"{name}.toml"
    return {"name": name, "file": str(path), "text": path.read_text()}


def esp(payload: int) -> int:
    """An ESP packet with 3DES and HMAC-MD5-96, without IP: SPI and number, IV, padding, check."""
    return 8 + 8 + math.ceil((payload + 2) / 8) * 8 + 12


def wired(data: int, mode: str) -> list[int]:
    """The IP packets of a datagram, by hand."""
    if mode == "transport":
        whole = 20 + esp(8 + data)
        return [whole] if whole <= 1500 else by_hand(whole, 1500)
    # 1446 is the largest inner packet: 20 + 28 + 1448 of 1500.
    packet = 28 + data
    return [20 + esp(one) for one in ([packet] if packet <= 1446 else by_hand(packet, 1446))]


def by_hand(packet: int, mtu: int) -> list[int]:
    left, room = packet - 20, (mtu - 20) // 8 * 8
    found = []
    while left > mtu - 20:
        found.append(20 + room)
        left -= room
    return [*found, 20 + left]


@cache
def quick() -> Outcome:
    return caravan.study.run(STUDY, quick=True)


@pytest.mark.parametrize(
    ("name", "mode", "largest"),
    [("esp-3des-md5", "tunnel", 1418), ("esp-3des-md5-transport", "transport", 1438)],
)
def test_the_wire_has_the_packets_that_a_hand_counts(name: str, mode: str, largest: int) -> None:
    both = Hosts(policy(name), None, ETHERNET)
    for data in (*range(16, 80), *range(largest - 20, largest + 20), 1472, 2000, 2842, 2843, 4000):
        load = both.datagram(data)
        assert list(load.wired) == wired(data, mode), data
        seconds = sum(one + 38 for one in load.wired) * 8 / 1e8
        assert load.link_mbit_s == pytest.approx(data * 8e-6 / seconds)
        assert (len(load.wired) == 1) == (data <= largest)
    rates = {size: both.datagram(size).link_mbit_s for size in range(1400, 1461)}
    assert peak(rates) == largest


def test_a_gateway_that_cuts_outside_has_the_same_largest_datagram() -> None:
    outside = Hosts(policy("esp-3des-md5"), None, ETHERNET, "outside")
    assert outside.datagram(1418).wired == (1496,)
    # 20 + ESP of 1447 bytes = 1504: 1500, and 4 bytes behind a header of their own.
    assert outside.datagram(1419).wired == (1500, 24)
    inside = Hosts(policy("esp-3des-md5"), None, ETHERNET)
    assert inside.datagram(1419).wired == (20 + esp(1444), 20 + esp(23))


@given(st.integers(21, 65535), st.integers(68, 9000))
def test_fragments_are_whole(packet: int, mtu: int) -> None:
    found = Hosts(None, None, Wire(1e8, 38, mtu)).sent(packet).wired
    assert sum(one - 20 for one in found) == packet - 20
    assert all(one <= mtu for one in found)
    assert all((one - 20) % 8 == 0 for one in found[:-1])
    assert list(found) == by_hand(packet, mtu)


def test_table_5_is_arithmetic() -> None:
    for rate, share, cycles in TABLE_5.values():
        assert 1.7e9 * share / 100 * 8 / (rate * 1e6) == pytest.approx(cycles, rel=1e-3)


@pytest.mark.parametrize("name", list(TABLE_5))
def test_a_full_segment_costs_what_the_table_prints(name: str) -> None:
    own = None if name == "none" else policy(name)
    load = Hosts(own, text("devices", "pentium-4-1700"), ETHERNET).segment()
    assert load.cycles is not None and load.processor_s is not None
    assert load.processor_s * 1.7e9 / load.data_bytes == pytest.approx(TABLE_5[name][2], rel=1e-4)
    sizes = {"none": 1448, "ah-md5": 1424, "ah-sha1": 1424, "esp-3des-md5": 1394}
    assert load.data_bytes == sizes[name]


def test_the_device_is_what_its_sources_say() -> None:
    table = plain("device", text("devices", "pentium-4-1700")["text"])
    each = table["per_packet"]["value"]
    # A segment and half of an acknowledgement, in octets under the algorithm.
    hashed, ciphered = 1600 + 192 / 2, 1448 + 56 / 2
    assert 1.5 * each / 1448 == pytest.approx(14.5453, rel=1e-4)
    for name, cycles in (("md5", 55.0922), ("sha1", 90.0094)):
        own = table["per_byte"][name]["value"]
        assert (1.5 * each + hashed * own) / 1424 == pytest.approx(cycles, rel=1e-4)
    both = hashed * table["per_byte"]["md5"]["value"]
    both += ciphered * table["per_byte"]["3des-cbc"]["value"]
    assert (1.5 * each + both) / 1394 == pytest.approx(231.9884, rel=1e-4)
    alone = plain("device", text("devices", "pentium-4-bytes")["text"])
    assert alone["per_byte"] == table["per_byte"] and "per_packet" not in alone


def test_what_a_fragment_costs_besides_its_bytes_is_paid_for_each() -> None:
    device = text("devices", "pentium-4-1700")
    each = plain("device", device["text"])["per_packet"]["value"]
    whole = Hosts(policy("esp-3des-md5"), device, Wire(1e8, 38, 9000), "outside").sent(1447)
    cut = Hosts(policy("esp-3des-md5"), device, ETHERNET, "outside").sent(1447)
    assert whole.wired == (1504,) and cut.wired == (1500, 24)
    assert whole.seal_cycles is not None
    assert cut.seal_cycles == pytest.approx(whole.seal_cycles + each)
    clear = Hosts(None, device, ETHERNET)
    assert clear.sent(1501).seal_cycles == pytest.approx(2 * each)
    assert Hosts(None, None, ETHERNET).sent(1501).seal_cycles is None


def test_a_wire_without_room_is_refused() -> None:
    with pytest.raises(StudyError, match="leaves no room"):
        Hosts(policy("esp-3des-md5"), None, Wire(1e8, 38, 72)).datagram(100)


def test_model_and_simulation_find_both_peaks() -> None:
    rows = quick().rows
    for level in ("model", "simulate"):
        for sweep, largest in (("peak-tunnel", 1418), ("peak-transport", 1438)):
            at = {"sweep": sweep, "level": level}
            assert value(rows, "whole_bytes", **at) == largest
            assert value(rows, "peak_bytes", **at) == largest
    mode = {"peak-tunnel": "tunnel", "peak-transport": "transport", "fig4": "tunnel"}
    counted = rows[rows["metric"].isin(["wire_bytes", "wire_packets"])]
    counted = counted[counted["sweep"].isin(mode)]
    assert set(counted["level"]) == {"model", "simulate"} and len(counted) > 80
    for row in counted.to_dict("records"):
        packets = wired(int(row["packet_bytes"]), mode[row["sweep"]])
        expected = sum(packets) if row["metric"] == "wire_bytes" else len(packets)
        assert row["value"] == expected, row


def test_the_simulation_carries_what_the_model_says() -> None:
    rows = quick().rows
    fig4 = rows[(rows["sweep"] == "fig4") & (rows["metric"] == "data_mbit_s")]
    both = fig4.pivot_table(index="packet_bytes", columns="level", values="value")
    # One pays for the packet, the other for what it becomes: see the study.
    assert ((both["simulate"] / both["model"] - 1).abs() < 0.05).all(), both
    tcp = rows[(rows["sweep"] == "table5") & (rows["metric"] == "data_mbit_s")]
    by_policy = tcp.pivot_table(index="policy", columns="level", values="value")
    assert len(by_policy) == 4
    assert ((by_policy["simulate"] / by_policy["model"] - 1).abs() < 0.15).all(), by_policy


def test_costs_of_bytes_alone_are_bounds() -> None:
    rows = quick().rows
    rate = rows[(rows["sweep"] == "rate-20") & (rows["metric"] == "cpu_percent")]
    bounds = dict(zip(rate["device"], rate["bound"], strict=True))
    assert bounds == {"pentium-4-1700": "", "pentium-4-bytes": "lower"}
    carried = rows[(rows["device"] == "pentium-4-bytes") & (rows["metric"] == "cpu_mbit_s")]
    assert set(carried["bound"]) == {"upper"}
    at = {"sweep": "rate-20", "metric": "cpu_percent", "device": "pentium-4-1700"}
    # 49 bytes fill it, 50 do not.
    full, not_full = (value(rows, packet_bytes=size, **at) for size in (49, 50))
    assert not_full < 100 <= full


def test_table_5_beside_ours(tmp_path: Path) -> None:
    rows = quick().rows
    for name, (rate, share, cycles) in TABLE_5.items():
        at = {"sweep": "table5", "policy": name, "level": "model"}
        ours = [value(rows, metric, **at) for metric in ("data_mbit_s", "cpu_percent")]
        assert value(rows, "cycles_byte", **at) == pytest.approx(cycles, rel=1e-3)
        if name != "esp-3des-md5":
            assert ours == pytest.approx([rate, share], rel=0.02)
    esp_rate = value(rows, "data_mbit_s", sweep="table5", policy="esp-3des-md5", level="model")
    assert esp_rate == pytest.approx(53.9 / 0.92, rel=1e-3)
    # Transport mode fits what AH loses, tunnel mode does not.
    loss = 91.0 / 92.6
    native = value(rows, "data_mbit_s", sweep="table5", policy="none", level="model")
    carried = {
        name: value(rows, "data_mbit_s", sweep="modes", policy=name)
        for name in ("ah-md5", "ah-md5-tunnel")
    }
    assert carried["ah-md5"] / native == pytest.approx(loss, abs=2e-3)
    assert carried["ah-md5-tunnel"] / native < loss - 0.01


def test_sentences_that_need_no_testbed_hold() -> None:
    grades = {one.claim.says[:20]: one.grade for one in verdicts(quick().study, quick().rows)}
    assert grades["Throughput rises wit"] == HOLDS
    assert grades["AH costs next to no "] == HOLDS
    assert grades["At 20 Mbit/s the pro"] == IN_PART
    assert grades["Today's ESP costs th"] == NOT_RUN


def test_a_curve_shows_all_three_levels() -> None:
    study, rows = quick().study, quick().rows
    (figure,) = (one for one in study.figures if one.name == "fig4")
    here = rows[(rows["sweep"] == "fig4") & (rows["level"] == "model")]
    here = here.assign(sweep="fig4-here", level="testbed", device="machine of the run")
    both = pd.concat([rows, here])
    assert marks_say(study, figure, rows)[-1] == "not run: this machine"
    assert marks_say(study, figure, both)[-1] == "crosses: testbed, 95 % interval"
    marks = [layer["mark"] for layer in specification(study, figure, both)["layer"]]
    assert {mark.get("shape") for mark in marks} >= {"circle", "cross"}


def test_the_messages_of_the_ten_steps_have_the_sizes_of_their_fields() -> None:
    """By the fields of docs/design/agents.md: kind, cookie, label, key; then text and check."""
    sealed = 4 + 1 + 1 + 16 + 32 + 64 + 16
    user, key, certificate = 12, 294, 1000
    request = 16 + 32 + 1 + user + 1 + 1 + 1 + 8 + 4 + 1 + 32 + 2 + key
    referral = 16 + 32 + 8 + 2 + request + 64 + 1
    tunneling = 32 + 32 + 1 + 1 + 1 + 8 + (1 + 5) + (1 + 6) + (1 + 1 + 22 + 1 + 20)
    tunneling += (1 + 14) + (1 + user) + 2 * (1 + 2 * (2 + certificate))
    part = 32 + 32 + tunneling + 64 + 16
    bodies = {
        "Request": request,
        "Inquiry": 16 + 8,
        "Offer": 16 + 1 + 1 + 4 + 2,
        "Referral": referral,
        "Authorization": 32 + 1 + 1 + 8 + 2 + part,
        "Response": 32 + 1 + 8 + 2 + part,
    }
    # Between Host and Target, a time and the proof of both.
    for name in ("Inquiry", "Offer", "Referral", "Authorization"):
        bodies[name] += 8 + 16
    found: dict[str, int] = {}
    for name in ("agent-client-host", "agent-host-target"):
        for message in plain("exchange", text("exchanges", name)["text"])["message"]:
            says = message["says"].partition(", fragment")[0]
            found[says] = found.get(says, 0) + message["bytes"]
    assert found == {name: whole(28 + sealed + body) for name, body in bodies.items()}


def whole(packet: int) -> int:
    """All fragments of an IP packet."""
    return packet if packet <= 1500 else sum(by_hand(packet, 1500))


def test_the_ten_steps_take_three_rounds() -> None:
    rows = quick().rows
    rounds = {
        name: value(rows, "rounds", sweep="setup", policy=name, link="lte")
        for name in ("agent-client-host", "agent-host-target")
    }
    assert rounds == {"agent-client-host": 1, "agent-host-target": 2}
    setup = rows[(rows["sweep"] == "setup") & (rows["metric"] == "first_sent_ms")]
    assert setup["value"].gt(0).all() and setup["link"].nunique() == 12


def request(settings: dict[str, Any], point: dict[str, Any], run: Run = RUN) -> dict[str, Any]:
    return hosts.request(settings, point, {"policy": None, "link": None, "device": None}, run)


@pytest.mark.parametrize(
    ("settings", "point", "run", "said"),
    [
        ({"flow": "tpc"}, {}, RUN, "'tcp'"),
        ({"cuts": "outsite"}, {"packet_bytes": 100.0}, RUN, "'outside'"),
        ({"pace": "spin"}, {"packet_bytes": 100.0}, RUN, "'spins'"),
        ({"device_mtu": "1400"}, {"packet_bytes": 100.0}, RUN, "whole"),
        ({}, {}, RUN, "datagrams have a size"),
        ({"flow": "tcp"}, {"packet_bytes": 100.0}, RUN, "TCP makes packets of its own"),
        ({}, {"packet_bytes": 15.0}, RUN, "16 to 8000"),
        ({}, {"packet_bytes": 8001.0}, RUN, "16 to 8000"),
        ({"flow": "tcp"}, {}, Run(1.0, 0.0, 7), "must be one of"),
        ({"flow": "tcp"}, {}, Run(0.1, 0.0, 3), "0.2 s to 60 s"),
        ({"flow": "tcp"}, {}, Run(0.5, 0.0, 3), "whole seconds"),
        ({"offered_mbit_s": -1}, {"packet_bytes": 100.0}, RUN, "a rate above 0"),
        ({"offered_mbit_s": "fast"}, {"packet_bytes": 100.0}, RUN, "a rate above 0"),
    ],
)
def test_what_is_wrong_with_two_hosts_is_named(
    settings: dict[str, Any], point: dict[str, Any], run: Run, said: str
) -> None:
    with pytest.raises(StudyError, match=said):
        request(settings, point, run)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('set = {{ flow = "udp" }}', 'set = {{ flaw = "udp" }}', "'flow'"),
        ('policy = ["none"], link = ["none"]', 'policy = ["none"]', 'needs the axis "link"'),
    ],
)
def test_what_is_wrong_in_a_study_is_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    changed = SLICE.replace(old, new)
    assert changed != SLICE
    with pytest.raises(StudyError, match=said):
        sliced(tmp_path, changed)


def test_a_policy_in_udp_has_no_place_here(tmp_path: Path) -> None:
    from caravan.threeways.hosts import Policy  # noqa: PLC0415

    entry = files.find("policy", "aes128gcm16")
    with pytest.raises(ValueError, match="udp must be false"):
        Policy.of({"name": entry.name, "file": entry.file, "text": entry.text})


def test_a_mean_has_its_interval() -> None:
    assert mean("data_mbit_s", [3.0]).low is None
    found = mean("data_mbit_s", [1.0, 2.0, 3.0])
    assert found.value == 2 and found.high == pytest.approx(2 + 4.303 / math.sqrt(3))
    assert found.low == 0
    clock = tsc_mhz()
    assert clock is None or 100 < clock < 10_000


def test_kept_numbers_have_every_printed_value() -> None:
    study = load(STUDY)
    kept = pd.read_csv(FOLDER / "printed.csv")
    assert set(kept["printed"].dropna()) >= {item.printed for item in study.all_published()}
    for name, (rate, *_) in TABLE_5.items():
        at = (kept["printed"] == "Table 5, throughput") & (kept["policy"] == name)
        assert set(kept[at]["published"]) == {rate}
        assert set(kept[at]["unit"]) == {"Mbit/s"}
    measured = kept[(kept["level"] == "testbed") & (kept["metric"] == "whole_bytes")]
    assert sorted(measured["value"]) == [1418, 1438]
    readme = (FOLDER / "README.md").read_text()
    assert re.search(r"on\s20\d\d-\d\d-\d\d", readme)
    computed = kept[
        (kept["level"] != "testbed") & kept["metric"].isin(["data_mbit_s", "cpu_percent"])
    ]
    for row in computed.to_dict("records"):
        size = row["packet_bytes"]
        place = {name: row[name] for name in ("sweep", "level", "policy", "device")}
        place |= {} if math.isnan(size) else {"packet_bytes": size}
        found = value(quick().rows, row["metric"], **place)
        assert found == pytest.approx(row["value"], rel=1e-4)


@pytest.mark.root
def test_the_program_prints_the_papers_tables() -> None:
    marks = {one.metric: one.value for one in tables.read(tables.measured())}
    printed = [one for one in load(STUDY).all_published() if one.sweep == "tables"]
    assert {one.metric: marks[one.metric] for one in printed} == {
        one.metric: one.value for one in printed
    }
    # A mark for each objective of ESP and AH, and for all of both; one objective for eavesdropping.
    assert sum(value or 0 for name, value in marks.items() if name.startswith("satisfies")) == 10
    assert sum(value or 0 for name, value in marks.items() if name.startswith("counters")) == 5


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"tables": []}, "prints tables"),
        ({"tables": [{"number": 1, "rows": [["threat"]]}]}, "does not begin with 'objective'"),
        ({"tables": [{"number": 5, "rows": [["a"]]}]}, "table 5"),
    ],
)
def test_tables_of_another_program_are_refused(answer: dict[str, Any], said: str) -> None:
    with pytest.raises(StudyError, match=said):
        tables.read(json.dumps(answer).encode())


def sliced(folder: Path, text: str = SLICE) -> caravan.study.Study:
    """The slice beside the files of the study."""
    for kind in ("devices", "policies", "scenarios"):
        shutil.copytree(FOLDER / kind, folder / kind)
    path = folder / "study.toml"
    path.write_text(text.format(**NAMES))
    return load(str(path))


def layered(data: int) -> int:
    """A packet of AH with 16 bytes of check around ESP with AES-GCM, both in tunnel mode."""
    inner = 20 + 8 + 8 + math.ceil((28 + data + 2) / 4) * 4 + 16
    return 20 + 12 + 16 + inner


def test_ah_around_esp_is_computed_and_simulated(tmp_path: Path) -> None:
    run = caravan.study.run(
        sliced(tmp_path, LAYERED), directory=tmp_path / "out", level=("model", "simulate")
    )
    for level in ("model", "simulate"):
        for data in (64, 1369, 1370):
            at = {"sweep": "layers", "level": level, "packet_bytes": data}
            assert value(run.rows, "wire_packets", **at) == 1
            assert value(run.rows, "wire_bytes", **at) == layered(data)
        assert value(run.rows, "wire_packets", sweep="layers", level=level, packet_bytes=1371) == 2
        assert value(run.rows, "whole_bytes", sweep="layers", level=level) == 1370
    model = value(run.rows, "data_mbit_s", sweep="tcp", level="model")
    assert model == pytest.approx(100 * (1398 - 20 - 32) / (layered(1370) + 38))
    simulated = value(run.rows, "data_mbit_s", sweep="tcp", level="simulate")
    assert simulated == pytest.approx(model, rel=0.05)


@pytest.mark.root
@pytest.mark.measures
def test_real_packets_are_those_of_model_and_simulation(tmp_path: Path) -> None:
    levels = ("model", "simulate", "testbed")
    run = caravan.study.run(sliced(tmp_path), directory=tmp_path / "out", level=levels)
    rows = run.rows
    counted = rows[rows["metric"].isin(["wire_packets", "wire_bytes", "link_mbit_s"])]
    counted = counted[counted["sweep"].isin([*LARGEST])]
    place = ["sweep", "packet_bytes", "metric"]
    beside = counted.pivot_table(index=place, columns="level", values="value")
    assert len(beside) == 48 and not beside.isna().any().any()
    assert (beside["testbed"] == beside["simulate"]).all(), beside
    assert beside["model"].to_list() == pytest.approx(beside["testbed"].to_list()), beside
    largest = {**LARGEST, "installed": 1372}
    for sweep, size in largest.items():
        assert value(rows, "whole_bytes", sweep=sweep, level="testbed") == size
    for sweep in ("tcp", "udp", "paced"):
        here = rows[rows["sweep"] == sweep]
        assert here[here["metric"] == "data_mbit_s"]["value"].gt(0).all()
        assert here[here["metric"] == "cpu_percent"]["value"].gt(0).all()
        assert set(here["device"]) == {"machine of the run"}
        assert set(here[here["metric"] == "data_mbit_s"]["replications"]) == {2}
    wire = rows[(rows["sweep"] == "udp") & (rows["metric"] == "data_mbit_s")]
    # Not faster than the wire: a token bucket lets a few packets pass at once.
    assert wire["value"].lt(100 * 1.02).all()
    limited = rows[(rows["sweep"] == "limited") & (rows["metric"] == "data_mbit_s")]
    tcp = limited.pivot_table(index="policy", columns="level", values="value")
    assert len(tcp) == 2 and (tcp["testbed"] < tcp["model"] * 1.01).all(), tcp
    spun = value(rows, "cpu_percent", sweep="paced", reading="spins")
    slept = value(rows, "cpu_percent", sweep="paced", reading="sleeps")
    assert spun > slept
