"""A campaign as one HTML file: tables to sort, landscapes, costs, the machine. No network."""

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any

from recbench import charts
from recbench.registry import format_value
from recbench.report import View, views
from recbench.results import Campaign, Row, selected


def page(campaign: Campaign, select: str) -> str:
    """The whole file."""
    rows = list(campaign.rows().values())
    first = rows[0]
    made = views(rows, select)
    tables = [_table(view, best=view.title.startswith("Test")) for view in reversed(made)]
    runs = campaign.manifest()["runs"]
    parts = [
        f"<h1>{escape(first.dataset)}, {escape(first.split)}</h1>",
        f"<p>{_counts(runs)} Selected by {escape(select)} on validation.</p>",
        *tables,
        _costs(rows, select),
        *_landscapes(rows, select),
        _manifest(runs),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>recbench: {escape(first.dataset)}</title>"
        f"<style>{_asset('page.css')}</style></head>"
        f"<body><main>{''.join(parts)}</main><script>{_asset('page.js')}</script></body></html>\n"
    )


def _asset(name: str) -> str:
    return resources.files("recbench").joinpath("assets", name).read_text(encoding="utf-8")


def _counts(runs: Sequence[Mapping[str, Any]]) -> str:
    if not runs:
        return ""
    data = runs[-1]["dataset"]
    return (
        f"{data['users']:,} users, {data['items']:,} items, {data['interactions']:,} interactions; "
        f"content {escape(data['fingerprint'][:12])}."
    )


def _table(view: View, *, best: bool) -> str:
    """A view as a table whose columns sort; for test, the best two of each metric stand out."""
    frame = view.frame
    numeric = {name: frame[name].dtype.kind in "fiu" for name in frame.columns}
    leaders = {str(n): _leaders(frame[n]) for n in frame.columns if best and "@" in str(n)}
    head = "".join(
        f"<th{' class=n' if numeric[name] else ''}><button>{escape(name)}</button></th>"
        for name in frame.columns
    )
    lines = []
    for position, line in enumerate(frame.to_dict("records")):
        cells = "".join(_cell(str(n), v, leaders.get(str(n), ())) for n, v in line.items())
        marked = ' class="marked"' if position in view.marked else ""
        lines.append(f"<tr{marked}>{cells}</tr>")
    notes = "".join(f"<p class=notes>{escape(note)}</p>" for note in view.notes)
    return (
        f"<h2>{escape(view.title)}</h2><div class=scroll><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table></div>{notes}"
    )


def _leaders(column: Any) -> tuple[float, ...]:
    """The best value of a column and the next one below it."""
    values = sorted(set(column.dropna()), reverse=True)
    return tuple(values[:2]) if len(column) > 1 else ()


def _cell(name: str, value: Any, leaders: Sequence[float]) -> str:
    if not isinstance(value, int | float):
        return f"<td>{escape('' if value is None else str(value))}</td>"
    if value != value:
        return '<td class="n" data-v=""></td>'
    text = f"{value:.2f}" if name.endswith(" s") else format_value(value)
    text = f"{value:.4f}" if "@" in name else text
    place = leaders.index(value) if value in leaders else -1
    css = ("n first", "n second", "n")[place]
    return f'<td class="{css}" data-v="{value!r}">{text}</td>'


def _costs(rows: Iterable[Row], select: str) -> str:
    """What quality costs: validation against the seconds a fit took."""
    series: dict[str, list[charts.Point]] = {}
    for row in rows:
        if row.part == "valid" and row.status == "ok" and row.fit_seconds > 0:
            point = (row.fit_seconds, row.metrics[select], f"{row.text}: {row.metrics[select]:.4f}")
            series.setdefault(row.model, []).append(point)
    if len(series) < 2:
        return ""
    chart = charts.lines(series, "fit seconds", f"{select}, validation", log=True, joined=False)
    return (
        "<h2>Quality and cost</h2><p>Seconds of a fit, shared by the models fitted together.</p>"
        f"<div class=charts><div>{chart}</div></div>"
    )


def _landscapes(rows: Sequence[Row], select: str) -> list[str]:
    """For each model: the metric over the parameters that were varied."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row.part == "valid" and row.status == "ok":
            found.setdefault(row.model, []).append(row)
    made = [chart for model in sorted(found) for chart in _landscape(model, found[model], select)]
    if not made:
        return []
    return ["<h2>Landscapes</h2><div class=charts>", *made, "</div>"]


def _landscape(model: str, rows: Sequence[Row], select: str) -> list[str]:
    varied = [name for name in rows[0].parameters if _varies(name, rows)]
    if not varied:
        return []
    best = next(row for row in rows if row.trial in selected(rows, select))
    others = {name: best.parameters[name] for name in varied}
    if len(varied) == 2:
        cells = {
            (float(row.parameters[varied[0]]), float(row.parameters[varied[1]])): row.metrics[
                select
            ]
            for row in rows
            if all(row.parameters[name] is not None for name in varied)
        }
        return [_figure(model, charts.heat(cells, varied[0], varied[1], select))] if cells else []
    return [_figure(model, _line(name, rows, others, select)) for name in varied]


def _varies(name: str, rows: Sequence[Row]) -> bool:
    values = {row.parameters[name] for row in rows}
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    return len(numbers) > 1 and all(v is None or v in numbers for v in values)


def _line(name: str, rows: Sequence[Row], others: Mapping[str, Any], select: str) -> str:
    """The metric along one parameter, the other varied ones as in the selected trial."""
    along = [
        row
        for row in rows
        if row.parameters[name] is not None
        and all(row.parameters[o] == v for o, v in others.items() if o != name)
    ]
    values = [float(row.parameters[name]) for row in along]
    wide = min(values) > 0 and max(values) / min(values) >= 20
    points = [
        (value, row.metrics[select], f"{name}={format_value(value)}: {row.metrics[select]:.5f}")
        for value, row in zip(values, along, strict=True)
    ]
    return charts.lines({name: points}, name, select, log=wide)


def _figure(model: str, chart: str) -> str:
    return f"<div><h3>{escape(model)}</h3>{chart}</div>"


def _manifest(runs: Sequence[Mapping[str, Any]]) -> str:
    if not runs:
        return ""
    last = runs[-1]
    machine = last["environment"]
    facts = {
        "command": " ".join(last["command"]),
        "status": f"{last['status']}, {last['written']}, {len(runs)} runs in this folder",
        "recbench": f"{machine['recbench']}, commit {machine['commit'] or 'unknown'}"
        + (", with local changes" if machine["dirty"] else ""),
        "machine": f"{machine['cpu']}, {machine['cores']} cores, "
        f"{machine['memory_bytes'] / 1e9:.0f} GB, {machine['platform']}",
        "BLAS": "; ".join(f"{b['internal_api']} {b['version']}" for b in machine["blas"]),
        "packages": ", ".join(f"{name} {v}" for name, v in machine["packages"].items()),
        "peak memory": f"{last['peak_memory_bytes'] / 1e9:.2f} GB",
        "data": json.dumps(last["dataset"]["provenance"], ensure_ascii=False),
    }
    lines = "".join(f"<dt>{k}</dt><dd>{escape(str(v))}</dd>" for k, v in facts.items())
    return f"<h2>How these numbers were made</h2><dl>{lines}</dl>"
