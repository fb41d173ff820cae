"""What was published without a ledger is entered, and later publications show the same masks."""

from __future__ import annotations

import pytest

import ilba
from ilba import Ledger, Release, UnsafeRelease
from ilba.errors import Conflict

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


def test_masks_are_taken_from_a_released_finest_table(store, agency):
    old = store.release(agency / "old", tables=[FINEST, "LA2"], plan=["LA1.age"], ledger=False)
    (entered,) = ledger_in(agency).adopt([old], store)
    assert entered.adopted
    assert entered.tables == ("LA2", FINEST)
    assert_equal_tables(store.release(agency / "new"), old)


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


def test_a_release_of_another_store_is_refused(store, census, agency):
    other = ilba.build(census.tail(-9), HKEY, KEY, secret=agency / "agency.secret")
    old = other.release(agency / "old", tables=[FINEST], plan=["LA2"], ledger=False)
    with pytest.raises(UnsafeRelease, match="its finest table is of other counts"):
        ledger_in(agency).adopt([old], store)
