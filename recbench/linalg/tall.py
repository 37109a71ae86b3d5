"""Products with matrices of many rows and few columns, on all threads, the same on any number.

Rows are cut into the same pieces whatever the number of threads, and sums over pieces are taken in
their order.
"""

from collections.abc import Callable
from concurrent.futures import Executor
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from recbench.linalg import blas

Matrix = npt.NDArray[np.floating[Any]]

ROWS = 2048
"""Rows of a piece: its part of a block of columns stays in the cache."""
COLUMNS = 256
"""Columns of the right side that pieces of an inner product have."""


def by_pieces(pool: Executor, n: int, task: Callable[[slice], None]) -> None:
    """Run a task on all of n rows."""
    blas.finish(pool, task, ((slice(start, min(start + ROWS, n)),) for start in range(0, n, ROWS)))


def inner(pool: Executor, left: Matrix, right: Matrix) -> Matrix:
    """The small matrix Lᵀ R."""
    out = np.empty((left.shape[1], right.shape[1]), np.result_type(left, right))
    for start in range(0, right.shape[1], COLUMNS):  # pieces of all columns could fill the memory
        columns = slice(start, start + COLUMNS)
        parts: dict[int, Matrix] = {}

        def project(
            rows: slice, columns: slice = columns, parts: dict[int, Matrix] = parts
        ) -> None:
            parts[rows.start] = left[rows].T @ right[rows, columns]

        by_pieces(pool, len(left), project)
        out[:, columns] = reduce(np.add, [parts[start] for start in sorted(parts)])
    return out


def times(pool: Executor, left: Matrix, small: Matrix) -> Matrix:
    """The tall matrix L S."""
    out = np.empty((len(left), small.shape[1]), np.result_type(left, small))

    def multiply(rows: slice) -> None:
        out[rows] = left[rows] @ small

    by_pieces(pool, len(left), multiply)
    return out
