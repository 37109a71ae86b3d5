"""Every model that comes with recbench passes what any plugin must pass; a bad one does not."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import toys
from recbench.models.base import Family, Model, fit_alone
from recbench.models.context import Context
from recbench.models.contract import check_model, example, scores
from recbench.models.popularity import Constant
from recbench.models.scorers import Factors, Scorer
from recbench.params import param, params_of
from recbench.registry import MODELS

NEEDS_A_FILE = {"file"}
QUICK = {"epochs": 3, "hidden": 4, "iterations": 3}
"""Settings of models that have them: no rule asks for a good fit, and each fits ten times."""


def quick(cls) -> Model:
    """A model at its defaults, but for these."""
    return cls.of(**{name: value for name, value in QUICK.items() if name in params_of(cls)})


@pytest.mark.parametrize("name", toys.every_model(*NEEDS_A_FILE))
def test_every_model_keeps_the_contract(name):
    model = quick(toys.able(MODELS.get(name)))
    problems = [f"{o.check}: {o.problem}" for o in check_model(model) if o.problem]
    assert not problems


@pytest.mark.parametrize("name", toys.every_model(*NEEDS_A_FILE))
def test_what_is_drawn_does_not_depend_on_the_precision(name):
    model, train = quick(toys.able(MODELS.get(name))), example()
    single, double = (
        scores(fit_alone(model, train, Context(seed=1, threads=1, dtype=np.dtype(kind))), train)
        for kind in ("float32", "float64")
    )
    np.testing.assert_allclose(single, double, rtol=0, atol=1e-3 * np.abs(double).max())


def counts(train) -> np.ndarray:
    return np.bincount(train.indices, minlength=train.shape[1]).astype(np.float64)


@dataclass(frozen=True)
class Good(Model):
    """Keeps every rule; each of the following breaks one."""

    power: float = param(1.0, help="exponent", grid=(0.5, 1.0))

    def fit(self, train, ctx):
        return Scorer(Constant(counts(train) ** self.power))


class Anew(Good):
    """Draws without its seed."""

    def fit(self, train, ctx):
        return Scorer(Constant(np.random.default_rng().random(train.shape[1])))


class Meddling(Good):
    def fit(self, train, ctx):
        train.data *= 2
        return super().fit(train, ctx)


class Closed(Good):
    def fit(self, train, ctx):
        return Scorer(Factors(np.ones((train.shape[0], 1)), counts(train)[:, np.newaxis]))


class Proud(Good):
    def fit(self, train, ctx):
        if 1 in train.shape:
            raise ZeroDivisionError("too small for me")
        return super().fit(train, ctx)


class Infinite(Good):
    def fit(self, train, ctx):
        items = counts(train)
        return Scorer(Constant(np.where(items > 0, items, np.inf)))


class Backwards(Constant):
    def top(self, *args, **more):
        return Constant(-self.scores).top(*args, **more)


class Lying(Good):
    def fit(self, train, ctx):
        return Scorer(Backwards(counts(train)))


class Crowd(Family):
    def key(self, model):
        return "one"

    def fit(self, models, train, ctx):
        return [Scorer(Constant(counts(train) * len(models))) for _ in models]


class Swayed(Good):
    family = Crowd()
    fit = Model.fit


class Endless(Good):
    """Says that it goes in rounds, and does not stop between them."""

    most_rounds = 5

    def fit(self, train, ctx):
        return replace(super().fit(train, ctx), rounds=5)


class Illegible(Good):
    @property
    def text(self):
        return f"{self.name}[power={self.power + 1}]"


Lost = type("Elsewhere", (Good,), {"__module__": __name__})
"""A class under another name than it has in its module."""


@pytest.mark.parametrize(
    ("model", "rule"),
    [
        (Anew, "The same seed gives the same scores"),
        (Meddling, "Fitting and scoring leave the train matrix alone"),
        (Closed, "A user with no history and no training row gets finite scores"),
        (Proud, "One item, and one user, are data too"),
        (Infinite, "An item that nobody has does no harm"),
        (Lying, "The ranking agrees with the scores, and never repeats what was seen"),
        (Swayed, "Fitted as one of a grid, the model gives the scores it gives alone"),
        (Endless, "A fit that goes in rounds stops after the first if it is told to"),
        (Illegible, "The canonical text reads back as the same model"),
        (Lost, "Other processes, those of `-j 2`, can be sent the model"),
    ],
)
def test_a_model_that_breaks_a_rule_is_told_which(recbench, model, rule):
    MODELS.register("good")(Good)
    assert recbench("check-plugin", "good").exit_code == 0
    MODELS.register("bad")(model)
    result = recbench("check-plugin", "bad")
    assert result.exit_code == 1
    assert f"FAIL  {rule}\n" in result.stderr
