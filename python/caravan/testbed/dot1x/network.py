"""Access points, the air before each, and stations that may be plugged in at any of them.

```
stations --- air1 --- ap1 ---.
         `-- air2 --- ap2 --- lan --- radius, server
```

An air is a bridge that learns no addresses and whose station ports cannot reach each other: as in
an infrastructure network of IEEE 802.11, all stations hear the access point, which alone hears
them, and reflects what is for another station there. Airs and lans are bridges in one namespace,
`links`. With a `LinkConfig` each air has its rate and airtime, of all stations and the access point
together, by a relay between its bridge and the access point.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from caravan.testbed.dot1x.authenticator import Authenticator
from caravan.testbed.folders import private_folder
from caravan.testbed.host import Host
from caravan.testbed.network import Network
from caravan.testbed.relay import LinkConfig, Relay, software_checksums

MTU_BYTES = 1500
RADIUS_ADDRESS = "10.81.0.1"
SERVER_ADDRESS = "10.81.0.5"
ACCESS_POINT_ADDRESSES = {"ap1": "10.81.0.11", "ap2": "10.81.0.12"}
RADIO, UPLINK = "radio0", "lan0"
"""An access point's ports."""
STATION_INTERFACE = "sta0"
EAPOL_FORWARDED = 1 << 3
"""The bit of 01:80:c2:00:00:03: a bridge keeps EAPOL for itself without it."""


class Cipher(Protocol):
    """What protects frames in the airs of a network."""

    device: str
    """The interface of an end that has clear frames."""

    def add(self, host: Host) -> None:
        """Protect the frames of another station."""

    def moved(self, host: Host, at: str) -> None:
        """A station is in the air of an access point now."""

    def status(self) -> Mapping[str, dict[str, Any]]:
        """The reports of all ends, by role."""

    def keys(self, authenticator: Authenticator, secret: str) -> AbstractContextManager[object]:
        """Give an access point the keys of EAP that its authenticator is told."""


class Airs(Network):
    """A network with `access_points` and `stations` by role; each access point has its own air.

    `airtime`: each air is one link of this kind for all its stations and both directions.
    """

    def __init__(self, output: Path | None = None, airtime: LinkConfig | None = None) -> None:
        super().__init__(output)
        # Whoever names it: logs of its programs have keys.
        private_folder(self.output)
        self.access_points: dict[str, Host] = {}
        self.stations: dict[str, Host] = {}
        self.airtimes: dict[str, Relay] = {}
        self.cipher: Cipher | None = None
        self._airtime = airtime
        self.links = self.host("links")

    @property
    def radio(self) -> str:
        """The port of an access point at which its stations are."""
        return RADIO if self.cipher is None else self.cipher.device

    @property
    def station_interface(self) -> str:
        """The interface of a station that has its address."""
        return STATION_INTERFACE if self.cipher is None else self.cipher.device

    def plug(self, station: Host, at: str) -> None:
        """Move a station to the air of an access point."""
        self.place(station, at)
        if self.cipher is not None:
            self.cipher.moved(station, at)

    def place(self, station: Host, at: str) -> None:
        """The same, and its cipher does not know."""
        port = f"at-{station.role}"
        self.links.plug(port, _air(at))
        self.links.set_port(port, isolated=1, learning=0)

    def _station(self, role: str, address: str, at: str) -> Host:
        host = self.host(role)
        host.connect(STATION_INTERFACE, self.links, f"at-{role}", MTU_BYTES)
        host.add_address(STATION_INTERFACE, address)
        self.stations[role] = host
        self.place(host, at)
        if self.cipher is not None:
            self.cipher.add(host)
        return host

    def _wire(self, host: Host, interface: str, lan: str, address: str) -> None:
        port = f"{host.role}-{interface}"
        host.connect(interface, self.links, port, MTU_BYTES)
        self.links.plug(port, lan)
        host.add_address(interface, address)

    def _access_point(self, role: str, lan: str, address: str) -> None:
        host = self.host(role)
        self.links.bridge(_air(role), [])
        self.links.forward_groups(_air(role), EAPOL_FORWARDED)
        self._connect_radio(host, role)
        host.connect(UPLINK, self.links, f"{role}-{UPLINK}", MTU_BYTES)
        self.links.plug(role, _air(role))
        self.links.set_port(role, learning=0)
        self.links.plug(f"{role}-{UPLINK}", lan)
        host.bridge("br0", [RADIO, UPLINK])
        # IFLA_BRPORT_MODE: what is for another station here goes back into the air.
        host.set_port(RADIO, mode=1)
        host.add_address("br0", address)
        self.access_points[role] = host

    def _connect_radio(self, host: Host, role: str) -> None:
        if self._airtime is None:
            host.connect(RADIO, self.links, role, MTU_BYTES)
            return
        medium = self.host(f"medium-{role}")
        host.connect(RADIO, medium, "left", MTU_BYTES)
        medium.connect("right", self.links, role, MTU_BYTES)
        # Its queue must not stand in for checksums: both ends send frames as on a wire.
        for end, interface in ((host, RADIO), (self.links, role)):
            software_checksums(end, interface)
        self.airtimes[role] = Relay(medium, self._airtime, "left", "right", has_lateness=True)


class WirelessLan(Airs):
    """One subnet: the hosts `radius` and `server` behind `ap1` and `ap2`; stations come by
    `station()`."""

    def __init__(self, output: Path | None = None, airtime: LinkConfig | None = None) -> None:
        super().__init__(output, airtime)
        try:
            self._build()
        except BaseException:
            self.close()
            raise

    def _build(self) -> None:
        self.links.bridge("lan", [])
        self.radius, self.server = self.host("radius"), self.host("server")
        self._wire(self.radius, "eth0", "lan", f"{RADIUS_ADDRESS}/24")
        self._wire(self.server, "eth0", "lan", f"{SERVER_ADDRESS}/24")
        for role, address in ACCESS_POINT_ADDRESSES.items():
            self._access_point(role, "lan", f"{address}/24")

    def station(self, role: str, address: str, at: str = "ap1") -> Host:
        """Add a station with an address of the network, in the air of an access point.

        Station and server need no ARP, which Linux repeats only after a second.
        """
        host = self._station(role, f"{address}/24", at)
        mine = host.hardware_address(self.station_interface)
        theirs = self.server.hardware_address("eth0")
        host.add_neighbour(self.station_interface, SERVER_ADDRESS, theirs)
        self.server.add_neighbour("eth0", address, mine)
        return host


def _air(role: str) -> str:
    return f"air-{role}"
