"""Products of long matrices with short rows, in registers; imports numba, so import it late.

Where rows have some 64 numbers, a library of matrix products spends a good part of its time on
copies that pay off for longer ones. Here a product is made tile by tile from the matrices as they
are, but for what must lie side by side to be a vector or a line of the cache.

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
    tile, whole = np.empty((TALL, wide), a.dtype), rows // TALL * TALL
    rest = _last(a, whole)
    for start in range(0, columns, wide):
        size = min(wide, columns - start)
        for first in range(0, size, SIDE):
            count = min(SIDE, size - first)
            some[:count] = c[start + first : start + first + count]
            for k in range(0, factors, SIDE):
                transpose(some, k, slab, first)
        if size == wide:
            for r in range(0, whole, TALL):
                product_of_rows(a, r, slab, 0, True, out, r, start)
        else:
            for r in range(0, whole, TALL):
                product_of_rows(a, r, slab, 0, True, tile, 0, 0)
                _copy(tile, out, r, start)
        if whole < rows:
            product_of_rows(rest, 0, slab, 0, True, tile, 0, 0)
            _copy(tile, out, whole, start)


@compiled
def pull(g: Floats, c: Floats, out: Floats) -> None:
    """Set `out` to G C."""
    (rows, factors), wide = out.shape, max(SIDE, WIDE_BYTES // c.itemsize)
    tile, whole = np.empty((TALL, wide), c.dtype), rows // TALL * TALL
    rest = _last(g, whole)
    k = 0
    while k < factors:
        is_wide = factors - k >= wide
        for r in range(0, whole, TALL):
            product_of_rows(g, r, c, k, is_wide, out, r, k)
        if whole < rows:
            product_of_rows(rest, 0, c, k, is_wide, tile, 0, 0)
            _copy(tile[:, : wide if is_wide else SIDE], out, whole, k)
        k += wide if is_wide else SIDE


@compiled
def push(g: Floats, a: Floats, out: Floats) -> None:
    """Set `out` to Gᵀ A."""
    (columns, factors), wide = out.shape, max(SIDE, WIDE_BYTES // a.itemsize)
    tile, whole = np.empty((TALL, wide), a.dtype), columns // TALL * TALL
    rest = np.zeros((len(a), TALL), a.dtype)
    rest[:, : columns - whole] = g[:, whole:]
    for i in range(0, whole, TALL):
        k = 0
        while k < factors:
            is_wide = factors - k >= wide
            product_of_columns(g, i, a, k, is_wide, out, i, k)
            k += wide if is_wide else SIDE
    k = 0
    while k < factors and whole < columns:
        is_wide = factors - k >= wide
        product_of_columns(rest, 0, a, k, is_wide, tile, 0, 0)
        _copy(tile[:, : wide if is_wide else SIDE], out, whole, k)
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
