"""What a search may try: one dimension per parameter, and models drawn from their product.

A draw gives every dimension a coordinate from 0 up to, but not including, 1, and the dimension
says which value that is: the same on every Python and platform.
"""

import itertools
import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from recbench.params import Param, Value, format_value, is_number, make, params_within

MOST = 100_000
"""More points than this in one grid are a slip of the keyboard, not a plan."""
MISSES = 1_000
"""So many draws in a row that were drawn before: a search has seen its space."""


@dataclass(frozen=True)
class Choice:
    """Some values, each as likely as another."""

    values: tuple[Value, ...]

    @property
    def size(self) -> int | None:
        """How many values there are."""
        return len(self.values)

    def at(self, coordinate: float) -> Value:
        """The value at a coordinate."""
        return self.values[int(coordinate * len(self.values))]

    @property
    def text(self) -> str:
        """As typed after --grid."""
        return ",".join(map(format_value, self.values))


@dataclass(frozen=True)
class Span:
    """Every number between two ends, evenly on the parameter's own scale."""

    low: float
    high: float
    log: bool = False
    whole: bool = False

    @property
    def size(self) -> int | None:
        """How many values there are; None where they are not counted."""
        return int(self.high - self.low) + 1 if self.whole else None

    def at(self, coordinate: float) -> Value:
        """The value at a coordinate."""
        # Whole numbers stand in the middle of intervals of equal width.
        low, high = (self.low - 0.5, self.high + 0.5) if self.whole else (self.low, self.high)
        if self.log:
            value = math.exp(math.log(low) + coordinate * (math.log(high) - math.log(low)))
        else:
            value = low + coordinate * (high - low)
        return self.tidy(value)

    def tidy(self, value: float) -> Value:
        """A value that prints as a user would write it, still between the ends."""
        if self.whole:
            return int(min(max(round(value), self.low), self.high))
        return min(max(tidy(value), self.low), self.high)

    @property
    def text(self) -> str:
        """As typed after --grid."""
        ends = f"{format_value(self.low)}:{format_value(self.high)}"
        return f"{ends}:log" if self.log else ends


Dimension = Choice | Span


@dataclass(frozen=True)
class Space:
    """The models of one class that a search may try."""

    cls: type[Any]
    fixed: Mapping[str, object]
    dimensions: Mapping[str, Dimension]

    @property
    def name(self) -> str:
        """The model's name."""
        return str(getattr(self.cls, "name", self.cls.__name__))

    @property
    def text(self) -> str:
        """What is searched, as typed after -m and --grid."""
        fixed = ",".join(f"{key}={value}" for key, value in sorted(self.fixed.items()))
        grids = [f"{key}={dim.text}" for key, dim in sorted(self.dimensions.items())]
        return " ".join([f"{self.name}[{fixed}]" if fixed else self.name, *grids])

    @property
    def size(self) -> int | None:
        """How many models there are; None where they are not counted."""
        sizes = [dimension.size for dimension in self.dimensions.values()]
        return None if None in sizes else math.prod(size for size in sizes if size is not None)

    def model(self, values: Mapping[str, Value]) -> Any:
        """The model with these values of the dimensions."""
        return make(self.cls, {**self.fixed, **values})

    def draws(self, seed: int) -> Iterator[tuple[dict[str, Value], Any]]:
        """Values and models in random order, none twice, until the space is used up.

        A pure function of the seed and this space: the first draws are the same however many
        are taken and whatever else is searched beside it.
        """
        numbers = random.Random(f"{seed} {self.text}")  # noqa: S311 - a search, not a secret
        seen: set[str] = set()
        for values in self._shuffled(numbers) if self._listable else self._drawn(numbers, seen):
            model = self.model(values)
            if model.text not in seen:
                seen.add(model.text)
                yield values, model

    @property
    def _listable(self) -> bool:
        return self.size is not None and self.size <= MOST

    def _shuffled(self, numbers: random.Random) -> Iterator[dict[str, Value]]:
        """Every point once."""
        ranges = [
            dim.values if isinstance(dim, Choice) else range(int(dim.low), int(dim.high) + 1)
            for dim in self.dimensions.values()
        ]
        points = sorted(itertools.product(*ranges), key=lambda _: numbers.random())
        return (dict(zip(self.dimensions, point, strict=True)) for point in points)

    def _drawn(self, numbers: random.Random, seen: set[str]) -> Iterator[dict[str, Value]]:
        """Points without end, unless nothing new comes for long."""
        size, misses = 0, 0
        while misses < MISSES:
            misses = misses + 1 if len(seen) == size else 0
            size = len(seen)
            yield {name: dim.at(numbers.random()) for name, dim in self.dimensions.items()}


def published(cls: type, settings: Mapping[str, object]) -> dict[str, Dimension]:
    """The values published with a model, of every parameter that has some, so far as it is set."""
    specs = params_within(cls, settings)
    return {name: Choice(spec.grid) for name, spec in specs.items() if spec.grid}


def usual_dimensions(cls: type, settings: Mapping[str, object]) -> dict[str, Dimension]:
    """Where a search looks that was told nothing: all parameters that are not set and have a place.

    What is off unless it is set, 0 on a logarithmic scale, stays off.
    """
    taken = {name.replace("_", "-") for name in settings}
    specs = params_within(cls, settings)
    wanted = {n: spec for n, spec in specs.items() if n not in taken and spec.unless not in taken}
    found = {n: _usual(spec) for n, spec in wanted.items() if not (spec.log and spec.default == 0)}
    return {name: dimension for name, dimension in found.items() if dimension is not None}


def _usual(spec: Param) -> Dimension | None:
    """Published values if there are any, between the ends if there are some."""
    if spec.search is None:
        return Choice(spec.grid) if spec.grid else None
    low, high = spec.search
    values = tuple(v for v in spec.grid if is_number(v) and low <= v <= high)
    whole = spec.type is int
    return Choice(values) if values else Span(float(low), float(high), spec.log, whole)


def tidy(value: float) -> float:
    """Round to six digits: enough for a search, and it prints as the user would write it."""
    return float(f"{value:.6g}")
