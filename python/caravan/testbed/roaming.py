"""A station with two access networks, `wifi` and `cell`, that lead to one gateway.

    ms --- wifi --- core --- link --- sg --- server
       \\-- cell --/

Each access router may be a NAT. The station is at one of them at a time: a move takes the old link
away and puts the default route on the new one, at once. `wifi` has IPv4 alone, `cell` both
families, or IPv6 alone.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from caravan.testbed.host import Host
from caravan.testbed.nat import Nat, NatConfig
from caravan.testbed.network import Network
from caravan.testbed.process import Process
from caravan.testbed.relay import LinkConfig, Relay, software_checksums
from caravan.testbed.remote_access import (
    GATEWAY_ADDRESS,
    GATEWAY_ADDRESS6,
    GATEWAY_LAN_ADDRESS,
    SERVER_ADDRESS,
)

DELAY_MS = 20
"""Of the link to the gateway, in each direction."""
ROUND_TRIP_S = 2 * DELAY_MS / 1000
PING_INTERVAL_S = 0.01
COMES_S = 20.0
"""How long the first answer may take."""
MTU_BYTES = 1500


@dataclass(frozen=True)
class Access:
    """An access network: its name, addresses of router and station, and the router's outer ones."""

    name: str
    router: str
    station: str
    outer: str
    router6: str = ""
    station6: str = ""
    outer6: str = ""


WIFI = Access("wifi", "10.1.0.1", "10.1.0.2", "192.0.2.11")
CELL = Access(
    "cell",
    "10.2.0.1",
    "10.2.0.2",
    "192.0.2.12",
    "2001:db8:0:e::1",
    "2001:db8:0:e::2",
    "2001:db8:0:b::12",
)


class RoamNetwork(Network):
    """The hosts. `has_nat`: both access routers translate IPv4. `is_cell_v6`: the cell network has
    IPv6 alone."""

    def __init__(
        self, output: Path, *, has_nat: bool = True, is_cell_v6: bool = False, addresses: int = 1
    ) -> None:
        super().__init__(output, is_dual_stack=True)
        self.is_cell_v6 = is_cell_v6
        self.nats: dict[str, Nat] = {}
        try:
            self._gateway(addresses)
            self.ms = self.host("ms")
            self._access(WIFI, has_nat=has_nat)
            self._access(CELL, has_nat=has_nat)
            self.core.bridge("switch", ["up", WIFI.name, CELL.name])
            self.at = CELL
            self.move(WIFI)
        except BaseException:
            self.close()
            raise

    def _gateway(self, addresses: int) -> None:
        self.sg = self.host("sg")
        self.server = self.host("server")
        self.core = self.host("core")
        middle = self.host("link")
        self.sg.connect("lan0", self.server, "lan0", MTU_BYTES)
        self.sg.add_address("lan0", f"{GATEWAY_LAN_ADDRESS}/24")
        self.server.add_address("lan0", f"{SERVER_ADDRESS}/24")
        self.server.add_route("default", GATEWAY_LAN_ADDRESS)
        self.sg.forward()
        self.core.connect("up", middle, "left", MTU_BYTES)
        self.sg.connect("wan0", middle, "right", MTU_BYTES)
        software_checksums(self.sg, "wan0")
        self.relay = Relay(middle, LinkConfig(delay=f"{DELAY_MS}ms"), "left", "right")
        for number in range(addresses):
            address = GATEWAY_ADDRESS if number == 0 else f"192.0.2.{number + 1}"
            self.sg.add_address("wan0", f"{address}/24")
        self.sg.add_address("wan0", f"{GATEWAY_ADDRESS6}/64")

    def _access(self, access: Access, *, has_nat: bool) -> None:
        router = self.host(access.name)
        self.ms.connect(access.name, router, "lan0", MTU_BYTES)
        router.connect("wan0", self.core, access.name, MTU_BYTES)
        software_checksums(router, "wan0")
        router.forward()
        is_v6_alone = self.is_cell_v6 and access is CELL
        if not is_v6_alone:
            router.add_address("lan0", f"{access.router}/24")
            router.add_address("wan0", f"{access.outer}/24")
            if has_nat:
                self.nats[access.name] = Nat(router, NatConfig("wan0", (access.outer,)))
            else:
                prefix = f"{access.router.rsplit('.', 1)[0]}.0/24"
                self.sg.add_route(prefix, access.outer)
        # A router that has asked in vain asks again only after a second.
        station = self.ms.hardware_address(access.name)
        for address in filter(None, (access.station, access.station6)):
            router.add_neighbour("lan0", address, station)
        if access.router6:
            router.add_address("lan0", f"{access.router6}/64")
            router.add_address("wan0", f"{access.outer6}/64")
            self.sg.add_route(access.router6.replace("::1", "::/64"), access.outer6)

    def move(self, to: Access) -> float:
        """The station leaves its network for another one; returns when the new route was there."""
        ms, before = self.ms, self.at
        has_v4 = not (self.is_cell_v6 and to is CELL)
        ms.link_up(to.name)
        if has_v4:
            ms.add_address(to.name, f"{to.station}/24")
        if to.station6:
            ms.run(["ip", "address", "replace", f"{to.station6}/64", "dev", to.name, "nodad"])
        if before is not to:
            ms.link_down(before.name)
        moment = time.time()
        for router in [to.router] * has_v4 + [to.router6] * bool(to.router6):
            ms.add_route("default", router)
        self.at = to
        return moment


@dataclass(frozen=True)
class Gap:
    """What a ping saw of a move, in seconds: from the new route to the first answer, and the
    longest time without one."""

    first_s: float
    longest_s: float
    lost: int

    def __str__(self) -> str:
        return (
            f"gap: first answer {self.first_s * 1000:.0f} ms after the new link is up, "
            f"{self.longest_s * 1000:.0f} ms without one, {self.lost} lost"
        )


class Pinging:
    """Echo requests to the server every 10 ms, and when each answer came."""

    def __init__(self, host: Host) -> None:
        argv = ["ping", "-n", "-D", "-i", str(PING_INTERVAL_S), SERVER_ADDRESS]
        self.process: Process = host.popen(argv, name="pinging")
        self.process.wait_for(lambda: len(self.answers()) > 20, "answers", 10)

    def answers(self) -> list[tuple[float, int]]:
        """The time and number of each answer."""
        found = re.finditer(r"^\[([\d.]+)\] .*icmp_seq=(\d+) ", self.process.stdout(), re.M)
        return [(float(one[1]), int(one[2])) for one in found]

    def gap(self, moment: float, settle_s: float = 1.5) -> Gap:
        """The gap of a move at this moment."""
        timeout_s = settle_s + COMES_S
        words = "an answer after the move"
        self.process.wait_for(lambda: self._after(moment, settle_s), words, timeout_s)
        answers = self.answers()
        first = min(at for at, _ in answers if at > moment + ROUND_TRIP_S / 2)
        around = [at for at, _ in answers if moment - 1 < at < moment + settle_s]
        numbers = [number for at, number in answers if moment - 1 < at < moment + settle_s]
        longest = max(later - earlier for earlier, later in pairwise(around))
        lost = numbers[-1] - numbers[0] + 1 - len(set(numbers))
        return Gap(first - moment, longest, lost)

    def longest_s(self) -> float:
        """The longest time between two answers so far."""
        return max(later - earlier for (earlier, _), (later, _) in pairwise(self.answers()))

    def _after(self, moment: float, settle_s: float) -> bool:
        answers = self.answers()
        return bool(answers) and answers[-1][0] > moment + settle_s

    def stop(self) -> None:
        """End it."""
        self.process.stop()
