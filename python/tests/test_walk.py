"""The demonstration's walk: what is made of its capture."""

from __future__ import annotations

from pathlib import Path

import pytest

from caravan.report.walk import chart, write_picture
from caravan.testbed.capture import Frame
from caravan.testbed.mvpn import HOME, HOTEL, VISITED, Move, gaps
from caravan.walk import Walked, told


@pytest.fixture
def walked() -> Walked:
    """100 octets each half second, and nothing for a second after each of two moves."""
    data = [(at, 100) for at in (10.0, 10.5, 11.0, 12.5, 13.0, 13.5, 15.0, 15.5)]
    moves = [Move(HOME, VISITED, 11.2, 11.3), Move(VISITED, HOTEL, 13.7, 13.8)]
    return told(data, moves, [1.5, 1.5])


def test_each_place_has_what_came_there(walked: Walked) -> None:
    told = [(one.place, round(one.since_s, 1), one.received_bytes) for one in walked.visits]
    assert told == [("at home", 0.0, 300), ("outside", 1.2, 300), ("behind a NAT", 3.7, 200)]
    assert [one.gap_s for one in walked.visits] == [None, 1.5, 1.5]
    assert walked.received[0] == (0.0, 100)
    assert walked.received[-1] == (5.5, 800)


def test_the_picture_names_each_place_and_gap(walked: Walked, tmp_path: Path) -> None:
    text = write_picture(walked, tmp_path).read_text()
    for words in ("at home", "outside", "behind a NAT", "gap 1500 ms"):
        assert words in text
    assert (tmp_path / "walk.png").stat().st_size > 1_000
    curve = chart(walked).to_dict()["datasets"]
    assert any(rows[-1].get("megabytes") == 0.0008 for rows in curve.values())


NODE = "02:00:00:00:00:01"


def data_at(time_s: float) -> Frame:
    return Frame(time_s, bytes.fromhex(NODE.replace(":", "")) + bytes(1_000))


def test_a_gap_is_between_the_last_data_before_a_move_and_the_first_after_it() -> None:
    moves = [Move(HOME, VISITED, 11.2, 11.3), Move(VISITED, HOME, 13.0, 13.1)]
    (first, second) = gaps(moves, map(data_at, (10.0, 11.0, 12.5, 14.0)), NODE)
    assert (first.kind, first.seconds) == ("home to visited", 1.5)
    assert (second.kind, second.seconds) == ("visited to home", 1.5)


def test_a_move_after_which_no_data_comes_is_an_error() -> None:
    with pytest.raises(ValueError, match="no data came after the move home to visited"):
        gaps([Move(HOME, VISITED, 11.2, 11.3)], [data_at(11.0)], NODE)
