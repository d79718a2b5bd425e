"""One host of a testbed: a network namespace with a private `/etc`, and the operations inside it.

Links, addresses and routes use pyroute2. Programs start through `nsenter`, which becomes the
program by exec, so its pid and CPU time are the program's own.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyroute2 import NetlinkError, NetNS, netns

from caravan.testbed.errors import NamespaceError
from caravan.testbed.isolation import IsolationError
from caravan.testbed.process import Completed, Process, stop_all

RUN_TIMEOUT_S = 30.0
"""Default time limit of `Host.run`."""


RTN_UNREACHABLE = 7
"""Route type, from linux/rtnetlink.h."""
SIOCGIFHWADDR, SIOCGIFINDEX = 0x8927, 0x8933
"""Of linux/sockios.h: netlink has the same, in an answer that takes Python a hundred times as long
to read."""
IFREQ = struct.Struct("16s24s")
"""An interface's name, and what is asked of it."""


@dataclass(frozen=True)
class Counters:
    """What an interface has carried since its creation."""

    received_bytes: int
    received_packets: int
    sent_bytes: int
    sent_packets: int

    def __sub__(self, earlier: Counters) -> Counters:
        return Counters(
            self.received_bytes - earlier.received_bytes,
            self.received_packets - earlier.received_packets,
            self.sent_bytes - earlier.sent_bytes,
            self.sent_packets - earlier.sent_packets,
        )


class _Netlink:
    """The netlink socket of a namespace; what the kernel refuses there is a `NamespaceError`."""

    def __init__(self, role: str, namespace: str) -> None:
        self._role = role
        self._socket = NetNS(namespace)

    def __getattr__(self, operation: str) -> Callable[..., tuple[Any, ...]]:
        call = getattr(self._socket, operation)

        def checked(*words: object, **options: object) -> tuple[Any, ...]:
            try:
                return tuple(call(*words, **options) or ())
            except NetlinkError as fault:
                told = [*map(str, words), *(f"{key} {value}" for key, value in options.items())]
                said = f"{self._role}: {operation} {' '.join(told)}: {os.strerror(fault.code)}"
                raise NamespaceError(said) from None

        return checked


class Host:
    """A namespace called `role` for people and `namespace` for the kernel."""

    def __init__(self, role: str, namespace: str, logs: Path, *, is_dual_stack: bool) -> None:
        self.role = role
        self.namespace = namespace
        self.logs = logs
        self.is_dual_stack = is_dual_stack
        self._count = 0
        self._processes: list[Process] = []
        self._mounts: int | None = None
        self._netlink: Any = None
        self._inside: socket.socket | None = None
        logs.mkdir(parents=True, exist_ok=True)
        netns.create(namespace)
        try:
            self._netlink = _Netlink(role, namespace)
            with self.entered():
                self._inside = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self._private_etc()
            self._first_sysctls()
            self.link_up("lo")
        except BaseException:
            self.close()
            raise

    # Programs.

    def run(
        self,
        argv: Sequence[str],
        timeout_s: float = RUN_TIMEOUT_S,
        environment: Mapping[str, str] | None = None,
        *,
        check: bool = True,
        name: str | None = None,
    ) -> Completed:
        """Run a program until it ends; `CommandFailed` unless it succeeds or `check` is off."""
        process = self.popen(argv, environment, name=name)
        completed = process.wait(timeout_s)
        self._processes.remove(process)
        return completed.check() if check else completed

    def popen(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        name: str | None = None,
        is_told: bool = False,
    ) -> Process:
        """Start a program; it ends with the host at the latest.

        The kernel also kills it when the thread that started it ends: start it from a thread that
        lives as long as the program should.
        """
        self._count += 1
        log = self.logs / f"{self._count:03}-{name or Path(argv[0]).name}"
        process = Process(argv, log, self._entry(), environment, is_told=is_told)
        self._processes.append(process)
        return process

    def pids(self) -> list[int]:
        """Every process in the namespace, including detached ones."""
        home = (Path("/run/netns") / self.namespace).stat().st_ino
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            with contextlib.suppress(OSError):
                if (entry / "ns/net").stat().st_ino == home:
                    found.append(int(entry.name))
        return found

    # Links, addresses, routes.

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """The calling thread inside the namespace: sockets opened here stay here."""
        netns.pushns(self.namespace)
        try:
            yield
        finally:
            netns.popns()

    def connect(self, interface: str, peer: Host, peer_interface: str, mtu_bytes: int) -> None:
        """A veth pair to another host, both ends up."""
        self._netlink.link(
            "add",
            ifname=interface,
            kind="veth",
            peer={"ifname": peer_interface, "net_ns_fd": peer.namespace},
        )
        for host, name in ((self, interface), (peer, peer_interface)):
            host.set_mtu(name, mtu_bytes)
            host.link_up(name)

    def bridge(self, name: str, interfaces: Sequence[str]) -> None:
        """Bridge interfaces."""
        self._netlink.link("add", ifname=name, kind="bridge")
        for interface in interfaces:
            self._netlink.link("set", index=self.index(interface), master=self.index(name))
        self.link_up(name)

    def plug(self, interface: str, bridge: str) -> None:
        """Move an interface to a bridge; the other end sees its link go down and up."""
        index = self.index(interface)
        self._netlink.link("set", index=index, state="down")
        self._netlink.link("set", index=index, master=self.index(bridge))
        self._netlink.link("set", index=index, state="up")

    def unplug(self, interface: str) -> None:
        """Take an interface out of its bridge."""
        self._netlink.link("set", index=self.index(interface), master=0)

    def set_port(self, interface: str, **settings: int) -> None:
        """Change what an interface does as a port of its bridge, such as `isolated=1`."""
        self._netlink.brport("set", index=self.index(interface), **settings)

    def flush_port(self, interface: str) -> None:
        """Forget the Ethernet addresses that a bridge has learned behind an interface."""
        self.run(["ip", "link", "set", interface, "type", "bridge_slave", "fdb_flush"])

    def has_learned(self, interface: str, hardware_address: str) -> bool:
        """Whether a bridge knows that an Ethernet address is behind an interface."""
        found = self._netlink.fdb("dump", ifindex=self.index(interface))
        return any(one.get("lladdr") == hardware_address for one in found)

    def forward_groups(self, bridge: str, mask: int) -> None:
        """Let a bridge forward frames to groups of its own link, 01:80:c2:00:00:0X, by bit X."""
        index = self.index(bridge)
        self._netlink.link("set", index=index, kind="bridge", br_group_fwd_mask=mask)

    def hardware_address(self, interface: str) -> str:
        """The Ethernet address of an interface."""
        # An address family, and the address.
        return self._asked(SIOCGIFHWADDR, interface)[2:8].hex(":")

    def is_up(self, interface: str) -> bool:
        """Whether an interface was brought up."""
        (link,) = self._netlink.get_links(self.index(interface))
        return bool(link.get("state") == "up")

    def add_neighbour(self, interface: str, address: str, hardware_address: str) -> None:
        """Add a neighbour entry, so that no ARP is needed."""
        self._netlink.neigh(
            "replace",
            dst=address,
            lladdr=hardware_address,
            ifindex=self.index(interface),
            state="permanent",
        )

    def knows(self, address: str) -> bool:
        """Whether the host knows the Ethernet address of a neighbour."""
        found = self._netlink.get_neighbours(dst=address)
        return any(one.get("lladdr") for one in found)

    def remove_neighbour(self, interface: str, address: str) -> None:
        """Undo `add_neighbour`: the address is asked for by ARP again."""
        self._netlink.neigh("del", dst=address, ifindex=self.index(interface))

    def index(self, interface: str) -> int:
        """The kernel's number of an interface; `NamespaceError` when it is absent."""
        (index,) = struct.unpack_from("i", self._asked(SIOCGIFINDEX, interface))
        return int(index)

    def _asked(self, request: int, interface: str) -> bytes:
        """What the kernel says of an interface."""
        assert self._inside is not None
        wanted = IFREQ.pack(interface.encode(), b"")
        try:
            found: bytes = fcntl.ioctl(self._inside, request, wanted)
        except OSError:
            raise NamespaceError(f"{self.role} has no interface {interface}") from None
        return found[16:]

    def interfaces(self) -> list[str]:
        """Names of all interfaces, including `lo`."""
        return [str(link.get("ifname")) for link in self._netlink.get_links()]

    def link_up(self, interface: str) -> None:
        """Bring an interface up."""
        self._netlink.link("set", index=self.index(interface), state="up")

    def link_down(self, interface: str) -> None:
        """Take an interface down; its routes go with it."""
        self._netlink.link("set", index=self.index(interface), state="down")

    def set_mtu(self, interface: str, mtu_bytes: int) -> None:
        """Change an interface's MTU."""
        self._netlink.link("set", index=self.index(interface), mtu=mtu_bytes)

    def add_address(self, interface: str, address: str) -> None:
        """Add an address in `address/prefix` form; one that is there stays."""
        self._netlink.addr("replace", index=self.index(interface), address=address)

    def remove_address(self, interface: str, address: str) -> None:
        """Remove an address in `address/prefix` form."""
        self._netlink.addr("del", index=self.index(interface), address=address)

    def addresses(self, interface: str) -> list[str]:
        """Addresses of an interface in `address/prefix` form."""
        dump = self._netlink.get_addr(index=self.index(interface))
        return [f"{item.get('address')}/{item['prefixlen']}" for item in dump]

    def add_route(self, destination: str, via: str) -> None:
        """Route a prefix (or `default`, with the gateway's family) through a gateway."""
        self._netlink.route("add", dst=_destination(destination, via), gateway=via)

    def remove_route(self, destination: str, via: str) -> None:
        """Undo `add_route`."""
        self._netlink.route("del", dst=_destination(destination, via), gateway=via)

    def unreachable_routes(self) -> list[str]:
        """Prefixes that are blocked here, in any table."""
        routes = self._netlink.get_routes(type=RTN_UNREACHABLE)
        found = [f"{route.get('dst')}/{route['dst_len']}" for route in routes if route.get("dst")]
        # For IPv6 the kernel has unreachable routes of its own on lo.
        return [text for text in found if not text.startswith(("ff", "fe80"))]

    def counters(self, interface: str) -> Counters:
        """What an interface has carried, counted by the kernel."""
        (link,) = self._netlink.get_links(self.index(interface))
        stats = link.get("stats64")
        return Counters(
            stats["rx_bytes"], stats["rx_packets"], stats["tx_bytes"], stats["tx_packets"]
        )

    def sysctl(self, key: str, value: str) -> None:
        """Set a network setting of this namespace, as in `net.ipv4.ip_forward`."""
        with self.entered():
            (Path("/proc/sys") / key.replace(".", "/")).write_text(value)

    def forward(self) -> None:
        """Make the host a router."""
        self.sysctl("net.ipv4.ip_forward", "1")
        if self.is_dual_stack:
            self.sysctl("net.ipv6.conf.all.forwarding", "1")

    def load_nft(self, ruleset: str, name: str) -> None:
        """Load an nftables ruleset; its text is kept among the logs."""
        path = self.logs / f"{name}.nft"
        path.write_text(ruleset)
        self.run(["nft", "-f", str(path)])

    def close(self) -> None:
        """End every program inside, then the namespace; may be called twice."""
        for process in reversed(self._processes):
            process.stop()
        self._processes.clear()
        if (Path("/run/netns") / self.namespace).exists():
            stop_all(self.pids())
            if self._inside is not None:
                self._inside.close()
            if self._netlink is not None:
                self._netlink.close()
                self._netlink = None
            netns.remove(self.namespace)
        if self._mounts is not None:
            os.close(self._mounts)
            self._mounts = None

    def _entry(self) -> list[str]:
        return [
            "nsenter",
            f"--mount=/proc/{os.getpid()}/fd/{self._mounts}",
            f"--net=/run/netns/{self.namespace}",
            f"--wd={self.logs}",
            "--",
            "setpriv",
            "--pdeathsig",
            "KILL",
            "--",
        ]

    def _private_etc(self) -> None:
        """Changes below `/etc` (a resolver's address) stay with this host.

        A file descriptor holds the mount namespace: pinning it to a file fails at random on kernels
        whose namespace numbers do not grow in order of creation.
        """
        layers = Path("/run/etc") / self.namespace
        (layers / "upper").mkdir(parents=True)
        (layers / "work").mkdir()
        options = f"lowerdir=/etc,upperdir={layers}/upper,workdir={layers}/work"
        script = f"mount -t overlay overlay -o {options} /etc && echo ready && read -r end"
        with subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as keeper:
            assert keeper.stdout is not None and keeper.stdin is not None
            if keeper.stdout.readline() != b"ready\n":
                raise IsolationError("no overlay over /etc: the kernel needs CONFIG_OVERLAY_FS")
            self._mounts = os.open(f"/proc/{keeper.pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
            keeper.stdin.close()

    def _first_sysctls(self) -> None:
        if self.is_dual_stack:
            # Addresses are usable at once: nobody else is on these links.
            self.sysctl("net.ipv6.conf.default.accept_dad", "0")
            self.sysctl("net.ipv6.conf.all.accept_dad", "0")
            # Addresses and routes are given: nobody asks for a router.
            self.sysctl("net.ipv6.conf.default.router_solicitations", "0")
        else:
            self.sysctl("net.ipv6.conf.default.disable_ipv6", "1")
        self.sysctl("net.ipv4.ping_group_range", "0 0")


def _destination(destination: str, via: str) -> str:
    if destination != "default":
        return destination
    return "::/0" if ":" in via else "0.0.0.0/0"
