"""Some rows of a table: compiled loops do not check where they read and write."""

import numpy as np
import numpy.typing as npt

from recbench.linalg.types import Indices


def every(count: int) -> Indices:
    """All rows of a table."""
    return np.arange(count, dtype=np.int32)


def checked(rows: npt.ArrayLike, count: int) -> Indices:
    """Rows of a table of so many, as the loops are compiled for."""
    found = np.asarray(rows)
    if found.ndim != 1 or not (np.issubdtype(found.dtype, np.integer) or not found.size):
        raise ValueError(f"rows are a list of integers, not {found.dtype} of shape {found.shape}")
    if found.size and (found.min() < 0 or found.max() >= count):
        raise ValueError(f"rows from {found.min()} to {found.max()}, of a table of {count}")
    return np.ascontiguousarray(found, dtype=np.int32)


def places_of(rows: Indices, count: int) -> Indices:
    """For each row of a table, where it is among these; -1 if it is not. Each is named once."""
    found = np.full(count, -1, dtype=np.int32)
    found[rows] = every(len(rows))
    if (found[rows] != every(len(rows))).any():
        raise ValueError("a row is named twice")
    return found


def together(count: int, *named: Indices) -> tuple[Indices, Indices]:
    """The rows of a table that are in any of these, ascending, and where among them each row is.

    Where a row that is in none of them would be means nothing.
    """
    marked = np.zeros(count, dtype=np.bool_)
    for rows in named:
        marked[rows] = True
    places = np.cumsum(marked, dtype=np.int32) - np.int32(1)
    return np.flatnonzero(marked).astype(np.int32), places
