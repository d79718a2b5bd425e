"""The cost of the control plane: CPU time of a handshake, memory of tunnels and of a client.

The crate's bench `load` has the responder alone, without sockets or a second program (`engine
alone`), and the clients of a running gateway, ours or strongSwan's: each has an address, an
identity and a certificate of its own. `program` is that gateway's CPU time, all threads, divided by
the handshakes: the median of runs, each with a gateway that has just begun. What one core does in a
second follows from it. Nothing is pinned: clients and
gateway share the machine, so the rate that was seen is lower.

IKEv1 is measured in real programs alone, which set a tunnel up repeatedly in the same steps; that
includes the delete that ends each tunnel.
"""

from __future__ import annotations

import json
import re
import shutil
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from caravan.bench import benches
from caravan.bench.systems import (
    GATEWAY_OUTER,
    INNER_NETWORK,
    STATION_OUTER,
    Bench,
    ikev1_ends,
    ipsec_ends,
)
from caravan.testbed.caravan import Caravan
from caravan.testbed.connection import Connection, SharedKey
from caravan.testbed.host import Host
from caravan.testbed.process import Process
from caravan.testbed.strongswan import StrongSwan
from caravan.threeways.measurement import IKE_PROPOSAL, Keys

SUITE = "aes128gcm16"
REST_S = 2.0
CLIENTS = "100.64.0.0/10"
"""Addresses of the clients of the bench `load`."""
POOL = "10.96.0.0/16"
AT_ONCE = 16
RUNS = 3
"""Of clients, for each gateway: a busy machine may disturb one of them."""
SECRET = SharedKey("a key of both ends, long enough to be none of a dictionary")


@dataclass(frozen=True)
class Exchange:
    """A key exchange; `per_s`: how many of them one core shall do in a second.

    `times_peer`: how many times as many as strongSwan in the same run, which depends less on the
    processor. `is_shared`: pre-shared keys, otherwise certificates for RSA-2048 at both ends.
    `has_peer`: strongSwan knows it. `is_resumed`: the client goes on from a lost tunnel by a
    ticket; only this counts.
    """

    name: str
    proposal: str
    per_s: float
    times_peer: float | None = None
    is_shared: bool = False
    has_peer: bool = True
    is_resumed: bool = False


IKEV1 = "IKEv1 aggressive, RSA"
EXCHANGES = (
    Exchange("IKEv2 X25519, RSA", "aes128gcm16-prfsha256-curve25519", 1_000, times_peer=4.0),
    Exchange(
        "IKEv2 X25519, PSK",
        "aes128gcm16-prfsha256-curve25519",
        3_000,
        times_peer=5.5,
        is_shared=True,
    ),
    Exchange(
        "IKEv2 X25519 and ML-KEM-768, RSA",
        "aes256gcm16-prfsha384-curve25519-ke1_mlkem768",
        700,
        has_peer=False,
    ),
    Exchange(
        "IKEv2 resumed, RSA before",
        "aes128gcm16-prfsha256-curve25519",
        5_000,
        has_peer=False,
        is_resumed=True,
    ),
)


@dataclass(frozen=True)
class Handshakes:
    """CPU ms of one responder per handshake, all threads; `how` it was measured.

    `count`: in all runs. `seen_per_s`: of programs, the rate on this machine, with the clients on
    it.
    """

    exchange: str
    system: str
    how: str
    count: int
    responder_ms: float
    seen_per_s: float | None = None

    @property
    def per_s(self) -> float:
        """Handshakes in a second of one core."""
        return 1e3 / self.responder_ms


@dataclass(frozen=True)
class Memory:
    """Resident memory in bytes: of each idle tunnel in a gateway by version of IKE, and of an idle
    client; `client_own_bytes`: without the pages of files, such as the program's, which the kernel
    can drop and read again."""

    tunnels: int
    bytes_per_tunnel: dict[int, float]
    client_bytes: int
    client_own_bytes: int


@dataclass(frozen=True)
class Load:
    """The bench `load`, the certificates of both ends, and the folder where it finds them."""

    program: Path
    keys: Keys
    folder: Path

    @classmethod
    def prepare(cls, program: Path, keys: Keys, folder: Path) -> Load:
        """Fill the folder. It has the authority's key, because each client has a certificate."""
        folder.mkdir(parents=True, exist_ok=True)
        authority = keys.gateway.authority.certificate
        shutil.copyfile(authority, folder / "ca.pem")
        shutil.copyfile(authority.with_suffix(".key"), folder / "ca.key")
        for own in (keys.gateway.own, keys.station.own):
            for path in (own.certificate, own.key):
                shutil.copyfile(path, folder / path.name)
        return cls(program, keys, folder)

    def alone(self, count: int, exchange: Exchange | None = None) -> Handshakes:
        """The engine's part; without an exchange it is IKEv1's."""
        name, words = IKEV1, ["--ike", "1", "--proposal", IKE_PROPOSAL]
        esp = f"{SUITE}-modp2048"
        if exchange is not None:
            name, words, esp = exchange.name, ["--proposal", exchange.proposal], SUITE
            words += _resumed(exchange)
        if exchange is None or not exchange.is_shared:
            words += ["--keys", str(self.folder)]
        words += ["--count", str(count), "--esp-proposal", esp]
        report = benches.run(self.program, "handshakes", *words)
        each_ms = float(report["responder_ms_median"])
        return Handshakes(name, "caravan", "engine alone", count, each_ms)

    def of_gateways(
        self, bench: Bench, exchange: Exchange, count: int, *, runs: int = RUNS
    ) -> list[Handshakes]:
        """The CPU time of running gateways, ours and strongSwan's, under the same clients; `count`
        of them in each run."""

        def measured(system: str, station: Host, gateway: Process) -> Handshakes:
            report = self._connect(station, exchange, count, gateway.pid)
            spent_ms, seen = float(report["gateway_cpu_ms"]), float(report["per_s"])
            return Handshakes(exchange.name, system, "program", count, spent_ms, seen)

        on_gateway = gateway_of(self.keys, exchange)
        ours, theirs = [], []
        for _ in range(runs):
            station, gateway = with_clients(bench)
            with Caravan(gateway, on_gateway, log_level="info") as caravan:
                caravan.wait_ready()
                ours.append(measured("caravan", station, caravan.process))
            if exchange.has_peer:
                station, gateway = with_clients(bench)
                with StrongSwan(gateway, on_gateway) as strongswan:
                    theirs.append(measured("strongSwan", station, strongswan.process))
        return [median_of(each) for each in (ours, theirs) if each]

    def _connect(
        self, station: Host, exchange: Exchange, count: int, gateway: int
    ) -> dict[str, float]:
        """Connects clients of the gateway of this process number; what the bench reports."""
        proof = ["--keys", str(self.folder)]
        if exchange.is_shared:
            proof = ["--secret", SECRET.secret]
        argv = [str(self.program), "clients", "--gateway", GATEWAY_OUTER, *proof]
        argv += ["--count", str(count), "--at-once", str(AT_ONCE)]
        argv += ["--proposal", exchange.proposal, "--esp-proposal", SUITE]
        argv += ["--gateway-pid", str(gateway), *_resumed(exchange)]
        report: dict[str, float] = json.loads(station.run(argv, benches.TIMEOUT_S).stdout)
        return report


def median_of(runs: Sequence[Handshakes]) -> Handshakes:
    """The same as one measurement: medians, and the handshakes of all runs."""
    seen = [one.seen_per_s for one in runs if one.seen_per_s is not None]
    return replace(
        runs[0],
        count=sum(one.count for one in runs),
        responder_ms=statistics.median(one.responder_ms for one in runs),
        seen_per_s=statistics.median(seen) if seen else None,
    )


def _resumed(exchange: Exchange) -> list[str]:
    return ["--resumed"] if exchange.is_resumed else []


def gateway_of(keys: Keys, exchange: Exchange) -> Connection:
    """A gateway for everybody, with the suites that the program has by itself. It gives tickets if
    they are measured."""
    return Connection(
        SECRET if exchange.is_shared else keys.gateway,
        local_id="sg.example",
        proposals="",
        esp_proposals="",
        local_ts=INNER_NETWORK,
        pool=POOL,
        is_legacy=False,
        version=2,
        resumption=exchange.is_resumed,
    )


def with_clients(bench: Bench) -> tuple[Host, Host]:
    """A host of many clients and one of a gateway."""
    station, gateway = bench.pair()
    station.run(["ip", "route", "add", "local", CLIENTS, "dev", "lo"])
    gateway.add_route(CLIENTS, STATION_OUTER)
    return station, gateway


def handshakes_of_caravan(bench: Bench, keys: Keys, count: int) -> Handshakes:
    """The running gateway's CPU time per tunnel that is set up and deleted."""
    station, gateway = bench.pair()
    on_gateway, on_station = ikev1_ends(keys, SUITE)
    with Caravan(gateway, on_gateway) as responder:
        responder.wait_ready()
        before = responder.cpu_s()
        for _ in range(count):
            with Caravan(station, on_station) as initiator:
                initiator.wait_ready()
        spent_s = responder.cpu_s() - before
    return Handshakes(IKEV1, "caravan", "program", count, spent_s * 1000 / count)


def handshakes_of_strongswan(bench: Bench, keys: Keys, count: int) -> Handshakes:
    """The same with charon at both ends."""
    station, gateway = bench.pair()
    on_gateway, on_station = ikev1_ends(keys, SUITE)
    with StrongSwan(gateway, on_gateway) as responder, StrongSwan(station, on_station) as initiator:
        before = responder.process.cpu_s()
        for _ in range(count):
            initiator.initiate()
            initiator.terminate_ike()
        spent_s = responder.process.cpu_s() - before
    return Handshakes(IKEV1, "strongSwan", "program", count, spent_s * 1000 / count)


def memory(program: Path, bench: Bench, keys: Keys, tunnels: int) -> Memory:
    """Idle tunnels in one gateway, and a real client at rest."""
    each = {}
    for version in (1, 2):
        report = benches.run(program, "tunnels", "--count", str(tunnels), "--ike", str(version))
        each[version] = float(report["bytes_per_tunnel"])
    return Memory(tunnels, each, *client_bytes(bench, keys))


def client_bytes(bench: Bench, keys: Keys) -> tuple[int, int]:
    """Resident bytes of `caravan up`, some time after its tunnel came up; of these its own."""
    station, gateway = bench.pair()
    on_gateway, on_station = ipsec_ends(keys, "")
    with Caravan(gateway, on_gateway) as responder:
        responder.wait_ready()
        with Caravan(station, on_station) as initiator:
            initiator.wait_ready()
            time.sleep(REST_S)
            status = Path(f"/proc/{initiator.process.pid}/status").read_text()
            return resident_bytes(status), resident_bytes(status, "RssAnon")


def resident_bytes(status: str, key: str = "VmRSS") -> int:
    """A size in a process's status file."""
    found = re.search(rf"^{key}:\s+(\d+) kB$", status, re.MULTILINE)
    if found is None:
        raise ValueError(f"no {key} in the status of the process")
    return int(found[1]) * 1024
