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

from caravan.testbed.errors import NamespaceError
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


def test_no_secret_goes_through_a_link_or_into_what_is_no_plain_file(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    victim.chmod(0o644)
    (tmp_path / "link").symlink_to(victim)
    (tmp_path / "dangling").symlink_to(tmp_path / "new")
    (tmp_path / "second name").hardlink_to(victim)
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "dangling", "second name", "pipe"):
        with pytest.raises(NamespaceError, match="is no file of its own"):
            write(tmp_path / name, "secret")
    # Nor do the logs of a program.
    for name in ("link", "pipe"):
        (tmp_path / name).rename(tmp_path / "log.out")
        with pytest.raises(NamespaceError, match="is no file of its own"):
            Process(["true"], tmp_path / "log")
        (tmp_path / "log.out").unlink()
    assert victim.read_text() == "untouched" and mode(victim) == 0o644
    assert not (tmp_path / "new").exists()


def test_a_folder_of_another_user_or_behind_a_link_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there").mkdir(mode=0o755)
    (tmp_path / "link").symlink_to(tmp_path / "there")
    (tmp_path / "file").touch()
    for name in ("link", "file"):
        with pytest.raises((NamespaceError, FileExistsError)):
            private_folder(tmp_path / name)
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    with pytest.raises(NamespaceError, match="belongs to another user"):
        private_folder(tmp_path / "there")
    with pytest.raises(NamespaceError, match="is no file of its own"):
        write(tmp_path / "there/old", "secret")
    assert mode(tmp_path / "there") == 0o755


REMOVING = f"""
import sys, tempfile
from pathlib import Path
from caravan.testbed.folders import LOCK, remove_left
for _ in range(150):
    for _ in range(5):
        (Path(tempfile.mkdtemp(prefix="{PREFIX}")) / LOCK).touch()
    remove_left()
"""


def test_two_testbeds_remove_what_was_left_at_once(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", REMOVING]
    with subprocess.Popen(argv) as one, subprocess.Popen(argv) as two:
        assert (one.wait(), two.wait()) == (0, 0)
