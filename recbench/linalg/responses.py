"""What a loss makes of all scores of some rows against some columns, without keeping more of them.

Scores are S = A Cᵀ. A loss is a function h of one score, the same for all, and wants of each row
the mean of h and of its derivative; the gradient of what it makes of them is G = diag(c) h'(S) +
b 1ᵀ, where c and b are known only when the whole row has been seen. So a block is gone through
twice:

    Block.respond    panel by panel, S = A Cᵀ, then h'(S) in its place, its row sums, h'(S) C
    Block.push       panel by panel, Gᵀ A, which are three products of matrices in all.

A panel stays in the cache of its core from its scores to their product with C; between the passes
h'(S) waits in one array of rows x columns. `exponential` is relative to a number that no score of
a row is above in its panel, and panels are brought to a common scale when they are added.

Of a hinge most responses are 0: in a trained `mf-ccl` 4 items in 1,000 come too near to a user.
Where so few are left in a panel, the second and the third product go through them one by one.

A panel is the work of one thread, and sums go over panels in order: results do not depend on the
number of threads.
"""

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from recbench.linalg import blas, normal, tall
from recbench.linalg.types import Floats, Indices, Vector

PANEL = 960
"""Columns of a panel, at least; panels are an odd number of times that.

It has whole tiles. Rows that were a power of two apart would fall on the same places of a cache.
"""
SCORES = 1 << 19
"""Scores of a panel, where there are fewer rows: 2 MB in float32, what a core has of its own."""
DEEPEST = 80.0
"""How far below their bound exponents may be: e^-80 is still a number in float32."""

SPARSE = frozenset({"hinge", "excess", "hardest"})
"""Responses that are 0 for many scores, and never below it."""
FEW = 32
"""Of so many responses one may be above 0; where more are, whole products are faster."""

PANELS = 8
"""Panels at least, where rows face columns of their own and there are as many columns."""
CHUNK = 64
"""Rows that are looked at together where they are not looked at in panels."""

Hide = Callable[[Floats, int], None]
"""Sets scores of a panel that must not count to -infinity; it begins with this column."""


@dataclass(frozen=True)
class Response:
    """The function h of a score, less a shift for each row."""

    kind: str
    """exponential: e^(scale s), its mean made 1 · hinge: [s]₊ · softplus: log(1 + e^s) · square:
    s² / 2 · excess: [s]₊² / 2, shifted so that its derivatives add up to 1 · hardest: of the best
    score of a row, [s]₊ times log(1 + how many of `total` are above the shift)."""
    scale: float = 1.0
    total: float = 0.0


@dataclass(frozen=True)
class Means:
    """What rows have come to."""

    value: Vector
    """The mean of h; of exponentials, its logarithm; of excesses ½ Σ (s² - τ²) of those above τ."""
    slope: Vector
    """The mean of h'; of exponentials and excesses 1."""


class Room:
    """Arrays that one block after the other works in."""

    def __init__(self) -> None:
        self.scores: Floats = np.empty(0, np.float32)
        self.pulled: Floats = np.empty((0, 0, 0), np.float32)

    def make(self, rows: Floats, columns: int, panels: int) -> None:
        """Have room for the scores of these rows."""
        if self.scores.size < len(rows) * columns or self.scores.dtype != rows.dtype:
            self.scores = np.empty(len(rows) * columns, rows.dtype)
        if self.pulled.shape != (panels, *rows.shape) or self.pulled.dtype != rows.dtype:
            self.pulled = np.empty((panels, *rows.shape), rows.dtype)


class Few(NamedTuple):
    """The responses of a panel that are not 0, row by row."""

    starts: Indices
    columns: Indices
    values: Floats

    @classmethod
    def of(cls, panel: Floats) -> "Few | None":
        """Collect them, unless they are many."""
        from recbench.linalg import responses_kernel as kernel

        most = panel.size // FEW
        starts, columns = np.empty(len(panel) + 1, np.int32), np.empty(most, np.int32)
        few = cls(starts, columns, np.empty(most, panel.dtype))
        return few if kernel.collect(panel, *few) else None


class Block:
    """Some rows against some columns; `room` keeps its arrays from one block to the next."""

    def __init__(self, pool: Executor, rows: Floats, columns: Floats, room: Room) -> None:
        self.pool, self.room, self.factors = pool, room, rows.shape[1]
        self.a, self.c = _in_whole_vectors(rows), _in_whole_vectors(columns)
        self.bounds = [
            (number, start, min(start + self.panel, self.width))
            for number, start in enumerate(range(0, self.width, self.panel))
        ]
        room.make(self.a, self.width, len(self.bounds))
        self._factor: Floats = np.ones((len(self.bounds), len(rows)))
        self._few: list[Few | None] = [None] * len(self.bounds)

    @property
    def width(self) -> int:
        """How many columns each row faces."""
        return len(self.c)

    @property
    def panel(self) -> int:
        """How many of them are worked on at a time."""
        times = max(1, SCORES // (PANEL * max(len(self.a), 1)))
        return PANEL * (times - 1 + times % 2)

    def respond(
        self, response: Response, shift: Vector | float = 0.0, weights: Floats | None = None,
        hide: Hide | None = None, bound: float | None = None,
    ) -> Means:  # fmt: skip
        """Make the responses; `weights` of columns, adding up to 1, are for exponentials alone.

        No score of a row is further from 0 than a `bound`, if that is given, or than its length
        times that of the longest column. Only where that is too far for float32 is it searched for
        its largest score.
        """
        from recbench.linalg import responses_kernel as kernel

        rows, dtype = len(self.a), self.a.dtype
        given = np.broadcast_to(np.asarray(shift, dtype), rows).copy()
        sums, values, tops = (np.zeros((len(self.bounds), rows), dtype) for _ in range(3))
        if response.kind == "hardest":
            return self._hardest(response.total, given, hide)
        if response.kind == "excess":
            given = self._thresholds(hide)

        most = DEEPEST / (2 * response.scale)  # the lowest score is twice as far from the bound
        lengths = _lengths(self.a)

        def work(number: int, start: int, stop: int) -> None:
            if response.kind != "excess":
                self._fill(number, start, stop, hide)
            if response.kind == "exponential":
                far = np.full(rows, bound, dtype) if bound else self._farthest(lengths, start, stop)
                kernel.not_below(self._panel(start, stop), far, most, tops[number])
            weighing = None if weights is None else weights[start:stop]
            results = sums[number], values[number], tops[number]
            _respond(response, self._panel(start, stop), given, weighing, *results)
            self._pull(number, start, stop, sparse=response.kind in SPARSE)

        blas.finish(self.pool, work, self.bounds)
        if response.kind == "exponential":
            return self._of_exponentials(response.scale, sums, tops, weighted=weights is not None)
        value, slope = values.sum(axis=0, dtype=float), sums.sum(axis=0, dtype=float)
        if response.kind == "excess":
            # s² - τ² = (s - τ)² + 2τ (s - τ), and the second add up to 2τ.
            return Means(value + given * slope, np.ones(rows))
        self._factor[:] = 1 / self.width
        return Means(value / self.width, slope / self.width)

    def pull(self, c: Vector, b: Vector | None = None) -> Floats:
        """G C."""
        from recbench.linalg import responses_kernel as kernel

        weights, out = (self._factor * c).astype(self.a.dtype), np.empty_like(self.a)
        chunks = ((first, min(first + CHUNK, len(out))) for first in range(0, len(out), CHUNK))
        given = weights, self.room.pulled, out
        blas.finish(self.pool, kernel.weighed, ((*chunk, *given) for chunk in chunks))
        if b is not None:
            out += np.outer(b, self._total()).astype(out.dtype)
        return self._cut(out)

    def push(self, c: Vector, b: Vector | None = None) -> Floats:
        """Gᵀ A."""
        from recbench.linalg import products_kernel as products
        from recbench.linalg import responses_kernel as kernel

        out: Floats = np.empty_like(self.c)
        alike = None if b is None else (b @ self.a).astype(out.dtype)
        one_scale = bool((self._factor == self._factor[0]).all())
        scaled = self._scaled(0, c)

        def push(number: int, start: int, stop: int) -> None:
            rows, few = scaled if one_scale else self._scaled(number, c), self._few[number]
            if few is None:
                products.push(self._panel(start, stop), rows, out[start:stop])
            else:
                out[start:stop] = 0
                kernel.add_to_columns(*few, rows, out[start:stop])
            if alike is not None:
                out[start:stop] += alike

        blas.finish(self.pool, push, self.bounds)
        return self._cut(out)

    def _cut(self, out: Floats) -> Floats:
        """As many numbers in a row as there were."""
        return np.ascontiguousarray(out[:, : self.factors])

    def _scaled(self, number: int, c: Vector) -> Floats:
        """The rows times c, on the scale of a panel."""
        scaled: Floats = (self._factor[number] * c).astype(self.a.dtype)[:, None] * self.a
        return scaled

    def _panel(self, start: int, stop: int) -> Floats:
        rows = len(self.a)
        return self.room.scores[rows * start : rows * stop].reshape(rows, stop - start)

    def _fill(self, number: int, start: int, stop: int, hide: Hide | None) -> None:
        """Make the scores of a panel."""
        from recbench.linalg import products_kernel as products

        products.scores(self.a, self.c[start:stop], self._panel(start, stop))
        if hide is not None:
            hide(self._panel(start, stop), start)

    def _farthest(self, lengths: Floats, start: int, stop: int) -> Floats:
        """What no score of a row, which has this length, is above in a panel."""
        far: Floats = lengths * _lengths(self.c[start:stop]).max()
        return far

    def _pull(self, number: int, start: int, stop: int, *, sparse: bool) -> None:
        """Multiply the responses of a panel with its columns."""
        from recbench.linalg import products_kernel as products
        from recbench.linalg import responses_kernel as kernel

        panel, columns, out = self._panel(start, stop), self.c[start:stop], self.room.pulled[number]
        few = self._few[number] = Few.of(panel) if sparse else None
        if few is None:
            products.pull(panel, columns, out)
        else:
            out[:] = 0
            kernel.add_to_rows(*few, columns, out)

    def _total(self) -> Vector:
        """The sum of the columns that every row faces."""
        total: Vector = self.c.sum(axis=0, dtype=np.float64)
        return total

    def _of_exponentials(
        self, scale: float, sums: Floats, tops: Floats, *, weighted: bool
    ) -> Means:
        """Bring panels to the scale of the row's largest score."""
        highest = tops.max(axis=0)
        relative = np.exp(scale * (tops - highest).astype(np.float64))
        total = (sums * relative).sum(axis=0)
        self._factor = relative / total
        size = 1 if weighted else self.width
        return Means(np.log(total / size) + scale * highest, np.ones(len(total)))

    def _hardest(self, total: float, shift: Floats, hide: Hide | None) -> Means:
        """Leave a weight where the best score of each row is, in whichever panel."""
        from recbench.linalg import responses_kernel as kernel

        shape = len(self.bounds), len(self.a)
        tops, counts = np.empty(shape, self.a.dtype), np.empty(shape, self.a.dtype)

        def fill(number: int, start: int, stop: int) -> None:
            self._fill(number, start, stop, hide)
            panel = self._panel(start, stop)
            kernel.highest(panel, tops[number])
            kernel.above(panel, shift, counts[number])

        blas.finish(self.pool, fill, self.bounds)
        winners, highest = tops.argmax(axis=0), tops.max(axis=0)
        weights = np.log1p(total * counts.sum(axis=0, dtype=np.float64) / self.width)

        def keep(number: int, start: int, stop: int) -> None:
            mine = np.where(winners == number, weights, 0).astype(shift.dtype)
            kernel.only(self._panel(start, stop), highest, mine)
            self._pull(number, start, stop, sparse=True)

        blas.finish(self.pool, keep, self.bounds)
        self._factor[:] = 1
        return Means(weights * np.maximum(highest - shift, 0), weights)

    def _thresholds(self, hide: Hide | None) -> Floats:
        """The τ of each row with Σ [s - τ]₊ = 1."""
        from recbench.linalg import responses_kernel as kernel

        rows, dtype = len(self.a), self.a.dtype
        tops = np.empty((len(self.bounds), rows), dtype)

        def fill(number: int, start: int, stop: int) -> None:
            self._fill(number, start, stop, hide)
            kernel.highest(self._panel(start, stop), tops[number])

        blas.finish(self.pool, fill, self.bounds)
        tau, top = np.empty(rows, dtype), tops.max(axis=0)
        scores = self.room.scores, rows, self.width, self.panel
        chunks = range(0, rows, CHUNK)
        blas.finish(
            self.pool, kernel.thresholds,
            ((*scores, first, min(first + CHUNK, rows), top, tau) for first in chunks),
        )  # fmt: skip
        return tau


def _lengths(rows: Floats) -> Floats:
    lengths: Floats = np.sqrt(np.einsum("rk,rk->r", rows, rows))
    return lengths


def _in_whole_vectors(rows: Floats) -> Floats:
    """Rows with zeros behind them, up to whole vectors; they were ones already with 64 factors."""
    from recbench.linalg.registers_kernel import SIDE

    missing = -rows.shape[1] % SIDE
    whole = np.pad(rows, ((0, 0), (0, missing))) if missing else rows
    return np.ascontiguousarray(whole)


class Shared(Block):
    """Some rows against columns that were drawn, with repetitions, from others."""

    def __init__(
        self, pool: Executor, rows: Floats, columns: Floats, room: Room, drawn: Indices
    ) -> None:
        super().__init__(pool, rows, columns[drawn], room)
        self.drawn, self.source = drawn, columns

    def push(self, c: Vector, b: Vector | None = None) -> Floats:
        """Gᵀ A, added up by what the columns were drawn from."""
        from recbench.linalg import responses_kernel as kernel

        out: Floats = np.zeros_like(self.source)
        kernel.add_rows(out, self.drawn, super().push(c, b))
        return out


class Own(Block):
    """Some rows against columns of their own: rows x as many, drawn from others."""

    def __init__(
        self, pool: Executor, rows: Floats, columns: Floats, room: Room, drawn: Indices
    ) -> None:
        self.drawn = drawn
        super().__init__(pool, rows, columns, room)

    @property
    def width(self) -> int:
        """How many columns each row faces."""
        return int(self.drawn.shape[1])

    @property
    def panel(self) -> int:
        """A few panels, however few columns there are: each is the work of one thread."""
        return min(PANEL, max(1, self.width // PANELS))

    def pull(self, c: Vector, b: Vector | None = None) -> Floats:
        """G C."""
        out = super().pull(c)
        if b is not None:
            more = b[:, None] * self.c[self.drawn].sum(axis=1, dtype=np.float64)
            out += self._cut(more).astype(out.dtype)
        return out

    def push(self, c: Vector, b: Vector | None = None) -> Floats:
        """Gᵀ A, added up by what the columns were drawn from."""
        from recbench.linalg import responses_kernel as kernel

        out: Floats = np.zeros_like(self.c)
        for factor, (_, start, stop) in zip(self._factor, self.bounds, strict=True):
            g = self._panel(start, stop) * (factor * c).astype(out.dtype)[:, None]
            if b is not None:
                g += b[:, None].astype(out.dtype)
            kernel.push_own(g, self.a, self.drawn[:, start:stop], out)
        return self._cut(out)

    def _fill(self, number: int, start: int, stop: int, hide: Hide | None) -> None:
        from recbench.linalg import responses_kernel as kernel

        kernel.dots_own(self.a, self.c, self.drawn[:, start:stop], self._panel(start, stop))

    def _farthest(self, lengths: Floats, start: int, stop: int) -> Floats:
        return np.full_like(lengths, np.inf)  # columns would have to be fetched one by one

    def _pull(self, number: int, start: int, stop: int, *, sparse: bool) -> None:
        from recbench.linalg import responses_kernel as kernel

        panel, out = self._panel(start, stop), self.room.pulled[number]
        kernel.pull_own(panel, self.c, self.drawn[:, start:stop], out)


class Squares(Block):
    """Rows against columns, where nothing is wanted of scores but their sums and those of squares.

    Then h'(S) is S, and the Gram matrix of the columns is all that rows need: no score is made.
    Means, G C and Gᵀ A take rows and columns times a small matrix, whatever there is of both.

    Columns may weigh in both means. With v, their weights times their number, G is then
    (diag(c) h'(S) + b 1ᵀ) diag(v).
    """

    def __init__(self, pool: Executor, rows: Floats, columns: Floats) -> None:
        self.pool, self.a, self.c = pool, rows, columns

    def respond(
        self, response: Response, shift: Vector | float = 0.0, weights: Floats | None = None,
        hide: Hide | None = None, bound: float | None = None,
    ) -> Means:  # fmt: skip
        """The means of s² / 2 and of s; there is nothing to shift or to hide."""
        self._v = None if weights is None else self.width * weights.astype(np.float64)
        gram, self._sum = normal.sums(self.pool, self.c, self._v, self._v)
        self._reached: Floats = tall.times(self.pool, self.a, gram.astype(self.a.dtype))
        squares = np.einsum("ik,ik->i", self._reached, self.a).astype(np.float64)
        return Means(squares / (2 * self.width), self.a @ self._sum / self.width)

    def pull(self, c: Vector, b: Vector | None = None) -> Floats:
        """G C."""
        out: Floats = (c / self.width).astype(self.a.dtype)[:, None] * self._reached
        if b is not None:
            out += np.outer(b, self._total()).astype(out.dtype)
        return out

    def push(self, c: Vector, b: Vector | None = None) -> Floats:
        """Gᵀ A."""
        scaled = (c / self.width).astype(self.a.dtype)[:, None] * self.a
        out: Floats = tall.times(self.pool, self.c, tall.inner(self.pool, self.a, scaled))
        if b is not None:
            out += (b @ self.a).astype(out.dtype)
        if self._v is not None:
            out *= self._v[:, None].astype(out.dtype)
        return out

    def _total(self) -> Vector:
        """The sum of the columns that every row faces, weighted if they are."""
        return self._sum


def _respond(
    response: Response, panel: Floats, shift: Floats, weights: Floats | None,
    sums: Floats, values: Floats, tops: Floats,
) -> None:  # fmt: skip
    """H' in place of scores; Σ h', Σ h and, for exponentials, what they are relative to."""
    from recbench.linalg import responses_kernel as kernel

    of: Callable[[float], Any] = panel.dtype.type
    if response.kind == "exponential":
        weighing = np.empty(0, panel.dtype) if weights is None else weights
        kernel.exponentials(panel, of(response.scale), weighing, tops, sums)
    elif response.kind == "square":
        kernel.squares(panel, sums, values)
    else:
        loops = {"hinge": kernel.hinges, "softplus": kernel.sigmoids, "excess": kernel.excesses}
        loops[response.kind](panel, shift, sums, values)
