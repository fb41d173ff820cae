"""What other methods and thresholds would give away and cost, on the same counts."""

from __future__ import annotations

import html
import itertools
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import ilba
from ilba import FinestTable, Secret
from ilba.attack.attackers import RELIES, Insider
from ilba.attack.audit import losses
from ilba.attack.choosing import what_if
from ilba.attack.published import PublishedTables
from ilba.cli import commands
from ilba.design.tables import wanted_tables
from ilba.output.choosing import MEANING, sentences
from ilba.output.compare import compare
from ilba.output.report import Loss
from support.attacks import true_table
from support.people import HKEY


@pytest.mark.slow
def test_what_if_measures_each_method_and_threshold_as_the_audit_and_the_tables_do(people, secret):
    finest = ilba.build(people.head(500), HKEY, ["sex", "job"], secret=secret)

    steps = []
    rows = what_if(
        finest,
        ["ilba", "sca-sums", "r-file"],
        [5, 3],
        attackers="proof",
        secret=secret,
        levels=[1, 3],
        keys=["sex", "job"],
        progress=steps.append,
    )
    assert [step[1:3] for step in steps if step.stage == "comparing"] == [(done, 6) for done in range(1, 7)]
    assert "r-file, K = 3: attacking" in {step.stage for step in steps}
    assert rows.select("K", "method").rows() == list(itertools.product([5, 3], ["ilba", "sca-sums", "r-file"]))
    again = what_if(finest, ["ilba"], [5], attackers="proof", levels=[1, 3], keys=["sex", "job"])
    assert again.row(0) == rows.row(0)
    wanted = wanted_tables(finest.design, "all", [1, 3], ["sex", "job"])
    for row in rows.to_dicts():
        masked = finest if row["K"] == 5 else finest.with_threshold(3, secret)
        report = ilba.audit(masked, row["method"], wanted)
        assert row["provable"] == pytest.approx(report.cells_disclosed / report.cells_small)
        assert row["exact"] == pytest.approx(report.cells_exact / report.cells_small)
        assert row["safe"] is report.safe
        if row["method"] == "ilba":
            frames = [true_table(masked, one).fill_null(0) for one in wanted]
            loss = np.concatenate([(frame["N_masked"] - frame["N"]).abs().to_numpy() for frame in frames])
            assert row["mean_loss"] == pytest.approx(loss.mean())
            assert row["max_loss"] == loss.max()
            assert row["p99_loss"] == np.quantile(loss, 0.99, method="inverted_cdf")
    assert rows.filter(method="ilba")["provable"].min() > 0
    assert rows.filter(method="sca-sums")["safe"].all()
    assert rows.filter(method="r-file")["exact"].max() > 0
    large = FinestTable.from_counts(pl.DataFrame({"t": ["a", "b"], "N": [9, 8], "N_masked": [9, 8]}), ["t"], [], 5)
    nobody = what_if(large, ["ilba"], [5], attackers="proof").row(0, named=True)
    assert (nobody["provable"], nobody["exact"], nobody["safe"]) == (0, 0, True)


def test_each_row_of_what_if_is_what_audit_loss_and_risk_say(people, secret):
    finest = ilba.build(people.head(70), ["town"], ["sex"], secret=secret)
    attackers = ["proof", "outsider", "neighbour", "attribute"]
    rows = what_if(finest, ["ilba", "noise:1"], [5, 3], attackers=attackers, secret=secret)
    assert rows.select("K", "method", "bound").rows() == [
        (K, method, None) for K in (5, 3) for method in ("ilba", "noise:1")
    ]
    assert rows.schema["bound"] == pl.Int64
    for row in rows.filter(method="ilba").to_dicts():
        masked = finest if row["K"] == 5 else finest.with_threshold(3, secret)
        report = ilba.audit(masked, "ilba", explanations=0)
        loss = losses(report.published)
        found = ilba.risk(masked, attackers, method="ilba")
        small = report.cells_small
        assert row == pytest.approx(
            {
                "method": "ilba",
                "K": row["K"],
                "bound": None,
                "small": small,
                "mean_loss": loss.mean(),
                "p99_loss": np.quantile(loss, 0.99, method="inverted_cdf"),
                "max_loss": loss.max(),
                "provable": report.cells_disclosed / small,
                "exact": report.cells_exact / small,
                "safe": report.safe,
                "outsider": found.row("outsider")["likely_share"],
                "outsider_right": found.row("outsider")["likely_right"],
                "neighbour": found.row("neighbour")["proven"] / small,
                "groups": found.row("attribute")["groups"],
                "provable_counts": report.tables["disclosed"].sum() / report.tables["small"].sum(),
            }
        )
    assert rows["provable_counts"].max() > 0
    assert what_if(finest, ["noise:1", "ilba"], [5], secret=secret).columns[-1] == "provable_counts"
    for row in rows.filter(method="noise:1").to_dicts():
        assert (row["provable"], row["exact"], row["safe"], row["outsider"]) == (0.0, 0.0, False, None)
    with pytest.raises(ilba.InputError, match="bounds go with controlled masks"):
        what_if(finest, ["ilba"], [5], attackers="proof", bounds=[None, 7], secret=secret)
    found = what_if(finest, ["ilba", "controlled"], [5], attackers="proof", bounds=[None, 9], secret=secret)
    assert found.select("method", "bound").rows() == [("ilba", None), ("controlled", None), ("controlled", 9)]
    assert found["max_loss"][2] <= 9


def test_a_bound_that_is_too_small_for_one_threshold_is_told_before_anything_is_measured(people, secret):
    finest, steps = ilba.build(people, HKEY[:2], ["sex"], secret=secret), []
    with pytest.raises(ilba.InputError, match=r"bound=6 is not a whole number from 9 .* With K=10"):
        what_if(finest, ["controlled"], [5, 10], bounds=[None, 6], secret=secret, progress=steps.append)
    with pytest.raises(ilba.InputError, match="mask_thr"):
        what_if(finest, ["ilba"], [5, 2], secret=secret, progress=steps.append)
    assert steps == []


def test_choose_k_says_where_a_bound_was_not_held_and_what_was_reached(people, secret, tmp_path):
    store, key = str(tmp_path / "s.parquet"), str(tmp_path / "k")
    secret.to_file(key)
    finest = ilba.build(people, HKEY[:2], ["sex", "age", "job"], secret=secret)
    finest.save(store)
    with pytest.warns(ilba.Notice) as told:
        found = what_if(finest, ["controlled"], [5], attackers="insider", bounds=[4, 9], secret=secret)
    (tight, wide), reached = found.rows(named=True), found["max_loss"][0]
    assert wide["max_loss"] <= 9
    assert [str(one.message).partition(";")[0] for one in told] == [f"K = 5: bound 4 not held, {reached} reached"]
    masks = finest.controlled(bound=4, secret=secret)
    assert masks.control.reached == reached > 4
    insider = ilba.risk(masks, Insider(secrets=0), bound=reached).row("insider")
    assert tight["insider"] == pytest.approx(insider["proven"] / insider["small"])
    said, held = sentences(found)
    assert f"K=5, controlled, bound 4 (not held, {reached} reached): " in said
    assert "relies on the largest error proves" in said
    assert "K=5, controlled, bound 9: " in held
    drawn = str(ilba.charts.attackers(found).to_dict())
    assert f"controlled K=5 bound 4 (not held, {reached} reached)" in drawn
    words = ["choose-k", store, "--secret", key, "--mask-thr", "5", "--method", "controlled", "--bound", "4"]
    text = CliRunner().invoke(commands, [*words, "--attacker", "proof"], catch_exceptions=False).output
    assert f"bound=4 (not held, {reached} reached)" in " ".join(text.split())


@pytest.mark.long
def test_the_audit_of_several_methods_breaks_no_name_on_a_narrow_terminal(people, secret, tmp_path, monkeypatch):
    store, key = str(tmp_path / "s.parquet"), str(tmp_path / "k")
    secret.to_file(key)
    ilba.build(people.head(70), ["town"], ["sex"], secret=secret).save(store)
    words = ["audit", store, "--secret", key, "--method", "ilba", "--method", "controlled"]
    shown = {}
    for width in ("78", "100"):
        monkeypatch.setenv("COLUMNS", width)
        shown[width] = CliRunner().invoke(commands, words, catch_exceptions=False).output
        assert "controlled" in shown[width]
        assert max(map(len, shown[width].splitlines())) <= int(width)
    assert "mean loss" in shown["78"]  # a column for each method
    assert "mean_loss" in shown["100"]  # a line for each method


def test_risk_by_controlled_masks_chooses_them_as_a_release_would(people, secret):
    finest = ilba.build(people.head(70), ["town"], ["sex"], secret=secret)
    found = ilba.risk(finest, "proof", method="controlled").published
    chosen = finest.controlled(secret=secret).frame["N_masked"].to_list()
    assert found.tables[found.lattice.base].value.tolist() == chosen != finest.frame["N_masked"].to_list()


@pytest.mark.long
def test_risk_and_audit_of_a_store_measure_the_masks_that_were_published(people, secret, tmp_path, monkeypatch):
    store = str(tmp_path / "s.parquet")
    secret.to_file(tmp_path / "k")
    finest = ilba.build(people.head(70), ["town"], ["sex"], secret=tmp_path / "k")
    finest.save(store)

    def told(*words):
        return CliRunner().invoke(commands, words, catch_exceptions=False).output.splitlines()[0]

    measures = ("risk", store, "--attacker", "proof"), ("audit", store)
    for words in measures:
        assert "These are tables by iLBA" in told(*words)  # also without a secret beside the store
    finest.release(tmp_path / "public")
    monkeypatch.setenv("ILBA_SECRET", str(tmp_path / "k"))
    for words in measures:
        assert "of 4 tables: method='controlled'" in told(*words)
        assert "of 4 tables: method='ilba'" in told(*words, "--method", "ilba")


def test_the_share_of_an_insider_on_controlled_sums_is_told_as_one_of_this_secret():
    row = {"K": 5, "mean_loss": 1.4, "max_loss": 7, "provable": 0.0, "safe": True, "insider": 0.331}
    ways = [("controlled", 7), ("sca-sums", None), ("controlled", 13), ("controlled", None)]
    told = sentences(pl.DataFrame([row | {"method": method, "insider_bound": bound} for method, bound in ways]))
    joint, other, wider, none = told
    assert joint.endswith("relies on errors of at most 7 proves, by this secret, 33.1%.")
    assert "relies on errors of at most 13 (the usual bound does not hold) proves" in wider
    assert "relies on no bound proves" in none
    assert "Of the finest cells with 1 to 4 an insider" in joint
    assert "secret" not in other


def test_choose_k_shows_the_bound_on_which_the_insider_of_a_row_relies(people, secret, tmp_path):
    store, key, page = (str(tmp_path / name) for name in ("s.parquet", "k", "c.html"))
    secret.to_file(key)
    finest = ilba.build(people.head(70), ["town"], ["sex"], secret=secret)
    finest.save(store)
    relied = ilba.risk(finest.controlled(secret=secret), Insider(secrets=0)).row("insider")["bound"]
    words = ["choose-k", store, "--secret", key, "--mask-thr", "5", "--attacker", "insider", "--out", page]
    told = CliRunner().invoke(commands, words, catch_exceptions=False).output
    (line,) = (line for line in told.splitlines() if line.startswith("insider bound"))
    assert line.split()[2:] == ["-", str(relied)]
    assert '<th scope="col">insider bound</th>' in Path(page).read_text("utf-8")
    rows = what_if(finest, ["ilba", "controlled"], [5], attackers="insider", secret=secret)
    assert rows["insider_bound"].to_list() == [None, relied]
    assert "insider_bound" not in str(ilba.charts.attackers(rows).to_dict())
    bare = CliRunner().invoke(commands, [*words, "--method", "ilba"], catch_exceptions=False).output
    assert not any(line.startswith("insider bound") for line in bare.splitlines())


def test_the_bound_of_an_insider_is_told_in_the_same_words_everywhere(people, secret, tmp_path):
    guide = Path(__file__).parents[2] / "docs" / "understand" / "attackers.md"
    store, key, page = (str(tmp_path / name) for name in ("s.parquet", "k", "c.html"))
    secret.to_file(key)
    ilba.build(people.head(70), ["town"], ["sex"], secret=secret).save(store)
    words = ["compare", store, "--secret", key, "--method", "controlled", "--attacker", "insider", "--out", page]
    told = CliRunner().invoke(commands, words, catch_exceptions=False).output
    written = html.unescape(Path(page).read_text("utf-8"))
    for text in (MEANING, guide.read_text("utf-8"), told, written):
        assert RELIES in " ".join(text.split())
    bare = CliRunner().invoke(commands, words[:6], catch_exceptions=False).output
    assert "insider relies" not in bare


def test_masks_are_chosen_for_the_plan_of_a_release_whichever_tables_are_measured(people, secret, monkeypatch):
    finest = ilba.build(people, HKEY[:2], ["sex", "age", "job"], secret=secret)
    some = {"levels": [HKEY[1]], "max_keys": 1}
    masks = {"all": finest.controlled(secret=secret), "these": finest.controlled(secret=secret, **some)}
    tables = wanted_tables(finest.design, **some)
    names = [table.name for table in tables]
    means = {}
    for name, plan in (("all", "all"), ("these", names)):
        means[name] = losses(PublishedTables.of(masks[name], "controlled", tables)).mean()
        (chosen,) = what_if(finest, ["controlled"], [5], attackers="proof", secret=secret, plan=plan, **some)[
            "mean_loss"
        ]
        (found,) = compare(finest, methods=["controlled"], secret=secret, plan=plan, **some).rows["mean_loss"]
        measured = ilba.risk(finest, "proof", method="controlled", plan=plan, **some).published
        assert means[name] == chosen == found == losses(measured).mean()
    assert means["these"] < means["all"]
    # Where all tables are too many to list, a release needs a plan: it is taken to be these tables.
    monkeypatch.setattr("ilba.design.tables.MOST_TABLES", 10)
    (found,) = compare(finest, names, methods=["controlled"], secret=secret).rows["mean_loss"]
    assert found == means["these"]


def test_a_comparison_of_some_tables_says_which_methods_depend_on_the_others(people, secret):
    finest = ilba.build(people.head(70), ["town"], ["sex"], secret=secret)
    asked = ["controlled", "rounding:5", "small-count-rounding:5"]
    told = "small-count-rounding base=5: numbers depend on which tables are published. These are of a release of 2 "
    for tables, said in ((["town", "town.sex"], True), ("all", False)):
        remarks = compare(finest, tables, methods=asked, secret=secret).remarks
        assert any(one.startswith(told) for one in remarks) is said


def test_a_comparison_of_some_tables_says_for_which_ones_masks_were_chosen(people, secret):
    finest = ilba.build(people.head(70), ["town"], ["sex"], secret=secret)
    told = "controlled: masks were chosen for 4 tables, of which 2 are measured. --plan (plan=) names fewer."
    some = ["town", "town.sex"]
    for tables, plan, said in ((some, "all", True), (some, some, False), ("all", "all", False)):
        assert (told in compare(finest, tables, methods=["controlled"], secret=secret, plan=plan).remarks) is said
        assert told not in compare(finest, tables, methods=["rounding:5"], secret=secret, plan=plan).remarks


def test_a_dash_in_choose_k_is_explained_where_nothing_was_believed(people, secret):
    finest = ilba.build(people.head(70), ["town"], ["sex"], secret=secret)
    row = what_if(finest, ["sca-sums"], [5], attackers="outsider", secret=secret).row(0, named=True)
    assert (row["outsider"], row["outsider_right"]) == (0.0, None)  # measured, and nothing was believed
    assert "Under outsider right it also means that nothing was believed" in MEANING


@pytest.mark.slow
def test_a_later_wave_is_measured_with_the_masks_of_its_release_before_and_after_it(people, secret, tmp_path):
    secret.to_file(tmp_path / "k")
    about = {"secret": tmp_path / "k", "population": "p"}
    first, second = (
        ilba.build(rows, ["town"], ["sex"], **about, wave=wave)
        for wave, rows in (("1", people.head(70)), ("2", people.slice(6, 70)))
    )
    first.release(tmp_path / "1")

    def measured():
        found = ilba.risk(second, "proof", method="controlled").published
        tried = what_if(second, ["controlled"], [5], attackers="proof", secret=tmp_path / "k")
        compared = [compare(second, methods=one, secret=tmp_path / "k").rows for one in (["controlled"], None)]
        shown = [rows.filter(method="controlled").select("mean_loss", "max_loss").row(0) for rows in (tried, *compared)]
        return found.tables[found.lattice.base].value.tolist(), shown

    before, losses_before = measured()
    second.release(tmp_path / "2")
    published = second.published()
    loss = losses(ilba.audit(published).published)
    assert (before, losses_before) == measured()
    assert (
        before == published.frame["N_masked"].to_list() != second.controlled(secret=secret).frame["N_masked"].to_list()
    )
    assert losses_before == [(pytest.approx(loss.mean()), loss.max())] * 3


@pytest.mark.long
def test_what_if_chooses_masks_where_it_says_controlled(people, secret, recwarn):
    finest = ilba.build(people.head(800), HKEY, ["sex", "age"], secret=secret)
    wanted = {"levels": [1, 2], "keys": ["sex", "age"]}
    proof = {**wanted, "attackers": "proof"}
    rows = what_if(finest, ["controlled", "sca-sums"], [5, 3], secret=secret, **proof)
    chosen = finest.controlled(secret=secret)  # for all tables, as a release chooses them
    assert rows["max_loss"][0] == losses(ilba.audit(chosen, **wanted).published).max()
    assert what_if(chosen, ["controlled"], [5], secret=secret, **proof).row(0) == rows.row(0)
    by_method = rows.partition_by("method", as_dict=True)
    assert (by_method["controlled",]["max_loss"] < by_method["sca-sums",]["max_loss"]).all()
    assert rows["safe"].all()
    # What is there needs no key, and a key that was made with the table is at hand.
    assert what_if(chosen, ["controlled"], [5], **proof).row(0) == rows.row(0)
    assert what_if(finest, ["sca-sums"], [5], **proof).row(0) == rows.row(1)
    fresh = ilba.build(people.head(800), HKEY, ["sex", "age"])
    assert what_if(fresh, ["ilba"], [3], **proof).equals(what_if(fresh, ["ilba"], [3], **proof))
    assert not [one for one in recwarn if issubclass(one.category, ilba.Notice)]
    # Without a key another one chooses, the same for all rows, and that is told once.
    with pytest.warns(ilba.Notice) as told:
        twice = what_if(finest, ["controlled", "ilba"], [5, 4, 4, 3], **proof)
    assert [str(one.message).partition(":")[0] for one in told] == ["drawn with a throw-away secret"]
    assert twice.slice(2, 2).equals(twice.slice(4, 2))
    assert twice.row(1) == what_if(finest, ["ilba"], [5], **proof).row(0)


@pytest.mark.slow
def test_what_if_compare_and_the_report_sum_up_the_same_losses_alike(people, secret):
    finest = ilba.build(people.head(500), HKEY, ["sex", "job"], secret=secret)
    wanted = {"levels": [1, 3], "keys": ["sex", "job"]}
    tried = what_if(finest, ["ilba"], [5], attackers="proof", **wanted).row(0, named=True)
    compared = compare(finest, secret=secret, **wanted).rows.filter(method="iLBA, observed cells").row(0, named=True)
    tables = list(finest.cube(**wanted))
    told = Loss.together([Loss.of(table) for table in tables]).summary
    assert (tried["mean_loss"], tried["p99_loss"], tried["max_loss"]) == told[:3]
    assert (
        tuple(compared[name] for name in ("mean_loss", "p99_loss", "max_loss", "within_half_K", "over_bound")) == told
    )
    size = np.concatenate([table.detail["loss"].abs().to_numpy() for table in tables])
    assert told.p99 == np.quantile(size, 0.99, method="inverted_cdf")
    for share in ("provable", "exact", "safe"):
        assert tried[share] == compared[share]
    assert 0 < tried["provable"] < 1
    assert 0 < compared["within_half_K"] < 1


@pytest.mark.slow
def test_on_the_census_every_policy_but_sums_gives_cells_away_in_this_order():
    shares = {}
    for cells in ("observed", "grid"):
        finest = ilba.build(
            ilba.datasets.census(),
            ["LA1", "LA2", "LA3"],
            ["gender", "edu", "age"],
            cells=cells,
            secret=Secret(bytes(32)),
        )
        for method in ("ilba", "r-rows", "r-file", "sca-sums"):
            shares[method, cells] = ilba.audit(finest, method, explanations=0, brief=True).share
    assert shares["r-file", "observed"] > 0.8 > shares["r-rows", "observed"] > 0.6
    assert 0.15 < shares["ilba", "grid"] < 0.30
    assert 0.15 < shares["ilba", "observed"] < 0.35
    assert shares["sca-sums", "observed"] == shares["sca-sums", "grid"] == 0
    # What the R package would write does not depend on the reading of the store.
    assert shares["r-file", "observed"] == shares["r-file", "grid"]


@pytest.mark.slow
def test_what_if_puts_each_attacker_beside_the_loss_as_risk_measures_it(people, secret):
    finest = ilba.build(people.head(800), HKEY[:2], ["sex", "age"], secret=secret, cells="grid")
    register = people.head(800).group_by("region", "sex").agg(N=pl.len())
    outside = ilba.Register({"region.sex": register})
    named = ["outsider", "neighbour", "insider", "attribute", outside]
    wanted = {"levels": [1, 2], "keys": ["sex", "age"]}
    plan = wanted_tables(finest.design, **wanted)
    rows = what_if(
        finest, ["ilba", "controlled"], [5], attackers=named, bounds=[None, 9], secret=secret, plan=plan, **wanted
    )  # fmt: skip
    assert rows.select("method", "K", "bound").rows() == [
        ("ilba", 5, None),
        ("controlled", 5, None),
        ("controlled", 5, 9),
    ]
    for row in rows.to_dicts():
        made = finest
        if row["method"] == "controlled":
            made = finest.controlled(plan, row["bound"], secret=secret)
        report = ilba.risk(made, named, bound=row["bound"], **wanted)
        small = report.row("insider")["small"]
        assert row["insider"] == pytest.approx(report.row("insider")["proven"] / small)
        assert row["neighbour"] == pytest.approx(report.row("neighbour")["proven"] / small)
        assert row["register region.sex"] == pytest.approx(report.row("register region.sex")["proven"] / small)
        assert row["outsider"] == pytest.approx(report.row("outsider")["likely_share"])
        assert row["outsider_right"] == report.row("outsider")["likely_right"]
        assert row["groups"] == report.row("attribute")["groups"]
    by_method = {(row["method"], row["bound"]): row for row in rows.to_dicts()}
    # Everybody with everything but one cell proves nearly all of iLBA, less the wider the bound of controlled sums is.
    assert by_method["ilba", None]["insider"] > by_method["controlled", None]["insider"]
    assert by_method["controlled", None]["insider"] >= by_method["controlled", 9]["insider"]
    drawn = ilba.charts.attackers(rows).to_dict()
    titles = [one["title"]["text"] for one in drawn["concat"]]
    assert len(titles) == 6
    assert "small cells that register region.sex proves" in titles
    assert drawn["usermeta"] == {"confidential": True}
    with pytest.raises(ilba.InputError, match="bounds go with controlled"):
        what_if(finest, ["ilba"], [5], bounds=[9])


@pytest.mark.slow
def test_what_if_takes_every_method_of_the_lab_and_calls_none_without_a_limit_safe(people, secret):
    finest = ilba.build(people.head(300), HKEY[:2], ["sex", "job"], secret=secret)
    methods = ["rounding:3", ilba.methods.CellKey(D=2, V=1.0), "noise:1", "suppression", "controlled:bound=9"]
    rows = what_if(finest, methods, [5, 3], secret=secret, max_keys=1).to_dicts()
    assert [row["method"] for row in rows[:2]] == ["rounding:3", "cell-key D=2 V=1"]
    by = {(row["method"], row["K"]): row for row in rows}
    assert by["rounding:3", 5]["max_loss"] <= 2
    assert by["cell-key D=2 V=1", 3]["max_loss"] <= 2
    assert by["suppression", 5]["max_loss"] == 0  # what is blank has no loss
    assert not any(by["noise:1", K]["safe"] or by["noise:1", K]["provable"] for K in (5, 3))
    assert by["controlled:bound=9", 5]["safe"]
    assert by["controlled:bound=9", 5]["max_loss"] <= 9


def test_a_second_wave_is_measured_as_one_wherever_its_secret_and_ledger_are(tmp_path, monkeypatch):
    people = ilba.datasets.census(1500)
    next_year = pl.concat([people.tail(-300), ilba.datasets.census(300, seed=7)])
    (tmp_path / "secrets").mkdir()
    Secret(bytes(32)).to_file(tmp_path / "secrets" / "own.secret")
    secret, ledger = Secret.from_file(tmp_path / "secrets" / "own.secret"), tmp_path / "secrets" / "own.ledger"
    for wave, records in (("1", people), ("2", next_year)):
        how = {"secret": secret, "population": "p", "wave": wave, "output_path": tmp_path / f"{wave}.parquet"}
        finest = ilba.build(records, ["LA1", "LA2"], ["age"], **how)
        finest.release(tmp_path / wave, ledger=ledger)
    shown = ilba.open_store(tmp_path / "2.parquet").published(secret=secret, ledger=ledger)
    notes = " ".join(ilba.risk(shown, ["insider"]).notes)
    assert "masks of earlier publications are kept here" in notes
    assert "with 3 other secrets" not in notes
    first = ilba.open_store(tmp_path / "1.parquet").published(secret=secret, ledger=ledger)
    assert "masks of earlier publications are kept here" not in " ".join(ilba.risk(first, ["insider"]).notes)
    store = ilba.open_store(tmp_path / "2.parquet")
    monkeypatch.delenv("ILBA_LEDGER")  # it goes before the one beside the secret
    with pytest.warns(ilba.Notice, match=r"^K = 5 without a bound keeps the masks that were published\."):
        what_if(store, ["controlled"], [3, 5], attackers="proof", secret=secret, max_keys=1)
