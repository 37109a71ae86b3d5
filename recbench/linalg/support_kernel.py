"""The compiled loops of `support`; importing this module imports numba, so import it late.

Some words: the members of a column j are j itself and its support so far, and z is column j of the
inverse of their rows and columns. The reach of an item i is Σ_s G_is z_s over members s: what is
left of j to explain by i, up to a factor that all have in common.
"""

from typing import Any

import numpy as np

from recbench.linalg.cholesky_kernel import Floats, compiled, solve, stride, whole
from recbench.linalg.pairs_kernel import Columns, Starts, Values, Vector, square_of, threshold
from recbench.linalg.types import Flags


@compiled
def _reach(members: Columns, z: Floats, starts: Starts, columns: Columns, values: Values,
           reach: Vector, listed: Flags, met: Columns) -> int:  # fmt: skip
    """Add up the reach of everything that shares something with a member; list it; how many."""
    found = 0
    for p in range(len(members)):
        own = np.float64(z[p])
        for e in range(starts[members[p]], starts[members[p] + 1]):
            i = columns[e]
            if not listed[i]:  # a reach of 0 does not say so: what is added up may cancel out
                listed[i] = True
                met[found] = i
                found += 1
            reach[i] += own * values[e]
    return found


@compiled
def _join(most: int, count: int, members: Columns, places: Columns, met: Columns, reach: Vector,
          diagonal: Vector, gamma: Vector, gains: Vector) -> int:  # fmt: skip
    """Let in those that explain most of what is left, of equal ones the first: how many are in."""
    able = 0
    for place in range(len(met)):
        i = met[place]
        gains[place] = -1.0
        if places[i] < 0 and reach[i] != 0.0:
            gains[place] = reach[i] ** 2 / (diagonal[i] + gamma[i])
            able += 1
    low, high, spare = 0.0, 0.0, 0
    if able > most - count:
        low, high = threshold(gains[: len(met)], most - count)
        spare = most - count
        for gain in gains[: len(met)]:
            spare -= gain >= high
        if spare < 0:  # too many are equal at the top
            low, high, spare = high, np.inf, most - count
    for place in range(len(met)):
        equal = low <= gains[place] < high and spare > 0
        if gains[place] >= high or equal:
            members[count] = met[place]
            places[met[place]] = count
            count += 1
            spare -= equal
    return count


@compiled
def solve_columns(first: int, last: int, starts: Starts, columns: Columns, values: Values,
                  lower: Starts, diagonal: Vector, gamma: Vector, looks: int, items: Any,
                  weights: Floats, sizes: Starts, c: Vector) -> None:  # fmt: skip
    """Write the items of some columns, what the columns have there, and on their diagonal."""
    n, most = len(diagonal), items.shape[1]
    square = np.zeros((whole(most), stride(most)), weights.dtype)
    inverse, z = np.zeros(len(square), weights.dtype), np.zeros(len(square), weights.dtype)
    places, members = np.full(n, -1, np.int32), np.empty(n, np.int32)
    reach, listed = np.zeros(n), np.zeros(n, np.bool_)
    gains, met = np.empty(n), np.empty(n, np.int32)
    for j in range(first, last):
        members[0], places[j], z[0], count = j, 0, 1, 1
        for look in range(looks):
            if most == n:
                for i in range(n):
                    members[i] = places[i] = i
                count = n
            else:
                found = _reach(members[:count], z, starts, columns, values, reach, listed, met)
                room = 1 + (most - 1) * (look + 1) // looks
                count = _join(
                    room, count, members, places, met[:found], reach, diagonal, gamma, gains
                )
                for i in met[:found]:
                    reach[i], listed[i] = 0.0, False
            square_of(members[:count], places, starts, columns, values, lower, square)
            for p in range(count):
                square[p, p] += weights.dtype.type(gamma[members[p]])
            for p in range(count, whole(count)):
                square[p, p] = 1
            for p in range(whole(count)):
                z[p] = p == places[j]
            solve(count, square, inverse, z)
        c[j - first] = z[places[j]]
        sizes[j - first] = count
        for p in range(count):
            items[j - first, p] = members[p]
            weights[j - first, p] = z[p]
            places[members[p]] = -1
