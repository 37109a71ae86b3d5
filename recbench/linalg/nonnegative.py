"""Sparse non-negative regression of every column of a matrix on all others, on its Gram matrix.

For each column j of R, with G = RᵀR, and for each pair of penalties l1 and l2, the w with

    min ½ |R_j - R w|² + ½ l2 |w|² + l1 |w|_1,   w >= 0,  w_j = 0

Only columns that share a row with j can have a weight, as can only those with G_ij > l1: all of the
others would have to be negative. Coordinate descent goes over few of them, the members: first those
that promise most, then those that still violate the conditions of the minimum, until none does.

Penalties are taken in turn and each begins where the one before it ended. Where that is matters
within the tolerance only: at the end a sweep moves no weight by more, in units of the gradient,
than this share of the largest G_ij of the column, and nothing without a weight violates the
conditions by more. Every column is one thread's, so the result does not depend on the number of
threads.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from recbench.linalg import blas
from recbench.linalg.pairs import Pairs
from recbench.linalg.types import Floats, Indices, Progress, Sparse, silent

COLUMNS = 8
"""Columns of a task: few, as those of popular items take a thousand times as long as others."""

FEW = 2048
"""So many members may be before they are let in with care: their square takes 16 MB."""


@dataclass(frozen=True)
class Solution:
    """The weights under one pair of penalties."""

    weights: Sparse
    """Row j has those of the others for column j."""
    unsettled: int
    """For how many columns the sweeps ran out."""


def solve(
    pairs: Pairs,
    penalties: Sequence[tuple[float, float]],
    tolerance: float,
    sweeps: int,
    dtype: npt.DTypeLike,
    *,
    reserve: Callable[[int], None] = lambda _: None,
    progress: Progress = silent,
) -> list[Solution]:
    """Solve for each (l1, l2), strong penalties first; the solutions are in the order given.

    `reserve` is told, now and then, how many bytes the weights take that there are already.
    """
    from recbench.linalg.nonnegative_kernel import solve_columns  # brings numba

    n, count = len(pairs.diagonal), len(penalties)
    order = sorted(range(count), key=lambda s: (-sum(penalties[s]), penalties[s]))
    path = np.array([penalties[s] for s in order], np.float64).reshape(count, 2)
    sizes, unsettled = np.zeros((n, count), np.int64), np.zeros((n, count), np.bool_)
    found: dict[int, list[tuple[Indices, Floats]]] = {}

    def task(first: int, last: int) -> None:
        part = slice(first, last)
        items, weights = solve_columns(
            first, last, *pairs, path, tolerance, sweeps, FEW, sizes[part], unsettled[part]
        )
        owners = np.repeat(np.tile(np.arange(count), last - first), sizes[part].ravel())
        weights = weights.astype(dtype)
        found[first] = [(items[owners == s], weights[owners == s]) for s in range(count)]

    with blas.workers() as pool:
        tasks = [(first, min(first + COLUMNS, n)) for first in range(0, n, COLUMNS)]
        for done, _ in enumerate(blas.run_all(pool, task, tasks), start=1):
            reserve((4 + np.dtype(dtype).itemsize) * int(sizes.sum()))
            progress(min(done * COLUMNS, n), n)

    def solution(s: int) -> Solution:
        items = np.concatenate([found[first][s][0] for first, _ in tasks])
        weights = np.concatenate([found[first][s][1] for first, _ in tasks])
        starts = np.concatenate([[0], np.cumsum(sizes[:, s])])
        rows = scipy.sparse.csr_array((weights, items, starts), shape=(n, n))
        return Solution(rows, int(unsettled[:, s].sum()))

    return [solution(order.index(s)) for s in range(count)]
