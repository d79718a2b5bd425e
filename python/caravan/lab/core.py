"""The thin core around `caravan._lab`: names become texts, requests become answers.

Left out: formulas, which are the native core's, and threads (`caravan.lab.simulation`).
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from caravan import _lab

CATALOGUE = Path(__file__).resolve().parent.parent / "catalogue"
FOLDERS = {"device": "devices", "link": "links", "policy": "policies", "scenario": "scenarios"}
TEXT_BYTES_MAX = 1 << 20


class LabError(ValueError):
    """Says which file, line, key or option is wrong, and what would be right."""


class Stopped(Exception):
    """Ctrl-C: nothing of the answer is kept."""


@dataclass(frozen=True)
class Entry:
    """One text of the catalogue: `kind`, the `name` that scenarios use, its `file`."""

    kind: str
    name: str
    file: str
    text: str


@dataclass(frozen=True)
class Question:
    """A scenario, by path or name, after `edits` of the form `node.ms.mips=200`.

    `extra` are texts besides the catalogue's, such as a device named by its path.
    """

    scenario: str
    edits: tuple[str, ...] = ()
    extra: tuple[Entry, ...] = ()

    def request(self) -> dict[str, object]:
        """The request for the native core; it holds every text that it needs."""
        found = find("scenario", self.scenario)
        entries = [*catalogue(), *self.extra]
        return {
            "file": found.file,
            "text": found.text,
            "set": list(self.edits),
            "catalogue": [as_request(entry) for entry in entries],
        }


def as_request(entry: Entry) -> dict[str, str]:
    """An entry as the native core reads it."""
    return {"kind": entry.kind, "name": entry.name, "file": entry.file, "text": entry.text}


def version() -> str:
    """The version of the package and its native core."""
    return _lab.version()


@cache
def catalogue() -> tuple[Entry, ...]:
    """Every device, link and policy that the package carries."""
    kinds = ("device", "link", "policy")
    return tuple(
        _read(kind, path, path.stem)
        for kind in kinds
        for path in sorted((CATALOGUE / FOLDERS[kind]).glob("*.toml"))
    )


def names(kind: str) -> list[str]:
    """The names of one kind in the catalogue."""
    return sorted(path.stem for path in (CATALOGUE / FOLDERS[kind]).glob("*.toml"))


def find(kind: str, name: str) -> Entry:
    """The text that `name` means: a path, else a name of the catalogue."""
    path = Path(name)
    if path.is_file():
        return _read(kind, path, name)
    inside = CATALOGUE / FOLDERS[kind] / f"{_stem(kind, name)}.toml"
    if inside.is_file() and inside.parent == CATALOGUE / FOLDERS[kind]:
        return _read(kind, inside, inside.stem)
    near = nearest(_stem(kind, name), names(kind))
    raise LabError(f'there is no {kind} "{name}", neither as a file nor in the catalogue{near}')


def _stem(kind: str, name: str) -> str:
    return name.removeprefix(f"{FOLDERS[kind]}/").removesuffix(".toml")


def _read(kind: str, path: Path, name: str) -> Entry:
    file = str(path.relative_to(CATALOGUE)) if path.is_relative_to(CATALOGUE) else str(path)
    try:
        size = path.stat().st_size
        if size > TEXT_BYTES_MAX:
            raise LabError(f"{file}: {size} bytes, limit {TEXT_BYTES_MAX}: not a {kind}")
        return Entry(kind, name, file, path.read_text(encoding="utf-8"))
    except OSError as fault:
        raise LabError(f"{file}: {fault.strerror or fault}") from None
    except UnicodeDecodeError:
        raise LabError(f"{file}: not text in UTF-8") from None


def nearest(word: str, valid: Iterable[str]) -> str:
    """Half a sentence that names the valid word most like `word`; empty if there is none."""
    found = difflib.get_close_matches(word, list(valid), n=1, cutoff=0)
    return f', the nearest is "{found[0]}"' if found else ""


def ask(function: Callable[[str], str], request: Mapping[str, object]) -> Any:
    """One call of the native core; its refusals become ours."""
    try:
        return json.loads(function(json.dumps(request)))
    except ValueError as fault:
        raise LabError(str(fault)) from None


def finite(**numbers: float | None) -> None:
    """Refuse what is no number, such as nan, by the name of its option."""
    for name, number in numbers.items():
        if number is not None and not math.isfinite(number):
            raise LabError(f"{name.replace('_', '-')}: {number} is no number")


def positive(**numbers: float | None) -> None:
    """Refuse, besides that, zero and what lies below."""
    finite(**numbers)
    for name, number in numbers.items():
        if number is not None and number <= 0:
            raise LabError(f"{name.replace('_', '-')}: {number:g}, must be above 0")


def scenario(question: Question) -> dict[str, Any]:
    """`scenario`, checked and resolved, and its `hash`."""
    answer: dict[str, Any] = ask(_lab.scenario, question.request())
    return answer


def model(question: Question) -> dict[str, Any]:
    """What queueing theory says of the scenario's stations."""
    answer: dict[str, Any] = ask(_lab.model, question.request())
    return answer


def kernel(question: Question, capture: Path | None = None) -> dict[str, Any]:
    """The scenario with the real node on it: its levels `model` and `simulate`.

    Every packet of every link goes to `capture`, a pcapng, if one is named.
    """
    path = None if capture is None else str(capture)
    answer: dict[str, Any] = ask(lambda text: _lab.kernel(text, path), question.request())
    return answer


def price(
    device: str,
    suite: str,
    packet_bytes: float,
    *,
    mips: float | None = None,
    clock_mhz: float | None = None,
    decrypt: bool = False,
) -> dict[str, Any]:
    """What one packet of `packet_bytes` costs on a device; times in ms, sizes in bytes."""
    finite(bytes=packet_bytes, mips=mips, mhz=clock_mhz)
    entry = find("device", device)
    request = {
        "profile": device,
        "file": entry.file,
        "text": entry.text,
        "suite": suite,
        "bytes": packet_bytes,
        "mips": mips,
        "clock_mhz": clock_mhz,
        "direction": "open" if decrypt else "seal",
    }
    answer: dict[str, Any] = ask(_lab.price, request)
    return answer


def listing(kind: str, extra: Iterable[Entry] = ()) -> list[dict[str, Any]]:
    """Every `device`, `link` or `policy` of the catalogue, and of `extra`."""
    entries = [as_request(entry) for entry in (*catalogue(), *extra) if entry.kind == kind]
    answer: list[dict[str, Any]] = ask(_lab.listing, {"kind": kind, "catalogue": entries})
    return answer
