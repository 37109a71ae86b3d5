"""C from the side of the rows against a dense inverse, digits included."""

import numpy as np
import pytest
from scipy import sparse

from recbench.linalg import rowinverse
from recbench.linalg.rowinverse import RowInverse, fill, without_empty_rows
from recbench.linalg.tiles import Tiles

ROWS, COLUMNS = 30, 70


def matrix(rows=ROWS, columns=COLUMNS, seed=0):
    dense = np.random.default_rng(seed).random((rows, columns)) < 0.2
    dense[:25, 7] = True
    dense[3] = dense[:, 5] = False
    return sparse.csr_array(dense.astype(np.float32))


def inverted(gamma, dtype=np.float64, rows=ROWS):
    whole = matrix(rows, len(gamma))
    filled = without_empty_rows(whole)
    tiles = Tiles.zeros(filled.shape[0], dtype, side=8)
    fill(filled, gamma, tiles)
    tiles.invert()
    dense = whole.toarray().astype(float)
    return RowInverse(tiles, whole, gamma), np.linalg.inv(dense.T @ dense + np.diag(gamma))


@pytest.mark.parametrize(("dtype", "close"), [(np.float32, 1e-5), (np.float64, 1e-12)])
@pytest.mark.parametrize("ridge", [0.3, 1.0, 80.0])
def test_every_way_to_read_gives_the_matrix(ridge, dtype, close):
    found, c = inverted(ridge + np.arange(COLUMNS) / COLUMNS, dtype)
    z = np.random.default_rng(1).standard_normal((COLUMNS, 3))
    chosen = np.array([69, 0, 7, 7])
    assert np.allclose(found.diagonal(), c.diagonal(), rtol=close)
    assert np.allclose(found.matmul(z), c @ z, rtol=close, atol=close * np.abs(c @ z).max())
    assert np.allclose(found.rows(chosen), c[chosen], rtol=close, atol=close * c.max())
    assert found.rows(chosen).dtype == dtype


def test_columns_that_would_lose_digits_are_refined(monkeypatch):
    """The diagonal of C is the difference of numbers a thousand times as large."""
    found, c = inverted(np.full(100, 0.02), np.float32, rows=150)

    def error():
        return np.abs(found.diagonal() / c.diagonal() - 1).max()

    refined = error()
    monkeypatch.setattr(rowinverse, "LOST", 1.0)
    assert refined < 1e-5 < 1e-3 < error()


@pytest.mark.parametrize(("dtype", "close"), [(np.float32, 1e-5), (np.float64, 1e-12)])
def test_products_are_those_of_the_histories_whoever_they_are_of(dtype, close):
    """Rows of R, a history of another row, none at all, and people who were not there."""
    found, c = inverted(np.full(COLUMNS, 2.0), dtype)
    strangers = matrix(4, seed=1)
    history = sparse.csr_array(sparse.vstack([found.matrix, strangers, matrix()[:2]]))
    rows = np.array([*range(ROWS), -1, -1, -1, -1, 0, 5], np.int32)
    assert found.known(history, rows).tolist() == [True] * ROWS + [False] * 4 + [True, False]
    expected = history.toarray() @ c
    assert np.allclose(found.product(history, rows), expected, atol=close * np.abs(expected).max())


def test_blocks_of_strangers_do_not_change_their_products(monkeypatch):
    found, c = inverted(np.full(COLUMNS, 2.0))
    rows = np.full(ROWS, -1, np.int32)
    monkeypatch.setattr(rowinverse, "COLUMNS", 7)
    assert np.allclose(found.product(found.matrix, rows), found.matrix.toarray() @ c, atol=1e-12)
    assert np.allclose(found.rows(np.arange(COLUMNS)), c, atol=1e-12)
