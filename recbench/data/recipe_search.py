"""Find the recipe behind published counts: try a grid of them, most of the work shared.

Thresholds are applied and pairs numbered once. A single pass is answered for every minimum of
its second side by one histogram. Iterated cores are nested, so each starts from the one before.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recbench.data.clean import Preparation, core
from recbench.data.ids import Side, number, repeated
from recbench.data.interactions import Interactions
from recbench.data.recipe import Filter, Recipe
from recbench.errors import UsageError
from recbench.linalg.types import Counts, Flags, Progress, silent

Triple = tuple[int, int, int]
Positive = tuple[str, float]
MINIMA = (0, *range(2, 31))
THRESHOLDS = 12
"""How many values are tried as thresholds, the lowest first; play counts have thousands."""


@dataclass(frozen=True)
class Match:
    """A recipe and what it gives."""

    recipe: Recipe
    users: int
    items: int
    interactions: int
    distance: float
    """Sum of the three relative differences from the target; 0 is a hit."""


@dataclass(frozen=True)
class Grid:
    """What to try. `thresholds` are tried beside none; None takes them from the values."""

    users: Sequence[int] = MINIMA
    items: Sequence[int] = MINIMA
    thresholds: Sequence[Positive] | None = None

    def __post_init__(self) -> None:
        """Put the minima in ascending order, which the nesting of cores needs."""
        for side in ("users", "items"):
            minima = sorted(set(getattr(self, side)))
            if not minima or minima[0] < 0:
                raise UsageError(f"the minima for {side} are {minima}; give whole numbers from 0")
            object.__setattr__(self, side, tuple(minima))


@dataclass(frozen=True)
class Pairs:
    """Rows to filter. Where pairs repeat, `first` marks one row of each."""

    user: Side
    item: Side
    first: Flags | None = None

    @property
    def counts(self) -> Triple:
        """Users, items and distinct pairs."""
        users, items = (int(np.count_nonzero(side.counts())) for side in (self.user, self.item))
        return users, items, len(self.user.codes) if self.first is None else int(self.first.sum())

    def keep(self, rows: Flags) -> "Pairs":
        """Keep some rows, renumbered so that counting them costs no more than they are."""
        user, item = (_renumbered(side, rows) for side in (self.user, self.item))
        return Pairs(user, item, None if self.first is None else self.first[rows])

    def distinct(self) -> "Pairs":
        """Keep one row of each pair."""
        return self if self.first is None else replace(self.keep(self.first), first=None)

    def swapped(self) -> "Pairs":
        """Call users items and items users."""
        return Pairs(self.item, self.user, self.first)


def _renumbered(side: Side, rows: Flags) -> Side:
    codes, ids = number(replace(side, codes=np.compress(rows, side.codes)))
    return Side(codes, len(ids), lambda used: used)


def search_recipes(
    interactions: Interactions,
    target: Triple,
    grid: Grid | None = None,
    nearest: int = 10,
    progress: Progress = silent,
) -> list[Match]:
    """List the recipes that give the target's users, items and interactions exactly.

    If none does, list the `nearest` ones. Of recipes with equal counts the simpler comes first.
    """
    grid = grid or Grid()
    thresholds = [None, *_thresholds(interactions.table, grid)]
    matches: list[Match] = []
    for done, positive in enumerate(thresholds):
        progress(done, len(thresholds))
        for recipe, pairs in _variants(interactions, positive):
            for rule, counts in _tried(pairs, target, grid):
                whole = replace(recipe, filters=(rule,) if rule.users or rule.items else ())
                matches.append(Match(whole, *counts, _distance(counts, target)))
            matches = _best(matches, nearest)
    progress(len(thresholds), len(thresholds))
    return matches


def _best(matches: list[Match], nearest: int) -> list[Match]:
    matches = sorted(matches, key=lambda match: (match.distance, len(match.recipe.text)))
    hits = [match for match in matches if match.distance == 0]
    return hits or matches[:nearest]


def _distance(counts: Triple, target: Triple) -> float:
    return sum(abs(have - want) / max(want, 1) for have, want in zip(counts, target, strict=True))


def _thresholds(table: pa.Table, grid: Grid) -> Sequence[Positive]:
    """Take the grid's, or `>=` each value but the lowest; `>` says the same one value later."""
    if grid.thresholds is not None:
        return grid.thresholds
    if "value" not in table.column_names:
        return []
    values = pc.unique(table["value"]).to_pylist()
    ascending = sorted(value for value in values if value is not None and value == value)
    return [(">=", value) for value in ascending[1 : THRESHOLDS + 1]]


def _variants(
    interactions: Interactions, positive: Positive | None
) -> Iterator[tuple[Recipe, Pairs]]:
    """Apply a threshold; filters may then count distinct pairs or, if that differs, rows."""
    preparation = Preparation(interactions.table, "the data")
    preparation.binarise(positive)
    preparation.encode()
    pairs = Pairs(preparation.user, preparation.item)
    repeats = repeated(preparation.user.codes, preparation.item.codes, preparation.item.size)
    if repeats is not None:
        first = np.ones(len(preparation.user.codes), dtype=np.bool_)
        first[repeats[0][repeats[0] != repeats[1]]] = False
        pairs = replace(pairs, first=first)
        yield Recipe(positive, dedup=False), pairs
    yield Recipe(positive), pairs.distinct()


def _tried(pairs: Pairs, target: Triple, grid: Grid) -> Iterator[tuple[Filter, Triple]]:
    """Try every filter of the grid that can hit the target, and the first ones that cannot."""
    yield Filter(), pairs.counts
    if _beyond(pairs.counts, target):
        return
    yield from _cores(pairs, target, grid)
    for rule, counts in _passes(pairs, target, grid):
        if rule.users and rule.items:  # else it is a core
            yield rule, counts


def _beyond(counts: Triple, target: Triple) -> bool:
    """Say whether the target cannot be hit any more: filters only take away."""
    return any(have < want for have, want in zip(counts, target, strict=True))


def _cores(pairs: Pairs, target: Triple, grid: Grid) -> Iterator[tuple[Filter, Triple]]:
    """Iterated cores, each from the one before: the (u, i)-core holds every deeper one."""
    for users in grid.users:
        pairs = cell = _core(pairs, users, grid.items[0])
        for items in grid.items:
            cell = _core(cell, users, items)
            if users or items:
                yield Filter(users, items), cell.counts
            if _beyond(cell.counts, target):
                break
        if _beyond(pairs.counts, target):
            return


def _core(pairs: Pairs, users: int, items: int) -> Pairs:
    good_user, good_item = core(pairs.user, pairs.item, users, items)
    if good_user.all() and good_item.all():
        return pairs
    return pairs.keep(good_user[pairs.user.codes] & good_item[pairs.item.codes])


def _passes(pairs: Pairs, target: Triple, grid: Grid) -> Iterator[tuple[Filter, Triple]]:
    """Single passes in their three orders."""
    for users, items, counts in _items_first(pairs, grid.users, grid.items, target):
        yield Filter(users, items, "pass", "items-first"), counts
    turned = (target[1], target[0], target[2])
    for items, users, (i, u, rows) in _items_first(pairs.swapped(), grid.items, grid.users, turned):
        yield Filter(users, items, "pass", "users-first"), (u, i, rows)
    for users, items, counts in _at_once(pairs, grid.users, grid.items):
        yield Filter(users, items, "pass", "at-once"), counts


def _items_first(
    pairs: Pairs, users: Sequence[int], items: Sequence[int], target: Triple
) -> Iterator[tuple[int, int, Triple]]:
    """For each minimum of items, answer all minima of users from the users' levels.

    A level is how many of the minima a count reaches.
    """
    for least in items:
        pairs = pairs.keep((pairs.item.counts() >= least)[pairs.item.codes])
        user = np.searchsorted(users, pairs.user.counts(), side="right")
        row = user[pairs.user.codes]
        columns = (
            user,
            _best_of(row, pairs.item),
            row if pairs.first is None else row[pairs.first],
        )
        for most, *counts in zip(users, *(_above(c, len(users)) for c in columns), strict=True):
            yield most, least, (counts[0], counts[1], counts[2])
        if _beyond(pairs.counts, target):
            return


def _at_once(
    pairs: Pairs, users: Sequence[int], items: Sequence[int]
) -> Iterator[tuple[int, int, Triple]]:
    """Answer all minima of both sides from the levels of every row's two ends."""
    user = np.searchsorted(users, pairs.user.counts(), side="right")
    item = np.searchsorted(items, pairs.item.counts(), side="right")
    ends = user[pairs.user.codes], item[pairs.item.codes]
    shape = (len(users), len(items))
    some = slice(None) if pairs.first is None else pairs.first
    tables = (
        _above_both(user, _best_of(ends[1], pairs.user), shape),
        _above_both(_best_of(ends[0], pairs.item), item, shape),
        _above_both(ends[0][some], ends[1][some], shape),
    )
    for (m, u), (n, i) in product(enumerate(users), enumerate(items)):
        yield u, i, (int(tables[0][m, n]), int(tables[1][m, n]), int(tables[2][m, n]))


def _best_of(level: Counts, side: Side) -> Counts:
    """The highest level among the rows of each user or item."""
    best = np.zeros(side.size, dtype=np.int64)
    np.maximum.at(best, side.codes, level)
    return best


def _above(level: Counts, length: int) -> list[int]:
    """How many levels are above 0, above 1, ... above length - 1."""
    tally = np.bincount(level, minlength=length + 1)
    above: list[int] = tally[::-1].cumsum()[::-1][1:].tolist()
    return above


def _above_both(one: Counts, other: Counts, shape: tuple[int, int]) -> Counts:
    """The same for two levels at once: how many are above m and above n."""
    rows, columns = shape[0] + 1, shape[1] + 1
    tally = np.bincount(one * columns + other, minlength=rows * columns).reshape(rows, columns)
    return tally[::-1, ::-1].cumsum(axis=0).cumsum(axis=1)[::-1, ::-1][1:, 1:]
