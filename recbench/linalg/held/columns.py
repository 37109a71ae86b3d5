"""The columns of a matrix whose tiles are with many holders, read a panel at a time."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from recbench.linalg.held.layout import Key, Layout
from recbench.linalg.types import Floats, Matrix

Strips = Callable[[int, int, int, int], Callable[[], Matrix]]
"""Asks a holder for columns first to last of tile column j, as far as it has them, the rows of its
tiles one below the other; returns what waits for the answer."""


class Columns:
    """Panels of the whole matrix."""

    def __init__(self, layout: Layout, strips: Strips) -> None:
        self.layout, self.strips = layout, strips
        self.n, self.dtype = layout.n, np.dtype(layout.dtype)

    def panel(self, start: int, stop: int, out: Floats | None = None) -> Floats:
        """Columns start to stop, n x (stop - start), stored by rows."""
        panel = np.empty((self.n, stop - start), self.dtype) if out is None else out
        side = self.layout.side
        for j in range(start // side, -(-stop // side)):
            first, last = max(start, j * side), min(stop, (j + 1) * side)
            self._copy(j, first, last, panel[:, first - start : last - start])
        return panel

    def rows(self, indices: npt.NDArray[np.integer[Any]]) -> Matrix:
        """Some rows, in the order asked for: as the matrix is symmetric, they are columns."""
        out = np.empty((len(indices), self.n), self.dtype)
        for row, i in zip(out, indices.tolist(), strict=True):
            row[:] = self.panel(i, i + 1)[:, 0]
        return out

    def _copy(self, j: int, first: int, last: int, out: Floats) -> None:
        layout, side = self.layout, self.layout.side
        places: dict[int, list[int]] = {}
        for i in range(layout.count):
            places.setdefault(layout.holder(ordered(i, j)), []).append(i)
        coming = {holder: self.strips(holder, j, first, last) for holder in places}
        for holder, rows in places.items():
            strip, at = coming[holder](), 0
            for i in rows:
                height = layout.height(i)
                out[i * side : i * side + height] = strip[at : at + height]
                at += height


def ordered(i: int, j: int) -> Key:
    """The key of the tile that has block (i, j), or its transpose."""
    return max(i, j), min(i, j)
