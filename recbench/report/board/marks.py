"""What numbers and lines of a board carry: where they lead, and what filters look at."""

from html import escape

from recbench.report.board.blocks import Line


def attributes(**values: str) -> str:
    """As HTML: what filters look at: `d`ataset, `k` for a metric, `f`amily, `t`ext."""
    return "".join(f' data-{name}="{escape(value)}"' for name, value in values.items())


def searched(line: Line) -> dict[str, str]:
    """What a filter finds a line by."""
    first = line.first
    words = (first.model, line.standing.parameters, line.source.name, first.dataset, first.split)
    return {"f": line.family, "t": " ".join(words).lower()}


def number(line: Line, metric: str, text: str) -> str:
    """A number that leads to its trial."""
    said = f"{line.first.model} in {line.source.name}: {metric}"
    return f'<a href="#{line.id}" title="{escape(said)}">{escape(text)}</a>'
