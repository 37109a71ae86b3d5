"""The log as tables: metrics.csv, and costs.csv with what depends on the machine and the day."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from recbench.campaign.row import STOPPED, Row, fact_columns, facts_by_column, metric_names
from recbench.campaign.selection import selected
from recbench.errors import without_codes

FORMULAS = ("=", "+", "-", "@", "\t", "\r")
"""How cells begin that spreadsheets compute."""


def table(rows: Iterable[Row], select: str) -> pd.DataFrame:
    """One line per trial and part, in an order that does not depend on when they were run."""
    listed = _listed(rows)
    chosen = selected(listed, select)
    names, facts = metric_names(listed), fact_columns(listed)
    stopped = any(row.stopped_at for row in listed)
    lines = []
    for row in listed:
        line: dict[str, Any] = {
            "dataset": row.dataset, "split": row.split, "model": row.model, "parameters": row.text,
            "seed": row.seed, "part": row.part, "selected": row.trial in chosen,
        }  # fmt: skip
        line |= {name: row.metrics.get(name) for name in names}
        line |= facts_by_column(row, facts)
        line |= {STOPPED: row.stopped_at} if stopped else {}
        line |= {"users": row.users, "status": row.status, "reason": row.reason, "trial": row.trial}
        lines.append(line)
    return frame_of(lines, [*facts.values(), *([STOPPED] if stopped else [])])


def costs(rows: Iterable[Row]) -> pd.DataFrame:
    """What each trial cost, and which run in the manifest says where; lines as in `table`."""
    return pd.DataFrame([
        {
            "trial": row.trial, "part": row.part, "fit s": round(row.fit_seconds, 3),
            "rank s": round(row.score_seconds, 3), "compile s": round(row.compile_seconds, 3),
            "peak GB": round(row.peak_bytes / 1e9, 3), "run": row.run,
        }
        for row in _listed(rows)
    ])  # fmt: skip


def _listed(rows: Iterable[Row]) -> list[Row]:
    """In an order that does not depend on when they were run."""
    return sorted(
        rows, key=lambda r: (r.dataset, r.split, r.model, r.text, r.seed, r.part != "valid")
    )


def csv_text(frame: pd.DataFrame) -> str:
    """A table as csv: what a spreadsheet or a terminal would obey is made the text it is."""
    words = frame.select_dtypes(include=["object", "string"])
    marked = words.map(lambda cell: _as_text(cell) if isinstance(cell, str) else cell)
    return str(frame.assign(**{str(name): marked[name] for name in marked}).to_csv(index=False))


def _as_text(cell: str) -> str:
    return without_codes(f"'{cell}" if cell.startswith(FORMULAS) else cell)


def frame_of(lines: Sequence[Mapping[str, Any]], facts: Iterable[str]) -> pd.DataFrame:
    """Lines as a table in which facts stay whole numbers where some lines have none."""
    frame = pd.DataFrame(lines)
    for name in facts:
        frame[name] = pd.Series([line[name] for line in lines], dtype=object)
    return frame
