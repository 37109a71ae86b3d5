"""The charts of a campaign: what tuning, ranks, time and memory do to the metric that selects."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, cast

from recbench.campaign.row import Row, fact_columns
from recbench.campaign.selection import best, candidates
from recbench.params import format_value
from recbench.report.html import charts
from recbench.report.html.document import Figure
from recbench.report.html.sweeps import Origin, sweeps

FULL = 0.5
"""The share of a grid over two parameters that must be there for a heat map of it."""
WIDE = 20
"""Values that span this factor are drawn on a logarithmic axis."""


def measured(rows: Sequence[Row], select: str) -> dict[str, list[Row]]:
    """The validation results to draw, by model."""
    models: dict[str, list[Row]] = {}
    for row in sorted(candidates(rows, select), key=lambda row: row.model):
        models.setdefault(row.model, []).append(row)
    return models


def costs(rows: Sequence[Row], select: str) -> Iterator[Figure]:
    """The metric against what it costs, for campaigns of several models."""
    models = measured(rows, select)
    if len(models) < 2:
        return
    measures: list[tuple[str, str, Callable[[Row], float]]] = [
        ("time", "fit seconds", lambda row: row.fit_seconds),
        ("memory", "peak GB", lambda row: row.peak_bytes / 1e9),
    ]
    for name, words, cost in measures:
        series = _points(models, cost, select)
        if len(series) > 1:
            chart = charts.lines(series, words, f"{select}, validation", log=True, joined=False)
            yield Figure(f"{select} against {words}", f"quality-{name}", chart)


def against_facts(rows: Sequence[Row], select: str) -> Iterator[Figure]:
    """The metric against what fits found out, such as the rank that a penalty left."""
    models = measured(rows, select)
    for name, column in fact_columns(rows).items():
        series = _points(models, _fact(name), select)
        if len({point[0] for points in series.values() for point in points}) > 1:
            chart = charts.lines(series, column, select, log=_wide(series), joined=False)
            yield Figure(f"{select} against {column}", f"quality-{column}", chart)


def _fact(name: str) -> Callable[[Row], float]:
    return lambda row: row.facts.get(name, 0)


def _points(
    models: Mapping[str, Sequence[Row]], x: Callable[[Row], float], select: str
) -> dict[str, list[charts.Point]]:
    """A point per trial that has an x above zero."""
    series = {
        model: [
            (x(row), row.metrics[select], f"{row.text}: {row.metrics[select]:.4f}")
            for row in rows
            if x(row) > 0
        ]
        for model, rows in models.items()
    }
    return {model: points for model, points in series.items() if points}


def _wide(series: Mapping[str, Sequence[charts.Point]]) -> bool:
    values = [point[0] for points in series.values() for point in points]
    return min(values) > 0 and max(values) / min(values) >= WIDE


def landscapes(
    rows: Sequence[Row], select: str, known: Mapping[str, Origin] = {}
) -> Iterator[Figure]:
    """For each model and campaign: the metric over the parameters that were varied."""
    for model, trials in measured(rows, select).items():
        found = sweeps(trials, known)
        for sweep in found:
            heading = ", ".join(filter(None, [model, sweep.words(found)]))
            yield from _of_sweep(heading, model, over_seeds(sweep.rows, select), select)


def _of_sweep(heading: str, model: str, tried: Sequence[Row], select: str) -> Iterator[Figure]:
    """A map, where most pairs of two parameters were tried, or a curve for each parameter."""
    varied = [name for name in tried[0].parameters if _varies(name, tried)]
    cells = _grid(varied, tried, select)
    if cells:
        chart = charts.heat(cells, varied[0], varied[1], select)
        yield Figure(heading, f"landscape-{model}-{varied[0]}-{varied[1]}", chart)
        return
    for name in varied:
        yield Figure(heading, f"landscape-{model}-{name}", _line(name, tried, varied, select))


def over_seeds(rows: Sequence[Row], select: str) -> list[Row]:
    """One row for each setting, with its mean over seeds."""
    settings: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        settings.setdefault((row.text, row.dtype), []).append(row)
    return [
        replace(same[0], metrics={select: fmean(row.metrics[select] for row in same)})
        for same in settings.values()
    ]


def _varies(name: str, rows: Sequence[Row]) -> bool:
    values = {row.parameters.get(name) for row in rows}
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    return len(numbers) > 1 and all(v is None or v in numbers for v in values)


def _grid(
    varied: Sequence[str], rows: Sequence[Row], select: str
) -> dict[tuple[float, float], float]:
    """The best value at each pair of two parameters; nothing if most pairs were not tried."""
    if len(varied) != 2:
        return {}
    cells: dict[tuple[float, float], float] = {}
    for row in rows:
        a, b = (row.parameters.get(name) for name in varied)
        if a is not None and b is not None:
            place = float(a), float(b)
            cells[place] = max(row.metrics[select], cells.get(place, row.metrics[select]))
    pairs = len({a for a, _ in cells}) * len({b for _, b in cells})
    return cells if len(cells) >= FULL * pairs else {}


def _number(row: Row, name: str) -> float:
    """The value of a parameter that `_varies` found to be a number."""
    return float(cast("float", row.parameters[name]))


def _line(name: str, rows: Sequence[Row], varied: Sequence[str], select: str) -> charts.Chart:
    """The metric along one parameter, the other varied ones as in the selected trial.

    Where a search did not walk along it, every trial is a point.
    """
    known = [row for row in rows if row.parameters.get(name) is not None]
    peak, others = best(rows, select), [other for other in varied if other != name]
    along = [row for row in known if _alike(row, peak, others)]
    joined = len(along) > 2 or len(along) == len(known)
    points = {
        name: [
            (_number(row, name), row.metrics[select], _said(name, row, select))
            for row in (along if joined else known)
        ]
    }
    return charts.lines(points, name, select, log=_wide(points), joined=joined)


def _alike(row: Row, other: Row, names: Sequence[str]) -> bool:
    return all(row.parameters.get(name) == other.parameters.get(name) for name in names)


def _said(name: str, row: Row, select: str) -> str:
    value: Any = row.parameters[name]
    return f"{name}={format_value(value)}: {row.metrics[select]:.5f}"
