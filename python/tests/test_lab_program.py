"""Which `caravan` the testbed runs: that of a checkout, or the one installed by a wheel."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace

import pytest

import caravan.study
from caravan import testbed
from caravan.study.text import StudyError
from caravan.testbed import binary


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of programs of an installation that is not a checkout."""
    monkeypatch.delenv(binary.BINARY_VARIABLE, raising=False)
    monkeypatch.setattr(binary, "TOP", tmp_path)
    programs = {"venv": tmp_path / "bin", "user": tmp_path / "home"}
    for folder in programs.values():
        folder.mkdir()
    layout = SimpleNamespace(
        get_default_scheme=lambda: "venv",
        get_preferred_scheme=lambda _: "user",
        get_path=lambda _, scheme: str(programs[scheme]),
    )
    monkeypatch.setattr(binary, "sysconfig", layout)
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


def test_a_machine_without_the_testbeds_programs_says_which(
    wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def enter() -> None:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", "unshare")

    (wheel / "bin/caravan").write_text("")
    monkeypatch.setattr(testbed, "enter", enter)
    with pytest.raises(StudyError) as refused:
        caravan.study.run("road", level="testbed", directory=wheel / "out")
    assert str(refused.value) == "--level testbed: there is no program 'unshare' here"
