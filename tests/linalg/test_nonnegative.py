"""Non-negative regression of columns, against exact solves of its definition."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import nnls
from threadpoolctl import threadpool_limits

from recbench.linalg import nonnegative, pairs

PENALTIES = [(0.0, 5.0), (1.5, 0.3), (0.4, 2.0), (20.0, 1.0)]


@pytest.fixture(scope="module")
def matrix():
    """Items of falling popularity, the last of which nobody has."""
    rng = np.random.default_rng(1)
    dense = rng.random((120, 30)) < np.linspace(0.6, 0.02, 30)
    dense[:, -1] = False
    return sparse.csr_array(dense.astype(np.float64))


def solve(matrix, penalties=PENALTIES, tolerance=1e-10, sweeps=5000, **more):
    gram = pairs.gram(matrix, lambda _: None)
    return nonnegative.solve(gram, penalties, tolerance, sweeps, np.float64, **more)


def exact(matrix, l1, l2):
    """Row j has the weights for column j: ½ wᵀ(G + l2) w - (g - l1)ᵀw is a least square."""
    r = matrix.toarray()
    n = r.shape[1]
    found = np.zeros((n, n))
    for j in range(n):
        others = np.delete(np.arange(n), j)
        factor = np.linalg.cholesky(r[:, others].T @ r[:, others] + l2 * np.eye(n - 1))
        target = np.linalg.solve(factor, r[:, others].T @ r[:, j] - l1)
        found[j, others], _ = nnls(factor.T, target)
    return found


@pytest.mark.parametrize("few", [2048, 3])
def test_weights_are_those_of_an_exact_solve(matrix, few, monkeypatch):
    monkeypatch.setattr(nonnegative, "FEW", few)
    for (l1, l2), solution in zip(PENALTIES, solve(matrix), strict=True):
        assert np.allclose(solution.weights.toarray(), exact(matrix, l1, l2), atol=1e-8)
        assert solution.unsettled == 0
        assert (solution.weights.data > 0).all()


def test_the_gradient_is_zero_or_points_out_of_what_is_allowed(matrix):
    tolerance, r = 1e-6, matrix.toarray()
    gram = r.T @ r
    for (l1, l2), solution in zip(PENALTIES, solve(matrix, tolerance=tolerance), strict=True):
        w = solution.weights.toarray()
        gradient = w @ gram - gram + l1 + l2 * w
        np.fill_diagonal(gradient, 0.0)
        off_diagonal = gram - np.diag(gram.diagonal())
        # Later steps of a sweep move earlier members again, by no more than all of these together.
        allowed = len(gram) * tolerance * off_diagonal.max(axis=1, keepdims=True) + 1e-12
        assert (np.abs(gradient) * (w > 0) <= allowed).all()
        assert (gradient >= -allowed).all()


def test_what_else_is_solved_matters_no_more_than_the_tolerance(matrix):
    together = solve(matrix, tolerance=1e-9)
    for penalties, solution in zip(PENALTIES, together, strict=True):
        (alone,) = solve(matrix, [penalties], tolerance=1e-9)
        assert np.allclose(alone.weights.toarray(), solution.weights.toarray(), atol=1e-7)


def test_threads_change_no_bit(matrix):
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.append(solve(matrix))
    for one, two in zip(*found, strict=True):
        assert np.array_equal(one.weights.toarray(), two.weights.toarray())


def test_columns_whose_sweeps_run_out_are_counted(matrix):
    (solution,) = solve(matrix, [(0.0, 0.01)], sweeps=1)
    assert 0 < solution.unsettled < matrix.shape[1]
    assert (solution.weights.data > 0).all()


def test_progress_and_memory_are_told(matrix):
    told, sizes = [], []
    solve(matrix, progress=lambda *now: told.append(now), reserve=sizes.append)
    assert told[-1] == (30, 30)
    assert sizes == sorted(sizes)
    assert sizes[-1] == 12 * sum(solution.weights.nnz for solution in solve(matrix))


def test_there_is_room_for_any_number_of_weights():
    ones, penalties = sparse.csr_array(np.ones((3, 60)) + np.eye(3, 60)), [(0.0, 50.0), (0.0, 90.0)]
    penalties.append((0.0, 70.0))
    for (l1, l2), solution in zip(penalties, solve(ones, penalties), strict=True):
        assert solution.weights.nnz == 60 * 59  # eight columns are a task: 1,416 weights of each
        assert np.allclose(solution.weights.toarray(), exact(ones, l1, l2), atol=1e-8)
