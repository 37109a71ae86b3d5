"""What is kept of an inverse on its way, in a folder that all holders see.

Every so many block rows the holders write their tiles, each its own, into a folder of tiles that is
named by how many block rows were swept. Once all have written it gets its header, and only then is
the one before removed: so there is always a whole one, or none yet, and two at most. Who holds
which tile is not part of it: others may take them up.
"""

import re
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from recbench.errors import Refused, counted
from recbench.linalg.held.layout import Layout
from recbench.linalg.tilefolder import SEALED, TileFolder, TilesError
from recbench.linalg.tiles import Tiles

NAME = "after-{:05d}"
SETS = 2
NAMED = re.compile(r"after-(\d{5,})")


class Kept:
    """The folder for one inverse."""

    def __init__(self, path: Path, identity: str) -> None:
        self.path, self.identity = path, identity

    def locked(self, announce: Callable[[str], None]) -> AbstractContextManager[object]:
        """Keep others from writing here, also those of other runs; tell whom that waits for."""
        self.path.mkdir(parents=True, exist_ok=True)
        from filelock import FileLock, Timeout  # as in `tiles`

        lock = FileLock(self.mark)
        try:
            return lock.acquire(timeout=0)
        except Timeout:
            announce(f"another run keeps tiles in {self.path}: waiting for it")
            return lock.acquire()

    @property
    def mark(self) -> Path:
        """What is there while it is locked, to be seen by all who see the folder."""
        return self.path / "tiles.lock"

    def refuse_unseen(self, seen: Sequence[bool]) -> None:
        """Refuse to begin what could not be kept, as holders have folders of their own there."""
        blind = seen.count(False)
        if blind:
            raise TilesError(
                f"{blind} of {counted(len(seen), 'worker')} cannot see {self.path}, where tiles "
                "are to be kept; give a folder that the run and all workers see under one path, or "
                "leave out --tiles-on-disk"
            )

    def at(self, swept: int) -> Path:
        """Where tiles are kept after so many block rows."""
        return self.path / NAME.format(swept)

    def latest(self, layout: Layout) -> int:
        """After how many block rows the last tiles were kept that are whole; 0: there are none.

        What was being written when something ended is removed.
        """
        whole = [swept for swept in self._found() if self._is_whole(swept, layout)]
        latest = max(whole, default=0)
        self._remove_others_than(latest)
        return latest

    def refuse_without_room(self, layout: Layout) -> None:
        """Refuse to begin what could not be kept: a set of tiles, and the next beside it."""
        needed = SETS * Tiles.bytes_needed(layout.n, layout.dtype, layout.side)
        free = shutil.disk_usage(self.path).free
        if needed > free:
            raise Refused(
                f"the tiles that are kept need {needed / 1e9:.1f} GB in {self.path}, "
                f"{free / 1e9:.1f} GB free; choose another folder"
            )

    def publish(self, swept: int, layout: Layout) -> None:
        """Declare whole what all holders have written, and remove what was there before."""
        described = {"n": layout.n, "side": layout.side, "dtype": layout.dtype}
        TileFolder(self.at(swept)).publish(
            {"format": SEALED, "identity": self.identity, **described}
        )
        self._remove_others_than(swept)

    def _found(self) -> list[int]:
        names = (NAMED.fullmatch(path.name) for path in self.path.glob("after-*"))
        return [int(name[1]) for name in names if name is not None]

    def _is_whole(self, swept: int, layout: Layout) -> bool:
        files = TileFolder(self.at(swept))
        header = files.header()
        if header is None:
            return False
        if header.get("identity") != self.identity:
            raise TilesError(
                f"{files.path} holds tiles of {header.get('identity')!r}, not of "
                f"{self.identity!r}; give another folder, or delete it to start anew"
            )
        found, wanted = (header["n"], header["side"], header["dtype"]), (
            layout.n, layout.side, layout.dtype,
        )  # fmt: skip
        if found != wanted:
            raise files.damaged(f"its header says {found}, and it should be {wanted}")
        files.refuse_others_than(layout.n, layout.side)
        return True

    def _remove_others_than(self, kept: int) -> None:
        for swept in self._found():
            if swept != kept:
                TileFolder(self.at(swept)).clear()  # the header first
                shutil.rmtree(self.at(swept), ignore_errors=True)
