"""Columns of an inverse on few rows each, against dense inverses of those rows and columns."""

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

from recbench.errors import Refused
from recbench.linalg import pairs, support, support_kernel


def some_pairs(users=50, items=30, density=0.15):
    rng = np.random.default_rng(items)
    matrix = sparse.random_array((users, items), density=density, format="csr", rng=rng)
    matrix.data[:] = 1
    order = np.argsort(-np.bincount(matrix.indices, minlength=items), kind="stable")
    matrix = sparse.csr_array(matrix)[:, order]
    return pairs.gram(matrix, lambda _: None), matrix.toarray().T @ matrix.toarray()


def by_hand(gram, gamma, j, width, looks):
    """Column j of the inverse on the items that alone would explain the most of j, and on j."""
    n = len(gram)
    chosen, column = [j], np.eye(n)[j]
    for look in range(1, looks + 1):
        left = gram @ column
        gains = left**2 / (gram.diagonal() + gamma)
        able = np.flatnonzero(np.abs(left) > 1e-12)
        others = [i for i in (range(n) if width >= n - 1 else able) if i not in chosen]
        others.sort(key=lambda i: (-gains[i], i))
        chosen += others[: width * look // looks - len(chosen) + 1]
        inverse = np.linalg.inv((gram + np.diag(gamma))[np.ix_(chosen, chosen)])
        column = np.zeros(n)
        column[chosen] = inverse[:, 0]
    return column


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("looks", [1, 2, 3])
@pytest.mark.parametrize("width", [0, 1, 3, 7, 20, 29, 1000])
def test_columns_are_those_of_inverses_on_their_support(width, looks, dtype):
    found, gram = some_pairs()
    gamma = np.random.default_rng(0).uniform(0.5, 3, len(gram))
    columns, c = support.solve(found, gamma, width, looks, dtype)
    expected = np.array([by_hand(gram, gamma, j, width, looks) for j in range(len(gram))])
    assert columns.dtype == dtype
    assert np.abs(columns.toarray() - expected).max() < (1e-6 if dtype is np.float32 else 1e-14)
    assert np.abs(c - expected.diagonal()).max() < (1e-6 if dtype is np.float32 else 1e-14)


def test_with_every_item_it_is_the_inverse():
    found, gram = some_pairs()
    columns, _ = support.solve(found, np.full(30, 2.0), 29, 1, np.float64)
    assert np.allclose(columns.toarray() @ (gram + 2 * np.eye(30)), np.eye(30), atol=1e-12)


def test_items_that_nobody_has_stand_alone():
    found = pairs.gram(sparse.csr_array(np.array([[1.0, 1, 0, 0], [1, 0, 0, 0]])), lambda _: None)
    columns, c = support.solve(found, np.full(4, 2.0), 2, 2, np.float64)
    assert columns[[2]].nnz == columns[[3]].nnz == 1
    assert c[2:] == pytest.approx(0.5)


@pytest.mark.parametrize("width", [0, 1, 2, 3])
def test_of_equal_ones_the_first_are_taken(width):
    found = pairs.gram(sparse.csr_array(np.ones((4, 6))), lambda _: None)
    columns, _ = support.solve(found, np.full(6, 2.0), width, 1, np.float64)
    assert sorted(columns[[5]].indices.tolist()) == [*range(width), 5]
    assert sorted(columns[[0]].indices.tolist()) == list(range(width + 1))


def test_threads_change_no_bit():
    found, _ = some_pairs(200, 90, 0.1)
    ways = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            ways.append(support.solve(found, np.full(90, 1.0), 12, 2, np.float32))
    assert (ways[0][0] != ways[1][0]).nnz == 0
    assert np.array_equal(ways[0][1], ways[1][1])


def test_what_does_not_fit_is_refused_before_it_is_made():
    def refuse(size):
        assert size == 8 * 30 * 6 + 4 * 6**2  # columns, and one task's equations
        raise Refused("no")

    found, _ = some_pairs()
    with pytest.raises(Refused):
        support.solve(found, np.full(30, 1.0), 5, 1, np.float32, reserve=refuse)


def test_what_nothing_is_left_of_is_listed_once():
    """Members that weigh nothing, as where the penalty is 1e30, and sums that cancel out."""
    found, _ = some_pairs()
    n = len(found.diagonal)
    members, weights = np.arange(n, dtype=np.int32), np.zeros(n, np.float32)
    weights[:2] = 1, -1
    reach, listed, met = np.zeros(n), np.zeros(n, np.bool_), np.full(10 * n, -1, np.int32)
    given = members, weights, found.starts, found.columns, found.values, reach, listed, met
    count = support_kernel._reach(*given)
    assert sorted(met[:count]) == list(range(n))


def test_an_equation_that_is_not_definite_is_noticed():
    """Two items that the same users have, and no penalty."""
    found = pairs.gram(sparse.csr_array(np.ones((4, 2))), lambda _: None)
    with pytest.raises(support.NotDefinite):
        support.solve(found, np.zeros(2), 2, 1, np.float64)
