"""What every cell of the score matrix weighs in a quadratic loss, and nothing about solving it.

Users have factors P, items Q, scores are S = P Qᵀ. With R the binary train matrix and I_u what
user u has, every loss here is

    Σ_u [c0_u Σ_i v_i s_ui² + c1_u Σ_{i∈I_u} s_ui² - 2 d1_u Σ_{i∈I_u} s_ui + 2 d0_u Σ_i v_i s_ui]
        + Σ_u r_u |p_u|² + Σ_i r_i |q_i|²                                              (1)

up to a constant: it is 0 where all scores are. An `Objective` says what c0, c1, d1, d0 and r are;
`als` solves it. c1_u and d1_u are one number each for all users, or these times a share of the
user's. v_i is 1, or what items weigh by a power of their interactions: `column_weights`.
"""

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from recbench.linalg.normal import Terms, column_weights
from recbench.linalg.types import Counts, Vector


class Objective(Protocol):
    """The coefficients of (1)."""

    def user_terms(self, lengths: Counts, items: int) -> Terms:
        """Those of users with so many interactions each, among so many items."""

    def item_ridge(self, lengths: Counts, users: int) -> Vector:
        """The r of items with so many interactions each, among so many users."""


@dataclass(frozen=True)
class Weighted:
    """Every cell weighs c0, an observed one c1 more; the penalty of a row grows with its weights.

    r = λ (c0 cells + c interactions)^ν, where the m cells of an item count v times. With ν = 1 and
    c = c1 every cell brings its share of penalty.
    """

    everywhere: float
    entry: float
    pull: float
    l2: float
    nu: float
    counted: float | None = None
    """The c of the penalty; None: c1."""
    unknown: float = 0.0
    """A user with so many interactions more would have c1 and d1 times their share."""
    popularity: float = 0.0
    """The power of v."""

    def user_terms(self, lengths: Counts, items: int) -> Terms:
        """The same for every user but for the penalty, unless some interactions are unknown."""
        gram, none = np.full(len(lengths), self.everywhere), np.zeros(len(lengths))
        share = 1.0 + self.unknown / np.maximum(lengths, 1) if self.unknown else None
        return Terms(
            gram, none, self._ridge(lengths, items), self.entry, self.pull, share,
            power=self.popularity,
        )  # fmt: skip

    def item_ridge(self, lengths: Counts, users: int) -> Vector:
        """The same rule for both sides: cells are users here, and items there."""
        weights = column_weights(lengths, self.popularity)
        return self._ridge(lengths, users if weights is None else users * weights)

    def _ridge(self, lengths: Counts, cells: float | Vector) -> Vector:
        counted = self.entry if self.counted is None else self.counted
        total: Vector = self.everywhere * cells + counted * lengths.astype(np.float64)
        with np.errstate(over="ignore"):  # infinity is found in the factors
            return self.l2 * total**self.nu


@dataclass(frozen=True)
class Contrasted:
    """Every interaction brings all cells of its user as negatives, of some weight in all.

    Σ_u [weight |I_u| / n Σ_i s_ui² + t_u Σ_observed (c1 s² - 2 d1 s)] + λ (|P|² + |Q|²), where t_u
    is 1 unless it is given as t_u = (scale |I_u| + unknown) / n.
    """

    weight: float
    l2: float
    entry: float = 1.0
    scale: float | None = None
    unknown: float = 0.0
    popularity: float = 0.0
    """The power of v: negatives are drawn by it."""

    def user_terms(self, lengths: Counts, items: int) -> Terms:
        """The expectation over negatives that are drawn with replacement."""
        gram: Vector = self.weight / items * lengths.astype(np.float64)
        share = None if self.scale is None else (self.scale * lengths + self.unknown) / items
        ridge = self.item_ridge(lengths, items)
        return Terms(
            gram, np.zeros(len(lengths)), ridge, self.entry, 1.0, share, power=self.popularity
        )

    def item_ridge(self, lengths: Counts, users: int) -> Vector:
        """λ, for users as for items."""
        return np.full(len(lengths), self.l2)


@dataclass(frozen=True)
class RankingSquares:
    """Every cell of user u weighs w_u = |I_u| / 2n and is pulled to -1, observed ones α to 1."""

    alpha: float
    l2: float
    answer: float = 1.0
    """-1: items are solved for as if what is not observed were pulled to +1."""
    extra: float = 0.0
    """So much of λ more on the factors of users."""

    def user_terms(self, lengths: Counts, items: int) -> Terms:
        """Σ_u w_u Σ_i (s_ui + 1)² - Σ_observed s_ui + α Σ_observed (s_ui - 1)²."""
        weights = lengths / (2.0 * items)
        ridge = self.l2 * (lengths / 2.0 + self.alpha * items + self.extra)
        return Terms(weights, weights, ridge, self.alpha, 0.5 + self.alpha, answer=self.answer)

    def item_ridge(self, lengths: Counts, users: int) -> Vector:
        """λ (Σ w_u + α m), the same for all."""
        total = lengths.sum() / (2.0 * len(lengths)) + self.alpha * users
        return np.full(len(lengths), self.l2 * total)


@dataclass(frozen=True)
class SampledSquares:
    """The expectation of the same for n negatives drawn with every interaction."""

    negatives: int
    l2: float
    popularity: float = 0.0
    """The power of v: they are drawn by it."""

    @property
    def drawn(self) -> float:
        """The share n / (n + 1) of negatives."""
        return self.negatives / (self.negatives + 1.0)

    def user_terms(self, lengths: Counts, items: int) -> Terms:
        """A user's weights come to |I_u| / 2."""
        halves = lengths / 2.0
        weights = self.drawn / items * halves
        return Terms(
            weights, weights, self.l2 * halves, (1.0 - self.drawn) / 2.0, self.drawn / 2.0,
            power=self.popularity,
        )  # fmt: skip

    def item_ridge(self, lengths: Counts, users: int) -> Vector:
        """λ (n/(n+1) v_i Σ w_u + |U_i| / 2(n+1)), for the |U_i| users of an item."""
        everywhere: Any = self.drawn * (lengths.sum() / (2.0 * len(lengths)))
        weights = column_weights(lengths, self.popularity)
        if weights is not None:
            everywhere = everywhere * weights
        ridge: Vector = self.l2 * (everywhere + (1.0 - self.drawn) * lengths / 2.0)
        return ridge


@dataclass(frozen=True)
class Bounded:
    """Another objective less a share β of its squares, which stands for the products of scores."""

    of: Objective
    beta: float
    entries: bool = False
    """Whether what observed cells weigh more is among those squares."""

    def user_terms(self, lengths: Counts, items: int) -> Terms:
        """Those of the other, with 1 - β of the squares."""
        terms, rest = self.of.user_terms(lengths, items), 1.0 - self.beta
        entry = rest * terms.entry if self.entries else terms.entry
        return replace(terms, gram=rest * terms.gram, entry=entry)

    def item_ridge(self, lengths: Counts, users: int) -> Vector:
        """That of the other."""
        return self.of.item_ridge(lengths, users)


@dataclass(frozen=True)
class WithProducts:
    """Another objective with the products of scores, -Σ_u c0_u (Σ_i s_ui)² / n.

    Together with the squares that is c0_u times the variance of a user's scores, n times over.
    """

    of: Objective

    def user_terms(self, lengths: Counts, items: int) -> Terms:
        """Those of the other, on the factors of items less their mean."""
        return replace(self.of.user_terms(lengths, items), centred=True)

    def item_ridge(self, lengths: Counts, users: int) -> Vector:
        """That of the other."""
        return self.of.item_ridge(lengths, users)


@dataclass(frozen=True)
class OnScores:
    """Another objective with the penalty λ |PQᵀ|² on scores instead of factors."""

    of: Objective
    l2: float

    def user_terms(self, lengths: Counts, items: int) -> Terms:
        """Those of the other, with λ more weight on every cell and no penalty on factors."""
        terms = self.of.user_terms(lengths, items)
        return replace(terms, gram=terms.gram + self.l2, ridge=np.zeros(len(lengths)))

    def item_ridge(self, lengths: Counts, users: int) -> Vector:
        """None."""
        return np.zeros(len(lengths))
