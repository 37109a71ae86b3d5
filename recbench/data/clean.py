"""From rows as read to a Dataset: binarise, link, deduplicate, filter, number; in that order.

Original ids are touched twice: when they become codes and when the survivors are numbered. All
between works on codes and on a mask over the rows as read.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recbench.data.dataset import Dataset
from recbench.data.ids import (
    Side,
    blocks,
    count,
    encode,
    gather,
    number,
    repeated,
    stretches,
)
from recbench.data.interactions import PARTS, Interactions
from recbench.data.recipe import OPERATORS, Filter, Graph, Recipe
from recbench.errors import DataError
from recbench.linalg.types import Counts, Flags, Indices
from recbench.params import format_value


def prepare(
    interactions: Interactions,
    recipe: Recipe,
    name: str,
    provenance: Mapping[str, Any] | None = None,
) -> Dataset:
    """Apply a recipe to rows as read, and number the users and items that are left."""
    preparation = Preparation(interactions.table, name)
    preparation.binarise(recipe.positive)
    if recipe.graph is not None:
        preparation.link(recipe.graph)
    preparation.encode()
    if recipe.dedup:
        preparation.deduplicate()
    for rule in recipe.filters:
        preparation.filter(rule)
    if not recipe.dedup:
        preparation.deduplicate()
    done = {"recipe": recipe.text, "rows": preparation.counted}
    return preparation.dataset({**(provenance or {}), **done}, graph=recipe.graph is not None)


class Preparation:
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
        wanted = f"value {sign} {format_value(bound)}"
        if "value" not in self.table.column_names:
            raise DataError(
                f"{self.name} keeps rows with {wanted}, but its rows have no value; "
                f"drop the threshold or read a value column"
            )
        for chunk, part in stretches(self.table["value"], self.alive):
            # An unknown value arrives as NaN, which compares false: not positive. Values widen
            # first: NumPy 1 would round the bound to their precision.
            values = chunk.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
            part[:] = OPERATORS[sign](values, bound)
        self.counted["positive"] = int(np.count_nonzero(self.alive))
        if not self.alive.any():
            raise DataError(
                f"{self.name}: none of {len(self.alive):,} rows has {wanted}; "
                f"values go from {_extremes(self.table['value'])}"
            )

    def link(self, graph: Graph) -> None:
        """Drop the links of nodes to themselves; undirected ones are there the other way, too."""
        user, item = as_nodes(self.table["user"], self.table["item"])
        table = self.table.drop_columns(["user", "item"])
        self.table = table.append_column("user", user).append_column("item", item)
        self.alive &= pc.not_equal(user, item).to_numpy()
        if not self.alive.any():
            raise DataError(f"{self.name} links nothing but nodes to themselves")
        if graph == "undirected":
            back = table.append_column("user", item).append_column("item", user)
            self.table = pa.concat_tables([self.table, back])
            self.alive = np.concatenate([self.alive, self.alive])
        self.counted["links"] = int(np.count_nonzero(self.alive))

    def encode(self) -> None:
        """Replace ids by codes, users and items at once: Arrow and NumPy hold no lock."""
        with ThreadPoolExecutor(2) as pool:
            sides = (self.table["user"], self.table["item"])
            self.user, self.item = pool.map(lambda side: encode(side, self.alive), sides)

    def deduplicate(self) -> None:
        """Keep the first row of each pair, in file order."""
        repeats = repeated(self.user.codes, self.item.codes, self.item.size)
        if repeats is not None:
            rows, leader = repeats
            self._check_parts(rows, leader)
            keep = np.ones(len(self.user.codes), dtype=np.bool_)
            keep[rows[rows != leader]] = False
            self._keep(lambda block: keep[block])
        self.counted["distinct"] = len(self.user.codes)

    def _check_parts(self, rows: Counts, leader: Counts) -> None:
        """Refuse a pair that two distributed files share: it would be trained on and tested."""
        if "part" not in self.table.column_names:
            return
        part = gather(self.table["part"], self.alive, np.int8)
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
        user, item = self.user.codes, self.item.codes
        if not self._keep(lambda block: good_user[user[block]] & good_item[item[block]]):
            users, items = (np.count_nonzero(side.counts()) for side in (self.user, self.item))
            raise DataError(
                f"{self.name}: the filter {rule.text} leaves nothing of {users:,} users x "
                f"{items:,} items, {len(user):,} interactions; lower its minimum"
            )
        self.counted["filtered"] = len(self.user.codes)

    def _keep(self, stays: Callable[[slice], Flags]) -> int:
        """Keep the living rows that `stays` tells, block by block, and say how many they are.

        Codes move up in place; where no row stays none has moved, and they can still be counted.
        """
        user, item = self.user.codes, self.item.codes
        seen = kept = 0
        for block in blocks(len(self.alive)):
            living = np.flatnonzero(self.alive[block])
            here = slice(seen, seen + len(living))
            seen = here.stop
            stay = stays(here)
            self.alive[block][living] = stay
            number = int(np.count_nonzero(stay))
            for codes in (user, item):
                # np.compress is four times as fast as indexing with the mask.
                codes[kept : kept + number] = np.compress(stay, codes[here])
            kept += number
        if kept:
            self.user.codes, self.item.codes = user[:kept], item[:kept]
        return kept

    def dataset(self, provenance: Mapping[str, Any], *, graph: bool = False) -> Dataset:
        """Number the survivors and fetch what else the raw rows say about them."""
        user, user_ids = number(self.user)
        del self.user  # a hundred million codes are 400 MB
        item, item_ids = number(self.item)
        del self.item
        extra = {
            column: gather(self.table[column], self.alive, kind)
            for column, kind in (("time", np.int64), ("part", np.int8))
            if column in self.table.column_names
        }
        return Dataset(
            self.name, user, item, user_ids, item_ids, provenance=provenance, graph=graph, **extra
        )


def as_nodes(*columns: pa.ChunkedArray) -> list[pa.ChunkedArray]:
    """Ids of one kind, so that a node is the same on both sides: numbers, or else text."""
    plain = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in columns
    ]
    numbers = all(pa.types.is_integer(column.type) for column in plain)
    return [column.cast(pa.int64() if numbers else pa.large_string()) for column in plain]


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
    for block in blocks(len(side.codes), side.size):
        codes = np.compress(good[other.codes[block]], side.codes[block])
        total += np.bincount(codes, minlength=side.size)
    return total


def core(user: Side, item: Side, users: int, items: int) -> tuple[Flags, Flags]:
    """Find the largest set where every user has `users` rows and every item `items`.

    That set is unique, so weak users and weak items may go in the same round. Counts are kept
    up to date by subtracting what a round removes; late rounds remove little. Real data settle
    in tens of rounds, each one look at the rows, which is cheaper than indexing them for a queue.
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
        if not left:
            return np.zeros_like(good[0]), np.zeros_like(good[1])
        if left < 0.6 * len(alive):
            codes = [np.compress(alive, side) for side in codes]
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
            gone[side].append(np.compress(hit, codes[side][block]))
    for side in (0, 1):
        counts[side] -= count(np.concatenate(gone[side]), len(counts[side]))
    return left


def _extremes(column: pa.ChunkedArray) -> str:
    limits = pc.min_max(column)
    return f"{limits['min']} to {limits['max']}"
