"""G = RᵀR of a sparse matrix, where G is sparse as well: by rows, both triangles, sorted.

Most pairs of items of a large catalogue have no user in common. What is stored is one column and
one float32 for each pair that has, 8 bytes: of Gowalla's 40,981 items 0.3 GB instead of the 6.7 GB
of a square. It is never more than twice the square. Rows are counted before they are filled, so
how much there will be is known before it is asked for.

Rows are independent and shared out between threads. Each is summed in float64 in the order of the
rows of R: the result does not depend on the number of threads.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy

from recbench.linalg import blas, shares
from recbench.linalg.types import Counts, Floats, Indices, Sparse, Vector

ENTRY_BYTES = 8
"""What a stored pair takes."""


class Pairs(NamedTuple):
    """A symmetric sparse matrix by rows, its lower triangle, and its diagonal."""

    starts: Counts
    columns: Indices
    values: Floats
    lower: Counts
    """How many entries of each row are up to its diagonal, itself included."""
    diagonal: Vector


def gram(matrix: Sparse, reserve: Callable[[int], None]) -> Pairs:
    """Multiply; `reserve` is told how many bytes the product takes before it is made."""
    from recbench.linalg.pairs_kernel import count_rows, fill_rows  # brings numba

    n = matrix.shape[1]
    sides = (*_compressed(scipy.sparse.csr_array(matrix.T)), *_compressed(matrix))
    counts = np.zeros(n, np.int64)
    work = shares.by_entries(_products(matrix), shares.for_cores(), 1)
    with blas.workers() as pool:
        blas.finish(pool, count_rows, ((*rows, *sides, counts) for rows in work))
        starts = np.concatenate([[0], np.cumsum(counts)])
        reserve(ENTRY_BYTES * int(starts[-1]))
        columns, values = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.float32)
        found = Pairs(starts, columns, values, np.zeros(n, np.int64), np.zeros(n))
        blas.finish(pool, fill_rows, ((*rows, *sides, *found) for rows in work))
    return found


def popular_first(matrix: Sparse) -> Indices:
    """The columns by how many rows have them, falling; G up to its diagonal is small then."""
    counts = np.bincount(matrix.indices, minlength=matrix.shape[1])
    return np.argsort(-counts, kind="stable").astype(np.int32)


def rows_again(columns: Sparse, order: Indices) -> Sparse:
    """Columns that are stored as rows, in such an order, as a matrix in the order there was."""
    n = len(order)
    named = scipy.sparse.csr_array((columns.data, order[columns.indices], columns.indptr), (n, n))
    rows = scipy.sparse.csr_array(named[np.argsort(order)].T)
    rows.sort_indices()
    return rows


def _products(matrix: Sparse) -> Counts:
    """How many products the rows of G before each one take."""
    lengths = np.diff(matrix.indptr).astype(np.int64)
    each = np.bincount(
        matrix.indices, weights=np.repeat(lengths, lengths), minlength=matrix.shape[1]
    )
    return np.concatenate([[0], np.cumsum(each.astype(np.int64))])


def _compressed(rows: Sparse) -> tuple[Counts, Indices, Floats]:
    """Starts, ascending columns and values, as the loops are compiled for."""
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    kinds = ((rows.indptr, np.int64), (rows.indices, np.int32), (rows.data, np.float32))
    starts, columns, values = (np.require(x, kind, ["C", "A", "W"]) for x, kind in kinds)
    return starts, columns, values
