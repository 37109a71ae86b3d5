"""Losses that ask of every score alone whether it is above or below something."""

from dataclasses import dataclass

from recbench.linalg.responses import Means, Response
from recbench.linalg.types import Vector
from recbench.models.trained.loss import Grades, Loss, Positives, sigmoid, softplus
from recbench.params import param
from recbench.registry import LOSSES


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
