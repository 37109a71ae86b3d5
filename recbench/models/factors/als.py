"""Matrix factorisation by alternating least squares: every model is a set of coefficients.

Users have factors P, items Q, scores are S = P Qᵀ. With R the binary train matrix and I_u what
user u has, every model here makes

    Σ_u [c0_u |s_u|² + c1 Σ_{i∈I_u} s_ui² - 2 d1 Σ_{i∈I_u} s_ui + 2 d0_u Σ_i s_ui]
        + Σ_u r_u |p_u|² + Σ_i r_i |q_i|²                                              (1)

least, up to a constant: the objective is 0 where all scores are. The table of c0, c1, d1, d0 and r
is written down once, in `user_terms` and `item_ridge` of each model; `linalg.normal` does the rest.

A sweep solves for Q, then for P. So P is the best there is for Q, and anybody's factors can be had
from a history, whether he was trained on or not: by the same half sweep, to the same result.
"""

import time
from collections.abc import Hashable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from recbench.errors import RecbenchError
from recbench.linalg import blas
from recbench.linalg.normal import Basis, Pattern, Terms, solve, turn
from recbench.linalg.types import Counts, Floats, Indices, Vector
from recbench.models.base import Family, Fit, Model
from recbench.models.context import Context
from recbench.models.scorers import Factors, Scorer
from recbench.params import param

Trace = list[dict[str, Any]]


@dataclass(frozen=True)
class Factorisation(Model):
    """A model of the form (1)."""

    traced = True
    reserves = True

    factors: int = param(64, help="factors of each user and item", low=1, log=True)

    def user_terms(self, lengths: Counts, items: int) -> Terms:
        """Give the coefficients of users with so many interactions each, among so many items."""
        raise TypeError(f"{type(self).__name__} does not give the coefficients of its objective")

    def item_ridge(self, lengths: Counts, users: int) -> Vector:
        """Give r of items with so many interactions each, among so many users."""
        raise TypeError(f"{type(self).__name__} does not give the penalty of its items")


@dataclass(frozen=True, eq=False)
class FactorScorer(Scorer):
    """Fitted factors, and how they came about."""

    trace: Trace = field(default_factory=list)
    """For each sweep: its number, seconds since the start, objective and validation values."""


class FoldIn:
    """User factors: those of training by row, of anybody else from the history."""

    def __init__(self, model: Factorisation, basis: Basis, trained: Floats) -> None:
        self.model, self.basis, self.trained = model, basis, trained

    def __call__(self, history: sparse.csr_array, rows: Indices) -> Floats:
        """The factors of a block of users."""
        strangers = rows < 0
        if not strangers.any():
            return self.trained[rows]
        factors = np.empty((len(rows), self.trained.shape[1]), self.trained.dtype)
        factors[~strangers] = self.trained[rows[~strangers]]
        factors[strangers] = self.from_history(history[strangers])
        return factors

    def from_history(self, history: sparse.csr_array) -> Floats:
        """Factors from nothing but histories."""
        pattern = Pattern.of(history)
        out = np.empty((history.shape[0], self.trained.shape[1]), self.trained.dtype)
        terms = self.model.user_terms(pattern.lengths, history.shape[1])
        with blas.workers() as pool:
            solve(pool, pattern, self.basis, terms, out)
        return out


@dataclass(frozen=True)
class Problem:
    """A model's equations on a train matrix, for both sides."""

    model: Factorisation
    users: Pattern
    items: Pattern
    user_terms: Terms
    item_terms: Terms

    @classmethod
    def of(cls, model: Factorisation, train: sparse.csr_array) -> "Problem":
        """Check the matrix and work out the coefficients."""
        users = Pattern.of(_checked(train, model.name))
        items = users.transposed()
        terms = model.user_terms(users.lengths, train.shape[1])
        ones = np.ones(train.shape[1])
        ridge = model.item_ridge(items.lengths, train.shape[0])
        return cls(model, users, items, terms, Terms(ones, ones, ridge, terms.entry, terms.pull))

    def solve_items(self, pool: Executor, p: Floats, q: Floats, steps: int = 0) -> float:
        """Improve Q; return Σ r |q|²."""
        terms = self.user_terms
        basis = turn(pool, p, terms.gram, terms.push, companion=q if steps else None)
        return solve(pool, self.items, basis, self.item_terms, q, steps=steps).penalty

    def solve_users(
        self, pool: Executor, p: Floats, q: Floats, steps: int = 0
    ) -> tuple[Basis, float]:
        """Improve P; return what folding in needs of Q, and the objective but for Σ r |q|²."""
        basis = turn(pool, q, companion=p if steps else None)
        solved = solve(pool, self.users, basis, self.user_terms, p, steps=steps, loss=True)
        return basis, solved.loss + solved.penalty

    def item_penalty(self, q: Floats) -> float:
        """Σ r |q|²."""
        return float(self.item_terms.ridge @ np.einsum("ik,ik->i", q, q, dtype=np.float64))

    def scorer(self, basis: Basis, p: Floats, trace: Trace) -> FactorScorer:
        """Hand out the factors, with a word if they are fewer than asked for."""
        base = Factors(FoldIn(self.model, basis, p), basis.factors)
        fewer = p.shape[1] < self.model.factors
        facts = {"factors used": p.shape[1]} if fewer else {}
        return FactorScorer(base, trace=trace, facts=facts)


def _checked(train: sparse.csr_array, name: str) -> sparse.csr_array:
    """Refuse a matrix that is empty or not binary: its values are never looked at again."""
    if 0 in train.shape:
        raise RecbenchError(f"{name} needs users and items; the train matrix is {train.shape}")
    if not train.has_canonical_format:
        train = train.copy()
        train.sum_duplicates()
    odd = train.data[train.data != 1.0]  # NaN is not 1 either
    if len(odd):
        raise RecbenchError(f"{name} needs a matrix of ones; this one holds {odd[0]}: binarise it")
    return train


def rank_for(factors: int, train: sparse.csr_array) -> int:
    """How many factors to use.

    S has at most min(users, items) dimensions, and so has the solution of least penalty: more
    factors would cost time and change nothing.
    """
    return min(factors, *train.shape)


def reserve(
    rank: int, train: sparse.csr_array, ctx: Context, *, copies: float = 1, spare: int = 0
) -> None:
    """Decline what does not fit: factors so many times, the matrix by columns, and spare bytes."""
    factors = sum(train.shape) * rank * np.dtype(ctx.dtype).itemsize
    needed = int(copies * factors) + 16 * train.nnz + spare
    times = f", {copies:.0f} times over" if copies >= 2 else ""
    advice = "use fewer factors" + (", or fewer numbers of sweeps at once" if times else "")
    ctx.reserve(needed, f"{rank} factors for {train.shape[0]:,} users{times}", advice)


class Sweeps(Family[Any]):
    """Fits models that differ in nothing but the number of sweeps at once: in those of the longest.

    What a model of fewer sweeps is can be seen on the way there, to the last bit.
    """

    def key(self, model: Model) -> Hashable:
        """Everything but the number of sweeps, unless validation has a say in that."""
        sweeping = _alternating(model)
        return model.text if sweeping.patience else replace(sweeping, iterations=1).text

    def fit(self, models: Sequence[Model], train: sparse.csr_array, ctx: Context) -> list[Fit]:
        """Sweep as often as the longest asks for; each model gets the factors it would end with."""
        counts = [_alternating(model).iterations for model in models]
        longest = _alternating(models[int(np.argmax(counts))])
        rank = rank_for(longest.factors, train)
        # Beside what is handed out, half as much is needed to return to the best item factors.
        reserve(rank, train, ctx, copies=len(set(counts)) + 0.5)
        alternation = _Alternation(longest, Problem.of(longest, train), rank, ctx)
        return alternation.run(counts)


def _alternating(model: Model) -> "Alternating":
    """Narrow the type: the runner sends a family nothing but its own models."""
    assert isinstance(model, Alternating)
    return model


@dataclass(frozen=True)
class Alternating(Factorisation):
    """A model of the form (1) that is fitted by sweeps of alternating least squares."""

    stochastic = True
    family: ClassVar[Family[Any]] = Sweeps()

    iterations: int = param(30, help="sweeps at most", low=1)
    solver: str = param(
        "exact", help="solve every row exactly, or improve it by a few conjugate gradient steps",
        choices=("exact", "cg"),
    )  # fmt: skip
    steps: int = param(3, help="conjugate gradient steps a row and half sweep", low=1, high=1000)
    last: str = param(
        "users", help="the side that is solved last; items: once more, after the last sweep",
        choices=("users", "items"),
    )  # fmt: skip
    init: float = param(
        0.1, help="standard deviation of the first item factors, times √factors",
        low=0, open_low=True, log=True,
    )  # fmt: skip
    tol: float = param(1e-5, help="stop when a sweep changes the objective by less", low=0)
    patience: int = param(
        0, help="stop after this many validations without a new best, and return to it; 0: none",
        low=0,
    )  # fmt: skip
    every: int = param(1, help="sweeps from one validation to the next", low=1)


class _Alternation:
    """One fit: its factors, and what has been seen on the way."""

    def __init__(self, model: Alternating, problem: Problem, rank: int, ctx: Context) -> None:
        self.model, self.problem, self.ctx = model, problem, ctx
        # Drawn in float32 whatever the precision of the fit: both start from the same point.
        rng, scale = np.random.default_rng(ctx.seed), np.float32(model.init / np.sqrt(rank))
        draw = rng.standard_normal((problem.users.width, rank), dtype=np.float32)
        draw *= scale
        self.q: Floats = draw.astype(ctx.dtype, copy=False)
        self.p: Floats = np.zeros((problem.items.width, rank), ctx.dtype)
        self.steps = model.steps if model.solver == "cg" else 0
        self.penalty = problem.item_penalty(self.q)
        self.trace: Trace = []
        self.best: tuple[float, Floats] = (-np.inf, self.q)
        self.worse = 0

    def run(self, counts: Sequence[int]) -> list[Fit]:
        """Hand out what there is after each of these numbers of sweeps, or at the end."""
        handed: dict[int, FactorScorer] = {}
        try:
            last: Fit = self._last(counts, handed)
        except RecbenchError as error:
            last = error
        return [_told(handed.get(count, last), count) for count in counts]

    def _last(self, counts: Sequence[int], handed: dict[int, FactorScorer]) -> FactorScorer:
        """Sweep to the end, and note on the way what is asked for."""
        ended = False
        while not ended:
            with blas.workers() as pool:  # not around validation, which has its own
                basis = self._sweep_until(pool, counts)
            ended = self._validated(basis) or self._ended()
            if self.sweep in counts and not ended:
                copied = replace(basis, factors=self.q.copy())
                handed[self.sweep] = self._scorer(copied, self.p.copy(), list(self.trace))
        return self._scorer(basis, self.p, self.trace, self.best[1])

    def _scorer(
        self, basis: Basis, p: Floats, trace: Trace, q: Floats | None = None
    ) -> FactorScorer:
        """Hand out the item factors of a basis, or others."""
        q = basis.factors if q is None else q
        if self.steps or q is not basis.factors:
            # Trained user factors must be what folding in gives: the exact ones for Q.
            with blas.workers() as pool:
                basis, _ = self.problem.solve_users(pool, p, q)
        if self.model.last == "items":
            with blas.workers() as pool:
                self.problem.solve_items(pool, p, q, self.steps)
                basis = turn(pool, q, companion=p)
        return self.problem.scorer(basis, p, trace)

    @property
    def sweep(self) -> int:
        """How many there were."""
        return len(self.trace) - 1

    def _sweep_until(self, pool: Executor, counts: Sequence[int]) -> Basis:
        """Sweep until it is enough, or one of these counts, or time for a validation."""
        while True:
            start, sweep = time.perf_counter(), self.sweep + 1
            if sweep:
                self.penalty = self.problem.solve_items(pool, self.p, self.q, self.steps)
            basis, value = self.problem.solve_users(pool, self.p, self.q, self.steps)
            before = self.trace[-1]["seconds"] if sweep else 0.0
            seconds, objective = before + time.perf_counter() - start, value + self.penalty
            self.trace.append({"sweep": sweep, "seconds": seconds, "objective": objective})
            self.ctx.progress(self.model.name, sweep, self.model.iterations)
            if self._ended() or self._due() or self.sweep in counts:
                return basis

    def _ended(self) -> bool:
        """Whether the objective has stopped changing, or sweeps have run out."""
        if len(self.trace) < 2:
            return False
        before, now = (entry["objective"] for entry in self.trace[-2:])
        settled = abs(before - now) < self.model.tol * abs(now)
        return bool(settled or self.sweep == self.model.iterations)

    def _due(self) -> bool:
        """Whether these factors are to be validated."""
        wanted = self._choosing() or self.ctx.watch is not None
        return wanted and self.sweep % self.model.every == 0

    def _choosing(self) -> bool:
        """Whether validation decides when to stop."""
        return self.ctx.validate is not None and self.model.patience > 0

    def _validated(self, basis: Basis) -> bool:
        """Ask for the value of these factors where it is due; whether it is time to stop."""
        if not self._due():
            return False
        scorer = self.problem.scorer(basis, self.p, self.trace)
        if self.ctx.watch is not None:
            self.trace[-1] |= self.ctx.watch(scorer)
        if self.ctx.validate is None or not self._choosing():
            return False
        value = self.trace[-1]["validation"] = self.ctx.validate(scorer)
        if value > self.best[0]:
            self.best, self.worse = (value, self.q.copy()), 0
        else:
            self.worse += 1
        return self.worse >= self.model.patience


def _told(fit: Fit, asked: int) -> Fit:
    """The same, with a word if there were fewer sweeps than asked for."""
    if isinstance(fit, FactorScorer) and (sweeps := fit.trace[-1]["sweep"]) < asked:
        return replace(fit, facts={**fit.facts, "sweeps": sweeps})
    return fit
