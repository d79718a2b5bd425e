"""Ends of agents' tunnels, and the program that writes their texts and drives their back-ends."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from caravan.testbed.binary import caravan_binary
from caravan.testbed.caravan import environment
from caravan.testbed.host import Host
from caravan.testbed.pki import CaravanAuthority, Credentials
from caravan.testbed.process import Process

TUNNEL = "0123456789abcdef" * 2
NAME = f"cta-{TUNNEL}"
OPTIONS = ("Native", "AH", "ESP", "AH+ESP")
NETWORKS = ("10.10.0.0/24", "10.20.0.0/16")
CLIENT_ADDRESS = "198.51.100.7"
TARGET_ADDRESS = "192.0.2.1"
CLIENT_NAME = "alice@host.example"
TARGET_NAME = "gw.example"
LENT = "10.99.0.7"
MODERN = ("ike-aes128-sha256-modp2048", "aes128gcm16-modp2048", "aes128-sha256", "ah-sha256")
OLD = ("ike-3des-md5-modp1024", "3des-md5", "ah-md5")
"""What the implementations of 2004 have."""


@dataclass(frozen=True)
class Texts:
    """What a writer has written."""

    files: Mapping[str, str]
    construct: Sequence[Sequence[str]]
    destroy: Sequence[Sequence[str]]
    notes: Sequence[str]
    whole: str

    def file(self, end: str) -> str:
        """The one file whose name ends so."""
        found = [text for path, text in self.files.items() if path.endswith(end)]
        assert len(found) == 1, (end, list(self.files))
        return found[0]


def issued(authority: CaravanAuthority, name: str) -> Credentials:
    """A certificate for the identity of an end."""
    bare = name.replace("@", ".")
    return authority.issue(bare, others=() if bare == name else (name,))


def certificates(chain: Path, key: Path, peer: Path) -> dict[str, Any]:
    """A credential of files in PEM."""
    return {"certificates": {"chain": str(chain), "key": str(key), "peer": str(peer)}}


def end(
    side: str,
    option: str,
    credential: Mapping[str, Any] | None = None,
    *,
    proposals: Sequence[str] = MODERN,
    networks: Sequence[str] = NETWORKS,
    addresses: Sequence[str] = (CLIENT_ADDRESS, TARGET_ADDRESS),
    names: Sequence[str] = (CLIENT_NAME, TARGET_NAME),
    tunnel: str = TUNNEL,
    lent: str = LENT,
    lifetime_s: int = 3_600,
    ike: int | None = None,
    ppk: int | None = None,
) -> dict[str, Any]:
    """One end, as `caravan tunnel-backend` reads it; an empty address: unknown. `ike`: the version,
    else the best one; `ppk`: what each octet of the PPK is."""
    ends = [
        {"addresses": [address] if address else [], "identity": name}
        for address, name in zip(addresses, names, strict=True)
    ]
    local, remote = ends if side == "client" else ends[::-1]
    return {
        "tunnel": tunnel,
        "side": side,
        "option": option,
        "local": local,
        "remote": remote,
        "credential": credential or {"secret": 0xAB},
        "proposals": list(proposals),
        "networks": list(networks),
        "inner": "asked" if side == "client" else lent,
        "lifetime_s": lifetime_s,
        "legacy": True,
        "ike": ike,
        "ppk": ppk,
    }


def ask(questions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The answers to questions that need no back-end."""
    lines = "".join(json.dumps(question) + "\n" for question in questions)
    argv = [str(caravan_binary()), "tunnel-backend"]
    done = subprocess.run(argv, input=lines, capture_output=True, text=True, check=True, timeout=60)
    return [json.loads(line) for line in done.stdout.splitlines()]


def texts(kind: str, one: Mapping[str, Any], folder: Path | None = None) -> Texts:
    """What the writer of this kind makes of an end; `ValueError` with its words if nothing."""
    question: dict[str, Any] = {"kind": kind, "end": one}
    if folder is not None:
        question["folder"] = str(folder)
    [answer] = ask([{"texts": question}])
    if "error" in answer:
        raise ValueError(answer["error"])
    files = {path: text for path, text in answer.pop("files")}
    return Texts(files, **answer)


def processes(host: Host, word: str) -> list[int]:
    """The processes on a host that have this word among their arguments."""

    def words(pid: int) -> list[bytes]:
        with contextlib.suppress(OSError):
            return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return []

    return [pid for pid in host.pids() if word.encode() in words(pid)]


class Backend:
    """A back-end on a host of a testbed, driven by lines; a context manager."""

    def __init__(
        self,
        host: Host,
        which: Mapping[str, Any],
        instance: str = "",
        more: Mapping[str, str] | None = None,
    ) -> None:
        """`instance`: of the folders of processes; `more`: further variables of its environment."""
        argv = [str(caravan_binary()), "tunnel-backend"]
        own = environment(host, instance) | dict(more or {})
        self.process: Process = host.popen(argv, own, name="tunnel-backend", is_told=True)
        self._answers = 0
        self.options: list[str] = self.ask({"open": which})["options"]

    def ask(self, question: Mapping[str, Any], timeout_s: float = 60.0) -> dict[str, Any]:
        """The answer; `ValueError` with its words if it is an error."""
        self.process.tell(json.dumps(question))
        wanted = self._answers + 1

        def is_answered() -> bool:
            return self.process.stdout().count("\n") >= wanted

        self.process.wait_for(is_answered, "answer", timeout_s)
        self._answers = wanted
        answer: dict[str, Any] = json.loads(self.process.stdout().splitlines()[wanted - 1])
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer

    def build(self, one: Mapping[str, Any]) -> None:
        """Build an end."""
        self.ask({"build": one})

    def destroy(self, tunnel: str = TUNNEL) -> None:
        """Take it down."""
        self.ask({"destroy": tunnel})

    def state(self, tunnel: str = TUNNEL) -> tuple[str, str | None]:
        """How it is, and why."""
        answer = self.ask({"state": tunnel})
        return answer["state"], answer["why"]

    def wait_for(self, state: str, tunnel: str = TUNNEL, timeout_s: float = 30.0) -> str | None:
        """Wait until it is so, and return why."""
        found: list[str | None] = []

        def is_so() -> bool:
            now, why = self.state(tunnel)
            assert state == "down" or now != "down", why
            found.append(why)
            return now == state

        self.process.wait_for(is_so, state, timeout_s)
        return found[-1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop()
