"""Record keys are recognised by their smallest and largest number, or refused."""

import pytest

from ilba.design.recordkeys import KEY_RANGE, RecordKeys, fill
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


def test_the_largest_key_of_256_is_255():
    with pytest.raises(InputError, match="not spread over 0 to 99,999,999"):
        recognised(0, 256, number=1000)


@pytest.mark.parametrize(("least", "most"), [(0.5, 0.5), (0, 0.5), (0, 0.9)])
def test_keys_from_0_to_1_that_leave_out_the_upper_part_are_refused_like_whole_ones(least, most):
    with pytest.raises(InputError, match=r"not spread over 0 to 1: small counts .*divide them by its size"):
        recognised(least, most, number=1000, split=True)


def test_a_notice_tells_of_keys_from_0_to_1_that_leave_out_the_lower_part():
    with pytest.warns(Notice, match="not spread over 0 to 1, so counts do not change as often as the p-table says"):
        assert recognised(0.5, 1, number=1000, split=True) == KEY_RANGE


@pytest.mark.parametrize("most", [0.99, 0.999999, 1])
def test_keys_from_0_to_1_may_be_rounded_to_two_decimals(most, recwarn):
    assert recognised(0, most, number=10**8, split=True) == KEY_RANGE
    assert not recwarn.list


def test_so_many_keys_may_leave_out_the_largest_number_and_no_more():
    assert [fill(256, number, 0, 254) for number in (5294, 5295)] == [True, False]
    assert [fill(256, number, 1, 255) for number in (5294, 5295)] == [True, False]
    assert not fill(256, 1, 0, 256)
