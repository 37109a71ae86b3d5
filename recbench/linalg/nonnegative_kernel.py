"""The compiled loops of `nonnegative`; importing this module imports numba, so import it late.

Some words: for a column j with target b = G_j, the reach of weights w is G w. An item that has no
weight violates the conditions of a minimum by how much b - reach - l1 is above zero. Members are
the items that may have a weight at the moment, all others being at zero.
"""

import numpy as np
import numpy.typing as npt

from recbench.linalg.compiled import compiled
from recbench.linalg.pairs_kernel import Columns, Starts, Values, Vector, square_of, threshold

JOIN = 256
"""Where there is no room for all, so many join, or as many as there are members: those whose step
would lower the objective most."""

AHEAD = 0.1
"""While others wait, members come to rest to this share of what these violate, as resting better
would be lost when they join."""


@compiled
def _reach(candidates: Columns, members: Columns, weights: Vector, starts: Starts,
           columns: Columns, values: Values, lower: Starts, reach: Vector) -> None:  # fmt: skip
    """G w at the candidates; elsewhere it means nothing.

    That is the rows of all members or, as G is symmetric, those of all candidates up to their
    diagonal: whichever are fewer numbers. Where items come by falling popularity the parts up to
    the diagonal are short.
    """
    reach[:] = 0.0
    whole, half = 0, 0
    for i in members:
        whole += starts[i + 1] - starts[i] if weights[i] > 0.0 else 0
    for i in candidates:
        half += lower[i]
    if whole <= half:
        for i in members:
            own = weights[i]
            if own > 0.0:
                for e in range(starts[i], starts[i + 1]):
                    reach[columns[e]] += own * values[e]
        return
    for i in candidates:
        own, total, end = weights[i], 0.0, starts[i] + lower[i]
        for e in range(starts[i], end):
            total += weights[columns[e]] * values[e]
            reach[columns[e]] += own * values[e]
        reach[i] += total - own * values[end - 1]  # the diagonal was met twice


@compiled
def _descend(members: Columns, weights: Vector, reach: Vector, target: Vector, square: Values,
             l1: float, l2: float, goal: float, most: int) -> tuple[int, float]:  # fmt: skip
    """Minimise over one member after the other until none moves by more than the goal.

    Returns the sweeps that were made and how far the last one moved, in units of the gradient.
    """
    count = len(members)
    near = np.empty(count)
    for p in range(count):
        near[p] = reach[members[p]]
    moved = np.inf
    sweeps = 0
    while sweeps < most and moved > goal:
        sweeps += 1
        moved = 0.0
        for p in range(count):
            i = members[p]
            row = square[p]
            own = np.float64(row[p])
            before = weights[i]
            after = max(0.0, (target[i] - near[p] + own * before - l1) / (own + l2))
            step = after - before
            if step != 0.0:
                weights[i] = after
                moved = max(moved, abs(step) * (own + l2))
                for q in range(count):
                    near[q] += step * row[q]
    return sweeps, moved


@compiled
def _select(candidates: Columns, members: Columns, count: int, places: Columns, weights: Vector,
            reach: Vector, target: Vector, diagonal: Vector, gains: Vector,
            l1: float, l2: float, least: float, few: int) -> tuple[int, float, bool]:  # fmt: skip
    """Let members without a weight go, and others in: the worst, where there are more than few.

    Returns how many members there are, by how much the worst violated, and whether some wait.
    """
    kept = 0
    for p in range(count):
        i = members[p]
        if weights[i] > 0.0:
            members[kept] = i
            places[i] = kept
            kept += 1
        else:
            places[i] = -1
    worst, found = 0.0, 0
    for i in candidates:
        if places[i] < 0:
            violation = target[i] - reach[i] - l1
            if violation > least:
                worst = max(worst, violation)
                gains[found] = violation * violation / (diagonal[i] + l2)
                found += 1
    waiting = kept + found > few
    near = threshold(gains[:found], max(JOIN, kept))[1] if waiting else 0.0
    for i in candidates:
        if places[i] < 0:
            violation = target[i] - reach[i] - l1
            if violation > least and violation * violation / (diagonal[i] + l2) >= near:
                members[kept] = i
                places[i] = kept
                kept += 1
    return kept, worst, waiting


@compiled
def _candidates(j: int, starts: Starts, columns: Columns, values: Values, diagonal: Vector,
                candidates: Columns, target: Vector) -> tuple[int, float]:  # fmt: skip
    """List those that share something with column j, and how much: how many, and the most."""
    able, top = 0, 0.0
    for e in range(starts[j], starts[j + 1]):
        i = columns[e]
        if i != j and diagonal[i] > 0.0:
            candidates[able] = i
            able += 1
            target[i] = values[e]
            top = max(top, target[i])
    return able, top


@compiled
def solve_columns(
    first: int,
    last: int,
    starts: Starts,
    columns: Columns,
    values: Values,
    lower: Starts,
    diagonal: Vector,
    penalties: npt.NDArray[np.float64],
    tolerance: float,
    most: int,
    few: int,
    sizes: npt.NDArray[np.int64],
    unsettled: npt.NDArray[np.bool_],
) -> tuple[Columns, Vector]:
    """Solve some columns for each pair of penalties (l1, l2), in their order, from the last one.

    `sizes` and `unsettled`, by column and penalty, receive how many weights there are and whether
    the sweeps ran out. The weights and their items are returned one after the other.
    """
    n = len(starts) - 1
    places = np.full(n, -1, np.int32)
    members = np.empty(n, np.int32)
    candidates = np.empty(n, np.int32)
    weights, reach, target, gains = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    room = np.empty(0, np.float32)
    items, solved, used = np.empty(1024, np.int32), np.empty(1024, np.float64), 0
    for j in range(first, last):
        able, top = _candidates(j, starts, columns, values, diagonal, candidates, target)
        least, count = tolerance * top, 0
        for s in range(len(penalties)):
            l1, l2 = penalties[s, 0], penalties[s, 1]
            moved, left = np.inf, most
            while True:
                if count == 0:
                    reach[:] = 0.0
                else:
                    _reach(
                        candidates[:able], members[:count], weights, starts, columns, values,
                        lower, reach,
                    )  # fmt: skip
                count, worst, waiting = _select(
                    candidates[:able], members, count, places, weights, reach, target, diagonal,
                    gains, l1, l2, least, few,
                )  # fmt: skip
                if count == 0 or left == 0 or (worst == 0.0 and moved <= least):
                    break
                if count * count > len(room):
                    room = np.empty(count * count * 5 // 4, np.float32)
                square = room[: count * count].reshape(count, count)
                square_of(members[:count], places, starts, columns, values, lower, square)
                goal = max(least, AHEAD * worst) if waiting else least
                sweeps, moved = _descend(
                    members[:count], weights, reach, target, square, l1, l2, goal, left
                )
                left -= sweeps
            unsettled[j - first, s] = count > 0 and (worst > 0.0 or moved > least)
            if used + count > len(items):
                size = 2 * (used + count)
                more, more_solved = np.empty(size, np.int32), np.empty(size, np.float64)
                for p in range(used):  # a slice would compile the words of an error that never is
                    more[p], more_solved[p] = items[p], solved[p]
                items, solved = more, more_solved
            for i in members[:count]:
                if weights[i] > 0.0:  # others may have joined when no sweep was left
                    items[used] = i
                    solved[used] = weights[i]
                    used += 1
                    sizes[j - first, s] += 1
        for i in members[:count]:
            weights[i] = 0.0
            places[i] = -1
    return items[:used].copy(), solved[:used].copy()
