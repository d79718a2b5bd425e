"""The presentation of a study: figures in one grammar (Vega-Lite) and one HTML page.

>>> import caravan.report
>>> caravan.report.write(outcome, "out")        # of caravan.study.run
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from caravan.report.page import write_report

if TYPE_CHECKING:
    from caravan.study.runner import Outcome

__all__ = ["write", "write_report"]


def write(outcome: Outcome, directory: str | Path) -> Path:
    """Write `report.html` and the figures of a run, and return the page's path."""
    return write_report(outcome.study, outcome.rows, outcome.provenance, Path(directory))
