"""Frames of IKE in a capture."""

from __future__ import annotations

from collections.abc import Iterable

from caravan.testbed.capture import Frame


def first_ones(frames: Iterable[Frame]) -> list[Frame]:
    """The frames of IKE without those whose message was there before: whoever waits too long for
    an answer sends its message again, and is answered again."""
    found: dict[bytes, Frame] = {}
    for frame in frames:
        message = frame.ike
        assert message is not None
        found.setdefault(message, frame)
    return list(found.values())
