"""The objective of `normal` as a function of both sides at once: value, slope, bend, and lines.

Rows have factors P, columns Q. With I_u the entries of row u and t = Σ_j q_j,

    F(P, Q) = Σ_u [c0_u Σ_j s_uj² + Σ_{j∈I_u} (c1_u s_uj² - 2 d1_u s_uj) + 2 d0_u p_u·t],   s = PQᵀ.

`normal` makes it least for one side while the other stays. Whoever moves both wants

    ∂F/∂P = 2 [C0 P G + d0 tᵀ + V Q],   ∂F/∂Q = 2 [Q H + 1 (d0ᵀP) + VᵀP],

where C0 is diagonal, V is c1 s - d1 on entries, G = QᵀQ and H = PᵀC0P: two Gram matrices and a
sparse product each way. What all rows have to do with all columns is never looked at. In a
direction (W, X) scores begin to move by σ = WQᵀ + PXᵀ, and F, which is quadratic in scores, bends
by Gauss-Newton's

    B (W, X) = 2 [C0 (W G + P XᵀQ) + V'Q],  2 [Q WᵀC0P + X H + V'ᵀP],   V' = c1 σ on entries,

which is never negative. It leaves out that σ turns as both sides move, which adds

    2 [C0 P QᵀX + d0 (1ᵀX) + V X],  2 [Q PᵀC0W + 1 (d0ᵀW) + VᵀW]

to the matrix of all second derivatives. Along a line F is a polynomial of degree four, whose
coefficients are made of Gram matrices too.

Where `Terms.centred` takes the mean out of the columns' factors in G, Q and X are less their mean
wherever they stand beside C0. Where `Terms.power` gives columns weights v, G = Qᵀ diag(v) Q and
t = Qᵀv: rows of Q and X are times v wherever they stand beside C0, and ones are v beside d0.

Sums over rows are made in blocks of fixed size and added up in order, in float64; rows of a sparse
product are summed by one thread each. Results do not depend on the number of threads.
"""

from concurrent.futures import Executor
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy

from recbench.linalg import blas, tall
from recbench.linalg.normal import Diverged, Pattern, Terms, column_weights, row_blocks, sums
from recbench.linalg.thin import Thin
from recbench.linalg.types import Floats, Vector

DEGREE = 4
"""Of F along a line."""
NEARLY = 1e-7
"""Roots with so small an imaginary part are real ones: two that are equal come out so."""


class Sides(NamedTuple):
    """Numbers for rows and columns: factors, a direction, or derivatives."""

    rows: Floats
    columns: Floats


class Surface:
    """F for the entries of a binary matrix, and where it can be looked at."""

    def __init__(
        self, pool: Executor, pattern: Pattern, terms: Terms, dtype: np.dtype[Any]
    ) -> None:
        self.pool, self.pattern, self.terms = pool, pattern, terms
        self.gram = terms.gram[:, None].astype(dtype)
        self.push = terms.push.astype(dtype)
        lengths = pattern.lengths
        self.entries = np.repeat(terms.entries, lengths).astype(dtype)
        self.pulls = np.repeat(terms.pulls, lengths).astype(dtype)
        self.curved = bool(self.entries.any())
        """Whether entries weigh more than other cells: else their scores need not be known."""
        shape, size = (len(lengths), pattern.width), len(pattern.columns)
        numbers = np.arange(size, dtype=np.int32)
        turned = scipy.sparse.csr_array((numbers, pattern.columns, pattern.starts), shape).T.tocsr()
        self.weights = column_weights(np.diff(turned.indptr), terms.power)
        """v of the columns; None: all of them are 1."""
        self._order = turned.data
        ones = np.ones(size, dtype)
        self._down = Thin(
            scipy.sparse.csr_array((ones, pattern.columns, pattern.starts), shape), dtype
        )
        self._up = Thin(turned, dtype)

    def at(self, factors: Sides) -> "Place":
        """Look at F where factors are these."""
        return Place(self, factors)

    def scores(self, rows: Floats, columns: Floats) -> Floats:
        """Products of factors, of all entries."""
        from recbench.linalg import responses_kernel as kernel  # brings numba

        starts, cells, _ = self._down.entries
        out = np.empty(len(cells), rows.dtype)
        work = (
            (rows[first:last], columns, starts[first : last + 1], cells, out)
            for first, last in self._down.shares
        )
        blas.finish(self.pool, kernel.dots, work)
        return out

    def times(self, values: Floats, factors: Sides) -> Sides:
        """V Q and VᵀP, for the sparse V with these values."""
        self._down.entries[2][:] = values
        self._up.entries[2][:] = values[self._order]
        return Sides(self._down @ factors.columns, self._up @ factors.rows)

    def centred(self, product: Vector, left: Vector, right: Vector) -> Vector:
        """A product of two sides of columns, less that of their means, where these are out.

        `left` and `right` are their sums.
        """
        if not self.terms.centred:
            return product
        less: Vector = product - np.outer(left, right) / self.pattern.width
        return less

    def by_weight(self, columns: Floats) -> Floats:
        """Columns times their weights, where they have some."""
        if self.weights is None:
            return columns
        weighted: Floats = self.weights[:, None].astype(columns.dtype) * columns
        return weighted

    def cross(self, left: Floats, right: Floats) -> Vector:
        """LᵀR, added up in float64."""

        def product(rows: slice) -> Floats:
            return left[rows].T @ right[rows]

        out = np.zeros((left.shape[1], right.shape[1]))
        for part in blas.in_order(self.pool, product, row_blocks(len(left))):
            out += part
        return out


class Place:
    """F at some factors: what depends on nothing else is worked out once."""

    def __init__(self, surface: Surface, factors: Sides) -> None:
        self.of, self.factors = surface, factors
        p, q = factors
        terms, pool = surface.terms, surface.pool
        gram, self.total = sums(pool, q, surface.weights, surface.weights)
        self.gram = surface.centred(gram, self.total, self.total)
        """G."""
        self.weighed, self.pushed = sums(pool, p, terms.gram, terms.push)
        """H, and d0ᵀP."""
        if not (np.isfinite(self.gram).all() and np.isfinite(self.weighed).all()):
            raise Diverged

    @cached_property
    def scores(self) -> Floats:
        """Of all entries."""
        return self.of.scores(*self.factors)

    @cached_property
    def pulled(self) -> Floats:
        """V."""
        surface = self.of
        return surface.entries * self.scores - surface.pulls if surface.curved else -surface.pulls

    def value(self) -> float:
        """F."""
        return float(self.along(None)[0])

    def slope(self) -> Sides:
        """∂F/∂P and ∂F/∂Q."""
        surface, (p, q) = self.of, self.factors
        down, up = surface.times(self.pulled, self.factors)
        down += surface.gram * self._times(p, self.gram)
        down += np.outer(surface.push, self.total).astype(p.dtype)
        up += self._times(self._beside(q, self.total), self.weighed)
        up += self._alike(self.pushed.astype(q.dtype))
        return Sides(2 * down, 2 * up)

    def bend(self, direction: Sides, *, full: bool) -> Sides:
        """B times a direction; in full, the whole matrix of second derivatives times it."""
        surface, (p, q), (w, x) = self.of, self.factors, direction
        weighted = surface.by_weight(x)
        moved = weighted.sum(axis=0, dtype=np.float64)
        by_columns = surface.centred(surface.cross(weighted, q), moved, self.total)
        by_rows = surface.cross(w, surface.gram * p)
        if full:
            by_columns, by_rows = by_columns + by_columns.T, by_rows + by_rows.T
        down = surface.gram * (self._times(w, self.gram) + self._times(p, by_columns))
        up = self._times(self._beside(q, self.total), by_rows)
        up += self._times(self._beside(x, moved), self.weighed)
        if full:
            down += np.outer(surface.push, moved).astype(p.dtype)
            up += self._alike(surface.push @ w)
            _add(down, up, surface.times(self.pulled, direction))
        if surface.curved:
            _add(down, up, surface.times(surface.entries * self._begin(w, x), self.factors))
        return Sides(2 * down, 2 * up)

    def along(self, direction: Sides | None) -> Vector:
        """The coefficients of F at P + τ W and Q + τ X, by powers of τ; None: does not move."""
        surface, (p, q), pool = self.of, self.factors, self.of.pool
        terms, out = surface.terms, np.zeros(DEGREE + 1)
        by_rows, by_columns = [self.weighed], [self.gram]
        pushed, totals = [self.pushed], [self.total]
        scores: list[Floats] = [self.scores]
        if direction is not None:
            w, x = direction
            moved, more = sums(pool, w, terms.gram, terms.push)
            mixed = surface.cross(p, surface.gram * w)
            by_rows += [mixed + mixed.T, moved]
            moved, total = sums(pool, x, surface.weights, surface.weights)
            mixed = surface.centred(surface.cross(q, surface.by_weight(x)), self.total, total)
            by_columns += [mixed + mixed.T, surface.centred(moved, total, total)]
            pushed, totals = [*pushed, more], [*totals, total]
            scores += [self._begin(w, x), surface.scores(w, x)]
        for i, left in enumerate(by_rows):
            for j, right in enumerate(by_columns):
                out[i + j] += np.vdot(left, right)
        for i, left in enumerate(pushed):
            for j, right in enumerate(totals):
                out[i + j] += 2 * left @ right
        for i, some in enumerate(scores):
            out[i] -= 2 * np.vdot(surface.pulls.astype(np.float64), some)
            for j, others in enumerate(scores if surface.curved else []):
                out[i + j] += np.vdot(surface.entries.astype(np.float64) * some, others)
        if not np.isfinite(out).all():
            raise Diverged
        return out

    def _begin(self, w: Floats, x: Floats) -> Floats:
        """σ of all entries."""
        begin: Floats = self.of.scores(w, self.factors.columns)
        begin += self.of.scores(self.factors.rows, x)
        return begin

    def _times(self, left: Floats, small: Vector) -> Floats:
        return tall.times(self.of.pool, left, small.astype(left.dtype))

    def _beside(self, columns: Floats, total: Vector) -> Floats:
        """Columns as they stand beside C0: weighed, or less their mean where that is out."""
        if not self.of.terms.centred:
            return self.of.by_weight(columns)
        less: Floats = columns - (total / len(columns)).astype(columns.dtype)
        return less

    def _alike(self, vector: Floats) -> Floats:
        """What every column gets, by its weight if it has one."""
        weights = self.of.weights
        return vector if weights is None else np.outer(weights.astype(vector.dtype), vector)


def _add(down: Floats, up: Floats, more: Sides) -> None:
    down += more.rows
    up += more.columns


def lowest(line: Vector) -> float:
    """How far along a line its polynomial is lowest, of the places ahead where it is level.

    0, if none of them is below where the line starts.
    """
    fall = np.polynomial.Polynomial([0.0, *line[1:]])
    level = fall.deriv().trim().roots()
    ahead = level.real[(abs(level.imag) <= NEARLY * abs(level)) & (level.real > 0)]
    best = min(ahead, key=fall, default=0.0)
    return float(best) if fall(best) < 0 else 0.0
