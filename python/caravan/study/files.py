"""Where studies are found: a path, or a name of the catalogue that the package carries."""

from __future__ import annotations

from pathlib import Path

from caravan.study.parse import parse
from caravan.study.plan import Study
from caravan.study.text import StudyError, nearest

CATALOGUE = Path(__file__).resolve().parent.parent / "catalogue"
STUDY_FILE = "study.toml"
STUDY_BYTES_MAX = 4_000_000


def load(name: str) -> Study:
    """The study at the path `name` (a file, or a folder with `study.toml`), or of that name."""
    path = locate(name)
    try:
        size = path.stat().st_size
        if size > STUDY_BYTES_MAX:
            raise StudyError(f"{path}: {size} bytes, limit {STUDY_BYTES_MAX}: not a study")
        text = path.read_text(encoding="utf-8")
    except OSError as fault:
        raise StudyError(f"{path}: {fault.strerror or fault}") from None
    except UnicodeDecodeError:
        raise StudyError(f"{path}: not text in UTF-8") from None
    return parse(str(path), text)


def locate(name: str) -> Path:
    """The study file that `name` means."""
    path = Path(name)
    if path.is_dir() and (path / STUDY_FILE).exists():
        return path / STUDY_FILE
    if path.is_file():
        return path
    inside = CATALOGUE / "studies" / name.removeprefix("studies/") / STUDY_FILE
    if inside.is_file():
        return inside
    if path.is_dir():
        raise StudyError(f"{name}: no {STUDY_FILE} in this folder")
    raise StudyError(f'no study "{name}", {nearest(name, names())}')


def names() -> list[str]:
    """The studies of the catalogue."""
    return sorted(path.parent.name for path in CATALOGUE.glob(f"studies/*/{STUDY_FILE}"))
