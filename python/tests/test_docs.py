"""The pages of `docs/vpn-*.md`: their commands are run, on the hosts that they name.

A block ```` ```sh HOST ```` is run there and must succeed, or not, where `fails` follows; with
`runs` it is left running. ```` ```toml HOST FILE ```` is written to that file. Hosts share one
folder, which stands for carrying files from one to the other. A block of Python is a whole program
that must succeed. Other blocks are not run.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.binary import caravan_binary
from caravan.testbed.caravan import environment, order
from caravan.testbed.host import Host
from caravan.testbed.remote_access import SERVER_ADDRESS
from caravan.testbed.traffic import make_file, serve_files

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(DOCS.glob("vpn-*.md"))
README = DOCS.parent / "README.md"


@dataclass(frozen=True)
class Block:
    """A fenced block: the words after its language, and its text."""

    language: str
    words: tuple[str, ...]
    text: str


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page."""
    found = re.findall(r"^```(\w+)([^\n]*)\n(.*?)^```$", page.read_text(), re.M | re.S)
    return [Block(language, tuple(words.split()), text) for language, words, text in found]


def test_the_readme_names_every_page() -> None:
    text = README.read_text()
    pages = [*PAGES, *DOCS.glob("lab*.md")]
    assert [page.name for page in pages if f"docs/{page.name}" not in text] == []


@pytest.mark.root
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_do_what_they_say(page: Path, output: Path) -> None:
    folder = output / "folder"
    folder.mkdir(parents=True)
    make_file(output / "www/file", 100_000)
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        serve_files(network.server, output / "www", SERVER_ADDRESS)
        hosts = {"client": network.ms, "gateway": network.sg}
        hosts |= {"link": network.server, "authority": network.server}
        for block in blocks(page):
            if block.language == "python":
                subprocess.run([sys.executable, "-c", block.text], check=True, timeout=120)
            if not block.words:
                continue
            host, rest = hosts[block.words[0]], block.words[1:]
            if block.language == "toml":
                (folder / rest[0]).write_text(block.text)
            else:
                obey(host, block, rest, folder)


def obey(host: Host, block: Block, rest: tuple[str, ...], folder: Path) -> None:
    """Run a block of commands."""
    path = f"export PATH={caravan_binary().parent}:$PATH"
    argv = ["sh", "-euc", f"cd '{folder}'\n{path}\n{block.text}"]
    if rest == ("runs",):
        process = host.popen(argv, environment(host))
        process.wait_for(lambda: order(host, "status").code == 0, block.text, 15)
        return
    done = host.run(argv, 120, environment(host), check=False)
    assert (done.code == 0) is (rest != ("fails",)), f"{block.text}\n{done.stdout}\n{done.stderr}"
