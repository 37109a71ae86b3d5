"""One step of inverting a tiled matrix: sweeping a block row.

With T the matrix as it stands, L the Cholesky factor of T_kk, M = L⁻¹ and Y_i = T_ik Mᵀ, it is

    T_kk ← MᵀM = T_kk⁻¹      T_ik ← ± Y_i M = ± T_ik T_kk⁻¹      T_ij ← T_ij ∓ Y_i Y_jᵀ

with the upper signs, unless block row i (and, for T_ij, also j) was swept before. Once all are
swept, T is the inverse of what it was. Each assignment needs its own tile, the pivot's and the
Y of the panel, and Y can take the place of the panel until all T_ij are done: so there is no
workspace, and every tile always stands at one of three steps, 2k, 2k + 1 or 2k + 2.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from typing import Protocol

from recbench.linalg import blas
from recbench.linalg.types import Matrix

Key = tuple[int, int]


class SweptTiles(Protocol):
    """What a sweep asks of the tiles, which need not all be here."""

    keys: list[Key]
    """Those that are to be changed."""

    def block(self, i: int, j: int) -> Matrix:
        """Tile (i, j) or the transpose of tile (j, i)."""

    def advance(self, key: Key, step: int, change: Callable[[Matrix], None]) -> None:
        """Apply a change to a tile, unless it is at that step already."""


class BlockRowSweep:
    """Sweeping block row k."""

    def __init__(self, tiles: SweptTiles, k: int) -> None:
        self.tiles, self.k = tiles, k
        self.crossing = [key for key in tiles.keys if k in key]
        """The pivot and the panel, which are changed twice."""

    def __len__(self) -> int:
        """How many tasks `run` consists of."""
        return len(self.tiles.keys) + len(self.crossing)

    def run(self, pool: Executor) -> Iterator[None]:
        """Do what has not been done; yield after each task."""
        pivot = [() for i, j in self.crossing if i == j]
        panel = [(i + j - self.k,) for i, j in self.crossing if i != j]
        pairs = [key for key in self.tiles.keys if self.k not in key]
        yield from blas.run_all(pool, self._factor, pivot)
        yield from blas.run_all(pool, self._whiten, panel)
        yield from blas.run_all(pool, self._update, pairs)
        yield from blas.run_all(pool, self._restore, panel)
        yield from blas.run_all(pool, self._square, pivot)

    def _factor(self) -> None:
        """T_kk ← M."""
        self._half((self.k, self.k), blas.inverse_factor)

    def _whiten(self, i: int) -> None:
        """T_ik ← Y_i."""
        self._half(self._key(i), lambda t: self._times_pivot(i, t, 1.0, transposed=True))

    def _update(self, i: int, j: int) -> None:
        """T_ij ← T_ij ∓ Y_i Y_jᵀ."""
        sign = 1.0 if i < self.k else -1.0
        y_i, y_j = self.tiles.block(i, self.k), self.tiles.block(j, self.k)
        if i == j:
            self._full((i, i), lambda t: blas.add_square(t, y_i, sign))
        else:
            self._full((i, j), lambda t: blas.add_product(t, y_i, y_j.T, sign))

    def _restore(self, i: int) -> None:
        """T_ik ← ± Y_i M."""
        sign = -1.0 if i < self.k else 1.0
        self._full(self._key(i), lambda t: self._times_pivot(i, t, sign, transposed=False))

    def _square(self) -> None:
        """T_kk ← MᵀM."""
        self._full((self.k, self.k), blas.square_factor)

    def _times_pivot(self, i: int, tile: Matrix, sign: float, *, transposed: bool) -> None:
        rows = tile if i > self.k else tile.T
        blas.times_triangle(rows, self.tiles.block(self.k, self.k), sign, transposed=transposed)

    def _key(self, i: int) -> Key:
        return max(i, self.k), min(i, self.k)

    def _half(self, key: Key, change: Callable[[Matrix], None]) -> None:
        self.tiles.advance(key, 2 * self.k + 1, change)

    def _full(self, key: Key, change: Callable[[Matrix], None]) -> None:
        self.tiles.advance(key, 2 * self.k + 2, change)
