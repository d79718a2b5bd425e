"""The notebook runs from its first cell to its last."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "notebooks/the-road.ipynb"


def run_cell(source: str, names: dict[str, object]) -> object:
    """Execute a cell as a notebook does; the value of its last expression is its output."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), str(NOTEBOOK), "exec"), names)
    if not isinstance(last, ast.Expr):
        return None
    return eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)


def test_the_notebook_walks_the_whole_road(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    notebook = json.loads(NOTEBOOK.read_text())
    names: dict[str, object] = {}
    outputs = [
        run_cell("".join(cell["source"]), names)
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]
    assert sum(output is not None for output in outputs) == 7
    assert Path(str(outputs[-1])).exists()


def test_the_notebook_is_kept_without_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    assert all(not cell.get("outputs") for cell in cells)
