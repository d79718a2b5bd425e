"""Fixtures shared by the suites. Tests marked `root` enter a private corner of the machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from caravan.testbed import enter
from caravan.testbed.connection import PublicKey
from caravan.testbed.pki import CaravanAuthority
from caravan.threeways.measurement import Keys


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Isolate before the first fixture when any chosen test needs it."""
    if any(item.get_closest_marker("root") for item in items):
        enter()


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CaravanAuthority]:
    """One certificate authority for the run: keys cost a good part of a second each."""
    yield CaravanAuthority(tmp_path_factory.mktemp("pki"))


@pytest.fixture(scope="module")
def keys(authority: CaravanAuthority) -> Keys:
    """The gateway's and the station's certificates."""
    return Keys(
        PublicKey(authority.issue("sg.example"), authority),
        PublicKey(authority.issue("ms.example"), authority),
    )


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """Where a test's network writes its logs; pytest keeps it when the test fails."""
    return tmp_path / "logs"
