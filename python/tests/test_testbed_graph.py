"""A graph in namespaces and its simulation: the same datagrams, the same bytes on each link."""

from __future__ import annotations

from pathlib import Path

import pytest

from caravan.lab.core import Question, scenario
from caravan.testbed.graph import NotForTestbed, link_plan
from caravan.threeways.flows import Counted, check, two_ways

BYTES_TOLERANCE = 0.05
"""The difference in bytes on a link that simulation and testbed may have."""
LATE = 12
"""Datagrams that may be lost because the operating system notices a move later than the simulation:
at 100 per second, 120 ms."""
FEW_BYTES = 5_000
"""A link that carried almost nothing may differ by this many bytes."""

STILL = (
    'link.cell-a.from=["ms1"]; link.cell-b.from=["ms2"]; move.0.node=; move.0.to=; '
    "move.0.link=cell-b; move.0.loss=0.1"
)
"""No station moves, and a link changes."""


@pytest.mark.root
def test_a_station_that_moves_loses_the_same_datagrams_in_simulation_and_testbed(
    tmp_path: Path,
) -> None:
    question = Question("handover")
    simulate, measured = two_ways(question, scenario(question), tmp_path)
    assert measured is not None
    for one, other in zip(simulate.flows, measured.flows, strict=True):
        print(one.name, one.sent, one.received, one.gaps, other.received, other.gaps)
        assert (one.name, one.sent) == (other.name, other.sent)
        _same_gaps(one, other)
    for name, counts in simulate.link_bytes.items():
        for way, direction in enumerate(("up", "down")):
            ours, theirs = counts[way], measured.link_bytes[name][way]
            print(name, direction, ours, theirs)
            limit = max(BYTES_TOLERANCE * theirs, FEW_BYTES)
            assert abs(ours - theirs) <= limit, (name, direction)


@pytest.mark.root
@pytest.mark.parametrize("policy", ["3des-md5", "none"])
def test_stations_reach_the_server_by_the_gateway_s_own_address(
    policy: str, tmp_path: Path
) -> None:
    edits = f"policy={policy}; {STILL}; move.0.loss=; move.0.up=true; flow.ms2 down.from=ms2"
    question = Question("handover", (*edits.split("; "), "flow.ms2 down.to=sg", "run.time=6 s"))
    levels = two_ways(question, scenario(question), tmp_path)
    for level in levels:
        assert level is not None
        assert [flow.received for flow in level.flows] == [flow.sent for flow in level.flows]


def _same_gaps(simulate: Counted, measured: Counted) -> None:
    """Nothing is missing except around the move.

    A simulated move takes no time, so what leaves then may all arrive. The commands of the testbed
    take the time of a few datagrams.
    """
    if simulate.gaps:
        assert len(simulate.gaps) == len(measured.gaps), (simulate.gaps, measured.gaps)
        for one, other in zip(simulate.gaps, measured.gaps, strict=True):
            assert abs(one[0] - other[0]) <= 2, (one, other)
            assert -2 <= other[1] - one[1] <= LATE, (one, other)
    else:
        assert sum(last - first + 1 for first, last in measured.gaps) <= LATE, measured.gaps
    assert measured.runs[0][0] == 0 and measured.runs[-1][1] == measured.sent - 1


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        ("flow.ms1 up.model=poisson", "flow.ms1 up.model: poisson: the testbed of a graph sends"),
        (STILL, "goes up and down alone"),
        ("policy=3des-md5", "flow.ms2 down.from: in transport mode the testbed's stations send"),
        ("link.cell-a.reorder=0.1", "link.cell-a.reorder: not in the testbed"),
        ("link.cell-a.rate={ up = '1 Mbit/s', down = '2 Mbit/s' }", "equally fast both ways"),
    ],
)
def test_what_namespaces_cannot_show_of_a_graph_is_named(edits: str, said: str) -> None:
    with pytest.raises(NotForTestbed, match=said):
        _check(Question("handover", tuple(edits.split("; "))))


@pytest.mark.parametrize(
    ("queue", "option"), [("60 KB", "60000b"), ("1 KB", "1000b"), ("", "100000")]
)
def test_a_queue_holds_as_many_bytes_as_in_simulation(queue: str, option: str) -> None:
    resolved = scenario(Question("handover", (f"link.cell-a.queue={queue}",)))
    plan = link_plan(resolved["graph"]["links"][0])
    assert plan is not None and plan.queue == option


def _check(question: Question) -> None:
    resolved = scenario(question)
    for link in resolved["graph"]["links"]:
        link_plan(link)
    check(resolved["scenario"])
