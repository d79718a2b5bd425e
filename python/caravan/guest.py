"""A user without a machine of his own gets a tunnel to his workplace by a key that works once.

Three tunnel agents in namespaces, a NAT before the borrowed machine, the program's own gateway at
the workplace.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from caravan.testbed.agents import (
    SERVER_ADDRESS,
    Agent,
    AgentNetwork,
    gateway,
    prepare,
    read_events,
)
from caravan.testbed.errors import NamespaceError
from caravan.testbed.traffic import Download, download, serve_files

URL = f"http://{SERVER_ADDRESS}/file"
REFUSAL_S = 20.0
STAMP = re.compile(r"^(\d{4}-\S+Z) ", re.MULTILINE)
ENDS = ("logged-out", "ended")


@dataclass(frozen=True)
class Step:
    """What an agent has done, in seconds since the user asked."""

    role: str
    name: str
    time_s: float


@dataclass(frozen=True)
class Visit:
    """A tunnel: its steps, what was fetched through it, and how a second use of its key ended."""

    steps: list[Step]
    fetched: Download
    refusal: str


def go(output: Path, served: Path) -> Visit:
    """Fetch `file` of the folder `served` through a tunnel that a key makes, and use the key again.

    Logs go to `output`. `NamespaceError` if the key makes a second tunnel.
    """
    folder = output / "folder"
    folder.mkdir(parents=True)
    with ExitStack() as stack:
        network = stack.enter_context(AgentNetwork(output, has_nat=True))
        serve_files(network.server, served, SERVER_ADDRESS)

        def back_end() -> list[str]:
            (folder / "tunnels").mkdir(mode=0o700)
            stack.enter_context(gateway(network.target, folder))
            return ['connection = "idle"', 'folder = "tunnels"']

        prepare(network, folder, back_end)
        agents = [
            stack.enter_context(Agent(host, role, "-c", f"{folder}/{role}.toml"))
            for role, host in (("host", network.keeper), ("target", network.target))
        ]
        for agent in agents:
            agent.wait_ready()
        words = ("--user", "alice", "--sheet", f"{folder}/sheet.txt")
        with Agent(network.client, "client", *words) as client:
            client.wait_for("up")
            agents[1].wait_for("up")
            fetched = download(network.client, URL)
        again = Agent(network.client, "client", *words)
        done = again.process.wait(REFUSAL_S)
        if done.code == 0 or "up" in again.steps():
            raise NamespaceError("a key has made two tunnels")
        told = [client.process.stderr(), *(agent.process.stderr() for agent in agents)]
    return Visit(_steps(told), fetched, done.stderr.strip().splitlines()[-1])


def _steps(logs: list[str]) -> list[Step]:
    """Of the first tunnel, in order of time."""
    found: list[Step] = []
    for line in (line for log in logs for line in log.splitlines()):
        stamp = STAMP.match(line)
        if stamp is None:
            continue
        at = datetime.fromisoformat(stamp[1]).timestamp()
        found += [Step(event.role, event.step, at) for event in read_events(line)]
    found.sort(key=lambda step: step.time_s)
    first = found[0].time_s
    until = next(at for at, step in enumerate(found) if step.name in ENDS)
    return [Step(one.role, one.name, one.time_s - first) for one in found[:until]]
