"""Networks of real kernel namespaces in which `caravan` and its peers run.

Enter with `enter()`, build a network with `RemoteAccess`, run programs on its hosts. Nothing
outside the process and its children is touched: mounts, namespaces, `/run`, `/dev/shm` and `/etc`
are private.
Simulated links and clocks are elsewhere: everything here takes real time.
"""

from caravan.testbed.errors import NamespaceError, TimedOut
from caravan.testbed.host import Host
from caravan.testbed.isolation import IsolationError, enter
from caravan.testbed.network import Network
from caravan.testbed.owner import sweep
from caravan.testbed.process import CommandFailed, Completed, Process
from caravan.testbed.remote_access import RemoteAccess, RemoteAccessConfig

__all__ = [
    "CommandFailed",
    "Completed",
    "Host",
    "IsolationError",
    "NamespaceError",
    "Network",
    "Process",
    "RemoteAccess",
    "RemoteAccessConfig",
    "TimedOut",
    "enter",
    "sweep",
]
