"""Folders of a testbed: private while a run lasts, gone with it, and after a kill removed by the
next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from caravan.testbed.folders import LOCK, private_folder, remove_left, temporary_folder
from caravan.testbed.folders import write_private as write
from caravan.testbed.process import Process

PREFIX = "caravan-wireless-"
OWNER = f"""
import sys, time
from caravan.testbed.folders import temporary_folder
with temporary_folder("{PREFIX}") as path:
    (path / "ca.key").write_text("a secret")
    print(path, flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_folder_is_private_and_ends_with_its_run() -> None:
    with temporary_folder(PREFIX) as path:
        assert mode(path) == 0o700
        assert remove_left() == []
    assert not path.exists()


def test_what_a_killed_run_has_left_goes_and_what_a_living_one_has_stays() -> None:
    with (
        subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True) as one,
        subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True) as two,
    ):
        assert one.stdout is not None and two.stdout is not None
        killed, living = (Path(run.stdout.readline().strip()) for run in (one, two) if run.stdout)
        one.send_signal(signal.SIGKILL)
        one.wait()
        assert (killed / "ca.key").exists()
        with temporary_folder(PREFIX):
            assert not killed.exists()
            assert (living / "ca.key").exists()
        two.kill()


def test_folders_without_a_lock_and_links_stay(tmp_path: Path) -> None:
    (tmp_path / f"{PREFIX}young").mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / LOCK).touch()
    (tmp_path / f"{PREFIX}link").symlink_to(elsewhere)
    assert remove_left() == []
    assert (elsewhere / LOCK).exists()
    with pytest.raises(ValueError, match="is none of"), temporary_folder("tmp"):
        pass


def test_secrets_are_read_by_their_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        folder = tmp_path / "named/by/a/user"
        folder.mkdir(parents=True)
        private_folder(folder)
        (folder / "old").write_text("")
        files = [write(folder / "radiusd.conf", "secret"), write(folder / "old", "secret")]
        with Process(["true"], folder / "log") as process:
            process.wait(10)
            files += [process.stdout_path, process.stderr_path]
    finally:
        os.umask(before)
    assert mode(folder) == 0o700
    assert [mode(path) for path in files] == [0o600] * 4
    assert files[1].read_text() == "secret"
