"""The documentation is true: every block in it runs, prints what it says, and every link leads somewhere."""

from __future__ import annotations

import contextlib
import html
import io
import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import ilba
from ilba.cli import commands
from ilba.methods import masking
from ilba.secret.secret import draws
from support.commands import called
from support.missing import missing
from support.places import ROOT, SHARED
from support.size import LARGE

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(p for p in DOCS.rglob("*.md") if "_build" not in p.parts)]
NOT_RUN = ("pip", "make", "git")
INSTEAD = {
    "ilba demo": "ilba demo --records 4000",
    "make demo": "ilba demo --records 4000",  # what its recipe runs; both on fewer people
    # It serves until Ctrl-C, which `timeout` sends.
    ".venv/bin/ilba serve ilba-demo/release": (
        "timeout --preserve-status --signal INT 8 .venv/bin/ilba serve ilba-demo/release --port 0"
    ),
}
SCRIPT = re.compile(r"#!/bin/sh\n# (\w+\.sh):")  # such a block is a file that later blocks run
ACCEPT = re.compile(r"\(--accept-conflict (\w+)\)")
FENCE = re.compile(r"^(`{3,})([^\n`]*)\n(.*?)^\1[ ]*$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text, its first line, and whether only blank lines part it from the last."""

    language: str
    text: str
    line: int
    follows: bool


def blocks_of(page: Path) -> list[Block]:
    text, found, end = page.read_text("utf-8"), [], 0
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start()) + 2
        follows = not text[end : match.start()].strip()
        found.append(Block(match[2].strip(), match[3], line, follows))
        end = match.end()
    return found


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def reads_shared(page: Path) -> bool:
    """Whether a page reads the reference data, which is not part of the package."""
    return any(b.language == "python" and "ILBA_SHARED" in b.text for b in blocks_of(page))


RUNNABLE = [page for page in PAGES if any(b.language in ("python", "console") for b in blocks_of(page))]


def plain(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n")


def commands_in(text: str) -> list[tuple[str, str]]:
    """The command lines of a console block, each with the output that the block shows for it."""
    commands: list[tuple[str, str]] = []
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("$ "):
            command = line[2:]
            while command.endswith("\\"):
                command = command[:-1] + next(lines)
            commands.append((command, ""))
        else:
            command, shown = commands[-1]
            commands[-1] = (command, shown + line + "\n")
    return commands


def fits(shown: str, printed: str) -> bool:
    """Whether output is as shown; `...` stands for anything, alone on a line also for several lines."""
    pattern = "\n".join(
        r"[\s\S]*?" if line.strip() == "..." else ".*?".join(map(re.escape, line.split("...")))
        for line in plain(shown).splitlines()
    )
    return re.fullmatch(pattern, plain(printed)) is not None


def run_python(block: Block, namespace: dict[str, object], where: str) -> str:
    printed = io.StringIO()
    code = compile("\n" * (block.line - 1) + block.text, where, "exec")
    with contextlib.redirect_stdout(printed):
        exec(code, namespace)
    return printed.getvalue()


def run_console(command: str) -> subprocess.CompletedProcess[str]:
    """Run a command line: one of ours without Spark or the signs of a shell in this process, which starts no Python."""
    if command.startswith("ilba ") and "--engine" not in command and not set(command) & set("|&;<>$`*"):
        with pl.Config(restore_defaults=True):
            return called(*shlex.split(command)[1:], cwd=Path(), mixed=True)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        ["/bin/sh", "-c", command],
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=300,  # Spark takes its time to start
    )


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A folder of its own, and afterwards the environment and the printing of frames as they were."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ILBA_LEDGER", raising=False)  # the pages say where the ledger is
    (tmp_path / ".venv").symlink_to(sys.prefix)  # the README says .venv/bin/ilba
    before = dict(os.environ)
    with pl.Config():
        yield tmp_path
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def spark_where_needed(page, monkeypatch):
    """Pages with Spark run where there is a Java, and everywhere in continuous integration."""
    if "ilba.spark" not in page.read_text("utf-8"):
        return
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")  # for a Java that ends soon
    from ilba.spark import sessions

    try:
        sessions.pyspark("sql")
        sessions._find_java()
    except ilba.MissingExtra as problem:
        missing(str(problem))


def a_spark_runs_here() -> bool:
    """Whether this process has a Java already, which stays in the folder that it was started in."""
    context = sys.modules.get("pyspark.core.context")
    return context is not None and context.SparkContext._gateway is not None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # sockets that PySpark closes late
@pytest.mark.parametrize("page", RUNNABLE, ids=name_of)
@pytest.mark.usefixtures("spark_where_needed")
def test_every_block_of_a_page_runs_in_order_and_prints_what_the_page_shows(page, elsewhere, request):
    if "ilba.spark" in page.read_text("utf-8") and a_spark_runs_here():
        again = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", request.node.nodeid]
        done = subprocess.run(again, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
        return
    if reads_shared(page):
        if not (SHARED / "data").is_dir():
            pytest.skip(f"{name_of(page)} reads the reference data, which is not here; set ILBA_SHARED to its folder")
        os.environ["ILBA_SHARED"] = str(SHARED.resolve())  # `elsewhere` puts it back
    namespace: dict[str, object] = {"__name__": "__main__"}
    printed = None
    for block in blocks_of(page):
        where = f"{name_of(page)}:{block.line}"
        if block.language == "python":
            printed = run_python(block, namespace, where)
            continue
        if block.language == "text" and block.follows and printed is not None:
            assert plain(printed) == plain(block.text), where
        elif block.language == "sh" and (script := SCRIPT.match(block.text)):
            Path(script[1]).write_text(block.text, encoding="utf-8")
        elif block.language == "console":
            for command, shown in commands_in(block.text):
                command = INSTEAD.get(command, command)
                if command.endswith("--accept-conflict ID"):  # the command before printed it
                    command = command.removesuffix("ID") + ACCEPT.findall(done.stdout)[-1]
                if command.split()[0] in NOT_RUN:
                    continue
                done = run_console(command)
                assert done.returncode == 0, f"{where}: $ {command}\n{done.stdout}"
                assert not shown or fits(shown, done.stdout), f"{where}: $ {command}\n{done.stdout}"
        printed = None


def test_every_page_of_the_first_three_shelves_has_something_to_run():
    shelves = [p for p in PAGES if p.parent.name in ("learn", "do", "understand")]
    assert len(shelves) >= 7
    assert [name_of(p) for p in shelves if p not in RUNNABLE] == []


def test_only_three_tutorials_need_data_that_is_not_in_the_package():
    assert [name_of(p) for p in RUNNABLE if reads_shared(p)] == [
        "docs/learn/establishments.md",
        "docs/learn/grid-squares.md",
        "docs/learn/survey.md",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in RUNNABLE if reads_shared(page)], ids=name_of)
def test_these_tutorials_run_with_what_a_clone_has(page, elsewhere, monkeypatch):
    if page.stem != "survey" and (SHARED / "data").is_dir() and not LARGE:
        pytest.skip(f"{name_of(page)} runs with the reference data here; ILBA_EXAMPLES=100 runs it with stand-ins, too")
    monkeypatch.setenv("ILBA_SHARED", "nowhere")
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks_of(page):
        if block.language == "python":
            run_python(block, namespace, f"{name_of(page)}:{block.line}")
    assert Path("stand-ins", "data").is_dir()


def pictures_of(page: Path) -> list[Path]:
    return [(page.parent / name).resolve() for name in re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", page.read_text("utf-8"))]


def test_every_picture_is_small_described_and_drawn_by_a_script_of_this_repository():
    scripts = "".join(p.read_text("utf-8") for p in [*DOCS.glob("figures/*.py"), *(ROOT / "bench").glob("*.py")])
    pages = [*PAGES, ROOT / "ARCHITECTURE.md"]
    shown = {picture for page in pages for picture in pictures_of(page)}
    assert len(shown) >= 12
    for picture in shown:
        assert picture.stat().st_size < 200_000, picture.name
        # bench/suite.py names the page, and draws the picture of the same name
        assert picture.name in scripts or picture.with_suffix(".md").name in scripts, picture.name
    drawn = {p.resolve() for end in ("svg", "png") for p in DOCS.rglob(f"*.{end}") if "_build" not in p.parts}
    assert drawn <= shown
    assert [page.name for page in pages if "![](" in page.read_text("utf-8")] == []


def test_the_checks_of_this_file_see_a_wrong_output():
    assert fits("a\n...\nz", "a\nb\nc\nz\n")
    assert fits("saved as '.../k'", "saved as '/tmp/k'")
    assert not fits("a\n...\nz", "a\nb\n")
    assert not fits("12 rows", "13 rows")
    assert commands_in("$ a \\\n  b\nout\n$ c\n") == [("a   b", "out\n"), ("c", "")]


def vectors() -> list[tuple[ilba.Secret, dict[str, str | int | None], int, int, int]]:
    """The rows of the table of test vectors in docs/look-up/draws.md."""
    page = (DOCS / "look-up/draws.md").read_text("utf-8")
    keys = dict(re.findall(r"^\| (\w+) \| `(ilba-secret-1:[0-9a-f]{64})` \|$", page, re.MULTILINE))
    rows = re.findall(r"^\| (\w+) \| `(\{.*?\})` \| (\d+) \| (\d+) \| (\d+) \|$", page, re.MULTILINE)
    return [
        (ilba.Secret.from_text(keys[key]), json.loads(labels), int(count), int(draw), int(masked))
        for key, labels, count, draw, masked in rows
    ]


def test_the_test_vectors_on_the_page_are_what_the_package_draws():
    rows = vectors()
    assert len(rows) >= 8
    for secret, labels, count, draw, masked in rows:
        columns = {column: ([label], np.array([0])) for column, label in labels.items()}
        made = draws(secret, columns, [count])
        assert (int(made[0]), int(masking.sca([count], made, K=5)[0])) == (draw, masked), labels


def test_the_independent_implementation_on_the_page_gives_the_test_vectors(elsewhere):
    namespace: dict[str, object] = {}
    block = next(b for b in blocks_of(DOCS / "look-up/draws.md") if b.language == "python" and "def draw(" in b.text)
    assert "ilba" not in re.sub(r"ilba-(prf|secret)-1", "", block.text)
    run_python(block, namespace, "draws.md")
    for secret, labels, count, draw, _ in vectors():
        assert namespace["draw"](secret.to_bytes(), labels, count) == draw, labels


def anchors_of(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_line_of_prose_is_longer_than_120_characters(page):
    prose = FENCE.sub(lambda block: "\n" * block[0].count("\n"), page.read_text("utf-8")).splitlines()
    wide = [number for number, line in enumerate(prose, 1) if len(line) > 120 and not line.lstrip().startswith("|")]
    assert wide == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_relative_link_leads_to_a_page_and_a_heading(page):
    text = re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text("utf-8")))
    dead = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in anchors_of(file)):
            dead.append(target)
    assert dead == []


class Assets(HTMLParser):
    """What a page makes a browser fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag in ("script", "img", "iframe", "source"):
            self.found.append(given.get("src") or "")
        if tag == "link":
            self.found.append(given.get("href") or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "html"
    (folder / "0.9.12").mkdir(parents=True)
    (folder / "0.9.12" / "index.html").write_text("<p>an earlier version</p>", "utf-8")
    done = subprocess.run([sys.executable, str(ROOT / "tools/site.py"), str(folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


@pytest.mark.slow
def test_the_site_keeps_earlier_versions_and_leads_to_the_newest(site):
    front = site.parent
    assert site.name == ilba.__version__
    assert (front / "0.9.12" / "index.html").read_text("utf-8") == "<p>an earlier version</p>"
    listed = re.findall(r'"([\d.]+)"', (front / "versions.js").read_text("utf-8"))
    assert sorted(listed) == sorted(["0.9.12", ilba.__version__])
    assert f"{listed[0]}/index.html" in (front / "index.html").read_text("utf-8")
    page = (site / "look-up" / "stability.html").read_text("utf-8")
    assert (site / "look-up" / re.search(r'src="([^"]*versions\.js)"', page)[1]).resolve() == front / "versions.js"


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_holds_every_page(site):
    made = {page.relative_to(site).with_suffix("").as_posix() for page in site.rglob("*.html")}
    assert {p.relative_to(DOCS).with_suffix("").as_posix() for p in PAGES[1:]} <= made


@pytest.mark.slow
def test_the_site_fetches_nothing_from_outside(site):
    assets = Assets()
    for page in site.rglob("*.html"):
        assets.feed(page.read_text("utf-8"))
    assert len(assets.found) > 20
    assert [url for url in assets.found if re.match(r"(https?:)?//", url)] == []
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*['\"]?(https?:)?//", sheet.read_text("utf-8")), sheet.name


@pytest.mark.slow
def test_the_command_line_page_shows_every_option_of_every_command(site):
    page = (site / "look-up/command-line.html").read_text("utf-8")
    sections = dict(re.findall(r'<section id="(ilba[\w-]*)">(.*?)</section>', page, re.DOTALL))
    leaves = {f"ilba-{name}": command for name, command in commands.commands.items()}
    for group in ("secret", "ledger"):
        leaves |= {f"ilba-{group}-{name}": command for name, command in commands.commands[group].commands.items()}
    assert sections.keys() == {"ilba", *leaves}
    for name, command in leaves.items():
        text = html.unescape(re.sub(r"<[^>]+>", "", sections[name]))
        assert [o for p in command.params for o in p.opts if o.startswith("-") and o not in text] == [], name


def test_the_figures_on_the_page_of_speed_are_those_that_were_recorded():
    import json
    import sys

    sys.path.insert(0, str(ROOT / "bench"))
    from suite import as_table

    newest = max((ROOT / "bench" / "results").glob("20*.json"))  # one for each day; others are of other commands
    page = (ROOT / "docs" / "understand" / "speed.md").read_text(encoding="utf-8")
    assert as_table(json.loads(newest.read_text(encoding="utf-8"))) in page
