import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

from recbench.linalg.gram import gram
from recbench.linalg.tiles import Tiles


def some_matrix(rows, columns, density, values=None):
    rng = np.random.default_rng(rows + columns)
    found = sparse.random_array(
        (rows, columns), density=density, format="csr", dtype=np.float32, rng=rng
    )
    found.data[:] = 1 if values is None else rng.integers(1, values, len(found.data))
    return sparse.csr_array(found)


def gram_of(matrix, dtype=np.float32, side=16):
    tiles = Tiles.zeros(matrix.shape[1], dtype, side)
    gram(matrix, tiles)
    return tiles.panel(0, tiles.n)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("columns", "side"), [(1, 16), (16, 16), (50, 16), (100, 64), (9, 1)])
def test_counts_are_exact(columns, side, dtype):
    for matrix in (some_matrix(80, columns, 0.2), some_matrix(80, columns, 0.2, values=6)):
        dense = matrix.toarray().astype(int)
        found = gram_of(matrix, dtype, side)
        assert found.dtype == dtype
        assert np.array_equal(found, dense.T @ dense)


def test_a_matrix_without_entries_gives_zeros():
    assert not gram_of(sparse.csr_array((5, 20), dtype=np.float32)).any()


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int64, np.float64])
def test_values_of_any_type_count(dtype):
    matrix = some_matrix(30, 20, 0.3)
    assert np.array_equal(gram_of(matrix.astype(dtype)), gram_of(matrix))


def test_wide_indices_count_the_same():
    matrix = some_matrix(30, 20, 0.3)
    wide = sparse.csr_array(matrix)
    wide.indices, wide.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    assert np.array_equal(gram_of(wide), gram_of(matrix))


def test_unsorted_and_repeated_entries_are_added_up_on_a_copy():
    matrix = sparse.csr_array(
        (np.array([1, 2, 3, 4], np.float32), np.array([2, 0, 2, 1]), np.array([0, 3, 4])), (2, 3)
    )
    before = matrix.indices.copy()
    dense = matrix.toarray()
    assert np.array_equal(gram_of(matrix), dense.T @ dense)
    assert np.array_equal(matrix.indices, before)


def test_large_counts_are_not_lost_one_by_one():
    # Added up in float32, 2^24 + 1 + 1 stays at 2^24.
    matrix = sparse.csr_array(np.array([[4096], [1], [1]], np.float32))
    assert gram_of(matrix)[0, 0] == 2**24 + 2


def test_fractions_do_not_depend_on_threads():
    rng = np.random.default_rng(0)
    matrix = some_matrix(200, 150, 0.3)
    matrix.data[:] = rng.random(len(matrix.data))
    results = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            results.append(gram_of(matrix))
    dense = matrix.toarray().astype(float)
    assert np.array_equal(*results)
    assert np.allclose(results[0], dense.T @ dense, rtol=1e-6)


def test_tiles_of_another_size_are_refused():
    with pytest.raises(ValueError, match="20 columns"):
        gram(some_matrix(30, 20, 0.3), Tiles.zeros(21))


def test_tiles_are_overwritten():
    matrix = some_matrix(30, 20, 0.3)
    tiles = Tiles.zeros(20, side=8)
    for _ in range(2):
        gram(matrix, tiles)
    assert np.array_equal(tiles.panel(0, 20), gram_of(matrix))
