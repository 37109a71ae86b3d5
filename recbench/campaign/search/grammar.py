"""From what a user types to models: `--model`, `--set` and the `--grid` grammar.

    b=0.1:2.0        the parameter's published values between the ends, else 10 points
    b=0.1:2.0:0.1    from, to, step
    l2=10:1000:log7  7 points, evenly spaced in the logarithm
    b=0.1,0.25,1     a list

With `--trials` the first form is every number between the ends, on the parameter's own scale,
`l2=10:1000:log` likewise in the logarithm, and the others are values to choose from. A model that
no grid is given for is searched where its parameters say.

A name may be narrowed to one model (`deql-l2.b=…`); otherwise it applies to every model asked
for that has the parameter, and must apply to at least one. What is said of one model, there or in
its brackets, stands against what is said of all; the same said twice is refused, but for a grid
around settings in brackets. What a model holds is reached by a dot:
`loss.alpha0=0.1:1`. Values for every model may be far from where good ones of some model are found:
that is announced.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Generic, TypeVar

from recbench.brackets import pair_of, split_commas
from recbench.campaign.search.space import (
    MOST,
    Choice,
    Dimension,
    Space,
    Span,
    published,
    tidy,
    usual_dimensions,
)
from recbench.errors import UsageError, unknown
from recbench.params import Param, Value, format_value, is_number, make, params_within
from recbench.registry import MODELS, SPLITS, build, parse_described
from recbench.splits.base import SplitRule

T = TypeVar("T")
Given = tuple[str, Param, T]
"""A model's name, a parameter of it and what it is given."""
Announce = Callable[[str], None]
Picks = list[tuple[type[Any], dict[str, str]]]
"""The classes that a user names, and the settings in their brackets."""
POINTS = 10


def split_from(text: str) -> SplitRule:
    """Build the split rule that a user names."""
    rule: SplitRule = build(text, SPLITS)
    return rule


def models_from(
    names: Sequence[str], sets: Iterable[str] = (), grids: Iterable[str] = (),
    announce: Announce = lambda text: None,
) -> list[Any]:  # fmt: skip
    """Build every model that a command line asks for, in a stable order, without repeats."""
    picks = [parse_described(name, MODELS) for name in names]
    said = Said[list[Value]](picks, announce)
    said.take("--set", sets, lambda value, param: [param.convert(value)])
    said.take("--grid", grids, grid_values)
    models = itertools.chain.from_iterable(
        _product(cls, fixed, space) for (cls, fixed), space in zip(picks, said.values, strict=True)
    )
    return list({model.text: model for model in models}.values())


def spaces_from(
    names: Sequence[str], sets: Iterable[str] = (), grids: Iterable[str] = (),
    announce: Announce = lambda text: None,
) -> list[Space]:  # fmt: skip
    """Build the space of every model that a command line asks to search.

    Where a grid says what to search, what is neither set nor given a range takes the values
    published with the model, if any. A model without one is searched where its parameters say.
    """
    picks = [parse_described(name, MODELS) for name in names]
    said = Said[Dimension](picks, announce)
    said.take("--set", sets, lambda value, param: Choice((param.convert(value),)))
    without = [dict(given) for given in said.values]
    said.take("--grid", grids, dimension)
    return [
        Space(cls, fixed, _others(cls, fixed, given, gridded=given != before) | given)
        for (cls, fixed), given, before in zip(picks, said.values, without, strict=True)
    ]


def _pairs(words: Iterable[str], option: str, picks: Picks) -> list[tuple[str, str]]:
    """Names and values as typed, but `loss=` before `loss.alpha=`, which depends on it.

    What is for one model comes before what is for all, which may then have nothing left to say.
    """

    def order(pair: tuple[str, str]) -> tuple[int, bool]:
        only, name = _parted(pair[0], picks)
        return name.count("."), not only

    return sorted((pair_of(word, option) for word in words), key=order)


def _parted(key: str, picks: Picks) -> tuple[str, str]:
    """The one model that a name is narrowed to, if it is, and the parameter."""
    names = {getattr(cls, "name", "") for cls, _ in picks}
    only = max((n for n in names if key.startswith(f"{n}.")), key=len, default="")
    return only, key.removeprefix(f"{only}.").replace("_", "-")


def _others(
    cls: type[Any], fixed: Mapping[str, str], given: Mapping[str, Dimension], *, gridded: bool
) -> dict[str, Dimension]:
    """What is searched besides what is given."""
    settled = {**fixed, **_settled(given)}
    if not gridded:
        return usual_dimensions(cls, settled)
    taken = {name.replace("_", "-") for name in fixed}
    return {name: values for name, values in published(cls, settled).items() if name not in taken}


def _tell_far(key: str, text: str, given: Sequence[Given[Any]], announce: Announce) -> None:
    """Say which values are outside the usual ends of a model, unless they were meant for it."""
    for model, spec, values in given:
        far = _outside(spec, values) if not key.startswith(f"{model}.") else []
        if far and spec.usual:
            low, high = map(format_value, spec.usual)
            announce(
                f"warning: --grid {key}={text} gives {model} {key}={','.join(far)}, outside its "
                f"usual range {low}:{high}; --grid {model}.{key}=... is for {model} alone"
            )


def _outside(spec: Param, values: Dimension | list[Value]) -> list[str]:
    """The least and the greatest value, if they are beyond the usual ends; 0 may mean none."""
    if isinstance(values, Span):
        numbers = [values.low, values.high]
    else:
        listed = values.values if isinstance(values, Choice) else values
        numbers = [value for value in listed if is_number(value)]
    if spec.usual is None or not numbers:
        return []
    low, high = spec.usual
    ends = dict.fromkeys((min(numbers), max(numbers)))
    return [format_value(end) for end in ends if not (low <= end <= high or spec.ends_at(end))]


class Said(Generic[T]):
    """What was said of the parameters of each model, and whether of that model alone."""

    BRACKETS = "its brackets"

    def __init__(self, picks: Picks, announce: Announce) -> None:
        self.picks, self.announce = picks, announce
        self.values: list[dict[str, T]] = [{} for _ in picks]
        """By model and parameter: what the options give it."""
        self._names = [str(getattr(cls, "name", "")) for cls, _ in picks]
        self._by: list[dict[str, tuple[bool, str]]] = [
            {name.replace("_", "-"): (True, self.BRACKETS) for name in fixed} for _, fixed in picks
        ]

    def take(self, option: str, words: Iterable[str], read: Callable[[str, Param], T]) -> None:
        """Go through all that follows an option, `--set` or `--grid`."""
        for key, text in _pairs(words, option, self.picks):
            given = self._spread(option, key, text, read)
            if option == "--grid":
                _tell_far(key, text, given, self.announce)

    def _spread(
        self, option: str, key: str, text: str, read: Callable[[str, Param], T]
    ) -> list[Given[T]]:
        """Give the values of one parameter to each model that has it; who that is."""
        only, name = _parted(key, self.picks)
        options, found, known = set[str](), list[Given[T]](), False
        for at, ((cls, fixed), values) in enumerate(zip(self.picks, self.values, strict=True)):
            specs = params_within(cls, {**fixed, **_settled(values)})
            options |= {*specs}
            if name not in specs or only not in ("", self._names[at]):
                continue
            known, given = True, read(text, specs[name])
            if self._counts(at, name, option, f"{key}={text}", alone=bool(only)):
                values[name] = given
                found.append((self._names[at], specs[name], given))
        if known and not found:
            raise UsageError(
                f"{option} {key}={text} would change nothing: each model has a '{name}' that was "
                "given for it alone; leave one out"
            )
        if not known:
            first, dot, _ = name.partition(".")
            if dot and first not in options:
                raise unknown("model in this run", first, set(self._names))
            raise unknown(f"parameter of {', '.join(sorted(set(self._names)))}", name, options)
        return found

    def _counts(self, at: int, name: str, option: str, words: str, *, alone: bool) -> bool:
        """Whether what an option says of a model counts, and not what was said before."""
        before = self._by[at].get(name)
        if before is not None:
            other_alone, other = before
            if other == self.BRACKETS and option == "--grid":
                self.announce(
                    f"{option} {words} takes the place of '{name}' in the brackets of "
                    f"{self._names[at]}"
                )
            elif other_alone == alone:
                raise UsageError(
                    f"'{name}' is given twice, by {other} and by {option} {words}; leave one out"
                )
            elif other_alone:
                return False
        self._by[at][name] = alone, f"{option} {words}"
        return True


def _settled(space: Mapping[str, Any]) -> dict[str, Value]:
    """The parameters that have one value."""
    listed = {name: getattr(values, "values", values) for name, values in space.items()}
    return {
        name: values[0]
        for name, values in listed.items()
        if isinstance(values, list | tuple) and len(values) == 1
    }


def _product(
    cls: type, fixed: Mapping[str, str], space: Mapping[str, list[Value]]
) -> Iterator[Any]:
    size = math.prod(len(values) for values in space.values())
    if size > MOST:
        raise UsageError(f"the grid has {size:,} points; {MOST:,} is the most one run takes")
    for point in itertools.product(*space.values()):
        yield make(cls, {**fixed, **dict(zip(space, point, strict=True))})


def grid_values(text: str, param: Param) -> list[Value]:
    """Read the right-hand side of one `--grid`, checked against the parameter's own range."""
    if ":" not in text or param.of is not None:
        values = [param.convert(word) for word in split_commas(text)]
    elif param.type not in (int, float):
        raise UsageError(f"--grid {param.name}={text}: '{param.name}' takes a list, not a range")
    else:
        values = [param.convert(value) for value in _range(text, param)]
    return list(dict.fromkeys(values))


def dimension(text: str, param: Param) -> Dimension:
    """Read the right-hand side of one `--grid` as what a search may draw from."""
    fields = [field.strip() for field in text.split(":")]
    log = len(fields) == 3 and fields[2] == "log"
    if param.type not in (int, float) or not (log or len(fields) == 2):
        return Choice(tuple(grid_values(text, param)))
    low, high, _ = _ends(text, param)
    log = log or param.log
    if log and low <= 0:
        raise UsageError(_above_zero(low, _shown(text, param)))
    for end in (low, high):
        param.convert(end)  # or it says what the parameter may be
    return Span(float(low), float(high), log=log, whole=param.type is int)


def _shown(text: str, param: Param) -> str:
    return f"--grid {param.name}={text}"


def _ends(text: str, param: Param) -> tuple[Decimal, Decimal, str]:
    """The ends of a range, and what follows them."""
    shown = _shown(text, param)
    fields = [field.strip() for field in text.split(":")]
    if len(fields) not in (2, 3) or not all(fields):
        raise UsageError(
            f"{shown}: a range is FROM:TO, FROM:TO:STEP or FROM:TO:logN, as in 1:100:log5"
        )
    low, high = _number(fields[0], shown), _number(fields[1], shown)
    if low >= high:
        raise UsageError(
            f"{shown}: the range must rise, and {low} is not below {high}; "
            f"write {high}:{low}, or values with commas"
        )
    return low, high, fields[2] if len(fields) == 3 else ""


def _range(text: str, param: Param) -> Sequence[object]:
    shown = _shown(text, param)
    low, high, rest = _ends(text, param)
    if not rest:
        return _own_points(low, high, param, shown)
    if rest.startswith("log"):
        count = POINTS if rest == "log" else _count(rest[3:], shown)
        return _log_points(low, high, count, shown)
    return _steps(low, high, _number(rest, shown), shown)


def _above_zero(low: Decimal, shown: str) -> str:
    return f"{shown}: a logarithmic range must start above 0, not at {low}"


def _own_points(low: Decimal, high: Decimal, param: Param, shown: str) -> Sequence[object]:
    """The values published with the model, else evenly spaced on the parameter's own scale."""
    published = [
        v for v in param.grid if isinstance(v, int | float) and low <= Decimal(str(v)) <= high
    ]
    if len(published) > 1:
        return published
    if param.log:
        return _log_points(low, high, POINTS, shown)
    if param.type is int:
        return sorted({round(low + (high - low) * i / (POINTS - 1)) for i in range(POINTS)})
    return [tidy(float(low + (high - low) * i / (POINTS - 1))) for i in range(POINTS)]


def _steps(low: Decimal, high: Decimal, step: Decimal, shown: str) -> Sequence[object]:
    if step <= 0:
        raise UsageError(f"{shown}: the step must be positive, not {step}")
    count = int((high - low) / step) + 1
    if count > MOST:
        raise UsageError(f"{shown}: {count:,} points; {MOST:,} is the most one run takes")
    # Decimal arithmetic: 0.1 + 2 * 0.1 is 0.3 here, as the user means it.
    return [str(low + i * step) for i in range(count)]


def _log_points(low: Decimal, high: Decimal, count: int, shown: str) -> Sequence[object]:
    if low <= 0:
        raise UsageError(_above_zero(low, shown))
    start, stop = math.log(low), math.log(high)
    inner = [tidy(math.exp(start + (stop - start) * i / (count - 1))) for i in range(1, count - 1)]
    return [float(low), *inner, float(high)]


def _number(text: str, shown: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal("nan")
    if not value.is_finite():
        raise UsageError(
            f"{shown}: '{text}' is not a number; write a range such as 1:100, or values with commas"
        )
    return value


def _count(text: str, shown: str) -> int:
    if not text.isdigit() or not 2 <= int(text) <= MOST:
        raise UsageError(f"{shown}: 'log' takes a number of points from 2 to {MOST:,}, as in log7")
    return int(text)
