"""The ten steps of tunnel agents by part: frames by hand, and real agents over links."""

from __future__ import annotations

import shutil
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from study_by_hand import value

import caravan.study
from caravan.files import CATALOGUE
from caravan.study import StudyError, agents, load
from caravan.study.parsed import Run
from caravan.testbed.agents import CLIENT_ADDRESS, HOST_ADDRESS, PORT, TARGET_ADDRESS
from caravan.testbed.capture import Frame
from caravan.testbed.errors import NamespaceError
from caravan.testbed.processors import Processors
from caravan.testbed.relay import Late, LinkConfig
from caravan.threeways.agents import (
    AUTHORIZATION,
    CLIENT_HOST,
    HOST_TARGET,
    IKE,
    INQUIRY,
    OFFER,
    REFERRAL,
    REQUEST,
    RESPONSE,
    STEPS,
    Message,
    messages,
    seen,
    values,
)

RUN = Run(1.0, 0.0, 3)
STATION = "02:00:00:00:00:01"
LINK = {
    "rate": {"up_bps": 2e6, "down_bps": 1e6},
    "delay_s": 0.01,
    "overhead_bytes": 38.0,
    "access_s": 0.00081,
    "is_half_duplex": True,
}
SLICE = """
name = "slice"
title = "Setting a tunnel up over two links"

[[sweep]]
name = "setup"
title = "Computed"
measure = "exchange"
grid = { policy = ["agent-client-host", "agent-host-target", "agent-ike"], link = ["lte"] }

[[sweep]]
name = "here"
title = "Measured"
measure = "agents"
replications = 2

[sweep.grid]
policy = ["agent-client-host", "agent-host-target", "agent-ike", "agent-steps"]
link = ["lte", "ethernet"]
"""


def text(name: str) -> dict[str, str]:
    path = CATALOGUE / f"links/{name}.toml"
    return {"name": name, "file": str(path), "text": path.read_text()}


def packet(number: int, place: int, source: str, destination: str, body: bytes) -> bytes:
    """An IPv4 packet of UDP: identification, and flags with the offset."""
    addresses = b"".join(bytes(map(int, one.split("."))) for one in (source, destination))
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), number, place, 64, 17, 0)
    return bytes(12) + b"\x08\x00" + head + addresses + body


def udp(ports: tuple[int, int], payload: bytes) -> bytes:
    return struct.pack("!HHHH", *ports, 8 + len(payload), 0) + payload


def test_messages_are_found_with_all_their_fragments() -> None:
    ends = (HOST_ADDRESS, CLIENT_ADDRESS)
    response = udp((PORT, 40_000), b"CTA\x03" + bytes([RESPONSE]) + bytes(1467))
    frames = [
        Frame(1.0, packet(7, 0x2000, *ends, response[:1480])),
        Frame(1.5, packet(9, 0, *ends, udp((PORT, 40_000), b"CTA\x03\x02" + bytes(32)))),
        Frame(2.0, packet(7, 185, *ends, bytes(100))),
        # Another sender's fragment with this number, and one whose beginning was not seen.
        Frame(2.5, packet(7, 185, TARGET_ADDRESS, CLIENT_ADDRESS, bytes(100))),
        Frame(3.0, packet(8, 185, *ends, bytes(100))),
        Frame(4.0, packet(0, 0x4000, *ends, udp((500, 500), bytes(28)))),
        Frame(5.0, packet(0, 0x4000, *ends, udp((4500, 4500), bytes(28)))),
        # ESP in UDP, another port, and no IPv4.
        Frame(6.0, packet(0, 0x4000, *ends, udp((4500, 4500), b"\x01" + bytes(27)))),
        Frame(7.0, packet(0, 0x4000, *ends, udp((53, 53), b"CTA\x03\x01"))),
        Frame(8.0, bytes(12) + b"\x08\x06" + bytes(46)),
    ]
    found = messages(frames)
    assert [one.kind for one in found] == [RESPONSE, 2, None, None]
    assert found[0] == Message(RESPONSE, *ends, 1.0, 2.0, 1500 + 120)
    assert [one.first_s for one in found[2:]] == [4.0, 5.0]


def passed(kind: int | None, source: str, to: str, left_s: float, came_s: float) -> tuple[Any, Any]:
    message = Message(kind, source, to, left_s, left_s, 100)
    return message, replace(message, first_s=came_s, last_s=came_s)


def told() -> tuple[list[list[Message]], float]:
    """Three taps of a tunnel, and when it was up. Each way takes 1 s, each work 0.1 s or more."""
    client, host, target = CLIENT_ADDRESS, HOST_ADDRESS, TARGET_ADDRESS
    asked = passed(REQUEST, client, host, 10.5, 11.5)
    inquired = passed(INQUIRY, host, target, 11.6, 12.6)
    offered = passed(OFFER, target, host, 12.8, 13.8)
    referred = passed(REFERRAL, host, target, 13.9, 14.9)
    authorized = passed(AUTHORIZATION, target, host, 15.9, 16.9)
    answered = passed(RESPONSE, host, client, 17.2, 18.2)
    ike = [
        passed(None, client, target, 18.6, 19.6),
        passed(None, target, client, 19.7, 20.7),
        # Said twice, and answered once: both are on the wire at the same time.
        passed(None, client, target, 20.8, 21.8),
        passed(None, client, target, 21.3, 22.3),
        passed(None, target, client, 22.4, 23.4),
        # The last one is not there yet.
        passed(None, client, target, 23.5, 24.5),
    ]
    at_client = [asked[0], answered[1]] + [one[0 if one[0].source == client else 1] for one in ike]
    at_host = [asked[1], inquired[0], offered[1], referred[0], authorized[1], answered[0]]
    at_target = [inquired[1], offered[0], referred[1], authorized[0]]
    at_target += [one[1 if one[0].source == client else 0] for one in ike[:-1]]
    return [at_client, at_host, at_target], 23.7


def test_parts_and_work_make_up_the_whole() -> None:
    taps, up_s = told()
    run = seen(taps, (10.0, up_s), [], STATION)
    assert {name: one.seconds for name, one in run.parts.items()} == pytest.approx(
        {CLIENT_HOST: 2.0, HOST_TARGET: 4.0, IKE: 4.5}
    )
    assert {name: one.messages for name, one in run.parts.items()} == {
        CLIENT_HOST: 2,
        HOST_TARGET: 4,
        IKE: 5,
    }
    # Before its request and before IKE; three times; twice.
    assert run.work == pytest.approx({"client": 0.9, "host": 0.5, "target": 1.2, "ike": 0.6})
    whole = sum(one.seconds for one in run.parts.values()) + sum(run.work.values())
    assert run.whole_s == pytest.approx(13.7) and whole == pytest.approx(13.7)


def test_what_the_relay_was_late_is_in_no_part() -> None:
    taps, up_s = told()
    late = [
        Late(11.4, 0.2, 0.0, STATION, "02:00:00:00:00:02"),
        Late(18.1, 0.3, 0.0, "02:00:00:00:00:02", STATION),
        # Two messages that are beside each other wait for the relay once.
        Late(21.7, 0.4, 0.0, STATION, "02:00:00:00:00:02"),
        Late(22.2, 0.4, 0.0, STATION, "02:00:00:00:00:02"),
        # Not of this station, and not while a message is on its way.
        Late(18.15, 5.0, 0.0, "02:00:00:00:00:03", "02:00:00:00:00:02"),
        Late(18.5, 5.0, 0.0, STATION, "02:00:00:00:00:02"),
    ]
    run = seen(taps, (10.0, up_s), late, STATION)
    part = run.parts[CLIENT_HOST]
    assert part.late_s == pytest.approx(0.5) and part.seconds == pytest.approx(1.5)
    assert run.parts[IKE].late_s == pytest.approx(0.4)
    assert run.work == pytest.approx(seen(taps, (10.0, up_s), [], STATION).work)
    whole = {one.metric: one.value for one in values(STEPS, [run])}
    assert whole["setup_ms"] == pytest.approx(12_800) and whole["harness_ms"] == pytest.approx(900)
    assert whole["computing_ms:target"] == pytest.approx(1200)
    own = {one.metric: one.value for one in values(CLIENT_HOST, [run])}
    assert own == pytest.approx(
        {"first_sent_ms": 1500, "messages": 2, "message_bytes": 200, "harness_ms": 500}
    )


@pytest.mark.parametrize(("tap", "kind"), [(0, REQUEST), (1, OFFER), (2, AUTHORIZATION), (2, None)])
def test_a_message_that_was_not_seen_is_named(tap: int, kind: int | None) -> None:
    taps, up_s = told()
    taps[tap] = [one for one in taps[tap] if one.kind != kind]
    with pytest.raises(NamespaceError, match="seen on"):
        seen(taps, (10.0, up_s), [], STATION)


def test_a_relay_has_the_numbers_of_the_link() -> None:
    config = LinkConfig.of(LINK)
    assert config == LinkConfig(
        rate="2000000bit",
        rate_back="1000000bit",
        delay="10000000ns",
        overhead=38,
        access_time="810000ns",
        is_half_duplex=True,
    )


@pytest.mark.parametrize(
    ("part", "run", "said"),
    [
        ("agent-client-hosts", RUN, "'agent-client-host'"),
        (STEPS, Run(1.0, 0.0, 7), "must be one of"),
    ],
)
def test_what_is_wrong_with_a_cell_is_named(part: str, run: Run, said: str) -> None:
    with pytest.raises(StudyError, match=said):
        agents.request(part, text("lte"), run)
    assert agents.request(STEPS, text("lte"), RUN)["link"]["delay_s"] == 0.01


def test_a_link_without_a_rate_is_refused(tmp_path: Path) -> None:
    own = 'title = "it"\nrate = "1 Mbit/s"\ntrace = "it"\n'
    own += '[sources]\nrate = "none"\ntrace = "none"\n'
    with pytest.raises(StudyError, match="a recording"):
        agents.request(STEPS, {"name": "it", "file": "it.toml", "text": own}, RUN)


def test_a_sweep_of_agents_needs_part_and_link(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(SLICE.replace('link = ["lte", "ethernet"]', ""))
    with pytest.raises(StudyError, match='needs the axis "link"'):
        load(str(path))


def test_a_busy_processor_is_one_that_does_not_idle() -> None:
    each = "cpu0 1 0 1 1 0 0 0 0 0 0\ncpu1 1 0 1 1 0 0 0 0 0 0\nintr 5\n"
    stat = "cpu  {0} 0 200 {1} 20 0 {2} {3} 0 0\n" + each
    before = Processors.of(stat.format(100, 1000, 10, 5), 50.0, 1.0)
    # Of 2 s on two processors 1 s idled, and the hypervisor took 0.5 s.
    after = Processors.of(stat.format(900, 1100, 35, 55), 52.0, 1.25)
    found = after - before
    assert (found.busy_s, found.softirq_s) == pytest.approx((2.5, 0.25))
    assert found.threads_s == 0.25
    now = Processors.now()
    more = Processors.now() - now
    assert more.busy_s < 1 and more.softirq_s >= 0 and more.threads_s >= 0


@pytest.mark.root
@pytest.mark.measures
def test_messages_take_what_was_computed_over_a_link(tmp_path: Path) -> None:
    (tmp_path / "exchanges").mkdir()
    for path in (CATALOGUE / "studies/tunnel-agents/exchanges").iterdir():
        shutil.copy(path, tmp_path / "exchanges")
    (tmp_path / "study.toml").write_text(SLICE)
    study = load(str(tmp_path / "study.toml"))
    run = caravan.study.run(study, directory=tmp_path / "out", level=("model", "testbed"))
    rows = run.rows
    for part in (CLIENT_HOST, HOST_TARGET, IKE):
        at = {"sweep": "setup", "policy": part, "link": "lte"}
        there = {"sweep": "here", "policy": part, "link": "lte"}
        computed = value(rows, "first_sent_ms", **at)
        measured = value(rows, "first_sent_ms", **there)
        # Sizes of certificates and names differ a little from those of the file.
        assert measured == pytest.approx(computed, rel=0.1, abs=1.0), part
        assert value(rows, "message_bytes", **there) == pytest.approx(
            value(rows, "message_bytes", **at), rel=0.15
        ), part
        assert value(rows, "harness_ms", **there) >= 0
        bare = value(rows, "first_sent_ms", sweep="here", policy=part, link="ethernet")
        assert 0 < bare < measured / 4, part
    for link in ("lte", "ethernet"):
        at = {"sweep": "here", "policy": STEPS, "link": link}
        work = [
            value(rows, f"computing_ms:{name}", **at)
            for name in ("client", "host", "target", "ike")
        ]
        assert min(work) > 0
        names = (CLIENT_HOST, IKE)
        on_the_way = [
            value(rows, "first_sent_ms", sweep="here", policy=name, link=link) for name in names
        ]
        whole = value(rows, "setup_ms", **at)
        # Host and Target are on a wire without a limit here.
        rest = whole - sum(work) - sum(on_the_way)
        assert 0 < rest < 5, (whole, work, on_the_way)
    assert set(rows[rows["sweep"] == "here"]["replications"]) == {2}
