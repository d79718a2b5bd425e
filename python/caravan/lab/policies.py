"""Which policy protects what in a graph: each tunnel has its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

UNPROTECTED = "none"
"""The policy of a client without a tunnel."""


@dataclass(frozen=True)
class Policies:
    """Names of policies, by the name of a flow and by that of a client."""

    of_flows: Mapping[str, str]
    of_clients: Mapping[str, str]

    @classmethod
    def of(cls, resolved: Mapping[str, Any]) -> Self:
        """The policies of a graph that the native core has resolved."""
        graph, scenario = resolved["graph"], resolved["scenario"]
        names = {tunnel["from"]: tunnel["policy"] for tunnel in graph["tunnels"]}
        flows = zip(scenario["flows"], graph["setup"]["flows"], strict=True)
        return cls(
            {flow["name"]: names.get(aim["station"], UNPROTECTED) for flow, aim in flows},
            {scenario["nodes"][node]["name"]: name for node, name in names.items()},
        )

    @property
    def names(self) -> tuple[str, ...]:
        """All of them, in the order of the flows."""
        return tuple(dict.fromkeys([*self.of_flows.values(), *self.of_clients.values()]))
