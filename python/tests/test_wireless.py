"""Frames of wireless links against readers that are not ours: tshark, given the keys, must read
every frame that the engine's tests have written (`air.txt`), and a second implementation of OWE has
the same keys."""

from __future__ import annotations

import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
import wireless_by_hand

GOLDEN = Path(__file__).parents[2] / "crates" / "engine" / "testdata" / "wireless"
TIMEOUT_S = 60
LINK_TYPE_80211 = 105
IPV4 = bytes([8, 0])
HEADER_BYTES = 14 + 20 + 8
"""Ethernet, IPv4 and UDP."""
GROUP_KEYS = {1: b"\x61", 2: b"\x62"}
"""The octet of which each group key consists."""
FIELDS = (
    "wlan.sa",
    "wlan.da",
    "udp.payload",
    "wlan_rsna_eapol.keydes.msgnr",
    "wlan.rsn.ie.gtk_kde.gtk",
    "_ws.expert.message",
)


@dataclass(frozen=True)
class Capture:
    """Frames of the air with the Ethernet frames in them, empty of management, and the key that
    reads them, with its kind in tshark's words."""

    name: str
    kind: str
    key: str
    frames: list[tuple[bytes, bytes]]

    @property
    def cipher(self) -> str:
        return self.name.split("-akm-")[0]

    @property
    def has_handshake(self) -> bool:
        return "-akm-" in self.name

    @property
    def keys(self) -> list[tuple[str, str]]:
        """What tshark gets. Of TKIP it takes the temporal key without the keys of Michael, which it
        does not check; and it reads no group key that RC4 has encrypted."""
        if self.kind == "wep":
            return [("wep", self.key)]
        if self.cipher != "tkip":
            return [(self.kind, self.key)]
        if not self.has_handshake:
            return [("tk", self.key[:32])]
        groups = [("tk", (octet * 16).hex()) for octet in GROUP_KEYS.values()]
        return [(self.kind, self.key), *groups]


@dataclass(frozen=True)
class Reading:
    """What tshark reads in a frame."""

    source: str
    destination: str
    payload: bytes
    message: str
    group_key: str
    faults: str


def captures() -> list[Capture]:
    found: list[Capture] = []
    for line in (GOLDEN / "air.txt").read_text().splitlines():
        words = line.split()
        if words[0] == "capture":
            found.append(Capture(words[1], words[2], words[3], []))
        else:
            air, ethernet = words
            frames = found[-1].frames
            frames.append((bytes.fromhex(air), bytes.fromhex(ethernet.strip("-"))))
    return found


def read(capture: Capture, keys: list[tuple[str, str]], folder: Path) -> list[Reading]:
    """What tshark reads with these keys."""
    path = folder / "air.pcap"
    octets = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, LINK_TYPE_80211)
    for number, (air, _) in enumerate(capture.frames):
        octets += struct.pack("<IIII", number, 0, len(air), len(air)) + air
    path.write_bytes(octets)
    argv = ["tshark", "-n", "-r", str(path), "-o", "wlan.enable_decryption:TRUE"]
    for kind, key in keys:
        argv += ["-o", f'uat:80211_keys:"{kind}","{key}"']
    argv += ["-T", "fields", *(word for field in FIELDS for word in ("-e", field))]
    done = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=TIMEOUT_S)
    return [_reading(line) for line in done.stdout.splitlines()]


def _reading(line: str) -> Reading:
    source, destination, payload, message, group_key, faults = line.split("\t")
    return Reading(source, destination, bytes.fromhex(payload), message, group_key, faults)


def mac(octets: bytes) -> str:
    return octets.hex(":")


@pytest.mark.parametrize("capture", captures(), ids=lambda it: it.name)
def test_tshark_reads_every_frame_with_the_keys_and_none_without(
    capture: Capture, tmp_path: Path
) -> None:
    readings = read(capture, capture.keys, tmp_path)
    blind = read(capture, [], tmp_path)
    wrong = read(capture, [(kind, "5a" * (len(key) // 2)) for kind, key in capture.keys], tmp_path)
    count = 0
    rows = zip(capture.frames, readings, blind, wrong, strict=True)
    for (air, ethernet), reading, without, with_wrong in rows:
        assert not reading.faults, air.hex()
        if ethernet[12:14] != IPV4:
            continue
        count += 1
        assert reading.payload == ethernet[HEADER_BYTES:], air.hex()
        assert (reading.destination, reading.source) == (mac(ethernet[:6]), mac(ethernet[6:12]))
        assert not without.payload
        assert not with_wrong.payload
    assert count >= 5


@pytest.mark.parametrize(
    "capture", [it for it in captures() if it.has_handshake], ids=lambda it: it.name
)
def test_tshark_follows_the_handshakes(capture: Capture, tmp_path: Path) -> None:
    readings = read(capture, capture.keys, tmp_path)
    messages = [reading.message for reading in readings if reading.message]
    assert messages == ["1", "2", "3", "4", "1", "2"]
    keys = [reading.group_key for reading in readings if reading.group_key]
    size = 32 if capture.cipher == "gcmp-256" else 16
    expected = [] if capture.cipher == "tkip" else list(GROUP_KEYS.values())
    assert keys == [(octet * size).hex() for octet in expected]


def test_every_cipher_and_way_to_agree_has_a_capture() -> None:
    names = {capture.name for capture in captures()}
    assert {"wep-40", "wep-104", "tkip", "ccmp-128", "gcmp-256"} <= names
    assert {name.split("-akm-")[1] for name in names if "-akm-" in name} == set(
        ["1", "2", "5", "6", "8", "18"]
    )


def test_the_vectors_of_owe_are_those_of_this_implementation() -> None:
    assert (GOLDEN / "owe.txt").read_text() == wireless_by_hand.owe_vectors()
