"""What is on a host: links, routes, rules, IPsec, packet filters, keys, programs and files.

Two inventories, before and after, show what a program has left behind. Counters, times of folders
and neighbours are left out, because they change by themselves; so is what other hosts share.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from caravan.testbed.host import Host

FOLDERS = ("/etc", "/run", "/dev/shm")
"""Folders whose files count, unless others are named. They belong to the testbed; other programs
write to the rest of the machine at the same time."""

_LISTS = (
    ("link", ("ip", "-brief", "link")),
    ("address", ("ip", "-brief", "address")),
    ("route", ("ip", "-4", "route", "show", "table", "all")),
    ("route", ("ip", "-6", "route", "show", "table", "all")),
    ("rule", ("ip", "-4", "rule")),
    ("rule", ("ip", "-6", "rule")),
    ("ipsec", ("ip", "xfrm", "state")),
    ("ipsec", ("ip", "xfrm", "policy")),
    ("filter", ("nft", "list", "ruleset")),
)
_KEYRING = "keyring"
"""Keys of this type hold others; each session has some."""


@dataclass(frozen=True)
class Inventory:
    """One line for each thing, such as `route default via 10.0.0.1`."""

    things: frozenset[str]

    @classmethod
    def take(cls, host: Host, folders: Sequence[str] = FOLDERS) -> Inventory:
        """The inventory of a host at this moment."""
        things = {f"program {text}" for text in _programs(host)}
        things |= {f"key {text}" for text in _keys(host)}
        for kind, argv in _LISTS:
            # A kernel without one of these has nothing to list.
            said = host.run(argv, check=False, name="inventory").stdout
            things |= {f"{kind} {line.rstrip()}" for line in said.splitlines() if line.strip()}
        things |= {f"file {text}" for text in _files(host, folders)}
        return cls(frozenset(things))

    def changes(self, after: Inventory) -> list[str]:
        """What came (`+`) and what went (`-`), in order; nothing if all is as before."""
        came = [f"+ {thing}" for thing in after.things - self.things]
        gone = [f"- {thing}" for thing in self.things - after.things]
        return sorted(came + gone)


def _programs(host: Host) -> list[str]:
    found = []
    for pid in host.pids():
        # It may have ended since.
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            found.append(f"{pid} {b' '.join(words).decode(errors='replace').strip()}")
    return found


def _keys(host: Host) -> list[str]:
    """Serial number, type and description of each key of the kernel that this user sees."""
    said = host.run(["cat", "/proc/keys"], check=False, name="inventory").stdout
    rows = [line.split(None, 8) for line in said.splitlines()]
    return [f"{row[0]} {row[7]} {row[8]}" for row in rows if len(row) == 9 and row[7] != _KEYRING]


def _files(host: Host, folders: Sequence[str]) -> list[str]:
    """Kind, mode and path of everything below; of files also size and time."""
    folder = ["-type", "d", "-printf", "%y %m %p\\n"]
    other = ["-printf", "%y %m %p %s %T@ %l\\n"]
    argv = ["find", *folders, "-xdev", *folder, "-o", *other]
    logs = str(host.logs)
    said = host.run(argv, check=False, name="inventory").stdout
    return [line for line in said.splitlines() if logs not in line]
