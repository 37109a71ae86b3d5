"""Where the vectors of users and items come from, and how derivatives find their way back.

An encoder has tables of numbers that are trained. `forward` makes the vectors a step needs and
returns, with them, the way back: from the derivatives by these vectors to those by the tables.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import scipy

from recbench.linalg.responses import Room
from recbench.linalg.types import Floats, Indices, Integers, Sparse, Vector
from recbench.linalg.walk import Graph
from recbench.models.trained.batches import Batch
from recbench.params import Described, param

Tables = dict[str, Floats]


class Gradient(NamedTuple):
    """Derivatives by some rows of a table, each named once, or by all."""

    values: Floats
    rows: Indices | None = None


class Weights(NamedTuple):
    """Penalties of this step: what the square of each row's user vector and each item's weighs."""

    users: Vector
    items: Vector


Back = Callable[[Floats, Floats, Weights | None], Mapping[str, Gradient]]


class Forward(NamedTuple):
    """Vectors for the rows of a batch, vectors of its items, and the way back."""

    users: Floats
    items: Floats
    back: Back
    trained: Callable[[], tuple[Floats, Floats]]
    """The rows of tables that penalties are about, of users and of items."""


class Aside(NamedTuple):
    """A value to be added to the loss, and its derivatives."""

    value: float
    gradients: Mapping[str, Gradient]


class Encoder(Described, ABC):
    """Parameters of an encoder, frozen."""

    history: ClassVar[bool] = False
    """Whether users are what they have: nobody is unknown, and an interaction hides its item."""
    vectors: ClassVar[tuple[str, ...]] = ("users", "items", "nodes")
    """The tables whose rows are vectors of users or items, as far as it has them."""
    graph: ClassVar[bool] = False
    """Whether every step costs walks along the graph, whatever its size."""

    @abstractmethod
    def tables(self, shape: tuple[int, int], factors: int, draw: np.random.Generator) -> Tables:
        """The tables as training begins, in float32."""

    @abstractmethod
    def bind(self, tables: Tables, train: Sparse, pool: Executor) -> "Bound":
        """The encoder at work."""


class Bound(ABC):
    """An encoder with its tables."""

    @abstractmethod
    def forward(self, batch: Batch) -> Forward:
        """Vectors for a step."""

    @abstractmethod
    def everything(self) -> tuple[Floats, Floats]:
        """Vectors of all users and all items, to rank by."""

    def begin(self, draw: np.random.Generator) -> None:  # noqa: B027 - few have anything to do
        """An epoch begins."""

    def aside(self, batch: Batch, room: Room) -> "Aside | None":
        """What the encoder wants besides the loss, per interaction of the batch."""
        return None

    def strangers(self) -> Callable[[Sparse], Floats] | None:
        """How users who were not trained on get vectors; None: as if they were trained now."""
        return None


def by_row(rows: Indices | Integers, values: Floats) -> Gradient:
    """Add up what rows get that come more than once."""
    unique, place = np.unique(rows, return_inverse=True)
    if len(unique) == len(rows):
        order = np.argsort(rows, kind="stable")
        return Gradient(values[order], unique.astype(np.int32))
    ones = np.ones(len(rows), values.dtype)
    shape = len(unique), len(rows)
    which = scipy.sparse.csr_array((ones, (place, np.arange(len(rows)))), shape=shape)
    return Gradient(which @ values, unique.astype(np.int32))


def squares(rows: Floats, weights: Vector) -> float:
    """Σ weight |row|²."""
    return float(weights @ np.einsum("ik,ik->i", rows, rows))


def normal(shape: tuple[int, int], deviation: float, draw: np.random.Generator) -> Floats:
    """Draw a table, in float32 whatever the precision of the fit: both begin at the same point."""
    table = draw.standard_normal(shape, dtype=np.float32)
    table *= np.float32(deviation)
    return table


@dataclass(frozen=True)
class Mf(Encoder):
    """Every user and every item has a vector."""

    init: float = param(
        0.01, help="standard deviation of the numbers that vectors begin with", low=0, open_low=True
    )

    def tables(self, shape: tuple[int, int], factors: int, draw: np.random.Generator) -> Tables:
        """One for users, one for items."""
        users, items = shape
        return {
            "users": normal((users, factors), self.init, draw),
            "items": normal((items, factors), self.init, draw),
        }

    def bind(self, tables: Tables, train: Sparse, pool: Executor) -> "Bound":
        """Rows of tables."""
        return _Rows(tables)


class _Rows(Bound):
    def __init__(self, tables: Tables) -> None:
        self.users, self.items = tables["users"], tables["items"]

    def forward(self, batch: Batch) -> Forward:
        """Vectors of the batch."""
        users = self.users[batch.users]
        items = self.items if batch.items is None else self.items[batch.items]

        def back(a: Floats, c: Floats, weights: Weights | None) -> Mapping[str, Gradient]:
            if weights is not None:
                a = a + weights.users[:, None].astype(a.dtype) * users
                c = c + weights.items[:, None].astype(c.dtype) * items
            return {"users": by_row(batch.users, a), "items": Gradient(c, batch.items)}

        return Forward(users, items, back, lambda: (users, items))

    def everything(self) -> tuple[Floats, Floats]:
        """Vectors of all users and all items."""
        return self.users, self.items


@dataclass(frozen=True)
class LightGcn(Encoder):
    """Vectors of users and items are spread over the graph of interactions and averaged.

    The operator is symmetric, so derivatives go back the way that vectors come.
    """

    graph: ClassVar[bool] = True
    layers: int = param(
        3, help="steps K along the graph; 0: plain mf", low=0, high=100, search=(1, 4)
    )
    init: float = param(
        0.1, help="standard deviation of the numbers that vectors begin with", low=0, open_low=True
    )

    def tables(self, shape: tuple[int, int], factors: int, draw: np.random.Generator) -> Tables:
        """One for users and, below them, items: drawn as for mf."""
        return nodes_of(shape, factors, self.init, draw)

    def bind(self, tables: Tables, train: Sparse, pool: Executor) -> "Bound":
        """With the graph of the train matrix."""
        return Walked(tables["nodes"], self.layers, train, pool)


def layers_of(encoder: Encoder) -> int | None:
    """How far vectors are spread on the graph, if that is all that makes them of tables."""
    if isinstance(encoder, Mf):
        return 0
    return encoder.layers if isinstance(encoder, LightGcn) else None


def nodes_of(
    shape: tuple[int, int], factors: int, deviation: float, draw: np.random.Generator
) -> Tables:
    """A table of users and, below them, items."""
    parts = [normal((rows, factors), deviation, draw) for rows in shape]
    return {"nodes": np.concatenate(parts)}


class Walked(Bound):
    """The mean of what walks of 0 to K steps bring to each node."""

    def __init__(self, nodes: Floats, layers: int, train: Sparse, pool: Executor) -> None:
        self.nodes, self.layers, self.pool = nodes, layers, pool
        self.graph = Graph.of(train)
        self.m = train.shape[0]

    def forward(self, batch: Batch) -> Forward:
        """Vectors of the batch."""
        users, place = np.unique(batch.users, return_inverse=True)
        items = np.arange(self.m, len(self.nodes)) if batch.items is None else self.m + batch.items
        rows = np.concatenate([users, items])
        spread = self.graph.spread(self.pool, self.nodes, self.layers, rows)

        def trained() -> tuple[Floats, Floats]:
            return self.nodes[batch.users], self.nodes[items]

        def back(a: Floats, c: Floats, weights: Weights | None) -> Mapping[str, Gradient]:
            given = np.concatenate([by_row(batch.users, a).values, c])
            gradient = self.graph.spread_back(self.pool, given, self.layers, rows)
            if weights is not None:
                own, others = trained()
                penalty = by_row(batch.users, weights.users[:, None].astype(a.dtype) * own)
                gradient[users] += penalty.values
                gradient[items] += weights.items[:, None].astype(c.dtype) * others
            return {"nodes": Gradient(gradient)}

        return Forward(spread[: len(users)][place], spread[len(users) :], back, trained)

    def strangers(self) -> "PassedOn":
        """What their items pass on to them: they have nothing to pass on themselves."""
        degrees = self.graph.degrees[self.m :].astype(np.float64)
        passed = np.zeros((len(degrees), self.nodes.shape[1]), self.nodes.dtype)
        if self.layers:
            before = self.graph.spread(self.pool, self.nodes, self.layers - 1)[self.m :]
            share = self.layers / (self.layers + 1) / np.sqrt(np.maximum(degrees, 1))
            passed = (before * share[:, None]).astype(before.dtype)
        return PassedOn(passed)

    def everything(self) -> tuple[Floats, Floats]:
        """Vectors of all users and all items."""
        spread = self.graph.spread(self.pool, self.nodes, self.layers)
        return spread[: self.m], spread[self.m :]


@dataclass(frozen=True)
class PassedOn:
    """Vectors of users who get all they have from their items, each of them the same share."""

    passed: Floats
    """What an item passes on to a user who has nothing else."""

    def __call__(self, history: Sparse) -> Floats:
        """Vectors from histories."""
        roots = np.sqrt(np.maximum(np.diff(history.indptr), 1))
        found: Floats = ((history @ self.passed) / roots[:, None]).astype(self.passed.dtype)
        return found
