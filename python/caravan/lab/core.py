"""A thin layer around `caravan._lab`: turns names into texts, and requests into answers.

Left out: formulas, which are in the native core, and threads (`caravan.lab.simulation`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from caravan import _lab, files
from caravan.background import computed
from caravan.files import Entry
from caravan.lab.freshness import is_stale, remedy
from caravan.lab.policies import is_of_skip
from caravan.messages import Refused, Stopped

OPTIONS = {"bytes": "--bytes", "mips": "--mips", "clock": "--mhz"}
"""The options, by the native core's names of a price request."""

OTHER_CORE = "request"
"""The native core's code for a request of another version of the library."""


class LabError(Refused):
    """Says which file, line, key or option is wrong, and what would be right."""


@dataclass(frozen=True)
class Question:
    """A scenario, by path or name, after `edits` of the form `node.ms.mips=200`.

    `extra` are texts besides the catalogue's, such as a device named by its path.
    """

    scenario: str
    edits: tuple[str, ...] = ()
    extra: tuple[Entry, ...] = ()

    def request(self) -> dict[str, object]:
        """The request for the native core, with every text that it needs."""
        found = find("scenario", self.scenario)
        entries = [*catalogue(), *self.extra, *_named_files(found, self.edits)]
        return {
            "file": found.file,
            "text": found.text,
            "set": list(self.edits),
            "catalogue": [entry.request() for entry in entries],
        }


def request_with(entry: Entry, text: str) -> dict[str, object]:
    """The request for a scenario of this text that names `entry`, with what that names."""
    entries = [*catalogue(), entry, *_named_files(entry, ())]
    return {
        "file": entry.file,
        "text": text,
        "set": [],
        "catalogue": [one.request() for one in entries],
    }


ScenarioLike: TypeAlias = Question | Mapping[str, object] | _lab.Scenario
"""A question, its request, or a scenario that is open for several questions."""


NAMED_MAX, NAMED_TEXT_MAX = 200, 16_000_000
"""How many files a scenario and those that it names may name, and their characters in all."""


def version() -> str:
    """The version of the package and its native core."""
    return _lab.version()


@cache
def catalogue() -> tuple[Entry, ...]:
    """Every text of the package that a scenario may name."""
    kinds = ("device", "exchange", "link", "policy", "scenario")
    return tuple(_read(kind, path, name) for kind in kinds for name, path in files.within(kind))


def names(kind: str) -> list[str]:
    """The names of one kind in the catalogue."""
    return files.names(kind)


def find(kind: str, name: str) -> Entry:
    """The text that `name` refers to: a path, otherwise a name of the catalogue."""
    try:
        return files.find(kind, name)
    except Refused as fault:
        raise LabError.of(fault) from None


def beside(scenario: Entry, name: str) -> Path | None:
    """The file that a scenario refers to: relative to its own folder, else to the current one."""
    return _first(folder / name for folder in (_folder(scenario), Path()))


def _folder(entry: Entry) -> Path:
    """Where a file is."""
    return _path(entry).parent


def _path(entry: Entry) -> Path:
    """The file of an entry. That of the catalogue is shown without the catalogue's own folder."""
    path = Path(entry.file)
    return path if path.is_file() else files.CATALOGUE / path


def _first(paths: Iterable[Path]) -> Path | None:
    return next((path for path in paths if path.is_file()), None)


def _of_study(found: Entry, kind: str, name: str) -> Path | None:
    """A file with this name in the folder of its kind, beside that of the file that names it."""
    return _first([_folder(found).parent / files.FOLDERS[kind] / f"{name}.toml"])


def _of_folder(found: Entry, kind: str, name: str) -> Path | None:
    """A scenario with this name in the folder of the scenario that has it as its base. A file that
    has the name of its own base means another one."""
    path = _folder(found) / f"{name}.toml"
    is_other = kind == "scenario" and path.is_file() and path.resolve() != _path(found).resolve()
    return path if is_other else None


@cache
def _of_catalogue(kind: str, name: str) -> Path | None:
    """A file with this name that one study of the catalogue has, if the catalogue has none itself:
    as commands find it."""
    if name in files.names(kind) or not files.of_studies(kind, name):
        return None
    return files.locate(kind, name)


def _named_files(found: Entry, edits: Iterable[str]) -> list[Entry]:
    """The files that a scenario or its edits refer to, by path or by name in its study, and those
    that these name: the base of a scenario, the layers of a policy."""
    read: list[Entry] = []
    seen: set[Path] = set()
    waiting = [(found, tuple(edits))]
    while waiting:
        for entry, path in _named(*waiting.pop()):
            read.append(entry)
            if len(read) > NAMED_MAX or sum(len(one.text) for one in read) > NAMED_TEXT_MAX:
                what = f"names more than {NAMED_MAX} files, or longer ones than"
                raise LabError(f"{found.file}: {what} {NAMED_TEXT_MAX} characters in all")
            # Whatever its spelling, a file names the same files.
            if entry.kind in ("policy", "scenario") and path.resolve() not in seen:
                seen.add(path.resolve())
                waiting.append((entry, ()))
    return read


def _named(found: Entry, edits: Sequence[str]) -> Iterator[tuple[Entry, Path]]:
    """The files that a text and its edits name themselves."""
    try:
        named = json.loads(_lab.named(found.file, found.text, list(edits)))
    except _lab.Refusal:
        return  # Invalid texts have no names; the scenario reports its error.
    for kind, name in named:
        if not name or "\0" in name:
            continue
        path = (
            beside(found, name)
            or _of_study(found, kind, name)
            or _of_folder(found, kind, name)
            or _of_catalogue(kind, name)
        )
        if path is not None:
            yield _read(kind, path, name), path


def _read(kind: str, path: Path, name: str) -> Entry:
    try:
        return files.read(kind, path, name)
    except Refused as fault:
        raise LabError.of(fault) from None


def opened(source: ScenarioLike) -> _lab.Scenario:
    """The scenario of a question or a request, resolved once. One that is open already stays."""
    if isinstance(source, Question):
        source = source.request()
    if not isinstance(source, Mapping):
        return source
    try:
        return _lab.Scenario(json.dumps(source))
    except _lab.Refusal as fault:
        raise refused(fault) from None


def ask(call: Callable[[], str]) -> Any:
    """The answer of one call of the native core. Its refusals become ours."""
    try:
        return json.loads(call())
    except _lab.Refusal as fault:
        raise refused(fault) from None


def ask_slow(call: Callable[[], str]) -> Any:
    """`ask` for calls that may take minutes: Ctrl-C works at once, and nothing is kept."""
    try:
        ((_, answer),) = computed([call], 1)
    except KeyboardInterrupt:
        raise Stopped("stopped") from None
    except _lab.Refusal as fault:
        raise refused(fault) from None
    return json.loads(answer)


def refused(fault: _lab.Refusal) -> LabError:
    """A refusal of the native core; a malformed request is not the user's fault."""
    if fault.code == OTHER_CORE and is_stale():
        return LabError(remedy())
    return LabError.of(fault)


def finite(**numbers: float | None) -> None:
    """Refuse values such as nan, with the name of the option."""
    for name, number in numbers.items():
        if number is not None and not math.isfinite(number):
            raise LabError(f"--{name.replace('_', '-')}: {number} is not a finite number")


def positive(**numbers: float | None) -> None:
    """Also refuse zero and negative values."""
    finite(**numbers)
    for name, number in numbers.items():
        if number is not None and number <= 0:
            raise LabError(f"--{name.replace('_', '-')}: {number:g}, must be above 0")


def one_speed(mips: float | None, mhz: float | None) -> None:
    """Refuse two speeds at the same time."""
    if mips is not None and mhz is not None:
        raise LabError(
            "--mips, --mhz: a device counts either operations or cycles: give only one of them"
        )


def scenario(source: ScenarioLike, run: Mapping[str, object] | None = None) -> dict[str, Any]:
    """The checked and resolved `scenario`, and its `hash`.

    `run` is how long and how often it would be simulated: the answer says if that is `too_much`.
    """
    text = None if run is None else json.dumps(run)
    found = opened(source)
    answer: dict[str, Any] = ask(lambda: found.resolved(text))
    return answer


def model(source: ScenarioLike) -> dict[str, Any]:
    """Queueing theory's results for the scenario's queues."""
    answer: dict[str, Any] = ask(opened(source).model)
    return answer


def kernel(source: ScenarioLike, capture: Path | None = None) -> dict[str, Any]:
    """The scenario with the real node in it: its levels `model` and `simulate`, and the `resolved`
    scenario. A graph has no `model`.

    If `capture` is given, every packet of every link is written to it, as pcapng.
    """
    path = None if capture is None else str(capture)
    found = opened(source)
    try:
        answer: dict[str, Any] = ask_slow(lambda: found.kernel(path))
    except Stopped:
        if path is not None:
            Path(f"{path}.part").unlink(missing_ok=True)
        raise
    return answer


def departures(source: ScenarioLike) -> list[list[tuple[int, int]] | None]:
    """The datagrams of each flow as the event kernel sends them; None for TCP.

    Each is a pair: nanoseconds from the start of the flows, and bytes of the clear IP packet.
    """
    listed = ask(opened(source).departures)
    return [None if flow is None else [(at, size) for at, size in flow] for flow in listed]


def price(
    device: str,
    suite: str,
    packet_bytes: float,
    *,
    mips: float | None = None,
    clock_mhz: float | None = None,
    decrypt: bool = False,
) -> dict[str, Any]:
    """The cost of one packet of `packet_bytes` on a device; times in ms, sizes in bytes.

    `suite`: its words, the cipher of a wireless link (`ccmp-128`), the path of a policy file, or
    the name of a policy of SKIP.
    """
    finite(bytes=packet_bytes)
    positive(mips=mips, mhz=clock_mhz)
    one_speed(mips, clock_mhz)
    entry = find("device", device)
    request = {
        "file": entry.file,
        "text": entry.text,
        "suite": _protection(suite),
        "bytes": packet_bytes,
        "mips": mips,
        "clock_mhz": clock_mhz,
        "direction": "open" if decrypt else "seal",
    }
    try:
        answer: dict[str, Any] = ask(lambda: _lab.price(json.dumps(request)))
    except LabError as fault:
        if option := OPTIONS.get(fault.argument or ""):
            raise LabError(f"{option}: {fault.what}") from None
        raise
    return answer


def _protection(suite: str) -> str | dict[str, str]:
    """A suite in the native core's form: its words, otherwise the policy in its file."""
    is_path = "/" in suite or suite.endswith(".toml")
    if is_path and not Path(suite).exists():
        raise LabError(f"--suite: {suite}: no such file")
    is_named = any(entry.name == suite and is_of_skip(entry) for entry in catalogue())
    if not is_path and not Path(suite).is_file() and not is_named:
        return suite
    entry = find("policy", suite)
    return {"file": entry.file, "text": entry.text}


def listing(kind: str, extra: Iterable[Entry] = ()) -> list[dict[str, Any]]:
    """Every `device`, `link` or `policy` of the catalogue, and of `extra`."""
    entries = [entry.request() for entry in (*catalogue(), *extra) if entry.kind == kind]
    answer: list[dict[str, Any]] = ask(
        lambda: _lab.listing(json.dumps({"kind": kind, "catalogue": entries}))
    )
    return answer
