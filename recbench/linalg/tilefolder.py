"""Tiles as files that survive being interrupted.

Each tile is a .npy file whose name carries how far the tile has come: `tile-0003-0002.17.npy`
is tile (3, 2) after 17 steps. A tile takes a step by being written under another name, renamed to
that of the new step, and losing its old file. A rename happens or does not, so whenever the process
(or the machine) stops, every tile is whole, and the newest name of each says where to continue.
There is no other record to get out of date, and the extra disk space is one tile per thread.

The header `tiles.json` says what the matrix is. It is written once the tiles are filled; a
folder without it holds nothing of use. A tile ends in a checksum of its numbers, and the header in
one of itself: folders of versions before lack them and are taken as they are.
"""

import json
import os
import re
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, Literal, TypedDict

import numpy as np

from recbench.errors import RecbenchError
from recbench.fields import Misfit, checked, parsed
from recbench.files import DIGEST, is_sealed, sealed
from recbench.linalg.types import Matrix

Key = tuple[int, int]

HEADER = "tiles.json"
SEALED = 2
"""The first format of which every tile, and the header, carries a checksum."""
TRAILER = b"recbench crc32 %08x"
"""Behind the numbers of a tile. Sums of 32 bits find any few bits that turned, and cost little."""
TILE = re.compile(r"tile-(\d+)-(\d+)\.(\d+)\.npy")


class Header(TypedDict):
    """What every header says; callers add what identifies the matrix."""

    format: int
    n: int
    side: int
    dtype: Literal["float32", "float64"]


class TilesError(RecbenchError):
    """A folder of tiles is damaged, unfinished, or holds something else than was asked for."""


class TileFolder:
    """The files of one matrix."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def clear(self) -> None:
        """Delete the header, then every tile: an interrupted clearing leaves nothing of use."""
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / HEADER).unlink(missing_ok=True)
        for file in list(self.path.glob("tile-*")):
            file.unlink()

    def create(self, key: Key, dtype: np.dtype[Any], shape: tuple[int, int]) -> Matrix:
        """Map a new tile of zeros for writing.

        The disk sets its blocks aside at once: to find none when a mapped page is written to is no
        error that can be told of, but the end of the process.
        """
        path = self._file(key, 0)
        try:
            tile = np.lib.format.open_memmap(path, "w+", dtype, shape)
            if hasattr(os, "posix_fallocate"):
                with path.open("rb+") as file:
                    os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
        except OSError as error:
            raise _unwritable(path, error) from error
        return tile

    def missing(self, needed: int) -> int:
        """How many of the bytes that the tiles need the disk has not set aside for them yet.

        Tiles that were being filled when a process was killed may be sparse: they look whole, and
        have next to nothing.
        """
        if (self.path / HEADER).exists():
            return 0
        return needed - sum(512 * file.stat().st_blocks for file in self.path.glob("tile-*"))

    def write(self, key: Key, step: int, tile: Matrix) -> None:
        """Put a tile in place as of `step`: whole, and on the disk, or not at all."""

        def save(file: IO[bytes]) -> None:
            np.save(file, tile, allow_pickle=False)
            file.write(_trailer(tile))

        write_whole(self._file(key, step), save)

    def seal(self, key: Key, step: int, tile: Matrix) -> None:
        """Have a tile that was mapped, and filled there, end in its checksum like others."""
        if isinstance(tile, np.memmap):
            tile.flush()
        path = self._file(key, step)
        trailer = _trailer(tile)
        with path.open("rb+") as file:
            file.seek(-len(trailer), os.SEEK_END)
            if file.read() != trailer:
                file.write(trailer)
            os.fsync(file.fileno())

    def advance(self, key: Key, step: int, tile: Matrix, since: int) -> Matrix:
        """Replace a tile as of step `since` by one as of `step`; return it mapped for reading."""
        self.write(key, step, tile)
        self._file(key, since).unlink()
        file = self._file(key, step)
        # Not `read`: CPython before 3.13 cannot parse the headers of files in several threads.
        start = file.stat().st_size - tile.nbytes - len(_trailer(tile))
        return np.memmap(file, tile.dtype, "r", start, tile.shape)

    def read(self, key: Key, step: int, *, unsealed: bool = False) -> Matrix:
        """Map a tile for reading, once its numbers are known to be those that were written.

        In a folder of a version before, it may be `unsealed`.
        """
        file = self._file(key, step)
        try:
            mapped: Any = np.load(file, mmap_mode="r", allow_pickle=False)
            with file.open("rb") as content:
                content.seek(mapped.offset + mapped.nbytes)
                trailer = content.read(2 * len(TRAILER))
        except Exception as error:  # NumPy has a dozen ways to find out
            raise self.damaged(f"{file.name}: {error}") from error
        tile: Matrix = mapped
        if trailer != _trailer(tile) and (trailer or not unsealed):
            raise self.damaged(f"{file.name} is not as it was written")
        return tile

    def steps(self) -> dict[Key, int]:
        """How far each tile has come."""
        steps: dict[Key, int] = {}
        for i, j, step in self._finished().values():
            steps[i, j] = max(step, steps.get((i, j), 0))
        return steps

    def refuse_others_than(self, n: int, side: int) -> None:
        """Count the tiles before anything is made that is as large as the header says."""
        if min(n, side) < 1:
            raise self.damaged(f"{HEADER}: {n} rows in tiles of {side} rows")
        count = -(-n // side)
        belong, there = count * (count + 1) // 2, len(self.steps())
        if there != belong:
            raise self.damaged(f"{there:,} tiles where {belong:,} belong")

    def tidy(self) -> None:
        """Delete what interrupted steps left behind. Nobody else may be at work in the folder."""
        newest, finished = self.steps(), self._finished()
        for file in list(self.path.glob("tile-*")):
            i, j, step = finished.get(file, (-1, -1, -1))
            if step != newest.get((i, j)):
                file.unlink()

    def _finished(self) -> dict[Path, tuple[int, int, int]]:
        """The files of whole tiles: row, column and step of each."""
        named = ((file, TILE.fullmatch(file.name)) for file in self.path.glob("tile-*"))
        return {file: (int(m[1]), int(m[2]), int(m[3])) for file, m in named if m is not None}

    def header(self) -> dict[str, Any] | None:
        """What the matrix is, or None where no matrix was ever completed."""
        try:
            content = (self.path / HEADER).read_bytes()
            header = parsed(content)
            made = checked(Header, header)["format"]
        except FileNotFoundError:
            return None
        except (OSError, Misfit) as error:
            raise self.damaged(f"{HEADER}: {error}") from error
        newer = made > SEALED  # whoever opens it refuses that
        if not newer and (made != 1 or DIGEST in header) and not is_sealed(content):
            raise self.damaged(f"{HEADER} is not as it was written")
        return header

    def publish(self, header: Mapping[str, Any]) -> None:
        """Declare the tiles complete."""
        text = sealed(json.dumps(header, indent=1)).encode()
        write_whole(self.path / HEADER, lambda file: file.write(text))

    def damaged(self, why: str) -> TilesError:
        """Build the error for files that cannot be used."""
        return TilesError(
            f"the tiles in {self.path} are damaged ({why}); delete them to start anew"
        )

    def _file(self, key: Key, step: int) -> Path:
        return self.path / f"tile-{key[0]:04d}-{key[1]:04d}.{step}.npy"


def _trailer(tile: Matrix) -> bytes:
    return TRAILER % zlib.crc32(np.ascontiguousarray(tile).data)


def write_whole(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file that is whole, and on the disk, before it has its name."""
    unfinished = path.with_name(path.name + ".part")
    try:
        with unfinished.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> TilesError:
    return TilesError(
        f"cannot write {path} ({error}); make room and run again, or give another folder"
    )
