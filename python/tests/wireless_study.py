"""The study of paper P in a folder, and the requests of its cells."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from study_by_hand import written

from caravan.files import CATALOGUE
from caravan.study import load, wireless
from caravan.study.parsed import Run, Study
from caravan.study.resolve import Files

FOLDER = CATALOGUE / "studies/wireless-policies"
RUN = Run(0.2, 0.0, 1)


def copied(folder: Path, text: str) -> Study:
    """The study of a text beside the policies and scenarios of paper P."""
    for name in ("links", "policies", "scenarios"):
        shutil.copytree(FOLDER / name, folder / name, dirs_exist_ok=True)
    return written(folder, text)


def cell(
    folder: Path = FOLDER, policy: str = "pn-3", link: str | None = "wifi-11b", **changed: object
) -> tuple[dict[str, Any], list[dict[str, Any]], str]:
    """Request, runs and hash of a cell of the study in a folder."""
    settings = {"scenario": "m8", **changed}
    files = Files.of(load(str(folder)))
    text = None if link is None else files.text("link", link)
    own = wireless.request(settings, policy, text, RUN)  # type: ignore[arg-type]
    return wireless.resolved(own, files.scenario(own["scenario"]), files.entries())


def request(folder: Path = FOLDER, **changed: Any) -> dict[str, Any]:
    """The request of a cell of the study in a folder."""
    return cell(folder, **changed)[0]
