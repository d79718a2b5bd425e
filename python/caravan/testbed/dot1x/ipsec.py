"""The IPsec tunnels of single nodes: from the home address to the gateway of the home subnet.

IKEv1 in main mode with 3DES, and ESP with 3DES in tunnel mode, as FreeS/WAN had it: insecure, with
`legacy = true`. Inside are the node's home address and the networks of both subnets. The node keeps
its home address, so a tunnel stands while the node moves: its packets are in those of Mobile IP.

A gateway that is no router gets nothing for a node unless its neighbours know: while a node has a
tunnel, hosts of its subnet have the gateway's Ethernet address for it. A node runs two processes,
because the datagrams of one take the host's own routes, past its own tunnels and those of Mobile
IP; each has a mark, a routing table and a TUN device of its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from caravan.testbed.caravan import HANDSHAKE_EVENT, Daemon, order, toml, write_credentials
from caravan.testbed.connection import Connection, PublicKey, SharedKey
from caravan.testbed.dot1x.subnets import Node, Subnet
from caravan.testbed.errors import NamespaceError
from caravan.testbed.host import Host
from caravan.testbed.process import Completed

NETWORKS = "10.18.0.0/16"
"""Of both subnets."""
NODE_KEY = SharedKey("a key of a gateway and its nodes, long enough to be none of a dictionary")
GROUPS = ("modp1024", "modp1536")
"""Those of FreeS/WAN."""
PROPOSALS = tuple(f"3des-{hash_name}-{group}" for hash_name in ("sha1", "md5") for group in GROUPS)
"""What a gateway takes in both phases: a child has perfect forward secrecy, which FreeS/WAN had by
default."""
MARK, TABLE, TUN = 0x00CA_7A4B, 222, "ipsec0"
"""Of the process with the tunnel, beside those of the process of Mobile IP."""
MOBILE_MARK = 0x00CA_7A4A
PRIORITY = 220
"""Of rules between those that a mobile node has for its foreign agent and those for the rest."""
CHILD_UP = "child established"
UP_EVENT = "up: ipsec"


@dataclass(frozen=True)
class Ipsec:
    """A tunnel: the proposal of IKE, the suite of ESP, and whether both ends prove by RSA
    signatures who they are, or by a pre-shared key."""

    proposal: str
    suite: str
    is_signed: bool


@dataclass(frozen=True)
class Ends:
    """The certificates of gateways, by the number of their subnet, and of nodes, by role."""

    gateways: Mapping[int, PublicKey]
    nodes: Mapping[str, PublicKey]


def gateway_file(host: Host, subnet: Subnet, nodes: Sequence[Node], ends: Ends) -> Path:
    """Write the configuration of a subnet's gateway for its nodes."""
    tables: dict[str, dict[str, Any]] = {}
    for node in nodes:
        for is_signed in (False, True):
            name = f"{node.role}-{'rsa' if is_signed else 'psk'}"
            tables[f"connections.{name}"] = _phase_1(PROPOSALS) | {
                "local_addrs": [subnet.gateway],
                # Nodes without a tunnel, of other policies, are reached in clear.
                "on_failure": "pass",
                "local": _own(is_signed, host.role),
                "remote": _peer(is_signed, node.role),
            }
            tables[f"connections.{name}.children.net"] = {
                "local_ts": [NETWORKS],
                "remote_ts": [f"{node.address}/32"],
                "esp_proposals": list(PROPOSALS),
            }
    return _write(host, tables, ends.gateways[subnet.number])


def node_file(host: Host, node: Node, own: Ipsec, ends: Ends) -> Path:
    """Write a node's configuration."""
    tables: dict[str, dict[str, Any]] = {
        "daemon": {"tun": TUN, "fwmark": MARK, "table": TABLE, "user": "root"},
        "connections.ipsec": _phase_1((own.proposal,))
        | {
            "local_addrs": [node.address],
            "remote_addrs": [node.home.gateway],
            "local": _own(own.is_signed, node.role),
            "remote": _peer(own.is_signed, f"gw{node.home.number}"),
        },
        "connections.ipsec.children.net": {
            "local_ts": [f"{node.address}/32"],
            "remote_ts": [NETWORKS],
            "esp_proposals": [own.suite],
        },
    }
    return _write(host, tables, ends.nodes[node.role])


class NodeTunnel(Daemon):
    """The process of a node's tunnel, up when it is made."""

    def __init__(self, host: Host, file: Path) -> None:
        super().__init__(host, "up", file, instance="ipsec")
        self.wait_for_event(UP_EVENT)

    def stop(self) -> Completed:
        """End the tunnel, and let the node's packets pass without it."""
        order(self.host, "down", "ipsec", instance="ipsec")
        return super().stop()

    def exchange(self) -> tuple[float, float]:
        """When the first message of IKE went, and from when on packets may pass: seconds since the
        epoch."""
        began = ended = None
        for moment, fields in self.events():
            message = fields.get("message")
            if message == HANDSHAKE_EVENT and began is None:
                began = moment
            elif message == CHILD_UP and ended is None:
                ended = moment
        if began is None or ended is None:
            raise NamespaceError(f"{self.host.role}: the log tells of no tunnel")
        return began, ended


@contextlib.contextmanager
def led(host: Host, home: str, gateway: Host, neighbours: Sequence[Host]) -> Iterator[None]:
    """Lead a node's packets into its tunnel: its own, and those for it by way of the gateway."""
    rules = (
        f"fwmark {MOBILE_MARK:#x} lookup main",
        f"not fwmark {MARK:#x} lookup {TABLE}",
    )
    with contextlib.ExitStack() as undo:
        _rules(host, "add", rules)
        undo.callback(_rules, host, "del", rules)
        hardware_address = gateway.hardware_address("lan0")
        for neighbour in neighbours:
            neighbour.add_neighbour("lan0", home, hardware_address)
            undo.callback(neighbour.remove_neighbour, "lan0", home)
        yield


def _rules(host: Host, change: str, rules: Sequence[str]) -> None:
    path = host.logs / f"rules-{change}"
    path.write_text("".join(f"rule {change} pref {PRIORITY} {rule}\n" for rule in rules))
    host.run(["ip", "-batch", str(path)])


def _phase_1(proposals: Sequence[str]) -> dict[str, Any]:
    return {
        "version": 1,
        "aggressive": False,
        "legacy": True,
        # ESP as IP protocol 50: there is no NAT.
        "encap": False,
        "proposals": list(proposals),
    }


def _own(is_signed: bool, role: str) -> dict[str, Any]:
    if is_signed:
        return {"auth": "pubkey", "certs": ["own.pem"], "key": "own.key"}
    return {"auth": "psk", "id": f"{role}.example", "secret": NODE_KEY.secret}


def _peer(is_signed: bool, role: str) -> dict[str, Any]:
    if is_signed:
        return {"auth": "pubkey", "cacerts": ["ca.pem"], "id": f"CN={role}.example"}
    return {"auth": "psk", "id": f"{role}.example", "secret": NODE_KEY.secret}


def _write(host: Host, tables: dict[str, dict[str, Any]], own: PublicKey) -> Path:
    folder = host.logs / "ipsec"
    folder.mkdir(exist_ok=True)
    write_credentials(folder, Connection(own))
    path = folder / "caravan.toml"
    path.touch(0o600)
    path.write_text(toml(tables))
    return path
