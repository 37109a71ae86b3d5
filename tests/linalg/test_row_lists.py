import numpy as np
import pytest

from recbench.linalg.rows import checked, every, places_of, together


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint8])
def test_rows_of_any_integers_are_taken(kind):
    found = checked(np.array([9, 0, 3, 0, 4, 0], kind)[::2], 10)
    assert found.dtype == np.int32
    assert found.flags.c_contiguous
    assert found.tolist() == [9, 3, 4]


def test_no_rows_are_rows():
    assert checked([], 0).tolist() == []
    assert places_of(checked([], 3), 3).tolist() == [-1, -1, -1]


@pytest.mark.parametrize("rows", [[10], [-1], [1.0], [True], [[1]]])
def test_what_is_no_row_is_refused(rows):
    with pytest.raises(ValueError, match="rows"):
        checked(rows, 10)


def test_places_are_the_inverse():
    rows = np.array([4, 0, 2], np.int32)
    assert places_of(rows, 5).tolist() == [1, -1, 2, -1, 0]
    assert np.array_equal(places_of(every(4), 4), every(4))


def test_a_row_has_one_place():
    with pytest.raises(ValueError, match="twice"):
        places_of(np.array([4, 0, 4], np.int32), 5)


def test_lists_together_name_each_row_once_and_find_it_again():
    first, second = np.array([4, 1, 4], np.int32), np.array([[6, 1], [0, 4]], np.int32)
    rows, places = together(8, first, second)
    assert rows.tolist() == [0, 1, 4, 6]
    assert rows.dtype == places.dtype == np.int32
    for named in (first, second):
        assert np.array_equal(rows[places[named]], named)
    assert together(3)[0].tolist() == []
