"""What a step of training looks at: some rows, their interactions, and the items they face.

Either a block of users with all of their interactions, against all items; or single interactions,
each a row, against items that are drawn. Draws depend on the seed and the number of the epoch.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from recbench.linalg.normal import Pattern
from recbench.linalg.rows import together
from recbench.linalg.types import Counts, Flags, Indices, Integers, Vector


@dataclass(frozen=True)
class Batch:
    """Rows of a step. Items are numbered within `items`, where that is given."""

    users: Integers
    """The user of each row."""
    starts: Counts
    """Where the interactions of each row start, and where the last ones end."""
    cells: Indices
    """The items of these interactions."""
    items: Indices | None = None
    """The items that matter to this step, ascending; None: all."""
    columns: Indices | None = None
    """The items that rows face: the same for all rows, or rows x items; None: all of `items`."""

    @property
    def items_of_cells(self) -> Indices:
        """The items of the interactions, by the numbers they have in all."""
        return self.cells if self.items is None else self.items[self.cells]

    @property
    def items_faced(self) -> Indices:
        """Those of rows with items of their own; if there was no other to draw, the row's item."""
        if self.items is None or self.columns is None:
            return self.items_of_cells[:, None]
        return self.items[self.columns]

    @property
    def interactions(self) -> int:
        """How many there are."""
        return len(self.cells)


def users_at_once(train: Pattern, size: int, draw: np.random.Generator) -> Iterator[Batch]:
    """All users in blocks, each user once."""
    order = draw.permutation(len(train.starts) - 1)
    blocks = max(1, -(-len(order) // size))
    for users in np.array_split(order, blocks):  # blocks of equal size: none is a small rest
        yield of_users(train, np.sort(users))


def of_users(train: Pattern, users: Integers) -> Batch:
    """Some users, all of their interactions, all items."""
    lengths = train.starts[users + 1] - train.starts[users]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    within = np.arange(starts[-1]) - np.repeat(starts[:-1], lengths)
    return Batch(users, starts, train.columns[np.repeat(train.starts[users], lengths) + within])


TRIES = 100
"""How often an item is drawn anew for a user who has it: somebody may have them all."""


@dataclass(frozen=True)
class Draws:
    """How interactions and the items they face are drawn."""

    size: int
    """Interactions at once."""
    by_users: bool
    """Whether users are drawn first, all alike, and then one interaction of each."""
    negatives: str
    """all · shared: drawn for all rows · own: for each row · batch: the items of the batch."""
    number: int
    """How many are drawn, together or for each row."""
    unseen: bool
    """Whether `own` ones must not be among what the user has."""
    chances: Vector | None = None
    """Of every item to be drawn, adding up to 1; None: all alike."""

    def batches(self, train: Pattern, draw: np.random.Generator) -> Iterator[Batch]:
        """As many interactions as there are, in batches."""
        total = len(train.columns)
        if total == 0:
            return
        owners = np.repeat(np.arange(len(train.starts) - 1), train.lengths)
        if self.by_users:
            some = np.flatnonzero(train.lengths)
            for _ in range(-(-total // self.size)):
                users = some[draw.integers(len(some), size=min(self.size, total))]
                places = (draw.random(len(users)) * train.lengths[users]).astype(np.int64)
                yield self._batch(train, users, train.columns[train.starts[users] + places], draw)
            return
        order = draw.permutation(total)
        for chosen in np.array_split(order, -(-total // self.size)):
            yield self._batch(train, owners[chosen], train.columns[chosen], draw)

    def _covers(self, items: int) -> bool:
        """Whether as many would be drawn as there are: then each is faced once instead."""
        return self.negatives in ("shared", "own") and self.number >= items

    def _batch(
        self, train: Pattern, users: Integers, cells: Indices, draw: np.random.Generator
    ) -> Batch:
        """Draw what these interactions face."""
        starts = np.arange(len(users) + 1)
        if self.negatives == "all" or self._covers(train.width):
            return Batch(users, starts, cells)
        if self.negatives == "batch":
            columns = cells
        elif self.negatives == "shared":
            columns = self._items(train.width, self.number, draw)
        else:
            columns = self._items(train.width, len(users) * self.number, draw)
            columns = columns.reshape(len(users), self.number)
            if self.unseen:
                self._draw_again(columns, train, users, draw)
        items, places = together(train.width, cells, columns)
        return Batch(users, starts, places[cells], items, places[columns])

    def _items(self, width: int, size: int, draw: np.random.Generator) -> Indices:
        """Draw items, with repetitions."""
        if self.chances is None:
            return draw.integers(width, size=size, dtype=np.int32)
        return draw.choice(width, size=size, p=self.chances).astype(np.int32)

    def _draw_again(
        self, columns: Indices, train: Pattern, users: Integers, draw: np.random.Generator
    ) -> None:
        """Replace items that the user has, in place."""
        rows = np.repeat(users, columns.shape[1])
        flat = columns.reshape(-1)
        wrong = np.arange(len(flat))
        for _ in range(TRIES):
            wrong = wrong[has(train, rows[wrong], flat[wrong])]
            if len(wrong) == 0:
                return
            flat[wrong] = self._items(train.width, len(wrong), draw)


def has(train: Pattern, users: Integers, items: Indices) -> Flags:
    """Whether each user has the item beside: rows of `train` ascend."""
    from recbench.linalg import responses_kernel as kernel

    found = np.empty(len(users), dtype=np.bool_)
    kernel.contained(train.starts, train.columns, users, items, found)
    return found
