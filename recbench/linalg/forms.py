"""diag(Rᵀ B R): the quadratic form of each column of a sparse R in a symmetric tiled B.

A column with g entries takes g² products, so that columns take as much together as a Gram matrix
of the rows of R. Tiles are gone through one after the other, by all threads at once, and each
column is summed up by one thread in float64: the result is the same on any number.
"""

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import scipy

from recbench.linalg import blas, shares
from recbench.linalg.tiles import Tiles
from recbench.linalg.types import Sparse, Vector


def forms(tiles: Tiles, matrix: Sparse) -> Vector:
    """Return xᵀ B x for every column x of a matrix with as many rows as the tiles."""
    from recbench.linalg.forms_kernel import add_forms  # brings numba

    if matrix.shape[0] != tiles.n:
        raise ValueError(f"columns of {matrix.shape[0]} rows, and tiles of {tiles.n}")
    turned = scipy.sparse.csr_array(matrix.T)
    turned.sum_duplicates()
    rows, values = turned.indices.astype(np.int32), turned.data.astype(np.float64)
    sums = np.zeros(turned.shape[0])
    edges = [_edges(turned, tiles.side * i) for i in range(tiles.count + 1)]
    bands = [np.stack(pair, axis=1) for pair in pairwise(edges)]
    squares = np.concatenate([[0], np.cumsum(np.diff(turned.indptr).astype(np.int64) ** 2 + 1)])
    parts = shares.fair(squares, shares.for_cores())
    with blas.workers() as pool:
        for i, j in tiles.keys:
            corner, factor = (tiles.span(i).start, tiles.span(j).start), 1.0 if i == j else 2.0
            # A mapped tile is copied: what is read-only would be compiled for once more.
            tile = np.require(tiles.block(i, j), tiles.dtype, ["C", "A", "W"])
            given = bands[i], bands[j], rows, values, tile, corner, factor, sums
            blas.finish(pool, add_forms, ((part, *given) for part in parts))
    return sums


def _edges(turned: Sparse, bound: int) -> npt.NDArray[np.int64]:
    """For each column the place of its first entry in a row from `bound` on."""
    before = np.concatenate([[0], np.cumsum(turned.indices < bound)])
    starts = turned.indptr.astype(np.int64)
    within: npt.NDArray[np.int64] = starts[:-1] + before[starts[1:]] - before[starts[:-1]]
    return within
