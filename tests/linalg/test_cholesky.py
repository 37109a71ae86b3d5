"""The Cholesky kernel against NumPy, with nonsense where it must not look."""

import numpy as np
import pytest

from recbench.linalg.cholesky_kernel import add_products, solve, stride, whole
from recbench.linalg.registers_kernel import SIDE

SIZES = [1, 3, SIDE - 1, SIDE, SIDE + 1, 2 * SIDE, 5 * SIDE - 3]
DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def upper_tiles(size):
    """Where tiles on and above the diagonal are."""
    tile = np.arange(whole(size)) // SIDE
    return tile[:, None] <= tile


def room_for(size, dtype):
    """A square without meaning."""
    return np.full((whole(size), stride(size)), np.nan, dtype)


@DTYPES
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("rows", [1, 40])
def test_products_are_set_and_then_added_to(size, rows, dtype):
    x = np.zeros((rows + 1, stride(size)), dtype)
    x[:, :size] = np.random.default_rng(size).standard_normal((rows + 1, size))
    square, inside = room_for(size, dtype), upper_tiles(size)
    x[rows] = np.nan  # one row more than is asked for
    add_products(x, rows, size, dtype(2), True, square)
    add_products(x, rows, size, dtype(-0.5), False, square)
    product = x[:rows].T.astype(np.float64) @ x[:rows] * 1.5
    expected = (np.eye(stride(size)) + product)[: whole(size), : whole(size)]
    found = square[:, : whole(size)]
    assert np.allclose(found[inside], expected[inside], rtol=1e-4, atol=1e-4)
    assert np.isnan(found[~inside]).all()


@DTYPES
@pytest.mark.parametrize("size", SIZES)
def test_equations_are_solved_and_the_factor_stays(size, dtype):
    rng = np.random.default_rng(size)
    half = rng.standard_normal((2 * size, size)) / np.sqrt(size)
    matrix, right = np.eye(whole(size)), np.zeros(whole(size))
    matrix[:size, :size] += half.T @ half
    right[:size] = rng.standard_normal(size)
    square, inside = room_for(size, dtype), upper_tiles(size)
    square[:, : whole(size)][inside] = matrix[inside]
    z, inverse = right.astype(dtype), np.empty(whole(size), dtype)
    solve(size, square, inverse, z)
    rounding = 100 * np.finfo(dtype).eps
    assert np.allclose(z, np.linalg.solve(matrix, right), rtol=0, atol=rounding)
    factor = np.triu(square[:, : whole(size)])
    assert np.allclose(factor, np.linalg.cholesky(matrix).T, rtol=0, atol=rounding)
    assert np.allclose(inverse, 1 / factor.diagonal(), rtol=rounding)
    assert np.isnan(square[:, : whole(size)][~inside]).all()


def test_a_matrix_that_is_not_positive_ends_in_nan():
    square, z, inverse = np.diag(np.r_[-1.0, np.ones(SIDE - 1)]), np.ones(SIDE), np.empty(SIDE)
    solve(SIDE, square, inverse, z)
    assert np.isnan(z[0])
