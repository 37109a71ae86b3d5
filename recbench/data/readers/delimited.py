"""Delimited text: csv, tsv, dat and whatever else has a row a line, at the speed of Arrow.

Also the reader for a user's own file, so every way such a file can be wrong is one sentence.
"""

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
from pyarrow import csv

from recbench.data.interactions import Interactions
from recbench.data.readers.archive import LIMITS, Limits, Member, chosen, members
from recbench.data.readers.cells import ORDERS, CellError, first_failure
from recbench.data.readers.columns import NO_ID, UNITS, TableBuilder
from recbench.data.readers.header import STAND_IN, Dialect, Layout, find_layout
from recbench.data.readers.lines import Block, ahead, blocks, end_of_lines, end_of_quoted_lines
from recbench.data.readers.options import columns_option, listed, parts_option
from recbench.data.readers.streams import shown
from recbench.errors import DataError
from recbench.params import Described, make, param
from recbench.registry import READERS

WORDS = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ","}
BY_SUFFIX = {".tsv": "\t", ".tab": "\t"}
TYPES = {"user": pa.string(), "item": pa.string(), "value": pa.float64(), "time": pa.int64()}
OPEN_QUOTE = (
    "a quoted cell does not end on its line; pass multiline=true if cells may hold line ends, "
    "quote=false if quotes are plain characters"
)
AS_TEXT = dict.fromkeys(TYPES, pa.string())
READ_AT_ONCE = 1 << 20
"""Bytes one core parses at a time; a longer line makes Arrow ask for more."""


@dataclass(frozen=True)
class Delimited(Described):
    """Options of the reader, beside `columns` and `parts`."""

    name: ClassVar[str] = "delimited"

    delimiter: str | None = param(
        None, help="what stands between cells; default: tab for .tsv, else comma, or what splits "
        "the first line where that does not",
    )  # fmt: skip
    header: str = param("auto", choices=("auto", "yes", "no"), help="whether names come first")
    member: str | None = param(None, help="path or glob of the file in an archive")
    encoding: str = param("utf-8", help="of the text")
    quote: bool = param(True, help="cells may stand in double quotes")
    multiline: bool = param(False, help="quoted cells may hold line ends")
    time_unit: str = param("s", choices=UNITS, help="what dates become")
    dates: str = param("iso", choices=tuple(ORDERS), help="how they are written; 31/12/2025 is "
                       "day-first")  # fmt: skip

    def dialect(self, name: str) -> Dialect:
        """How to split the lines of a file of this name."""
        delimiter = self.delimiter
        if delimiter is None:
            delimiter = BY_SUFFIX.get(Path(name).suffix.lower(), ",")
        return Dialect(WORDS.get(delimiter, delimiter), self.quote)


@READERS.register("delimited")
def read(
    paths: Sequence[Path], options: Mapping[str, object], limits: Limits = LIMITS
) -> Interactions:
    """Read rows from delimited files, in the order of the paths and of names in archives."""
    words = dict(options)
    if isinstance(words.get("header"), bool):  # as YAML reads `header: yes`
        words["header"] = "yes" if words["header"] else "no"
    columns = columns_option(words)
    parts = parts_option(words, paths)
    settings = make(Delimited, words)
    builder = TableBuilder(NO_ID, settings.time_unit, settings.dates)
    for number, (path, part) in enumerate(zip(paths, parts, strict=True)):
        with closing(members(path, limits, chosen(settings.member, path, limits))) as files:
            for member in files:
                builder.begin((number, member.name))
                _File(member, settings, columns).append_to(builder, part, limits)
    return builder.finish(listed(paths))


class _File:
    """One delimited file."""

    def __init__(self, member: Member, settings: Delimited, columns: Mapping[str, str]) -> None:
        self._member = member
        self._settings = settings
        self._columns = columns
        self._dialect = settings.dialect(member.name)
        self._types = dict(TYPES)

    def append_to(self, builder: TableBuilder, part: int | None, limits: Limits) -> None:
        """Read the file block by block."""
        whole = end_of_quoted_lines if self._settings.multiline else end_of_lines
        with closing(ahead(blocks(self._member, limits, self._settings.encoding, whole))) as text:
            self._append_text(text, builder, part)

    def _append_text(self, text: Iterator[Block], builder: TableBuilder, part: int | None) -> None:
        first = next(text, None)
        if first is None or not first.text.strip():
            raise self._member.error("is empty")
        layout, rest = self._open(first)
        with closing(ahead(self._tables(chain([rest], text), layout))) as tables:
            for block, table in tables:
                try:
                    builder.append({role: table[role] for role in layout.positions}, part)
                except CellError as error:
                    raise self._row_error(block, str(error), error.row) from None

    def _tables(self, text: Iterable[Block], layout: Layout) -> Iterator[tuple[Block, pa.Table]]:
        """Parse the blocks that are not blank."""
        for block in text:
            if block.text and not block.text.isspace():
                yield block, self._table(block, layout)

    def _open(self, first: Block) -> tuple[Layout, Block]:
        """Find out what the columns are; return that and the block without its header."""
        lines = list(islice(self._first_rows(first.text), 2))
        if self._settings.delimiter is None:
            self._dialect = self._dialect.suited(lines[0], self._columns)
        try:
            layout = find_layout(
                self._member, lines, self._dialect, self._columns, self._settings.header
            )
        except pa.ArrowInvalid as error:
            raise self._member.error(
                f"has a first line that cannot be split: {shown(str(error))}"
            ) from None
        if not layout.has_header:
            return layout, first
        cut = first.text.index(lines[0]) + len(lines[0]) + 1
        return layout, first.after(cut)

    def _first_rows(self, text: bytes) -> Iterator[bytes]:
        """Yield rows as they stand in the file, from the first."""
        row: list[bytes] = []
        quotes = 0
        for line in io.BytesIO(text):
            row.append(line)
            quotes += line.count(b'"') if self._settings.multiline else 0
            if quotes % 2 == 0:
                if joined := b"".join(row).strip(b"\n"):
                    yield joined
                row.clear()

    def _table(self, block: Block, layout: Layout) -> pa.Table:
        """Parse a block as typed columns, or as text where that fails, to see why."""
        if self._dialect.stands_in and STAND_IN.encode() in block.text:
            raise block.error("holds the control character 0x1F, which no text should")
        text = self._dialect.prepare(block.text)
        try:
            table = self._parse(text, layout, self._types, READ_AT_ONCE)
        except pa.ArrowInvalid:
            table = self._as_text(block, text, layout)
        swallowed = table.num_rows != block.lines and table.num_rows != _filled(block)
        if swallowed and not self._settings.multiline:
            raise block.error(f"here or below {OPEN_QUOTE}")
        return table

    def _as_text(self, block: Block, text: bytes, layout: Layout) -> pa.Table:
        """Parse a block as text, or find the first row that is not like the others."""
        self._types["time"] = pa.string()  # if this block has dates, so has the next
        try:
            return self._parse(text, layout, AS_TEXT, len(text) + 1)
        except pa.ArrowInvalid as error:
            raise self._explained(block, text, layout, error) from None

    def _parse(
        self, text: bytes, layout: Layout, types: Mapping[str, pa.DataType], at_once: int
    ) -> pa.Table:
        names = [f"_{number}" for number in range(layout.width)]
        for role, position in layout.positions.items():
            names[position] = role
        return csv.read_csv(
            pa.BufferReader(text),
            csv.ReadOptions(column_names=names, block_size=at_once),
            self._dialect.parse_options(self._settings.multiline),
            csv.ConvertOptions(
                include_columns=list(layout.positions), column_types=types, null_values=[]
            ),
        )

    def _explained(self, block: Block, text: bytes, layout: Layout, error: Exception) -> DataError:
        """Say what is wrong with a block: most often a row of another length, or no UTF-8."""

        def parse(some: list[bytes]) -> pa.Table:
            joined = b"\n".join(some) + b"\n"
            return self._parse(joined, layout, AS_TEXT, len(joined))

        if not self._settings.multiline:
            lines = [line for line in text.split(b"\n") if line]
            row = first_failure(parse, lines)
            try:
                width = len(self._dialect.split(lines[row]))
            except pa.ArrowInvalid:
                return self._row_error(block, OPEN_QUOTE, row)
            if width != layout.width:
                return self._row_error(block, f"{layout.width} cells expected, {width} found", row)
        return block.parse_error(error, "; pass encoding=latin-1 if it is that")

    def _row_error(self, block: Block, text: str, row: int) -> DataError:
        if self._settings.multiline:  # a row is not a line
            return block.error(f"{row:,} rows below: {text}")
        return block.row_error(text, row)


def _filled(block: Block) -> int:
    """How many lines of a block are not empty."""
    return sum(1 for line in block.text.split(b"\n") if line)
