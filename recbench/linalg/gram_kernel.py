"""The compiled loop of `gram`."""

from typing import Any

import numpy as np
import numpy.typing as npt

from recbench.linalg.compiled import compiled

Integers = npt.NDArray[np.integer[Any]]


@compiled
def add_rows(
    first: int,
    column_starts: Integers,
    column_rows: Integers,
    column_entries: Integers,
    starts: Integers,
    columns: Integers,
    values: npt.NDArray[np.floating[Any]] | None,
    sums: npt.NDArray[Any],
) -> None:
    """Add rows `first` and up of the lower triangle of RᵀR to `sums`; no values are all ones.

    R comes by rows, with sorted unsigned columns (signed ones cost a test for wrapping around),
    and by columns, where each entry is given by its row and its place in the arrays by rows. All
    that a row of R holds up to that place is what column i of R meets in columns j <= i.
    """
    for i in range(len(sums)):
        row = sums[i]
        for e in range(column_starts[first + i], column_starts[first + i + 1]):
            begin, end = starts[column_rows[e]], column_entries[e] + 1
            others = columns[begin:end]
            if values is None:  # decided when compiled
                for q in range(len(others)):
                    row[others[q]] += 1
            else:
                theirs = values[begin:end]
                own = np.float64(theirs[-1])
                for q in range(len(others)):
                    row[others[q]] += own * theirs[q]
