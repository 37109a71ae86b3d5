"""One record a line, JSON or a Python literal: the values of a few keys as columns.

A compiled scan reads the lines that are plainly well formed, which is nearly all of them; the
rest, and values with escapes, go one by one through the standard library. Nothing is ever
evaluated: `ast.literal_eval` takes literals only.
"""

import ast
import json
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recbench.data.interactions import Interactions
from recbench.data.readers.archive import Limits, chosen, members
from recbench.data.readers.cells import CellError
from recbench.data.readers.columns import TableBuilder
from recbench.data.readers.lines import Block, ahead, blocks
from recbench.data.readers.options import listed
from recbench.errors import DataError
from recbench.linalg.types import Integers

Parser = Callable[[str], Any]
MAX_LITERAL = 1 << 20
"""Bytes of a line that a real parser is given: the tree it builds is a hundred times larger."""

PYTHON_STARTS = (b"{'", b"{u'")


def _literal(text: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of escapes that mean nothing, which stay as they are
        return ast.literal_eval(text)


JSON: Mapping[str, Parser] = {"JSON": json.loads}
PYTHON: Mapping[str, Parser] = {"a Python literal": _literal}
EITHER = {**JSON, **PYTHON}
PARSER_ERRORS = (ValueError, SyntaxError, TypeError, MemoryError, RecursionError)


def read_records(
    paths: Sequence[Path],
    keys: Mapping[str, str],
    parsers: Mapping[str, Parser],
    limits: Limits,
    member: str | None,
    builder: TableBuilder,
    leave_out: str | None = None,
) -> Interactions:
    """Read the columns that `keys` names by role; records without `leave_out` are no rows."""
    for number, path in enumerate(paths):
        with closing(members(path, limits, chosen(member, path, limits))) as files:
            for file in files:
                builder.begin((number, file.name))
                with closing(ahead(blocks(file, limits))) as text:
                    for block in text:
                        records = Records(block, tuple(keys.values()), parsers)
                        records.append_to(builder, keys, leave_out)
    return builder.finish(listed(paths))


class Records:
    """The records of one block."""

    def __init__(self, block: Block, keys: Sequence[str], parsers: Mapping[str, Parser]) -> None:
        from recbench.data.readers import records_kernel  # compiled code, loaded when first needed

        self._kernel = records_kernel
        self._block = block
        self._keys = keys
        self._parsers = parsers
        self._data = np.frombuffer(block.text, dtype=np.uint8)
        self._lines, self._places, self._kinds = self._scan()
        bad = np.flatnonzero(self._kinds[:, 0] == records_kernel.BAD).tolist()
        self._parsed = {row: self._parse_line(row) for row in bad}

    def append_to(
        self, builder: TableBuilder, keys: Mapping[str, str], leave_out: str | None
    ) -> None:
        """Add the columns that `keys` names by role."""
        rows = np.arange(len(self._lines))
        try:
            columns = {role: self.column(self._keys.index(key)) for role, key in keys.items()}
            if leave_out:
                there = columns[leave_out].is_valid()
                rows = rows[there.to_numpy(zero_copy_only=False)]
                columns = {role: column.filter(there) for role, column in columns.items()}
        except CellError as error:
            raise self._error(error.row, str(error)) from None
        try:
            builder.append(columns)
        except CellError as error:
            raise self._error(int(rows[error.row]), str(error)) from None

    def column(self, key: int) -> pa.Array:
        """Return the values of one key as text; null where there is none."""
        kinds = np.where(
            self._kinds[:, 0] == self._kernel.BAD, self._kernel.BAD, self._kinds[:, key]
        )
        texts = self._plain(kinds, key)
        patches: dict[int, str | None] = {
            row: _text(record.get(self._keys[key]), row) for row, record in self._parsed.items()
        }
        for row in np.flatnonzero(kinds == self._kernel.ESCAPED).tolist():
            patches[row] = _text(self._parse(row, *self._places[row, key].tolist()), row)
        for row in np.flatnonzero(kinds == self._kernel.OTHER).tolist():
            raise CellError(row, f"'{self._keys[key]}' is neither text nor a number")
        holes = (kinds == self._kernel.ABSENT) | (kinds == self._kernel.NOTHING)
        return _patched(texts, patches | dict.fromkeys(np.flatnonzero(holes).tolist()))

    def _scan(self) -> tuple[Integers, Integers, npt.NDArray[np.int8]]:
        names = [key.encode() for key in self._keys]
        joined = np.frombuffer(b"".join(names), dtype=np.uint8)
        ends = np.cumsum([len(name) for name in names])
        lines = np.empty((self._block.lines, 2), dtype=np.int64)
        places = np.zeros((self._block.lines, len(names), 2), dtype=np.int64)
        kinds = np.zeros((self._block.lines, len(names)), dtype=np.int8)
        python = self._parsers is PYTHON or (
            self._parsers is EITHER and self._block.text.startswith(PYTHON_STARTS)
        )
        count = self._kernel.scan(self._data, joined, ends, python, lines, places, kinds)
        return lines[:count], places[:count], kinds[:count]

    def _plain(self, kinds: npt.NDArray[np.int8], key: int) -> pa.Array:
        """Copy out the values that stand in the text as they are."""
        plain = (kinds == self._kernel.PLAIN) | (kinds == self._kernel.NUMBER)
        places = np.where(plain[:, None], self._places[:, key], 0)
        offsets = np.zeros(len(kinds) + 1, dtype=np.int32)
        np.cumsum(places[:, 1] - places[:, 0], out=offsets[1:])
        text = np.empty(offsets[-1], dtype=np.uint8)
        self._kernel.gather(self._data, places, offsets, text)
        texts = pa.StringArray.from_buffers(len(kinds), pa.py_buffer(offsets), pa.py_buffer(text))
        try:
            texts.validate(full=True)
        except pa.ArrowInvalid as error:
            raise self._block.parse_error(error) from None
        return texts

    def _parse_line(self, row: int) -> dict[str, Any]:
        record = self._parse(row, *self._lines[row].tolist())
        if not isinstance(record, dict):
            raise self._error(row, "a record such as {...} is expected")
        return record

    def _parse(self, row: int, begin: int, end: int) -> Any:
        """Give a piece of a line to the parsers of JSON and of Python literals."""
        if end - begin > MAX_LITERAL:
            raise self._error(row, f"a record of {end - begin:,} bytes cannot be read")
        for parse in self._parsers.values():
            try:
                return parse(self._block.text[begin:end].decode())
            except PARSER_ERRORS:
                continue
        raise self._error(row, f"this record is cut short or not {' or '.join(self._parsers)}")

    def _error(self, row: int, text: str) -> DataError:
        return self._block.error(text, self._block.text.count(b"\n", 0, self._lines[row, 0]))


def _text(value: object, row: int) -> str | None:
    """Write a value as the scan would have found it."""
    if value is None or isinstance(value, str):
        return value and _well_formed(value)
    if isinstance(value, float) and math.isnan(value):  # how programs write that nothing is there
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)
    raise CellError(row, f"text or a number is expected, not {type(value).__name__}")


def _well_formed(text: str) -> str:
    """Join surrogate pairs, as Python 2 wrote some characters; spell out halves of pairs."""
    units = text.encode("utf-16-le", "surrogatepass")
    return units.decode("utf-16-le", "backslashreplace")


def _patched(texts: pa.Array, patches: Mapping[int, str | None]) -> pa.Array:
    if not patches:
        return texts
    rows = np.array(sorted(patches))
    mask = np.zeros(len(texts), dtype=bool)
    mask[rows] = True
    values = pa.array([patches[row] for row in rows.tolist()], type=pa.string())
    return pc.replace_with_mask(texts, pa.array(mask), values)
