"""The shared arithmetic against the obvious, slower way."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recbench.splits.rows import by_user, deal, first_seen, offsets, pick, share, shuffle_users

INDICES = st.lists(st.integers(0, 9), max_size=60).map(lambda v: np.array(v, dtype=np.int32))


@given(INDICES)
def test_first_seen_is_the_order_of_a_dict(index):
    assert first_seen(index, 10).tolist() == list(dict.fromkeys(index.tolist()))


@given(INDICES)
def test_by_user_is_a_stable_sort(user):
    order, counts = by_user(user, 10)
    assert order.tolist() == np.argsort(user, kind="stable").tolist()
    assert counts.tolist() == np.bincount(user, minlength=10).tolist()
    assert order.dtype == np.int32


@given(st.lists(st.integers(0, 40), max_size=8), st.integers(0, 2**32 - 1), st.randoms())
def test_shuffle_draws_what_permutation_draws(sizes, seed, random):
    counts = np.array(sizes, dtype=np.int64)
    visit = np.array(random.sample(range(len(sizes)), len(sizes)), dtype=np.int32)
    values = np.arange(100, 100 + counts.sum(), dtype=np.int32)
    expected, stream = values.copy(), np.random.RandomState(seed)
    for user in visit:
        mine = slice(*offsets(counts)[[user, user + 1]])
        expected[mine] = values[mine][stream.permutation(sizes[user])]
    shuffle_users(values, counts, seed, visit)
    assert values.tolist() == expected.tolist()


@pytest.mark.parametrize(("m", "size"), [(5, 1), (17, 3), (200, 40)])
def test_the_head_of_a_shuffle_is_a_choice(m, size):
    values = np.arange(m, dtype=np.int32)
    shuffle_users(values, np.array([m]), 98765)
    drawn = np.random.RandomState(98765).choice(m, size=size, replace=False)
    assert values[:size].tolist() == drawn.tolist()


def test_a_share_is_not_spoilt_by_rounding_errors():
    assert share(0.29, np.array([0, 1, 99, 100])).tolist() == [0, 0, 28, 29]


def test_deal_cuts_each_slice_and_sorts_the_pieces():
    items = np.array([3, 0, 2, 1, 4, 2], dtype=np.int32)
    first, second = deal(items, np.array([[1, 3], [0, 0], [2, 0]]), 5)
    assert first.toarray().tolist() == [[0, 0, 0, 1, 0], [0] * 5, [0, 0, 1, 0, 1]]
    assert second.toarray().tolist() == [[1, 1, 1, 0, 0], [0] * 5, [0] * 5]


def test_picking_all_rows_copies_nothing():
    matrix = deal(np.array([0, 1], dtype=np.int32), np.array([[1], [1]]), 2)[0]
    assert pick(matrix, np.array([0, 1], dtype=np.int32)) is matrix
    assert pick(matrix, np.array([1], dtype=np.int32)).toarray().tolist() == [[0, 1]]
