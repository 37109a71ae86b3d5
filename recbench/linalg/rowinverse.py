"""The inverse of a Gram matrix plus a diagonal, by way of the rows that it is the Gram matrix of.

    C = (RᵀR + Γ)⁻¹ = Γ⁻¹ - Γ⁻¹ Rᵀ B R Γ⁻¹      B = (R Γ⁻¹ Rᵀ + I)⁻¹      R C = B R Γ⁻¹

B has as many rows as R, C as many as R has columns: the smaller of the two is the one to compute.
Rows of R without entries are left out of B, and columns do not occur in it.

Where C is much smaller than Γ⁻¹, digits of B are lost in the difference. So B b in float32 is
improved by one step of refinement, adding B (b - B⁻¹ (B b)), which squares the error of B. So is
the diagonal of C, in columns where that matters.
"""

from functools import cached_property

import numpy as np
import numpy.typing as npt
import scipy

from recbench.linalg import topk
from recbench.linalg.forms import forms
from recbench.linalg.gram import gram
from recbench.linalg.thin import Thin
from recbench.linalg.tiles import Tiles
from recbench.linalg.topk import Scales, Top
from recbench.linalg.types import Flags, Floats, Indices, Matrix, Progress, Sparse, Vector, silent

LOST = 4e-6
"""The relative error that an element of the diagonal may have before it is refined: other ways to
compute it in float32 are not better."""
COLUMNS = 128
"""Columns that are solved for at a time."""


def filled_rows(matrix: Sparse) -> Indices:
    """The rows that have entries."""
    return np.flatnonzero(np.diff(matrix.indptr)).astype(np.int32)


def without_empty_rows(matrix: Sparse) -> Sparse:
    """The same matrix, or what is left of it."""
    filled = filled_rows(matrix)
    return matrix if len(filled) == matrix.shape[0] else scipy.sparse.csr_array(matrix[filled])


def fill(matrix: Sparse, gamma: Vector, tiles: Tiles) -> None:
    """Overwrite the tiles with B⁻¹ = R Γ⁻¹ Rᵀ + I, of an R without empty rows."""
    scaled = matrix.astype(np.float64) * (1.0 / np.sqrt(gamma))
    gram(scipy.sparse.csr_array(scipy.sparse.csr_array(scaled).T), tiles)
    tiles.add_diagonal(1.0)


def weak_columns(matrix: Sparse, gamma: Vector, dtype: npt.DTypeLike) -> Indices:
    """The columns whose element on the diagonal of C would lose digits, at most."""
    g = squares(matrix)
    return np.flatnonzero(g > gamma * LOST / float(np.finfo(dtype).eps)).astype(np.int32)


def squares(matrix: Sparse) -> Vector:
    """The diagonal of RᵀR."""
    weights = matrix.data.astype(np.float64) ** 2
    return np.bincount(matrix.indices, weights, matrix.shape[1]).astype(np.float64)


def products(dtype: npt.DTypeLike) -> int:
    """How many products with B it takes to solve for a column."""
    return 2 if np.dtype(dtype) == np.float32 else 1


class RowInverse:
    """C, made of the tiles of B; it answers what `Tiles` of C would."""

    def __init__(self, tiles: Tiles, matrix: Sparse, gamma: Vector) -> None:
        """`matrix` is R with all of its rows, of which the tiles have those with entries."""
        self.tiles, self.matrix, self.gamma = tiles, matrix, gamma
        self.n, self.dtype = matrix.shape[1], tiles.dtype
        filled = filled_rows(matrix)
        self.places = np.full(matrix.shape[0], -1, np.int32)
        """Where each row of R is in B; -1: it is not."""
        self.places[filled] = np.arange(len(filled), dtype=np.int32)

    @cached_property
    def _filled(self) -> Sparse:
        return without_empty_rows(self.matrix)

    @cached_property
    def _down(self) -> Thin:
        return Thin(self._filled, np.float64)

    @cached_property
    def _up(self) -> Thin:
        return Thin(scipy.sparse.csr_array(self._filled.T), np.float64)

    @cached_property
    def _scaled(self) -> Sparse:
        """Γ⁻¹ Rᵀ, as precise as B."""
        turned = scipy.sparse.csr_array(self._filled.T).astype(np.float64)
        turned.data /= np.repeat(self.gamma, np.diff(turned.indptr))
        scaled: Sparse = turned.astype(self.dtype)
        return scaled

    @cached_property
    def _across(self) -> Thin:
        return Thin(self._scaled, self.dtype)

    # Entries of C

    def _up_scaled(self, z: Matrix) -> Matrix:
        """Γ⁻¹ Rᵀ z."""
        return np.asarray((self._up @ z) / self.gamma[:, np.newaxis])

    def _solve(self, wanted: Matrix) -> Matrix:
        """B times some columns; refined, unless B has digits to spare."""
        found = self.tiles.matmul(wanted).astype(np.float64)
        if products(self.dtype) > 1:
            missing = wanted - found - self._down @ self._up_scaled(found)
            found += self.tiles.matmul(missing)
        return found

    def matmul(self, z: Matrix) -> Matrix:
        """The product of C with n x s numbers, in double precision."""
        scaled = np.asarray(z, np.float64) / self.gamma[:, np.newaxis]
        out: Matrix = scaled - self._up_scaled(self._solve(self._down @ scaled))
        return out

    def rows(self, indices: npt.NDArray[np.integer]) -> Matrix:
        """Some rows of C, in the order asked for."""
        out = np.empty((len(indices), self.n), self.dtype)
        for start in range(0, len(indices), COLUMNS):
            some = indices[start : start + COLUMNS]
            units = np.zeros((self.n, len(some)))
            units[some, np.arange(len(some))] = 1.0
            out[start : start + COLUMNS] = self.matmul(units).T
        return out

    def diagonal(self) -> Vector:
        """The diagonal of C: 1/γ - xᵀ B x / γ² of every column x of R."""
        diagonal: Vector = 1.0 / self.gamma - forms(self.tiles, self._filled) / self.gamma**2
        weak = weak_columns(self.matrix, self.gamma, self.dtype)
        for start in range(0, len(weak), COLUMNS):
            some = weak[start : start + COLUMNS]
            diagonal[some] = self.rows(some)[np.arange(len(some)), some]
        return diagonal

    # Products of sparse rows with C

    def known(self, history: Sparse, rows: Indices) -> Flags:
        """Whether each row of `history` is the one of R that it is said to be, -1 for none."""
        said: Flags = np.asarray(rows) >= 0
        chosen = np.flatnonzero(said)
        differing = abs(history[chosen] - self.matrix[np.asarray(rows)[chosen]])
        said[chosen] = differing.sum(axis=1) == 0
        return said

    def coordinates(self, history: Sparse, rows: Indices) -> Floats:
        """The L of history · C = L R Γ⁻¹, but for what the last adds to columns of the history.

        For a row of R that is a row of B; for any other h, - h Γ⁻¹ Rᵀ B, and h Γ⁻¹ is left out.
        """
        out = np.zeros((history.shape[0], self.tiles.n), self.dtype)
        known = self.known(history, rows)
        places = self.places[np.asarray(rows)]
        here = np.flatnonzero(known & (places >= 0))
        self.tiles.copy_rows(places[here], out, here)
        strange = np.flatnonzero(~known)
        for start in range(0, len(strange), COLUMNS):
            some = strange[start : start + COLUMNS]
            scaled = history[some].toarray().astype(np.float64) / self.gamma
            out[some] = -self._solve(self._down @ scaled.T).T
        return out

    def product(self, history: Sparse, rows: Indices) -> Floats:
        """The rows of history · C."""
        out = np.array((self._across @ self.coordinates(history, rows).T).T)
        strange = np.flatnonzero(~self.known(history, rows))
        out[strange] += history[strange].toarray() / self.gamma
        return out

    def top(
        self, history: Sparse, rows: Indices, hidden: Sparse, k: int,
        scales: Scales = (None,), progress: Progress = silent,
    ) -> list[Top]:  # fmt: skip
        """Rank history · C in columns that are not in the history."""

        def left(start: int, stop: int) -> Floats:
            return self.coordinates(history[start:stop], rows[start:stop])

        return topk.top_of_dense_rows(left, self._scaled, hidden, k, scales, progress)
