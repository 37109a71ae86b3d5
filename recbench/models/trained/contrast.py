"""SGL: LightGCN that also tells every node from all others on graphs with missing edges."""

from concurrent.futures import Executor
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from recbench.linalg.responses import Block, Response, Room
from recbench.linalg.types import Floats, Integers, Sparse, Vector
from recbench.linalg.walk import Graph
from recbench.models.trained.batches import Batch
from recbench.models.trained.encoders import (
    Aside,
    Bound,
    Encoder,
    Gradient,
    Tables,
    Walked,
    nodes_of,
)
from recbench.models.trained.similarity import SIMILARITIES
from recbench.params import param


@dataclass(frozen=True)
class SglEd(Encoder):
    """LightGCN, and a softmax that finds each node on one graph among all of its kind on another.

    Both graphs lack a share of the edges, drawn anew in every epoch.
    """

    graph: ClassVar[bool] = True
    layers: int = param(3, help="steps K along the graph", low=1, high=100, search=(1, 4))
    init: float = param(
        0.1, help="standard deviation of the numbers that vectors begin with", low=0, open_low=True
    )
    contrast: float = param(
        0.1, help="weight of the contrast between two graphs", low=0, log=True, search=(0.01, 1)
    )
    temperature: float = param(
        0.2, help="temperature of the contrast", low=0.01, log=True, search=(0.1, 1)
    )
    dropped: float = param(0.1, help="share of the edges that each of them lacks", low=0, high=0.99)

    def tables(self, shape: tuple[int, int], factors: int, draw: np.random.Generator) -> Tables:
        """As for lightgcn."""
        return nodes_of(shape, factors, self.init, draw)

    def bind(self, tables: Tables, train: Sparse, pool: Executor) -> Bound:
        """With the graph of the train matrix."""
        return _Contrasted(self, tables["nodes"], train, pool)


class _Contrasted(Walked):
    def __init__(self, encoder: SglEd, nodes: Floats, train: Sparse, pool: Executor) -> None:
        super().__init__(nodes, encoder.layers, train, pool)
        self.encoder = encoder
        self.views: tuple[Graph, ...] = ()

    def begin(self, draw: np.random.Generator) -> None:
        """Draw the graphs of this epoch."""
        size, dropped = len(self.graph.entries), self.encoder.dropped
        self.views = tuple(
            self.graph.only(draw.random(size, dtype=np.float32) >= dropped) for _ in range(2)
        )

    def aside(self, batch: Batch, room: Room) -> Aside:
        """The contrast of the users and of the items of all interactions of the batch."""
        normalise = SIMILARITIES["cosine"].items
        sides = [
            normalise(view.spread(self.pool, self.nodes, self.layers), self.pool)
            for view in self.views
        ]
        (one, back_one), (other, back_other) = sides
        slopes = np.zeros_like(one), np.zeros_like(other)
        users = np.repeat(batch.users, np.diff(batch.starts)).astype(np.int64)
        value = 0.0
        for ids, low, high in (
            (users, 0, self.m),
            (self.m + batch.items_of_cells.astype(np.int64), self.m, len(self.nodes)),
        ):
            nodes, counts = np.unique(ids, return_counts=True)
            weights = self.encoder.contrast * counts / max(batch.interactions, 1)
            value += self._told_apart(nodes, weights, (low, high), (one, other), slopes, room)
        gradient = np.zeros_like(self.nodes)
        for view, back, slope in zip(self.views, (back_one, back_other), slopes, strict=True):
            gradient += view.spread(self.pool, back(slope), self.layers)
        return Aside(value, {"nodes": Gradient(gradient)})

    def _told_apart(
        self, nodes: Integers, weights: Vector, kind: tuple[int, int],
        views: tuple[Floats, Floats], slopes: tuple[Floats, Floats], room: Room,
    ) -> float:  # fmt: skip
        """Σ weight · (log Σ e^(s/t) - s_own/t), and its derivatives by both views."""
        t, (low, high) = self.encoder.temperature, kind
        rows, columns = views[0][nodes], views[1][low:high]
        block = Block(self.pool, rows, columns, room)
        means = block.respond(Response("exponential", 1 / t))
        own = np.einsum("ik,ik->i", rows, views[1][nodes], dtype=np.float64)
        slopes[1][low:high] += block.push(weights / t)
        pulled = (weights / t)[:, None].astype(rows.dtype)
        slopes[0][nodes] += block.pull(weights / t) - pulled * views[1][nodes]
        slopes[1][nodes] -= pulled * rows
        return float(weights @ (means.value + np.log(high - low) - own / t))
