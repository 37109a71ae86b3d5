"""One block of a board: the ranking with printed numbers beside ours, quality against cost."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

import pandas as pd

from recbench.published.rows import Published
from recbench.report.board import papers
from recbench.report.board.blocks import Block, Line, Printed, printed, slug
from recbench.report.board.marks import attributes, number, searched
from recbench.report.html.charts import Point, lines, pareto
from recbench.report.html.document import SHARED, Figure, charts_of
from recbench.report.standings import more_is_better
from recbench.report.tables import SPREAD, Cell, View, cells, is_missing, written

COSTS = ("fit s", "peak GB")
FAR = 0.5
"""Of the best value: what is worse is not drawn."""
MOST_LETTERS = 60
"""Of the parameters of a model in its line; its trial has all."""


def section(
    block: Block, others: Sequence[Block], published: Sequence[Published], families: Sequence[str]
) -> str:
    """The whole block."""
    numbers = printed(block, published)
    data, (_, content, _, _) = block.data, block.key
    facts = (
        f"{data['users']:,} users, {data['items']:,} items, {data['interactions']:,} interactions; "
        if data
        else ""
    )
    users = max(row.users for line in block.lines for row in line.standing.rows)
    said = [
        f"{facts}content {content[:12] or 'not known'}; {users:,} users ranked for.",
        *_not_comparable(block, others),
    ]
    notes = "".join(f"<p class=notes>{escape(note)}</p>" for note in said)
    about = attributes(d=block.dataset, m=" ".join(block.metrics))
    return (
        f"<section class=block id={block.id}{about}><h2>{escape(block.title)}</h2>{notes}"
        f"{_table(block, numbers)}{_charts(block, families)}{papers.table(block, numbers)}"
        "</section>"
    )


def _not_comparable(block: Block, others: Sequence[Block]) -> Iterator[str]:
    for other in others:
        if other.dataset == block.dataset and other.key != block.key:
            yield f"Not comparable with {other.title}: {block.differs_from(other)}."
    if block.key[3] == "valid":
        yield (
            "Nothing was measured on test: these values chose the trials, so they are higher than "
            "what to expect."
        )


def _table(block: Block, numbers: Sequence[Printed]) -> str:
    """The ranking: settings, values, what papers print for them, costs, where it is from."""
    view = _view(block)
    texts = cells(view)
    body = []
    for index, line in enumerate(block.lines):
        values = [_value(block, line, name, texts[name][index], numbers) for name in block.metrics]
        costs = [_cost(line, name, view.frame[name].iloc[index]) for name in COSTS]
        parts = [_model(line), *values, *costs, _chosen(line)]
        body.append(f"<tr id=r-{line.id}{attributes(**searched(line))}>{''.join(parts)}</tr>")
    head = "".join(
        f"<th{' class=n' if view.is_number(name) else ''}"
        f"{attributes(k=name) if name in block.metrics else ''}>"
        f"<button>{escape(name)}</button></th>"
        for name in view.columns
    )
    return (
        f"<div class=scroll><table class=models><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table></div>"
        "<p class=notes>Bold is the best of a column, underlined the second. Chosen: of how many "
        "trials validation chose, or that the settings were chosen beforehand. Printed: what a "
        "paper has for the model on this split, by whatever parameters.</p>"
    )


def _model(line: Line) -> str:
    settings = line.standing.parameters
    short = settings if len(settings) <= MOST_LETTERS else f"{settings[: MOST_LETTERS - 1]}…"
    name = f'<a href="#{line.id}">{escape(line.first.model)}</a>'
    return f"<td>{name}<br><small>{escape(short)}</small></td>"


def _value(block: Block, line: Line, metric: str, cell: Cell, numbers: Sequence[Printed]) -> str:
    value = line.standing.mean(metric)
    if is_missing(value):
        return f'<td class=n{attributes(k=metric)} data-v="">–</td>'
    css = ("n", "n first", "n second")[cell.place]
    spread = f" <small>{escape(cell.beside)}</small>" if cell.beside else ""
    return (
        f'<td class="{css}"{attributes(k=metric)} data-v="{value!r}">'
        f"<span>{number(line, metric, cell.text)}</span>{spread}"
        f"{papers.beside(block, line, metric, numbers)}</td>"
    )


def _cost(line: Line, name: str, value: float) -> str:
    if is_missing(value):
        return '<td class=n data-v="">–</td>'
    return f'<td class=n data-v="{value!r}">{number(line, name, written(name, value))}</td>'


def _chosen(line: Line) -> str:
    words = f"of {line.tried}" if line.tried else "beforehand"
    folder = f'<a href="#c-{slug(line.source.name)}">{escape(line.source.name)}</a>'
    return f'<td data-v="{line.tried}">{words}</td><td>{folder}</td>'


def _view(block: Block) -> View:
    unknown = float("nan")
    frame = pd.DataFrame([
        {"model": line.standing.model}
        | {name: line.standing.mean(name) for name in block.metrics}
        | {name + SPREAD: line.standing.spread(name) for name in block.metrics}
        | {"fit s": line.seconds or unknown}
        | {"peak GB": max(r.peak_bytes for r in line.standing.rows) / 1e9 or unknown}
        | {"chosen": "", "campaign": line.source.name}
        for line in block.lines
    ])  # fmt: skip
    return View("", frame, ranked=[name for name in block.metrics if more_is_better(name)])


def _charts(block: Block, families: Sequence[str]) -> str:
    """Quality against the seconds of a fit, with the front of the two."""
    able = [line for line in block.lines if line.seconds > 0]
    missing = sorted({line.source.name for line in block.lines if not line.seconds > 0})
    notes = [f"Seconds are not known in {', '.join(missing)}: no costs.csv."] if missing else []
    figures, fronts = [], []
    for metric in filter(more_is_better, block.metrics):
        points = {_point(line, metric): line for line in able if metric in line.first.metrics}
        drawn = [point for point in points if point[1] >= FAR * max(p[1] for p in points)]
        if len(drawn) < 2:
            continue
        series: Mapping[str, list[Point]] = {
            name: [point for point in drawn if points[point].family == name] for name in families
        }
        links = {point: f"#{line.id}" for point, line in points.items()}
        chart = lines(
            series, "fit seconds", metric, log=True, joined=False, front=True, links=links
        )
        figures.append(Figure(f"{metric} against fit seconds", metric, chart))
        front = ", ".join(
            f"{number(points[p], metric, points[p].standing.model)} ({p[0]:.2f} s, {p[1]:.4f})"
            for p in pareto(points)
        )
        fronts.append(
            f"<p class=notes{attributes(k=metric)}>Nothing here is both faster and better by "
            f"{escape(metric)} than: {front}.{_too_far(points, drawn)}</p>"
        )
    if not figures:
        return "".join(f"<p class=notes>{escape(note)}</p>" for note in notes)
    machines = set().union(*(line.machines for line in able))
    if len(machines) > 1:
        notes.append(f"Seconds are of different machines: {', '.join(sorted(machines))}.")
    said = "".join(f"<p class=notes>{escape(note)}</p>" for note in [*notes, SHARED])
    return f"<h3>Quality and cost</h3>{charts_of(figures)}{''.join(fronts)}{said}"


def _too_far(points: Iterable[Point], drawn: Sequence[Point]) -> str:
    """Which points are not drawn, or all the others would be in one corner."""
    words = "; ".join(escape(point[2]) for point in points if point not in drawn)
    return f" Not drawn, as they are less than half as good as the best: {words}." if words else ""


def _point(line: Line, metric: str) -> Point:
    value = line.standing.mean(metric)
    words = f"{line.standing.model}, {line.source.name}: {value:.4f}, {line.seconds:.2f} s"
    return line.seconds, value, words
