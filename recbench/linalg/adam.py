"""Adam: steps along a gradient, each number's divided by how large its gradients have been.

With gradient g, moments m and v of a number x, and t steps so far,

    m ← β1 m + (1 - β1) g        v ← β2 v + (1 - β2) g²
    x ← x - rate · m / (1 - β1^t) / (√(v / (1 - β2^t)) + ε)

Dense or lazy is how a gradient is understood that is given for some rows of a table only. Dense:
that of the others is 0. Their moments fade, and they still move by them. Lazy: the others are not
touched, and the t of a row counts the steps in which it was. That is another optimiser, which
costs only what the rows cost. Given for all rows, both are the same.

Everything is read and written once a step. No number depends on another one, so results do not
depend on the number of threads. NaN comes out where NaN went in.
"""

import math
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from typing import Any

import numpy as np
import numpy.typing as npt

from recbench.linalg import blas, shares
from recbench.linalg.rows import checked, every, places_of
from recbench.linalg.types import Floats, Indices

LEAST = 1 << 14
"""The least numbers that are worth a task of their own."""

BLOCK = 1 << 15
"""Numbers whose squares are added up at a time: in float64 they must stay in cache."""


class Adam:
    """What it takes to go on moving one table, which is changed in place."""

    def __init__(
        self,
        table: Floats,
        *,
        lazy: bool,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
    ) -> None:
        if table.dtype not in (np.float32, np.float64) or not table.flags.c_contiguous:
            raise ValueError("Adam moves tables of float32 or float64 that are stored by rows")
        if table.ndim not in (1, 2):
            raise ValueError(f"Adam moves vectors and tables, not {table.ndim} dimensions")
        self.table, self.lazy, self.betas, self.epsilon = table, lazy, betas, epsilon
        self.mean, self.square = np.zeros_like(table), np.zeros_like(table)
        self.steps = np.zeros(len(table) if lazy else 1, dtype=np.int64)
        """How often each row was touched; if not lazy, all together."""
        self._every = every(len(table))

    def step(
        self, pool: Executor, gradient: Floats, rate: float, rows: Indices | None = None
    ) -> None:
        """Move the table, given the gradient of all rows, or of these, each of them named once."""
        from recbench.linalg.adam_kernel import step  # brings numba

        named = len(self.table) if rows is None else len(rows)
        shape, dtype = (named, *self.table.shape[1:]), self.table.dtype
        if gradient.shape != shape or gradient.dtype != dtype:
            raise ValueError(
                f"expected a gradient in {dtype} of shape {shape}, not {gradient.dtype} of shape "
                f"{gradient.shape}"
            )
        moved, places = self._moved(rows)
        b1, b2 = self.betas
        decays = np.array([b1, 1 - b1, b2, 1 - b2], dtype)
        given = (
            moved, places, _by_rows(np.ascontiguousarray(gradient)), decays,
            *self._corrected(moved, rate), dtype.type(self.epsilon),
            *map(_by_rows, (self.table, self.mean, self.square)),
        )  # fmt: skip
        size = len(moved) * _by_rows(self.table).shape[1]
        tasks = shares.fair(np.arange(len(moved) + 1), min(shares.for_cores(), 1 + size // LEAST))
        blas.finish(pool, step, ((*task, *given) for task in tasks))

    def _moved(self, rows: Indices | None) -> tuple[Indices, Indices]:
        """The rows that a step moves, and where the gradient of each is: -1 where it is 0."""
        if rows is None:
            return self._every, self._every
        named = checked(rows, len(self.table))
        places = places_of(named, len(self.table))
        return (named, self._every[: len(named)]) if self.lazy else (self._every, places)

    def _corrected(self, moved: Indices, rate: float) -> tuple[Floats, Floats]:
        """Count a step; the rate over 1 - β1^t, and one over the root of 1 - β2^t, by row."""
        counted = moved if self.lazy else slice(None)
        self.steps[counted] += 1
        fades = [1 - beta ** self.steps[counted] for beta in self.betas]
        found = [np.broadcast_to(c, len(moved)) for c in (rate / fades[0], 1 / np.sqrt(fades[1]))]
        return found[0].astype(self.table.dtype), found[1].astype(self.table.dtype)

    def state(self) -> Mapping[str, npt.NDArray[Any]]:
        """What further steps depend on, besides the table: to be written, or copied."""
        return {"mean": self.mean, "square": self.square, "steps": self.steps}

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Go back to a `state`; the table is the caller's."""
        for name, array in self.state().items():
            if state[name].shape != array.shape or state[name].dtype != array.dtype:
                raise ValueError(f"'{name}' is of another table, or of another kind of Adam")
        for name, array in self.state().items():
            array[...] = state[name]


def norm(pool: Executor, arrays: Iterable[Floats]) -> float:
    """The length of all arrays together as one vector, added up in float64 in a fixed order."""
    from recbench.linalg.adam_kernel import sums_of_squares

    found: list[float] = []
    for flat in (array.reshape(-1) for array in arrays):
        sums = np.empty(-(-len(flat) // BLOCK))
        tasks = shares.fair(np.arange(len(sums) + 1), shares.for_cores())
        blas.finish(pool, sums_of_squares, ((*task, BLOCK, flat, sums) for task in tasks))
        found += sums.tolist()
    return math.sqrt(sum(found))


def _by_rows(array: Floats) -> Floats:
    """A vector as a table of one column; a table as it is."""
    return array[:, None] if array.ndim == 1 else array
