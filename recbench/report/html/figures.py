"""The charts of a campaign as files for papers: SVG without any library, PDF with an extra."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from html import escape
from pathlib import Path

from recbench.campaign.folder import Campaign
from recbench.errors import UsageError
from recbench.files import atomic_path
from recbench.report.html import charts, convergence
from recbench.report.html.document import Figure, asset
from recbench.report.html.landscapes import against_facts, costs, landscapes
from recbench.report.html.sweeps import origins

LINE = 18
"""Pixels of a line of the legend."""
FONT = "Helvetica, Arial, sans-serif"


def figures(campaign: Campaign, select: str) -> Iterator[Figure]:
    """Every chart; `select` is the metric that chose, if not that of each dataset's last run."""
    rows, known = list(campaign.rows().values()), origins(campaign.manifest()["runs"])
    for place in sorted({row.place for row in rows}):
        here = [row for row in rows if row.place == place]
        chosen = select or campaign.select(place[0])
        yield from costs(here, chosen)
        yield from against_facts(here, chosen)
        yield from landscapes(here, chosen, known)
        yield from convergence.figures(campaign, here, chosen)


def write_figures(
    campaign: Campaign, select: str, folder: Path, kinds: Sequence[str] = ("svg",)
) -> list[Path]:
    """Write every chart to a folder, in each of the formats `svg` and `pdf`."""
    convert: dict[str, Callable[[str], bytes]] = {"svg": str.encode, "pdf": pdf}
    written: list[Path] = []
    folder.mkdir(parents=True, exist_ok=True)
    for figure in figures(campaign, select):
        name = _free(re.sub(r"[^A-Za-z0-9.-]+", "_", figure.name), written)
        for kind in kinds:
            path = folder / f"{name}.{kind}"
            with atomic_path(path) as temporary:
                temporary.write_bytes(convert[kind](svg(figure.chart)))
            written.append(path)
    return written


def _free(name: str, written: Sequence[Path]) -> str:
    taken, number, free = {path.stem for path in written}, 1, name
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    return free


def svg(chart: charts.Chart) -> str:
    """A chart as a file of its own: light colours, and the legend inside the drawing."""
    height = chart.height + LINE * len(chart.names) + (LINE / 2 if chart.names else 0)
    text = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {charts.WIDTH} {height:.0f}" '
        f'width="{charts.WIDTH}" height="{height:.0f}" font-family="{FONT}">'
        f"<title>{escape(chart.label)}</title><style>{asset('chart.css')}</style>"
        f"{chart.content}{''.join(_legend(chart))}</svg>\n"
    )
    return re.sub(r"var\(--(\w+)\)", lambda match: _colours()[match[1]], text)


def _legend(chart: charts.Chart) -> Iterator[str]:
    left = charts.LEFT
    for index, name in enumerate(chart.names):
        y = chart.height + LINE * (index + 0.5)
        yield f'<circle cx="{left + 5}" cy="{y:.1f}" r="4.5" style="{charts.marker(index)}"/>'
        yield f'<g class="axis"><text x="{left + 16}" y="{y + 4:.1f}">{escape(name)}</text></g>'


@cache
def _colours() -> dict[str, str]:
    """The light colours of the report."""
    light = asset("page.css").partition("@media")[0]
    return dict(re.findall(r"--(\w+): (#\w+);", light))


def pdf(drawing: str) -> bytes:
    """An SVG file as a PDF of one page."""
    try:
        import cairosvg
    except (ImportError, OSError) as error:  # the package, or the library it draws with
        raise UsageError(
            "PDF figures need CairoSVG (pip install 'recbench-suite[figures]') and the cairo "
            f"library of the system ({error}); SVG figures need nothing"
        ) from error
    document: bytes = cairosvg.svg2pdf(bytestring=drawing.encode())
    return document
