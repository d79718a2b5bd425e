"""Studies: a scenario, a grid, what was published, and figures, run by one call.

    >>> import caravan.study
    >>> rows = caravan.study.run("umts", quick=True).rows      # a pandas DataFrame
    >>> caravan.study.compare("out-a", "out-b").differing

`docs/lab-study-files.md` describes the files, `docs/lab-results.md` the columns.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from caravan.study.files import load, names
from caravan.study.parsed import Study
from caravan.study.text import StudyError

if TYPE_CHECKING:
    from caravan.study.comparison import Comparison, compare
    from caravan.study.runner import Choice, Outcome

__all__ = ["Choice", "Comparison", "Outcome", "Study", "StudyError", "compare", "load", "names"]


def __getattr__(name: str) -> Any:
    """Import the parts that need pandas at their first use."""
    if name in ("Choice", "Outcome"):
        from caravan.study import runner  # noqa: PLC0415

        return getattr(runner, name)
    if name in ("Comparison", "compare"):
        from caravan.study import comparison  # noqa: PLC0415

        return getattr(comparison, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def run(
    study: str | Path | Study,
    *,
    level: str | tuple[str, ...] = (),
    quick: bool = False,
    seed: int | None = None,
    jobs: int | None = None,
    cluster: str | None = None,
    directory: str | Path | None = None,
) -> Outcome:
    """Run a study, given by name, path or value, and return its rows as a DataFrame.

    Results are written to `directory`, and another run resumes from there; without it they are only
    kept in memory. `level`: model, simulate, testbed, or several; all except testbed if absent.
    """
    from rich.console import Console  # noqa: PLC0415

    from caravan.study.runner import Choice  # noqa: PLC0415
    from caravan.study.runner import run as run_study  # noqa: PLC0415

    levels = (level,) if isinstance(level, str) else tuple(level)
    choice = Choice(levels, quick, seed, jobs, cluster)
    loaded = study if isinstance(study, Study) else load(str(study))
    console = Console(stderr=True)
    if directory is not None:
        return run_study(loaded, choice, Path(directory), console)
    with tempfile.TemporaryDirectory(prefix="caravan-study-") as scratch:
        return run_study(loaded, choice, Path(scratch), console)
