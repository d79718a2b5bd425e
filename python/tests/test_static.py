"""The program as one static file, in a root file system that has nothing else."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.agents import SERVER_ADDRESS as AT_TARGET
from caravan.testbed.agents import Agent, AgentNetwork, agent, gateway, prepare
from caravan.testbed.binary import TOP, token_helper
from caravan.testbed.caravan import Caravan, write_files
from caravan.testbed.connection import Connection
from caravan.testbed.inventory import Inventory
from caravan.testbed.remote_access import SERVER_ADDRESS
from caravan.testbed.traffic import make_file, ping, serve_files
from caravan.threeways.measurement import Keys, tunnel_ends

pytestmark = pytest.mark.root

NOBODY = "65534:65534"
SOFTHSM = "/usr/lib/softhsm/libsofthsm2.so"
READY_S = 20.0
FILE_BYTES = 1_000_000
NAMED = """
[connections.home]
remote_addrs = ["sg.example"]
vips = ["0.0.0.0"]
local = { auth = "psk", secret = "a secret of a test", id = "ms.example" }
remote = { auth = "psk", id = "sg.example" }
[connections.home.children.net]
remote_ts = ["10.1.0.0/24"]
"""


@pytest.fixture(scope="module")
def ends(keys: Keys) -> tuple[Connection, Connection]:
    return tunnel_ends(keys, "aes128gcm16")


@pytest.fixture(scope="module")
def program() -> Path:
    """Builds it, quickly rather than well; nothing is done if nothing has changed.

    `CARAVAN_STATIC` names a built one.
    """
    if named := os.environ.get("CARAVAN_STATIC"):
        return Path(named)
    folder = TOP / "target" / "static-tests"
    quick = {"LTO": "off", "CODEGEN_UNITS": "16", "OPT_LEVEL": "0", "DEBUG": "0"}
    own = {f"CARGO_PROFILE_RELEASE_{name}": value for name, value in quick.items()}
    own |= {"CARAVAN_STATIC_FOLDER": str(folder)}
    subprocess.run(
        [TOP / "tools" / "static"], check=True, capture_output=True, env={**os.environ, **own}
    )
    return folder / "caravan"


@pytest.fixture
def network(output: Path) -> Iterator[RemoteAccess]:
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        yield network


@pytest.fixture
def root(tmp_path: Path, program: Path) -> Path:
    """A root file system with the program alone."""
    folder = tmp_path / "root"
    folder.mkdir()
    folder.chmod(0o755)
    tmp_path.chmod(0o755)
    tmp_path.parent.chmod(0o755)
    shutil.copy(program, folder / "caravan")
    return folder


def put(root: Path, file: Path) -> None:
    """The configuration and its keys."""
    for path in file.parent.iterdir():
        shutil.copy(path, root / path.name)
        (root / path.name).chmod(0o644)


def said(*argv: str | Path) -> tuple[int, str]:
    """The exit code of a program, and what it writes."""
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_it_needs_no_library_and_says_what_it_cannot(root: Path) -> None:
    _, text = said("readelf", "-lW", root / "caravan")
    assert "LOAD" in text and "INTERP" not in text
    own = ("chroot", root, "/caravan")
    code, text = said(*own, "socks", "--help")
    assert code == 0 and "without root" in text
    # There is neither a resolver nor a file that names one.
    (root / "client.toml").write_text(NAMED)
    code, text = said(*own, "socks", "-c", "/client.toml")
    assert code in (1, 2) and "sg.example" in text
    # Nor a user.
    code, text = said(*own, "up", "-c", "/client.toml", "--user", "somebody")
    assert code in (1, 2) and '"somebody"' in text
    (root / "module.so").write_bytes(b"no library")
    (root / "pin").touch(0o600)
    (root / "pin").write_text("1234")
    at = ("--module", "/module.so", "--token", "work", "--pin-file", "/pin")
    code, text = said(*own, "pki", "skip", "--name", "ms1", "--out", "/", *at)
    assert code == 1 and "one static file" in text


def test_without_root_it_works_in_an_empty_root_file_system(
    network: RemoteAccess, ends: tuple[Connection, Connection], root: Path
) -> None:
    on_gateway, on_station = ends
    put(root, write_files(network.ms, on_station))
    make_file(network.server.logs / "served" / "file", FILE_BYTES)
    serve_files(network.server, network.server.logs / "served", SERVER_ADDRESS)
    files = sorted(root.iterdir())
    with Caravan(network.sg, on_gateway) as gateway:
        gateway.wait_ready()
        before = Inventory.take(network.ms)
        argv = ["chroot", f"--userspec={NOBODY}", str(root), "/caravan", "socks"]
        argv += ["-c", "/caravan.toml", "--listen", "127.0.0.1:0"]
        way = network.ms.popen(argv, name="socks")
        way.wait_for(lambda: "up: " in way.stdout(), "the tunnel", READY_S)
        proxy = way.stdout().splitlines()[0]
        argv = ["curl", "-sS", "--proxy", proxy, "--write-out", "%{size_download}"]
        argv += ["--output", "/dev/null", f"http://{SERVER_ADDRESS}/file"]
        assert network.ms.run(argv, name="curl").stdout == str(FILE_BYTES)
        assert way.stop().code == 0
        assert before.changes(Inventory.take(network.ms)) == []
    assert sorted(root.iterdir()) == files


def test_with_root_it_makes_its_device_there(
    network: RemoteAccess, ends: tuple[Connection, Connection], root: Path
) -> None:
    """It needs `/dev/net/tun`, and `/proc` and `/dev/null` to start its steward."""
    on_gateway, on_station = ends
    put(root, write_files(network.ms, on_station))
    for folder in ("proc", "dev/net"):
        (root / folder).mkdir(parents=True)
    binds = [f"mount --rbind /proc {root}/proc"]
    for device in ("dev/net/tun", "dev/null"):
        (root / device).touch()
        binds.append(f"mount --bind /{device} {root}/{device}")
    script = " && ".join([*binds, f"exec chroot {root} /caravan up -c /caravan.toml"])
    with Caravan(network.sg, on_gateway) as gateway:
        gateway.wait_ready()
        argv = ["unshare", "--mount", "sh", "-c", script]
        up = network.ms.popen(argv, name="up")
        # The gateway is ready before the client, which has routes to make.
        up.wait_for(lambda: ping(network.ms, SERVER_ADDRESS, 1).received == 1, "a ping", READY_S)
        assert ping(network.ms, SERVER_ADDRESS, 3).received == 3
        # What the root file system lacks is said, and does not end it.
        assert "the program nft is not installed" in up.stderr()
        up.stop()


@pytest.fixture
def token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """The options that name a token of SoftHSM."""
    (tmp_path / "tokens").mkdir()
    settings = tmp_path / "softhsm2.conf"
    settings.write_text(f"directories.tokendir = {tmp_path}/tokens\n")
    monkeypatch.setenv("SOFTHSM2_CONF", str(settings))
    init = ("softhsm2-util", "--init-token", "--free", "--label", "work")
    assert said(*init, "--pin", "1234", "--so-pin", "5678")[0] == 0
    (tmp_path / "pin").touch(0o600)
    (tmp_path / "pin").write_text("1234\n")
    return ("--module", SOFTHSM, "--token", "work", "--pin-file", str(tmp_path / "pin"))


def test_keys_on_a_token_need_the_helper_beside_it(
    program: Path, token: tuple[str, ...], tmp_path: Path
) -> None:
    own = tmp_path / "caravan"
    shutil.copy(program, own)

    def make(label: str) -> tuple[int, str]:
        at = [label if word == "work" else word for word in token]
        out = ("--out", tmp_path / "keys.txt", "--public", tmp_path / "keys.pub")
        return said(own, "tunnel-agent", "make", "--count", "2", *out, *at)

    code, text = make("work")
    assert code == 1 and "keys on tokens cannot be used" in text
    shutil.copy(token_helper(), tmp_path / "caravan-token")
    code, text = make("another")
    assert code == 1 and 'there are: "work"' in text
    code, text = make("work")
    assert code == 0, text
    assert len((tmp_path / "keys.pub").read_text().splitlines()) == 2


def test_a_key_on_a_token_serves_the_static_file_once(
    program: Path, token: tuple[str, ...], tmp_path: Path
) -> None:
    own, folder = tmp_path / "bin", tmp_path / "agents"
    for made in (own, folder, folder / "client"):
        made.mkdir()
    shutil.copy(program, own / "caravan")
    shutil.copy(token_helper(), own / "caravan-token")
    (folder / "client.toml").write_text(
        'role = "client"\n[back_end]\nkind = "files"\nwriter = "caravan"\nfolder = "client"\n'
    )
    instead = ("sh", "-c", f'shift; exec {own}/caravan "$@"', "sh")
    with ExitStack() as stack:
        network = stack.enter_context(AgentNetwork(tmp_path / "logs"))

        def back_end() -> list[str]:
            (folder / "target").mkdir(mode=0o700)
            return ['kind = "files"', 'writer = "caravan"', 'folder = "target"']

        prepare(network, folder, back_end)
        out = ("--out", folder / "keys.txt", "--public", folder / "keys.pub")
        code, text = said(own / "caravan", "tunnel-agent", "make", "--count", "1", *out, *token)
        assert code == 0, text
        words = ("--user", "alice", "--public", f"{folder}/keys.pub", "--out", f"{folder}/head.txt")
        agent(network.keeper, "issue", "-c", f"{folder}/host.toml", *words).check()
        sheet = (folder / "head.txt").read_text() + (folder / "keys.txt").read_text()
        (folder / "sheet.txt").write_text(sheet)
        for role, host in (("host", network.keeper), ("target", network.target)):
            one = stack.enter_context(Agent(host, role, "-c", f"{folder}/{role}.toml"))
            one.wait_ready()
        asked = ("-c", f"{folder}/client.toml", "--user", "alice", *token)
        asked += ("--sheet", f"{folder}/sheet.txt")
        with Agent(network.client, "client", *asked, user=instead) as client:
            client.wait_for("up")
        again = Agent(network.client, "client", *asked, user=instead).process.wait(30)
        assert again.code == 1 and "no Ed25519 key with this handle" in again.stderr


def test_a_guest_comes_in_with_the_static_file_alone(tmp_path: Path, root: Path) -> None:
    """Without root, from a machine that has nothing but `/proc`."""
    served, folder = tmp_path / "www", tmp_path / "agents"
    folder.mkdir()
    digest = make_file(served / "file", FILE_BYTES)
    (root / "proc").mkdir()
    script = f"mount --rbind /proc {root}/proc && shift && exec chroot --userspec={NOBODY} {root}"
    borrowed = ("unshare", "--mount", "sh", "-c", f'{script} /caravan "$@"', "sh")
    with ExitStack() as stack:
        network = stack.enter_context(AgentNetwork(tmp_path / "logs", has_nat=True))
        serve_files(network.server, served, AT_TARGET)

        def back_end() -> list[str]:
            (folder / "tunnels").mkdir(mode=0o700)
            stack.enter_context(gateway(network.target, folder))
            return ['connection = "idle"', 'folder = "tunnels"']

        prepare(network, folder, back_end)
        for role, host in (("host", network.keeper), ("target", network.target)):
            one = stack.enter_context(Agent(host, role, "-c", f"{folder}/{role}.toml"))
            one.wait_ready()
        lines = (folder / "sheet.txt").read_text()
        words = ("--user", "alice", "--socks=127.0.0.1:0")
        files = sorted(root.iterdir())
        with Agent(network.client, "client", *words, lines=lines, user=borrowed) as client:
            client.wait_for("up")
            (proxy,) = re.findall(r"socks5h://\S+", client.process.stdout())
            fetched = tmp_path / "fetched"
            argv = ["curl", "-sS", "--proxy", proxy, "--output", str(fetched)]
            network.client.run([*argv, f"http://{AT_TARGET}/file"], 60)
        assert hashlib.sha256(fetched.read_bytes()).hexdigest() == digest
        assert sorted(root.iterdir()) == files
