"""Encoders whose users are what they have: nobody is unknown to them.

In training an interaction is not part of its own user's history: a row of a batch is one
interaction, and the history of the row is what else its user has.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from recbench.linalg.normal import Pattern
from recbench.linalg.rows import together
from recbench.linalg.types import Floats, Indices, Sparse
from recbench.models.trained.batches import Batch, of_users
from recbench.models.trained.encoders import (
    Bound,
    Encoder,
    Forward,
    Gradient,
    Tables,
    Weights,
    by_row,
    normal,
)
from recbench.params import param

BackGathered = Callable[[Floats], tuple[Floats, Floats, dict[str, Gradient]]]
"""From what histories became to the items that they have, to users and to other tables."""


def histories(train: Pattern, batch: Batch) -> Pattern:
    """What else the user of each row has."""
    whole = of_users(train, batch.users)
    items = batch.items_of_cells
    owner = np.repeat(np.arange(len(batch.users)), np.diff(whole.starts))
    other = whole.cells != items[owner]
    starts = np.concatenate([[0], np.cumsum(np.bincount(owner[other], minlength=len(batch.users)))])
    return Pattern(starts, whole.cells[other], train.width)


def means(history: Pattern, dtype: np.dtype[Any]) -> Sparse:
    """The matrix that takes the mean of what each row has; of nothing it is 0."""
    lengths = np.maximum(history.lengths, 1)
    values = np.repeat((1 / lengths).astype(dtype), history.lengths)
    shape = len(lengths), history.width
    return scipy.sparse.csr_array((values, history.columns, history.starts), shape=shape)


def narrowed(history: Pattern) -> tuple[Indices, Pattern]:
    """The items that any row has, and the rows with the places of these."""
    items, places = together(history.width, history.columns)
    return items, Pattern(history.starts, places[history.columns], len(items))


@dataclass(frozen=True)
class YoutubeNet(Encoder):
    """A user is the mean of what he has; items have one vector, as history and as target."""

    history = True
    init: float = param(
        0.01, help="standard deviation of the numbers that vectors begin with", low=0, open_low=True
    )

    def tables(self, shape: tuple[int, int], factors: int, draw: np.random.Generator) -> Tables:
        """One for items."""
        return {"items": normal((shape[1], factors), self.init, draw)}

    def bind(self, tables: Tables, train: Sparse, pool: Executor) -> Bound:
        """Means of rows of the table."""
        return _Mean(tables["items"], Pattern.of(train))


class _Mean(Bound):
    def __init__(self, items: Floats, train: Pattern) -> None:
        self.items, self.train = items, train

    def forward(self, batch: Batch) -> Forward:
        """Vectors of the batch."""
        mean = means(histories(self.train, batch), self.items.dtype)
        items = self.items if batch.items is None else self.items[batch.items]

        def back(a: Floats, c: Floats, weights: Weights | None) -> Mapping[str, Gradient]:
            gradient: Floats = mean.T @ a
            if weights is not None:
                c = c + weights.items[:, None].astype(c.dtype) * items
            if batch.items is None:
                gradient += c
            else:
                gradient[batch.items] += c
            return {"items": Gradient(gradient)}

        users = mean @ self.items
        return Forward(users, items, back, lambda: (np.zeros_like(users), items))

    def everything(self) -> tuple[Floats, Floats]:
        """Vectors of all users and all items."""
        return means(self.train, self.items.dtype) @ self.items, self.items

    def strangers(self) -> "MeanOf":
        """Vectors from histories alone."""
        return MeanOf(self.items.copy())


@dataclass(frozen=True)
class MeanOf:
    """Users are the means of what they have."""

    items: Floats

    def __call__(self, history: Sparse) -> Floats:
        """Vectors from histories."""
        found: Floats = means(Pattern.of(history), self.items.dtype) @ self.items
        return found


@dataclass(frozen=True)
class Simplex(Encoder):
    """A user is a vector of his own and what is made of his history, g to 1 - g."""

    history = True
    own: float = param(
        0.5, help="share g of the user's own vector; the rest is the history", low=0, high=1,
        search=(0, 1),
    )  # fmt: skip
    gather: str = param(
        "mean", help="how a history becomes one vector: the mean of its items, or attention",
        choices=("mean", "attention"),
    )  # fmt: skip
    tables_for: str = param(
        "shared", help="items in histories: shared: the vectors they have as targets; own: others",
        choices=("shared", "own"),
    )  # fmt: skip
    init: float = param(
        0.01, help="standard deviation of the numbers that vectors begin with", low=0, open_low=True
    )

    def tables(self, shape: tuple[int, int], factors: int, draw: np.random.Generator) -> Tables:
        """For users, for items, for items in histories, and square ones."""
        users, items = shape
        tables = {
            "users": normal((users, factors), self.init, draw),
            "items": normal((items, factors), self.init, draw),
            "values": normal((factors, factors), factors**-0.5, draw),
        }
        if self.tables_for == "own":
            tables["histories"] = normal((items, factors), self.init, draw)
        if self.gather == "attention":
            tables["keys"] = normal((factors, factors), factors**-0.5, draw)
            tables["bias"] = np.zeros(factors, np.float32)
        return tables

    def bind(self, tables: Tables, train: Sparse, pool: Executor) -> Bound:
        """With the histories of the train matrix."""
        return _Mixed(self, tables, Pattern.of(train))


class _Mixed(Bound):
    def __init__(self, encoder: Simplex, tables: Tables, train: Pattern) -> None:
        self.encoder, self.tables, self.train = encoder, tables, train
        self.source = "histories" if encoder.tables_for == "own" else "items"

    def forward(self, batch: Batch) -> Forward:
        """Vectors of the batch."""
        table, share = self.tables["items"], self.encoder.own
        own = self.tables["users"][batch.users]
        items = table if batch.items is None else table[batch.items]
        met, gathered, back_gathered = self._gather(histories(self.train, batch), own)
        users = share * own + (1 - share) * (gathered @ self.tables["values"].T)

        def back(a: Floats, c: Floats, weights: Weights | None) -> Mapping[str, Gradient]:
            through: Floats = (1 - share) * a
            by_table, by_own, more = back_gathered(through @ self.tables["values"])
            by_own = by_own + share * a
            if weights is not None:
                by_own = by_own + weights.users[:, None].astype(a.dtype) * own
                c = c + weights.items[:, None].astype(a.dtype) * items
            gradients = {"users": by_row(batch.users, by_own), **more}
            gradients["values"] = Gradient(through.T @ gathered)
            if self.source == "items":
                by_items = np.zeros_like(table)
                by_items[met] = by_table
                by_items[slice(None) if batch.items is None else batch.items] += c
                return {**gradients, "items": Gradient(by_items)}
            histories_bar = Gradient(by_table, met)
            return {**gradients, "items": Gradient(c, batch.items), "histories": histories_bar}

        return Forward(users.astype(own.dtype, copy=False), items, back, lambda: (own, items))

    def _gather(self, history: Pattern, own: Floats) -> tuple[Indices, Floats, BackGathered]:
        """The items that histories have, one vector for each history, and the way back."""
        items, history = narrowed(history)
        table = self.tables[self.source][items]
        if self.encoder.gather == "mean":
            return items, *_average(history, own, table)
        return items, *_attend(history, own, table, self.tables["keys"], self.tables["bias"])

    def everything(self) -> tuple[Floats, Floats]:
        """Vectors of all users and all items."""
        return self._users(self.train, self.tables["users"]), self.tables["items"]

    def _users(self, history: Pattern, own: Floats) -> Floats:
        share = self.encoder.own
        _, gathered, _ = self._gather(history, own)
        users: Floats = share * own + (1 - share) * (gathered @ self.tables["values"].T)
        return users.astype(own.dtype, copy=False)

    def strangers(self) -> "MixedOf":
        """They have no vector of their own."""
        tables = {name: table.copy() for name, table in self.tables.items() if name != "users"}
        return MixedOf(self.encoder, tables)


@dataclass(frozen=True)
class MixedOf:
    """Users of `simplex` who have no vector of their own."""

    encoder: Simplex
    tables: Tables

    def __call__(self, history: Sparse) -> Floats:
        """Vectors from histories."""
        pattern, items = Pattern.of(history), self.tables["items"]
        nothing = np.zeros((history.shape[0], items.shape[1]), items.dtype)
        return _Mixed(self.encoder, self.tables, pattern)._users(pattern, nothing)


def _average(history: Pattern, own: Floats, table: Floats) -> tuple[Floats, BackGathered]:
    """The mean of the history, whoever has it."""
    mean, nothing = means(history, table.dtype), np.zeros_like(own)
    return mean @ table, lambda gradient: (mean.T @ gradient, nothing, {})


def _attend(
    history: Pattern, own: Floats, table: Floats, keys: Floats, bias: Floats
) -> tuple[Floats, BackGathered]:
    """Items weighed by a softmax of tanh(K q + b)·u over the history."""
    from recbench.linalg import responses_kernel as kernel

    faces = np.tanh(table @ keys.T + bias)
    scores = np.empty(len(history.columns), table.dtype)
    kernel.dots(own, faces, history.starts, history.columns, scores)
    weights = _softmax(scores, history)
    shape = len(own), history.width

    def matrix(values: Floats) -> Sparse:
        return scipy.sparse.csr_array((values, history.columns, history.starts), shape=shape)

    weighing = matrix(weights)
    gathered = weighing @ table

    def back(gradient: Floats) -> tuple[Floats, Floats, dict[str, Gradient]]:
        by_weights = np.empty_like(scores)
        kernel.dots(
            np.ascontiguousarray(gradient), table, history.starts, history.columns, by_weights
        )
        level = np.einsum("ik,ik->i", gradient, gathered)
        by_scores = weights * (by_weights - np.repeat(level, history.lengths))
        sloping = matrix(by_scores.astype(table.dtype))
        by_faces = (sloping.T @ own) * (1 - faces**2)
        more = {"keys": Gradient(by_faces.T @ table), "bias": Gradient(by_faces.sum(axis=0))}
        return weighing.T @ gradient + by_faces @ keys, sloping @ faces, more

    return gathered, back


def _softmax(scores: Floats, history: Pattern) -> Floats:
    """By row; tanh(...)·u is small enough to need no shift, but what is not is not left to luck."""
    full = np.flatnonzero(history.lengths)
    starts, lengths = history.starts[full], history.lengths[full]
    if len(full) == 0:
        return scores
    top = np.repeat(np.maximum.reduceat(scores, starts), lengths)
    weights = np.exp(scores - top)
    total = np.repeat(np.add.reduceat(weights, starts), lengths)
    found: Floats = weights / total
    return found
