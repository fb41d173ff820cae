"""Record keys are recognised by their smallest and largest number, or refused."""

import pytest

from ilba.design.recordkeys import KEY_RANGE, RecordKeys, fill, narrow
from ilba.errors import InputError, Notice


def recognised(least, most, *, number=2, missing=0, split=False):
    return RecordKeys.of_column("k", number, least, most, missing, split).parts


def test_drawn_keys_have_no_column():
    assert RecordKeys() == RecordKeys(10**8, "")


@pytest.mark.parametrize(
    ("least", "most", "split", "parts"),
    [(0, 1, False, 256), (0, 0.5, True, KEY_RANGE), (0.5, 1, True, KEY_RANGE), (0, 255, False, 256)],
)
def test_the_range_of_keys_is_recognised(least, most, split, parts):
    assert recognised(least, most, split=split) == parts


@pytest.mark.parametrize(
    ("least", "most", "split"), [(-0.5, 0.5, True), (-1, 3, False), (0, 1.5, True), (0, None, False), (None, 0, False)]
)
def test_numbers_of_no_range_are_refused(least, most, split):
    with pytest.raises(InputError, match="Keys are whole numbers from 0 to 255 or"):
        recognised(least, most, split=split)


@pytest.mark.parametrize("least", [0, 1])
def test_the_largest_key_of_256_is_255(least):
    with pytest.raises(InputError, match=r"go up to 256, but keys of the ONS are 0 to 255\. Write 0 for 256"):
        recognised(least, 256, number=1000)
    with pytest.raises(InputError, match="not spread over 0 to 99,999,999"):
        recognised(least, 257, number=1000)


@pytest.mark.parametrize("most", [10**8, 2**32])
def test_a_key_above_the_largest_one_is_told_by_the_limit_and_not_by_itself(most):
    with pytest.raises(InputError, match=r"have numbers above 99,999,999\. .*divide them by its size") as refused:
        recognised(0, most, number=40_000)
    assert f"{10**8:,}" not in str(refused.value)


@pytest.mark.parametrize(
    ("least", "most", "split"),
    [(0, 0, False), (0, 9, False), (0, 62, False), (7, 69, False), (255, 255, False), (90_000_000, 99_999_999, False),
     (0.999, 0.999, True), (0.76, 1, True)],
)  # fmt: skip
def test_keys_within_less_than_a_quarter_of_their_range_are_refused_unless_they_are_few(least, most, split):
    with pytest.raises(InputError, match=r"not spread over 0 to .*: small counts would all change in one direction"):
        recognised(least, most, number=1000, split=split)
    assert recognised(least, most, number=2, split=split) == (256 if most < 256 and not split else KEY_RANGE)


@pytest.mark.parametrize(("least", "most"), [(0, 63), (192, 255), (0, 99)])
def test_a_notice_tells_of_keys_that_lie_within_a_quarter_of_their_range_or_more(least, most):
    with pytest.warns(Notice, match="not spread over 0 to 255, so small counts change in one direction more often"):
        assert recognised(least, most, number=1000) == 256


def test_a_single_key_is_never_narrow():
    assert not any(narrow(parts, 1, key, key) for parts in (256, KEY_RANGE) for key in (0, 9, parts // 2, parts - 1))


@pytest.mark.parametrize(("least", "most"), [(0.5, 0.5), (0, 0.5), (0, 0.9)])
def test_keys_from_0_to_1_that_leave_out_the_upper_part_are_refused_like_whole_ones(least, most):
    with pytest.raises(InputError, match=r"not spread over 0 to 1: small counts .*divide them by its size"):
        recognised(least, most, number=1000, split=True)


def test_a_notice_tells_of_keys_from_0_to_1_that_leave_out_the_lower_part():
    with pytest.warns(Notice, match="not spread over 0 to 1, so small counts change in one direction more often"):
        assert recognised(0.5, 1, number=1000, split=True) == KEY_RANGE


@pytest.mark.parametrize("most", [0.99, 0.999999, 1])
def test_keys_from_0_to_1_may_be_rounded_to_two_decimals(most, recwarn):
    assert recognised(0, most, number=10**8, split=True) == KEY_RANGE
    assert not recwarn.list


def test_so_many_keys_may_leave_out_the_largest_number_and_no_more():
    assert [fill(256, number, 0, 254) for number in (5294, 5295)] == [True, False]
    assert [fill(256, number, 1, 255) for number in (5294, 5295)] == [True, False]
    assert not fill(256, 1, 0, 256)
