"""The net of neumf: its pairs are split into what users and items bring to the first layer."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import torch
from torch.nn.functional import embedding, softplus

from recbench.linalg.normal import Pattern
from recbench.linalg.types import Integers, Sparse
from recbench.models.deep.nets.trainer import Moment, Net, Place, copied
from recbench.models.deep.towers import Towers
from recbench.models.deep.training import Training
from recbench.models.scorers import Base
from recbench.models.trained.batches import Draws

SPREAD = 0.01
"""The standard deviation of vectors as training begins."""


class Pairs(Net):
    """Scores of users and items by a product of vectors and a tower of layers."""

    def __init__(
        self, train: Sparse, factors: int, widths: Sequence[int], drawn: int,
        training: Training, place: Place,
    ) -> None:  # fmt: skip
        super().__init__()
        self.pattern, (users, items), self.place = Pattern.of(train), train.shape, place
        others = max(1, min(drawn, items - 1))  # from all items on, none would be drawn
        self.draws = Draws(training.batch, False, "own", others, unseen=True)
        tables = {"users": users, "items": items, "tower_users": users, "tower_items": items}
        for role, size in tables.items():
            self.register_parameter(role, place.normal(role, (size, factors), SPREAD))
        self.of_users = place.xavier("of users", (factors, widths[0]))
        self.of_items = place.xavier("of items", (factors, widths[0]))
        self.first = place.parameter(np.zeros(widths[0]))
        sides = list(enumerate(pairwise([*widths, 1])))
        self.inner = torch.nn.ParameterList(
            place.xavier(f"layer {at}", shape) for at, shape in sides
        )
        self.offsets = torch.nn.ParameterList(
            place.parameter(np.zeros(width)) for _, (_, width) in sides
        )
        self.product = place.xavier("product", (factors, 1))

    def batches(self, draw: np.random.Generator) -> Iterator[Integers]:
        """Interactions in any order: the user, the item, and items that the user does not have."""
        for batch in self.draws.batches(self.pattern, draw):
            columns = batch.users, batch.items_of_cells, batch.items_faced
            yield np.column_stack(columns).astype(np.int64)

    def loss(self, rows: Integers, now: Moment) -> torch.Tensor:
        """Of each interaction and the items it is held against, taken together."""
        scores = self.scores(self.place.tensor(rows[:, 0]), self.place.tensor(rows[:, 1:]))
        return (softplus(-scores[:, 0]) + softplus(scores[:, 1:]).sum(1)).mean()

    def scores(self, users: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        """Of some users, each with some items."""

        def vectors(role: str, rows: torch.Tensor) -> torch.Tensor:
            return embedding(rows, self.get_parameter(role), sparse=True)

        product = (vectors("users", users)[:, None] * vectors("items", items)) @ self.product
        values = (vectors("tower_users", users) @ self.of_users)[:, None]
        values = values + vectors("tower_items", items) @ self.of_items + self.first
        for weights, offset in zip(self.inner, self.offsets, strict=True):
            values = torch.relu(values) @ weights + offset
        return (product + values)[..., 0]

    def decaying(self) -> Iterable[torch.Tensor]:
        """All vectors and weights, and no biases."""
        return [table for table in self.parameters() if table.ndim > 1]

    def base(self) -> Base:
        """With what the first layer makes of every user and every item."""
        own, others = self.get_parameter("tower_users"), self.get_parameter("tower_items")
        layers = zip(map(copied, self.inner), map(copied, self.offsets), strict=True)
        return Towers(
            copied(self.get_parameter("users") * self.product[:, 0]),
            copied(self.get_parameter("items")), copied(own @ self.of_users + self.first),
            copied(others @ self.of_items), list(layers),
        )  # fmt: skip
