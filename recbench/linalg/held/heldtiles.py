"""The inverse that others hold, as seen from where it is asked for.

The holders are a team: what is asked of it is asked of all of them at once. If one is lost the team
is over. Another is made of whoever is there, takes up the tiles that were kept last, or begins
anew where none are, and is asked again.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from recbench.errors import DataError, Refused, counted
from recbench.linalg import topk
from recbench.linalg.held.columns import Columns
from recbench.linalg.held.holder import Asked, Broken, Source, Taken
from recbench.linalg.held.kept import Kept
from recbench.linalg.held.layout import Key, Layout
from recbench.linalg.tiles import RAISE_DIAGONAL, Checked
from recbench.linalg.topk import NotFinite, Top
from recbench.linalg.types import Matrix, Progress, silent

T = TypeVar("T")

PARTS = 8
"""Into so many parts the sweep is cut. After each all holders wait for each other, and the tiles
are kept if there is a folder: a lost worker costs one part at most, and reading the tiles."""
SOURCES = 3
"""As many times the bytes of the sparse matrix are in memory while the tiles are filled."""
TRIES = 5
"""Teams that may be lost without any part being done, and over one thing that is asked."""


@dataclass(frozen=True)
class Member:
    """Somebody who could hold tiles."""

    name: str
    memory: int
    """Bytes free for them."""


class Team(Protocol):
    """Those who hold one inverse, numbered as in its layout."""

    def bring(self, thing: Source | Asked | Matrix) -> Any:
        """Have something that is large come to all of them; what is returned stands for it."""

    def ask(self, method: str, *words: Any, progress: Progress | None = None) -> Sequence[Any]:
        """Call a method of every `Holder` at once; raise Broken if one is lost meanwhile."""

    def strips(self, holder: int, *words: int) -> Callable[[], Matrix]:
        """Ask one for its part of some columns."""

    def close(self) -> None:
        """Have them forget about it."""


def all_of(members: Sequence[Member]) -> bool:
    """Whoever is there is enough."""
    return True


class Holders(Protocol):
    """Workers that may become holders."""

    def members(self, enough: Callable[[Sequence[Member]], bool]) -> Sequence[Member]:
        """Who is there; waits for a while for more as long as they are not enough."""

    def team(self, members: Sequence[Member], layout: Layout) -> Team:
        """Make them the holders of a matrix of zeros; raise Taken if another run was first."""

    def announce(self, text: str) -> None:
        """Tell the user."""


@dataclass(frozen=True)
class Wanted:
    """The inverse of a matrix that is wanted."""

    source: Source
    n: int
    dtype: str
    side: int
    identity: str = ""
    advice: str = RAISE_DIAGONAL

    def layout(self, holders: int) -> Layout:
        """The tiles with so many holders, none of whom has nothing to do."""
        most = -(-self.n // self.side)
        return Layout(self.n, self.side, self.dtype, min(holders, most))

    def needed(self, holders: int) -> int:
        """Bytes that the one with most needs, what its tiles are made of included."""
        layout, matrix = self.layout(holders), self.source.matrix
        parts = matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes
        return SOURCES * parts + max(map(layout.bytes_held, range(layout.holders)))

    def outlook(self, holders: int, *, kept: bool) -> str:
        """What the inverse will take of so many workers, and what losing one costs at most."""
        layout = self.layout(holders)
        down, across = layout.grid
        part = -(-layout.count // PARTS)
        lost = (
            f"at most {part} of them, and reading the tiles that were kept" if kept
            else "everything, as no folder is given to keep tiles in (--tiles-on-disk)"
        )  # fmt: skip
        return (
            f"{layout.n:,} items in {counted(layout.count, 'row')} of tiles, on "
            f"{counted(layout.holders, 'worker')} in a grid of {down} x {across}: up to "
            f"{self.needed(holders) / 1e9:.2f} GB on each, {layout.bytes_sent() / 1e9:.2f} GB sent "
            f"from worker to worker; a worker that is lost costs {lost}"
        )

    def chosen(self, members: Sequence[Member]) -> list[Member]:
        """As many as have room for their share: without those that are too small, if others do."""
        most = self.layout(len(members) or 1).holders
        largest = sorted(members, key=lambda member: (-member.memory, member.name))[:most]
        for number in range(len(largest), 0, -1):
            if largest[number - 1].memory >= self.needed(number):
                return sorted(largest[:number], key=lambda member: member.name)
        have = ", ".join(f"{m.name} has {m.memory / 1e9:.2f} GB" for m in largest)
        raise Refused(
            f"the inverse of {self.n:,} items needs {self.needed(len(largest) or 1) / 1e9:.2f} GB "
            f"on each of {counted(len(largest) or 1, 'worker')}, and {have or 'there are none'}; "
            "start more workers, or larger ones"
        )


class HeldTiles(Checked):
    """The inverse, which answers as `Tiles` of it would, but for the last digits of products."""

    def __init__(
        self,
        wanted: Wanted,
        holders: Holders,
        folder: Path | None = None,
        progress: Progress = silent,
    ) -> None:
        """Invert, or take up what is kept in the folder."""
        self.wanted, self.n, self.dtype = wanted, wanted.n, np.dtype(wanted.dtype)
        self._holders, self._progress = holders, progress
        self._kept = None if folder is None else Kept(folder, wanted.identity)
        self._team: Team | None = None
        self._layout = wanted.layout(1)
        self._swept, self._lost = 0, 0
        self._complete()

    def close(self) -> None:
        """Have nobody hold anything for this any more."""
        if self._team is not None:
            team, self._team = self._team, None
            team.close()

    def __del__(self) -> None:
        """Workers have the memory as long as somebody may ask for the inverse."""
        with suppress(Exception):
            self.close()

    # As of `Tiles`

    def panel(self, start: int, stop: int, out: Matrix | None = None) -> Matrix:
        """Columns start to stop of the whole matrix, n x (stop - start), stored by rows."""
        return self._of(lambda team: self._columns(team).panel(start, stop, out))

    def rows(self, indices: npt.NDArray[np.integer[Any]]) -> Matrix:
        """Some rows of the whole matrix, in the order asked for."""
        return self._of(lambda team: self._columns(team).rows(indices))

    def _columns(self, team: Team) -> Columns:
        return Columns(self._layout, team.strips)

    def diagonal(self) -> Matrix:
        """The diagonal of the matrix."""
        parts = {i: part for found in self._ask("diagonal") for i, part in found.items()}
        diagonal: Matrix = np.concatenate([parts[i] for i in range(self._layout.count)])
        return diagonal

    def matmul(self, z: Matrix) -> Matrix:
        """The product of the matrix with n x s numbers, added up in the order of the holders."""
        factor = np.ascontiguousarray(z, self.dtype)
        first, *others = self._of(lambda team: team.ask("matmul", team.bring(factor)))
        total = np.array(first)
        for part in others:
            total += part
        return total

    def rank(self, asked: Asked, progress: Progress = silent) -> list[Top]:
        """Rank histories times the matrix: every holder some columns, by sums as of one machine."""

        def ranked(team: Team) -> Sequence[Any]:
            return team.ask("rank", team.bring(asked), progress=progress)

        parts, faults = zip(*self._of(ranked), strict=True)
        if any(faults):
            raise NotFinite(sorted({scale for some in faults for scale in some}), len(asked.scales))
        return [topk.best_of(lists, asked.k) for lists in zip(*parts, strict=True)]

    def received(self) -> list[int]:
        """The bytes of tiles that each holder has got from others so far."""
        return list(self._ask("received"))

    def digests(self) -> dict[Key, str]:
        """Name the content of every tile."""
        return {key: name for part in self._ask("digests") for key, name in part.items()}

    # Teams come and go

    def _ask(self, method: str, *words: Any) -> Sequence[Any]:
        return self._of(lambda team: team.ask(method, *words))

    def _of(self, work: Callable[[Team], T]) -> T:
        """What a team says that has the inverse; of another one, if it is lost over it."""
        for _ in range(TRIES):
            team = self._complete()
            try:
                return work(team)
            except Broken as error:
                self._part_with(error)
                last = str(error)
        raise DataError(
            f"{TRIES} times a worker was lost while it worked with the inverse of {self.n:,} "
            f"items; the last time: {last}"
        )

    def _complete(self) -> Team:
        """Have a team with all of the inverse."""
        while self._team is None:
            with self._kept.locked(self._holders.announce) if self._kept else nullcontext():
                try:
                    self._sweep(self._start())
                except Taken:
                    continue
                except Broken as error:
                    self._part_with(error)
                except BaseException:
                    self.close()
                    raise
        return self._team

    def _start(self) -> Team:
        """Make a team, and bring it to where tiles are kept, or to the beginning."""
        members = self.wanted.chosen(self._holders.members(self._suffice))
        self._layout = layout = self.wanted.layout(len(members))
        self._holders.announce(
            f"spread: {self.wanted.outlook(len(members), kept=self._kept is not None)}"
        )
        self._swept = 0 if self._kept is None else self._kept.latest(layout)
        if self._kept is not None and not self._swept:
            self._kept.refuse_without_room(layout)
        team = self._team = self._holders.team(members, layout)
        if self._kept is not None:
            self._kept.refuse_unseen(team.ask("sees", self._kept.mark))
        if self._swept and self._kept is not None:
            team.ask("take", self._kept.at(self._swept))
        else:
            team.ask("fill", team.bring(self.wanted.source))
        return team

    def _suffice(self, members: Sequence[Member]) -> bool:
        try:
            return bool(self.wanted.chosen(members))
        except Refused:
            return False

    def _sweep(self, team: Team) -> None:
        """Sweep what is left, part by part."""
        layout = self._layout
        each = -(-layout.count // PARTS)
        while self._swept < layout.count:
            last = min(self._swept + each, layout.count)
            team.ask("sweep", self._swept, last, self.wanted.advice, progress=self._progress)
            if self._kept is not None:
                team.ask("keep", self._kept.at(last))
                self._kept.publish(last, layout)
            self._swept, self._lost = last, 0

    def _part_with(self, error: Broken) -> None:
        """A team that has lost one of its workers has lost its tiles."""
        self.close()
        # Its frames refer to it and to this, which so would live on, and the next team's tiles.
        error.with_traceback(None)
        self._lost += 1
        if self._lost > TRIES:
            raise DataError(
                f"{self._lost} times a worker was lost before any part of the inverse of "
                f"{self.n:,} items was done; the last time: {error}"
            ) from error
        again = "begins anew, as no folder is given to keep tiles in (--tiles-on-disk)"
        if self._kept is not None:
            again = "goes on from the tiles that were kept last"
        self._holders.announce(f"{error}: the inverse of {self.n:,} items {again}")
