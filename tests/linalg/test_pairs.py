"""Sparse products of all pairs of columns, against the dense product."""

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

from recbench.errors import Refused
from recbench.linalg import pairs


def some_matrix(rows=60, columns=40, density=0.05, fractions=False):
    rng = np.random.default_rng(columns)
    found = sparse.random_array((rows, columns), density=density, format="csr", rng=rng)
    if not fractions:
        found.data[:] = 1
    return sparse.csr_array(found)


def dense(found):
    n = len(found.diagonal)
    return sparse.csr_array((found.values, found.columns, found.starts), shape=(n, n)).toarray()


@pytest.mark.parametrize("columns", [1, 7, 300])
def test_products_are_those_of_the_matrix_and_only_pairs_with_a_row_in_common_are_stored(columns):
    matrix = some_matrix(columns=columns)
    asked = []
    found = pairs.gram(matrix, asked.append)
    expected = matrix.toarray().T @ matrix.toarray()
    assert np.array_equal(dense(found), expected)
    assert np.array_equal(found.diagonal, expected.diagonal())
    assert len(found.values) == np.count_nonzero(expected)
    for first, last in zip(found.starts, found.starts[1:], strict=False):
        assert (np.diff(found.columns[first:last]) > 0).all()
    assert asked == [found.columns.nbytes + found.values.nbytes]


def test_repeated_and_unsorted_entries_are_added_up():
    matrix = sparse.csr_array(
        (np.array([1, 2, 3, 4.0]), np.array([2, 0, 2, 1]), np.array([0, 3, 4])), (2, 3)
    )
    before = matrix.indices.copy()
    assert np.array_equal(
        dense(pairs.gram(matrix, lambda _: None)), [[4, 0, 8], [0, 16, 0], [8, 0, 16]]
    )
    assert np.array_equal(matrix.indices, before)


def test_threads_change_no_bit():
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.append(pairs.gram(some_matrix(200, 150, 0.2, fractions=True), lambda _: None))
    assert all(np.array_equal(*both) for both in zip(*found, strict=True))


def test_what_does_not_fit_is_refused_before_it_is_made():
    def refuse(size):
        raise Refused(f"{size} bytes")

    with pytest.raises(Refused, match="bytes"):
        pairs.gram(some_matrix(), refuse)
