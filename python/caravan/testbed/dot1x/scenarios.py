"""The scenarios of paper P as their files say them: who talks with whom, and where the node is.

The native core has resolved a scenario, bases and edits included. Whatever it says of the network
is compared with the network here (`subnets`): a difference is refused with its file and key, so
that all levels have one network. Beside the graph are the gateways of the nodes' own tunnels, which
are the routers there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from ipaddress import ip_address, ip_network
from typing import Any

from caravan import _lab
from caravan.document import Step
from caravan.files import CATALOGUE, read, within
from caravan.messages import Refused
from caravan.testbed.dot1x.policies import of_study
from caravan.testbed.dot1x.subnets import (
    FIRST,
    MN1,
    NODES,
    ROUTERS_SUITE,
    SUBNETS,
    Scenario,
    Subnet,
)
from caravan.testbed.dot1x.written import Written, with_bases

FLOW = "data"
ROLES = {
    "ap": "access-point",
    "r": "router",
    "ha": "home-agent",
    "fa": "foreign-agent",
    "cn": "server",
}
"""Of the nodes of a subnet, in the words of a scenario."""
WIRE_BPS_MIN, WIRE_NS_MAX = 100_000_000, 1_000_000
"""The least and the most of a wire: those of the testbed are as fast as the machine."""
MOBILE = {"encapsulation": "ip-in-ip", "is_reverse": True, "lifetime_s": 1800, "udp": "never"}
"""How a mobile node is registered here."""


@dataclass(frozen=True)
class _Graph:
    """A resolved scenario, with the texts that say it, its own one first."""

    scenario: Mapping[str, Any]
    graph: Mapping[str, Any]
    texts: Sequence[Written]

    def fault(self, steps: Sequence[Step], what: str) -> Refused:
        """A refusal in the text that says this value, or as much of its path as any text."""
        for count in range(len(steps), 0, -1):
            for text in self.texts:
                if text.path(steps[:count]) is not None:
                    return text.fault(steps, what)
        return self.texts[0].fault(steps, what)

    def differs(self, steps: Sequence[Step], here: object, there: object) -> Refused:
        """A refusal of another value than the testbed has."""
        return self.fault(steps, f"the testbed has {_said(here)}, found {_said(there)}")

    @property
    def names(self) -> list[str]:
        """Of the nodes, in their order."""
        return [node["name"] for node in self.scenario["nodes"]]

    def links(self) -> dict[str, list[str]]:
        """The nodes at each link, the far one last."""
        return {
            link["name"]: [self.names[node] for node in (*link["near"], link["far"])]
            for link in self.scenario["links"]
        }


def scenario(
    run: Mapping[str, Any], resolved: Mapping[str, Any], *, has_air: bool = True
) -> Scenario:
    """The scenario of a request to the native core and of its answer; `Refused` names file and key
    of what is different here. Without `has_air` the airs are no limit."""
    texts = list(with_bases(run, run["catalogue"]))
    graph = _Graph(resolved["scenario"], resolved["graph"], texts)
    _check_nodes(graph)
    at = _check_links(graph)
    _check_kinds(graph, has_air=has_air)
    _check_layers(graph)
    for step in graph.scenario["moves"]:
        raise graph.fault(("move",), f"the testbed moves no node in a flow, found {step}")
    flows = graph.scenario["flows"]
    if [one["name"] for one in flows] != [FLOW]:
        raise graph.fault(("flow",), f'the testbed has one flow, and its name is "{FLOW}"')
    sender, receiver = (graph.names[flows[0][end]] for end in ("from", "to"))
    if flows[0]["direction"] != "up" or sender != MN1.role:
        raise graph.differs(("flow", FLOW, "from"), MN1.role, sender)
    reachable = {node.role: node.address for node in NODES if node != MN1}
    reachable |= {"ha1": FIRST.home_agent, "cn1": FIRST.correspondent}
    if receiver not in reachable:
        raise graph.differs(("flow", FLOW, "to"), ", ".join(reachable), receiver)
    name = graph.scenario["name"]
    return Scenario(name, MN1, at, receiver, reachable[receiver])


def is_away(resolved: Mapping[str, Any], node: int) -> bool:
    """Whether a node of a resolved scenario begins at another link than its home."""
    own = resolved["scenario"]["nodes"][node].get("address")
    links = (link for link in resolved["scenario"]["links"] if node in link["near"])
    network = next((link["network"] for link in links), None)
    return own is not None and network is not None and ip_address(own) not in ip_network(network)


def _check_nodes(graph: _Graph) -> None:
    """The same nodes with the same addresses."""
    wanted = {node.role: ("station", {node.address}) for node in NODES}
    for subnet in SUBNETS:
        number = subnet.number
        addresses = {
            f"ap{number}": {subnet.access_point},
            f"r{number}": {subnet.router, subnet.outer},
        }
        addresses |= {role: {address} for role, address in subnet.hosts.items()}
        del addresses[f"gw{number}"]
        wanted |= {name: (ROLES[name[:-1]], own) for name, own in addresses.items()}
    for name in graph.names:
        if name not in wanted:
            raise graph.fault(("node", name), "the testbed has no such node")
    for index, node in enumerate(graph.scenario["nodes"]):
        name = node["name"]
        role, addresses_here = wanted.pop(name)
        if node["role"] != role:
            raise graph.differs(("node", name, "role"), role, node["role"])
        ports = (port for port in graph.graph["ports"] if port["node"] == index)
        there = {port["address"] for port in ports}
        if role == "station":
            there = {node.get("address")}
        if there != addresses_here:
            raise graph.differs(("node", name, "address"), addresses_here, there)
        if node["computer"] is not None:
            raise graph.fault(("node", name, "device"), "all nodes of the testbed are this machine")
        if role == "access-point" and node["radius"] != f"r{name[-1]}":
            raise graph.differs(("node", name, "radius"), f"r{name[-1]}", node["radius"])
    for name in wanted:
        raise graph.fault(("node",), f"the testbed has {name} too")


def _check_links(graph: _Graph) -> Subnet:
    """The same links; where the mobile node is."""
    found = graph.links()
    places = [one for one in SUBNETS if MN1.role in found.get(f"air{one.number}", ())]
    at = places[0] if places else FIRST
    wanted: dict[str, tuple[set[str], str, str]] = {"wan": ({"r2"}, "r1", "192.0.2.0/24")}
    for subnet in SUBNETS:
        number = subnet.number
        own = {node.role for node in NODES if (at if node == MN1 else node.home) == subnet}
        hosts = {role for role in subnet.hosts if role != f"gw{number}"}
        point = f"ap{number}"
        wanted[f"air{number}"] = (own, point, subnet.network)
        wanted[f"lan{number}"] = ({point, *hosts}, f"r{number}", subnet.network)
    for name, (near, far, network) in wanted.items():
        if name not in found:
            raise graph.fault(("link",), f"the testbed has {name} too")
        *there, head = found.pop(name)
        if set(there) != near:
            raise graph.differs(("link", name, "from"), near, set(there))
        if head != far:
            raise graph.differs(("link", name, "to"), far, head)
        (link,) = (one for one in graph.scenario["links"] if one["name"] == name)
        if link["network"] not in (None, network):
            raise graph.differs(("link", name, "network"), network, link["network"])
    for name in found:
        raise graph.fault(("link", name), "the testbed has no such link")
    return at


def _check_kinds(graph: _Graph, *, has_air: bool) -> None:
    """Airs are alike, and wires take no time worth mentioning, at all levels."""
    airs = [one for one in graph.graph["links"] if one["name"].startswith("air")]
    own = ("name", "near", "far")
    for key in airs[0].keys() | airs[1].keys() if has_air else ():
        if key not in own and airs[0].get(key) != airs[1].get(key):
            at = ("link", "air2", key.partition("_")[0])
            raise graph.fault(at, "both airs of the testbed are alike")
    for link in graph.graph["links"]:
        if link in airs and has_air:
            continue
        keys = {key: bool(link[key]) for key in ("loss", "reorder", "trace")}
        keys["rate"] = min(link["rate"].values()) < WIRE_BPS_MIN
        keys["delay"] = link["delay_ns"] > WIRE_NS_MAX
        for key in (key for key, is_wrong in keys.items() if is_wrong):
            what = "wires of the testbed carry 100 Mbit/s and more within 1 ms, and lose nothing"
            raise graph.fault(("link", link["name"], key), what)


def _check_layers(graph: _Graph) -> None:
    """The same tunnel between the routers, and the same Mobile IP; the rest is the policy's."""
    for text in graph.texts:
        kinds = [one.get("kind") for one in text.values.get("layer", [])]
        for index, kind in enumerate(kinds):
            if kind not in ("ipsec", "mobile-ip") or kind in kinds[:index]:
                what = "the testbed takes layers of nodes from a policy, not from the scenario"
                raise text.fault(("layer", index), what)
    own = [one for one in graph.graph["setup"]["tunnels"] if graph.names[one["from"]] == "r2"]
    if len(own) != 1:
        raise graph.fault(("layer",), "the testbed has one tunnel between the routers, of r2 to r1")
    told = own[0]["protection"]
    exchange = {"exchange": "ikev1-main", "proposal": ROUTERS_SUITE, "proof": "psk"}
    here = {"suite": ROUTERS_SUITE, "mode": "tunnel", "udp": True, "outer": 4, "keys": exchange}
    for key, value in here.items():
        if told[key] != value:
            what = (
                f"{told['name']}: {key}: the testbed has {_said(value)}, found {_said(told[key])}"
            )
            raise graph.fault(("layer", _index(graph, "ipsec"), "policy"), what)
    mobile = [
        {**one, "station": graph.names[one["station"]], "agent": graph.names[one["agent"]]}
        for one in graph.scenario["mobile"]
    ]
    wanted = [{**MOBILE, "station": MN1.role, "agent": "ha1"}]
    if mobile != wanted:
        raise graph.differs(("layer", _index(graph, "mobile-ip")), wanted, mobile)


def _index(graph: _Graph, kind: str) -> int:
    """Which layer is of a kind, in the text that has layers."""
    for text in graph.texts:
        layers = text.values.get("layer", [])
        found = [index for index, one in enumerate(layers) if one.get("kind") == kind]
        if found:
            return found[0]
    return 0


def _said(value: object) -> str:
    if isinstance(value, set):
        return " and ".join(sorted(map(str, value))) or "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_said(one)}" for key, one in value.items())
    if isinstance(value, list):
        return "; ".join(map(_said, value)) or "none"
    return str(value)


@cache
def of_the_study() -> tuple[Scenario, ...]:
    """Those of the catalogue's study, with its policy `pn-1`."""
    return tuple(_of_the_study())


def _of_the_study() -> Iterator[Scenario]:
    texts = of_study("scenario")
    catalogue = [*texts.values(), *of_study("policy").values(), *of_study("link").values()]
    for kind in ("link", "policy", "exchange"):
        catalogue += [read(kind, path, name).request() for name, path in within(kind, CATALOGUE)]
    for text in texts.values():
        run = {"file": text["file"], "text": text["text"], "set": [], "catalogue": catalogue}
        resolved = json.loads(_lab.Scenario(json.dumps(run)).resolved())
        yield scenario(run, resolved)
