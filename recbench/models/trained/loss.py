"""What a trained model minimises: the interface of losses on scores.

A loss is a sum over interactions (u, i) of something that depends on s_ui and, through the mean of
one function h, on the scores of u with all items, or with items drawn from all:

    L = Σ_(u,i) l(s_ui, E_j h(s_uj - shift)).

What is computed for a user serves all of the user's interactions. `Response` says what h is.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from recbench.errors import RecbenchError, check_takes, home_of, located, of_kind
from recbench.linalg.responses import Means, Response
from recbench.linalg.types import Counts, Vector
from recbench.params import Described, param


@dataclass(frozen=True)
class Positives:
    """Some users, or some users of interactions, and the scores of what each of them has."""

    starts: Counts
    """Where the cells of each row start, and where the last one ends."""
    scores: Vector
    """s_ui of every cell."""
    degrees: Vector
    """a_u: how many interactions the user of each row has in all."""
    catalogue: int
    """n: how many items there are in all."""
    boundary: Vector
    """The score of each row with the vector that the loss learns, if it does."""
    margins: tuple[Vector, Vector]
    """Of the user and the item of each cell, if the loss learns them."""

    @property
    def lengths(self) -> Vector:
        """How many cells each row has."""
        return np.diff(self.starts).astype(np.float64)

    def sums(self, cells: Vector) -> Vector:
        """Add up what cells have, by row."""
        if len(cells) == 0:
            return np.zeros(len(self.starts) - 1)
        ends = np.concatenate([[0.0], np.cumsum(cells)])
        sums: Vector = ends[self.starts[1:]] - ends[self.starts[:-1]]
        return sums

    def spread(self, rows: Vector) -> Vector:
        """Give every cell what its row has."""
        spread: Vector = np.repeat(rows, np.diff(self.starts))
        return spread


@dataclass(frozen=True)
class Grades:
    """What a loss comes to on some rows, and its derivatives."""

    value: float
    """The sum over interactions."""
    means: Vector
    """∂/∂(mean of h), by row."""
    cells: Vector
    """∂/∂s_ui of every cell, but for what it has as one item of all."""
    alike: Vector | None = None
    """∂/∂(mean of all scores), by row, where that matters on its own."""
    boundary: Vector | None = None
    """∂/∂(score with the learned vector), by row."""
    margins: tuple[Vector, Vector] | None = None
    """∂/∂(margins of users and items), by cell."""


class Loss(Described, ABC):
    """Parameters, frozen, of a loss. Subclasses are dataclasses under a name."""

    cite: ClassVar[str] = ""
    formula: ClassVar[str] = ""
    """What it is for an interaction (u, i), in one line."""
    symbols: ClassVar[str] = (
        "of each interaction (u, i); s_uj: score; Σ_j, E_j: sum and mean over all n items, or over "
        "the items drawn; I_u: items of u; [x]₊ = max(x, 0); d_uj = -s_uj: squared distance; "
        "τ_u = (1 + α) |I_u| / n"
    )
    """What the signs in formulas mean."""
    score: ClassVar[str] = "dot"
    """The score it was made for: dot, cosine or distance."""
    pairs: ClassVar[bool] = False
    """Whether it compares every interaction with items of its own, and cannot share a user's."""
    whole: ClassVar[bool] = False
    """Whether it needs all interactions of a user at once."""
    learns: ClassVar[bool] = False
    """Whether it learns a vector, whose score is a row's `boundary`."""
    margins: ClassVar[bool] = False
    """Whether it learns a margin for every user and every item, between 0 and 1, and holds items
    against what is drawn as it holds users: its means are of rows for both, users first."""
    unseen: ClassVar[bool] = False
    """Whether items that are drawn must not be among those the user has."""
    longest: float = 0.0
    """Vectors of users and items are cut to this length after every step; 0: never."""
    popularity: float = 0.0
    """Items are weighted, or drawn, by their interactions to this power."""
    alike: str = "interactions"
    """What counts alike in it: interactions, or users."""

    @property
    @abstractmethod
    def response(self) -> Response:
        """The h whose mean it wants."""

    def shift(self, positives: Positives) -> Vector | float:
        """What is taken off the scores of each row before h."""
        return 0.0

    @abstractmethod
    def grade(self, positives: Positives, means: Means) -> Grades:
        """Its value and derivatives."""

    def ridge(self, degrees: Vector, others: int, *, users: bool) -> Vector | None:
        """The penalty of each vector by its number of interactions, if the loss has its own."""
        return None


def graded(loss: Loss, positives: Positives, means: Means) -> Grades:
    """What a loss comes to; a loss of a plugin may not say it of every row and every cell."""
    what, home = f"grade of {loss.name}", type(loss).grade
    check_takes(loss.grade, (positives, means), what, "grade(self, positives, means)")
    found = loss.grade(positives, means)
    grades = of_kind(found, Grades, home, what, "return Grades(value, means, cells)")
    rows, cells, users = len(means.value), len(positives.scores), len(positives.starts) - 1
    wanted = {"means": (rows, "rows"), "alike": (rows, "rows"), "cells": (cells, "cells"),
              "boundary": (users, "rows")}  # fmt: skip
    for name, (count, of) in wanted.items():
        given = getattr(grades, name)
        if given is not None and np.shape(given) != (count,):
            wrong = f"`{name}` of the grades has shape {np.shape(given)} for {count} {of}"
            raise RecbenchError(located(f"{what}: {wrong}", home_of(home)))
    return grades


def softplus(x: Vector) -> Vector:
    """log(1 + e^x), whatever x."""
    result: Vector = np.logaddexp(0, x)
    return result


def sigmoid(x: Vector) -> Vector:
    """1 / (1 + e^-x), whatever x."""
    result: Vector = np.exp(-np.logaddexp(0, -x))
    return result


def temperature(default: float, *grid: float, search: tuple[float, float] | None = None) -> Any:
    """By what scores are divided before they are exponents."""
    return param(
        default, help="temperature that scores are divided by", low=0.01, log=True, grid=grid,
        search=search,
    )  # fmt: skip
