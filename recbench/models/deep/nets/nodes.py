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
        """Users at random, one item of each, and one that the user does not have: as nodes."""
        draws = Draws(self.recipe.batch, True, "own", 1, unseen=True)
        for batch in draws.batches(self.pattern, draw):
            items = batch.items_of_cells
            others = items  # if there is no other
            if batch.items is not None and batch.columns is not None:
                others = batch.items[batch.columns[:, 0]]
            users = self.edges.users
            yield np.stack([batch.users, users + items, users + others], axis=1)

    def loss(self, rows: Integers, now: Moment) -> Tensor:
        """Of pairs: softplus of what the other item scores more; and l2 / 2 times the squares."""
        nodes = self.place.tensor(rows.T.reshape(-1))
        every = torch.cat([nodes, self.others(now.noise)])
        unique, places = torch.unique(every, return_inverse=True)
        vectors = self.vectors(now.noise, unique).index_select(0, places)
        of_pairs, of_others = vectors[: len(nodes)], vectors[len(nodes) :]
        user, item, other = of_pairs.chunk(3)
        pairs = functional.softplus((user * (other - item)).sum(dim=1)).mean()
        squares = self.penalised(nodes, of_pairs).square().sum() / len(rows)
        return pairs + self.recipe.l2 / 2 * squares + self.aside(of_others)

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
