"""Shares cover every row once and are about equal."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from recbench.linalg import shares


@given(st.lists(st.integers(0, 50), max_size=60), st.integers(1, 9))
def test_fair_shares_cover_all_rows_in_order_and_carry_no_more_than_they_must(lengths, count):
    work = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    cuts = shares.fair(work, count)
    assert len(cuts) <= count
    covered = [row for start, stop in cuts for row in range(start, stop)]
    # Rows at the end that take nothing are in no share.
    assert covered == list(range(np.searchsorted(work, work[-1])))
    most = max(lengths, default=0)
    assert all(work[b] - work[a] <= work[-1] / count + most for a, b in cuts)


@given(st.integers(0, 100), st.integers(0, 100))
def test_equal_shares_cover_a_range_and_differ_by_a_row(start, more):
    cuts = shares.equal(start, start + more)
    assert [row for a, b in cuts for row in range(a, b)] == list(range(start, start + more))
    assert max((b - a for a, b in cuts), default=0) - min((b - a for a, b in cuts), default=0) <= 1


def test_every_row_of_a_matrix_is_in_a_share_where_rows_cost_something():
    starts = np.array([0, 90, 90, 90, 100, 100])
    cuts = shares.by_entries(starts, 3, row_cost=1)
    assert [row for a, b in cuts for row in range(a, b)] == [0, 1, 2, 3, 4]
    assert cuts[0] == (0, 1)
