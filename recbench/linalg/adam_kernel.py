"""The compiled loops of `adam`; importing this module imports numba, so import it late."""

from typing import Any

import numpy as np
import numpy.typing as npt

from recbench.linalg.compiled import F, compiled, exact

Floats = npt.NDArray[np.float32] | npt.NDArray[np.float64]
Indices = npt.NDArray[np.int32]
Vector = npt.NDArray[np.float64]


@exact
def step(
    first: int,
    last: int,
    rows: Indices,
    places: Indices,
    gradient: Floats,
    decays: Floats,
    rates: Floats,
    roots: Floats,
    epsilon: Any,
    table: Floats,
    mean: Floats,
    square: Floats,
) -> None:
    """Move rows[first] to rows[last - 1]; the gradient of rows[i] is that at places[i], or 0 at -1.

    `decays` are β1, 1 - β1, β2 and 1 - β2; `rates` and `roots`, by i, have the corrections in them.
    """
    keep1, add1, keep2, add2 = decays[0], decays[1], decays[2], decays[3]
    for i in range(first, last):
        r, at, rate, root = rows[i], places[i], rates[i], roots[i]
        if at < 0:
            for k in range(table.shape[1]):
                m, v = keep1 * mean[r, k], keep2 * square[r, k]
                mean[r, k], square[r, k] = m, v
                table[r, k] -= rate * m / (np.sqrt(v) * root + epsilon)
        else:
            for k in range(table.shape[1]):
                g = gradient[at, k]
                m, v = keep1 * mean[r, k] + add1 * g, keep2 * square[r, k] + add2 * g * g
                mean[r, k], square[r, k] = m, v
                table[r, k] -= rate * m / (np.sqrt(v) * root + epsilon)


def _summing(function: F) -> F:
    """Compile a sum that may be taken in any order, always the same one."""
    return compiled(function, error_model="numpy", fastmath={"contract", "reassoc"})


@_summing
def sums_of_squares(first: int, last: int, size: int, numbers: Floats, out: Vector) -> None:
    """Σ x² of each block of so many numbers, from the first on, in float64."""
    for block in range(first, last):
        total = 0.0
        for i in range(block * size, min((block + 1) * size, len(numbers))):
            wide = np.float64(numbers[i])
            total += wide * wide
        out[block] = total
