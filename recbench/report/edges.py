"""Winners at the edge of what was tried: a better setting may lie beyond it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from recbench.brackets import taken_apart
from recbench.campaign.row import Row
from recbench.campaign.selection import candidates
from recbench.errors import RecbenchError
from recbench.params import Param, format_value, is_number, params_within
from recbench.registry import MODELS, parse_described

FEWEST = 3
"""Of two values each is the first or the last, and nothing follows from that."""


def edge_notes(rows: Iterable[Row], select: str) -> list[str]:
    """A warning for each number whose best value is the least or the greatest that was tried.

    Not where nothing lies beyond, as for a penalty of 0, nor where a value further inside is as
    good, nor among several numbers that were drawn at random. What a search stopped was tried.
    """
    able = [row for row in rows if row.part == "valid" and select in row.metrics]
    tried = sorted(able, key=lambda row: (row.place, row.rival))
    notes = [
        note
        for _, trials in groupby(tried, key=lambda row: (row.place, row.rival))
        for note in _of_contest(list(trials), select)
    ]
    return list(dict.fromkeys(notes))


def _of_contest(trials: Sequence[Row], select: str) -> Iterator[str]:
    finished = candidates(trials, select)
    top = max((row.metrics[select] for row in finished), default=None)
    winners = [row for row in finished if row.metrics[select] == top]
    if not winners:
        return
    points, best = ([_numbers(row.parameters) for row in some] for some in (trials, winners))
    axes = {name: sorted({p[name] for p in points if name in p}) for name in best[0]}
    several = sum(len(values) > 1 for values in axes.values()) > 1
    for name, values in axes.items():
        if several and len(values) == len(points):
            continue  # no value comes twice: drawn at random, and by chance each may be an end
        at_best = {point.get(name) for point in best}
        for end, word in ((values[0], "lowest"), (values[-1], "highest")):
            at_edge = len(values) >= FEWEST and at_best == {end}
            if at_edge and not _nothing_beyond(winners[0], name, end):
                model = winners[0].model
                yield (
                    f"warning: {model} is best at {name}={format_value(end)}, the {word} of "
                    f"{len(values)} values tried: a better one may lie beyond; --grid "
                    f"{model}.{name}=... adds to what is there"
                )


def _numbers(parameters: Mapping[str, object]) -> dict[str, float]:
    """The parameters that have more and less, with those of what a model holds by dotted names."""
    found: dict[str, float] = {}
    for name, value in parameters.items():
        if is_number(value):
            found[name] = value
        elif isinstance(value, str) and value.endswith("]"):
            _, settings = taken_apart(value)
            inner = {key: _number(text) for key, text in settings.items()}
            found |= {f"{name}.{key}": number for key, number in _numbers(inner).items()}
    return found


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _nothing_beyond(row: Row, name: str, end: float) -> bool:
    """Whether a parameter ends there; what is not known here, a plugin's, is taken to end at 0."""
    specs = specs_of(row)  # loads the model: only for winners that are at an edge
    return specs[name].ends_at(end) if name in specs else end == 0


def specs_of(row: Row) -> Mapping[str, Param]:
    """What is known of the parameters of a row's model; nothing if it is of a plugin not here."""
    try:
        return params_within(*parse_described(row.text, MODELS))
    except RecbenchError:
        return {}
