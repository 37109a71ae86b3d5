"""A symmetric matrix of which most columns are in tiles, and the others only on its diagonal."""

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from recbench.linalg.topk import Panels
from recbench.linalg.types import Floats, Indices, Matrix, Vector


class Inside(Panels, Protocol):
    """What is asked of the tiles, wherever they are."""

    def rows(self, indices: npt.NDArray[np.integer[Any]]) -> Matrix:
        """Some rows, in the order asked for."""

    def matmul(self, z: Matrix) -> Matrix:
        """The product with n x s numbers."""

    def diagonal(self) -> Matrix:
        """The diagonal."""


class PaddedPanels:
    """Its panels, of tiles that need not be here."""

    def __init__(self, tiles: Panels, kept: Indices, rest: Vector) -> None:
        """`rest` has a number for every row, and those that are kept do not matter."""
        self._panels, self.kept, self.rest = tiles, kept, rest
        self.n, self.dtype = len(rest), tiles.dtype

    def panel(self, start: int, stop: int, out: Floats | None = None) -> Floats:
        """Columns start to stop, n x (stop - start), stored by rows."""
        panel = np.empty((self.n, stop - start), self.dtype) if out is None else out
        panel[...] = 0
        panel[np.arange(start, stop), np.arange(stop - start)] = self.rest[start:stop]
        first, last = np.searchsorted(self.kept, [start, stop]).tolist()
        if last - first == stop - start:  # whole rows are copied ten times as fast
            panel[self.kept] = self._panels.panel(first, last)
        elif last > first:
            columns = self.kept[first:last] - start
            panel[np.ix_(self.kept, columns)] = self._panels.panel(first, last)
        return panel


class Padded(PaddedPanels):
    """The tiles at the rows and columns `kept`; elsewhere zero but for `rest` on the diagonal."""

    def __init__(self, tiles: Inside, kept: Indices, rest: Vector) -> None:
        super().__init__(tiles, kept, rest)
        self.tiles = tiles

    def rows(self, indices: npt.NDArray[np.integer[Any]]) -> Matrix:
        """Some rows of the whole matrix, in the order asked for."""
        out = np.zeros((len(indices), self.n), self.dtype)
        out[np.arange(len(indices)), indices] = self.rest[indices]
        places = np.searchsorted(self.kept, indices)
        inside = np.flatnonzero(np.isin(indices, self.kept))
        out[np.ix_(inside, self.kept)] = self.tiles.rows(places[inside])
        return out

    def matmul(self, z: Matrix) -> Matrix:
        """The product of the matrix with n x s numbers."""
        out = np.asarray(z * self.rest[:, np.newaxis], self.dtype)
        out[self.kept] = self.tiles.matmul(z[self.kept])
        return out

    def diagonal(self) -> Vector:
        """The diagonal of the matrix."""
        diagonal = self.rest.astype(np.float64)
        diagonal[self.kept] = self.tiles.diagonal()
        return diagonal
