"""Modules of the Python code do not import each other in a circle."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import caravan

ROOT = Path(next(iter(caravan.__path__))).parent


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = imports(ROOT, "caravan")
    # at the top, inside a function, and the package of a module
    assert "caravan.study.parsed" in graph["caravan.study.compute"]
    assert "caravan.study.comparison" in graph["caravan.study.commands"]
    assert "caravan.study" in graph["caravan.lab.cli"]
    assert circle(graph) is None


def test_a_circle_is_found_wherever_an_import_is(tmp_path: Path) -> None:
    package = tmp_path / "ring"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").touch()
    first, second = package / "first.py", package / "second.py"
    inner, leaf = package / "inner/__init__.py", package / "inner/leaf.py"
    for path in (first, second, inner, leaf):
        path.touch()
    # a package and its own modules may use each other
    inner.write_text("from ring.inner import leaf\n")
    leaf.write_text("import ring.inner\nfrom ring import second\n")
    assert circle(imports(tmp_path, "ring")) is None
    # by an import at the top, inside a function, and for types
    for text in (
        "import ring.first\n",
        "def call():\n    from ring.first import value\n",
        "if TYPE_CHECKING:\n    from ring import first\n",
    ):
        first.write_text("from ring import second\n")
        second.write_text(text)
        assert circle(imports(tmp_path, "ring")) in (
            ["ring.first", "ring.second", "ring.first"],
            ["ring.second", "ring.first", "ring.second"],
        )
    # through a package that the import of its module runs
    first.write_text("from ring.inner.leaf import value\n")
    second.write_text("")
    inner.write_text("def call():\n    import ring.first\n")
    assert set(circle(imports(tmp_path, "ring")) or ()) == {"ring.first", "ring.inner"}


def circle(graph: Mapping[str, set[str]]) -> list[str] | None:
    """Modules that import each other in a circle, in order; None if there are none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as found:
        return list(found.args[1])
    return None


def imports(root: Path, package: str) -> dict[str, set[str]]:
    """The modules of a package that each of its modules imports, at the top or in a function.

    The import of a module also runs the packages around it, except those that it is made from.
    """
    paths = {_name(path.relative_to(root)): path for path in (root / package).rglob("*.py")}
    graph: dict[str, set[str]] = {}
    for module, path in paths.items():
        named = set(_named(ast.parse(path.read_text(encoding="utf-8"))))
        run = {name for one in named for name in _packages(one)} & set(paths)
        is_inside = path.name == "__init__.py"
        graph[module] = {
            name
            for name in run
            if not f"{module}.".startswith(f"{name}.")
            and not (is_inside and name.startswith(f"{module}."))
        }
    return graph


def _name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _named(tree: ast.Module) -> Iterator[str]:
    """What a module imports; a value of a module like a module that does not exist."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _packages(name: str) -> Iterator[str]:
    """A name, and the packages around it."""
    parts = name.split(".")
    return (".".join(parts[:count]) for count in range(len(parts), 0, -1))
