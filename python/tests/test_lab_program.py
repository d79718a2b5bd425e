"""Which `caravan` the testbed runs: a checkout's, or the one that a wheel has brought."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

import caravan.study
from caravan.study.text import StudyError
from caravan.testbed import binary


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of programs of an installation that is no checkout."""
    monkeypatch.delenv(binary.BINARY_VARIABLE, raising=False)
    monkeypatch.setattr(binary, "TOP", tmp_path)
    programs = {"venv": tmp_path / "bin", "user": tmp_path / "home"}
    for folder in programs.values():
        folder.mkdir()
    monkeypatch.setattr(sysconfig, "get_default_scheme", lambda: "venv")
    monkeypatch.setattr(sysconfig, "get_preferred_scheme", lambda _: "user")
    monkeypatch.setattr(sysconfig, "get_path", lambda _, scheme: str(programs[scheme]))
    return tmp_path


@pytest.mark.parametrize("folder", ["bin", "home"])
def test_a_wheel_has_its_own_program(folder: str, wheel: Path) -> None:
    program = wheel / folder / "caravan"
    program.write_text("")
    assert binary.caravan_binary() == program


def test_a_testbed_without_a_program_says_so(wheel: Path) -> None:
    with pytest.raises(StudyError) as refused:
        caravan.study.run("road", level="testbed", directory=wheel / "out")
    said = str(refused.value)
    assert said.startswith(f"--level testbed: no caravan program at {wheel}/bin/caravan: ")
    assert not (wheel / "out").exists()
