"""Find small mistakes in the method or on the leak path that the tests would miss.

    python tools/mutations.py                               the method, the secret, the release, the audit: every mutant
    python tools/mutations.py methods/masking secret/secret these modules
    python tools/mutations.py attack/audit --sample 100     a random part of a module's mutants (--seed for another one)
    python tools/mutations.py methods/masking --list        what would be tried, without trying it

Each mutant is the module with one small change (a boundary moved, a sum turned into a difference, a check left out,
...), made in a scratch copy of the package. The fast tests that run the changed lines run on it, the quickest first,
until one fails: then the mutant is killed. A mutant that survives shows a missing test, unless no test can distinguish
it from the original. Those are listed in tools/equivalent.toml with the reason (an entry that ends in * stands for all
that begin with it). Annotations, docstrings, and the texts of errors, notices and pages are not changed. Nothing sees
which lines of a compiled function run, so all tests of the module run on a mutant of one, and it is compiled anew, or
with --plain runs as Python: quicker where the tests are small, and a place outside an array is an error.

The order is fixed and the property tests draw the same examples on every run, so two runs give the same table. A mutant
that takes ten times the processor time of its tests counts as timed out, which is as good as killed.
"""

from __future__ import annotations

import argparse
import ast
import atexit
import compileall
import contextlib
import copy
import functools
import gc
import importlib.util
import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import tomllib
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "ilba"
KNOWN = Path(__file__).with_name("equivalent.toml")
DOCSTRINGS = "project/test_docstrings.py"
CONTROLLED = ["methods/test_controlled.py", "methods/test_free.py"]
PROOFS = ["attack/test_toys.py", "attack/test_proofs.py"]
JOINT = ["attack/test_joint.py", "attack/test_joint_toys.py"]
TESTS = {
    "methods/masking": ["methods/test_masking.py", "tables/test_finest.py", "tables/test_golden.py", DOCSTRINGS],
    "secret/secret": ["secret", DOCSTRINGS],
    "release/writing": ["release"],
    "release/proving": ["release"],
    "release/replacing": ["release"],
    "release/folder": ["release"],
    "release/reading": ["release"],
    "release/ledger": ["release"],
    "release/bookmarks": ["release"],
    "release/chapter": ["release"],
    "release/recognising": ["release"],
    "release/manifest": ["release"],
    "release/adopting": ["release"],
    "release/coarser": ["release"],
    "release/examining": ["release"],
    "release/net": ["release"],
    "release/turnover": ["release/test_turnover.py", "release/test_chapter.py"],
    "methods/cell_key": [
        "methods/test_field_cell_keys.py",
        "methods/test_lab.py",
        "tables/test_cell_keys.py",
        DOCSTRINGS,
    ],
    "methods/ptables": ["methods/test_field_cell_keys.py", DOCSTRINGS],
    "tables/keys": ["tables/test_cell_keys.py"],
    "methods/controlled/block": ["methods/test_block.py", "methods/test_choosing.py", *CONTROLLED],
    "methods/controlled/carry": CONTROLLED,
    "methods/controlled/choosing": ["methods/test_choosing.py", *CONTROLLED],
    "methods/controlled/free": CONTROLLED,
    "methods/controlled/plan": ["methods/test_plan.py", *CONTROLLED],
    "methods/controlled/search": CONTROLLED,
    "methods/controlled/sets": CONTROLLED,
    "publication/codelists": ["publication"],
    "data/shorter": ["data/test_shorter.py"],
    "design/recordkeys": ["design/test_recordkeys.py", "tables/test_cell_keys.py", "release/test_chapter.py"],
    "data/recipe": ["data/test_recipe.py", "data/test_microdata.py", DOCSTRINGS],
    "attack/audit": [
        "attack/test_audit.py",
        "attack/test_verdict.py",
        "attack/test_solver.py",
        "attack/test_fewcells.py",
        DOCSTRINGS,
    ],
    "attack/verdict": ["attack/test_verdict.py", "attack/test_solver.py"],
    "attack/deciding": ["attack/test_solver.py", "attack/test_counterexamples.py"],
    "attack/fewcells": ["attack/test_fewcells.py", "attack/test_solver.py", "attack/test_verdict.py"],
    "attack/unmasked": ["attack/test_counterexamples.py", "attack/test_solver.py"],
    "attack/counterexamples": ["attack/test_counterexamples.py", "attack/test_solver.py"],
    "attack/insiders": ["attack/test_insiders.py", "attack/test_masknumbers.py", "attack/test_risk.py"],
    "attack/masknumbers": ["attack/test_masknumbers.py"],
    "attack/masksums": ["attack/test_masksums.py", DOCSTRINGS],
    "attack/attackers": ["attack/test_insiders.py", "attack/test_risk.py", "attack/test_what_if.py", DOCSTRINGS],
    "attack/intervals": [
        "attack/test_intervals.py",
        "attack/test_toys.py",
        "attack/test_risk.py",
        "attack/test_counterexamples.py",
    ],
    "attack/solver": ["attack/test_solver.py"],
    "attack/scoring": ["attack/test_scoring.py"],
    "attack/risk": ["attack/test_risk.py", "attack/test_risk_rows.py"],
    "attack/measuring": ["attack/test_risk.py", "attack/test_risk_rows.py"],
    "attack/insiderrisk": ["attack/test_risk.py", "attack/test_insider_rows.py", "attack/test_masknumbers.py"],
    "attack/bounds": [*PROOFS, "attack/test_explanations.py", "attack/test_audit.py"],
    "attack/lattice": [*PROOFS, "attack/test_audit.py"],
    "attack/published": [*PROOFS, "attack/test_counterexamples.py", "attack/test_audit.py"],
    "attack/explanations": [
        "attack/test_explanations.py",
        "attack/test_toys.py",
        "attack/test_verdict.py",
        "attack/test_audit.py",
    ],
    "attack/areas": ["attack/test_areas_toys.py"],
    "attack/summed": ["attack/test_areas_toys.py"],
    "attack/slivers": ["attack/test_slivers.py"],
    "attack/joint": JOINT,
    "attack/joint_verdict": JOINT,
    "attack/refinement": JOINT,
    "attack/together": JOINT,
    "attack/guessing": ["attack/test_guessing.py"],
    "attack/field": ["attack/test_field.py", "attack/test_toys.py", "attack/test_guessing.py", "attack/test_audit.py"],
    "attack/posterior": ["attack/test_posterior.py"],
    "attack/riskreport": ["attack/test_riskreport.py"],
    "attack/attributes": ["attack/test_scoring.py"],
    "attack/choosing": ["attack/test_what_if.py"],
    "attack/closing": ["attack/test_kernels.py", "attack/test_toys.py"],
    "attack/kernels": ["attack/test_kernels.py", "attack/test_toys.py", "attack/test_proofs.py"],
    "attack/mending": ["attack/test_mending.py"],
}
HEAVY = ("numpy", "polars", "narwhals", "numba", "scipy.stats", "scipy.optimize", "hypothesis.strategies", "pytest")
HEAVY += ("cryptography.hazmat.primitives.ciphers", "duckdb", "pandas", "pyarrow")

# ---------------------------------------------------------------------------------------------------------------------
# The mutants

COMPARISONS: dict[type, tuple[type, ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
NAMES = {"min": "max", "any": "all", "floor": "ceil", "minimum": "maximum", "startswith": "endswith"}
NAMES |= {other: name for name, other in NAMES.items()}
# Left alone: `strict` and `encoding` guard against what cannot happen here, and reach no result.
KEPT_KEYWORDS = {"strict", "encoding", "ensure_ascii", "separators", "indent", "slots"}
TEXT_CALLS = {"notice", "listing", "nearest", "some"}
COMPILED = re.compile(r"^ *@(\w+\.)?(compiled|njit)\b", re.MULTILINE)
KEYLIKE = re.compile(r"[\w./:+-]{1,40}")


@dataclass(frozen=True)
class Mutant:
    """One change: where, what, and the lines that a test has to run to notice it (None: any test may)."""

    key: str
    line: int
    lines: range | None
    source: Callable[[], str]


Path_ = tuple[tuple[str, int | None], ...]


def changes(node: ast.AST) -> Iterator[ast.AST | None]:
    """What may stand in the place of a node; None is nothing at all."""

    def other(**fields: Any) -> ast.AST:
        new = copy.copy(node)
        for name, value in fields.items():
            setattr(new, name, value)
        return new

    match node:
        case ast.Compare():
            for place, op in enumerate(node.ops):
                for instead in COMPARISONS[type(op)]:
                    yield other(ops=[*node.ops[:place], instead(), *node.ops[place + 1 :]])
        case ast.BinOp() | ast.AugAssign() if type(node.op) in ARITHMETIC:
            yield other(op=ARITHMETIC[type(node.op)]())
        case ast.BoolOp():
            yield other(op=ast.And() if isinstance(node.op, ast.Or) else ast.Or())
            for place in range(len(node.values)):
                rest = [*node.values[:place], *node.values[place + 1 :]]
                yield other(values=rest) if len(rest) > 1 else rest[0]
        case ast.UnaryOp():
            yield node.operand
        case ast.Constant(value=bool()):
            yield other(value=not node.value)
        case ast.Constant(value=int() | float()):
            yield other(value=node.value + 1)
            yield other(value=node.value - 1)
        case ast.Constant(value=bytes()):
            yield other(value=b"x" + node.value)
        case ast.Constant(value=str()) if node.value == "" or KEYLIKE.fullmatch(node.value):
            yield other(value="x" + node.value)
        case ast.Name() if node.id in NAMES:
            yield other(id=NAMES[node.id])
        case ast.Attribute() if node.attr in NAMES:
            yield other(attr=NAMES[node.attr])
        case ast.Slice() if node.lower or node.upper:
            yield other(lower=None, upper=None)
        case ast.Call():
            for place, keyword in enumerate(node.keywords):
                if keyword.arg and keyword.arg not in KEPT_KEYWORDS:
                    yield other(keywords=[*node.keywords[:place], *node.keywords[place + 1 :]])
        case ast.Dict() if len(node.keys) > 0:
            for place in range(len(node.keys)):
                keys, values = ([*all[:place], *all[place + 1 :]] for all in (node.keys, node.values))
                yield other(keys=keys, values=values)
        case ast.comprehension() if node.ifs:
            yield other(ifs=[])
        case ast.ExceptHandler(type=ast.Tuple()):
            for place in range(len(node.type.elts)):
                rest = [*node.type.elts[:place], *node.type.elts[place + 1 :]]
                yield other(type=ast.Tuple(rest, ast.Load()))
        case ast.Raise():
            yield None
            if node.cause and ast.unparse(node).startswith("raise SecretError"):
                yield other(cause=None)  # what stands behind this error may hold a secret
        case ast.Return() if node.value and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            yield other(value=ast.Constant(None))
        case ast.Expr() if not isinstance(node.value, ast.Constant):
            yield None
        case ast.Assign() if any(isinstance(target, ast.Subscript) for target in node.targets):
            yield None
        case ast.Assign(targets=[ast.Name(id=name)]):
            # Leaving out a first assignment fails by itself; one that changes a value is worth trying.
            if any(isinstance(inner, ast.Name) and inner.id == name for inner in ast.walk(node.value)):
                yield None
        case ast.Continue() | ast.Delete():
            yield None
    if isinstance(node, ast.AugAssign):
        yield None
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        yield other(test=negated(node.test))


def negated(test: ast.expr) -> ast.expr:
    match test:
        case ast.UnaryOp(op=ast.Not()):
            return test.operand
        case ast.Compare(ops=[op]):
            return ast.Compare(test.left, [COMPARISONS[type(op)][-1]()], test.comparators)
    return ast.UnaryOp(ast.Not(), test)


def visited(node: ast.AST, path: Path_ = ()) -> Iterator[tuple[Path_, ast.AST]]:
    """Every node that may be changed, with the way to it."""
    if path:
        yield path, node
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "format_spec", "type_comment"):
            continue
        if isinstance(node, ast.Raise) and field == "exc":  # the text of an error
            continue
        if isinstance(node, ast.ExceptHandler) and field == "type":
            continue
        inner = list(enumerate(value)) if isinstance(value, list) else [(None, value)]
        for place, child in inner:
            if isinstance(child, ast.AST) and not left_alone(child):
                yield from visited(child, (*path, (field, place)))


def left_alone(node: ast.AST) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom():
            return True
        case ast.Call(func=ast.Name(id=name)) if name in TEXT_CALLS:
            return True
        case ast.AnnAssign(annotation=ast.Name(id="TypeAlias")) | ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.keyword(arg=name) if name in KEPT_KEYWORDS:
            return True
        case ast.JoinedStr():
            return any(isinstance(part, ast.Constant) and "<" in part.value for part in node.values)
    return False


def at(tree: ast.AST, path: Path_) -> Any:
    for field, place in path:
        tree = getattr(tree, field) if place is None else getattr(tree, field)[place]
    return tree


@contextlib.contextmanager
def replaced(tree: ast.Module, path: Path_, new: ast.AST | None) -> Iterator[None]:
    """The tree with another node in the place of one."""
    (field, place), parent = path[-1], at(tree, path[:-1])
    put: Any = ast.Pass() if new is None else copy.copy(new)
    held = getattr(parent, field)
    before = held if place is None else held[place]
    ast.fix_missing_locations(ast.copy_location(put, before))
    try:
        if place is None:
            setattr(parent, field, put)
        else:
            held[place] = put
        yield
    finally:
        if place is None:
            setattr(parent, field, before)
        else:
            held[place] = before


def mutants(source: str) -> list[Mutant]:
    """All mutants of a module, in the order of its lines, each once."""
    tree = ast.parse(source)
    found, seen, texts = [], {}, set()
    for path, node in list(visited(tree)):
        for new in list(changes(node)):
            if new is None and not isinstance(node, ast.stmt):
                continue
            place, statement, lines = surroundings(tree, path)
            before, whole = headed(at(tree, statement)), ast.unparse(at(tree, statement))
            with replaced(tree, path, new):
                try:
                    text = ast.unparse(at(tree, statement))
                    compile(ast.Module([at(tree, path[:1])], []), "mutant", "exec")
                except (SyntaxError, ValueError, TypeError):
                    continue
                after = headed(at(tree, statement))
            if text == whole or (statement, text) in texts:
                continue
            texts.add((statement, text))
            key = f"{place or 'at import'}: {difference(before, after)}"
            seen[key] = seen.get(key, 0) + 1
            key += f" (#{seen[key]})" if seen[key] > 1 else ""
            made = functools.partial(written, tree, path, new)
            seen_running = place and not in_compiled(tree, path)
            found.append(Mutant(key, getattr(node, "lineno", lines.start), lines if seen_running else None, made))
    return sorted(found, key=lambda one: one.line)


def written(tree: ast.Module, path: Path_, new: ast.AST | None) -> str:
    """The text of a mutant."""
    with replaced(tree, path, new):
        return ast.unparse(tree)


def surroundings(tree: ast.Module, path: Path_) -> tuple[str, Path_, range]:
    """The function that holds a node (empty outside), the path of its statement, and the lines of that."""
    names, statement, inside = [], path, False
    for length in range(1, len(path) + 1):
        node = at(tree, path[:length])
        field = path[length][0] if length < len(path) else "body"
        if isinstance(node, ast.stmt | ast.ExceptHandler):
            statement = path[:length]
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and field == "body":
            names.append(node.name)
            inside = inside or isinstance(node, ast.FunctionDef)
    node = at(tree, statement)
    body = getattr(node, "body", None)
    last = max(node.lineno, body[0].lineno - 1) if isinstance(body, list) else node.end_lineno
    return ".".join(names) if inside else "", statement, range(node.lineno, last + 1)


def in_compiled(tree: ast.Module, path: Path_) -> bool:
    """Whether a node is inside a function that numba compiles."""
    nodes = (at(tree, path[:length]) for length in range(1, len(path)))
    return any(
        COMPILED.match(f"@{ast.unparse(made_by)}") for node in nodes for made_by in getattr(node, "decorator_list", [])
    )


def headed(node: ast.AST) -> str:
    """A statement on one line; of one with a body, the head."""
    if isinstance(node, ast.If | ast.While):
        return "if " + ast.unparse(node.test)
    text = ast.unparse(node)
    return (text.splitlines()[0] if hasattr(node, "body") else text).strip()


def alike(one: str, other: str) -> int:
    """How many characters two texts begin with in common."""
    least = min(len(one), len(other))
    return next((place for place in range(least) if one[place] != other[place]), least)


def difference(before: str, after: str, around: int = 18) -> str:
    if after == "pass":
        return f"without `{before if len(before) <= 90 else before[:90] + '…'}`"
    first = alike(before, after)
    last = alike(before[first:][::-1], after[first:][::-1])
    start = max(0, first - around)

    def cut(text: str) -> str:
        end = min(len(text), len(text) - last + around)
        return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")

    return f"`{cut(before)}` -> `{cut(after)}`"


# ---------------------------------------------------------------------------------------------------------------------
# Running tests, each time in a process forked from this one, which has everything heavy loaded but nothing of ilba


class Chosen:
    """Only these tests, in this order."""

    def __init__(self, tests: list[str]) -> None:
        self.places = {test: place for place, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = sorted((i for i in items if i.nodeid in self.places), key=lambda i: self.places[i.nodeid])


class Failing:
    """Writes down the test that failed."""

    def __init__(self, answer: Path) -> None:
        self.answer = answer

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.answer.write_text(json.dumps(report.nodeid))


class Watch:
    """Which lines of a file each test runs, in itself and through its fixtures, and how long it takes."""

    def __init__(self, file: Path) -> None:
        self.file, self.now = str(file), set()
        self.fixtures: dict[str, set[int]] = {}
        self.tests: dict[str, Any] = {}

    def trace(self, frame: Any, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != self.file:
            return None
        self.now.add(frame.f_lineno)
        return self.trace

    def watching(self, name: str, into: dict[str, set[int]]) -> Iterator[None]:
        outer, self.now = self.now, set()
        sys.settrace(self.trace)
        yield
        into[name] = into.get(name, set()) | self.now
        self.now = outer


def watched(file: Path) -> Watch:
    import pytest

    class Hooked(Watch):
        @pytest.hookimpl(hookwrapper=True)
        def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
            yield from self.watching(fixturedef.argname, self.fixtures)

        @pytest.hookimpl(hookwrapper=True)
        def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
            own: dict[str, set[int]] = {}
            start = time.process_time()
            yield from self.watching("own", own)
            sys.settrace(None)
            self.tests[item.nodeid] = own["own"], list(item.fixturenames), time.process_time() - start

    return Hooked(file)


def forked(work: Any, seconds: float, answer: Path) -> tuple[str, Any]:
    """Run `work` in a process of its own; how it ended, and what it wrote."""
    answer.unlink(missing_ok=True)
    child = os.fork()
    if not child:
        status = 70
        try:
            os.setpgid(0, 0)
            resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 5))
            log = os.open(answer.with_suffix(".log"), os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            for stream in (0, 1, 2):
                os.dup2(log, stream)
            status = work()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    until = time.monotonic() + 20 * seconds + 60  # a mutant that waits uses no processor time
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() > until:
            os.killpg(child, signal.SIGKILL)
        time.sleep(0.01)
    said = json.loads(answer.read_text()) if answer.exists() else None
    if os.WIFSIGNALED(status):
        return "timed out" if os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL) else "killed", said
    return ("survived", "killed")[os.WEXITSTATUS(status) != 0], said


class Scratch:
    """A copy of the package in which one module at a time is changed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.answer = folder, folder / "answer.json"
        shutil.copytree(SOURCE, folder / "ilba", ignore=shutil.ignore_patterns("*.pyc"))
        self.forget_old()
        compileall.compile_dir(folder / "ilba", quiet=1)

    def tests(self, files: list[str], plugins: list[Any], *options: str) -> int:
        import hypothesis
        import pytest

        # The same examples each time, no search for a smaller one, and no test that fails because others compute too.
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        hypothesis.settings.register_profile("m", deadline=None, derandomize=True, database=None, phases=phases)
        hypothesis.settings.load_profile("m")
        sys.dont_write_bytecode = True  # two mutants of one size and second would be taken for each other
        sys.path[:0] = [str(self.folder)]
        os.environ["PYTHONPATH"] = str(self.folder)
        os.chdir(ROOT)
        paths = [f"tests/{name}" for name in files]
        # Nobody reads what they print, so no time goes into rewriting assertions and loading plugins.
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        quiet = ["--assert=plain", "-p", "no:cacheprovider", "-m", "not slow", f"--basetemp={self.folder / 'tmp'}"]
        return int(pytest.main([*paths, *quiet, *options], plugins=plugins))

    def measure(self, module: str, files: list[str]) -> dict[str, tuple[set[int], float]]:
        """The lines of the module that each test runs, and the seconds it takes."""
        file = self.folder / "ilba" / f"{module}.py"

        def work() -> int:
            watch = watched(file)
            status = self.tests(files, [watch])
            told = {}
            for test, (own, fixtures, seconds) in watch.tests.items():
                lines = own.union(*(watch.fixtures.get(name, set()) for name in fixtures))
                told[test] = sorted(lines), seconds
            self.answer.write_text(json.dumps(told))
            return status

        how, said = forked(work, 1200, self.answer)
        if how != "survived":
            raise SystemExit(
                f"{self.answer.with_suffix('.log').read_text()}\nThe tests of {module} fail without a change."
            )
        return {test: (set(lines), seconds) for test, (lines, seconds) in said.items()}

    def compiled_with(self, module: str) -> set[str]:
        """The modules whose compiled functions may hold a compiled function or a constant of this one."""
        package, wanted = self.folder / "ilba", {module} if COMPILED.search(self.text(module)) else set()
        candidates = {str(file.relative_to(package).with_suffix("")) for file in package.rglob("*.py")}
        candidates = {name for name in candidates - wanted if COMPILED.search(self.text(name))}
        while wanted:
            dotted = [f"ilba.{name.replace('/', '.')}" for name in wanted]
            more = {
                name for name in candidates - wanted if any(f"from {of} import" in self.text(name) for of in dotted)
            }
            if not more:
                break
            wanted |= more
        return wanted

    def text(self, module: str) -> str:
        return (self.folder / "ilba" / f"{module}.py").read_text("utf-8")

    def forget(self, modules: set[str]) -> None:
        """Remove what numba kept of these modules: it looks at the source of a function, not of those it calls."""
        for module in modules:
            for kept in self.kept(module):
                kept.unlink()

    def kept(self, module: str) -> list[Path]:
        folder, _, name = module.rpartition("/")
        return list((self.folder / "ilba" / folder / "__pycache__").glob(f"{name}.*.nb[ic]"))

    def forget_old(self) -> None:
        """Remove what numba kept of modules that compile in a function of a module that was changed since."""
        package = self.folder / "ilba"
        for file in (one for one in package.rglob("*.py") if COMPILED.search(one.read_text("utf-8"))):
            for caller in self.compiled_with(str(file.relative_to(package).with_suffix(""))):
                for kept in self.kept(caller):
                    if kept.stat().st_mtime < file.stat().st_mtime:
                        kept.unlink()

    def try_out(self, module: str, source: str, tests: list[str], seconds: float) -> tuple[str, str]:
        """How a mutant ends, and the test that told it."""
        file = self.folder / "ilba" / f"{module}.py"
        original = file.read_text("utf-8")
        file.write_text(source, "utf-8")
        Path(importlib.util.cache_from_source(str(file))).unlink(missing_ok=True)
        callers = self.compiled_with(module)
        self.forget(callers)

        files = sorted({test.partition("::")[0].removeprefix("tests/") for test in tests})
        plugins = [Chosen(tests), Failing(self.answer)]
        try:
            how, said = forked(lambda: self.tests(files, plugins, "-x"), seconds, self.answer)
        finally:
            file.write_text(original, "utf-8")
            self.forget(callers)
        return how, said or ""


# ---------------------------------------------------------------------------------------------------------------------


def fits(entry: str, key: str) -> bool:
    """Whether a mutant is the one, or among those, that an entry of equivalent.toml names."""
    return key.startswith(entry[:-1]) if entry.endswith("*") else key == entry


def report(module: str, chosen: argparse.Namespace, scratch: Scratch, known: dict[str, str]) -> bool:
    """Try the mutants of a module and print what became of them; whether every one was killed."""
    everything = mutants((SOURCE / f"{module}.py").read_text("utf-8"))
    tried = everything
    if chosen.sample and chosen.sample < len(everything):
        places = random.Random(chosen.seed).sample(range(len(everything)), chosen.sample)
        tried = [everything[place] for place in sorted(places)]
    if chosen.only:
        tried = [one for one in tried if any(text in one.key for text in chosen.only)]
    if chosen.list:
        for one in tried:
            print(f"{module}.py:{one.line}  {one.key}")
        return True
    start = time.monotonic()
    measured = scratch.measure(module, TESTS[module])
    said = {"killed": 0, "timed out": 0, "survived": 0, "equivalent": 0}
    survivors = []
    for number, one in enumerate(tried, 1):
        tests = [t for t, (lines, _) in measured.items() if one.lines is None or not lines.isdisjoint(one.lines)]
        tests.sort(key=lambda test: (measured[test][1], test))
        if any(fits(entry, one.key) for entry in known):
            said["equivalent"] += 1
            continue
        how, by = "survived", ""
        if tests:
            needed = sum(measured[test][1] for test in tests)
            how, by = scratch.try_out(module, one.source(), tests, 10 + 10 * needed)
        said[how] += 1
        if how == "survived":
            survivors.append((one, "" if tests else "  (no test runs it)"))
        if chosen.progress:
            print(f"{number}/{len(tried)} {how:9} {module}.py:{one.line} {one.key}  {by}", file=sys.stderr, flush=True)
    judged = len(tried) - said["equivalent"]
    dead = said["killed"] + said["timed out"]
    print(
        f"{module}: {len(tried)} of {len(everything)} mutants; {said['killed']} killed, {said['timed out']} timed out, "
        f"{said['survived']} survived, {said['equivalent']} known to be equivalent; "
        f"score {100 * dead / max(judged, 1):.1f}% ({len(measured)} tests, {time.monotonic() - start:.0f} s)"
    )
    for one, note in survivors:
        print(f"  {module}.py:{one.line}  {one.key}{note}")
    gone = {entry for entry in known if not any(fits(entry, one.key) for one in everything)}
    for key in sorted(gone):
        print(f"  {KNOWN.name} names a mutant of {module} that is no more: {key}")
    return not survivors and not gone


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", metavar="module", help=f"of {', '.join(TESTS)}; all when left out")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="try N mutants of each module")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="which ones --sample takes (default 1)")
    only = "try those with this text in their line; may be given several times"
    parser.add_argument("--only", action="append", metavar="TEXT", help=only)
    parser.add_argument("--list", action="store_true", help="list the mutants without trying them")
    parser.add_argument("--progress", action="store_true", help="a line for each mutant, with the test that killed it")
    parser.add_argument("--plain", action="store_true", help="run compiled functions as Python")
    chosen = parser.parse_args()
    for module in chosen.modules:
        if module not in TESTS:
            parser.error(f"{module!r} is not among {', '.join(TESTS)}")
    known = tomllib.loads(KNOWN.read_text("utf-8")) if KNOWN.exists() else {}
    if not chosen.list:
        # A fork carries one thread over: nothing here may have started another before it.
        os.environ |= {"OPENBLAS_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
        os.environ |= {"NUMBA_DISABLE_JIT": "1"} if chosen.plain else {}
        for name in HEAVY:
            importlib.import_module(name)
        gc.freeze()  # else each fork walks through all of it
        atexit.register(gc.unfreeze)
    with tempfile.TemporaryDirectory(prefix="ilba-mutations-") as folder:
        scratch = Scratch(Path(folder))
        clean = [report(module, chosen, scratch, known.get(module, {})) for module in chosen.modules or TESTS]
    return 0 if all(clean) else 1


if __name__ == "__main__":
    sys.exit(main())
