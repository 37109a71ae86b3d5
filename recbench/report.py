"""Results as tables for people: on the console, or as CSV, Markdown or JSON."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd

from recbench.registry import format_value
from recbench.results import Row, metric_names, selected

if TYPE_CHECKING:
    from rich.table import Table

MOST_LINES = 40
FORMATS = ("rich", "csv", "md", "json")


@dataclass
class View:
    """One table: a title, a frame, the rows to mark, and what a reader must know."""

    title: str
    frame: pd.DataFrame
    marked: Collection[int] = ()
    notes: list[str] = field(default_factory=list)
    digits: Mapping[str, int] = field(default_factory=dict)


def views(rows: Iterable[Row], select: str) -> list[View]:
    """The validation table and the test table of a run or a campaign."""
    listed = sorted(rows, key=lambda row: (row.model, _numbers(row), row.text, row.seed))
    chosen = selected(listed, select)
    valid = [row for row in listed if row.part == "valid"]
    test = [row for row in listed if row.part == "test"]
    made = [_valid_view(valid, chosen, select)] if valid else []
    if test:
        made.append(_test_view(test, chosen))
    failures = [row for row in listed if row.status != "ok"]
    if made and failures:
        made[0].notes += [f"{row.text}: {row.status}: {row.reason}" for row in failures]
    return made


def _numbers(row: Row) -> list[tuple[str, float]]:
    """Sort key: parameters as numbers where they are, so that 10 comes after 9."""
    return [
        (name, float(value) if isinstance(value, int | float) else -1.0)
        for name, value in sorted(row.parameters.items())
    ]


def _valid_view(rows: Sequence[Row], chosen: Collection[str], select: str) -> View:
    shown = list(rows)
    notes = []
    if len(shown) > MOST_LINES:
        best = sorted(shown, key=lambda row: -row.metrics.get(select, float("-inf")))[:MOST_LINES]
        shown = [row for row in shown if row in best]
        notes.append(f"the best {MOST_LINES} of {len(rows)} trials; all are in metrics.csv")
    marked = [i for i, row in enumerate(shown) if row.trial in chosen]
    view = View(f"Validation, {_users(shown)} users; * is best by {select}", _frame(shown), marked)
    view.notes += notes
    return view


def _test_view(rows: Sequence[Row], chosen: Collection[str]) -> View:
    others = sum(row.trial not in chosen for row in rows)
    title = f"Test, {_users(rows)} users; the trials selected on validation"
    if not others:
        return View(title, _frame(rows, every=True))
    view = View(f"Test, {_users(rows)} users", _frame(rows, every=True))
    view.marked = [i for i, row in enumerate(rows) if row.trial in chosen]
    view.notes.append(
        f"{others} of these {len(rows)} trials were not selected on validation (* was): "
        "the best of them is not an estimate of anything"
    )
    return view


def _users(rows: Sequence[Row]) -> str:
    return f"{max((row.users for row in rows), default=0):,}"


def _frame(rows: Sequence[Row], every: bool = False) -> pd.DataFrame:
    """Model, the parameters that vary (or every one), metrics and seconds."""
    varying = _varying(rows)
    seeds = len({row.seed for row in rows}) > 1
    lines = []
    for row in rows:
        names = row.parameters if every else [n for n in row.parameters if n in varying]
        words = [
            f"{n}={format_value(row.parameters[n])}" for n in names if row.parameters[n] is not None
        ]
        line: dict[str, Any] = {"model": row.model, "parameters": " ".join(words)}
        line |= {"seed": row.seed} if seeds else {}
        line |= {name: row.metrics.get(name) for name in metric_names(rows)}
        line |= {"fit s": row.fit_seconds, "rank s": row.score_seconds}
        lines.append(line)
    return pd.DataFrame(lines)


def _varying(rows: Sequence[Row]) -> set[str]:
    """Parameters that take more than one value within some model."""
    seen: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        for name, value in row.parameters.items():
            seen.setdefault((row.model, name), set()).add(format_value(value))
    return {name for (_, name), values in seen.items() if len(values) > 1}


def rich_table(view: View) -> "Table":
    """The view as a console table: numbers to the right, the marked rows bold."""
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    table = Table(
        title=escape(view.title), title_justify="left", box=SIMPLE_HEAD, caption_justify="left"
    )
    for name in view.frame.columns:
        right = pd.api.types.is_numeric_dtype(view.frame[name])
        table.add_column(name, justify="right" if right else "left", no_wrap=right, overflow="fold")
    for position, line in enumerate(view.frame.itertuples(index=False)):
        cells = [escape(_cell(n, value)) for n, value in zip(view.frame.columns, line, strict=True)]
        marked = position in view.marked
        cells[0] += " *" if marked else ""
        table.add_row(*cells, style="bold" if marked else None)
    if view.notes:
        table.caption = escape("\n".join(view.notes))
    return table


def _cell(name: str, value: Any) -> str:
    if isinstance(value, float):
        if value != value:
            return "–"
        return f"{value:.2f}" if name.endswith(" s") else f"{value:.4f}"
    return "–" if value is None else str(value)


def text(made: Sequence[View], kind: str) -> str:
    """The views in a format for files and other programs; numbers in full."""
    if kind == "json":
        tables = [{"title": v.title, "notes": v.notes, "rows": _records(v)} for v in made]
        return json.dumps(tables, indent=1)
    if kind == "csv":
        return "\n".join(_with_part(view).to_csv(index=False) for view in made).rstrip("\n")
    return "\n\n".join(_markdown(view) for view in made)


def _records(view: View) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = json.loads(
        view.frame.to_json(orient="records", double_precision=15)
    )
    return [{**r, "selected": i in view.marked} for i, r in enumerate(records)]


def _with_part(view: View) -> pd.DataFrame:
    return view.frame.assign(part=view.title.split(",")[0].lower())


def _markdown(view: View) -> str:
    names = list(view.frame.columns)
    lines = [view.title, "", "| " + " | ".join(names) + " |", "|" + " --- |" * len(names)]
    for position, row in enumerate(view.frame.itertuples(index=False)):
        cells = [_cell(name, value) for name, value in zip(names, row, strict=True)]
        if position in view.marked:
            cells = [f"**{cell}**" if cell else "" for cell in cells]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, *(["", *view.notes] if view.notes else [])])
