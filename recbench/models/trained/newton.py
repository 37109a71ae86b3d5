"""Newton-CG: quadratic losses on tables of vectors, or on what a graph makes of them.

A round solves (B + λ) δ = -∂ by conjugate gradients, where ∂ is the slope of the objective of `als`
and B how it bends (`linalg.joint`), and goes along δ to the lowest point of the line: the objective
is a polynomial of degree four there, whose coefficients are known. So no round raises it. Where B
bends down, conjugate gradients end with what they have, which leads down.

Vectors are G x for a table x, where G averages walks on the graph (`lightgcn`) or is nothing at all
(`mf`). G is linear and symmetric: directions go through it as vectors do, and slopes come back
through it. Penalties are of the table.

Without a graph a fit begins as `als` does: with drawn items, and the users that are best for them.
"""

from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace

import numpy as np

from recbench.linalg import blas, conjugate
from recbench.linalg.joint import Place, Sides, Surface, lowest
from recbench.linalg.types import Floats, Sparse, Vector
from recbench.models.base import Family, Fit, Model
from recbench.models.checkpoint import State
from recbench.models.context import Context
from recbench.models.factors.als import (
    Problem,
    checked,
    factors_param,
    first_items,
    rank_for,
    reserve,
)
from recbench.models.factors.losses import (
    RG2,
    QuadraticLoss,
    check_one_objective,
    check_quadratic,
    goal_of,
)
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
from recbench.models.trained.encoders import Walked
from recbench.params import held, param
from recbench.registry import LOSSES, MODELS

COPIES = 16
"""Tables at work in a round: vectors, slopes, directions, and what they are made of."""
ENTRY = 64
"""Bytes for each interaction, beside what it takes by columns: scores, and what is made of them."""
CUT = "cg cut short"
"""The fact that says how often conjugate gradients did not come as near as was asked for."""


class NewtonFamily(Family["Newton"]):
    """Fits models that differ in nothing but the number of rounds at once."""

    reserves = True

    def key(self, model: "Newton") -> Hashable:
        """Everything but the number of rounds, unless validation has a say in that."""
        return model.text if model.patience else replace(model, iterations=1).text

    def fit(self, models: Sequence["Newton"], train: Sparse, ctx: Context) -> list[Fit]:
        """Go as many rounds as the longest asks for; each gets the vectors it would end with."""
        counts = [model.iterations for model in models]
        longest = models[int(np.argmax(counts))]
        rank = rank_for(longest.factors, train)
        copies = COPIES + len(set(counts)) + (longest.patience > 0)
        reserve(rank, train, ctx, copies=copies, spare=ENTRY * train.nnz)
        matrix = checked(train, longest.name)
        problem = Problem.of(longest.loss.objective, matrix, longest.name)
        check_one_objective(longest.loss, problem.user_terms)
        schedule = Schedule(longest.iterations, longest.patience, longest.every)
        with blas.workers() as pool:
            fit = NewtonRounds(longest, problem, matrix, rank, pool, ctx)
            return run(fit, ctx, longest.name, longest.text, schedule, counts)


@MODELS.register("newton")
@dataclass(frozen=True)
class Newton(Model):
    """Matrix factorisation, or LightGCN, by Newton's method on any quadratic loss."""

    family = NewtonFamily()
    stochastic = traced = True
    cite = f"{RG2}, appendix D"
    factors: int = factors_param()
    layers: int = param(0, help="steps K along the graph, as in lightgcn; 0: mf", low=0, high=100)
    iterations: int = param(30, help="rounds at most; a grid over this costs one fit", low=1,
                            search=(2, 30))  # fmt: skip
    curvature: str = param(
        "full", help="all second derivatives, or those that Gauss and Newton keep: never negative",
        choices=("full", "gauss-newton"),
    )  # fmt: skip
    steps: int = param(30, help="conjugate gradient steps a round, at most", low=1, high=1000)
    accuracy: float = param(
        0.1, help="residual, of that of no step at all, at which conjugate gradients are ended",
        low=0, high=1, log=True,
    )  # fmt: skip
    init: float = param(
        0.1, help="standard deviation of the first item vectors, times √factors",
        low=0, open_low=True, log=True,
    )  # fmt: skip
    tol: float = tol_parameter("round")
    patience: int = patience_parameter()
    every: int = every_parameter("rounds")
    loss: QuadraticLoss = held(LOSSES, "rg2", help="what is minimised, as in loss=rg2[alpha=1]")

    def __post_init__(self) -> None:
        """Refuse a loss that is not quadratic."""
        super().__post_init__()
        check_quadratic(self.loss)

    @property
    def most_rounds(self) -> int:
        """The number of rounds."""
        return self.iterations

    @property
    def goal(self) -> str:
        """That of all who minimise this loss."""
        return goal_of(self.loss, self.factors, self.layers)


class NewtonRounds(Rounds):
    """Rounds over a table of users and, below them, items."""

    word, first = "iteration", 0

    def __init__(
        self, model: Newton, problem: Problem, train: Sparse, rank: int, pool: Executor,
        ctx: Context,
    ) -> None:  # fmt: skip
        self.model, self.problem, self.pool = model, problem, pool
        self.users, items = train.shape
        self.table: Floats = np.zeros((self.users + items, rank), ctx.dtype)
        self.table[self.users :] = first_items(model.init, items, rank, ctx)
        self.cut = 0
        self.ridge = np.concatenate([problem.user_terms.ridge, problem.item_terms.ridge])
        # No direction would ever lead away from where these were drawn; a sweep leaves them at 0.
        free = (problem.item_terms.gram == 0) & (problem.item_terms.ridge == 0)
        self.table[self.users :][free] = 0
        self.surface = Surface(pool, problem.users, problem.user_terms, self.table.dtype)
        self.graph = Walked(self.table, model.layers, train, pool) if model.layers else None
        self._here: Place | None = None

    def advance(self, number: int) -> Mapping[str, float]:
        """Find a direction, and go to the lowest point along it; at first, begin."""
        if number == 0:
            return self._begin()
        here, pull = self._place(), self._column(2 * self.ridge)
        full = self.model.curvature == "full"
        slope = self._back(here.slope()) + pull * self.table

        def bend(x: Floats) -> Floats:
            return self._back(here.bend(self._spread(x), full=full)) + pull * x

        answer = conjugate.solve(
            bend, self._scaled(here), -slope, self.model.accuracy, self.model.steps
        )
        line = here.along(self._spread(answer.x))
        line[:3] += self._penalties(answer.x)
        length = lowest(line)
        self.table += np.asarray(length, self.table.dtype) * answer.x
        self.cut += answer.residual > self.model.accuracy
        self._here = None
        return {
            "objective": self._objective(),
            "gradient": float(np.sqrt(conjugate.dot(slope, slope))),
            "cg": answer.steps, "residual": answer.residual, "step": length,
        }  # fmt: skip

    def _begin(self) -> Mapping[str, float]:
        """Where there is no graph, solve for the users, as `als` does at first."""
        if self.graph is None:
            users, items = self._spread(self.table)
            self.problem.solve_users(self.pool, users, items)
        return {"objective": self._objective()}

    def _objective(self) -> float:
        """What is minimised, where the table is."""
        return self._place().value() + float(self._penalties(self.table)[0])

    def settled(self, trace: Trace) -> bool:
        """Whether the objective has stopped changing, or nothing on the line was below it."""
        if len(trace) < 2:
            return False
        if trace[-1]["step"] == 0:
            return True
        before, now = (entry["objective"] for entry in trace[-2:])
        return abs(before - now) < self.model.tol * abs(now)

    def look(self) -> Scorer:
        """The vectors as they are."""
        users, items = (side.copy() for side in self._spread(self.table))
        return self._scorer(users, items, exact=False)

    def hand_out(self) -> Scorer:
        """The vectors; without a graph users' are exact: what folding in gives."""
        users, items = (side.copy() for side in self._spread(self.table))
        scorer = self._scorer(users, items, exact=True)
        return replace(scorer, facts={**scorer.facts, CUT: self.cut})

    def state(self) -> State:
        """The table, and how many rounds were cut short."""
        return {"table": self.table, "cut": np.array(self.cut)}

    def restore(self, state: State) -> None:
        """Take those numbers."""
        self.table[...], self.cut, self._here = state["table"], int(state["cut"]), None

    def _scorer(self, users: Floats, items: Floats, *, exact: bool) -> Scorer:
        """Rank by these vectors, which are turned in place."""
        if self.graph is None:
            if exact:
                basis, _ = self.problem.solve_users(self.pool, users, items)
            else:
                basis = self.problem.turn_items(self.pool, items, users)
            return self.problem.scorer(basis, users, self.model.factors)
        return Scorer(Factors(FoldIn(users, self.graph.strangers()), items))

    def _place(self) -> Place:
        """Where the table is."""
        if self._here is None:
            self._here = self.surface.at(self._spread(self.table))
        return self._here

    def _spread(self, table: Floats) -> Sides:
        """The vectors that a table gives, or how they move with it."""
        spread = self._averaged(table)
        return Sides(spread[: self.users], spread[self.users :])

    def _back(self, sides: Sides) -> Floats:
        """Derivatives by vectors as derivatives by the table."""
        return self._averaged(np.concatenate(sides))

    def _averaged(self, x: Floats) -> Floats:
        """G x."""
        if self.graph is None:
            return x
        return self.graph.graph.spread(self.pool, x, self.graph.layers)

    def _column(self, numbers: Vector) -> Floats:
        """A number for each row of the table."""
        return numbers[:, None].astype(self.table.dtype)

    def _penalties(self, direction: Floats) -> Vector:
        """The coefficients of Σ r |x|² along a direction."""
        pairs = ((self.table, self.table), (self.table, direction), (direction, direction))
        found = [float(self.ridge @ np.einsum("ik,ik->i", *pair)) for pair in pairs]
        return np.array([found[0], 2 * found[1], found[2]])

    def _scaled(self, here: Place) -> conjugate.Apply:
        """Divide by what is nearly the diagonal of the system, in the basis of each side's Gram.

        That of a row: what all cells weigh, the row's entries as if they were a share of all, and
        its penalty. What a graph does is left out.
        """
        terms, users = self.problem.user_terms, self.users
        lengths, counts = self.problem.users.lengths, self.problem.items.lengths
        n, whole = self.problem.users.width, terms.gram.sum()
        mean = (terms.entries * lengths).sum() / max(lengths.sum(), 1)
        items = self.problem.item_terms.gram + mean * counts / (whole or 1.0)
        weights = terms.gram + terms.entries * lengths / n, items
        ridges = self.ridge[:users], self.ridge[users:]
        sides = [
            conjugate.Scaling.of(gram, weight, ridge, self.table)
            for gram, weight, ridge in zip((here.gram, here.weighed), weights, ridges, strict=True)
        ]

        def scaled(x: Floats) -> Floats:
            halves = x[:users], x[users:]
            return np.concatenate([
                side.divide(self.pool, half) for side, half in zip(sides, halves, strict=True)
            ])  # fmt: skip

        return scaled
