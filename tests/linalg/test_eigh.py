"""Eigenpairs from LAPACK's steps against NumPy's own."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from recbench.linalg import blas
from recbench.linalg.eigh import COLUMNS, eigh


def symmetric(n: int, dtype: type) -> np.ndarray:
    square = np.random.default_rng(n).standard_normal((n, n))
    return (square + square.T).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("n", "k"), [(1, 1), (2, 1), (5, 5), (60, 7), (300, COLUMNS + 1), (2 * COLUMNS + 3, 2)]
)
def test_the_largest_pairs(n, k, dtype):
    matrix = symmetric(n, dtype)
    with blas.workers() as pool:
        values, vectors = eigh(pool, matrix.copy(), k)
    assert values.dtype == vectors.dtype == dtype
    rounding = 200 * np.finfo(dtype).eps
    exact = np.linalg.eigvalsh(matrix.astype(np.float64))[::-1][:k]
    assert np.allclose(values, exact, rtol=0, atol=rounding * np.sqrt(n))
    assert np.allclose(vectors.T @ vectors, np.eye(k), rtol=0, atol=rounding)
    assert np.allclose(matrix @ vectors, vectors * values, rtol=0, atol=rounding * np.sqrt(n))


def test_repeated_eigenvalues_have_orthonormal_vectors():
    with blas.workers() as pool:
        values, vectors = eigh(pool, 3.0 * np.eye(40), 12)
    assert np.array_equal(values, np.full(12, 3.0))
    assert np.allclose(vectors.T @ vectors, np.eye(12), rtol=0, atol=1e-14)


def test_neither_threads_nor_more_pairs_change_a_bit():
    matrix = symmetric(3 * COLUMNS, np.float64)
    found = []
    for threads, k in ((1, 2 * COLUMNS), (2, 2 * COLUMNS), (2, 3 * COLUMNS), (2, 5)):
        with threadpool_limits(threads, user_api="blas"), blas.workers() as pool:
            found.append(eigh(pool, matrix.copy(), k))
    for values, vectors in found[1:]:
        k = min(len(values), len(found[0][0]))
        assert np.array_equal(values[:k], found[0][0][:k])
        assert np.array_equal(vectors[:, :k], found[0][1][:, :k])
