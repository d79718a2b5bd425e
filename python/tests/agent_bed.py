"""What the tests of tunnel agents share: agents that run in namespaces, and what they build tunnels
through."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from caravan.testbed.agents import (
    SERVER_ADDRESS,
    Agent,
    AgentFiles,
    AgentNetwork,
    Event,
    agent,
    agent_json,
    gateway,
    prepare,
    read_events,
    write_host,
    write_target,
)
from caravan.testbed.caravan import Daemon
from caravan.testbed.errors import TimedOut
from caravan.testbed.host import Host
from caravan.testbed.libreswan import Pluto
from caravan.testbed.strongswan import BareStrongSwan
from caravan.testbed.traffic import download, make_file, serve_files

FILE_BYTES = 300_000
CLIENT = ["requested", "accepted", "up"]
HOST = ["authenticated", "key-taken", "referred", "authorized", "key-used"]
TARGET = ["admitted", "built", "authorized", "up"]
"""The lines of each agent's log for one tunnel."""
KEYS = 40
REFERRAL_S = 16.0
"""How long a message to Target, and its end of a tunnel, may take: Host repeats the message up to
7.5 s after the first."""
SETTLED_S = 20.0
"""How long machines may take to be as before."""


@dataclass(frozen=True)
class Pair:
    """What builds the tunnel at each end."""

    client: str
    target: str
    has_nat: bool = False

    def __str__(self) -> str:
        return f"{self.client}-{self.target}{'-nat' if self.has_nat else ''}"


PLAIN = Pair("caravan", "caravan")
TEXTS = Pair("files", "files")
"""Back-ends that only write texts."""


@dataclass
class Surroundings:
    """What agents may change on each machine."""

    machines: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, network: AgentNetwork) -> Surroundings:
        """Those of this moment."""
        return cls({host.role: surroundings(host) for host in network.hosts})

    def changes(self, after: Surroundings) -> list[str]:
        """What came (`+`) and what went (`-`); nothing if all is as before."""
        found = []
        for role, lines in self.machines.items():
            now = after.machines[role]
            found += [f"+ {role}: {line}" for line in now if line not in lines]
            found += [f"- {role}: {line}" for line in lines if line not in now]
        return found


class Bed:
    """Agents that run, and what they build tunnels through."""

    def __init__(self, output: Path, pair: Pair, files: AgentFiles | None = None) -> None:
        self.pair = pair
        self.files = files or AgentFiles()
        self.folder = output / "folder"
        self.folder.mkdir(parents=True)
        self.sheet = self.folder / "sheet.txt"
        self.pluto: Pluto | None = None
        self.gateway: Daemon | None = None
        self._key = 0
        self._ends = contextlib.ExitStack()
        self._more: Mapping[str, str] = {}
        self._back_end: Sequence[str] = ()
        self.network = self._ends.enter_context(AgentNetwork(output, has_nat=pair.has_nat))
        self.digest = make_file(output / "www/file", FILE_BYTES)
        serve_files(self.network.server, output / "www", SERVER_ADDRESS)
        self._prepare()
        self.keeper = self.start("host")
        self.target = self.start("target")
        self.idle = Surroundings.of(self.network)
        """What there is without a tunnel: that of an earlier test may still be going down."""

    def _prepare(self) -> None:
        """Keys of agents, an authority for guests, Target's certificate, one member, his sheet."""

        def back_end() -> Sequence[str]:
            self._back_end = self._target_end()
            return self._back_end

        prepare(self.network, self.folder, back_end, keys=KEYS, files=self.files)
        lines = ['role = "client"', *self.files.legacy(), *self._client_end(), ""]
        (self.folder / "client.toml").write_text("\n".join(lines))

    def _texts(self, name: str) -> list[str]:
        (self.folder / name).mkdir(mode=0o700)
        return ['kind = "files"', 'writer = "caravan"', f'folder = "{name}"']

    def _target_end(self) -> list[str]:
        if self.pair.target == "files":
            return self._texts("target")
        if self.pair.target == "strongswan":
            charon = self._ends.enter_context(BareStrongSwan(self.network.target))
            return ['kind = "strongswan"', f'socket = "{charon.socket}"']
        if self.pair.target == "libreswan":
            self.pluto = self._ends.enter_context(Pluto(self.network.target))
            self._more = self.pluto.environment
            return ['kind = "libreswan"', f'folder = "{self.pluto.folder}"']
        (self.folder / "tunnels").mkdir(mode=0o700)
        self.start_gateway()
        return ['connection = "idle"', 'folder = "tunnels"']

    def _client_end(self) -> list[str]:
        if self.pair.client == "files":
            return ["[back_end]", *self._texts("client")]
        if self.pair.client == "strongswan":
            charon = self._ends.enter_context(BareStrongSwan(self.network.client))
            return ["[back_end]", 'kind = "strongswan"', f'socket = "{charon.socket}"']
        return []

    def start(self, role: str) -> Agent:
        """Start the agent of Host or Target."""
        is_target = role == "target"
        machine = self.network.target if is_target else self.network.keeper
        more = self._more if is_target else None
        return Agent(machine, role, "-c", f"{self.folder}/{role}.toml", more=more).wait_ready()

    def start_gateway(self) -> None:
        """Start Target's gateway. It ends with the bed."""
        self.gateway = gateway(self.network.target, self.folder)
        self._ends.enter_context(self.gateway)

    def restart(self, files: AgentFiles | None = None) -> None:
        """End both agents, and start them again, with other files if there are any."""
        for one in (self.target, self.keeper):
            one.stop()
        if files is not None:
            self.files = files
            write_host(self.folder, files)
            write_target(self.folder, self._back_end, files)
        self.keeper = self.start("host")
        self.target = self.start("target")

    def restart_target(self) -> None:
        """End Target's agent, which takes its ends down, and start it again."""
        self.target.stop()
        self.target = self.start("target")

    def next_key(self) -> int:
        """The number of a key that is not used yet."""
        self._key += 1
        return self._key

    def client_words(self, key: int, *options: str) -> list[str]:
        """The arguments of Client's agent with a key of the sheet."""
        words = ["-c", f"{self.folder}/client.toml", "--user", "alice", "--key", str(key)]
        return [*words, "--sheet", str(self.sheet), *options]

    def client(self, key: int, *options: str) -> Agent:
        """Client's agent with a key of the sheet."""
        return Agent(self.network.client, "client", *self.client_words(key, *options))

    def fetch(self, address: str = SERVER_ADDRESS) -> str:
        """A file of the server, fetched by Client: its digest."""
        return download(self.network.client, f"http://{address}/file", "file").sha256

    def wait_for_target(self, step: str, key: str) -> None:
        """Wait until Target has done a step with a key."""

        def is_done() -> bool:
            events = self.target.events()
            return any(one.step == step and one.fields.get("key") == key for one in events)

        self.target.process.wait_for(is_done, f"{step} at Target", 20)

    def log(self, role: str, key: str) -> list[Event]:
        """What the verified log of Host or Target says of a key."""
        path = self.folder / f"{role}.log"
        agent(self.network.net, "audit", str(path)).check()
        return [event for event in read_events(path.read_text()) if event.fields.get("key") == key]

    def settled_steps(self, key: str, *, was_referred: bool) -> set[str]:
        """What Target has done with a key, once it does nothing more by itself for a while.
        `was_referred`: Host may have told it of the key a moment ago."""
        found: set[str] = set()

        def is_settled() -> bool:
            found.update(event.step for event in self.log("target", key))
            return bool(found & {"built", "refused", "ended"})

        if was_referred:
            with contextlib.suppress(TimedOut):
                self.target.process.wait_for(is_settled, "an end", REFERRAL_S)
        # It is at work.
        if not is_settled() and found:
            self.target.process.wait_for(is_settled, "an end", SETTLED_S)
        return found

    def state(self, handle: str) -> str:
        """The state of a key in Host's database."""
        keys = agent_json(self.network.keeper, "keys", "-c", f"{self.folder}/host.toml")["keys"]
        (state,) = [key["state"] for key in keys if key["handle"] == handle]
        return str(state)

    def wait_idle(self, what: str, timeout_s: float = SETTLED_S) -> None:
        """Wait until all machines are as they were without a tunnel, and say what differs."""
        changes: list[str] = []

        def is_idle() -> bool:
            changes[:] = self.idle.changes(Surroundings.of(self.network))
            return changes == []

        with contextlib.suppress(TimedOut):
            self.target.process.wait_for(is_idle, "the end of all", timeout_s)
        assert changes == [], f"{what}: {changes}"

    def close(self) -> None:
        """End all."""
        for one in (self.target, self.keeper):
            one.stop()
        self._ends.close()


def surroundings(host: Host) -> list[str]:
    """Links, addresses, routes, rules and tables of nft of a machine."""
    commands = ["ip link", "ip address", "ip route show table all", "ip rule", "nft list ruleset"]
    shown = [host.run(command.split(), check=False).stdout for command in commands]
    # Lifetimes change by themselves, and the kernel may not know yet that a link is up.
    lines = [line for text in shown for line in text.splitlines() if "valid_lft" not in line]
    return [line.replace("state UNKNOWN", "state UP") for line in lines]
