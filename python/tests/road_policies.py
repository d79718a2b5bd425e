"""The scenario `road` under policies that tests have written themselves."""

from __future__ import annotations

from caravan.lab.core import Question
from caravan.threeways.bed import Setting

TOLERANCE = 0.15
"""How far a time or a rate of the testbed may be from the simulated one."""


def own_policy(name: str, text: str) -> Setting:
    """The scenario `road` under a policy that comes with the request, as from a study's folder."""
    request = Question("road", (f"policy={name}", "traffic.bytes=100 KB")).request()
    catalogue = request["catalogue"]
    assert isinstance(catalogue, list)
    own = {"kind": "policy", "name": name, "file": "policies/own.toml", "text": text}
    others = [one for one in catalogue if (one["kind"], one["name"]) != ("policy", name)]
    return Setting.of({**request, "catalogue": [*others, own]})
