"""One of those who hold the tiles of an inverse: it changes its own, and gives what others need.

The arithmetic is that of `BlockRowSweep`, over fewer tiles. A tile of the panel that is not here is
on its way, and who asks for it waits. What stands at an odd step, M or a Y, is copied for others,
as it changes again before all of them have taken it. Only two pivots' copies are kept: who is
ahead waits until those before are taken.

There is no conductor. A holder that fails gives nothing any more, so that those who wait for it
fail as well, and those who wait for them.
"""

import hashlib
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from recbench.linalg import blas, topk
from recbench.linalg.gram import gram
from recbench.linalg.held.columns import Columns, ordered
from recbench.linalg.held.layout import Key, Layout, ranges_of
from recbench.linalg.padded import PaddedPanels
from recbench.linalg.sweep import BlockRowSweep
from recbench.linalg.tilefolder import TileFolder
from recbench.linalg.tiles import RAISE_DIAGONAL, Tiles
from recbench.linalg.topk import NotFinite, Scales, Top
from recbench.linalg.types import Indices, Matrix, Progress, Sparse, Vector, silent


class Broken(Exception):
    """A holder is gone, or has failed for its own reason: nothing comes from it."""


class Taken(Exception):
    """A worker that should have become a holder is one of another run by now."""


FAILED = "another holder has failed"


class Fetch(Protocol):
    """Asks another holder for something."""

    def __call__(self, holder: int, method: str, *words: Any) -> Future[Matrix]:
        """Call `give` or `strip` of that holder."""


@dataclass(frozen=True)
class Source:
    """What the matrix is made of: RᵀR, and what is added to its diagonal."""

    matrix: Sparse
    added: Vector | float


@dataclass(frozen=True)
class Asked:
    """A ranking that is wanted of all holders, each for its own columns."""

    history: Sparse
    seen: Sparse
    k: int
    scales: Scales
    kept: Indices | None = None
    """The columns of the histories that are in the matrix; None: all of them are."""
    rest: Vector | None = None
    """What others have on the diagonal."""


class Outbox:
    """What others may take: each tile so many times, tiles of the last two pivots at most."""

    def __init__(self, takers: int) -> None:
        self._takers, self._left = takers, dict[tuple[Key, int], int]()
        self._coming = dict[tuple[Key, int], Future[Matrix]]()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, key: Key, step: int, tile: Matrix) -> None:
        """Leave a copy, once there is room."""
        if not self._takers:
            return
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._room(step))
            if self._closed:
                raise Broken(FAILED)
            self._left[key, step] = self._takers
            self._at(key, step).set_result(tile.copy())

    def _room(self, step: int) -> bool:
        return all(other >= step - 2 for _, other in self._left)

    def take(self, key: Key, step: int) -> Future[Matrix]:
        """A tile at that step, now or later; to be called once by everybody who needs it."""
        with self._changed:
            coming = self._at(key, step)
            if self._closed and not coming.done():
                coming.set_exception(Broken(FAILED))
        coming.add_done_callback(partial(self._taken, key, step))
        return coming

    def _at(self, key: Key, step: int) -> Future[Matrix]:
        return self._coming.setdefault((key, step), Future())

    def _taken(self, key: Key, step: int, coming: Future[Matrix]) -> None:
        if coming.exception() is not None:
            return
        with self._changed:
            self._left[key, step] -= 1
            if not self._left[key, step]:
                del self._left[key, step], self._coming[key, step]
                self._changed.notify_all()

    def close(self) -> None:
        """Give nothing any more."""
        with self._changed:
            self._closed = True
            for coming in self._coming.values():
                if not coming.done():
                    coming.set_exception(Broken(FAILED))
            self._changed.notify_all()


class Holder:
    """The tiles of one holder."""

    def __init__(self, layout: Layout, number: int, fetch: Fetch) -> None:
        self.layout, self.number, self._fetch = layout, number, fetch
        self.keys = layout.keys(number)
        self.tiles = Tiles.zeros(layout.n, layout.dtype, layout.side, keys=self.keys)
        self._received = 0
        self._outbox, self._coming = Outbox(layout.copies), dict[Key, Future[Matrix]]()
        self._asked, self._stopped = set[Future[Matrix]](), False

    def fill(self, source: Source) -> None:
        """Compute those tiles of the matrix that are here."""
        gram(source.matrix, self.tiles)
        self.tiles.add_diagonal(source.added)

    def sees(self, file: Path) -> bool:
        """Whether a file of the run is there for this holder, too."""
        return file.exists()

    def keep(self, folder: Path) -> None:
        """Write the tiles into a folder where others write theirs."""
        folder.mkdir(parents=True, exist_ok=True)
        self.tiles.keep(TileFolder(folder))

    def take(self, folder: Path) -> None:
        """Read tiles that were kept, whoever had them then."""
        self.tiles.take(TileFolder(folder))

    def stop(self) -> None:
        """Wait for nobody, and have nobody wait."""
        self._stopped = True
        self._outbox.close()
        for asked in list(self._asked):
            asked.cancel()

    def _refuse_if_stopped(self) -> None:
        """Nobody wants what is done here any more."""
        if self._stopped:
            raise Broken(FAILED)

    def _ask(self, holder: int, method: str, *words: Any) -> Future[Matrix]:
        self._refuse_if_stopped()
        asked = self._fetch(holder, method, *words)
        self._asked.add(asked)
        asked.add_done_callback(self._asked.discard)
        return asked

    # The inverse

    def sweep(
        self, first: int, last: int, advice: str = RAISE_DIAGONAL, progress: Progress = silent
    ) -> None:
        """Sweep some block rows, together with all others."""
        try:
            with blas.workers() as pool:
                for k in range(first, last):
                    self._sweep(k, pool, advice)
                    progress(k + 1, self.layout.count)
            if last == self.layout.count:
                self.tiles.finish()
        except BaseException:
            self.stop()
            raise

    def _sweep(self, k: int, pool: Executor, advice: str) -> None:
        layout = self.layout
        panel = ((i, ordered(i, k)) for i in layout.crossed(self.number))
        wanted = [key for _, key in panel if layout.holder(key) != self.number]
        wanted.sort(key=lambda key: key != (k, k))  # all else waits for the pivot
        self._coming = {
            key: self._ask(layout.holder(key), "give", key, 2 * k + 1) for key in wanted
        }
        try:
            for _ in BlockRowSweep(self, k).run(pool):
                pass
        except blas.NotPositive:
            raise self.tiles.without_inverse(k, advice) from None
        # All of it, also what no tile here needed: others count on its being taken.
        self._received += sum(self._arrived(key).nbytes for key in wanted)
        self._coming = {}

    def block(self, i: int, j: int) -> Matrix:
        """Block (i, j) of the matrix, from here or, if it is of the panel, from its holder."""
        key = ordered(i, j)
        if self.layout.holder(key) == self.number:
            return self.tiles.block(i, j)
        tile = self._arrived(key)
        return tile if (i, j) == key else tile.T

    def advance(self, key: Key, step: int, change: Callable[[Matrix], None]) -> None:
        """Bring a tile to a step, and give it to others if they need it as it is then."""
        self._refuse_if_stopped()
        self.tiles.advance(key, step, change)
        if step % 2:
            self._outbox.put(key, step, self.tiles.block(*key))

    def give(self, key: Key, step: int) -> Future[Matrix]:
        """A tile as it is at a step, once it is."""
        return self._outbox.take(key, step)

    def _arrived(self, key: Key) -> Matrix:
        return _waited_for(self._coming[key])

    # What is done with it

    def diagonal(self) -> dict[int, Matrix]:
        """The diagonals of the tiles that have a part of it."""
        return {i: self.tiles.block(i, i).diagonal().copy() for i in self.tiles.on_diagonal}

    def matmul(self, z: Matrix) -> Matrix:
        """What the tiles that are here add to the product with n x s numbers."""
        z = np.ascontiguousarray(z, self.tiles.dtype)
        out = np.zeros_like(z)
        for i, j in self.keys:
            rows, columns = self.tiles.span(i), self.tiles.span(j)
            blas.add_product(out[rows], self.tiles.block(i, j), z[columns], 1.0)
            if i != j:
                blas.add_product(out[columns], self.tiles.block(j, i), z[rows], 1.0)
        return out

    def digests(self) -> dict[Key, str]:
        """Name the content of every tile: two inverses are compared without sending them."""
        named = {key: hashlib.sha256(self.tiles.block(*key).data) for key in self.keys}
        return {key: name.hexdigest() for key, name in named.items()}

    def received(self) -> int:
        """Bytes of tiles that came from other holders so far."""
        return self._received

    def strip(self, j: int, first: int, last: int) -> Matrix:
        """What is here of the columns first to last of tile column j, one tile below the other."""
        inside = slice(first - j * self.layout.side, last - j * self.layout.side)
        keys = [(i, ordered(i, j)) for i in range(self.layout.count)]
        here = [i for i, key in keys if self.layout.holder(key) == self.number]
        return np.concatenate([self.tiles.block(i, j)[:, inside] for i in here])

    def rank(self, asked: Asked, progress: Progress = silent) -> tuple[list[Top], list[int]]:
        """The best of this holder's share of the columns, under each scale; or, instead, under
        which scales some scores are not finite.
        """
        columns = Columns(self.layout, self._strips)
        right: topk.Panels = columns
        if asked.kept is not None and asked.rest is not None:
            right = PaddedPanels(columns, asked.kept, asked.rest)
        mine = ranges_of(right.n, self.layout.holders, topk.PANEL_WIDTH)[self.number]
        given = asked.history, right, asked.seen, asked.k, asked.scales
        try:
            return topk.top_of_product(*given, progress, mine), []
        except NotFinite as error:
            return [], error.scales

    def _strips(self, holder: int, *words: int) -> Callable[[], Matrix]:
        self._refuse_if_stopped()
        if holder == self.number:
            return partial(self.strip, *words)
        coming = self._ask(holder, "strip", *words)

        def wait() -> Matrix:
            strip = _waited_for(coming)
            self._received += strip.nbytes
            return strip

        return wait


def _waited_for(coming: Future[Matrix]) -> Matrix:
    """What comes from elsewhere; whatever keeps it from coming is that holder's trouble."""
    try:
        return coming.result()
    except (Exception, CancelledError) as error:
        raise Broken(str(error) or FAILED) from error
