"""Alternating least squares: models that minimise a quadratic loss, sweep by sweep.

`losses` says what is minimised. A sweep solves for the item factors Q, then for the users' P. So P
is the best there is for Q, and anybody's factors can be had from a history, whether they were
trained on or not: by the same half sweep, to the same result.
"""

from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, make_dataclass, replace
from typing import Any, ClassVar, Protocol, cast

import numpy as np

from recbench.errors import RecbenchError, check_takes, of_kind
from recbench.linalg import blas
from recbench.linalg.normal import Basis, Pattern, Terms, column_weights, solve, turn
from recbench.linalg.types import Floats, Sparse, Vector
from recbench.models.base import Family, Fit, Model
from recbench.models.checkpoint import State
from recbench.models.context import Context
from recbench.models.factors import losses
from recbench.models.factors.losses import QuadraticLoss, check_quadratic, goal_of
from recbench.models.factors.objectives import Objective
from recbench.models.rounds import (
    Rounds,
    Schedule,
    Trace,
    every_parameter,
    patience_parameter,
    run,
    tol_parameter,
)
from recbench.models.scorers import Factors, FoldIn, Scorer
from recbench.params import Described, held, inlined, param
from recbench.registry import LOSSES, MODELS


def factors_param() -> Any:
    """How many factors a model has."""
    return param(64, help="factors of each user and item", low=1, log=True)


@dataclass(frozen=True)
class HalfSweep:
    """User factors from nothing but histories."""

    objective: Objective
    basis: Basis

    def __call__(self, history: Sparse) -> Floats:
        """Solve for these users."""
        pattern, factors = Pattern.of(history), self.basis.factors
        out = np.empty((history.shape[0], factors.shape[1]), factors.dtype)
        terms = self.objective.user_terms(pattern.lengths, history.shape[1])
        with blas.workers() as pool:
            solve(pool, pattern, self.basis, terms, out)
        return out


@dataclass(frozen=True)
class Problem:
    """An objective's equations on a train matrix, for both sides."""

    objective: Objective
    users: Pattern
    items: Pattern
    user_terms: Terms
    item_terms: Terms
    weights: Vector | None
    """The v of items; None: all of them are 1."""

    @classmethod
    def of(cls, objective: Objective, train: Sparse, name: str) -> "Problem":
        """Check the matrix for the model of this name, and work out the coefficients."""
        users = Pattern.of(checked(train, name))
        items = users.transposed()
        given = users.lengths, train.shape[1]
        check_takes(objective.user_terms, given, "user_terms", "user_terms(self, lengths, items)")
        terms = of_kind(
            objective.user_terms(*given), Terms, type(objective).user_terms, "user_terms",
            "return Terms(gram, push, ridge, entry, pull)",
        )  # fmt: skip
        weights = column_weights(items.lengths, terms.power)
        grams = np.ones(train.shape[1]) if weights is None else weights
        ridge = objective.item_ridge(items.lengths, train.shape[0])
        item_terms = Terms(grams, terms.answer * grams, ridge, terms.entry, terms.pull)
        return cls(objective, users, items, terms, item_terms, weights)

    def solve_items(self, pool: Executor, p: Floats, q: Floats, steps: int = 0) -> float:
        """Improve Q; return Σ r |q|².

        Where the Gram matrix of Q is centred, -(Σ_i s_ui)² ties all items together. It is concave:
        its tangent at the present Q is no less, and as no item has a say in another's, all is as
        before with another t.
        """
        terms = self.user_terms
        companion = q if steps or terms.centred else None
        basis = turn(pool, p, terms.gram, terms.push, companion=companion)
        if terms.centred:
            mean = q.mean(axis=0, dtype=np.float64)
            basis = replace(basis, total=basis.total - basis.spectrum * mean)
        solved = solve(
            pool, self.items, basis, self.item_terms, q, columns=terms.share, steps=steps
        )
        return solved.penalty

    def solve_users(
        self, pool: Executor, p: Floats, q: Floats, steps: int = 0
    ) -> tuple[Basis, float]:
        """Improve P; return what folding in needs of Q, and the objective but for Σ r |q|²."""
        basis = self.turn_items(pool, q, companion=p if steps else None)
        solved = solve(pool, self.users, basis, self.user_terms, p, steps=steps, loss=True)
        return basis, solved.loss + solved.penalty

    def turn_items(self, pool: Executor, q: Floats, companion: Floats | None) -> Basis:
        """Turn Q, and what is multiplied with it: what folding in needs of Q."""
        v, centred = self.weights, self.user_terms.centred
        return turn(pool, q, v, v, companion=companion, centred=centred)

    def item_penalty(self, q: Floats) -> float:
        """Σ r |q|²."""
        return float(self.item_terms.ridge @ np.einsum("ik,ik->i", q, q, dtype=np.float64))

    def scorer(self, basis: Basis, p: Floats, factors: int) -> Scorer:
        """Hand out the factors, with a fact if they are fewer than were asked for."""
        base = Factors(FoldIn(p, HalfSweep(self.objective, basis)), basis.factors)
        return Scorer(base, facts={"factors used": p.shape[1]} if p.shape[1] < factors else {})


def checked(train: Sparse, name: str) -> Sparse:
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


def rank_for(factors: int, train: Sparse) -> int:
    """How many factors to use.

    S has at most min(users, items) dimensions, and so has the solution of least penalty: more
    factors would cost time and change nothing.
    """
    return min(factors, *train.shape)


def reserve(rank: int, train: Sparse, ctx: Context, *, copies: float = 1, spare: int = 0) -> None:
    """Decline what does not fit: factors so many times, the matrix by columns, and spare bytes."""
    factors = sum(train.shape) * rank * np.dtype(ctx.dtype).itemsize
    needed = int(copies * factors) + 16 * train.nnz + spare
    times = f", {copies:.0f} times over" if copies >= 2 else ""
    advice = "use fewer factors" + (", or fewer numbers of sweeps at once" if times else "")
    ctx.reserve(needed, f"{rank} factors for {train.shape[0]:,} users{times}", advice)


def first_items(init: float, items: int, rank: int, ctx: Context) -> Floats:
    """The item factors that a fit begins with.

    They are drawn in float32 whatever the precision of the fit: both start from the same point.
    """
    draw = ctx.stream().standard_normal((items, rank), dtype=np.float32)
    draw *= np.float32(init / np.sqrt(rank))
    return draw.astype(ctx.dtype, copy=False)


@dataclass(frozen=True)
class Sweeps(Described):
    """How factors are found: how many, from where, how exactly, and when it is enough."""

    factors: int = factors_param()
    iterations: int = param(
        30, help="sweeps at most, after the half sweep that finds the first user factors", low=1,
        search=(2, 30),
    )  # fmt: skip
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
    tol: float = tol_parameter("sweep")
    patience: int = patience_parameter()
    every: int = every_parameter("sweeps")

    @property
    def schedule(self) -> Schedule:
        """How long to go on."""
        return Schedule(self.iterations, self.patience, self.every)

    @property
    def mark(self) -> str:
        """Since fits with patience are refitted for the sweeps that validation chose: 2."""
        return "patience@2" if self.patience else ""


class Swept(Protocol):
    """A model that is a quadratic loss and the sweeps that minimise it."""

    name: ClassVar[str]
    sweeps: Sweeps
    loss: QuadraticLoss

    @property
    def text(self) -> str:
        """The canonical text of the model."""


class SweepFamily(Family[Swept]):
    """Fits models that differ in nothing but the number of sweeps at once: in those of the longest.

    What a model of fewer sweeps is can be seen on the way there, to the last bit.
    """

    reserves = True

    def key(self, model: Swept) -> Hashable:
        """Everything but the number of sweeps, unless validation has a say in that."""
        sweeps, described = model.sweeps, cast("Any", model)
        if sweeps.patience:
            return model.text
        return str(replace(described, sweeps=replace(sweeps, iterations=1)))

    def fit(self, models: Sequence[Swept], train: Sparse, ctx: Context) -> list[Fit]:
        """Sweep as often as the longest asks for; each model gets the factors it would end with."""
        counts = [model.sweeps.iterations for model in models]
        longest = models[int(np.argmax(counts))]
        sweeps = longest.sweeps
        rank = rank_for(sweeps.factors, train)
        # Beside what is handed out, something is needed to return to.
        reserve(rank, train, ctx, copies=len(set(counts)) + (1.0 if sweeps.patience else 0.5))
        problem = Problem.of(longest.loss.objective, train, longest.name)
        fits = run(
            FactorRounds(sweeps, problem, rank, ctx), ctx, longest.name, longest.text,
            sweeps.schedule, counts,
        )  # fmt: skip
        return [_with_sweeps(fit, count) for fit, count in zip(fits, counts, strict=True)]


def _with_sweeps(fit: Fit, count: int) -> Fit:
    """The same, with a fact if fewer sweeps than asked for were enough."""
    if isinstance(fit, Scorer) and fit.rounds < count and not fit.stopped:
        return replace(fit, facts={**fit.facts, "sweeps": fit.rounds})
    return fit


class FactorRounds(Rounds):
    """Sweeps over the factors of both sides."""

    word, first = "sweep", 0

    def __init__(self, sweeps: Sweeps, problem: Problem, rank: int, ctx: Context) -> None:
        self.sweeps, self.problem = sweeps, problem
        self.q = first_items(sweeps.init, problem.users.width, rank, ctx)
        self.p: Floats = np.zeros((problem.items.width, rank), ctx.dtype)
        self.basis = Basis(self.q, np.zeros(rank), np.zeros(rank))
        self.steps = sweeps.steps if sweeps.solver == "cg" else 0

    def advance(self, number: int) -> Mapping[str, float]:
        """Solve for the items, but not at first, then for the users."""
        with blas.workers() as pool:
            if number:
                penalty = self.problem.solve_items(pool, self.p, self.q, self.steps)
            else:
                penalty = self.problem.item_penalty(self.q)
            self.basis, value = self.problem.solve_users(pool, self.p, self.q, self.steps)
        return {"objective": value + penalty}

    def settled(self, trace: Trace) -> bool:
        """Whether the objective has stopped changing."""
        if len(trace) < 2:
            return False
        before, now = (entry["objective"] for entry in trace[-2:])
        return abs(before - now) < self.sweeps.tol * abs(now)

    def look(self) -> Scorer:
        """The factors as they are."""
        return self.problem.scorer(self.basis, self.p, self.sweeps.factors)

    def hand_out(self) -> Scorer:
        """The factors, users' exact: what folding in gives."""
        with blas.workers() as pool:
            if self.steps:
                self.basis, _ = self.problem.solve_users(pool, self.p, self.q)
            if self.sweeps.last == "items":
                self.problem.solve_items(pool, self.p, self.q, self.steps)
                self.basis = self.problem.turn_items(pool, self.q, self.p)
        return self.look()

    def state(self) -> State:
        """The factors, and what they are turned into."""
        basis = self.basis
        return {"p": self.p, "q": self.q, "spectrum": basis.spectrum, "total": basis.total}

    def restore(self, state: State) -> None:
        """Take those factors."""
        self.p, self.q = state["p"], state["q"]
        self.basis = Basis(self.q, state["spectrum"], state["total"])


@MODELS.register("als")
@dataclass(frozen=True)
class Als(Model):
    """Matrix factorisation by alternating least squares on any quadratic loss."""

    family = SweepFamily()
    stochastic = traced = True
    sweeps: Sweeps = inlined(Sweeps)
    loss: QuadraticLoss = held(LOSSES, "ials", help="what is minimised, as in loss=rg2[alpha=1]")

    def __post_init__(self) -> None:
        """Refuse what least squares cannot minimise."""
        super().__post_init__()
        check_quadratic(self.loss)

    @property
    def most_rounds(self) -> int:
        """The number of sweeps."""
        return self.sweeps.iterations

    @property
    def goal(self) -> str:
        """That of all who minimise this loss."""
        return goal_of(self.loss, self.sweeps.factors)


def _model_of(loss: Any) -> Any:
    """The model that `als` is with this loss, whose parameters and name become its own."""
    shared = ("family", "stochastic", "traced", "most_rounds", "goal")
    namespace = {name: vars(Als)[name] for name in shared}
    namespace |= {"cite": loss.cite, "__doc__": loss.__doc__, "__module__": __name__}
    fields = [("sweeps", Sweeps, inlined(Sweeps)), ("loss", loss, inlined(loss))]
    name, bases = loss.__name__, (Model,)
    model = make_dataclass(name, fields, bases=bases, namespace=namespace, frozen=True)
    return MODELS.register(loss.name)(model)


Wrmf = _model_of(losses.Wrmf)
Ials = _model_of(losses.Ials)
IalsDebiased = _model_of(losses.IalsDebiased)
Mse = _model_of(losses.Mse)
MseDebiased = _model_of(losses.MseDebiased)
Rg2 = _model_of(losses.Rg2)
Rgx = _model_of(losses.Rgx)
RgxExact = _model_of(losses.RgxExact)
Rg2Matrix = _model_of(losses.Rg2Matrix)
Rg2Ssm = _model_of(losses.Rg2Ssm)
RgxSsm = _model_of(losses.RgxSsm)
