"""SKIP against a second implementation, both ways: the engine's tests open what Python seals
(`python.txt`), and Python opens what the engine seals (`rust.txt`). And keys for SKIP, in files and
on a token."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import skip_by_hand
from cryptography.hazmat.primitives import serialization
from skip_by_hand import Line

from caravan.testbed.binary import caravan_binary

SOFTHSM = "/usr/lib/softhsm/libsofthsm2.so"
GOLDEN = Path(__file__).parents[2] / "crates" / "engine" / "testdata" / "skip"


def lines(name: str) -> list[Line]:
    return [Line.parse(text) for text in (GOLDEN / name).read_text().splitlines()]


def test_python_opens_what_the_engine_sealed() -> None:
    golden = lines("rust.txt")
    assert {(it.kij, it.crypt, it.mac) for it in golden} == set(skip_by_hand.choices())
    assert {it.source[0] for it in golden} == {it.destination[0] for it in golden} == set(range(12))
    for line in golden:
        assert skip_by_hand.opened(line) == line.clear, str(line)


def test_the_golden_packets_are_those_of_this_implementation() -> None:
    written = lines("python.txt")
    assert written == skip_by_hand.golden(skip_by_hand.GOLDEN_N)
    for line in written:
        assert skip_by_hand.opened(line) == line.clear, str(line)


@pytest.mark.parametrize("mac", [skip_by_hand.MD5_MAC, skip_by_hand.GCM_SIV])
def test_a_changed_packet_is_refused(mac: int) -> None:
    """The second implementation checks what it claims to check."""
    line = next(it for it in lines("rust.txt") if it.mac == mac and it.crypt and it.clear)
    for at in range(skip_by_hand.IP_BYTES, len(line.packet)):
        octets = bytearray(line.packet)
        octets[at] ^= 0x10
        changed = Line(**{**line.__dict__, "packet": bytes(octets)})
        with pytest.raises(Exception):  # noqa: B017
            assert skip_by_hand.opened(changed) == line.clear


def run(*words: object) -> str:
    """The output of `caravan pki`."""
    command = [str(caravan_binary()), "pki", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.root
def test_the_files_are_those_of_openssl(tmp_path: Path) -> None:
    for name, group in (("ms1", "x25519"), ("ms2", "skip1024"), ("ms3", "skip2048")):
        run("skip", "--name", name, "--group", group, "--legacy", "--out", tmp_path)
        private = serialization.load_pem_private_key(
            (tmp_path / f"{name}.skip.key").read_bytes(), None
        )
        public = private.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        ours = (tmp_path / f"{name}.skip.pub").read_bytes()
        assert public.split() == ours.split()


@pytest.mark.root
def test_a_token_keeps_the_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SoftHSM makes a key, and derives what the peer derives from its file."""
    settings = tmp_path / "softhsm2.conf"
    (tmp_path / "tokens").mkdir()
    settings.write_text(f"directories.tokendir = {tmp_path}/tokens\n")
    monkeypatch.setenv("SOFTHSM2_CONF", str(settings))
    pin = tmp_path / "pin"
    pin.touch(0o600)
    pin.write_text("1234\n")
    token = ("softhsm2-util", "--init-token", "--free", "--label", "caravan")
    subprocess.run([*token, "--pin", "1234", "--so-pin", "5678"], check=True, capture_output=True)
    at = ("--module", SOFTHSM, "--token", "caravan", "--pin-file", pin)
    run("skip", "--name", "ms1", "--out", tmp_path, *at)
    run("skip", "--name", "ms2", "--out", tmp_path)
    assert not (tmp_path / "ms1.skip.key").exists()
    on_token = run("skip-check", "ms1", tmp_path / "ms2.skip.pub", *at)
    in_file = run("skip-check", tmp_path / "ms2.skip.key", tmp_path / "ms1.skip.pub")
    assert on_token.splitlines()[-1] == in_file.splitlines()[-1]
    with pytest.raises(subprocess.CalledProcessError):
        run("skip", "--name", "ms1", "--out", tmp_path / "again", *at)
    pin.write_text("4321\n")
    with pytest.raises(subprocess.CalledProcessError):
        run("skip-check", "ms1", tmp_path / "ms2.skip.pub", *at)
