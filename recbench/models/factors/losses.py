"""Quadratic losses: what every cell of the score matrix weighs, and nothing about solving them.

Users have factors P, items Q, scores are S = P Qᵀ. With R the binary train matrix and I_u what
user u has, every loss here is

    Σ_u [c0_u Σ_i v_i s_ui² + c1_u Σ_{i∈I_u} s_ui² - 2 d1_u Σ_{i∈I_u} s_ui + 2 d0_u Σ_i v_i s_ui]
        + Σ_u r_u |p_u|² + Σ_i r_i |q_i|²                                              (1)

up to a constant: it is 0 where all scores are. An `Objective` says what c0, c1, d1, d0 and r are;
`als` solves it. c1_u and d1_u are one number each for all users, or these times a share of the
user's. v_i is 1, or what items weigh by a power of their interactions: `column_weights`.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from recbench.errors import UsageError
from recbench.linalg.normal import Terms, column_weights
from recbench.linalg.types import Counts, Vector
from recbench.params import Described, param
from recbench.registry import LOSSES

RG2 = (
    "Pu et al. (2024), Learning-Efficient Yet Generalizable Collaborative Filtering for Item "
    "Recommendation"
)


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
        "n: number of items; I_u: items of u; w_u = |I_u| / 2n; N: negatives; "
        "v_j: 1 or, with a popularity γ, n |U_j|^γ / Σ_k |U_k|^γ; U_j: users of j"
    )
    """What the signs in formulas mean."""
    cite: ClassVar[str] = ""

    @property
    @abstractmethod
    def objective(self) -> Objective:
        """What these parameters make of (1)."""


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


@dataclass(frozen=True)
class Weighted:
    """Every cell weighs c0, an observed one c1 more; the penalty of a row grows with its weights.

    r = λ (c0 cells + c interactions)^ν, where the m cells of an item count v times. With ν = 1 and
    c = c1 every cell brings its share of penalty.
    """

    everywhere: float
    entry: float
    pull: float
    l2: float
    nu: float
    counted: float | None = None
    """The c of the penalty; None: c1."""
    unknown: float = 0.0
    """A user with so many interactions more would have c1 and d1 times their share."""
    popularity: float = 0.0
    """The power of v."""

    def user_terms(self, lengths: Counts, items: int) -> Terms:
        """The same for every user but for the penalty, unless some interactions are unknown."""
        gram, none = np.full(len(lengths), self.everywhere), np.zeros(len(lengths))
        share = 1.0 + self.unknown / np.maximum(lengths, 1) if self.unknown else None
        return Terms(
            gram, none, self._ridge(lengths, items), self.entry, self.pull, share,
            power=self.popularity,
        )  # fmt: skip

    def item_ridge(self, lengths: Counts, users: int) -> Vector:
        """The same rule for both sides: cells are users here, and items there."""
        weights = column_weights(lengths, self.popularity)
        return self._ridge(lengths, users if weights is None else users * weights)

    def _ridge(self, lengths: Counts, cells: float | Vector) -> Vector:
        counted = self.entry if self.counted is None else self.counted
        total: Vector = self.everywhere * cells + counted * lengths.astype(np.float64)
        with np.errstate(over="ignore"):  # infinity is found in the factors
            return self.l2 * total**self.nu


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


@dataclass(frozen=True)
class Contrasted:
    """Every interaction brings all cells of its user as negatives, of some weight in all.

    Σ_u [weight |I_u| / n Σ_i s_ui² + t_u Σ_observed (c1 s² - 2 d1 s)] + λ (|P|² + |Q|²), where t_u
    is 1 unless it is given as t_u = (scale |I_u| + unknown) / n.
    """

    weight: float
    l2: float
    entry: float = 1.0
    scale: float | None = None
    unknown: float = 0.0
    popularity: float = 0.0
    """The power of v: negatives are drawn by it."""

    def user_terms(self, lengths: Counts, items: int) -> Terms:
        """The expectation over negatives that are drawn with replacement."""
        gram: Vector = self.weight / items * lengths.astype(np.float64)
        share = None if self.scale is None else (self.scale * lengths + self.unknown) / items
        ridge = self.item_ridge(lengths, items)
        return Terms(
            gram, np.zeros(len(lengths)), ridge, self.entry, 1.0, share, power=self.popularity
        )

    def item_ridge(self, lengths: Counts, users: int) -> Vector:
        """λ, for users as for items."""
        return np.full(len(lengths), self.l2)


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


@dataclass(frozen=True)
class RankingSquares:
    """Every cell of user u weighs w_u = |I_u| / 2n and is pulled to -1, observed ones α to 1."""

    alpha: float
    l2: float
    answer: float = 1.0
    """-1: items are solved for as if what is not observed were pulled to +1."""
    extra: float = 0.0
    """So much of λ more on the factors of users."""

    def user_terms(self, lengths: Counts, items: int) -> Terms:
        """Σ_u w_u Σ_i (s_ui + 1)² - Σ_observed s_ui + α Σ_observed (s_ui - 1)²."""
        weights = lengths / (2.0 * items)
        ridge = self.l2 * (lengths / 2.0 + self.alpha * items + self.extra)
        return Terms(weights, weights, ridge, self.alpha, 0.5 + self.alpha, answer=self.answer)

    def item_ridge(self, lengths: Counts, users: int) -> Vector:
        """λ (Σ w_u + α m), the same for all."""
        total = lengths.sum() / (2.0 * len(lengths)) + self.alpha * users
        return np.full(len(lengths), self.l2 * total)


@dataclass(frozen=True)
class SampledSquares:
    """The expectation of the same for n negatives drawn with every interaction."""

    negatives: int
    l2: float
    popularity: float = 0.0
    """The power of v: they are drawn by it."""

    @property
    def drawn(self) -> float:
        """The share n / (n + 1) of negatives."""
        return self.negatives / (self.negatives + 1.0)

    def user_terms(self, lengths: Counts, items: int) -> Terms:
        """A user's weights come to |I_u| / 2."""
        halves = lengths / 2.0
        weights = self.drawn / items * halves
        return Terms(
            weights, weights, self.l2 * halves, (1.0 - self.drawn) / 2.0, self.drawn / 2.0,
            power=self.popularity,
        )  # fmt: skip

    def item_ridge(self, lengths: Counts, users: int) -> Vector:
        """λ (n/(n+1) v_i Σ w_u + |U_i| / 2(n+1)), for the |U_i| users of an item."""
        everywhere: Any = self.drawn * (lengths.sum() / (2.0 * len(lengths)))
        weights = column_weights(lengths, self.popularity)
        if weights is not None:
            everywhere = everywhere * weights
        ridge: Vector = self.l2 * (everywhere + (1.0 - self.drawn) * lengths / 2.0)
        return ridge


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
    alpha: float = _alpha(0.03, 0.001, 1)
    l2: float = _l2(0.001, 0.00001, 0.1)
    beta: float = _beta()
    variant: str = _variant("another sign of d0 for items")

    @property
    def objective(self) -> Objective:
        """The squares, bounded."""
        answer = -1.0 if self.variant == "code" else 1.0
        return Bounded(RankingSquares(self.alpha, self.l2, answer=answer), self.beta)


@dataclass(frozen=True)
class WithProducts:
    """Another objective with the products of scores, -Σ_u c0_u (Σ_i s_ui)² / n.

    Together with the squares that is c0_u times the variance of a user's scores, n times over.
    """

    of: Objective

    def user_terms(self, lengths: Counts, items: int) -> Terms:
        """Those of the other, on the factors of items less their mean."""
        return replace(self.of.user_terms(lengths, items), centred=True)

    def item_ridge(self, lengths: Counts, users: int) -> Vector:
        """That of the other."""
        return self.of.item_ridge(lengths, users)


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
