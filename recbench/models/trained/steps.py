"""One step of training: from tables to vectors, scores, a loss, and all the way back.

A block of users against all items, or single interactions against items that are drawn, are the
same arithmetic: rows, their interactions, and the columns they face.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from recbench.errors import RecbenchError, check_takes, home_of, located
from recbench.linalg.normal import Pattern, chances
from recbench.linalg.responses import Block, Hide, Own, Response, Room, Shared, Squares
from recbench.linalg.types import Floats, Vector
from recbench.models.trained.batches import Batch, of_users
from recbench.models.trained.encoders import Bound, Forward, Gradient, Weights, by_row, squares
from recbench.models.trained.loss import Loss, Positives, graded
from recbench.models.trained.similarity import SIMILARITIES

BOUNDARY = "boundary"
"""The table of the vector that a loss learns."""
Mask = Callable[[Floats], Floats | None]
"""What users' vectors are multiplied by, if by anything."""
MARGINS = ("user margins", "item margins")
"""The tables of the margins that a loss learns."""


def learned(loss: Loss, score: str, shape: tuple[int, int], factors: int) -> dict[str, Floats]:
    """The tables of a loss as training begins: no boundary, all of the margins."""
    tables: dict[str, Floats] = {}
    if loss.learns:
        width = factors + 2 if score == "distance" else factors
        tables[BOUNDARY] = np.zeros(width, np.float32)
    if loss.margins:
        for name, size in zip(MARGINS, shape, strict=True):
            tables[name] = np.ones(size, np.float32)
    return tables


def learned_of_users(loss: Loss, users: int, like: np.dtype[Any]) -> dict[str, Floats]:
    """What a loss would have learned of users, had they been there: nothing yet."""
    return {MARGINS[0]: np.ones(users, like)} if loss.margins else {}


@dataclass(frozen=True)
class Penalty:
    """What the squares of vectors weigh: l2 / 2 for both of every interaction, at a power of 1.

    At another one a vector with c interactions weighs as mean (c / mean)^power of them: as before
    if it has as many as the mean, and as much as any other that has some at a power of 0.
    """

    l2: float
    power: float
    mean: float
    """Interactions of a user, on average; also of those who come later."""

    def of_users(self, loss: Loss, degrees: Vector, items: int) -> Vector:
        """Of users' vectors, and what the loss says of them."""
        return self._with_own(degrees, self.mean, loss.ridge(degrees, items, users=True))

    def of_items(self, loss: Loss, popularity: Vector, users: int) -> Vector:
        """Of items'."""
        mean = popularity.sum() / max(len(popularity), 1)
        return self._with_own(popularity, mean, loss.ridge(popularity, users, users=False))

    def _with_own(self, counts: Vector, mean: float, own: Vector | None) -> Vector:
        if self.l2 == 0:  # or 0 times what is too large for a number
            return np.zeros(len(counts)) if own is None else own
        weighed = counts
        if self.power != 1 and mean > 0:
            weighed = np.where(counts > 0, mean * (counts / mean) ** self.power, 0)
        return self.l2 / 2 * weighed + (0 if own is None else own)


@dataclass(frozen=True)
class Problem:
    """What is minimised on a train matrix: a loss on scores, and penalties of vectors."""

    loss: Loss
    train: Pattern
    score: str
    penalty: Penalty
    degrees: Vector
    """Interactions of each user."""
    popularity: Vector
    """And of each item."""
    user_ridge: Vector | None
    """What the square of each user's vector weighs, against the sum over interactions."""
    item_ridge: Vector | None
    weights: Floats | None
    """What items weigh in means over all of them, if not the same."""

    @classmethod
    def of(
        cls, loss: Loss, train: Pattern, score: str, dtype: np.dtype[Any], l2: float = 0.0,
        power: float = 1.0, popularity: float | None = None,
    ) -> "Problem":  # fmt: skip
        """Work out penalties and weights; `popularity` is the loss's own unless it is given."""
        degrees = train.lengths.astype(np.float64)
        counts = np.bincount(train.columns, minlength=train.width).astype(np.float64)
        penalty = Penalty(l2, power, len(train.columns) / max(len(degrees), 1))
        for_users = penalty.of_users(loss, degrees, train.width)
        for_items = penalty.of_items(loss, counts, len(degrees))
        anything = for_users.any() or for_items.any()
        weights = chances(counts, loss.popularity if popularity is None else popularity)
        return cls(
            loss, train, score, penalty, degrees, counts,
            for_users if anything else None, for_items if anything else None,
            None if weights is None else weights.astype(dtype),
        )  # fmt: skip

    def with_users(self, train: Pattern) -> "Problem":
        """The same for other users."""
        degrees = train.lengths.astype(np.float64)
        ridge = None
        if self.user_ridge is not None:
            ridge = self.penalty.of_users(self.loss, degrees, train.width)
        return replace(self, train=train, degrees=degrees, user_ridge=ridge)

    def without_users(self) -> "Problem":
        """What it says of items, for users to come."""
        nobody = Pattern(np.zeros(1, np.int64), np.zeros(0, np.int32), self.train.width)
        return self.with_users(nobody)

    def penalties(self, batch: Batch) -> Weights | None:
        """The share of this batch: of users by their interactions in it, of items likewise.

        Where all items are at hand, each gets the share of the batch in all interactions: the same
        on average, and items without interactions are not left out.
        """
        if self.user_ridge is None or self.item_ridge is None:
            return None
        lengths, degrees = np.diff(batch.starts), self.degrees[batch.users]
        share = np.where(degrees > 0, lengths / np.maximum(degrees, 1), 1.0)
        if batch.items is None:
            items = self.item_ridge * (batch.interactions / max(len(self.train.columns), 1))
        else:
            counts = np.bincount(batch.cells, minlength=len(batch.items))
            items = self.item_ridge[batch.items] * counts
            items /= np.maximum(self.popularity[batch.items], 1)
        return Weights(share * self.user_ridge[batch.users], items)


@dataclass(frozen=True)
class Outcome:
    """What a step has found."""

    value: float
    """The loss, penalties included, per interaction of the batch."""
    gradients: Mapping[str, Gradient]


def step(
    problem: Problem, encoder: Bound, tables: Mapping[str, Floats], batch: Batch, pool: Executor,
    room: Room, mask: Mask | None = None,
) -> Outcome:  # fmt: skip
    """The loss of a batch and its derivatives, per interaction of it.

    `mask` is laid over users' vectors before they meet the items'.
    """
    similarity, vectors = SIMILARITIES[problem.score], _vectors(problem, encoder, batch)
    a, back_a = similarity.users(vectors.users, pool)
    c, back_c = similarity.items(vectors.items, pool)
    kept = None if mask is None else mask(a)
    a, c = np.ascontiguousarray(a if kept is None else a * kept), np.ascontiguousarray(c)
    others, back_others = None, None
    if problem.loss.margins:  # items are rows as well
        others, back_others = similarity.users(vectors.items[batch.cells], pool)

    bound = 1.0 if problem.score == "cosine" and kept is None else None

    found = _faced(problem, tables, batch, Factors(pool, room, a, c, others, bound))
    items_bar = back_c(found.items)
    if back_others is not None and found.others is not None:
        more = by_row(batch.cells, back_others(found.others))
        items_bar[more.rows] += more.values
    users_bar = back_a(found.users if kept is None else found.users * kept)

    size = 1 / max(batch.interactions, 1)
    value, penalties = found.value, problem.penalties(batch)
    if penalties is not None:
        users, items = vectors.trained()
        value += size * (squares(users, penalties.users) + squares(items, penalties.items))
        penalties = Weights(2 * size * penalties.users, 2 * size * penalties.items)
    gradients = {**found.gradients, **vectors.back(users_bar, items_bar, penalties)}
    aside = encoder.aside(batch, room)
    if aside is not None:
        value += aside.value
        for name, more in aside.gradients.items():
            gradients[name] = Gradient(gradients[name].values + more.values)
    return Outcome(value, gradients)


def _vectors(problem: Problem, encoder: Bound, batch: Batch) -> Forward:
    """What an encoder makes; one of a plugin may not make a vector for every row."""
    vectors = encoder.forward(batch)
    columns = problem.train.width if batch.items is None else len(batch.items)
    made = (("users", vectors.users, len(batch.users)), ("items", vectors.items, columns))
    for of, table, count in made:
        if np.ndim(table) != 2 or len(table) != count:
            wrong = f"`forward` has vectors of {of} of shape {np.shape(table)} for {count} of them"
            raise RecbenchError(located(wrong, home_of(type(encoder).forward)))
    return vectors


class Factors(NamedTuple):
    """What scores are products of, and where they are worked out."""

    pool: Executor
    room: Room
    users: Floats
    items: Floats
    others: Floats | None
    """Items of the interactions, where they are rows as well."""
    bound: float | None
    """What no score is further from 0 than, if that is known."""


class Found(NamedTuple):
    """The loss of a batch, and its derivatives by what scores are products of."""

    value: float
    users: Floats
    items: Floats
    others: Floats | None
    gradients: dict[str, Gradient]
    """By what the loss learns."""


def _faced(problem: Problem, tables: Mapping[str, Floats], batch: Batch, factors: Factors) -> Found:
    """Let rows face their columns, and ask the loss."""
    loss, a, c, others = problem.loss, factors.users, factors.items, factors.others
    cells = Cells(batch, a, c)
    positives = Positives(
        batch.starts, cells.scores(), problem.degrees[batch.users], problem.train.width,
        *_own(loss, tables, batch, a),
    )  # fmt: skip
    block = _block(factors, batch, loss.response)
    hide = _hiding(problem.train, batch) if loss.unseen and not isinstance(block, Own) else None
    weights = problem.weights if batch.columns is None else None
    response = replace(loss.response, total=problem.train.width)
    check_takes(loss.shift, (positives,), f"shift of {loss.name}", "shift(self, positives)")
    means = block.respond(response, loss.shift(positives), weights, hide, factors.bound)
    grades = graded(loss, positives, means)

    size = 1 / max(batch.interactions, 1)
    by_means = grades.means * size
    alike = None if grades.alike is None else grades.alike * size / block.width
    a_bar, c_bar = block.pull(by_means, alike), block.push(by_means, alike)
    others_bar = None
    if others is not None:
        a_bar, others_bar = a_bar[: len(a)], a_bar[len(a) :]
    cells.add((grades.cells * size).astype(a.dtype), a_bar, c_bar)
    gradients: dict[str, Gradient] = {}
    if grades.boundary is not None:
        by_boundary = (grades.boundary * size).astype(a.dtype)
        a_bar += np.outer(by_boundary, tables[BOUNDARY])
        gradients[BOUNDARY] = Gradient(by_boundary @ a)
    if grades.margins is not None:
        of_users, of_items = ((margin * size).astype(a.dtype) for margin in grades.margins)
        gradients[MARGINS[0]] = by_row(batch.users, of_users)
        gradients[MARGINS[1]] = by_row(batch.items_of_cells, of_items)
    return Found(grades.value * size, a_bar, c_bar, others_bar, gradients)


def _own(
    loss: Loss, tables: Mapping[str, Floats], batch: Batch, a: Floats
) -> tuple[Vector, tuple[Vector, Vector]]:
    """What the loss has learned of the rows of a batch, and of its cells."""
    none = np.zeros(0)
    boundary = (a @ tables[BOUNDARY]).astype(np.float64) if loss.learns else none
    if not loss.margins:
        return boundary, (none, none)
    users, items = (tables[name].astype(np.float64) for name in MARGINS)
    return boundary, (users[batch.users], items[batch.items_of_cells])


class Cells:
    """The interactions of a batch, by row and by item."""

    def __init__(self, batch: Batch, a: Floats, c: Floats) -> None:
        self.batch, self.a, self.c = batch, a, c

    def scores(self) -> Vector:
        """s_ui of each."""
        from recbench.linalg import responses_kernel as kernel

        out = np.empty(self.batch.interactions, self.a.dtype)
        kernel.dots(self.a, self.c, self.batch.starts, self.batch.cells, out)
        return out.astype(np.float64)

    def add(self, values: Floats, a_bar: Floats, c_bar: Floats) -> None:
        """Add what they have to the derivatives."""
        from recbench.linalg import responses_kernel as kernel

        cells = self.batch.starts, self.batch.cells, values
        kernel.add_to_rows(*cells, self.c, a_bar)
        kernel.add_to_columns(*cells, self.a, c_bar)


def _block(factors: Factors, batch: Batch, response: Response) -> Block:
    """Rows against what they face."""
    pool, room, a, c, others, _ = factors
    if batch.columns is None and response.kind == "square":
        return Squares(pool, a, c)
    rows = a if others is None else np.concatenate([a, others])
    if batch.columns is None:
        return Block(pool, rows, c, room)
    if batch.columns.ndim == 1:
        return Shared(pool, rows, c, room, batch.columns)
    times = len(rows) // len(a)  # items, where they are rows as well, face the same
    return Own(pool, rows, c, room, np.tile(batch.columns, (times, 1)))


def _hiding(train: Pattern, batch: Batch) -> Hide:
    """Set scores of what the user of a row has to -infinity."""
    columns = np.arange(train.width) if batch.items is None else batch.items
    if batch.columns is not None:
        columns = columns[batch.columns]
    order = np.argsort(columns, kind="stable")
    bounds = np.searchsorted(columns[order], np.arange(train.width + 1))
    whole = of_users(train, batch.users)
    rows = np.repeat(np.arange(len(batch.users)), np.diff(whole.starts))
    times = bounds[whole.cells + 1] - bounds[whole.cells]
    # Every place where an item of the row's user is among the columns.
    rows = np.repeat(rows, times)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(times) - times, times)
    places = order[np.repeat(bounds[whole.cells], times) + within]

    def hide(panel: Floats, start: int) -> None:
        inside = (places >= start) & (places < start + panel.shape[1])
        panel[rows[inside], places[inside] - start] = -np.inf

    return hide
