"""Cells of text to integers, numbers and times, a whole block at a time."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recbench.data.readers.streams import shown
from recbench.linalg.types import Integers

Parser = Callable[[pa.Array], pa.Array]


class CellError(ValueError):
    """A cell that cannot be read; the reader knows on which line its block's `row` stands."""

    def __init__(self, row: int, text: str) -> None:
        super().__init__(text)
        self.row = row


def is_text(cells: pa.Array) -> bool:
    """Whether the cells are text still."""
    return bool(pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type))


def refuse_null(cells: pa.Array, sentence: str) -> None:
    """Refuse an array that has a hole."""
    holes = cells.is_null()  # `null_count` does not see nulls inside of a dictionary
    if pc.any(holes).as_py():
        raise CellError(first(holes), sentence)


def first(mask: pa.Array) -> int:
    """The first true row."""
    return int(np.flatnonzero(mask.to_numpy(zero_copy_only=False))[0])


def integers(ids: pa.Array) -> pa.Array | None:
    """Turn ids into the narrowest integers, if every one of them is canonical decimal.

    `007`, `-0` and `0x7` are text. Canonical decimal is the shortest way to write a number in
    decimal, so the lengths need only agree in sum, which is what makes the check fast.
    """
    try:
        numbers = ids.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    values = numbers.to_numpy()
    if is_text(ids):
        written = _bytes_of(ids)
        has_hex = int(written.max()) > ord("9")  # Arrow reads 0x7, and it is shorter
        if has_hex or len(written) != _decimal_length(values):
            return None
    small = int(values.min()) >= -(2**31) and int(values.max()) < 2**31
    return numbers.cast(pa.int32(), safe=False) if small else numbers


def _bytes_of(text: pa.Array) -> npt.NDArray[np.uint8]:
    """The bytes of a text array, one cell after the other."""
    width = np.int64 if pa.types.is_large_string(text.type) else np.int32
    _, offsets, data = text.buffers()
    ends = np.frombuffer(offsets, dtype=width)
    start, end = ends[text.offset], ends[text.offset + len(text)]
    return np.frombuffer(data, dtype=np.uint8)[start:end]


def _decimal_length(numbers: Integers) -> int:
    """How many characters the numbers take in canonical decimal, all together."""
    sizes = np.abs(numbers).view(np.uint64)  # the lowest int64 has no positive counterpart
    length = len(sizes) + int(np.count_nonzero(numbers < 0))
    bound, top = 10, int(sizes.max())
    while bound <= top:
        length += int(np.count_nonzero(sizes >= bound))
        bound *= 10
    return length


def floats(cells: pa.Array) -> pa.Array:
    """Read numbers."""
    return cells.cast(pa.float64())


def whole(cells: pa.Array) -> pa.Array:
    """Read whole numbers."""
    return cells.cast(pa.int64())


def whole_floats(cells: pa.Array) -> pa.Array:
    """Read whole numbers that were written with a decimal point, as `978300760.0`."""
    return cells.cast(pa.float64()).cast(pa.int64())


ORDERS = {"iso": "", "day-first": "%d{0}%m{0}%Y", "month-first": "%m{0}%d{0}%Y"}
"""How dates may be written; {0} is what stands between."""
BETWEEN = "/.-"
CLOCKS = ("", " %H:%M:%S", " %H:%M")


def dates(unit: str, order: str = "iso") -> list[Parser]:
    """Read dates as `unit`s since 1970: ISO 8601, without and with a time zone, or as written."""
    if order != "iso":
        patterns = [ORDERS[order].format(mark) + clock for mark in BETWEEN for clock in CLOCKS]
        return [_date_like(pattern, unit) for pattern in patterns]

    def naive(cells: pa.Array) -> pa.Array:
        return cells.cast(pa.timestamp(unit)).cast(pa.int64())

    def zoned(cells: pa.Array) -> pa.Array:
        return cells.cast(pa.timestamp(unit, "UTC")).cast(pa.int64())

    return [naive, zoned]


def _date_like(pattern: str, unit: str) -> Parser:
    def read(cells: pa.Array) -> pa.Array:
        return pc.strptime(cells, format=pattern, unit=unit).cast(pa.int64())

    return read


def parsed(cells: pa.Array, parsers: Sequence[Parser], wrong: str) -> tuple[pa.Array, Parser]:
    """Apply the first parser that understands every cell, or name a cell that is in the way."""
    trimmed = pc.utf8_trim_whitespace(cells) if is_text(cells) else cells
    for parse in parsers:
        result = _attempt(parse, trimmed)
        if result is not None:
            return result, parse
    row = max(first_failure(parse, trimmed) for parse in parsers)
    raise CellError(row, wrong.format(shown(str(cells[row]))))


def _attempt(parse: Parser, cells: pa.Array) -> pa.Array | None:
    try:
        return parse(cells)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def first_failure(parse: Callable[[Any], Any], cells: Any) -> int:
    """Bisect for the first of some cells, or lines, that a parser does not understand."""
    low, high = 0, len(cells)
    while high - low > 1:
        middle = (low + high) // 2
        if _attempt(parse, cells[low:middle]) is None:
            high = middle
        else:
            low = middle
    return low
