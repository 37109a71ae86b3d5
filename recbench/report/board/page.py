"""The board as one HTML file: an overview, a table and charts for each block, trials, campaigns."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from recbench.errors import counted
from recbench.published.rows import Published
from recbench.report.board.blocks import Block, Line, blocks, slug
from recbench.report.board.families import FAMILIES
from recbench.report.board.overview import overview
from recbench.report.board.section import section
from recbench.report.board.sources import Source
from recbench.report.board.trial import panel
from recbench.report.html.document import document, provenance

ABOUT = (
    "Values are put side by side only where dataset, its content, split and part are the same: "
    "within one table below. Different metrics are never comparable, also with names as "
    "alike as recall@20 and recall-capped@20. Every number leads to its trial."
)


@dataclass
class Board:
    """What a page is made of."""

    sources: Sequence[Source]
    left_out: Sequence[str]
    published: Sequence[Published]
    blocks: Sequence[Block] = field(init=False)

    def __post_init__(self) -> None:
        """Put side by side what may be."""
        self.blocks = blocks(self.sources)

    @property
    def lines(self) -> list[Line]:
        """All lines of all blocks."""
        return [line for block in self.blocks for line in block.lines]

    @property
    def families(self) -> list[str]:
        """Those that there are, in the order of the documentation."""
        there = {line.family for line in self.lines}
        return [name for name in FAMILIES if name in there]


def page(board: Board) -> str:
    """The whole file."""
    families = board.families
    body = [
        "<h1>recbench board</h1>",
        f"<p>{_counts(board)} {ABOUT}</p>",
        _filters(board),
        overview(board.blocks),
        *(section(block, board.blocks, board.published, families) for block in board.blocks),
        "<h2 id=campaigns>Campaigns</h2>",
        *map(_campaign, board.sources),
        _left_out(board.left_out),
        "<div id=trials>",
        *(panel(line, block.select) for block in board.blocks for line in block.lines),
        "</div>",
    ]
    return document("recbench board", "".join(body), "board.css", "board.js")


def _counts(board: Board) -> str:
    models = {line.first.model for line in board.lines}
    datasets = {block.dataset for block in board.blocks}
    trials = {(row.trial, source.name) for source in board.sources for row in source.rows}
    return (
        f"{counted(len(models), 'model')}, {counted(len(datasets), 'dataset')}, "
        f"{counted(len(trials), 'trial')} in {counted(len(board.sources), 'campaign')}."
    )


def _filters(board: Board) -> str:
    datasets = list(dict.fromkeys(block.dataset for block in board.blocks))
    metrics = list(dict.fromkeys(name for block in board.blocks for name in block.metrics))
    return (
        '<form autocomplete=off role=search aria-label="Filters">'
        + _choice("dataset", "all datasets", datasets)
        + _choice("metric", "all metrics", metrics)
        + _choice("family", "all families", board.families)
        + "<label>text <input type=search name=words placeholder='ease l2=80'></label>"
        + f"<output>{counted(len(board.lines), 'line')}</output></form>"
    )


def _choice(name: str, every: str, values: Sequence[str]) -> str:
    options = "".join(f"<option>{escape(value)}</option>" for value in values)
    options = f'<option value="">{every}</option>{options}'
    return f"<label>{name} <select name={name}>{options}</select></label>"


def _campaign(source: Source) -> str:
    doubts = "".join(f"<p class=notes>{escape(doubt)}</p>" for doubt in source.doubts)
    runs = "".join(
        f"<details><summary>{escape(run['dataset']['name'])}, {escape(run['split'])}, "
        f"{escape(run['written'])}</summary>{provenance(run)}</details>"
        for run in source.runs
    )
    bad = sum(row.status != "ok" for row in source.rows)
    doubts += f"<p class=notes>{counted(bad, 'row')} without numbers.</p>" if bad else ""
    none = "" if source.runs else "<p class=notes>There is no manifest: nobody knows how.</p>"
    return (
        f'<section class=campaign id="c-{slug(source.name)}"><h3>{escape(source.name)}</h3>'
        f"{doubts}{runs}{none}</section>"
    )


def _left_out(names: Sequence[str]) -> str:
    if not names:
        return ""
    items = "".join(f"<li>{escape(name)}</li>" for name in names)
    return f"<h2>Left out</h2><ul class=notes>{items}</ul>"
