"""What fitting returns: a Base that scores items for histories, and a per-item scale.

Several Scorers may share one Base; the evaluator then computes the base scores once. A Base
must say how to score (`score`); it may also know a faster way to rank (`top`) than scoring
every item into a block and searching the block, and bases that differ may know how to rank in
one pass (`shared`, `tops`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from recbench.errors import RecbenchError, Refused, check_takes, counted, home_of, located
from recbench.fields import LARGEST
from recbench.linalg import topk
from recbench.linalg.real import real
from recbench.linalg.topk import Panels, Scale, Scales, Top
from recbench.linalg.types import Floats, Indices, Progress, Sparse, silent


@dataclass(frozen=True, eq=False)
class Query:
    """Whom to rank for: the k best items of each of some users."""

    history: Sparse
    """What each user has."""
    rows: Indices
    """Each user's row in the train matrix, -1 for users not trained on."""
    seen: Sparse
    """What must not be recommended to each user: the items stored here."""
    k: int

    def block(self, start: int, stop: int) -> tuple[Sparse, Indices]:
        """The history and rows of some of the users."""
        return self.history[start:stop], self.rows[start:stop]


class Base(ABC):
    """Scores for blocks of users; the shared part of one or many Scorers."""

    n_items: int

    @abstractmethod
    def score(self, history: Sparse, rows: Indices) -> Floats:
        """Score every item for every user of a block: users x items, all finite.

        `rows` holds each user's row in the train matrix, -1 for users not trained on.
        """

    def top(self, query: Query, scales: Scales = (None,), progress: Progress = silent) -> list[Top]:
        """Rank every item that is not seen; the k best of each user, for each scale in turn.

        Higher scores come first and, among equal ones, lower items.
        """
        items = query.seen.shape[1]
        what, home = f"{type(self).__name__}.score", home_of(type(self).score)

        def block(start: int, stop: int) -> Floats:
            given = query.block(start, stop)
            check_takes(self.score, given, what, "score(self, history, rows)")
            block = self.score(*given)
            if np.shape(block) != (stop - start, items):
                words = (
                    f"{what} gave a block of shape {np.shape(block)} instead "
                    f"of {(stop - start, items)}; it must be users x items"
                )
                raise RecbenchError(located(words, home))
            try:
                return real(block, f"what {what} gives")
            except RecbenchError as error:
                raise RecbenchError(located(str(error), home)) from error

        return topk.top_of_blocks(block, query.seen, query.k, scales, progress)

    @property
    def shared(self) -> object:
        """Scorers whose bases share this are ranked together, by `tops`."""
        return self

    def tops(
        self, scorers: Sequence["Scorer"], query: Query, progress: Progress = silent
    ) -> list[Top]:
        """Rank for several scorers, of which this base serves all."""
        return self.top(query, [scorer.scale for scorer in scorers], progress)


class ItemItem(Base):
    """A user's score of item j is the sum of w_ij over the items i of the user's history.

    The square matrix w may be an array, or anything that hands out its columns in panels.
    """

    def __init__(self, weights: Panels | Floats) -> None:
        self.weights = topk.DensePanels(weights) if isinstance(weights, np.ndarray) else weights
        self.n_items = self.weights.n

    def score(self, history: Sparse, rows: Indices) -> Floats:
        """Multiply the histories with the weights."""
        return topk.product(history, self.weights)

    def top(self, query: Query, scales: Scales = (None,), progress: Progress = silent) -> list[Top]:
        """Multiply and rank in one pass over the weights; no block of users x items is made."""
        return topk.top_of_product(
            query.history, self.weights, query.seen, query.k, scales, progress
        )


class SparseItemItem(Base):
    """The same with a sparse w, which is stored by rows: each item's votes for others."""

    def __init__(self, weights: Sparse) -> None:
        self.weights, self.n_items = weights, weights.shape[1]

    def score(self, history: Sparse, rows: Indices) -> Floats:
        """Add up the votes of every history."""
        votes = history.astype(self.weights.dtype) @ self.weights
        return np.asarray(votes.toarray())

    def top(self, query: Query, scales: Scales = (None,), progress: Progress = silent) -> list[Top]:
        """Add up and rank user by user, while the scores of one are in the cache."""
        return topk.top_of_sparse(
            query.history, self.weights, query.seen, query.k, scales, progress
        )


Strangers = Callable[[Sparse], Floats]
"""Vectors from histories."""


class FoldIn:
    """User factors: those of training by row, of anybody else from the history."""

    def __init__(self, trained: Floats, strangers: Strangers) -> None:
        self.trained, self.strangers = trained, strangers

    def __call__(self, history: Sparse, rows: Indices) -> Floats:
        """The factors of a block of users."""
        new = rows < 0
        if not new.any():
            return self.trained[rows]
        factors = np.empty((len(rows), self.trained.shape[1]), self.trained.dtype)
        factors[~new] = self.trained[rows[~new]]
        factors[new] = self.strangers(history[new])
        return factors


def refuse_strangers(rows: Indices) -> None:
    """For a model that knows the users it was trained on, and no others."""
    strangers = int(np.count_nonzero(rows < 0))
    if strangers:
        was = "was" if strangers == 1 else "were"
        raise Refused(
            f"{counted(strangers, 'user')} to rank {was} not trained on, and this model knows no "
            "others; recommend to users of the data (--for), or use a split that holds out "
            "interactions, not users"
        )


class Factors(Base):
    """A user's score of item j is the product of their factors, plus the item's bias if any.

    `users` are the factors of the train matrix's rows or, for a model that can tell the factors
    of any user from a history, a function of (history, rows) that returns them.
    """

    def __init__(
        self,
        users: Floats | Callable[[Sparse, Indices], Floats],
        items: Floats,
        bias: Floats | None = None,
    ) -> None:
        self.users, self.items, self.bias = users, items, bias
        self.n_items = len(items)

    def score(self, history: Sparse, rows: Indices) -> Floats:
        """Multiply user factors with item factors."""
        block = self._left(history, rows) @ self.items.T
        return block if self.bias is None else block + self.bias

    def top(self, query: Query, scales: Scales = (None,), progress: Progress = silent) -> list[Top]:
        """Multiply and rank in blocks that stay in the cache."""

        def left(start: int, stop: int) -> Floats:
            return self._left(*query.block(start, stop))

        return topk.top_of_factors(
            left, self.items, self.bias, query.seen, query.k, scales, progress
        )

    def _left(self, history: Sparse, rows: Indices) -> Floats:
        """The factors of some users."""
        if callable(self.users):
            return self.users(history, rows)
        refuse_strangers(rows)
        return self.users[rows]


LONGEST = 60
"""Characters of the name of a fact."""


@dataclass(frozen=True, eq=False)
class Scorer:
    """A fitted model: base scores, times `scale` per item where there is one."""

    base: Base
    scale: Scale = None
    facts: Mapping[str, float] = field(default_factory=dict, kw_only=True)
    """What a reader of results should know of the fit, such as the rank that was found."""
    trace: Sequence[Mapping[str, float]] = field(default=(), kw_only=True)
    """For each round of the fit: its number, the seconds so far, and what was measured."""
    rounds: int = field(default=0, kw_only=True)
    """After how many rounds it was handed out, where it was made in rounds."""
    stopped: bool = field(default=False, kw_only=True)
    """Whether `Context.stop` kept its fit from going on."""

    def __post_init__(self) -> None:
        """Refuse what cannot score: an array, most likely."""
        if not isinstance(self.base, Base):
            raise RecbenchError(
                f"a Scorer holds a Base, not {type(self.base).__name__}; make it "
                "Scorer(Factors(users, items)), Scorer(ItemItem(weights)) or "
                "Scorer(Constant(scores))"
            )

    def plain_facts(self) -> dict[str, int | float]:
        """The facts as results keep them: Python's numbers by short names, or an error."""
        plain = dict[str, int | float]()
        given: Mapping[str, Any] = self.facts
        for name, value in given.items():
            numpy = isinstance(value, np.generic | np.ndarray) and np.size(value) == 1
            number = value.item() if numpy else value
            named = isinstance(name, str) and name.isprintable() and 0 < len(name) <= LONGEST
            if not named:
                raise RecbenchError(f"a fact of the fit is called {name!r:.60}, not a short text")
            if not isinstance(number, int | float):
                raise RecbenchError(
                    f"the fact '{name}' of the fit is {type(value).__name__}, not a number"
                )
            if isinstance(number, int) and abs(number) > LARGEST:
                raise RecbenchError(f"the fact '{name}' of the fit is beyond all measure")
            plain[name] = number
        return plain

    def plain_trace(self) -> list[dict[str, float]]:
        """The trace as results keep it: Python's numbers, or an error."""
        try:
            return [{name: float(value) for name, value in one.items()} for one in self.trace]
        except (AttributeError, TypeError, ValueError) as error:
            raise RecbenchError(f"the trace of the fit is not made of numbers ({error})") from error

    def score(self, history: Sparse, rows: Indices | None = None) -> Floats:
        """Score every item for every user of a block (a small one: the result is dense)."""
        if rows is None:
            rows = np.full(history.shape[0], -1, dtype=np.int32)
        block = self.base.score(history, rows)
        return block if self.scale is None else block * np.asarray(self.scale, block.dtype)
