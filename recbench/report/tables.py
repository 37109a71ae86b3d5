"""One table, many formats: on the console, or as CSV, Markdown, LaTeX or JSON.

A `View` keeps its numbers in full in one frame. Files for programs get the frame as it is; tables
for people get cells: a rounded number, ± its spread, the letters of what it is better than.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pandas as pd

from recbench.errors import printable, without_codes

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.table import Table
    from rich.text import Text

FORMATS = ("rich", "csv", "md", "latex", "json")
SPREAD, LOW, HIGH, BETTER = BESIDE = (" std", " low", " high", " better than")
"""Endings of the columns that say more about the number in the column they are named after."""
DIGITS = 4
EDGE = "|"
FOLDS = ("@", "@- ", "@- " + EDGE)
"""Where headings are folded to make a table narrower, one after the other; last, its margins go."""
HEADS = ("#", "model")
"""Columns that say what a line is about."""
FOLDED = 20
"""Text is folded to columns as narrow as this, or as its longest word."""
SECONDS = 2
STRESS = {"": ("", ""), "bold": ("**", "**"), "underlined": ("<u>", "</u>")}
"""What stands around text in Markdown."""


@dataclass
class View:
    """One table: a title, a frame, the rows to mark, and what a reader must know."""

    title: str
    frame: pd.DataFrame
    marked: Collection[int] = ()
    notes: list[str] = field(default_factory=list)
    ranked: Collection[str] = ()
    """Columns whose best value is bold and whose second best is underlined; more is better."""
    unseen: Collection[str] = ()
    """Columns for programs, left out of tables for people."""
    spare: Sequence[str] = ()
    """Columns left out, in this order, until the others fit a screen; intervals by their LOW."""
    groups: Sequence[tuple[str, Sequence[str]]] = ()
    """Columns that stand under one heading, which their names begin with."""
    part: str = ""
    mark: str = "selected"
    """What programs call being marked."""
    digits: int = DIGITS
    """Decimals of numbers, but for those of seconds and gigabytes."""

    @property
    def columns(self) -> list[str]:
        """The columns people see."""
        names = [str(name) for name in self.frame.columns]
        return [n for n in names if n not in self.unseen and not n.endswith(BESIDE)]

    @property
    def data(self) -> pd.DataFrame:
        """The frame for programs, with the part the values are of."""
        return self.frame.assign(part=self.part) if self.part else self.frame

    def is_number(self, name: str) -> bool:
        """Whether a column is written to the right: numbers, of which some may be missing."""
        values = self.frame[name].dropna()
        return all(
            isinstance(value, int | float) and not isinstance(value, bool) for value in values
        )


@dataclass(frozen=True)
class Cell:
    """What a table for people says at one place."""

    text: str
    beside: str = ""
    """± and a spread, or an interval."""
    better: str = ""
    place: int = 0
    """1 for the best value of its column, 2 for the second, 0 for others."""

    def stress(self, marked: bool) -> str:
        """How its text stands out: bold where it is best or its row marked, or underlined."""
        if self.text and (marked or self.place == 1):
            return "bold"
        return "underlined" if self.place == 2 else ""


def cells(view: View) -> dict[str, list[Cell]]:
    """The columns people see, as text."""
    return {name: _column(view, name) for name in view.columns}


def _column(view: View, name: str) -> list[Cell]:
    values = view.frame[name].tolist()
    spread, low, high, better = (_beside(view.frame, name + ending) for ending in BESIDE)
    places = _places(values) if name in view.ranked else [0] * len(values)
    return [
        Cell(
            written(name, value, view.digits),
            _uncertainty(*beside),
            shortened(letters or ""),
            place,
        )
        for value, *beside, letters, place in zip(
            values, spread, low, high, better, places, strict=True
        )
    ]


def _beside(frame: pd.DataFrame, name: str) -> list[Any]:
    return frame[name].tolist() if name in frame else [None] * len(frame)


def _places(values: Sequence[float]) -> list[int]:
    """1 for the highest value, 2 for the next one below it; a lone value is no winner."""
    known = sorted({value for value in values if not is_missing(value)}, reverse=True)
    places = {value: place for place, value in enumerate(known[:2], start=1)}
    return [places.get(value, 0) if len(values) > 1 else 0 for value in values]


def is_missing(value: Any) -> bool:
    """Whether there is nothing to write: None or NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def written(name: str, value: Any, digits: int = DIGITS) -> str:
    """A value as tables for people write it."""
    if is_missing(value):
        return "–"
    if isinstance(value, float):
        return _rounded(value, SECONDS if name.endswith((" s", " GB")) else digits)
    return printable(str(value))


def _rounded(value: float, digits: int = DIGITS) -> str:
    """So many digits, and no sign before zero."""
    return f"{value:z.{digits}f}"


def _uncertainty(spread: float | None, low: float | None, high: float | None) -> str:
    if spread is not None and not is_missing(spread):
        return f"± {_rounded(spread)}"
    if low is None or high is None or is_missing(low):
        return ""
    return f"[{_rounded(low)}, {_rounded(high)}]"


def shortened(letters: str) -> str:
    """`bcde` as `b-e`: runs of three letters and more by their ends."""
    runs = groupby(enumerate(letters), key=lambda pair: ord(pair[1]) - pair[0])
    words = ["".join(letter for _, letter in run) for _, run in runs]
    return "".join(f"{word[0]}-{word[-1]}" if len(word) > 2 else word for word in words)


def rich_view(view: View, console: "Console") -> "Group":
    """The view for the console: numbers to the right, marked rows bold, notes below."""
    from rich.console import Group
    from rich.text import Text

    tables, dropped = _fitting(view, console)
    notes = list(view.notes)
    if dropped:
        names = ", ".join(name.replace(LOW, " [ ]") for name in dropped)
        notes.append(f"no room for {names}: a wider screen or --format csv has all")
    parts: list[Any] = [Text(without_codes(view.title), style="italic")]
    for table in tables:
        parts += [table] if table.show_edge else [Text(), table]
    parts += [] if tables[-1].show_edge else [Text()]
    return Group(*parts, *(Text(without_codes(note), style="dim") for note in notes))


def _fitting(view: View, console: "Console") -> "tuple[Sequence[Table], Sequence[str]]":
    """The view as one table that fits a screen, and what of `spare` is left out for that.

    Without what may be left out, headings are folded and margins dropped. What is too wide even so
    becomes several tables, one below the other. Numbers and names of models are never cut.
    """
    table = _rich_table(view)
    if _widths(console, table)[1] <= console.width:
        return [table], ()
    spare = [name for name in view.spare if name in view.frame]
    for count in range(len(spare) + 1):
        less = replace(view, frame=view.frame.drop(columns=spare[:count]))
        for folds in FOLDS:
            table = _rich_table(less, folds)
            if _widths(console, table)[0] <= console.width:
                return [table], spare[:count]
    return _panels(less, console), spare


def _panels(view: View, console: "Console") -> "list[Table]":
    """Tables of so many columns as fit a screen, each with those that say what a line is about."""
    first = [name for name in view.columns if name in HEADS] or view.columns[:1]
    runs: list[list[str]] = [[]]
    for name in view.columns:
        if name in first:
            continue
        table = _rich_table(view, FOLDS[-1], [*first, *runs[-1], name])
        if runs[-1] and _widths(console, table)[0] > console.width:
            runs.append([])
        runs[-1].append(name)
    tables = [_rich_table(view, FOLDS[-1], [*first, *run]) for run in runs]
    for table in tables:
        needed, _ = _widths(console, table)
        table.width = needed if needed > console.width else None
    return tables


def _widths(console: "Console", table: "Table") -> tuple[int, int]:
    """The columns of a screen that a table needs at least, and those it would like to have."""
    from rich.measure import Measurement

    measure = Measurement.get(console, console.options.update(width=10_000), table)
    return measure.minimum, measure.maximum


def _rich_table(view: View, folds: str = "", names: Sequence[str] = ()) -> "Table":
    """The columns of these names, by default all, with headings folded at these letters."""
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    shown = names or view.columns
    columns = {name: column for name, column in cells(view).items() if name in shown}
    texts = [_aligned(column) for column in columns.values()]
    for position in view.marked:
        texts[0][position].append(" *")
    margin = EDGE not in folds
    table = Table(box=SIMPLE_HEAD, show_edge=margin, pad_edge=margin)
    for (name, column), lines in zip(columns.items(), texts, strict=True):
        plain = view.is_number(name) and not any(cell.beside or cell.better for cell in column)
        whole, head = view.is_number(name) or name == "model", _folded(name, folds)
        words = [word for line in lines for word in ([line.plain] if whole else _words(line))]
        justify: Any = "right" if plain else "left"
        table.add_column(
            escape(without_codes(head)), justify=justify, no_wrap=whole, overflow="fold",
            min_width=max(map(len, [*words, *head.split("\n")]), default=1),
        )  # fmt: skip
    for position, row in enumerate(zip(*texts, strict=True)):
        table.add_row(*row, style="bold" if position in view.marked else None)
    return table


def _folded(name: str, folds: str) -> str:
    """A heading on several lines, which makes its column narrower; `A - B` stays whole."""
    if "@" in folds:
        name = name.replace("@", "\n@")
    if "-" in folds and "@" in name:
        name = name.replace("-", "-\n")
    return name.replace(" ", "\n") if " " in folds and " - " not in name else name


def _words(text: "Text") -> list[str]:
    """What a folded text is cut into: words, and pieces of a few short ones."""
    return [text.plain[:FOLDED], *(word[:FOLDED] for word in text.plain.split())]


def _aligned(column: Sequence[Cell]) -> "list[Text]":
    """The cells of a column; where something stands beside numbers, all are padded to one width."""
    from rich.text import Text

    number, beside, better = (
        max((len(getattr(cell, part)) for cell in column), default=0)
        for part in ("text", "beside", "better")
    )
    texts = []
    for cell in column:
        pad = number - len(cell.text) if beside or better else 0
        text = Text(" " * pad).append(cell.text, style=("", "bold", "underline")[cell.place])
        text.append(f" {cell.beside:<{beside}}" if beside else "", style="dim")
        text.append(f" {cell.better:<{better}}" if better else "", style="dim")
        texts.append(text)
    return texts


def markdown(view: View) -> str:
    """The view as a Markdown table; HTML where Markdown has no mark for it."""
    columns = cells(view)
    head = "| " + " | ".join(_plain_markdown(name) for name in columns) + " |"
    rule = "|" + "|".join(" ---: " if view.is_number(n) else " --- " for n in columns) + "|"
    lines = [view.title, "", head, rule]
    for position, line in enumerate(zip(*columns.values(), strict=True)):
        marked = position in view.marked
        lines.append("| " + " | ".join(_markdown_cell(cell, marked) for cell in line) + " |")
    return "\n".join([*lines, *(["", *(f"- {note}" for note in view.notes)] if view.notes else [])])


def _markdown_cell(cell: Cell, marked: bool) -> str:
    before, after = STRESS[cell.stress(marked)]
    number = before + _plain_markdown(cell.text) + after
    beside = f" {cell.beside}" if cell.beside else ""
    return number + beside + (f" <sup>{cell.better}</sup>" if cell.better else "")


def _plain_markdown(words: str) -> str:
    return words.replace("|", "\\|")
