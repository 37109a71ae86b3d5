"""Who holds which tile of an inverse, who sends what to whom, and what that comes to.

The holders stand in a grid of as many rows as columns, or nearly, and tile (i, j) is with the one
in row i modulo its height and column j modulo its width: so each has tiles from everywhere, and
about as much to do in every step. What a step makes of tile (i, k) is needed for the tiles of row
and column i of the matrix, thus by one row and one column of the grid, P + Q - 1 holders of P x Q.
One of them has it. In n steps of a column each that is every number of an n x n matrix P + Q - 2
times, whatever the side of the tiles: at the edges, where a holder has no tile in a row that it
stands in, it is sent all the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import isqrt

import numpy as np

Key = tuple[int, int]

PANELS = 3
"""Of what a step sends around, as much as is in memory at once: what came, and what two steps give
away."""


@dataclass(frozen=True)
class Layout:
    """The tiles of a symmetric n x n matrix with so many holders, who are numbered from 0."""

    n: int
    side: int
    dtype: str
    holders: int

    @cached_property
    def count(self) -> int:
        """How many rows of tiles there are."""
        return -(-self.n // self.side)

    @cached_property
    def grid(self) -> tuple[int, int]:
        """The rows and columns that the holders stand in."""
        down = next(p for p in range(isqrt(self.holders), 0, -1) if self.holders % p == 0)
        return down, self.holders // down

    @cached_property
    def item(self) -> int:
        """Bytes of a number."""
        return np.dtype(self.dtype).itemsize

    def height(self, i: int) -> int:
        """How many rows the tiles of row i have."""
        return min(self.side, self.n - i * self.side)

    def holder(self, key: Key) -> int:
        """Who holds a tile, given by its row and a column that is not beyond it."""
        (i, j), (down, across) = key, self.grid
        return i % down * across + j % across

    def keys(self, number: int) -> list[Key]:
        """The tiles of one holder."""
        down, across = self.grid
        row, column = divmod(number, across)
        rows = range(row, self.count, down)
        return [(i, j) for i in rows for j in range(column, i + 1, across)]

    def crossed(self, number: int) -> list[int]:
        """The rows of tiles whose part of a panel one holder needs."""
        down, across = self.grid
        row, column = divmod(number, across)
        return [i for i in range(self.count) if i % down == row or i % across == column]

    # What it comes to

    @property
    def copies(self) -> int:
        """How many holders need what another one has of a panel."""
        return sum(self.grid) - 2

    def bytes_sent(self) -> int:
        """What all holders send to each other until the inverse is there."""
        return self.n**2 * self.copies * self.item

    def bytes_received(self, number: int) -> int:
        """What of that one holder is sent: the rows it needs of n columns, less what it has."""
        wanted = self.n * sum(self.height(i) for i in self.crossed(number))
        sizes = ((i, j, self.height(i) * self.height(j)) for i, j in self.keys(number))
        return (wanted - sum(size * (1 + (i != j)) for i, j, size in sizes)) * self.item

    def bytes_held(self, number: int) -> int:
        """The tiles of one holder, and the panels that it has at a time."""
        tiles = sum(self.height(i) * self.height(j) for i, j in self.keys(number))
        panel = self.side * sum(self.height(i) for i in self.crossed(number))
        return (tiles + (PANELS * panel if self.copies else 0)) * self.item

    def bytes_read(self, ranges: Sequence[tuple[int, int]]) -> int:
        """What holders send to each other where each reads a range of columns, from the first to
        before the last: all of their numbers, less those that it has.
        """
        missing = 0
        for number, (first, last) in enumerate(ranges):
            missing += self.n * (last - first)
            for i, j in self.keys(number):
                missing -= self.height(i) * self._shared(j, first, last)
                missing -= self.height(j) * self._shared(i, first, last) if i != j else 0
        return missing * self.item

    def _shared(self, j: int, first: int, last: int) -> int:
        """How many columns of a range are those of tile column j."""
        start = j * self.side
        return max(0, min(last, start + self.height(j)) - max(first, start))

    def operations(self) -> float:
        """Those of the inverse that follow each other, n³ if there is one holder.

        Of every step it is the pivot, then what the holder has to do that has most of the panel,
        then what that has that has most of the rest: all wait for all. What a holder does of the
        next step meanwhile is not taken off.
        """
        heights = np.array([self.height(i) for i in range(self.count)], np.float64)
        rest = np.zeros(self.holders)
        for number in range(self.holders):
            for i, j in self.keys(number):
                rest[number] += heights[i] * heights[j] * (1 + (i != j))
        total = 0.0
        for k, height in enumerate(heights):
            owners = [self.holder((max(i, k), min(i, k))) for i in range(self.count)]
            panel = height * np.bincount(owners, heights, self.holders)
            panel[owners[k]] -= height**2
            others = rest - 2 * panel
            others[owners[k]] -= height**2
            total += height * (height**2 + 2 * panel.max() + others.max())
        return float(total)

    def seconds(self, gflops: float, bandwidth: float) -> float:
        """The inverse, by the speed of a holder's matrix product and the bytes a second it gets:
        what follows each other at that speed, and then all that the one who gets most is sent.
        """
        network = max(map(self.bytes_received, range(self.holders))) / bandwidth
        return self.operations() / (gflops * 1e9) + network


def ranges_of(n: int, holders: int, step: int) -> list[tuple[int, int]]:
    """Columns dealt out to holders: a range for each, about equal, from multiples of `step`."""
    steps = -(-n // step)
    edges = [min(n, steps * k // holders * step) for k in range(holders + 1)]
    return list(pairwise(edges))
