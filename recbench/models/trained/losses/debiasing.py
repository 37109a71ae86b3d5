"""What debiased losses share: how much of the catalogue a user likes."""

import numpy as np

from recbench.linalg.types import Vector
from recbench.models.trained.loss import Positives
from recbench.params import param

DEBIASED = "(Debiased) Contrastive Learning Loss for Recommendation, eqs 3-22"


def liked_unknown() -> float:
    """The parameter α."""
    value: float = param(
        0.0, help="how many items are liked and not known, for each one that is", low=0
    )
    return value


def shares_liked(positives: Positives, alpha: float) -> Vector:
    """τ of every row: at most 0.99, since what is left is divided by."""
    tau: Vector = np.minimum((1 + alpha) * positives.degrees / positives.catalogue, 0.99)
    return tau
