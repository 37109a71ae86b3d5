"""Original ids as small ascending integers: made, counted, searched for repeats, numbered.

Rows may be a hundred million, so work goes block by block on int32 codes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recbench.linalg.types import Counts, Flags, Indices

BLOCK = 1 << 20
"""Rows looked at together: their temporaries stay in the processor's cache."""


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


def count(codes: Indices, size: int) -> Counts:
    """Count each code below `size`, in blocks because bincount widens its input."""
    total = np.zeros(size, dtype=np.int64)
    for block in blocks(len(codes), size):
        total += np.bincount(codes[block], minlength=size)
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
    hits, keys = [], []
    for block in blocks(len(user)):
        part = user[block].astype(np.int64) * n_items + item[block]
        place = np.minimum(np.searchsorted(twice, part), len(twice) - 1)
        hit = np.flatnonzero(twice[place] == part)
        hits.append(hit + block.start)
        keys.append(place[hit])
    rows, pair = np.concatenate(hits), np.concatenate(keys)
    first = np.full(len(twice), len(user), dtype=np.int64)
    np.minimum.at(first, pair, rows)
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
    if pa.types.is_integer(column.type):
        limits = pc.min_max(column)
        low, size = limits["min"].as_py(), limits["max"].as_py() - limits["min"].as_py() + 1
        if size <= max(len(column) // 4, BLOCK):
            return _encode_dense(column, alive, low, size)
    return _encode_dictionary(column, alive)


def _encode_dense(column: pa.ChunkedArray, alive: Flags, low: int, size: int) -> Side:
    codes = gather(column, alive, np.int32, lambda chunk, part: living(chunk, part) - low)
    return Side(codes, size, lambda used: pa.array(used.astype(np.int64) + low))


def _encode_dictionary(column: pa.ChunkedArray, alive: Flags) -> Side:
    """Code ids by their place in the sorted list of distinct ids; text sorts by its bytes."""
    coded = column.dictionary_encode().unify_dictionaries()
    # A dictionary made elsewhere may hold a value twice; encoding it again merges the two.
    distinct = coded.chunk(0).dictionary.dictionary_encode()
    order = pc.sort_indices(distinct.dictionary).to_numpy()
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    place = rank[distinct.indices.to_numpy()]
    codes = gather(coded, alive, np.int32, lambda chunk, part: place[living(chunk.indices, part)])
    ids = distinct.dictionary.take(pa.array(order))
    kind = pa.int64() if pa.types.is_integer(ids.type) else pa.string()
    return Side(codes, len(order), lambda used: ids.take(pa.array(used)).cast(kind))


def number(side: Side) -> tuple[Indices, pa.Array]:
    """Number the codes that occur from 0 without gaps, and name them."""
    used = np.flatnonzero(side.counts())
    place = np.empty(side.size, dtype=np.int32)
    place[used] = np.arange(len(used), dtype=np.int32)
    numbers = np.empty_like(side.codes)
    for block in blocks(len(numbers)):
        numbers[block] = place[side.codes[block]]
    return numbers, side.ids(used)


def blocks(length: int, least: int = 1) -> Iterator[slice]:
    """Cut `length` rows into slices that fit the processor's cache, but of `least` rows."""
    step = max(BLOCK, least)
    for start in range(0, length, step):
        yield slice(start, min(start + step, length))


def stretches(column: pa.ChunkedArray, flags: Flags) -> Iterator[tuple[pa.Array, Flags]]:
    """Pair blocks of a column with their stretch of a mask over all rows."""
    start = 0
    for chunk in column.chunks:
        for block in blocks(len(chunk)):
            yield chunk[block], flags[start + block.start : start + block.stop]
        start += len(chunk)


def living(chunk: pa.Array, part: Flags) -> npt.NDArray[Any]:
    """The living rows of a block of numbers; four times as fast as indexing with the mask."""
    return np.compress(part, chunk.to_numpy())


def gather(
    column: pa.ChunkedArray,
    alive: Flags,
    kind: npt.DTypeLike,
    take: Callable[[pa.Array, Flags], npt.NDArray[Any]] = living,
) -> npt.NDArray[Any]:
    """Copy the living rows of a column, as `take` gives them block by block."""
    values = np.empty(np.count_nonzero(alive), dtype=kind)
    done = 0
    for chunk, part in stretches(column, alive):
        taken = take(chunk, part)
        values[done : done + len(taken)] = taken
        done += len(taken)
    return values
