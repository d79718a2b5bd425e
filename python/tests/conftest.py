"""Fixtures shared by the suites. Tests marked `root` run in private namespaces."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from caravan.testbed import enter
from caravan.testbed.pki import CaravanAuthority
from caravan.threeways.measurement import Keys


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Enter private namespaces before the first fixture if any selected test needs them."""
    if any(item.get_closest_marker("root") for item in items):
        enter()


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CaravanAuthority]:
    """One certificate authority for the whole run, because generating a key takes a good part of a
    second."""
    yield CaravanAuthority(tmp_path_factory.mktemp("pki"))


@pytest.fixture(scope="module")
def keys(authority: CaravanAuthority) -> Keys:
    """The gateway's and the station's certificates."""
    return Keys.of(authority)


@pytest.fixture
def version() -> int:
    """The version of IKE; a test that has IKEv1, or both, is parametrized with it."""
    return 2


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """The folder of a test's network for logs; pytest keeps it when the test fails."""
    return tmp_path / "logs"
