"""What readers can compare with the next publication, from a list of publications alone."""

from __future__ import annotations

import pytest

from ilba.release.chapter import Chapter
from ilba.release.ledger import Publication


def past(*entries):
    """Publications by data and wave, and what else is not usual; numbered from 1."""
    usual = {"method": "ilba", "threshold": 5, "cells": "observed", "columns": ("town",), "tables": ("town",)}
    empty = dict.fromkeys(("date", "place", "checksum", "masks", "audit"), "")
    return [
        Publication(**{"number": n, "population": "p", "data": data, "wave": wave, **empty, **usual, **more})
        for n, (data, wave, more) in enumerate(entries, 1)
    ]


def chapter(publications, data="now", wave=""):
    return type("Told", (Chapter,), {"publications": publications})(None, data=data, wave=wave)


def beside(publications, **own):
    """The numbers of the publications of the same wave, and of the series."""
    return tuple([one.number for one in some] for some in chapter(publications, **own).beside())


def otherwise(publications, is_out=False, **own):
    """The number of the publication with which one of K=5 by iLBA is in conflict; None if there is none."""
    found = chapter(publications, **own).otherwise(("ilba", 5, "observed"), is_out)
    return None if found is None else found.number


OTHER = {"accepted_conflict": True, "threshold": 7}


def test_sums_of_a_finer_table_are_compared_only_where_nothing_else_was_published():
    sums = {"sums": True}
    assert beside(past(("a", "1", {}), ("b", "2", sums)), wave="3") == ([], [1])
    assert beside(past(("a", "1", sums), ("b", "2", sums)), wave="3") == ([], [1, 2])


def test_waves_without_a_name_are_told_apart_by_their_counts():
    assert beside(past(("a", "", {}), ("b", "", {}))) == ([], [1, 2])
    assert beside(past(("a", "1", {}), ("a", "", {"method": "controlled"}), ("b", "", {}))) == ([], [1, 2, 3])


def test_a_new_wave_with_an_accepted_conflict_begins_a_series_and_one_for_a_known_wave_does_not():
    assert beside(past(("a", "1", {}), ("b", "2", OTHER), ("c", "3", {"threshold": 7})), wave="4") == ([], [2, 3])
    assert beside(past(("a", "1", {}), ("a", "1", OTHER)), wave="2") == ([], [1, 2])
    assert beside(past(("a", "1", {}), ("b", "1", OTHER)), wave="2") == ([], [2])
    assert beside(past(("a", "1", {}), ("b", "2", {**OTHER, "adopted": True})), wave="3") == ([], [1, 2])


@pytest.mark.parametrize(
    ("more", "left"), [({}, [2]), ({"columns": ("town", "sex")}, [1, 2]), ({"adopted": True}, [1, 2])]
)
def test_a_correction_takes_the_place_of_what_its_wave_had_by_these_columns(more, left):
    publications = past(("a", "1", {}), ("b", "1", more))
    assert beside(publications, wave="2") == ([], left)
    assert beside(publications, wave="1") == (left, left)


def test_more_of_the_same_counts_in_the_same_way_says_nothing_new():
    assert beside(past(("a", "1", {}), ("a", "1", {"tables": ("all",)})), wave="2") == ([], [1])


def test_the_same_counts_are_compared_with_their_wave_alone_and_under_another_name_with_the_series_too():
    publications = past(("a", "1", {}), ("b", "2", {}))
    assert beside(publications, data="a", wave="1") == ([1], [])
    assert beside(publications, data="a") == ([1], [])
    assert beside(publications, data="a", wave="3") == ([1], [1, 2])
    assert beside(publications, data="a", wave="2") == ([1, 2], [1, 2])
    assert beside(past(("a", "", {})), data="a") == ([1], [])
    assert beside(past(("a", "1", {}), ("a", "2", OTHER)), data="a", wave="2") == ([2], [])


def test_each_wave_of_the_series_has_to_be_alike_and_one_is_enough_for_a_publication_of_the_past():
    mixed = past(("a", "1", {}), ("b", "2", {"threshold": 7, "adopted": True}))
    assert (otherwise(mixed, wave="3"), otherwise(mixed, True, wave="3")) == (2, None)
    others = past(("a", "1", {"threshold": 3}), ("b", "2", {"threshold": 7, "adopted": True}))
    assert (otherwise(others, wave="3"), otherwise(others, True, wave="3")) == (2, 2)
    assert otherwise(past(("a", "1", {})), wave="2") is None
    assert otherwise([], wave="2") is None


def test_of_the_same_counts_one_that_is_alike_is_enough():
    twice = past(("a", "1", {}), ("a", "1", OTHER))
    assert otherwise(twice, data="a", wave="1") is None
    assert otherwise(twice[1:], data="a", wave="1") == 2
    assert otherwise(twice, True, data="a", wave="1") is None
    assert otherwise(twice[1:], True, data="a", wave="1") == 2
    assert otherwise(past(("a", "1", {}), ("b", "2", OTHER)), data="a", wave="3") == 2, "the series is not alike"
    assert otherwise(past(("a", "1", OTHER), ("b", "2", {})), data="b", wave="1") == 1, "nor is what the wave shows"
    corrected = past(("a", "1", {}), ("b", "2", OTHER), ("c", "2", {}))
    assert otherwise(corrected, data="b", wave="1") == 2, "what was corrected was seen, too"


@pytest.mark.parametrize(("wave", "advice"), [("1", "leave this wave"), ("", "leave this wave"), ("2", "choose, and")])
def test_where_earlier_publications_differ_a_known_wave_is_left_and_a_new_one_chooses(wave, advice):
    twice = past(("a", "1", {}), ("a", "1", OTHER))
    assert advice in chapter(twice, data="a", wave=wave)._advice(lambda one: one.threshold, "K", "Publish as before.")
