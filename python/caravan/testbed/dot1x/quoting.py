"""Names, passwords, secrets and paths in the files of FreeRADIUS, hostapd and wpa_supplicant.

Each file has its own quotes, and what ends them, or is expanded within them, would be another
setting or another user. What a file cannot quote is a `ValueError` of one sentence, which does not
repeat a password or a secret.
"""

from __future__ import annotations

NAME_OCTETS_MAX = 253
"""Of a User-Name, which is an attribute of RADIUS (RFC 2865 §5)."""
DEFAULT = "DEFAULT"
"""The entry of FreeRADIUS's file of users that stands for everybody, quoted or not."""
HOSTAPD_LINE_MAX = 510
"""Octets of a line of hostapd's file of users: the rest of a longer one would be another line."""


def radius_name(identity: str) -> str:
    """A user's name in FreeRADIUS's file of users."""
    if identity == DEFAULT:
        raise ValueError(f"a user of FreeRADIUS cannot have the name {DEFAULT}: it is everybody's")
    return _quoted(_name(identity), '"', '"\\', f"the name {identity!r}", "FreeRADIUS")


def radius_password(password: str, identity: str) -> str:
    """A user's password there, in the quotes in which nothing is expanded."""
    return _quoted(password, "'", "'\\", f"the password of {identity!r}", "FreeRADIUS")


def radius_setting(value: str, what: str) -> str:
    """A secret or a path in radiusd.conf; `what` it is, for the sentence."""
    return _quoted(value, '"', '"\\$%', what, "FreeRADIUS")


def hostapd_name(identity: str) -> str:
    """A user's name in hostapd's file of users."""
    return _quoted(_name(identity), '"', '"', f"the name {identity!r}", "hostapd")


def hostapd_line(line: str, identity: str) -> str:
    """A line of that file, if it is no longer than hostapd reads."""
    if len(line.encode()) > HOSTAPD_LINE_MAX:
        said = f"name and password of {identity!r} have more than {HOSTAPD_LINE_MAX} octets"
        raise ValueError(f"{said} in hostapd's file")
    return line


def hostapd_setting(value: str, what: str) -> str:
    """A value in hostapd.conf, which reaches to the end of its line."""
    return _quoted(value, "", "", what, "hostapd")


def supplicant_setting(value: str, what: str) -> str:
    """A path or a name in wpa_supplicant.conf."""
    return _quoted(value, '"', '"', what, "wpa_supplicant")


def octets(value: str) -> str:
    """Any text, as hostapd and wpa_supplicant take it: its octets in hexadecimal."""
    return value.encode().hex()


def _name(identity: str) -> str:
    if not 1 <= len(identity.encode(errors="replace")) <= NAME_OCTETS_MAX:
        raise ValueError(f"a user's name has 1 to {NAME_OCTETS_MAX} octets")
    return identity


def _quoted(value: str, quote: str, special: str, what: str, program: str) -> str:
    if not value.isprintable() or any(one in special for one in value):
        listed = "".join(f" {one}" for one in special)
        others = f", and none of{listed}" if special else ""
        raise ValueError(
            f"{what} must have printable characters alone{others}, in {program}'s file"
        )
    return f"{quote}{value}{quote}"
