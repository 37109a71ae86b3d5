"""How fits went, as a section of the report: a metric and the objective, round by round."""

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from recbench.campaign import traces
from recbench.campaign.folder import Campaign
from recbench.campaign.row import Row
from recbench.campaign.selection import ranked, selected
from recbench.errors import RecbenchError
from recbench.models.rounds import Trace
from recbench.params import format_value
from recbench.registry import MODELS, build
from recbench.report.html import charts
from recbench.report.html.document import Figure, charts_of

ABOVE = "objective above the least"
"""How far an objective is above the least that any trial with it came to, as a share of that."""


def section(campaign: Campaign, rows: Sequence[Row], select: str) -> str:
    """The curves and what they are of."""
    drawings = figures(campaign, rows, select)
    if not drawings:
        return ""
    return (
        f"<h2>Convergence</h2><p>Validation {escape(select)} and objective, round by round; the "
        "selected trials first. Seconds are those of the fit alone. Objectives are drawn as their "
        "distance to the least value in the traces of all trials that minimise the same, as a "
        f"share of it; whatever is that value has no point.</p>{charts_of(drawings)}"
    )


def figures(campaign: Campaign, rows: Sequence[Row], select: str) -> list[Figure]:
    """Curves of the trials that have a trace; of many, those selected and then the best."""
    chosen = selected(rows, select)
    able = [row for row in ranked(rows, select) if row.part == "valid" and row.status == "ok"]
    able.sort(key=lambda row: row.trial not in chosen)
    entries = {row.trial: _rounds(campaign, row) for row in able}
    traced = [row for row in able if entries[row.trial]]
    shown = traced[: charts.SERIES]
    least = least_of((_goal(row), entries[row.trial]) for row in traced)
    curves = {
        label: with_distance(entries[row.trial], least[_goal(row)])
        for label, row in zip(_labels(shown), shown, strict=True)
    }
    return drawn(curves, select)


def drawn(curves: Mapping[str, Trace], select: str) -> list[Figure]:
    """All curves in one drawing, for each of two quantities against each of two costs."""
    drawings = [
        _figure(curves, "seconds", select, "x"),
        _figure(curves, "round", select, ""),
        _figure(curves, "seconds", ABOVE, "xy"),
        _figure(curves, "round", ABOVE, "y"),
    ]
    return [figure for figure in drawings if figure is not None]


def with_distance(rounds: Trace, least: float) -> list[dict[str, float]]:
    """Rounds with their numbers, and how far each is above the least objective."""
    name = minimised(rounds)
    return [
        {"round": number, **entry, **_above(entry.get(name), least)}
        for number, entry in enumerate(rounds)
    ]


def minimised(rounds: Trace) -> str:
    """What a trace calls its objective; where it has none, the mean loss of steps stands for it."""
    return "objective" if any("objective" in entry for entry in rounds) else "loss"


def least_of(courses: Iterable[tuple[str, Trace]]) -> dict[str, float]:
    """By goal, the least objective in any trace with it."""
    found: dict[str, float] = {}
    for goal, rounds in courses:
        name = minimised(rounds)
        known = [entry[name] for entry in rounds if name in entry]
        found[goal] = min([*known, found.get(goal, math.inf)])
    return found


def _above(objective: float | None, least: float) -> dict[str, float]:
    """The least itself has no place on a logarithmic axis."""
    if objective is None or least == 0 or not objective > least:
        return {}
    return {ABOVE: (objective - least) / abs(least)}


def _goal(row: Row) -> str:
    """What the model of a trial minimises; of one that is not known here, what nobody else does."""
    try:
        return str(build(row.text, MODELS).goal)
    except RecbenchError:
        return row.text


def _rounds(campaign: Campaign, row: Row) -> list[dict[str, float]]:
    """The trace of a trial, if it has one and it is as it was written."""
    path = traces.path_of(campaign.folder, row.trial)
    if path.exists():
        campaign.content(row, path)
    return traces.read(path)


def _labels(rows: Sequence[Row]) -> list[str]:
    """What tells one trial from the others of its model, beside its name."""
    return [
        " ".join([row.model, *_differences(row, [r for r in rows if r.model == row.model])])
        for row in rows
    ]


def _differences(row: Row, others: Sequence[Row]) -> list[str]:
    words = [
        f"{name}={format_value(value)}"
        for name, value in row.parameters.items()
        if any(other.parameters.get(name) != value for other in others)
    ]
    seeds = len({other.seed for other in others}) > 1
    return [*words, f"seed {row.seed}"] if seeds else words


def _figure(curves: Mapping[str, Trace], x: str, y: str, log: str) -> Figure | None:
    """One quantity against another, for curves that have both; axes of `log` are logarithmic."""
    series = {
        name: [
            (entry[x], entry[y], f"{name}: {y} {entry[y]:.5g}, {x} {entry[x]:.4g}")
            for entry in rounds
            if x in entry and y in entry
        ]
        for name, rounds in curves.items()
    }
    series = {name: points for name, points in series.items() if points}
    if not series:
        return None
    name = f"convergence-{y}-{x}".replace(" ", "-")
    return Figure(f"{y} by {x}", name, charts.lines(series, x, y, log="x" in log, log_y="y" in log))
