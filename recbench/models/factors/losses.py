"""Quadratic losses by name: their parameters, formulas and papers.

A loss says which of the `objectives` it is with the parameters it has; `als` solves that.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from recbench.errors import UsageError
from recbench.linalg.normal import Terms
from recbench.models.factors.objectives import (
    Bounded,
    Contrasted,
    Objective,
    OnScores,
    RankingSquares,
    SampledSquares,
    Weighted,
    WithProducts,
)
from recbench.params import Described, param
from recbench.registry import LOSSES

RG2 = (
    "Pu et al. (2024), Learning-Efficient Yet Generalizable Collaborative Filtering for Item "
    "Recommendation"
)


class QuadraticLoss(Described, ABC):
    """Parameters, frozen, of a loss. Subclasses are dataclasses under a name."""

    formula: ClassVar[str] = ""
    """What it is in all, but for the penalty of factors, in one line."""
    symbols: ClassVar[str] = (
        "of all users u and items j, penalty left out; (u, i): interactions; s_uj: score; "
        "n: number of items; I_u: items of u; w_u = |I_u| / 2n; N: negatives; "
        "v_j: 1 or, with a popularity γ, n |U_j|^γ / Σ_k |U_k|^γ; U_j: users of j"
    )
    """What the signs in formulas mean."""
    cite: ClassVar[str] = ""

    @property
    @abstractmethod
    def objective(self) -> Objective:
        """What these parameters make of (1) there."""


def check_quadratic(loss: object) -> None:
    """Refuse a loss that only gradients minimise."""
    if not isinstance(loss, QuadraticLoss):
        raise UsageError(f"the loss {loss} is not a quadratic one: mf[loss={loss}] trains it")


def check_one_objective(loss: QuadraticLoss, terms: Terms) -> None:
    """Refuse equations that belong to no one objective, which only least squares can solve."""
    if terms.answer != 1.0:
        raise UsageError(
            f"{loss} is no loss: its users and items minimise different ones; "
            f"als[loss={loss}] solves its equations"
        )


def goal_of(loss: QuadraticLoss, factors: int, layers: int = 0) -> str:
    """What is minimised where vectors of so many factors, spread on a graph or not, have a loss."""
    return f"{loss.text} of {factors} factors on {layers} layers"


def _l2(default: float, low: float, high: float) -> Any:
    return param(default, help="penalty λ on the factors", low=0, log=True, search=(low, high))


def _nu(default: float) -> Any:
    return param(default, help="exponent ν of a row's weight in its penalty", low=0)


def _alpha(default: float, low: float, high: float) -> Any:
    return param(
        default, help="extra weight α of what was observed", low=0, log=True, search=(low, high)
    )


def _popularity() -> Any:
    """As negatives are often drawn, and He et al. (2016, eALS) weigh missing data."""
    return param(
        0.0, help="items count among the negatives by their interactions to this power", low=0,
        later=True,
    )  # fmt: skip


def _drawn() -> Any:
    return param(
        100, help="negatives n drawn for each interaction", low=1, log=True, search=(10, 1000)
    )


def _variant(differs: str) -> Any:
    return param(
        "loss", help=f"what the loss asks for, or what the authors' code does: {differs}",
        choices=("loss", "code"), later=True,
    )  # fmt: skip


def _beta() -> Any:
    """At β = 1 nothing holds the scores of what was not observed, and there is no minimum."""
    return param(
        0.1, help="share β of the squares that the products are bounded by", low=0, high=1,
        open_high=True, search=(0, 0.5),
    )  # fmt: skip


@LOSSES.register("wrmf")
@dataclass(frozen=True)
class Wrmf(QuadraticLoss):
    """WRMF: scores of 1 where observed, with weight 1 + α, and of 0 elsewhere, with weight 1."""

    formula = "Σ_u Σ_j v_j s_uj² + Σ_(u,i) [(1 + α) (1 - s_ui)² - s_ui²]"
    cite = "Hu, Koren, Volinsky (2008), Collaborative Filtering for Implicit Feedback Datasets"
    l2: float = _l2(1.0, 0.1, 100)
    nu: float = _nu(0.0)
    alpha: float = _alpha(10.0, 1, 300)
    popularity: float = _popularity()

    @property
    def objective(self) -> Objective:
        """Σ (s - y)² + α Σ_observed (s - 1)²."""
        pull, power = 1.0 + self.alpha, self.popularity
        return Weighted(1.0, self.alpha, pull, self.l2, self.nu, popularity=power)


@LOSSES.register("ials")
@dataclass(frozen=True)
class Ials(QuadraticLoss):
    """iALS: the squared error of what was observed, and α0 times the square of every score."""

    formula = "Σ_(u,i) (1 - s_ui)² + α0 Σ_u Σ_j v_j s_uj²"
    cite = "Rendle et al. (2022), Revisiting the Performance of iALS"
    l2: float = _l2(0.01, 0.0001, 0.1)
    nu: float = _nu(1.0)
    alpha0: float = param(0.1, help="weight α0 of every cell", low=0, log=True, search=(0.003, 1))
    popularity: float = _popularity()

    @property
    def objective(self) -> Objective:
        """Σ_observed (s - 1)² + α0 Σ s²."""
        return Weighted(self.alpha0, 1.0, 1.0, self.l2, self.nu, popularity=self.popularity)


@LOSSES.register("ials-debiased")
@dataclass(frozen=True)
class IalsDebiased(QuadraticLoss):
    """Debiased iALS: what was observed is left out of the rest.

    Σ_u c_u Σ_observed [(s - 1)² - α0 s²] + α0 Σ s², where c_u = c (1 + K / |I_u|), and the penalty
    of `ials`. With `penalty=weights` that penalty is of the weights that cells have here, and at
    K = 0 the model is an `ials`: the objective divided by c (1 - α0), with scores in units of
    1 / (1 - α0), is that at α0' = α0 / (c (1 - α0)) and λ' = λ (c (1 - α0))^ν / c.
    """

    formula = "Σ_(u,i) c_u [(1 - s_ui)² - α0 s_ui²] + α0 Σ_u Σ_j s_uj², c_u = c (1 + K / |I_u|)"
    cite = "(Debiased) Contrastive Learning Loss for Recommendation, theorem 1"
    revision = 2
    l2: float = _l2(0.01, 0.0001, 0.1)
    nu: float = _nu(1.0)
    alpha0: float = param(
        0.1, help="weight α0 of every cell", low=0, high=1, open_high=True, log=True,
        search=(0.003, 0.9),
    )  # fmt: skip
    c: float = param(1.0, help="weight c of what was observed", low=0, open_low=True, log=True)
    unknown: float = param(
        0.0, help="K of c_u = c (1 + K / |I_u|): items a user would like that nobody saw", low=0,
        later=True,
    )  # fmt: skip
    penalty: str = param(
        "printed", help="λ (|I_u| + α0 n)^ν as printed, or λ (c (1 - α0) |I_u| + α0 n)^ν",
        choices=("printed", "weights"), later=True,
    )  # fmt: skip

    @property
    def objective(self) -> Objective:
        """Of Σ_u c_u Σ_observed [(s - 1)² - α0 s²] + α0 Σ s²."""
        entry, counted = self.c * (1.0 - self.alpha0), 1.0 if self.penalty == "printed" else None
        return Weighted(
            self.alpha0, entry, self.c, self.l2, self.nu, counted=counted, unknown=self.unknown
        )


@LOSSES.register("mse")
@dataclass(frozen=True)
class Mse(QuadraticLoss):
    """The squared error of what was observed, and of negatives drawn for every interaction.

    Twice Σ_observed [½ (1 - s)² + ½ w Σ_drawn s²], for N negatives drawn from all items by their
    chances v_i / n, is Σ_observed (1 - s)² + (wN / n) Σ_u |I_u| Σ_i v_i s_ui² in expectation.
    """

    formula = "Σ_(u,i) (1 - s_ui)² + wN / n Σ_u |I_u| Σ_j v_j s_uj²"
    cite = "(Debiased) Contrastive Learning Loss for Recommendation, the pointwise losses"
    negatives: float = param(
        20.0, help="wN: negatives for each interaction times their weight", low=0, log=True,
        search=(2, 200),
    )  # fmt: skip
    l2: float = _l2(1.0, 0.03, 3)
    popularity: float = _popularity()

    @property
    def objective(self) -> Objective:
        """The expectation."""
        return Contrasted(self.negatives, self.l2, popularity=self.popularity)


@LOSSES.register("mse-debiased")
@dataclass(frozen=True)
class MseDebiased(QuadraticLoss):
    """`mse`, with what may be expected of a user's likes taken out of the negatives.

    Σ_observed {τ_u (1 - s)² + w [mean of s² over the negatives - τ_u mean of s_uk² over I_u]} in
    expectation, where τ_u = ((1 + α) |I_u| + K) / n is the share of the items that the user would
    like: Σ_u [τ_u Σ_observed (1 - s)² + (w |I_u| / n) Σ_i s_ui² - w τ_u Σ_observed s²].
    """

    formula = "Σ_(u,i) τ_u [(1 - s_ui)² - w s_ui²] + w / n Σ_u |I_u| Σ_j s_uj², τ_u = ((1 + α) |I_u| + K) / n"  # noqa: E501
    cite = Mse.cite
    weight: float = param(0.05, help="weight w of the negatives", low=0, high=1, log=True,
                          search=(0.003, 0.6))  # fmt: skip
    alpha: float = param(0.0, help="α: likes that nobody saw, as a share of those seen", low=0)
    unknown: float = param(0.0, help="K: such likes, the same number for every user", low=0)
    l2: float = _l2(0.001, 0.00001, 0.01)

    @property
    def objective(self) -> Objective:
        """The expectation."""
        return Contrasted(
            self.weight, self.l2, 1.0 - self.weight, scale=1.0 + self.alpha, unknown=self.unknown
        )


@LOSSES.register("rg2")
@dataclass(frozen=True)
class Rg2(QuadraticLoss):
    """RG²: the softmax loss to second order in the scores, without its products of scores.

    Σ_u w_u Σ_i (s_ui + 1)² - Σ_observed s_ui + α Σ_observed (s_ui - 1)², where w_u = |I_u| / 2n.
    """

    formula = "Σ_u w_u Σ_j (s_uj + 1)² - Σ_(u,i) s_ui + α Σ_(u,i) (s_ui - 1)²"
    cite = RG2
    alpha: float = _alpha(0.03, 0.001, 1)
    l2: float = _l2(0.001, 0.00001, 0.1)
    variant: str = _variant("another sign of d0 for items, λ more for users")

    @property
    def objective(self) -> Objective:
        """The squares alone."""
        if self.variant == "code":
            return RankingSquares(self.alpha, self.l2, answer=-1.0, extra=1.0)
        return RankingSquares(self.alpha, self.l2)


@LOSSES.register("rgx")
@dataclass(frozen=True)
class Rgx(QuadraticLoss):
    """RG^x: RG² less a share β of its squares, which stands for the products of scores."""

    formula = "Σ_u w_u Σ_j [(1 - β) s_uj² + 2 s_uj] - Σ_(u,i) s_ui + α Σ_(u,i) (s_ui - 1)²"
    cite = "Pu et al. (2025), NDCG-consistent softmax approximation with accelerated convergence"
    alpha: float = _alpha(0.03, 0.001, 1)
    l2: float = _l2(0.001, 0.00001, 0.1)
    beta: float = _beta()
    variant: str = _variant("another sign of d0 for items")

    @property
    def objective(self) -> Objective:
        """The squares, bounded."""
        answer = -1.0 if self.variant == "code" else 1.0
        return Bounded(RankingSquares(self.alpha, self.l2, answer=answer), self.beta)


@LOSSES.register("rgx-exact")
@dataclass(frozen=True)
class RgxExact(QuadraticLoss):
    """RG^x with the products of scores themselves: the softmax loss to second order.

    RG² less Σ_u |I_u| / 2n² (Σ_i s_ui)². At α = 0 its minimum is that of RG², see `rg2_svd`.
    """

    formula = "Σ_u w_u {Σ_j (s_uj + 1)² - (Σ_j s_uj)² / n} - Σ_(u,i) s_ui + α Σ_(u,i) (s_ui - 1)²"
    cite = Rgx.cite
    alpha: float = _alpha(0.03, 0.001, 1)
    l2: float = _l2(0.001, 0.00001, 0.1)

    @property
    def objective(self) -> Objective:
        """The squares and the products."""
        return WithProducts(RankingSquares(self.alpha, self.l2))


@LOSSES.register("rg2-matrix")
@dataclass(frozen=True)
class Rg2Matrix(QuadraticLoss):
    """RG² with the penalty λ |PQᵀ|² on scores instead of factors.

    In matrix form, with W = diagMat(w) and α = 0, P = (W + λ)⁻¹ (R/2 - w 1ᵀ) Q (QᵀQ)⁻¹ and
    Q = (R/2 - w 1ᵀ)ᵀ P (Pᵀ(W + λ)P)⁻¹: the penalty adds λ to the weight of every cell.
    """

    formula = "Σ_u w_u Σ_j (s_uj + 1)² - Σ_(u,i) s_ui + α Σ_(u,i) (s_ui - 1)² + λ Σ_u Σ_j s_uj²"
    cite = Rg2.cite + ", appendix A.6"
    alpha: float = _alpha(0.03, 0.001, 1)
    l2: float = param(
        0.001, help="penalty λ on the scores", low=0, log=True, search=(0.000001, 0.1)
    )

    @property
    def objective(self) -> Objective:
        """The squares, and the penalty among them."""
        return OnScores(RankingSquares(self.alpha, 0.0), self.l2)


@LOSSES.register("rg2-ssm")
@dataclass(frozen=True)
class Rg2Ssm(QuadraticLoss):
    """RG² of the sampled softmax loss: to second order in the scores, without their products.

    For n negatives drawn at random for every interaction, each item by a chance of v_i / N, its
    expectation is, with w_u = |I_u| / 2N for N items and but for the products of scores,

        n/(n+1) Σ_u w_u Σ_i v_i (s_ui² + 2 s_ui) + Σ_observed [s_ui² / 2(n+1) - s_ui n/(n+1)].

    So what is observed weighs more, as by α = 1/2n in `rg2`; with n, the weight goes to that of
    `rg2` at α = 0. The penalty of a row is λ times its weights.
    """

    formula = (
        "N / (N + 1) [Σ_u w_u Σ_j v_j (s_uj² + 2 s_uj) - Σ_(u,i) s_ui] + Σ_(u,i) s_ui² / 2(N + 1)"
    )
    cite = Rgx.cite
    negatives: int = _drawn()
    l2: float = _l2(0.1, 0.001, 1)
    popularity: float = _popularity()

    @property
    def objective(self) -> Objective:
        """The squares that are expected."""
        return SampledSquares(self.negatives, self.l2, self.popularity)


@LOSSES.register("rgx-ssm")
@dataclass(frozen=True)
class RgxSsm(QuadraticLoss):
    """RG^x of the sampled softmax loss: `rg2-ssm` less a share β of its squares, as in `rgx`."""

    formula = "N / (N + 1) [Σ_u w_u Σ_j v_j ((1 - β) s_uj² + 2 s_uj) - Σ_(u,i) s_ui] + (1 - β) Σ_(u,i) s_ui² / 2(N + 1)"  # noqa: E501
    cite = Rgx.cite
    negatives: int = _drawn()
    l2: float = _l2(0.1, 0.001, 1)
    beta: float = _beta()
    popularity: float = _popularity()

    @property
    def objective(self) -> Objective:
        """The squares that are expected, bounded."""
        squares = SampledSquares(self.negatives, self.l2, self.popularity)
        return Bounded(squares, self.beta, entries=True)
