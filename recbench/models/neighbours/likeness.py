"""How alike two items, or two users, are: what they have in common, weighed and divided by sizes.

Items and users are documents here, and what they have are terms: an item has users, a user items.
With x_d the weights of what document d has, and n_d = |x_d|², they are

    cosine        x_d·x_e / (√n_d √n_e + h)
    jaccard       x_d·x_e / (n_d + n_e - x_d·x_e + h)
    conditional   x_d·x_e / (n_d n_e^α + h), the vote of d for e
    dot           x_d·x_e

where h is the shrinkage. With weights of one, x_d·x_e is what d and e have in common and n_d how
much d has, so at α = 0 and h = 0 the conditional probability is that of e where there is d. Users
have α = 0: it would only scale all scores of one of them.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from recbench.errors import UsageError
from recbench.linalg.topk import Likeness, Top
from recbench.linalg.types import Sparse, Vector
from recbench.params import Described, param

PUBLISHED_K1, PUBLISHED_B = 1.2, 0.75
"""The usual constants of BM25."""


@dataclass(frozen=True)
class Measure(Described):
    """Which likeness it is, and how many of the most alike count."""

    k: int = param(100, help="how many neighbours", low=1, high=1_000_000, log=True,
                   search=(5, 1000))  # fmt: skip
    similarity: str = param("cosine", help="how alike two are",
                            choices=("cosine", "jaccard", "conditional", "dot"),
                            grid=("cosine", "jaccard", "conditional"))  # fmt: skip
    shrink: float = param(0.0, help="shrinkage h: what few have in common counts less", low=0,
                          search=(0, 1000))  # fmt: skip
    weighting: str = param("ones", help="weights of what they have",
                           choices=("ones", "tf-idf", "bm25"),
                           grid=("ones", "tf-idf", "bm25"))  # fmt: skip
    k1: float | None = param(None, help="of bm25: how far lengths matter (default 1.2)", low=0)
    b: float | None = param(None, help="of bm25: share of the length (default 0.75)", low=0, high=1)

    def __post_init__(self) -> None:
        """Fill in the constants of BM25, and refuse them where they would be idle."""
        super().__post_init__()
        now = f"weighting={self.weighting}"
        settle(self, "k1", PUBLISHED_K1, now, "weighting=bm25")
        settle(self, "b", PUBLISHED_B, now, "weighting=bm25")

    def likeness(self, voted: Vector, voting: Vector, alpha: float = 0.0) -> Likeness:
        """What is made of products, given n_d of those voted for, by row, and of voters."""
        if self.similarity == "dot":
            return Likeness(np.ones_like(voted), np.ones_like(voting))
        if self.similarity == "jaccard":
            return Likeness(voted, voting, self.shrink, union=True)
        if self.similarity == "conditional":
            return Likeness(voted**alpha, voting, self.shrink)
        return Likeness(np.sqrt(voted), np.sqrt(voting), self.shrink)


def settle(thing: object, name: str, default: float, now: str, needed: str) -> None:
    """Fill in a parameter that belongs to one value of another, and refuse it with others."""
    given = getattr(thing, name)
    if given is not None and now != needed:
        raise UsageError(f"'{name}' is of {needed}, not of {now}; leave it out, or set {needed}")
    if given is None and now == needed:
        object.__setattr__(thing, name, default)  # it is frozen, and being made


@dataclass(eq=False)
class Weigher:
    """Weights of what documents have: rarer terms and shorter documents weigh more.

    A term t of a document d of length |d| weighs idf_t (k1 + 1) / (1 + k1 (1 - b + b |d| / mean)),
    as in BM25 where every term occurs once.
    """

    idf: Vector
    k1: float
    b: float
    mean: float

    @classmethod
    def of(cls, measure: Measure, documents: Sparse) -> "Weigher":
        """Weigh by how rare terms are in these documents, and by how long these are."""
        count, terms = documents.shape
        have = np.bincount(documents.indices, minlength=terms).astype(np.float64)
        idf = np.ones(terms)
        if measure.weighting == "tf-idf":
            idf = np.log(count / np.maximum(have, 1.0))
        elif measure.weighting == "bm25":
            idf = np.log1p((count - have + 0.5) / (have + 0.5))
        mean = max(1.0, documents.nnz / max(1, count))
        return cls(idf, measure.k1 or 0.0, measure.b or 0.0, mean)

    def __call__(self, documents: Sparse, dtype: npt.DTypeLike) -> Sparse:
        """The documents with weights, whatever stood there."""
        lengths = np.diff(documents.indptr)
        short = (self.k1 + 1.0) / (1.0 + self.k1 * (1.0 - self.b + self.b * lengths / self.mean))
        weights = self.idf[documents.indices] * np.repeat(short, lengths)
        parts = (weights.astype(dtype), documents.indices, documents.indptr)
        return scipy.sparse.csr_array(parts, shape=documents.shape)


def squares(weighted: Sparse) -> Vector:
    """n_d of every document."""
    found: Vector = np.asarray(weighted.power(2).sum(axis=1), np.float64)
    return found


def votes(top: Top, k: int, width: int) -> Sparse:
    """The first k of each list as a sparse matrix; places that are empty have no vote."""
    items, scores = top.items[:, :k], top.scores[:, :k]
    alike = items >= 0
    starts = np.concatenate([[0], np.cumsum(alike.sum(axis=1))])
    rows = scipy.sparse.csr_array((scores[alike], items[alike], starts), shape=(len(items), width))
    rows.sort_indices()
    return rows
