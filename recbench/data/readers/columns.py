"""Columns that grow block by block and become Interactions: ids, values, times.

Blocks are kept as narrow as their numbers allow, and a column is as wide as the widest of its
blocks, so that most finished tables weigh half of what 64 bits would. Ids that are all integers
in canonical decimal become integers and any others text, decided on the whole column. That needs
no second pass over the file: canonical decimal turned back into text is the text it came from.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recbench.data.interactions import Interactions
from recbench.data.readers import cells
from recbench.data.readers.cells import CellError
from recbench.data.readers.streams import shown
from recbench.errors import DataError

NO_ID = ("", "nan", "NaN", "null", "NULL")
"""How programs that write delimited text say that there is no id."""

MARK = "\ufeff"
"""The byte-order mark: it may stand at the start of a file and is no part of an id."""

DICTIONARY_BYTES = 1 << 26
"""Distinct text that blocks may hold before their dictionaries are merged into one."""

UNITS = ("s", "ms")

Order = Callable[[pa.ChunkedArray], pa.ChunkedArray]
"""Puts the rows of a column in their final order."""


class IdColumn:
    """The users or the items: integers until a block says otherwise, then text."""

    def __init__(self, role: str, missing: Sequence[str] = ()) -> None:
        self._role = role
        self._missing = pa.array(missing, type=pa.string())
        self._is_text = False
        self._chunks: list[pa.Array] = []
        self._held = 0
        self._budget = DICTIONARY_BYTES

    def append(self, ids: pa.Array) -> None:
        """Add the ids of one block, as integers or as text."""
        cells.refuse_null(ids, f"there is no {self._role} id")
        if pa.types.is_dictionary(ids.type):
            ids = _used(ids)
        integers = None if self._is_text else _integers(ids)
        if integers is not None:
            self._chunks.append(integers)
            return
        if not self._is_text:
            self._is_text = True
            self._chunks = [_encoded(chunk) for chunk in self._chunks]
        self._append_text(_encoded(ids))

    def _append_text(self, ids: pa.DictionaryArray) -> None:
        words = pc.utf8_trim_whitespace(ids.dictionary)
        absent = pc.is_in(words, value_set=self._missing).take(ids.indices)
        if pc.any(absent).as_py():
            row = cells.first(absent)
            raise CellError(
                row, f"the {self._role} id is '{shown(str(ids[row]))}'; leave such rows out"
            )
        marked = pc.starts_with(words, MARK).take(ids.indices)
        if pc.any(marked).as_py():
            raise CellError(
                cells.first(marked),
                f"the {self._role} id begins with a byte-order mark, as where a second file was "
                "appended to the first; take the mark out",
            )
        self._chunks.append(ids)
        self._held += ids.dictionary.nbytes
        if self._held > self._budget:
            self._chunks = [_unified(self._chunks)]
            self._held = self._chunks[0].dictionary.nbytes
            self._budget = max(DICTIONARY_BYTES, 2 * self._held)

    def finish(self, order: Order) -> pa.ChunkedArray:
        """Return integers, or text with one dictionary."""
        if self._is_text:
            return order(pa.chunked_array([_unified(self._chunks)]))
        return order(_one_width(self._chunks))


class ValueColumn:
    """Ratings, counts, hours: finite numbers."""

    def __init__(self) -> None:
        self._chunks: list[pa.Array] = []

    def append(self, values: pa.Array) -> None:
        """Add numbers, or text that says numbers."""
        cells.refuse_null(values, "there is no value")
        if cells.is_text(values):
            values, _ = cells.parsed(values, [cells.floats], "the value '{}' is not a number")
        finite = pc.is_finite(values)  # integers beyond 2^53 may lose digits no rating has
        if not pc.all(finite).as_py():
            row = cells.first(pc.invert(finite))
            raise CellError(row, f"the value is {values[row]}, not a finite number")
        self._chunks.append(_narrow(values.cast(pa.float64(), safe=False)))

    def finish(self, order: Order) -> pa.ChunkedArray:
        """Return floats."""
        return order(_one_width(self._chunks))


class TimeColumn:
    """Times: integers as they stand in the file, dates as seconds or milliseconds since 1970."""

    def __init__(self, unit: str = "s", dates: str = "iso") -> None:
        self._unit, self._dates = unit, dates
        date = "an ISO 8601 date" if dates == "iso" else f"a {dates} date"
        self._kinds: dict[str, list[cells.Parser]] = {
            "a whole number": [cells.whole, cells.whole_floats],
            date: cells.dates(unit, dates),
        }
        self._chunks: list[pa.Array] = []

    def append(self, times: pa.Array) -> None:
        """Add integers, timestamps, or text that says either, but the same in every block."""
        cells.refuse_null(times, "there is no time")
        if pa.types.is_temporal(times.type):
            times = times.cast(pa.timestamp(self._unit), safe=False).cast(pa.int64())
        elif not pa.types.is_integer(times.type):
            times = self._parse(times)
        self._chunks.append(times)

    def _parse(self, times: pa.Array) -> pa.Array:
        parsers = [parser for kind in self._kinds.values() for parser in kind]
        fractions = "time-unit=ms to keep fractions of a second, " if self._unit == "s" else ""
        others = "dates=day-first or dates=month-first if it is 31/12/2025 or 12/31/2025"
        advice = f"; pass {fractions}{others}" if self._dates == "iso" else ""
        wrong = "the time '{}' is not " + " or ".join(self._kinds) + advice
        times, used = cells.parsed(times, parsers, wrong)
        self._kinds = {name: kind for name, kind in self._kinds.items() if used in kind}
        return times

    def finish(self, order: Order) -> pa.ChunkedArray:
        """Return int64."""
        return order(_one_width(self._chunks)).cast(pa.int64())


class TableBuilder:
    """Interactions in the making."""

    def __init__(
        self, missing: Sequence[str] = (), time_unit: str = "s", dates: str = "iso"
    ) -> None:
        self._columns: dict[str, Any] = {
            "user": IdColumn("user", missing),
            "item": IdColumn("item", missing),
            "value": ValueColumn(),
            "time": TimeColumn(time_unit, dates),
        }
        self._used: set[str] = set()
        self._parts: list[npt.NDArray[np.int8]] = []
        self._spans: list[tuple[Any, int]] = []
        self._length = 0

    def begin(self, key: Any, ahead: int = 0) -> None:
        """Say that the rows from `ahead` of here on stand where `key` sorts among the keys."""
        self._spans.append((key, self._length + ahead))

    def append(self, columns: Mapping[str, pa.Array], part: int | None = None) -> None:
        """Add one block: `user`, `item` and, in every block or in none, `value` and `time`."""
        length = len(columns["user"])
        if not length:
            return
        for name, block in columns.items():
            self._columns[name].append(_one_array(block))
        if part is not None:
            self._parts.append(np.full(length, part, dtype=np.int8))
        self._used |= columns.keys()
        self._length += length

    def finish(self, what: object) -> Interactions:
        """Make the table; `what` names the files, should there be no rows."""
        if not self._length:
            raise DataError(
                f"{what} holds no interactions; give another file, or the --reader that it is for"
            )
        order, table = self._order(), {}
        try:
            for name in [name for name in self._columns if name in self._used]:
                table[name] = self._columns.pop(name).finish(order)
        except pa.ArrowException as error:  # more than 2 GiB of distinct text
            raise DataError(f"{what} cannot be held in memory: {error}") from None
        if self._parts:
            table["part"] = order(pa.chunked_array(self._parts))
        return Interactions(pa.table(table))

    def _order(self) -> Order:
        """Put the spans in the order of their keys; rows within a span keep theirs."""
        ends = [start for _, start in self._spans[1:]] + [self._length]
        spans = [(*span, end) for span, end in zip(self._spans, ends, strict=False)]
        ordered = sorted(spans, key=lambda span: span[0])
        if ordered == spans:
            return lambda column: column

        def sort(column: pa.ChunkedArray) -> pa.ChunkedArray:
            pieces = (column.slice(start, end - start).chunks for _, start, end in ordered)
            return pa.chunked_array([pa.concat_arrays(list(chain.from_iterable(pieces)))])

        return sort


def _one_array(block: pa.Array | pa.ChunkedArray) -> pa.Array:
    return block.combine_chunks() if isinstance(block, pa.ChunkedArray) else block


def _one_width(chunks: list[pa.Array]) -> pa.ChunkedArray:
    """Give the chunks of a column the type of the widest of them."""
    widest = max((chunk.type for chunk in chunks), key=lambda kind: int(kind.bit_width))
    return pa.chunked_array([chunk.cast(widest) for chunk in chunks])


def _narrow(values: pa.Array) -> pa.Array:
    """The same numbers in single precision, where none of them loses a digit: most ratings."""
    wide = values.to_numpy()
    with np.errstate(over="ignore"):
        narrow = wide.astype(np.float32)
    return pa.array(narrow) if np.array_equal(narrow, wide) else values


def _unified(chunks: list[pa.Array]) -> pa.DictionaryArray:
    """Put chunks with dictionaries of their own into one.

    It is one chunk as well: Arrow, asked again, would look up every word once for each chunk.
    """
    unified = pa.chunked_array(chunks).unify_dictionaries().chunks
    indices = pa.concat_arrays([chunk.indices for chunk in unified])
    return pa.DictionaryArray.from_arrays(indices, unified[0].dictionary)


def _integers(ids: pa.Array) -> pa.Array | None:
    if not pa.types.is_dictionary(ids.type):
        return cells.integers(ids)
    integers = cells.integers(ids.dictionary)
    return None if integers is None else integers.take(ids.indices)


def _encoded(ids: pa.Array) -> pa.DictionaryArray:
    """Store each distinct text once; most ids of a block come many times."""
    if pa.types.is_dictionary(ids.type):
        return ids
    return ids.cast(pa.string()).dictionary_encode()


def _used(ids: pa.DictionaryArray) -> pa.DictionaryArray:
    """Leave the words out of a dictionary that no row of this block has."""
    used, indices = np.unique(ids.indices.to_numpy(), return_inverse=True)
    words = ids.dictionary.take(pa.array(used)).cast(pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(indices.astype(np.int32)), words)
