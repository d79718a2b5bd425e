"""The ten steps of tunnel agents between namespaces, built and taken down by the agents alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from caravan.testbed.agents import (
    PRIVATE_NETWORK,
    SERVER_ADDRESS,
    Agent,
    AgentNetwork,
    Event,
    agent,
    agent_json,
    read_events,
    write_host,
    write_target,
)
from caravan.testbed.capture import Capture
from caravan.testbed.caravan import Daemon, order
from caravan.testbed.host import Host
from caravan.testbed.traffic import download, make_file, serve_files

FILE_BYTES = 300_000
STEPS = {
    "client": ["requested", "accepted", "up"],
    "host": ["authenticated", "key-taken", "referred", "key-used"],
    "target": ["admitted", "built", "authorized", "up"],
}
"""The lines of each agent's log for one tunnel."""


@dataclass
class Bed:
    """Agents that run, with a gateway of Caravan at Target."""

    network: AgentNetwork
    folder: Path
    digest: str

    def __post_init__(self) -> None:
        self.sheet = self.folder / "sheet.txt"

    def start(self) -> None:
        """Host and Target serve."""
        self.keeper = Agent(self.network.keeper, "host", "-c", f"{self.folder}/host.toml")
        self.target = Agent(self.network.target, "target", "-c", f"{self.folder}/target.toml")
        self.keeper.wait_ready()
        self.target.wait_ready()

    def client(self, key: int, *options: str) -> Agent:
        """Client's agent with a key of the sheet."""
        words = ("--user", "alice", "--sheet", str(self.sheet), "--key", str(key))
        return Agent(self.network.client, "client", *words, *options)

    def fetch(self) -> str:
        """A file of the server, fetched by Client: its digest."""
        return download(self.network.client, f"http://{SERVER_ADDRESS}/file", "file").sha256

    def log(self, role: str) -> list[Event]:
        """What the log of Host or Target says, once its chain is verified."""
        path = self.folder / f"{role}.log"
        agent(self.network.net, "audit", str(path)).check()
        return read_events(path.read_text())


def surroundings(host: Host) -> list[str]:
    """What an agent may change on a machine: links, addresses, routes, rules, tables of nft."""
    commands = ["ip link", "ip address", "ip route show table all", "ip rule", "nft list ruleset"]
    shown = [host.run(command.split(), check=False).stdout for command in commands]
    # Counters and lifetimes change by themselves.
    return [line for text in shown for line in text.splitlines() if "valid_lft" not in line]


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "nat"])
def bed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """Agents, keys and members; `nat`: Client is behind one."""
    output = tmp_path_factory.mktemp("agents")
    folder = output / "folder"
    folder.mkdir()
    with AgentNetwork(output, has_nat=request.param) as network:
        digest = make_file(output / "www/file", FILE_BYTES)
        serve_files(network.server, output / "www", SERVER_ADDRESS)
        prepare(network, folder)
        with gateway(network.target, folder):
            bed = Bed(network, folder, digest)
            bed.start()
            yield bed
            bed.target.stop().check()
            bed.keeper.stop().check()


def prepare(network: AgentNetwork, folder: Path) -> None:
    """Keys of agents, an authority for guests, Target's certificate, one member and his sheet."""
    target, host = network.target, network.keeper
    order(target, "pki", "ca", "--subject", "CN=Guests", "--out", f"{folder}/guests").check()
    words = ("--ca", f"{folder}/guests", "--name", "target.example", "--out", str(folder))
    order(target, "pki", "issue", *words).check()
    for role, where in (("host", host), ("target", target)):
        agent(where, "init", f"{folder}/{role}.keys").check()
    (folder / "tunnels").mkdir(mode=0o700)
    write_host(folder)
    write_target(folder, ['connection = "idle"', 'folder = "tunnels"'])
    member = ("add", "alice@home", "--network", PRIVATE_NETWORK, "--options", "Native,AH,ESP,AH+ESP")
    agent(target, "member", "-c", f"{folder}/target.toml", *member).check()
    words = ("--user", "alice", "--count", "30", "--out", f"{folder}/sheet.txt")
    agent(host, "issue", "-c", f"{folder}/host.toml", *words).check()


def gateway(host: Host, folder: Path) -> Daemon:
    """A gateway that has only what the agent adds."""
    file = folder / "gateway.toml"
    file.write_text(
        f"""[daemon]
include = "{folder}/tunnels"

[connections.idle]
local = {{ certs = ["target.example.pem"], key = "target.example.key", id = "target.example" }}
remote = {{ cacerts = ["guests/ca.pem"], id = "nobody.invalid" }}

[connections.idle.children.none]
local_ts = ["127.0.0.1/32"]
"""
    )
    return Daemon(host, "gateway", file).wait_ready()


@pytest.mark.root
def test_a_key_makes_one_tunnel_and_is_refused_again(bed: Bed) -> None:
    before = {host.role: surroundings(host) for host in bed.network.hosts}
    capture = Capture(bed.network.net, "target0", bed.folder / "wire.pcap")
    with capture, bed.client(1, "--lifetime", "10m") as client:
        up = client.wait_for("up")
        assert bed.fetch() == bed.digest
    assert client.process.wait(5).code == 0
    frames = [frame for frame in capture.frames() if frame.ether_type == 0x0800]
    clear = [frame for frame in frames if SERVER_ADDRESS in (frame.source, frame.destination)]
    assert clear == []
    assert sum(len(frame.packet) for frame in frames if frame.is_udp_esp or frame.protocol == 50) > (
        FILE_BYTES
    )
    bed.target.process.wait_for(lambda: "ended" in bed.target.steps(), "end", 15)
    assert [event.step for event in client.events()] == [*STEPS["client"], "ended"]
    mine = [event for event in bed.log("target") if event.fields["key"] == up.fields["key"]]
    assert [event.step for event in mine] == [*STEPS["target"], "ended"]
    # Who came in, by which key, to what, until when.
    came = next(event for event in mine if event.step == "up")
    assert came.fields["user"] == "alice" and came.fields["host"] == "home"
    assert came.fields["option"] == "ESP" and came.fields["until"] == up.fields["until"]
    told = [event for event in bed.log("host") if event.fields.get("key") == up.fields["key"]]
    assert [event.step for event in told] == STEPS["host"]
    again = bed.client(1)
    done = again.process.wait(30)
    assert done.code == 1 and "the key was used before" in done.stderr
    assert "up" not in again.steps()
    (state,) = [
        key["state"]
        for key in agent_json(bed.network.keeper, "keys", "-c", f"{bed.folder}/host.toml")["keys"]
        if key["handle"] == up.fields["key"]
    ]
    assert state == "used"
    for host in bed.network.hosts:
        assert surroundings(host) == before[host.role], host.role
    assert list((bed.folder / "tunnels").iterdir()) == []


def sha256(path: Path) -> str:
    """The digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
