"""The k best of every row of A_r B_rᵀ for many r at once: A_r and B_r are the first r columns.

A block of scores grows by the products of a few columns at a time, and at each r that is asked for
it is searched on the way: all of them cost little more than the largest. Columns are added in
segments that begin at the same places whatever is asked for, and those of an r that ends inside a
segment are added to a copy. So the scores of an r do not depend on its company, to the last bit.
"""

from collections.abc import Callable, Mapping

import numpy as np

from recbench.linalg import blas, topk
from recbench.linalg.real import real_dtype
from recbench.linalg.topk import Scales, Search, Top
from recbench.linalg.types import Floats, Progress, Sparse, silent

GEMM_ROWS, GEMM_COLUMNS = 256, 2048
"""The block of scores that a thread computes and searches: it stays in the cache."""
SEGMENT = 64
"""Columns added at a time: products of fewer are slower, and the last ones of an r are extra."""


def top_of_prefixes(
    left: Callable[[int, int], Floats],
    right: Floats,
    wanted: Mapping[int, Scales],
    hidden: Sparse,
    k: int,
    progress: Progress = silent,
) -> dict[int, list[Top]]:
    """Rank A_r B_rᵀ for every r that is wanted, under each of its scales.

    `left(start, stop)` makes some rows of A and `right` is B, both with as many columns as the
    largest r. `left` runs alone, with all threads of BLAS.
    """
    rows, rank = hidden.shape[0], max(wanted)
    if right.shape != (hidden.shape[1], rank):
        raise ValueError(f"factors of shape {right.shape} do not fit {hidden.shape} and {rank}")
    growing = _Growing(right, wanted, hidden, k)
    step = max(1, topk.BLOCK_BYTES // (8 * GEMM_ROWS * max(1, rank))) * GEMM_ROWS
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        factors = np.asarray(left(start, stop), growing.dtype)
        if factors.shape != (stop - start, rank):
            raise ValueError(f"{factors.shape} factors for {stop - start} rows of rank {rank}")
        work = [
            (factors[a - start : a - start + GEMM_ROWS], a) for a in range(start, stop, GEMM_ROWS)
        ]
        with blas.workers() as pool:
            for done, _ in enumerate(blas.run_all(pool, growing.search, work)):
                progress(min(start + (done + 1) * GEMM_ROWS, stop), rows)
        growing.check()
    return {rank: search.tops() for rank, search in growing.searches.items()}


class _Growing:
    """Scores of growing rank, and a search for each rank that is wanted."""

    def __init__(self, right: Floats, wanted: Mapping[int, Scales], hidden: Sparse, k: int) -> None:
        self.dtype = real_dtype(right)
        self.right = np.asarray(right, self.dtype)
        self.searches = {r: Search(hidden, k, wanted[r], self.dtype) for r in sorted(wanted)}

    def search(self, left: Floats, row: int) -> None:
        """Compute and search the scores of a few rows, in blocks that stay in the cache."""
        for column in range(0, len(self.right), GEMM_COLUMNS):
            right = self.right[column : column + GEMM_COLUMNS].T
            block, added = np.zeros((len(left), right.shape[1]), self.dtype), 0
            for rank, search in self.searches.items():
                whole = rank // SEGMENT * SEGMENT
                for start in range(added, whole, SEGMENT):
                    stop = start + SEGMENT
                    blas.add_product(block, left[:, start:stop], right[start:stop], 1.0)
                added, shown = whole, block
                if rank > whole:
                    shown = block.copy()
                    blas.add_product(shown, left[:, whole:rank], right[whole:rank], 1.0)
                search.block(shown, row, column)

    def check(self) -> None:
        """Stop if a score was not finite."""
        for search in self.searches.values():
            search.check()
