"""Auto-encoders: from what a user has to a code, and from the code to scores of all items."""

from collections.abc import Iterable, Iterator

import numpy as np
import torch

from recbench.linalg.normal import Pattern
from recbench.linalg.types import Integers, Sparse
from recbench.models.deep.encoded import Encoded
from recbench.models.deep.nets.output import Space, against_all
from recbench.models.deep.nets.sparse_rows import summed
from recbench.models.deep.nets.trainer import Moment, Net, Place, copied
from recbench.models.deep.shape import Shape
from recbench.models.deep.training import Training
from recbench.models.scorers import Base, Factors
from recbench.models.trained.batches import Batch, of_users, users_at_once

ACTIVATIONS = {"tanh": torch.tanh, "sigmoid": torch.sigmoid, "relu": torch.relu}
SPREAD = 0.001
"""The standard deviation of biases as training begins."""


class Autoencoder(Net):
    """What a user has is made of a code, which is made of what the user has."""

    def __init__(self, train: Sparse, shape: Shape, training: Training, place: Place) -> None:
        super().__init__()
        self.shape, self.recipe, self.place = shape, training, place
        self.pattern, (users, items), self.space = Pattern.of(train), train.shape, Space()
        made = shape.made
        self.enter = place.xavier("enter", (items, made[0]))
        between = enumerate(zip(shape.widths[:-1], made[1:], strict=True))
        self.inner = torch.nn.ParameterList(
            place.xavier(f"inner {at}", sides) for at, sides in between
        )
        self.offsets = torch.nn.ParameterList(
            place.normal(f"offsets {at}", (width,), SPREAD) for at, width in enumerate(made)
        )
        self.leave = place.xavier("leave", (items, shape.widths[-1]))
        self.last = place.normal("last", (items,), SPREAD)
        own = place.xavier("users", (users, made[0])) if shape.personal else None
        self.register_parameter("users", own)

    def batches(self, draw: np.random.Generator) -> Iterator[Integers]:
        """All users in blocks, each user once."""
        return (batch.users for batch in users_at_once(self.pattern, self.recipe.batch, draw))

    def loss(self, rows: Integers, now: Moment) -> torch.Tensor:
        """Of the scores by what is left of what users have, against what they have."""
        batch = of_users(self.pattern, rows)
        hidden, loss = self._through(batch, now)
        cells = batch.starts, batch.cells
        kind = self.shape.likelihood
        return loss + against_all(kind, hidden, self.leave, self.last, *cells, self.space)

    def decaying(self) -> Iterable[torch.Tensor]:
        """All weights, and no biases."""
        own = [self.users] if self.shape.personal else []
        return [self.enter, *self.inner, self.leave, *own]

    def _through(self, batch: Batch, now: Moment) -> tuple[torch.Tensor, torch.Tensor]:
        """The last layer but one of some users, and what their codes cost."""
        shape, cost = self.shape, self.last.new_zeros(())
        values = self._entered(batch, now)
        for at, offset in enumerate(self.offsets):
            values = (values @ self.inner[at - 1] if at else values) + offset
            if at != shape.drawn:
                values = ACTIVATIONS[shape.activation](values)
                continue
            mean, spread = values.chunk(2, dim=1)  # of which the second is a log of variances
            divergence = 0.5 * (mean * mean + spread.exp() - 1 - spread).sum(1).mean()
            cost = min(shape.beta, now.step / shape.anneal) * divergence
            # In single precision, as all draws: PyTorch draws other numbers in double precision.
            noise = torch.empty_like(mean, dtype=torch.float32).normal_(generator=now.noise)
            values = mean + noise.to(mean.dtype) * (spread / 2).exp()
        return values, cost

    def _entered(self, batch: Batch, now: Moment) -> torch.Tensor:
        """The first layer of some users, by what dropout leaves of what they have."""
        lengths, shape = np.diff(batch.starts), self.shape
        each = np.maximum(lengths, 1) ** (-0.5 if shape.scaled else 0.0)
        values = np.repeat(each, lengths)
        kept = torch.empty(len(values), device=self.place.device).uniform_(generator=now.noise)
        weights = self.place.tensor(values) * (kept >= shape.dropout) / (1 - shape.dropout)
        cells = self.place.tensor(batch.starts), self.place.tensor(batch.cells)
        entered = summed(*cells, weights, self.enter)
        if shape.personal:
            entered = entered + torch.nn.functional.embedding(
                self.place.tensor(batch.users), self.users, sparse=True
            )
        return entered

    def base(self) -> Base:
        """Codes of any users by what they have, items by the last layer; nothing is drawn."""
        shape, layers = self.shape, []
        for at, offset in enumerate(self.offsets):
            width = shape.widths[at]
            weights = copied(self.inner[at - 1][:, :width]) if at else None
            activation = "linear" if at == shape.drawn else shape.activation
            layers.append((weights, copied(offset[:width]), activation))
        users = copied(self.users[:, : shape.widths[0]]) if shape.personal else None
        enter = copied(self.enter[:, : shape.widths[0]])
        encoded = Encoded(enter, layers, shape.scaled, users)
        return Factors(encoded, copied(self.leave), copied(self.last))
