"""`slim`: each item from few others, with weights that are not negative.

For every column j of the train matrix R of m users, the w with

    min ½ |R_j - R w|² + ½ l2 |w|² + l1 |w|_1,   w >= 0,  w_j = 0

It is scikit-learn's elastic net, which divides the squares by m: l1 = m α ρ and l2 = m α (1 - ρ).
All penalties share one G = RᵀR, and each begins at the weights of the next stronger one.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy

from recbench.errors import UsageError
from recbench.linalg import nonnegative, pairs
from recbench.linalg.types import Indices, Sparse
from recbench.models.base import Family, Model
from recbench.models.context import Context
from recbench.models.scorers import Scorer, SparseItemItem
from recbench.params import param
from recbench.registry import MODELS

FEWER = "take a higher k-core, or stronger penalties"


class ElasticNets(Family["Slim"]):
    """Fits all penalties from one Gram matrix."""

    reserves = True

    def key(self, model: "Slim") -> Hashable:
        """How well it is solved, whatever the penalties."""
        return model.tolerance, model.sweeps

    def fit(self, models: Sequence["Slim"], train: Sparse, ctx: Context) -> list[Scorer]:
        """Multiply once, then solve every column for one penalty after the other."""
        users, n = train.shape
        order = pairs.popular_first(train)
        taken = 0

        def product(size: int) -> None:
            nonlocal taken
            taken = size
            ctx.reserve(size, f"the products of {n:,} items", FEWER)

        gram = pairs.gram(train[:, order], product)

        def weights(size: int) -> None:
            # Half of it is there and not free any more, unless it is we who are to count.
            needed = 2 * size + (taken if ctx.memory is not None else 0)
            ctx.reserve(needed, f"the weights of {n:,} items", FEWER)

        solutions = nonnegative.solve(
            gram, [model.penalties(users) for model in models], models[0].tolerance,
            models[0].sweeps, ctx.dtype, reserve=weights, progress=partial(ctx.progress, "slim"),
        )  # fmt: skip
        return [
            _scorer(model.kept(solution.weights), order, solution.unsettled)
            for model, solution in zip(models, solutions, strict=True)
        ]


def _scorer(columns: Sparse, order: Indices, unsettled: int) -> Scorer:
    """The weights by the numbers that items have, each item's for others by row."""
    facts = {"weights per item": columns.nnz / len(order)}
    if unsettled:
        facts["columns not settled"] = unsettled
    return Scorer(SparseItemItem(pairs.rows_again(columns, order)), facts=facts)


@MODELS.register("slim")
@dataclass(frozen=True)
class Slim(Model):
    """Sparse non-negative regression of every item on all others (SLIM)."""

    cite = "Ning and Karypis (2011), SLIM: Sparse Linear Methods for Top-N Recommender Systems"
    formula = "½ |R_j - R w|² + ½ m α (1 - ρ) |w|² + m α ρ |w|_1, where w >= 0 and w_j = 0"
    symbols = (
        "of each item j; R: train matrix of m users, R_j: its column j; w: weights of the items, "
        "whose sum over a user's items is the score of j; α: alpha; ρ: l1-ratio"
    )
    family = ElasticNets()
    alpha: float | None = param(
        None, help="strength α of both penalties: l1 = m α ρ, l2 = m α (1 - ρ) for m users "
        "(default 0.005)", low=0, log=True, search=(0.0001, 0.1), unless="l2",
    )  # fmt: skip
    l1_ratio: float | None = param(
        None, help="the share ρ of l1 (default 0.001)", low=0, high=1, log=True,
        search=(1e-6, 0.1), unless="l2",
    )  # fmt: skip
    l1: float | None = param(None, help="l1 itself, with l2 (default 0)", low=0, log=True)
    l2: float | None = param(None, help="l2 itself, instead of alpha and l1-ratio", low=0, log=True)
    keep: int = param(0, help="how many weights a column keeps, the largest; 0: all", low=0,
                      high=1_000_000)  # fmt: skip
    tolerance: float = param(1e-7, help="what a gradient may be off by, over the largest product",
                             low=0, open_low=True, high=0.1, log=True)  # fmt: skip
    sweeps: int = param(2000, help="most sweeps of coordinate descent over a column", low=1,
                        high=1_000_000)  # fmt: skip

    def __post_init__(self) -> None:
        """Fill in the default penalties, and refuse those of two kinds."""
        super().__post_init__()
        if self.l2 is None and self.l1 is not None:
            raise UsageError("slim: 'l1' goes with 'l2'; give l2 as well, it may be 0")
        if self.l2 is not None and (self.alpha is not None or self.l1_ratio is not None):
            raise UsageError("slim: give 'alpha' and 'l1-ratio', or 'l1' and 'l2', not both")
        filled = {"l1": 0.0} if self.l2 is not None else {"alpha": 0.005, "l1_ratio": 0.001}
        for name, default in filled.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, default)  # it is frozen, and being made

    def penalties(self, users: int) -> tuple[float, float]:
        """l1 and l2."""
        if self.l2 is not None:
            return self.l1 or 0.0, self.l2
        alpha, ratio = self.alpha or 0.0, self.l1_ratio or 0.0
        return users * alpha * ratio, users * alpha * (1.0 - ratio)

    def kept(self, columns: Sparse) -> Sparse:
        """The largest weights of each column, given by row; of equal ones the more popular."""
        if not self.keep:
            return columns
        lengths = np.diff(columns.indptr)
        owners = np.repeat(np.arange(len(lengths)), lengths)
        order = np.lexsort((columns.indices, -columns.data, owners))
        rank = np.arange(columns.nnz) - np.repeat(columns.indptr[:-1], lengths)
        chosen = np.sort(order[rank < self.keep])
        starts = np.concatenate([[0], np.cumsum(np.minimum(lengths, self.keep))])
        return scipy.sparse.csr_array(
            (columns.data[chosen], columns.indices[chosen], starts), shape=columns.shape
        )
