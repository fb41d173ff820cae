"""The order of the house: each room imports only from those below it, and the public names are these."""

from __future__ import annotations

import ast
import functools
import graphlib
import importlib.metadata
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import ilba
from support.places import ROOT

# The rooms from the bottom up. A name beside a folder is a door to it: a module that gives it a shorter name.
LAYERS = [
    ["errors"],
    ["progress"],
    ["files"],
    ["notebook"],
    ["design"],
    ["cells"],
    ["data"],
    ["secret"],
    ["methods", "masking"],
    ["tables"],
    ["spark"],
    ["release"],
    ["attack"],
    ["output", "charts", "export", "report"],
    ["publication"],
    ["r"],
    ["datasets"],
    ["demo"],
    ["service"],
    ["cli"],
]
# What hands over to a higher room, when it is called. "types" are imports that only the type checker makes.
BACKWARDS = {
    ("attack.riskreport", "RiskReport.to_html"): {"output"},
    ("attack.verdict", "Judged.to_html"): {"output"},
    ("release.reading", "Release.audit"): {"attack"},
    ("release.reading", "Release.risk"): {"attack"},
    ("release.writing", "_audited"): {"attack"},
    ("tables.building", "_spark"): {"spark"},
    ("tables.building", "types"): {"spark"},
    ("tables.opening", "open_store"): {"spark"},
    ("tables.opening", "types"): {"spark"},
    ("tables.engine", "AnyFinestTable.published"): {"release"},
    ("tables.engine", "AnyFinestTable.audit"): {"attack"},
    ("tables.engine", "AnyFinestTable.publishable"): {"release"},
    ("tables.engine", "AnyFinestTable.release"): {"release"},
    ("tables.engine", "AnyFinestTable.report"): {"output"},
    ("tables.engine", "AnyFinestTable.tell_other_numbers"): {"release"},
    ("tables.engine", "AnyFinestTable.risk"): {"attack"},
    ("tables.engine", "types"): {"release"},
    ("tables.table", "AnyTable._tell_other_numbers"): {"release"},
    ("tables.table", "Table.chart"): {"output"},
    ("tables.table", "Table.map"): {"output"},
}
SOURCE = ROOT / "src" / "ilba"
FLOOR = {room: floor for floor, rooms in enumerate(LAYERS) for room in rooms}
FILES = {
    ".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): file
    for file in sorted(SOURCE.rglob("*.py"))
    if file.parent != SOURCE or not file.stem.startswith("__")
}

PUBLIC = [
    "AuditReport",
    "Chosen",
    "Comparison",
    "Conflict",
    "Control",
    "Cube",
    "Design",
    "PublishedTables",
    "FinestTable",
    "Hierarchy",
    "HierarchyTree",
    "IlbaError",
    "InputError",
    "Ledger",
    "Insider",
    "JointReport",
    "Inspection",
    "MissingExtra",
    "Advice",
    "Notice",
    "Population",
    "Plan",
    "ProgressStep",
    "PublicTable",
    "Published",
    "Recipe",
    "Register",
    "Release",
    "RiskReport",
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
    "charts",
    "class_means",
    "compare",
    "datasets",
    "export",
    "get_agg_freq",
    "init",
    "inspect",
    "loss_summary",
    "losses",
    "masking",
    "methods",
    "open_store",
    "plan",
    "publish",
    "read_hierarchy",
    "read_rds",
    "report",
    "risk",
    "save_agg_tb",
    "save_full_tb",
    "sliver_map",
    "slivers",
    "spark",
    "what_if",
]


class Import(NamedTuple):
    """A module of ilba that is imported, without `ilba.` before it, and the function that imports it."""

    module: str
    by: str


@functools.cache
def imports(path: Path) -> tuple[Import, ...]:
    """Every import of our own modules: at the top, inside functions, for types, and by `import_module`."""
    found: list[Import] = []
    _note_imports(ast.parse(path.read_text(encoding="utf-8")), "", found)
    return tuple(found)


def _note_imports(node: ast.AST, by: str, found: list[Import]) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Constant | ast.Name | ast.expr_context):
            continue  # nothing is below
        inside = by
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inside = f"{by}.{child.name}".lstrip(".")
        elif isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            inside = "types"
        named = [name for name in _named(child) if name.startswith("ilba.")]
        found += [Import(name.removeprefix("ilba."), inside) for name in named]
        _note_imports(child, inside, found)


def _named(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        assert not any(alias.name == "ilba" for alias in node.names), "a room is imported by its name"
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute"
        for alias in node.names:
            whole = f"{node.module}.{alias.name}"
            if node.module == "ilba" and whole.removeprefix("ilba.") not in FILES:
                assert alias.name == "__version__", f"{alias.name} is imported from its room, not through the root"
            yield whole if whole.removeprefix("ilba.") in FILES else str(node.module)
    elif isinstance(node, ast.Call) and _called(node.func).endswith("import_module"):
        yield from (str(given.value) for given in node.args if isinstance(given, ast.Constant))


def _called(function: ast.expr) -> str:
    """The last part of the name of what is called."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def room(module: str) -> str:
    return module.split(".")[0]


def test_every_module_has_its_place_in_a_layer():
    assert {room(module) for module in FILES} == set(FLOOR)


@pytest.mark.long
def test_a_room_imports_only_from_those_below_it():
    upwards: dict[tuple[str, str], set[str]] = {}
    for module, file in FILES.items():
        for imported, by in imports(file):
            if FLOOR[room(imported)] > FLOOR[room(module)]:
                upwards.setdefault((module, by), set()).add(room(imported))
    assert upwards == BACKWARDS


def test_late_imports_are_seen(tmp_path):
    file = tmp_path / "late.py"
    file.write_text(
        "import importlib\n"
        "if TYPE_CHECKING:\n    from ilba.release import Release\n"
        "class Table:\n    def chart(self):\n        from ilba.output import charts\n"
        "def engine():\n    return importlib.import_module('ilba.spark')\n"
    )
    assert list(imports(file)) == [("release", "types"), ("output.charts", "Table.chart"), ("spark", "engine")]


@pytest.mark.parametrize("text", ["import ilba\n", "from ilba import build\n"])
def test_an_import_through_the_root_is_noticed(text, tmp_path):
    file = tmp_path / "hidden.py"
    file.write_text(text)
    with pytest.raises(AssertionError, match="room"):
        list(imports(file))


@pytest.mark.long
def test_no_two_modules_import_each_other():
    graph = {
        module: {imported for imported, by in imports(file) if by == "" and imported in FILES} - {module}
        for module, file in FILES.items()
    }
    assert len(list(graphlib.TopologicalSorter(graph).static_order())) == len(FILES)


def test_no_two_classes_have_the_same_name():
    classes = re.compile(r"^class ([A-Za-z]\w*)", re.MULTILINE)
    named = [name for file in FILES.values() for name in classes.findall(file.read_text(encoding="utf-8"))]
    assert sorted(named) == sorted(set(named))


def test_a_folder_says_what_it_hides_and_loads_nothing_for_it():
    rooms = ("design", "cells", "data", "secret", "methods.controlled", "tables", "attack", "output", "publication")
    for name in rooms:
        body = ast.parse(FILES[name].read_text(encoding="utf-8")).body
        assert len(body) == 1, name
        assert isinstance(body[0], ast.Expr), name


def test_the_method_knows_no_file_no_engine_and_no_randomness_of_its_own():
    tree = ast.parse(FILES["methods.masking"].read_text(encoding="utf-8"))
    outside = {name.split(".")[0] for node in ast.walk(tree) for name in _named(node)} - {"ilba", "__future__"}
    assert outside == {"typing", "numpy"}


def test_the_public_names_are_these_and_documented():
    for name in ilba.__all__:
        assert getattr(ilba, name).__doc__, name
    assert sorted(ilba.__all__) == sorted(PUBLIC)


@pytest.mark.long
def test_every_name_on_the_page_of_python_names_is_there_after_import_ilba_and_only_public_names_are_listed():
    """And every public name is on the page. In a process of its own, where nothing else was imported."""
    page = (ROOT / "docs/look-up/python.md").read_text(encoding="utf-8")
    listed = re.findall(r"auto\w+:: (ilba\.[\w.]+)", page)
    script = "import ilba, sys\nfor name in sys.argv[1:]: eval(name)\nimport ilba.cli\nprint(*dir(ilba))"
    run = subprocess.run([sys.executable, "-c", script, *listed], capture_output=True, text=True, check=True)
    assert sorted(run.stdout.split()) == sorted([*PUBLIC, "__version__"])
    assert {name.split(".")[1] for name in listed} == set(ilba.__all__)


@pytest.mark.parametrize("name", ["audit", "build", "compare", "losses", "what_if"])
def test_no_module_stands_behind_the_name_of_a_function(name):
    assert callable(getattr(ilba, name))
    assert f"ilba.{name}" not in sys.modules
    assert name not in FILES


DOORS = {
    "masking": ["methods.masking"],
    "charts": ["output.charts", "output.loss_charts", "output.drawing"],
    "export": ["output.export"],
    "report": ["output.report"],
}


@pytest.mark.parametrize("door", DOORS)
def test_a_door_gives_what_the_room_behind_it_has(door):
    module = importlib.import_module(f"ilba.{door}")
    assert module is getattr(ilba, door)
    behind = [importlib.import_module(f"ilba.{one}") for one in DOORS[door]]
    for name in module.__all__:
        assert any(getattr(one, name, None) is getattr(module, name) for one in behind)


def drawn() -> list[tuple[str, str]]:
    """For each room what the page shows of it: its name, and the rooms it imports from."""
    found: dict[str, set[str]] = {room: set() for room in FLOOR}
    for module, file in FILES.items():
        for imported, _ in imports(file):
            if FLOOR[room(imported)] < FLOOR[room(module)]:
                found[room(module)].add(room(imported))
    names = [rooms[0] for rooms in LAYERS]
    below = {name: sorted(found[name], key=names.index) for name in names}
    folder = {name: "/" if (SOURCE / name).is_dir() else "" for name in names}
    return [(f"`{name}{folder[name]}`", " ".join(f"`{one}`" for one in below[name])) for name in names]


@pytest.mark.long
def test_the_architecture_page_shows_the_rooms_in_their_order_with_what_they_import():
    """Where this fails, the right side of the comparison is what belongs into the table."""
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    table = page[page.index("| room |") : page.index("**Doors that open backwards.**")]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:] if line]
    assert [(name, below) for name, _, below in rows] == drawn()
    assert {door for rooms in LAYERS for door in rooms[1:]} <= set(re.findall(r"`(\w+)`", page))


def test_the_picture_of_the_house_names_rooms_and_leaves_out_none_that_data_walks_through():
    drawn_text = " ".join(re.findall(r"<text[^>]*>([^<]*)<", (ROOT / "docs/house.svg").read_text(encoding="utf-8")))
    named = set(re.findall(r"\b(\w+)/", drawn_text))
    assert named == {name for name in FLOOR if (SOURCE / name).is_dir()} - {"datasets", "cli"}


@pytest.mark.long
def test_the_base_install_needs_no_optional_package():
    """Importing and using ilba must not import pandas, pyarrow or other extras, nor what few of its users need."""
    script = (
        "import sys, polars as pl, ilba, ilba.cli\n"
        "f = ilba.build(pl.DataFrame({'t': ['a'] * 9}), ['t'], secret=ilba.Secret(bytes(32)))\n"
        "f.table(1).public()\n"
        "extras = ('pandas', 'pyarrow', 'rdata', 'pyreadstat', 'duckdb', 'scipy', 'numba', 'pyspark', 'jinja2')\n"
        "extras += ('narwhals', 'ilba.spark', 'ilba.datasets', 'ilba.service')\n"
        "print([m for m in extras if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_importing_ilba_loads_nothing_heavy():
    script = (
        "import sys, ilba; print([m for m in ('polars', 'numpy', 'ilba.tables', 'ilba.errors') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_the_version_is_the_distributions():
    assert importlib.metadata.version("ilba") == ilba.__version__
