"""Caravan and Libreswan 5.2 at the ends of one connection, which carries nothing: pluto has a
stand-in for the kernel.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any

from newer_peers import needs
from strongswan_pair import settle

from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.caravan import Caravan
from caravan.testbed.connection import Connection
from caravan.testbed.libreswan import RELEASE, NewPluto, PlutoChild
from caravan.testbed.remote_access import GATEWAY_ADDRESS, OPERATOR_ADDRESSES

STATION_ADDRESS = OPERATOR_ADDRESSES[0]
NEEDS_PLUTO = needs(RELEASE)
Network = IPv4Network | IPv6Network


@dataclass(frozen=True)
class Pair:
    """Both programs on a network without a NAT."""

    network: RemoteAccess
    ours: Caravan
    pluto: NewPluto

    def session(self) -> Mapping[str, Any]:
        """Our only session."""
        (session,) = self.ours.status()["connections"][0]["sessions"]
        found: Mapping[str, Any] = session
        return found

    def agrees(self) -> bool:
        """Whether both ends have one child with the same selectors, and each sends with the SPI
        that the other chose."""
        status = self.ours.try_status() or {"connections": []}
        ours = [
            (it["spi_in"], it["spi_out"], ip_network(it["local_ts"]), ip_network(it["remote_ts"]))
            for it in self.ours.children(status)
        ]
        theirs = [
            (it.spi_out, it.spi_in, *reversed(self._networks(it))) for it in self.pluto.children()
        ]
        return len(ours) == 1 and ours == theirs

    def _networks(self, child: PlutoChild) -> list[Network]:
        """The networks that pluto's child connects, its own first."""
        words = rf"#{child.number}: .*; IPsec tunnel \[(\S+)===(\S+)\]"
        *_, found = re.findall(words, self.pluto.log())
        return [ip_network(it) for it in found]

    def settle(self) -> None:
        """Wait until both ends agree on one child."""
        settle(self.agrees)


@contextlib.contextmanager
def both_running(
    gateway: Connection,
    station: Connection,
    output: Path,
    *more: str,
    is_initiator: bool,
    impairments: tuple[str, ...] = (),
) -> Iterator[Pair]:
    """Start both ends: ours is the station (`is_initiator`) or the gateway. Pluto is not told to
    initiate. `more`: lines of pluto's connection.
    """
    with RemoteAccess(RemoteAccessConfig(has_nat=False), output) as network:
        if is_initiator:
            pluto = NewPluto(network.sg, gateway, GATEWAY_ADDRESS, "%any", *more)
        else:
            # It looks for another address of its own only where it has a default route.
            network.ms.add_route("default", GATEWAY_ADDRESS)
            pluto = NewPluto(network.ms, station, "%defaultroute", GATEWAY_ADDRESS, *more)
        with pluto:
            for what in impairments:
                pluto.impair(what)
            own = Caravan(network.ms, station) if is_initiator else Caravan(network.sg, gateway)
            if not is_initiator:
                own.wait_ready()
            yield Pair(network, own, pluto)


@contextlib.contextmanager
def connected(
    gateway: Connection, station: Connection, output: Path, *more: str, is_initiator: bool
) -> Iterator[Pair]:
    """The same, and wait for the tunnel."""
    with both_running(gateway, station, output, *more, is_initiator=is_initiator) as pair:
        if not is_initiator:
            pair.pluto.initiate()
        pair.ours.wait_ready()
        pair.settle()
        yield pair
