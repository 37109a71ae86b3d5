"""The compiled loops of `topk`; importing this module imports numba, so import it late.

The k best of a row are a binary heap with the worst at its root: one comparison with the root
turns nearly everything away. Better means a higher score, then a lower column; an empty place is
(-inf, -1), which every finite score beats. Columns arrive in ascending order, hence a score equal
to the root never enters.

Every row is worked on by one thread and summed in the order of its columns, so results do not
depend on how many threads there are. SIDE scores at a time are compared with the root, and seldom
is one of them worth a look of its own.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from recbench.linalg.compiled import compiled
from recbench.linalg.registers_kernel import (
    CHUNK_BYTES,
    SIDE,
    combine,
    notable,
    set_product,
    transpose,
)

Floats = npt.NDArray[np.float32] | npt.NDArray[np.float64]
Columns = npt.NDArray[np.int32]

STRETCH = 1024
"""How many columns of a row are made at a time where all are: few enough for the first caches."""

PANEL = 1 << 16
"""Numbers of the factors of columns that are worked on at a time: in a core's own cache."""


class Lists(NamedTuple):
    """The lists being filled and what filling them needs; the arrays the loops share."""

    scores: Floats
    """scales x rows x k, a heap each."""
    items: Columns
    """Likewise: the column of each score, -1 where there is none."""
    scales: Floats
    """scales x columns: what the scores are multiplied by."""
    hidden: Columns
    """The columns that must not be listed, ascending in each row."""
    hidden_ends: npt.NDArray[np.int64]
    """Where each row of `hidden` ends."""
    hidden_next: npt.NDArray[np.int64]
    """The first entry of each row of `hidden` not yet passed."""
    faults: npt.NDArray[np.bool_]
    """Per scale: whether a score was not finite."""


@compiled
def _sift(scores: Floats, items: Columns) -> None:
    """Move the root of a heap down to where it belongs."""
    score, item = scores[0], items[0]
    place, child = 0, 1
    while child < len(scores):
        right = child + 1
        if right < len(scores) and (
            scores[right] < scores[child]
            or (scores[right] == scores[child] and items[right] > items[child])
        ):
            child = right
        if score < scores[child] or (score == scores[child] and item > items[child]):
            break
        scores[place], items[place] = scores[child], items[child]
        place, child = child, 2 * child + 1
    scores[place], items[place] = score, item


@compiled
def _replace(score: Any, column: int, scores: Floats, items: Columns) -> None:
    """Put a column in the place of the worst of a list."""
    scores[0], items[0] = score, column
    _sift(scores, items)


@compiled
def _pass(column: int, place: int, end: int, hidden: Columns) -> int:
    """Go on from a place in a row of hidden columns to the first that is not before a column."""
    while place < end and hidden[place] < column:
        place += 1
    return place


@compiled
def _offer(block: Floats, rows: int, size: int, row: int, first: int, lists: Lists) -> None:
    """Offer the lists from `row` on the first rows of a block: scores of columns from `first` on.

    Where nothing is better than the worst of a list, SIDE scores take a few instructions. Calling
    a function with them takes as long as many of them, and is done where a list may change only.
    """
    for i in range(rows):
        begin = end = lists.hidden_next[row + i]
        while end < lists.hidden_ends[row + i] and lists.hidden[end] < first + size:
            end += 1
        lists.hidden_next[row + i] = end
        for s in range(len(lists.scales)):
            passed = begin
            for start in range(0, size, SIDE):
                bits = (1 << min(SIDE, size - start)) - 1  # of the last few, each
                if size - start >= SIDE:
                    worst = lists.scores[s, row + i, 0]
                    bits = notable(block, i, start, lists.scales, s, first + start, worst)
                for j in range(start, start + SIDE):
                    if not bits:
                        break
                    column, marked = first + j, bits & 1
                    bits >>= 1
                    if not marked:
                        continue
                    score = block[i, j] * lists.scales[s, column]
                    if not abs(score) < np.inf:
                        lists.faults[s] = True
                    elif score > lists.scores[s, row + i, 0]:
                        # On from the last one: what is hidden is often better than all others.
                        passed = _pass(column, passed, end, lists.hidden)
                        if passed < end and lists.hidden[passed] == column:
                            continue
                        _replace(score, column, lists.scores[s, row + i], lists.items[s, row + i])


@compiled
def search_block(block: Floats, row: int, column: int, lists: Lists) -> None:
    """Search a dense block of scores whose corner is at (row, column)."""
    _offer(block, len(block), block.shape[1], row, column, lists)


@compiled
def _pack(rows: Floats, last: Floats, slab: Floats, out: Floats) -> None:
    """Turn rows into the columns of `out`, SIDE at a time, with one more number below each."""
    count, factors = rows.shape
    for first in range(0, count, SIDE):
        strip = out[first // SIDE]
        for p in range(SIDE):
            inside = first + p < count
            for k in range(factors):
                slab[p, k] = rows[first + p, k] if inside else 0
            slab[p, factors] = last[first + p] if inside else 0
        for k in range(0, factors + 1, SIDE):
            transpose(slab, k, strip, 0)


@compiled
def search_factors(left: Floats, right: Floats, bias: Floats, row: int, lists: Lists) -> None:
    """Search A Bᵀ + bias, for some rows of A that are lists from `row` on.

    Scores are made SIDE rows at a time, in registers, and searched before the next ones are made.
    The bias is one more factor, of which all have one.
    """
    (rows, factors), columns = left.shape, len(right)
    deep = (factors + SIDE) // SIDE * SIDE
    wide = max(SIDE, min(STRETCH, PANEL // deep // SIDE * SIDE))
    slab = np.zeros((SIDE, deep), left.dtype)
    own = np.empty(((rows + SIDE - 1) // SIDE, deep, SIDE), left.dtype)
    panel = np.empty((wide // SIDE, deep, SIDE), left.dtype)
    scores = np.empty((SIDE, wide), left.dtype)
    _pack(left, np.ones(rows, left.dtype), slab, own)
    for first in range(0, columns, wide):
        size = min(wide, columns - first)
        _pack(right[first : first + size], bias[first : first + size], slab, panel)
        for group in range(len(own)):
            for j in range(0, size, SIDE):
                set_product(own[group, : factors + 1], panel[j // SIDE], scores, j)
            above = group * SIDE
            _offer(scores, min(SIDE, rows - above), size, row + above, first, lists)


@compiled
def _combine(
    starts: npt.NDArray[np.int64],
    columns: Columns,
    weights: Floats,
    first: int,
    count: int,
    panel: Floats,
    totals: Floats,
) -> None:
    """Write some rows of a sparse matrix times a panel into the first rows of `totals`.

    Rows of the panel are added up in the order of the columns, each product being rounded.
    """
    chunk = CHUNK_BYTES // panel.itemsize
    whole = panel.shape[1] // chunk * chunk
    for i in range(count):
        a, b = starts[first + i], starts[first + i + 1]
        for j in range(0, whole, chunk):
            combine(columns, weights, a, b, panel, j, totals, i)
        for j in range(whole, panel.shape[1]):
            totals[i, j] = 0
            for t in range(a, b):
                totals[i, j] += weights[t] * panel[columns[t], j]


@compiled
def search_product(
    rows: tuple[int, int],
    starts: npt.NDArray[np.int64],
    columns: Columns,
    weights: Floats,
    panel: Floats,
    first: int,
    lists: Lists,
) -> None:
    """Search the columns from `first` on of a sparse matrix times a panel, for a range of rows."""
    totals = np.empty((SIDE, panel.shape[1]), panel.dtype)
    for row in range(rows[0], rows[1], SIDE):
        count = min(SIDE, rows[1] - row)
        _combine(starts, columns, weights, row, count, panel, totals)
        _offer(totals, count, panel.shape[1], row, first, lists)


@compiled
def search_dense_rows(
    starts: npt.NDArray[np.int64],
    columns: Columns,
    weights: Floats,
    panel: Floats,
    row: int,
    lists: Lists,
) -> None:
    """Search a few rows of a dense matrix times the transpose of a sparse one.

    The panel has those rows as its columns, and is multiplied from the left, a stretch of the
    product at a time.
    """
    height, width = len(starts) - 1, panel.shape[1]
    products, values = np.empty((STRETCH, width), panel.dtype), np.empty((1, STRETCH), panel.dtype)
    for first in range(0, height, STRETCH):
        count = min(STRETCH, height - first)
        _combine(starts, columns, weights, first, count, panel, products)
        for i in range(width):
            for j in range(count):
                values[0, j] = products[j, i]
            _offer(values, 1, count, row + i, first, lists)


@compiled
def search_sparse(
    rows: tuple[int, int],
    starts: npt.NDArray[np.int64],
    columns: Columns,
    weights: Floats,
    right_starts: npt.NDArray[np.int64],
    right_columns: Columns,
    right_values: Floats,
    lists: Lists,
) -> None:
    """Search a range of rows of a product of sparse matrices."""
    sums = np.empty((1, lists.scales.shape[1]), right_values.dtype)
    total = sums[0]
    for row in range(rows[0], rows[1]):
        total[:] = 0
        for t in range(starts[row], starts[row + 1]):
            weight, u = weights[t], columns[t]
            for e in range(right_starts[u], right_starts[u + 1]):
                total[right_columns[e]] += weight * right_values[e]
        _offer(sums, 1, len(total), row, 0, lists)


@compiled
def _meet(
    row: int,
    columns: Columns,
    weights: Floats,
    right_starts: npt.NDArray[np.int64],
    right_columns: Columns,
    right_values: Floats,
    total: Floats,
    seen: Columns,
    met: Columns,
) -> int:
    """Sum up a row of a product, and list the columns it has: first met, first listed.

    Where there are more products than columns it is quicker to list them all. Returns how many are
    listed; `seen` says of each column in which row it was met last.
    """
    products, count = 0, 0
    for u in columns:
        products += right_starts[u + 1] - right_starts[u]
    if products > len(total):
        total[:] = 0
        for t in range(len(columns)):
            weight, u = weights[t], columns[t]
            for e in range(right_starts[u], right_starts[u + 1]):
                total[right_columns[e]] += weight * right_values[e]
        for c in range(len(total)):
            met[c] = c
        return len(total)
    for t in range(len(columns)):
        weight, u = weights[t], columns[t]
        for e in range(right_starts[u], right_starts[u + 1]):
            c = right_columns[e]
            if seen[c] != row:
                seen[c] = row
                total[c] = 0
                met[count] = c
                count += 1
            total[c] += weight * right_values[e]
    return count


@compiled
def search_alike(
    rows: tuple[int, int],
    starts: npt.NDArray[np.int64],
    columns: Columns,
    weights: Floats,
    right_starts: npt.NDArray[np.int64],
    right_columns: Columns,
    right_values: Floats,
    itself: Columns,
    row_sizes: Floats,
    column_sizes: Floats,
    shrink: float,
    union: bool,
    lists: Lists,
) -> None:
    """Search a range of rows for what is like them, see `topk.Likeness`; zero is not alike."""
    total = np.zeros(len(column_sizes), right_values.dtype)
    seen = np.full(len(column_sizes), -1, np.int32)
    met = np.empty(len(column_sizes), np.int32)
    for row in range(rows[0], rows[1]):
        a, b = starts[row], starts[row + 1]
        count = _meet(
            row, columns[a:b], weights[a:b], right_starts, right_columns, right_values, total,
            seen, met,
        )  # fmt: skip
        scores, items = lists.scores[0, row], lists.items[0, row]
        for c in met[:count]:
            if total[c] > 0 and c != itself[row]:
                size = row_sizes[row] * column_sizes[c]
                if union:
                    size = row_sizes[row] + column_sizes[c] - total[c]
                total[c] /= size + shrink
                if total[c] > scores[0] or (total[c] == scores[0] and c < items[0]):
                    scores[0], items[0] = total[c], c
                    _sift(scores, items)


@compiled
def multiply(
    rows: tuple[int, int],
    starts: npt.NDArray[np.int64],
    columns: Columns,
    weights: Floats,
    panel: Floats,
    out: Floats,
) -> None:
    """Write a range of rows of a sparse matrix times a panel, by the same sums."""
    totals = np.empty((1, panel.shape[1]), panel.dtype)
    total = totals[0]
    for row in range(rows[0], rows[1]):
        _combine(starts, columns, weights, row, 1, panel, totals)
        target = out[row]
        for j in range(len(total)):  # as an assignment of arrays it takes a second to compile
            target[j] = total[j]


@compiled
def multiply_twice(
    rows: tuple[int, int],
    starts: npt.NDArray[np.int64],
    columns: Columns,
    weights: Floats,
    panel: Floats,
    out: Floats,
) -> None:
    """Write RᵀR times a panel for a range R of the rows of a sparse matrix, each read once."""
    out[:] = 0
    totals = np.empty((1, panel.shape[1]), panel.dtype)
    total = totals[0]
    for row in range(rows[0], rows[1]):
        _combine(starts, columns, weights, row, 1, panel, totals)
        for t in range(starts[row], starts[row + 1]):
            weight, target = weights[t], out[columns[t]]
            for j in range(len(total)):
                target[j] += weight * total[j]


@compiled
def sort_lists(rows: tuple[int, int], lists: Lists) -> None:
    """Turn the heaps of a range of rows into lists, best first."""
    for s in range(len(lists.scores)):
        for row in range(rows[0], rows[1]):
            scores, items = lists.scores[s, row], lists.items[s, row]
            for last in range(len(scores) - 1, 0, -1):
                scores[0], scores[last] = scores[last], scores[0]
                items[0], items[last] = items[last], items[0]
                _sift(scores[:last], items[:last])
