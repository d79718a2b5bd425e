"""The policy of each tunnel of a graph, and the policies that are of SKIP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

from caravan.document import plain
from caravan.files import Entry

UNPROTECTED = "none"
"""The policy of a client without a tunnel."""


@cache
def is_of_skip(entry: Entry) -> bool:
    """Whether a text is a policy of SKIP, which has no suite and is known by its name alone."""
    return entry.kind == "policy" and "skip" in plain(entry.file, entry.text)


@dataclass(frozen=True)
class Policies:
    """Names of policies, by the name of a flow and by that of a client."""

    of_flows: Mapping[str, str]
    of_clients: Mapping[str, str]

    @classmethod
    def of(cls, resolved: Mapping[str, Any]) -> Self:
        """The policies of a graph that the native core has resolved."""
        graph, scenario = resolved["graph"], resolved["scenario"]
        names = {layer["station"]: layer["policy"] for layer in scenario.get("skip", ())}
        names |= {tunnel["from"]: tunnel["policy"] for tunnel in graph["tunnels"]}
        flows = zip(scenario["flows"], graph["setup"]["flows"], strict=True)
        if scenario.get("others", scenario["policy"]) != scenario["policy"]:
            # A policy of layers is that of the whole scenario, whatever protects each tunnel.
            whole = scenario["policy"]
            clients = (scenario["nodes"][node]["name"] for node in names)
            return cls({flow["name"]: whole for flow, _ in flows}, dict.fromkeys(clients, whole))
        return cls(
            {flow["name"]: names.get(aim["station"], UNPROTECTED) for flow, aim in flows},
            {scenario["nodes"][node]["name"]: name for node, name in names.items()},
        )

    @property
    def names(self) -> tuple[str, ...]:
        """All of them, in the order of the flows."""
        return tuple(dict.fromkeys([*self.of_flows.values(), *self.of_clients.values()]))
