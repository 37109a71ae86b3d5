"""A campaign as one HTML file: tables to sort, landscapes, costs, the machine. No network."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from recbench.campaign.folder import Campaign
from recbench.campaign.row import Row
from recbench.errors import counted
from recbench.report.html import convergence
from recbench.report.html.document import SHARED, Figure, charts_of, document, provenance
from recbench.report.html.landscapes import against_facts, costs, landscapes
from recbench.report.html.sweeps import origins
from recbench.report.leaderboard import Wanted, leaderboard_views, measured_part
from recbench.report.tables import Cell, View, cells
from recbench.report.trials import views

MOST_TRIALS = 400
"""Lines of the table of trials: more would only be slow to open."""


def page(campaign: Campaign, select: str = "") -> str:
    """The whole file; `select` is the metric that chose, if not as in the last run."""
    rows = list(campaign.rows().values())
    names = list(dict.fromkeys(row.dataset for row in rows))
    runs = campaign.manifest()["runs"]
    title = ", ".join(names)
    ranked = leaderboard_views(campaign, Wanted(select, measured_part(campaign)))
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{_counts(runs)} Selected by {escape(select or campaign.select())} on validation.</p>",
        *map(_table, ranked),
        *_details(campaign, rows, select),
        _manifest(runs),
    ]
    return document(f"recbench: {title}", "".join(parts))


def _details(campaign: Campaign, rows: Sequence[Row], select: str) -> Iterator[str]:
    """Charts and trials of each dataset and split."""
    places, known = sorted({row.place for row in rows}), origins(campaign.manifest()["runs"])
    for place in places:
        here = [row for row in rows if row.place == place]
        metric = select or campaign.select(place[0])
        if len(places) > 1:
            yield f"<h1>{escape(place[0])}, {escape(place[2])}</h1>"
        yield _charts("Quality and cost", costs(here, metric), SHARED)
        yield _charts("Quality and what fits found", against_facts(here, metric))
        yield _charts("Landscapes", landscapes(here, metric, known))
        yield convergence.section(campaign, here, metric)
        yield from (_table(view) for view in views(here, metric, most=MOST_TRIALS) if _tells(view))


def _tells(view: View) -> bool:
    """Whether a table of trials says more than the ranking: not if it is the selected alone."""
    return view.part == "validation" or bool(view.marked)


def _charts(heading: str, figures: Iterable[Figure], words: str = "") -> str:
    drawn = list(figures)
    remark = f"<p>{words}</p>" if words else ""
    return f"<h2>{heading}</h2>{remark}{charts_of(drawn)}" if drawn else ""


def _counts(runs: Sequence[Mapping[str, Any]]) -> str:
    data = {run["dataset"]["name"]: run["dataset"] for run in runs}
    return " ".join(
        f"{escape(name)}: {d['users']:,} users, {d['items']:,} items, {d['interactions']:,} "
        f"interactions; content {escape(d['fingerprint'][:12])}."
        for name, d in data.items()
    )


def _table(view: View) -> str:
    """A view as a table whose columns sort."""
    head = "".join(
        f"<th{' class=n' if view.is_number(name) else ''}><button>{escape(name)}</button></th>"
        for name in view.columns
    )
    columns = [
        [_cell(cell, value) for cell, value in zip(column, view.frame[name].tolist(), strict=True)]
        for name, column in cells(view).items()
    ]
    lines = []
    for position, line in enumerate(zip(*columns, strict=True)):
        marked = ' class="marked"' if position in view.marked else ""
        lines.append(f"<tr{marked}>{''.join(line)}</tr>")
    notes = "".join(f"<p class=notes>{escape(note)}</p>" for note in view.notes)
    return (
        f"<h2>{escape(view.title)}</h2><div class=scroll><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table></div>{notes}"
    )


def _cell(cell: Cell, value: Any) -> str:
    if value is None or value != value:
        return '<td class="n" data-v=""></td>'
    if not isinstance(value, int | float):
        return f"<td>{escape(cell.text)}</td>"
    css = ("n", "n first", "n second")[cell.place]
    beside = f" <small>{cell.beside}</small>" if cell.beside else ""
    better = f" <sup>{cell.better}</sup>" if cell.better else ""
    return f'<td class="{css}" data-v="{value!r}"><span>{cell.text}</span>{beside}{better}</td>'


def _manifest(runs: Sequence[Mapping[str, Any]]) -> str:
    if not runs:
        return ""
    count = f"<p>The last of {counted(len(runs), 'run')} in this folder:</p>"
    return f"<h2>How these numbers were made</h2>{count}{provenance(runs[-1])}"
