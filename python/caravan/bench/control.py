"""The cost of the control plane: CPU time of a handshake, memory of tunnels and of a client.

Handshakes are measured twice. The crate's bench `load` gives the responder's CPU time without
sockets or a second program. Then real programs, strongSwan's and ours, set a tunnel up repeatedly
in the same steps, and the gateway's CPU time is divided by their number. It includes the delete
that ends each tunnel.
"""

from __future__ import annotations

import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from caravan.bench import benches
from caravan.bench.systems import Bench, ipsec_ends
from caravan.testbed.caravan import Caravan
from caravan.testbed.strongswan import StrongSwan
from caravan.threeways.measurement import Keys

SUITE = "aes128gcm16"
REST_S = 2.0


@dataclass(frozen=True)
class Handshakes:
    """CPU ms of one responder per handshake, all threads; `how` it was measured."""

    system: str
    how: str
    count: int
    responder_ms: float


@dataclass(frozen=True)
class Memory:
    """Resident memory in bytes: of each idle tunnel in a gateway, and of an idle client."""

    tunnels: int
    bytes_per_tunnel: float
    client_bytes: int


def handshakes_alone(program: Path, count: int, keys: Keys, folder: Path) -> Handshakes:
    """The engine's part, by the bench `load`, which finds the certificates in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(keys.gateway.authority.certificate, folder / "ca.pem")
    for own in (keys.gateway.own, keys.station.own):
        for path in (own.certificate, own.key):
            shutil.copyfile(path, folder / path.name)
    report = benches.run(program, "handshakes", "--count", str(count), "--keys", str(folder))
    return Handshakes("caravan", "engine alone", count, float(report["responder_ms_median"]))


def handshakes_of_caravan(bench: Bench, keys: Keys, count: int) -> Handshakes:
    """The running gateway's CPU time per tunnel that is set up and deleted."""
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
    report = benches.run(program, "tunnels", "--count", str(tunnels))
    return Memory(tunnels, float(report["bytes_per_tunnel"]), client_bytes(bench, keys))


def client_bytes(bench: Bench, keys: Keys) -> int:
    """Resident bytes of `caravan up`, some time after its tunnel came up."""
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
