"""What is done to the rows of a raw file: a threshold, filters, and in which order."""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from recbench.errors import UsageError, unknown
from recbench.params import format_value

Mode = Literal["fixpoint", "pass"]
Order = Literal["items-first", "users-first", "at-once"]
Graph = Literal["directed", "undirected"]

OPERATORS: dict[str, Callable[..., Any]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
}


@dataclass(frozen=True)
class Filter:
    """Keep users with at least `users` interactions and items with at least `items`.

    `fixpoint` repeats until nothing is removed, which gives the same core whatever the order.
    `pass` looks once: at one side, then at the other on the rows that are left, or at both
    sides of the original rows (`at-once`).
    """

    users: int = 0
    items: int = 0
    mode: Mode = "fixpoint"
    order: Order = "items-first"

    def __post_init__(self) -> None:
        """Refuse what is not a filter."""
        for side, minimum in (("users", self.users), ("items", self.items)):
            if minimum < 0:
                raise UsageError(
                    f"a filter's minimum for {side} is {minimum}; it must be 0 or more"
                )
        if self.mode not in get_args(Mode):
            raise unknown("filter mode", self.mode, get_args(Mode))
        if self.order not in get_args(Order):
            raise unknown("filter order", self.order, get_args(Order))

    @property
    def text(self) -> str:
        """The canonical text; equal filters read the same."""
        how = "" if self.mode == "fixpoint" else f" once {self.order}"
        return f"users>={self.users},items>={self.items}{how}"


@dataclass(frozen=True)
class Recipe:
    """What is done to the rows of a raw file.

    `positive` is an operator and a number that a row's value must satisfy. With `dedup` the
    filters count distinct pairs; without it they count rows, and repeated pairs are removed
    after them. The first row of a pair in file order is the one that stays.

    With `graph` users and items are nodes of one graph. Links of a node to itself are dropped, and
    if it is `undirected` every link also counts the other way round.
    """

    positive: tuple[str, float] | None = None
    dedup: bool = True
    filters: tuple[Filter, ...] = ()
    graph: Graph | None = None

    def __post_init__(self) -> None:
        """Refuse an operator or a kind of graph that does not exist."""
        if self.graph is not None and self.graph not in get_args(Graph):
            raise unknown("kind of graph", self.graph, get_args(Graph))
        if self.positive is not None and self.positive[0] not in OPERATORS:
            raise unknown("operator", self.positive[0], OPERATORS)

    @property
    def text(self) -> str:
        """The canonical text, one step after the other."""
        first = (
            []
            if self.positive is None
            else [f"value{self.positive[0]}{format_value(self.positive[1])}"]
        )
        links = [] if self.graph is None else [f"{self.graph} links"]
        steps = [rule.text for rule in self.filters]
        steps.insert(0 if self.dedup else len(steps), "distinct")
        return "; ".join(first + links + steps)
