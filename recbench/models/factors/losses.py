"""Quadratic losses: what every cell of the score matrix weighs, and nothing about solving them.

Users have factors P, items Q, scores are S = P Qᵀ. With R the binary train matrix and I_u what
user u has, every loss here is

    Σ_u [c0_u |s_u|² + c1 Σ_{i∈I_u} s_ui² - 2 d1 Σ_{i∈I_u} s_ui + 2 d0_u Σ_i s_ui]
        + Σ_u r_u |p_u|² + Σ_i r_i |q_i|²                                              (1)

up to a constant: it is 0 where all scores are. An `Objective` says what c0, c1, d1, d0 and r are;
`als` solves it.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from recbench.linalg.normal import Terms
from recbench.linalg.types import Counts, Vector
from recbench.params import Described, param
from recbench.registry import LOSSES


class Objective(Protocol):
    """The coefficients of (1)."""

    def user_terms(self, lengths: Counts, items: int) -> Terms:
        """Those of users with so many interactions each, among so many items."""

    def item_ridge(self, lengths: Counts, users: int) -> Vector:
        """The r of items with so many interactions each, among so many users."""


class QuadraticLoss(Described, ABC):
    """Parameters, frozen, of a loss of the form (1). Subclasses are dataclasses under a name."""

    formula: ClassVar[str] = ""
    """What it is in all, but for the penalty of factors, in one line."""
    symbols: ClassVar[str] = (
        "of all users u and items j, penalty left out; (u, i): interactions; s_uj: score; "
        "n: number of items; I_u: items of u; w_u = |I_u| / 2n; N: negatives"
    )
    """What the signs in formulas mean."""
    cite: ClassVar[str] = ""

    @property
    @abstractmethod
    def objective(self) -> Objective:
        """What these parameters make of (1)."""


def _l2(default: float) -> Any:
    return param(default, help="penalty λ on the factors", low=0, log=True)


def _nu(default: float) -> Any:
    return param(default, help="exponent ν of a row's weight in its penalty", low=0)


def _alpha(default: float) -> Any:
    return param(default, help="extra weight α of what was observed", low=0, log=True)


def _beta() -> Any:
    """At β = 1 nothing holds the scores of what was not observed, and there is no minimum."""
    return param(
        0.1, help="share β of the squares that the products are bounded by", low=0, high=1,
        open_high=True,
    )  # fmt: skip


@dataclass(frozen=True)
class Weighted:
    """Every cell weighs c0, an observed one c1 more; the penalty of a row grows with its weights.

    r = λ (c0 cells + c1 interactions)^ν. With ν = 1 every cell brings its share of penalty.
    """

    everywhere: float
    entry: float
    pull: float
    l2: float
    nu: float

    def user_terms(self, lengths: Counts, items: int) -> Terms:
        """The same for every user but for the penalty."""
        gram, none = np.full(len(lengths), self.everywhere), np.zeros(len(lengths))
        return Terms(gram, none, self.item_ridge(lengths, items), self.entry, self.pull)

    def item_ridge(self, lengths: Counts, users: int) -> Vector:
        """The same rule for both sides: cells are users here, and items there."""
        total: Vector = self.everywhere * users + self.entry * lengths.astype(np.float64)
        with np.errstate(over="ignore"):  # infinity is found in the factors
            return self.l2 * total**self.nu


@LOSSES.register("wrmf")
@dataclass(frozen=True)
class Wrmf(QuadraticLoss):
    """WRMF: scores of 1 where observed, with weight 1 + α, and of 0 elsewhere, with weight 1."""

    formula = "Σ_u Σ_j s_uj² + Σ_(u,i) [(1 + α) (1 - s_ui)² - s_ui²]"
    cite = "Hu, Koren, Volinsky (2008), Collaborative Filtering for Implicit Feedback Datasets"
    l2: float = _l2(1.0)
    nu: float = _nu(0.0)
    alpha: float = _alpha(10.0)

    @property
    def objective(self) -> Objective:
        """Σ (s - y)² + α Σ_observed (s - 1)²."""
        return Weighted(1.0, self.alpha, 1.0 + self.alpha, self.l2, self.nu)


@LOSSES.register("ials")
@dataclass(frozen=True)
class Ials(QuadraticLoss):
    """iALS: the squared error of what was observed, and α0 times the square of every score."""

    formula = "Σ_(u,i) (1 - s_ui)² + α0 Σ_u Σ_j s_uj²"
    cite = "Rendle et al. (2022), Revisiting the Performance of iALS"
    l2: float = _l2(0.01)
    nu: float = _nu(1.0)
    alpha0: float = param(0.1, help="weight α0 of every cell", low=0, log=True)

    @property
    def objective(self) -> Objective:
        """Σ_observed (s - 1)² + α0 Σ s²."""
        return Weighted(self.alpha0, 1.0, 1.0, self.l2, self.nu)


@LOSSES.register("ials-debiased")
@dataclass(frozen=True)
class IalsDebiased(QuadraticLoss):
    """Debiased iALS: what was observed is left out of the rest, which is iALS at another α0 and λ.

    Its objective divided by c (1 - α0), with scores in units of 1 / (1 - α0), is that of `ials` at
    α0' = α0 / (c (1 - α0)) and λ' = λ (c (1 - α0))^ν / c.
    """

    formula = "c Σ_(u,i) [(1 - s_ui)² - α0 s_ui²] + α0 Σ_u Σ_j s_uj²"
    cite = "(Debiased) Contrastive Learning Loss for Recommendation, theorem 1"
    l2: float = _l2(0.01)
    nu: float = _nu(1.0)
    alpha0: float = param(
        0.1, help="weight α0 of every cell", low=0, high=1, open_high=True, log=True
    )
    c: float = param(1.0, help="weight c of what was observed", low=0, open_low=True, log=True)

    @property
    def objective(self) -> Objective:
        """Of c Σ_observed [(s - 1)² - α0 s²] + α0 Σ s²."""
        return Weighted(self.alpha0, self.c * (1.0 - self.alpha0), self.c, self.l2, self.nu)


@dataclass(frozen=True)
class RankingSquares:
    """Every cell of user u weighs w_u = |I_u| / 2n and is pulled to -1, observed ones α to 1."""

    alpha: float
    l2: float

    def user_terms(self, lengths: Counts, items: int) -> Terms:
        """Σ_u w_u Σ_i (s_ui + 1)² - Σ_observed s_ui + α Σ_observed (s_ui - 1)²."""
        weights = lengths / (2.0 * items)
        ridge = self.l2 * (lengths / 2.0 + self.alpha * items)
        return Terms(weights, weights, ridge, self.alpha, 0.5 + self.alpha)

    def item_ridge(self, lengths: Counts, users: int) -> Vector:
        """λ (Σ w_u + α m), the same for all."""
        total = lengths.sum() / (2.0 * len(lengths)) + self.alpha * users
        return np.full(len(lengths), self.l2 * total)


@dataclass(frozen=True)
class SampledSquares:
    """The expectation of the same for n negatives drawn with every interaction."""

    negatives: int
    l2: float

    @property
    def drawn(self) -> float:
        """The share n / (n + 1) of negatives."""
        return self.negatives / (self.negatives + 1.0)

    def user_terms(self, lengths: Counts, items: int) -> Terms:
        """A user's weights come to |I_u| / 2."""
        halves = lengths / 2.0
        weights = self.drawn / items * halves
        return Terms(weights, weights, self.l2 * halves, (1.0 - self.drawn) / 2.0, self.drawn / 2.0)

    def item_ridge(self, lengths: Counts, users: int) -> Vector:
        """λ (n/(n+1) Σ w_u + |U_i| / 2(n+1)), for the |U_i| users of an item."""
        everywhere = lengths.sum() / (2.0 * len(lengths))
        ridge: Vector = self.l2 * (self.drawn * everywhere + (1.0 - self.drawn) * lengths / 2.0)
        return ridge


@LOSSES.register("rg2")
@dataclass(frozen=True)
class Rg2(QuadraticLoss):
    """RG²: the softmax loss to second order in the scores, without its products of scores.

    Σ_u w_u Σ_i (s_ui + 1)² - Σ_observed s_ui + α Σ_observed (s_ui - 1)², where w_u = |I_u| / 2n.
    """

    formula = "Σ_u w_u Σ_j (s_uj + 1)² - Σ_(u,i) s_ui + α Σ_(u,i) (s_ui - 1)²"
    cite = "Pu et al. (2024), Learning-efficient yet generalizable collaborative filtering"
    alpha: float = param(0.1, help="extra weight α of what was observed", low=0, log=True)
    l2: float = _l2(0.1)

    @property
    def objective(self) -> Objective:
        """The squares alone."""
        return RankingSquares(self.alpha, self.l2)


@dataclass(frozen=True)
class Bounded:
    """Another objective less a share β of its squares, which stands for the products of scores."""

    of: Objective
    beta: float
    entries: bool = False
    """Whether what observed cells weigh more is among those squares."""

    def user_terms(self, lengths: Counts, items: int) -> Terms:
        """Those of the other, with 1 - β of the squares."""
        terms, rest = self.of.user_terms(lengths, items), 1.0 - self.beta
        entry = rest * terms.entry if self.entries else terms.entry
        return replace(terms, gram=rest * terms.gram, entry=entry)

    def item_ridge(self, lengths: Counts, users: int) -> Vector:
        """That of the other."""
        return self.of.item_ridge(lengths, users)


@LOSSES.register("rgx")
@dataclass(frozen=True)
class Rgx(QuadraticLoss):
    """RG^x: RG² less a share β of its squares, which stands for the products of scores."""

    formula = "Σ_u w_u Σ_j [(1 - β) s_uj² + 2 s_uj] - Σ_(u,i) s_ui + α Σ_(u,i) (s_ui - 1)²"
    cite = "Pu et al. (2025), NDCG-consistent softmax approximation with accelerated convergence"
    alpha: float = _alpha(0.1)
    l2: float = _l2(0.1)
    beta: float = _beta()

    @property
    def objective(self) -> Objective:
        """The squares, bounded."""
        return Bounded(RankingSquares(self.alpha, self.l2), self.beta)


@dataclass(frozen=True)
class OnScores:
    """Another objective with the penalty λ |PQᵀ|² on scores instead of factors."""

    of: Objective
    l2: float

    def user_terms(self, lengths: Counts, items: int) -> Terms:
        """Those of the other, with λ more weight on every cell and no penalty on factors."""
        terms = self.of.user_terms(lengths, items)
        return replace(terms, gram=terms.gram + self.l2, ridge=np.zeros(len(lengths)))

    def item_ridge(self, lengths: Counts, users: int) -> Vector:
        """None."""
        return np.zeros(len(lengths))


@LOSSES.register("rg2-matrix")
@dataclass(frozen=True)
class Rg2Matrix(QuadraticLoss):
    """RG² with the penalty λ |PQᵀ|² on scores instead of factors.

    In matrix form, with W = diagMat(w) and α = 0, P = (W + λ)⁻¹ (R/2 - w 1ᵀ) Q (QᵀQ)⁻¹ and
    Q = (R/2 - w 1ᵀ)ᵀ P (Pᵀ(W + λ)P)⁻¹: the penalty adds λ to the weight of every cell.
    """

    formula = "Σ_u w_u Σ_j (s_uj + 1)² - Σ_(u,i) s_ui + α Σ_(u,i) (s_ui - 1)² + λ Σ_u Σ_j s_uj²"
    cite = Rg2.cite + ", appendix A.6"
    alpha: float = _alpha(0.1)
    l2: float = param(0.001, help="penalty λ on the scores", low=0, log=True)

    @property
    def objective(self) -> Objective:
        """The squares, and the penalty among them."""
        return OnScores(RankingSquares(self.alpha, 0.0), self.l2)


@LOSSES.register("rg2-ssm")
@dataclass(frozen=True)
class Rg2Ssm(QuadraticLoss):
    """RG² of the sampled softmax loss: to second order in the scores, without their products.

    For n negatives drawn at random for every interaction its expectation is, with w_u = |I_u| / 2N
    for N items and but for the products of scores,

        n/(n+1) Σ_u w_u Σ_i (s_ui² + 2 s_ui) + Σ_observed [s_ui² / 2(n+1) - s_ui n/(n+1)].

    So what is observed weighs more, as by α = 1/2n in `rg2`; with n, the weight goes to that of
    `rg2` at α = 0. The penalty of a row is λ times its weights.
    """

    formula = "N / (N + 1) [Σ_u w_u Σ_j (s_uj² + 2 s_uj) - Σ_(u,i) s_ui] + Σ_(u,i) s_ui² / 2(N + 1)"
    cite = Rgx.cite
    negatives: int = param(100, help="negatives n drawn for each interaction", low=1, log=True)
    l2: float = _l2(0.1)

    @property
    def objective(self) -> Objective:
        """The squares that are expected."""
        return SampledSquares(self.negatives, self.l2)


@LOSSES.register("rgx-ssm")
@dataclass(frozen=True)
class RgxSsm(QuadraticLoss):
    """RG^x of the sampled softmax loss: `rg2-ssm` less a share β of its squares, as in `rgx`."""

    formula = "N / (N + 1) [Σ_u w_u Σ_j ((1 - β) s_uj² + 2 s_uj) - Σ_(u,i) s_ui] + (1 - β) Σ_(u,i) s_ui² / 2(N + 1)"  # noqa: E501
    cite = Rgx.cite
    negatives: int = param(100, help="negatives n drawn for each interaction", low=1, log=True)
    l2: float = _l2(0.1)
    beta: float = _beta()

    @property
    def objective(self) -> Objective:
        """The squares that are expected, bounded."""
        return Bounded(SampledSquares(self.negatives, self.l2), self.beta, entries=True)
