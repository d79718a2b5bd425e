"""An access point: a bridge whose radio port is locked, and hostapd, which opens it (IEEE 802.1X).

hostapd's wired driver enforces nothing: this process lets a station's frames pass when hostapd says
that it is authorized, and shuts its port when hostapd says so or ends. It shuts every port, and
says why, when it cannot hear hostapd any more. EAPOL is for the access point itself and is not
bridged, so it always reaches hostapd.

Left out: keys. Without MACsec, WEP or CCMP, whoever copies the address of an authorized station
passes: 802.1X over a shared medium has this hole by design.
"""

from __future__ import annotations

import re
import socket
import struct
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from caravan.testbed.capture import RADIUS_PORT
from caravan.testbed.dot1x.control import Control, Event, Listener, fields
from caravan.testbed.dot1x.method import Method, ServerConfig, Tls
from caravan.testbed.dot1x.ports import AuthenticatorPort
from caravan.testbed.dot1x.quoting import hostapd_line, hostapd_name, hostapd_setting, octets
from caravan.testbed.errors import NamespaceError
from caravan.testbed.folders import write_private
from caravan.testbed.host import Host

READY_S = 10.0
OPEN_S = 15.0
FORGET_S = 10.0
INITIALIZE = "1"
"""The state of a station's machine once hostapd has disconnected it."""
SESSION_LIFETIME_S = 3600
SUCCESSES = ("CTRL-EVENT-EAP-SUCCESS2", "CTRL-EVENT-EAP-SUCCESS")
FAILURES = ("CTRL-EVENT-EAP-FAILURE2", "CTRL-EVENT-EAP-FAILURE")
"""The first of each pair with a RADIUS server, the second with hostapd's own."""
SHUTS = ("AP-STA-DISCONNECTED", *FAILURES)
STATIONS_MAX = 2007
"""As many as hostapd takes: association identifiers of IEEE 802.11."""
ETHERNET_ADDRESS = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}")
BROADCAST = b"\xff" * 6
LAYER_2_UPDATE = bytes((0, 1, 0xAF, 0x81, 1, 0))
"""An XID response of LLC (IEEE 802.2): what an access point sends for a station that has come, so
that the bridges behind it learn where it is."""


@dataclass(frozen=True)
class RadiusClient:
    """An access point's authentication server elsewhere, and how it asks there."""

    server_address: str
    secret: str
    own_address: str


@dataclass(frozen=True)
class Opening:
    """A station's port was opened, or kept open, after a success: when this process heard of that,
    and when the kernel had done it, in seconds since the epoch."""

    hardware_address: str
    heard_s: float
    opened_s: float


class Authenticator:
    """hostapd for the stations behind `radio`, a port of a bridge; `uplink` is the port away from
    them.

    `server`: where RADIUS answers, or the configuration of hostapd's own EAP server.
    """

    def __init__(
        self, host: Host, radio: str, uplink: str, server: RadiusClient | ServerConfig
    ) -> None:
        self.host = host
        self.radio = radio
        self.uplink = uplink
        self._changing = threading.Lock()
        self._openings: list[Opening] = []
        self._authorized: set[str] = set()
        self._port = AuthenticatorPort(host, radio)
        with host.entered():
            self._announcer = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        self._announcer.bind((uplink, 0))
        self.client = server if isinstance(server, RadiusClient) else None
        """How it asks RADIUS, if it does."""
        self._configuration = self._write(server)
        self._start()

    # Stations.

    def associate(self, hardware_address: str) -> float:
        """Begin the exchange with a station, as an access point does when one associates.

        Returns when, in seconds since the epoch. A wired hostapd begins by itself only at an
        EAPOL-Start, which a wired wpa_supplicant sends some 2 s late. One that has disconnected a
        station, as after a failure or a logoff, begins with it only 5 s later, which is waited for.
        """
        self.process.wait_for(
            lambda: not self._is_disconnected(hardware_address), "new beginning", FORGET_S
        )
        is_known = bool(self._station(hardware_address))
        began = time.time()
        self.control.order(f"{'EAPOL_REAUTH' if is_known else 'NEW_STA'} {hardware_address}")
        return began

    def admit(self, hardware_address: str) -> float:
        """Let a station pass without an exchange, as an access point without IEEE 802.1X does.

        Returns when it was done, in seconds since the epoch.
        """
        self._open(hardware_address, time.time())
        return self.openings()[-1].opened_s

    def leave(self, hardware_address: str) -> None:
        """Shut the port of a station that has left; hostapd keeps what it knows of it."""
        self._shut(hardware_address)

    def wait_disconnected(self, hardware_address: str) -> None:
        """Wait until hostapd has disconnected a station: some 10 ms after a failure or a logoff."""
        self.process.wait_for(
            lambda: self._is_disconnected(hardware_address), "disconnection", OPEN_S
        )

    def authorized(self) -> set[str]:
        """The Ethernet addresses that the kernel lets pass."""
        with self._changing:
            return self._port.addresses()

    def events(self) -> list[Event]:
        """What hostapd has said so far."""
        return self._listener.events()

    def openings(self) -> list[Opening]:
        """Each opening of a port so far."""
        with self._changing:
            return list(self._openings)

    def wait_open(
        self, hardware_address: str, since_s: float = 0.0, timeout_s: float = OPEN_S
    ) -> Opening:
        """Wait until a station's port was opened after this moment."""

        def opened() -> list[Opening]:
            return [
                one
                for one in self.openings()
                if one.hardware_address == hardware_address and one.heard_s >= since_s
            ]

        self._listener.wait_until(lambda: bool(opened()), f"port for {hardware_address}", timeout_s)
        return opened()[0]

    def wait_shut(self, hardware_address: str, timeout_s: float = OPEN_S) -> None:
        """Wait until a station's port is shut."""

        def is_shut() -> bool:
            return hardware_address not in self.authorized()

        self._listener.wait_until(is_shut, f"end for {hardware_address}", timeout_s)

    def wait_failure(
        self, hardware_address: str, since_s: float = 0.0, timeout_s: float = OPEN_S
    ) -> Event:
        """Wait until an exchange with a station has failed after this moment."""

        def failed() -> list[Event]:
            return [
                event
                for event in self.events()
                if event.name in FAILURES
                and event.words.startswith(hardware_address)
                and event.time_s >= since_s
            ]

        self._listener.wait_until(
            lambda: bool(failed()), f"failure of {hardware_address}", timeout_s
        )
        return failed()[0]

    def said_success_s(self, hardware_address: str, since_s: float) -> float:
        """When hostapd wrote that a station had succeeded after this moment, by its own clock."""
        for line in self.process.stdout().splitlines():
            stamp, _, words = line.partition(f": {self.radio}: ")
            name, _, rest = words.partition(" ")
            if name in SUCCESSES and rest.startswith(hardware_address) and float(stamp) >= since_s:
                return float(stamp)
        raise NamespaceError(f"hostapd has written of no success of {hardware_address}")

    def stations(self) -> dict[str, dict[str, str]]:
        """What hostapd knows of each station, by Ethernet address."""
        found: dict[str, dict[str, str]] = {}
        answer = self.control.request("STA-FIRST")
        while len(found) < STATIONS_MAX:
            address = answer.partition("\n")[0]
            if not ETHERNET_ADDRESS.fullmatch(address) or address in found:
                break
            found[address] = fields(answer)
            answer = self.control.request(f"STA-NEXT {address}")
        return found

    def starts(self, hardware_address: str) -> int:
        """How many EAPOL-Starts of a station hostapd has read."""
        return int(self._station(hardware_address).get("dot1xAuthEapolStartFramesRx", 0))

    # The program.

    def radius_counters(self) -> dict[str, int]:
        """hostapd's counters of RADIUS (RFC 4668), such as `AccessRequests`."""
        prefix = "radiusAuthClient"
        counters = self.control.fields("MIB").items()
        return {
            key.removeprefix(prefix): int(value)
            for key, value in counters
            if key.startswith(prefix) and value.isdigit()
        }

    def is_running(self) -> bool:
        """Whether hostapd is running."""
        return self.process.is_running()

    def restart(self) -> None:
        """End hostapd, which forgets every station, and start it again."""
        self.stop()
        self._start()

    def wait_end(self) -> None:
        """Wait until hostapd has ended and every port is shut."""
        self._listener.wait_until(lambda: self._listener.is_ended, "end of hostapd", READY_S)

    def stop(self) -> None:
        """End hostapd; every port is shut. What went wrong before that is raised here."""
        self.process.stop()
        try:
            self.wait_end()
        finally:
            self._listener.close()
            self.control.close()
            self._shut_all()

    def close(self) -> None:
        """End it for good."""
        try:
            self.stop()
        finally:
            self._port.close()
            self._announcer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        path = self._sockets / self.radio
        # One that was killed has left it.
        path.unlink(missing_ok=True)
        argv = ["hostapd", "-t", str(self._configuration)]
        self.process = self.host.popen(argv, name="hostapd")
        self.process.wait_for(path.is_socket, "control socket", READY_S)
        self.control = Control(path)
        self._listener = Listener(self.process, path, self._hear, self._shut_all)

    def _hear(self, event: Event) -> None:
        if event.name in SUCCESSES:
            self._open(event.words.split()[0], event.time_s)
        elif event.name in SHUTS:
            self._shut(event.words.split()[0])

    def _open(self, hardware_address: str, heard_s: float) -> None:
        with self._changing:
            # Also if it is open: a frame from its address elsewhere has moved the entry there.
            # Noted before, so that it is shut whatever goes wrong from here on.
            self._authorized.add(hardware_address)
            self._port.open(hardware_address)
            opened_s = time.time()
            try:
                self._announce(hardware_address)
            except NamespaceError:
                self._shut_now(hardware_address)
                raise
            self._openings.append(Opening(hardware_address, heard_s, opened_s))

    def _announce(self, hardware_address: str) -> None:
        source = bytes.fromhex(hardware_address.replace(":", ""))
        length = struct.pack("!H", len(LAYER_2_UPDATE))
        try:
            self._announcer.send(BROADCAST + source + length + LAYER_2_UPDATE)
        except OSError as fault:
            where = f"{self.host.role}, {self.uplink}"
            said = f"{where}: cannot tell of {hardware_address}: {fault.strerror}"
            raise NamespaceError(said) from None

    def _shut(self, hardware_address: str) -> None:
        with self._changing:
            if hardware_address in self._authorized:
                self._shut_now(hardware_address)

    def _shut_now(self, hardware_address: str) -> None:
        self._port.shut(hardware_address)
        self._authorized.discard(hardware_address)

    def _shut_all(self) -> None:
        """Shut every port that the kernel or this process has open, and raise the first fault at
        the end."""
        faults: list[Exception] = []
        with self._changing:
            found = set(self._authorized)
            try:
                found |= self._port.addresses()
            except (NamespaceError, OSError) as fault:
                faults.append(fault)
            for hardware_address in found:
                try:
                    self._shut_now(hardware_address)
                except (NamespaceError, OSError) as fault:
                    faults.append(fault)
        if faults:
            raise faults[0]

    def _station(self, hardware_address: str) -> dict[str, str]:
        return self.control.fields(f"STA {hardware_address}")

    def _is_disconnected(self, hardware_address: str) -> bool:
        return self._station(hardware_address).get("dot1xAuthPaeState") == INITIALIZE

    # Its files.

    @property
    def _sockets(self) -> Path:
        # The path of a Unix socket has at most 107 bytes, so it is not below the output directory.
        return Path("/run") / f"{self.host.namespace}-hostapd"

    def _write(self, server: RadiusClient | ServerConfig) -> Path:
        directory = self.host.logs / "hostapd"
        directory.mkdir(exist_ok=True)
        settings = {
            "interface": self.radio,
            "driver": "wired",
            "ctrl_interface": str(self._sockets),
            "ieee8021x": "1",
            "eapol_version": "2",
            # Answers go to the station alone, as on a radio link.
            "use_pae_group_addr": "0",
            "eap_reauth_period": "0",
        }
        if isinstance(server, RadiusClient):
            settings |= {
                "own_ip_addr": server.own_address,
                "auth_server_addr": server.server_address,
                "auth_server_port": str(RADIUS_PORT),
                "auth_server_shared_secret": server.secret,
            }
        else:
            users = directory / "users"
            write_private(users, eap_users(server))
            settings |= eap_server(server) | {"eap_user_file": str(users)}
        path = directory / "hostapd.conf"
        lines = (
            f"{key}={hostapd_setting(value, f'the setting {key}')}\n"
            for key, value in settings.items()
        )
        return write_private(path, "".join(lines))


def eap_server(server: ServerConfig) -> dict[str, str]:
    """The settings of hostapd's own EAP server."""
    identity = server.identity
    settings = {
        "eap_server": "1",
        "ca_cert": str(identity.authority),
        "server_cert": str(identity.credentials.certificate),
        "private_key": str(identity.credentials.key),
    }
    if server.tls is Tls.V1_3:
        settings["tls_flags"] = "[ENABLE-TLSv1.3]"
    if server.is_resuming:
        settings["tls_session_lifetime"] = str(SESSION_LIFETIME_S)
    return settings


def eap_users(server: ServerConfig) -> str:
    """The users of hostapd's own EAP server, in its file's words.

    `ValueError` for a name or a password that the file cannot quote.
    """
    text = ""
    for account in server.accounts:
        name, password = hostapd_name(account.identity), octets(account.password)
        if account.method is Method.MD5:
            lines = [f"{name} MD5 {password}"]
        elif account.method is Method.TLS:
            lines = [f"{name} TLS"]
        elif account.method is Method.PEAP:
            lines = [f"{name} PEAP", f"{name} MSCHAPV2 {password} [2]"]
        else:
            lines = [f"{name} TTLS", f"{name} TTLS-PAP {password} [2]"]
        text += "".join(f"{hostapd_line(line, account.identity)}\n" for line in lines)
    return text
