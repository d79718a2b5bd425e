"""A station: wpa_supplicant on its interface, with one login (the supplicant of IEEE 802.1X).

wpa_supplicant's wired driver enforces nothing either: this process opens the station's own port
when wpa_supplicant says that an exchange has succeeded, and shuts it at a failure, at a move and
when the program ends.
"""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

from caravan.testbed.dot1x.control import Control, Event, Listener
from caravan.testbed.dot1x.method import Login, Method, Tls, legacy_openssl
from caravan.testbed.dot1x.ports import SupplicantPort
from caravan.testbed.dot1x.quoting import octets, supplicant_setting
from caravan.testbed.folders import write_private
from caravan.testbed.host import Host

READY_S = 10.0
OPEN_S = 15.0
SUCCESS, FAILURE = "CTRL-EVENT-EAP-SUCCESS", "CTRL-EVENT-EAP-FAILURE"
REFUSED_CERTIFICATE = "CTRL-EVENT-EAP-TLS-CERT-ERROR"
DERIVED_KEY = re.compile(r"EAP-\w+: Derived key - hexdump\(len=64\): ([0-9a-f ]+)")
INNER_METHODS = {Method.PEAP: "auth=MSCHAPV2", Method.TTLS: "auth=PAP"}


class Supplicant:
    """wpa_supplicant on one interface of a host.

    `take_key` gets EAP's key (MSK) after each exchange whose method has one. wpa_supplicant gives
    it to nobody but its driver, and the wired one wants none; so with `take_key` it writes its
    debug log with keys (`-d -K`), and the method writes it there before the exchange ends.
    """

    def __init__(
        self,
        host: Host,
        interface: str,
        login: Login,
        take_key: Callable[[bytes], None] | None = None,
    ) -> None:
        self.host = host
        self.interface = interface
        self.login = login
        self._take_key = take_key
        self._changing = threading.Lock()
        self._port = SupplicantPort(host, interface)
        path = self._sockets / interface
        # One that was killed has left it.
        path.unlink(missing_ok=True)
        argv = ["wpa_supplicant", "-t", "-Dwired", f"-i{interface}", "-c", str(self._write())]
        if take_key is not None:
            argv += ["-d", "-K"]
        environment = legacy_openssl(host.logs, is_legacy=login.is_legacy)
        self.process = host.popen(argv, environment, name="wpa_supplicant")
        self.process.wait_for(path.is_socket, "control socket", READY_S)
        self.control = Control(path)
        # It hears no EAPOL before that.
        self.process.wait_for(self._is_associated, "association", READY_S)
        self._listener = Listener(self.process, path, self._hear, self.shut)

    @property
    def hardware_address(self) -> str:
        """The station's Ethernet address."""
        return self.host.hardware_address(self.interface)

    @property
    def is_open(self) -> bool:
        """Whether packets of the station may leave."""
        return self._port.is_open

    def shut(self) -> None:
        """Shut the station's own port until an exchange succeeds: it is somewhere else."""
        with self._changing:
            self._port.set_open(False)

    def log_off(self) -> None:
        """Send an EAPOL-Logoff: the access point shuts its port, and the station its own."""
        self.control.order("LOGOFF")
        self.shut()

    def events(self) -> list[Event]:
        """What wpa_supplicant has said so far."""
        return self._listener.events()

    def is_resumed(self) -> bool:
        """Whether the last exchange resumed a session of TLS."""
        return self.control.fields("STATUS").get("tls_session_reused") == "1"

    def tls_version(self) -> str:
        """The version of TLS in the last exchange, such as `TLSv1.2`."""
        return self.control.fields("STATUS")["eap_tls_version"]

    def wait_for(self, name: str, since_s: float = 0.0, timeout_s: float = OPEN_S) -> Event:
        """Wait for an event of this name after this moment."""

        def heard() -> list[Event]:
            return [one for one in self.events() if one.name == name and one.time_s >= since_s]

        self._listener.wait_until(lambda: bool(heard()), name, timeout_s)
        return heard()[0]

    def end(self) -> None:
        """Tell wpa_supplicant to end, and do not wait for it: that takes a tenth of a second."""
        self.process.signal(signal.SIGTERM)

    def close(self) -> None:
        """End wpa_supplicant."""
        self.process.stop()
        self._listener.close()
        self.control.close()
        self._port.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _is_associated(self) -> bool:
        return self.control.fields("STATUS").get("wpa_state") not in ("DISCONNECTED", "INACTIVE")

    def _hear(self, event: Event) -> None:
        if event.name in (SUCCESS, FAILURE):
            if event.name == SUCCESS and self._take_key is not None:
                keys = DERIVED_KEY.findall(self.process.stdout())
                if keys:
                    self._take_key(bytes.fromhex(keys[-1]))
            with self._changing:
                self._port.set_open(event.name == SUCCESS)

    @property
    def _sockets(self) -> Path:
        # The path of a Unix socket has at most 107 bytes, so it is not below the output directory.
        return Path("/run") / f"{self.host.namespace}-wpa"

    def _write(self) -> Path:
        directory = self.host.logs / "wpa_supplicant"
        directory.mkdir(exist_ok=True)
        lines = [f"ctrl_interface={self._sockets}", "ap_scan=0", "fast_reauth=1", "network={"]
        lines += [f"    {key}={value}" for key, value in network_settings(self.login).items()]
        return write_private(directory / "wpa_supplicant.conf", "\n".join([*lines, "}", ""]))


def network_settings(login: Login) -> dict[str, str]:
    """The settings of a network in wpa_supplicant's words.

    `ValueError` for a path or a server's name that its file cannot quote.
    """
    settings = {
        "key_mgmt": "IEEE8021X",
        "eapol_flags": "0",
        "eap": login.method.name,
        "identity": octets(login.identity),
    }
    if login.password:
        settings["password"] = octets(login.password)
    if login.method is Method.MD5:
        return settings
    quoted = {"ca_cert": str(login.authority), "domain_match": login.server_name}
    if login.tls is Tls.V1_3:
        quoted["phase1"] = "tls_disable_tlsv1_3=0"
    if login.credentials is not None:
        quoted["client_cert"] = str(login.credentials.certificate)
        quoted["private_key"] = str(login.credentials.key)
    if login.method in INNER_METHODS:
        quoted["phase2"] = INNER_METHODS[login.method]
    return settings | {
        key: supplicant_setting(value, f"the setting {key}") for key, value in quoted.items()
    }
