"""What the columns of a delimited file are: its header, if it has one, and what is asked for."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from pyarrow import csv

from recbench.data.readers.archive import Member
from recbench.data.readers.options import NEEDED, ROLES
from recbench.data.readers.streams import shown
from recbench.errors import UsageError

LIKELY = ("::", "\t", ";", "|", ",", " ")
"""Delimiters to suggest, the most telling first."""

STAND_IN = "\x1f"
"""What a delimiter of several bytes becomes: Arrow splits at one byte, and no text has this."""


@dataclass(frozen=True)
class Dialect:
    """How a line is split."""

    delimiter: str
    quote: bool = True

    def __post_init__(self) -> None:
        """Refuse what cannot be told from the rest of a line."""
        if not self.delimiter or set(self.delimiter) & set('"\r\n\0'):
            raise UsageError(f"option 'delimiter' cannot be {self.delimiter!r}; try ',' or tab")

    @property
    def stands_in(self) -> bool:
        """Whether the delimiter is replaced by one byte before Arrow sees it."""
        return len(self.delimiter.encode()) > 1

    def parse_options(self, multiline: bool) -> csv.ParseOptions:
        """Say the same to Arrow."""
        return csv.ParseOptions(
            delimiter=STAND_IN if self.stands_in else self.delimiter,
            quote_char='"' if self.quote else False,
            newlines_in_values=multiline,
        )

    def prepare(self, text: bytes) -> bytes:
        """Replace a delimiter that Arrow cannot split at."""
        return text.replace(self.delimiter.encode(), STAND_IN.encode()) if self.stands_in else text

    def suited(self, line: bytes, columns: Mapping[str, str]) -> "Dialect":
        """This one if it finds the columns asked for in the first line, else one that does.

        If none does, there is a name that is not in the file: one that splits the line at all.
        """
        names = {column for column in columns.values() if not column.isdecimal()}
        splits = {mark: self._cells_at(mark, line) for mark in (self.delimiter, *LIKELY)}
        able = [mark for mark, cells in splits.items() if len(cells) >= len(NEEDED)]
        found = [mark for mark in able if names <= set(splits[mark])]
        return replace(self, delimiter=next(iter(found + able), self.delimiter))

    def _cells_at(self, mark: str, line: bytes) -> list[str]:
        try:
            return replace(self, delimiter=mark).cells(line)
        except pa.ArrowInvalid:
            return []

    def cells(self, line: bytes) -> list[str]:
        """Split one line of the file; as names of columns Arrow leaves its cells as they are."""
        return self.split(self.prepare(line))

    def split(self, line: bytes) -> list[str]:
        """Split one line that is prepared."""
        try:
            line.decode()
        except UnicodeDecodeError:  # in a column that nobody asked for, perhaps
            line = line.decode("latin-1").encode()
        wide = csv.ReadOptions(block_size=len(line) + 2)
        options = self.parse_options(multiline=True)
        names = csv.read_csv(pa.BufferReader(line + b"\n"), wide, options).column_names
        return [str(name) for name in names]


@dataclass(frozen=True)
class Layout:
    """Where the wanted columns of a file are."""

    width: int
    has_header: bool
    positions: Mapping[str, int]


def find_layout(
    member: Member, lines: list[bytes], dialect: Dialect, columns: Mapping[str, str], header: str
) -> Layout:
    """Decide from the first lines whether there is a header, and find the columns asked for."""
    cells = dialect.cells(lines[0])
    if len(cells) < len(NEEDED):
        raise member.error(_one_column(lines[0], cells, dialect))
    has_header = header == "yes" or (
        header == "auto" and _is_header(cells, _second(lines, dialect), columns)
    )
    positions = (
        _by_name(member, cells, columns) if has_header else _by_place(member, cells, columns)
    )
    if len(set(positions.values())) < len(positions):
        raise UsageError(f"{member.label}: two of {', '.join(positions)} are the same column")
    return Layout(len(cells), has_header, positions)


def _second(lines: list[bytes], dialect: Dialect) -> list[str]:
    try:
        return dialect.cells(lines[1])
    except (IndexError, pa.ArrowInvalid):  # nothing there, or the start of a quoted cell
        return []


def _is_header(cells: list[str], second: list[str], columns: Mapping[str, str]) -> bool:
    """Columns asked for by name are a header; else names stand above numbers."""
    if any(not column.isdecimal() for column in columns.values()):
        return True
    if all(role in cells for role in NEEDED):
        return True
    return not any(map(_is_number, cells)) and any(map(_is_number, second))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _one_column(line: bytes, cells: list[str], dialect: Dialect) -> str:
    text = line.decode("utf-8", "replace")
    likely = next((mark for mark in LIKELY if mark in text), None)
    if likely is None:
        return f"has one column, '{shown(cells[0])}', where user and item are needed"
    word = {"\t": "tab", " ": "space"}.get(likely, likely)
    return f"has one column when split at {dialect.delimiter!r}; pass delimiter='{word}'"


def _by_name(member: Member, names: list[str], columns: Mapping[str, str]) -> dict[str, int]:
    """Find columns in a header; unless some are named, those called like their roles."""
    named = () if columns else tuple(role for role in ROLES if role in names)
    wanted = {role: role for role in (*NEEDED, *named)} | dict(columns)
    return {role: _position(member, names, column) for role, column in wanted.items()}


def _position(member: Member, names: list[str], column: str) -> int:
    if names.count(column) == 1:
        return names.index(column)
    if column in names:
        raise member.error(f"has {names.count(column)} columns called '{column}'")
    if column.isdecimal() and int(column) < len(names):
        return int(column)
    lower = {name.lower(): name for name in reversed(names)}
    close = difflib.get_close_matches(column.lower(), lower, n=1, cutoff=0.5)
    hint = f"did you mean '{shown(lower[close[0]])}'? " if close else ""
    place = "; without a header, give positions from 0" if any(map(_is_number, names)) else ""
    if len(names) > 2 and all(map(_is_number, names)):
        place += ", or take the reader adjacency if a line is a user and the items of that user"
    raise member.error(f"has no column '{column}'; {hint}it has {shown(', '.join(names))}{place}")


def _by_place(member: Member, cells: list[str], columns: Mapping[str, str]) -> dict[str, int]:
    """Find columns by number; unless told otherwise, the first two are user and item."""
    wanted = {"user": "0", "item": "1"} | dict(columns)
    for role, column in wanted.items():
        if not column.isdecimal():
            raise member.error(
                f"has no header, so the {role} column needs a number from 0, not '{column}'; "
                "pass header=yes if the first line is one"
            )
        if int(column) >= len(cells):
            raise member.error(f"has {len(cells)} columns, so there is no column {column} from 0")
    return {role: int(column) for role, column in wanted.items()}
