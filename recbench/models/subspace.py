"""Scoring with W = A diagMat(h) Bᵀ: many ranks and many shrinkages of one pair of thin factors."""

import weakref
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from recbench.linalg import topk
from recbench.linalg.thin import Thin
from recbench.linalg.topk import Progress, Scales, Top, silent
from recbench.models.scorers import Base, Scores

Floats = npt.NDArray[np.floating[Any]]
Indices = npt.NDArray[np.int32]

KEPT_BYTES = 1 << 29
"""Coordinates larger than this are computed anew, block by block, for every model."""


class Subspace:
    """Factors A and B, n x k, of which every model takes the first columns.

    The products of one set of histories with A, its coordinates, are kept for the next model.
    """

    def __init__(self, into: Floats, out_of: Floats, dtype: npt.DTypeLike) -> None:
        self.into, self.out_of = (np.ascontiguousarray(part, dtype) for part in (into, out_of))
        self._kept: tuple[weakref.ref[sparse.csr_array], Floats] | None = None

    def coordinates(self, history: sparse.csr_array) -> Floats:
        """Histories times A."""
        return Thin(history, self.into.dtype) @ self.into

    def keep(self, history: sparse.csr_array) -> Floats | None:
        """The same, at once for all models that ask for this history; None if it is too large."""
        if self._kept is not None and self._kept[0]() is history:
            return self._kept[1]
        if history.shape[0] * self.into.shape[1] * self.into.itemsize > KEPT_BYTES:
            return None
        found = self.coordinates(history)
        self._kept = weakref.ref(history), found
        return found


class LowRank(Base):
    """A user's scores are their history times A diagMat(h) Bᵀ; a tail of zeros in h is free."""

    def __init__(self, subspace: Subspace, h: npt.NDArray[np.float64]) -> None:
        rank = int(np.flatnonzero(h)[-1]) + 1 if h.any() else 0
        self.subspace, self.h = subspace, h[:rank].astype(subspace.into.dtype)
        self.n_items = len(subspace.out_of)

    @property
    def rank(self) -> int:
        """How many columns of the factors take part."""
        return len(self.h)

    @property
    def items(self) -> Floats:
        """The columns of B that take part."""
        return self.subspace.out_of[:, : self.rank]

    def weights(self) -> Floats:
        """W itself, n x n: for looking at small ones."""
        return np.asarray(self._shrunk(self.subspace.into) @ self.items.T)

    def score(self, history: sparse.csr_array, rows: Indices) -> Scores:
        """Multiply the histories with one factor after the other."""
        return self._shrunk(self.subspace.coordinates(history)) @ self.items.T

    def top(
        self,
        history: sparse.csr_array,
        rows: Indices,
        seen: sparse.csr_array,
        k: int,
        scales: Scales = (None,),
        progress: Progress = silent,
    ) -> list[Top]:
        """Multiply with the second factor and rank in blocks that stay in the cache."""
        kept = self.subspace.keep(history)

        def left(start: int, stop: int) -> Floats:
            if kept is None:
                return self._shrunk(self.subspace.coordinates(history[start:stop]))
            return self._shrunk(kept[start:stop])

        return topk.top_of_factors(left, self.items, None, seen, k, scales, progress)

    def _shrunk(self, coordinates: Floats) -> Floats:
        return np.asarray(coordinates[:, : self.rank] * self.h)
