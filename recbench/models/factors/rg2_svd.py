"""RG² without extra weight on observed cells, in closed form: one truncated SVD.

At α = 0 the objective of `rg2` weighs every cell of user u by w_u = |I_u| / 2n alone. With
B = diagMat(a) R, a_u² = n / (2 |I_u|), C = I - 11ᵀ/n and A = B C, whose rows sum to zero, it is

    |A - diagMat(√w) P Qᵀ|² + λ n Σ w_u |p_u|² + λ Σw |Q|²

up to a constant, and the best P Qᵀ of rank K is that of the K largest singular triplets of A with
each σ lowered by λ √(n Σw), or 0. A is never formed: it is a sparse matrix and a rank-one one.

The right factors are orthogonal to 1, since A's are. The exact RG^x, which adds to RG² the squared
sum of a user's scores, 1ᵀQ p_u, can therefore do no better at α = 0 than with these same factors.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from recbench.linalg import blas
from recbench.linalg.clock import CLOCK
from recbench.linalg.eigen import Eigenpairs, bytes_needed, leading
from recbench.linalg.thin import Thin
from recbench.linalg.types import Floats, Sparse
from recbench.models.base import Model
from recbench.models.context import Context
from recbench.models.factors.als import Problem, factors_param, rank_for, reserve
from recbench.models.factors.losses import Rg2, goal_of
from recbench.models.factors.objectives import Objective, RankingSquares
from recbench.models.scorers import Scorer
from recbench.params import param
from recbench.registry import MODELS


@MODELS.register("rg2-svd")
@dataclass(frozen=True)
class Rg2Svd(Model):
    """The global minimum of RG² at α = 0, by a truncated SVD with shrunk singular values."""

    cite = Rg2.cite
    traced = True
    reserves = True
    factors: int = factors_param()
    l2: float = param(0.1, help="penalty λ on the factors", low=0, log=True, search=(0.01, 10))
    tol: float = param(1e-5, help="residual of the singular vectors", low=0, open_low=True,
                       high=1, log=True)  # fmt: skip

    @property
    def objective(self) -> Objective:
        """That of RG² at α = 0."""
        return RankingSquares(0.0, self.l2)

    @property
    def goal(self) -> str:
        """That of `rg2`."""
        return goal_of(Rg2(alpha=0.0, l2=self.l2), self.factors)

    def fit(self, train: Sparse, ctx: Context) -> Scorer:
        """Take the item factors from the SVD, and the users' from them: both halves are exact."""
        start = CLOCK.now()
        rank = rank_for(self.factors, train)
        reserve(rank, train, ctx, spare=bytes_needed(min(train.shape), rank))
        problem = Problem.of(self.objective, train, self.name)
        pairs, right = _triplets(_Centred(problem, train, ctx.dtype), rank, self.tol, ctx)
        n = train.shape[1]
        weight = max(train.nnz, 1) / (2.0 * n)
        shrunk = np.sqrt(np.maximum(pairs.values, 0.0)) - self.l2 * np.sqrt(n * weight)
        # Of all ways to share σ between P and Q the penalty likes this one best.
        q = right * (np.sqrt(np.maximum(shrunk, 0.0)) * (n / weight) ** 0.25)
        q = np.ascontiguousarray(q, ctx.dtype)
        p = np.zeros((train.shape[0], rank), ctx.dtype)
        with blas.workers() as pool:
            basis, value = problem.solve_users(pool, p, q)
        trace = [{
            "sweep": 0, "seconds": CLOCK.now() - start,
            "objective": value + problem.item_penalty(q), "residual": float(pairs.residual),
        }]  # fmt: skip
        return replace(problem.scorer(basis, p, self.factors), trace=trace)


def _triplets(a: "_Centred", rank: int, tol: float, ctx: Context) -> tuple[Eigenpairs, Floats]:
    """The largest eigenvalues of AᵀA and their vectors, found on the shorter side of A."""
    users, items = a.right.shape
    find = partial(
        leading, k=rank, tolerance=tol, advice="give a larger tol, or --dtype float64",
        progress=partial(ctx.progress, "singular vectors"),
    )  # fmt: skip
    if items <= users:
        pairs = find(lambda x: a.left_times(a.times(x)), items)
        return pairs, pairs.vectors
    pairs = find(lambda y: a.times(a.left_times(y)), users)
    # The vectors of a singular value of zero may be anything: they get no weight.
    values = np.sqrt(np.maximum(pairs.values, np.finfo(np.float32).tiny))
    return pairs, a.left_times(pairs.vectors) / values


class _Centred:
    """A = diagMat(a) R - √w 1ᵀ."""

    def __init__(self, problem: Problem, train: Sparse, dtype: npt.DTypeLike) -> None:
        lengths, n = problem.users.lengths, train.shape[1]
        self.roots = np.sqrt(lengths / (2.0 * n))
        scaled = train.copy()
        scaled.data = np.repeat(np.sqrt(n / (2.0 * np.maximum(lengths, 1))), lengths)
        self.right, self.left = Thin(scaled, dtype), Thin(scaled.T, dtype)

    def times(self, x: Floats) -> Floats:
        """A X."""
        out: Floats = (self.right @ x) - self.roots[:, None] * x.sum(axis=0)
        return out

    def left_times(self, y: Floats) -> Floats:
        """Aᵀ Y."""
        out: Floats = (self.left @ y) - self.roots @ y
        return out
