"""The compiled loops of `walk`; importing this module imports numba, so import it late.

A row of the result is made by one thread, in an order that depends on nothing but the row. Four
neighbours at a time: the row that is added to is then read and written once for all of them. Loops
index whole tables: slices of them, and functions called row by row, are counted references, which
cost as much as a neighbour each.
"""

import numpy as np
import numpy.typing as npt

from recbench.linalg.compiled import exact

Floats = npt.NDArray[np.float32] | npt.NDArray[np.float64]
Indices = npt.NDArray[np.int32]
Counts = npt.NDArray[np.int64]
Nodes = npt.NDArray[np.uint32]
"""Unsigned: signed ones cost a test for wrapping around."""


@exact
def pull_weighted(
    first: int,
    last: int,
    rows: Indices,
    starts: Counts,
    neighbours: Nodes,
    weights: Floats,
    x: Floats,
    base: Floats,
    scales: Floats,
    shares: Floats,
    out: Floats,
) -> None:
    """out_i = scale_r Σ_c weight_c x_c + share_r base_r, for r = rows[i] and its neighbours c.

    No shares are all zeros, whatever the base holds.
    """
    for i in range(first, last):
        r = rows[i]
        scale, begin, end = scales[r], starts[r], starts[r + 1]
        whole = begin + (end - begin) // 4 * 4
        for k in range(out.shape[1]):
            out[i, k] = 0
        for e in range(begin, whole, 4):
            a, b, c, d = neighbours[e], neighbours[e + 1], neighbours[e + 2], neighbours[e + 3]
            wa, wb, wc, wd = weights[a], weights[b], weights[c], weights[d]
            for k in range(out.shape[1]):
                out[i, k] += (wa * x[a, k] + wb * x[b, k]) + (wc * x[c, k] + wd * x[d, k])
        for e in range(whole, end):
            a, wa = neighbours[e], weights[neighbours[e]]
            for k in range(out.shape[1]):
                out[i, k] += wa * x[a, k]
        if len(shares):
            share = shares[r]
            for k in range(out.shape[1]):
                out[i, k] = scale * out[i, k] + share * base[r, k]
        else:
            for k in range(out.shape[1]):
                out[i, k] *= scale


@exact
def pull(
    first: int,
    last: int,
    rows: Indices,
    starts: Counts,
    neighbours: Nodes,
    x: Floats,
    base: Floats,
    scales: Floats,
    shares: Floats,
    out: Floats,
) -> None:
    """The same with weights of one, as fast as memory gives rows."""
    for i in range(first, last):
        r = rows[i]
        scale, share, begin, end = scales[r], shares[r], starts[r], starts[r + 1]
        whole = begin + (end - begin) // 4 * 4
        for k in range(out.shape[1]):
            out[i, k] = 0
        for e in range(begin, whole, 4):
            a, b, c, d = neighbours[e], neighbours[e + 1], neighbours[e + 2], neighbours[e + 3]
            for k in range(out.shape[1]):
                out[i, k] += (x[a, k] + x[b, k]) + (x[c, k] + x[d, k])
        for e in range(whole, end):
            a = neighbours[e]
            for k in range(out.shape[1]):
                out[i, k] += x[a, k]
        for k in range(out.shape[1]):
            out[i, k] = scale * out[i, k] + share * base[r, k]


@exact
def push(
    first: int,
    last: int,
    rows: Indices,
    places: Indices,
    starts: Counts,
    neighbours: Nodes,
    weights: Floats,
    x: Floats,
    scales: Floats,
    shares: Floats,
    out: Floats,
) -> None:
    """What `pull_weighted` makes, in all rows, of an x that is 0 in most, and its own base.

    Row r = rows[i] of it is x_i, and places[r] is i; other places are -1. Only the neighbours of
    those rows are looked at. Each task finds its own among them by bisection, since they ascend,
    and adds up in the order of `rows`.
    """
    out[first:last] = 0
    for i in range(len(rows)):
        r = rows[i]
        weight, begin, others = weights[r], starts[r], neighbours[starts[r] : starts[r + 1]]
        mine = np.searchsorted(others, first), np.searchsorted(others, last)
        for e in range(begin + mine[0], begin + mine[1]):
            c = neighbours[e]
            for k in range(out.shape[1]):
                out[c, k] += weight * x[i, k]
    for c in range(first, last):
        scale, place = scales[c], places[c]
        if place < 0:
            for k in range(out.shape[1]):
                out[c, k] *= scale
        else:
            share = shares[c]
            for k in range(out.shape[1]):
                out[c, k] = scale * out[c, k] + share * x[place, k]
