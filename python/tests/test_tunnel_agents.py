"""The ten steps of tunnel agents between namespaces, built and taken down by the agents alone."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import signal
import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from agent_bed import (
    CLIENT,
    FILE_BYTES,
    HOST,
    PLAIN,
    TARGET,
    TEXTS,
    Bed,
    Pair,
    Surroundings,
    surroundings,
)
from agent_ends import processes
from doc_pages import DOCS, blocks
from waiting import wait_for

from caravan.testbed.agents import (
    CLIENT_ADDRESS,
    NET_ADDRESS,
    PRIVATE_NETWORK,
    SERVER_ADDRESS,
    TARGET_ADDRESS,
    WITHOUT_RIGHTS,
    Agent,
    AgentNetwork,
    agent,
    agent_json,
    read_events,
)
from caravan.testbed.binary import caravan_binary
from caravan.testbed.capture import IPPROTO_AH, IPPROTO_ESP, IPPROTO_TCP, IPPROTO_UDP, Capture
from caravan.testbed.caravan import environment, order
from caravan.testbed.host import Host
from caravan.testbed.inventory import Inventory
from caravan.testbed.process import Process
from caravan.testbed.traffic import make_file, serve_files

SOFTHSM = "/usr/lib/softhsm/libsofthsm2.so"
ETHER_TYPE_IPV4 = 0x0800
PAIRS = [
    Pair("caravan", "caravan", has_nat=True),
    Pair("caravan", "strongswan"),
    Pair("strongswan", "caravan", has_nat=True),
    Pair("strongswan", "strongswan"),
]


@pytest.fixture(scope="module", params=PAIRS, ids=str)
def bed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """Each pair of ends."""
    made = Bed(tmp_path_factory.mktemp("agents"), request.param)
    yield made
    made.close()


@pytest.mark.root
def test_a_key_makes_one_tunnel_and_is_refused_again(bed: Bed) -> None:
    before = Surroundings.of(bed.network)
    number = bed.next_key()
    capture = Capture(bed.network.net, "target0", bed.folder / f"{number}.pcap")
    with bed.client(number, "--lifetime", "10m") as client:
        up = client.wait_for("up")
        bed.wait_for_target("up", up.fields["key"])
        with capture:  # the last packet of the connection may come after the tunnel
            assert bed.fetch() == bed.digest
    done = client.process.wait(5)
    assert done.code == 0 and "as you wanted" in done.stdout
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
    assert came["networks"] == PRIVATE_NETWORK and came["inner"].startswith("10.77.0.")
    assert came["until"] == up.fields["until"] and came["tunnel"] == up.fields["tunnel"]
    assert (came["ike"], came["ppk"]) == (up.fields["ike"], up.fields["ppk"]) == ("2", "yes")
    exchange, said = (
        ("ike-intermediate", "the first one too, in which the names are")
        if {bed.pair.client, bed.pair.target} <= {"caravan", "socks"}
        else ("ike-auth", "the first IKE SA, in which the names are, is without it")
    )
    assert came["ppk-in"] == up.fields["ppk-in"] == exchange
    assert said in client.process.stderr()
    assert [event.step for event in bed.log("host", key)] == HOST
    again = bed.client(number)
    done = again.process.wait(30)
    assert done.code == 1 and "the key was used before" in done.stderr
    assert "up" not in again.steps()
    assert bed.state(key) == "used"
    assert before.changes(Surroundings.of(bed.network)) == []


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
        # Without IKE the gateway cannot see who comes, and does not say so.
        step = "built" if option == "Native" else "up"
        bed.wait_for_target(step, up.fields["key"])
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
@pytest.mark.parametrize("bed", [PLAIN], ids=str, indirect=True)
def test_what_the_machine_lacks_is_told_before_the_key_is_spent(bed: Bed) -> None:
    host, number = bed.network.client, bed.next_key()

    def refused(*options: str, user: Sequence[str] = ()) -> str:
        words = bed.client_words(number, *options)
        one = Agent(host, "client", *words, user=user)
        done = one.process.wait(30)
        assert done.code == 1 and "the key is not spent" in done.stderr, done.stderr
        assert one.steps() == []
        return done.stderr

    other = ["type", "veth", "peer", "name", "other0"]
    host.run(["ip", "link", "add", "caravan-agent", *other])
    assert "cannot make the TUN device" in refused()
    host.run(["ip", "link", "delete", "caravan-agent"])
    argv = [sys.executable, "-m", "http.server", "1080", "--bind", "127.0.0.1"]
    server = host.popen(argv, name="other")
    server.wait_for(lambda: ":1080" in host.run(["ss", "-ltn"]).stdout, "a port", 20)
    assert "cannot listen on 127.0.0.1:1080" in refused("--socks")
    server.stop()
    assert "not on loopback" in refused("--socks=10.0.0.2")
    file = bed.folder / "absent.toml"
    nowhere = f'socket = "{bed.folder}/absent.vici"'
    file.write_text(f'role = "client"\n[back_end]\nkind = "strongswan"\n{nowhere}\n')
    words = [str(file) if one.endswith("client.toml") else one for one in bed.client_words(number)]
    done = Agent(host, "client", *words).process.wait(30)
    assert done.code == 1
    assert "no charon answers" in done.stderr and "the key is not spent" in done.stderr
    with bed.client(number) as client:
        client.wait_for("up")
        # A second one with root finds the ports taken.
        number = bed.next_key()
        said = refused()
        assert "another program has UDP port" in said and "--socks" in said
    with bed.client(number) as client:
        client.wait_for("up")


# States of a key that a request has taken.
SPENT = {"taken", "used", "failed"}


@pytest.mark.root
def test_a_killed_agent_leaves_no_half_built_tunnel(bed: Bed) -> None:
    for role, step in [*(("host", step) for step in HOST), *(("target", step) for step in TARGET)]:
        number = bed.next_key()
        client = bed.client(number, "--lifetime", "1m")
        old = bed.keeper if role == "host" else bed.target
        count = len(old.steps())
        old.process.wait_for(lambda: step in old.steps()[count:], step, 30)  # noqa: B023
        old.kill()
        new = bed.start(role)
        if role == "host":
            bed.keeper = new
        else:
            bed.target = new
        key = client.wait_for("requested").fields["key"]
        client.stop()
        # A key that was taken is never valid again, whenever its Host was killed.
        was_taken = "key-taken" in {event.step for event in bed.log("host", key)}
        assert was_taken or (role, step) == ("host", "authenticated")
        assert not was_taken or bed.state(key) in SPENT, (role, step)
        steps = bed.settled_steps(key, was_referred=role == "target" or step in HOST[2:])
        # An end in which nobody has come is taken down after 120 s; this one is told to end.
        if "built" in steps and not steps & {"up", "ended"}:
            bed.restart_target()
        bed.wait_idle(f"after {role} was killed at {step}")
        if "up" in steps:
            bed.wait_for_target("ended", key)
        # Nobody comes in by it a second time.
        if bed.state(key) in SPENT:
            again = bed.client(number)
            done = again.process.wait(90)
            assert done.code == 1 and "up" not in again.steps(), (role, step)
            assert bed.state(key) in SPENT, (role, step)
    for role in ("host", "target"):
        agent(bed.network.net, "audit", f"{bed.folder}/{role}.log").check()


@pytest.mark.root
def test_a_killed_client_leaves_its_machine_as_it_was(bed: Bed) -> None:
    machine = bed.network.client
    before, earlier = surroundings(machine), set(machine.pids())

    def is_as_before() -> bool:
        """Also nobody is left who could still change something."""
        return set(machine.pids()) <= earlier and surroundings(machine) == before

    for step in CLIENT:
        client = bed.client(bed.next_key(), "--lifetime", "1m")
        client.wait_for(step)
        client.kill()
        bed.target.process.wait_for(is_as_before, step, 40)
    # The process that would end the tunnel: the agent notices, and does it.
    client = bed.client(bed.next_key(), "--lifetime", "1m")
    client.wait_for("up")
    (pid,) = processes(machine, "tunnel-end")
    os.kill(pid, signal.SIGKILL)
    client.wait_for("ended", 30)
    done = client.process.wait(40)
    assert done.code == 1 and "before its time" in done.stderr
    bed.target.process.wait_for(is_as_before, "the helper", 40)


@pytest.mark.root
@pytest.mark.parametrize("options", [(), ("--socks=127.0.0.1:0",)], ids=["root", "socks"])
@pytest.mark.parametrize("bed", [PLAIN], ids=str, indirect=True)
def test_a_tunnel_that_target_ends_before_its_time_is_told(bed: Bed, options: tuple[str]) -> None:
    client = bed.client(bed.next_key(), *options)
    up = client.wait_for("up")
    bed.wait_for_target("up", up.fields["key"])
    bed.restart_target()
    done = client.process.wait(60)
    assert done.code == 1
    (said,) = re.findall(
        r"caravan: the tunnel has ended at (\S+), before its time \((\S+)\): (.+)$",
        done.stderr,
        re.M,
    )
    assert said[0] < said[1] == up.fields["until"]
    assert said[2].startswith("deleted by the peer")
    assert client.events()[-1].fields["tunnel"] == up.fields["tunnel"]


@pytest.mark.root
@pytest.mark.parametrize("bed", [PLAIN], ids=str, indirect=True)
def test_status_shows_a_guest_his_tunnel(bed: Bed) -> None:
    machine = bed.network.client
    # The default folder of control sockets.
    usual = environment(machine) | {"CARAVAN_RUNTIME_DIR": ""}
    with bed.client(bed.next_key()) as client:
        name = f"cta-{client.wait_for('up').fields['tunnel']}"
        for words in ((), (name,)):
            shown = machine.run([str(caravan_binary()), "status", *words], 30, usual)
            assert f"{name}: established" in shown.stdout
    gone = machine.run([str(caravan_binary()), "status", name], 30, usual, check=False)
    assert gone.code == 1


@pytest.mark.root
@pytest.mark.parametrize("bed", [PLAIN], ids=str, indirect=True)
def test_the_processes_of_a_tunnel_log_as_their_agent_does(bed: Bed) -> None:
    for level, words in (("error", ()), ("debug", ("handshake_message",))):
        client = bed.client(bed.next_key(), "--log-level", level)
        client.process.wait_for(lambda: "is up" in client.process.stdout(), "up", 30)  # noqa: B023
        said = client.stop().stderr
        assert all(word in said for word in words)
        assert (said == "") is (level == "error"), said


@pytest.mark.root
@pytest.mark.parametrize("bed", [PLAIN], ids=str, indirect=True)
def test_a_guest_is_told_nothing_that_only_the_machine_s_owner_can_mend(bed: Bed) -> None:
    with bed.client(bed.next_key()) as client:
        client.wait_for("up")
    said = client.process.stderr()
    assert "useradd" not in said and "IKEv1 is deprecated" not in said
    assert "user caravan" not in said or "--socks" in said


@pytest.mark.root
def test_a_lifetime_is_never_changed_silently(texts: Bed) -> None:
    file = f"{texts.folder}/target.toml"
    words = ("-c", file, "add", "alice@home", "--network", PRIVATE_NETWORK, "--lifetime")
    done = agent(texts.network.target, "member", *words, "25h")
    assert done.code == 2 and "from 1 minute to 24 hours" in done.stderr
    for wrong in ("30s", "48h"):
        done = texts.client(1, "--lifetime", wrong).process.wait(30)
        assert done.code == 2 and "from 1 minute to 24 hours" in done.stderr
    with texts.client(1, "--lifetime", "10m") as client:
        client.wait_for("up")
    assert "Target lets you in until" not in client.process.stderr()
    agent(texts.network.target, "member", *words, "2m").check()
    with texts.client(2, "--lifetime", "10m") as client:
        until = client.wait_for("up").fields["until"]
    assert f"Target lets you in until {until} only" in client.process.stderr()


@pytest.mark.root
@pytest.mark.parametrize("bed", [PLAIN], ids=str, indirect=True)
def test_a_network_that_is_gone_is_told(bed: Bed) -> None:
    client = bed.client(bed.next_key())
    bed.wait_for_target("up", client.wait_for("up").fields["key"])
    bed.network.net.run(["ip", "link", "set", "client0", "down"])
    done = client.process.wait(120)
    bed.network.net.run(["ip", "link", "set", "client0", "up"])
    assert done.code == 1
    assert re.search(r"before its time \(\S+\): the peer does not answer", done.stderr)
    bed.restart_target()


@pytest.mark.root
@pytest.mark.parametrize("bed", PAIRS, ids=str, indirect=True)
def test_target_lists_who_is_in(bed: Bed) -> None:
    def listed(key: str) -> list[dict[str, Any]]:
        shown = agent_json(bed.network.target, "tunnels", "-c", f"{bed.folder}/target.toml")
        assert (shown["agent"] is None) is not bed.target.process.is_running()
        return [one for one in shown["tunnels"] if one["key"] == key]

    with bed.client(bed.next_key()) as client:
        up = client.wait_for("up").fields
        bed.wait_for_target("up", up["key"])
        (one,) = listed(up["key"])
        assert (one["user"], one["host"], one["state"]) == ("alice", "home", "up")
        assert (one["tunnel"], one["key"]) == (up["tunnel"], up["key"])
        assert (one["option"], one["networks"]) == ("ESP", [PRIVATE_NETWORK])
        assert one["inner"].startswith("10.77.0.")
        assert one["peer"] == (NET_ADDRESS if bed.pair.has_nat else CLIENT_ADDRESS)
        assert one["since_utc"] < one["until_utc"] == up["until"]
        # Without its agent the tunnel stays, and a new one knows all of it.
        bed.target.kill()
        assert listed(up["key"]) == [one]
        bed.target = bed.start("target")
        assert listed(up["key"]) == [one]
    bed.wait_for_target("ended", up["key"])
    wait_for(lambda: listed(up["key"]) == [], "an ended tunnel is not listed")
    ended = bed.log("target", up["key"])[-1].fields
    assert (ended["option"], ended["inner"], ended["peer"]) == ("ESP", one["inner"], one["peer"])


def hang_up(bed: Bed) -> None:
    """SIGHUP to Host and Target, which say how they stand."""
    for one in (bed.keeper, bed.target):
        count = one.process.stderr().count("the log ends at")
        one.process.signal(signal.SIGHUP)
        one.process.wait_for(
            lambda: one.process.stderr().count("the log ends at") > count,  # noqa: B023
            "an answer to SIGHUP",
            10,
        )


@pytest.mark.root
@pytest.mark.parametrize("bed", [PAIRS[1], PAIRS[3]], ids=str, indirect=True)
def test_a_tunnel_of_strongswan_stays_when_both_agents_are_told_to_reload(bed: Bed) -> None:
    with bed.client(bed.next_key(), "--lifetime", "1m") as client:
        key = client.wait_for("up").fields["key"]
        bed.wait_for_target("up", key)
        hang_up(bed)
        assert bed.fetch() == bed.digest
        # Longer than a look at all ends.
        time.sleep(3)
        assert [event.step for event in bed.log("target", key)] == TARGET
        assert bed.fetch() == bed.digest
    bed.wait_for_target("ended", key)


@pytest.mark.root
@pytest.mark.parametrize("bed", [PLAIN, PAIRS[3]], ids=str, indirect=True)
def test_no_process_of_a_client_writes_its_memory_into_files(bed: Bed) -> None:
    machine = bed.network.client
    before = set(machine.pids())
    with bed.client(bed.next_key(), "--lifetime", "1m") as client:
        client.wait_for("up")
        ours = set(machine.pids()) - before
        commands = {pid: Path(f"/proc/{pid}/cmdline").read_text().split("\0") for pid in ours}
        words = {word for command in commands.values() for word in command}
        assert {"client", "tunnel-end"} <= words
        assert {"up", "steward"} <= words or bed.pair.client != "caravan"
        for pid in ours:
            limits = Path(f"/proc/{pid}/limits").read_text()
            (core,) = re.findall(r"^Max core file size +(\d+) +(\d+)", limits, re.M)
            assert core == ("0", "0"), commands[pid]
            status = Path(f"/proc/{pid}/status").read_text()
            (locked,) = re.findall(r"^VmLck:\s+(\d+)", status, re.M)
            # These give up root's rights, so only a limit that can be lifted lets them lock.
            is_limited = not may_lift_limits() and set(commands[pid]) & {"up", "steward"}
            assert int(locked) > 1_000 or is_limited, commands[pid]


def may_lift_limits() -> bool:
    """Whether root has CAP_SYS_RESOURCE here."""
    (rights,) = re.findall(r"^CapEff:\s+(\w+)", Path("/proc/self/status").read_text(), re.M)
    return bool(int(rights, 16) >> 24 & 1)


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
        # Not an argument, which every user can read.
        own = environment(host) | {"ALL_PROXY": proxy}
        argv = ["curl", "-sS", "--output", str(fetched), f"http://{SERVER_ADDRESS}/file"]
        host.run(argv, 60, own)
        assert hashlib.sha256(fetched.read_bytes()).hexdigest() == bed.digest
        hang_up(bed)
        fetched.unlink()
        host.run(argv, 60, own)
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
    clients: list[Process] = []
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
            if block.words == ("client", "runs") and clients:
                # As ^C at a terminal.
                os.killpg(clients[-1].pid, signal.SIGINT)
                clients.pop().wait(40)
            if block.words[1:] == ("runs",):
                process = host.popen(argv, environment(host))
                process.wait_for(lambda: is_ready(host, process), block.text, 30)  # noqa: B023
                (clients if host is network.client else running).append(process)
                continue
            done = host.run(argv, 120, environment(host), check=False)
            fails = block.words[1:] == ("fails",)
            assert (done.code != 0) is fails, f"{block.text}\n{done.stdout}\n{done.stderr}"
            assert not fails or "the key was used before" in done.stderr, done.stderr
        for process in [*clients, *reversed(running)]:
            process.stop(grace_s=40)


def is_ready(host: Host, process: Process) -> bool:
    """Whether an agent serves, a tunnel is up, or a gateway answers."""
    said = process.stderr() + process.stdout()
    if "gateway" in process.argv[-1]:
        return order(host, "status").code == 0
    return " serves " in said or "step=up" in said


@pytest.fixture
def texts(output: Path) -> Iterator[Bed]:
    """Agents whose back-ends only write texts."""
    made = Bed(output, TEXTS)
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
    (folder / "pin").touch(0o600)
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


@pytest.mark.root
def test_what_is_not_there_is_told_and_fails(texts: Bed) -> None:
    network, folder = texts.network, texts.folder
    for which in (("--user", "bob"), ("--all",)):
        revoke = ("revoke", "-c", f"{folder}/host.toml", *which)
        done = agent(network.keeper, *revoke)
        assert done.code == (1 if which[0] == "--user" else 0)
        assert done.code == 0 or "bob has no valid key" in done.stderr
    again = agent(network.keeper, *revoke)
    assert again.code == 1 and "there is no valid key" in again.stderr
    for role, host, one in (
        ("host", network.keeper, texts.keeper),
        ("target", network.target, texts.target),
    ):
        second = agent(host, role, "-c", f"{folder}/{role}.toml")
        assert second.code == 1
        assert f"{role}.log (process {one.process.pid})" in second.stderr
    done = agent(network.net, "audit", f"{folder}/host.toml")
    assert done.code == 1 and "is no log of an agent" in done.stderr


def two_hours_late(host: Host, *words: str) -> Process:
    """An agent with a wrong clock."""
    (library,) = Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")
    wrong = (f"LD_PRELOAD={library}", "FAKETIME=-2h", "FAKETIME_DONT_FAKE_MONOTONIC=1")
    argv = ["env", *wrong, str(caravan_binary()), "tunnel-agent", *words]
    return host.popen(argv, environment(host), name="late")


WITH_LIFETIME = [PLAIN, Pair("caravan", "strongswan")]
LIFETIME_S = 60.0


@pytest.mark.root
def test_a_tunnel_ends_in_time_though_both_agents_are_gone(output: Path) -> None:
    """Target's agent is killed and not started again, and Client's does nothing any more."""
    with contextlib.ExitStack() as stack:
        beds = [
            stack.enter_context(contextlib.closing(Bed(output / str(pair), pair)))
            for pair in WITH_LIFETIME
        ]
        frozen, ends = [], []
        for bed in beds:
            client = bed.client(1, "--lifetime", "1m")
            up = client.wait_for("up").fields
            bed.wait_for_target("up", up["key"])
            client.process.signal(signal.SIGSTOP)
            bed.target.kill()
            frozen.append(client)
            ends.append(datetime.fromisoformat(up["until"]).timestamp())
        began = time.monotonic()
        time.sleep(max(0.0, min(ends) - 10 - time.time()))
        for bed in beds:
            assert bed.fetch() == bed.digest, bed.pair
        # Client asks again and again, and its certificate is over.
        time.sleep(began + LIFETIME_S + 5 - time.monotonic())
        for _ in range(3):
            for bed in beds:
                ping = ["ping", "-c", "1", "-W", "1", SERVER_ADDRESS]
                done = bed.network.client.run(ping, check=False)
                assert done.code != 0, bed.pair
            time.sleep(2)
        for bed, client in zip(beds, frozen, strict=True):
            bed.target = bed.start("target")
            client.process.signal(signal.SIGCONT)
            client.process.wait(40)
            bed.wait_idle(f"the end of {bed.pair}")
