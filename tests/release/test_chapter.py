"""What may be published next about a population: on a toy, without making a release."""

from __future__ import annotations

import json
import shutil
import stat
import warnings

import polars as pl
import pytest

import ilba
from ilba import FinestTable, InputError, Ledger, Secret, StoreError, UnsafeRelease
from ilba.design.tables import wanted_tables
from ilba.errors import Conflict
from ilba.methods.controlled.search import Chosen
from ilba.release.chapter import Chapter
from ilba.release.recognising import ledger_of, looked_up, opened
from ilba.release.replacing import way
from ilba.release.writing import entry_of
from ilba.tables.beside import published_path

COUNTS = pl.DataFrame(
    {
        "town": list("aabbccddee"),
        "sex": ["f", "m"] * 5,
        "N": [600, 400, 1200, 800, 2300, 1700, 4100, 3900, 1, 3],
    }
)
SMALL = pl.col("N") < 5
FEWER = COUNTS.with_columns(N=pl.col("N") - SMALL.not_().cast(pl.Int64) * 50)
"""other people: no number of them is the same"""


@pytest.fixture
def secret(agency):
    return Secret.from_file(agency / "agency.secret")


@pytest.fixture
def book(agency):
    return Ledger.create(agency / "agency.ledger")


def toy(counts=COUNTS, key=("sex",), K=5, secret=None, masks=None, **population):
    """A finest table; with masks, one whose masks were chosen jointly."""
    finest = FinestTable.from_counts(counts, ["town"], list(key), K, secret=secret or Secret(bytes(range(32))))
    if masks is not None:
        shown = counts.with_columns(N_masked=pl.when(SMALL).then(pl.Series([0] * 8 + masks)).otherwise("N"))
        finest = finest.with_masks_shown(shown.drop("N"), Chosen(("town.sex",), None, held=True))
    return finest.declared_as(ilba.Population(**population)) if population else finest


def checked(chapter, finest, accepted=None):
    chapter.check(finest, way(finest.method, finest.design, finest.by, finest.move), accepted)


def published(finest, secret, book, accepted=None, **more):
    """Enter a publication of the whole toy, as a release does; its population."""
    wanted = wanted_tables(finest.design)
    with opened(finest, secret, book) as chapter:
        checked(chapter, finest, accepted)
        chapter.keep_masks(finest)
        chapter.enter({**entry_of(finest, wanted, "safe", False, None), **more})
        return chapter.name


def kinds(book):
    return [entry["kind"] for entry in Ledger(book.path).entries]


def conflicts():
    """Each way to undo what the toy published, with the words of the refusal."""
    was = r"method='ilba', K=5 and cells='observed' \(wave '1', 20..-..-..\)"
    yield toy(masks=[0, 5], name="p"), f"{was}, and this is method='controlled'.*Publish as before"
    another = r"with K=5 \(wave '1', 20..-..-..\), and this store has K=7.*Build again with mask_thr=5 \(--mask-thr 5\)"
    yield toy(K=7, name="p"), rf"{another}\. To publish anyway"
    yield toy(K=7, secret=Secret(bytes(32)), name="p"), rf"{another}\. Also, the population"
    keyed = toy(K=7, name="p").with_method(ilba.methods.CellKey(D=2, V=1.0), Secret(bytes(range(32))))
    yield keyed, rf"{another}\. Also, .*{was}, and this is method='cell-key' and parameters .*Publish as before"
    fewer = COUNTS.group_by("town", maintain_order=True).agg(pl.col("N").sum())
    yield toy(fewer, (), name="p"), r"with more columns \(sex, town\).*publish from the finer store"
    crossing = COUNTS.rename({"sex": "job"})
    yield toy(crossing, ("job",), name="p"), r"by other columns \(sex, town\).*cannot be made safe afterwards"
    yield toy(secret=Secret(bytes(32)), name="p"), "under another secret .fingerprint .*Give that secret"
    padded = COUNTS.with_columns(pl.format("0{}", "town").alias("town"))
    yield toy(padded, name="p"), "with other labels for the same people: '01' for '1'"
    yield toy(name="q"), "look like the people of the population 'p', .* are declared as 'q'"
    yield toy(padded, name="q"), "look like the people of the population 'p'"


def test_what_would_undo_a_publication_is_refused_and_nothing_is_written(secret, book):
    published(toy(name="p", wave="1"), secret, book)
    before = kinds(book)
    for finest, says in conflicts():
        with pytest.raises(Conflict, match=says) as refused:
            published(finest, secret, book)
        assert "nothing was published" in str(refused.value)
        assert f"accept_conflict={refused.value.id!r}" in str(refused.value)
        assert kinds(book) == before
        assert str(refused.value).count("Comparing the publications") == 1
    with book.writing():
        book.withdraw(book.publications[0].number, unseen=True)
    assert published(toy(name="q"), secret, book) == "q", "a name that nobody saw can be changed"
    assert published(toy(), secret, book) == "q", "and does not come back"


def test_a_later_wave_that_lost_some_leading_zeros_is_refused(secret, book):
    coded = COUNTS.with_columns(
        pl.col("town").replace_strict(dict(zip("abcde", ["01", "02", "10", "11", "03"], strict=True)))
    )
    published(toy(coded, name="p", wave="1"), secret, book)
    later = coded.with_columns(pl.col("N") + pl.int_range(pl.len()) * 7 * SMALL.not_().cast(pl.Int64))
    lost = later.with_columns(pl.col("town").str.strip_chars_start("0"))
    with pytest.raises(Conflict, match=r"other zeros .* it has town '1', town '2', town '3'\. .*Label them"):
        published(toy(lost, name="p", wave="2"), secret, book)
    published(toy(later, name="p", wave="2"), secret, book)


def test_the_same_people_again_and_other_people_are_no_conflict(secret, book, recwarn):
    first = toy(name="p", wave="1")
    published(first, secret, book)
    assert kinds(book) == ["begin", "masks", "population", "publication"]
    published(first, secret, book)
    assert kinds(book)[4:] == ["publication"]  # masks and people are known
    assert not recwarn.list
    published(toy(FEWER, name="p", wave="2"), secret, book)
    published(toy(FEWER.with_columns(pl.col("N") * 3), name="q"), secret, book)
    assert [(one.population, one.wave) for one in Ledger(book.path).publications] == [
        ("p", "1"),
        ("p", "1"),
        ("p", "2"),
        ("q", ""),
    ]


def test_a_wave_with_none_of_the_small_cells_is_refused_and_an_accepted_conflict_is_told(secret, book):
    many = pl.DataFrame({"town": [f"t{n}" for n in range(150)], "sex": "true", "N": [1, 2, 3] * 50})
    published(toy(many, name="p", wave="1"), secret, book)
    grown = many.with_columns(N=pl.when(pl.row_index() < 75).then(4).otherwise("N"))
    published(toy(grown, name="p", wave="2"), secret, book)
    spelled = toy(grown.with_columns(pl.col("sex").str.to_uppercase(), N=5 - pl.col("N")), name="p", wave="3")
    with pytest.raises(Conflict, match=r"none of its small cells is found here.*'TRUE' for 'true'") as refused:
        published(spelled, secret, book)
    with pytest.warns(ilba.Notice, match="cannot be told here"):
        published(spelled, secret, book, refused.value.id)
    assert [one.accepted_conflict for one in Ledger(book.path).publications] == [False, False, True]


def test_other_masks_are_a_conflict_and_the_first_ones_stay(secret, book):
    published(toy(masks=[0, 5], name="p"), secret, book)
    other = toy(masks=[5, 0], name="p")
    with pytest.raises(Conflict, match="was published with other masks"):
        published(other, secret, book)
    chapter = looked_up(other, secret, book)
    shown = chapter.as_published(other).frame
    assert shown.filter(SMALL)["N_masked"].to_list() == [0, 5]
    assert chapter.as_published(toy(masks=[0, 5], name="p")).frame.equals(shown)
    assert chapter.choice("controlled", 5)["tables"] == ["town.sex"]
    assert (chapter.choice("controlled", 7), chapter.choice("ilba", 5), chapter.move(5)) == (None, None, 0)


def test_a_comparison_keeps_the_masks_of_earlier_ilba_tables_but_not_of_those_of_the_same_data(secret, book):
    second = COUNTS.with_columns(N=pl.col("N") + (pl.col("N") == 3))
    for wave, counts, kept in (("1", COUNTS, 0), ("2", second, 1)):
        finest = toy(counts, name="p", wave=wave)
        published(finest, secret, book)
        chapter = looked_up(finest, secret, book)
        assert chapter.drawn(finest).unknown == 0  # a release by controlled keeps all masks
        before = chapter.kept(finest, 0).get("previous")
        assert (0 if before is None else 2 - before.unknown) == kept


def test_a_conflict_is_accepted_by_its_id_once_and_for_what_it_names(secret, book):
    published(toy(masks=[0, 5], name="p"), secret, book)
    drawn = toy(name="p")
    with pytest.raises(Conflict) as refused:
        published(drawn, secret, book)
    with pytest.raises(Conflict, match="'0123456789' was for another conflict, or was used"):
        published(drawn, secret, book, "0123456789")
    with pytest.raises(Conflict, match="was for another conflict"):
        published(toy(K=7, name="p"), secret, book, refused.value.id)
    with pytest.warns(
        ilba.Notice,
        match=r"compared with publication 3, the finest table proves .* small count.*may prove more: audit them",
    ):
        published(drawn, secret, book, refused.value.id)
    noted = [entry for entry in book.entries if entry["kind"] == "conflict"]
    assert [(entry["population"], entry["accepted"]) for entry in noted] == [("p", refused.value.id)]
    assert "method='controlled'" in noted[0]["reasons"][0]
    with pytest.raises(InputError, match="there is no conflict to be accepted"):
        published(drawn, secret, book, refused.value.id)
    keyed = toy(name="p").with_method(ilba.methods.CellKey(D=2, V=1.0), secret)
    with pytest.raises(Conflict) as refused:
        published(keyed, secret, book)
    with pytest.warns(ilba.Notice, match=r"cannot be told here\.$"):
        published(keyed, secret, book, refused.value.id)
    published(keyed, secret, book)
    others = toy(name="p", secret=Secret(bytes(32))).with_method(ilba.methods.CellKey(D=2, V=1.0), Secret(bytes(32)))
    with pytest.raises(Conflict, match=r"was published with other record keys.*Build again with the record keys"):
        published(others, secret, book)


def test_a_refusal_says_how_many_small_counts_the_conflict_would_prove(secret, book):
    published(toy(masks=[0, 5], name="p", wave="1"), secret, book)
    for finest, told in [
        (toy(masks=[5, 0], name="p", wave="2"), "would prove about 2 small counts"),
        (toy(masks=[0, 7], K=7, name="p", wave="2"), "would prove about 1 small count "),
    ]:
        with pytest.warns(ilba.Advice, match=told), pytest.raises(Conflict) as refused:
            published(finest, secret, book)
        assert "prove about" not in str(refused.value)  # the note is confidential
    assert not any("prove about" in str(entry) for entry in book.entries)


def test_a_year_that_keeps_the_masks_of_ilba_would_prove_nothing(secret, book):
    later = toy(secret=secret, name="p", wave="2")
    drawn = later.frame["N_masked"]
    of_r = COUNTS.with_columns(N_masked=pl.when(SMALL).then(5 - drawn).otherwise("N"))  # no mask is as drawn here
    adopted = FinestTable.from_counts(of_r, ["town"], ["sex"], 5)
    published(adopted.declared_as(ilba.Population("p", "1")), secret, book)
    chapter = looked_up(later, secret, book)
    with pytest.warns(ilba.Advice, match="would prove about 0 small counts"), pytest.raises(Conflict):
        chapter.check(later, ("controlled", 5, ""), None)


def test_an_accepted_conflict_is_told_of_its_own_wave_and_of_other_waves_by_their_names(secret, book):
    first, second, third = (
        toy(COUNTS.with_columns(N=pl.col("N") + SMALL.not_() * n), masks=masks, name="p", wave=str(n))
        for n, masks in enumerate([None, [0, 5], [0, 5]], 1)
    )
    published(first, secret, book)
    with pytest.raises(Conflict) as refused:
        published(second, secret, book)
    published(second, secret, book, refused.value.id)
    published(third, secret, book)
    told = [looked_up(wave, secret, book).accepted() for wave in (first, second, third)]
    assert told == [(False, ["2"]), (True, []), (False, ["2"])]


def test_keys_in_another_order_than_in_the_last_wave_are_told_with_the_order_to_write(secret, book):
    counts = COUNTS.with_columns(age=pl.lit("1"))
    for wave, keys in (("1", ["age", "sex"]), ("2", ["sex", "age"])):
        published(toy(counts, keys, name="p", wave=wave), secret, book)
    turned = toy(counts.with_columns(pl.col("N") + 1), ["age", "sex"], name="p", wave="3")
    chapter = looked_up(turned, secret, book)
    (told,) = chapter.doubts(turned.design, ("ilba", 5, "observed"))
    assert told.startswith("wave '2' of the population 'p' has its keys in another order")
    assert 'Write keys = ["sex", "age"] in publication.toml, or build with key= (--key sex,age).' in told
    for keys, way_, wave in [
        (["sex", "age"], ("ilba", 5, "observed"), "3"),  # as before
        (["age", "sex"], ("controlled", 5, ""), "3"),  # no series anyway
        (["age", "sex"], ("ilba", 5, "observed"), ""),  # not shown as a wave
    ]:
        finest = toy(counts.with_columns(pl.col("N") + 1), keys, name="p", wave=wave)
        assert looked_up(finest, secret, book).doubts(finest.design, way_) == []


def test_missing_values_that_no_earlier_wave_has_are_told_by_their_columns(secret, book):
    def wave(name, sex):
        people = pl.DataFrame({"town": ["a", "b"] * 30, "sex": sex * 30}).tail(-int(name))
        told = {"secret": Secret(bytes(range(32))), "missing": "category", "population": "p", "wave": name}
        finest = ilba.build(people, ["town"], ["sex"], **told)
        return finest, looked_up(finest, secret, book).doubts(finest.design, ("ilba", 5, "observed"))

    first, told = wave("1", ["f", "m"])
    assert told == []
    published(first, secret, book)
    assert wave("2", ["f", "m"])[1] == []
    second, (told,) = wave("2", ["f", None])
    assert told.startswith("sex has missing values as a category, and no earlier publication of the population 'p'")
    assert told.index("without = {COLUMN = [VALUE]}") < told.index("--missing drop")
    assert told.endswith("It leaves out every record with a missing value in any used column.")
    published(second, secret, book)
    assert wave("3", ["f", None])[1] == []


def test_several_columns_with_missing_values_are_told_in_the_plural(secret, book):
    for wave, sex in (("1", ["f", "m"]), ("2", ["f", None])):
        people = pl.DataFrame({"town": ["a", "b"] * 30, "sex": sex * 30, "work": sex * 30}).tail(-int(wave))
        told = {"secret": Secret(bytes(range(32))), "missing": "category", "population": "p", "wave": wave}
        finest = ilba.build(people, ["town"], ["sex", "work"], **told)
        doubts = looked_up(finest, secret, book).doubts(finest.design, ("ilba", 5, "observed"))
        if wave == "1":
            published(finest, secret, book)
    assert [doubt.partition(" missing")[0] for doubt in doubts] == ["sex, work have"]


def turned(secret, book, wave, towns, *, size=40, publish=False):
    """What a wave of people in these towns is told; `size` is how many live in each town."""
    people = pl.DataFrame({"town": [town for town in towns for _ in range(size)]})
    people = people.with_columns(sex=pl.when(pl.int_range(pl.len()) % 2 < 1).then(pl.lit("f")).otherwise(pl.lit("m")))
    people = pl.concat([people, people.head(int(wave))])  # never the same counts
    finest = ilba.build(people, ["town"], ["sex"], secret=secret, population="p", wave=wave)
    told = looked_up(finest, secret, book).doubts(finest.design, ("ilba", 5, "observed"))
    if publish:
        published(finest, secret, book)
    return told


def test_codes_that_came_while_others_went_are_told_and_other_changes_of_codes_are_not(secret, book):
    assert turned(secret, book, "1", "abc", publish=True) == []
    assert turned(secret, book, "2", "ab") == []  # one went
    assert turned(secret, book, "2", "abcd") == []  # one came
    (told,) = turned(secret, book, "2", "abxy", publish=True)
    assert told.startswith("town: 1 code of wave '1' is gone, 2 are new ('x', 'y'). Where only the code changed, cells")
    assert "Keep the old code there: recode the new one to it" in told
    assert told.endswith("After a merger the old codes stay gone, without a recode.")
    assert turned(secret, book, "3", "abcx") == []  # an earlier wave has c
    (told,) = turned(secret, book, "3", "abz")
    assert told.startswith("town: 2 codes of wave '2' are gone, 1 is new ('z').")


def test_codes_that_came_while_others_went_are_told_before_a_conflict_is_accepted(tmp_path, agency):
    people = pl.DataFrame({"town": list("abc") * 60, "sex": ["f", "m"] * 90})
    told = {"secret": agency / "agency.secret", "population": "p"}
    ilba.build(people, ["town"], ["sex"], wave="1", **told).release(tmp_path / "1", "ilba", accept_risk=True)
    renamed = people.tail(-1).with_columns(pl.col("town").replace("c", "x"))
    later = ilba.build(renamed, ["town"], ["sex"], wave="2", **told)
    with pytest.warns(ilba.Notice, match="town: 1 code of wave '1' is gone"), pytest.raises(Conflict):
        later.release(tmp_path / "2")


def test_a_code_of_fewer_than_K_records_is_not_named_as_new(secret, book):
    turned(secret, book, "1", "abc", size=4, publish=True)
    assert turned(secret, book, "1", "abx", size=4) == []
    (told,) = turned(secret, book, "5", "abx", size=5)
    assert "is new ('x')" in told


@pytest.mark.parametrize("moved", ["gone", "all"])
def test_codes_that_the_ledger_cannot_compare_are_compared_with_the_last_release(tmp_path, agency, moved):
    towns = [f"{n:03}" for n in range(300 if moved == "gone" else 6)]
    people = pl.DataFrame({"town": towns * 12, "sex": ["f", "m"] * (6 * len(towns))})
    new = {"007": "907"} if moved == "gone" else {town: f"9{town[1:]}" for town in towns}
    told = {"secret": agency / "agency.secret", "population": "p"}
    ilba.build(people, ["town"], ["sex"], wave="1", **told).release(tmp_path / "1")
    later = people.with_columns(pl.col("town").replace(new))
    grown = pl.DataFrame({"town": ["few"] * 9, "sex": ["f"] * 9})  # it may have had fewer than K, shown as 0
    finest = ilba.build(pl.concat([later, later.head(1), grown]), ["town"], ["sex"], wave="2", **told)
    chapter = looked_up(finest, finest.own_secret(None), Ledger(agency / "agency.ledger"))
    (said,) = [one for one in chapter.doubts(finest.design, ("controlled", 5, "")) if "Where only the code" in one]
    assert said.startswith(
        "town: 1 code of wave '1' is gone ('007'), 1 is new ('907')."
        if moved == "gone"
        else "town: 6 codes of wave '1' are gone ('000', '001', '002' and 3 more), 6 are new ('900', '901', '902' and 3"
    )
    shutil.rmtree(tmp_path / "1")
    assert not any("Where only the code" in one for one in chapter.doubts(finest.design, ("controlled", 5, "")))


def test_a_conflict_accepted_for_one_wave_is_refused_for_a_wave_that_was_published_as_before(secret, book):
    published(toy(name="p", wave="1"), secret, book)
    other = Secret(bytes(32))
    later = toy(FEWER, K=7, secret=other, name="p", wave="2")
    with pytest.raises(Conflict) as refused:
        published(later, other, book)
    with pytest.warns(ilba.Notice, match="cannot be told here"):  # masks under another secret are not read
        published(later, other, book, refused.value.id)
    published(toy(FEWER, K=7, secret=other, name="p", wave="3"), other, book)
    for undone, says in [
        (toy(K=7, name="p"), "with K=5"),
        (toy(FEWER, K=7, name="p", wave="1"), "with K=5"),
        (toy(FEWER, name="p", wave="2"), "with K=7"),
        (toy(secret=other, name="p", wave="1"), "under another secret"),
    ]:
        with pytest.raises(Conflict, match=f"was published {says}"):
            published(undone, secret, book)


def wave_of(n, key=("sex",), **more):
    """A later count of the toy's people: the small counts are those of the toy."""
    counts = COUNTS.with_columns(N=pl.col("N") + SMALL.not_() * n, **({"job": pl.lit("x")} if len(key) > 1 else {}))
    return toy(counts, key, name="p", wave=str(n), **more)


def test_a_method_that_was_accepted_for_a_new_wave_is_that_of_all_later_waves(secret, book):
    published(wave_of(1), secret, book)
    with pytest.raises(Conflict) as refused:
        published(wave_of(2, masks=[0, 5]), secret, book)
    published(wave_of(2, masks=[0, 5]), secret, book, refused.value.id)
    published(wave_of(3, masks=[0, 5]), secret, book)
    published(wave_of(1), secret, book)  # the same counts show the same numbers
    as_before, as_it_was = r"Publish as before\. To publish anyway", "leave this wave as it was published"
    for drawn, advice in (
        (wave_of(4), as_before),
        (wave_of(3), as_before),
        (toy(wave_of(2).frame.drop("N_masked"), name="p", wave="1"), as_it_was),
        (toy(FEWER, name="p", wave="1"), as_it_was),
    ):
        with pytest.raises(
            Conflict, match=rf"with method='controlled'.*\(wave '[23]', .*this is method='ilba'.*{advice}"
        ):
            published(drawn, secret, book)
    with pytest.raises(Conflict) as refused:
        published(wave_of(4), secret, book)
    published(wave_of(4), secret, book, refused.value.id)
    published(wave_of(5), secret, book)
    with pytest.raises(Conflict, match=r"with method='ilba'.*this is method='controlled'.*Publish as before\. To"):
        published(wave_of(6, masks=[0, 5]), secret, book)


def test_the_same_people_with_their_keys_in_another_order_are_published_as_before(secret, book):
    first, second = wave_of(1, ("sex", "job")), wave_of(2, ("sex", "job"))
    counts = second.frame.drop("N_masked")
    chosen = second.with_masks_shown(second.frame.drop("N"), Chosen(("town.sex.job",), None, held=True))
    published(first, secret, book)
    with pytest.raises(Conflict) as refused:
        published(chosen, secret, book)
    published(chosen, secret, book, refused.value.id)
    with pytest.raises(Conflict, match="with method='controlled'"):
        published(toy(counts, ("job", "sex"), name="p", wave="3"), secret, book)


def accepted(finest, secret, book, says="To publish anyway"):
    """Publish despite a conflict, once it was refused with these words."""
    with pytest.raises(Conflict, match=says) as refused:
        published(finest, secret, book)
    published(finest, secret, book, refused.value.id)


def adopted(past, secret, book):
    """Enter a publication of the past despite a conflict."""
    now, wanted = way(past.method, past.design, past.by, past.move), wanted_tables(past.design)
    with opened(past, secret, book) as chapter:
        with pytest.raises(Conflict) as refused:
            chapter.check(past, now, None, is_out=True)
        chapter.check(past, now, refused.value.id, is_out=True)
        chapter.keep_masks(past)
        chapter.enter({**entry_of(past, wanted, "not audited", False, None), "adopted": True})


def refusal(finest, secret, book):
    with pytest.raises(Conflict) as refused:
        published(finest, secret, book)
    return str(refused.value)


OTHER = Secret(bytes(32))
WAYS = {"K": {"K": 7}, "secrets": {"secret": OTHER}, "methods": {"masks": [0, 5]}, "columns": {"key": ("sex", "job")}}


def toy_of(counts, wave, key=("sex",), **way):
    counts = counts.with_columns(job=pl.lit("x")) if len(key) > 1 else counts
    return toy(counts, key, name="p", wave=wave, **way)


@pytest.mark.parametrize("what", WAYS)
def test_later_waves_follow_a_correction_in_another_way(secret, book, what):
    way, own = WAYS[what], WAYS[what].get("secret", secret)
    published(wave_of(1), secret, book)
    accepted(toy_of(FEWER, "1", **way), own, book)
    published(toy_of(FEWER, "1", **way), own, book)
    told = refusal(wave_of(2), secret, book)
    if what != "columns":
        assert "different" not in told
        published(wave_of(2, **way), own, book)
        return
    assert "Earlier publications have different columns: choose, and accept the conflict once." in told
    assert "To publish anyway, and later waves in the same way: accept_conflict=" in told
    accepted(wave_of(2, **way), own, book, "by other columns")
    published(wave_of(3, **way), own, book)


def test_the_same_counts_in_two_ways_make_the_next_wave_ask_once(secret, book):
    published(wave_of(1), secret, book)
    accepted(wave_of(1, masks=[0, 5]), secret, book)
    for known in (wave_of(1), wave_of(1, masks=[0, 5])):
        published(known, secret, book)
        assert "different methods: leave this wave" in refusal(toy_of(FEWER, "1"), secret, book)
    choose = "Earlier publications have different methods: choose, and accept the conflict once."
    renamed = toy(wave_of(1).frame.drop("N_masked"), name="p", wave="2")
    for later in (wave_of(2), wave_of(2, masks=[0, 5]), renamed):
        assert choose in refusal(later, secret, book)
    accepted(wave_of(2), secret, book)
    published(wave_of(3), secret, book)


@pytest.mark.parametrize("what", WAYS)
def test_a_wave_before_a_change_is_left_as_it_was_whichever_way_its_correction_has(secret, book, what):
    way, own = WAYS[what], WAYS[what].get("secret", secret)
    published(wave_of(1), secret, book)
    accepted(wave_of(2, **way), own, book, "To publish anyway, and later waves in the same way: ")
    published(wave_of(3, **way), own, book)
    assert "different" not in refusal(wave_of(4), secret, book)
    for corrected, its in ((toy_of(FEWER, "1"), secret), (toy_of(FEWER, "1", **way), own)):
        told = refusal(corrected, its, book)
        assert f"Earlier publications have different {what}: leave this wave as it was published. To publish" in told
        assert "Publish as before" not in told
        assert "Build again" not in told
    published(wave_of(1), secret, book)


@pytest.mark.parametrize("what", WAYS)
def test_after_an_adoption_in_another_way_either_way_asks_once(secret, book, what):
    way, own = WAYS[what], WAYS[what].get("secret", secret)
    published(wave_of(2, **way), own, book)
    adopted(wave_of(1), secret, book)
    for later, its in ((wave_of(3), secret), (wave_of(3, **way), own)):
        assert f"different {what}: choose, and accept the conflict once. To publish" in refusal(later, its, book)
    accepted(wave_of(3), secret, book)
    published(wave_of(4), secret, book)
    assert "different" not in refusal(wave_of(5, **way), own, book)


def test_the_counts_of_an_earlier_wave_under_a_new_name_are_held_against_the_series(secret, book):
    published(wave_of(1), secret, book)
    accepted(wave_of(2, masks=[0, 5]), secret, book)
    again = toy(wave_of(1).frame.drop("N_masked"), name="p", wave="3")
    accepted(again, secret, book, "different methods: choose, and accept")
    chosen = toy(wave_of(1).frame.drop("N_masked"), masks=[0, 5], name="p", wave="3")
    assert "Publish as before. To publish anyway: " in refusal(chosen, secret, book)
    for wave in (again, wave_of(1), wave_of(2, masks=[0, 5])):
        published(wave, secret, book)


def test_large_counts_move_as_in_the_wave_or_in_the_series(secret, book):
    for wave, parameters in ((1, ""), (2, "move=2")):
        name = published(wave_of(wave, masks=[0, 5]), secret, book, parameters=parameters, accepted_conflict=wave > 1)
        assert name == "p"
    assert [looked_up(wave_of(n), secret, book).move(5) for n in (1, 2, 3)] == [0, 2, 2]


@pytest.mark.parametrize("masks", [None, [0, 5]])
def test_the_same_records_with_their_keys_in_another_order_are_no_other_records(secret, book, masks):
    first, again, third = (
        toy_of(counts, "1", key, masks=masks)
        for counts, key in ((COUNTS, ("sex", "job")), (COUNTS, ("job", "sex")), (FEWER, ("job", "sex")))
    )
    published(first, secret, book)
    for _ in range(2):
        chapter = looked_up(again, secret, book)
        assert not chapter.has_other_data(again.design)
        assert not chapter.shows_others(again, way(again.method, again.design, again.by, again.move))
        published(again, secret, book)
    assert [one.columns for one in Ledger(book.path).publications] == [
        first.design.columns,
        *[again.design.columns] * 2,
    ]
    assert len({one.data for one in Ledger(book.path).publications}) == 1
    assert kinds(book).count("population") == 1
    assert looked_up(third, secret, book).has_other_data(third.design)


def test_a_ledger_that_has_the_same_records_by_two_orders_of_their_keys_is_read_as_it_was_written(secret, book):
    turned = toy_of(COUNTS, "1", ("job", "sex"))
    published(toy_of(COUNTS, "1", ("sex", "job")), secret, book)
    with opened(turned, secret, book) as chapter:  # as an earlier version entered it
        of_turned = f"{int(secret.derived('ledger data').hashes([turned.marks()[0]])[0]):016x}"
        assert of_turned != chapter.data
        entry = next(dict(entry) for entry in book.entries if entry["kind"] == "population")
        told = {name: entry[name] for name in ("population", "wave", "fingerprint", "net")}
        book.append("population", **told, data=of_turned)
        chapter.data = of_turned
        chapter.enter(entry_of(turned, wanted_tables(turned.design), "safe", False, None))
    assert looked_up(turned, secret, book).data == of_turned
    published(turned, secret, book)
    assert not looked_up(turned, secret, book).has_other_data(turned.design)


def test_a_secret_that_was_accepted_for_a_new_wave_is_that_of_all_later_waves(secret, book):
    other = Secret(bytes(32))
    published(wave_of(1), secret, book)
    with pytest.raises(Conflict, match="under another secret") as refused:
        published(wave_of(2, secret=other), other, book)
    published(wave_of(2, secret=other), other, book, refused.value.id)
    published(wave_of(3, secret=other), other, book)
    with pytest.raises(Conflict, match=f"under another secret .fingerprint {other.fingerprint}"):
        published(wave_of(4), secret, book)
    published(wave_of(1), secret, book)


def test_after_a_conflicting_publication_of_the_past_the_next_wave_asks_once_in_which_way_it_goes_on(secret, book):
    published(wave_of(2, masks=[0, 5]), secret, book)
    past, later, drawn = wave_of(1), wave_of(3, masks=[0, 5]), ("ilba", 5, "observed")
    adopted(past, secret, book)
    chapter = looked_up(later, secret, book)
    for now in (drawn, ("controlled", 5, "")):
        assert chapter.otherwise(now) is not None
        assert chapter.otherwise(now, is_out=True) is None, "more of the past"
    with pytest.raises(Conflict) as refused:
        published(later, secret, book)
    published(later, secret, book, refused.value.id)
    published(wave_of(4, masks=[0, 5]), secret, book)
    with pytest.raises(Conflict, match="with method='controlled'"):
        published(wave_of(4), secret, book)


def test_people_without_a_name_are_found_by_their_data_their_store_or_their_looks(secret, book, agency):
    assert published(toy(), secret, book) == "unnamed-1"
    assert published(toy(), secret, book) == "unnamed-1"
    corrected = COUNTS.with_columns(N=pl.when(pl.col("N") == 600).then(601).otherwise("N"))
    with pytest.warns(ilba.Notice, match="look like the people of 'unnamed-1', so they are published as such"):
        assert published(toy(corrected), secret, book) == "unnamed-1"
    assert published(toy(FEWER), secret, book) == "unnamed-2"
    store = ilba.open_store(toy(FEWER.with_columns(pl.col("N") * 3)).save(agency / "s.parquet"))
    assert published(store, secret, book) == "unnamed-3"
    later = ilba.open_store(toy(FEWER.with_columns(pl.col("N") * 7)).save(agency / "s.parquet"))
    assert published(later, secret, book) == "unnamed-3"


def test_a_budget_is_declared_once_and_kept(secret, book):
    finest, wanted = toy(name="p"), wanted_tables(toy().design)

    def spent(epsilon, declared, numbers="m"):
        with opened(finest, secret, book) as chapter:
            chapter.spend(epsilon, declared, wanted, numbers)
            told = {**entry_of(finest, wanted, "safe", False, None), "masks": numbers, "epsilon": epsilon}
            with chapter.publishing(book.path / "none", "", told):
                pass

    with pytest.raises(InputError, match="Declare it once"):
        spent(0.5, None)
    with pytest.raises(UnsafeRelease, match=r"an epsilon of 1.5 goes beyond .* 0 of 1 is spent.* at most 1\."):
        spent(1.5, 1)
    with pytest.raises(UnsafeRelease, match="0 of 0 is spent"):
        spent(0.5, 0)
    assert book.budgets == {}
    spent(0.25, 1)
    assert Ledger(book.path).budgets == {"p": 1.0}
    with pytest.raises(UnsafeRelease, match="was declared as 1, and a promise is not changed"):
        spent(0.25, 2, "n")
    spent(0.25, None, "m")  # the same numbers again
    assert book.spent == {"p": 0.25}
    spent(0.75, 1, "n")
    spent(0.75, 1, "n")
    with pytest.raises(UnsafeRelease, match=r"0\.01 goes beyond the budget .* 1 of 1 is spent.* at most 0\."):
        spent(0.01, None, "o")
    with pytest.warns(ilba.Notice, match=r"nobody adds up its epsilon of 0\.5"):
        Chapter(None).spend(0.5, None, wanted, None)


def test_a_bound_is_stated_in_the_first_wave_alone_and_not_after_one_that_did_not_hold(secret, book):
    first = toy(name="p", wave="1")
    with opened(first, secret, book) as chapter:
        chapter.check_bound()
    published(first, secret, book)
    looked_up(first, secret, book).check_bound()
    with pytest.raises(UnsafeRelease, match="A later wave states no bound"):
        looked_up(toy(FEWER, name="p", wave="2"), secret, book).check_bound()
    with opened(toy(FEWER.with_columns(pl.col("N") * 3), name="q"), secret, book) as chapter:
        chapter.bar_bound(9)
        with pytest.raises(UnsafeRelease, match="did not hold"):
            chapter.check_bound()
    looked_up(first, secret, book).check_bound()
    assert [entry["bound"] for entry in book.entries if entry["kind"] == "bound"] == [9]
    Chapter(None).check_bound()
    Chapter(None).bar_bound(9)


def test_files_beside_store_and_secret_tell_how_far_the_ledger_was(secret, book, agency):
    store = ilba.open_store(toy(name="p").save(agency / "s.parquet"))
    published(store, secret, book)
    tip = {"entry": book.tip["n"], "digest": book.tip["digest"]}
    named = {"confidential": True, "format": 2, "ledger": str(book.path), "population": "p"}
    assert json.loads(published_path(store.place).read_text()) == named | tip
    of_secret = agency / "agency.ledgers.json"
    assert json.loads(of_secret.read_text())["ledgers"] == {str(book.path): tip}
    assert stat.S_IMODE(of_secret.stat().st_mode) == stat.S_IMODE(published_path(store.place).stat().st_mode) == 0o600
    for _ in range(2):  # a new ledger stays new until something is published
        with pytest.warns(ilba.Notice, match=r"this ledger is new, .* with \S*agency\.ledger\. .*give that ledger="):
            other = ledger_of(agency / "other.ledger", secret, False)
    with pytest.raises(StoreError, match="it is an older copy, or another one"):
        looked_up(store, secret, other)
    published(toy(name="p"), secret, other)
    assert set(json.loads(of_secret.read_text())["ledgers"]) == {str(book.path), str(other.path)}
    with pytest.raises(UnsafeRelease, match="cannot be published as a trial"), opened(store, secret, None):
        pass


def test_a_trial_that_is_refused_is_not_announced(secret, book, agency):
    store = ilba.open_store(toy(name="p").save(agency / "s.parquet"))
    published(store, secret, book)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with pytest.raises(UnsafeRelease, match="published as a trial"):
            store.release(agency / "trial", ledger=False, accept_risk=True)
    assert not told


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"format": 2}', '{"format": 2, "population": "p", "entry": "x"}'])
def test_damaged_files_beside_store_and_secret_are_told(secret, book, agency, text):
    store = ilba.open_store(toy(name="p").save(agency / "s.parquet"))
    published_path(store.place).write_text(text)
    with pytest.raises(StoreError, match=r"s\.published\.json' is damaged"):
        looked_up(store, secret, book)
    published_path(store.place).unlink()
    (agency / "agency.ledgers.json").write_text(text)
    with pytest.raises(StoreError, match=r"agency\.ledgers\.json' is damaged"):
        looked_up(store, secret, book)


def test_a_store_that_was_published_before_there_was_a_ledger_is_entered_first(secret, book, agency):
    store = ilba.open_store(toy().save(agency / "s.parquet"))
    published_path(store.place).write_text('{"format": 1, "publications": []}')
    assert looked_up(store, secret, book).name == "unnamed-1"
    published_path(store.place).write_text('{"format": 1, "publications": [{}]}')
    with pytest.raises(UnsafeRelease, match="ilba ledger adopt RELEASE --store"):
        looked_up(store, secret, book)


def test_the_ledger_is_the_given_one_or_that_of_the_environment_or_the_one_beside_the_secret(
    secret, book, agency, monkeypatch
):
    assert ledger_of(book, None, False) is book
    assert ledger_of(agency / "one.ledger", secret, False).path == agency / "one.ledger"
    assert ledger_of(None, secret, False).path == book.path
    monkeypatch.setenv("ILBA_LEDGER", str(agency / "two.ledger"))
    assert ledger_of(None, Secret(bytes(32)), False).path == agency / "two.ledger"
    monkeypatch.delenv("ILBA_LEDGER")
    assert ledger_of(False, None, True) is None
    with pytest.warns(ilba.Notice, match="this is a trial"), opened(toy(), None, None):
        pass
    for given, known, is_trial, says in (
        (None, secret, True, "is not saved, so this is a trial"),
        (None, None, False, "no secret was given. Give the one of earlier publications"),
        (None, Secret(bytes(32)), False, "only in memory"),
    ):
        with pytest.raises(UnsafeRelease, match=says):
            ledger_of(given, known, is_trial)


def test_a_lost_ledger_is_not_begun_anew_unless_its_publications_are_entered_again(secret, book):
    published(toy(name="p"), secret, book)
    (book.path / "log.jsonl").unlink()
    with pytest.raises(StoreError, match="was lost or is an older copy"):
        ledger_of(None, secret, False)
    begun = ledger_of(None, secret, False, anew=True)
    assert kinds(begun) == ["begin"]
    with pytest.raises(StoreError, match="was lost or is an older copy"):
        looked_up(toy(name="p"), secret, begun)
    with opened(toy(name="p"), secret, begun, noted=False) as chapter:
        assert chapter.publications == []


def test_a_trial_remembers_nothing(secret):
    finest = toy(name="p")
    with opened(finest, secret, None) as chapter:
        checked(chapter, finest)
        chapter.keep_masks(finest)
        chapter.enter({})
        with chapter.publishing(None, "", {}):
            pass
        assert (chapter.publications, chapter.of_same_data(), chapter.budget) == ([], [], None)
        assert (chapter.name, chapter.wave, chapter.data, chapter.place, chapter.net) == ("", "", "", None, None)
        assert chapter.as_published(finest) is finest


def test_a_renamed_column_of_ilba_tables_is_built_with_its_earlier_name(secret, book):
    renamed = toy(COUNTS.rename({"sex": "gender"}), ("gender",), name="p")
    published(toy(name="p", wave="1"), secret, book)
    with pytest.raises(Conflict, match="only renamed or regrouped, build with the earlier names and groups"):
        published(renamed, secret, book)


def test_a_renamed_column_of_sums_of_masks_is_published_from_the_ledger(secret, book):
    published(toy(masks=[0, 5], name="p", wave="1"), secret, book)
    renamed = COUNTS.rename({"sex": "gender"})
    with pytest.raises(Conflict, match="only renamed or regrouped, publish with from_ledger="):
        published(toy(renamed, ("gender",), name="p"), secret, book)
