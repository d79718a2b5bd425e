"""The pages of `docs/vpn-*.md` as steps: what a reader does from the top to the bottom.

A block ```` ```sh HOST ```` is run there and must succeed, or not, where `fails` follows; with
`runs` it is left running, and ends what an earlier one has left there; with `serves` it is another
program that is left running once it says that it is ready. ```` ```toml HOST FILE ````
is written to that file, or with `adds` added to it. Blocks without a host are not run.
"""

from __future__ import annotations

import os
import re
import signal
from dataclasses import dataclass
from pathlib import Path

from caravan.testbed.binary import TOP, caravan_binary
from caravan.testbed.caravan import environment, order
from caravan.testbed.host import Host
from caravan.testbed.process import Process

DOCS = TOP / "docs"
PAGES = sorted(DOCS.glob("vpn-*.md"))
MOBILE_IP = DOCS / "vpn-mobile-ip.md"
READY_S = 15


@dataclass(frozen=True)
class Block:
    """A fenced block: the words after its language, and its text."""

    language: str
    words: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class Put:
    """A sentence "Put A and B into `FOLDER`": samples are links, other files have been made."""

    samples: tuple[Path, ...]
    names: tuple[str, ...]
    folder: str


@dataclass(frozen=True)
class Heading:
    """The title of a section."""

    title: str


@dataclass(frozen=True)
class Setting:
    """Words like "`udp = true` in `[firewall]` and `[mobile.firewall]`": a key of these tables."""

    text: str
    tables: tuple[str, ...]


Step = Block | Put | Heading | Setting

STEP = re.compile(
    r"^```(?P<language>\w+)(?P<words>[^\n]*)\n(?P<text>.*?)^```$"
    r"|^#+ (?P<title>[^\n]+)$"
    r"|`(?P<key>\w+ = [^`]+)`\s+in\s+(?P<tables>`\[[\w.]+\]`(?:(?:,|\s+and)\s+`\[[\w.]+\]`)*)"
    r"|\bPut (?P<what>(?:[^.:]|\.\S)*?)\s+into\s+`(?P<folder>/[^`]+)`",
    re.M | re.S,
)


def steps(page: Path) -> list[Step]:
    """The steps of a page, in order."""
    return [_step(found, page) for found in STEP.finditer(page.read_text())]


def _step(found: re.Match[str], page: Path) -> Step:
    if found["language"]:
        return Block(found["language"], tuple(found["words"].split()), found["text"])
    if found["title"]:
        return Heading(found["title"])
    if found["key"]:
        return Setting(found["key"], tuple(re.findall(r"\[([\w.]+)\]", found["tables"])))
    samples = re.findall(r"\]\((\S+?)\)", found["what"])
    names = re.findall(r"`(\S+?)`", found["what"])
    paths = tuple((page.parent / sample).resolve() for sample in samples)
    return Put(paths, tuple(names), found["folder"])


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page."""
    return [step for step in steps(page) if isinstance(step, Block)]


def obey(host: Host, block: Block, folder: Path, running: dict[str, Process]) -> str:
    """Run a block of commands in a folder, and return what it says. `running`: what is left running
    on each host."""
    path = f"export PATH={caravan_binary().parent}:$PATH"
    how = block.words[1:]
    argv = ["sh", "-euc", f"cd '{folder}'\n{path}\n{block.text}"]
    if how == ("runs",):
        if host.role in running:
            # As ^C at a terminal.
            os.killpg(running[host.role].pid, signal.SIGINT)
            running[host.role].wait(READY_S)
        process = host.popen(argv, environment(host))
        process.wait_for(lambda: order(host, "status").code == 0, block.text, READY_S)
        running[host.role] = process
        return ""
    if how == ("serves",):
        server = host.popen(argv, environment(host))
        server.wait_for(lambda: "Ready to process" in server.stdout(), block.text, READY_S)
        return ""
    done = host.run(argv, 120, environment(host), check=False)
    assert (done.code == 0) is (how != ("fails",)), f"{block.text}\n{done.stdout}\n{done.stderr}"
    return done.stdout
