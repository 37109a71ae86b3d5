"""A trial as a panel of the board: everything that is known of it, and of how it was made."""

from collections.abc import Iterable, Sequence
from html import escape

from recbench.campaign.row import Row
from recbench.params import format_value
from recbench.report.board.blocks import Line, slug
from recbench.report.html.document import provenance
from recbench.report.leaderboard import PARTS


def panel(line: Line, select: str) -> str:
    """The panel that a number leads to: it is there when its address is."""
    rows = _all_rows(line)
    first = line.first
    how = (
        f"chosen among {line.tried} by {line.select} on validation"
        if line.tried
        else "settings chosen beforehand"
    )
    runs = line.source.runs_of(first)
    made = provenance(runs[0]) if len(runs) == 1 else _one_of(line, len(runs))
    return (
        f"<section class=trial id={line.id} aria-label=trial>"
        f'<a class=close href="#r-{line.id}" aria-label=close>✕</a>'
        f"<h3>{escape(line.standing.model)}</h3>"
        f"<p>{escape(first.dataset)}, {escape(first.split)}; {how}; in "
        f'<a href="#c-{slug(line.source.name)}">{escape(line.source.name)}</a></p>'
        f"<h4>Parameters</h4>{_parameters(line)}"
        f"<h4>The full rows</h4><div class=scroll>{_rows(rows)}</div>"
        f"<h4>How it was made</h4>{made}</section>"
    )


def _one_of(line: Line, count: int) -> str:
    """Where to look for its run, if nothing says which it was."""
    folder = f'<a href="#c-{slug(line.source.name)}">{escape(line.source.name)}</a>'
    return f"<p>By one of the {count} runs of {folder}; no costs.csv says which.</p>"


def _all_rows(line: Line) -> list[Row]:
    """What is known of its trials, on every part."""
    trials = {row.trial for row in line.standing.rows}
    return [row for row in line.source.rows if row.trial in trials]


def _parameters(line: Line) -> str:
    first = line.first
    known = {name: format_value(value) for name, value in first.parameters.items()}
    return _list((known or {"text": first.text}).items())


def _rows(rows: Sequence[Row]) -> str:
    """A column for each row of the log or table, numbers in full."""
    facts = [_facts(row) for row in rows]
    names = dict.fromkeys(name for known in facts for name in known)
    lines = "".join(
        f"<tr><th>{escape(name)}</th>"
        + "".join(f"<td>{escape(known.get(name, '–'))}</td>" for known in facts)
        + "</tr>"
        for name in names
    )
    return f"<table>{lines}</table>"


def _facts(row: Row) -> dict[str, str]:
    known = {
        "part": PARTS[row.part], "trial": row.trial, "seed": str(row.seed), "dtype": row.dtype,
        "status": row.status, "reason": row.reason, "users": f"{row.users:,}",
        **{name: repr(value) for name, value in (*row.metrics.items(), *row.facts.items())},
        "rounds": str(row.rounds or ""),
        "fit s": _seconds(row.fit_seconds), "rank s": _seconds(row.score_seconds),
        "peak GB": f"{row.peak_bytes / 1e9:.3f}" if row.peak_bytes else "",
        "content": row.fingerprint, "run": row.run,
    }  # fmt: skip
    return {name: value for name, value in known.items() if value}


def _seconds(value: float) -> str:
    return f"{value:.3f}" if value else ""


def _list(pairs: Iterable[tuple[str, str]]) -> str:
    lines = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in pairs)
    return f"<dl>{lines}</dl>"
