"""What neumf ranks by, in NumPy: a product of vectors, and layers over each pair of two others.

The first layer of a pair is a sum of what it makes of the user and what it makes of the item. Both
are made once, so that a pair costs what comes after that.
"""

from collections.abc import Sequence

import numpy as np

from recbench.linalg import blas
from recbench.linalg.types import Floats, Indices, Sparse
from recbench.models.scorers import Base, refuse_strangers

PANEL = 1024
"""Items at a time: what the layers make of them must stay in the cache."""


class Towers(Base):
    """Scores by factors, plus those that layers with rectifiers make of sums."""

    def __init__(
        self, users: Floats, items: Floats, of_users: Floats, of_items: Floats,
        layers: Sequence[tuple[Floats, Floats]],
    ) -> None:  # fmt: skip
        """The score is users · items, and what the layers make of of_users + of_items.

        A layer is weights and a bias; what goes into it is rectified, and the last has one column.
        """
        self.users, self.items, self.of_users, self.of_items = users, items, of_users, of_items
        self.layers, self.n_items = layers, len(items)

    def score(self, history: Sparse, rows: Indices) -> Floats:
        """Go through the layers user by user, panel by panel."""
        refuse_strangers(rows)
        block = self.users[rows] @ self.items.T

        columns = np.ascontiguousarray(self.of_items.T)  # loops are long along the items
        widths = [len(columns), *(len(bias) for _, bias in self.layers)]

        def add(at: int) -> None:
            own = self.of_users[rows[at], :, None]
            rooms = [np.empty((width, PANEL), block.dtype) for width in widths]
            for start in range(0, self.n_items, PANEL):
                part = slice(start, min(start + PANEL, self.n_items))
                values, *others = (room[:, : part.stop - start] for room in rooms)
                np.add(columns[:, part], own, out=values)
                for (weights, bias), made in zip(self.layers, others, strict=True):
                    np.maximum(values, 0, out=values)
                    values = np.matmul(weights.T, values, out=made)
                    values += bias[:, None]
                block[at, part] += values[0]

        with blas.workers() as pool:
            blas.finish(pool, add, ((at,) for at in range(len(rows))))
        return block
