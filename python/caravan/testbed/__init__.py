"""Networks of real kernel namespaces in which `caravan` and its peers run.

Enter with `enter()`, build a network with `Road`, run programs on its hosts. Nothing outside the
process and its children is touched: mounts, namespaces, `/run` and `/etc` are private copies.
Simulated links and clocks are elsewhere: everything here takes real time.
"""

from caravan.testbed.host import Host
from caravan.testbed.isolation import IsolationError, enter, sweep
from caravan.testbed.network import Network
from caravan.testbed.process import CommandFailed, Completed, Process
from caravan.testbed.road import Road, RoadPlan

__all__ = [
    "CommandFailed",
    "Completed",
    "Host",
    "IsolationError",
    "Network",
    "Process",
    "Road",
    "RoadPlan",
    "enter",
    "sweep",
]
