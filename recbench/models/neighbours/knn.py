"""`item-knn` and `user-knn`: what items that are alike, or people who are alike, vote for.

    item-knn   a user's score of item j is the sum of the votes w_ij of the items i of the history
    user-knn   a user's score of item j is the sum of the votes w_uv of the users v who have it

Votes are likenesses of the k nearest (see `likeness`), and zero elsewhere. One search for the
largest k serves all smaller ones: of equally near ones the lower index comes first, whatever k.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import scipy

from recbench.linalg import topk
from recbench.linalg.rows import every
from recbench.linalg.topk import Likeness, Scales, Top
from recbench.linalg.types import Floats, Indices, Progress, Sparse, Vector, silent
from recbench.models.base import Family, Model
from recbench.models.context import Context
from recbench.models.neighbours.likeness import Measure, Weigher, settle, squares, votes
from recbench.models.scorers import Base, Query, Scorer, SparseItemItem
from recbench.params import inlined, param
from recbench.registry import MODELS

SYMBOLS = (
    "I_u: items of u; f(a, b): x_a·x_b / (√n_a √n_b + h) of cosine, x_a·x_b / (n_a + n_b - "
    "x_a·x_b + h) of jaccard, x_a·x_b / (n_a n_b^α + h) of conditional, x_a·x_b of dot; x_a: "
    "weights of what a has; n_a = |x_a|²; h: shrink"
)
FEWER = "take fewer neighbours, or a higher k-core"
ENTRY_BYTES = 12
"""What a vote takes, at most."""


def _but_k(model: "ItemKnn | UserKnn") -> str:
    """What models share that differ in k alone."""
    return replace(model, measure=replace(model.measure, k=1)).text


class ItemNeighbours(Family["ItemKnn"]):
    """Fits every k from one search."""

    reserves = True

    def key(self, model: "ItemKnn") -> Hashable:
        """Everything but k."""
        return _but_k(model)

    def fit(self, models: Sequence["ItemKnn"], train: Sparse, ctx: Context) -> list[Scorer]:
        """Find the neighbours of every item, and keep as many as each model has."""
        n, first = train.shape[1], models[0]
        wanted = [min(model.measure.k, max(1, n - 1)) for model in models]
        entries = n * (max(wanted) + 2 * sum(wanted)) + 3 * train.nnz
        ctx.reserve(ENTRY_BYTES * entries, f"neighbours of {n:,} items", FEWER)
        documents = scipy.sparse.csr_array(train.T)
        weighted = Weigher.of(first.measure, documents)(documents, ctx.dtype)
        top = topk.top_alike(
            weighted, scipy.sparse.csr_array(weighted.T), every(n), max(wanted),
            first.likeness(squares(weighted)), partial(ctx.progress, "item neighbours"),
        )  # fmt: skip
        return [Scorer(SparseItemItem(first.weights(votes(top, k, n)))) for k in wanted]

    def operations(self, models: Sequence["ItemKnn"], train: Sparse, ctx: Context) -> float:
        """Two for each pair of items that a user has."""
        return 2.0 * float((np.diff(train.indptr).astype(np.float64) ** 2).sum())


@MODELS.register("item-knn")
@dataclass(frozen=True)
class ItemKnn(Model):
    """Recommend what is most like the items of the history."""

    cite = "Deshpande and Karypis (2004), Item-based top-N recommendation algorithms"
    formula = "s_uj = Σ_(i in I_u) w_ij, w_ij = f(i, j) of the k nearest, else 0"
    symbols = SYMBOLS
    family = ItemNeighbours()
    measure: Measure = inlined(Measure)
    alpha: float | None = param(
        None, help="of conditional: popular items get fewer votes (default 0.5)", low=0, high=1
    )
    keep: str = param("target", help="whose k nearest vote: those of the item that is scored, or "
                      "the items for which each one of the history votes",
                      choices=("target", "history"))  # fmt: skip

    def __post_init__(self) -> None:
        """Fill in α, and refuse it where it would be idle."""
        super().__post_init__()
        now = f"similarity={self.measure.similarity}"
        settle(self, "alpha", 0.5, now, "similarity=conditional")

    def likeness(self, n: Vector) -> Likeness:
        """Between the items whose neighbours are kept, by row, and all others."""
        found = self.measure.likeness(n, n, self.alpha or 0.0)
        if self.keep == "target":
            return found
        return replace(found, rows=found.columns, columns=found.rows)

    def weights(self, kept: Sparse) -> Sparse:
        """The votes of each item by row."""
        return scipy.sparse.csr_array(kept.T) if self.keep == "target" else kept


class Crowd:
    """The users of a train matrix, for others to be compared with."""

    def __init__(self, train: Sparse, weigher: Weigher, similarity: str, shrink: float) -> None:
        self.train, self.weigher = train, weigher
        self.similarity, self.shrink = similarity, shrink
        self._measure = Measure(similarity=similarity, shrink=shrink)
        weighted = weigher(train, train.dtype)
        self._sizes = squares(weighted)
        self._by_item = scipy.sparse.csr_array(weighted.T)

    def nearest(self, history: Sparse, rows: Indices, k: int) -> Top:
        """The k users most like some others, who are not their own neighbours."""
        weighted = self.weigher(history, self.train.dtype)
        likeness = self._measure.likeness(squares(weighted), self._sizes)
        k = min(k, self.train.shape[0])
        return topk.top_alike(weighted, self._by_item, rows, k, likeness)

    def votes(self, top: Top, k: int) -> Sparse:
        """Those of the first k of each list."""
        return votes(top, k, self.train.shape[0])


class UserNeighbours(Base):
    """A user's score of item j is the sum of the likenesses of the k nearest who have it.

    People are compared by their histories: those who were not trained on are as good as others.
    """

    def __init__(self, crowd: Crowd, k: int) -> None:
        self.crowd, self.k, self.n_items = crowd, k, crowd.train.shape[1]

    @property
    def shared(self) -> Crowd:
        """Other k of the same crowd are ranked with this one."""
        return self.crowd

    def score(self, history: Sparse, rows: Indices) -> Floats:
        """Add up the votes of the neighbours of every user."""
        votes = self.crowd.votes(self.crowd.nearest(history, rows, self.k), self.k)
        return np.asarray((votes @ self.crowd.train).toarray())

    def top(self, query: Query, scales: Scales = (None,), progress: Progress = silent) -> list[Top]:
        """Rank by this k alone."""
        return self.tops([Scorer(self, scale) for scale in scales], query, progress)

    def tops(
        self, scorers: Sequence[Scorer], query: Query, progress: Progress = silent
    ) -> list[Top]:
        """Look for neighbours once, and rank by as many of them as every scorer asks for."""
        users, most = query.history.shape[0], max(_k(scorer) for scorer in scorers)
        step = max(1, topk.BLOCK_BYTES // (ENTRY_BYTES * most))
        parts: list[list[Top]] = [[] for _ in scorers]
        for start in range(0, users, step):
            stop = min(start + step, users)
            nearest = self.crowd.nearest(*query.block(start, stop), most)
            for scorer, tops in zip(scorers, parts, strict=True):
                votes = self.crowd.votes(nearest, _k(scorer))
                seen, scales = query.seen[start:stop], [scorer.scale]
                tops += topk.top_of_sparse(votes, self.crowd.train, seen, query.k, scales)
            progress(stop, users)
        return [
            Top(np.concatenate([t.items for t in tops]), np.concatenate([t.scores for t in tops]))
            for tops in parts
        ]


def _k(scorer: Scorer) -> int:
    """Narrow the type: only bases of one crowd share it."""
    assert isinstance(scorer.base, UserNeighbours)
    return scorer.base.k


class Crowds(Family["UserKnn"]):
    """Makes one crowd for every k; neighbours are looked for where there is somebody to rank."""

    reserves = True

    def key(self, model: "UserKnn") -> Hashable:
        """Everything but k."""
        return _but_k(model)

    def fit(self, models: Sequence["UserKnn"], train: Sparse, ctx: Context) -> list[Scorer]:
        """Keep the train matrix, and weigh it."""
        measure = models[0].measure
        ctx.reserve(4 * ENTRY_BYTES * train.nnz, f"{train.nnz:,} interactions", FEWER)
        weigher = Weigher.of(measure, train)
        parts = (np.ones(train.nnz, ctx.dtype), train.indices, train.indptr)
        ones = scipy.sparse.csr_array(parts, shape=train.shape)
        crowd = Crowd(ones, weigher, measure.similarity, measure.shrink)
        return [Scorer(UserNeighbours(crowd, model.measure.k)) for model in models]


@MODELS.register("user-knn")
@dataclass(frozen=True)
class UserKnn(Model):
    """Recommend what the most similar users have."""

    cite = (
        "Herlocker et al. (1999), An Algorithmic Framework for Performing Collaborative Filtering"
    )
    formula = "s_uj = Σ_(v has j) w_vu, w_vu = f(v, u) of the k nearest, else 0"
    symbols = SYMBOLS
    family = Crowds()
    measure: Measure = inlined(Measure)
