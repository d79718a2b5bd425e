"""Why a station has no access: one cause, and one sentence.

The programs say it in different places: wpa_supplicant in its events, FreeRADIUS in its log,
hostapd in its counters. A witness reads what is new in all of them since it was made, and of that
only what is about its station: who has access has no refusal, a line of the log counts by the
Ethernet address at its end, behind the name that the station has given, and a counter of the access
point only while the station waits for the server. hostapd's own EAP server gives no reason, so of
its refusals only those by the station are told apart.
"""

from __future__ import annotations

import enum
import re
import time
from dataclasses import dataclass

from caravan.testbed.dot1x.authentication_server import UNKNOWN_USER, RadiusServer
from caravan.testbed.dot1x.authenticator import FAILURES, Authenticator
from caravan.testbed.dot1x.supplicant import FAILURE, REFUSED_CERTIFICATE, SUCCESS, Supplicant
from caravan.testbed.errors import TimedOut


class Cause(enum.Enum):
    """Why an authentication failed or does not end."""

    WRONG_PASSWORD = enum.auto()
    UNKNOWN_USER = enum.auto()
    STATION_EXPIRED = enum.auto()
    STATION_UNTRUSTED = enum.auto()
    SERVER_EXPIRED = enum.auto()
    SERVER_UNTRUSTED = enum.auto()
    SERVER_NAME = enum.auto()
    SERVER_CERTIFICATE = enum.auto()
    WRONG_SECRET = enum.auto()
    FORGED_ANSWER = enum.auto()
    NO_ANSWER = enum.auto()
    STATION_SILENT = enum.auto()
    NOT_BEGUN = enum.auto()
    ACCESS_POINT_ENDED = enum.auto()
    REFUSED = enum.auto()


SENTENCES = {
    Cause.WRONG_PASSWORD: "the authentication server refused {identity}: the password is wrong",
    Cause.UNKNOWN_USER: "the authentication server does not know the user {identity}",
    Cause.STATION_EXPIRED: "the authentication server refused the certificate of {identity}: "
    "it has expired",
    Cause.STATION_UNTRUSTED: "the authentication server refused the certificate of {identity}: "
    "no authority that the server trusts has issued it",
    Cause.SERVER_EXPIRED: "{identity} refused the certificate of the authentication server: "
    "it has expired",
    Cause.SERVER_UNTRUSTED: "{identity} refused the certificate of the authentication server: "
    "no authority that the station trusts has issued it",
    Cause.SERVER_NAME: "{identity} refused the certificate of the authentication server: "
    "it is not for {server_name}, so the access point may be a rogue",
    Cause.SERVER_CERTIFICATE: "{identity} refused the certificate of the authentication server",
    Cause.WRONG_SECRET: "the authentication server drops the requests of {access_point}: "
    "their shared secrets differ",
    Cause.FORGED_ANSWER: "{access_point} dropped an answer that was not made with the shared "
    "secret: it is forged, or the secrets differ",
    Cause.NO_ANSWER: "the authentication server has not answered {access_point}",
    Cause.STATION_SILENT: "{identity} has not answered {access_point}",
    Cause.NOT_BEGUN: "{access_point} does not know {identity}: "
    "it has not begun to authenticate there",
    Cause.ACCESS_POINT_ENDED: "hostapd on {access_point} has ended",
    Cause.REFUSED: "the authentication server refused {identity} and gave no reason",
}

CERTIFICATE_REASONS = {1: Cause.SERVER_UNTRUSTED, 4: Cause.SERVER_EXPIRED, 10: Cause.SERVER_NAME}
"""By `enum tls_fail_reason` of wpa_supplicant."""
SERVER_REASONS = (
    (UNKNOWN_USER, Cause.UNKNOWN_USER),
    ("certificate has expired", Cause.STATION_EXPIRED),
    ("unable to get local issuer certificate", Cause.STATION_UNTRUSTED),
    ("MS-CHAP2-Response is incorrect", Cause.WRONG_PASSWORD),
    ("Cleartext password does not match", Cause.WRONG_PASSWORD),
)
"""Words of FreeRADIUS's reasons; for EAP-MD5, where only the password can be wrong, it has none."""
LOG_LINE = re.compile(r"\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4} : (\w+): (.*)")
LOGIN = re.compile(
    r"\(\d+\) +(?:Login incorrect|Invalid user)(?: \((?P<reason>.*?)\))?: \[.*\] "
    r"\(from client \S+ port \d+ cli (?P<station>[0-9A-F-]{17})(?: via TLS tunnel)?\)"
)
"""A refusal in FreeRADIUS's log. The name is the part that the station chooses: it is between the
reason, which ends at the first `): [`, and the end of the line, so it can stand for neither."""
SECRETS_DIFFER = re.compile(r"Received packet from (\S+) with .*\(Shared secret is incorrect\.\)")
WAITS_FOR_STATION, WAITS_FOR_SERVER = ("1", "8"), ("2",)
"""`dot1xAuthBackendAuthState` while the station has to answer, `request`, or has given an answer
that is none, `ignore`; and while the server has to, `response` (IEEE 802.1X-2004)."""
PATIENCE_S = 1.0
WAIT_S = 10.0
DROPPED_ANSWERS = ("BadAuthenticators", "MalformedAccessResponses", "PacketsDropped")


@dataclass(frozen=True)
class Refusal:
    """A cause, with what its sentence names."""

    cause: Cause
    identity: str
    server_name: str
    access_point: str

    def __str__(self) -> str:
        return SENTENCES[self.cause].format(
            identity=self.identity, server_name=self.server_name, access_point=self.access_point
        )


class Witness:
    """What three programs say of one station from construction on."""

    def __init__(
        self,
        supplicant: Supplicant,
        authenticator: Authenticator,
        server: RadiusServer | None = None,
    ) -> None:
        self._supplicant = supplicant
        self._authenticator = authenticator
        self._server = server
        self._since_s = time.time()
        self._log_length = len(server.log()) if server else 0
        # One that has ended cannot be asked, and that is the cause.
        self._counters = authenticator.radius_counters() if authenticator.is_running() else {}

    def wait(self, timeout_s: float = WAIT_S) -> Refusal:
        """Wait until there is a refusal."""
        deadline = time.monotonic() + timeout_s
        while (found := self.refusal()) is None:
            if time.monotonic() > deadline:
                raise TimedOut(f"nothing was refused in {timeout_s} s")
            time.sleep(0.01)
        return found

    def refusal(self) -> Refusal | None:
        """Why the station has no access; None while an exchange goes on, and if it has access.

        Silence is a cause after `PATIENCE_S`, and so is a failure without a reason.
        """
        cause = self._cause()
        login = self._supplicant.login
        role = self._authenticator.host.role
        return cause and Refusal(cause, login.identity, login.server_name, role)

    def _cause(self) -> Cause | None:
        if not self._authenticator.is_running():
            return Cause.ACCESS_POINT_ENDED
        station = self._supplicant.hardware_address
        if self._supplicant.is_open and station in self._authenticator.authorized():
            return None
        heard = [one for one in self._supplicant.events() if one.time_s >= self._since_s]
        for event in heard:
            if event.name == REFUSED_CERTIFICATE:
                reason = re.search(r"reason=(\d+)", event.words)
                assert reason is not None
                return CERTIFICATE_REASONS.get(int(reason[1]), Cause.SERVER_CERTIFICATE)
        waiting = self._waiting(WAITS_FOR_SERVER)
        said = self._server_cause(station, is_waiting=station in waiting)
        if said is not None:
            return said
        counted = self._counted()
        # hostapd does not say whose answer it has dropped.
        if waiting == {station} and any(counted[name] for name in DROPPED_ANSWERS):
            return Cause.FORGED_ANSWER
        names = {event.name for event in heard}
        # The programs do not say everything at once.
        if SUCCESS in names or time.time() < self._since_s + PATIENCE_S:
            return None
        if FAILURE in names or self._has_failed():
            return Cause.REFUSED
        if station in waiting:
            return Cause.NO_ANSWER
        if station in self._waiting(WAITS_FOR_STATION):
            return Cause.STATION_SILENT
        # hostapd knows who has come, and forgets all when it is started again.
        return None if station in self._authenticator.stations() else Cause.NOT_BEGUN

    def _server_cause(self, station: str, *, is_waiting: bool) -> Cause | None:
        if self._server is None:
            return None
        own = self._authenticator.client
        # A name may have other characters that end a line for `splitlines`.
        for line in self._server.log()[self._log_length :].split("\n"):
            found = LOG_LINE.fullmatch(line)
            if found is None:
                continue
            kind, words = found.groups()
            differ = SECRETS_DIFFER.search(words) if kind in ("Info", "Error") else None
            if differ and is_waiting and own is not None and differ[1] == own.own_address:
                return Cause.WRONG_SECRET
            login = LOGIN.fullmatch(words) if kind == "Auth" else None
            if login and login["station"].replace("-", ":").lower() == station:
                if login["reason"] is None:
                    return Cause.WRONG_PASSWORD
                for part, cause in SERVER_REASONS:
                    if part in login["reason"]:
                        return cause
        return None

    def _waiting(self, states: tuple[str, ...]) -> set[str]:
        """The stations of the access point whose exchange is in one of these states."""
        return {
            station
            for station, fields in self._authenticator.stations().items()
            if fields.get("dot1xAuthBackendAuthState") in states
        }

    def _counted(self) -> dict[str, int]:
        """hostapd's counters since then; it may have been started again."""
        found = {name: 0 for name in DROPPED_ANSWERS}
        for name, count in self._authenticator.radius_counters().items():
            before = self._counters.get(name, 0)
            found[name] = count - before if count >= before else count
        return found

    def _has_failed(self) -> bool:
        return any(
            event.name in FAILURES
            and event.words.startswith(self._supplicant.hardware_address)
            and event.time_s >= self._since_s
            for event in self._authenticator.events()
        )
