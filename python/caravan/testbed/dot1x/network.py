"""Two access points, the network behind them, and stations that may be plugged in at either.

```
stations --- air1 --- ap1 ---.
         `-- air2 --- ap2 --- lan --- radius, server
```

An air is a bridge that learns no addresses and whose station ports cannot reach each other: as in
an infrastructure network of IEEE 802.11, all stations hear the access point, which alone hears
them, and reflects what is for another station there.
`lan` is a bridge too; both are in one namespace, `links`.
"""

from __future__ import annotations

import time
from pathlib import Path

from caravan.testbed.host import Host
from caravan.testbed.network import Network

MTU_BYTES = 1500
RADIUS_ADDRESS = "10.81.0.1"
SERVER_ADDRESS = "10.81.0.5"
ACCESS_POINT_ADDRESSES = {"ap1": "10.81.0.11", "ap2": "10.81.0.12"}
AIRS = {"ap1": "air1", "ap2": "air2"}
RADIO, UPLINK = "radio0", "lan0"
"""An access point's ports."""
STATION_INTERFACE = "sta0"
EAPOL_FORWARDED = 1 << 3
"""The bit of 01:80:c2:00:00:03: a bridge keeps EAPOL for itself without it."""


class WirelessLan(Network):
    """The hosts `links`, `ap1`, `ap2`, `radius` and `server`; stations come by `station()`."""

    def __init__(self, output: Path | None = None) -> None:
        super().__init__(output)
        try:
            self.links = self.host("links")
            self.links.bridge("lan", [])
            self.radius = self._wired("radius", RADIUS_ADDRESS)
            self.server = self._wired("server", SERVER_ADDRESS)
            self.access_points = {role: self._access_point(role) for role in AIRS}
        except BaseException:
            self.close()
            raise

    def station(self, role: str, address: str, at: str = "ap1") -> Host:
        """Add a station with an address of the network, in the air of an access point."""
        host = self.host(role)
        port = _port(host)
        host.connect(STATION_INTERFACE, self.links, port, MTU_BYTES)
        host.add_address(STATION_INTERFACE, f"{address}/24")
        self.plug(host, at)
        # Nobody waits for ARP, which Linux repeats only after a second.
        mine = host.hardware_address(STATION_INTERFACE)
        theirs = self.server.hardware_address("eth0")
        host.add_neighbour(STATION_INTERFACE, SERVER_ADDRESS, theirs)
        self.server.add_neighbour("eth0", address, mine)
        return host

    def plug(self, station: Host, at: str) -> float:
        """Move a station to the air of an access point; returns how many seconds that took."""
        began = time.time()
        port = _port(station)
        self.links.plug(port, AIRS[at])
        self.links.set_port(port, isolated=1, learning=0)
        return time.time() - began

    def _wired(self, role: str, address: str) -> Host:
        host = self.host(role)
        port = f"{role}-eth0"
        host.connect("eth0", self.links, port, MTU_BYTES)
        self.links.plug(port, "lan")
        host.add_address("eth0", f"{address}/24")
        return host

    def _access_point(self, role: str) -> Host:
        host = self.host(role)
        air = AIRS[role]
        self.links.bridge(air, [])
        self.links.forward_groups(air, EAPOL_FORWARDED)
        host.connect(RADIO, self.links, role, MTU_BYTES)
        host.connect(UPLINK, self.links, f"{role}-{UPLINK}", MTU_BYTES)
        self.links.plug(role, air)
        self.links.set_port(role, learning=0)
        self.links.plug(f"{role}-{UPLINK}", "lan")
        host.bridge("br0", [RADIO, UPLINK])
        # Its name in netlink is IFLA_BRPORT_MODE.
        host.set_port(RADIO, mode=1)
        host.add_address("br0", f"{ACCESS_POINT_ADDRESSES[role]}/24")
        return host


def _port(station: Host) -> str:
    return f"at-{station.role}"
