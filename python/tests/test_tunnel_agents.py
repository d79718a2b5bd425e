"""The ten steps of tunnel agents between namespaces, built and taken down by the agents alone."""

from __future__ import annotations

import contextlib
import hashlib
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from doc_pages import DOCS, blocks

from caravan.testbed.agents import (
    PRIVATE_NETWORK,
    SERVER_ADDRESS,
    TARGET_ADDRESS,
    WITHOUT_RIGHTS,
    Agent,
    AgentNetwork,
    Event,
    agent,
    agent_json,
    gateway,
    prepare,
    read_events,
)
from caravan.testbed.binary import caravan_binary
from caravan.testbed.capture import IPPROTO_AH, IPPROTO_ESP, IPPROTO_TCP, IPPROTO_UDP, Capture
from caravan.testbed.caravan import environment, order
from caravan.testbed.errors import TimedOut
from caravan.testbed.host import Host
from caravan.testbed.inventory import Inventory
from caravan.testbed.process import Process
from caravan.testbed.strongswan import BareStrongSwan
from caravan.testbed.traffic import download, make_file, serve_files

SOFTHSM = "/usr/lib/softhsm/libsofthsm2.so"
FILE_BYTES = 300_000
ETHER_TYPE_IPV4 = 0x0800
CLIENT = ["requested", "accepted", "up"]
HOST = ["authenticated", "key-taken", "referred", "authorized", "key-used"]
TARGET = ["admitted", "built", "authorized", "up"]
"""The lines of each agent's log for one tunnel."""
KEYS = 40


@dataclass(frozen=True)
class Pair:
    """What builds the tunnel at each end."""

    client: str
    target: str
    has_nat: bool = False

    def __str__(self) -> str:
        return f"{self.client}-{self.target}{'-nat' if self.has_nat else ''}"


PLAIN = Pair("caravan", "caravan")
PAIRS = [
    Pair("caravan", "caravan", has_nat=True),
    Pair("caravan", "strongswan"),
    Pair("strongswan", "caravan", has_nat=True),
    Pair("strongswan", "strongswan"),
]


class Bed:
    """Agents that run, and what they build tunnels through."""

    def __init__(self, output: Path, pair: Pair) -> None:
        self.pair = pair
        self.folder = output / "folder"
        self.folder.mkdir(parents=True)
        self.sheet = self.folder / "sheet.txt"
        self._key = 0
        self._ends = contextlib.ExitStack()
        self.network = self._ends.enter_context(AgentNetwork(output, has_nat=pair.has_nat))
        self.digest = make_file(output / "www/file", FILE_BYTES)
        serve_files(self.network.server, output / "www", SERVER_ADDRESS)
        self._prepare()
        self.keeper = Agent(self.network.keeper, "host", "-c", f"{self.folder}/host.toml")
        self.target = Agent(self.network.target, "target", "-c", f"{self.folder}/target.toml")
        self.keeper.wait_ready()
        self.target.wait_ready()
        self.idle = self.surroundings()
        """What there is without a tunnel: that of an earlier test may still be going down."""

    def _prepare(self) -> None:
        """Keys of agents, an authority for guests, Target's certificate, one member, his sheet."""
        prepare(self.network, self.folder, self._target_end, keys=KEYS)
        lines = self._client_end()
        (self.folder / "client.toml").write_text("\n".join(['role = "client"', *lines, ""]))

    def _texts(self, name: str) -> list[str]:
        (self.folder / name).mkdir(mode=0o700)
        return ['kind = "files"', 'writer = "caravan"', f'folder = "{name}"']

    def _target_end(self) -> list[str]:
        if self.pair.target == "files":
            return self._texts("target")
        if self.pair.target == "strongswan":
            charon = self._ends.enter_context(BareStrongSwan(self.network.target))
            return ['kind = "strongswan"', f'socket = "{charon.socket}"']
        (self.folder / "tunnels").mkdir(mode=0o700)
        self._ends.enter_context(gateway(self.network.target, self.folder))
        return ['connection = "idle"', 'folder = "tunnels"']

    def _client_end(self) -> list[str]:
        if self.pair.client == "files":
            return ["[back_end]", *self._texts("client")]
        if self.pair.client == "strongswan":
            charon = self._ends.enter_context(BareStrongSwan(self.network.client))
            return ["[back_end]", 'kind = "strongswan"', f'socket = "{charon.socket}"']
        return []

    def next_key(self) -> int:
        """The number of a key that is not used yet."""
        self._key += 1
        return self._key

    def client(self, key: int, *options: str) -> Agent:
        """Client's agent with a key of the sheet."""
        words = ("-c", f"{self.folder}/client.toml", "--user", "alice", "--key", str(key))
        sheet = ("--sheet", str(self.sheet))
        return Agent(self.network.client, "client", *words, *sheet, *options)

    def fetch(self) -> str:
        """A file of the server, fetched by Client: its digest."""
        return download(self.network.client, f"http://{SERVER_ADDRESS}/file", "file").sha256

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
        return [event for event in read_events(path.read_text()) if event.fields["key"] == key]

    def state(self, handle: str) -> str:
        """The state of a key in Host's database."""
        keys = agent_json(self.network.keeper, "keys", "-c", f"{self.folder}/host.toml")["keys"]
        (state,) = [key["state"] for key in keys if key["handle"] == handle]
        return str(state)

    def surroundings(self) -> dict[str, list[str]]:
        """What agents may change on each machine."""
        return {host.role: surroundings(host) for host in self.network.hosts}

    def close(self) -> None:
        """End all."""
        for one in (self.target, self.keeper):
            one.stop()
        self._ends.close()


def surroundings(host: Host) -> list[str]:
    """Links, addresses, routes, rules and tables of nft of a machine."""
    commands = ["ip link", "ip address", "ip route show table all", "ip rule", "nft list ruleset"]
    shown = [host.run(command.split(), check=False).stdout for command in commands]
    # Lifetimes change by themselves.
    return [line for text in shown for line in text.splitlines() if "valid_lft" not in line]


@pytest.fixture(scope="module", params=PAIRS, ids=str)
def bed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """Each pair of ends."""
    made = Bed(tmp_path_factory.mktemp("agents"), request.param)
    yield made
    made.close()


@pytest.mark.root
def test_a_key_makes_one_tunnel_and_is_refused_again(bed: Bed) -> None:
    before = bed.surroundings()
    number = bed.next_key()
    capture = Capture(bed.network.net, "target0", bed.folder / f"{number}.pcap")
    with capture, bed.client(number, "--lifetime", "10m") as client:
        up = client.wait_for("up")
        bed.wait_for_target("up", up.fields["key"])
        assert bed.fetch() == bed.digest
    assert client.process.wait(5).code == 0
    assert [event.step for event in client.events()] == [*CLIENT, "ended"]
    frames = [frame for frame in capture.frames() if frame.ether_type == ETHER_TYPE_IPV4]
    assert not [one for one in frames if SERVER_ADDRESS in (one.source, one.destination)]
    esp = [one for one in frames if one.is_udp_esp or one.protocol == IPPROTO_ESP]
    assert sum(len(frame.packet) for frame in esp) > FILE_BYTES
    key = up.fields["key"]
    bed.wait_for_target("ended", key)
    # Who came in, by which key, to what, until when.
    told = bed.log("target", key)
    assert [event.step for event in told] == [*TARGET, "ended"]
    came = next(event for event in told if event.step == "up").fields
    assert (came["user"], came["host"], came["option"]) == ("alice", "home", "ESP")
    assert came["until"] == up.fields["until"] and came["tunnel"] == up.fields["tunnel"]
    assert [event.step for event in bed.log("host", key)] == HOST
    again = bed.client(number)
    done = again.process.wait(30)
    assert done.code == 1 and "the key was used before" in done.stderr
    assert "up" not in again.steps()
    assert bed.state(key) == "used"
    assert bed.surroundings() == before


@pytest.mark.root
@pytest.mark.parametrize("bed", PAIRS[1:], ids=str, indirect=True)
def test_an_option_that_an_end_lacks_is_refused_before_the_key_is_spent(bed: Bed) -> None:
    number = bed.next_key()
    refused = bed.client(number, "--objectives", "NonRepudiation")
    done = refused.process.wait(30)
    assert done.code == 1 and "the key is not spent" in done.stderr
    with bed.client(number) as client:
        assert bed.state(client.wait_for("up").fields["key"]) == "used"


@pytest.mark.root
@pytest.mark.parametrize("bed", [PLAIN], ids=str, indirect=True)
@pytest.mark.parametrize(
    ("objectives", "option", "protocols"),
    [
        ("none", "Native", {IPPROTO_TCP}),
        ("NonRepudiation", "AH", {IPPROTO_AH}),
        ("DataExchangeConf", "ESP", {IPPROTO_ESP}),
        ("DataExchangeConf,NonRepudiation", "AH+ESP", {IPPROTO_AH}),
    ],
)
def test_objectives_choose_the_option_and_packets_pass_by_it(
    bed: Bed, objectives: str, option: str, protocols: set[int]
) -> None:
    number = bed.next_key()
    # Without a NAT, ESP may use UDP too.
    capture = Capture(bed.network.net, "target0", bed.folder / f"{number}.pcap")
    with capture, bed.client(number, "--objectives", objectives) as client:
        up = client.wait_for("up")
        assert up.fields["option"] == option
        bed.wait_for_target("up", up.fields["key"])
        if option == "Native":
            # Nothing leads to the private network but an ordinary route.
            bed.network.net.add_route(PRIVATE_NETWORK, TARGET_ADDRESS)
        digest = bed.fetch()
        if option == "Native":
            bed.network.net.remove_route(PRIVATE_NETWORK, TARGET_ADDRESS)
    assert digest == bed.digest
    large = [frame for frame in capture.frames() if len(frame.data) > 1000]
    seen = {IPPROTO_ESP if frame.is_udp_esp else frame.protocol for frame in large}
    # The agents' own messages, and those of IKE, are UDP.
    assert seen - {IPPROTO_UDP} == protocols


@pytest.mark.root
def test_a_killed_agent_leaves_no_half_built_tunnel(bed: Bed) -> None:
    before = bed.idle
    for role, step in [*(("host", step) for step in HOST), *(("target", step) for step in TARGET)]:
        client = bed.client(bed.next_key(), "--lifetime", "1m")
        old = bed.keeper if role == "host" else bed.target
        count = len(old.steps())
        old.process.wait_for(lambda: step in old.steps()[count:], step, 30)  # noqa: B023
        old.kill()
        machine = bed.network.keeper if role == "host" else bed.network.target
        new = Agent(machine, role, "-c", f"{bed.folder}/{role}.toml").wait_ready()
        if role == "host":
            bed.keeper = new
        else:
            bed.target = new
        key = client.wait_for("requested").fields["key"]
        client.stop()
        assert bed.state(key) in {"valid", "taken", "used", "failed"}, (role, step)
    # An end in which nobody has come is taken down after 120 s; this one is told to end.
    bed.target.stop()
    target = ("target", "-c", f"{bed.folder}/target.toml")
    bed.target = Agent(bed.network.target, *target).wait_ready()
    with contextlib.suppress(TimedOut):
        bed.target.process.wait_for(lambda: bed.surroundings() == before, "the end of all", 150)
    assert bed.surroundings() == before
    for role in ("host", "target"):
        agent(bed.network.net, "audit", f"{bed.folder}/{role}.log").check()


@pytest.mark.root
def test_a_killed_client_leaves_its_machine_as_it_was(bed: Bed) -> None:
    machine = bed.network.client
    before, processes = surroundings(machine), set(machine.pids())

    def is_as_before() -> bool:
        """Also nobody is left who could still change something."""
        return set(machine.pids()) <= processes and surroundings(machine) == before

    for step in CLIENT:
        client = bed.client(bed.next_key(), "--lifetime", "1m")
        client.wait_for(step)
        client.kill()
        bed.target.process.wait_for(is_as_before, step, 40)


@pytest.mark.root
@pytest.mark.parametrize("bed", PAIRS[:2], ids=str, indirect=True)
def test_a_user_without_root_reaches_the_server_by_socks_and_leaves_nothing(bed: Bed) -> None:
    lines = bed.sheet.read_text().splitlines()
    head, *keys = [line for line in lines if "CTA1:" in line]
    typed = f"{head}\n{keys[bed.next_key() - 1]}\n"
    host = bed.network.client
    # The folder is the testbed's, and the others in /run are the gateway's.
    folders = ("/etc", "/dev/shm", environment(host)["CARAVAN_RUNTIME_DIR"])
    before = Inventory.take(host, folders)
    words = ("--user", "alice", "--socks=127.0.0.1:0")
    with Agent(host, "client", *words, lines=typed, user=WITHOUT_RIGHTS) as client:
        up = client.wait_for("up")
        assert up.fields["option"] == "ESP"
        bed.wait_for_target("up", up.fields["key"])
        (proxy,) = re.findall(r"socks5h://\S+", client.process.stdout())
        fetched = bed.folder / "fetched"
        argv = ["curl", "-sS", "--proxy", proxy, "--output", str(fetched)]
        host.run([*argv, f"http://{SERVER_ADDRESS}/file"], 60)
        assert hashlib.sha256(fetched.read_bytes()).hexdigest() == bed.digest
    assert client.process.wait(5).code == 0
    bed.wait_for_target("ended", up.fields["key"])
    assert before.changes(Inventory.take(host, folders)) == []
    refused = Agent(
        host, "client", *words, "--objectives", "NonRepudiation", lines=typed, user=WITHOUT_RIGHTS
    )
    done = refused.process.wait(30)
    assert done.code == 1 and "the key is not spent" in done.stderr


@pytest.mark.root
def test_the_commands_of_the_page_do_what_they_say(output: Path) -> None:
    folder = output / "folder"
    folder.mkdir(parents=True)
    make_file(output / "www/file", 100_000)
    running: list[Process] = []
    with AgentNetwork(output) as network:
        serve_files(network.server, output / "www", SERVER_ADDRESS)
        hosts = {"client": network.client, "host": network.keeper, "target": network.target}
        for block in blocks(DOCS / "agents.md"):
            host = hosts[block.words[0]]
            if block.language == "toml":
                (folder / block.words[1]).write_text(block.text)
                continue
            path = f"export PATH={caravan_binary().parent}:$PATH"
            argv = ["sh", "-euc", f"cd '{folder}'\n{path}\n{block.text}"]
            if block.words[1:] == ("runs",):
                process = host.popen(argv, environment(host))
                process.wait_for(lambda: is_ready(host, process), block.text, 30)  # noqa: B023
                running.append(process)
                continue
            done = host.run(argv, 120, environment(host), check=False)
            fails = block.words[1:] == ("fails",)
            assert (done.code != 0) is fails, f"{block.text}\n{done.stdout}\n{done.stderr}"
        for process in reversed(running):
            process.stop(grace_s=40)


def is_ready(host: Host, process: Process) -> bool:
    """Whether an agent serves, a tunnel is up, or a gateway answers."""
    said = process.stderr() + process.stdout()
    if "gateway" in process.argv[-1]:
        return order(host, "status").code == 0
    return " serves " in said or "the tunnel is up" in said


@pytest.fixture
def texts(output: Path) -> Iterator[Bed]:
    """Agents whose back-ends only write texts."""
    made = Bed(output, Pair("files", "files"))
    yield made
    made.close()


@pytest.mark.root
def test_a_key_on_a_token_signs_once_and_its_removal_ends_the_tunnel(
    texts: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = texts.folder
    settings = folder / "softhsm2.conf"
    tokens = folder / "tokens"
    tokens.mkdir()
    settings.write_text(f"directories.tokendir = {tokens}\n")
    monkeypatch.setenv("SOFTHSM2_CONF", str(settings))
    (folder / "pin").write_text("1234")
    client, keeper = texts.network.client, texts.network.keeper
    token = ("softhsm2-util", "--init-token", "--free", "--label", "alice")
    client.run([*token, "--pin", "1234", "--so-pin", "5678"])
    where = ("--module", SOFTHSM, "--token", "alice", "--pin-file", f"{folder}/pin")
    made = ("--count", "2", "--out", f"{folder}/keys.txt", "--public", f"{folder}/keys.pub")
    agent(client, "make", *made, *where).check()
    told = ("--user", "alice", "--public", f"{folder}/keys.pub", "--out", f"{folder}/head.txt")
    agent(keeper, "issue", "-c", f"{folder}/host.toml", *told).check()
    texts.sheet.write_text((folder / "head.txt").read_text() + (folder / "keys.txt").read_text())
    with texts.client(1, *where) as one:
        key = one.wait_for("up").fields["key"]
    assert texts.state(key) == "used"
    # The used key was destroyed on the token, so nobody asks Host a second time.
    again = texts.client(1, *where).process
    assert again.wait(30).code == 1
    assert "no Ed25519 key with this handle" in again.stderr()
    with texts.client(2, *where) as two:
        two.wait_for("up")
        for part in tokens.iterdir():
            part.rename(folder / part.name)
        ended = two.wait_for("ended")
        assert ended.fields["why"] == "logged-out"


@pytest.mark.root
def test_a_client_whose_clock_is_wrong_is_told_the_time_and_spends_no_key(texts: Bed) -> None:
    words = ("-c", f"{texts.folder}/client.toml", "--user", "alice", "--sheet", str(texts.sheet))
    late = two_hours_late(texts.network.client, "client", *words)
    late.wait_for(lambda: "step=up" in late.stderr(), "up", 30)
    late.stop()
    steps = [event.step for event in read_events(late.stderr())]
    assert steps == ["requested", *CLIENT, "ended"]


@pytest.mark.root
def test_a_target_whose_clock_is_wrong_lets_nobody_in(texts: Bed) -> None:
    texts.target.stop()
    late = two_hours_late(texts.network.target, "target", "-c", f"{texts.folder}/target.toml")
    late.wait_for(lambda: " serves " in late.stderr(), "readiness", 30)
    done = texts.client(texts.next_key()).process.wait(60)
    assert done.code == 1 and "step=up" not in done.stderr
    assert list((texts.folder / "target").iterdir()) == []
    late.stop()


@pytest.mark.root
def test_a_database_that_is_locked_or_gone_makes_no_tunnel_and_spends_no_key(texts: Bed) -> None:
    database = texts.folder / "host.db"
    with sqlite3.connect(database, isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        done = texts.client(1).process.wait(80)
        assert done.code == 1 and "step=up" not in done.stderr
        other.execute("ROLLBACK")
    with texts.client(1) as client:
        client.wait_for("up")
    database.rename(database.with_suffix(".away"))
    done = texts.client(2).process.wait(80)
    assert done.code == 1 and "step=up" not in done.stderr
    assert list((texts.folder / "client").iterdir()) == []


def two_hours_late(host: Host, *words: str) -> Process:
    """An agent with a wrong clock."""
    (library,) = Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")
    wrong = (f"LD_PRELOAD={library}", "FAKETIME=-2h", "FAKETIME_DONT_FAKE_MONOTONIC=1")
    argv = ["env", *wrong, str(caravan_binary()), "tunnel-agent", *words]
    return host.popen(argv, environment(host), name="late")
