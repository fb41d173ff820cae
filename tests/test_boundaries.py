"""The order of the house: each module imports only from those before it, and the public names are these."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import subprocess
import sys

import pytest

import ilba
from conftest import ROOT

ORDER = [
    "errors",
    "files",
    "design",
    "cells",
    "secret",
    "data",
    "methods",
    "masking",
    "tables",
    "spark",
    "release",
    "attack",
    "output",
    "charts",
    "compare",
    "export",
    "report",
    "r",
    "datasets",
    "demo",
    "service",
    "cli",
]
# Methods of a class that hand over to a later module; nothing there is imported before they are called.
DOORS = {
    "tables": {"release", "spark", "output"},
    "release": {"attack"},
}
SOURCE = ROOT / "src" / "ilba"
PUBLIC = [
    "AuditReport",
    "Design",
    "Exposure",
    "FinestTable",
    "Hierarchy",
    "IlbaError",
    "InputError",
    "MissingExtra",
    "Notice",
    "Release",
    "Secret",
    "SecretError",
    "SparkFinestTable",
    "SparkTable",
    "StoreError",
    "Table",
    "UnknownArgument",
    "UnsafeRelease",
    "WriteError",
    "apply_SCA",
    "apply_iLBA",
    "audit",
    "build",
    "datasets",
    "get_agg_freq",
    "open_store",
    "read_rds",
    "save_agg_tb",
    "save_full_tb",
]


def imports(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            if node.module == "ilba":
                yield from (f"ilba.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("name", ORDER)
def test_a_module_imports_only_from_those_before_it(name):
    allowed = {*ORDER[: ORDER.index(name)], name}
    files = [SOURCE / f"{name}.py"] if (SOURCE / f"{name}.py").exists() else sorted((SOURCE / name).rglob("*.py"))
    assert files
    for file in files:
        ours = {module.split(".")[1] for module in imports(file) if module.startswith("ilba.")}
        assert {module for module in ours if module in ORDER} <= allowed | DOORS.get(name, set()), file


def test_every_module_has_its_place_in_the_order():
    names = {p.stem for p in SOURCE.glob("*.py")} | {p.parent.name for p in SOURCE.glob("*/__init__.py")}
    assert names - {"__init__", "__main__"} == set(ORDER)


def test_the_method_knows_no_file_no_engine_and_no_randomness_of_its_own():
    outside = {module.split(".")[0] for module in imports(SOURCE / "methods" / "masking.py")} - {"ilba", "__future__"}
    assert outside == {"typing", "numpy"}


def test_the_public_names_are_these_and_documented():
    for name in ilba.__all__:
        assert getattr(ilba, name).__doc__, name
    assert sorted(ilba.__all__) == sorted(PUBLIC)


def test_the_architecture_page_has_a_room_for_every_module():
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rooms = {
        word.rstrip("/") for row in page.splitlines() if row.startswith("| ") for word in re.findall(r"`([\w/]+)`", row)
    }
    assert set(ORDER) <= rooms


def test_the_base_install_needs_no_optional_package():
    """Importing and using ilba must not import pandas, pyarrow or other extras, nor what few of its users need."""
    script = (
        "import sys, polars as pl, ilba, ilba.cli\n"
        "f = ilba.build(pl.DataFrame({'t': ['a'] * 9}), ['t'], secret=ilba.Secret(bytes(32)))\n"
        "f.table(1).public()\n"
        "extras = ('pandas', 'pyarrow', 'rdata', 'pyreadstat', 'duckdb', 'scipy', 'numba', 'pyspark')\n"
        "extras += ('narwhals', 'ilba.spark', 'ilba.datasets', 'ilba.service')\n"
        "print([m for m in extras if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_the_version_is_the_distributions():
    assert importlib.metadata.version("ilba") == ilba.__version__
