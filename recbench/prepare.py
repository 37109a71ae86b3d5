"""From rows as read to a Dataset: binarise, deduplicate, filter, number; in that order.

Rows may be a hundred million, so everything here works on int32 codes and boolean masks in
blocks; original ids are touched twice, when they become codes and when survivors are numbered.
"""

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recbench.data import PARTS, Dataset, Indices, Interactions
from recbench.errors import DataError, UsageError, unknown

Mode = Literal["fixpoint", "pass"]
Order = Literal["items-first", "users-first", "at-once"]
Flags = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.int64]

OPERATORS: dict[str, Callable[..., Any]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
}
BLOCK = 1 << 20
"""Rows looked at together: their temporaries stay in the processor's cache."""


@dataclass(frozen=True)
class Filter:
    """Keep users with at least `users` interactions and items with at least `items`.

    `fixpoint` repeats until nothing is removed, which gives the same core whatever the order.
    `pass` looks once: at one side, then at the other on the rows that are left, or at both
    sides of the original rows (`at-once`).
    """

    users: int = 0
    items: int = 0
    mode: Mode = "fixpoint"
    order: Order = "items-first"

    def __post_init__(self) -> None:
        """Refuse what is not a filter."""
        for side, minimum in (("users", self.users), ("items", self.items)):
            if minimum < 0:
                raise UsageError(
                    f"a filter's minimum for {side} is {minimum}; it must be 0 or more"
                )
        if self.mode not in get_args(Mode):
            raise unknown("filter mode", self.mode, get_args(Mode))
        if self.order not in get_args(Order):
            raise unknown("filter order", self.order, get_args(Order))

    @property
    def text(self) -> str:
        """The canonical text; equal filters read the same."""
        how = "" if self.mode == "fixpoint" else f" once {self.order}"
        return f"users>={self.users},items>={self.items}{how}"


@dataclass(frozen=True)
class Recipe:
    """What is done to the rows of a raw file.

    `positive` is an operator and a number that a row's value must satisfy. With `dedup` the
    filters count distinct pairs; without it they count rows, and repeated pairs are removed
    after them. The first row of a pair in file order is the one that stays.
    """

    positive: tuple[str, float] | None = None
    dedup: bool = True
    filters: tuple[Filter, ...] = ()

    def __post_init__(self) -> None:
        """Refuse an operator that does not exist."""
        if self.positive is not None and self.positive[0] not in OPERATORS:
            raise unknown("operator", self.positive[0], OPERATORS)

    @property
    def text(self) -> str:
        """The canonical text, one step after the other."""
        first = [] if self.positive is None else [f"value{self.positive[0]}{self.positive[1]:g}"]
        steps = [rule.text for rule in self.filters]
        steps.insert(0 if self.dedup else len(steps), "distinct")
        return "; ".join(first + steps)


@dataclass
class Side:
    """Users or items of some rows as codes that ascend with the original id.

    Codes are below `size`; not every code needs to occur. `ids` gives the ids of codes.
    """

    codes: Indices
    size: int
    ids: Callable[[npt.NDArray[np.integer[Any]]], pa.Array]

    def counts(self) -> Counts:
        """How many rows each code has."""
        return count(self.codes, self.size)


def prepare(
    interactions: Interactions,
    recipe: Recipe,
    name: str,
    provenance: Mapping[str, Any] | None = None,
) -> Dataset:
    """Apply a recipe to rows as read, and number the users and items that are left."""
    rows = _Rows(interactions.table, name)
    rows.binarise(recipe.positive)
    rows.encode()
    if recipe.dedup:
        rows.deduplicate()
    for rule in recipe.filters:
        rows.filter(rule)
    if not recipe.dedup:
        rows.deduplicate()
    done = {"recipe": recipe.text, "rows": rows.counted}
    return rows.dataset({**(provenance or {}), **done})


class _Rows:
    """The rows still alive, on their way to a Dataset."""

    user: Side
    item: Side

    def __init__(self, table: pa.Table, name: str) -> None:
        self.table = table
        self.name = name
        self.alive = np.ones(table.num_rows, dtype=np.bool_)
        self.counted = {"read": table.num_rows}
        if not table.num_rows:
            raise DataError(f"{name} has no interactions; is this the right file?")

    def binarise(self, positive: tuple[str, float] | None) -> None:
        """Keep the rows whose value says that the user liked the item."""
        if positive is None:
            return
        sign, bound = positive
        if "value" not in self.table.column_names:
            raise DataError(
                f"{self.name} keeps rows with value {sign} {bound:g}, but its rows have no value; "
                f"drop the threshold or read a value column"
            )
        for chunk, part in _chunks(self.table["value"], self.alive):
            # An unknown value arrives as NaN, which compares false: not positive.
            part[:] = OPERATORS[sign](chunk.to_numpy(zero_copy_only=False), bound)
        self.counted["positive"] = int(np.count_nonzero(self.alive))
        if not self.alive.any():
            raise DataError(
                f"{self.name}: none of {len(self.alive):,} rows has value {sign} {bound:g}; "
                f"values go from {_extremes(self.table['value'])}"
            )

    def encode(self) -> None:
        """Replace ids by codes."""
        self.user = encode(self.table["user"], self.alive)
        self.item = encode(self.table["item"], self.alive)

    def deduplicate(self) -> None:
        """Keep the first row of each pair, in file order."""
        repeats = repeated(self.user.codes, self.item.codes, self.item.size)
        if repeats is not None:
            rows, leader = repeats
            self._check_parts(rows, leader)
            keep = np.ones(len(self.user.codes), dtype=np.bool_)
            keep[rows[rows != leader]] = False
            self._keep(keep)
        self.counted["distinct"] = len(self.user.codes)

    def _check_parts(self, rows: Counts, leader: Counts) -> None:
        """Refuse a pair that two distributed files share: it would be trained on and tested."""
        if "part" not in self.table.column_names:
            return
        part = _gather(self.table["part"], self.alive)
        clash = np.flatnonzero(part[rows] != part[leader])
        if len(clash):
            one, other = rows[clash[0]], leader[clash[0]]
            user = self.user.ids(self.user.codes[[one]])[0]
            item = self.item.ids(self.item.codes[[one]])[0]
            raise DataError(
                f"{self.name}: {len(clash):,} rows repeat a pair of another part; user {user} and "
                f"item {item} are in both {PARTS[part[other]]} and {PARTS[part[one]]}; "
                f"remove them from one of the files"
            )

    def filter(self, rule: Filter) -> None:
        """Keep the rows whose user and item both survive a filter."""
        good_user, good_item = survivors(rule, self.user, self.item)
        keep = np.empty(len(self.user.codes), dtype=np.bool_)
        for block in blocks(len(keep)):
            keep[block] = good_user[self.user.codes[block]] & good_item[self.item.codes[block]]
        if not keep.any():
            before = [np.count_nonzero(side.counts()) for side in (self.user, self.item)]
            raise DataError(
                f"{self.name}: the filter {rule.text} leaves nothing of {before[0]:,} users x "
                f"{before[1]:,} items, {len(keep):,} interactions; lower its minimum"
            )
        self._keep(keep)
        self.counted["filtered"] = len(self.user.codes)

    def _keep(self, keep: Flags) -> None:
        if keep.all():
            return
        self.user.codes = self.user.codes[keep]
        self.item.codes = self.item.codes[keep]
        self.alive[self.alive] = keep

    def dataset(self, provenance: Mapping[str, Any]) -> Dataset:
        """Number the survivors and fetch what else the raw rows say about them."""
        extra = {
            column: _gather(self.table[column], self.alive)
            for column in ("time", "part")
            if column in self.table.column_names
        }
        user, user_ids = number(self.user)
        item, item_ids = number(self.item)
        return Dataset(self.name, user, item, user_ids, item_ids, provenance=provenance, **extra)


def survivors(rule: Filter, user: Side, item: Side) -> tuple[Flags, Flags]:
    """Say which users and items a filter keeps; a row stays if both of its ends do."""
    if rule.mode == "fixpoint":
        return core(user, item, rule.users, rule.items)
    if rule.order == "users-first":
        good_user = user.counts() >= rule.users
        return good_user, _counts_among(item, user, good_user) >= rule.items
    good_item = item.counts() >= rule.items
    if rule.order == "at-once":
        return user.counts() >= rule.users, good_item
    return _counts_among(user, item, good_item) >= rule.users, good_item


def _counts_among(side: Side, other: Side, good: Flags) -> Counts:
    """Count a side's rows whose other end is good."""
    total = np.zeros(side.size, dtype=np.int64)
    for block in blocks(len(side.codes)):
        total += np.bincount(side.codes[block][good[other.codes[block]]], minlength=side.size)
    return total


def core(user: Side, item: Side, users: int, items: int) -> tuple[Flags, Flags]:
    """Find the largest set where every user has `users` rows and every item `items`.

    That set is unique, so weak users and weak items may go in the same round. Counts are kept
    up to date by subtracting what a round removes; late rounds remove little.
    """
    codes, minima = [user.codes, item.codes], (users, items)
    counts = [user.counts(), item.counts()]
    good = [np.ones(side.size, dtype=np.bool_) for side in (user, item)]
    alive = np.ones(len(user.codes), dtype=np.bool_)
    while True:
        weak = [g & (c < least) for g, c, least in zip(good, counts, minima, strict=True)]
        if not any(w.any() for w in weak):
            return good[0], good[1]
        good = [g & ~w for g, w in zip(good, weak, strict=True)]
        left = _remove(codes, weak, alive, counts)
        if left < 0.6 * len(alive):
            codes = [side[alive] for side in codes]
            alive = np.ones(left, dtype=np.bool_)


def _remove(codes: list[Indices], weak: list[Flags], alive: Flags, counts: list[Counts]) -> int:
    """Take rows with a weak end out of `alive` and out of the counts; say how many are left."""
    sides = [(w, c) for w, c in zip(weak, codes, strict=True) if w.any()]
    gone: list[list[Indices]] = [[], []]
    left = 0
    for block in blocks(len(alive)):
        hit = sides[0][0][sides[0][1][block]]
        for w, c in sides[1:]:
            hit |= w[c[block]]
        hit &= alive[block]
        alive[block] ^= hit
        left += int(np.count_nonzero(alive[block]))
        for side in (0, 1):
            gone[side].append(codes[side][block][hit])
    for side in (0, 1):
        counts[side] -= count(np.concatenate(gone[side]), len(counts[side]))
    return left


def count(codes: Indices, size: int) -> Counts:
    """Count each code below `size`, in blocks because bincount widens its input."""
    total = np.zeros(size, dtype=np.int64)
    step = max(BLOCK, size)
    for start in range(0, len(codes), step):
        total += np.bincount(codes[start : start + step], minlength=size)
    return total


def repeated(user: Indices, item: Indices, n_items: int) -> tuple[Counts, Counts] | None:
    """Find the rows of pairs that occur more than once, and for each the first row of its pair.

    Most files are sorted by user and item, and then one look at neighbours settles it; else
    one sort of one integer key per row does. Only the rows of repeated pairs are ever ordered.
    """
    if _ascending(user, item, n_items):
        return None
    key = user.astype(np.int64)
    key *= n_items
    key += item
    key.sort()
    twice = key[1:][key[1:] == key[:-1]]
    if not len(twice):
        return None
    del key
    twice = twice[np.append(True, twice[1:] != twice[:-1])]
    found, keys = [], []
    for block in blocks(len(user)):
        part = user[block].astype(np.int64) * n_items + item[block]
        place = np.minimum(np.searchsorted(twice, part), len(twice) - 1)
        hit = np.flatnonzero(twice[place] == part)
        found.append(hit + block.start)
        keys.append(place[hit])
    rows, pair = np.concatenate(found), np.concatenate(keys)
    first = np.zeros(len(twice), dtype=np.int64)
    first[pair[::-1]] = rows[
        ::-1
    ]  # of several writes to one place the last one, the first row, wins
    return rows, first[pair]


def _ascending(user: Indices, item: Indices, n_items: int) -> bool:
    """Say whether rows are in strictly ascending order of (user, item): then none repeats."""
    last = -1
    for block in blocks(len(user)):
        key = user[block].astype(np.int64) * n_items + item[block]
        if key[0] <= last or not bool(np.all(key[1:] > key[:-1])):
            return False
        last = int(key[-1])
    return True


def encode(column: pa.ChunkedArray, alive: Flags) -> Side:
    """Turn the living rows of an id column into codes.

    Integers of a moderate range are their own codes; anything else goes through a dictionary.
    """
    if pa.types.is_int64(column.type):
        limits = pc.min_max(column)
        low, size = limits["min"].as_py(), limits["max"].as_py() - limits["min"].as_py() + 1
        if size <= max(4 * len(column), BLOCK):
            return _encode_dense(column, alive, low, size)
    return _encode_dictionary(column, alive)


def _encode_dense(column: pa.ChunkedArray, alive: Flags, low: int, size: int) -> Side:
    codes = np.empty(np.count_nonzero(alive), dtype=np.int32)
    done = 0
    for chunk, part in _chunks(column, alive):
        values = chunk.to_numpy()[part]
        np.subtract(values, low, out=codes[done : done + len(values)], casting="unsafe")
        done += len(values)
    return Side(codes, size, lambda used: pa.array(used.astype(np.int64) + low))


def _encode_dictionary(column: pa.ChunkedArray, alive: Flags) -> Side:
    """Code ids by their place in the sorted list of distinct ids; text sorts by its bytes."""
    coded = (
        column.unify_dictionaries()
        if pa.types.is_dictionary(column.type)
        else column.dictionary_encode()
    )
    # A dictionary made elsewhere may hold a value twice; encoding it again merges the two.
    distinct = coded.chunk(0).dictionary.dictionary_encode()
    order = pc.sort_indices(distinct.dictionary).to_numpy()
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    place = rank[distinct.indices.to_numpy()]
    codes = np.empty(np.count_nonzero(alive), dtype=np.int32)
    done = 0
    for chunk, part in _chunks(coded, alive):
        values = place[chunk.indices.to_numpy()[part]]
        codes[done : done + len(values)] = values
        done += len(values)
    ids = distinct.dictionary.take(pa.array(order))
    kind = pa.int64() if pa.types.is_int64(ids.type) else pa.string()
    return Side(codes, len(order), lambda used: ids.take(pa.array(used)).cast(kind))


def number(side: Side) -> tuple[Indices, pa.Array]:
    """Number the codes that occur from 0 without gaps, and name them."""
    used = np.flatnonzero(side.counts())
    if len(used) == side.size:
        return side.codes, side.ids(used)
    place = np.empty(side.size, dtype=np.int32)
    place[used] = np.arange(len(used), dtype=np.int32)
    numbers = np.empty_like(side.codes)
    for block in blocks(len(numbers)):
        numbers[block] = place[side.codes[block]]
    return numbers, side.ids(used)


def blocks(length: int) -> Iterator[slice]:
    """Cut `length` rows into slices that fit the processor's cache."""
    for start in range(0, length, BLOCK):
        yield slice(start, min(start + BLOCK, length))


def _chunks(column: pa.ChunkedArray, flags: Flags) -> Iterator[tuple[pa.Array, Flags]]:
    """Pair each chunk of a column with its stretch of a mask over all rows."""
    start = 0
    for chunk in column.chunks:
        yield chunk, flags[start : start + len(chunk)]
        start += len(chunk)


def _gather(column: pa.ChunkedArray, alive: Flags) -> npt.NDArray[Any]:
    """Copy the living rows of a column, chunk by chunk."""
    return np.concatenate([chunk.to_numpy()[part] for chunk, part in _chunks(column, alive)])


def _extremes(column: pa.ChunkedArray) -> str:
    limits = pc.min_max(column)
    return f"{limits['min']} to {limits['max']}"
