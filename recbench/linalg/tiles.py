"""A symmetric matrix of which only the lower triangle is stored, and its inverse in place.

The matrix is cut into square tiles, each contiguous, in memory or in a folder of memory-mapped
files. That is n²/2 numbers, and nothing here ever makes the other half.

A positive definite matrix is inverted by sweeping one row of tiles after another (see
`BlockRowSweep`): n³ operations, nearly all of them products of tiles, and none of them needs room
outside the tiles. LAPACK on the whole matrix takes as many, but its spotrf crashes near n = 40,000.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from recbench.errors import RecbenchError
from recbench.linalg import blas
from recbench.linalg.sweep import BlockRowSweep
from recbench.linalg.tilefolder import SEALED, TileFolder, TilesError
from recbench.linalg.types import Matrix, Progress, silent

Key = tuple[int, int]

FORMAT = 2
LEAST, SIDE, STEP = 256, 1024, 128
"""Sides of tiles: BLAS is too slow below the least, and at full speed from the largest on, which
store more of the diagonal twice. Those between are so many rows apart."""
ROWS_OF_TILES = 7
"""Small matrices are cut into about as many, see `side_for`."""
RAISE_DIAGONAL = "add more to its diagonal"


class NotPositiveDefinite(RecbenchError):
    """The matrix has no inverse to the precision it is stored in, or only a useless one."""


def side_for(n: int) -> int:
    """The side of the tiles of an n x n matrix.

    A tile on the diagonal is one thread's while the others wait: with r rows of tiles that is 1/r²
    of all operations. So small matrices have small tiles. The side depends on nothing but n. Sums
    are made tile by tile, and other tiles give other last bits, but neither the number of threads
    nor where tiles are kept must be seen. (On disk larger tiles would mean fewer bytes written, as
    every sweep writes every tile.)
    """
    wanted = -(-n // (ROWS_OF_TILES * STEP)) * STEP
    return min(max(wanted, LEAST), SIDE)


class Checked(ABC):
    """An n x n inverse that can be multiplied with, and so be checked."""

    n: int
    dtype: np.dtype[Any]

    @abstractmethod
    def matmul(self, z: Matrix) -> Matrix:
        """The product of the matrix with n x s numbers."""

    def residual(self, apply: Callable[[Matrix], Matrix], z: Matrix) -> float:
        """The largest ‖K C z - z‖ / ‖z‖ over the columns of z; C is this, and `apply` is K.

        It bounds the relative error of C: with K exact, C - K⁻¹ = K⁻¹ (K C - I).
        """
        z = np.asarray(z, np.float64)
        missed = apply(self.matmul(z).astype(np.float64)) - z
        return float((np.linalg.norm(missed, axis=0) / np.linalg.norm(z, axis=0)).max())

    def check_inverse(
        self,
        apply: Callable[[Matrix], Matrix],
        *,
        tolerance: float = 1e-3,
        seed: int = 0,
        advice: str = RAISE_DIAGONAL,
    ) -> float:
        """Return the residual on a few random vectors; an error where it exceeds the tolerance."""
        z = np.random.default_rng(seed).standard_normal((self.n, 4))
        residual = self.residual(apply, z)
        if residual <= tolerance:  # false for NaN
            return residual
        digits = max(0.0, -np.log10(residual)) if np.isfinite(residual) else 0.0
        raise NotPositiveDefinite(
            f"the {self.n:,} x {self.n:,} matrix is ill-conditioned: its {self.dtype} inverse is "
            f"right to {digits:.1f} digits, not the {-np.log10(tolerance):.1f} needed; {advice}"
        )


class Tiles(Checked):
    """The lower triangle of a symmetric n x n matrix in square tiles of `side` rows.

    Tile (i, j), i >= j, holds rows `span(i)` and columns `span(j)` and is stored by rows. Tiles
    on the diagonal are whole squares.
    """

    def __init__(
        self,
        n: int,
        dtype: npt.DTypeLike = np.float32,
        side: int | None = None,
        folder: Path | None = None,
        keys: Sequence[Key] | None = None,
    ) -> None:
        """Describe a matrix without tiles; use `zeros`, `open` or `inverse`.

        Of a matrix that several machines have together, `keys` are the tiles that are here.
        """
        side = side_for(n) if side is None else side
        if n < 1 or side < 1:
            raise ValueError(f"no matrix of {n} rows in tiles of {side} rows")
        self.n, self.side, self.dtype = n, side, np.dtype(dtype)
        if self.dtype not in (np.float32, np.float64):
            raise ValueError(f"tiles are float32 or float64, not {self.dtype}")
        self.count = -(-n // side)
        self._folder = None if folder is None else TileFolder(folder)
        self._tiles: dict[Key, Matrix] = {}
        everything = ((i, j) for i in range(self.count) for j in range(i + 1))
        self.keys = list(everything if keys is None else keys)
        self._steps = dict.fromkeys(self.keys, 0)

    @classmethod
    def zeros(
        cls,
        n: int,
        dtype: npt.DTypeLike = np.float32,
        side: int | None = None,
        folder: Path | None = None,
        keys: Sequence[Key] | None = None,
    ) -> "Tiles":
        """Make a matrix of zeros to be filled, in memory or in a folder, which loses its tiles."""
        tiles = cls(n, dtype, side, folder, keys)
        if tiles._folder is None:
            tiles._cut(np.zeros(sum(map(math.prod, map(tiles.shape, tiles.keys))), dtype))
        else:
            tiles._folder.clear()
            for key in tiles.keys:
                tiles._tiles[key] = tiles._folder.create(key, tiles.dtype, tiles.shape(key))
        return tiles

    def _cut(self, numbers: Matrix) -> None:
        """Cut the tiles from one array: the system hands out large ones in large pages."""
        start = 0
        for key in self.keys:
            rows, columns = self.shape(key)
            self._tiles[key] = numbers[start : start + rows * columns].reshape(rows, columns)
            start += rows * columns

    @staticmethod
    def bytes_needed(n: int, dtype: npt.DTypeLike = np.float32, side: int | None = None) -> int:
        """Bytes of the tiles; inverting them is done in place and takes a few MB more."""
        side = side_for(n) if side is None else side
        full, rest = divmod(n, side)
        squares = full * side**2 + rest**2  # the diagonal tiles, stored with both triangles
        return (n * n + squares) // 2 * np.dtype(dtype).itemsize

    # The tiles

    def span(self, i: int) -> slice:
        """The rows (or columns) of the matrix that tiles of row (or column) i cover."""
        return slice(i * self.side, min(self.n, (i + 1) * self.side))

    def shape(self, key: Key) -> tuple[int, int]:
        """The shape of one tile."""
        rows, columns = (self.span(i) for i in key)
        return rows.stop - rows.start, columns.stop - columns.start

    @property
    def on_diagonal(self) -> list[int]:
        """The rows of tiles whose tile on the diagonal is here."""
        return [i for i, j in self.keys if i == j]

    def block(self, i: int, j: int) -> Matrix:
        """Rows span(i) and columns span(j) of the matrix: a tile, or the transpose of one."""
        return self._tiles[i, j] if i >= j else self._tiles[j, i].T

    def advance(self, key: Key, step: int, change: Callable[[Matrix], None]) -> None:
        """Bring a tile to a step, unless it is there: in place in memory, whole or not on disk."""
        since = self._steps[key]
        if since >= step:
            return
        if self._folder is None:
            change(self._tiles[key])
        else:
            changed = np.array(self._tiles[key])
            change(changed)
            self._tiles[key] = self._folder.advance(key, step, changed, since)
        self._steps[key] = step

    # Entries

    def diagonal(self) -> Matrix:
        """Return the diagonal of the matrix."""
        parts = [self.block(i, i).diagonal() for i in range(self.count)]
        diagonal: Matrix = np.concatenate(parts)
        return diagonal

    def add_diagonal(self, values: npt.ArrayLike) -> None:
        """Add one number, or one for every row, to the diagonal."""
        with np.errstate(over="ignore"):  # infinity is found when the matrix is inverted
            added = np.broadcast_to(np.asarray(values).astype(self.dtype), self.n)
        for i in self.on_diagonal:
            tile = self.block(i, i)
            np.fill_diagonal(tile, tile.diagonal() + added[self.span(i)])

    def panel(self, start: int, stop: int, out: Matrix | None = None) -> Matrix:
        """Columns start to stop of the whole matrix, n x (stop - start), stored by rows."""
        panel = np.empty((self.n, stop - start), self.dtype) if out is None else out
        for j in range(start // self.side, -(-stop // self.side)):
            columns = self.span(j)
            first, last = max(start, columns.start), min(stop, columns.stop)
            inside = slice(first - columns.start, last - columns.start)
            for i in range(self.count):
                _copy(
                    panel[self.span(i), first - start : last - start], self.block(i, j)[:, inside]
                )
        return panel

    def column(self, i: int) -> Matrix:
        """Column i of the whole matrix."""
        column: Matrix = self.rows(np.array([i]))[0]
        return column

    def rows(self, indices: npt.NDArray[np.integer[Any]]) -> Matrix:
        """Some rows of the whole matrix, in the order asked for."""
        out = np.empty((len(indices), self.n), self.dtype)
        self.copy_rows(indices, out, np.arange(len(indices)))
        return out

    def copy_rows(
        self,
        indices: npt.NDArray[np.integer[Any]],
        out: Matrix,
        places: npt.NDArray[np.integer[Any]],
    ) -> None:
        """Write some rows of the whole matrix to these places, which are rows of `out`."""
        tile_row, inside = np.divmod(indices, self.side)
        of_tiles = {int(i): np.flatnonzero(tile_row == i) for i in np.unique(tile_row)}

        def copy(j: int) -> None:
            for i, here in of_tiles.items():
                out[places[here], self.span(j)] = self.block(i, j)[inside[here]]

        with blas.workers() as pool:
            blas.finish(pool, copy, ((j,) for j in range(self.count)))

    def matmul(self, z: Matrix) -> Matrix:
        """The product of the matrix with n x s numbers."""
        z = np.ascontiguousarray(z, self.dtype)
        out = np.zeros_like(z)

        def multiply(i: int) -> None:
            for j in range(self.count):
                blas.add_product(out[self.span(i)], self.block(i, j), z[self.span(j)], 1.0)

        with blas.workers() as pool:
            blas.finish(pool, multiply, ((i,) for i in range(self.count)))
        return out

    # The inverse

    @property
    def inverted(self) -> bool:
        """Whether these are the tiles of a finished inverse."""
        return all(self._steps[i, i] > 2 * self.count for i in range(self.count))

    def invert(self, progress: Progress = silent, advice: str = RAISE_DIAGONAL) -> None:
        """Replace a positive definite matrix by its inverse, from wherever that work stands.

        A matrix without an inverse is an error that ends in `advice`, and its tiles are worthless.
        """
        sweeps = [BlockRowSweep(self, k) for k in range(self.count)]
        done, total = 0, sum(len(sweep) for sweep in sweeps)
        with blas.workers() as pool:
            for sweep in sweeps:
                try:
                    for _ in sweep.run(pool):
                        done += 1
                        progress(done, total)
                except blas.NotPositive:
                    if self._folder is not None:
                        self._folder.clear()
                    raise self.without_inverse(sweep.k, advice) from None
        self.finish()

    def finish(self) -> None:
        """Once all rows are swept, have both triangles of the tiles on the diagonal."""
        for i in self.on_diagonal:
            self.advance((i, i), 2 * self.count + 1, blas.mirror)

    def without_inverse(self, k: int, advice: str) -> NotPositiveDefinite:
        """Build the error for a pivot that has no factor."""
        return NotPositiveDefinite(
            f"the {self.n:,} x {self.n:,} matrix is not positive definite in {self.dtype} "
            f"(its first {self.span(k).stop:,} rows already are not); {advice}"
        )

    # Folders

    @classmethod
    def open(cls, folder: Path, identity: str | None = None) -> "Tiles":
        """Map the tiles in a folder, which must be those of `identity`, for reading."""
        tiles = cls._found_in(folder, identity)
        if not tiles.inverted and any(tiles._steps.values()):
            raise TilesError(
                f"{folder} holds an inverse that was interrupted; run again to finish it"
            )
        return tiles

    @classmethod
    def _found_in(cls, folder: Path, identity: str | None) -> "Tiles":
        """Map the tiles in a folder, at whatever step of being inverted they are."""
        files = TileFolder(folder)
        header = files.header()
        if header is None:
            raise TilesError(f"{folder} holds no tiles, or none that were ever complete")
        if identity is not None and header.get("identity") != identity:
            raise TilesError(
                f"{folder} holds tiles of {header.get('identity')!r}, not of {identity!r}; "
                "give another folder, or delete it to start anew"
            )
        try:
            if header["format"] > FORMAT:
                raise TilesError(f"{folder} was written by a newer recbench; upgrade to read it")
            files.refuse_others_than(header["n"], header["side"])
            tiles = cls(header["n"], header["dtype"], header["side"], folder)
        except (KeyError, TypeError, ValueError) as error:
            raise files.damaged(f"its header: {error!r}") from error
        tiles._map(files, unsealed=header["format"] < SEALED)
        return tiles

    def _map(self, files: TileFolder, *, unsealed: bool) -> None:
        self._steps = files.steps()
        if sorted(self._steps) != self.keys:
            raise files.damaged(f"{len(self._steps)} tiles where {len(self.keys)} belong")
        if max(self._steps.values()) - min(self._steps.values()) > 2:  # one sweep apart at most
            raise files.damaged("tiles of different ages")
        for key, step in self._steps.items():
            tile = files.read(key, step, unsealed=unsealed)
            if tile.shape != self.shape(key) or tile.dtype != self.dtype:
                raise files.damaged(f"tile {key} is {tile.dtype} {tile.shape}")
            self._tiles[key] = tile

    def save(self, folder: Path, identity: str = "") -> None:
        """Write the tiles to a folder that `open` reads, or declare those in it complete."""
        files = TileFolder(folder)
        if self._folder is None or self._folder.path.resolve() != folder.resolve():
            files.clear()
            self.keep(files)
        else:
            for key, tile in self._tiles.items():
                files.seal(key, self._steps[key], tile)
        described = {"n": self.n, "dtype": self.dtype.name, "side": self.side}
        files.publish({"format": FORMAT, "identity": identity, **described})

    def keep(self, files: TileFolder) -> None:
        """Write the tiles that are here beside those that others write."""
        for key, tile in self._tiles.items():
            files.write(key, self._steps[key], tile)

    def take(self, files: TileFolder) -> None:
        """Bring what was kept of the tiles that are here into memory."""
        steps = files.steps()
        for key, tile in self._tiles.items():
            if key not in steps:
                raise files.damaged(f"tile {key} is missing")
            kept = files.read(key, steps[key])
            if kept.shape != tile.shape or kept.dtype != tile.dtype:
                raise files.damaged(f"tile {key} is {kept.dtype} {kept.shape}")
            tile[...] = kept
            self._steps[key] = steps[key]


def _copy(target: Matrix, source: Matrix) -> None:
    """Copy columns of a tile; those of a transposed one eight at a time, four times as fast."""
    step = 8 if source.strides[0] < source.strides[1] else source.shape[1]
    for first in range(0, source.shape[1], step):
        target[:, first : first + step] = source[:, first : first + step]


def inverse(
    n: int,
    fill: Callable[[Tiles], None],
    *,
    dtype: npt.DTypeLike = np.float32,
    side: int | None = None,
    folder: Path | None = None,
    identity: str = "",
    progress: Progress = silent,
    advice: str = RAISE_DIAGONAL,
) -> Tiles:
    """Invert the matrix that `fill` writes into tiles of zeros.

    In a folder the work goes on where an earlier call for the same `identity` stopped, at any
    point and for any reason; if it was finished, the inverse is just opened. Tiles of another
    side, which would end in other bits, are made anew.
    """
    side = side or side_for(n)
    if folder is None:
        tiles = Tiles.zeros(n, dtype, side)
        fill(tiles)
        tiles.invert(progress, advice)
        return tiles
    folder.mkdir(parents=True, exist_ok=True)
    from filelock import FileLock  # a hundredth of a second: not for tables

    with FileLock(folder / "tiles.lock"):
        files = TileFolder(folder)
        if files.header() is None or Tiles._found_in(folder, identity).side != side:
            tiles = Tiles.zeros(n, dtype, side, folder)
            fill(tiles)
            tiles.save(folder, identity)
        files.tidy()
        tiles = Tiles._found_in(folder, identity)
        if (tiles.n, tiles.dtype) != (n, np.dtype(dtype)):
            raise TilesError(
                f"{folder} holds {tiles.n:,} x {tiles.n:,} tiles of {tiles.dtype}, not {n:,} x "
                f"{n:,} of {np.dtype(dtype)}; give another folder, or delete it to start anew"
            )
        tiles.invert(progress, advice)
    return tiles
