"""A sparse matrix times a dense one of few columns, on all threads, the same on any number.

Every row of the product is summed by one thread in the order of the sparse row's entries.
"""

from concurrent.futures import Executor

import numpy as np
import numpy.typing as npt
import scipy

from recbench.linalg import blas, shares, tall
from recbench.linalg.types import Matrix, Sparse

PANEL = 128
"""Columns multiplied at a time: rows of this length are read at full speed and stay in a cache."""
ROW_COST = 1
"""Writing a row takes about as long as adding an entry."""
STRIPE = 256
"""Bytes of a row, where rows of the product are read and written as well."""
SHARES = 4
"""Parts of a sum: a fixed number, because its last bits depend on it."""


class Thin:
    """A sparse matrix, laid out to be multiplied with dense ones of `dtype` from the right."""

    def __init__(self, matrix: "Sparse | scipy.sparse.csc_array", dtype: npt.DTypeLike) -> None:
        rows = scipy.sparse.csr_array(matrix)
        self.shape = rows.shape
        self.entries = (
            np.require(rows.indptr, np.int64, ["C", "A", "W"]),
            np.require(rows.indices, np.int32, ["C", "A", "W"]),
            np.require(rows.data, dtype, ["C", "A", "W"]),
        )
        self.shares = shares.by_entries(self.entries[0], shares.for_cores(), ROW_COST)

    def __matmul__(self, right: Matrix) -> Matrix:
        """The product with a dense matrix, in the precision of this one."""
        from recbench.linalg.topk_kernel import multiply  # brings numba

        self.fits(right)
        out = np.empty((self.shape[0], right.shape[1]), self.entries[2].dtype)
        with blas.workers() as pool:
            for start in range(0, right.shape[1], PANEL):
                columns = slice(start, start + PANEL)
                panel = np.require(right[:, columns], out.dtype, ["C", "A", "W"])
                work = ((rows, *self.entries, panel, out[:, columns]) for rows in self.shares)
                blas.finish(pool, multiply, work)
        return out

    def fits(self, right: Matrix) -> None:
        """Refuse what cannot be multiplied."""
        if right.shape[0] != self.shape[1]:
            raise ValueError(f"{self.shape} and {right.shape} do not fit together")


class GramProduct:
    """RᵀR of a sparse R as an operator: it is applied without being computed.

    R z would be written by every thread and read by all, which takes longer than the sums do. So a
    row of R is used for both products while it is at hand, each thread adds up its own rows, and
    the parts are added at the end.
    """

    def __init__(self, matrix: Sparse, dtype: npt.DTypeLike = np.float64) -> None:
        self.rows = Thin(matrix, dtype)
        self.dtype, self.n = self.rows.entries[2].dtype, matrix.shape[1]
        self.shares = shares.by_entries(self.rows.entries[0], SHARES, ROW_COST)
        self.width = STRIPE // self.dtype.itemsize
        self.room = np.empty(len(self.shares) * self.n * self.width, self.dtype)
        """For the parts of a stripe: fresh memory would be handed out page by page each time."""

    def __call__(self, z: Matrix) -> Matrix:
        """Rᵀ (R z)."""
        self.rows.fits(z)
        out = np.empty(z.shape, self.dtype)
        with blas.workers() as pool:
            for start in range(0, z.shape[1], self.width):
                columns = slice(start, start + self.width)
                self._write(out[:, columns], z[:, columns], pool)
        return out

    def _write(self, out: Matrix, stripe: Matrix, pool: Executor) -> None:
        from recbench.linalg.topk_kernel import multiply_twice  # brings numba

        entries, panel = self.rows.entries, np.require(stripe, self.dtype, ["C", "A", "W"])
        parts = self.room[: len(self.shares) * panel.size].reshape(-1, *panel.shape)
        work = zip(self.shares, parts, strict=True)
        blas.finish(pool, multiply_twice, ((rows, *entries, panel, part) for rows, part in work))

        def add(rows: slice) -> None:
            out[rows] = parts[:, rows].sum(axis=0)

        tall.by_pieces(pool, self.n, add)
