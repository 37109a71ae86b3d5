"""A sparse matrix times a dense one of few columns, on all threads, the same on any number.

Every row of the product is summed by one thread in the order of the sparse row's entries.
"""

import os
from concurrent.futures import Executor
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from recbench.linalg import blas

Matrix = npt.NDArray[np.floating[Any]]

PANEL = 128
"""Columns multiplied at a time: rows of this length are read at full speed and stay in a cache."""


class Thin:
    """A sparse matrix, laid out to be multiplied with dense ones of `dtype` from the right."""

    def __init__(self, matrix: sparse.csr_array | sparse.csc_array, dtype: npt.DTypeLike) -> None:
        rows = sparse.csr_array(matrix)
        self.shape = rows.shape
        self.entries = (
            np.require(rows.indptr, np.int64, ["C", "A", "W"]),
            np.require(rows.indices, np.int32, ["C", "A", "W"]),
            np.require(rows.data, dtype, ["C", "A", "W"]),
        )
        self.shares = _fair(self.entries[0])

    def __matmul__(self, right: Matrix) -> Matrix:
        """The product with a dense matrix, in the precision of this one."""
        with blas.workers() as pool:
            return self.times(right, pool)

    def times(self, right: Matrix, pool: Executor) -> Matrix:
        """The same, by threads that are there already."""
        from recbench.linalg.topk_kernel import multiply  # brings numba

        if right.shape[0] != self.shape[1]:
            raise ValueError(f"{self.shape} and {right.shape} do not fit together")
        out = np.empty((self.shape[0], right.shape[1]), self.entries[2].dtype)
        for start in range(0, right.shape[1], PANEL):
            columns = slice(start, start + PANEL)
            panel = np.require(right[:, columns], out.dtype, ["C", "A", "W"])
            work = ((rows, *self.entries, panel, out[:, columns]) for rows in self.shares)
            blas.finish(pool, multiply, work)
        return out


class GramProduct:
    """RᵀR of a sparse R as an operator: it is applied without being computed."""

    def __init__(self, matrix: sparse.csr_array, dtype: npt.DTypeLike = np.float64) -> None:
        self.right, self.left = Thin(matrix, dtype), Thin(matrix.T, dtype)

    def __call__(self, z: Matrix) -> Matrix:
        """Rᵀ (R z)."""
        with blas.workers() as pool:
            return self.left.times(self.right.times(z, pool), pool)


def _fair(starts: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    """Cut rows into shares of about equal work, a few for each core."""
    cost = starts + np.arange(len(starts))  # writing a row costs about as much as adding an entry
    goals = np.linspace(0, cost[-1], 4 * (os.cpu_count() or 1) + 1)
    edges = np.unique(np.searchsorted(cost, goals)).tolist()
    return [(a, b) for a, b in pairwise(edges) if a < b]
