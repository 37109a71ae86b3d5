"""The compiled loops of `pairs`; importing this module imports numba, so import it late."""

import numpy as np
import numpy.typing as npt

from recbench.linalg.compiled import compiled

Starts = npt.NDArray[np.int64]
Columns = npt.NDArray[np.int32]
Values = npt.NDArray[np.float32]
Vector = npt.NDArray[np.float64]

BISECTIONS = 30
SORTS = 32
"""To sort a number takes as long as to look at so many places for it."""


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
    met = np.empty(n, np.int32)
    for i in range(first, last):
        found = 0
        for e in range(left_starts[i], left_starts[i + 1]):
            u, own = left_columns[e], np.float64(left_values[e])
            for f in range(starts[u], starts[u + 1]):
                c = columns[f]
                if seen[c] != i:
                    seen[c] = i
                    sums[c] = 0.0
                    met[found] = c
                    found += 1
                sums[c] += own * values[f]
        if SORTS * found < n:
            met[:found].sort()
        else:
            found = 0
            for c in range(n):
                if seen[c] == i:
                    met[found] = c
                    found += 1
        for place in range(found):
            c = met[place]
            out_columns[out_starts[i] + place] = c
            out_values[out_starts[i] + place] = sums[c]
            lower[i] += c <= i
        if seen[i] == i:
            diagonal[i] = np.float32(sums[i])


@compiled
def square_of(members: Columns, places: Columns, starts: Starts, columns: Columns, values: Values,
            lower: Starts, square: Values) -> None:  # fmt: skip
    """G between the members. Of a pair, the row of the later one is read, up to its diagonal."""
    square[:] = 0.0
    for i in members:
        p = places[i]
        for e in range(starts[i], starts[i] + lower[i]):
            q = places[columns[e]]
            if q >= 0:
                square[p, q] = values[e]
                square[q, p] = values[e]


@compiled
def threshold(gains: Vector, most: int) -> tuple[float, float]:
    """Two bounds, nearly the same: more than so many gains reach the lower one, unless that is 0,
    and at most so many the upper one, unless more are the largest. By bisection, which is quicker
    to compile than a partition.
    """
    low, high = 0.0, 0.0
    for gain in gains:
        high = max(high, gain)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        reached = 0
        for gain in gains:
            reached += gain >= middle
        if reached > most:
            low = middle
        else:
            high = middle
    return low, high
