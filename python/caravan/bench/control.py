"""What the control plane costs: CPU time of a handshake, memory of tunnels and of a client.

Handshakes are measured twice. The crate's own bench `load` gives the responder's share without
sockets or a second program; then real programs set a tunnel up again and again, strongSwan's and
ours by the same steps, and the gateway's CPU time is divided by their number. That share holds the
delete which ends each tunnel.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from caravan.bench.systems import Bench, ipsec_ends
from caravan.measurement import Keys
from caravan.testbed.caravan import Caravan
from caravan.testbed.strongswan import StrongSwan

SUITE = "aes128gcm16"
REST_S = 2.0
LOAD_TIMEOUT_S = 600


@dataclass(frozen=True)
class Handshakes:
    """CPU ms of one responder per handshake: all threads; `how` it was measured."""

    system: str
    how: str
    count: int
    responder_ms: float


@dataclass(frozen=True)
class Memory:
    """Resident memory: bytes of each of many idle tunnels in a gateway, of a client at rest."""

    tunnels: int
    bytes_per_tunnel: float
    client_bytes: int


def build_load(top: Path) -> Path:
    """Build the crate's bench `load`; its program."""
    argv = ["cargo", "bench", "-q", "--locked", "-p", "daemon", "--bench", "load", "--no-run"]
    done = subprocess.run(
        [*argv, "--message-format", "json"], cwd=top, stdout=subprocess.PIPE, text=True, check=True
    )
    return parse_executable(done.stdout)


def parse_executable(messages: str) -> Path:
    """The program that cargo's messages name; `ValueError` when there is none."""
    for line in messages.splitlines():
        message = json.loads(line)
        if message.get("executable") and message["target"]["name"] == "load":
            return Path(message["executable"])
    raise ValueError("cargo built no bench named load")


def run_load(program: Path, *arguments: str) -> dict[str, Any]:
    """Run `load`; its report."""
    done = subprocess.run(
        [str(program), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=LOAD_TIMEOUT_S,
    )
    if done.returncode != 0:
        tail = "\n".join(done.stderr.splitlines()[-20:])
        raise RuntimeError(f"load {' '.join(arguments)}: exit code {done.returncode}\n{tail}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def handshakes_alone(program: Path, count: int, keys: Keys, folder: Path) -> Handshakes:
    """The engine's share, by the bench `load`, which finds the certificates in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(keys.gateway.authority.certificate, folder / "ca.pem")
    for own in (keys.gateway.own, keys.station.own):
        for path in (own.certificate, own.key):
            shutil.copyfile(path, folder / path.name)
    report = run_load(program, "handshakes", "--count", str(count), "--keys", str(folder))
    return Handshakes("caravan", "engine alone", count, float(report["responder_ms_median"]))


def handshakes_of_caravan(bench: Bench, keys: Keys, count: int) -> Handshakes:
    """The running gateway's CPU time per tunnel that comes and goes."""
    station, gateway = bench.pair()
    on_gateway, on_station = ipsec_ends(keys, SUITE)
    with Caravan(gateway, on_gateway) as responder:
        responder.wait_ready()
        before = responder.cpu_s()
        for _ in range(count):
            with Caravan(station, on_station) as initiator:
                initiator.wait_ready()
        spent_s = responder.cpu_s() - before
    return Handshakes("caravan", "program", count, spent_s * 1000 / count)


def handshakes_of_strongswan(bench: Bench, keys: Keys, count: int) -> Handshakes:
    """The same with charon at both ends."""
    station, gateway = bench.pair()
    on_gateway, on_station = ipsec_ends(keys, SUITE)
    with StrongSwan(gateway, on_gateway) as responder, StrongSwan(station, on_station) as initiator:
        before = responder.process.cpu_s()
        for _ in range(count):
            initiator.initiate()
            initiator.terminate_ike()
        spent_s = responder.process.cpu_s() - before
    return Handshakes("strongSwan", "program", count, spent_s * 1000 / count)


def memory(program: Path, bench: Bench, keys: Keys, tunnels: int) -> Memory:
    """Idle tunnels in one gateway, and a real client at rest."""
    report = run_load(program, "tunnels", "--count", str(tunnels))
    return Memory(tunnels, float(report["bytes_per_tunnel"]), client_bytes(bench, keys))


def client_bytes(bench: Bench, keys: Keys) -> int:
    """Resident bytes of `caravan up` a while after its tunnel came up."""
    station, gateway = bench.pair()
    on_gateway, on_station = ipsec_ends(keys, SUITE)
    with Caravan(gateway, on_gateway) as responder:
        responder.wait_ready()
        with Caravan(station, on_station) as initiator:
            initiator.wait_ready()
            time.sleep(REST_S)
            return resident_bytes(Path(f"/proc/{initiator.process.pid}/status").read_text())


def resident_bytes(status: str) -> int:
    """`VmRSS` of a process's status file."""
    found = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
    if found is None:
        raise ValueError("no VmRSS in the status of the process")
    return int(found[1]) * 1024
