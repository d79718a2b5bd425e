"""Two processes and their rights: the network process and the host steward.

The tests assume that the network process is controlled by an attacker: what it may write, send and
leave behind.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import signal
import socket
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from waiting import wait_for

from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.binary import caravan_binary
from caravan.testbed.caravan import Caravan, environment, order, write_files
from caravan.testbed.connection import Connection
from caravan.testbed.host import Host
from caravan.testbed.remote_access import PRIVATE_NETWORK, SERVER_ADDRESS
from caravan.testbed.traffic import ping
from caravan.threeways.measurement import Keys, tunnel_ends

pytestmark = pytest.mark.root

USER = "nobody"
UID = pwd.getpwnam(USER).pw_uid
OTHER_UID = 64_990
"""A user ID that usually nobody has."""
RESOLVER = "10.10.0.53"
NO_RESOLVERS: dict[str, list[str]] = {"addresses": [], "domains": [], "trust_anchors": []}
KEY = f"corp.example. IN DS 43547 13 1 {'07' * 20}"
"""Of a domain for which no connection takes keys."""
NET_ADMIN = 1 << 12
"""From linux/capability.h."""
Ends = tuple[Connection, Connection]


@pytest.fixture(scope="module")
def ends(keys: Keys) -> Ends:
    on_gateway, on_station = tunnel_ends(keys, "aes128gcm16")
    return on_gateway, replace(on_station, dpd_s=1)


@pytest.fixture
def network(output: Path) -> Iterator[RemoteAccess]:
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        yield network


def state(host: Host) -> list[str]:
    """What a tunnel changes on the station's host."""
    argvs = (
        ["ip", "-brief", "link"],
        ["ip", "rule"],
        ["ip", "route", "show", "table", "all"],
        ["cat", "/etc/resolv.conf"],
        ["nft", "list", "ruleset"],
    )
    return [host.run(argv).stdout for argv in argvs]


def folders(host: Host) -> tuple[Path, Path]:
    """The runtime and the state directory."""
    variables = environment(host)
    return Path(variables["CARAVAN_RUNTIME_DIR"]), Path(variables["CARAVAN_STATE_DIR"])


def resolvers(host: Host) -> str:
    return host.run(["cat", "/etc/resolv.conf"]).stdout


def set_user(host: Host, uid: int | None) -> None:
    """Creates the system user `caravan` on a host, or removes it, whatever the machine has."""
    for name, rest in (("passwd", ":Caravan:/:/usr/sbin/nologin"), ("group", ":")):
        path = f"/etc/{name}"
        lines = host.run(["cat", path]).stdout.splitlines()
        lines = [line for line in lines if not line.startswith("caravan:")]
        if uid is not None:
            own = f":{uid}" if name == "passwd" else ""
            lines.append(f"caravan:x{own}:{uid}{rest}")
        text = "\n".join(lines) + "\n"
        host.run(["sh", "-c", 'printf %s "$1" > "$2"', "sh", text, path])


def sockets(host: Host) -> list[str]:
    """Connections with which `caravan status` can be asked."""
    return sorted(path.stem for path in folders(host)[0].glob("*.sock"))


def facts(pid: int) -> tuple[int, int]:
    """User and effective capabilities of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    assert "NoNewPrivs:\t1" in status
    (uid,) = re.findall(r"Uid:\s*(\d+)", status)
    (effective,) = re.findall(r"CapEff:\s*([0-9a-f]+)", status)
    return int(uid), int(effective, 16)


def ignored(pid: int) -> set[int]:
    """Signals that do nothing to a process, nor to the `nft` that it starts."""
    status = Path(f"/proc/{pid}/status").read_text()
    (mask,) = re.findall(r"SigIgn:\s*([0-9a-f]+)", status)
    return {number for number in range(1, 32) if int(mask, 16) >> (number - 1) & 1}


def test_without_a_user_root_stays_says_so_and_has_no_right(
    network: RemoteAccess, ends: Ends
) -> None:
    set_user(network.sg, None)
    file = write_files(network.sg, ends[0])
    text = file.read_text()
    told = "stays root, without capabilities: there is no user caravan"
    for daemon, is_told in (("", True), ('[daemon]\nuser = "root"\n', False)):
        file.write_text(daemon + text)
        said = order(network.sg, "check", str(file)).check().stdout
        assert (told in said) is is_told and "is valid" in said
        with Caravan(network.sg, ends[0], file=file) as gateway:
            gateway.wait_ready()
            assert facts(gateway.process.pid) == (0, 0)
            assert facts(gateway.steward()) == (0, NET_ADMIN)
            assert ignored(gateway.steward()) >= {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
            status = order(network.sg, "status").check().stdout
            assert "rights: no capabilities, user root" in status
            assert f"host steward: pid {gateway.steward()}, CAP_NET_ADMIN" in status
            assert gateway.process.stderr().count(told) == int(is_told)
        assert sockets(network.sg) == []


def test_root_becomes_the_user_caravan_where_there_is_one(
    network: RemoteAccess, ends: Ends, tmp_path: Path
) -> None:
    before = state(network.ms)
    leases = folders(network.ms)[1] / "road.leases"
    capture = tmp_path / "all.pcapng"
    tmp_path.chmod(0o700)
    set_user(network.sg, OTHER_UID)
    peers = folders(network.sg)[1] / "road.leases/peers"
    with Caravan(network.sg, ends[0]) as gateway:
        gateway.wait_ready()
        assert facts(gateway.process.pid) == (OTHER_UID, 0)
        lent = []
        # Earlier starts as root, as the user, as another user, and as the user again.
        for uid, options in (
            (None, []),
            (OTHER_UID, ["--capture", str(capture)]),
            (OTHER_UID, ["--user", USER]),
            (OTHER_UID, []),
            (None, []),
        ):
            set_user(network.ms, uid)
            with Caravan(network.ms, ends[1], options=options) as station:
                station.wait_ready()
                speaks = UID if "--user" in options else uid or 0
                assert facts(station.process.pid) == (speaks, 0)
                assert facts(station.steward()) == (0, NET_ADMIN)
                assert leases.stat().st_uid == speaks
                lent.append((leases / "leases.json").read_text())
                if uid is not None:
                    assert "stays root" not in station.process.stderr()
                assert ping(network.ms, SERVER_ADDRESS, 1).received == 1
                station.reload()
                station.down()
                station.process.wait(10)
                assert "ermission" not in station.process.stderr()
                assert "cannot store" not in station.process.stderr()
            assert sockets(network.ms) == []
        assert len(set(lent)) == 1
        gateway.process.wait_for(peers.exists, "the places of the peers", 10)
        assert peers.stat().st_uid == OTHER_UID
    assert capture.stat().st_size > 1000 and capture.stat().st_uid == 0
    assert (tmp_path / "all.pcapng.keys/esp_sa").read_text()
    assert state(network.ms) == before


def test_a_reload_adds_and_removes_connections_of_another_user(
    network: RemoteAccess, ends: Ends
) -> None:
    file = write_files(network.sg, ends[0])
    text = file.read_text()
    more = "\n".join(
        line for line in text.splitlines() if not line.startswith(("addrs", "dns", "[pools"))
    )
    more = more.replace("connections.road", "connections.annex")
    with Caravan(network.sg, ends[0], file=file, options=["--user", USER]) as gateway:
        gateway.wait_ready()
        assert sockets(network.sg) == ["road"]
        file.write_text(text + more)
        gateway.reload()
        assert sockets(network.sg) == ["annex", "road"]
        file.write_text(text)
        order(network.sg, "reload", "annex").check()
        assert sockets(network.sg) == ["road"]
        assert gateway.try_status() is not None
    assert sockets(network.sg) == []


def test_a_station_of_another_user_does_all_that_root_s_does(
    network: RemoteAccess, ends: Ends
) -> None:
    before = state(network.ms)
    with Caravan(network.sg, ends[0]) as gateway:
        gateway.wait_ready()
        with Caravan(network.ms, ends[1], options=["--user", USER]) as station:
            station.wait_ready()
            assert facts(station.process.pid) == (UID, 0)
            assert facts(station.steward()) == (0, NET_ADMIN)
            assert ping(network.ms, SERVER_ADDRESS, 2).received == 2
            assert f"nameserver {RESOLVER}" in resolvers(network.ms)
            # Only root can read the key; the configuration can be reloaded all the same.
            assert (station.file.parent / "own.key").stat().st_mode & 0o077 == 0
            station.reload()
            text = station.file.read_text()
            station.file.write_text(text.replace(PRIVATE_NETWORK, "10.10.0.0/25"))
            station.reload()
            wait_for(lambda: network.ms.unreachable_routes() == ["10.10.0.0/25"], "the new block")
            station.wait_until(True)
            leases = folders(network.ms)[1] / "road.leases"
            assert leases.owner() == USER
            assert "10.99.0." in (leases / "leases.json").read_text()
            station.down()
            station.process.wait(10)
            assert "ermission" not in station.process.stderr()
    assert state(network.ms) == before


def test_what_another_user_was_given_comes_back(network: RemoteAccess, ends: Ends) -> None:
    set_user(network.ms, None)
    file = write_files(network.ms, ends[1])
    text = file.read_text()
    leases = folders(network.ms)[1] / "road.leases"
    with Caravan(network.sg, ends[0]) as gateway:
        gateway.wait_ready()
        for daemon, owner in ((f'[daemon]\nuser = "{USER}"\n', USER), ("", "root")):
            file.write_text(daemon + text)
            order(network.ms, "up", "-c", str(file), "--detach").check()
            assert leases.owner() == owner
            order(network.ms, "down", "road").check()
            assert "ermission" not in (folders(network.ms)[0] / "road.log").read_text()


def test_the_other_user_writes_nothing_that_root_believes(
    network: RemoteAccess, ends: Ends, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("before")
    with Caravan(network.sg, ends[0]) as gateway:
        gateway.wait_ready()
        with Caravan(network.ms, ends[1], options=["--user", USER]) as station:
            station.wait_ready()
            written = [
                path
                for folder in folders(network.ms)
                for path in (folder, *folder.rglob("*"))
                if path.lstat().st_uid == UID or (path.lstat().st_mode & 0o022 and path.is_dir())
            ]
            leases = folders(network.ms)[1] / "road.leases"
            assert {path.parent if path.is_file() else path for path in written} == {leases}
            station.down()
            station.process.wait(10)
        # All files that it could leave there.
        for name in ("leases.json", "leases.json.new", "footprint.json", "lock", "resolvers.json"):
            (leases / name).unlink(missing_ok=True)
            (leases / name).symlink_to(victim)
            os.chown(leases / name, UID, UID, follow_symlinks=False)
        for options in ([], ["--user", USER]):
            with Caravan(network.ms, ends[1], options=options) as station:
                station.wait_ready()
                assert ping(network.ms, SERVER_ADDRESS, 1).received == 1
                station.down()
                station.process.wait(10)
            assert order(network.ms, "down", "road").code == 1
        assert victim.read_text() == "before"
        # A pipe without a writer must not block the reader.
        (leases / "leases.json").unlink()
        os.mkfifo(leases / "leases.json")
        assert order(network.ms, "down", "road", timeout_s=5).code == 1


def test_a_footprint_of_another_user_is_not_believed(
    network: RemoteAccess, ends: Ends, tmp_path: Path
) -> None:
    victim = tmp_path / "resolv.conf"
    header = "# written by caravan; the former content returns with the end of the tunnel\n"
    victim.write_text(header)
    network.ms.run(["nft", "add", "table", "inet", "filter"])
    runtime, _ = folders(network.ms)
    folder = runtime / "road.d"
    folder.mkdir()
    evil: dict[str, Any] = {
        "connections": ["road"],
        "nft_tables": ["filter"],
        "dns": {"was": "file", "path": str(victim), "text": "evil"},
    }
    (folder / "footprint.json").write_text(json.dumps(evil))
    for path in (folder / "footprint.json", folder):
        os.chown(path, UID, UID)
    file = write_files(network.ms, ends[1])
    for argv in (["down", "road"], ["status"], ["up", "-c", str(file)]):
        done = order(network.ms, *argv)
        assert done.code == 1 and "not trusted" in done.stderr, argv
        assert f"rm -r {folder}" in done.stderr
    assert victim.read_text() == header
    assert "table inet filter" in network.ms.run(["nft", "list", "ruleset"]).stdout
    shutil.rmtree(folder)
    with Caravan(network.sg, ends[0]) as gateway, Caravan(network.ms, ends[1]) as station:
        gateway.wait_ready()
        station.wait_ready()


def is_over(pid: int) -> bool:
    """Whether a process has ended, waited for or not."""
    try:
        return "State:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return True


def test_when_the_one_is_killed_the_steward_takes_back_all_but_the_block(
    network: RemoteAccess, ends: Ends
) -> None:
    before = state(network.ms)
    with Caravan(network.sg, ends[0]) as gateway:
        gateway.wait_ready()
        with Caravan(network.ms, ends[1]) as station:
            station.wait_ready()
            steward = station.steward()
            # Whoever ends a whole process group ends the other process first.
            os.kill(steward, signal.SIGTERM)
            os.kill(steward, signal.SIGINT)
            assert ping(network.ms, SERVER_ADDRESS, 1).received == 1
            station.process.signal(signal.SIGKILL)
            station.process.wait(5)
            wait_for(lambda: is_over(steward), "the steward's end")
        assert RESOLVER not in resolvers(network.ms)
        assert network.ms.unreachable_routes() == [PRIVATE_NETWORK]
        assert "caravan_road" not in network.ms.run(["nft", "list", "ruleset"]).stdout
        # The next one follows at once.
        with Caravan(network.ms, ends[1]) as station:
            station.wait_ready()
            station.down()
            station.process.wait(10)
    assert state(network.ms) == before


def test_when_the_steward_is_killed_the_tunnel_ends_at_once_and_the_block_stays(
    network: RemoteAccess, ends: Ends
) -> None:
    before = state(network.ms)
    with Caravan(network.sg, ends[0]) as gateway:
        gateway.wait_ready()
        with Caravan(network.ms, ends[1], options=["--user", USER]) as station:
            station.wait_ready()
            os.kill(station.steward(), signal.SIGKILL)
            # Nothing asks it for anything meanwhile.
            assert station.process.wait(5).code == 1
            told = station.process.stderr()
            assert "(caravan steward) is gone: the tunnels end" in told
            assert f"{PRIVATE_NETWORK} stays blocked; `caravan down road` unblocks that" in told
        assert network.ms.unreachable_routes() == [PRIVATE_NETWORK]
        assert ping(network.ms, SERVER_ADDRESS, 1, timeout_s=0.5).received == 0
        order(network.ms, "down", "road").check()
    assert state(network.ms) == before


class Taken:
    """A steward, and a test process that talks to it in place of the process that it expects."""

    def __init__(self, host: Host, file: Path) -> None:
        self.socket, other = socket.socketpair()
        self.socket.settimeout(20)
        argv = [str(caravan_binary()), "steward", "--config", str(file), "--role", "up"]
        with host.entered():
            self.process = subprocess.Popen(
                argv,
                stdin=other.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=os.environ | environment(host),
                text=True,
            )
        other.close()

    def send(self, frame: bytes) -> None:
        self.socket.sendall(struct.pack("!I", len(frame)) + frame)

    def hear(self) -> dict[str, Any]:
        (length,) = struct.unpack("!I", self._read(4))
        reply: dict[str, Any] = json.loads(self._read(length))
        return reply

    def ask(self, request: str, **fields: Any) -> dict[str, Any]:
        self.send(json.dumps({"request": request, **fields}).encode())
        return self.hear()

    def _read(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            part = self.socket.recv(count - len(found))
            assert part, "it hung up"
            found += part
        return found

    def end(self) -> str:
        """Closes the connection; returns the steward's log."""
        self.socket.close()
        _, log = self.process.communicate(timeout=20)
        return log


def wish(**changes: Any) -> dict[str, Any]:
    desired: dict[str, Any] = {
        "addresses": [],
        "routes": {},
        "blocks": {"road": [PRIVATE_NETWORK]},
        "passing": [],
        "rules": [],
    }
    return {"desired": desired | changes, "resolvers": NO_RESOLVERS}


def test_a_steward_refuses_what_the_configuration_does_not_name(
    network: RemoteAccess, ends: Ends
) -> None:
    before = state(network.ms)
    file = write_files(network.ms, ends[1])
    taken = Taken(network.ms, file)
    ready = taken.hear()
    assert ready["reply"] == "ready" and ready["blocks"] == {"road": [PRIVATE_NETWORK]}
    assert network.ms.unreachable_routes() == [PRIVATE_NETWORK]
    network.ms.run(["ip", "tuntap", "add", "caravan0", "mode", "tun"])
    assert taken.ask("device", mtu=1400) == {"reply": "done"}
    good = wish(addresses=["10.99.0.1"], routes={PRIVATE_NETWORK: "10.99.0.1"})
    assert taken.ask("apply", **good) == {"reply": "done"}
    during = state(network.ms)
    assert any(f"{PRIVATE_NETWORK} dev caravan0" in text for text in during)
    strange = (
        wish(routes={"0.0.0.0/0": None}),
        wish(routes={"10.10.0.0/25": None}),
        wish(blocks={"road": ["192.0.2.0/24"]}),
        wish(blocks={"other": [PRIVATE_NETWORK]}),
        wish(addresses=["127.0.0.1"]),
        wish(passing=["road"]),
        wish(rules=[[False, "spared"]]),
        wish() | {"resolvers": NO_RESOLVERS | {"addresses": ["127.0.0.53"]}},
        wish() | {"resolvers": NO_RESOLVERS | {"trust_anchors": [KEY]}},
    )
    for request in strange:
        reply = taken.ask("apply", **request)
        assert reply["reply"] == "refused" and "not a request" not in reply["text"], request
    for frame in (b"", b"\xff" * 100, b'{"request": "apply"}', b'{"request": "run"}'):
        taken.send(frame)
        assert taken.hear()["reply"] == "refused", frame
    assert taken.ask("adopt")["reply"] == "refused"
    assert taken.ask("resize", mtu=1)["reply"] == "refused"
    assert state(network.ms) == during
    refused = len(strange) + 6
    counts = {
        "packets": 0,
        "refused": refused,
        "put_back": 0,
        "entries_put_back": 0,
        "is_open": False,
        "has_trust_anchors": False,
    }
    assert taken.ask("kept-out") == {"reply": "kept-out", "counts": counts}
    # A message longer than any request is not read, and ends the connection.
    taken.socket.sendall(struct.pack("!I", 0xFFFF_FFFF))
    assert "refused, the configuration does not name it" in taken.end()
    network.ms.run(["ip", "link", "delete", "caravan0"])
    assert network.ms.unreachable_routes() == [PRIVATE_NETWORK]
    order(network.ms, "down", "road").check()
    assert state(network.ms) == before


def test_a_steward_is_started_by_caravan_alone(tmp_path: Path) -> None:
    argv = [str(caravan_binary()), "steward", "--config", str(tmp_path / "none.toml")]
    argv += ["--role", "up"]
    done = subprocess.run(
        argv, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.returncode == 1 and "by themselves" in done.stderr


def test_a_service_of_few_capabilities_starts_again_with_what_it_kept(
    network: RemoteAccess, ends: Ends
) -> None:
    """Root without CAP_DAC_OVERRIDE, as in the units, cannot read the user's files."""
    unit = Path(__file__).parents[2] / "packaging/caravan@.service"
    (line,) = re.findall(r"CapabilityBoundingSet=(.*)", unit.read_text())
    rights = ",".join(f"+{right.removeprefix('CAP_').lower()}" for right in line.split())
    set_user(network.ms, OTHER_UID)
    file = write_files(network.ms, ends[1])
    argv = [
        "setpriv",
        f"--bounding-set=-all,{rights}",
        str(caravan_binary()),
        "up",
        "-c",
        str(file),
    ]
    leases = folders(network.ms)[1] / "road.leases"
    lent = []
    with Caravan(network.sg, ends[0]) as gateway:
        gateway.wait_ready()
        for _ in range(2):
            done = network.ms.run([*argv, "--detach"], environment=environment(network.ms))
            log = (folders(network.ms)[0] / "road.log").read_text()
            assert "stays root" not in log and "cannot store" not in log, done
            assert leases.stat().st_uid == OTHER_UID
            lent.append((leases / "leases.json").read_text())
            assert "asks for an inner address again" not in log
            order(network.ms, "down", "road").check()
    assert lent[0] == lent[1]
