"""Linear autoencoders of low rank: the full one projected on k directions, W = W* Q_k Q_kᵀ.

With K = G + Γ and C = K⁻¹ as in `lae`, W* = I - C diagMat(t), where t = γ for the denoising
autoencoder and t = 1/c for the emphasised one. Among matrices W of rank k, and for any positive
definite M, tr (W - W*)ᵀ M (W - W*) is smallest at W* Q_k Q_kᵀ, where the columns of Q_k are the
leading eigenvectors of W*ᵀ M W* (Eckart and Young). Two M are in use:

    M = K    W*ᵀ K W* = K - 2 diagMat(t) + diagMat(t) C diagMat(t)    lr-dlae, lr-edlae-1
    M = I    W*ᵀ W*, the truncated singular value decomposition       lr-edlae-2

C stays in tiles and these matrices are operators: n x k numbers are all that is added. One C and
one set of directions serve every k.

W* is also C B with B = K - diagMat(t), which is G for the denoising autoencoder. Where penalties
outweigh the data W* is small, and what is left of I - C diagMat(t) are the last digits of C: there
C B is multiplied. Elsewhere C B would lose as many digits as K is ill-conditioned.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import scipy

from recbench.errors import RecbenchError
from recbench.linalg import eigen
from recbench.linalg.thin import GramProduct
from recbench.linalg.types import Matrix, Sparse, Vector
from recbench.models.base import Family, Fit, Model
from recbench.models.context import Context
from recbench.models.linear.inverse import (
    dropout_param,
    effective_penalty,
    invert,
    ridge_param,
    settle_penalty,
)
from recbench.models.linear.subspace import FEWER, LowRank, Subspace, rank_param
from recbench.models.scorers import Scorer
from recbench.params import param
from recbench.registry import MODELS

ROWS = 256
"""Rows of C and of G that are looked at at a time."""


class System:
    """K and C = K⁻¹ of one train matrix as operators; C is as precise as `ctx.dtype`."""

    def __init__(self, train: Sparse, p: float, ridge: float, ctx: Context) -> None:
        found = invert(train, p, ridge, ctx)
        self.matrix, self.diagonals = found.matrix, found.diagonals
        self.train, self.gram, self.n, self.ctx = train, GramProduct(train), train.shape[1], ctx
        self.gamma = self.diagonals.gamma[:, np.newaxis]
        row_sums = self.gram(np.ones((self.n, 1)))  # none is below the largest eigenvalue of G
        self.penalised = bool(row_sums.max(initial=0.0) <= self.gamma.min(initial=np.inf))
        """Whether penalties outweigh the data: Γ is nowhere less than G is anywhere."""

    def times(self, z: Matrix) -> Matrix:
        """K z."""
        return np.asarray(self.gram(z) + self.gamma * z)

    def inverse(self, z: Matrix) -> Matrix:
        """C z."""
        return self.matrix.matmul(z).astype(np.float64)

    def explained(self) -> Vector:
        """K_ii - 1/c_i: by (C K)_ii = 1 that is -Σ_{j≠i} C_ij G_ij / c_i, where nothing cancels."""
        found, columns = np.empty(self.n), scipy.sparse.csc_array(self.train)
        for start in range(0, self.n, ROWS):
            some = np.arange(start, min(start + ROWS, self.n))
            gram = scipy.sparse.coo_array(columns[:, some].T @ columns)
            others = gram.coords[1] != some[gram.coords[0]]
            i, j = (places[others] for places in gram.coords)
            products = self.matrix.rows(some)[i, j] * gram.data[others].astype(np.float64)
            found[some] = -np.bincount(i, products, len(some))
        return found / self.diagonals.c


class Target:
    """W* = I - C diagMat(t), and the best directions to project it on."""

    def __init__(self, system: System, *, emphasised: bool) -> None:
        numbers, self.system = system.diagonals, system
        strength = 1.0 / numbers.c if emphasised else numbers.gamma
        rest = np.zeros(system.n)
        if emphasised and system.penalised:
            rest = system.explained() - numbers.g
        self.strength, self.rest = strength[:, np.newaxis], rest[:, np.newaxis]
        """The diagonals t and, where it is needed, B - G."""

    def times(self, z: Matrix) -> Matrix:
        """W* z."""
        if self.system.penalised:
            return self.system.inverse(self._b(z))
        return z - self.system.inverse(self.strength * z)

    def in_data(self, z: Matrix) -> Matrix:
        """W*ᵀ K W* z."""
        if self.system.penalised:
            return self._b(self.system.inverse(self._b(z)))
        scaled = self.strength * z
        return self.system.times(z) - 2.0 * scaled + self.strength * self.system.inverse(scaled)

    def alone(self, z: Matrix) -> Matrix:
        """W*ᵀ W* z."""
        image = self.times(z)
        if self.system.penalised:
            return self._b(self.system.inverse(image))
        return image - self.strength * self.system.inverse(image)

    def _b(self, z: Matrix) -> Matrix:
        """B z."""
        return np.asarray(self.system.gram(z) + self.rest * z)

    def directions(self, k: int, *, in_data: bool) -> Matrix:
        """Q_k: the k directions that lose least of W*, measured in the data or alone."""
        ctx, n = self.system.ctx, self.system.n
        ctx.reserve(eigen.bytes_needed(n, k), f"{k:,} directions of {n:,} items", FEWER)
        # An operator that is right to 7 digits has no residual of 8.
        tolerance = max(eigen.TOLERANCE, 16 * float(np.finfo(ctx.dtype).eps))
        # What is left of I - C diagMat(t) has fewer digits than C.
        single = ctx.dtype == np.float32
        rest = "compute with --dtype float64" if single else "lower the penalties"
        return eigen.leading(
            self.in_data if in_data else self.alone, n, k,
            tolerance=tolerance, advice=f"{FEWER}, or {rest}",
            progress=partial(ctx.progress, "directions"),
        ).vectors  # fmt: skip


@dataclass(frozen=True)
class Projection:
    """The W* of one dropout p and ridge λ' on its best k directions, times a factor."""

    k: int
    dropout: float
    ridge: float
    factor: float = 1.0
    emphasised: bool = True
    """Whether W* is that of the emphasised autoencoder, or of the denoising one."""
    in_data: bool = True
    """Whether M = K, or I."""
    refine: Callable[[System, LowRank], Scorer] | None = None
    """Goes on from there; without it, the projection itself is the model."""

    @property
    def kind(self) -> Hashable:
        """What the directions depend on, beside C."""
        return self.emphasised, self.in_data

    def subspace(self, system: System) -> Subspace:
        """W* Q_k and Q_k."""
        target = Target(system, emphasised=self.emphasised)
        directions = target.directions(self.k, in_data=self.in_data)
        return Subspace.of(target.times(directions), directions, system.ctx.dtype)

    def shrinkage(self, most: int) -> Vector:
        """The factor, for each of the directions that take part; there are `most` at most."""
        return np.full(min(self.k, most), self.factor)

    def fewer(self, rank: int) -> dict[str, float]:
        """A fact, if there are fewer directions than asked for."""
        return {"rank used": rank} if rank < self.k else {}

    def finish(self, system: System, closed: LowRank) -> Fit:
        """The model, or why it alone could not be fitted: C and the directions serve the others."""
        if self.refine is None:
            return Scorer(closed, facts=self.fewer(closed.rank))
        try:
            return self.refine(system, closed)
        except RecbenchError as error:
            return error


class Projected(Protocol):
    """A model that is, or begins as, a full linear autoencoder on its best k directions."""

    def projection(self) -> Projection:
        """Which one, with the model's penalty as a λ'."""


class LowRankAutoencoders(Family[Projected]):
    """Fits every model of one (dropout, ridge), whatever its rank, from one inverse."""

    reserves = True

    def key(self, model: Projected) -> Hashable:
        """The two numbers that C depends on."""
        projection = model.projection()
        return projection.dropout, projection.ridge

    def fit(self, models: Sequence[Projected], train: Sparse, ctx: Context) -> list[Fit]:
        """Invert once, find each kind of directions once, then take columns for each model."""
        projections = [model.projection() for model in models]
        system = System(train, projections[0].dropout, projections[0].ridge, ctx)
        bases: dict[int, LowRank] = {}
        for kind in dict.fromkeys(one.kind for one in projections):
            alike = {place: one for place, one in enumerate(projections) if one.kind == kind}
            subspace = max(alike.values(), key=lambda one: one.k).subspace(system)
            closed = subspace.bases([one.shrinkage(subspace.rank) for one in alike.values()])
            bases.update(zip(alike, closed, strict=True))
        return [one.finish(system, bases[place]) for place, one in enumerate(projections)]


@MODELS.register("lr-dlae")
@dataclass(frozen=True)
class LrDlae(Model):
    """Denoising linear autoencoder of rank k: exactly the best one."""

    cite = "On the Regularization Landscape for the Linear Recommendation Models"
    family = LowRankAutoencoders()
    k: int = rank_param("the number of items")
    p: float = dropout_param(0.3)
    l2: float = ridge_param(100.0)

    def projection(self) -> Projection:
        """Of the W of `dlae`, in the data."""
        return Projection(self.k, self.p, self.l2, emphasised=False)


@MODELS.register("lr-edlae-1")
@dataclass(frozen=True)
class LrEdlae1(Model):
    """The matrix of rank k that is closest to `edlae` on the data, penalties included."""

    cite = LrDlae.cite
    family = LowRankAutoencoders()
    k: int = rank_param("the number of items")
    p: float = dropout_param(0.5)
    l2: float = ridge_param(10.0)

    def projection(self) -> Projection:
        """Of the W of `edlae`, which has a factor 1/q, in the data."""
        return Projection(self.k, self.p, self.l2, 1.0 / (1.0 - self.p))


@MODELS.register("lr-edlae-2")
@dataclass(frozen=True)
class LrEdlae2(Model):
    """The matrix of rank k that is closest to `edlae`, entry by entry."""

    cite = LrDlae.cite
    family = LowRankAutoencoders()
    k: int = rank_param("the number of items")
    p: float = dropout_param(0.5)
    l2: float = ridge_param(10.0)

    def projection(self) -> Projection:
        """Of the W of `edlae`, which has a factor 1/q, by itself."""
        return Projection(self.k, self.p, self.l2, 1.0 / (1.0 - self.p), in_data=False)


@MODELS.register("deql-lowrank")
@dataclass(frozen=True)
class DeqlLowRank(Model):
    """The decoupled expected quadratic loss at a = b, where its best W of rank k is known."""

    cite = "Generalizing Linear Autoencoder Recommenders with Decoupled Expected Quadratic Loss"
    family = LowRankAutoencoders()
    k: int = rank_param("the number of items")
    p: float = dropout_param(0.3)
    l2: float | None = param(None, help="the paper's λ at a = b = 1; gives λ' = λ / q²", low=0,
                             log=True)  # fmt: skip
    l2_effective: float | None = param(None, help="λ' itself (default 100)", low=0, log=True,
                                       search=(1, 10_000), unless="l2")  # fmt: skip

    def __post_init__(self) -> None:
        """Fill in the default penalty and refuse two."""
        super().__post_init__()
        settle_penalty(self, 100.0)

    def projection(self) -> Projection:
        """That of `lr-dlae` at λ' = λ / (q β), times 1/q; β = q p + q² = q."""
        q = 1.0 - self.p
        ridge = effective_penalty(self.l2, self.l2_effective, q**2)
        return Projection(self.k, self.p, ridge, 1.0 / q, emphasised=False)
