"""How fits went, as a section of the report: a metric and the objective, round by round."""

from collections.abc import Mapping, Sequence
from html import escape

from recbench.campaign import traces
from recbench.campaign.folder import Campaign
from recbench.campaign.row import Row
from recbench.campaign.selection import ranked, selected
from recbench.models.rounds import Trace
from recbench.params import format_value
from recbench.report.html import charts
from recbench.report.html.document import Figure, charts_of

FLAT = 0.1
"""Of the height of a chart: what all rounds but the first must span to be told apart."""


def section(campaign: Campaign, rows: Sequence[Row], select: str) -> str:
    """The curves and what they are of."""
    drawings = figures(campaign, rows, select)
    if not drawings:
        return ""
    return (
        f"<h2>Convergence</h2><p>Validation {escape(select)} and objective, round by round; the "
        "selected trials first. Seconds are those of the fit alone. An objective is drawn from its "
        f"second value where the first is far off the others.</p>{charts_of(drawings)}"
    )


def figures(campaign: Campaign, rows: Sequence[Row], select: str) -> list[Figure]:
    """Curves of the trials that have a trace; of many, those selected and then the best."""
    chosen = selected(rows, select)
    able = [row for row in ranked(rows, select) if row.part == "valid" and row.status == "ok"]
    able.sort(key=lambda row: row.trial not in chosen)
    entries = {row.trial: _rounds(campaign, row) for row in able}
    shown = [row for row in able if entries[row.trial]][: charts.SERIES]
    curves = {
        label: [{"round": number, **entry} for number, entry in enumerate(entries[row.trial])]
        for label, row in zip(_labels(shown), shown, strict=True)
    }
    drawings = [
        _figure(curves, "seconds", select, log=True),
        _figure(curves, "round", select),
        *(_figure({name: rounds}, "round", "objective") for name, rounds in curves.items()),
    ]
    return [figure for figure in drawings if figure is not None]


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


def _figure(curves: Mapping[str, Trace], x: str, y: str, *, log: bool = False) -> Figure | None:
    """One quantity against another, for the curves that have both."""
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
    if y == "objective":
        series = {name: _without_cliff(points) for name, points in series.items()}
    alone = next(iter(series)) if len(curves) == 1 else ""
    chart = charts.lines(series, x, y, log=log)
    return Figure(alone or f"{y} by {x}", f"convergence-{y}-{x}{'-' * bool(alone)}{alone}", chart)


def _without_cliff(points: list[charts.Point]) -> list[charts.Point]:
    """Leave out a start so far off that all the rest would be a flat line."""
    rest = [value for _, value, _ in points[1:]]
    if len(rest) < 2 or max(rest) - min(rest) >= FLAT * abs(points[0][1] - rest[0]):
        return points
    return points[1:]
