"""The compiled loops of `topk`; importing this module imports numba, so import it late.

The k best of a row are a binary heap with the worst at its root: one comparison with the root
turns nearly everything away. Better means a higher score, then a lower column; an empty place is
(-inf, -1), which every finite score beats. Columns arrive in ascending order, hence a score equal
to the root never enters.

Every row is worked on by one thread and summed in the order of its columns, so results do not
depend on how many threads there are. Loops of fixed length SEGMENT become vector instructions.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from recbench.linalg.compiled import compiled

Floats = npt.NDArray[np.float32] | npt.NDArray[np.float64]
Columns = npt.NDArray[np.int32]

SEGMENT = 128
STRETCH = 8 * SEGMENT
"""How many columns of a dense row are searched at a time: few enough for any L1 cache."""


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
def _update(values: Floats, first: int, scores: Floats, items: Columns) -> None:
    """Put every value better than the worst of a list into it; `values` is whole segments."""
    worst = scores[0]
    for segment in range(len(values) // SEGMENT):
        start = segment * SEGMENT
        better = False
        for j in range(SEGMENT):
            better |= values[start + j] > worst
        if better:
            for j in range(start, start + SEGMENT):
                if values[j] > worst:
                    scores[0], items[0] = values[j], first + j
                    _sift(scores, items)
                    worst = scores[0]


@compiled
def _offer(values: Floats, row: int, first: int, lists: Lists, scaled: Floats) -> None:
    """Offer a row's scores of the columns from `first` on to the row's list of every scale."""
    width = len(values)
    begin = end = lists.hidden_next[row]
    while end < lists.hidden_ends[row] and lists.hidden[end] < first + width:
        end += 1
    lists.hidden_next[row] = end
    for s in range(len(lists.scales)):
        scale = lists.scales[s, first : first + width]
        finite = True
        for j in range(width):
            scaled[j] = values[j] * scale[j]
            finite &= abs(scaled[j]) < np.inf
        if not finite:
            lists.faults[s] = True
        for t in range(begin, end):
            scaled[lists.hidden[t] - first] = -np.inf
        _update(scaled, first, lists.scores[s, row], lists.items[s, row])


@compiled
def _room(width: int, like: Floats) -> Floats:
    """Room for `width` scores in whole segments; what is left over is -inf and never listed."""
    return np.full((width + SEGMENT - 1) // SEGMENT * SEGMENT, -np.inf, like.dtype)


@compiled
def _offer_row(
    values: Floats, row: int, first: int, lists: Lists, stretch: Floats, rest: Floats
) -> None:
    """Offer a row of any length, a stretch at a time, and what is left over."""
    whole = len(values) // STRETCH * STRETCH
    for start in range(0, whole, STRETCH):
        _offer(values[start : start + STRETCH], row, first + start, lists, stretch)
    _offer(values[whole:], row, first + whole, lists, rest)


@compiled
def search_block(block: Floats, row: int, column: int, lists: Lists) -> None:
    """Search a dense block of scores whose corner is at (row, column)."""
    rows, columns = block.shape
    stretch, rest = _room(STRETCH, block), _room(columns % STRETCH, block)
    for i in range(rows):
        _offer_row(block[i], row + i, column, lists, stretch, rest)


@compiled
def _combine(columns: Columns, weights: Floats, panel: Floats, total: Floats) -> None:
    """Sum weights[t] panel[columns[t]] over t into `total`, one after the other in that order.

    Four rows at a time keep four reads under way and touch `total` once for all of them.
    """
    total[:] = 0
    whole = len(columns) // 4 * 4
    for t in range(0, whole, 4):
        w0, w1, w2, w3 = weights[t], weights[t + 1], weights[t + 2], weights[t + 3]
        p0, p1 = panel[columns[t]], panel[columns[t + 1]]
        p2, p3 = panel[columns[t + 2]], panel[columns[t + 3]]
        for j in range(len(total)):
            total[j] = total[j] + w0 * p0[j] + w1 * p1[j] + w2 * p2[j] + w3 * p3[j]
    for t in range(whole, len(columns)):
        w0, p0 = weights[t], panel[columns[t]]
        for j in range(len(total)):
            total[j] += w0 * p0[j]


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
    total = np.empty(panel.shape[1], panel.dtype)
    scaled = _room(panel.shape[1], panel)
    for row in range(rows[0], rows[1]):
        a, b = starts[row], starts[row + 1]
        _combine(columns[a:b], weights[a:b], panel, total)
        _offer(total, row, first, lists, scaled)


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
    count, width = len(starts) - 1, panel.shape[1]
    products, values = np.empty((STRETCH, width), panel.dtype), np.empty(STRETCH, panel.dtype)
    stretch, rest = _room(STRETCH, panel), _room(count % STRETCH, panel)
    for first in range(0, count, STRETCH):
        size = min(STRETCH, count - first)
        for j in range(size):
            a, b = starts[first + j], starts[first + j + 1]
            _combine(columns[a:b], weights[a:b], panel, products[j])
        for i in range(width):
            for j in range(size):
                values[j] = products[j, i]
            _offer(values[:size], row + i, first, lists, stretch if size == STRETCH else rest)


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
    total = np.empty(lists.scales.shape[1], right_values.dtype)
    stretch, rest = _room(STRETCH, total), _room(len(total) % STRETCH, total)
    for row in range(rows[0], rows[1]):
        total[:] = 0
        for t in range(starts[row], starts[row + 1]):
            weight, u = weights[t], columns[t]
            for e in range(right_starts[u], right_starts[u + 1]):
                total[right_columns[e]] += weight * right_values[e]
        _offer_row(total, row, 0, lists, stretch, rest)


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
    total = np.empty(panel.shape[1], panel.dtype)
    for row in range(rows[0], rows[1]):
        a, b = starts[row], starts[row + 1]
        _combine(columns[a:b], weights[a:b], panel, total)
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
    total = np.empty(panel.shape[1], panel.dtype)
    for row in range(rows[0], rows[1]):
        a, b = starts[row], starts[row + 1]
        _combine(columns[a:b], weights[a:b], panel, total)
        for t in range(a, b):
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
