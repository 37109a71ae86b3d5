import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

from recbench.linalg.forms import forms
from recbench.linalg.tiles import Tiles


def some(rows, columns, seed=0):
    rng = np.random.default_rng(seed)
    dense = (rng.random((rows, columns)) < 0.3) * rng.standard_normal((rows, columns))
    dense[:, 1] = 0
    return sparse.csr_array(dense)


def tiles_of(n, side, dtype=np.float64):
    rng = np.random.default_rng(n)
    dense = rng.standard_normal((n, n)).astype(dtype)
    dense += dense.T
    tiles = Tiles.zeros(n, dtype, side)
    for i, j in tiles.keys:
        tiles.block(i, j)[...] = dense[tiles.span(i), tiles.span(j)]
    return tiles, dense


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "side"), [(1, 4), (8, 8), (23, 7)])
def test_forms_are_those_of_the_columns(n, side, dtype):
    (tiles, dense), matrix = tiles_of(n, side, dtype), some(n, 9)
    columns = matrix.toarray()
    expected = np.einsum("ui,uv,vi->i", columns, dense, columns)
    assert np.allclose(forms(tiles, matrix), expected, rtol=1e-12, atol=1e-12)


def test_threads_do_not_change_a_bit():
    (tiles, _), matrix, found = tiles_of(40, 16, np.float32), some(40, 60), []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.append(forms(tiles, matrix))
    assert np.array_equal(*found)


def test_another_number_of_rows_is_refused():
    with pytest.raises(ValueError, match="rows"):
        forms(tiles_of(8, 4)[0], some(9, 3))
