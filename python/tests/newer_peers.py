"""Tests with a peer that the mirror may not give any more (tools/peers).

Without it they do not run, and `make test` counts them by name. No other test may be left out.
"""

from __future__ import annotations

import pytest

from caravan.testbed.peers import missing


def needs(release: str) -> pytest.MarkDecorator:
    """For tests with this release."""
    reason = missing(release)
    return pytest.mark.skipif(reason is not None, reason=f"not run: {reason}")
