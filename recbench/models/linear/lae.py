"""Linear autoencoders: one inverse Gram matrix, many column scalings.

With G = RᵀR, g = diag G, γ = (p/q) g + λ', q = 1 - p and C = (G + diagMat γ)⁻¹, c = diag C, every
model here is W = C diagMat(y) + diagMat(x). Scores are (R C) scaled by y plus R scaled by x, and
x touches only items a user already has, which are never recommended: rankings need y alone.
So all models of equal (p, λ') share one inverse and one pass of scores.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from scipy import sparse

from recbench.errors import UsageError
from recbench.linalg.tiles import Tiles
from recbench.linalg.types import Matrix, Vector
from recbench.models.base import Family, Model
from recbench.models.context import Context
from recbench.models.linear.inverse import (
    Inverse,
    OfInverse,
    dropout_param,
    effective_penalty,
    invert,
    ridge_param,
)
from recbench.models.scorers import ItemItem, Scorer
from recbench.params import param
from recbench.registry import MODELS


@dataclass(frozen=True, eq=False)
class LinearScorer(Scorer):
    """A fitted linear autoencoder: C as the base, y as the scale, and the diagonal of W."""

    tiles: Tiles = field(kw_only=True)
    diagonal: Vector = field(kw_only=True)

    def weights(self, items: Sequence[int]) -> Matrix:
        """The columns of W for some items, n x len(items); W itself is never stored."""
        chosen = np.asarray(items)
        scale = np.asarray(self.scale)[chosen]
        columns: Matrix = self.tiles.rows(chosen).T * scale  # C = Cᵀ
        columns[chosen, np.arange(len(chosen))] = self.diagonal[chosen]
        return columns


class LinearAutoencoders(Family):
    """Fits every model of one (dropout, ridge) from one inverse."""

    def key(self, model: Model) -> Hashable:
        """The two numbers that C depends on."""
        return _lae(model).dropout, _lae(model).ridge

    def fit(self, models: Sequence[Model], train: sparse.csr_array, ctx: Context) -> list[Scorer]:
        """Invert once, then scale the columns for each model."""
        first = _lae(models[0])
        tiles, diagonals = invert(train, first.dropout, first.ridge, ctx)
        base = ItemItem(tiles)
        solutions = (_lae(model).solve(diagonals) for model in models)
        return [LinearScorer(base, y, tiles=tiles, diagonal=x) for y, x in solutions]

    def operations(self, models: Sequence[Model], train: sparse.csr_array) -> float:
        """Inverting takes n³, in place."""
        return float(train.shape[1]) ** 3


class LinearAutoencoder(OfInverse):
    """A model that is one column scaling of C(p, λ')."""

    family: ClassVar[Family] = LinearAutoencoders()

    def solve(self, inverse: Inverse) -> tuple[Vector, Vector]:
        """Return y, the scale of each column of C, and the diagonal of W."""
        raise TypeError(f"{type(self).__name__} does not say how to scale the columns of C")


def _lae(model: Model) -> LinearAutoencoder:
    """Narrow the type: the runner sends a family nothing but its own models."""
    assert isinstance(model, LinearAutoencoder)
    return model


def zero_diagonal(inverse: Inverse, keep: float = 1.0) -> tuple[Vector, Vector]:
    """Scale the columns so that W has a zero diagonal; `keep` is q = 1 - p."""
    return -1.0 / (keep * inverse.c), np.zeros_like(inverse.c)


@MODELS.register("ease")
@dataclass(frozen=True)
class Ease(LinearAutoencoder):
    """Ridge regression of every item on all others, with a zero diagonal (EASE)."""

    cite = "Steck (2019), Embarrassingly Shallow Autoencoders for Sparse Data"
    l2: float = ridge_param(100.0)

    def solve(self, inverse: Inverse) -> tuple[Vector, Vector]:
        """W_ij = -C_ij / c_j."""
        return zero_diagonal(inverse)


@MODELS.register("ease-debiased")
@dataclass(frozen=True)
class EaseDebiased(Ease):
    """EASE under the debiased contrastive loss, which is EASE at λ / (1 - α)."""

    cite = "(Debiased) Contrastive Learning Loss for Recommendation, theorem 2"
    alpha: float = param(0.0, help="debiasing strength α", low=0, high=1, open_high=True)

    @property
    def ridge(self) -> float:
        """λ / (1 - α)."""
        return self.l2 / (1.0 - self.alpha)


@MODELS.register("dlae")
@dataclass(frozen=True)
class Dlae(LinearAutoencoder):
    """Denoising linear autoencoder: ridge regression on inputs with dropout, diagonal free."""

    cite = "Steck (2020), Autoencoders that don't overfit towards the Identity"
    p: float = dropout_param(0.3)
    l2: float = ridge_param(100.0)

    def solve(self, inverse: Inverse) -> tuple[Vector, Vector]:
        """W = C G = I - C Γ."""
        return -inverse.gamma, 1.0 - inverse.gamma * inverse.c


@MODELS.register("edlae")
@dataclass(frozen=True)
class Edlae(LinearAutoencoder):
    """Emphasised denoising linear autoencoder: only dropped inputs are reconstructed."""

    cite = "Steck (2020), Autoencoders that don't overfit towards the Identity"
    p: float = dropout_param(0.5)
    l2: float = ridge_param(10.0)

    def solve(self, inverse: Inverse) -> tuple[Vector, Vector]:
        """W_ij = -C_ij / (q c_j)."""
        return zero_diagonal(inverse, 1.0 - self.p)


@MODELS.register("rlae")
@dataclass(frozen=True)
class Rlae(LinearAutoencoder):
    """Ridge regression of every item on all, the diagonal of W at most ξ."""

    cite = "Moon et al. (2023), It's Enough: Relaxing Diagonal Constraints in Linear Autoencoders"
    l2: float = ridge_param(100.0)
    xi: float = param(0.5, help="upper bound ξ on the diagonal of W", low=0, high=1,
                      grid=(0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9))  # fmt: skip

    def solve(self, inverse: Inverse) -> tuple[Vector, Vector]:
        """W = I - C (Γ + diagMat μ), where μ >= 0 is what holds W_ii at or below ξ."""
        strength = np.maximum(inverse.gamma, (1.0 - self.xi) / inverse.c)
        return -strength, 1.0 - strength * inverse.c


@MODELS.register("rdlae")
@dataclass(frozen=True)
class Rdlae(Rlae):
    """Denoising linear autoencoder with the diagonal of W at most ξ."""

    p: float = dropout_param(0.3)


@dataclass(frozen=True)
class _Decoupled(LinearAutoencoder):
    """The decoupled expected quadratic loss: weight a on dropped inputs, b on kept ones.

    β = q p a² + q² b² weighs the quadratic part, so the paper's λ acts as λ' = λ / (q β). In
    effective units (b, λ') the inverse does not depend on b.
    """

    cite = "Generalizing Linear Autoencoder Recommenders with Decoupled Expected Quadratic Loss"
    p: float = dropout_param(0.5)
    a: float = param(1.0, help="weight of dropped entries (only b/a matters)", low=0, open_low=True)
    b: float = param(0.5, help="weight of kept entries, relative to a", low=0,
                     grid=(0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0))  # fmt: skip

    @property
    def beta(self) -> float:
        """β = q p a² + q² b²."""
        q = 1.0 - self.p
        return q * self.p * self.a**2 + q**2 * self.b**2

    @property
    def ridge(self) -> float:
        """λ': none in the plain model."""
        return 0.0

    def solve(self, inverse: Inverse) -> tuple[Vector, Vector]:
        """Solve two equations per item for y_i and W_ii.

        -qβ c y + q²b² z = β   and   q²b² (1 - (g + γ) c) y + (q b² g + λ) z = q b² g
        """
        q, b2, beta, c = 1.0 - self.p, self.b**2, self.beta, inverse.c
        total = inverse.g + inverse.gamma
        m11, m12, r1 = -q * beta * c, q * q * b2, beta
        m21 = q * q * b2 * (1.0 - total * c)
        r2 = q * b2 * inverse.g
        m22 = r2 + q * beta * self.ridge
        determinant = m11 * m22 - m12 * m21
        # Without a penalty nothing determines the column of an item that nobody has: leave it 0.
        known = np.where(determinant == 0.0, np.inf, determinant)
        return (r1 * m22 - m12 * r2) / known, (m11 * r2 - m21 * r1) / known


@MODELS.register("deql")
@dataclass(frozen=True)
class Deql(_Decoupled):
    """Decoupled expected quadratic loss without an L2 penalty; b = 0 would be `edlae`."""

    def __post_init__(self) -> None:
        """Refuse b = 0, where the diagonal of W is free."""
        super().__post_init__()
        _refuse_zero_b(self)


@dataclass(frozen=True)
class _Penalised(_Decoupled):
    """Adds the L2 penalty, in the paper's units (`l2`) or in effective ones."""

    l2: float | None = param(None, help="the paper's λ; gives λ' = λ / (q β)", low=0, log=True)
    l2_effective: float | None = param(
        None, help="λ' itself: a grid over b then costs one inverse (default 10)", low=0, log=True
    )

    def __post_init__(self) -> None:
        """Fill in the default penalty and refuse two."""
        super().__post_init__()
        effective = effective_penalty(self.name, self.l2, self.l2_effective, 10.0)
        object.__setattr__(self, "l2_effective", effective)

    @property
    def ridge(self) -> float:
        """λ' = λ / (q β)."""
        if self.l2 is None:
            return float(self.l2_effective or 0.0)
        return self.l2 / ((1.0 - self.p) * self.beta)


@MODELS.register("deql-l2")
@dataclass(frozen=True)
class DeqlL2(_Penalised):
    """Decoupled expected quadratic loss with an L2 penalty."""

    def __post_init__(self) -> None:
        """Refuse b = 0, where the diagonal of W is free."""
        super().__post_init__()
        _refuse_zero_b(self)


@MODELS.register("deql-l2-zero")
@dataclass(frozen=True)
class DeqlL2Zero(_Penalised):
    """The same with a zero diagonal: `edlae` at l2 = λ / (q β)."""

    def solve(self, inverse: Inverse) -> tuple[Vector, Vector]:
        """W_ij = -C_ij / (q c_j)."""
        return zero_diagonal(inverse, 1.0 - self.p)


def _refuse_zero_b(model: _Decoupled) -> None:
    if model.b == 0.0:
        raise UsageError(
            f"{model.name} needs b > 0: at b = 0 the diagonal of W is free; use 'edlae' instead"
        )
