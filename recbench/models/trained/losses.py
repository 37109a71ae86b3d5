"""The losses of trained models, each a few lines on the means that `loss` explains.

s_ui is the score of an interaction, E_j the mean over items j, a_u the number of interactions of
the user and n that of items. τ_u is the share of items that the user likes, known or not:
(1 + α) a_u / n.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from recbench.linalg.responses import Means, Response
from recbench.linalg.types import Vector
from recbench.models.factors.losses import QuadraticLoss, check_one_objective
from recbench.models.trained.loss import (
    Grades,
    Loss,
    Positives,
    sigmoid,
    softplus,
    temperature,
)
from recbench.params import param
from recbench.registry import LOSSES

DEBIASED = "(Debiased) Contrastive Learning Loss for Recommendation, eqs 3-22"
SIMPLEX = "Mao et al. (2021), SimpleX: A Simple and Strong Baseline for Collaborative Filtering"


def _alpha() -> float:
    value: float = param(
        0.0, help="how many items are liked and not known, for each one that is", low=0
    )
    return value


def _margin() -> Any:
    return param(0.9, help="margin ε below which items are left alone", low=-1, high=1,
                 search=(0.3, 0.95))  # fmt: skip


def _longest() -> Any:
    return param(
        1.0, help="vectors longer than this are cut to it after every step; 0: never", low=0
    )


def _debiasing(positives: Positives, alpha: float) -> Vector:
    """τ of every row: at most 0.99, since what is left is divided by."""
    tau: Vector = np.minimum((1 + alpha) * positives.degrees / positives.catalogue, 0.99)
    return tau


def _against_all(positives: Positives, means: Means, t: float, weight: float = 1.0) -> Grades:
    """λ a_u log E e^(s/t) - Σ s_ui / t: what softmax, MINE and their kin have in common."""
    lengths = positives.lengths
    value = weight * (lengths @ means.value) - positives.scores.sum() / t
    return Grades(value, weight * lengths / t, np.full(len(positives.scores), -1 / t))


@LOSSES.register("softmax")
@dataclass(frozen=True)
class Softmax(Loss):
    """Softmax: each interaction against all items."""

    cite = "Covington, Adams, Sargin (2016), Deep Neural Networks for YouTube Recommendations"
    formula = "-s_ui / t + log Σ_j e^(s_uj / t)"
    t: float = temperature(1.0, search=(0.1, 3))

    @property
    def response(self) -> Response:
        """e^(s/t)."""
        return Response("exponential", 1 / self.t)

    def grade(self, positives: Positives, means: Means) -> Grades:
        """a_u log Σ e^(s/t) - Σ s_ui / t."""
        grades = _against_all(positives, means, self.t)
        constant = float(positives.lengths.sum() * np.log(positives.catalogue))
        return replace(grades, value=grades.value + constant)


@LOSSES.register("mine")
@dataclass(frozen=True)
class Mine(Loss):
    """MINE: a neural bound of the mutual information of users and items."""

    cite = DEBIASED
    formula = "-s_ui / t + log N E_j e^(s_uj / t)"
    score = "cosine"
    t: float = temperature(1.0, 0.05, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)

    @property
    def response(self) -> Response:
        """e^(s/t)."""
        return Response("exponential", 1 / self.t)

    def grade(self, positives: Positives, means: Means) -> Grades:
        """As softmax, but for a constant."""
        return _against_all(positives, means, self.t)


@LOSSES.register("mine-plus")
@dataclass(frozen=True)
class MinePlus(Loss):
    """MINE+: MINE with a weight on the second term. The BSL loss is the same."""

    cite = DEBIASED
    formula = "-s_ui / t + λ log N E_j e^(s_uj / t)"
    score = "cosine"
    t: float = temperature(0.1, 0.05, 0.08, 0.1, 0.15, 0.2, 0.4, 0.5)
    weight: float = param(1.1, help="weight λ of the second term", low=0, grid=(1.0, 1.1, 1.2))

    @property
    def response(self) -> Response:
        """e^(s/t)."""
        return Response("exponential", 1 / self.t)

    def grade(self, positives: Positives, means: Means) -> Grades:
        """λ a_u log E e^(s/t) - Σ s_ui / t."""
        return _against_all(positives, means, self.t, self.weight)


@LOSSES.register("ssm")
@dataclass(frozen=True)
class Ssm(Loss):
    """Sampled softmax with in-batch negatives, and what it is when all items are seen.

    Items of a batch come by their interactions, so in the mean over all they weigh as much:
    vectors learn what popularity does not explain, and their norms are free to carry it. Such
    models are ranked by the product of vectors, although they are trained by its cosine.
    """

    cite = "Wu et al. (2024), On the Effectiveness of Sampled Softmax Loss for Item Recommendation"
    formula = "-s_ui / t + λ log E_j e^(s_uj / t), j by popularity to the power of β"
    score = "cosine"
    t: float = temperature(0.12, 0.08, 0.1, 0.12, 0.15, 0.2)
    weight: float = param(1.0, help="weight λ of the second term", low=0)
    popularity: float = param(1.0, help="items count by their interactions to this power β", low=0)

    @property
    def response(self) -> Response:
        """e^(s/t)."""
        return Response("exponential", 1 / self.t)

    def grade(self, positives: Positives, means: Means) -> Grades:
        """λ a_u log E e^(s/t) - Σ s_ui / t."""
        return _against_all(positives, means, self.t, self.weight)


@LOSSES.register("infonce")
@dataclass(frozen=True)
class InfoNce(Loss):
    """InfoNCE: each interaction against itself and N items."""

    cite = DEBIASED
    formula = "log(1 + N E_j e^(s_uj / t) / e^(s_ui / t))"
    score = "cosine"
    t: float = temperature(0.1, 0.05, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)
    against: int = param(800, help="how many items N an interaction is held against", low=1)

    @property
    def response(self) -> Response:
        """e^(s/t)."""
        return Response("exponential", 1 / self.t)

    def grade(self, positives: Positives, means: Means) -> Grades:
        """Σ log(1 + N E / e^(s_ui / t))."""
        against = positives.spread(means.value + np.log(self.against)) - positives.scores / self.t
        wrong = sigmoid(against) / self.t
        return Grades(softplus(against).sum(), positives.sums(wrong), -wrong)


@LOSSES.register("infonce-debiased")
@dataclass(frozen=True)
class InfoNceDebiased(Loss):
    """InfoNCE against what remains of the mean when what the user likes is taken out of it."""

    cite = DEBIASED
    formula = "log(1 + λ max{(E_j e^(s_uj/t) - τ_u E_k∈I_u e^(s_uk/t)) / (1 - τ_u), e^(-1/t)} / e^(s_ui/t))"  # noqa: E501
    score = "cosine"
    whole = True
    t: float = temperature(0.1, 0.05, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)
    weight: float = param(800.0, help="weight λ of the negatives, as N without it", low=0, log=True,
                          search=(100, 5000))  # fmt: skip
    alpha: float = _alpha()

    @property
    def response(self) -> Response:
        """e^(s/t)."""
        return Response("exponential", 1 / self.t)

    def grade(self, positives: Positives, means: Means) -> Grades:
        """As InfoNCE with λ g for N E; nothing but the interaction itself moves g off its floor."""
        tau, scores = _debiasing(positives, self.alpha), positives.scores / self.t
        everything, floor = np.exp(means.value), np.exp(-1 / self.t)
        liked = positives.sums(np.exp(scores)) / np.maximum(positives.lengths, 1)
        rest = (everything - tau * liked) / (1 - tau)
        free = rest > floor
        rest = np.where(free, rest, floor)
        against = positives.spread(np.log(self.weight * rest)) - scores
        wrong = sigmoid(against) / self.t
        push = np.where(free, positives.sums(wrong) / (rest * (1 - tau)), 0.0)
        own = positives.spread(push * tau / np.maximum(positives.lengths, 1)) * np.exp(scores)
        return Grades(softplus(against).sum(), push * everything, -wrong - own)


@LOSSES.register("sparsemax")
@dataclass(frozen=True)
class Sparsemax(Loss):
    """Sparsemax: softmax whose probabilities may be zero."""

    cite = "Martins, Astudillo (2016), From Softmax to Sparsemax"
    formula = "-s_ui + ½ Σ_{j: s_uj > τ} (s_uj² - τ²) + ½, Σ_j [s_uj - τ]₊ = 1"

    @property
    def response(self) -> Response:
        """[s - τ]₊² and its derivatives, which add up to 1."""
        return Response("excess")

    def grade(self, positives: Positives, means: Means) -> Grades:
        """a_u (½ Σ (s² - τ²) + ½) - Σ s_ui."""
        lengths = positives.lengths
        value = lengths @ (means.value + 0.5) - positives.scores.sum()
        return Grades(value, lengths, np.full(len(positives.scores), -1.0))


@LOSSES.register("ccl")
@dataclass(frozen=True)
class Ccl(Loss):
    """Cosine contrastive loss: items are pushed away only while they are near."""

    cite = SIMPLEX
    formula = "1 - s_ui + w E_j [s_uj - ε]₊"
    score = "cosine"
    weight: float = param(
        150.0, help="weight w of the negatives", low=0, log=True, search=(10, 1000)
    )
    margin: float = _margin()

    @property
    def response(self) -> Response:
        """[s - ε]₊."""
        return Response("hinge")

    def shift(self, positives: Positives) -> float:
        """ε."""
        return self.margin

    def grade(self, positives: Positives, means: Means) -> Grades:
        """Σ (1 - s_ui) + a_u w E [s - ε]₊."""
        lengths = positives.lengths
        value = (1 - positives.scores).sum() + self.weight * (lengths @ means.value)
        cells = np.full(len(positives.scores), -1.0)
        return Grades(float(value), self.weight * lengths, cells)


@LOSSES.register("ccl-debiased")
@dataclass(frozen=True)
class CclDebiased(Loss):
    """Cosine contrastive loss whose negatives leave out what the user likes."""

    cite = DEBIASED
    formula = (
        "1 - s_ui + λ {E_j [s_uj - ε]₊ / τ_u - E_k∈I_u [s_uk - ε]₊}; "
        "times τ_u if alike=interactions"
    )
    score = "cosine"
    weight: float = param(0.1, help="weight λ of the negatives", low=0, log=True, search=(0.02, 2))
    margin: float = _margin()
    alpha: float = _alpha()
    alike: str = param(
        "users", help="what counts alike, few interactions or many: users, each with one of theirs "
        "at a time; or interactions, which lets users with many decide",
        choices=("users", "interactions"),
    )  # fmt: skip

    @property
    def response(self) -> Response:
        """[s - ε]₊."""
        return Response("hinge")

    def shift(self, positives: Positives) -> float:
        """ε."""
        return self.margin

    def grade(self, positives: Positives, means: Means) -> Grades:
        """The mean over I_u is taken for every interaction: each of I_u comes once in all."""
        tau, lengths = _debiasing(positives, self.alpha), positives.lengths
        times = np.ones_like(tau)
        if self.alike == "users":
            times = np.divide(1, tau, out=np.zeros_like(tau), where=tau > 0)
        pull, push = positives.spread(times * tau), self.weight * times * lengths
        over = positives.scores - self.margin
        value = pull @ (1 - positives.scores - self.weight * np.maximum(over, 0))
        value += push @ means.value
        return Grades(float(value), push, -pull * (1 + self.weight * (over > 0)))


@LOSSES.register("bce")
@dataclass(frozen=True)
class Bce(Loss):
    """Binary cross-entropy: interactions are ones, items that are drawn are zeros."""

    cite = "He et al. (2017), Neural Collaborative Filtering"
    formula = "log(1 + e^-s_ui) + w E_j log(1 + e^s_uj)"
    weight: float = param(1.0, help="weight w of the negatives, all together", low=0, log=True,
                          search=(0.1, 100))  # fmt: skip

    @property
    def response(self) -> Response:
        """log(1 + e^s)."""
        return Response("softplus")

    def grade(self, positives: Positives, means: Means) -> Grades:
        """Σ log(1 + e^-s_ui) + a_u w E log(1 + e^s)."""
        lengths = positives.lengths
        value = softplus(-positives.scores).sum() + self.weight * (lengths @ means.value)
        return Grades(value, self.weight * lengths, -sigmoid(-positives.scores))


@LOSSES.register("uib")
@dataclass(frozen=True)
class Uib(Loss):
    """User interest boundary: a score b_u, learned, that parts what a user likes from the rest."""

    cite = "Zhuo et al. (2022), Learning Explicit User Interest Boundary for Recommendation"
    formula = "φ(b_u - s_ui) + α E_j φ(s_uj - b_u), φ(x) = log(1 + e^x), b_u = w·p_u"
    learns = True
    alpha: float = param(
        1.0, help="weight α of the negatives", low=0, log=True,
        grid=(0.1, 0.2, 1.0, 2.0, 4.0, 8.0, 16.0),
    )  # fmt: skip

    @property
    def response(self) -> Response:
        """log(1 + e^(s - b))."""
        return Response("softplus")

    def shift(self, positives: Positives) -> Vector:
        """b_u."""
        return positives.boundary

    def grade(self, positives: Positives, means: Means) -> Grades:
        """The boundary is drawn up by what is above it and down by what is liked below it."""
        lengths = positives.lengths
        below = positives.spread(positives.boundary) - positives.scores
        pulled = sigmoid(below)
        value = softplus(below).sum() + self.alpha * (lengths @ means.value)
        pushed = self.alpha * lengths
        boundary = positives.sums(pulled) - pushed * means.slope
        return Grades(value, pushed, -pulled, boundary=boundary)


@LOSSES.register("bpr")
@dataclass(frozen=True)
class Bpr(Loss):
    """Bayesian personalised ranking: each interaction against items that are drawn for it."""

    cite = "Rendle et al. (2009), BPR: Bayesian Personalized Ranking from Implicit Feedback"
    formula = "E_j log(1 + e^(s_uj - s_ui))"
    pairs = True

    @property
    def response(self) -> Response:
        """log(1 + e^(s - s_ui))."""
        return Response("softplus")

    def shift(self, positives: Positives) -> Vector:
        """s_ui: a row is an interaction."""
        return positives.scores

    def grade(self, positives: Positives, means: Means) -> Grades:
        """What pushes the others pulls the interaction."""
        return Grades(means.value.sum(), np.ones(len(means.value)), -means.slope)


@LOSSES.register("cml")
@dataclass(frozen=True)
class Cml(Loss):
    """Collaborative metric learning: the nearest of the items drawn, weighed by how many intrude.

    Distances are squared, scores are their negatives.
    """

    cite = "Hsieh et al. (2017), Collaborative Metric Learning"
    formula = "w_ui [d_ui - min_j d_uj + margin]₊, w_ui = log(1 + n P_j(d_uj < d_ui + margin))"
    score = "distance"
    pairs = unseen = True
    margin: float = param(
        0.5, help="margin by which others must be farther away", low=0, search=(0.1, 2)
    )
    longest: float = _longest()

    @property
    def response(self) -> Response:
        """The best score of a row."""
        return Response("hardest")

    def shift(self, positives: Positives) -> Vector:
        """What the best of the others must be below."""
        shift: Vector = positives.scores - self.margin
        return shift

    def grade(self, positives: Positives, means: Means) -> Grades:
        """The weight is not differentiated."""
        return Grades(means.value.sum(), np.ones(len(means.value)), -means.slope)


@LOSSES.register("sml")
@dataclass(frozen=True)
class Sml(Loss):
    """Symmetric metric learning: what is drawn must keep away from the user and from the item.

    By how much is learned, for every user and every item, between 0 and 1.
    """

    cite = "Li et al. (2020), Symmetric Metric Learning with Adaptive Margin for Recommendation"
    formula = "E_j {[d_ui - d_uj + m_u]₊ + λ [d_ui - d_ij + n_i]₊} - γ (m_u + n_i)"
    score = "distance"
    pairs = margins = True
    weight: float = param(
        0.01, help="weight λ of the item's side", low=0, log=True, search=(0.001, 1)
    )
    widen: float = param(10.0, help="reward γ of wide margins", low=0, log=True, search=(1, 100))
    longest: float = _longest()

    @property
    def response(self) -> Response:
        """[s - shift]₊."""
        return Response("hinge")

    def shift(self, positives: Positives) -> Vector:
        """What others' scores must be below, with the user and then with the item."""
        return np.concatenate([positives.scores - margin for margin in positives.margins])

    def grade(self, positives: Positives, means: Means) -> Grades:
        """Rows of users, then those of items."""
        weights = np.repeat([1.0, self.weight], len(positives.scores))
        by_user, by_item = np.split(weights * means.slope, 2)
        user, item = positives.margins
        value = weights @ means.value - self.widen * (user + item).sum()
        margins = by_user - self.widen, by_item - self.widen
        return Grades(value, weights, -by_user - by_item, margins=margins)


@dataclass(frozen=True)
class Quadratic(Loss):
    """A loss of `factors.losses`, which least squares minimise, for gradients."""

    quadratic: QuadraticLoss

    @property
    def popularity(self) -> float:  # type: ignore[override]  # what is held has the parameter
        """Items count among all, or are drawn, as its terms say."""
        return self.quadratic.objective.user_terms(np.ones(1, np.int64), 1).power

    @property
    def response(self) -> Response:
        """s² / 2."""
        return Response("square")

    def grade(self, positives: Positives, means: Means) -> Grades:
        """What (1) of `objectives` says; a row with some of the interactions has that share."""
        degrees, n = positives.degrees, positives.catalogue
        terms = self.quadratic.objective.user_terms(degrees.astype(np.int64), n)
        share = positives.lengths / np.maximum(degrees, 1)
        share[degrees == 0] = 1.0  # who has nothing is all there
        check_one_objective(self.quadratic, terms)
        entry, pull = positives.spread(terms.entries), positives.spread(terms.pulls)
        squares, totals = 2 * n * share * terms.gram, 2 * n * share * terms.push
        scores = positives.scores
        value = squares @ means.value + totals @ means.slope
        if terms.centred:  # less c0 (Σ s)² / n
            products = squares * means.slope
            value, totals = value - products @ means.slope / 2, totals - products
        value += (entry * scores - 2 * pull) @ scores
        return Grades(float(value), squares, 2 * (entry * scores - pull), alike=totals)

    def ridge(self, degrees: Vector, others: int, *, users: bool) -> Vector:
        """Its own penalty."""
        counts, objective = degrees.astype(np.int64), self.quadratic.objective
        if users:
            return objective.user_terms(counts, others).ridge
        return objective.item_ridge(counts, others)


def trained(loss: Loss | QuadraticLoss) -> Loss:
    """The loss as trained models see it."""
    return Quadratic(loss) if isinstance(loss, QuadraticLoss) else loss
