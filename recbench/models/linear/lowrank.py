"""Linear autoencoders of low rank: the full one projected on k directions, W = W* Q_k Q_kᵀ.

With K = G + Γ and C = K⁻¹ as in `lae`, W* = I - C diagMat(t), where t = γ for the denoising
autoencoder and t = 1/c for the emphasised one. Among matrices W of rank k, and for any positive
definite M, tr (W - W*)ᵀ M (W - W*) is smallest at W* Q_k Q_kᵀ, where the columns of Q_k are the
leading eigenvectors of W*ᵀ M W* (Eckart and Young). Two M are in use:

    M = K    W*ᵀ K W* = K - 2 diagMat(t) + diagMat(t) C diagMat(t)    lr-dlae, lr-edlae-1
    M = I    W*ᵀ W*, the truncated singular value decomposition       lr-edlae-2

C stays in tiles and these matrices are operators: n x k numbers are all that is added. One C and
one set of directions serve every k.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from scipy import sparse

from recbench.errors import RecbenchError
from recbench.linalg import eigen
from recbench.linalg.thin import GramProduct
from recbench.linalg.types import Matrix, Vector
from recbench.models.base import Family, Fit, Model
from recbench.models.context import Context
from recbench.models.linear.inverse import (
    OfInverse,
    dropout_param,
    effective_penalty,
    invert,
    ridge_param,
)
from recbench.models.linear.subspace import FEWER, LowRank, Subspace, rank_param
from recbench.models.scorers import Scorer
from recbench.params import param
from recbench.registry import MODELS


class System:
    """K and C = K⁻¹ of one train matrix as operators; C is as precise as `ctx.dtype`."""

    def __init__(self, train: sparse.csr_array, p: float, ridge: float, ctx: Context) -> None:
        self.tiles, self.diagonals = invert(train, p, ridge, ctx)
        self.gram, self.n, self.ctx = GramProduct(train), train.shape[1], ctx
        self.gamma = self.diagonals.gamma[:, np.newaxis]

    def times(self, z: Matrix) -> Matrix:
        """K z."""
        return np.asarray(self.gram(z) + self.gamma * z)

    def inverse(self, z: Matrix) -> Matrix:
        """C z."""
        return self.tiles.matmul(z).astype(np.float64)


class Target:
    """W* = I - C diagMat(t), and the best directions to project it on."""

    def __init__(self, system: System, strength: Vector) -> None:
        self.system, self.strength = system, strength[:, np.newaxis]

    def times(self, z: Matrix) -> Matrix:
        """W* z."""
        return z - self.system.inverse(self.strength * z)

    def in_data(self, z: Matrix) -> Matrix:
        """W*ᵀ K W* z."""
        scaled = self.strength * z
        return self.system.times(z) - 2.0 * scaled + self.strength * self.system.inverse(scaled)

    def alone(self, z: Matrix) -> Matrix:
        """W*ᵀ W* z."""
        image = self.times(z)
        return image - self.strength * self.system.inverse(image)

    def directions(self, k: int, *, in_data: bool) -> Matrix:
        """Q_k: the k directions that lose least of W*, measured in the data or alone."""
        ctx, n = self.system.ctx, self.system.n
        ctx.reserve(eigen.bytes_needed(n, k), f"{k:,} directions of {n:,} items", FEWER)
        # An operator that is right to 7 digits has no residual of 8.
        tolerance = max(eigen.TOLERANCE, 16 * float(np.finfo(ctx.dtype).eps))
        return eigen.leading(
            self.in_data if in_data else self.alone, n, k,
            tolerance=tolerance, advice=f"{FEWER}, or compute with --dtype float64",
            progress=partial(ctx.progress, "directions"),
        ).vectors  # fmt: skip


class LowRankAutoencoders(Family):
    """Fits every model of one (dropout, ridge), whatever its rank, from one inverse."""

    def key(self, model: Model) -> Hashable:
        """The two numbers that C depends on."""
        return _lowrank(model).dropout, _lowrank(model).ridge

    def fit(self, models: Sequence[Model], train: sparse.csr_array, ctx: Context) -> list[Fit]:
        """Invert once, find each kind of directions once, then take columns for each model."""
        low = [_lowrank(model) for model in models]
        system = System(train, low[0].dropout, low[0].ridge, ctx)
        found: dict[int, LowRank] = {}
        for kind in dict.fromkeys(model.kind for model in low):
            places = [place for place, model in enumerate(low) if model.kind == kind]
            subspace = _project(system, kind, max(low[place].k for place in places))
            closed = subspace.bases([low[place].shrinkage(subspace.rank) for place in places])
            found.update(zip(places, closed, strict=True))
        return [_built(model, system, found[place]) for place, model in enumerate(low)]


@dataclass(frozen=True)
class Kind:
    """What W* is, and how closeness to it is measured."""

    emphasised: bool
    in_data: bool


def _project(system: System, kind: Kind, k: int) -> Subspace:
    """W* Q_k and Q_k."""
    strength = 1.0 / system.diagonals.c if kind.emphasised else system.diagonals.gamma
    target = Target(system, strength)
    directions = target.directions(k, in_data=kind.in_data)
    return Subspace(target.times(directions), directions, system.ctx.dtype)


class LowRankAutoencoder(OfInverse):
    """A model that is a full linear autoencoder on its best k directions."""

    family: ClassVar[Family] = LowRankAutoencoders()
    kind: ClassVar[Kind]
    k: int

    @property
    def factor(self) -> float:
        """What W* is multiplied by."""
        return 1.0

    def shrinkage(self, most: int) -> Vector:
        """The factor, for each of the directions that take part; there are `most` at most."""
        return np.full(min(self.k, most), self.factor)

    def build(self, system: System, closed: LowRank) -> Scorer:
        """The projection itself is the model."""
        return Scorer(closed, facts=self.fewer(closed.rank))

    def fewer(self, rank: int) -> dict[str, float]:
        """A word if there are fewer directions than asked for."""
        return {"rank used": rank} if rank < self.k else {}


def _built(model: "LowRankAutoencoder", system: System, closed: LowRank) -> Fit:
    """The model, or why it alone could not be fitted: C and the directions serve the others."""
    try:
        return model.build(system, closed)
    except RecbenchError as error:
        return error


def _lowrank(model: Model) -> LowRankAutoencoder:
    """Narrow the type: the runner sends a family nothing but its own models."""
    assert isinstance(model, LowRankAutoencoder)
    return model


@MODELS.register("lr-dlae")
@dataclass(frozen=True)
class LrDlae(LowRankAutoencoder):
    """Denoising linear autoencoder of rank k: exactly the best one."""

    cite = "On the Regularization Landscape for the Linear Recommendation Models"
    kind: ClassVar[Kind] = Kind(emphasised=False, in_data=True)
    k: int = rank_param("the number of items")
    p: float = dropout_param(0.3)
    l2: float = ridge_param(100.0)


@MODELS.register("lr-edlae-1")
@dataclass(frozen=True)
class LrEdlae1(LowRankAutoencoder):
    """The matrix of rank k that is closest to `edlae` on the data, penalties included."""

    cite = "On the Regularization Landscape for the Linear Recommendation Models"
    kind: ClassVar[Kind] = Kind(emphasised=True, in_data=True)
    k: int = rank_param("the number of items")
    p: float = dropout_param(0.5)
    l2: float = ridge_param(10.0)

    @property
    def factor(self) -> float:
        """1/q, as in `edlae`."""
        return 1.0 / (1.0 - self.p)


@MODELS.register("lr-edlae-2")
@dataclass(frozen=True)
class LrEdlae2(LrEdlae1):
    """The matrix of rank k that is closest to `edlae`, entry by entry."""

    kind: ClassVar[Kind] = Kind(emphasised=True, in_data=False)


@MODELS.register("deql-lowrank")
@dataclass(frozen=True)
class DeqlLowRank(LowRankAutoencoder):
    """The decoupled expected quadratic loss at a = b, where its best W of rank k is known."""

    cite = "Generalizing Linear Autoencoder Recommenders with Decoupled Expected Quadratic Loss"
    kind: ClassVar[Kind] = Kind(emphasised=False, in_data=True)
    k: int = rank_param("the number of items")
    p: float = dropout_param(0.3)
    l2: float | None = param(None, help="the paper's λ at a = b = 1; gives λ' = λ / q²", low=0,
                             log=True)  # fmt: skip
    l2_effective: float | None = param(None, help="λ' itself (default 100)", low=0, log=True)

    def __post_init__(self) -> None:
        """Fill in the default penalty and refuse two."""
        super().__post_init__()
        effective = effective_penalty(self.name, self.l2, self.l2_effective, 100.0)
        object.__setattr__(self, "l2_effective", effective)

    @property
    def ridge(self) -> float:
        """λ' = λ / (q β) with β = q p + q² = q."""
        if self.l2 is None:
            return float(self.l2_effective or 0.0)
        return self.l2 / (1.0 - self.p) ** 2

    @property
    def factor(self) -> float:
        """W is 1/q times that of `lr-dlae`."""
        return 1.0 / (1.0 - self.p)
