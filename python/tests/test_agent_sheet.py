"""Key sheets as people use them: a browser shows the page and a terminal its text, and another
implementation reads the codes from the picture."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from caravan.testbed.binary import caravan_binary

KEYS = 3
BROWSER_S = 60
HOST = """role = "host"
addresses = ["host.example:51516", "192.0.2.10:51516"]

[targets.office]
identity_file = "target.keys.pub"
address = "192.0.2.20:51516"
"""
TERMINAL = """<!doctype html>
<meta charset="utf-8">
<style>
body {{ margin: 0; background: black; color: white }}
pre {{ margin: 20px; font: 16px/16px "DejaVu Sans Mono", monospace }}
</style>
<pre>{text}</pre>
"""


def caravan(*words: str | Path, folder: Path) -> str:
    argv = [caravan_binary(), "tunnel-agent", *words]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Host that can issue keys."""
    made = tmp_path_factory.mktemp("host")
    for role in ("host", "target"):
        caravan("init", f"{role}.keys", folder=made)
    (made / "host.toml").write_text(HOST)
    return made


def issue(folder: Path, form: str) -> Path:
    sheet = folder / f"sheet-{form}"
    words = ("--user", "alice", "--count", str(KEYS), "--format", form, "--out", sheet)
    caravan("issue", "-c", "host.toml", *words, folder=folder)
    return sheet


def picture(page: Path, scratch: Path, size: tuple[int, int]) -> Path:
    """What a browser shows of a page."""
    browser = shutil.which("chromium")
    assert browser is not None, "make setup installs it"
    made = scratch / "picture.png"
    argv = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    argv += ["--disable-background-networking", "--no-first-run", "--hide-scrollbars"]
    argv += ["--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={scratch / 'profile'}"]
    # Paper is finer than a screen.
    argv += ["--force-device-scale-factor=2", f"--window-size={size[0]},{size[1]}"]
    argv += [f"--screenshot={made}", page.as_uri()]
    subprocess.run(argv, capture_output=True, timeout=BROWSER_S, check=True)
    return made


def codes(shown: Path) -> list[str]:
    """What ZBar reads in a picture."""
    argv = ["zbarimg", "--nodbus", "--quiet", "--raw", "-Sdisable", "-Sqrcode.enable", str(shown)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    # 4: it has found none.
    assert done.returncode in (0, 4), done.stderr
    return done.stdout.splitlines()


def lines_of(text: str) -> list[str]:
    """The lines of a sheet for a machine."""
    return re.findall(r"CTA1:[A-Z2-7]+", text)


def test_the_codes_of_the_page_are_its_lines(folder: Path, tmp_path: Path) -> None:
    page = issue(folder, "html").read_text()
    wanted = lines_of(html.unescape(page))
    assert len(set(wanted)) == KEYS + 1
    for number, line in enumerate(wanted, 1):
        assert codes(alone(page, number, tmp_path)) == [line]
    # A code that lacks rows is none.
    torn = re.sub(r"M\d+,1[0-9]h1v1h-1z", "", page)
    assert codes(alone(torn, 2, tmp_path)) == []


def alone(page: str, number: int, scratch: Path) -> Path:
    """A picture of one code of a page: a reader may miss some of many."""
    others = f"div {{ display: none }} div:nth-of-type({number}) {{ display: inline-block }}"
    shown = scratch / "sheet.html"
    shown.write_text(page.replace("</style>", f"{others}</style>", 1))
    return picture(shown, scratch, (700, 700))


def test_the_codes_on_a_terminal_are_its_lines(folder: Path, tmp_path: Path) -> None:
    text = issue(folder, "terminal").read_text()
    wanted = lines_of(text)
    assert len(set(wanted)) == KEYS + 1
    page = tmp_path / "terminal.html"
    page.write_text(TERMINAL.format(text=html.escape(text)))
    rows = text.count("\n") + 4
    assert set(codes(picture(page, tmp_path, (1600, 16 * rows)))) == set(wanted)
