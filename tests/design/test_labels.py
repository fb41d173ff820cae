"""What makes two labels the same: their text, not their type."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ilba.cells.codes import canonical
from ilba.design.labels import label_text


@given(st.integers())
def test_a_number_and_its_text_are_one_label_and_a_padded_text_is_another(number):
    assert label_text(number) == label_text(str(number)) == label_text(canonical(number))
    assert label_text(f"0{number}") != label_text(number) != label_text(f"{number} ")


@given(st.text(), st.text())
def test_texts_are_the_same_label_only_when_they_are_the_same_text(one, other):
    assert (label_text(one) == label_text(other)) == (one == other)
    assert label_text(one) is not None


def test_what_is_missing_is_not_the_empty_text_and_not_the_word_for_it():
    assert label_text(None) is None
    assert label_text("") == ""
    assert label_text("None") == "None"
