"""The baseline every table needs: recommend to everybody what most people have."""

from dataclasses import dataclass

import numpy as np

from recbench.linalg.real import real
from recbench.linalg.types import Floats, Indices, Sparse
from recbench.models.base import Model
from recbench.models.context import Context
from recbench.models.scorers import Base, Scorer
from recbench.registry import MODELS


@dataclass
class Constant(Base):
    """The same scores for everybody."""

    scores: Floats

    def score(self, history: Sparse, rows: Indices) -> Floats:
        """Repeat the scores, one row per user."""
        return np.broadcast_to(real(self.scores), (history.shape[0], len(self.scores)))


@MODELS.register("popularity")
@dataclass(frozen=True)
class Popularity(Model):
    """Rank items by how many training users have them."""

    def fit(self, train: Sparse, ctx: Context) -> Scorer:
        """Count the users of every item."""
        counts = np.bincount(train.indices, minlength=train.shape[1])
        return Scorer(Constant(counts.astype(np.float32)))
