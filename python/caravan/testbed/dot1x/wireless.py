"""Link ciphers in the airs of a network: `caravan wireless` at every station and access point.

```
wpa_supplicant, IP        hostapd, bridge
     wlan0                    wlan0
caravan wireless         caravan wireless
      sta0 ------- air ------- radio0
```

The address of a station is on its TAP device. That of an access point is the locked port of its
bridge, in place of `radio0`, and sends what is for stations back into the air. The air carries
frames of IEEE 802.11. EAP's key comes to the station from wpa_supplicant and to the access point
from RADIUS, and each is given to its `caravan wireless`. EAP-MD5 yields no key: WEP is static then.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from caravan.testbed.binary import caravan_binary
from caravan.testbed.dot1x.authenticator import Authenticator
from caravan.testbed.dot1x.method import Login
from caravan.testbed.dot1x.network import RADIO, STATION_INTERFACE, Airs
from caravan.testbed.dot1x.radius_keys import Ends, RadiusKeys
from caravan.testbed.dot1x.supplicant import Supplicant
from caravan.testbed.errors import NamespaceError, TimedOut
from caravan.testbed.folders import write_private
from caravan.testbed.host import Host
from caravan.testbed.process import CommandFailed

DEVICE = "wlan0"
SSID = "caravan"
AIR_MTU_BYTES = 1600
"""1500 octets of IP in a frame of 802.11 under the longest cipher, in an Ethernet frame."""
READY_S = 10.0
JOIN_S = 10.0
POLL_S = 0.001
LEGACY_CIPHERS = ("wep-40", "wep-104", "tkip")
FCS_BYTES = 4


@dataclass(frozen=True)
class LinkSecurity:
    """What protects frames, in the words of `caravan wireless`; `secret` is what its file holds.

    `security`: `open`, `wep`, `dynamic-wep`, `psk`, `psk-sha256`, `802.1x`, `802.1x-sha256`, `sae`
    or `owe`. `cipher`: `wep-40`, `wep-104`, `tkip`, `ccmp-128` or `gcmp-256`. Which of them are
    legacy is said to the program.
    """

    security: str
    cipher: str
    secret: str = ""

    @property
    def is_of_eap(self) -> bool:
        """Whether keys come from EAP."""
        return self.security in ("dynamic-wep", "802.1x", "802.1x-sha256")

    def settings(self) -> dict[str, Any]:
        """The keys of its file."""
        settings: dict[str, Any] = {"security": self.security, "ssid": SSID}
        if self.security != "open":
            settings["cipher"] = self.cipher
        if self.cipher in LEGACY_CIPHERS:
            settings["legacy"] = True
        return settings


def static_wep(key: bytes = b"thirteen byte") -> LinkSecurity:
    """WEP with one key that all know: 13 octets for WEP-104, 5 for WEP-40."""
    return LinkSecurity("wep", {5: "wep-40", 13: "wep-104"}[len(key)], key.hex())


def dynamic_wep(cipher: str = "wep-104") -> LinkSecurity:
    """WEP with keys that the access point gives after EAP-TLS, PEAP or TTLS."""
    return LinkSecurity("dynamic-wep", cipher)


def wpa2_psk(passphrase: str = "a passphrase of all", cipher: str = "ccmp-128") -> LinkSecurity:
    """A passphrase and the four-way handshake."""
    return LinkSecurity("psk", cipher, passphrase)


def wpa2_enterprise(cipher: str = "ccmp-128") -> LinkSecurity:
    """EAP's key and the four-way handshake."""
    return LinkSecurity("802.1x", cipher)


def sae(password: str = "a password", cipher: str = "ccmp-128") -> LinkSecurity:
    """A password by SAE, and the four-way handshake."""
    return LinkSecurity("sae", cipher, password)


def owe(cipher: str = "ccmp-128") -> LinkSecurity:
    """Keys without a password by OWE, and the four-way handshake."""
    return LinkSecurity("owe", cipher)


class LinkEnd:
    """A running `caravan wireless` on a host: its air is `air`, its TAP device `device`."""

    device = DEVICE

    def __init__(
        self,
        host: Host,
        role: str,
        air: str,
        security: LinkSecurity,
        *,
        has_capture: bool = True,
        logs_keys: bool = False,
    ) -> None:
        self.host = host
        self.role = role
        self._ordering = threading.Lock()
        self._held = ""
        self.session = b""
        """The last key of EAP that it was given."""
        directory = host.logs / "wireless"
        directory.mkdir(exist_ok=True)
        self.capture = directory / "air.pcap"
        self.capture.unlink(missing_ok=True)
        settings: dict[str, Any] = {"role": role, "air": air, "device": DEVICE}
        if role == "access-point":
            # Frames between stations go through its bridge, whose port is locked.
            settings["relay"] = False
        settings |= security.settings()
        if security.secret:
            path = write_private(directory / "secret", security.secret)
            settings["secret_file"] = str(path)
        config = directory / "wireless.toml"
        # JSON's booleans and basic strings are valid TOML.
        lines = (f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
        config.write_text("".join(lines))
        argv = [str(caravan_binary()), "wireless", "-c", str(config), "--control"]
        if has_capture:
            argv += ["--capture", str(self.capture)]
        self.key_log: Path | None = None
        """The master keys of its handshakes, in tshark's words."""
        if logs_keys:
            self.key_log = write_private(directory / "keys", "")
            argv += ["--key-log", str(self.key_log)]
        self.process = host.popen(argv, name="wireless", is_told=True)
        self._answers = self.process.stdout_path.open(errors="replace")
        self.process.wait_for(lambda: "ready" in self.process.stderr(), "device", READY_S)

    def order(self, words: str) -> str:
        """Give an order; its answer. `NamespaceError` if it is refused. Any thread may."""
        with self._ordering:
            self.process.tell(words)
            answer = self._answer()
        if answer.startswith("refused: "):
            raise NamespaceError(f"{self.host.role}, wireless: {answer}")
        return answer

    def _answer(self) -> str:
        deadline = time.monotonic() + READY_S
        while True:
            self._held += self._answers.read()
            line, end, rest = self._held.partition("\n")
            if end:
                self._held = rest
                return line
            if not self.process.is_running() or time.monotonic() > deadline:
                raise NamespaceError(f"{self.host.role}, wireless: no answer")
            time.sleep(POLL_S)

    def status(self) -> dict[str, Any]:
        """Its report: frames, octets, drops by reason and CPU times in ns."""
        found: dict[str, Any] = json.loads(self.order("status"))
        return found

    def wait_until(self, holds: Callable[[dict[str, Any]], bool], what: str) -> None:
        """Wait until this holds of its report."""
        deadline = time.monotonic() + JOIN_S
        while not holds(found := self.status()):
            if time.monotonic() > deadline:
                raise TimedOut(f"{self.host.role}, wireless: no {what} in {JOIN_S} s: {found}")
            time.sleep(POLL_S)

    def wait_for(self, key: str, value: object) -> None:
        """Wait until its report says this."""
        self.wait_until(lambda it: bool(it[key] == value), f"{key} = {value}")

    def give_key(self, key: bytes, station: str | None = None) -> None:
        """Give it EAP's key, at an access point for a station."""
        self.session = key
        self.order(" ".join(["session", *([station] if station else []), key.hex()]))

    def close(self) -> None:
        """End it, whatever it says."""
        self.process.stop()
        self._answers.close()

    def stop(self) -> dict[str, Any]:
        """End it; its last report."""
        self.close()
        completed = self.process.stop()
        if completed.code != 0:
            raise CommandFailed(completed)
        found: dict[str, Any] = json.loads(completed.stdout.splitlines()[-1])
        return found


class WirelessCipher:
    """Protects every frame in the airs of a network, until it is closed; a context manager.

    `ends` are the stations and access points by role; each has a `status()` with its CPU times.
    Begin it before hostapd, wpa_supplicant and mobile nodes, which run on `network.radio` and
    `network.station_interface`: they are other interfaces with a cipher.

    ```
    with TwoSubnets(folder) as network, WirelessCipher(network, static_wep()) as cipher:
        with serving(network, config) as servers:
            with cipher.supplicant(network.roles["mn1"], login) as station:
                Meter(station, servers.access_points[1]).authenticate()
    ```

    `serving` gives access points EAP's keys; for an `Authenticator` of your own, say
    `cipher.keys(authenticator, secret)`. A network's `plug` moves a station with its cipher.
    `has_captures`: the frames of 802.11 of each end are in `ends[role].capture`. `logs_keys`: the
    keys that read them are in `ends[role].key_log`.
    """

    device = DEVICE

    def __init__(
        self,
        network: Airs,
        security: LinkSecurity,
        *,
        has_captures: bool = True,
        logs_keys: bool = False,
    ) -> None:
        self.network = network
        self.security = security
        self.ends: dict[str, LinkEnd] = {}
        self._has_captures = has_captures
        self._logs_keys = logs_keys
        if network.cipher is not None:
            raise ValueError("the network has a cipher already")
        network.cipher = self
        try:
            for role, host in network.access_points.items():
                self._access_point(role, host)
            for host in network.stations.values():
                self.add(host)
        except BaseException:
            self.close()
            raise

    def add(self, host: Host) -> None:
        """Protect the frames of another station; `Airs.station` does it."""
        links = self.network.links
        for where, interface in ((links, f"at-{host.role}"), (host, STATION_INTERFACE)):
            where.set_mtu(interface, AIR_MTU_BYTES)
        before = _Addressing(host, STATION_INTERFACE)
        before.remove()
        self._end(host, "station", STATION_INTERFACE)
        before.put(DEVICE)
        self._wait_joined(self.ends[host.role])

    def moved(self, host: Host, at: str) -> None:
        """A station is in the air of an access point now: let it join there; `Airs.plug` does it.

        The access points before are told that it has left, as they tell each other.
        """
        end = self.ends[host.role]
        own = host.hardware_address(STATION_INTERFACE)
        for role in self.network.access_points:
            if role != at:
                with contextlib.suppress(NamespaceError):
                    self.ends[role].order(f"end {own}")
        end.order("search")
        radio = self.network.access_points[at].hardware_address(RADIO)
        end.wait_for("access_point", radio)
        self._wait_joined(end)

    def supplicant(self, host: Host, login: Login) -> Supplicant:
        """wpa_supplicant on a station's TAP device; the station gets EAP's key from it."""
        end = self.ends[host.role]

        def take_key(key: bytes) -> None:
            # Its port opens once the keys of the link are there.
            before = end.status()["times_secured"]
            end.give_key(key)
            end.wait_until(lambda it: bool(it["times_secured"] > before), "keys of the link")

        return Supplicant(host, DEVICE, login, take_key if self.security.is_of_eap else None)

    @contextlib.contextmanager
    def keys(self, authenticator: Authenticator, secret: str) -> Iterator[RadiusKeys | None]:
        """Give an access point the keys of its stations that RADIUS gives hostapd, for a while."""
        client = authenticator.client
        if not self.security.is_of_eap or client is None:
            yield None
            return
        end = self.ends[authenticator.host.role]
        ends = Ends(client.own_address, client.server_address)
        host, uplink = authenticator.host, authenticator.uplink
        with RadiusKeys(host, uplink, secret, ends, end.give_key) as keys:
            yield keys

    def status(self) -> Mapping[str, dict[str, Any]]:
        """The reports of all ends, by role."""
        return {role: end.status() for role, end in self.ends.items()}

    def close(self) -> None:
        """End all; the network stays without its airs."""
        for end in self.ends.values():
            end.close()
        self.network.cipher = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _access_point(self, role: str, host: Host) -> None:
        links = self.network.links
        around = [(links, role), (host, RADIO)]
        if role in self.network.airtimes:
            medium = self.network.airtimes[role].host
            around += [(medium, "left"), (medium, "right")]
        for where, interface in around:
            where.set_mtu(interface, AIR_MTU_BYTES)
        host.unplug(RADIO)
        self._end(host, "access-point", RADIO)
        host.plug(DEVICE, "br0")
        host.set_port(DEVICE, mode=1)

    def _end(self, host: Host, role: str, air: str) -> None:
        end = LinkEnd(
            host,
            role,
            air,
            self.security,
            has_capture=self._has_captures,
            logs_keys=self._logs_keys,
        )
        self.ends[host.role] = end

    def _wait_joined(self, end: LinkEnd) -> None:
        end.wait_for("usable", True)


class _Addressing:
    """The addresses, gateways and neighbours of an interface."""

    def __init__(self, host: Host, interface: str) -> None:
        self._host = host
        self._interface = interface
        self._addresses = host.addresses(interface)
        self._gateways = [
            route["gateway"] for route in _json(host, "route", "show", "default", "dev", interface)
        ]
        self._neighbours = [
            (one["dst"], one["lladdr"])
            for one in _json(host, "neigh", "show", "nud", "permanent", "dev", interface)
        ]

    def remove(self) -> None:
        for address in self._addresses:
            self._host.remove_address(self._interface, address)

    def put(self, interface: str) -> None:
        """On another interface; it is usable for routes once it is up."""
        for address in self._addresses:
            self._host.add_address(interface, address)
        for gateway in self._gateways:
            self._host.add_route("default", gateway)
        for address, hardware_address in self._neighbours:
            self._host.add_neighbour(interface, address, hardware_address)


def _json(host: Host, *words: str) -> list[dict[str, Any]]:
    output = host.run(["ip", "-4", "-json", *words]).stdout
    found: list[dict[str, Any]] = json.loads(output or "[]")
    return found
