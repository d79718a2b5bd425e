"""Tunnel agents on hosts of a testbed: Client, Host, Target, and a server behind Target.

`AgentNetwork` is `client - net - host`, `net - target - server`; where a wire is relayed, the relay
is on a host `air` in it. With a NAT, `net` translates the client's address, as a café's router
does. Only this module and `caravan.py` know the program's command line and files.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from caravan.testbed.binary import caravan_binary
from caravan.testbed.caravan import Daemon, environment, order
from caravan.testbed.host import Host
from caravan.testbed.network import Network
from caravan.testbed.process import Completed
from caravan.testbed.relay import software_checksums

CLIENT_ADDRESS, CLIENT_ROUTER = "10.0.0.2", "10.0.0.1"
HOST_ADDRESS, TARGET_ADDRESS, NET_ADDRESS = "192.0.2.10", "192.0.2.20", "192.0.2.1"
TARGET_LAN_ADDRESS, SERVER_ADDRESS = "10.10.0.1", "10.10.0.2"
PRIVATE_NETWORK = "10.10.0.0/24"
INNER_POOL = "10.77.0.0/24"
PORT = 51516
READY_S = 15.0
NOBODY = 65_534
WITHOUT_RIGHTS = (
    "setpriv",
    f"--reuid={NOBODY}",
    f"--regid={NOBODY}",
    "--clear-groups",
    "--bounding-set=-all",
    "--inh-caps=-all",
    "--no-new-privs",
)
"""Runs a program as a user without any right on the machine."""
STEP = re.compile(r"role=(\w+) step=([\w-]+)(.*)")


class AgentNetwork(Network):
    """The hosts `client`, `net`, `host`, `target` and `server`; and `air` if the wire between `net`
    and the one named `relayed` goes by way of it. It passes nothing until a relay runs there."""

    def __init__(
        self, output: Path | None = None, *, has_nat: bool = False, relayed: str = ""
    ) -> None:
        super().__init__(output)
        try:
            self.net = self.host("net")
            self.client = self.host("client")
            self.keeper = self.host("host")
            self.target = self.host("target")
            self.server = self.host("server")
            self._relayed = relayed
            self._connect(has_nat)
        except BaseException:
            self.close()
            raise

    def _connect(self, has_nat: bool) -> None:
        self._wire(self.client, "client0")
        self.client.add_address("wan0", f"{CLIENT_ADDRESS}/24")
        self.net.add_address("client0", f"{CLIENT_ROUTER}/24")
        self.client.add_route("default", CLIENT_ROUTER)
        ports = {"host0": (self.keeper, HOST_ADDRESS), "target0": (self.target, TARGET_ADDRESS)}
        for name, (host, address) in ports.items():
            self._wire(host, name)
            host.add_address("wan0", f"{address}/24")
        self.net.bridge("wan", list(ports))
        self.net.add_address("wan", f"{NET_ADDRESS}/24")
        for host in (self.keeper, self.target):
            host.add_route("default", NET_ADDRESS)
        self.net.forward()
        if has_nat:
            self.net.load_nft(
                """table ip cafe {
    chain postrouting {
        type nat hook postrouting priority srcnat;
        ip saddr 10.0.0.0/24 oifname "wan" masquerade
    }
}
""",
                "cafe",
            )
        self.target.connect("lan0", self.server, "lan0", 1500)
        self.target.add_address("lan0", f"{TARGET_LAN_ADDRESS}/24")
        self.server.add_address("lan0", f"{SERVER_ADDRESS}/24")
        self.server.add_route("default", TARGET_LAN_ADDRESS)
        self.target.forward()

    def _wire(self, host: Host, port: str) -> None:
        """Connect a host to a port of `net`."""
        if host.role != self._relayed:
            host.connect("wan0", self.net, port, 1500)
            return
        self.air = self.host("air")
        host.connect("wan0", self.air, host.role, 1500)
        self.net.connect(port, self.air, "net", 1500)
        for end, interface in ((host, "wan0"), (self.net, port)):
            software_checksums(end, interface)


@dataclass(frozen=True)
class Event:
    """A line of an agent's log: what was done, and the fields of the line."""

    role: str
    step: str
    fields: dict[str, str]


def read_events(text: str) -> list[Event]:
    """The events in a log, or in what an agent shows of it."""
    found = STEP.finditer(text)
    return [Event(one[1], one[2], read_fields(one[3])) for one in found]


def read_fields(text: str) -> dict[str, str]:
    """`key=value` and `key="value"`."""
    return {name: value.strip('"') for name, value in re.findall(r'(\S+?)=("[^"]*"|\S+)', text)}


class Agent:
    """A running `caravan tunnel-agent ROLE`; a context manager."""

    def __init__(
        self,
        host: Host,
        role: str,
        *options: str,
        lines: str | None = None,
        user: Sequence[str] = (),
        more: Mapping[str, str] | None = None,
    ) -> None:
        """`lines`: what is typed at its start. `user`: as `WITHOUT_RIGHTS`. `more`: further
        variables of its environment."""
        self.host = host
        argv = [*user, str(caravan_binary()), "tunnel-agent", role, *options]
        own = environment(host) | dict(more or {})
        is_told = lines is not None
        self.process = host.popen(argv, own, name=f"agent-{role}", is_told=is_told)
        for line in (lines or "").splitlines():
            self.process.tell(line)

    def events(self) -> list[Event]:
        """The events so far."""
        return read_events(self.process.stderr())

    def steps(self) -> list[str]:
        """Their steps."""
        return [event.step for event in self.events()]

    def wait_for(self, step: str, timeout_s: float = READY_S) -> Event:
        """Wait for a step, and return its event."""
        self.process.wait_for(lambda: step in self.steps(), f"step {step}", timeout_s)
        return next(event for event in self.events() if event.step == step)

    def logged_s(self, step: str) -> float:
        """When it logged a step first, in seconds since the epoch."""
        for line in self.process.stderr().splitlines():
            found = STEP.search(line)
            if found is not None and found[2] == step:
                return datetime.fromisoformat(line.split()[0]).timestamp()
        raise ValueError(f"{self.host.role} has logged no step {step}")

    def wait_ready(self) -> Self:
        """Wait until Host or Target serves."""
        self.process.wait_for(lambda: " serves " in self.process.stderr(), "readiness", READY_S)
        return self

    def kill(self) -> None:
        """`kill -9`."""
        self.process.signal(signal.SIGKILL)
        self.process.wait(5)

    def stop(self) -> Completed:
        """SIGTERM, and wait: it takes its tunnels down."""
        return self.process.stop(grace_s=40)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def agent(host: Host, *arguments: str, timeout_s: float = 30) -> Completed:
    """Run `caravan tunnel-agent` with these arguments until it ends."""
    return order(host, "tunnel-agent", *arguments, timeout_s=timeout_s)


def agent_json(host: Host, *arguments: str) -> Any:
    """The same with `--json`, read."""
    return json.loads(agent(host, *arguments, "--json").check().stdout)


@dataclass(frozen=True)
class AgentFiles:
    """What the files of Host and Target say."""

    is_legacy: bool = False
    version: int | None = None
    """Of IKE, at Target. None: its default, IKEv2."""
    pool: str = INNER_POOL
    private: str = PRIVATE_NETWORK
    host_addresses: Sequence[str] = (HOST_ADDRESS,)
    """Each is that of a Host; they share keys."""
    host_database: str = "host.db"
    target_database: str = "target.db"
    target_log: str = "target.log"

    def legacy(self) -> list[str]:
        """The line that allows the paper's own form."""
        return ["legacy = true"] if self.is_legacy else []

    def ike(self) -> list[str]:
        """The line with the version of IKE."""
        return [] if self.version is None else [f"version = {self.version}"]


def write_host(folder: Path, files: AgentFiles, name: str = "host") -> Path:
    """The file of Host, or of another one that shares its keys; Target's public keys are in the
    same folder."""
    path = folder / f"{name}.toml"
    addresses = [f"{address}:{PORT}" for address in files.host_addresses]
    path.write_text(
        "\n".join(
            [
                'role = "host"',
                f"addresses = {json.dumps(addresses)}",
                f'database = "{files.host_database}"',
                f'log_file = "{name}.log"',
                *files.legacy(),
                "[targets.office]",
                'identity_file = "target.keys.pub"',
                f'address = "{TARGET_ADDRESS}:{PORT}"',
                "",
            ]
        )
    )
    return path


def write_target(folder: Path, back_end: Sequence[str], files: AgentFiles) -> Path:
    """Target's file; Host's public keys, the authority `guests` and the certificate of
    `target.example` are in the same folder. `back_end`: lines of its table."""
    path = folder / "target.toml"
    path.write_text(
        "\n".join(
            [
                'role = "target"',
                f'addresses = ["{TARGET_ADDRESS}"]',
                'identity = "target.example"',
                'certificate_file = "target.example.pem"',
                'private_key_file = "target.example.key"',
                'authority = "guests"',
                f'pool = "{files.pool}"',
                f'database = "{files.target_database}"',
                f'log_file = "{files.target_log}"',
                *files.legacy(),
                *files.ike(),
                "[hosts.home]",
                'identity_file = "host.keys.pub"',
                f"addresses = {json.dumps(list(files.host_addresses))}",
                *files.legacy(),
                "[back_end]",
                *back_end,
                "",
            ]
        )
    )
    return path


def prepare(
    network: AgentNetwork,
    folder: Path,
    back_end: Callable[[], Sequence[str]],
    *,
    keys: int = 1,
    files: AgentFiles | None = None,
) -> None:
    """Files of Host and Target, an authority for guests, and one member with a sheet, in `folder`.

    `back_end` starts what builds tunnels at Target, when its certificate is there. It returns the
    lines of its table.
    """
    target, host = network.target, network.keeper
    files = files or AgentFiles()
    order(target, "pki", "ca", "--subject", "CN=Guests", "--out", f"{folder}/guests").check()
    words = ("--ca", f"{folder}/guests", "--name", "target.example", "--out", str(folder))
    order(target, "pki", "issue", *words).check()
    for role, where in (("host", host), ("target", target)):
        agent(where, "init", f"{folder}/{role}.keys").check()
    write_host(folder, files)
    write_target(folder, back_end(), files)
    what = ("--network", files.private, "--options", "Native,AH,ESP,AH+ESP")
    agent(target, "member", "-c", f"{folder}/target.toml", "add", "alice@home", *what).check()
    issue(network, folder, keys, "--legacy" if files.is_legacy else "")


def issue(network: AgentNetwork, folder: Path, count: int, *options: str) -> None:
    """A sheet for the member, `sheet.txt`; one that was there is gone."""
    (folder / "sheet.txt").unlink(missing_ok=True)
    words = ["--user", "alice", "--count", str(count), "--out", f"{folder}/sheet.txt"]
    words += [option for option in options if option]
    agent(network.keeper, "issue", "-c", f"{folder}/host.toml", *words).check()


def gateway(host: Host, folder: Path) -> Daemon:
    """A gateway that has only what the agent adds."""
    file = folder / "gateway.toml"
    file.write_text(
        """[daemon]
include = "tunnels"

[connections.idle]
local = { certs = ["target.example.pem"], key = "target.example.key", id = "target.example" }
remote = { cacerts = ["guests/ca.pem"], id = "nobody.invalid" }

[connections.idle.children.none]
local_ts = ["127.0.0.1/32"]
"""
    )
    return Daemon(host, "gateway", file).wait_ready()
