"""Three commands from a messy folder to a served release; a second run does nothing; a killed one goes on."""

from __future__ import annotations

import json
import re
import shutil
import stat
import subprocess
import sys
import threading
import tomllib
import warnings
from urllib.parse import quote

import httpx
import polars as pl
import pytest

import ilba
from ilba.design.tables import wanted_tables
from ilba.files import working_in
from ilba.methods.lab import method_of
from ilba.output import decision
from ilba.publication import planning
from ilba.publication.choices import Measured, choices, measured
from support import messy
from support.commands import run
from support.people import population
from support.serving import serving

pytestmark = pytest.mark.slow


def quietly(does, *words, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return does(*words, **options)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder that was published by three commands."""
    folder = tmp_path_factory.mktemp("agency")
    messy.write(folder / "data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ILBA_LEDGER", str(folder / "agency.ledger"))
        run("init", "data", "--population", "towns-2026", cwd=folder)
        # A fixed one: with one secret of twenty the usual bound does not hold, and an insider proves nothing.
        ilba.Secret(bytes(32)).to_file(folder / "confidential" / "publication.secret")
        run("plan", cwd=folder)
        run("publish", cwd=folder)
    return folder


@pytest.fixture
def agency(made, tmp_path, monkeypatch):
    """A copy of it, to be changed."""
    monkeypatch.setenv("ILBA_LEDGER", str(tmp_path / "a" / "agency.ledger"))
    shutil.copytree(made, tmp_path / "a")
    return tmp_path / "a"


def truth() -> pl.DataFrame:
    """The records, cleaned by hand."""
    people = messy.people()
    return people.select(
        pl.col("AGS").str.zfill(5).alias("AGS"),
        pl.col("AGS").str.zfill(5).str.head(2).alias("Kreis"),
        pl.col("Geschlecht").str.strip_chars().str.to_lowercase().str.head(1),
        (pl.col("Alter").cast(pl.Int64) // 5 * 5).clip(upper_bound=85).alias("Alter"),
        pl.col("Beruf").replace(["NA", ""], None),
    )


def test_a_messy_folder_becomes_an_audited_release_by_three_commands(made):
    release = ilba.Release(made / "release")
    assert release.design.columns == ("Kreis", "AGS", "Geschlecht", "Alter", "Beruf")
    assert len(release.tables) == 24
    towns = release.table("AGS").select("AGS", "N_masked").rows()
    expected = truth().group_by("AGS").len().sort("AGS").rows()
    assert [code for code, _ in towns] == [code for code, _ in expected]
    assert max(abs(ours[1] - theirs[1]) for ours, theirs in zip(towns, expected, strict=True)) <= 20
    assert release.codes.filter(variable="AGS", code="01001")["label_en"].item() == "Nordort 1 – Ä"
    assert release.codes.filter(variable="Alter")["label_en"].head(2).to_list() == ["0-4", "5-9"]
    shapes = json.loads((made / "release" / "geometry" / "AGS.geojson").read_text())
    assert {one["id"] for one in shapes["features"]} == {*messy.TOWNS, "02099"}
    store = ilba.open_store(made / "confidential" / "publication.parquet")
    assert ilba.audit(release, store=store.published(ledger=made / "agency.ledger")).safe
    assert "Safe: the masked finest table" in (made / "confidential" / "audit.html").read_text("utf-8")


def test_the_finest_counts_are_those_of_records_cleaned_by_hand(made):
    finest = ilba.open_store(made / "confidential" / "publication.parquet").frame
    bands = pl.when(pl.col("Alter") < 85).then(
        pl.format(
            "{}-{}", pl.col("Alter").cast(pl.String).str.zfill(2), (pl.col("Alter") + 4).cast(pl.String).str.zfill(2)
        )
    )
    clean = truth().with_columns(bands.otherwise(pl.lit("85+")).alias("Alter"))
    columns = ["Kreis", "AGS", "Geschlecht", "Alter", "Beruf"]
    counted = clean.group_by(columns).len("N").select(*columns, pl.col("N").cast(pl.Int64)).sort(columns)
    assert finest.select(*columns, "N").sort(columns).equals(counted)


def test_the_release_is_served_by_a_fourth_command_without_a_word(made):
    with serving(cwd=made) as server, httpx.Client(timeout=60) as client:
        tables = client.get(f"{server.address}api/v2/tables?pageSize=100").json()["tables"]
        assert len(tables) == 24
        assert client.get(server.address).status_code == 200


def test_what_is_confidential_is_for_its_owner_alone_and_what_is_public_for_all(made):
    for file in (made / "confidential").rglob("*"):
        assert stat.S_IMODE(file.stat().st_mode) == (0o700 if file.is_dir() else 0o600), file
    assert stat.S_IMODE((made / "confidential").stat().st_mode) == 0o700
    exports = list((made / "exports").iterdir())
    assert len(exports) == 24
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o644 for file in exports)


def test_the_publication_file_lists_no_value_of_the_data(made):
    plain = tomllib.loads((made / "publication.toml").read_text("utf-8"))
    values = {str(one) for column in messy.people().get_columns() for one in column.unique() if one} - {"NA"}

    def texts(value):
        if isinstance(value, dict):
            return [text for one in value.values() for text in texts(one)]
        return [text for one in value for text in texts(one)] if isinstance(value, list) else [str(value)]

    ages = set(messy.people()["Alter"])  # numbers of the file are widths and limits
    assert not (values - ages) & set(texts(plain))


def test_nothing_public_tells_a_path_or_an_identifier(made):
    for file in [*(made / "release").rglob("*.json"), *(made / "exports").iterdir(), made / "publication.toml"]:
        text = file.read_text("utf-8-sig")
        assert str(made) not in text
        assert "P0000" not in text


def test_a_second_run_does_nothing_and_says_so(agency):
    before = {file: file.stat().st_mtime_ns for file in agency.rglob("*") if file.is_file()}
    said = run("publish", cwd=agency).stdout
    assert "nothing has changed since it was published (24 tables). Nothing was done" in said
    assert {file: file.stat().st_mtime_ns for file in agency.rglob("*") if file.is_file()} == before


def test_a_run_without_changes_still_tells_another_secret(agency):
    secret = agency / "confidential" / "publication.secret"
    secret.unlink()
    ilba.Secret.new().to_file(secret)
    with pytest.warns(ilba.Notice, match="was masked with another secret"):
        assert ilba.publish(agency).is_unchanged
    assert "was masked with another secret" in run("--strict", "publish", cwd=agency, code=1).stderr


def test_of_two_runs_at_the_same_time_one_waits_and_finds_everything_done(agency, monkeypatch):
    told, found = threading.Event(), []
    monkeypatch.setattr("ilba.publication.publishing._tell_waiting", lambda folder: told.set())
    with working_in(agency / "confidential", lambda: None):
        other = threading.Thread(target=lambda: found.append(ilba.publish(agency)))
        other.start()
        assert told.wait(60)
        assert not found
    other.join(60)
    assert found[0].is_unchanged


def test_only_what_has_changed_is_done_again(agency):
    toml = agency / "publication.toml"
    toml.write_text(toml.read_text("utf-8").replace('formats = ["csv"]', 'formats = ["csv", "json-stat"]'), "utf-8")
    assert quietly(ilba.publish, agency).done == ("exports",)
    assert len(list((agency / "exports").iterdir())) == 48
    table = agency / "exports" / "AGS.Geschlecht.csv"
    assert table.read_bytes().startswith(b"\xef\xbb\xbf")
    plain = toml.read_text("utf-8").replace('formats = ["csv", "json-stat"]', 'formats = ["csv"]\nspreadsheet = false')
    toml.write_text(plain, "utf-8")
    assert quietly(ilba.publish, agency).done == ("exports",)
    assert table.read_bytes().startswith(b'"Kreis"')
    toml.write_text(toml.read_text("utf-8").replace('{en = "Towns 2026"}', '{en = "Towns"}'), "utf-8")
    assert quietly(ilba.publish, agency).done == ("release", "exports", "report", "decision")
    shutil.rmtree(agency / "release")
    assert quietly(ilba.publish, agency).done[0] == "release"
    assert ilba.Release(agency / "release").manifest["title"] == "Towns"


def test_a_lost_secret_is_asked_for_and_one_that_is_restored_draws_the_masks_again(agency):
    secret, lost = agency / "confidential" / "publication.secret", agency / "lost"
    (agency / "confidential" / "publication.ledgers.json").touch()
    secret.rename(lost)
    table = next((agency / "data").glob("*.csv"))
    before = table.read_bytes()
    table.write_bytes(before + before.splitlines(keepends=True)[-2])
    for command in ("plan", "publish"):
        said = run(command, cwd=agency, code=2).stderr
        assert "publication.secret' is missing, and 'publication.ledgers.json' beside it shows" in said
    assert not secret.exists()
    ilba.Secret.new().to_file(secret)
    with pytest.raises(ilba.UnsafeRelease, match="another secret"):
        quietly(ilba.publish, agency, correction=True)
    shutil.copy(lost, secret)
    table.write_bytes(before)
    assert quietly(ilba.publish, agency).done[0] == "count"


def test_other_tables_later_show_the_same_masks(agency):
    before = ilba.Release(agency / "release").table("AGS.Geschlecht")
    toml = agency / "publication.toml"
    toml.write_text(toml.read_text("utf-8").replace("max_keys = 3", "max_keys = 1"), "utf-8")
    told = quietly(ilba.plan, agency)
    assert any("tables less" in one for one in told.against_last)
    assert told.ledger == "agency.ledger: 1 publication of 'towns-2026' before"
    quietly(ilba.publish, agency)
    assert ilba.Release(agency / "release").table("AGS.Geschlecht").equals(before)


def test_a_killed_run_goes_on_where_it_ended(tmp_path):
    (tmp_path / "p.csv").write_text("town,sex\n" + "a,f\na,m\nb,f\nb,m\n" * 20)
    run("init", "p.csv", cwd=tmp_path)
    script = (
        "import os, ilba\nfrom ilba.publication import publishing\n"
        "publishing.export = lambda *a, **k: os._exit(9)\nilba.publish()\n"
    )
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", script], cwd=tmp_path).returncode == 9
    manifest = (tmp_path / "release" / "release.json").read_bytes()
    assert quietly(ilba.publish, tmp_path).done == ("exports", "report", "decision")
    assert (tmp_path / "release" / "release.json").read_bytes() == manifest


def test_exports_have_readable_names_and_take_the_place_of_those_of_earlier_versions(tmp_path):
    (tmp_path / "p.csv").write_text("Δήμος,age group\n" + "α,1\nα,2\nβ,1\nβ,2\n" * 20, "utf-8")
    run("init", "p.csv", cwd=tmp_path)
    quietly(ilba.publish, tmp_path)
    named = ["Δήμος.age group.csv", "Δήμος.csv", "all.age group.csv", "all.csv"]
    found = sorted(file.name for file in (tmp_path / "exports").iterdir())
    assert found == sorted(named)
    for file in (tmp_path / "exports").iterdir():
        file.rename(file.with_name(quote(file.name)))
    assert quietly(ilba.publish, tmp_path).done == ("exports",)
    assert sorted(file.name for file in (tmp_path / "exports").iterdir()) == found
    assert quietly(ilba.publish, tmp_path).is_unchanged


def test_a_conflict_with_an_earlier_publication_is_planned_as_refused_and_not_published(agency):
    toml = agency / "publication.toml"
    toml.write_text(toml.read_text("utf-8").replace("mask_thr = 5", "mask_thr = 3"), "utf-8")
    told = run("plan", cwd=agency, code=1)
    assert "REFUSED" in told.stdout
    run("publish", cwd=agency, code=1)
    assert ilba.Release(agency / "release").design.threshold == 5


def test_a_plan_writes_nothing(agency):
    before = {file: file.stat().st_mtime_ns for file in agency.rglob("*")}
    plain = json.loads(run("plan", "--json", cwd=agency).stdout)
    assert {file: file.stat().st_mtime_ns for file in agency.rglob("*")} == before
    assert plain["possible"] is True
    assert (plain["records"], plain["left_out"], len(plain["tables"])) == (4000, 0, 24)
    assert [one["method"] for one in plain["choices"]] == [
        "controlled", "ilba", "sca", "cell-key", "small-count-rounding", "suppression",
    ]  # fmt: skip
    learnt = {one["attacker"]: one for one in plain["attackers"]}
    assert list(learnt) == ["register", "outsider", "neighbour", "insider", "attribute"]
    assert learnt["register"]["tables"] == ["AGS.Geschlecht.Alter"]
    assert 0 == learnt["outsider"]["proven"] < learnt["insider"]["proven"] < learnt["neighbour"]["proven"] < 1
    assert plain["choices"][0]["provable"] == 0
    assert plain["choices"][1]["provable"] > 0.1


def test_the_time_of_a_plan_includes_exports_reports_and_the_decision_page(tmp_path, monkeypatch):
    pl.DataFrame({"town": ["a", "b"] * 60, "sex": ["f", "m", "m"] * 40}).write_csv(tmp_path / "p.csv")
    quietly(ilba.init, tmp_path / "p.csv", out=tmp_path)
    file, text = tmp_path / "publication.toml", (tmp_path / "publication.toml").read_text()

    def seconds(comparing=0.0, **outputs):
        said = text
        for name, new in outputs.items():
            said = re.sub(rf"(?m)^{name} = .*$", f"{name} = {new}", said)
        file.write_text(said)
        prepared = planning.Prepared(tmp_path)
        return planning._seconds(prepared, quietly(planning.counted, prepared)[0], comparing)

    assert seconds() > 1  # the report and its charts
    assert seconds(comparing=30) == pytest.approx(seconds() + 30)  # the decision page compares again
    assert seconds(languages='["en", "ko"]') > seconds()
    monkeypatch.setattr(planning, "can_compare", lambda *_: False)  # nor does the decision page
    assert seconds(comparing=30) == seconds()


def test_a_plan_says_that_loops_are_compiled_first_unless_they_are(tmp_path, monkeypatch):
    pl.DataFrame({"town": ["a", "b"] * 60, "sex": ["f", "m", "m"] * 40}).write_csv(tmp_path / "p.csv")
    quietly(ilba.init, tmp_path / "p.csv", out=tmp_path)
    told = "s in this process, the first time on this machine up to a minute more, because loops are compiled"
    monkeypatch.setattr(planning, "is_compiled", lambda _: False)
    assert told not in str(quietly(ilba.plan, tmp_path))  # comparing has compiled them
    monkeypatch.setattr(planning, "LIMIT", 0)
    plan = quietly(ilba.plan, tmp_path)
    assert told in str(plan)
    assert plan.to_json()["compiles"] is True
    monkeypatch.setattr(planning, "is_compiled", lambda _: True)
    assert told not in str(quietly(ilba.plan, tmp_path))


def test_a_plan_shows_names_of_tables_with_plain_letters_and_these_can_be_typed(tmp_path, monkeypatch):
    pl.DataFrame({"town": ["a", "b"] * 60, "öğrenim durumu": ["f", "m", "m"] * 40}).write_csv(tmp_path / "p.csv")
    quietly(ilba.init, tmp_path / "p.csv", out=tmp_path)
    file = tmp_path / "publication.toml"
    file.write_text(
        file.read_text("utf-8").replace('# names = ["town.sex"', 'names = ["town.öğrenim durumu"]  # '), "utf-8"
    )
    monkeypatch.setattr(planning, "LIMIT", 0)
    plan = quietly(ilba.plan, tmp_path)
    assert "1: town.öğrenim durumu" in str(plan)
    assert plan.to_json()["tables"] == ["town.%C3%B6%C4%9Frenim%20durumu"]


@pytest.mark.parametrize(("limit", "slow"), [("SUPPRESSION_LIMIT", 1), ("FIELD_LIMIT", 3)])
def test_a_plan_leaves_out_what_takes_long_and_says_so(tmp_path, monkeypatch, limit, slow):
    people = pl.DataFrame({"town": ["a", "b", "c"] * 40, "sex": ["f", "m"] * 60, "job": ["x", "y", "z", "z"] * 30})
    people.write_csv(tmp_path / "p.csv")
    quietly(ilba.init, tmp_path / "p.csv", out=tmp_path)
    whole = quietly(ilba.plan, tmp_path)
    assert (len(whole.choices), "takes long" in str(whole)) == (6, False)
    assert "there is no release" in str(whole)
    monkeypatch.setattr(f"ilba.publication.choices.{limit}", 1)
    part = quietly(ilba.plan, tmp_path)
    left_out = [one.method for one in whole.choices[-slow:]]
    assert [one.method for one in part.choices] == [one.method for one in whole.choices[:-slow]]
    assert f"not compared, because it takes long with these tables: {', '.join(left_out)}. --full" in str(part)
    assert len(quietly(ilba.plan, tmp_path, full=True).choices) == 6


def test_the_provable_share_of_a_plan_is_that_of_all_counts_of_the_tables(secret):
    people = ilba.datasets.census(400)
    finest = ilba.build(people, ["LA1", "LA2"], ["gender", "age"], secret=secret)
    wanted = wanted_tables(finest.design, max_keys=1)
    found = {one.method: one.provable for one in choices(finest, wanted, secret=secret)}
    report = ilba.audit(finest, "suppression", [table.name for table in wanted])
    assert found["suppression"] == report.share_of_counts != report.share


def test_a_plan_rounds_small_counts_to_K_and_has_the_loss_of_totals(secret):
    finest = ilba.build(ilba.datasets.census(400), ["LA1", "LA2"], ["gender"], mask_thr=7, secret=secret)
    found = {one.method: one for one in choices(finest, wanted_tables(finest.design), secret=secret)}
    assert found["small-count-rounding"].spec == "small-count-rounding:base=7"
    wanted = wanted_tables(finest.design, ["all", "LA1", "LA2", "all.gender"])
    totals = pl.concat([table.detail["loss"] for table in finest.tables(wanted)]).abs().mean()
    assert found["ilba"].totals == pytest.approx(totals)


def test_a_plan_names_the_parameters_of_each_method_and_calls_none_safe_that_is_not_certified(tmp_path):
    people = ilba.datasets.census(400).select(town="LA2", sex="gender", job="edu")
    people.write_csv(tmp_path / "p.csv")
    quietly(ilba.init, tmp_path / "p.csv", out=tmp_path)
    plan = quietly(ilba.plan, tmp_path)
    specs = ["controlled", "ilba", "sca", "cell-key:D=5,V=3,js=2", "small-count-rounding:base=5", "suppression"]
    assert [one["spec"] for one in plan.to_json()["choices"]] == specs
    assert [method_of(spec).name for spec in specs] == [one.method for one in plan.choices]
    lines = {line.split()[0]: line for line in str(plan).splitlines() if line.split()[0] in specs}
    assert list(lines) == specs
    assert {one.is_safe for one in plan.choices} == {True, False}
    for one in plan.choices:
        assert f"{one.provable:.1%}" in lines[one.spec]
        assert (" found, not certified" in lines[one.spec]) is (not one.is_safe)
        assert one.found in plan._repr_html_()


def test_a_plan_of_some_tables_has_the_loss_of_the_masks_that_are_published(tmp_path, secret):
    people = ilba.datasets.census(400).select(town="LA2", sex="gender", job="edu", mar="mar")
    people.write_csv(tmp_path / "p.csv")
    quietly(ilba.init, tmp_path / "p.csv", out=tmp_path)
    secret.to_file(tmp_path / "confidential" / "publication.secret")
    file = tmp_path / "publication.toml"
    file.write_text(file.read_text("utf-8").replace("max_keys = 3", "max_keys = 1"), encoding="utf-8")
    finest = ilba.build(people, ["town"], ["sex", "job", "mar"], secret=secret)
    wanted = wanted_tables(finest.design, max_keys=1)
    mean = {}
    for plan in ("all", [table.name for table in wanted]):
        (own,) = (one for one in quietly(ilba.plan, tmp_path).choices if one.method == "controlled")
        masks = finest.controlled(wanted_tables(finest.design, plan), secret=secret)
        mean[own.mean_loss] = pl.concat([table.detail["loss"] for table in masks.tables(wanted)]).abs().mean()
        text = file.read_text("utf-8").replace("[tables]", f"[tables]\nplan = {[table.name for table in wanted]}")
        file.write_text(text, encoding="utf-8")
    assert len(mean) == 2
    assert list(mean) == pytest.approx(list(mean.values()))


def test_plan_and_decision_page_say_the_same_of_what_was_not_measured():
    unseen = Measured("neighbour", proven=0.0)
    assert str(unseen).endswith("proves 0.0% of the small finest cells; guesses not measured")
    insider = Measured("insider", proven=0.5, likely=0.25, right=0.99, bound=7)
    proves = "proves 50.0% of the small finest cells, relying on errors of at most 7"
    guesses = (
        "without relying on it, rightly guesses 25.0% with more than 95% certainty; 99.0% of its guesses are right"
    )
    assert str(insider).endswith(f"{proves}; {guesses}")
    near = Measured("neighbour", proven=0.5, likely=0.6, right=0.9997)
    guesses = "with guesses 60.0% with more than 95% certainty"
    assert str(near).endswith(f"{guesses}; of all it believes, proofs included, 99.9% is right")
    unbound = Measured("insider", proven=0.0)
    assert "proves 0.0% of the small finest cells, with no bound of errors to rely on" in str(unbound)
    assert str(Measured("outsider")).endswith(": not measured: the finest table is not published")
    least = Measured("neighbour", proven=0.64, at_least=True)
    assert str(least).endswith("proves at least 64.0% of the small finest cells; guesses not measured")
    for lang, words in (("en", "can prove at least 64.0%"), ("ko", "적어도 64.0%를 증명할 수 있음")):
        assert words in decision._learnt(decision.WORDS[lang], least.to_json(5), 5, False)[0]


def test_plan_and_decision_page_measure_a_neighbour_of_tables_without_the_finest_one(people, secret):
    finest = ilba.build(people.head(800), ["town"], ["sex", "age"], secret=secret).controlled(secret=secret)
    for max_keys, is_part in ((None, False), (1, True)):
        found = {one.attacker: one for one in measured(finest, wanted_tables(finest.design, max_keys=max_keys))}
        assert found["neighbour"].proven > 0
        assert [one for one in found if found[one].at_least] == (["register", "neighbour"] if is_part else [])


@pytest.mark.parametrize(
    ("tables", "register"),
    [
        (["town.sex"], None),
        (["all.sex.age"], "all.sex"),
        (["town.age.sex", "all.sex"], "town.sex"),
        (["town.sex", "all.age"], "town.sex"),
        ("all", "town.sex"),
    ],
)
def test_the_register_of_a_plan_knows_less_than_the_cells_that_the_tables_tell_apart(people, secret, tables, register):
    finest = ilba.build(people.head(800), ["town"], ["sex", "age"], secret=secret)
    learnt = measured(finest.controlled(secret=secret), wanted_tables(finest.design, tables))
    assert [one.tables[0] for one in learnt if one.attacker == "register"] == [register] * (register is not None)
    assert all(0 <= one.proven <= 1 for one in learnt if one.proven is not None)


def test_an_insider_of_the_plan_says_on_which_bound_it_relies(people, secret):
    finest = ilba.build(people.head(800), ["town"], ["sex", "age"], secret=secret)
    wanted = wanted_tables(finest.design)
    (insider,) = (one for one in measured(finest.controlled(secret=secret), wanted) if one.attacker == "insider")
    assert insider.bound == 7
    (other,) = (one for one in measured(finest, wanted) if one.attacker == "insider")
    assert other.bound is None


def test_numbers_of_records_below_K_are_not_planned_aloud(tmp_path):
    rows = ["a,f"] * 40 + ["a, m"] * 3 + ["b,f"] * 20 + ["b,NA"] * 2
    (tmp_path / "p.csv").write_text("town,sex\n" + "\n".join(rows) + "\n")
    run("init", "p.csv", cwd=tmp_path)
    told = run("plan", cwd=tmp_path).stdout
    assert "sex: trim changes <5 records" in told
    assert "sex: missing changes <5 records" in told


def test_the_decision_page_says_yes_with_labels_and_without_a_small_count(made):
    text = (made / "confidential" / "decision.en.html").read_text("utf-8")
    assert "<b>YES</b>" in text
    assert "24 tables by Kreis &gt; AGS; Geschlecht, Alter, Beruf" in text
    assert "First confirm the proposed entries" in text
    assert "4,000" in text
    assert "An attacker with exact counts of AGS × Geschlecht × Alter from a register" in text
    assert "Cell keys: small random changes" in text


def test_the_decision_is_printed_as_pdf_where_the_file_asks_for_it(agency):
    publication = agency / "publication.toml"
    publication.write_text(publication.read_text("utf-8").replace("# pdf = true", "pdf = true"), "utf-8")
    assert "decision.en.pdf" in run("publish", cwd=agency).stdout
    page = agency / "confidential" / "decision.en.pdf"
    assert page.read_bytes().startswith(b"%PDF-")
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert "Nothing was done" in run("publish", cwd=agency).stdout
    page.unlink()
    run("publish", cwd=agency)
    assert page.exists()


@pytest.fixture
def confirmed(tmp_path):
    """A folder with a publication file that a person confirmed, and a secret."""
    population(500).write_csv(tmp_path / "people.csv")
    run("init", "people.csv", "--wave", "2026", cwd=tmp_path)
    ilba.Secret(bytes(32)).to_file(tmp_path / "agency.secret")
    file = tmp_path / "publication.toml"
    lines = [line for line in file.read_text("utf-8").splitlines() if not line.startswith("proposed")]
    file.write_text("\n".join(['secret = "agency.secret"', *lines]), "utf-8")
    return tmp_path


def test_a_strict_run_does_not_stop_when_its_release_is_there(confirmed, monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    run("--strict", "plan", cwd=confirmed)
    done = run("--strict", "publish", cwd=confirmed)
    assert "note: there is no report on losses: charts need altair. Type: pip install 'ilba[charts]'" in done.stderr
    assert (confirmed / "confidential" / "decision.en.html").exists()
    assert "Nothing was done" in run("--strict", "publish", cwd=confirmed).stdout


@pytest.mark.parametrize(
    ("entry", "lacking", "told"),
    [
        (
            'formats = ["xlsx"]',
            "xlsxwriter",
            "writing an xlsx file needs xlsxwriter. Type: pip install 'ilba[formats]'",
        ),
        ('formats = ["csv", "sdmx-ml"]', "pysdmx.io.xml", "writing SDMX needs pysdmx.io.xml. Type: pip install"),
        ('formats = ["csv"]\npdf = true', "weasyprint", "a PDF needs weasyprint. Type: pip install 'ilba[pdf]'"),
        ('formats = ["csv"]\nlanguages = ["en", "de"]', "", "outputs.languages: there are no words in 'de'."),
    ],
)
def test_an_output_that_cannot_be_made_is_refused_before_anything_is_published(
    confirmed, monkeypatch, entry, lacking, told
):
    file = confirmed / "publication.toml"
    lines = [line for line in file.read_text("utf-8").splitlines() if not line.startswith("languages")]
    file.write_text("\n".join(entry if line.startswith("formats") else line for line in lines), "utf-8")
    if lacking:
        monkeypatch.setitem(sys.modules, lacking, None)
    before = sorted(confirmed.rglob("*"))
    assert f"REFUSED    {told}" in run("plan", cwd=confirmed, code=1).stdout
    assert told in run("publish", cwd=confirmed, code=1 if lacking else 2).stderr
    assert sorted(confirmed.rglob("*")) == before
    assert not (confirmed / "release-2026").exists()


def test_init_asks_nothing_and_replaces_nothing(made):
    assert "exists. Edit it" in run("init", "data", cwd=made, code=2).stderr


def test_files_without_records_are_refused(tmp_path):
    messy.write(tmp_path / "data", records=50)
    said = run("init", "data/towns.gpkg", cwd=tmp_path, code=2).stderr
    assert "none of these files has records" in said


def test_to_serve_before_publishing_says_what_to_type(tmp_path):
    (tmp_path / "p.csv").write_text("town,sex\n" + "a,f\nb,m\n" * 20)
    assert "`ilba init FILE...` writes one" in run("serve", cwd=tmp_path, code=2).stderr
    run("init", "p.csv", cwd=tmp_path)
    assert "Type: ilba publish" in run("serve", cwd=tmp_path, code=1).stderr


def test_a_folder_of_other_things_is_not_replaced_by_exports(agency):
    (agency / "exports" / "thesis.docx").write_text("mine")
    toml = agency / "publication.toml"
    toml.write_text(toml.read_text("utf-8").replace('formats = ["csv"]', 'formats = ["xlsx"]'), "utf-8")
    with pytest.raises(ilba.InputError, match=r"thesis\.docx, which is not an export and would be lost"):
        quietly(ilba.publish, agency)
    before = (agency / "release" / "release.json").read_bytes()
    toml.write_text(toml.read_text("utf-8").replace('title = {en = "', 'title = {en = "New '), "utf-8")
    with pytest.raises(ilba.InputError, match=r"thesis\.docx"):
        quietly(ilba.publish, agency)
    assert (agency / "release" / "release.json").read_bytes() == before


def test_the_state_is_no_truth_about_the_release(agency):
    """A release that somebody changed is made again, with the same masks."""
    before = ilba.Release(agency / "release").table("AGS")
    file = agency / "release" / "tables" / "AGS.parquet"
    file.write_bytes(b"PAR1 damaged")
    assert "release" in quietly(ilba.publish, agency).done
    assert ilba.Release(agency / "release").table("AGS").equals(before)
    assert "publication.json" in {one.name for one in (agency / "confidential").iterdir()}


@pytest.mark.parametrize("entry", ["release", "exports", "confidential"])
def test_an_output_folder_that_cannot_be_written_is_told_before_the_work(tmp_path, entry):
    messy.write(tmp_path / "data")
    quietly(ilba.init, tmp_path / "data", out=tmp_path)
    file = tmp_path / "publication.toml"
    text = file.read_text("utf-8").replace('confidential = "confidential"', "") + f'{entry} = "nowhere/x"\n'
    lines = [line for line in text.splitlines() if not line.startswith(entry) or "nowhere" in line]
    file.write_text("\n".join(lines), "utf-8")
    before = sorted(tmp_path.rglob("*"))
    refused = run("publish", cwd=tmp_path, code=2).stderr
    assert f"outputs.{entry}: cannot write" in refused
    assert "Create it first" in refused
    assert sorted(tmp_path.rglob("*")) == before
