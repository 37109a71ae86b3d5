"""Softmax and its kin: each interaction against the catalogue at once, by a logarithm or not."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from recbench.linalg.responses import Means, Response
from recbench.models.trained.loss import Grades, Loss, Positives, sigmoid, softplus, temperature
from recbench.models.trained.losses.debiasing import DEBIASED, liked_unknown, shares_liked
from recbench.params import param
from recbench.registry import LOSSES


def _exponential(loss: Any) -> Response:
    """e^(s/t)."""
    return Response("exponential", 1 / loss.t)


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

    response = property(_exponential)

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

    response = property(_exponential)

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

    response = property(_exponential)

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

    response = property(_exponential)

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

    response = property(_exponential)

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
    alpha: float = liked_unknown()

    response = property(_exponential)

    def grade(self, positives: Positives, means: Means) -> Grades:
        """As InfoNCE with λ g for N E; nothing but the interaction itself moves g off its floor."""
        tau, scores = shares_liked(positives, self.alpha), positives.scores / self.t
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
