"""Columns of C = (G + Γ)⁻¹, each on few rows: what is stored is chosen, and solved exactly.

For a column j take the `width` items i with the largest G_ij² / (G_ii + γ_i), which is how much
each of them alone would explain of j, and j itself. Column j of the inverse of those rows and
columns stands for column j of C, and is it where all items are taken.

In several looks, the first takes a part of them in this way, and each of the others those that
alone would explain most of what is left. So an item can join that has no user in common with j but
many with its support: what recommends neither is a weight, too.

Columns are independent. A column takes width³/3 multiplications and 8 width bytes, whatever the
number of items, where the whole inverse takes n² and 4 n; a look, the rows of G of those that are
in. Each is one thread's, which has a square of that width, so the result does not depend on
the number of threads.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import scipy

from recbench.linalg import blas
from recbench.linalg.pairs import Pairs
from recbench.linalg.types import Progress, Sparse, Vector, silent

COLUMNS = 64
"""Columns of a task."""


class NotDefinite(Exception):
    """Rounding has made some of the equations insoluble."""


def solve(
    pairs: Pairs,
    gamma: Vector,
    width: int,
    looks: int,
    dtype: npt.DTypeLike,
    *,
    reserve: Callable[[int], None] = lambda _: None,
    progress: Progress = silent,
) -> tuple[Sparse, Vector]:
    """The columns as the rows of a sparse matrix, and the diagonal.

    Items should come by falling popularity: the rows of the later of two are looked at, and are
    short then. `reserve` is told how many bytes the columns take, and the equations at work.
    """
    from recbench.linalg.support_kernel import solve_columns  # brings numba

    n, size = len(pairs.diagonal), np.dtype(dtype).itemsize
    most = min(width, n - 1) + 1
    if most == n:  # there is nothing to choose
        looks = 1
    tasks = [(first, min(first + COLUMNS, n)) for first in range(0, n, COLUMNS)]
    at_once = min(blas.threads(), len(tasks))
    reserve((4 + size) * n * most + at_once * size * most**2)
    items, weights = np.empty((n, most), np.int32), np.empty((n, most), dtype)
    sizes, c = np.zeros(n, np.int64), np.empty(n)

    def task(first: int, last: int) -> None:
        part = slice(first, last)
        found = items[part], weights[part], sizes[part], c[part]
        solve_columns(first, last, *pairs, gamma, looks, *found)

    with blas.workers() as pool:
        for done, _ in enumerate(blas.run_all(pool, task, tasks), start=1):
            progress(min(done * COLUMNS, n), n)
    if not np.all(np.isfinite(c) & (c > 0)):
        raise NotDefinite
    full = np.arange(most) < sizes[:, None]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    return scipy.sparse.csr_array((weights[full], items[full], starts), shape=(n, n)), c
