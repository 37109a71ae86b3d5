"""All eigenpairs of a symmetric matrix, by the steps of LAPACK's divide and conquer.

    A = H T Hᵀ    T tridiagonal, H a product of reflections    n³ 4/3 operations, one thread
    T = S Θ Sᵀ    by halves of halves                          less, one thread
    H S           for the columns that are wanted              n² 2 k, on all threads

LAPACK's own driver does the last step for all columns, on one thread unless BLAS has more; and a
BLAS of more threads gives other last bits.
"""

import ctypes
from concurrent.futures import Executor

import numpy as np

from recbench.errors import RecbenchError
from recbench.linalg import blas
from recbench.linalg.types import Matrix

COLUMNS = 256
"""Columns multiplied with reflections at a time."""
WORK = 64
"""Reflections that LAPACK applies at a time, at most."""


def eigh(pool: Executor, matrix: Matrix, k: int) -> tuple[Matrix, Matrix]:
    """The k largest eigenvalues, descending, and their vectors as columns; `matrix` is overwritten.

    It has to be contiguous, and symmetric: one of its triangles is read.
    """
    n = len(matrix)
    diagonal, beside, scale = (np.zeros(n, matrix.dtype) for _ in range(3))
    work = np.empty(WORK * n, matrix.dtype)
    blas.call("sytrd", "L", n, matrix, n, diagonal, beside, scale, work, len(work), ctypes.c_int())
    vectors = _of_tridiagonal(diagonal, beside)

    def reflect(start: int, stop: int) -> None:
        some = vectors[:, start:stop]
        work, done = np.empty(WORK * (stop - start), matrix.dtype), ctypes.c_int()
        sides = ("L", "L", "N", n, stop - start)
        blas.call("ormtr", *sides, matrix, n, scale, some, n, work, len(work), done)

    # Whole pieces from the largest down: more pairs asked for change no bit of the first ones.
    pieces = ((max(0, stop - COLUMNS), stop) for stop in range(n, n - k, -COLUMNS))
    blas.finish(pool, reflect, pieces)
    return diagonal[n - k :][::-1], vectors[:, n - k :][:, ::-1]


def _of_tridiagonal(diagonal: Matrix, beside: Matrix) -> Matrix:
    """The eigenvectors of a tridiagonal matrix; `diagonal` becomes its eigenvalues, ascending."""
    n, status = len(diagonal), ctypes.c_int()
    vectors = np.empty((n, n), diagonal.dtype, order="F")
    work, places = np.empty(1 + 4 * n + n * n, diagonal.dtype), (ctypes.c_int * (3 + 5 * n))()
    blas.call(
        "stedc", "I", n, diagonal, beside, vectors, n, work, len(work), places, len(places), status
    )
    if status.value:
        raise RecbenchError(f"LAPACK did not find the eigenvalues of a matrix of {n:,} rows")
    return vectors
