"""G = RᵀR of a sparse matrix, straight into the tiles that hold its lower triangle.

Row i of G is the sum of the rows of R that have an entry in column i. It is summed in a row that
stays in the processor's second-level cache, then cut into tiles. Rows of G are independent, so they
are shared out between threads, and each is summed in the order of the rows of R: the result does
not depend on the number of threads. Ones are counted in integers, other values summed in float64;
float32 tiles receive the nearest float32, which is the count itself up to 2^24.

Why not a dense product over blocks of R? An addition here takes about 1 ns, a multiply-add of
sgemm 0.015 ns: dense blocks pay off where more than one cell in eight is filled, and data with
thousands of items comes near that only for its few most popular ones.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from recbench.linalg import blas
from recbench.linalg.tiles import Tiles
from recbench.linalg.types import Sparse

AnyIntegers = npt.NDArray[np.integer[Any]]
Entries = tuple[AnyIntegers, AnyIntegers, AnyIntegers, AnyIntegers, AnyIntegers]

ROWS = 32
"""Rows of G per task: few enough to be shared out evenly, however popular some items are."""


def gram(matrix: Sparse, tiles: Tiles) -> None:
    """Overwrite the tiles with RᵀR, those of them that are here."""
    from recbench.linalg.gram_kernel import add_rows  # brings numba

    if matrix.shape[1] != tiles.n:
        raise ValueError(f"{matrix.shape[1]} columns do not make tiles of {tiles.n} rows")
    matrix = _canonical(matrix)
    values = None if (matrix.data == 1).all() else matrix.data
    entries = _by_column_and_row(matrix)
    here: dict[int, list[int]] = {}
    for i, j in tiles.keys:
        here.setdefault(i, []).append(j)

    def fill(i: int, first: int, last: int) -> None:
        sums = np.zeros((last - first, last), np.int32 if values is None else np.float64)
        add_rows(first, *entries, values, sums)
        rows = slice(first - tiles.span(i).start, last - tiles.span(i).start)
        for j in here[i]:
            part = sums[:, tiles.span(j)]
            tiles.block(i, j)[rows, : part.shape[1]] = part

    bands = [
        (i, first, min(first + ROWS, tiles.span(i).stop))
        for i in here
        for first in range(tiles.span(i).start, tiles.span(i).stop, ROWS)
    ]
    diagonal = [(tiles.block(i, i),) for i in tiles.on_diagonal]
    with blas.workers() as pool:
        blas.finish(pool, fill, bands)
        blas.finish(pool, blas.mirror, diagonal)


def _canonical(matrix: Sparse) -> Sparse:
    """The same matrix with sorted, unique columns in each row and floating-point values."""
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    if matrix.dtype not in (np.float32, np.float64):
        matrix = matrix.astype(np.float64)
    return matrix


def _by_column_and_row(matrix: Sparse) -> Entries:
    """What `add_rows` asks for: starts, rows and places by column, starts and columns by row."""
    size: type[np.signedinteger] = np.int32 if matrix.nnz < 2**31 else np.int64
    # Of a matrix that may not be written to, copies: other types would be compiled once more.
    starts, columns = (np.require(x, size, "W") for x in (matrix.indptr, matrix.indices))
    places = np.arange(len(columns), dtype=size)
    turned = scipy.sparse.csr_array((places, columns, starts), matrix.shape).tocsc()
    unsigned = columns.view(f"u{columns.itemsize}")
    return turned.indptr, turned.indices, turned.data, starts, unsigned
