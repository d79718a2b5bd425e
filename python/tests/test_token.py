"""`caravan-token` with SoftHSM: keys are made on the token and sign there. A second implementation
of its messages speaks over the pipe, and a PIN is typed on a terminal."""

from __future__ import annotations

import os
import shlex
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from caravan.testbed.binary import caravan_binary, token_helper

SOFTHSM = "/usr/lib/softhsm/libsofthsm2.so"
LABEL = "work"
PIN = "1234"
HANDLE, OTHER = bytes(range(16)), bytes(16)
LIST, OPEN, MAKE, FIND, SIGN, DESTROY = range(1, 7)
TOKENS, OPENED, PUBLIC, SIGNATURE, REFUSED, REMOVED, DESTROYED = range(1, 8)
NO_TOKEN, WRONG_PIN, NO_PIN, NO_KEY, SEVERAL_KEYS, NOT_OPEN, MALFORMED = 2, 3, 4, 6, 7, 9, 11

pytestmark = pytest.mark.root


class Helper:
    """A running helper."""

    def __init__(self, pin: Path, module: str = SOFTHSM) -> None:
        argv = [str(token_helper()), "--module", module, "--pin-file", str(pin)]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, kind: int, body: bytes = b"") -> tuple[int, bytes]:
        assert self.process.stdin is not None
        self.process.stdin.write(struct.pack("!HB", len(body) + 1, kind) + body)
        self.process.stdin.flush()
        return self.hear()

    def hear(self) -> tuple[int, bytes]:
        assert self.process.stdout is not None
        (length,) = struct.unpack("!H", self.process.stdout.read(2))
        message = self.process.stdout.read(length)
        return message[0], message[1:]

    def open(self, label: str = LABEL) -> tuple[int, bytes]:
        return self.ask(OPEN, bytes([len(label)]) + label.encode())

    def __enter__(self) -> Helper:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def pin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A token of SoftHSM, and the file of its PIN."""
    (tmp_path / "tokens").mkdir()
    settings = tmp_path / "softhsm2.conf"
    settings.write_text(f"directories.tokendir = {tmp_path}/tokens\n")
    monkeypatch.setenv("SOFTHSM2_CONF", str(settings))
    file = tmp_path / "pin"
    file.touch(0o600)
    file.write_text(f"{PIN}\n")
    argv = ["softhsm2-util", "--init-token", "--free", "--label", LABEL]
    subprocess.run([*argv, "--pin", PIN, "--so-pin", "5678"], check=True, capture_output=True)
    yield file


def verify(public: bytes, signature: bytes, octets: bytes) -> None:
    Ed25519PublicKey.from_public_bytes(public).verify(signature, octets)


def test_a_key_is_made_on_the_token_and_signs_there(pin: Path) -> None:
    octets = os.urandom(4_096)
    with Helper(pin) as helper:
        kind, tokens = helper.ask(LIST)
        assert kind == TOKENS and tokens[:6] == bytes([1, len(LABEL)]) + LABEL.encode()
        assert helper.ask(SIGN, HANDLE + octets) == (REFUSED, bytes([NOT_OPEN]))
        assert helper.open() == (OPENED, b"")
        assert helper.ask(FIND, HANDLE) == (REFUSED, bytes([NO_KEY]))
        kind, public = helper.ask(MAKE, HANDLE)
        assert kind == PUBLIC
        assert helper.ask(MAKE, HANDLE) == (REFUSED, bytes([SEVERAL_KEYS]))
        kind, another = helper.ask(MAKE, OTHER)
        assert kind == PUBLIC and another != public
    # Another process finds it again.
    with Helper(pin) as helper:
        assert helper.open() == (OPENED, b"")
        assert helper.ask(FIND, HANDLE) == (PUBLIC, public)
        kind, signature = helper.ask(SIGN, HANDLE + octets)
        assert kind == SIGNATURE
        verify(public, signature, octets)
        with pytest.raises(InvalidSignature):
            verify(another, signature, octets)
        # Its number of bytes is right, and no other key goes with it.
        assert helper.ask(DESTROY, HANDLE[:-1]) == (REFUSED, bytes([MALFORMED]))
        assert helper.ask(DESTROY, HANDLE) == (DESTROYED, b"")
        assert helper.ask(SIGN, HANDLE + octets) == (REFUSED, bytes([NO_KEY]))
        assert helper.ask(FIND, HANDLE) == (REFUSED, bytes([NO_KEY]))
        assert helper.ask(FIND, OTHER) == (PUBLIC, another)
        assert helper.process.stdin is not None
        helper.process.stdin.close()
        assert helper.process.wait(10) == 0


def test_each_refusal_has_its_code_and_the_helper_goes_on(pin: Path, tmp_path: Path) -> None:
    with Helper(pin) as helper:
        assert helper.open("another") == (REFUSED, bytes([NO_TOKEN]))
        assert helper.ask(99) == (REFUSED, bytes([MALFORMED]))
        pin.write_text("4321\n")
        assert helper.open() == (REFUSED, bytes([WRONG_PIN]))
        pin.write_text("")
        assert helper.open() == (REFUSED, bytes([NO_PIN]))
        pin.write_text(PIN)
        pin.chmod(0o644)
        assert helper.open() == (REFUSED, bytes([NO_PIN]))
        pin.chmod(0o600)
        assert helper.open() == (OPENED, b"")
    with Helper(pin) as helper:
        # A length that no message has: it ends, for what follows cannot be read.
        assert helper.process.stdin is not None
        helper.process.stdin.write(b"\xff\xff")
        helper.process.stdin.flush()
        assert helper.process.wait(10) == 1


def test_the_removal_of_the_token_is_told(pin: Path, tmp_path: Path) -> None:
    with Helper(pin) as helper:
        assert helper.open() == (OPENED, b"")
        assert helper.ask(MAKE, HANDLE)[0] == PUBLIC
        shutil.rmtree(tmp_path / "tokens")
        (tmp_path / "tokens").mkdir()
        assert helper.hear() == (REMOVED, b"")
        assert helper.process.wait(10) == 0


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, argv: Sequence[str | Path], folder: Path) -> None:
        own, other = os.openpty()
        self._own = own
        command = ["setsid", "--ctty", "--wait", *map(str, argv)]
        self.process = subprocess.Popen(
            command, cwd=folder, stdin=other, stdout=other, stderr=other
        )
        os.close(other)
        os.set_blocking(own, False)
        self.shown = ""

    def read(self) -> str:
        """All that it has shown."""
        try:
            while octets := os.read(self._own, 4096):
                self.shown += octets.decode()
        except (BlockingIOError, OSError):
            # Nothing more at present, or for ever.
            pass
        return self.shown

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + 20
        while text not in self.read():
            assert time.monotonic() < deadline, self.shown
            time.sleep(0.02)

    def type(self, text: str) -> None:
        os.write(self._own, text.encode())

    def end(self) -> int:
        code = self.process.wait(20)
        self.read()
        os.close(self._own)
        return code


MAKE_KEYS = (
    *("tunnel-agent", "make", "--count", "2", "--out", "keys.txt", "--public", "keys.pub"),
    *("--module", SOFTHSM, "--token", LABEL),
)


def test_the_pin_is_asked_on_the_terminal_and_not_shown(pin: Path, tmp_path: Path) -> None:
    terminal = Terminal([caravan_binary(), *MAKE_KEYS], tmp_path)
    terminal.wait_for("PIN of the token work: ")
    terminal.type(f"{PIN}\n")
    assert terminal.end() == 0, terminal.shown
    assert PIN not in terminal.shown
    assert len((tmp_path / "keys.pub").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("typed", "said"),
    [("4321\n", "refuses the PIN"), ("\n", "needs a PIN"), ("12\x03", "needs a PIN")],
)
def test_a_pin_that_is_wrong_or_not_given_makes_no_key(
    typed: str, said: str, pin: Path, tmp_path: Path
) -> None:
    terminal = Terminal([caravan_binary(), *MAKE_KEYS], tmp_path)
    terminal.wait_for("PIN of the token work: ")
    terminal.type(typed)
    assert terminal.end() == 1
    assert said in terminal.shown and typed.strip() not in terminal.shown.split()
    assert not (tmp_path / "keys.txt").exists() and not (tmp_path / "keys.pub").exists()


@pytest.mark.parametrize("is_there", [True, False], ids=["others-may-read-it", "missing"])
def test_a_file_of_a_pin_that_is_none_is_told(is_there: bool, pin: Path, tmp_path: Path) -> None:
    pin.chmod(0o644)
    if not is_there:
        pin.unlink()
    argv = [str(caravan_binary()), *MAKE_KEYS, "--pin-file", str(pin)]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    said = "chmod 600" if is_there else "No such file"
    assert done.returncode == 1
    assert f"cannot read a PIN from {pin}" in done.stderr and said in done.stderr
    assert not (tmp_path / "keys.txt").exists()


def test_a_pin_comes_through_a_pipe(pin: Path, tmp_path: Path) -> None:
    words = shlex.join([str(caravan_binary()), *MAKE_KEYS, "--pin-file", "/dev/fd/3"])
    argv = ["sh", "-c", f"cat pin | {words} 3<&0"]
    subprocess.run(argv, cwd=tmp_path, check=True, capture_output=True)
    assert len((tmp_path / "keys.pub").read_text().splitlines()) == 2


def test_without_a_terminal_and_a_file_nobody_is_asked(pin: Path, tmp_path: Path) -> None:
    argv = ["setsid", "--wait", str(caravan_binary()), *MAKE_KEYS]
    done = subprocess.run(
        argv, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and "needs a PIN" in done.stderr
