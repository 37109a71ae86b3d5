"""Scoring with an inverse that workers hold together."""

from recbench.linalg.held.heldtiles import HeldTiles
from recbench.linalg.held.holder import Asked
from recbench.linalg.padded import PaddedPanels
from recbench.linalg.topk import Scales, Top
from recbench.linalg.types import Indices, Progress, Vector, silent
from recbench.models.scorers import ItemItem, Query


class HeldItemItem(ItemItem):
    """A user's scores are their history times C, of which nothing is here.

    A few users are scored here, from columns that come one panel after the other. For a ranking
    every worker scores all users for some of the items.
    """

    def __init__(self, held: HeldTiles, kept: Indices | None, rest: Vector) -> None:
        """`kept` are the items that the tiles are of, if not all; others have `rest`."""
        super().__init__(held if kept is None else PaddedPanels(held, kept, rest))
        self.held, self.kept, self.rest = held, kept, rest

    def top(self, query: Query, scales: Scales = (None,), progress: Progress = silent) -> list[Top]:
        """Have every worker rank some of the items, and take the best of what they found."""
        given = query.history, query.seen, query.k, scales, self.kept
        return self.held.rank(Asked(*given, None if self.kept is None else self.rest), progress)
