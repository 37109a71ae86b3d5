"""Linear autoencoders: one inverse Gram matrix, many column scalings.

With G = RᵀR, g = diag G, γ = (p/q) g + λ', q = 1 - p and C = (G + diagMat γ)⁻¹, c = diag C, every
model here is W = C diagMat(y) + diagMat(x). Scores are (R C) scaled by y plus R scaled by x, and
x touches only items a user already has, which are never recommended: rankings need y alone.
So all models of equal (p, λ') share one inverse and one pass of scores.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np

from recbench.errors import UsageError
from recbench.linalg.types import Matrix, Sparse, Vector
from recbench.models.base import Family, Model
from recbench.models.context import Context
from recbench.models.linear.inverse import (
    Inverse,
    Symmetric,
    dropout_param,
    effective_penalty,
    invert,
    operations,
    refuse_users,
    ridge_param,
    settle_penalty,
)
from recbench.models.scorers import Scorer
from recbench.params import Described, inlined, param
from recbench.registry import MODELS


@dataclass(frozen=True)
class Scaling:
    """What y and the diagonal of W are, in terms of the C of one dropout p and ridge λ'."""

    solve: Callable[[Inverse], tuple[Vector, Vector]]
    dropout: float = 0.0
    ridge: float = 0.0


class Scaled(Protocol):
    """A model that is one column scaling of one C."""

    def scaling(self) -> Scaling:
        """Which one, with the model's penalty as a λ'."""


@dataclass(frozen=True, eq=False)
class LinearScorer(Scorer):
    """A fitted linear autoencoder: C as the base, y as the scale, and the diagonal of W."""

    inverse: Symmetric = field(kw_only=True)
    diagonal: Vector = field(kw_only=True)

    def weights(self, items: Sequence[int]) -> Matrix:
        """The columns of W for some items, n x len(items); W itself is never stored."""
        indices = np.asarray(items)
        scale = np.asarray(self.scale)[indices]
        columns: Matrix = self.inverse.rows(indices).T * scale  # C = Cᵀ
        columns[indices, np.arange(len(indices))] = self.diagonal[indices]
        return columns


class LinearAutoencoders(Family[Scaled]):
    """Fits every model of one (dropout, ridge) from one inverse."""

    reserves = True
    spreads = True

    def key(self, model: Scaled) -> Hashable:
        """The two numbers that C depends on."""
        scaling = model.scaling()
        return scaling.dropout, scaling.ridge

    def fit(self, models: Sequence[Scaled], train: Sparse, ctx: Context) -> list[Scorer]:
        """Invert once, then scale the columns for each model."""
        scalings = [model.scaling() for model in models]
        found = invert(train, scalings[0].dropout, scalings[0].ridge, ctx)
        solutions = (scaling.solve(found.diagonals) for scaling in scalings)
        return [LinearScorer(found.base, y, inverse=found.matrix, diagonal=x) for y, x in solutions]

    def refuse(self, models: Sequence[Scaled], train: Sparse, ctx: Context) -> None:
        """Only inverses of items are spread."""
        scaling = models[0].scaling()
        if ctx.holders is not None:
            refuse_users(train, scaling.dropout, scaling.ridge, ctx)

    def operations(self, models: Sequence[Scaled], train: Sparse, ctx: Context) -> float:
        """Inverting takes n³, in place, of the items or of the users."""
        scaling = models[0].scaling()
        return operations(train, scaling.dropout, scaling.ridge, ctx)


def zero_diagonal(inverse: Inverse, keep: float = 1.0) -> tuple[Vector, Vector]:
    """Scale the columns so that W has a zero diagonal; `keep` is q = 1 - p."""
    return -1.0 / (keep * inverse.c), np.zeros_like(inverse.c)


def bounded_diagonal(inverse: Inverse, xi: float = 1.0) -> tuple[Vector, Vector]:
    """W = I - C (Γ + diagMat μ), where μ >= 0 is what holds W_ii at or below ξ.

    It is below 1 by itself: at ξ = 1 the diagonal is free, and W = I - C Γ = C G.
    """
    strength = np.maximum(inverse.gamma, (1.0 - xi) / inverse.c)
    return -strength, 1.0 - strength * inverse.c


@dataclass(frozen=True)
class Decoupled(Described):
    """The decoupled expected quadratic loss: weight a on dropped inputs, b on kept ones.

    β = q p a² + q² b² weighs the quadratic part, so the paper's λ acts as λ' = λ / (q β). In
    effective units (b, λ') the inverse does not depend on b.
    """

    p: float = dropout_param(0.5)
    a: float = param(1.0, help="weight of dropped entries (only b/a matters)", low=0, open_low=True)
    b: float = param(0.5, help="weight of kept entries, relative to a", low=0,
                     grid=(0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0))  # fmt: skip

    @property
    def beta(self) -> float:
        """β = q p a² + q² b²."""
        q = 1.0 - self.p
        return q * self.p * self.a**2 + q**2 * self.b**2

    def ridge(self, l2: float | None, effective: float | None) -> float:
        """λ', from the paper's λ or itself."""
        return effective_penalty(l2, effective, (1.0 - self.p) * self.beta)

    def refuse_zero_b(self, name: str) -> None:
        """At b = 0 nothing determines the diagonal of W."""
        if self.b == 0.0:
            raise UsageError(
                f"{name} needs b > 0: at b = 0 the diagonal of W is free; use 'edlae' instead"
            )

    def scaling(self, ridge: float = 0.0) -> Scaling:
        """What minimises the loss and a penalty λ'."""
        return Scaling(partial(self.solve, ridge=ridge), self.p, ridge)

    def solve(self, inverse: Inverse, ridge: float) -> tuple[Vector, Vector]:
        """Solve two equations per item for y_i and W_ii.

        -qβ c y + q²b² z = β   and   q²b² (1 - (g + γ) c) y + (q b² g + λ) z = q b² g
        """
        q, b2, beta, c = 1.0 - self.p, self.b**2, self.beta, inverse.c
        total = inverse.g + inverse.gamma
        m11, m12, r1 = -q * beta * c, q * q * b2, beta
        m21 = q * q * b2 * (1.0 - total * c)
        r2 = q * b2 * inverse.g
        m22 = r2 + q * beta * ridge
        determinant = m11 * m22 - m12 * m21
        # Without a penalty nothing determines the column of an item that nobody has: leave it 0.
        divisor = np.where(determinant == 0.0, np.inf, determinant)
        return (r1 * m22 - m12 * r2) / divisor, (m11 * r2 - m21 * r1) / divisor


def _paper_param() -> Any:
    return param(None, help="the paper's λ; gives λ' = λ / (q β)", low=0, log=True)


def _effective_param() -> Any:
    return param(
        None, help="λ' itself: a grid over b then costs one inverse (default 10)", low=0, log=True,
        search=(1, 10_000), unless="l2",
    )  # fmt: skip


def _bound_param() -> Any:
    return param(0.5, help="upper bound ξ on the diagonal of W", low=0, high=1,
                 grid=(0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9))  # fmt: skip


@MODELS.register("ease")
@dataclass(frozen=True)
class Ease(Model):
    """Ridge regression of every item on all others, with a zero diagonal (EASE)."""

    cite = "Steck (2019), Embarrassingly Shallow Autoencoders for Sparse Data"
    family = LinearAutoencoders()
    l2: float = ridge_param(100.0)

    def scaling(self) -> Scaling:
        """W_ij = -C_ij / c_j."""
        return Scaling(zero_diagonal, ridge=self.l2)


@MODELS.register("ease-debiased")
@dataclass(frozen=True)
class EaseDebiased(Model):
    """EASE under the debiased contrastive loss, which is EASE at λ / (1 - α)."""

    cite = "(Debiased) Contrastive Learning Loss for Recommendation, theorem 2"
    family = LinearAutoencoders()
    l2: float = ridge_param(100.0)
    alpha: float = param(0.0, help="debiasing strength α", low=0, high=1, open_high=True)

    def scaling(self) -> Scaling:
        """W_ij = -C_ij / c_j."""
        return Scaling(zero_diagonal, ridge=self.l2 / (1.0 - self.alpha))


@MODELS.register("dlae")
@dataclass(frozen=True)
class Dlae(Model):
    """Denoising linear autoencoder: ridge regression on inputs with dropout, diagonal free."""

    cite = "Steck (2020), Autoencoders that don't overfit towards the Identity"
    family = LinearAutoencoders()
    p: float = dropout_param(0.3)
    l2: float = ridge_param(100.0)

    def scaling(self) -> Scaling:
        """W_ij = -C_ij γ_j."""
        return Scaling(bounded_diagonal, self.p, self.l2)


@MODELS.register("edlae")
@dataclass(frozen=True)
class Edlae(Model):
    """Emphasised denoising linear autoencoder: only dropped inputs are reconstructed."""

    cite = "Steck (2020), Autoencoders that don't overfit towards the Identity"
    family = LinearAutoencoders()
    p: float = dropout_param(0.5)
    l2: float = ridge_param(10.0)

    def scaling(self) -> Scaling:
        """W_ij = -C_ij / (q c_j)."""
        return Scaling(partial(zero_diagonal, keep=1.0 - self.p), self.p, self.l2)


@MODELS.register("rlae")
@dataclass(frozen=True)
class Rlae(Model):
    """Ridge regression of every item on all, the diagonal of W at most ξ."""

    cite = "Moon et al. (2023), It's Enough: Relaxing Diagonal Constraints in Linear Autoencoders"
    family = LinearAutoencoders()
    l2: float = ridge_param(100.0)
    xi: float = _bound_param()

    def scaling(self) -> Scaling:
        """W_ij = -C_ij max(λ, (1 - ξ) / c_j)."""
        return Scaling(partial(bounded_diagonal, xi=self.xi), ridge=self.l2)


@MODELS.register("rdlae")
@dataclass(frozen=True)
class Rdlae(Model):
    """Denoising linear autoencoder with the diagonal of W at most ξ."""

    cite = Rlae.cite
    family = LinearAutoencoders()
    l2: float = ridge_param(100.0)
    xi: float = _bound_param()
    p: float = dropout_param(0.3)

    def scaling(self) -> Scaling:
        """W_ij = -C_ij max(γ_j, (1 - ξ) / c_j)."""
        return Scaling(partial(bounded_diagonal, xi=self.xi), self.p, self.l2)


@MODELS.register("deql")
@dataclass(frozen=True)
class Deql(Model):
    """Decoupled expected quadratic loss without an L2 penalty; b = 0 would be `edlae`."""

    cite = "Generalizing Linear Autoencoder Recommenders with Decoupled Expected Quadratic Loss"
    family = LinearAutoencoders()
    loss: Decoupled = inlined(Decoupled)

    def __post_init__(self) -> None:
        """Refuse b = 0, where the diagonal of W is free."""
        super().__post_init__()
        self.loss.refuse_zero_b(self.name)

    def scaling(self) -> Scaling:
        """What minimises the loss alone."""
        return self.loss.scaling()


@MODELS.register("deql-l2")
@dataclass(frozen=True)
class DeqlL2(Model):
    """Decoupled expected quadratic loss with an L2 penalty."""

    cite = Deql.cite
    family = LinearAutoencoders()
    loss: Decoupled = inlined(Decoupled)
    l2: float | None = _paper_param()
    l2_effective: float | None = _effective_param()

    def __post_init__(self) -> None:
        """Fill in the default penalty; refuse two, and b = 0, where the diagonal of W is free."""
        super().__post_init__()
        settle_penalty(self, 10.0)
        self.loss.refuse_zero_b(self.name)

    def scaling(self) -> Scaling:
        """What minimises the loss and its penalty."""
        return self.loss.scaling(self.loss.ridge(self.l2, self.l2_effective))


@MODELS.register("deql-l2-zero")
@dataclass(frozen=True)
class DeqlL2Zero(Model):
    """The same with a zero diagonal: `edlae` at l2 = λ / (q β)."""

    cite = Deql.cite
    family = LinearAutoencoders()
    loss: Decoupled = inlined(Decoupled)
    l2: float | None = _paper_param()
    l2_effective: float | None = _effective_param()

    def __post_init__(self) -> None:
        """Fill in the default penalty and refuse two."""
        super().__post_init__()
        settle_penalty(self, 10.0)

    def scaling(self) -> Scaling:
        """W_ij = -C_ij / (q c_j)."""
        ridge, p = self.loss.ridge(self.l2, self.l2_effective), self.loss.p
        return Scaling(partial(zero_diagonal, keep=1.0 - p), p, ridge)
