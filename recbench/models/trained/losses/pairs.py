"""Losses that hold each interaction against items one by one, which are drawn for it."""

from dataclasses import dataclass

import numpy as np

from recbench.linalg.responses import Means, Response
from recbench.linalg.types import Vector
from recbench.models.trained.loss import Grades, Loss, Positives
from recbench.params import param
from recbench.registry import LOSSES


def _longest() -> float:
    value: float = param(
        1.0, help="vectors longer than this are cut to it after every step; 0: never", low=0
    )
    return value


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
