"""Each public name says what it takes and gives, and every example in a docstring prints what it says."""

from __future__ import annotations

import dataclasses
import doctest
import importlib
import inspect
import pkgutil
import re
import types
from functools import cached_property
from pathlib import Path

import pytest
from numpydoc.docscrape import get_doc_object
from numpydoc.validate import validate
from sphinx.pycode import ModuleAnalyzer

import ilba
from support.places import ROOT

# --- every example runs, wherever its module lives

MODULES = {"ilba": Path(ilba.__file__)} | {
    name: Path(finder.find_spec(name).origin) for finder, name, _ in pkgutil.walk_packages(ilba.__path__, "ilba.")
}


def test_every_file_of_the_package_is_searched_for_examples():
    assert sorted(MODULES.values()) == sorted(Path(ilba.__file__).parent.rglob("*.py"))


@pytest.mark.parametrize("name", sorted(MODULES))
def test_the_examples_of_a_module_are_all_found_and_print_what_they_say(name):
    module = importlib.import_module(name)
    written = re.findall(r"^\s*>>> ", MODULES[name].read_text("utf-8"), re.MULTILINE)
    assert sum(len(test.examples) for test in doctest.DocTestFinder().find(module)) == len(written)
    assert doctest.testmod(module).failed == 0


# --- every public name has NumPy sections

PAGE = (ROOT / "docs/look-up/python.md").read_text(encoding="utf-8")
SWITCHED_OFF = {
    "GL01": "the first sentence stands beside the opening quotes, as PEP 257 has it",
    "ES01": "where the first sentence says everything, a second one is not needed",
    "SA01": "the page of Python names shows what belongs together",
    "EX01": "the tutorials show the names at work; an example is for what they leave out",
}
MADE_FOR_YOU = {name.rpartition(".")[2] for name in re.findall(r"autoclass:: ([\w.]+)\(\)", PAGE)}
"""classes that users never call: what their constructors take is not documented, only what they hold"""
NO_VERB = {"A", "An", "As", "For", "How", "It", "Its", "The", "This", "What", "Where", "Whether", "Which"}


def public_names() -> list[str]:
    """The names on the page of Python names, and all that the modules on it offer."""
    modules = [name for name in ilba.__all__ if isinstance(getattr(ilba, name), types.ModuleType)]
    listed = re.findall(r"auto(?:function|class|exception):: (ilba\.[\w.]+)", PAGE)
    offered = [
        f"ilba.{module}.{name}"
        for module in modules
        if module != "spark"  # what else is in there is for `build`, and on no page
        for name in getattr(ilba, module).__all__
        if callable(getattr(getattr(ilba, module), name))
    ]
    return list(dict.fromkeys([*listed, *offered]))


def resolved(name: str) -> object:
    found: object = ilba
    for part in name.split(".")[1:]:
        found = getattr(found, part)
    return found


def members(name: str) -> list[str]:
    """The methods and properties of a class that are public: those that the page names, or else all it has from us."""
    kinds = (types.FunctionType, classmethod, staticmethod, property, cached_property)
    ours = [owner for owner in resolved(name).__mro__ if owner.__module__.partition(".")[0] == "ilba"]
    found = {n: one for owner in reversed(ours) for n, one in vars(owner).items() if n[0] != "_"}
    listed = re.search(rf"autoclass:: {re.escape(name)}\b.*\n +:members: ((?:.+\n)+?)(?= {{0,3}}\S|\n)", PAGE)
    named = re.findall(r"\w+", listed[1]) if listed else list(found)
    assert all(hasattr(resolved(name), n) for n in named), name
    return sorted(n for n in named if isinstance(found.get(n), kinds))


def problems(name: str) -> list[str]:
    """What numpydoc finds wrong with the docstring of a name."""
    found = resolved(name) if name.startswith("ilba.") else None
    off = {*SWITCHED_OFF, *(["PR01"] if inspect.isclass(found) and found.__name__ in MADE_FOR_YOU else [])}
    return [f"{name}: {code} {said}" for code, said in validate(name)["errors"] if code not in off]


@pytest.mark.parametrize("name", public_names())
def test_a_public_name_says_what_it_takes_and_gives(name):
    found = resolved(name)
    names = [name, *(f"{name}.{member}" for member in members(name))] if inspect.isclass(found) else [name]
    assert not [problem for one in names for problem in problems(one)]
    for one in names:
        if inspect.isfunction(resolved(one)) or inspect.ismethod(resolved(one)):
            assert inspect.getdoc(resolved(one)).split()[0] not in NO_VERB, f"{one} does not begin with a verb"


@pytest.mark.long
def test_what_a_result_holds_is_documented():
    for name in public_names():
        found = resolved(name)
        fields = [one.name for one in dataclasses.fields(found)] if dataclasses.is_dataclass(found) else []
        fields += getattr(found, "_fields", ())
        if fields:
            told = {one.name for one in get_doc_object(found)["Parameters"]}
            for cls, attribute in ModuleAnalyzer.for_module(found.__module__).find_attr_docs():
                told |= {attribute} if cls == found.__name__ else set()
            assert {*fields} <= told, name


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("def f(a, b):\n    '''Do it.\n\n    Parameters\n    ----------\n    a : int\n        One.\n    '''", "PR01"),
        ("def f(a):\n    '''Do it.\n\n    Parameters\n    ----------\n    b : int\n        One.\n    '''", "PR02"),
        ("def f(a):\n    '''Do it.\n\n    Parameters\n    ----------\n    a : int\n    '''", "PR07"),
        ("def f():\n    '''Do it.'''\n    return 1", "RT01"),
        ("def f():\n    pass", "GL08"),
    ],
)
def test_what_is_not_documented_is_noticed(text, code, tmp_path, monkeypatch):
    module = f"undocumented_{code.lower()}"
    (tmp_path / f"{module}.py").write_text(text + "\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert any(f"{module}.f: {code}" in problem for problem in problems(f"{module}.f"))


# --- one word for one thing


def test_a_key_is_a_variable_and_never_the_secret():
    wrong = re.compile(
        r"\bkey ?files?\b|\bsecret keys?\b|\bfingerprint of (a|the) key\b|\bkeys? (that|which) drew\b"
        r"|\b(another|lost|stolen|throw-away) key\b|\bno store and no key\b|\b(loss|store) or a key\b",
        re.IGNORECASE,
    )
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.svg"), *MODULES.values()]
    texts = {page: re.sub(r"\s+", " ", page.read_text("utf-8")) for page in pages if "_build" not in page.parts}
    found = [f"{page}: {match[0]}" for page, text in texts.items() for match in wrong.finditer(text)]
    assert not found
