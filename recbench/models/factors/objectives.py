"""The models of `als`: each says what its objective weighs, and nothing about how it is solved."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from recbench.linalg.normal import Terms
from recbench.linalg.types import Counts, Vector
from recbench.models.factors.als import Alternating
from recbench.params import param
from recbench.registry import MODELS


def _l2(default: float) -> Any:
    return param(default, help="penalty λ on the factors", low=0, log=True)


def _beta() -> Any:
    """At β = 1 nothing holds the scores of what was not observed, and there is no minimum."""
    return param(
        0.1, help="share β of the squares that the products are bounded by", low=0, high=1,
        open_high=True,
    )  # fmt: skip


@dataclass(frozen=True)
class _Weighted(Alternating):
    """Every cell weighs c0, an observed one c1 more; the penalty of a row grows with its weights.

    r = λ (c0 cells + c1 interactions)^ν. With ν = 1 every cell brings its share of penalty.
    """

    l2: float = _l2(0.01)
    nu: float = param(1.0, help="exponent ν of a row's weight in its penalty", low=0)

    @property
    def weights(self) -> tuple[float, float, float]:
        """c0, c1 and d1."""
        raise TypeError(f"{type(self).__name__} does not say what it weighs")

    def user_terms(self, lengths: Counts, items: int) -> Terms:
        """The same for every user but for the penalty."""
        everywhere, entry, pull = self.weights
        gram, none = np.full(len(lengths), everywhere), np.zeros(len(lengths))
        return Terms(gram, none, self._ridge(lengths, items), entry, pull)

    def item_ridge(self, lengths: Counts, users: int) -> Vector:
        """As for users."""
        return self._ridge(lengths, users)

    def _ridge(self, lengths: Counts, cells: int) -> Vector:
        everywhere, entry, _ = self.weights
        total: Vector = everywhere * cells + entry * lengths.astype(np.float64)
        with np.errstate(over="ignore"):  # infinity is found in the factors
            return self.l2 * total**self.nu


@MODELS.register("wrmf")
@dataclass(frozen=True)
class Wrmf(_Weighted):
    """WRMF: scores of 1 where observed, with weight 1 + α, and of 0 elsewhere, with weight 1."""

    cite = "Hu, Koren, Volinsky (2008), Collaborative Filtering for Implicit Feedback Datasets"
    alpha: float = param(10.0, help="extra weight α of what was observed", low=0, log=True)
    l2: float = _l2(1.0)
    nu: float = param(0.0, help="exponent ν of a row's weight in its penalty", low=0)

    @property
    def weights(self) -> tuple[float, float, float]:
        """Of Σ (s - y)² + α Σ_observed (s - 1)²."""
        return 1.0, self.alpha, 1.0 + self.alpha


@MODELS.register("ials")
@dataclass(frozen=True)
class Ials(_Weighted):
    """iALS: the squared error of what was observed, and α0 times the square of every score."""

    cite = "Rendle et al. (2022), Revisiting the Performance of iALS"
    alpha0: float = param(0.1, help="weight α0 of every cell", low=0, log=True)

    @property
    def weights(self) -> tuple[float, float, float]:
        """Of Σ_observed (s - 1)² + α0 Σ s²."""
        return self.alpha0, 1.0, 1.0


@MODELS.register("ials-debiased")
@dataclass(frozen=True)
class IalsDebiased(Ials):
    """Debiased iALS: what was observed is left out of the rest, which is iALS at another α0 and λ.

    Its objective divided by c (1 - α0), with scores in units of 1 / (1 - α0), is that of `ials` at
    α0' = α0 / (c (1 - α0)) and λ' = λ (c (1 - α0))^ν / c.
    """

    cite = "(Debiased) Contrastive Learning Loss for Recommendation, theorem 1"
    alpha0: float = param(
        0.1, help="weight α0 of every cell", low=0, high=1, open_high=True, log=True
    )
    c: float = param(1.0, help="weight c of what was observed", low=0, open_low=True, log=True)

    @property
    def weights(self) -> tuple[float, float, float]:
        """Of c Σ_observed [(s - 1)² - α0 s²] + α0 Σ s²."""
        return self.alpha0, self.c * (1.0 - self.alpha0), self.c


@MODELS.register("rg2")
@dataclass(frozen=True)
class Rg2(Alternating):
    """RG²: the softmax loss to second order in the scores, without its products of scores.

    Σ_u w_u Σ_i (s_ui + 1)² - Σ_observed s_ui + α Σ_observed (s_ui - 1)², where w_u = |I_u| / 2n.
    """

    cite = "Pu et al. (2024), Learning-efficient yet generalizable collaborative filtering"
    alpha: float = param(0.1, help="extra weight α of what was observed", low=0, log=True)
    l2: float = _l2(0.1)

    def user_terms(self, lengths: Counts, items: int) -> Terms:
        """Every cell of user u weighs w_u and is pulled to -1."""
        weights = lengths / (2.0 * items)
        ridge = self.l2 * (lengths / 2.0 + self.alpha * items)
        return Terms(weights, weights, ridge, self.alpha, 0.5 + self.alpha)

    def item_ridge(self, lengths: Counts, users: int) -> Vector:
        """λ (Σ w_u + α m), the same for all."""
        total = lengths.sum() / (2.0 * len(lengths)) + self.alpha * users
        return np.full(len(lengths), self.l2 * total)


@MODELS.register("rgx")
@dataclass(frozen=True)
class Rgx(Rg2):
    """RG^x: RG² less a share β of its squares, which stands for the products of scores."""

    cite = "Pu et al. (2025), NDCG-consistent softmax approximation with accelerated convergence"
    beta: float = _beta()

    def user_terms(self, lengths: Counts, items: int) -> Terms:
        """As RG², with 1 - β of the squares."""
        terms = super().user_terms(lengths, items)
        return replace(terms, gram=(1.0 - self.beta) * terms.gram)


@MODELS.register("rg2-matrix")
@dataclass(frozen=True)
class Rg2Matrix(Rg2):
    """RG² with the penalty λ |PQᵀ|² on scores instead of factors.

    In matrix form, with W = diagMat(w) and α = 0, P = (W + λ)⁻¹ (R/2 - w 1ᵀ) Q (QᵀQ)⁻¹ and
    Q = (R/2 - w 1ᵀ)ᵀ P (Pᵀ(W + λ)P)⁻¹: the penalty adds λ to the weight of every cell.
    """

    cite = Rg2.cite + ", appendix A.6"
    l2: float = param(0.001, help="penalty λ on the scores", low=0, log=True)

    def user_terms(self, lengths: Counts, items: int) -> Terms:
        """As RG², with λ more weight on every cell and no penalty on factors."""
        terms = super().user_terms(lengths, items)
        return replace(terms, gram=terms.gram + self.l2, ridge=np.zeros(len(lengths)))

    def item_ridge(self, lengths: Counts, users: int) -> Vector:
        """None."""
        return np.zeros(len(lengths))


@MODELS.register("rg2-ssm")
@dataclass(frozen=True)
class Rg2Ssm(Alternating):
    """RG² of the sampled softmax loss: to second order in the scores, without their products.

    For n negatives drawn at random for every interaction its expectation is, with w_u = |I_u| / 2N
    for N items and but for the products of scores,

        n/(n+1) Σ_u w_u Σ_i (s_ui² + 2 s_ui) + Σ_observed [s_ui² / 2(n+1) - s_ui n/(n+1)].

    So what is observed weighs more, as by α = 1/2n in `rg2`; with n, the weight goes to that of
    `rg2` at α = 0. The penalty of a row is λ times its weights.
    """

    cite = Rgx.cite
    negatives: int = param(100, help="negatives n drawn for each interaction", low=1, log=True)
    l2: float = _l2(0.1)

    def user_terms(self, lengths: Counts, items: int) -> Terms:
        """A user's weights come to |I_u| / 2."""
        drawn, halves = self.negatives / (self.negatives + 1.0), lengths / 2.0
        weights = drawn / items * halves
        return Terms(weights, weights, self.l2 * halves, (1.0 - drawn) / 2.0, drawn / 2.0)

    def item_ridge(self, lengths: Counts, users: int) -> Vector:
        """λ (n/(n+1) Σ w_u + |U_i| / 2(n+1)), for the |U_i| users of an item."""
        drawn = self.negatives / (self.negatives + 1.0)
        everywhere = lengths.sum() / (2.0 * len(lengths))
        ridge: Vector = self.l2 * (drawn * everywhere + (1.0 - drawn) * lengths / 2.0)
        return ridge


@MODELS.register("rgx-ssm")
@dataclass(frozen=True)
class RgxSsm(Rg2Ssm):
    """RG^x of the sampled softmax loss: `rg2-ssm` less a share β of its squares, as in `rgx`."""

    beta: float = _beta()

    def user_terms(self, lengths: Counts, items: int) -> Terms:
        """As `rg2-ssm`, with 1 - β of the squares."""
        terms, rest = super().user_terms(lengths, items), 1.0 - self.beta
        return replace(terms, gram=rest * terms.gram, entry=rest * terms.entry)
