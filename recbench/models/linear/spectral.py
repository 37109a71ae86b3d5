"""Models that shrink singular values: one decomposition for all of them, any rank and any penalty.

With R = U diagMat(σ) Vᵀ, every model here is W = V_k diagMat(h(σ)) V_kᵀ. The singular vectors come
from G = RᵀR = V diagMat(σ²) Vᵀ, once for the largest rank of a whole grid; a smaller rank is
fewer columns of V and another penalty is another h. For users of the train matrix R W is
U diagMat(σ h) Vᵀ, the matrix that factorisation models look for; W folds in any other user.
"""

import hashlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from recbench.errors import DataError, UsageError
from recbench.linalg import eigen
from recbench.linalg.thin import GramProduct
from recbench.linalg.types import Matrix, Sparse, Vector
from recbench.models.base import Family, Model
from recbench.models.context import Context
from recbench.models.linear.inverse import ridge_param
from recbench.models.linear.subspace import FEWER, Subspace, rank_param
from recbench.models.scorers import Scorer
from recbench.params import Described, inlined, param
from recbench.registry import MODELS

FIRST = 64
"""Singular values looked at before it is known how many dropout leaves."""


class Shrinking(Protocol):
    """A model that is one function of the singular values."""

    @property
    def k(self) -> int | None:
        """How many of them it looks at; None: until one is shrunk to nothing."""

    def shrink(self, sigma: Vector) -> Vector:
        """Return h, each in [0, 1], of these positive, descending values or the leading ones."""


class Spectral(Family[Shrinking]):
    """Fits every model that shrinks singular values from one decomposition."""

    reserves = True

    def key(self, model: Shrinking) -> Hashable:
        """All of them need the same thing, more or less of it."""
        return "singular vectors"

    def fit(self, models: Sequence[Shrinking], train: Sparse, ctx: Context) -> list[Scorer]:
        """Decompose once, then shrink for each model."""
        sigma, vectors = singular(train, models, ctx)
        shrinkages = [model.shrink(sigma[: model.k]) for model in models]
        bases = Subspace.of(vectors, vectors, ctx.dtype).bases(shrinkages)
        return [Scorer(base, facts={"induced rank": base.rank}) for base in bases]


def singular(train: Sparse, models: Sequence[Shrinking], ctx: Context) -> tuple[Vector, Matrix]:
    """The leading singular values that are not zero and their right vectors, enough for all."""
    most, items = min(train.shape), train.shape[1]
    operator, pairs = GramProduct(train), None
    open_ended = [model for model in models if model.k is None]
    k = min(most, max(model.k or FIRST for model in models))
    while True:
        if eigen.in_full(items, k) and open_ended:
            k = most  # they come with the others, at no cost
        ctx.reserve(eigen.bytes_needed(items, k), f"{k:,} of {items:,} singular vectors", FEWER)
        pairs = eigen.leading(
            operator, items, k, start=pairs, advice=FEWER,
            progress=partial(ctx.progress, "singular vectors"),
        )  # fmt: skip
        sigma = _positive(pairs.values, items)
        enough = all(len(model.shrink(sigma)) < len(sigma) for model in open_ended)
        if len(sigma) < k or k == most or enough:
            return sigma, pairs.vectors[:, : len(sigma)]
        k = min(most, 2 * k)


def _positive(values: Vector, n: int) -> Vector:
    """Square roots of the eigenvalues that are not zero but for rounding errors."""
    noise = n * np.finfo(np.float64).eps * values[0]
    return np.asarray(np.sqrt(values[values > max(noise, 0.0)]))


def _power(low: float) -> Any:
    return param(1.0, help="how fast weights rise as σ falls: λ_i = l2 (σ_1 / σ_i)^power",
                 low=low, high=4, search=(max(low, -2), 1))  # fmt: skip


def weights(sigma: Vector, l2: float, power: float) -> Vector:
    """λ_i = λ (σ_1 / σ_i)^power: two numbers for any rank, and λ_1 = λ."""
    return l2 * (sigma[:1] / sigma) ** power


@dataclass(frozen=True)
class Listed(Described):
    """A number of its own for every direction, from a file; or none, which leaves a formula."""

    weights: str = param(
        "", help="a file of numbers, one for each direction, that take the place of the formula",
        later=True,
    )  # fmt: skip
    content: str = param("", help="start of the SHA-256 of those numbers; filled in", later=True)

    def __post_init__(self) -> None:
        """Name the content, so that a changed file is another trial."""
        super().__post_init__()
        object.__setattr__(self, "content", self._read()[0] if self.weights else "")

    def first(self, k: int) -> Vector | None:
        """The numbers of the first k directions; None without a file."""
        if not self.weights:
            return None
        numbers = self._read()[1]
        if len(numbers) < k:
            raise UsageError(f"{self.weights} has {len(numbers):,} numbers, and {k:,} are needed")
        return numbers[:k]

    def _read(self) -> tuple[str, Vector]:
        """The digest and the numbers; an error if they are not those of the digest given."""
        try:
            raw = Path(self.weights).read_bytes()
            numbers = np.array(raw.split(), np.float64)
        except OSError as error:
            raise DataError(f"{self.weights} cannot be read ({error.strerror})") from error
        except ValueError as error:
            raise DataError(f"{self.weights} does not hold numbers alone ({error})") from error
        digest = hashlib.sha256(raw).hexdigest()[:12]
        if self.content not in ("", digest):
            raise DataError(f"{self.weights} is not the file that gave those results; it changed")
        if not (numbers >= 0.0).all() or not np.isfinite(numbers).all():
            raise DataError(f"{self.weights} must hold numbers from 0 on")
        return digest, numbers


def soft(sigma: Vector, thresholds: Vector | float) -> Vector:
    """Soft thresholding, (σ - μ)₊ / σ."""
    return np.maximum(1.0 - thresholds / sigma, 0.0)


def ridge(sigma: Vector, penalties: Vector | float) -> Vector:
    """Ridge regression, σ² / (σ² + λ)."""
    squares = sigma**2
    return squares / (squares + penalties)


def nuclear_weights(sigma: Vector, penalties: Vector | float) -> Vector:
    """The thresholds μ_i = λ_i σ_i / (σ_i² + λ_i) that shrink as ridge penalties λ_i do.

    Proposition 1 of the landscape paper. Equal λ give μ that rise as σ falls to √λ, and fall with
    it below.
    """
    return penalties * sigma / (sigma**2 + penalties)


def induced_rank(sigma: Vector, p: float) -> tuple[int, float]:
    """The largest d with σ_d > μ_d = (1-p) / (p + (1-p) d) Σ_{i<=d} σ_i, and μ_d.

    σ_d > μ_d says p σ_d > (1-p) Σ_{i<=d} (σ_i - σ_d): the left side falls with d and the right
    one rises, so all that fulfil it come first.
    """
    d = np.arange(1, len(sigma) + 1)
    thresholds = (1.0 - p) / (p + (1.0 - p) * d) * np.cumsum(sigma)
    rank = int(np.count_nonzero(sigma > thresholds))
    return rank, float(thresholds[rank - 1]) if rank else 0.0


def power_threshold(sigma: Vector, l2: float, power: float) -> float:
    """The μ that minimises ‖R - A‖² + 2λ ‖A‖_*^power if all σ fall by it.

    There μ = λ power ‖A‖_*^(power - 1). The right side, of Σ (σ_i - μ)₊, falls as μ rises to σ_1.
    """
    if power == 1.0:
        return l2
    low, high = 0.0, float(sigma[0])
    while low < (middle := (low + high) / 2) < high:
        norm = float(np.maximum(sigma - middle, 0.0).sum())
        if middle < l2 * power * norm ** (power - 1.0):
            low = middle
        else:
            high = middle
    return low


@MODELS.register("regularized-pca")
@dataclass(frozen=True)
class RegularizedPca(Model):
    """Matrix factorisation with an L2 penalty on both factors, solved exactly."""

    cite = "On the Regularization Landscape for the Linear Recommendation Models"
    family = Spectral()
    k: int = rank_param("the rank of the data")
    l2: float = param(5.0, help="penalty λ on both factors; what σ is lowered by", low=0, log=True,
                      search=(0.1, 20))  # fmt: skip
    norm_power: float = param(
        1.0, help="of the nuclear norm in ‖R - A‖² + 2λ ‖A‖_*^power", low=1, high=4, later=True
    )

    def shrink(self, sigma: Vector) -> Vector:
        """Minimise ‖R - PQᵀ‖² + λ (‖P‖² + ‖Q‖²), or a power: every singular value falls by μ."""
        return soft(sigma, power_threshold(sigma, self.l2, self.norm_power))


@MODELS.register("mf-dropout")
@dataclass(frozen=True)
class MfDropout(Model):
    """Matrix factorisation with dropout on the factors; the rank follows from p."""

    cite = "Cavazza et al. (2018), Dropout as a Low-Rank Regularizer for Matrix Factorization"
    family = Spectral()
    k: ClassVar[None] = None
    p: float = param(
        0.99, help="probability that a lone factor is kept", low=0, high=1, open_low=True,
        open_high=True,
        grid=(0.9, 0.99, 0.995, 0.996, 0.997, 0.998, 0.999, 0.9995, 0.9999, 0.99995),
    )  # fmt: skip

    def shrink(self, sigma: Vector) -> Vector:
        """Minimise ‖R - A‖² + (1-p)/p ‖A‖_*²: d singular values fall by μ_d, the others go."""
        rank, threshold = induced_rank(sigma, self.p)
        return soft(sigma[:rank], threshold)


@MODELS.register("vlae")
@dataclass(frozen=True)
class Vlae(Model):
    """Linear variational autoencoder: factors are penalised more the weaker their direction."""

    cite = "Lucas et al. (2019), Don't Blame the ELBO! A Linear VAE Perspective"
    family = Spectral()
    k: int = rank_param("the rank of the data")
    c: float = param(100.0, help="weights are λ_i = c / σ_i", low=0, log=True, search=(1, 1000))
    listed: Listed = inlined(Listed)

    def shrink(self, sigma: Vector) -> Vector:
        """Minimise ‖R - PQᵀ‖² + Σ λ_i (‖p_i‖² + ‖q_i‖²): the largest σ gets the smallest weight."""
        own = self.listed.first(self.k)
        return soft(sigma, self.c / sigma if own is None else self.c * np.sort(own)[: len(sigma)])


@MODELS.register("wlae")
@dataclass(frozen=True)
class Wlae(Model):
    """Linear autoencoder with a weighted L2 penalty on encoder and decoder."""

    cite = "Bao et al. (2020), Regularized Linear Autoencoders Recover the Principal Components"
    family = Spectral()
    k: int = rank_param("the rank of the data")
    l2: float = param(100.0, help="smallest weight λ", low=0, log=True, search=(1, 1000))
    power: float = _power(0)
    listed: Listed = inlined(Listed)

    def shrink(self, sigma: Vector) -> Vector:
        """Minimise ‖R - R A Bᵀ‖² + Σ λ_i (‖a_i‖² + ‖b_i‖²): h = (1 - λ_i / σ_i²)₊.

        At its minimum the largest σ has the smallest weight, whatever order they are given in.
        """
        own, penalties = self.listed.first(self.k), weights(sigma, self.l2, self.power)
        if own is not None:
            penalties = self.l2 * np.sort(own)[: len(sigma)]
        return np.maximum(1.0 - penalties / sigma**2, 0.0)


@MODELS.register("lrr")
@dataclass(frozen=True)
class Lrr(Model):
    """Ridge regression of all items on all items, of low rank."""

    cite = "On the Regularization Landscape for the Linear Recommendation Models"
    family = Spectral()
    k: int = rank_param("the rank of the data")
    l2: float = ridge_param(100.0)

    def shrink(self, sigma: Vector) -> Vector:
        """Minimise ‖R - RW‖² + λ ‖W‖² over W of rank k."""
        return ridge(sigma, self.l2)


@MODELS.register("lrr-weighted")
@dataclass(frozen=True)
class LrrWeighted(Model):
    """Low-rank ridge regression with a penalty of its own for every singular direction."""

    cite = Lrr.cite
    family = Spectral()
    k: int = rank_param("the rank of the data")
    l2: float = ridge_param(100.0)
    power: float = _power(-4)
    listed: Listed = inlined(Listed)

    def shrink(self, sigma: Vector) -> Vector:
        """Minimise ‖R - RW‖² + Σ λ_i ‖v_iᵀ W‖² over W of the first k directions."""
        own = self.listed.first(self.k)
        if own is not None:
            return ridge(sigma, self.l2 * own[: len(sigma)])
        return ridge(sigma, weights(sigma, self.l2, self.power))


@MODELS.register("mf-sorted")
@dataclass(frozen=True)
class MfSorted(Model):
    """Matrix factorisation with the weights that would make it `lrr-weighted`, if it could.

    Its optimum puts the smallest weight on the largest σ, whatever order they are given in.
    """

    cite = LrrWeighted.cite
    family = Spectral()
    k: int = rank_param("the rank of the data")
    l2: float = ridge_param(100.0)
    power: float = _power(-4)

    def shrink(self, sigma: Vector) -> Vector:
        """Map the penalties to thresholds (proposition 1), then sort them."""
        return soft(sigma, np.sort(nuclear_weights(sigma, weights(sigma, self.l2, self.power))))
