"""How long an authentication takes, by parts, and how long a roam interrupts a station's traffic.

```
  association      first EAPOL      EAP-Success     hostapd's word     port open
       |----- start -----|------ eap -----|----- port -----|--- harness ---|
```

Times of frames are the kernel's, the others those of hostapd and of this process: all of one clock.
hostapd decides at about the moment at which its EAP-Success arrives, so `port` is nothing beside
the rest. `harness` is what this testbed adds where an access point has a driver.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from caravan.testbed.dot1x.authentication_server import RadiusServer
from caravan.testbed.dot1x.authenticator import OPEN_S, Authenticator
from caravan.testbed.dot1x.cause import Witness
from caravan.testbed.dot1x.exchange import Exchange, Tap, find_exchange
from caravan.testbed.dot1x.network import Airs
from caravan.testbed.dot1x.supplicant import SUCCESS, Supplicant
from caravan.testbed.errors import NamespaceError
from caravan.testbed.host import Host

ECHO_INTERVAL_S = 0.005
ANSWER_S = 10.0


@dataclass(frozen=True)
class Authentication:
    """One authentication that succeeded, in seconds; its parts add up to `total_s`.

    `eap_s` has three parts of its own: what the station took to answer, what the RADIUS server and
    the network before it took (nothing if the server is in hostapd), and the access point with the
    air, the rest. `is_first` tells the first exchange of a new wpa_supplicant, which also starts up
    its TLS: some 10 ms that are not the method's.
    """

    start_s: float
    eap_s: float
    port_s: float
    harness_s: float
    supplicant_s: float
    server_s: float
    is_first: bool
    is_resumed: bool
    exchange: Exchange

    @property
    def total_s(self) -> float:
        """From the association until the port is open."""
        return self.start_s + self.eap_s + self.port_s + self.harness_s


@dataclass(frozen=True)
class Roam:
    """A station's way to another access point, in seconds.

    `moved_s`: from the pulled cable to the order to begin, which is this testbed's. `gap_s`: from
    the last echo before the move to the first one after it; `first_s` is its part after the port
    was open. Echoes are asked for every `ECHO_INTERVAL_S`.
    """

    moved_s: float
    authentication: Authentication
    first_s: float
    gap_s: float


class Meter:
    """Taps at a station and at an access point, for its authentications there. `server`: that of
    accounts, whose log says why it refuses."""

    def __init__(
        self,
        supplicant: Supplicant,
        authenticator: Authenticator,
        server: RadiusServer | None = None,
    ) -> None:
        self.supplicant = supplicant
        self.authenticator = authenticator
        self.server = server
        self._at_station = Tap(supplicant.host, supplicant.interface)
        self._at_access_point = Tap(authenticator.host, authenticator.uplink)

    def authenticate(self) -> Authentication:
        """Authenticate the station from the beginning, and wait until both ports are open.

        `NamespaceError` if they do not open in time, with the cause if one is found.
        """
        station = self.supplicant.hardware_address
        is_first = not any(event.name == SUCCESS for event in self.supplicant.events())
        self.authenticator.leave(station)
        self.supplicant.shut()
        for tap in (self._at_station, self._at_access_point):
            tap.read()
        with told(Witness(self.supplicant, self.authenticator, self.server)):
            associated_s = self.authenticator.associate(station)
            opened_s = self.authenticator.wait_open(station, associated_s, OPEN_S).opened_s
            self.supplicant.wait_for(SUCCESS, associated_s, OPEN_S)
        frames = self._at_station.read(), self._at_access_point.read()
        exchange = find_exchange(station, *frames)
        if exchange is None or not exchange.is_success:
            raise NamespaceError(f"{station} was authenticated, but the frames do not say so")
        said_s = self.authenticator.said_success_s(station, associated_s)
        decided_s = max(said_s, exchange.ended_s)
        return Authentication(
            start_s=exchange.began_s - associated_s,
            eap_s=exchange.ended_s - exchange.began_s,
            port_s=decided_s - exchange.ended_s,
            harness_s=max(0.0, opened_s - decided_s),
            supplicant_s=exchange.supplicant_s,
            server_s=exchange.server_s,
            is_first=is_first,
            is_resumed=self.supplicant.is_resumed(),
            exchange=exchange,
        )

    def roam(self, network: Airs, former: Authenticator, correspondent: Host) -> Roam:
        """Move the station here from another access point of its subnet, under traffic with a
        correspondent."""
        host = self.supplicant.host
        (address,) = (one.split("/")[0] for one in host.addresses(self.supplicant.interface))
        with Echoes(correspondent, address) as echoes:
            echoes.wait_for_one(since_s=0.0)
            began_s = time.time()
            self.supplicant.shut()
            network.plug(host, self.authenticator.host.role)
            former.leave(self.supplicant.hardware_address)
            authentication = self.authenticate()
            opened_s = self.authenticator.openings()[-1].opened_s
            associated_s = authentication.exchange.began_s - authentication.start_s
            after_s = echoes.wait_for_one(opened_s)
            before_s = max(moment for moment in echoes.times() if moment < opened_s)
        return Roam(associated_s - began_s, authentication, after_s - opened_s, after_s - before_s)

    def close(self) -> None:
        """Close the taps."""
        self._at_station.close()
        self._at_access_point.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextlib.contextmanager
def told(witness: Witness) -> Iterator[None]:
    """Put the cause that a witness finds in front of what failed for a station without access."""
    try:
        yield
    except NamespaceError as fault:
        refusal = None
        # Whoever cannot be asked has no cause.
        with contextlib.suppress(NamespaceError):
            refusal = witness.refusal()
        if refusal is None:
            raise
        raise NamespaceError(f"{refusal} ({fault})") from fault


class Echoes:
    """A host that pings an address all the time, and when it was answered."""

    def __init__(self, host: Host, address: str) -> None:
        argv = ["ping", "-n", "-D", "-i", str(ECHO_INTERVAL_S), address]
        self._process = host.popen(argv, name="echoes")

    def times(self) -> list[float]:
        """When each answer came, in seconds since the epoch."""
        lines = self._process.stdout().splitlines(keepends=True)
        answers = [line for line in lines if line.endswith("ms\n")]
        return [float(line[1 : line.index("]")]) for line in answers]

    def wait_for_one(self, since_s: float) -> float:
        """Wait for the first answer after a moment."""

        def came() -> list[float]:
            return [moment for moment in self.times() if moment >= since_s]

        self._process.wait_for(lambda: bool(came()), "answer", ANSWER_S)
        return came()[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stop()
