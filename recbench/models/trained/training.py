"""How trained models are trained: epochs of steps, each down the slope of a loss.

An epoch is a round: it goes over all users, or over as many interactions as there are. The rate is
a fixed function of the epoch, so what there is after ten epochs does not depend on how many are to
follow, and one fit hands out all of them.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from recbench.errors import RecbenchError, UsageError
from recbench.linalg import blas
from recbench.linalg.adam import Adam, norm
from recbench.linalg.normal import Pattern
from recbench.linalg.responses import Room
from recbench.linalg.types import Floats, Sparse
from recbench.models.base import Family, Fit
from recbench.models.checkpoint import State
from recbench.models.context import Context
from recbench.models.factors.als import checked
from recbench.models.factors.losses import QuadraticLoss
from recbench.models.rates import decay_at_parameter, decay_parameter, decays, lowered
from recbench.models.rounds import (
    Rounds,
    Schedule,
    Trace,
    but_for_epochs,
    every_parameter,
    patience_parameter,
    run,
)
from recbench.models.scorers import Factors, FoldIn, Scorer
from recbench.models.trained.batches import Batch, Draws, of_users, users_at_once
from recbench.models.trained.encoders import Encoder, Gradient, Mf, layers_of
from recbench.models.trained.foldin import Compared, Newcomers
from recbench.models.trained.loss import Loss
from recbench.models.trained.losses.quadratic import Quadratic, trained
from recbench.models.trained.similarity import SIMILARITIES, shorten
from recbench.models.trained.steps import MARGINS, Problem, learned, step
from recbench.params import Described, param


@dataclass(frozen=True)
class Training(Described):
    """How vectors are trained: their length, the steps, what they are compared with, how long."""

    factors: int = param(64, help="length of users' and items' vectors", low=1, log=True)
    epochs: int = param(30, help="passes over the data; a grid over this costs one fit", low=1)
    rate: float = param(
        0.01, help="learning rate: how far a step goes", low=0, open_low=True, log=True,
        search=(0.0003, 0.03),
    )  # fmt: skip
    decay_at: str = decay_at_parameter("20+26")
    decay: float = decay_parameter()
    batch: int = param(
        0, help="users in a step if they face all items with all they have, else interactions; 0: "
        "256 where these face all items, else 2,048; for lightgcn 512 and 16,384", low=0, log=True,
    )  # fmt: skip
    negatives: str = param(
        "auto", help="items that an interaction is held against: all; shared: drawn once for a "
        "step; own: drawn for each interaction; batch: those of the step's interactions; auto: "
        "all, but own for losses on pairs, shared for simplex and youtubenet",
        choices=("auto", "all", "shared", "own", "batch"),
    )  # fmt: skip
    drawn: int = param(
        1, help="items drawn for a step (shared) or an interaction (own); where there are no more, "
        "each is taken once", low=1, log=True,
    )  # fmt: skip
    draw: str = param(
        "interactions", help="for drawn items and pairs: each interaction once an epoch; or users "
        "at random, each with one of theirs, so that all users count alike",
        choices=("interactions", "users"),
    )  # fmt: skip
    score: str = param(
        "auto", help="score in training; distance: its square, negative; auto: the one that the "
        "loss was made for", choices=("auto", "dot", "cosine", "distance"),
    )  # fmt: skip
    rank_by: str = param(
        "auto", help="score in ranking; auto: the one of training, but dot for cosine where a loss "
        "made for it weighs items by popularity", choices=("auto", "dot", "cosine", "distance"),
    )  # fmt: skip
    l2: float = param(
        0.0, help="penalty: l2/2 times the squares of both vectors, per interaction; under cosine "
        "it only changes how far steps go", low=0, log=True, search=(0.000001, 0.01),
    )  # fmt: skip
    l2_power: float = param(
        1.0, help="exponent of a vector's interactions in its penalty, which stays as it is for "
        "as many as the mean; 0: the same for all vectors that have any", low=0,
    )  # fmt: skip
    dropout: float = param(
        0.0, help="share of the numbers in a user's vector that a step leaves out", low=0,
        high=1, open_high=True,
    )  # fmt: skip
    optimizer: str = param(
        "adam", help="adam moves all vectors at every step, adam-lazy those the step has seen",
        choices=("adam", "adam-lazy"),
    )  # fmt: skip
    clip: float = param(10.0, help="gradients longer than this are cut to it; 0: never", low=0)
    patience: int = patience_parameter()
    every: int = every_parameter("epochs")

    def __post_init__(self) -> None:
        """Check the schedule as well."""
        super().__post_init__()
        decays(self.decay_at)

    @property
    def schedule(self) -> Schedule:
        """How long to go on."""
        return Schedule(self.epochs, self.patience, self.every)

    def rate_in(self, epoch: int) -> float:
        """How far a step of this epoch goes."""
        return lowered(self.rate, self.decay_at, self.decay, epoch)

    def negatives_for(self, loss: Loss, encoder: Encoder) -> str:
        """What interactions face."""
        if self.negatives != "auto":
            return self.negatives
        if loss.pairs:
            return "own"
        return "shared" if encoder.history else "all"

    def by_user(self, loss: Loss, encoder: Encoder) -> bool:
        """Whether a row of a step is a user with all interactions, rather than one of them."""
        all_items = self.negatives_for(loss, encoder) == "all"
        return all_items and not (loss.pairs or encoder.history)

    def batch_for(self, loss: Loss, encoder: Encoder) -> int:
        """The rows of a step: more where every step costs a walk along the whole graph."""
        if self.batch:
            return self.batch
        if self.negatives_for(loss, encoder) == "all":
            return 512 if encoder.graph else 256
        return 16384 if encoder.graph else 2048

    def popularity_for(self, loss: Loss, encoder: Encoder) -> float:
        """Interactions of items to what power say how often they are faced."""
        in_batches = self.negatives_for(loss, encoder) == "batch"
        return 1.0 if in_batches and loss.response.kind == "exponential" else loss.popularity

    def score_for(self, loss: Loss) -> str:
        """The score that is trained."""
        return loss.score if self.score == "auto" else self.score

    def ranking_for(self, loss: Loss) -> str:
        """The score that ranks."""
        if self.rank_by != "auto":
            return self.rank_by
        score = self.score_for(loss)
        return "dot" if loss.popularity and score == loss.score == "cosine" else score


class Trainable(Protocol):
    """A model that is an encoder, a loss and the way it is trained."""

    name: ClassVar[str]
    training: Training
    encoder: Encoder
    loss: Loss | QuadraticLoss

    @property
    def text(self) -> str:
        """The canonical text of the model."""


class TrainedFamily(Family[Trainable]):
    """Fits models that differ in nothing but the number of epochs at once."""

    reserves = True

    def key(self, model: Trainable) -> Hashable:
        """Everything but the number of epochs, unless validation has a say in that."""
        return but_for_epochs(model)

    def fit(self, models: Sequence[Trainable], train: Sparse, ctx: Context) -> list[Fit]:
        """Train for as long as the longest asks; each gets what there is when it would end."""
        counts = [model.training.epochs for model in models]
        longest = models[int(np.argmax(counts))]
        matrix = checked(train, longest.name)
        _refuse(longest, matrix, ctx)
        with blas.workers() as pool:
            fit = Epochs(longest, matrix, pool, ctx)
            return run(fit, ctx, longest.name, longest.text, longest.training.schedule, counts)

    def operations(self, models: Sequence[Trainable], train: Sparse, ctx: Context) -> float | None:
        """Three products of matrices in every step, where these take nearly all of the time."""
        longest = max(models, key=lambda model: model.training.epochs)
        training, loss = longest.training, trained(longest.loss)
        by_user = training.by_user(loss, longest.encoder) and isinstance(longest.encoder, Mf)
        if not by_user or isinstance(loss, Quadratic):
            return None
        return 6.0 * train.shape[0] * train.shape[1] * training.factors * training.epochs


def check(model: Trainable) -> None:
    """Refuse a model that makes no sense on any data."""
    loss, encoder = trained(model.loss), model.encoder
    negatives = model.training.negatives_for(loss, encoder)
    if loss.whole and (negatives != "all" or encoder.history):
        raise UsageError(
            f"the loss {loss.name} needs all interactions of a user at once: it is for negatives="
            "all, and for users with vectors of their own, as in mf and lightgcn"
        )
    drawn = model.training.draw == "users" and not model.training.by_user(loss, encoder)
    if drawn and loss.alike == "users":
        raise UsageError(
            f"in the loss {loss.name} users count alike, and drawing users first does it again: "
            "give draw=interactions, or alike=interactions"
        )


def idle(model: Trainable) -> Mapping[str, str]:
    """Parameters of training that change nothing beside the others, and why."""
    training, loss = model.training, trained(model.loss)
    negatives, found = training.negatives_for(loss, model.encoder), dict[str, str]()
    if negatives == "all":
        found["drawn"] = "all items are faced"
    if negatives == "batch":
        found["drawn"] = "items of the batch are faced"
        found["popularity"] = "items of a batch come as often as they have interactions"
    if training.by_user(loss, model.encoder):
        found["draw"] = "every user comes once in an epoch"
    if training.l2 == 0:
        found["l2-power"] = "l2 is 0"
    if all(epoch >= training.epochs for epoch in decays(training.decay_at)):
        found["decay"] = "the rate is not lowered in these epochs"
    return found


def _refuse(model: Trainable, train: Sparse, ctx: Context) -> None:
    """Say what cannot be trained on these data, before anything is."""
    check(model)  # a class of a plugin may not have done so
    training, loss = model.training, trained(model.loss)
    negatives, (users, items) = training.negatives_for(loss, model.encoder), train.shape
    most = users if training.by_user(loss, model.encoder) else train.nnz
    rows = min(training.batch_for(loss, model.encoder), most)
    faced = {"all": items, "batch": rows}.get(negatives, min(training.drawn, items))
    if negatives == "all" and isinstance(loss, Quadratic):
        faced = training.factors  # scores are not made
    size = np.dtype(ctx.dtype).itemsize
    # Tables, both moments, their gradient, what is spread, and what validation liked best.
    tables = 6 * (users + items) * training.factors * size
    ctx.reserve(
        tables + rows * faced * size + 24 * train.nnz,
        f"training {training.factors} numbers for {users:,} users and {items:,} items "
        f"({rows:,} rows at once that face {faced:,} items each)",
        "take a smaller batch, or fewer factors",
    )


class Epochs(Rounds):
    """Training under way."""

    word = "epoch"

    def __init__(self, model: Trainable, train: Sparse, pool: Executor, ctx: Context) -> None:
        self.model, self.training, self.pool, self.ctx = model, model.training, pool, ctx
        self.dtype = np.dtype(ctx.dtype)
        self.loss = trained(model.loss)
        self.train = Pattern.of(train)
        score = self.training.score_for(self.loss)
        self.problem = Problem.of(
            self.loss, self.train, score, self.dtype, self.training.l2, self.training.l2_power,
            self.training.popularity_for(self.loss, model.encoder),
        )  # fmt: skip
        draw = ctx.stream("vectors")
        tables = model.encoder.tables(train.shape, self.training.factors, draw)
        tables |= learned(self.loss, score, train.shape, self.training.factors)
        self.tables = {name: table.astype(self.dtype) for name, table in tables.items()}
        lazy = self.training.optimizer == "adam-lazy"
        self.adams = {name: Adam(table, lazy=lazy) for name, table in self.tables.items()}
        self.encoder = model.encoder.bind(self.tables, train, pool)
        self.room = Room()

    def advance(self, number: int) -> Mapping[str, float]:
        """Go over the data once."""
        self.encoder.begin(self.ctx.stream(f"graphs {number}"))
        draw = self.ctx.stream(f"epoch {number}")
        rate, value, interactions, length, steps = self.training.rate_in(number), 0.0, 0, 0.0, 0
        for batch in self._batches(draw):
            outcome = step(
                self.problem, self.encoder, self.tables, batch, self.pool, self.room,
                lambda vectors: self._mask(vectors, draw),
            )  # fmt: skip
            size = self._descend(outcome.gradients, rate)
            value += outcome.value * batch.interactions
            interactions += batch.interactions
            length, steps = length + size, steps + 1
        notes = {
            "loss": value / max(interactions, 1),
            "gradient": length / max(steps, 1),
            "rate": rate,
        }
        if not (np.isfinite(value) and all(map(_bounded, self.tables.values()))):
            raise RecbenchError(
                f"{self.model.name} came to numbers that are not finite in epoch {number}, with "
                f"rate {rate:g} and the loss {self.model.loss}; give a smaller rate or more l2"
            )
        return notes

    def measure(self) -> Mapping[str, float]:
        """The objective of a quadratic loss as `als` and `newton` report it, where vectors are."""
        if not isinstance(self.loss, Quadratic) or layers_of(self.model.encoder) is None:
            return {}
        everybody = of_users(self.train, np.arange(len(self.train.starts) - 1))
        outcome = step(self.problem, self.encoder, self.tables, everybody, self.pool, self.room)
        return {"objective": outcome.value * everybody.interactions}

    def settled(self, trace: Trace) -> bool:
        """Never: there is always another epoch."""
        return False

    def look(self) -> Scorer:
        """The vectors as they are, and how those of newcomers are found."""
        score = self.training.ranking_for(self.loss)
        users, items = (table.copy() for table in self.encoder.everything())
        find = self.encoder.strangers()
        if find is None:
            tables = {name: table.copy() for name, table in self.tables.items() if name != "users"}
            length = float(np.sqrt(np.square(users, dtype=np.float64).sum() / max(len(users), 1)))
            find = Newcomers(self.problem.without_users(), tables, length)
        rank = SIMILARITIES[score]
        users, items = rank.users(users, self.pool)[0], rank.items(items, self.pool)[0]
        return Scorer(Factors(FoldIn(users, Compared(find, score)), items))

    def state(self) -> State:
        """The tables, and what Adam knows of them."""
        state = {f"table/{name}": table for name, table in self.tables.items()}
        for name, adam in self.adams.items():
            state |= {f"adam/{name}/{key}": array for key, array in adam.state().items()}
        return state

    def restore(self, state: State) -> None:
        """Take those numbers."""
        for name, table in self.tables.items():
            table[...] = state[f"table/{name}"]
            start = f"adam/{name}/"
            known = {k.removeprefix(start): v for k, v in state.items() if k.startswith(start)}
            if known:  # what was kept to be handed out has no more than tables
                self.adams[name].restore(known)

    def keep(self) -> State:
        """Copy the tables: nothing else is needed to rank."""
        return {f"table/{name}": table.copy() for name, table in self.tables.items()}

    def _batches(self, draw: np.random.Generator) -> Iterator[Batch]:
        training, parts = self.training, (self.loss, self.model.encoder)
        size = training.batch_for(*parts)
        if training.by_user(*parts):
            return users_at_once(self.train, size, draw)
        weights = self.problem.weights
        draws = Draws(
            size, training.draw == "users", training.negatives_for(*parts), training.drawn,
            self.loss.unseen, None if weights is None else weights / weights.sum(dtype=np.float64),
        )  # fmt: skip
        return draws.batches(self.train, draw)

    def _mask(self, vectors: Floats, draw: np.random.Generator) -> Floats | None:
        """What users' vectors are multiplied by: 0 what is dropped, more than 1 the rest."""
        share = self.training.dropout
        if share == 0:
            return None
        kept = draw.random(vectors.shape, dtype=np.float32) >= share
        mask: Floats = kept / np.float32(1 - share)
        return mask.astype(self.dtype, copy=False)

    def _descend(self, gradients: Mapping[str, Gradient], rate: float) -> float:
        """Move every table; return how long the gradient was."""
        size = norm(self.pool, [gradient.values for gradient in gradients.values()])
        shrink = 1.0
        if self.training.clip and size > self.training.clip:
            shrink = self.training.clip / size
        for name, gradient in gradients.items():
            values = (
                gradient.values if shrink == 1 else gradient.values * np.asarray(shrink, self.dtype)
            )
            self.adams[name].step(self.pool, values, rate, gradient.rows)
            if self.loss.longest and name in self.model.encoder.vectors:
                shorten(self.pool, self.tables[name], self.loss.longest)
            if name in MARGINS:
                np.clip(self.tables[name], 0, 1, out=self.tables[name])
        return size


def _bounded(table: Floats) -> bool:
    """Whether products of its rows are numbers; some losses take infinite scores for large ones."""
    return bool(np.isfinite(np.vdot(table, table)))
