"""A graph in namespaces and its simulation: the same datagrams, the same bytes on each link."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from caravan.document import plain
from caravan.files import Entry
from caravan.lab.core import LabError, Question, departures, find, kernel, scenario
from caravan.lab.handshakes import Way, taken
from caravan.testbed import Network, flow_end
from caravan.testbed.flow_end import Listening, Received, Refused, results
from caravan.testbed.graph import link_config, words
from caravan.testbed.relay import LinkConfig
from caravan.threeways import flows
from caravan.threeways.bed import Setting, running
from caravan.threeways.compare import main
from caravan.threeways.flows import Counted, Flows, two_ways

BYTES_TOLERANCE = 0.05
"""The difference in bytes on a link that simulation and testbed may have."""
LATE = 12
"""Datagrams that may be lost because the operating system notices a move later than the simulation:
at 100 per second, 120 ms."""
PROBE_BYTES = 2 * 113
"""A station that hears nothing for 5 s asks its gateway, in one of both levels perhaps."""
FEW_BYTES = 5_000
"""A link that carried almost nothing may differ by this many bytes."""

STILL = (
    'link.cell-a.from=["ms1"]; link.cell-b.from=["ms2"]; move.0.node=; move.0.to=; '
    "move.0.link=cell-b; run.time=6 s; move.0.at=3 s; "
)
"""No station moves, and a link changes."""


BRANCH = """
name = "branch"
title = "a client, a router and a server"
policy = "none"
run = { time = "2 s" }
node = [
    { name = "a", role = "station" },
    { name = "r", role = "router" },
    { name = "srv", role = "server" },
]

[[link]]
name = "cell"
from = "a"
to = "r"
rate = "1 Mbit/s"

[[link]]
from = "r"
to = "srv"
rate = "1 Gbit/s"

[[flow]]
name = "up"
from = "a"
to = "srv"
model = "constant"
rate = "400 kbit/s"
sizes = { model = "fixed", bytes = "1000 B" }

[[flow]]
name = "down"
from = "srv"
to = "a"
model = "constant"
rate = "400 kbit/s"
sizes = { model = "fixed", bytes = "1000 B" }
"""


PROGRAM = (sys.executable, flow_end.__file__)


def output(*words: str) -> str:
    """What a program of a flow prints."""
    done = subprocess.run([*PROGRAM, *words], capture_output=True, text=True, check=True)
    return done.stdout


def branch(folder: Path, *changes: tuple[str, str]) -> str:
    """The path of the scenario above, in which each first text is replaced by the second."""
    text = BRANCH
    for old, new in changes:
        text = text.replace(old, new)
    path = folder / "branch.toml"
    path.write_text(text)
    return str(path)


def levels(edits: str, path: Path, name: str = "handover") -> tuple[Flows, Flows]:
    """The handover with edits, simulated and in namespaces, printed side by side."""
    question = Question(name, tuple(edit for edit in edits.split("; ") if edit))
    simulate, measured = two_ways(Setting.of(question.request()), path)
    assert measured is not None
    for one, other in zip(simulate.flows, measured.flows, strict=True):
        print(one.name, one.sent, one.received, one.gaps, one.kbps)
        print(other.name, other.sent, other.received, other.gaps, other.kbps)
        assert (one.name, one.sent) == (other.name, other.sent)
    return simulate, measured


def _same_bytes(simulate: Flows, measured: Flows) -> None:
    for name, counts in simulate.link_bytes.items():
        for way, direction in enumerate(("up", "down")):
            ours, theirs = counts[way], measured.link_bytes[name][way]
            print(name, direction, ours, theirs)
            limit = max(BYTES_TOLERANCE * theirs, FEW_BYTES)
            assert abs(ours - theirs) <= limit, (name, direction)


@pytest.mark.root
@pytest.mark.measures
def test_a_station_that_moves_loses_the_same_datagrams_in_simulation_and_testbed(
    tmp_path: Path,
) -> None:
    question = Question("handover")
    simulate, measured = two_ways(Setting.of(question.request()), tmp_path)
    assert measured is not None
    for one, other in zip(simulate.flows, measured.flows, strict=True):
        print(one.name, one.sent, one.received, one.gaps, other.received, other.gaps)
        assert (one.name, one.sent) == (other.name, other.sent)
        _same_gaps(one, other)
    _same_bytes(simulate, measured)


CELL_B = """
title = "The cell to which a station moves"
rate = "5 Mbit/s"
delay = "10 ms"
sources.rate = "the scenario handover"
sources.delay = "the scenario handover"
"""
DATAGRAMS_S = 0.01
"""Between two datagrams to the station that moves."""


def simulated_move(setting: Setting) -> dict[str, Any]:
    """The tunnel of the station that moves."""
    tunnels = kernel(setting.opened)["simulate"]["tunnels"]
    found: dict[str, Any]
    (found,) = (one for one in tunnels if one["station"] == "ms2")
    return found


def test_the_gap_of_a_move_is_computed_and_simulated_alike() -> None:
    found = simulated_move(Setting.of(Question("handover", ("run.time=7 s",)).request()))
    entry = find("exchange", "ikev2-mobike")
    way = Way(Entry("link", "cell-b", "cell-b", CELL_B), find("device", "cortex-a53"))
    model_s = taken(entry.text, way).gap_ms / 1e3
    (move,) = found["moves"]
    assert move["to"] == "cell-b"
    assert model_s - 0.001 < move["data_gap_s"] < model_s + DATAGRAMS_S + 0.001, model_s
    # The answer comes after a round trip as well.
    assert move["gap_s"] == pytest.approx(model_s, rel=0.1)
    rows = [(row["is_sent"], row["wire_bytes"]) for row in found["later"]]
    written = plain(entry.file, entry.text)["message"]
    assert rows == [(one["from"] == "node", one["bytes"]) for one in written]


@pytest.mark.root
@pytest.mark.measures
def test_a_move_has_the_same_messages_in_simulation_and_testbed(tmp_path: Path) -> None:
    setting = Setting.of(Question("handover", ("run.time=7 s",)).request())
    setting.check_testbed()
    rows = [(row["is_sent"], row["wire_bytes"]) for row in simulated_move(setting)["later"]]
    names = [node["name"] for node in setting.scenario["nodes"]]
    with running(setting, tmp_path) as bed:
        came = flows.run(bed, tmp_path)
        station = bed.stations[names.index("ms2")]
        told = [message for message in station.messages() if message.exchange == "informational"]
    assert all(flow.received > 0 for flow in came)
    measured = [(one.direction == "sent", one.size_bytes + 28 * one.datagrams) for one in told]
    assert sorted(measured) == sorted(rows), measured


@pytest.mark.root
def test_nodes_may_be_called_like_parts_of_the_testbed(tmp_path: Path) -> None:
    path = branch(tmp_path, ('"a"', '"l0-relay"'), ('"r"', '"flow-0"'), ('"srv"', '"lo"'))
    for level in levels("", tmp_path / "out", path):
        assert level.flows[0].received == level.flows[0].sent


@pytest.mark.root
def test_a_server_behind_a_router_reaches_the_client(tmp_path: Path) -> None:
    for level in levels("", tmp_path / "out", branch(tmp_path)):
        assert [flow.gaps for flow in level.flows] == [[], []]


@pytest.mark.root
def test_bytes_of_a_link_are_those_that_it_delivers(tmp_path: Path) -> None:
    path = branch(tmp_path, ('rate = "1 Mbit/s"', 'rate = "1 Mbit/s"\nloss = 0.5'))
    for level in levels("", tmp_path / "out", path):
        up, down = (flow.received for flow in level.flows)
        assert up < level.flows[0].sent * 0.8 and down < level.flows[1].sent * 0.8
        assert level.link_bytes["cell"] == (up * 1000, down * 1000)


@pytest.mark.root
def test_a_client_that_moves_to_its_own_link_stays_there(tmp_path: Path) -> None:
    move = '\n[[move]]\nat = "1 s"\nnode = "a"\nto = "cell"\n'
    path = branch(tmp_path, ('\n[[flow]]\nname = "up"', f'{move}\n[[flow]]\nname = "up"'))
    for level in levels("", tmp_path / "out", path):
        assert [flow.gaps for flow in level.flows] == [[], []]


@pytest.mark.root
@pytest.mark.measures
@pytest.mark.parametrize(("name", "other"), [("up", "down"), ("down", "up")])
def test_a_transfer_that_is_cut_has_the_time_of_the_run(
    name: str, other: str, tmp_path: Path
) -> None:
    cut = '\n[[move]]\nat = "1 s"\nlink = "cell"\nup = false\n'
    path = branch(tmp_path, ('\n[[flow]]\nname = "up"', f'{cut}\n[[flow]]\nname = "up"'))
    tcp = "; ".join(f"flow.{name}.{edit}" for edit in ("sizes=", "rate=", "model=tcp"))
    edits = f"{tcp}; flow.{name}.bytes=9 MB; flow.{other}.rate=8 kbit/s"
    simulate, measured = levels(f"{edits}; run.time=4 s", tmp_path / "out", path)
    one, two = (
        next(flow for flow in level.flows if flow.name == name) for level in (simulate, measured)
    )
    assert one.seconds == two.seconds == 4
    assert 50_000 < two.received < two.sent
    for level, flow in ((simulate, one), (measured, two)):
        said = f"cut by the end of the run: {flow.received:,} of 9,000,000 bytes arrived"
        assert level.notes == [f"{name}: {said}"]
    # by the time of the last byte it would be four times as much
    assert two.kbps == pytest.approx(one.kbps, rel=0.5)


@pytest.mark.root
def test_what_the_kernel_refuses_to_send_is_told(tmp_path: Path) -> None:
    setting = Setting.of(Question(branch(tmp_path)).request())
    # no datagram can have this size
    setting.__dict__["departures"] = [[(0, 70_028), (1, 70_028)], [(0, 1000)]]
    _, measured = two_ways(setting, tmp_path / "out")
    assert measured is not None
    assert measured.notes == ["up: refused: 2 datagrams: [Errno 90] Message too long"]
    assert [flow.received for flow in measured.flows] == [0, 1]


def test_programs_of_flows_print_results_that_the_testbed_reads(tmp_path: Path) -> None:
    listed = tmp_path / "departures"
    listed.write_text("0 70000\n0 70000\n")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = str(closed.getsockname()[1])
        for words, refused in (
            (("send", "127.0.0.1", port, str(listed), "0"), ("[Errno 90] Message too long", 2)),
            (("connect", "127.0.0.1", port, "10", "0"), ("[Errno 111] Connection refused", None)),
        ):
            assert results(output(*words)) == [Refused(*refused)]
    assert str(Refused("[Errno 1] No", 2)) == "refused: 2 datagrams: [Errno 1] No"
    assert str(Refused("[Errno 1] No", None)) == "refused: [Errno 1] No"


def test_a_transfer_tells_how_much_of_it_came() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        with subprocess.Popen(
            [*PROGRAM, "connect", "127.0.0.1", port, "0", "0"], stdout=subprocess.PIPE, text=True
        ) as client:
            link, _ = server.accept()
            with link:
                link.sendall(bytes(100_000))
            told, _ = client.communicate()
    (received,) = results(told)
    assert isinstance(received, Received) and received.size_bytes == 100_000
    assert received.seconds >= 0


def test_a_line_that_is_not_at_its_end_is_no_result() -> None:
    assert results('{"kind": "listening"}') == []
    assert results('{"kind": "listening"}\n{"kind": "rec') == [Listening()]


def test_a_transfer_that_time_ends_says_what_is_missing() -> None:
    one = Counted("up", 50_000, ((0, 999),), 4.0)
    assert one.shortfall == "cut by the end of the run: 1,000 of 50,000 bytes arrived"
    assert Flows((one,), {}).notes == [f"up: {one.shortfall}"]
    assert Counted("up", 50_000, ((0, 49_999),), 4.0).shortfall is None
    assert Counted("up", 50, ((0, 9),)).shortfall is None, "datagrams are lost, not cut"


@pytest.mark.root
def test_errors_of_the_testbed_are_one_sentence_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        network.hosts[0].add_route("default", "192.0.2.99")

    monkeypatch.setattr(flows, "run", fails)
    with Network(tmp_path / "hosts") as network, pytest.raises(typer.Exit) as ended:
        network.host("alone")
        main(branch(tmp_path), [], tmp_path / "out")
    assert ended.value.exit_code == 2
    said = capsys.readouterr().out
    assert "alone: route add dst 0.0.0.0/0 gateway 192.0.2.99: Network is unreachable" in said


def test_a_node_with_the_name_of_a_path_is_refused(tmp_path: Path) -> None:
    for name in ("../../evil", "/tmp/evil", ".."):
        path = branch(tmp_path, ('"a"', f'"{name}"'))
        with pytest.raises(LabError, match="name: a name begins with a letter or a digit"):
            Setting.of(Question(path).request())


@pytest.mark.root
@pytest.mark.parametrize(
    "more",
    [
        "policy=3des-md5",
        "policy=none",
        "policy=none; family=6; flow.ms1 up.to=sg; flow.ms2 up.from=sg; flow.ms2 up.to=ms2",
    ],
)
def test_stations_reach_the_server_by_the_gateway_s_own_address(more: str, tmp_path: Path) -> None:
    edits = f"{STILL}move.0.up=true; {more}; flow.ms2 down.from=ms2; flow.ms2 down.to=sg"
    for level in levels(edits, tmp_path):
        assert [flow.received for flow in level.flows] == [flow.sent for flow in level.flows]


CALLS = "packets=10; calls=3; reading=0.2 s; idle=0.5 s"
MODELS = [
    ("poisson", "", '{ model = "fixed", bytes = "500 B" }'),
    ("poisson", "", '{ model = "pareto", shape = 1.1, smallest = "81.5 B", largest = "1400 B" }'),
    ("constant", "", '{ model = "empirical", points = [[44, 3], [576, 1], [1400, 1]] }'),
    ("packet-call", CALLS, '{ model = "fixed", bytes = "300 B" }'),
]


@pytest.mark.root
@pytest.mark.parametrize(("model", "more", "sizes"), MODELS)
def test_the_testbed_sends_the_very_datagrams_that_are_simulated(
    model: str, more: str, sizes: str, tmp_path: Path
) -> None:
    flow = "flow.ms1 up."
    changes = "; ".join(f"{flow}{edit}" for edit in more.split("; ") if edit)
    edits = f"{STILL}move.0.up=true; {flow}model={model}; {flow}sizes={sizes}; {changes}"
    simulate, measured = levels(edits, tmp_path)
    for one, other in zip(simulate.flows, measured.flows, strict=True):
        assert one.received == one.sent == other.received > 10, one.name
    _same_bytes(simulate, measured)


@pytest.mark.root
def test_each_tunnel_has_its_own_policy_in_simulation_and_testbed(tmp_path: Path) -> None:
    text = find("scenario", "handover").text.replace('policy = "aes128gcm16"\n', "")
    for station, policy in (("ms1", "aes128gcm16"), ("ms2", "aes128-sha256")):
        text += f'\n[[layer]]\nkind = "ipsec"\npolicy = "{policy}"\nfrom = "{station}"\nto = "sg"\n'
    path = tmp_path / "two.toml"
    path.write_text(text)
    simulate, measured = levels(f"{STILL}move.0.up=true", tmp_path, str(path))
    for level in (simulate, measured):
        assert [flow.received for flow in level.flows] == [flow.sent for flow in level.flows]
    # what each policy adds to the packets of its station shows on that station's link
    for name in ("cell-a", "cell-b"):
        one, other = simulate.link_bytes[name], measured.link_bytes[name]
        assert one == pytest.approx(other, rel=0.01, abs=PROBE_BYTES)


@pytest.mark.root
@pytest.mark.measures
@pytest.mark.parametrize(
    "edits",
    [
        "family=6; run.time=8 s",
        "family=6; link.sg.network=10.10.0.0/24; run.time=8 s",
        "link.sg.network=fd10::/64; run.time=8 s",
    ],
)
def test_stations_move_in_ipv6_and_tunnels_carry_either_family(edits: str, tmp_path: Path) -> None:
    simulate, measured = levels(edits, tmp_path)
    for one, other in zip(simulate.flows, measured.flows, strict=True):
        _same_gaps(one, other)
    _same_bytes(simulate, measured)


@pytest.mark.root
@pytest.mark.measures
def test_tcp_takes_as_long_through_the_testbed_as_simulated(tmp_path: Path) -> None:
    up, down = "flow.ms1 up.", "flow.ms2 down."
    none = "; ".join(f"{flow}{key}=" for flow in (up, down) for key in ("sizes", "rate"))
    edits = (
        f"{STILL}move.0.up=true; {none}; {up}model=tcp; {up}bytes=300 KB; {down}model=tcp; "
        # no queue overflows: the simulated TCP recovers from losses more slowly than Linux does
        f"{down}bytes=1 MB; run.time=20 s; link.cell-b.queue=100 KB"
    )
    simulate, measured = levels(edits, tmp_path)
    for one, other in zip(simulate.flows, measured.flows, strict=True):
        assert one.received == one.sent == other.received, one.name
        if one.kbps is not None:
            assert other.kbps == pytest.approx(one.kbps, rel=0.25), one.name


@pytest.mark.root
@pytest.mark.measures
def test_a_link_changes_while_it_runs_in_simulation_and_testbed(tmp_path: Path) -> None:
    # ms2 alone is on cell-b: 50 datagrams a second up, 100 down, of which loss takes some
    simulate, measured = levels(f"{STILL}move.0.loss=0.3", tmp_path / "loss")
    for one, other in zip(simulate.flows[1:], measured.flows[1:], strict=True):
        lost, share = one.sent - one.received, (other.sent - other.received) / one.sent
        assert lost > 0 and 0.08 < share < 0.22, one.name
        assert other.gaps[0][0] >= one.sent // 2 - 2
    # while the link is down it takes nothing: both lose the same datagrams
    text = f"{STILL}move.0.up=false"
    simulate, measured = levels(text, tmp_path / "down")
    for one, other in zip(simulate.flows[1:], measured.flows[1:], strict=True):
        assert len(one.gaps) == len(other.gaps) == 1, one.name
        assert -2 <= other.gaps[0][0] - one.gaps[0][0] <= LATE, one.name
    # half of what comes down does not fit any more: the queue of 60 KB fills, then drops
    simulate, measured = levels(f"{STILL}move.0.rate=400 kbit/s", tmp_path / "rate")
    one, other = simulate.flows[2], measured.flows[2]
    assert one.received < one.sent
    assert other.received == pytest.approx(one.received, abs=15)


@pytest.mark.root
@pytest.mark.measures
def test_links_with_two_rates_framing_and_overtaking_carry_alike(tmp_path: Path) -> None:
    edits = (
        f"{STILL}move.0.delay=60 ms; link.cell-b.rate={{ up = '1 Mbit/s', down = '900 kbit/s' }}; "
        "link.cell-b.overhead=20 B; link.cell-b.reorder=0.1"
    )
    simulate, measured = levels(edits, tmp_path)
    for one, other in zip(simulate.flows, measured.flows, strict=True):
        assert other.received == pytest.approx(one.received, abs=15), one.name
    assert len(measured.flows[2].runs) > 20, "some were overtaken"
    assert len(simulate.flows[2].runs) > 20
    _same_bytes(simulate, measured)


@pytest.mark.root
def test_packets_overtake_on_a_trace_too(tmp_path: Path) -> None:
    trace = tmp_path / "cell.trace"
    # an opportunity of 1500 bytes every 4 ms is 3 Mbit/s
    trace.write_text("".join(f"{ms}\n" for ms in range(4, 404, 4)))
    shape = 'rate = "1 Mbit/s"\ntrace = "cell.trace"\nreorder = 0.2'
    path = branch(tmp_path, ('rate = "1 Mbit/s"', shape))
    edits = "flow.up.rate=1600 kbit/s"
    for level in levels(edits, tmp_path / "out", path):
        up = level.flows[0]
        assert up.gaps == [] and len(up.runs) > 20, "some were overtaken"


def _same_gaps(simulate: Counted, measured: Counted) -> None:
    """Nothing is missing except around the move.

    A simulated move takes no time, so what leaves then may all arrive. The commands of the testbed
    take the time of a few datagrams, and begin so much later when the machine is busy.
    """
    if simulate.gaps:
        assert len(simulate.gaps) == len(measured.gaps), (simulate.gaps, measured.gaps)
        for one, other in zip(simulate.gaps, measured.gaps, strict=True):
            assert -2 <= other[0] - one[0] <= LATE, (one, other)
            assert -2 <= other[1] - one[1] <= LATE, (one, other)
    else:
        assert sum(last - first + 1 for first, last in measured.gaps) <= LATE, measured.gaps
    assert measured.runs[0][0] == 0 and measured.runs[-1][1] == measured.sent - 1


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        (
            "flow.ms1 up.model=closed-loop",
            "flow.ms1 up.model: only the tandem supports closed-loop",
        ),
        ("policy=3des-md5", "datagrams to the stations cannot be told apart if there are several"),
    ],
)
def test_what_namespaces_cannot_show_of_a_graph_is_named(edits: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Setting.of(Question("handover", tuple(edits.split("; "))).request()).check_testbed()


def test_a_link_with_a_trace_may_reorder() -> None:
    link = scenario(Question("handover"))["graph"]["links"][0]
    config = link_config({**link, "reorder": 0.1, "trace": "x"}, {"x": Path("x")})
    assert config is not None and config.rate is None
    options = config.arguments()
    at = options.index("--trace")
    assert options[at : at + 2] == ["--trace", "x"]
    assert options[-2:] == ["--reorder", "0.1"]


@pytest.mark.root
@pytest.mark.measures
def test_stations_and_access_point_share_one_airtime(tmp_path: Path) -> None:
    """More is offered in both directions together than the airtime carries."""
    shape = 'link = "wifi-11b"\nqueue = "20 KB"'
    path = branch(tmp_path, ('rate = "1 Mbit/s"', shape))
    edits = "flow.up.rate=4 Mbit/s; flow.down.rate=4 Mbit/s"
    simulate, measured = levels(edits, tmp_path / "out", path)
    for one, other in zip(simulate.flows, measured.flows, strict=True):
        assert one.received < one.sent, one.name
        # A machine that stands still for a while leaves the air unused.
        assert other.received == pytest.approx(one.received, rel=0.2), one.name
    carried = [sum(flow.received for flow in level.flows) for level in (simulate, measured)]
    assert carried[1] <= carried[0] * 1.02


def test_a_relay_has_the_whole_numbers_of_the_simulation() -> None:
    edits = (
        "link.cell-a.rate={ up = '2000.6 bit/s', down = '0.2 bit/s' }",
        "link.cell-a.delay=0.4 us",
        "link.cell-a.queue=1500.6 B",
        "link.cell-a.overhead=20.2 B",
    )
    config = link_config(scenario(Question("handover", edits))["graph"]["links"][0], {})
    assert config == LinkConfig(
        rate="2001bit", rate_back="1bit", delay="400ns", queue="1501b", overhead=21
    )
    shared = scenario(
        Question("handover", ("link.cell-a.link=wifi-11b", "link.cell-a.rate=", "link.cell-a.mtu="))
    )
    options = link_config(shared["graph"]["links"][0], {})
    assert options is not None
    assert options.arguments()[-3:] == ["--access-time", "810000ns", "--half-duplex"]


@pytest.mark.parametrize(
    ("queue", "option"), [("60 KB", "60000b"), ("1 KB", "1000b"), ("", "100000")]
)
def test_a_queue_holds_as_many_bytes_as_in_simulation(queue: str, option: str) -> None:
    resolved = scenario(Question("handover", (f"link.cell-a.queue={queue}",)))
    config = link_config(resolved["graph"]["links"][0], {})
    assert config is not None and config.queue == option


def test_the_list_of_departures_is_what_the_simulation_sends() -> None:
    edits = (
        "flow.ms1 up.model=poisson",
        "flow.ms2 up.model=tcp",
        "flow.ms2 up.bytes=1 KB",
        "flow.ms2 up.rate=",
        "flow.ms2 up.sizes=",
    )
    question = Question("handover", edits)
    listed = departures(question)
    sent = [flow["streamed"] for flow in kernel(question)["simulate"]["flows"]]
    assert listed[1] is None and sent[1] is None
    for number in (0, 2):
        flow = listed[number]
        assert flow is not None and len(flow) == sent[number]["sent"]
        assert flow == sorted(flow) and flow[0][0] == 0 and flow[-1][0] <= 12e9
    with pytest.raises(LabError, match="more than 1000000 datagrams: shorten the run"):
        departures(Question("handover", ("run.time=2 h", "flow.ms1 up.rate=1 Gbit/s")))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("rate=1 Mbit/s", "rate=1000000bit rate-back=1000000bit"),
        ("delay=80 ms", "delay=80000000ns"),
        ("delay=0.4 us", "delay=400ns"),
        ("loss=0.25", "loss=0.25"),
        ("up=false", "up=false"),
    ],
)
def test_a_relay_is_told_what_a_move_says(change: str, told: str) -> None:
    edits = f"{STILL}move.0.{change}".split("; ")
    (step,) = scenario(Question("handover", tuple(edits)))["graph"]["moves"]
    assert words(step["link"]) == told
