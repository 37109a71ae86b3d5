"""Products and solutions of small symmetric matrices, compiled with numba: import it late.

All heavy work is done by `_tile`, sixteen dot products of four rows with four: few loads for many
multiplications, in registers throughout. Sizes are padded to SIDE rows and, because a loop over
half a vector is slow, to LANES columns.

`reassoc` lets the compiler add up a dot product in vector registers, in the same order every time;
NaN and infinity keep their meaning.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from recbench.linalg.compiled import compiled as kept

F = TypeVar("F", bound=Callable[..., Any])
Floats = npt.NDArray[np.float32] | npt.NDArray[np.float64]

SIDE = 4
LANES = 16


def compiled(function: F) -> F:
    """Compile a function whose sums may be taken in any order."""
    return kept(function, error_model="numpy", fastmath={"contract", "reassoc"})


@compiled
def _tile(x: Floats, i: int, j: int, width: int, out: Floats) -> None:
    """The dot products of rows i to i + 3 of x with rows j to j + 3, over `width` columns."""
    zero = x.dtype.type(0)
    s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = zero
    s20 = s21 = s22 = s23 = s30 = s31 = s32 = s33 = zero
    a0, a1, a2, a3 = x[i], x[i + 1], x[i + 2], x[i + 3]
    b0, b1, b2, b3 = x[j], x[j + 1], x[j + 2], x[j + 3]
    for k in range(width):
        s00 += a0[k] * b0[k]
        s01 += a0[k] * b1[k]
        s02 += a0[k] * b2[k]
        s03 += a0[k] * b3[k]
        s10 += a1[k] * b0[k]
        s11 += a1[k] * b1[k]
        s12 += a1[k] * b2[k]
        s13 += a1[k] * b3[k]
        s20 += a2[k] * b0[k]
        s21 += a2[k] * b1[k]
        s22 += a2[k] * b2[k]
        s23 += a2[k] * b3[k]
        s30 += a3[k] * b0[k]
        s31 += a3[k] * b1[k]
        s32 += a3[k] * b2[k]
        s33 += a3[k] * b3[k]
    out[0, 0], out[0, 1], out[0, 2], out[0, 3] = s00, s01, s02, s03
    out[1, 0], out[1, 1], out[1, 2], out[1, 3] = s10, s11, s12, s13
    out[2, 0], out[2, 1], out[2, 2], out[2, 3] = s20, s21, s22, s23
    out[3, 0], out[3, 1], out[3, 2], out[3, 3] = s30, s31, s32, s33


@compiled
def _put(tile: Floats, factor: Any, fresh: bool, square: Floats, i: int, j: int) -> None:
    """Set, or add to, the sixteen numbers at (i, j)."""
    for p in range(SIDE):
        if fresh:
            for q in range(SIDE):
                square[i + p, j + q] = factor * tile[p, q]
        else:
            for q in range(SIDE):
                square[i + p, j + q] += factor * tile[p, q]


@compiled
def add_products(
    rows: Floats, size: int, width: int, factor: Any, fresh: bool, square: Floats, tile: Floats
) -> None:
    """Add factor · X Xᵀ to the square's lower triangle or, if it is fresh, set it to I + that."""
    for i in range(0, size, SIDE):
        for j in range(0, i + SIDE, SIDE):
            _tile(rows, i, j, width, tile)
            _put(tile, factor, fresh, square, i, j)
    if fresh:
        for i in range(size):
            square[i, i] += square.dtype.type(1)


@compiled
def _eliminate(size: int, square: Floats, lower: Floats, inverse: Floats, tile: Floats) -> None:
    """Factorise the bordered square as L Lᵀ, four rows and columns at a time.

    The border is one more row, which turns it into the solution of L z = border.
    """
    for i in range(0, size + 1, SIDE):
        # Tiles reach over whole vectors: what is not computed yet must be zero.
        for p in range(SIDE):
            for k in range((i + SIDE + LANES - 1) // LANES * LANES):
                lower[i + p, k] = 0
        for j in range(0, i, SIDE):
            _tile(lower, i, j, (j + LANES - 1) // LANES * LANES, tile)
            _below(i, j, square, lower, inverse, tile)
        _tile(lower, i, i, (i + LANES - 1) // LANES * LANES, tile)
        _corner(i, min(SIDE, size - i), square, lower, inverse, tile)


@compiled
def _below(i: int, j: int, square: Floats, lower: Floats, inverse: Floats, tile: Floats) -> None:
    """Four rows of L in four columns left of the diagonal; the tile holds what is known of L Lᵀ."""
    d0, d1, d2, d3 = inverse[j], inverse[j + 1], inverse[j + 2], inverse[j + 3]
    c10, c20, c21 = lower[j + 1, j], lower[j + 2, j], lower[j + 2, j + 1]
    c30, c31, c32 = lower[j + 3, j], lower[j + 3, j + 1], lower[j + 3, j + 2]
    for p in range(SIDE):
        r = i + p
        v0 = (square[r, j] - tile[p, 0]) * d0
        v1 = (square[r, j + 1] - tile[p, 1] - v0 * c10) * d1
        v2 = (square[r, j + 2] - tile[p, 2] - v0 * c20 - v1 * c21) * d2
        v3 = (square[r, j + 3] - tile[p, 3] - v0 * c30 - v1 * c31 - v2 * c32) * d3
        lower[r, j], lower[r, j + 1], lower[r, j + 2], lower[r, j + 3] = v0, v1, v2, v3


@compiled
def _corner(
    i: int, count: int, square: Floats, lower: Floats, inverse: Floats, tile: Floats
) -> None:
    """Four rows of L in the four columns on the diagonal, of which `count` are unknowns."""
    for q in range(count):
        for p in range(q, SIDE):
            rest = square[i + p, i + q] - tile[p, q]
            for k in range(i, i + q):
                rest -= lower[i + p, k] * lower[i + q, k]
            if p == q:
                inverse[i + q] = lower.dtype.type(1) / np.sqrt(rest)
            else:
                lower[i + p, i + q] = rest * inverse[i + q]


@compiled
def solve(
    size: int, square: Floats, lower: Floats, inverse: Floats, tile: Floats, z: Floats
) -> None:
    """Solve the bordered equations: z = square⁻¹ border."""
    _eliminate(size, square, lower, inverse, tile)
    for k in range(size):
        z[k] = lower[size, k]
    for k in range(size - 1, -1, -1):
        z[k] *= inverse[k]
        known = z[k]
        for j in range(k):
            z[j] -= known * lower[k, j]
