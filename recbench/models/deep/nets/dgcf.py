"""DGCF: vectors in chunks, one for each intent, and each interaction shared out among intents."""

from itertools import pairwise

import torch
from torch import Tensor
from torch.nn.functional import normalize

from recbench.linalg.types import Sparse
from recbench.models.deep.layers import Routed
from recbench.models.deep.nets.nodes import Nodes, of
from recbench.models.deep.nets.trainer import Place
from recbench.models.deep.training import Training

TINY = 1e-8
"""Keeps roots away from where their slope has no end."""
MOST = 512
"""Users, and items, whose chunks are looked at in a step."""


class Dgcf(Nodes):
    """The mean of the table and of all layers.

    A layer spreads each chunk X_f of what it is given, several times. Edges have scores S_f, at
    first all the same, and of these shares α_f, their softmax over f. With δ_f the sums of a
    node's shares,

    H_f = δ_f^-½ α_f δ_f^-½ X_f

    and S_f of every edge grows by the product of its head's h_f and tanh of its tail's x_f, both at
    a length of one. The layer is what is made last.
    """

    def __init__(self, train: Sparse, shape: Routed, training: Training, place: Place) -> None:
        super().__init__(train, shape, training, place)
        self.shape, self.hop = shape, self.edges.roots()
        steps = max(1, -(-train.nnz // training.batch))
        self.some = min(MOST, max(1, max(train.shape) // steps))

    def vectors(self, noise: torch.Generator | None, nodes: Tensor | None = None) -> Tensor:
        """The mean of the table and of what is spread."""
        own: Tensor = self.nodes
        found, scores = [of(own, nodes)], None
        for layer in range(1, self.shape.layers + 1):
            chunks = [chunk.contiguous() for chunk in own.chunk(self.shape.intents, dim=1)]
            tails = [torch.tanh(normalize(chunk)) for chunk in chunks]
            for iteration in range(1, self.shape.iterations + 1):
                spread = self._spread(own, chunks, scores)
                if layer == self.shape.layers and iteration == self.shape.iterations:
                    break  # nothing is made of the scores that would follow
                heads = (normalize(chunk) for chunk in spread)
                more = torch.stack(
                    [self.edges.products(*each) for each in zip(heads, tails, strict=True)]
                )
                scores = more if scores is None else scores + more
            own = torch.cat(spread, dim=1)
            found.append(of(own, nodes))
        return torch.stack(found).mean(dim=0)

    def _spread(self, own: Tensor, chunks: list[Tensor], scores: Tensor | None) -> list[Tensor]:
        """The chunks of H. Without scores all shares are the same, and cancel out."""
        if scores is None:
            return [chunk.contiguous() for chunk in self.hop(own).chunk(self.shape.intents, dim=1)]
        found = []
        for chunk, shares in zip(chunks, _shares(scores), strict=True):
            totals = self.edges.totals(shares)
            roots = torch.where(totals > 0, totals.clamp_min(TINY).rsqrt(), 0)[:, None]
            found.append(roots * self.edges.sum(shares, roots * chunk))
        return found

    def others(self, noise: torch.Generator) -> Tensor:
        """Some users and some items."""
        ends = (0, self.edges.users), (self.edges.users, self.edges.nodes)
        return torch.cat([_some(*each, self.some, noise) for each in ends])

    def aside(self, vectors: Tensor) -> Tensor | float:
        """How much neighbouring chunks of the others have to do with each other."""
        if not self.shape.independence or self.shape.intents == 1:
            return 0.0
        chunks = [distances(chunk) for chunk in vectors.chunk(self.shape.intents, dim=1)]
        values = [correlation(*each) for each in pairwise(chunks)]
        share = self.shape.independence / (self.shape.intents * (self.shape.intents + 1) / 2)
        return share * torch.stack(values).sum()


def _shares(scores: Tensor) -> Tensor:
    """Their softmax over the first dimension; that of PyTorch rounds by the number of threads."""
    powers = torch.exp(scores - scores.detach().amax(dim=0))
    return powers / powers.sum(dim=0)


def _some(start: int, stop: int, size: int, noise: torch.Generator) -> Tensor:
    """Draw nodes."""
    order = torch.randperm(stop - start, generator=noise, device=noise.device)
    return start + order[:size]


def _mean(square: Tensor) -> Tensor:
    """The mean of a matrix, by rows first: at once, its rounding would be that of the threads."""
    return square.mean(dim=1).mean()


def distances(x: Tensor) -> Tensor:
    """Between rows, less the means of both rows."""
    squares = x.square().sum(dim=1)
    between = squares[:, None] + squares - 2 * x @ x.T
    roots = torch.sqrt(between.clamp_min(0) + TINY)
    columns = roots.mean(dim=0)
    # Less the mean of all before there is a matrix of it: its gradient would be a sum at once.
    return roots - (columns - columns.mean()) - roots.mean(dim=1, keepdim=True)


def correlation(one: Tensor, other: Tensor) -> Tensor:
    """The distance correlation, of distances."""
    pairs = (one, other), (one, one), (other, other)
    both, first, second = (torch.sqrt(_mean(a * b).clamp_min(0) + TINY) for a, b in pairs)
    return both / torch.sqrt(first * second)
