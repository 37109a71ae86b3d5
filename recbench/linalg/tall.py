"""Products with matrices of many rows and few columns, on all threads, the same on any number.

Rows are cut into the same pieces whatever the number of threads, and sums over pieces are taken in
their order.
"""

from collections.abc import Callable
from concurrent.futures import Executor
from functools import reduce
from itertools import pairwise

import numpy as np

from recbench.linalg import blas
from recbench.linalg.types import Matrix

ROWS = 2048
"""Rows of a piece, at most: its part of a block of columns stays in the cache."""
EQUAL = 8
"""Pieces are a multiple of this many and of equal size, so that threads end together."""
COLUMNS = 256
"""Columns of the right side that pieces of an inner product have."""
NARROW = 16
"""Columns that are made orthonormal faster by reflections."""
WEAK = 1e-4
"""Columns of which less than this is their own are made orthonormal by reflections."""


def by_pieces(pool: Executor, n: int, task: Callable[[slice], None]) -> None:
    """Run a task on all of n rows."""
    count = EQUAL * -(-n // (EQUAL * ROWS))
    edges = [n * i // count for i in range(count + 1)]
    blas.finish(pool, task, ((slice(*edge),) for edge in pairwise(edges) if edge[0] < edge[1]))


def inner(pool: Executor, left: Matrix, right: Matrix) -> Matrix:
    """The small matrix Lᵀ R."""
    out = np.empty((left.shape[1], right.shape[1]), np.result_type(left, right))
    for start in range(0, right.shape[1], COLUMNS):  # pieces of all columns could fill the memory
        columns = slice(start, start + COLUMNS)

        def project(rows: slice, columns: slice = columns) -> Matrix:
            return left[rows].T @ right[rows, columns]

        out[:, columns] = _sum(pool, len(left), project)
    return out


def _sum(pool: Executor, n: int, term: Callable[[slice], Matrix]) -> Matrix:
    """The sum of what a function gives for pieces of n rows."""
    parts: dict[int, Matrix] = {}

    def keep(rows: slice) -> None:
        parts[rows.start] = term(rows)

    by_pieces(pool, n, keep)
    return reduce(np.add, [parts[start] for start in sorted(parts)])


def times(pool: Executor, left: Matrix, small: Matrix) -> Matrix:
    """The tall matrix L S."""
    out = np.empty((len(left), small.shape[1]), np.result_type(left, small))

    def multiply(rows: slice) -> None:
        out[rows] = left[rows] @ small

    by_pieces(pool, len(left), multiply)
    return out


def orthonormal(pool: Executor, block: Matrix) -> tuple[Matrix, Matrix]:
    """Q with orthonormal columns and an upper triangle R, where the block was Q R.

    R is the Cholesky factor of BᵀB, in float64, and Q = B R⁻¹. Done twice, that is as good as
    reflections, and faster. Reflections are left for few columns and for nearly dependent ones.
    """
    once = _divided(pool, block) if block.shape[1] > NARROW else None
    twice = _divided(pool, once[0]) if once else None
    if once is None or twice is None:
        return np.linalg.qr(block)
    return twice[0], twice[1] @ once[1]


def _divided(pool: Executor, block: Matrix) -> tuple[Matrix, Matrix] | None:
    """B R⁻¹ and the triangle R with RᵀR = BᵀB, unless columns nearly depend on others."""

    def square(rows: slice) -> Matrix:
        piece = np.asarray(block[rows], np.float64)
        return piece.T @ piece

    try:
        factor = np.linalg.cholesky(_sum(pool, len(block), square)).T
    except np.linalg.LinAlgError:
        return None
    own = factor.diagonal() / np.linalg.norm(factor, axis=0)
    if own.min(initial=1.0) < WEAK:
        return None
    return times(pool, block, np.linalg.inv(factor).astype(block.dtype)), factor
