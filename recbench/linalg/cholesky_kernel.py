"""Small symmetric positive definite equations, compiled with numba: import it late.

A symmetric matrix is its upper triangle, stored by rows, in whole tiles; what is below those on the
diagonal is neither read nor written. Its Cholesky factor U, with UᵀU the matrix, takes its place,
SIDE rows at a time: what the rows above come to is taken off tile by tile, and then the triangle
on the diagonal is divided by. Tiles are worked on in registers throughout.

`reassoc` lets the compiler add up a dot product in vector registers, in the same order every time;
NaN and infinity keep their meaning.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from recbench.linalg.compiled import compiled as kept
from recbench.linalg.registers_kernel import SIDE, add_product, backward, factorise, substitute

F = TypeVar("F", bound=Callable[..., Any])
Floats = npt.NDArray[np.float32] | npt.NDArray[np.float64]


def compiled(function: F) -> F:
    """Compile a function whose sums may be taken in any order."""
    return kept(function, error_model="numpy", fastmath={"contract", "reassoc"})


@compiled
def whole(size: int) -> int:
    """The rows or columns of as many tiles as so many take."""
    return (size + SIDE - 1) // SIDE * SIDE


@compiled
def stride(size: int) -> int:
    """How long a row of so many numbers should be: whole tiles, and an odd number of them.

    Rows a power of two apart would fall into a few sets of the cache.
    """
    return (whole(size) // SIDE | 1) * SIDE


@compiled
def add_products(
    x: Floats, count: int, size: int, factor: Any, fresh: bool, square: Floats
) -> None:
    """Add factor · XᵀX to the upper triangle or, if it is fresh, set it to I + that.

    X is the first rows of x, with zeros up to whole tiles.
    """
    for i in range(0, size, SIDE):
        for j in range(i, size, SIDE):
            add_product(x, count, i, j, factor, fresh, square)
    if fresh:
        for i in range(whole(size)):
            square[i, i] += square.dtype.type(1)


@compiled
def solve(size: int, square: Floats, inverse: Floats, z: Floats) -> None:
    """Replace z by square⁻¹ z, and the square by its factor.

    Up to whole tiles the square goes on as the identity, and z as zeros.
    """
    minus = square.dtype.type(-1)
    for i in range(0, size, SIDE):
        for j in range(i, size, SIDE):
            add_product(square, i, i, j, minus, False, square)
        factorise(square, i, inverse, z)
        for j in range(i + SIDE, size, SIDE):
            substitute(square, i, j, inverse, z)
    for i in range((size - 1) // SIDE * SIDE, -1, -SIDE):
        backward(square, i, size, inverse, z)
