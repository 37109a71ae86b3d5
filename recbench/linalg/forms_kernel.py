"""The compiled loop of `forms`."""

from typing import Any

import numpy as np
import numpy.typing as npt

from recbench.linalg.compiled import compiled

Integers = npt.NDArray[np.integer[Any]]


@compiled
def add_forms(
    columns: tuple[int, int],
    row_edges: Integers,
    other_edges: Integers,
    rows: Integers,
    values: npt.NDArray[np.float64],
    tile: npt.NDArray[np.floating[Any]],
    corner: tuple[int, int],
    factor: float,
    sums: npt.NDArray[np.float64],
) -> None:
    """Add factor · xᵀ T x to the sums, for a range of the sparse columns x and one tile T.

    Column c has the entries from row_edges[c, 0] to row_edges[c, 1] among the rows of the tile, and
    other_edges[c] among its columns; the tile's own corner is at `corner`.
    """
    for c in range(columns[0], columns[1]):
        total = 0.0
        first, last = other_edges[c, 0], other_edges[c, 1]
        for e in range(row_edges[c, 0], row_edges[c, 1]):
            line = tile[rows[e] - corner[0]]
            part = 0.0
            for f in range(first, last):
                part += values[f] * line[rows[f] - corner[1]]
            total += values[e] * part
        sums[c] += factor * total
