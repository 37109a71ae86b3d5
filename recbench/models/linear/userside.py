"""Scoring with an inverse that was found from the side of the users."""

from recbench.linalg.rowinverse import RowInverse
from recbench.linalg.topk import Scales, Top
from recbench.linalg.types import Floats, Indices, Progress, Sparse, silent
from recbench.models.scorers import Base, Query


class UserSide(Base):
    """A user's scores are their history times C, of which there is only the users' side.

    What a history adds to the scores of its own items is not ranked: they are never recommended.
    """

    def __init__(self, inverse: RowInverse) -> None:
        self.inverse, self.n_items = inverse, inverse.n

    def score(self, history: Sparse, rows: Indices) -> Floats:
        """Multiply the histories with C, by way of their rows of the inverse if they have any."""
        return self.inverse.product(history, rows)

    def top(self, query: Query, scales: Scales = (None,), progress: Progress = silent) -> list[Top]:
        """Multiply and rank in blocks that stay in the cache."""
        given = query.history, query.rows, query.seen, query.k
        return self.inverse.top(*given, scales, progress)
