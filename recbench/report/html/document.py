"""What pages are made of: the file around them, figures with their data, how runs were made."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib import resources
from typing import Any

from recbench.errors import counted
from recbench.report.html.charts import Chart, Data

MOST_DATA = 400
"""Lines of the table of a figure: more would only be slow to open."""

SHARED = "Of models that were fitted together: their share of the seconds, the memory of all."


@dataclass(frozen=True)
class Figure:
    """A chart, the heading it stands under and the name of a file that holds it."""

    heading: str
    name: str
    chart: Chart


@cache
def asset(name: str) -> str:
    """A file that pages are made with, as text."""
    return (
        resources.files("recbench.report.html").joinpath("assets", name).read_text(encoding="utf-8")
    )


def document(title: str, body: str, *more: str) -> str:
    """One HTML file that needs no other; `more` names styles and scripts beside those of all."""
    styles = "".join(asset(name) for name in ("chart.css", "page.css", *more) if "css" in name)
    scripts = "".join(asset(name) for name in ("page.js", *more) if "js" in name)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{styles}</style></head>"
        f"<body><main>{body}</main><script>{scripts}</script></body></html>\n"
    )


def charts_of(figures: Sequence[Figure]) -> str:
    """Figures beside each other, each with what it draws as a table."""
    blocks = "".join(
        f'<div class=chart data-k="{escape(one.name)}"><h3>'
        f"{escape(one.heading)}</h3>{one.chart}{_data(one.chart.data)}</div>"
        for one in figures
    )
    return f"<div class=charts>{blocks}</div>"


def _data(data: Data) -> str:
    """The lines with the highest values, folded away until they are asked for."""
    ranked = sorted(data.lines, key=lambda line: line[-1], reverse=True)
    rest = len(ranked) - MOST_DATA
    note = f"<p>the highest {MOST_DATA} of {len(ranked):,}</p>" if rest > 0 else ""
    head = "".join(f"<th><button>{escape(name)}</button></th>" for name in data.columns)
    lines = "".join(f"<tr>{''.join(map(_entry, line))}</tr>" for line in ranked[:MOST_DATA])
    return (
        f"<details><summary>The data</summary>{note}<div class=scroll><table><thead><tr>{head}</tr>"
        f"</thead><tbody>{lines}</tbody></table></div></details>"
    )


def _entry(value: str | float) -> str:
    if isinstance(value, str):
        return f"<td>{escape(value)}</td>"
    return f'<td class=n data-v="{value!r}">{value:.6g}</td>'


def provenance(run: Mapping[str, Any]) -> str:
    """How one run was made: what was typed, of which commit, on what machine and data."""
    lines = "".join(f"<dt>{k}</dt><dd>{escape(str(v))}</dd>" for k, v in _facts(run))
    return f"<dl>{lines}</dl>"


def _facts(run: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    machine, data = run["environment"], run["dataset"]
    yield "command", " ".join(run["command"])
    yield "status", f"{run['status']}, {run['written']}"
    changes = ", with local changes" if machine["dirty"] else ""
    yield "recbench", f"{machine['recbench']}, commit {machine['commit'] or 'unknown'}{changes}"
    memory = f"{machine['memory_bytes'] / 1e9:.0f} GB"
    yield "machine", f"{machine['cpu']}, {machine['cores']} cores, {memory}, {machine['platform']}"
    yield "BLAS", _blas(machine)
    for kind in run.get("crew", ()):
        about = f"{kind['cpu']}, {kind['cores']} cores, {_blas(kind)}"
        yield "fitted by", f"{counted(len(kind['workers']), 'worker')}: {about}"
    yield "packages", ", ".join(f"{name} {v}" for name, v in machine["packages"].items())
    yield "peak memory", f"{run['peak_memory_bytes'] / 1e9:.2f} GB"
    yield "data", json.dumps(data["provenance"], ensure_ascii=False)


def _blas(machine: Mapping[str, Any]) -> str:
    return "; ".join(f"{b['internal_api']} {b['version']}" for b in machine["blas"])
