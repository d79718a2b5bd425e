"""The program of `crates/daemon/benches/probe.rs`: echo requests and floods, the same for every
tunnel."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from caravan.testbed.host import Host

PORT = 5202
READY_S = 10.0
PATIENCE_S = 20.0


@dataclass(frozen=True)
class Passed:
    """Datagrams: what the sender offered to its kernel, what arrived, and how long it was sent."""

    offered: int
    received: int
    seconds: float


@dataclass(frozen=True)
class Probe:
    """The program at `path`."""

    path: Path

    def round_trips_us(self, host: Host, address: str, interval_us: int, count: int) -> list[float]:
        """The round trips of `count` echo requests, without lost ones."""
        argv = ["echo", address, "--interval-us", str(interval_us), "--count", str(count)]
        report = self._run(host, argv, "echo", count * interval_us / 1e6)
        found = [float(each) for each in report["round_trips_us"]]
        if not found:
            raise ValueError(f"no answer from {address}")
        return found

    def flood(
        self, station: Host, gateway: Host, address: str, rate_per_s: int, length_ms: int
    ) -> Passed:
        """Send datagrams from client to gateway; rate 0: as fast as possible."""
        at = f"{address}:{PORT}"
        receiver = gateway.popen([str(self.path), "receive", at], name="flood-receiver")
        receiver.wait_for(lambda: "ready" in receiver.stdout(), "flood receiver", READY_S)
        argv = ["send", at, "--rate", str(rate_per_s), "--milliseconds", str(length_ms)]
        sent = self._run(station, argv, "flood", length_ms / 1e3)
        came = json.loads(receiver.wait(PATIENCE_S).check().stdout.partition("\n")[2])
        offered = int(sent["sent"]) + int(sent["refused"])
        return Passed(offered, int(came["received"]), float(sent["seconds"]))

    def _run(self, host: Host, argv: list[str], name: str, length_s: float) -> dict[str, Any]:
        done = host.run([str(self.path), *argv], length_s + PATIENCE_S, name=name)
        report: dict[str, Any] = json.loads(done.stdout)
        return report
