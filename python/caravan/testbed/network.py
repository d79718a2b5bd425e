"""A set of hosts that start and end together, with one output directory.

Names are unique per instance, so several networks can exist in one process and in many.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
from pathlib import Path
from typing import Self

from caravan.testbed.host import Host
from caravan.testbed.isolation import enter
from caravan.testbed.owner import sweep

_instances = itertools.count()


class Network:
    """Hosts made by `host()`, closed in reverse order; a context manager.

    Logs go to `output/ROLE/`; without an output directory, to a new temporary one that stays.
    """

    def __init__(self, output: Path | None = None, *, is_dual_stack: bool = False) -> None:
        enter()
        sweep()
        self.number = next(_instances)
        self.is_dual_stack = is_dual_stack
        self.output = (output or Path(tempfile.mkdtemp(prefix="caravan-testbed-"))).resolve()
        self.hosts: list[Host] = []
        self._stack = contextlib.ExitStack()

    def host(self, role: str) -> Host:
        """Add a host; roles are unique within the network."""
        if any(host.role == role for host in self.hosts):
            raise ValueError(f"two hosts named {role}")
        namespace = f"cv{os.getpid()}-{self.number}-{role}"
        host = Host(role, namespace, self.output / role, is_dual_stack=self.is_dual_stack)
        self._stack.callback(host.close)
        self.hosts.append(host)
        return host

    def close(self) -> None:
        """Stop everything and remove every namespace; may be called twice."""
        self._stack.close()
        self.hosts.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
