"""The command line, run as a user runs it: a process of its own, real files, real exit codes."""

from __future__ import annotations

import json
import os
import pty
import re
import resource
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import httpx
import openpyxl
import polars as pl
import pytest

import ilba
from ilba.output.compare import side_by_side
from support.commands import run, run_alone
from support.people import HKEY, KEY, reformed
from support.places import GOLDEN
from support.serving import serving

BUILD = [
    "build",
    "p.csv",
    "--hkey",
    "region,town,block",
    "--key",
    "sex,age,job",
    "--secret",
    "k",
    "--schema",
    "age=int",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, people, secret):
    folder = tmp_path_factory.mktemp("cli")
    people.write_csv(folder / "p.csv")
    secret.to_file(folder / "k")
    run_alone(*BUILD, cwd=folder)
    secret.to_file(folder / "full_tb.secret")
    return folder


@pytest.fixture(autouse=True)
def _nothing_is_published_yet(folder):
    """The ledger of each test is new, so no store may say that it is in an older one."""
    for file in folder.glob("*.published.json"):
        file.unlink()


def store_of_its_own(folder, name):
    """A copy of the store with its secret, from which nothing was published yet."""
    shutil.copy(folder / "full_tb.secret", folder / f"{name}.secret")
    return shutil.copy(folder / "full_tb.parquet", folder / f"{name}.parquet").name


@pytest.mark.long
def test_build_says_what_was_written_and_what_to_type_next(folder, finest, tmp_path):
    done = run(*BUILD, "--out", "again.parquet", cwd=folder)
    assert "again.parquet: 646 cells, K=5 (confidential)" in done.stdout
    assert "levels of area: 1 region > 2 town > 3 block" in done.stdout
    assert done.stderr == ""
    following = re.search(r"Next: ilba (.*)", done.stdout).group(1).split()
    run(*following, cwd=folder)
    assert ilba.open_store(folder / "again.parquet").frame.equals(finest.frame)


@pytest.mark.slow
def test_build_answers_in_json(folder):
    answer = json.loads(run_alone(*BUILD, "--json", cwd=folder).stdout)
    assert answer["store"] == "full_tb.parquet"
    assert answer["n_cells"] == 646
    assert answer["cells"] == "observed"
    assert answer["hierarchies"] == [{"name": "area", "columns": HKEY}]


@pytest.mark.slow
def test_build_without_a_secret_makes_one_and_says_so(folder, tmp_path):
    words = ["build", str(folder / "p.csv"), "--hkey", "region", "--key", "sex", "--out", "new.parquet"]
    assert "note: no secret was given" in run(*words, cwd=tmp_path).stderr
    assert stat.S_IMODE((tmp_path / "new.secret").stat().st_mode) == 0o600
    assert "note: using the secret" in run(*words, cwd=tmp_path).stderr
    assert "note: using the secret" in run(*words[:-1], "another.parquet", cwd=tmp_path).stderr
    assert [file.name for file in tmp_path.glob("*.secret")] == ["new.secret"]


@pytest.mark.slow
def test_build_takes_the_secret_from_the_environment(folder, finest):
    words = [w for w in BUILD if w not in ("--secret", "k")]
    run_alone(*words, "--out", "env.parquet", cwd=folder, env={"ILBA_SECRET": str(folder / "k")})
    assert not (folder / "env.secret").exists()
    assert ilba.open_store(folder / "env.parquet").frame.equals(finest.frame)


@pytest.mark.long
def test_a_table_in_a_pipe_is_csv(folder, finest):
    done = run("table", "full_tb.parquet", "--level", "town", "--key", "sex,age", cwd=folder)
    assert done.stdout == finest.table("town", ["sex", "age"]).frame.write_csv(quote_style="non_numeric")


@pytest.mark.slow
def test_a_public_table_obeys_the_rules_of_a_release(folder, finest, tmp_path, monkeypatch):
    shutil.copy(folder / "full_tb.parquet", tmp_path / "s.parquet")
    shutil.copy(folder / "k", tmp_path / "s.secret")
    asked = ["table", "s.parquet", "--level", "2", "--key", "sex,age", "--public"]
    public = run(*asked, cwd=tmp_path)  # by itself this table is certified
    assert not (tmp_path / "s.published.json").exists(), "to look is not to publish"
    run(*asked, "--out", "t.csv", cwd=tmp_path)
    assert public.stdout == finest.table(2, ["sex", "age"]).public().write_csv(quote_style="non_numeric")
    assert "does not go with --public" in run(*asked, "--loss", "l.csv", cwd=tmp_path, code=2).stderr
    release = ["release", "s.parquet", "--secret", str(folder / "k"), "--max-keys", "1"]
    refused = run(*release, "--out", "r", cwd=tmp_path, code=2).stderr
    assert "was published with method='ilba'" in refused
    assert "accept_conflict=" in refused
    (tmp_path / "s.published.json").unlink()
    monkeypatch.setenv("ILBA_LEDGER", str(tmp_path / "other.ledger"))
    run(*release, "--out", "r", cwd=tmp_path)
    shown = run(*asked, cwd=tmp_path).stdout
    chosen = ilba.open_store(tmp_path / "s.parquet").published().table(2, ["sex", "age"]).public()
    assert shown == chosen.write_csv(quote_style="non_numeric")
    (tmp_path / "s.published.json").unlink()
    monkeypatch.setenv("ILBA_LEDGER", str(tmp_path / "third.ledger"))
    run(*release[:-2], "--method", "ilba", "--accept-risk", "--out", "all", cwd=tmp_path)
    assert "the audit does not find these tables safe" in run(*asked, cwd=tmp_path, code=1).stderr
    assert run(*asked, "--accept-risk", cwd=tmp_path).stdout == public.stdout


@pytest.mark.long
def test_a_public_table_takes_the_secret_that_its_error_asks_for(tmp_path, monkeypatch):
    monkeypatch.delenv("ILBA_LEDGER")
    counts = pl.DataFrame({"town": ["a", "b"], "N": [70, 80], "N_masked": [70, 80]})  # no secret drew these
    ilba.FinestTable.from_counts(counts, ["town"], []).save(tmp_path / "s.parquet")
    asked = ["table", "s.parquet", "--level", "1", "--public", "--out", "t.csv"]
    assert "(--secret agency.secret)" in run(*asked, cwd=tmp_path, code=1).stderr
    (tmp_path / "kept").mkdir()
    run("secret", "new", "kept/agency.secret", cwd=tmp_path)
    run(*asked, "--secret", "kept/agency.secret", cwd=tmp_path)
    assert (tmp_path / "t.csv").read_text() == '"town","N_masked"\n"a",70\n"b",80\n'
    assert len(ilba.Ledger(tmp_path / "kept" / "agency.ledger").publications) == 1


@pytest.mark.slow
@pytest.mark.parametrize("method", ["rounding:5", "cell-key:D=2,V=1", "small-count-rounding"])
def test_a_release_by_any_method_is_judged_with_the_secret_of_its_store(folder, tmp_path, method):
    shutil.copy(folder / "full_tb.parquet", tmp_path / "s.parquet")
    (tmp_path / "kept").mkdir()
    secret = ["--secret", str(shutil.copy(folder / "k", tmp_path / "kept" / "agency.secret"))]
    tables = ["--max-keys", "1", "--levels", "town"]
    run("release", "s.parquet", *secret, *tables, "--method", method, "--accept-risk", "--out", "r", cwd=tmp_path)
    of_release = run("audit", "r", "--store", "s.parquet", *secret, "--json", cwd=tmp_path)
    of_store = run("audit", "s.parquet", *secret, *tables, "--method", method, "--json", cwd=tmp_path)
    proven = [json.loads(one.stdout)["cells_disclosed"] for one in (of_release, of_store)]
    assert proven[0] == proven[1]
    proof = [*secret, "--attacker", "proof", "--json"]
    measured = [
        run("risk", "r", "--store", "s.parquet", *proof, cwd=tmp_path),
        run("risk", "s.parquet", *tables, "--method", method, *proof, cwd=tmp_path),
    ]
    assert [json.loads(one.stdout)["attackers"][0]["proven"] for one in measured] == proven


def test_a_table_is_written_privately_with_its_loss(folder, finest):
    done = run("table", "full_tb.parquet", "--level", "2", "--out", "t.csv", "--loss", "l.csv", cwd=folder)
    assert "wrote t.csv" in done.stderr
    written = pl.read_csv(folder / "t.csv", schema_overrides=dict.fromkeys(HKEY, pl.String))
    assert written.equals(finest.table(2).frame)
    assert pl.read_csv(folder / "l.csv")["Loss"][-1] == "Total"
    assert stat.S_IMODE((folder / "t.csv").stat().st_mode) == 0o600


@pytest.mark.slow
def test_the_ending_of_the_file_tells_the_format_of_a_table(folder, finest):
    words = ["table", "full_tb.parquet", "--level", "town", "--key", "sex"]
    frame = finest.table("town", "sex").frame
    run(*words, "--out", "t.xlsx", "--loss", "t-loss.csv", cwd=folder)
    sheet = openpyxl.load_workbook(folder / "t.xlsx").worksheets[0]
    rows = [row for row in sheet.iter_rows(values_only=True) if isinstance(row[-1], int)]
    assert rows == frame.rows()
    assert "CONFIDENTIAL" in "".join(str(row[0]) for row in sheet.iter_rows(values_only=True))
    assert (folder / "t-loss.csv").exists()
    run(*words, "--out", "t.parquet", cwd=folder)
    assert pl.read_parquet(folder / "t.parquet").equals(frame)
    for name in ("t.xlsx", "t.parquet"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
    assert ".csv, .xlsx, .parquet" in run(*words, "--out", "t.xls", cwd=folder, code=2).stderr
    assert not (folder / "t.xls").exists()
    assert "would destroy" in run(*words, "--out", "full_tb.parquet", cwd=folder, code=2).stderr


def test_a_table_answers_in_json_and_a_public_one_without_flags_or_loss(folder, finest):
    answer = json.loads(run("table", "full_tb.parquet", "--level", "1", "--key", "job", "--json", cwd=folder).stdout)
    assert [tuple(row) for row in answer["rows"]] == finest.table(1, "job").frame.rows()
    assert answer["loss"][-1]["Loss"] == "Total"
    public = json.loads(run("table", "full_tb.parquet", "--level", "1", "--public", "--json", cwd=folder).stdout)
    assert set(public) == {"columns", "rows", "mask_thr"}
    assert public["columns"] == ["region", "N_masked"]


@pytest.mark.slow
def test_a_cell_is_the_tables_entry(folder, finest):
    words = ["cell", "full_tb.parquet", "--level", "2", "--hkey-value", "01,0101", "--key", "sex,job"]
    expected = finest.cell(2, ["sex", "job"], ["01", "0101"], ["f", 'the "other", job'])
    done = run(*words, "--key-value", 'f,"the ""other"", job"', cwd=folder)
    assert done.stdout == f"{expected}\n"
    answer = json.loads(run(*words, "--key-value", 'f,"the ""other"", job"', "--json", cwd=folder).stdout)
    assert answer == {"N_masked": expected}


def test_a_cell_that_does_not_occur_is_0_with_a_note(folder):
    done = run("cell", "full_tb.parquet", "--level", "2", "--hkey-value", "01,0203", cwd=folder)
    assert (done.stdout, done.stderr) == ("0\n", "note: this combination does not occur (confidential).\n")


@pytest.mark.slow
def test_several_hierarchies_are_named(folder):
    run(
        "build",
        "p.csv",
        "--hkey",
        "area=region,town",
        "--hkey",
        "work=job",
        "--key",
        "sex",
        "--secret",
        "k",
        "--out",
        "two.parquet",
        cwd=folder,
    )
    done = run("table", "two.parquet", "--level", "area=1,work=job", cwd=folder)
    assert done.stdout.startswith('"region","job","N_masked"')
    cell = run(
        "cell",
        "two.parquet",
        "--level",
        "area=1,work=1",
        "--hkey-value",
        "area=01",
        "--hkey-value",
        "work=none",
        cwd=folder,
    )
    assert f'"01","none",{cell.stdout.strip()},' in done.stdout


@pytest.mark.slow
def test_a_missing_label_and_one_with_an_equals_sign_can_be_asked_for(folder):
    pl.DataFrame({"t": ["x=y", "b", None] * 9, "s": [1, None, 2] * 9}).write_parquet(folder / "odd.parquet")
    run(
        "build",
        "odd.parquet",
        "--hkey",
        "t",
        "--missing",
        "category",
        "--out",
        "o.parquet",
        "--secret",
        "k",
        cwd=folder,
    )
    assert run("cell", "o.parquet", "--level", "1", "--hkey-value", "x=y", cwd=folder).stdout == "9\n"
    words = ["cell", "o.parquet", "--level", "1", "--key", "s", "--hkey-value"]
    assert run(*words, "(missing)", "--key-value", "2", cwd=folder).stdout == "9\n"
    assert run(*words, "b", "--key-value", "(missing)", cwd=folder).stdout == "9\n"


@pytest.mark.slow
def test_convert_turns_a_store_into_csv_and_rds_into_a_store(folder, finest):
    run("convert", "full_tb.parquet", "full.csv", cwd=folder)
    assert pl.read_csv(folder / "full.csv", schema_overrides=dict.fromkeys(HKEY, pl.String)).equals(finest.frame)
    assert stat.S_IMODE((folder / "full.csv").stat().st_mode) == 0o600
    rds = GOLDEN / "us_acs" / "full_tb.rds"
    run("convert", str(rds), "r.parquet", cwd=folder)
    assert ilba.open_store(folder / "r.parquet").frame.equals(ilba.read_rds(rds).frame)
    assert "cannot convert" in run("convert", "full_tb.parquet", "x.docx", cwd=folder, code=2).stderr


@pytest.mark.slow
def test_the_people_and_the_year_of_a_file_of_r_are_named_when_it_is_converted_or_adopted(folder):
    rds, named = str(GOLDEN / "us_acs" / "full_tb.rds"), ["--population", "acs", "--wave", "2019"]
    run("convert", rds, "named.parquet", *named, cwd=folder)
    assert ilba.open_store(folder / "named.parquet").population == ilba.Population("acs", "2019")
    run("secret", "new", "acs.secret", cwd=folder)
    book = ["--secret", "acs.secret", "--ledger", "acs.ledger"]
    run("ledger", "adopt", "--tables", "STATE", "--store", rds, *named, *book, cwd=folder)
    assert [(one.population, one.wave) for one in ilba.Ledger(folder / "acs.ledger").publications] == [("acs", "2019")]
    assert "are for R's file" in run("convert", "full_tb.parquet", "x.csv", *named, cwd=folder, code=2).stderr


def test_secret_new_makes_a_private_file_and_never_overwrites(folder):
    done = run("secret", "new", "fresh", cwd=folder)
    assert stat.S_IMODE((folder / "fresh").stat().st_mode) == 0o600
    text = (folder / "fresh").read_text()
    assert text.removeprefix("ilba-secret-1:")[:64] not in done.stdout
    assert "exists and was not changed" in run("secret", "new", "fresh", cwd=folder, code=2).stderr
    assert (folder / "fresh").read_text() == text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["bild"], "no such command 'bild'. Did you mean 'build'?"),
        (["secret", "nwe"], "Did you mean 'new'?"),
        (["build", "p.csv", "--hkye", "region"], "'--hkey'"),
        (["build", "p.csv"], "missing option '--hkey'"),
        (["build", "pp.csv", "--hkey", "region"], "there is no file 'pp.csv'. Did you mean 'p.csv'?"),
        (["build", "p.csv", "--hkey", "regio"], "Did you mean 'region'?"),
        (["build", "p.csv", "--hkey", "region", "--mask-thr", "2"], "mask_thr=2"),
        (["build", "p.csv", "--hkey", "region", "--mask-thr", "x"], "'x' is not a valid integer"),
        (["build", "p.csv", "--hkey", "region", "--hkey-rank", "a"], "not a number"),
        (["build", "p.csv", "--hkey", "a=region", "--hkey", "town"], "some without"),
        (["build", "p.csv", "--hkey", "region", "--secret", "nokey"], "cannot be read"),
        (["build", "p.csv", "--hkey", "region", "--out", "no/x.parquet"], "there is no folder"),
        (["table", "full_tb.parquet", "--level", "9"], "Its levels are 0 (none), 1 region"),
        (["table", "full_tb.parquet", "--level", "blok"], "Did you mean 'block'?"),
        (["table", "full_tb.parquet", "--key", "sxe"], "Did you mean 'sex'?"),
        (["cell", "full_tb.parquet", "--level", "1", "--hkey-value", "77"], "'77' is not a value of 'region'"),
    ],
)
def test_wrong_use_exits_with_2_and_names_the_fix(folder, words, says):
    before = {p.name: p.stat().st_mtime_ns for p in folder.iterdir()}
    done = run(*words, cwd=folder, code=2)
    assert says in done.stderr
    assert {p.name: p.stat().st_mtime_ns for p in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["build", "p.csv", "--hkey", "region", "--out", "p.csv"], 2, "exists and is not a store; this would"),
        (["build", "p.csv", "--hkey", "region", "--out", "no/store"], 2, "there is no folder"),
        (["build", "p.csv", "--hkey", "region", "--secret", "nokey"], 2, "cannot be read"),
        (["table", "none", "--level", "1"], 1, "there is no store 'none'"),
        (["--strict", "build", "p.csv", "--hkey", "region"], 1, "no secret was given, so a new one was made"),
        (["build", "p.csv", "--hkey", "region", "--out", "s3a://b/store"], 2, "beside a URL none is kept"),
    ],
)
def test_spark_does_not_start_for_what_is_wrong_without_it(words, code, says, tmp_path, monkeypatch):
    monkeypatch.delenv("ILBA_SECRET", raising=False)
    (tmp_path / "p.csv").write_text("region\n1\n")
    for module in ("making", "words"):
        monkeypatch.setattr(f"ilba.cli.{module}.session_of", lambda engine: pytest.fail("Spark was started"))
    assert says in run(*words, "--engine", "spark", cwd=tmp_path, code=code).stderr


@pytest.mark.slow
def test_a_file_that_is_no_store_exits_with_1(folder):
    assert "not a store" in run_alone("table", "p.csv", cwd=folder, code=1).stderr
    assert "cannot open" in run("table", "none.parquet", cwd=folder, code=1).stderr


@pytest.mark.slow
def test_every_command_has_an_example_in_its_help(folder):
    listed = run("--help", cwd=folder).stdout.partition("Commands:")[2]
    for name in re.findall(r"^  (\w+)", listed, re.M):
        command = [name, "new"] if name == "secret" else [name]
        assert f"ilba {' '.join(command)}" in run(*command, "--help", cwd=folder).stdout.partition("Example:")[2]
    assert ilba.__version__ in run("--version", cwd=folder).stdout


def on_a_terminal(*words: str, cwd) -> str:
    """What a person sees: the output of a command whose streams are a real pseudo-terminal."""
    main, side = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen(
        [sys.executable, "-m", "ilba", *words], cwd=cwd, stdout=side, stderr=side, stdin=side, env=env
    )
    os.close(side)
    seen = b""
    while True:
        try:
            piece = os.read(main, 65536)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    assert process.wait() == 0
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen.decode())


@pytest.mark.slow
def test_a_terminal_shows_progress_the_first_rows_and_the_loss(folder):
    seen = on_a_terminal(*BUILD, "--out", "tty.parquet", cwd=folder)
    assert "0:00:00" in seen
    table = on_a_terminal("table", "full_tb.parquet", "--level", "3", "--key", "sex", "--rows", "3", cwd=folder)
    assert "33 more rows" in table
    assert "Information loss" in table
    assert "Total" in table
    public = on_a_terminal("table", "full_tb.parquet", "--level", "1", "--public", cwd=folder)
    assert "type1" not in public
    assert "Information loss" not in public
    assert KEY[0] not in public


@pytest.mark.slow
def test_the_demo_runs_twice_in_a_folder_of_its_own_and_its_next_lines_work(folder):
    first = run("demo", "--out", "tour", "--records", "4000", cwd=folder)
    assert {p.name for p in (folder / "tour").iterdir()} == {
        "full_tb.parquet",
        "full_tb.secret",
        "agg_tb.csv",
        "info_loss.csv",
        "release",
        "risk.svg",
    }
    again = on_a_terminal("demo", "--out", "tour", "--records", "4000", cwd=folder)
    assert "generating" in again, "a bar with its stages"
    assert "--key-value 2,4,21" in again
    assert "Total" in first.stdout
    *lines, page = re.findall(r"^  ilba (.*)$", first.stdout, re.M)
    for line in lines:
        run(*line.split(), cwd=folder)
    assert page == "serve tour/release"
    with serving(folder / page.split()[1]) as server:
        assert "<!doctype html>" in httpx.get(server.address).text.lower()
        place = httpx.get(f"{server.address}place/release/LA1/01?lang=ko").text
        assert re.search(r'"single">[\d,]+ 명<', place), "a count says what it counts, in each language of the labels"
    cell = re.search(r"^  ilba (cell .*)$", first.stdout, re.M).group(1)
    said = re.search(r"in 010407: (\d+)", first.stdout).group(1)
    assert f"in 010407: {said}" in again, "the same numbers"
    assert run(*cell.split(), cwd=folder).stdout.strip() == said


@pytest.mark.slow
def test_a_release_is_published_from_the_command_line(folder):
    (folder / "codes.csv").write_text("variable,code,label_en,label_ko\nsex,f,Female,여자\nsex,m,Male,남자\n")
    shape = {"type": "FeatureCollection", "features": []}
    (folder / "towns.geojson").write_text(json.dumps(shape))
    words = ["release", "full_tb.parquet", "--out", "pub", "--labels", "codes.csv", "--geometry", "town=towns.geojson"]
    done = run(*words, "--max-keys", "1", "--levels", "town", "--title", "Towns", cwd=folder)
    assert "pub: 4 tables by controlled, public" in done.stdout
    assert "confidential" in done.stdout
    release = ilba.Release(folder / "pub")
    release.verify()
    assert release.manifest["title"] == "Towns"
    assert release.geometry("town") == shape
    answer = json.loads(run(*words, "--tables", "town.sex,all", "--json", cwd=folder).stdout)
    assert answer == {"confidential": True, "release": "pub", "method": "controlled", "tables": ["town.sex", "all"]}
    assert "Did you mean 'sex'" in run(*words, "--tables", "town.sxe", cwd=folder, code=2).stderr
    assert list(ilba.Release(folder / "pub").tables) == ["town.sex", "all"]


def test_a_cube_is_written_from_the_command_line(folder, finest):
    assert "cube: 8 tables" in run("cube", "full_tb.parquet", "--levels", "town", cwd=folder).stdout
    assert pl.read_parquet(folder / "cube" / "town.sex.parquet").equals(finest.table("town", "sex").frame)


@pytest.mark.slow
def test_tables_are_exported_and_a_report_is_written_from_the_command_line(folder):
    run("release", "full_tb.parquet", "--out", "shop", "--max-keys", "1", cwd=folder)
    for kind, file in {
        "csv": "town.sex.csv",
        "xlsx": "town.sex.xlsx",
        "px": "town.sex.px",
        "json-stat": "town.sex.json",
    }.items():
        done = run("export", "shop", "--table", "town.sex", "--format", kind, cwd=folder)
        assert f"{file}: public" in done.stdout
        assert (folder / file).stat().st_size > 100
    assert "town.sex.px: public" in run("export", "shop", "town.sex", "--format", "px", cwd=folder).stdout
    near = run("export", "shop", "town.sx", "--format", "px", cwd=folder, code=2).stderr
    assert "name a table with --table. Did you mean 'town.sex'? This release has all, " in near
    files = json.loads(run("export", "shop", "--table", "all", "--format", "sdmx-csv", "--json", cwd=folder).stdout)
    assert len(files["files"]) == 2
    assert (
        "Did you mean 'xlsx'" in run("export", "shop", "--table", "all", "--format", "xls", cwd=folder, code=2).stderr
    )
    assert (
        "ilba release"
        in run("export", "full_tb.parquet", "--table", "all", "--format", "px", cwd=folder, code=1).stderr
    )
    told = run("report", "full_tb.parquet", "--max-keys", "1", "--levels", "town", cwd=folder).stdout
    assert told == "report.html: confidential\n"  # the published masks, not those of iLBA
    assert "<dd>controlled</dd>" in (folder / "report.html").read_text("utf-8")
    assert stat.S_IMODE((folder / "report.html").stat().st_mode) == 0o600


@pytest.mark.slow
def test_the_table_of_a_series_may_follow_its_releases(tmp_path):
    reformed(tmp_path)
    asked = ("export", "2025", "2026", "town.sex.time", "--format", "csv")
    assert "town.sex.time.csv: public" in run(*asked, cwd=tmp_path).stdout
    told = run("export", "2025", "2026", "town.sx.time", "--format", "csv", cwd=tmp_path, code=2).stderr
    assert "name a table with --table. Did you mean 'town.sex.time'? This release has all.time, " in told


@pytest.mark.slow
def test_an_export_has_the_readable_name_of_its_table_and_tells_of_one_under_the_earlier_name(tmp_path, secret):
    people = pl.DataFrame({"Δήμος": ["α", "β"] * 40, "Φύλο": ["Θ", "Θ", "Α", "Α"] * 20})
    ilba.build(people, ["Δήμος"], ["Φύλο"], secret=secret).release(tmp_path / "r", ledger=False)
    done = run("export", "r", "--table", "Δήμος.Φύλο", "--format", "px", cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("Δήμος.Φύλο.px: public\n", "")
    earlier = f"{quote('Δήμος.Φύλο')}.px"
    (tmp_path / "Δήμος.Φύλο.px").rename(tmp_path / earlier)
    done = run("export", "r", quote("Δήμος.Φύλο"), "--format", "px", cwd=tmp_path)
    assert done.stdout == "Δήμος.Φύλο.px: public\n"
    assert f"{earlier!r} has this table under the name that earlier versions gave it" in done.stderr
    told = run("export", "r", "--format", "px", cwd=tmp_path, code=2).stderr
    assert "This release has all, all.Φύλο, Δήμος, Δήμος.Φύλο." in told


@pytest.mark.slow
def test_the_risk_of_named_attackers_is_told_and_written_for_its_owner(folder):
    few = ("risk", "full_tb.parquet", "--max-keys", "2")
    told = run(*few, "--attacker", "proof", "--attacker", "attribute", "--out", "risk.html", cwd=folder).stdout
    assert "confidential" in told
    assert "proof: has every released table" in told
    assert stat.S_IMODE((folder / "risk.html").stat().st_mode) == 0o600
    true = ilba.open_store(folder / "full_tb.parquet").frame.group_by("region", "town", "sex").agg(pl.col("N").sum())
    true.write_csv(folder / "register.csv")
    asked = (*few, "--register", "town.sex=register.csv", "--unknown", "2", "--json")
    report = json.loads(run(*asked, cwd=folder).stdout)
    assert report["confidential"] is True
    assert [row["attacker"] for row in report["attackers"]] == [
        *("proof", "outsider", "neighbour", "insider", "attribute"),
        *("insider, 2 people unknown", "register town.sex"),
    ]
    sampled = ("risk", "full_tb.parquet", "--keys", "sex", "--attacker", "outsider", "--cells", "40", "--json")
    sample = json.loads(run(*sampled, cwd=folder).stdout)["sample"]
    assert sample is None or sample["areas"] < sample["of"]
    assert "Did you mean 'outsider'" in run(*few, "--attacker", "outsidr", cwd=folder, code=2).stderr
    assert "names no file" in run(*few, "--register", "town.sex", cwd=folder, code=2).stderr
    assert "--store goes with a release" in run(*few, "--store", "full_tb.parquet", cwd=folder, code=2).stderr


@pytest.mark.slow
def test_choosing_k_puts_what_each_attacker_learns_beside_the_loss(folder):
    words = ["choose-k", "full_tb.parquet", "--mask-thr", "3", "--mask-thr", "5", "--method", "ilba", "--secret", "k"]
    words += ["--attacker", "insider", "--attacker", "attribute"]
    files = ["--out", "choice.html", "--chart", "choice.svg"]
    rows = json.loads(run(*words, *files, "--json", cwd=folder).stdout)
    assert [(row["method"], row["K"]) for row in rows] == [("ilba", 3), ("ilba", 5)]
    assert all(0 <= row["insider"] <= 1 and row["insider"] >= row["provable"] for row in rows)
    assert all(row["groups"] >= 0 and row["mean_loss"] > 0 for row in rows)
    assert (folder / "choice.svg").read_text().startswith("<svg")
    page = (folder / "choice.html").read_text()
    assert "<svg" in page
    assert "knows the true count of every finest cell except one" in page
    assert f"{rows[1]['insider'] * 100:.2f}" in page
    for file in ("choice.svg", "choice.html"):
        assert stat.S_IMODE((folder / file).stat().st_mode) == 0o600
    done = run(*words, cwd=folder)
    told = done.stdout
    assert "insider %" in told
    assert "groups" in told
    assert "confidential" in told
    assert "finest cells with a true count in 1..K-1, so it grows with K. Shares are of these cells" in " ".join(
        told.split()
    )
    assert re.search(r"^the first of 2 took \d+ s; the others take about \d+ s$", done.stderr, re.MULTILINE)
    assert "the others take" not in run(*words, "--json", cwd=folder).stderr
    assert "bounds go with controlled" in run(*words, "--bound", "9", cwd=folder, code=2).stderr


@pytest.mark.slow
def test_an_audit_attacks_a_store_and_a_release(folder, tmp_path, audited):
    report = json.loads(run("audit", "full_tb.parquet", "--json", cwd=folder).stdout)
    assert report["cells_disclosed"] == audited.cells_disclosed > 0
    assert "Not safe" in run("audit", "full_tb.parquet", "--out", "audit.html", cwd=folder).stdout
    assert stat.S_IMODE((folder / "audit.html").stat().st_mode) == 0o600
    store = store_of_its_own(folder, "audited")
    run("release", store, "--out", "all", "--method", "ilba", "--accept-risk", cwd=folder)
    with_store = json.loads(run("audit", "all", "--store", "full_tb.parquet", "--json", cwd=folder).stdout)
    assert with_store["cells_disclosed"] == audited.cells_disclosed
    assert "leave out" in run("audit", "all", "--method", "ilba", cwd=folder, code=2).stderr
    run(
        "build",
        "p.csv",
        "--hkey",
        "region,town,block",
        "--key",
        "sex,age,job",
        "--schema",
        "age=int",
        "--out",
        str(tmp_path / "x.parquet"),
        cwd=folder,
    )
    other = str(tmp_path / "x.parquet")  # with a secret of its own
    assert "not made from this store" in run("audit", "all", "--store", other, cwd=folder, code=2).stderr


@pytest.mark.slow
def test_a_release_that_is_not_safe_is_refused_where_safety_is_required(folder):
    words = ["release", store_of_its_own(folder, "unsafe"), "--out", "safe", "--method", "ilba"]
    done = run(*words, "--audit", "build-audit.html", cwd=folder, code=1)
    assert "nothing was published" in done.stderr
    assert "--accept-risk" in done.stderr
    assert not (folder / "safe").exists()
    assert (folder / "build-audit.html").exists()
    assert "contradict" in run(*words, "--require-safe", "--accept-risk", cwd=folder, code=2).stderr
    run(*words, "--tables", "all", "--require-safe", cwd=folder)
    assert (folder / "safe" / "release.json").exists()
    audit = ["audit", "full_tb.parquet", "--require-safe"]
    assert "does not find these tables safe" in run(*audit, cwd=folder, code=1).stderr
    run(*audit, "--tables", "all", cwd=folder)


@pytest.mark.slow
def test_what_if_compares_methods_and_thresholds_and_draws_risk_against_loss(folder):
    words = [
        "audit",
        "full_tb.parquet",
        "--method",
        "ilba",
        "--method",
        "sca-sums",
        "--mask-thr",
        "3",
        "--mask-thr",
        "5",
    ]
    rows = json.loads(
        run(*words, "--max-keys", "1", "--chart", "risk.svg", "--secret", "k", "--json", cwd=folder).stdout
    )
    assert [(row["method"], row["K"]) for row in rows] == [("ilba", 3), ("sca-sums", 3), ("ilba", 5), ("sca-sums", 5)]
    assert all(row["provable"] == 0 and row["safe"] for row in rows if row["method"] == "sca-sums")
    assert rows[2]["mean_loss"] < rows[3]["mean_loss"]
    drawn = (folder / "risk.svg").read_text()
    assert drawn.startswith("<svg")
    assert all(f">{row['method']} K={row['K']}<" in drawn for row in rows)
    printed = run(*words, "--max-keys", "1", "--secret", "k", cwd=folder).stdout
    assert "provable %" in printed


def test_a_comparison_fits_into_80_columns_and_cuts_no_word():
    methods = ["SCA on each aggregate", "iLBA, as R writes it", "iLBA, all cells of the grid", "controlled", "sums"] * 2
    measures = {"mean_loss": 1.234, "within_half_K %": 99.5, "adds_up": True, "aggregates": 123_456, "safe": False}
    rows = pl.DataFrame({"method": methods, **{name: [value] * 10 for name, value in measures.items()}})
    for width in (80, 60, 200):
        lines = side_by_side(rows, width).splitlines()
        assert max(map(len, lines)) <= width
        assert any(line.startswith("within half K %") for line in lines)
        assert sum(line.count("123456") for line in lines) == 10
        assert sum(line.split().count("controlled") for line in lines) == 2


@pytest.mark.slow
def test_a_measure_that_is_mistyped_is_refused_before_the_work_and_remarks_stand_below_chosen_ones(folder):
    words = ["compare", "full_tb.parquet", "--secret", "k", "--max-keys", "1", "--method", "noise:epsilon=1,fit=true"]
    wrong = run(*words, "--measure", "mean_lost", cwd=folder, code=2)
    assert "Did you mean 'mean_loss'" in wrong.stderr
    assert wrong.stdout == ""
    shown = run(*words, "--attacker", "insider", "--measure", "mean_loss,insider: likely", cwd=folder).stdout
    assert "fitted to each" in shown, "why a column is empty"
    legend = " ".join(run(*words, cwd=folder).stdout.split())
    assert "that the audit proves from these tables, a lower bound;" in legend
    assert "neighbour: proven" in " ".join(run("compare", "--help", cwd=folder).stdout.split())


@pytest.mark.slow
def test_methods_are_compared_and_a_controlled_release_is_safe(folder):
    words = ["compare", "full_tb.parquet", "--secret", "k", "--out", "compare.html", "--json"]
    rows = {row["method"]: row for row in json.loads(run(*words, cwd=folder).stdout)}
    assert len(rows) == 6
    page = (folder / "compare.html").read_text()
    assert '<th scope="col">provable %</th>' in page
    assert f"<td>{100 * rows['iLBA, as R writes it']['provable']:.2f}</td>" in page
    assert rows["controlled"]["safe"]
    assert rows["controlled"]["provable"] == 0
    assert rows["controlled"]["mean_loss"] < rows["sums of SCA"]["mean_loss"]
    assert 1 >= rows["iLBA, as R writes it"]["provable"] > rows["iLBA, observed cells"]["provable"] > 0
    assert stat.S_IMODE((folder / "compare.html").stat().st_mode) == 0o600
    assert "CONFIDENTIAL" in (folder / "compare.html").read_text()
    run(
        "release",
        "full_tb.parquet",
        "--method",
        "controlled",
        "--secret",
        "k",
        "--require-safe",
        "--out",
        "ctl",
        cwd=folder,
    )
    assert ilba.Release(folder / "ctl").additive


@pytest.mark.slow
def test_the_shell_completes_commands_and_options(tmp_path):
    def completed(*words):
        env = {**os.environ, "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
        done = subprocess.run(
            [Path(sys.executable).parent / "ilba"],
            env={**env, "_ILBA_COMPLETE": "bash_complete"},
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
        return [line.partition(",")[2] for line in done.stdout.splitlines()]

    assert completed("ilba", "re") == ["release", "report"]
    assert "--mask-thr" in completed("ilba", "build", "--m")


@pytest.mark.parametrize("words", [["plan"], ["secret", "new"]])
def test_an_option_of_all_commands_that_follows_one_is_told_its_place(words, tmp_path):
    told = run(*words, "--strict", cwd=tmp_path, code=2).stderr
    assert told.startswith("error: --strict goes before the command. Type: ")
    assert told.endswith(f" --strict {' '.join(words)}\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["buld"], "error: no such command 'buld'. Did you mean 'build'?"),
        (["build"], "error: missing argument 'DATA'. Type: "),
        (["table", "x", "--levl", "1"], "error: no such option '--levl'. Did you mean '--level'?"),
        (["cell", "x", "--where", "1"], "error: no such option '--where'. Type: "),
        (["build", "x", "--hkey", "a", "--mask-thr", "x"], "error: invalid value for '--mask-thr': 'x' is not a valid"),
        (["release", "x", "out"], "error: 'out' is one argument too many. To write there: --out out. Type: "),
        (["secret", "new", "a", "b"], "error: 'b' is one argument too many. Type: "),
        (["serve", "x", "--port", "99999"], "error: invalid value for '--port'"),
    ],
)
def test_wrong_use_is_one_line_that_begins_alike_everywhere(words, said, tmp_path):
    done = run(*words, cwd=tmp_path, code=2)
    assert done.stderr.startswith(said)
    assert done.stderr.rstrip().endswith("--help")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_strict_stops_where_there_would_be_a_note(folder, people, tmp_path):
    other = tmp_path / "other"
    run("secret", "new", str(other), cwd=folder)
    run(*BUILD, "--out", "strict.parquet", cwd=folder)
    before = (folder / "strict.parquet").read_bytes()
    words = [word if word != "k" else str(other) for word in BUILD]
    done = run_alone("--strict", *words, "--out", "strict.parquet", cwd=folder, code=1)
    assert "was masked with another secret" in done.stderr
    assert done.stderr.endswith("(--strict)\n")
    assert (folder / "strict.parquet").read_bytes() == before
    assert "note: the store at" in run(*words, "--out", "strict.parquet", cwd=folder).stderr


@pytest.mark.slow
def test_the_masks_of_the_last_time_are_kept_where_counts_did_not_change(folder, people, secret):
    nights = [people, pl.concat([people.tail(-30), people.head(30).with_columns(sex=pl.lit("m"))])]
    cells = []
    for number, night in enumerate(nights):
        finest = ilba.build(night, HKEY, ["sex", "age"], secret=secret, population="people", wave=str(number))
        finest.save(folder / "night.parquet")
        run("release", "night.parquet", "-o", f"night{number}", "--secret", "k", cwd=folder)
        shown = ilba.Release(folder / f"night{number}").table("block.sex.age")
        true = finest.frame.drop("N_masked").join(shown, on=[*HKEY, "sex", "age"], how="left", nulls_equal=True)
        cells.append(true.with_columns(pl.col("N_masked").fill_null(0)))
    both = cells[0].join(cells[1], on=[*HKEY, "sex", "age", "N"], suffix="_new", nulls_equal=True)
    assert both.height > 100
    assert both["N_masked"].equals(both["N_masked_new"].rename("N_masked"))


@pytest.mark.slow
@pytest.mark.parametrize("command", ["build", "release", "cube", "table", "report"])
def test_a_disk_that_is_full_is_told_in_a_line_and_leaves_nothing(folder, finest, command, tmp_path):
    finest.save(tmp_path / "s.parquet")
    shutil.copy(folder / "k", tmp_path / "s.secret")
    words = {
        "build": [*BUILD[:1], str(folder / "p.csv"), *BUILD[2:], "--out", "new.parquet"],
        "release": ["release", "s.parquet", "--out", "out"],
        "cube": ["cube", "s.parquet", "--out", "out"],
        "table": ["table", "s.parquet", "--level", "block", "--key", "sex,age,job", "--out", "t.csv"],
        "report": ["report", "s.parquet", "--max-keys", "0"],
    }[command]
    words = [str(folder / word) if word == "k" else word for word in words]

    def little() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))

    command = [sys.executable, "-B", "-m", "ilba", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, preexec_fn=little, check=False)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("error: could not write ")
    assert "File too large" in done.stderr
    left = {path.name for path in tmp_path.iterdir()} - {"out"}
    assert left == {"s.parquet", "s.secret"}


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here; Linux has it")
def test_output_that_cannot_be_written_is_told_in_a_line(folder):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "ilba", "table", "full_tb.parquet"],
            cwd=folder,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "error: cannot read or write: No space left on device.\n"


@pytest.mark.slow
def test_options_without_an_effect_are_refused_and_one_other_threshold_is_audited(folder, finest, secret):
    finest.save(folder / "asked.parquet")
    few = ("audit", "asked.parquet", "--levels", "town", "--max-keys", "1", "--secret", "k")
    rows = json.loads(run(*few, "--mask-thr", "3", "--json", cwd=folder).stdout)
    assert [(row["K"], row["method"]) for row in rows] == [(3, "ilba")]
    chosen = json.loads(run(*few, "--mask-thr", "3", "--method", "controlled", "--json", cwd=folder).stdout)[0]
    sums = json.loads(run(*few, "--mask-thr", "3", "--method", "sca-sums", "--json", cwd=folder).stdout)[0]
    assert chosen["max_loss"] < sums["max_loss"]
    assert "--out writes the report of one audit" in run(*few, "--mask-thr", "3", "-o", "x", cwd=folder, code=2).stderr
    assert "--chart draws several" in run(*few, "--chart", "x.svg", cwd=folder, code=2).stderr
    assert not (folder / "x").exists()
    noted = run(*few[:-2], "--mask-thr", "4", "--mask-thr", "4", "--json", cwd=folder)
    assert "note: drawn with a throw-away secret" in noted.stderr
    assert len({json.dumps(row) for row in json.loads(noted.stdout)}) == 1


def test_several_hierarchies_without_names_are_refused(folder):
    done = run("build", "p.csv", "--hkey", "region,town", "--hkey", "job", cwd=folder, code=2)
    assert done.stderr.startswith("error: several hierarchies need names: --hkey area=A,B --hkey industry=X,Y.")


@pytest.mark.slow
def test_the_ending_of_the_file_tells_the_format_of_an_export(folder, finest):
    finest.save(folder / "ending.parquet")
    shutil.copy(folder / "k", folder / "ending.secret")
    run("release", "ending.parquet", "-o", "ending", "--max-keys", "1", cwd=folder)
    for name in ("t.csv", "t.json", "t.SDMX.csv", "t.px"):
        run("export", "ending", "--table", "town.sex", "-o", name, cwd=folder)
    assert json.loads((folder / "t.json").read_text("utf-8"))["class"] == "dataset"
    assert (folder / "t.SDMX.csv").read_text("utf-8").startswith("STRUCTURE,")
    assert (folder / "t.csv").read_text("utf-8").startswith('"region","town","sex","N_masked"')
    for words in ((), ("-o", "t.doc")):
        said = run("export", "ending", "--table", "town.sex", *words, cwd=folder, code=2).stderr
        assert said.startswith(
            "error: the format is unknown. Give --format, or --out with one of: csv, parquet, xlsx, json"
        )


@pytest.mark.slow
def test_a_store_is_not_built_from_a_store_and_a_csv_is_no_store(folder, finest):
    finest.save(folder / "again.parquet")
    said = run(
        "build", "again.parquet", "--hkey", "region", "-o", "twice.parquet", "--secret", "k", cwd=folder, code=2
    ).stderr
    assert "'again.parquet' is already a store" in said
    (folder / "records.csv").write_text("region\na\n", "utf-8")
    assert "`ilba build` makes a store" in run("table", "records.csv", cwd=folder, code=1).stderr


@pytest.mark.slow
def test_a_map_without_a_file_and_a_release_in_place_of_a_store_are_told_apart(folder, finest):
    finest.save(folder / "told.parquet")
    assert (
        "Write region=areas.geojson"
        in run("release", "told.parquet", "--geometry", "region", "--out", "told", cwd=folder, code=2).stderr
    )
    run("release", "told.parquet", "--out", "told", "--max-keys", "1", "--secret", "k", cwd=folder)
    assert "is a release, which is public" in run("table", "told", cwd=folder, code=1).stderr


@pytest.mark.slow
def test_the_ledger_is_shown_checked_exported_and_looked_after(folder, people, tmp_path, monkeypatch):
    monkeypatch.delenv("ILBA_LEDGER")
    shutil.copy(folder / "k", tmp_path / "agency.secret")
    words = [word for word in BUILD if word not in ("--secret", "k")]
    words[1] = str(folder / "p.csv")
    run(*words, "--population", "people", "--wave", "1", "--out", "s.parquet", cwd=tmp_path)
    run("release", "s.parquet", "--tables", "town.sex", "--plan", "town.sex", "--out", "a", cwd=tmp_path)
    shown = json.loads(run("ledger", "show", "agency.ledger", "--json", cwd=tmp_path).stdout)["publications"]
    assert [(one["population"], one["wave"], one["tables"]) for one in shown] == [("people", "1", ["town.sex"])]
    assert "1 publication (confidential)" in run("ledger", "show", "agency.ledger", cwd=tmp_path).stdout
    assert "all as written" in run("ledger", "verify", "agency.ledger", cwd=tmp_path).stdout
    run("ledger", "export", "agency.ledger", "--out", "list.csv", cwd=tmp_path)
    assert stat.S_IMODE((tmp_path / "list.csv").stat().st_mode) == 0o600
    told = run("doctor", "s.parquet", "a", "agency.ledger", "agency.secret", cwd=tmp_path).stdout
    assert "a ledger of 1 publication" in told
    shutil.copy(Path(__file__).parents[1] / "data" / "r" / "full_tb.rds", tmp_path)
    (tmp_path / "notes.csv").write_text("a,b\n")
    here = run("doctor", cwd=tmp_path).stdout
    assert set(told.splitlines()) < set(here.splitlines())
    assert "full_tb.rds: a finest table of R with 4 cells" in here
    assert "notes.csv" not in here
    risky = ["release", "s.parquet", "--method", "ilba", "--accept-risk", "--tables", "town.sex", "--out", "b"]
    refused = run(*risky, cwd=tmp_path, code=2).stderr
    assert not (tmp_path / "b").exists()
    name = re.search(r"--accept-conflict (\w+)", refused)[1]
    run(*risky, "--accept-conflict", name, cwd=tmp_path)
    told = run("doctor", "a", "b", "agency.ledger", cwd=tmp_path, code=1).stdout
    assert "show different counts" in told
    assert "was published in 2 ways" in told
    number = str(shown[0]["number"])
    assert "is withdrawn" in run("ledger", "withdraw", "agency.ledger", number, cwd=tmp_path).stdout
    log = tmp_path / "agency.ledger" / "log.jsonl"
    log.write_bytes(log.read_bytes().replace(b"people", b"peoplf", 1))
    assert "damaged in line" in run("ledger", "verify", "agency.ledger", cwd=tmp_path, code=1).stderr


@pytest.mark.slow
def test_what_was_published_before_the_ledger_is_entered(folder, tmp_path):
    shutil.copy(folder / "full_tb.parquet", tmp_path / "s.parquet")
    shutil.copy(folder / "k", tmp_path / "s.secret")
    run("release", "s.parquet", "--out", "old", "--no-ledger", cwd=tmp_path)
    adopt = ["ledger", "adopt", "--store", "s.parquet", "--ledger", "new.ledger"]
    assert "there is no table" in run(*adopt, "--tables", "nowhere", cwd=tmp_path, code=2).stderr
    assert not (tmp_path / "new.ledger").exists(), "nothing was entered, so there is no empty ledger"
    told = run(*adopt, "old", cwd=tmp_path)
    run(*adopt, "--tables", "nowhere", cwd=tmp_path, code=2)
    assert len(ilba.Ledger(tmp_path / "new.ledger").publications) == 1
    assert "1 publication entered" in told.stdout
    assert "no population was named, so this is 'unnamed-1'" in told.stderr
    run("release", "s.parquet", "--out", "again", "--max-keys", "1", "--ledger", "new.ledger", cwd=tmp_path)
    old, again = (ilba.Release(tmp_path / name) for name in ("old", "again"))
    for name in again.tables:
        assert again.table(name).equals(old.table(name)), name
