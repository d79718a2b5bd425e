"""The files that the lab reads: from the catalogue, beside a scenario or a study, or by path.

One reader for all of them: one way to find a name, one limit for a text, one error for a missing
file. Left out: the meaning of texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from caravan import recordings
from caravan.messages import Refused, nearest

CATALOGUE = Path(__file__).resolve().parent / "catalogue"
FOLDERS = {
    "device": "devices",
    "exchange": "exchanges",
    "link": "links",
    "policy": "policies",
    "scenario": "scenarios",
    "study": "studies",
    "trace": "traces",
}
"""Where the files of a kind are, in the catalogue and beside a study."""
STUDY_FILE = "study.toml"
"""A study is a folder with this file."""
TEXT_BYTES_MAX = 1 << 22
"""The native core's limit; larger files are not read."""


@dataclass(frozen=True)
class Entry:
    """One file: its `kind`, the `name` that scenarios use, its `file` for messages, its `text`.

    A trace has no `text` but a `digest`: it stays in its file and may have any length.
    """

    kind: str
    name: str
    file: str
    text: str
    digest: str = ""

    def request(self) -> dict[str, str]:
        """The entry in the native core's form."""
        text = {"kind": self.kind, "name": self.name, "file": self.file, "text": self.text}
        return {**text, "digest": self.digest} if self.digest else text


def within(kind: str, root: Path = CATALOGUE) -> Iterator[tuple[str, Path]]:
    """Name and path of each file of a kind, in the catalogue or in a folder with the same
    structure."""
    folder = root / FOLDERS[kind]
    if kind == "study":
        yield from ((path.parent.name, path) for path in sorted(folder.glob(f"*/{STUDY_FILE}")))
        return
    ending = "trace" if kind == "trace" else "toml"
    yield from ((path.stem, path) for path in sorted(folder.glob(f"*.{ending}")))


def names(kind: str) -> list[str]:
    """The names of a kind in the catalogue."""
    return sorted(name for name, _ in within(kind))


def of_studies(kind: str, name: str) -> list[Path]:
    """The files of a kind with this name that studies of the catalogue have for themselves."""
    pattern = f"{FOLDERS['study']}/*/{FOLDERS[kind]}/{name}.toml"
    return sorted(CATALOGUE.glob(pattern)) if re.fullmatch(r"[\w.+-]+", name) else []


def bare(kind: str, name: str) -> str:
    """A name without folder and ending of its kind, as in `links/lte.toml`."""
    return name.removeprefix(f"{FOLDERS[kind]}/").removesuffix(".toml")


def locate(kind: str, name: str) -> Path:
    """The file that `name` refers to: a path, otherwise a name of the catalogue."""
    check_named(f"the name of the {kind}", name, f"give a file, or one of {', '.join(names(kind))}")
    path = Path(name)
    if path.is_file():
        return path
    if kind == "study" and (path / STUDY_FILE).is_file():
        return path / STUDY_FILE
    found = dict(within(kind)).get(bare(kind, name))
    if found is not None:
        return found
    if kind != "study" and (ours := of_studies(kind, bare(kind, name))):
        if len(ours) > 1:
            places = ", ".join(shown(one) for one in ours)
            raise Refused(f"several studies have a {kind} '{name}': {places}: say which")
        return ours[0]
    if kind == "study" and path.is_dir():
        raise Refused(f"{name}: no {STUDY_FILE} in this folder")
    near = nearest(bare(kind, name), names(kind))
    where = "neither as a file nor in the catalogue"
    raise Refused(f"there is no {kind} '{name}', {where}; {near}")


def check_named(what: str, name: str, remedy: str) -> None:
    """Refuse a name that is empty, with a remedy, and one of a pipe or a device: a file is read
    several times, and a pipe can be read once."""
    if not name.strip():
        raise Refused(f"{what} is empty: {remedy}")
    path = Path(name)
    if path.exists() and not path.is_file() and not path.is_dir():
        raise Refused(f"{name}: not a plain file: save its text in a file, and name that")


def find(kind: str, name: str) -> Entry:
    """The content of the file that `name` refers to. A catalogue file has its catalogue name."""
    path = locate(kind, name)
    return read(kind, path, name if path == Path(name) else path.stem)


def read(kind: str, path: Path, name: str) -> Entry:
    """The file under a given name."""
    file = shown(path)
    try:
        if kind == "trace":
            return Entry(kind, name, str(path), "", recordings.digest(path))
        size = path.stat().st_size
        if size > TEXT_BYTES_MAX:
            raise Refused(f"{file}: {size} bytes, limit {TEXT_BYTES_MAX}: not a {kind}")
        return Entry(kind, name, file, path.read_text(encoding="utf-8"))
    except OSError as fault:
        raise Refused(f"{file}: {fault.strerror or fault}") from None
    except UnicodeDecodeError:
        raise Refused(f"{file}: not text in UTF-8") from None


def shown(path: Path) -> str:
    """A path for messages, relative to the catalogue if it is inside."""
    return str(path.relative_to(CATALOGUE)) if path.is_relative_to(CATALOGUE) else str(path)
