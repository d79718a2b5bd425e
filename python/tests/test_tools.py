"""`tools/setup` and `tools/test`, as far as they can be tested without root and network."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]


def run_setup(path: Path, part: str) -> subprocess.CompletedProcess[str]:
    """Runs `tools/setup` with one folder as the search path."""
    return subprocess.run(
        ["bash", str(TOP / "tools" / "setup"), part],
        env={"PATH": str(path), "HOME": str(path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def programs_without(folder: Path, hidden: set[str]) -> Path:
    """A folder with a link to each of the machine's programs, except the hidden ones."""
    folder.mkdir()
    for place in ("/usr/bin", "/bin"):
        for name in os.listdir(place):
            link = folder / name
            if name not in hidden and not link.is_symlink():
                link.symlink_to(Path(place) / name)
    return folder


def write_program(path: Path, body: str) -> None:
    path.unlink(missing_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def test_setup_refuses_an_unknown_part() -> None:
    done = run_setup(Path("/usr/bin"), "everything")
    assert done.returncode == 1
    assert done.stderr == 'setup: unknown part "everything": build or all\n'


def test_setup_without_root_prints_the_line_and_fails(tmp_path: Path) -> None:
    path = programs_without(tmp_path / "bin", {"iperf3", "sudo"})
    write_program(path / "id", "echo 1000")
    write_program(path / "apt-get", f"touch {tmp_path}/called")
    done = run_setup(path, "all")
    assert done.returncode == 1
    line = next(line for line in done.stdout.splitlines() if "apt-get install" in line)
    assert "iperf3" in line.split()
    assert done.stderr.startswith("setup: no root and no sudo")
    assert not (tmp_path / "called").exists()


def test_setup_names_what_is_missing_on_another_system(tmp_path: Path) -> None:
    path = programs_without(tmp_path / "bin", {"curl", "apt-get"})
    done = run_setup(path, "all")
    assert done.returncode == 1
    assert done.stderr.startswith("setup: missing:")
    assert "curl" in done.stderr


def test_ruff_is_handed_every_python_text() -> None:
    lines = (TOP / "tools" / "test").read_text().splitlines()
    calls = [line.split() for line in lines if "/ruff " in line]
    assert len(calls) == 2
    listed = subprocess.run(
        ["git", "ls-files", "*.py", "*.pyi", "*.ipynb"],
        cwd=TOP,
        capture_output=True,
        text=True,
        check=False,
    )
    # A copy without its git history still has the notebooks.
    folders = {name.partition("/")[0] for name in listed.stdout.split()} | {"python", "notebooks"}
    for call in calls:
        assert folders <= set(call), call
