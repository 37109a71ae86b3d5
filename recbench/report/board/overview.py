"""All models on all datasets: a line for each model, a column for each block."""

from collections.abc import Sequence
from html import escape

from recbench.report.board.blocks import Block
from recbench.report.board.families import FAMILIES
from recbench.report.board.marks import attributes, number, searched
from recbench.report.leaderboard import PARTS


def overview(blocks: Sequence[Block]) -> str:
    """All models on all blocks, by the metric that chose them or the one that is asked for."""
    head = "".join(
        f'<th class=n{attributes(d=block.dataset)}><a href="#{block.id}" '
        f'title="{escape(block.title)}">{escape(_head(block, blocks))}</a>'
        f"<br><small>{escape(block.select)}</small></th>"
        for block in blocks
    )
    models = dict.fromkeys(
        sorted(
            (FAMILIES.index(line.family), line.first.model)
            for block in blocks
            for line in block.lines
        )
    )
    rows = "".join(_overview_row(blocks, FAMILIES[index], model) for index, model in models)
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


def _overview_row(blocks: Sequence[Block], family: str, model: str) -> str:
    texts, entries = [model], []
    for block in blocks:
        same = [line for line in block.lines if line.first.model == model]
        texts += [searched(line)["t"] for line in same]
        values = "".join(
            f"<span{attributes(k=metric)}{' data-rest hidden' if metric != block.select else ''}>"
            f"{number(line, metric, f'{line.standing.mean(metric):.4f}')}</span>"
            for line in same
            for metric in block.metrics
            if metric in line.first.metrics
        )
        entries.append(f"<td class=n{attributes(d=block.dataset)}>{values}</td>")
    words = attributes(f=family, t=" ".join(texts))
    return f"<tr{words}><td>{escape(model)}</td>{''.join(entries)}</tr>"
