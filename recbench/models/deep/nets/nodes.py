"""What the graph models share: a table of nodes, layers made of it, and a loss on pairs."""

from abc import abstractmethod
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from recbench.linalg.normal import Pattern
from recbench.linalg.types import Integers, Sparse
from recbench.models.deep.layers import Layers
from recbench.models.deep.nets.edges import Edges
from recbench.models.deep.nets.trainer import Moment, Net, Place, copied
from recbench.models.deep.training import Training
from recbench.models.scorers import Factors
from recbench.models.trained.batches import Draws

SLOPE = 0.2
"""Of leaky ReLU."""


class Nodes(Net):
    """Vectors of users and items, made of one table along the graph; scores are their products."""

    def __init__(
        self, train: Sparse, shape: Layers, training: Training, place: Place,
        *, loops: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.edges = Edges(train, place.device, place.dtype, loops=loops)
        self.pattern, self.recipe, self.place = Pattern.of(train), training, place
        self.for_step = shape.negatives == "shared"
        self.drawn = min(shape.drawn, train.shape[1])
        self.nodes = place.xavier("nodes", (sum(train.shape), shape.factors))

    @abstractmethod
    def vectors(self, noise: torch.Generator | None, nodes: Tensor | None = None) -> Tensor:
        """Of some nodes, each named once, or of all: of users and, below them, items.

        Nothing is dropped where there is no noise.
        """

    def penalised(self, nodes: Tensor, vectors: Tensor) -> Tensor:
        """What the penalty is about, given the nodes of pairs and their vectors."""
        return self.nodes.index_select(0, nodes)

    def others(self, noise: torch.Generator) -> Tensor:
        """Nodes that a step looks at besides those of pairs."""
        return torch.empty(0, dtype=torch.int64, device=noise.device)

    def aside(self, vectors: Tensor) -> Tensor | float:
        """What is added to the loss, given vectors of the others."""
        return 0.0

    def batches(self, draw: np.random.Generator) -> Iterator[Integers]:
        """Users at random, one item of each, and those that it is held against: as nodes."""
        others = max(1, min(self.drawn, self.edges.items - 1))
        how = "batch" if self.for_step else "own"  # of a batch, none is drawn
        draws = Draws(self.recipe.batch, True, how, others, unseen=True)
        for batch in draws.batches(self.pattern, draw):
            items = [batch.items_of_cells]
            if not self.for_step:
                items.append(batch.items_faced)
            yield np.column_stack([batch.users, self.edges.users + np.column_stack(items)])

    def loss(self, rows: Integers, now: Moment) -> Tensor:
        """Softplus of what other items score more; and l2 / 2 times the squares, per interaction.

        Of the others, these are a mean.
        """
        count, pairs = len(rows), rows[:, :2].T.reshape(-1)
        faced = self._drawn(now.step) if self.for_step else rows[:, 2:].reshape(-1)
        nodes = self.place.tensor(np.concatenate([pairs, faced]))
        every = torch.cat([nodes, self.others(now.noise)])
        unique, places = torch.unique(every, return_inverse=True)
        vectors = self.vectors(now.noise, unique).index_select(0, places)
        user, item, other = vectors[: len(nodes)].split([count, count, len(faced)])
        if self.for_step:
            more = user @ other.T - (user * item).sum(dim=1, keepdim=True)
        else:
            more = (user[:, None] * (other.view(count, -1, other.shape[1]) - item[:, None])).sum(-1)
        squares = self.penalised(nodes, vectors[: len(nodes)]).square().sum(dim=1)
        penalty = squares[: 2 * count].sum() / count + squares[2 * count :].mean()
        beside = self.aside(vectors[len(nodes) :])
        by_pair = functional.softplus(more).mean(dim=1)  # of all at once, threads would round it
        return by_pair.mean() + self.recipe.l2 / 2 * penalty + beside

    def _drawn(self, step: int) -> Integers:
        """Items that all pairs of a step face, the same in all of its parts."""
        users, items = self.edges.users, self.edges.items
        if self.drawn == items:
            return np.arange(users, users + items)
        draw = self.place.ctx.stream(f"faced {step}")
        return draw.integers(users, users + items, size=self.drawn)

    def base(self) -> Factors:
        """Vectors of users against those of items."""
        vectors = copied(self.vectors(None))
        return Factors(vectors[: self.edges.users].copy(), vectors[self.edges.users :].copy())


class Map(torch.nn.Module):
    """x W, plus a bias that is 0 as training begins."""

    def __init__(
        self, place: Place, role: str, shape: tuple[int, int], *, bias: bool = True
    ) -> None:
        super().__init__()
        self.weights = place.xavier(role, shape)
        self.bias = place.parameter(np.zeros(shape[1], np.float32)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """The product."""
        return x @ self.weights if self.bias is None else torch.addmm(self.bias, x, self.weights)


def of(x: Tensor, nodes: Tensor | None) -> Tensor:
    """Rows of some nodes, or all."""
    return x if nodes is None else x.index_select(0, nodes)


def side_by_side(layers: list[Tensor]) -> Tensor:
    """The table as it is, and what layers make of it at a length of one."""
    return torch.cat([layers[0], *(functional.normalize(layer) for layer in layers[1:])], dim=1)


def dropped(x: Tensor, share: float, noise: torch.Generator | None) -> Tensor:
    """What is left where a share of the numbers is dropped; the rest makes up for it."""
    if not share or noise is None:
        return x
    kept = torch.empty_like(x).bernoulli_(1 - share, generator=noise)
    return x * kept.div_(1 - share)
