"""Vectors of users who were not trained on.

An encoder that makes users of what they have makes these as well. Where every user has a vector of
his own, one is found for the newcomer: the loss of his interactions goes down along his vector
alone, all items staying where they are.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from recbench.linalg import blas
from recbench.linalg.adam import Adam
from recbench.linalg.normal import Pattern
from recbench.linalg.responses import Room
from recbench.linalg.types import Floats, Sparse
from recbench.models.trained.batches import Batch, of_users
from recbench.models.trained.encoders import Bound, Forward, Gradient, Weights, by_row
from recbench.models.trained.similarity import SIMILARITIES, shorten
from recbench.models.trained.steps import Problem, learned_of_users, step

STEPS = 50
"""Steps that a newcomer's vector takes."""
REACH = 0.3
"""How far the first of them goes, in parts of an average number of a trained user's vector."""
AT_ONCE = 512
EPSILON = 1e-15
"""Of Adam: derivatives get smaller the more newcomers come at once, which must not matter."""


class Newcomers:
    """Vectors of users of mf who were not trained on, by going down the loss they bring."""

    def __init__(self, problem: Problem, tables: Mapping[str, Floats], length: float) -> None:
        self.problem, self.tables, self.length = problem, tables, length

    def __call__(self, history: Sparse) -> Floats:
        """A block at a time; where a row is an interaction, as many fewer users."""
        items = self.tables["items"]
        found = np.zeros((history.shape[0], items.shape[1]), items.dtype)
        size = AT_ONCE
        if self.problem.loss.pairs:
            size = max(1, int(AT_ONCE * history.shape[0] / max(history.nnz, 1)))
        for start in range(0, history.shape[0], size):
            self._find(history[start : start + size], found[start : start + size])
        return found

    def _find(self, history: Sparse, out: Floats) -> None:
        """Begin among the items that they have, and go down."""
        items, train = self.tables["items"], Pattern.of(history)
        cosine = SIMILARITIES["cosine"]
        with blas.workers() as pool:
            among = history.astype(items.dtype) @ cosine.items(items, pool)[0]
            out[...] = cosine.users(among, pool)[0] * items.dtype.type(self.length)
        problem, fixed = self.problem.with_users(train), _Fixed(out, items)
        tables = {**self.tables, **learned_of_users(problem.loss, len(out), items.dtype)}
        batch = of_users(train, np.arange(len(out)))
        if problem.loss.pairs:
            owners = np.repeat(batch.users, train.lengths)
            batch = Batch(owners, np.arange(len(owners) + 1), batch.cells)
        adam, room = Adam(out, lazy=True, epsilon=EPSILON), Room()
        size = REACH * self.length / np.sqrt(out.shape[1])
        with blas.workers() as pool:
            for number in range(STEPS):
                gradient = step(problem, fixed, tables, batch, pool, room).gradients["users"]
                adam.step(pool, gradient.values, size * (1 - number / STEPS), gradient.rows)
                if problem.loss.longest:
                    shorten(pool, out, problem.loss.longest)


@dataclass(frozen=True)
class Compared:
    """Vectors of newcomers as they are held against items' to rank."""

    find: Callable[[Sparse], Floats]
    score: str

    def __call__(self, history: Sparse) -> Floats:
        """Vectors from histories."""
        with blas.workers() as pool:
            return SIMILARITIES[self.score].users(self.find(history), pool)[0]


class _Fixed(Bound):
    """Vectors of newcomers against items that stay."""

    def __init__(self, users: Floats, items: Floats) -> None:
        self.users, self.items = users, items

    def forward(self, batch: Batch) -> Forward:
        """Vectors of the batch."""
        users = self.users[batch.users]

        def back(a: Floats, c: Floats, weights: Weights | None) -> Mapping[str, Gradient]:
            if weights is not None:
                a = a + weights.users[:, None].astype(a.dtype) * users
            return {"users": by_row(batch.users, a)}

        return Forward(users, self.items, back, lambda: (users, self.items))

    def everything(self) -> tuple[Floats, Floats]:
        """Vectors of all users and all items."""
        return self.users, self.items
