"""All models on all datasets: a line for each model, a column for each block."""

from collections.abc import Iterator, Sequence
from html import escape

from recbench.report.board.blocks import Block
from recbench.report.board.families import FAMILIES
from recbench.report.board.marks import attributes, number, searched
from recbench.report.leaderboard import PARTS


def overview(blocks: Sequence[Block]) -> str:
    """All models on all blocks, by the metric that chose them or the one that is asked for."""
    head = "".join(
        f'<th class=n{_filtered(block)}><a href="#{block.id}" title="{escape(block.title)}">'
        f"{escape(_head(block, blocks))}</a>{''.join(_named(block))}</th>"
        for block in blocks
    )
    models = dict.fromkeys(
        sorted(
            (FAMILIES.index(line.family), line.first.model)
            for block in blocks
            for line in block.lines
        )
    )
    rows = "".join(_row(blocks, model) for _, model in models)
    return (
        "<h2>All models on all datasets</h2><p class=notes>By the metric in the head of "
        "a column, or the one above; several values are of several campaigns. Columns are not "
        "comparable with one another.</p><div class=scroll><table class=overview><thead><tr>"
        f"<th>model</th>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _head(block: Block, others: Sequence[Block]) -> str:
    """Dataset and split, without the parameters of the split where it is the only one."""
    dataset, _, split, part = block.key
    name = split.partition("[")[0]
    same = [b for b in others if b.dataset == dataset and b.key[2].partition("[")[0] == name]
    return f"{dataset}, {name if len(same) == 1 else split}: {PARTS[part]}"


def _filtered(block: Block) -> str:
    """What hides a column: another dataset, or a metric that was not measured there."""
    return attributes(d=block.dataset, m=" ".join(block.metrics))


def _named(block: Block) -> Iterator[str]:
    """The metric of a column, whichever is asked for."""
    for metric in block.metrics:
        yield f"<small{_shown(block, metric)}>{escape(metric)}</small>"


def _shown(block: Block, metric: str) -> str:
    """One metric is shown at a time: the one that selected, or the one asked for."""
    return attributes(k=metric) + (" data-rest hidden" if metric != block.select else "")


def _row(blocks: Sequence[Block], model: str) -> str:
    entries = []
    for block in blocks:
        values = "".join(
            f"<span{attributes(**searched(line))}{_shown(block, metric)}>"
            f"{number(line, metric, f'{line.standing.mean(metric):.4f}')}</span>"
            for line in block.lines
            for metric in block.metrics
            if line.first.model == model and metric in line.first.metrics
        )
        entries.append(f"<td class=n{_filtered(block)}>{values}</td>")
    return f"<tr><td>{escape(model)}</td>{''.join(entries)}</tr>"
