"""The notebooks of the documentation run from top to bottom, and what they show can be shown."""

from __future__ import annotations

import ast
import json
import warnings

import polars as pl
import pytest

from support.places import ROOT

NOTEBOOKS = sorted((ROOT / "docs").rglob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda file: file.name)
def test_a_notebook_runs_from_top_to_bottom_and_shows_something_in_each_cell(notebook, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ILBA_LEDGER")
    namespace: dict[str, object] = {}
    shown = []
    for cell in json.loads(notebook.read_text("utf-8"))["cells"]:
        if cell["cell_type"] != "code":
            continue
        assert cell["outputs"] == []
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        with warnings.catch_warnings(action="ignore"):
            exec(compile(tree, notebook.name, "exec"), namespace)
            if last is not None:
                shown.append(eval(compile(ast.Expression(last.value), notebook.name, "eval"), namespace))
    rich = [one._repr_html_() for one in shown if hasattr(one, "_repr_html_")]
    assert len(rich) >= 5
    table = shown[-1]
    assert isinstance(table, pl.DataFrame)
    assert set(table["town"]) == {"Ahausen", "Bedorf", "Celle"}


def test_there_is_a_notebook():
    assert NOTEBOOKS
