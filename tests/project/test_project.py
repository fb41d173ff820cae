"""The files around the code say what is so: versions, dependencies, and where the tests run."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib

import ilba
from support import lanes
from support.places import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PINNED = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text("utf-8"), re.MULTILINE))


def test_the_lowest_version_of_every_dependency_is_found():
    command = [sys.executable, str(ROOT / "bench" / "lowest.py")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    floors = dict(line.split("==") for line in printed.splitlines())
    extras = PROJECT["optional-dependencies"]
    named = PROJECT["dependencies"] + extras["formats"] + extras["charts"] + extras["serve"] + extras["spark"]
    assert {re.match(r"[\w-]+", one)[0] for one in named} <= set(floors)
    assert floors["uvicorn"] == "0.54"


def test_the_hooks_have_the_versions_that_are_pinned():
    hooks = (ROOT / ".pre-commit-config.yaml").read_text("utf-8")
    assert re.search(r"ruff-pre-commit\n\s+rev: v(\S+)", hooks)[1] == PINNED["ruff"]


def test_the_citation_is_of_this_version_and_licence():
    citation = dict(re.findall(r"^([\w-]+): (\S+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.MULTILINE))
    assert citation["version"] == ilba.__version__
    assert citation["license"] == PROJECT["license"]


def test_the_tests_run_on_every_python_that_is_named():
    named = [one.rpartition(" ")[2] for one in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", one)]
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text("utf-8")
    matrix = re.search(r"python: \[(.*)\]", workflow)[1]
    assert re.findall(r"[\d.]+", matrix) == named
    assert PROJECT["requires-python"] == f">={named[0]}"
    page = (ROOT / "docs" / "look-up" / "stability.md").read_text("utf-8")
    assert f"Python {named[0]} to {named[-1]}." in page


def test_the_tests_of_a_room_lie_in_the_folder_of_its_name():
    source, tests = ROOT / "src" / "ilba", ROOT / "tests"
    rooms = {file.parent.name for file in source.glob("*/__init__.py")}
    modules = {file.stem for file in source.glob("*.py")}
    found = set()
    for file in tests.rglob("test_*.py"):
        room, *inside = file.relative_to(tests).parts
        assert room in {*rooms, "project"} if inside else file.stem.removeprefix("test_") in modules, file
        found.add(room)
    assert rooms <= found


def test_tests_that_share_something_costly_are_handed_out_together():
    for begins in lanes.LONGEST:
        file, _, test = begins.partition("::")
        assert (ROOT / file).exists(), begins
        assert f"\ndef {test}" in (ROOT / file).read_text("utf-8") if test else True, begins
    assert {*lanes.TOGETHER, *lanes.APART} <= {*lanes.LONGEST}
    named = [
        "tests/service/page/test_map.py::a",
        "tests/service/page/test_views.py::b[1]",
        "tests/service/test_sdmx.py::c",
    ]
    assert [lanes.lane(name) for name in named] == ["tests/service/page/", "tests/service/page/", "tests/service/"]
    assert lanes.lane("tests/cells/test_codes.py::a[x::y]") == "tests/cells/test_codes.py"
