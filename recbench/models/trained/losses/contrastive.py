"""Cosine contrastive losses: items are pushed away only while they are near."""

from dataclasses import dataclass

import numpy as np

from recbench.linalg.responses import Means, Response
from recbench.models.trained.loss import Grades, Loss, Positives
from recbench.models.trained.losses.debiasing import DEBIASED, liked_unknown, shares_liked
from recbench.params import param
from recbench.registry import LOSSES


def _margin() -> float:
    value: float = param(
        0.9, help="margin ε below which items are left alone", low=-1, high=1, search=(0.3, 0.95)
    )
    return value


@LOSSES.register("ccl")
@dataclass(frozen=True)
class Ccl(Loss):
    """Cosine contrastive loss: items are pushed away only while they are near."""

    cite = "Mao et al. (2021), SimpleX: A Simple and Strong Baseline for Collaborative Filtering"
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
    alpha: float = liked_unknown()
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
        tau, lengths = shares_liked(positives, self.alpha), positives.lengths
        times = np.ones_like(tau)
        if self.alike == "users":
            times = np.divide(1, tau, out=np.zeros_like(tau), where=tau > 0)
        pull, push = positives.spread(times * tau), self.weight * times * lengths
        over = positives.scores - self.margin
        value = pull @ (1 - positives.scores - self.weight * np.maximum(over, 0))
        value += push @ means.value
        return Grades(float(value), push, -pull * (1 + self.weight * (over > 0)))
