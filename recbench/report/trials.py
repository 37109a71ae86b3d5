"""The trials of a run or a campaign as tables, one line each."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from recbench.campaign.budget import Contest, Tuning, tuning_columns, tunings, unbegun_notes
from recbench.campaign.row import STOPPED, Row, fact_columns, facts_by_column, metric_names
from recbench.campaign.selection import ranked, selected
from recbench.campaign.table import frame_of
from recbench.errors import counted
from recbench.params import format_value
from recbench.report.edges import edge_notes
from recbench.report.tables import View

MOST_LINES = 40
MOST_FAILURES = 5


def views(
    rows: Iterable[Row], select: str, unbegun: Mapping[str, int] | None = None,
    most: int = MOST_LINES,
) -> list[View]:  # fmt: skip
    """The validation table and the test table of a run or a campaign."""
    listed = sorted(rows, key=lambda row: (row.model, _numbers(row), row.text, row.seed))
    chosen = selected(listed, select)
    valid = [row for row in listed if row.part == "valid"]
    test = [row for row in listed if row.part == "test"]
    tables = [_valid_view(valid, chosen, select, most)] if valid else []
    if test:
        tables.append(_test_view(test, chosen, tunings(valid)))
    failures = [row for row in listed if row.status != "ok"]
    if tables:
        tables[0].notes += stopped_notes(listed)
        tables[0].notes += [*unbegun_notes(unbegun or {}), *edge_notes(listed, select)]
    if tables and failures:
        tables[0].notes += failure_notes(failures)
    return tables


def stopped_notes(rows: Sequence[Row]) -> Iterator[str]:
    """How many trials a search stopped."""
    count = sum(row.stopped_at is not None for row in rows)
    if count:
        yield f"{counted(count, 'trial')} stopped early by the search: measured there, not selected"


def failure_notes(failures: Sequence[Row]) -> Iterator[str]:
    """Which trials have no numbers, and why; after a few of them, how many more."""
    told = list(dict.fromkeys(f"{row.text}: {row.status}: {row.reason}" for row in failures))
    yield from told[:MOST_FAILURES]
    if len(told) > MOST_FAILURES:
        yield f"{len(told) - MOST_FAILURES} more have no numbers: metrics.csv says why"


def _numbers(row: Row) -> list[tuple[str, float]]:
    """Sort key: parameters as numbers where they are, so that 10 comes after 9."""
    return [
        (name, float(value) if isinstance(value, int | float) else -1.0)
        for name, value in sorted(row.parameters.items())
    ]


def _valid_view(rows: Sequence[Row], chosen: Collection[str], select: str, most: int) -> View:
    shown, notes = list(rows), []
    if len(shown) > most:
        best = {row.trial for row in ranked(shown, select)[:most]}
        shown = [row for row in shown if row.trial in best]
        notes.append(f"the best {most} of {len(rows)} trials; all are in metrics.csv")
    marked = [i for i, row in enumerate(shown) if row.trial in chosen]
    title = f"Validation, {_users(shown)}"
    title += f"; * is best by {select}" if marked else ""
    view = View(title, _frame(shown), marked, part="validation", spare=_spare(rows))
    view.notes += notes
    return view


def _test_view(
    rows: Sequence[Row], chosen: Collection[str], tuned: Mapping[Contest, Tuning]
) -> View:
    others = sum(row.trial not in chosen for row in rows)
    untuned = any((row.place, row.rival) not in tuned for row in rows)
    how = "settings chosen beforehand" if untuned else "the trials selected on validation"
    if untuned and tuned:
        how = "the trials selected on validation, and settings chosen beforehand"
    title = f"Test, {_users(rows)}; {how}"
    if not others or all(row.status != "ok" for row in rows):
        frame = _frame(rows, every=True)
        had = pd.DataFrame([tuning_columns(tuned, [row]) for row in rows])
        frame = frame.join(had.dropna(axis="columns", how="all"))
        return View(title, frame, part="test", spare=_spare(rows))
    view = View(f"Test, {_users(rows)}", _frame(rows, every=True), part="test")
    view.spare = _spare(rows)
    view.marked = [i for i, row in enumerate(rows) if row.trial in chosen]
    view.notes.append(
        f"{others} of these {len(rows)} trials were not selected on validation (* was): "
        "the best of them is not an estimate of anything"
    )
    return view


def _spare(rows: Sequence[Row]) -> list[str]:
    return ["rank s", *reversed(fact_columns(rows).values()), "fit s", "tuning s", "tried"]


def _users(rows: Sequence[Row]) -> str:
    """How many users were ranked for, by those that were."""
    users = [row.users for row in rows if row.status == "ok"]
    return counted(max(users), "user") if users else "nothing was measured"


def _frame(rows: Sequence[Row], every: bool = False) -> pd.DataFrame:
    """Model, the parameters that vary (or every one), metrics, facts and seconds."""
    varying, facts = _varying(rows), fact_columns(rows)
    stopped = any(row.stopped_at for row in rows)
    seeds = len({row.seed for row in rows}) > 1
    lines = []
    for row in rows:
        names = row.parameters if every else [n for n in row.parameters if n in varying]
        words = [
            f"{n}={format_value(row.parameters[n])}"
            for n in names
            if row.parameters[n] not in (None, "")
        ]
        line: dict[str, Any] = {"model": row.model, "parameters": " ".join(words)}
        line |= {"seed": row.seed} if seeds else {}
        line |= {name: row.metrics.get(name) for name in metric_names(rows)}
        line |= {STOPPED: row.stopped_at} if stopped else {}
        line |= facts_by_column(row, facts)
        line |= {"fit s": row.fit_seconds, "rank s": row.score_seconds}
        lines.append(line)
    return frame_of(lines, [*facts.values(), *([STOPPED] if stopped else [])])


def _varying(rows: Sequence[Row]) -> set[str]:
    """Parameters that take more than one value within some model."""
    seen: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        for name, value in row.parameters.items():
            seen.setdefault((row.model, name), set()).add(format_value(value))
    return {name for (_, name), values in seen.items() if len(values) > 1}
