"""What was published without a ledger is entered, and later publications show the same masks."""

from __future__ import annotations

import shutil
import warnings

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import ilba
from ilba import FinestTable, InputError, Ledger, Population, Release, Secret, SecretError, UnsafeRelease
from ilba.cli import commands
from ilba.errors import Advice, Conflict
from ilba.methods.controlled.search import Chosen
from ilba.release.adopting import told
from ilba.release.chapter import Chapter
from ilba.tables.engine import KnownMasks

HKEY, KEY = ["LA1", "LA2", "LA3"], ["gender", "age"]
FINEST = "LA3.gender.age"


@pytest.fixture(scope="module")
def census():
    return ilba.datasets.census(5_000)


@pytest.fixture
def store(census, agency):
    return ilba.build(census, HKEY, KEY, secret=agency / "agency.secret")


def ledger_in(agency):
    return Ledger.create(agency / "agency.ledger")


def assert_equal_tables(one, other):
    common = set(one.tables) & set(other.tables)
    assert common
    for name in common:
        assert one.table(name).equals(other.table(name)), name


@pytest.mark.long
def test_masks_are_taken_from_a_released_finest_table(store, agency):
    old = store.release(agency / "old", tables=[FINEST, "LA2"], plan=["LA1.age"], ledger=False)
    (entered,) = ledger_in(agency).adopt([old], store)
    assert entered.adopted
    assert entered.tables == ("LA2", FINEST)
    assert_equal_tables(store.release(agency / "new"), old)


@pytest.mark.long
def test_without_a_finest_table_a_file_of_masks_is_needed(store, agency):
    masked = store.controlled(["LA1.age"])
    old = masked.release(agency / "old", tables=["LA2.age", "LA3"], ledger=False)
    with pytest.raises(UnsafeRelease, match=r"it holds no finest table.*masks file"):
        ledger_in(agency).adopt([old], store)
    assert not ledger_in(agency).publications
    ledger_in(agency).adopt([old], store, masks=masked)
    assert_equal_tables(store.release(agency / "new"), old)


@pytest.mark.slow
def test_releases_with_other_masks_are_entered_together_or_not_at_all(store, agency):
    one = store.controlled(["LA1.age"]).release(agency / "one", tables=[FINEST], ledger=False)
    other = store.controlled(["LA2.gender"]).release(agency / "other", tables=[FINEST], ledger=False)
    with pytest.raises(UnsafeRelease, match="Nothing was entered"):
        ledger_in(agency).adopt([one, other], store)
    assert not ledger_in(agency).publications
    ledger_in(agency).adopt([one], store)
    with pytest.raises(Conflict, match="other masks") as refused:
        ledger_in(agency).adopt([other], store)
    with pytest.warns(ilba.Notice, match="proves"):
        ledger_in(agency).adopt([other], store, accept_conflict=refused.value.id)
    assert len(ledger_in(agency).publications) == 2
    assert_equal_tables(store.release(agency / "new"), one)


def test_a_table_that_the_r_package_wrote_is_entered_by_its_name(store, agency):
    ledger_in(agency).adopt([], store, tables=["LA2.age"])
    with pytest.raises(Conflict, match="method='ilba'"):
        store.release(agency / "new", tables=["LA2"])
    assert Release(store.release(agency / "new", tables=["LA2"], method="ilba", accept_risk=True).path)


def test_csv_files_that_the_r_package_wrote_are_entered_if_the_masks_give_them(agency):
    counts = pl.DataFrame({"town": list("aaéé"), "own.car": [True, False] * 2, "N": [1, 3, 70, 90]})
    shown = counts.with_columns(N_masked=pl.Series([0, 5, 70, 90]))
    store = FinestTable.from_counts(shown, ["town"], ["own.car"])
    secret, file = Secret.from_file(agency / "agency.secret"), agency / "agg_tb.csv"
    wrote = '"town","own.car","N_masked","type1","type2"\n"a",FALSE,{},0,0\n"a",TRUE,0,0,0\n"é",FALSE,90,0,0\n'
    for text, says in [
        (wrote.format(5), r"agg_tb.csv' has only 2 rows of the 3 .* Nothing was entered.*\(--tables town\.own%2Ecar"),
        ('"",' + wrote.format(5).replace('\n"', '\n"1","'), r"agg_tb.csv' has R's row names.*row.names = FALSE"),
        (wrote.format(0), r"agg_tb.csv' differs from what these masks give in 2 rows of 3\. Nothing was entered"),
        (wrote.format(0) + '"é",TRUE,70,0,0\n', "in 1 row of 3"),
        (wrote.format(5) + '"é",TRUE,71,0,0\n', "in 1 row of 3"),
        (wrote.format(5) + '"é",TRUE,70,0,0\n"a",TRUE,9,0,0\n', "in 1 row of 3"),
        (
            wrote.format(5) + '"é",TRUE,70,0,0\n"c",TRUE,9,0,0\n',
            r"agg_tb.csv' has labels in 'town' that the store does not have: c\. Nothing was entered\. Give the",
        ),
        ('"Loss","n","perc"\n"0",1,100\n', "agg_tb.csv' is R's file of losses.* Leave it out"),
    ]:
        file.write_text(text, "utf-8")
        with pytest.raises((UnsafeRelease, InputError), match=says):
            ledger_in(agency).adopt([], store, tables=[str(file)], secret=secret)
    assert not ledger_in(agency).publications
    file.write_text(wrote.format(5) + '"é",TRUE,70,0,0\n', "cp1252")  # R before 4.2 on Windows
    options = {"tables": [str(file), "town"], "secret": secret}
    with pytest.raises(InputError, match=r"read={'encoding': 'cp1252'}"):
        ledger_in(agency).adopt([], store, **options)
    (entered,) = ledger_in(agency).adopt([], store, read={"encoding": "cp1252"}, **options)
    assert entered.tables == ("town", "town.own%2Ecar")


def test_a_csv_file_whose_codes_lost_their_zeros_is_told_of_its_codes_and_not_of_its_masks(agency):
    counts = pl.DataFrame({"town": ["00", "01", "1a", "10"], "N": [70, 80, 90, 60], "N_masked": [70, 80, 90, 60]})
    store, file = FinestTable.from_counts(counts, ["town"], []), agency / "resaved.csv"
    options = {"tables": [str(file)], "secret": Secret.from_file(agency / "agency.secret")}
    for lines, says in [
        ("00,70\n1,81\n1a,90\n10,60\n", r"in 'town' that the store does not have: 1\. .* has '01' for '1'"),
        ("0,70\n1,80\n1a,90\n10,60\n", r"does not have: 0, 1\. .* has '00' for '0'.* text .*--tables town\)"),
        ("0010,60\n", "has '10' for '0010'"),
    ]:
        file.write_text(f"town,N_masked\n{lines}")
        with pytest.raises(UnsafeRelease, match=says):
            ledger_in(agency).adopt([], store, **options)
    assert not ledger_in(agency).publications


def test_what_is_entered_already_is_not_entered_again(agency):
    store, release = toy([0, 5]), toy_release(agency, "out", 0, 5)
    options = {"secret": Secret.from_file(agency / "agency.secret")}
    for given in ({"releases": [release]}, {"releases": [], "tables": ["town"]}):
        (entered,) = ledger_in(agency).adopt(store=store, **given, **options)
        before = ledger_in(agency)
        assert before.adopt(store=store, **given, **options) == [entered]
        after = ledger_in(agency)
        assert (after.publications, after.tip) == (before.publications, before.tip)
        assert told([entered], after.publications) == "already entered; nothing was added"
    both = ledger_in(agency).adopt([release], store, tables=["all.sex"], **options)
    assert (
        told(both, after.publications)
        == "1 publication entered, 1 already entered; later publications keep the masks that were entered first"
    )
    assert [one.tables for one in ledger_in(agency).publications] == [("town.sex",), ("town",), ("all.sex",)]
    with ledger_in(agency).writing() as book:
        book.withdraw(both[0].number)
    (again,) = ledger_in(agency).adopt([release], store, **options)
    assert again.number > both[1].number  # after it was withdrawn, it is published anew


@pytest.mark.long
def test_masks_chosen_jointly_after_tables_by_r_keep_its_masks_of_unchanged_counts(agency):
    options = {"secret": agency / "agency.secret"}
    towns, masks = [f"{n:02}" for n in range(40)], [0, 5] * 19 + [70, 90]
    counts = pl.DataFrame({"town": towns, "sex": ["f"] * 40, "N": [2] * 38 + [70, 90]})
    by_r = FinestTable.from_counts(counts.with_columns(N_masked=pl.Series(masks)), ["town"], ["sex"])
    by_r.declared_as(Population("people", "2026"))
    ledger_in(agency).adopt([], by_r, tables=["town.sex"], secret=Secret.from_file(agency / "agency.secret"))
    changed = counts.with_columns(N=pl.Series([3] * 12 + [2] * 26 + [70, 90]))
    later = FinestTable.from_counts(changed, ["town"], ["sex"], **options).declared_as(Population("people", "2027"))
    with pytest.raises(Conflict) as refused:
        later.release(agency / "2027", **options)
    with (
        pytest.warns(ilba.Notice, match="proves 0 small counts"),
        warnings.catch_warnings(action="ignore", category=Advice),
    ):
        later.release(agency / "2027", accept_conflict=refused.value.id, **options)
    assert later.published(**options).frame["N_masked"].to_list()[12:] == masks[12:]
    back = FinestTable.from_counts(counts, ["town"], ["sex"], **options).declared_as(Population("people", "2028"))
    with pytest.raises(Conflict) as refused:  # the data of 2026, which R published
        back.release(agency / "2028", **options)
    with pytest.warns(ilba.Notice, match="proves 0 small counts"):
        back.release(agency / "2028", accept_conflict=refused.value.id, **options)
    assert back.published(**options).frame["N_masked"].to_list() == masks, "a count that comes back has its mask again"


@pytest.mark.long
def test_sums_of_a_year_that_r_published_are_refused_with_what_to_publish_instead(agency):
    counts = pl.DataFrame({"town": ["a", "a", "b", "b"], "sex": ["f", "m"] * 2, "N": [2, 50, 60, 70]})
    by_r = FinestTable.from_counts(counts.with_columns(N_masked=pl.Series([5, 50, 60, 70])), ["town"], ["sex"])
    by_r.declared_as(Population("people", "2026")).save(agency / "r.parquet")
    options = {"secret": agency / "agency.secret", "from_ledger": agency / "r.parquet", "where": {"sex": "f"}}
    ledger_in(agency).adopt([], by_r, tables=["town.sex"], secret=Secret.from_file(agency / "agency.secret"))
    women = counts.filter(pl.col("sex") == "f").drop("sex")
    women = FinestTable.from_counts(women, ["town"], [], secret=options["secret"])
    women.declared_as(Population("people", "2026"))
    for method in ("controlled", "ilba"):
        with pytest.raises(UnsafeRelease, match=r"with method='ilba', whose tables are no sums.*take the rows"):
            women.release(agency / "women", method, **options)


YEARS = [("2024", [0, 5, 5, 70, 90]), ("2025", [5, 0, 5, 71, 90])]
"""the masks of two years by R: of the first two counts, which did not change, it drew others"""


def year_of_r(masks, **population):
    counts = pl.DataFrame({"town": list("abcde"), "sex": "f", "N": [1, 3, 2 if masks[3] == 70 else 4, *masks[3:]]})
    finest = FinestTable.from_counts(counts.with_columns(N_masked=pl.Series(masks)), ["town"], ["sex"])
    return finest.declared_as(Population("people", **population))


@pytest.mark.long
def test_years_of_r_with_other_masks_are_entered_with_a_note_and_each_stays_as_it_was_published(agency):
    secret = Secret.from_file(agency / "agency.secret")
    options = {"tables": ["town.sex"], "secret": secret}
    first, second = (year_of_r(masks, wave=wave) for wave, masks in YEARS)
    ledger_in(agency).adopt([], first, **options)
    with pytest.warns(
        ilba.Notice, match=r"^2 small counts had another mask in wave '2024' .*the latest wave is best entered first\."
    ):
        ledger_in(agency).adopt([], second, **options)
    assert [one.other_masks for one in ledger_in(agency).publications] == [False, True]
    with warnings.catch_warnings(action="error"):
        ledger_in(agency).adopt([], second, **options)  # entered already
    for finest, (_, masks) in zip((first, second), YEARS, strict=True):
        assert finest.published(secret=secret).frame["N_masked"].to_list() == masks
    again = second.release(agency / "again", "ilba", ["town.sex"], rows="grid", accept_risk=True, secret=secret)
    assert again.table("town.sex").sort("town")["N_masked"].to_list() == [5, 5, 71, 90]  # R's own rows of the year
    counts = second.frame.drop("N_masked")
    rebuilt = FinestTable.from_counts(counts, ["town"], ["sex"], secret=agency / "agency.secret")
    rebuilt.declared_as(Population("people", "2025"))
    with pytest.raises(Conflict, match=r"published with other masks\. .*Publish from the store that has them"):
        rebuilt.release(agency / "rebuilt", "ilba", ["town.sex"], accept_risk=True)
    later = counts.with_columns(N=pl.Series([1, 3, 4, 72, 90]))
    later = FinestTable.from_counts(later, ["town"], ["sex"], secret=agency / "agency.secret")
    later.declared_as(Population("people", "2026"))
    told = r"^compared with wave '2024', .* prove about 0 .*So may wave '2025', whose masks are not all kept"
    with (
        pytest.warns(Advice, match=told),
        pytest.raises(Conflict, match="or accept the conflict: controlled") as refused,
    ):
        later.release(agency / "2026")
    with warnings.catch_warnings(action="ignore", category=ilba.Notice):
        later.release(agency / "2026", accept_conflict=refused.value.id)
    assert later.published().frame["N_masked"].to_list()[:2] == YEARS[0][1][:2], "the masks that were entered first"


@pytest.mark.parametrize("population", [{}, {"wave": "x"}])
def test_other_masks_by_r_for_one_wave_are_a_conflict_also_where_no_wave_is_named(agency, population):
    options = {"tables": ["town.sex"], "secret": Secret.from_file(agency / "agency.secret")}
    first, second = (year_of_r(masks, **population) for _, masks in YEARS)
    ledger_in(agency).adopt([], first, **options)
    with (
        pytest.warns(Advice, match="would prove about 2 small counts"),
        pytest.raises(Conflict, match=r"other masks for the same wave\. .*name it: wave= \(--wave\)"),
    ):
        ledger_in(agency).adopt([], second, **options)
    assert len(ledger_in(agency).publications) == 1


OTHERS = r"was published with other masks than this table has\. .*finest.published\(\), or from `ilba table --public`"


def test_numbers_of_people_who_were_published_with_other_masks_come_with_a_notice(agency, monkeypatch):
    path = agency / "2026.parquet"
    options = {"population": "p", "wave": "2026", "secret": agency / "agency.secret"}
    FinestTable.from_counts(TOY, ["town"], ["sex"], **options).save(path)
    store, wanted = ilba.open_store(path), (1, "sex", ["a"], ["f"])
    drawn = store.frame["N_masked"]
    by_r = TOY.with_columns(N_masked=pl.when(pl.col("N") < 5).then(5 - drawn).otherwise(drawn))
    by_r = FinestTable.from_counts(by_r, ["town"], ["sex"]).declared_as(Population("p", "2025"))
    with warnings.catch_warnings(action="error"):
        store.cell(*wanted)  # nothing was published
    ledger_in(agency).adopt([], by_r, tables=["town.sex"], secret=agency / "agency.secret")
    before = drawn[store.frame["town"].to_list().index("a")]
    of_r = (
        lambda: ilba.get_agg_freq(*wanted, path),
        lambda: store.cell(*wanted),
        lambda: ilba.save_agg_tb(1, "sex", path, agency / "a.csv", agency / "b.csv"),
        lambda: FinestTable.from_counts(TOY, ["town"], ["sex"], secret=agency / "agency.secret").cell(*wanted),
        lambda: CliRunner().invoke(commands, ["table", str(path)], catch_exceptions=False),
    )
    for give in (*of_r, lambda: store.table("town", "sex").public()):  # before this wave is published, too
        with pytest.warns(ilba.Notice, match=OTHERS):
            give()
    store.release(agency / "out", "ilba", ["town.sex"], accept_risk=True)
    for give in (
        *of_r,
        lambda: store.table("town").public(),
        lambda: store.table("town").chart(),
        lambda: store.table("town").write_csv(agency / "c.csv", public=True),
        lambda: CliRunner().invoke(commands, ["cell", str(path)], catch_exceptions=False),
        lambda: CliRunner().invoke(commands, ["cube", str(path), "-o", str(agency / "cube")], catch_exceptions=False),
    ):
        with pytest.warns(ilba.Notice, match=OTHERS):
            give()
    published = store.published()
    with warnings.catch_warnings(action="error"):
        published.table("town", "sex").public()
        assert published.cell(*wanted) == 5 - before
    with pytest.warns(ilba.Notice, match=OTHERS):
        assert ilba.get_agg_freq(*wanted, path) == before
    with monkeypatch.context() as once:
        once.setattr("ilba.release.other_numbers", lambda *_: pytest.fail("the ledger is read once"))
        with pytest.warns(ilba.Notice, match=OTHERS):
            ilba.get_agg_freq(*wanted, path)
    shutil.rmtree(agency / "agency.ledger")
    with warnings.catch_warnings(action="error"):
        assert CliRunner().invoke(commands, ["cell", str(path)], catch_exceptions=False).exit_code == 0


def test_save_full_tb_tells_of_other_masks_where_later_calls_do_not_find_the_secret(census, agency, tmp_path):
    secret, people = agency / "agency.secret", census.select(*HKEY, *KEY)
    ours = tmp_path / "ours.parquet"
    with warnings.catch_warnings(action="error"):
        ilba.save_full_tb(people, HKEY, KEY, output_path=ours, secret=secret)  # nothing was published
    ilba.build(people, HKEY, KEY, population="p", wave="1", secret=secret).release(tmp_path / "out", tables=["LA1"])
    with pytest.warns(ilba.Notice, match=r"published with method='controlled' and K=5, and this table has"):
        ilba.save_full_tb(people.tail(-9), HKEY, KEY, output_path=ours, secret=secret)


def test_a_cell_of_a_store_that_was_published_by_another_method_comes_with_a_notice(agency):
    path = agency / "store.parquet"
    FinestTable.from_counts(TOY, ["town"], ["sex"], secret=agency / "agency.secret").save(path)
    with warnings.catch_warnings(action="error"):
        ilba.get_agg_freq(1, "sex", ["a"], ["f"], path)
    ilba.open_store(path).release(agency / "out", accept_risk=True)
    with pytest.warns(ilba.Notice, match="was published with method='controlled' and K=5, and this table has"):
        ilba.get_agg_freq(1, "sex", ["a"], ["f"], path)


def test_a_release_of_another_store_is_refused(store, census, agency):
    other = ilba.build(census.tail(-9), HKEY, KEY, secret=agency / "agency.secret")
    old = other.release(agency / "old", tables=[FINEST], plan=["LA2"], ledger=False)
    with pytest.raises(UnsafeRelease, match="its finest table is of other counts"):
        ledger_in(agency).adopt([old], store)


TOY = pl.DataFrame({"town": list("abcd"), "sex": ["f", "m"] * 2, "N": [1, 3, 70, 90]})


def toy(masks, counts=TOY, key=("sex",), K=5):
    """A finest table whose masks were chosen jointly."""
    finest = FinestTable.from_counts(counts, ["town"], list(key), K, secret=Secret(bytes(range(32))))
    shown = counts.drop("N").with_columns(N_masked=pl.Series([*masks, *counts["N"][2:]]))
    return finest.with_masks_shown(shown, Chosen(("town.sex",), None, held=True))


def toy_release(agency, name, *masks, **more):
    options = {"tables": ["town.sex"], "rows": "grid", "ledger": False, "secret": agency / "agency.secret"}
    return toy(masks, **more).release(agency / name, **options)


def test_two_releases_with_different_masks_are_entered_together_or_not_at_all(agency):
    one, other = toy_release(agency, "one", 0, 5), toy_release(agency, "other", 5, 0)
    store, ledger = toy([0, 0]), ledger_in(agency)
    options = {"secret": Secret.from_file(agency / "agency.secret")}
    with pytest.raises(UnsafeRelease, match=r"the release '.*other' shows other masks .* Nothing was entered"):
        ledger.adopt([one, other], store, **options)
    with pytest.raises(UnsafeRelease, match=r"what tables= \(--tables\) names shows other masks"):
        ledger.adopt([one], store, tables=["town"], **options)
    assert not ledger_in(agency).publications
    first, again = ledger.adopt([one, one], store, **options)
    assert (first.place, first.checksum, first.adopted, first.audit) == (
        again.place,
        again.checksum,
        True,
        "not audited",
    )
    assert (first.place, first.masks) == (str(one.path), again.masks)
    with pytest.raises(Conflict, match="other masks") as refused:
        ledger.adopt([other], store, **options)
    with pytest.warns(ilba.Notice, match="proves"):
        entered = ledger.adopt([other], store, accept_conflict=refused.value.id, **options)
    assert told(entered) == "1 publication entered; later publications keep the masks that were entered first"
    assert len(ledger_in(agency).publications) == 2  # the first was named twice, and is one publication


def test_what_cannot_be_entered_is_refused_with_what_to_give(agency):
    release, ledger = toy_release(agency, "out", 0, 5), ledger_in(agency)
    options = {"secret": Secret.from_file(agency / "agency.secret")}
    for store, says in (
        (toy([0, 5], TOY.rename({"sex": "job"}), ["job"]), "has the columns town, sex, and the store town, job"),
        (toy([0, 7], K=7), "has K=5, and the store K=7"),
    ):
        with pytest.raises(InputError, match=says):
            ledger.adopt([release], store, **options)
    with pytest.raises(InputError, match="name the release folders"):
        ledger.adopt([], toy([0, 5]), **options)
    with pytest.raises(SecretError, match=r"Give secret= \(--secret\)"):
        ledger.adopt(
            [release], FinestTable.from_counts(TOY.with_columns(N_masked=pl.Series([0, 5, 70, 90])), ["town"], ["sex"])
        )
    others = toy([0, 5], TOY.with_columns(N=pl.Series([2, 3, 70, 91])))
    with pytest.raises(InputError, match="the masks belong to other counts"):
        ledger.adopt([release], toy([0, 5]), masks=others, **options)
    with pytest.raises(UnsafeRelease, match="another masks file than this one"):
        ledger.adopt([release], toy([0, 0]), masks=toy([5, 5]), **options)
    with pytest.raises(UnsafeRelease, match=r"its finest table is of other counts.*the masks file given with masks="):
        ledger.adopt([release], others, **options)
    assert not ledger_in(agency).publications


def test_the_file_of_masks_of_an_earlier_version_goes_once_the_ledger_has_them(agency):
    options = {"secret": Secret.from_file(agency / "agency.secret")}
    store = ilba.open_store(toy([0, 5]).save(agency / "s.parquet"))
    (agency / "s.masks.parquet").touch()
    (agency / "t.masks.parquet").touch()
    ledger_in(agency).adopt([], store, tables=["town"], **options)
    assert sorted(file.name for file in agency.glob("*.masks.parquet")) == ["t.masks.parquet"]


def test_a_lost_ledger_is_entered_anew(agency, monkeypatch):
    options = {"secret": Secret.from_file(agency / "agency.secret"), "tables": ["town"]}
    store = ilba.open_store(toy([0, 5]).save(agency / "s.parquet"))
    ledger_in(agency).adopt([], store, **options)
    shutil.rmtree(agency / "agency.ledger")
    (agency / "s.masks.parquet").touch()
    enter = Chapter.enter
    monkeypatch.setattr(Chapter, "enter", lambda *given: [(agency / "s.masks.parquet").unlink(), enter(*given)])
    (entered,) = ledger_in(agency).adopt([], store, **options)  # and somebody else removed the file of masks
    assert entered.tables == ("town",)


def test_how_far_counts_move_and_the_parameters_of_a_method_belong_to_what_is_entered(agency):
    moved = Chosen(("town.sex",), None, held=True, way=6, sweeps=200, move=2)
    store = FinestTable.from_counts(TOY, ["town"], ["sex"], secret=agency / "agency.secret")
    masked = store.with_masks(KnownMasks(np.array([0, 6, 71, 89]), 0, 0), moved)
    release = masked.release(agency / "moved", tables=["town.sex"], ledger=False)
    for _ in range(2):
        (entered,) = ledger_in(agency).adopt([release], masked)
        assert entered.way == ("controlled", 5, "move=2")
    options = {"secret": Secret.from_file(agency / "agency.secret")}
    other, second = toy_release(agency, "other", 0, 5), Ledger.create(agency / "second.ledger")
    second.adopt([other], toy([0, 5]), **options)
    with pytest.raises(Conflict, match="Publish as before"):
        ledger_in(agency).adopt([other], toy([0, 5]), **options)
    with pytest.raises(Conflict, match="Publish as before"):
        second.adopt([release], masked, **options)
    few = FinestTable.from_counts(TOY.with_columns(N=2), ["town"], ["sex"], secret=agency / "agency.secret")
    keyed, third = few.with_method("cell-key:D=2,V=1"), Ledger.create(agency / "third.ledger")
    keys = keyed.release(agency / "keys", tables=["town.sex"], ledger=False, accept_risk=True)
    assert keys.table("town.sex")["N_masked"].min() == 1
    for _ in range(2):
        (entered,) = third.adopt([keys], keyed, **options)
        assert entered.way[::2] == ("cell-key", "D=2,V=1.0,js=0")


def test_masks_of_a_release_of_all_tables_are_chosen_again(agency):
    store = FinestTable.from_counts(TOY, ["town"], ["sex"], secret=agency / "agency.secret")
    release = store.release(agency / "out", tables=["town", "all.sex"], ledger=False)
    (entered,) = ledger_in(agency).adopt([release], store)
    assert (entered.method, entered.tables) == ("controlled", ("all.sex", "town"))
    assert store.published().table("town").public().equals(release.table("town"))


@pytest.mark.long
def test_a_release_that_does_not_name_the_people_of_the_ledger_says_so(agency):
    counts = pl.DataFrame({"town": list("ab"), "sex": ["f", "m"], "N": [70, 90], "N_masked": [70, 90]})
    options = {"method": "ilba", "tables": ["town"], "secret": agency / "agency.secret"}
    named = FinestTable.from_counts(counts, ["town"], ["sex"]).declared_as(Population("people", "2026"))
    ledger_in(agency).adopt([], named, tables=["town"], secret=Secret.from_file(agency / "agency.secret"))
    with pytest.warns(Advice, match=r"has these people as 'people', wave '2026', .*wave= .* read_rds"):
        unnamed = FinestTable.from_counts(counts, ["town"], ["sex"]).release(agency / "a", **options)
    assert "population" not in unnamed.manifest
    with warnings.catch_warnings(action="error"):
        assert named.release(agency / "b", **options).manifest["population"] == {"name": "people", "wave": "2026"}


def test_a_store_with_masks_by_r_gets_the_only_secret_of_its_folder(agency, monkeypatch):
    monkeypatch.delenv("ILBA_SECRET", raising=False)
    counts = pl.DataFrame({"town": list("ab"), "sex": ["f", "m"], "N": [70, 90], "N_masked": [70, 90]})
    store = ilba.open_store(FinestTable.from_counts(counts, ["town"], ["sex"]).save(agency / "from-r.parquet"))
    assert store.own_secret() == Secret.from_file(agency / "agency.secret")
    Secret.new().to_file(agency / "other.secret")
    assert store.own_secret() is None
    Secret.new().to_file(agency / "from-r.secret")
    assert store.own_secret() == Secret.from_file(agency / "from-r.secret")
