"""Tunnel agents in their other forms: enrolled keys, shared pairs of the paper, Hosts that share a
database, IPv6 inside, Libreswan at Target; and in trouble: a terminal that closes, a full disk, a
Target's agent that nobody starts again."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_bed import CLIENT, HOST, PLAIN, TARGET, TEXTS, Bed, Pair, Surroundings, surroundings
from agent_postgres import postgres

from caravan.testbed.agents import (
    HOST_ADDRESS,
    NET_ADDRESS,
    Agent,
    AgentFiles,
    Event,
    agent,
    issue,
    read_events,
    write_host,
)
from caravan.testbed.binary import caravan_binary
from caravan.testbed.caravan import Daemon, environment, order
from caravan.testbed.errors import TimedOut
from caravan.testbed.inventory import Inventory
from caravan.testbed.process import CommandFailed

pytestmark = pytest.mark.root

SHARED_PAIRS = [PLAIN, Pair("caravan", "strongswan"), Pair("strongswan", "caravan")]
SMALL_BYTES = 1 << 20
"""A disk that is full soon."""


@contextlib.contextmanager
def running(output: Path, pair: Pair, files: AgentFiles | None = None) -> Iterator[Bed]:
    made = Bed(output, pair, files)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def plain(output: Path) -> Iterator[Bed]:
    """Caravan at both ends."""
    with running(output, PLAIN) as bed:
        yield bed


@pytest.fixture
def texts(output: Path) -> Iterator[Bed]:
    """Agents whose back-ends only write texts."""
    with running(output, TEXTS) as bed:
        yield bed


def test_only_an_enrolled_key_lets_its_user_in_once_one_is_enrolled(plain: Bed) -> None:
    target, files = plain.network.target, f"{plain.folder}/target.toml"
    others = plain.sheet.read_text()
    issue(plain.network, plain.folder, 1, "--digests", f"{plain.folder}/digests")
    words = ("enrol", "alice@home", "--digests", f"{plain.folder}/digests")
    said = agent(target, "member", "-c", files, *words).check().stdout
    assert "1 key of alice@home is enrolled" in said
    with plain.client(1) as client:
        key = client.wait_for("up").fields["key"]
        assert plain.fetch() == plain.digest
    assert [event.step for event in plain.log("host", key)] == HOST
    plain.sheet.write_text(others)
    # Host knows this key, and has authenticated its user; Target does not believe that alone.
    refused = plain.client(1)
    done = refused.process.wait(30)
    assert done.code == 1 and "you may not" in done.stderr
    key = refused.wait_for("requested").fields["key"]
    told = plain.log("target", key)
    assert [(event.step, event.fields["why"]) for event in told] == [
        ("refused", "key-not-enrolled")
    ]
    plain.wait_idle("a refused user")


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("pair", SHARED_PAIRS, ids=str)
def test_a_shared_pair_of_the_paper_goes_through_all_ten_steps(
    output: Path, pair: Pair, version: int
) -> None:
    """The paper's form has IKEv1 where the file says so."""
    with running(output, pair, AgentFiles(is_legacy=True, version=version)) as bed:
        warned = order(bed.network.keeper, "check", f"{bed.folder}/host.toml").check()
        assert "warning: legacy" in warned.stdout + warned.stderr
        go_by_a_shared_pair(bed, version)


def go_by_a_shared_pair(bed: Bed, version: int = 2) -> None:
    with bed.client(1) as client:
        up = client.wait_for("up")
        assert (up.fields["ike"], up.fields["ppk"]) == (str(version), "no")
        assert ("Target has chosen IKEv1" in client.process.stderr()) == (version == 1)
        bed.wait_for_target("up", up.fields["key"])
        assert bed.fetch() == bed.digest
    assert client.steps() == [*CLIENT, "ended"]
    key = up.fields["key"]
    bed.wait_for_target("ended", key)
    assert [event.step for event in bed.log("host", key)] == HOST
    assert [event.step for event in bed.log("target", key)] == [*TARGET, "ended"]
    assert bed.state(key) == "used"
    again = bed.client(1).process.wait(30)
    assert again.code == 1 and "the key was used before" in again.stderr
    bed.wait_idle("the tunnel")


def test_a_shared_pair_lies_in_postgresql_as_in_a_file(output: Path) -> None:
    with postgres() as server:
        files = AgentFiles(is_legacy=True, host_database=server.url, target_database=server.url)
        with running(output, PLAIN, files) as bed:
            go_by_a_shared_pair(bed)
            assert not list(bed.folder.glob("*.db"))


def test_a_shared_pair_needs_the_word_at_each_agent(texts: Bed) -> None:
    host = f"{texts.folder}/host.toml"
    words = ("--user", "alice", "--legacy", "--out", f"{texts.folder}/pairs.txt")
    done = agent(texts.network.keeper, "issue", "-c", host, *words)
    assert done.code == 1 and "legacy = true" in done.stderr


def test_two_hosts_share_postgresql_and_one_goes_on_alone(texts: Bed) -> None:
    network, folder = texts.network, texts.folder
    with postgres() as server:
        files = AgentFiles(host_addresses=(HOST_ADDRESS, NET_ADDRESS), host_database=server.url)
        texts.restart(files)
        write_host(folder, files, "other")
        issue(network, folder, 6)
        words = ("host", "-c", f"{folder}/other.toml")
        with Agent(network.net, *words).wait_ready() as other:
            with texts.client(1) as client:
                first = client.wait_for("up").fields["key"]
            assert [event.step for event in texts.log("host", first)] == HOST
            # One Host is killed after it has taken a key: nobody uses that one again.
            count = len(texts.keeper.steps())
            client = texts.client(2)
            texts.keeper.process.wait_for(
                lambda: "key-taken" in texts.keeper.steps()[count:], "key-taken", 30
            )
            texts.keeper.kill()
            second = client.wait_for("requested").fields["key"]
            client.stop()
            done = texts.client(2).process.wait(80)
            assert done.code == 1 and "step=up" not in done.stderr
            # The other one serves the rest, and knows what the first has done.
            with texts.client(3) as client:
                third = client.wait_for("up", 60).fields["key"]
            done = texts.client(1).process.wait(80)
            assert done.code == 1 and "the key was used before" in done.stderr
            texts.keeper = texts.start("host")
            states = [texts.state(key) for key in (first, second, third)]
            assert states[0] == states[2] == "used" and states[1] in {"taken", "used"}
            assert [event.step for event in texts.log("other", third)] == HOST
            with texts.client(4) as client:
                client.wait_for("up")
            # Without the database nobody comes in, and with it everybody again.
            server.kill()
            done = texts.client(5).process.wait(80)
            assert done.code == 1 and "step=up" not in done.stderr
            server.start()
            with texts.client(5) as client:
                client.wait_for("up", 60)
            other.stop()
        texts.keeper.stop()


def test_a_terminal_that_closes_ends_the_tunnel_and_leaves_nothing(plain: Bed) -> None:
    host = plain.network.client
    folders = ("/etc", "/dev/shm", environment(host)["CARAVAN_RUNTIME_DIR"])
    before = Inventory.take(host, folders)
    words = [str(caravan_binary()), "tunnel-agent", "client", *plain.client_words(1)]
    # A terminal, whose other end is gone with this program.
    argv = ["script", "--quiet", "--return", "--command", shlex.join(words), "/dev/null"]
    terminal = host.popen(argv, environment(host), name="terminal", is_told=True)
    terminal.wait_for(lambda: "the tunnel is up" in terminal.stdout(), "up", 30)
    (key,) = {event.fields["key"] for event in read_events(terminal.stdout())}
    assert plain.fetch() == plain.digest
    # Target looks at its end now and then; one that it never saw up has no end in its log.
    plain.wait_for_target("up", key)
    terminal.signal(signal.SIGKILL)
    terminal.wait(5)
    plain.wait_for_target("ended", key)
    changes: list[str] = []

    def is_as_before() -> bool:
        changes[:] = before.changes(Inventory.take(host, folders))
        return changes == []

    with contextlib.suppress(TimedOut):
        plain.target.process.wait_for(is_as_before, "all as before", 20)
    assert changes == []
    plain.wait_idle("a terminal that closed")


@contextlib.contextmanager
def small_disk(bed: Bed, role: str) -> Iterator[Path]:
    """A small file system at one of the agents' machines; nobody else sees it."""
    host = bed.network.keeper if role == "host" else bed.network.target
    folder = bed.folder / "small"
    folder.mkdir()
    host.run(["mount", "-t", "tmpfs", "-o", f"size={SMALL_BYTES},mode=700", "none", str(folder)])
    yield folder


def fill(bed: Bed, role: str, folder: Path) -> None:
    """Leave no room."""
    host = bed.network.keeper if role == "host" else bed.network.target
    done = host.run(["dd", "if=/dev/zero", f"of={folder}/filling", "bs=4096"], check=False)
    assert "No space left" in done.stderr


def test_a_full_disk_at_host_spends_no_key(texts: Bed) -> None:
    network = texts.network
    with small_disk(texts, "host") as folder:
        texts.restart(AgentFiles(host_database=f"{folder}/host.db"))
        issue(network, texts.folder, 3)
        with texts.client(1) as client:
            client.wait_for("up")
        fill(texts, "host", folder)
        for _ in range(2):
            done = texts.client(2).process.wait(80)
            assert done.code == 1 and "step=up" not in done.stderr
            assert "a database does not answer" in done.stderr
        (key,) = {event.fields["key"] for event in read_events(done.stderr)}
        # Nobody can make keys either, and says so.
        words = ("--user", "alice", "--out", f"{texts.folder}/more.txt", "--count", "900")
        made = agent(network.keeper, "issue", "-c", f"{texts.folder}/host.toml", *words)
        assert made.code == 1 and "full" in made.stderr
        assert not (texts.folder / "more.txt").exists()
        assert texts.state(key) == "valid"
        assert list((texts.folder / "client").iterdir()) == []
        network.keeper.run(["rm", f"{folder}/filling"])
        with texts.client(2) as client:
            client.wait_for("up")
        assert texts.state(key) == "used"


def test_a_full_disk_at_target_s_log_lets_nobody_in_and_ends_no_tunnel(plain: Bed) -> None:
    with small_disk(plain, "target") as folder:
        log = folder / "target.log"
        plain.restart(AgentFiles(target_log=str(log)))
        first = plain.client(plain.next_key())
        key = first.wait_for("up").fields["key"]
        plain.wait_for_target("up", key)
        fill(plain, "target", folder)
        # There is room for a few more, whose lines the disk has promised to take.
        while True:
            number = plain.next_key()
            client = plain.client(number, "--socks=127.0.0.1:0")
            with contextlib.suppress(TimedOut, CommandFailed):
                client.process.wait_for(lambda: "up" in client.steps(), "up", 10)  # noqa: B023
            if "up" not in client.steps():
                break
            client.stop()
        done = client.process.wait(60)
        assert done.code == 1
        # Mostly Target says so before a key is spent. An offer of a moment ago holds.
        spends = "a log cannot be written; the key is spent"
        keeps = "Target cannot build a tunnel now"
        assert spends in done.stderr or keeps in done.stderr
        said = plain.target.process.stderr()
        assert "there is no room for the log" in said and "no new tunnel begins" in said
        # A Host that asks now spends no key.
        plain.keeper.stop()
        plain.keeper = plain.start("host")
        number = plain.next_key()
        done = plain.client(number, "--socks=127.0.0.1:0").process.wait(60)
        assert done.code == 1 and "the key is not spent" in done.stderr
        # The first is still up. Its end is told, now or later.
        assert plain.target.process.is_running() and first.process.is_running()
        assert plain.fetch() == plain.digest
        first.stop()
        plain.wait_for_target("ended", key)
        plain.wait_idle("a full disk")
        plain.network.target.run(["rm", f"{folder}/filling"])
        with plain.client(number) as client:
            last = client.wait_for("up").fields["key"]
            assert plain.fetch() == plain.digest
        plain.wait_for_target("ended", last)
        audited = agent(plain.network.target, "audit", str(log)).check()
        assert audited.stdout
        steps = [(event.step, event.fields.get("key")) for event in log_events(plain, log)]
        assert ("ended", key) in steps and ("ended", last) in steps


def log_events(bed: Bed, path: Path) -> list[Event]:
    """The events of a log that only Target's machine sees."""
    return read_events(bed.network.target.run(["cat", str(path)]).stdout)


def test_a_gateway_that_crashes_under_a_tunnel_leaves_nothing_after_its_next_start(
    plain: Bed,
) -> None:
    """Its process has a name of its own, not that of a tunnel that it finds at its start."""
    target = plain.network.target
    folders = (environment(target)["CARAVAN_RUNTIME_DIR"],)

    def running() -> Daemon:
        assert plain.gateway is not None
        return plain.gateway

    def take() -> set[str]:
        """What is there; files by name and mode, as some are written anew, and no programs. The
        gateway keeps the addresses of its peers."""
        taken = Inventory.take(target, folders).things
        things = {it for it in taken if not it.startswith("program ")}
        named = {" ".join(it.split()[:4]) if it.startswith("file ") else it for it in things}
        return {it for it in named if not it.endswith("/idle.leases/peers")}

    def wait_as(before: set[str], what: str) -> None:
        with contextlib.suppress(TimedOut):
            plain.target.process.wait_for(lambda: take() == before, what, 20)
        assert sorted(take() ^ before) == [], what

    def crash_under_a_tunnel(*, starts: bool) -> None:
        with plain.client(plain.next_key(), "--lifetime", "5m") as client:
            key = client.wait_for("up").fields["key"]
            plain.wait_for_target("up", key)
            running().crash()
            if starts:
                plain.start_gateway()
        if starts:
            plain.wait_for_target("ended", key)

    # What it keeps over its end, such as the folder of its leases, is there from here on.
    running().stop()
    order(target, "down", "idle")
    without = take()
    plain.start_gateway()
    before = take()
    for _ in range(2):
        crash_under_a_tunnel(starts=True)
        wait_as(before, "a gateway that was started again")
    # The same if nobody starts it again.
    crash_under_a_tunnel(starts=False)
    order(target, "down", "idle").check()
    plain.restart_target()
    wait_as(without, "a gateway that was not started again")


@pytest.mark.parametrize("pair", [PLAIN, Pair("caravan", "strongswan")], ids=str)
def test_a_target_without_its_gateway_spends_no_key(output: Path, pair: Pair) -> None:
    with running(output, pair) as bed:

        def refused(says: str) -> None:
            # An offer holds for a second.
            time.sleep(1.5)
            client = bed.client(1, "--socks=127.0.0.1:0")
            done = client.process.wait(60)
            assert done.code == 1 and "the key is not spent" in done.stderr
            assert "Target cannot build a tunnel now" in done.stderr
            assert bed.state(client.wait_for("requested").fields["key"]) == "valid"
            assert says in bed.target.process.stderr()

        if bed.gateway is None:
            text = (bed.folder / "target.toml").read_text()
            (socket,) = re.findall(r'socket = "(.*)"', text)
            away = Path(socket).rename(f"{socket}.away")
            refused("charon")
            away.rename(socket)
        else:
            bed.gateway.stop()
            refused("is running")
            bed.start_gateway()
            folder = bed.folder / "tunnels"
            away = folder.rename(bed.folder / "away")
            refused("cannot open the folder")
            away.rename(folder)
            file = bed.folder / "gateway.toml"
            text = file.read_text()
            file.write_text(text.replace('include = "tunnels"', 'include = "others"'))
            refused("does not include the folder")
            file.write_text(text)
        time.sleep(1.5)
        with bed.client(1) as client:
            client.wait_for("up")


def test_libreswan_at_target_negotiates_as_far_as_the_kernel_goes(output: Path) -> None:
    """This kernel has no IPsec, so the tunnel never comes up. All else is done and undone."""
    with running(output, Pair("caravan", "libreswan")) as bed:
        pluto = bed.pluto
        assert pluto is not None
        refused = bed.client(1, "--objectives", "DataExchangeConf,NonRepudiation")
        done = refused.process.wait(30)
        assert done.code == 1 and "the key is not spent" in done.stderr
        client = bed.client(1)
        key = client.wait_for("accepted").fields["key"]
        assert [event.step for event in bed.log("target", key)] == TARGET[:3]
        last = "netlink response for Add SA"
        pluto.process.wait_for(lambda: last in pluto.log(), last, 30)
        assert "responder established IKE SA" in pluto.log() and "PPK" in pluto.log()
        assert client.stop().code == 1
        assert "step=up" not in client.process.stderr()
        assert bed.state(key) == "used"
        bed.restart_target()
        told = bed.log("target", key)
        assert [event.step for event in told] == [*TARGET[:3], "ended"]
        assert "cta-" not in pluto.ipsec("auto", "--status").stdout
        assert [path.name for path in pluto.folder.iterdir()] == ["nss"]
        bed.wait_idle("the attempt")


def test_a_tunnel_of_ipv6_is_built_as_one_of_ipv4(output: Path) -> None:
    files = AgentFiles(pool="fd00:77::/64", private="fd00:10::/64")
    with running(output, PLAIN, files) as bed:
        network = bed.network
        for host, address in ((network.target, "fd00:10::1"), (network.server, "fd00:10::2")):
            host.run(["sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=0"])
            host.run(["sysctl", "-qw", "net.ipv6.conf.lan0.disable_ipv6=0"])
            host.run(["ip", "address", "add", f"{address}/64", "dev", "lan0", "nodad"])
        network.target.run(["sysctl", "-qw", "net.ipv6.conf.all.forwarding=1"])
        network.server.run(["ip", "route", "add", "fd00:77::/64", "via", "fd00:10::1"])
        network.client.run(["sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=0"])
        network.net.run(["sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=0"])
        # Each looks first whether another has its address.
        while "tentative" in str(found := Surroundings.of(network)):
            time.sleep(0.1)
        bed.idle = found
        with bed.client(1) as client:
            up = client.wait_for("up")
            bed.wait_for_target("up", up.fields["key"])
            ping = network.client.run(["ping", "-c", "3", "-i", "0.2", "fd00:10::2"], check=False)
            assert " 3 received" in ping.stdout, ping.stdout + ping.stderr
            assert "fd00:77::" in "\n".join(surroundings(network.client))
        bed.wait_for_target("ended", up.fields["key"])
        bed.wait_idle("a tunnel of IPv6")


def test_networks_of_both_families_are_refused_when_they_are_named(texts: Bed) -> None:
    both = ("--network", "10.10.0.0/24", "--network", "fd00:10::/64")
    words = ("member", "-c", f"{texts.folder}/target.toml", "add", "bob@home")
    done = agent(texts.network.target, *words, *both)
    assert done.code == 1 and "one family" in done.stderr
    done = agent(texts.network.target, *words, "--network", "fd00:10::/64")
    assert done.code == 1 and "pool" in done.stderr
    listed = agent(texts.network.target, "member", "-c", words[2], "list", "--json").check()
    assert [one["user"] for one in json.loads(listed.stdout)["members"]] == ["alice"]
