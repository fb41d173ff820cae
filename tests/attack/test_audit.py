"""The audit: what it calls proven is true in every world that fits, and what it calls safe has a counterexample."""

from __future__ import annotations

import polars as pl
import pytest

import ilba
from ilba import FinestTable, InputError, PublishedTables
from ilba.attack.audit import in_percent, losses
from ilba.attack.bounds import Attack
from ilba.attack.fewcells import NOT_KNOWN
from ilba.cells.codes import CodeLists
from ilba.design.tables import selections
from ilba.methods.lab import method_of
from support.attacks import public_release, true_table
from support.leaks import every_code
from support.people import HKEY, ILBA, KEY, population


@pytest.mark.slow
@pytest.mark.parametrize("cells", ["observed", "grid"])
def test_ranges_list_every_cell_of_the_grid_with_its_labels(secret, cells):
    finest = ilba.build(population(400), HKEY, KEY, secret=secret, cells=cells)
    report = ilba.audit(finest)
    ranges = report.ranges
    assert ranges.columns == [*HKEY, *KEY, "low", "high"]
    assert ranges.height == finest.codes.finest.grid
    joined = ranges.join(finest.frame, on=[*HKEY, *KEY], how="left").with_columns(pl.col("N").fill_null(0))
    assert (joined["low"] <= joined["N"]).all()
    assert (joined["N"] <= joined["high"]).all()
    assert report.cells_small == finest.frame.filter(pl.col("N") < 5).height
    assert 0 < report.cells_disclosed < report.cells_small


@pytest.mark.slow
def test_ranges_are_of_counts_and_not_of_occupied_cells(secret):
    finest = ilba.build(population(1500), HKEY, KEY, secret=secret)
    ranges = ilba.audit(finest, explanations=0).ranges.join(finest.frame, on=[*HKEY, *KEY])
    several = ranges.filter(pl.col("low") >= 2, pl.col("N") <= 5)
    assert several.height > 10
    assert several.select((pl.col("low") <= pl.col("N")) & (pl.col("N") <= pl.col("high"))).to_series().all()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ilba", "r-file"])
@pytest.mark.parametrize("names", ["all", ["town.sex.age", "block.sex", "all"]])
def test_a_release_audited_in_parts_gives_the_same_report(secret, monkeypatch, method, names):
    finest = ilba.build(population(800), HKEY, ["sex", "age"], 3, secret=secret)
    whole = ilba.audit(finest, method, names, explanations=3)
    parts = []

    def in_parts(published):
        parts.append(Attack(published, budget=100))
        return parts[-1]

    monkeypatch.setattr("ilba.attack.audit.Attack", in_parts)
    report = ilba.audit(finest, method, names, explanations=3)
    assert len(parts[0].chunks) > 2
    assert report.ranges.equals(whole.ranges)
    assert report.tables.equals(whole.tables)
    assert {**report.to_dict(), "seconds": 0} == {**whole.to_dict(), "seconds": 0}


@pytest.mark.slow
def test_a_large_grid_lists_the_cells_of_the_store(secret, monkeypatch):
    finest = ilba.build(population(400), HKEY, KEY, secret=secret)
    whole = ilba.audit(finest)
    monkeypatch.setattr("ilba.attack.audit.COMPLETE", 10)
    report = ilba.audit(finest)
    assert report.ranges.select(HKEY + KEY).equals(finest.frame.select(HKEY + KEY))
    assert report.ranges.equals(whole.ranges.join(report.ranges.select(HKEY + KEY), on=HKEY + KEY, how="semi"))


@pytest.mark.slow
@pytest.mark.parametrize("cells", ["observed", "grid"])
def test_public_tables_alone_prove_the_same(secret, cells):
    finest = ilba.build(population(600), HKEY, KEY, secret=secret, cells=cells)
    names = [table.name for table in selections(finest.design, levels=[1, 3])]
    codes = CodeLists.from_json(finest.design, finest.codes.to_json())
    public = ilba.audit(PublishedTables.from_frames(codes, public_release(finest, names)))
    store = ilba.audit(finest, tables=names)
    assert public.ranges.equals(store.ranges)
    assert public.cells_disclosed == store.cells_disclosed > 0
    assert public.cells_exact == store.cells_exact
    needs_truth = ("small", "certified", "undecided")
    assert public.tables.drop(needs_truth).equals(store.tables.drop(needs_truth))
    assert [one.why for one in public.worst] == [one.why for one in store.worst]
    assert (public.cells_small, public.cells_certified, public.cells_undecided) == (None, None, None)
    assert public.misfits > 0
    assert not public.certificate
    assert "unknown" in str(public)


def test_tables_of_another_release_are_refused(secret):
    finest = ilba.build(population(600), HKEY, KEY, secret=secret, cells="grid")
    frames = public_release(finest, ["block.sex.age.job", "town.sex"])
    changed = frames["town.sex"].with_columns(pl.col("N_masked") + 1)
    with pytest.raises(InputError, match=r"'town\.sex' holds numbers that method='ilba' with K=5"):
        ilba.audit(PublishedTables.from_frames(finest.codes, {**frames, "town.sex": changed}))
    with pytest.raises(InputError, match="labels in region, town that no code list holds"):
        PublishedTables.from_frames(
            finest.codes, {"town": pl.DataFrame({"region": "09", "town": "0901", "N_masked": 7})}
        )
    with pytest.raises(InputError, match="two rows for the same cell"):
        PublishedTables.from_frames(finest.codes, {"all": pl.DataFrame({"N_masked": [7, 8]})})
    with pytest.raises(InputError, match="no column N_masked"):
        PublishedTables.from_frames(finest.codes, {"all": pl.DataFrame({"N": [7]})})


def test_wrong_use_is_answered_with_what_to_type(finest):
    with pytest.raises(InputError, match="Did you mean 'controlled'"):
        ilba.audit(finest, "controled")
    with pytest.raises(InputError, match="Did you mean 'sex'"):
        ilba.audit(finest, tables=["town.sez"])
    with pytest.raises(InputError, match="leave out levels"):
        ilba.audit(finest, tables=["town.sex"], levels=[1])
    with pytest.raises(InputError, match="Name at least one"):
        ilba.audit(finest, tables=[])
    with pytest.raises(InputError, match="Did you mean 'tables'"):
        ilba.audit(finest, tabels=["town.sex"])
    with pytest.raises(InputError, match="takes a finest table"):
        ilba.audit(finest.frame)
    with pytest.raises(InputError, match="takes the method by its name"):
        ilba.audit(finest, 7, areas=True)
    with pytest.raises(InputError, match="the name of a method of the audit itself"):
        ilba.audit(finest, method_of("rounding:3"), areas=True)


@pytest.mark.parametrize(
    "given",
    [{"stores": ["s"]}, {"unchanged": True}, {"changed": 0}, {"rename": {"a": "b"}}, {"regroup": {"age": {"1": "2"}}}],
    ids=lambda given: next(iter(given)),
)
def test_what_goes_with_several_releases_is_refused_for_one(finest, given):
    with pytest.raises(InputError, match="go with a list of releases"):
        ilba.audit(finest, **given)


@pytest.mark.long
def test_fewer_tables_prove_less(finest, audited):
    everything = audited
    few = ilba.audit(finest, tables=["block.sex.age.job", "town.sex", "all"])
    assert few.cells_small == everything.cells_small
    assert few.cells_disclosed < everything.cells_disclosed
    assert ilba.audit(finest, tables=["town.sex"]).published.split is False


def test_the_worst_comes_first_what_is_known_most_exactly_and_then_the_smallest(secret, monkeypatch):
    finest = ilba.build(population(500), ["region", "town"], ["sex", "age"], secret=secret)
    report = ilba.audit(finest, "r-file", explanations=10**6)
    found = report.ranges.filter((pl.col("low") >= 1) & (pl.col("high") < 5))
    assert {(1, 3), (3, 4)} <= set(found.select("low", "high").rows())  # the narrow one first, though it is larger
    assert len(report.worst) == found.height == report.cells_disclosed
    assert found.filter(pl.col("low") == pl.col("high")).height == report.cells_exact == 3
    assert report.tables.row(by_predicate=pl.col("table") == "town.sex.age", named=True)["exact"] == 3
    assert report.tables["exact"].sum() == 5
    assert report.misfits == report.published.misfits
    rank = [(one.high - one.low, one.high) for one in report.worst]
    assert rank == sorted(rank) == sorted((high - low, high) for low, high in found.select("low", "high").rows())
    monkeypatch.setattr("ilba.attack.audit.MOST_WORST", 4)
    assert ilba.audit(finest, "r-file", explanations=10**6).worst == report.worst[:4]


@pytest.mark.slow
def test_a_release_alone_is_audited_as_its_public_tables_are(finest, tmp_path, secret):
    names = ["block.sex.age.job", "town.sex", "all"]
    release = finest.release(tmp_path / "out", tables=names, **ILBA)
    report = ilba.audit(release)
    frames = {name: release.table(name) for name in names}
    same = ilba.audit(PublishedTables.from_frames(release.code_lists(), frames, "ilba"))
    assert {**report.to_dict(), "seconds": 0} == {**same.to_dict(), "seconds": 0, "folder": []}
    assert (report.cells_small, report.cells_certified, report.cells_undecided) == (None, None, None)
    assert report.tables.schema["small"] == pl.Int64
    assert report.tables["small"].to_list() == [None] * 3
    assert not report.certificate
    with pytest.raises(InputError, match="not known without the store"):
        losses(report.published)
    sums = finest.release(tmp_path / "sums", tables=names, ledger=False)
    assert ilba.audit(sums).certificate


def test_two_hierarchies_are_named_in_the_level_of_a_table(secret):
    hkey = {"area": ["region", "town"], "work": ["job"]}
    report = ilba.audit(ilba.build(population(300), hkey, ["sex"], secret=secret), explanations=0)
    assert set(report.tables["level"]) == {"all", "region", "town", "job", "region+job", "town+job"}


@pytest.mark.long
def test_a_table_of_the_report_counts_its_own_cells(finest, audited):
    report = audited
    K = finest.design.threshold
    by_name = {row["table"]: row for row in report.tables.to_dicts()}
    assert [*by_name][:: len(by_name) - 1] == ["all", "block.sex.age.job"]
    assert set(by_name) == {one.name for one in selections(finest.design)}
    for selection in selections(finest.design):
        row = by_name[selection.name]
        table = true_table(finest, selection)
        # Truly small is a cell without a large finest cell in it: a count below K cannot hold one.
        assert row["small"] == table.filter(pl.col("N").is_between(1, K - 1)).height, selection.name
        assert row["level"] == (HKEY[selection.levels[0] - 1] if selection.levels[0] else "all")
        assert 0 <= row["exact"] <= row["disclosed"] <= row["small"]
    assert report.aggregates == sum(row["disclosed"] for row in by_name.values()) - report.cells_disclosed > 0


@pytest.mark.slow
def test_a_release_of_another_store_is_refused(finest, people, tmp_path, secret):
    release = finest.release(tmp_path / "out", tables=["block.sex.age.job", "town.sex"], **ILBA)
    report = ilba.audit(release, store=finest)
    assert report.cells_small == finest.frame.filter(pl.col("N").is_between(1, 4)).height
    other = ilba.build(people.head(2990), HKEY, KEY, secret=secret)
    with pytest.raises(InputError, match=r"not made from this store: the table 'block\.sex\.age\.job' differs"):
        ilba.audit(release, store=other)
    with pytest.raises(InputError, match=r"Open it: store=ilba\.open_store\('full_tb\.parquet'\)"):
        ilba.audit(release, store="full_tb.parquet")
    grid = finest.release(tmp_path / "grid", tables=["block.sex.age.job", "town.sex"], rows="grid", **ILBA)
    assert ilba.audit(grid, store=finest).ranges.equals(report.ranges)


@pytest.mark.parametrize("method", ["ilba", "controlled", "rounding:5"])
def test_a_release_is_compared_with_a_store_whose_keys_are_in_another_order(people, tmp_path, secret, method):
    def store(records, keys):
        return ilba.build(records, ["town"], keys, secret=secret, population="people", wave="1")

    options = {"tables": ["town.sex.age", "town"], "accept_risk": method != "controlled", "ledger": tmp_path / "book"}
    finest = store(people, ["sex", "age"])
    release = finest.release(tmp_path / "out", method, **options)
    asked = {"store": finest, "explanations": 0}
    assert ilba.audit(release, **asked | {"store": store(people, ["age", "sex"])}).cells_small > 0
    with pytest.raises(InputError, match=r"not made from this store: the table 'town\.age\.sex' differs"):
        ilba.audit(release, **asked | {"store": store(people.head(2990), ["age", "sex"])})


def _few(secret, n=90):
    """People of six towns by sex, with all codes declared."""
    people = population(n)
    return ilba.build(people, ["town"], ["sex"], secret=secret, labels=every_code(people, ["town"], ["sex"]))


@pytest.mark.long
@pytest.mark.parametrize("method", ["noise:1", "suppression:kind=primary", "cell-key:D=2,V=1", "rounding:3"])
def test_a_release_by_any_method_is_compared_with_its_store(secret, tmp_path, method):
    finest = _few(secret)
    release = finest.release(tmp_path / "r", method, ["town.sex", "all"], ledger=False, accept_risk=True)
    report = ilba.audit(release, store=finest, explanations=0)
    assert report.cells_small == finest.frame.filter(pl.col("N").is_between(1, 4)).height
    named = ilba.audit(release, store=finest.with_method(method), explanations=0)
    assert named.tables.equals(report.tables)
    proven = ["table", "disclosed", "exact"]
    assert ilba.audit(release, explanations=0).tables.select(proven).equals(report.tables.select(proven))
    with pytest.raises(InputError, match=r"was not made from this store: the table '.*' differs\.$"):
        ilba.audit(release, store=_few(secret, 60))


def test_the_masks_that_were_chosen_for_a_release_are_read_from_the_ledger(secret, tmp_path, monkeypatch):
    finest = _few(secret)
    release = finest.release(tmp_path / "r", tables=["town", "all"])
    report = ilba.audit(release, store=finest)
    assert report.certificate
    assert report.published.tables[(1, 0)].value.tolist() == release.table("town")["N_masked"].to_list()
    monkeypatch.setenv("ILBA_LEDGER", str(tmp_path / "no.ledger"))
    with pytest.raises(InputError, match=r"differs, or its masks are in a ledger that was not found.* of a trial"):
        ilba.audit(release, store=_few(secret, 60))


def test_a_code_that_only_a_blank_shows_is_published(secret, tmp_path):
    counts = pl.DataFrame({"town": list("aab"), "sex": list("fmf"), "N": [60, 40, 3]})
    finest = ilba.FinestTable.from_counts(counts, ["town"], ["sex"], secret=secret)
    how = {"tables": ["town.sex", "town"], "ledger": False, "accept_risk": True}
    release = finest.release(tmp_path / "r", "suppression:kind=primary", **how)
    assert release.table("town").filter(town="b")["N_masked"].to_list() == [None]
    assert ilba.audit(release).folder == ()


def test_public_tables_alone_leave_the_columns_about_the_truth_empty(finest):
    tables = ilba.audit(PublishedTables.from_frames(finest.codes, public_release(finest, ["town.sex"]))).tables
    needs_truth = ["small", "certified", "undecided"]
    assert tables.select(needs_truth).rows() == [(None, None, None)]
    assert [tables.schema[name] for name in needs_truth] == [pl.Int64] * 3


def test_shares_are_shown_in_percent():
    shares = pl.DataFrame({"within_half_K": 0.5, "over_bound": 0.25, "provable": 0.125, "exact": 0.0, "mean_loss": 0.5})
    assert in_percent(shares).to_dicts() == [
        {"within_half_K %": 50.0, "over_bound %": 25.0, "provable %": 12.5, "exact %": 0.0, "mean_loss": 0.5}
    ]


def test_a_large_grid_without_any_row_lists_no_cell(finest, monkeypatch):
    frames = public_release(finest, ["town.sex", "town.job"])
    everything = ilba.audit(PublishedTables.from_frames(finest.codes, frames))
    assert everything.ranges.height == 6 * 2 * 3
    monkeypatch.setattr("ilba.attack.audit.COMPLETE", everything.ranges.height)
    assert ilba.audit(PublishedTables.from_frames(finest.codes, frames)).ranges.equals(everything.ranges)
    monkeypatch.setattr("ilba.attack.audit.COMPLETE", everything.ranges.height - 1)
    report = ilba.audit(PublishedTables.from_frames(finest.codes, frames))
    assert report.ranges.columns == everything.ranges.columns
    assert report.ranges.is_empty()
    assert report.tables.equals(everything.tables)


@pytest.mark.long
@pytest.mark.parametrize("method", ["ilba", "controlled"])
def test_a_release_is_compared_with_its_store_while_the_tables_are_rolled_up_once(
    finest, secret, tmp_path, monkeypatch, method
):
    made = finest.controlled(max_keys=1, secret=secret) if method == "controlled" else finest
    release = made.release(tmp_path / "r", max_keys=1, **ILBA | {"method": method})
    rolled = []
    sums = FinestTable.sums
    monkeypatch.setattr(FinestTable, "sums", lambda self, wanted: rolled.append(len(wanted)) or sums(self, wanted))
    with_store = ilba.audit(release, store=made, explanations=0)
    assert rolled == [len(release.tables) + 1]  # and the finest cells that they tell apart
    assert with_store.cells_small == ilba.audit(made, tables=list(release.tables), explanations=0).cells_small


def test_progress_is_told_to_its_end(finest):
    told = []
    ilba.audit(finest, explanations=0, max_keys=1, progress=lambda step: told.append((step.done, step.total)))
    assert told
    assert told[-1][0] == told[-1][1]


@pytest.mark.long
def test_a_brief_audit_says_the_same_of_what_is_proven_and_looks_no_further(finest, audited):
    brief = ilba.audit(finest, brief=True)
    assert audited.cells_disclosed > 0
    for name in ("cells_small", "cells_disclosed", "cells_exact", "share", "safe"):
        assert getattr(brief, name) == getattr(audited, name), name
    proven = ["table", "level", "small", "disclosed", "exact"]
    assert brief.tables.select(proven).equals(audited.tables.select(proven))
    assert (brief.aggregates_certified, brief.aggregates_undecided) == (None, None)
    assert (brief.cells_certified, brief.cells_undecided) == (None, None)
    assert "None" not in str(brief)
    assert brief.to_dict()["cells_undecided"] is None
    # Where nothing is proven, the verdict needs the rest, too.
    one = ilba.audit(finest, "ilba", ["region"], brief=True)
    assert one.cells_disclosed == 0
    assert one.cells_certified is not None


def test_a_brief_audit_looks_no_further_where_only_aggregates_are_proven(finest):
    whole, brief = (
        ilba.audit(finest, "r-file", ["block.sex", "block.age"], brief=is_brief) for is_brief in (False, True)
    )
    assert (whole.cells_disclosed, brief.cells_disclosed) == (0, 0)
    assert whole.aggregates == brief.aggregates > 0
    assert (whole.cells_certified is None, brief.cells_certified) == (False, None)
    assert brief.verdict == whole.verdict


@pytest.fixture
def narrow(monkeypatch):
    """Let no common refinement be followed, as if it had too many cells."""
    monkeypatch.setattr("ilba.attack.lattice.WIDEST", 0)
    monkeypatch.setattr("ilba.attack.published.WIDEST", 10**6)


@pytest.mark.long
def test_tables_whose_common_refinement_is_too_large_are_tied_by_their_common_margins(narrow, secret):
    """What one table leaves blank the other one tells: their common margin is published in neither of them."""
    counts = pl.DataFrame({"town": [1, 2, 2], "sex": [1, 1, 1], "job": [1, 1, 2], "N": [2, 40, 50]})
    finest = ilba.FinestTable.from_counts(counts, ["town"], ["sex", "job"], secret=secret)
    report = ilba.audit(finest, "suppression:kind=primary", ["town.sex", "all.sex.job"])
    assert report.cells_small is None, "the finest cells are not followed"
    assert report.tables.select("table", "small", "disclosed", "exact").rows() == [
        ("all.sex.job", 0, 0, 0),
        ("town.sex", 1, 1, 1),
    ]
    assert report.share_of_counts == 1
    assert not report.safe
    assert ilba.audit(finest, "sca-sums", ["town.sex", "all.sex.job"]).safe


def test_where_one_table_is_the_finest_of_all_common_margins_prove_the_same(finest, narrow, monkeypatch):
    names = ["rounding:3", "cell-key:D=2,V=1", "suppression:kind=primary"]
    found = [ilba.audit(finest, name, keys=["sex"], levels=[0, 1, 2]).tables for name in names]
    monkeypatch.setattr("ilba.attack.lattice.WIDEST", 10**6)
    for name, tables in zip(names, found, strict=True):
        assert ilba.audit(finest, name, keys=["sex"], levels=[0, 1, 2]).tables.equals(tables), name


def test_tables_are_tied_by_a_common_margin_that_nobody_publishes(secret):
    """The towns sum to the region, and the ages, too: the one blank age is the difference."""
    counts = pl.DataFrame({"region": ["r"] * 4, "town": ["a", "a", "b", "b"], "age": [1, 2, 2, 3], "N": [2, 20, 9, 30]})
    finest = FinestTable.from_counts(counts, ["region", "town"], secret=secret)
    tables = ["town", "region.age"]
    alone, beside = (
        ilba.audit(finest, "suppression:kind=primary", tables=names).tables for names in (tables, [*tables, "region"])
    )
    assert alone["exact"].sum() == 1
    assert alone.equals(beside.filter(pl.col("table").is_in(tables)))


def test_disclosed_counts_of_coarser_tables_are_listed_and_explained_where_no_finest_cell_is(secret, tmp_path):
    """The ages sum to the towns, so the blank age is the difference. Both tables together do not tell a town by age."""
    counts = pl.DataFrame({"region": ["r"] * 4, "town": ["a", "a", "b", "b"], "age": [1, 2, 2, 3], "N": [2, 20, 9, 30]})
    finest = FinestTable.from_counts(counts, ["region", "town"], secret=secret)
    report = ilba.audit(finest, "suppression:kind=primary", tables=["town", "region.age"])
    listed = report.disclosed_aggregates
    assert listed.rows() == [("region.age", "region r, age 1", 2, 2)]
    assert (report.cells_disclosed, listed.height) == (0, report.aggregates)
    assert report.to_dict()["disclosed_aggregates"] == listed.to_dicts()
    ((cell, low, high, why),) = report.worst
    assert (cell, low, high, why[-1]) == ("region r, age 1", 2, 2, "So region r, age 1 is exactly 2.")
    page = report.to_html(tmp_path / "audit.html").read_text("utf-8")
    assert "<td>region r, age 1</td><td>2</td>" in page
    assert "<summary>region r, age 1: 2</summary>" in page
    assert "Nothing was proven." not in page
    assert "여기에 설명된" not in report.to_html(tmp_path / "ko.html", lang="ko").read_text("utf-8")


def test_the_solver_is_not_proposed_for_methods_that_it_does_not_know(secret):
    finest = ilba.build(population(60), HKEY, KEY, secret=secret)
    for seconds in (0, 1):
        report = ilba.audit(finest, "rounding:3", max_keys=1, levels=[1], solver_seconds=seconds)
        assert {*report.why, *report.why_aggregates} <= {NOT_KNOWN}
        assert report.why


@pytest.mark.parametrize("function", [ilba.audit, ilba.risk])
def test_a_path_in_place_of_a_release_is_told_how_to_open_it(function):
    with pytest.raises(InputError, match=r"not a str\. Open it: ilba\.Release\('folder'\)"):
        function("folder")
