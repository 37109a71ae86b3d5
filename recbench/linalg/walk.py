"""Walks on the graph of a binary matrix: Â x, and means of its powers.

The rows of R and its columns, users and items, are the nodes of a graph, rows first, with an edge
for every one. With A the matrix of the graph and Δ the diagonal of its degrees,

    Â = Δ^-1/2 A Δ^-1/2,   A = [ 0   R ]
                               [ Rᵀ  0 ]

where Δ^-1/2 is 0 for a node without edges, and

    G = (I + Â + ... + Â^K) / (K + 1)

is what LightGCN makes of a table of embeddings in K hops. By Horner's rule y ← Â y + x, K times
from y = x. In z = Δ^-1/2 y that is z ← Δ^-1 A z + Δ^-1/2 x: after the first hop the rows of a
table are added up as they are, and no value is stored or read for an edge.

Â is symmetric, and so is G. The gradient with respect to the table is therefore `spread` itself,
applied to the gradient with respect to what `spread` returned. Where only some rows were asked for
it is `spread_back`. Then the last hop walks along the edges of those rows only, and the first one
back too, unless these are most of all: it writes where the others read, which takes longer.

A row is summed by one thread, in the order of its neighbours. So results do not depend on the
number of threads.
"""

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from recbench.linalg import blas, shares
from recbench.linalg.rows import checked, every, places_of
from recbench.linalg.shares import Share
from recbench.linalg.types import Counts, Flags, Floats, Indices, Sparse, Vector

ROW_COST = 4
"""Entering and leaving a row costs about as much as so many neighbours."""

LEAST = 1 << 12
"""The least number of neighbours and rows that are worth a task of their own."""

MANY = 3
"""A first hop back from rows with one edge in so many takes as long as one from all."""


class Ends(NamedTuple):
    """By node: what a sum over neighbours is multiplied by, and the row of the base it is added to.

    No shares at all are zeros, whatever the base holds.
    """

    scales: Floats
    shares: Floats

    @classmethod
    def of(cls, scales: Floats, shares: Floats, dtype: np.dtype[Any]) -> "Ends":
        """Both in the precision of a table."""
        return cls(scales.astype(dtype), shares.astype(dtype))


First = Callable[[Ends, Floats], None]
"""Makes the first hop, given its ends and where it goes."""


@dataclass(frozen=True, eq=False)
class Graph:
    """Where the ones of a matrix are, seen from both sides."""

    starts: Counts
    """Where the neighbours of each node begin."""
    neighbours: npt.NDArray[np.uint32]
    """Nodes, ascending for each node: columns for the rows of R, then rows for its columns."""
    entries: Indices
    """For each neighbour of a column: which of the ones, by rows, it is."""

    @classmethod
    def of(cls, matrix: Sparse) -> "Graph":
        """The graph of a binary matrix."""
        if sum(matrix.shape) >= 2**31 or matrix.nnz >= 2**31:
            raise ValueError("a graph has less than 2^31 nodes and edges")
        if not (matrix.data == 1).all():
            raise ValueError("a graph is made of a binary matrix; this one has other values")
        if not matrix.has_canonical_format:
            raise ValueError("a graph is made of rows with ascending columns, each of them once")
        rows, count = matrix.shape[0], np.int64(matrix.nnz)
        numbers = np.arange(count, dtype=np.int32)
        turned = scipy.sparse.csr_array(
            (numbers, matrix.indices, matrix.indptr), matrix.shape
        ).tocsc()
        return cls(
            np.concatenate([matrix.indptr, turned.indptr[1:] + count], dtype=np.int64),
            np.concatenate([matrix.indices + np.int64(rows), turned.indices]).astype(np.uint32),
            turned.data,
        )

    def only(self, keep: Flags) -> "Graph":
        """The graph of some of the ones, given as flags, by rows; its degrees are its own."""
        if keep.shape != self.entries.shape or keep.dtype != np.bool_:
            raise ValueError(
                f"expected a flag for each of {len(self.entries)} edges, not "
                f"{keep.dtype} of shape {keep.shape}"
            )
        turned = keep[self.entries]
        both = np.concatenate([keep, turned])
        before = np.concatenate([[0], np.cumsum(both)])
        renumbered = (np.cumsum(keep) - 1).astype(np.int32)
        kept = renumbered[self.entries[turned]]
        return Graph(before[self.starts], self.neighbours[both], kept)

    @property
    def nodes(self) -> int:
        """How many rows and columns there are together."""
        return len(self.starts) - 1

    @cached_property
    def degrees(self) -> Counts:
        """How many neighbours each node has."""
        return np.diff(self.starts)

    def hop(self, pool: Executor, x: Floats, out: Floats, rows: Indices | None = None) -> None:
        """Put Â x, or those rows of it, into `out`."""
        x, wanted = self._table(x, self.nodes), self._wanted(rows)
        if out.shape != (len(wanted), x.shape[1]) or out.dtype != x.dtype:
            raise ValueError(f"{out.dtype} of shape {out.shape} cannot hold this product")
        if np.may_share_memory(x, out) or not out.flags.c_contiguous:
            raise ValueError("a product needs rows of its own")
        roots = self._roots.astype(x.dtype)
        self._first(pool, wanted, x, Ends(roots, roots[:0]), out)

    def spread(
        self, pool: Executor, table: Floats, hops: int, rows: Indices | None = None
    ) -> Floats:
        """G x, or those rows of it."""
        table, wanted = self._table(table, self.nodes), self._wanted(rows)
        if hops == 0:
            return table[wanted]
        some = wanted if hops == 1 else self._every
        return self._hops(pool, hops, partial(self._first, pool, some, table), table, wanted)

    def spread_back(self, pool: Executor, gradient: Floats, hops: int, rows: Indices) -> Floats:
        """The transpose of `spread` with these rows, each of them named once.

        It is G x for the x that is the gradient in these rows, and 0 in all others.
        """
        some = checked(rows, self.nodes)
        places = places_of(some, self.nodes)
        gradient = table = self._table(gradient, len(some))
        many = MANY * self.degrees[some].sum() > len(self.neighbours)
        if hops != 1 or many:  # else there is no use for the zeros
            table = np.zeros((self.nodes, gradient.shape[1]), gradient.dtype)
            table[some] = gradient
        if hops == 0:
            return table
        if many:
            return self.spread(pool, table, hops)
        first = partial(self._first_back, pool, some, places, gradient)
        return self._hops(pool, hops, first, table, self._every)

    def _hops(
        self, pool: Executor, hops: int, first: First, table: Floats, wanted: Indices
    ) -> Floats:
        """Go all hops, given the first, and the last one only for the rows that are wanted."""
        roots, shape = self._roots, (self.nodes, table.shape[1])
        share = np.full(self.nodes, 1 / (hops + 1))
        last = Ends.of(roots * share, share, table.dtype)
        out = np.empty((len(wanted), table.shape[1]), table.dtype)
        if hops == 1:
            first(last, out)
            return out
        between = Ends.of(roots**2, roots, table.dtype)
        now = np.empty(shape, table.dtype)
        other = out if out.shape == shape else np.empty(shape, table.dtype)
        if hops % 2:  # the last hop must not read what it writes
            now, other = other, now
        first(between, now)
        for _ in range(hops - 2):
            self._next(pool, self._every, now, table, between, other)
            now, other = other, now
        self._next(pool, wanted, now, table, last, out)
        return out

    def _first(self, pool: Executor, rows: Indices, x: Floats, ends: Ends, out: Floats) -> None:
        """Make scales · A Δ^-1/2 x + shares · x, in some rows."""
        from recbench.linalg.walk_kernel import pull_weighted  # brings numba

        given = rows, self.starts, self.neighbours, self._roots.astype(x.dtype), x, x, *ends, out
        blas.finish(pool, pull_weighted, ((*task, *given) for task in self._tasks_of(rows)))

    def _next(
        self, pool: Executor, rows: Indices, x: Floats, base: Floats, ends: Ends, out: Floats
    ) -> None:
        """Make scales · A x + shares · base, in some rows."""
        from recbench.linalg.walk_kernel import pull

        given = rows, self.starts, self.neighbours, x, base, *ends, out
        blas.finish(pool, pull, ((*task, *given) for task in self._tasks_of(rows)))

    def _first_back(
        self,
        pool: Executor,
        rows: Indices,
        places: Indices,
        gradient: Floats,
        ends: Ends,
        out: Floats,
    ) -> None:
        """What `_first` makes, in all rows, of a table that is 0 but for some."""
        from recbench.linalg.walk_kernel import push

        weights = self._roots.astype(gradient.dtype)
        given = rows, places, self.starts, self.neighbours, weights, gradient, *ends, out
        blas.finish(pool, push, ((*task, *given) for task in self._tasks))

    def _tasks_of(self, rows: Indices) -> list[Share]:
        return self._tasks if rows is self._every else _tasks(self.degrees[rows])

    @cached_property
    def _roots(self) -> Vector:
        """The diagonal of Δ^-1/2."""
        roots = np.zeros(self.nodes)
        np.divide(1.0, np.sqrt(self.degrees), out=roots, where=self.degrees > 0)
        return roots

    @cached_property
    def _every(self) -> Indices:
        return every(self.nodes)

    @cached_property
    def _tasks(self) -> list[Share]:
        return _tasks(self.degrees)

    def _wanted(self, rows: Indices | None) -> Indices:
        return self._every if rows is None else checked(rows, self.nodes)

    def _table(self, table: Floats, count: int) -> Floats:
        """Check a table of so many rows, and lay it out as the loops are compiled for."""
        if table.ndim != 2 or len(table) != count or table.dtype not in (np.float32, np.float64):
            raise ValueError(
                f"expected a table of {count} rows in float32 or float64, not {table.dtype} of "
                f"shape {table.shape}"
            )
        return np.ascontiguousarray(table)


def _tasks(degrees: Counts) -> list[Share]:
    """Cut rows into shares of about equal work, and few of them into fewer."""
    work = np.concatenate([[0], np.cumsum(degrees + ROW_COST)])
    return shares.fair(work, min(shares.for_cores(), 1 + int(work[-1]) // LEAST))
