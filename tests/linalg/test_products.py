"""Products of long matrices with short rows, against NumPy's, at every edge."""

import numpy as np
import pytest

from recbench.linalg import products_kernel as products
from recbench.linalg.registers_kernel import SIDE, TALL

SHAPES = [
    (1, 1, SIDE), (TALL, SIDE, SIDE), (TALL + 1, 17, 32), (13, 70, 48), (5, 130, 64), (23, 64, 80),
    (12, 128, 144),
]  # fmt: skip
"""Rows, columns, factors: less than a tile, whole ones, and some more than that."""


def some(*shape, dtype):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def framed(rows, columns, dtype):
    """A matrix amid others that must stay as they are."""
    whole = np.full((rows + 2, columns), 7, dtype)
    return whole, whole[1:-1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("rows", "columns", "factors"), SHAPES)
def test_products_are_numpys_and_nothing_else_is_written(rows, columns, factors, dtype):
    a, c, g = (
        some(*s, dtype=dtype) for s in ((rows, factors), (columns, factors), (rows, columns))
    )
    close = {"rtol": 0, "atol": 2e-4 if dtype == np.float32 else 1e-12}
    for product, given, expected in (
        (products.scores, (a, c), a @ c.T),
        (products.pull, (g, c), g @ c),
        (products.push, (g, a), g.T @ a),
    ):
        whole, out = framed(*expected.shape, dtype)
        product(*given, out)
        assert np.allclose(out, expected, **close)
        assert (whole[[0, -1]] == 7).all()


def test_a_number_is_the_same_sum_wherever_its_tile_begins():
    a, c = some(31, 64, dtype=np.float32), some(200, 64, dtype=np.float32)
    g = some(31, 200, dtype=np.float32)
    found = [np.empty(shape, np.float32) for shape in ((31, 200), (31, 64), (200, 64))]
    for product, given, out in zip(
        (products.scores, products.pull, products.push),
        ((a, c), (g, c), (g, a)),
        found,
        strict=True,
    ):
        product(*given, out)
    scores, pulled = np.empty((9, 77), np.float32), np.empty((9, 64), np.float32)
    products.scores(a[4:13], c[11:88], scores)
    products.pull(g[4:13], c, pulled)
    pushed = np.empty((77, 64), np.float32)
    products.push(np.ascontiguousarray(g[:, 11:88]), a, pushed)
    assert np.array_equal(scores, found[0][4:13, 11:88])
    assert np.array_equal(pulled, found[1][4:13])
    assert np.array_equal(pushed, found[2][11:88])
