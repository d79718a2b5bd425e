"""`tools/setup` and `tools/test`, as far as they can be tested without root and network."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]


def run_setup(path: Path, part: str) -> subprocess.CompletedProcess[str]:
    """Runs `tools/setup` with one folder as the search path."""
    return subprocess.run(
        ["bash", str(TOP / "tools" / "setup"), part],
        env={"PATH": str(path), "HOME": str(path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def programs_without(folder: Path, hidden: set[str]) -> Path:
    """A folder with a link to each of the machine's programs, except the hidden ones."""
    folder.mkdir()
    for place in ("/usr/bin", "/bin"):
        for name in os.listdir(place):
            link = folder / name
            if name not in hidden and not link.is_symlink():
                link.symlink_to(Path(place) / name)
    return folder


def write_program(path: Path, body: str) -> None:
    path.unlink(missing_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def test_setup_refuses_an_unknown_part() -> None:
    done = run_setup(Path("/usr/bin"), "everything")
    assert done.returncode == 1
    assert done.stderr == 'setup: unknown part "everything": build or all\n'


def test_setup_without_root_prints_the_line_and_fails(tmp_path: Path) -> None:
    path = programs_without(tmp_path / "bin", {"iperf3", "sudo"})
    write_program(path / "id", "echo 1000")
    write_program(path / "apt-get", f"touch {tmp_path}/called")
    done = run_setup(path, "all")
    assert done.returncode == 1
    line = next(line for line in done.stdout.splitlines() if "apt-get install" in line)
    assert "iperf3" in line.split()
    assert done.stderr.startswith("setup: no root and no sudo")
    assert not (tmp_path / "called").exists()


def test_setup_names_what_is_missing_on_another_system(tmp_path: Path) -> None:
    path = programs_without(tmp_path / "bin", {"curl", "apt-get"})
    done = run_setup(path, "all")
    assert done.returncode == 1
    assert done.stderr.startswith("setup: missing:")
    assert "curl" in done.stderr


def test_ruff_is_handed_every_python_text() -> None:
    lines = (TOP / "tools" / "test").read_text().splitlines()
    calls = [line.split() for line in lines if "/ruff " in line]
    assert len(calls) == 2
    listed = subprocess.run(
        ["git", "ls-files", "*.py", "*.pyi", "*.ipynb"],
        cwd=TOP,
        capture_output=True,
        text=True,
        check=False,
    )
    # A copy without its git history still has the notebooks.
    folders = {name.partition("/")[0] for name in listed.stdout.split()} | {"python", "notebooks"}
    for call in calls:
        assert folders <= set(call), call


class Peers:
    """A copy of `tools/peers` with a mirror of its own, which has one package of one peer."""

    def __init__(self, folder: Path) -> None:
        self.top = folder / "top"
        self.folder = self.top / ".build/peers/one"
        self.fetched = folder / "fetched"
        self.pool = folder / "pool"
        self.bin = folder / "bin"
        for made in (self.top / "tools", self.pool, self.bin):
            made.mkdir(parents=True)
        for name in ("peers", "env", "pluto-kernel.c"):
            shutil.copy(TOP / "tools" / name, self.top / "tools")
        write_program(self.bin / "uname", "echo x86_64")
        write_program(self.bin / "apt-get", "echo http://mirror.example/")
        # The file's address and its name are behind the options.
        fetch = f'shift 7; cp "{self.pool}/${{1##*/}}" "$2" && echo "$1" >>{self.fetched}'
        write_program(self.bin / "apt-helper", fetch)

    def offer(self, word: str) -> None:
        """The mirror has a package whose program says so, and the list names it."""
        root = self.pool / "root"
        shutil.rmtree(root, ignore_errors=True)
        (root / "DEBIAN").mkdir(parents=True)
        control = f"Package: one\nVersion: 1-{word}\nArchitecture: all\nMaintainer: x\n"
        (root / "DEBIAN/control").write_text(control + "Description: x\n")
        (root / "usr/bin").mkdir(parents=True)
        (root / "usr/bin/word").write_text(word)
        shutil.copy("/bin/true", root / "usr/bin/program")
        package = self.pool / f"one_{word}.deb"
        subprocess.run(["dpkg-deb", "-b", str(root), str(package)], check=True, capture_output=True)
        self.name(f"one_{word}.deb", hashlib.sha256(package.read_bytes()).hexdigest())

    def name(self, package: str, digest: str) -> None:
        """The list names this package alone."""
        (self.top / "tools/peers.list").write_text(f"# a comment\none pool/{package} {digest}\n")

    def run(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", str(self.top / "tools/peers")],
            env={**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def fetches(self) -> int:
        """How many packages were asked for."""
        return len(self.fetched.read_text().splitlines()) if self.fetched.exists() else 0

    def word(self) -> str:
        return (self.folder / "usr/bin/word").read_text()

    def left(self) -> list[str]:
        """What is beside the peer's folder."""
        return sorted(path.name for path in self.folder.parent.iterdir() if path != self.folder)


def test_wireguard_go_that_cannot_be_built_says_why_and_is_asked_for_again(tmp_path: Path) -> None:
    top, own = tmp_path / "top", tmp_path / "bin"
    peers = top / ".build/peers"
    for made in (top / "tools", own):
        made.mkdir(parents=True)
    for name in ("bench-peers", "env"):
        shutil.copy(TOP / "tools" / name, top / "tools")

    def run(install: str) -> str:
        version = "echo go version go1.99 linux/amd64"
        write_program(own / "go", f"case $1 in install) {install};; *) {version};; esac")
        return subprocess.run(
            ["bash", str(top / "tools/bench-peers"), "--tests"],
            env={**os.environ, "PATH": f"{own}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    assert "not run: the tests with wireguard-go" in run("exit 1")
    assert "does not build" in (peers / "wireguard-go.missing").read_text()
    run('printf "#!/bin/sh" >"$GOBIN/wireguard"')
    assert (peers / "bin/wireguard-go").is_file()
    assert not (peers / "wireguard-go.missing").exists()


def test_a_peer_is_fetched_again_only_when_its_packages_change(tmp_path: Path) -> None:
    peers = Peers(tmp_path)
    peers.offer("first")
    assert peers.run().returncode == 0
    assert (peers.word(), peers.fetches(), peers.left()) == ("first", 1, [])
    wrapper = (peers.folder / "usr/bin/program").read_text()
    assert f"{peers.folder}/usr/bin/program.elf" in wrapper
    assert ".new." not in wrapper
    for text in ("tools/peers", "tools/pluto-kernel.c", "tools/peers.list"):
        with (peers.top / text).open("a") as file:
            file.write("# a comment\n" if text != "tools/pluto-kernel.c" else "/* a comment */\n")
    assert peers.run().returncode == 0
    assert peers.fetches() == 1
    peers.offer("second")
    assert peers.run().returncode == 0
    assert (peers.word(), peers.fetches(), peers.left()) == ("second", 2, [])


def test_a_package_with_another_hash_is_not_unpacked_and_the_former_stays(tmp_path: Path) -> None:
    peers = Peers(tmp_path)
    peers.offer("first")
    peers.name("one_first.deb", "0" * 64)
    done = peers.run()
    told = "one_first.deb is not the file that tools/peers.list names"
    assert done.returncode == 0
    assert f"not run: the tests with one: {told}" in done.stdout
    assert (peers.left(), peers.folder.exists()) == (["one.missing"], False)
    peers.offer("first")
    assert peers.run().returncode == 0
    assert (peers.word(), peers.left()) == ("first", [])
    peers.name("one_gone.deb", "0" * 64)
    done = peers.run()
    assert "one stays as it was: the mirror does not give one_gone.deb" in done.stdout
    assert (peers.word(), peers.left()) == ("first", [])


def test_a_peer_is_not_unpacked_through_a_link(tmp_path: Path) -> None:
    peers = Peers(tmp_path)
    peers.offer("first")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    peers.folder.parent.mkdir(parents=True)
    peers.folder.symlink_to(elsewhere)
    done = peers.run()
    assert done.returncode == 1
    assert "peers: .build/peers/one is a link: remove it" in done.stderr
    assert not list(elsewhere.iterdir())
    assert peers.fetches() == 0
