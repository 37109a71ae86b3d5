"""Products of long matrices with short rows, in registers; imports numba, so import it late.

Where rows have some 64 numbers, a library of matrix products spends a good part of its time on
copies that pay off for longer ones. Here a product is made tile by tile from the matrices as they
are, but for what must lie side by side to be a vector.

Every number is one sum in one order. Rows that are vectors, those of factors, have room for whole
ones: a multiple of SIDE numbers.
"""

import numpy as np
import numpy.typing as npt

from recbench.linalg.compiled import compiled
from recbench.linalg.registers_kernel import (
    SIDE,
    TALL,
    WIDE_BYTES,
    product_of_columns,
    product_of_rows,
    transpose,
)

Floats = npt.NDArray[np.float32] | npt.NDArray[np.float64]


@compiled
def scores(a: Floats, c: Floats, out: Floats) -> None:
    """Set `out` to A Cᵀ."""
    (rows, factors), columns = a.shape, len(c)
    wide = max(SIDE, WIDE_BYTES // a.itemsize)
    slab, some = np.zeros((factors, wide), a.dtype), np.zeros((SIDE, factors), a.dtype)
    tile, rest = np.empty((TALL, wide), a.dtype), _last(a, rows // TALL * TALL)
    for start in range(0, columns, wide):
        size = min(wide, columns - start)
        for first in range(0, size, SIDE):
            count = min(SIDE, size - first)
            some[:count] = c[start + first : start + first + count]
            for k in range(0, factors, SIDE):
                transpose(some, k, slab, first)
        for r in range(0, rows, TALL):
            there = r + TALL <= rows
            left, i = (a, r) if there else (rest, 0)
            if there and size == wide:
                product_of_rows(left, i, slab, 0, True, out, r, start)
            else:
                product_of_rows(left, i, slab, 0, True, tile, 0, 0)
                _copy(tile, out, r, start)


@compiled
def pull(g: Floats, c: Floats, out: Floats) -> None:
    """Set `out` to G C."""
    whole = len(out) // TALL * TALL
    _pull(g, c, out, whole)
    if whole < len(out):
        last = np.empty((TALL, out.shape[1]), out.dtype)
        _pull(_last(g, whole), c, last, TALL)
        _copy(last, out, whole, 0)


@compiled
def push(g: Floats, a: Floats, out: Floats) -> None:
    """Set `out` to Gᵀ A."""
    whole = len(out) // TALL * TALL
    _push(g, a, out, whole)
    if whole < len(out):
        last, rest = np.empty((TALL, out.shape[1]), out.dtype), np.zeros((len(g), TALL), g.dtype)
        rest[:, : len(out) - whole] = g[:, whole:]
        _push(rest, a, last, TALL)
        _copy(last, out, whole, 0)


@compiled
def _pull(g: Floats, c: Floats, out: Floats, rows: int) -> None:
    """So many rows of G C, as many columns of C at a time as a tile has."""
    factors, k, wide = out.shape[1], 0, WIDE_BYTES // c.itemsize
    while k < factors:
        is_wide = SIDE < wide <= factors - k
        for r in range(0, rows, TALL):
            product_of_rows(g, r, c, k, is_wide, out, r, k)
        k += wide if is_wide else SIDE


@compiled
def _push(g: Floats, a: Floats, out: Floats, rows: int) -> None:
    """So many rows of GᵀA, one after the other: columns of G are far apart."""
    factors, wide = out.shape[1], WIDE_BYTES // a.itemsize
    for r in range(0, rows, TALL):
        k = 0
        while k < factors:
            is_wide = SIDE < wide <= factors - k
            product_of_columns(g, r, a, k, is_wide, out, r, k)
            k += wide if is_wide else SIDE


@compiled
def _last(rows: Floats, first: int) -> Floats:
    """The rows that are left over, as TALL of them."""
    rest = np.zeros((TALL, rows.shape[1]), rows.dtype)
    rest[: len(rows) - first] = rows[first:]
    return rest


@compiled
def _copy(tile: Floats, out: Floats, r: int, c: int) -> None:
    """As much of a tile as there is room for at (r, c)."""
    rows, columns = min(len(tile), len(out) - r), min(tile.shape[1], out.shape[1] - c)
    out[r : r + rows, c : c + columns] = tile[:rows, :columns]
