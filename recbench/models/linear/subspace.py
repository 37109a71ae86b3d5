"""Scoring with W = A diagMat(h) Bᵀ: many ranks and many shrinkages of one pair of thin factors."""

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from recbench.linalg.prefixes import top_of_prefixes
from recbench.linalg.thin import Thin
from recbench.linalg.topk import Scale, Scales, Top
from recbench.linalg.types import Floats, Indices, Progress, Sparse, Vector, silent
from recbench.models.scorers import Base, Query, Scorer
from recbench.params import param

RANKS = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
FEWER = "ask for a lower rank"
KEPT_BYTES = 1 << 29
"""Coordinates larger than this are computed anew, block by block, for every shrinkage."""


def rank_param(most: str) -> Any:
    """The k of a model."""
    return param(200, help=f"rank; {most} at most", low=1, grid=RANKS, search=(50, 5000))


class Subspace:
    """Factors A and B, n x k, of which every model takes the first columns.

    The products of one set of histories with A, its coordinates, are kept for the next model.
    """

    def __init__(self, into: Floats, out_of: Floats) -> None:
        self.into, self.out_of = into, out_of
        self._kept: tuple[weakref.ref[Sparse], Floats] | None = None

    @classmethod
    def of(cls, into: Floats, out_of: Floats, dtype: npt.DTypeLike) -> "Subspace":
        """The same in another precision, laid out by rows."""
        first = np.ascontiguousarray(into, dtype)
        return cls(first, first if out_of is into else np.ascontiguousarray(out_of, dtype))

    @property
    def rank(self) -> int:
        """How many columns there are."""
        return int(self.into.shape[1])

    def coordinates(self, history: Sparse) -> Floats:
        """Histories times A."""
        return Thin(history, self.into.dtype) @ self.into

    def keep(self, history: Sparse) -> Floats | None:
        """The same, at once for all models that ask for this history; None if it is too large."""
        if self._kept is not None and self._kept[0]() is history:
            return self._kept[1]
        if history.shape[0] * self.rank * self.into.itemsize > KEPT_BYTES:
            return None
        coordinates = self.coordinates(history)
        self._kept = weakref.ref(history), coordinates
        return coordinates

    def bases(self, shrinkages: Sequence[Vector]) -> "list[LowRank]":
        """One Base for each h, shorter ones as ranks of longer ones that begin with them."""
        trimmed = [np.trim_zeros(h, "b").astype(self.into.dtype) for h in shrinkages]
        chains: list[Shrunk] = []
        bases = dict[int, LowRank]()
        for place in sorted(range(len(trimmed)), key=lambda i: -len(trimmed[i])):
            h = trimmed[place]
            chain = next((c for c in chains if np.array_equal(c.h[: len(h)], h)), None)
            if chain is None:
                chain = Shrunk(self, h)
                chains.append(chain)
            bases[place] = LowRank(chain, len(h))
        return [bases[place] for place in range(len(trimmed))]


class Shrunk:
    """A diagMat(h) Bᵀ, and all that it is when cut off after fewer columns."""

    def __init__(self, subspace: Subspace, h: Floats) -> None:
        self.subspace, self.h = subspace, h

    def left(self, history: Sparse, rank: int) -> Floats:
        """Histories times the first columns of A diagMat(h)."""
        return self._shrink(self.subspace.coordinates(history), rank)

    def tops(
        self, wanted: dict[int, list[Scale]], query: Query, progress: Progress
    ) -> dict[int, list[Top]]:
        """Rank at several ranks in one pass, in blocks that stay in the cache."""
        coordinates, rank = self.subspace.keep(query.history), max(wanted)

        def left(start: int, stop: int) -> Floats:
            if coordinates is None:
                return self.left(query.history[start:stop], rank)
            return self._shrink(coordinates[start:stop], rank)

        right = self.subspace.out_of[:, :rank]
        return top_of_prefixes(left, right, wanted, query.seen, query.k, progress)

    def _shrink(self, coordinates: Floats, rank: int) -> Floats:
        return np.asarray(coordinates[:, :rank] * self.h[:rank])


class LowRank(Base):
    """A user's scores are their history times the first columns of A diagMat(h) Bᵀ."""

    def __init__(self, shrunk: Shrunk, rank: int) -> None:
        self.shrunk, self.rank = shrunk, rank
        self.n_items = len(shrunk.subspace.out_of)

    @property
    def shared(self) -> Shrunk:
        """Other ranks of the same shrinkage are ranked with this one."""
        return self.shrunk

    @property
    def items(self) -> Floats:
        """The columns of B that take part."""
        return self.shrunk.subspace.out_of[:, : self.rank]

    def weights(self) -> Floats:
        """W itself, n x n: for looking at small ones."""
        into = self.shrunk.subspace.into[:, : self.rank] * self.shrunk.h[: self.rank]
        return np.asarray(into @ self.items.T)

    def score(self, history: Sparse, rows: Indices) -> Floats:
        """Multiply the histories with one factor after the other."""
        return np.asarray(self.shrunk.left(history, self.rank) @ self.items.T)

    def top(self, query: Query, scales: Scales = (None,), progress: Progress = silent) -> list[Top]:
        """Rank at this rank alone."""
        return self.shrunk.tops({self.rank: list(scales)}, query, progress)[self.rank]

    def tops(
        self, scorers: Sequence[Scorer], query: Query, progress: Progress = silent
    ) -> list[Top]:
        """Rank at the rank of every scorer in one pass."""
        wanted: dict[int, list[Scale]] = {}
        for scorer in scorers:
            wanted.setdefault(_rank(scorer), []).append(scorer.scale)
        lists = self.shrunk.tops(wanted, query, progress)
        tops = {rank: iter(some) for rank, some in lists.items()}
        return [next(tops[_rank(scorer)]) for scorer in scorers]


def _rank(scorer: Scorer) -> int:
    """Narrow the type: only bases of one shrinkage share it."""
    assert isinstance(scorer.base, LowRank)
    return scorer.base.rank
