"""The kind of a name: device, link, policy, scenario or study; and a study in JSON."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from caravan.files import FOLDERS, STUDY_FILE, bare, check_named, names, of_studies
from caravan.lab import core
from caravan.lab.core import LabError
from caravan.messages import nearest
from caravan.study.parsed import Study

KINDS = ("device", "link", "policy", "scenario", "study")
MARKS = (
    ("study", r"\[\[\s*sweep\s*\]\]"),
    ("scenario", r"\[\[\s*node\s*\]\]|base\s*="),
    ("link", r"rate\s*="),
    ("policy", r"suite\s*=|\[\s*skip\s*\]|\[\[\s*layer\s*\]\]|layer\s*="),
)
"""How a line begins that each file of a kind has and no file of the kinds below it. A device has
none of them."""


def kind_of(name: str, say: Callable[[str], None]) -> str:
    """The kind of a name in the catalogue, or of a file by its content.

    If several kinds have the name, the first one counts; `say` reports the others.
    """
    check_named("NAME: it", name, "caravan-lab show alone lists all names")
    path = Path(name)
    if path.is_file():
        text = core.find("scenario", name).text
        return next(
            (kind for kind, mark in MARKS if re.search(rf"^\s*{mark}", text, re.M)), "device"
        )
    if (path / STUDY_FILE).is_file():
        return "study"
    found = []
    for kind in KINDS:
        stem = bare(kind, name)
        if stem in names(kind) and (stem == name or name.startswith(FOLDERS[kind])):
            found.append(kind)
    for other in found[1:]:
        say(f"'{name}' is also a {other}: caravan-lab show {FOLDERS[other]}/{name}")
    if found:
        return found[0]
    for kind in KINDS[:-1]:
        if of_studies(kind, bare(kind, name)):
            return kind
    every = dict.fromkeys(one for kind in KINDS for one in names(kind))
    raise LabError(
        f"there is no device, link, policy, scenario or study '{name}', neither as a file nor in "
        f"the catalogue; {nearest(name, every)}"
    )


def every_name() -> dict[str, list[str]]:
    """What the catalogue has of each kind, by the kind's folder."""
    return {FOLDERS[kind]: names(kind) for kind in KINDS}


def outline(study: Study) -> dict[str, Any]:
    """What a study computes and compares, as JSON."""
    sweeps = [
        {
            "name": sweep.name,
            "title": sweep.title,
            "measure": sweep.measure,
            "levels": list(sweep.levels),
            "of": sweep.scenario or sweep.profile,
            "grid": {axis: list(values) for axis, values in sweep.grid.items()},
            "readings": [reading.name for reading in sweep.readings],
        }
        for sweep in study.sweeps
    ]
    return {
        "name": study.name,
        "title": study.title,
        "file": study.file,
        "publication": study.publication,
        "seed": study.seed,
        "sweeps": sweeps,
        "printed_values": len(study.all_published()),
        "claims": [claim.says for claim in study.claims],
        "figures": [figure.title for figure in study.figures],
    }
