"""Progress of long work, with and without a terminal."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from caravan.progress import EVERY_S, Lines


def test_without_a_terminal_a_line_is_written_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    said = io.StringIO()
    with Lines(Console(file=said), 4.0, "measuring") as lines:
        for after in (EVERY_S / 2, EVERY_S, EVERY_S + 1, 2 * EVERY_S + 1):
            now[0] = after
            lines.advance(1.0)
    assert said.getvalue().splitlines() == [
        "measuring: 50% after 30 s",
        "measuring: 100% after 61 s",
    ]
