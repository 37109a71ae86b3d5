"""What papers print, beside our values and in a table of its own."""

from collections.abc import Sequence
from html import escape

from recbench.errors import counted
from recbench.report.board.blocks import Block, Line, Printed
from recbench.report.board.families import family
from recbench.report.board.marks import attributes, number


def beside(block: Block, line: Line, metric: str, numbers: Sequence[Printed]) -> str:
    """What papers print for a value, leading to the line of the table of printed numbers."""
    found: dict[str, str] = {}
    for index, one in enumerate(numbers):
        if line in one.lines and one.row.metric == metric:
            place = f'href="#{block.id}-p{index}" title="{escape(one.row.source)}"'
            text = escape(one.row.printed)
            found.setdefault(text, f"<br><small>printed <a {place}>{text}</a></small>")
    return "".join(found.values())


def table(block: Block, numbers: Sequence[Printed]) -> str:
    """All that papers print for the dataset, also what is not comparable, and why not."""
    if not numbers:
        return ""
    able = sum(bool(one.lines) for one in numbers)
    rows = "".join(_row(block, index, one) for index, one in enumerate(numbers))
    names = ("printed in", "model", "metric", "printed", "here", "difference", "not comparable")
    head = "".join(f"<th><button>{name}</button></th>" for name in names)
    return (
        f"<details class=printed><summary>{counted(len(numbers), 'number')} that papers print "
        f"for {escape(block.dataset)}; {able} of them stand beside ours</summary>"
        f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        "</div></details>"
    )


def _row(block: Block, index: int, one: Printed) -> str:
    row = one.row
    words = {
        "k": row.metric,
        "f": family(row.our_model),
        "t": f"{row.our_model} {row.model} {row.source} {row.our_split}".lower(),
    }
    here = "<br>".join(
        number(line, row.metric, f"{line.standing.mean(row.metric):.4f}") for line in one.lines
    )
    difference = "<br>".join(
        f"{line.standing.mean(row.metric) - row.value:+.4f}" for line in one.lines
    )
    return (
        f"<tr id={block.id}-p{index}{attributes(**words)}><td>{escape(row.source)}</td>"
        f"<td>{escape(row.our_model)}</td><td>{escape(row.metric)}</td>"
        f'<td class=n data-v="{row.value!r}">{escape(row.printed)}</td><td class=n>{here}</td>'
        f"<td class=n>{difference}</td><td>{escape(one.why)}</td></tr>"
    )
