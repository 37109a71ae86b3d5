"""Sparse times dense against SciPy's dense products."""

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

from recbench.linalg.thin import GramProduct, Thin

RNG = np.random.default_rng(0)


def example(rows: int, columns: int, density: float = 0.2) -> sparse.csr_array:
    matrix = sparse.random_array((rows, columns), density=density, rng=RNG).tocsr()
    matrix.data[:] = RNG.standard_normal(matrix.nnz)
    return matrix


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [1, 3, 50, 4000])
@pytest.mark.parametrize("width", [0, 1, 8, 33, 300])
def test_a_product_and_one_with_the_transpose(rows, width, dtype):
    matrix, z = example(rows, 31), RNG.standard_normal((31, width))
    dense = matrix.toarray()
    once, twice = Thin(matrix, dtype) @ z, GramProduct(matrix, dtype)(z)
    assert once.dtype == twice.dtype == dtype
    rounding = rows * np.finfo(dtype).eps
    assert np.allclose(once, dense @ z, rtol=0, atol=20 * rounding)
    assert np.allclose(twice, dense.T @ (dense @ z), rtol=0, atol=200 * rounding)


def test_one_operator_again_and_again():
    """It keeps the memory it works in."""
    matrix = example(300, 40)
    dense, product = matrix.toarray(), GramProduct(matrix)
    for width in (40, 3, 100, 1):
        z = RNG.standard_normal((40, width))
        first = product(z)
        product(RNG.standard_normal((40, width)))
        assert np.allclose(first, dense.T @ (dense @ z), rtol=0, atol=1e-11)


def test_rows_and_columns_without_entries():
    matrix = sparse.csr_array((20, 30), dtype=np.float64)
    assert np.array_equal(GramProduct(matrix)(np.ones((30, 5))), np.zeros((30, 5)))
    matrix = sparse.csr_array(([2.0], ([7], [11])), shape=(20, 30))
    expected = np.zeros((30, 5))
    expected[11] = 4.0
    assert np.array_equal(GramProduct(matrix)(np.ones((30, 5))), expected)


def test_the_number_of_threads_changes_no_bit():
    matrix, z = example(5000, 200, 0.05), RNG.standard_normal((200, 70))
    found = []
    for threads in (1, 2, 3):
        with threadpool_limits(threads, user_api="blas"):
            found.append((Thin(matrix, np.float64) @ z, GramProduct(matrix)(z)))
    for other in found[1:]:
        assert all(map(np.array_equal, found[0], other))


@pytest.mark.parametrize("of", [Thin.__matmul__, lambda thin, z: GramProduct(MATRIX)(z)])
def test_sides_that_do_not_fit_are_refused(of):
    with pytest.raises(ValueError, match="do not fit"):
        of(Thin(MATRIX, np.float64), np.ones((4, 1)))


MATRIX = sparse.csr_array((4, 3))
