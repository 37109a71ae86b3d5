"""Losses that least squares minimise, for encoders that they do not reach."""

from dataclasses import dataclass

import numpy as np

from recbench.linalg.responses import Means, Response
from recbench.linalg.types import Vector
from recbench.models.factors.losses import QuadraticLoss, check_one_objective
from recbench.models.trained.loss import Grades, Loss, Positives


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
