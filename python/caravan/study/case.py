"""The cases of paper M, measured in namespaces: the request of a cell, and its metrics.

Left out: how a case is measured, which is in `caravan.threeways.cases`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from caravan.messages import unknown
from caravan.study.text import StudyError, Value


def request(
    settings: Mapping[str, Value], policy: Mapping[str, str] | None, file_bytes: Value | None
) -> dict[str, Any]:
    """A cell's request; an error names the key of the sweep that is to blame."""
    from caravan.testbed.cases import BEHIND, CASES, SUBNET  # noqa: PLC0415
    from caravan.threeways.cases import ETHERNET, RATES, RUNS  # noqa: PLC0415

    if "case" not in settings:
        raise StudyError.edit("case", f"say which one: {', '.join(CASES)}")
    case, rate = str(settings["case"]), str(settings.get("rate", ETHERNET))
    for key, value, valid in (("case", case, CASES), ("rate", rate, RATES)):
        if value not in valid:
            raise StudyError.edit(key, unknown(key, value, valid))
    runs, writes = _count(settings, "runs", RUNS[1]), _count(settings, "writes", 2000)
    if runs not in RUNS:
        raise StudyError.edit("runs", f"must be one of {RUNS}, found {runs}")
    if (policy is not None) != (case in (BEHIND, SUBNET)):
        what = f"a policy of SKIP belongs to {BEHIND} and {SUBNET}, and to no other case"
        raise StudyError.edit("policy", what)
    return {
        "case": case,
        "rate": rate,
        "runs": runs,
        "writes": writes,
        "policy": policy,
        "file_bytes": None if file_bytes is None else int(file_bytes),
    }


def _count(settings: Mapping[str, Value], key: str, usual: int) -> int:
    value = settings.get(key, usual)
    if not isinstance(value, int | float) or value != int(value) or not 1 <= value <= 1_000_000:
        raise StudyError.edit(key, f"must be a number from 1 to 1,000,000, found {value!r}")
    return int(value)


def measured(request: Mapping[str, Any]) -> bytes:
    """The result of a cell; the process must have entered a private namespace."""
    from caravan.testbed import NamespaceError  # noqa: PLC0415
    from caravan.testbed.folders import temporary_folder  # noqa: PLC0415
    from caravan.threeways.cases import Setting, measure  # noqa: PLC0415

    try:
        with temporary_folder("caravan-case-") as output:
            return json.dumps(measure(Setting.of(request), output)).encode()
    except (NamespaceError, OSError, ValueError) as fault:
        raise StudyError(f"--level testbed: {fault}") from None
