"""The compiled loops of `pairs`; importing this module imports numba, so import it late."""

import numpy as np
import numpy.typing as npt

from recbench.linalg.compiled import compiled

Starts = npt.NDArray[np.int64]
Columns = npt.NDArray[np.int32]
Values = npt.NDArray[np.float32]


@compiled
def count_rows(
    first: int,
    last: int,
    left_starts: Starts,
    left_columns: Columns,
    left_values: Values,
    starts: Starts,
    columns: Columns,
    values: Values,
    counts: Starts,
) -> None:
    """Count the columns that rows of the product of two sparse matrices have."""
    seen = np.full(len(left_starts), -1, np.int32)
    for i in range(first, last):
        for e in range(left_starts[i], left_starts[i + 1]):
            u = left_columns[e]
            for f in range(starts[u], starts[u + 1]):
                if seen[columns[f]] != i:
                    seen[columns[f]] = i
                    counts[i] += 1


@compiled
def fill_rows(
    first: int,
    last: int,
    left_starts: Starts,
    left_columns: Columns,
    left_values: Values,
    starts: Starts,
    columns: Columns,
    values: Values,
    out_starts: Starts,
    out_columns: Columns,
    out_values: Values,
    lower: Starts,
    diagonal: npt.NDArray[np.float64],
) -> None:
    """Write those rows, what they have up to the diagonal, and on it."""
    n = len(out_starts) - 1
    seen = np.full(n, -1, np.int32)
    sums = np.zeros(n)
    for i in range(first, last):
        for e in range(left_starts[i], left_starts[i + 1]):
            u, own = left_columns[e], np.float64(left_values[e])
            for f in range(starts[u], starts[u + 1]):
                c = columns[f]
                if seen[c] != i:
                    seen[c] = i
                    sums[c] = 0.0
                sums[c] += own * values[f]
        place = out_starts[i]
        for c in range(n):
            if seen[c] == i:
                out_columns[place] = c
                out_values[place] = sums[c]
                place += 1
            if c == i:
                lower[i] = place - out_starts[i]
        if seen[i] == i:
            diagonal[i] = np.float32(sums[i])
