"""The k best columns of every row of a matrix that is never held as a whole.

The matrix may be made in blocks of rows by any function, be a sparse matrix times a square one
that is read in panels of columns or times another sparse one, be blocks of rows that any function
makes times a sparse one, or be a product of two thin factors.
In each case scores are searched while they are still in the cache. One pass finds the best under
many column scales.

Better means a higher score, then a lower column. Every row is summed and searched by one thread
in the order of its columns, and BLAS runs on blocks of fixed size with one thread each, so the
result does not depend on the number of threads. That number is the one BLAS is given.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy

from recbench.errors import RecbenchError
from recbench.linalg import blas, shares
from recbench.linalg.real import real, real_dtype
from recbench.linalg.types import Counts, Floats, Indices, Progress, Sparse, silent

Scale = Floats | None
"""A number per column that scores are multiplied by; None multiplies by nothing."""
Scales = Sequence[Scale]

Compressed = tuple[Counts, Indices, Floats]

BLOCK_BYTES = 1 << 27
"""How large a block of scores or factors that a function makes may be."""

FACTOR_ROWS = 256
"""Rows that a thread has at a time: as many share what it brings of the columns into its cache."""

DENSE_ROWS = 64
"""Rows that a thread multiplies with a sparse matrix: one number of each is a few cache lines."""

PANEL_WIDTH = 128
"""Columns of a panel; with fewer, every row and its list would be turned to more often."""

ROW_COST = 16
"""Searching a row costs about as much as summing this many more entries; used to share out work."""

SPARSE_EACH = 32
"""Shares of a product of sparse matrices for every core: progress is told after each."""


@dataclass(frozen=True)
class Top:
    """The best columns of each row, best first; -1, scored -inf, where there were too few."""

    items: Indices
    scores: Floats


class NotFinite(RecbenchError):
    """Some scores were NaN or infinite; `scales` lists under which of the scales."""

    def __init__(self, scales: list[int], total: int) -> None:
        self.scales = scales
        whose = f" for {len(scales)} of {total} models ranked together" if total > 1 else ""
        super().__init__(
            f"scores are not finite{whose}: the fitted model gives NaN or infinity to some item; "
            "try a stronger penalty or a smaller step"
        )


class Panels(Protocol):
    """A square matrix that is read a few columns at a time."""

    @property
    def n(self) -> int:
        """How many rows and columns there are."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""

    def panel(self, start: int, stop: int, out: Floats | None = None) -> Floats:
        """Columns start to stop, stored by rows, in `out` if it is given."""


class DensePanels:
    """The panels of an ordinary array."""

    def __init__(self, array: Floats) -> None:
        if array.ndim != 2 or array.shape[0] != array.shape[1]:
            raise ValueError(f"item-item weights must be a square matrix, not {array.shape}")
        self.array, self.n, self.dtype = array, len(array), real_dtype(array)

    def panel(self, start: int, stop: int, out: Floats | None = None) -> Floats:
        """Copy some columns."""
        panel = np.empty((self.n, stop - start), self.dtype) if out is None else out
        panel[...] = self.array[:, start:stop]
        return panel


@contextmanager
def kernel_threads(count: int) -> Iterator[None]:
    """Rank with this many threads: the search uses as many as BLAS may."""
    with blas.loaded().limit(limits=count):
        yield


def top_of_blocks(
    score: Callable[[int, int], Floats],
    hidden: Sparse,
    k: int,
    scales: Scales = (None,),
    progress: Progress = silent,
) -> list[Top]:
    """Rank what `score(start, stop)` says of some rows and every column; one Top per scale.

    Entries of `hidden` are not ranked. `score` runs alone, with all threads of BLAS.
    """
    rows, columns = hidden.shape
    step = max(1, BLOCK_BYTES // (8 * max(1, columns)))
    search: Search | None = None
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        block = score(start, stop)
        _fit(block.shape == (stop - start, columns), block, hidden)
        search = search or Search(hidden, k, scales, real_dtype(block))
        pieces = [(block[a - start : b - start], a, 0) for a, b in shares.equal(start, stop)]
        with blas.workers() as pool:
            blas.finish(pool, search.block, pieces)
        search.check()
        progress(stop, rows)
    return (search or Search(hidden, k, scales, np.dtype(np.float32))).tops()


def top_of_product(
    left: Sparse,
    right: Panels,
    hidden: Sparse,
    k: int,
    scales: Scales = (None,),
    progress: Progress = silent,
    columns: tuple[int, int] | None = None,
) -> list[Top]:
    """Rank a sparse matrix times a square one, each column of which is read once.

    With `columns`, the first and the one after the last, others are not read and not ranked.
    """
    from recbench.linalg.topk_kernel import search_product

    _fit(left.shape == hidden.shape, left, hidden)
    search = Search(hidden, k, scales, right.dtype)
    entries = _entries(left, right)
    work = shares.by_entries(entries[0], shares.for_cores(), ROW_COST)
    with blas.workers() as pool:
        first, last = columns or (0, right.n)
        for start, panel in _read_ahead(pool, right, first, last):
            tasks = ((rows, *entries, panel, start, search.lists) for rows in work)
            blas.finish(pool, search_product, tasks)
            search.check()
            progress(start - first + panel.shape[1], last - first)
    return search.tops()


def best_of(parts: Sequence[Top], k: int) -> Top:
    """The k best of lists of the same rows, each of columns after those of the list before it."""
    scores = np.concatenate([part.scores for part in parts], axis=1)
    items = np.concatenate([part.items for part in parts], axis=1)
    # Stable, so that of equal scores the lower column comes first, as in each of the lists.
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return Top(np.take_along_axis(items, order, 1), np.take_along_axis(scores, order, 1))


@dataclass(frozen=True)
class Likeness:
    """What is made of the products of rows and columns: product / (size of both + shrink)."""

    rows: Floats
    columns: Floats
    """What each row, and each column, brings to the size."""
    shrink: float = 0.0
    union: bool = False
    """Whether the size is the sum of the two less the product, and not the two multiplied."""


def top_of_sparse(
    left: Sparse,
    right: Sparse,
    hidden: Sparse,
    k: int,
    scales: Scales = (None,),
    progress: Progress = silent,
) -> list[Top]:
    """Rank a sparse matrix times a sparse one."""
    from recbench.linalg.topk_kernel import search_sparse

    search = Search(hidden, k, scales, real_dtype(right.data))
    _run_sparse(search_sparse, left, right, search, (), progress)
    search.check()
    return search.tops()


def top_alike(
    left: Sparse,
    right: Sparse,
    itself: Indices,
    k: int,
    likeness: Likeness,
    progress: Progress = silent,
) -> Top:
    """For each row the columns most like it, by the product of two sparse matrices.

    What has a product of zero is not alike, nor is the column that a row is `itself`; -1: none.
    """
    from recbench.linalg.topk_kernel import search_alike

    dtype = real_dtype(right.data)
    shape = left.shape[0], right.shape[1]
    empty = np.zeros(0, np.float32), np.zeros(0, np.int32), np.zeros(shape[0] + 1, np.int64)
    search = Search(scipy.sparse.csr_array(empty, shape=shape), k, (None,), dtype)
    sizes = _plain(likeness.rows, dtype), _plain(likeness.columns, dtype)
    if (len(itself), *map(len, sizes)) != (shape[0], *shape):
        raise ValueError(f"sizes of {len(sizes[0])} rows and {len(sizes[1])} columns of {shape}")
    more = (_plain(itself, np.int32), *sizes, dtype.type(likeness.shrink), likeness.union)
    _run_sparse(search_alike, left, right, search, more, progress)
    return search.tops()[0]


def _run_sparse(
    kernel: Callable[..., None],
    left: Sparse,
    right: Sparse,
    search: "Search",
    more: tuple[Any, ...],
    progress: Progress,
) -> None:
    """Search all rows of a product of sparse matrices, in shares of about equal work."""
    _, rows, _ = search.lists.scores.shape
    shape = left.shape[0], right.shape[1]
    if left.shape[1] != right.shape[0] or shape != (rows, search.lists.scales.shape[1]):
        raise ValueError(f"{left.shape} times {right.shape} is not of the shape that is searched")
    sides = (*_compressed(left, search.dtype), *_compressed(right, search.dtype))
    work = shares.fair(_products(left, right), shares.for_cores(SPARSE_EACH))
    with blas.workers() as pool:
        tasks = ((part, *sides, *more, search.lists) for part in work)
        for done, _ in enumerate(blas.run_all(pool, kernel, tasks), start=1):
            progress(done * rows // len(work), rows)


def _products(left: Sparse, right: Sparse) -> Counts:
    """What all rows before each one take: their products, and searching them."""
    lengths = np.diff(right.indptr).astype(np.int64)[left.indices]
    before = np.concatenate([[0], np.cumsum(lengths)])[left.indptr]
    return np.asarray(before + (right.shape[1] // ROW_COST + 1) * np.arange(len(left.indptr)))


def product(left: Sparse, right: Panels) -> Floats:
    """The same product in full, by the same sums: over the entries of a row, in column order."""
    from recbench.linalg.topk_kernel import multiply

    entries = _entries(left, right)
    work = shares.by_entries(entries[0], shares.for_cores(), ROW_COST)
    out = np.empty((left.shape[0], right.n), right.dtype)
    with blas.workers() as pool:
        for start, panel in _read_ahead(pool, right, 0, right.n):
            columns = out[:, start : start + panel.shape[1]]
            blas.finish(pool, multiply, ((rows, *entries, panel, columns) for rows in work))
    return out


def top_of_dense_rows(
    left: Callable[[int, int], Floats],
    right: Sparse,
    hidden: Sparse,
    k: int,
    scales: Scales = (None,),
    progress: Progress = silent,
) -> list[Top]:
    """Rank A Bᵀ, where `left(start, stop)` makes some rows of A and `right` is a sparse B.

    `left` runs alone, with all threads of BLAS.
    """
    from recbench.linalg.topk_kernel import search_dense_rows

    _fit(right.shape[0] == hidden.shape[1], right, hidden)
    dtype = real_dtype(right.data)
    search, entries = Search(hidden, k, scales, dtype), _compressed(right, dtype)

    def multiply(some: Floats, row: int) -> None:
        search_dense_rows(*entries, _plain(some.T, dtype), row, search.lists)

    return _in_pieces(search, left, right, DENSE_ROWS, multiply, progress)


def top_of_factors(
    left: Callable[[int, int], Floats],
    right: Floats,
    bias: Floats | None,
    hidden: Sparse,
    k: int,
    scales: Scales = (None,),
    progress: Progress = silent,
) -> list[Top]:
    """Rank A Bᵀ + bias, where `left(start, stop)` makes some rows of A and `right` is B.

    `left` runs alone, with all threads of BLAS.
    """
    _fit(len(right) == hidden.shape[1], right, hidden)
    if bias is not None:
        _fit(real(bias, "biases").shape == (len(right),), bias, hidden)
    from recbench.linalg.topk_kernel import search_factors

    dtype = real_dtype(right)
    search = Search(hidden, k, scales, dtype)
    items = _plain(right, dtype)
    with np.errstate(over="ignore"):  # as in `_stack`
        biases = _plain(np.zeros(len(items)) if bias is None else bias, dtype)

    def multiply(some: Floats, row: int) -> None:
        search_factors(_plain(some, dtype), items, biases, row, search.lists)

    return _in_pieces(search, left, items, FACTOR_ROWS, multiply, progress)


def _in_pieces(
    search: "Search",
    left: Callable[[int, int], Floats],
    right: Any,
    height: int,
    multiply: Callable[[Floats, int], None],
    progress: Progress,
) -> list[Top]:
    """Have each thread multiply and search so many rows of `left` at a time, made in blocks."""
    rows, width = search.lists.scores.shape[1], right.shape[1]
    step = max(1, BLOCK_BYTES // (8 * height * max(1, width))) * height
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        block = np.asarray(real(left(start, stop), "factors of users"), search.dtype)
        _fit(block.shape == (stop - start, width), block, right)
        places = range(start, stop, height)
        pieces = [(block[row - start : row - start + height], row) for row in places]
        with blas.workers() as pool:
            for done, _ in enumerate(blas.run_all(pool, multiply, pieces), start=1):
                progress(min(start + done * height, stop), rows)
        del block, pieces  # or they would still be there while the next are made
        search.check()
    return search.tops()


class Search:
    """The lists of the best so far, one for every row and scale that is not equal to another."""

    def __init__(self, hidden: Sparse, k: int, scales: Scales, dtype: np.dtype[Any]) -> None:
        from recbench.linalg import topk_kernel  # numba comes with it, so not before it is needed

        if k < 1:
            raise ValueError(f"the best {k} of a row are no list")
        rows, columns = hidden.shape
        starts, hidden_columns, _ = _compressed(hidden, dtype)
        stacked = _stack(scales, columns, dtype)
        first, self._which = _distinct(stacked)
        self.kernel, self.dtype = topk_kernel, dtype
        self.lists = topk_kernel.Lists(
            scores=np.full((len(first), rows, k), -np.inf, dtype),
            items=np.full((len(first), rows, k), -1, np.int32),
            scales=stacked[first],
            hidden=hidden_columns,
            hidden_ends=starts[1:].copy(),
            hidden_next=starts[:-1].copy(),
            faults=np.zeros(len(first), np.bool_),
        )

    def block(self, block: Floats, row: int, column: int) -> None:
        """Search a dense block of scores whose corner is at (row, column)."""
        self.kernel.search_block(_plain(block, self.dtype), row, column, self.lists)

    def check(self) -> None:
        """Stop if a score was not finite."""
        faults = self.lists.faults[self._which]
        if faults.any():
            raise NotFinite(np.flatnonzero(faults).tolist(), len(faults))

    def tops(self) -> list[Top]:
        """Sort the lists, which equal scales share; nothing can be searched afterwards."""
        with blas.workers() as pool:
            work = ((rows, self.lists) for rows in shares.equal(0, self.lists.scores.shape[1]))
            blas.finish(pool, self.kernel.sort_lists, work)
        tops = [Top(*pair) for pair in zip(self.lists.items, self.lists.scores, strict=True)]
        return [tops[place] for place in self._which]


def _read_ahead(
    pool: Executor, matrix: Panels, first: int, last: int
) -> Iterator[tuple[int, Floats]]:
    """Yield the panels of some columns, each with its first, while a thread reads the one after it.

    A panel is overwritten when the next but one is asked for.
    """
    width = PANEL_WIDTH
    rooms = [np.empty(matrix.n * width, matrix.dtype) for _ in range(2)]

    def read(start: int) -> Floats:
        stop = min(start + width, last)
        room = rooms[(start - first) // width % 2][: matrix.n * (stop - start)]
        return matrix.panel(start, stop, room.reshape(matrix.n, stop - start))

    coming = pool.submit(read, first)
    for start in range(first, last, width):
        panel = coming.result()
        if start + width < last:
            coming = pool.submit(read, start + width)
        yield start, panel


def _fit(fitting: bool, one: Any, other: Any) -> None:
    """Check shapes: compiled loops do not check where they read."""
    if not fitting:
        raise ValueError(f"arrays of shapes {one.shape} and {other.shape} do not fit together")


def _compressed(matrix: Sparse, dtype: np.dtype[Any]) -> Compressed:
    """Row starts, ascending columns and values, laid out as the loops are compiled for."""
    rows = scipy.sparse.csr_array(matrix)
    if not rows.has_sorted_indices:
        rows = rows.sorted_indices()
    starts, columns = _plain(rows.indptr, np.int64), _plain(rows.indices, np.int32)
    return starts, columns, _plain(rows.data, dtype)


def _entries(left: Sparse, right: Panels) -> Compressed:
    """The left side of a product, as the loops are compiled for."""
    if left.shape[1] != right.n:
        raise ValueError(f"{left.shape[1]} columns times {right.n} rows do not fit together")
    return _compressed(left, right.dtype)


def _stack(scales: Scales, columns: int, dtype: np.dtype[Any]) -> Floats:
    """All scales as one array. What does not fit into `dtype` makes scores that are not finite."""
    stacked = np.ones((len(scales), columns), dtype)
    with np.errstate(over="ignore"):
        for row, scale in zip(stacked, scales, strict=True):
            if scale is not None:
                if np.shape(scale) != (columns,):
                    raise ValueError(f"a scale of shape {np.shape(scale)} for {columns} columns")
                row[:] = real(scale, "a scale")
    return stacked


def _distinct(rows: Floats) -> tuple[list[int], list[int]]:
    """The first of each kind of equal rows, and for every row which kind it is of.

    Models are compared that are the same under other names, and their lists are searched once.
    """
    kinds: dict[bytes, int] = {}
    which = [kinds.setdefault(sha256(row).digest(), len(kinds)) for row in rows]
    return [which.index(kind) for kind in range(len(kinds))], which


def _plain(array: npt.NDArray[Any], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """The array as loops are compiled for: contiguous, aligned, writable; copied if it is not."""
    return np.require(array, dtype, ["C", "A", "W"])
